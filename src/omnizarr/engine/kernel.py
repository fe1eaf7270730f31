"""The compiled kernel, where it was built and where it knows an array's layout.

It says yes or no for an array as a whole. Of a batch it reports the rows that it could not do,
damaged ones among them; the reference engine does those again and raises what there is to raise.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.chunk_key_encodings import V2, Default, Draft
from omnizarr.codecs import CodecPipeline
from omnizarr.codecs.bytes import Bytes, holds_text
from omnizarr.codecs.transpose import Transpose
from omnizarr.concurrency.budget import threads
from omnizarr.data_types import own_type
from omnizarr.engine.binding import BoundArray
from omnizarr.errors import OmnizarrError
from omnizarr.indexing import Plan, PointPlan, Run
from omnizarr.stores import direct_file_root, direct_values
from omnizarr.stores.base import DirectFiles, DirectValues

try:
    from omnizarr.engine import _kernel
except ImportError:  # no compiler when it was installed
    _kernel = None  # type: ignore[assignment]

MAX_ITEM = 1024
MAX_AXES = 32
LARGE = 2**22  # bytes of a result whose memory is worth keeping
SMALL = 2**17  # bytes that a thread has to read, decode or encode to be worth its start
_STYLES = {Default: 0, V2: 1, Draft: 2}
_CRC32C, _BLOSC, _ZSTD, _LZ4, _GZIP, _ZLIB = 1, 2, 3, 4, 5, 6
_BLOSC_NAMES = {"lz4": 0, "lz4hc": 1, "zstd": 2, "snappy": 3}
_OTHER = 4

Step = tuple[int, int, int, int, int, int, int]


def available() -> bool:
    """Whether the kernel was built."""
    return _kernel is not None


@dataclass(frozen=True)
class Layout:
    """What the kernel needs to know of one array."""

    capsule: Any
    style: int
    separator: int
    writable: bool
    sharded: bool
    in_memory: bool


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array with anything in it; a large one may take the memory of one that is gone."""
    nbytes, dtype = math.prod(shape) * dtype.itemsize, own_type(dtype)
    if _kernel is None or nbytes < LARGE or dtype.kind not in "biufcmMSUV" or dtype.hasobject:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, _kernel.memory(nbytes))


def read(
    array: BoundArray, plan: Plan, out: npt.NDArray[Any], leave_absent: bool = False
) -> list[int] | None:
    """The rows that are left to do, or None where the kernel does not know the array.

    With `leave_absent` those are among them that would get the fill value, in part or in full.
    """
    layout = _layout(array)
    if layout is None or not out.size:
        return None
    if layout.in_memory:
        found = cast(DirectValues, array.store).direct_values
        values = [found.get(array.key(coords)) for coords in _coords(plan)]
        if not all(v is None or type(v) is bytes for v in values):
            return None
        return _run(layout, array, plan, values, out, False, leave_absent)
    return _run(layout, array, plan, None, out, False, leave_absent)


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> list[int] | None:
    """As `read`, for storing."""
    layout = _layout(array)
    if layout is None or not layout.writable or not value.size:
        return None
    if not plan.runs and layout.sharded:
        return None
    if layout.in_memory:
        return _in_memory(layout, array, plan, value)
    return _run(layout, array, plan, None, value, writing=True)


def _in_memory(
    layout: Layout, array: BoundArray, plan: Plan, data: npt.NDArray[Any]
) -> list[int] | None:
    store: Any = array.store
    keys = [array.key(coords) for coords in _coords(plan)]
    found = store.direct_values
    values = [found.get(key) for key in keys]
    if not all(v is None or type(v) is bytes for v in values):
        return None
    left = _run(layout, array, plan, values, data, writing=True)
    if left is None:
        return None
    skipped = set(left)
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        if number in skipped:
            continue
        if value is None:
            store.erase(key)
        else:
            store.set(key, value)
    return left


def _run(
    layout: Layout,
    array: BoundArray,
    plan: Plan,
    values: list[bytes | None] | None,
    data: npt.NDArray[Any],
    writing: bool,
    leave_absent: bool = False,
) -> list[int] | None:
    settings, store = config.get(), cast(DirectFiles, array.store)
    root = b"" if layout.in_memory else store.direct_file_root
    with threads(settings.threads) as allowed, suppress(MemoryError):
        return _kernel.run(
            layout.capsule,
            _columns(plan),
            root,
            values,
            array.encoded_prefix,
            layout.style,
            layout.separator,
            data.view(_items(data.itemsize)),  # not every type has a buffer of its own
            writing,
            settings.durability == "fsync",
            leave_absent,
            allowed,
            SMALL,
        )
    return None  # the reference engine may need less, or says what there is no memory for


@cache
def _items(size: int) -> np.dtype[Any]:
    """The type of any items of a size."""
    return np.dtype(f"V{size}")


def _coords(plan: Plan) -> Iterable[tuple[int, ...]]:
    """The place in the grid of each chunk touched, in the order of rows."""
    if isinstance(plan, PointPlan):
        return map(tuple, plan.coords.tolist())
    return itertools.product(*(a.chunk.tolist() for a in plan.axes))


def _columns(plan: Plan) -> tuple[Any, ...] | list[Any]:
    """A plan as the kernel takes it."""
    if isinstance(plan, PointPlan):
        parts = (plan.coords, plan.begin, plan.inner, plan.outer)
        return [np.ascontiguousarray(p, np.int64) for p in parts]
    if plan.runs:
        return plan.parts
    return tuple(
        p
        if isinstance(p, Run)
        else tuple(np.ascontiguousarray(c, np.int64) for c in (p.chunk, p.begin, p.inner, p.outer))
        for p in plan.parts
    )


def _layout(array: BoundArray) -> Layout | None:
    settings = config.get()
    if _kernel is None or settings.engine == "reference":
        return None
    keep_empty = settings.write_empty_chunks or not array.fill_defined
    key = keep_empty, type(array.store)
    if key not in array.layouts:
        array.layouts[key] = _find_layout(array, keep_empty)
    found: Layout | None = array.layouts[key]
    return found


def _find_layout(array: BoundArray, keep_empty: bool) -> Layout | None:
    encoding, grid = array.encoding, array.grid
    style = _STYLES.get(type(encoding))
    in_memory = direct_values(array.store) is not None
    known_store = in_memory or direct_file_root(array.store) is not None
    plain = not array.model.storage_transformers and not array.skipped
    if style is None or not known_store or not plain or grid.regular is None:
        return None
    if (style == 2 and not grid.axes) or len(grid.axes) > MAX_AXES:
        return None
    try:
        pipeline = array.pipeline(grid.regular)
    except OmnizarrError:
        return None
    capsule = _capsule(pipeline, keep_empty)
    if capsule is None:
        return None
    separator = ord(getattr(encoding, "separator", "/"))
    sharded = hasattr(pipeline.array_bytes, "counts")
    return Layout(capsule, style, separator, _writable(pipeline), sharded, in_memory)


def _capsule(pipeline: CodecPipeline, keep_empty: bool) -> Any:
    """The pipeline as the kernel knows it, or None where it does not."""
    spec = pipeline.spec
    data_type, dtype = spec.data_type, spec.data_type.dtype
    if data_type.variable or not 0 < dtype.itemsize <= MAX_ITEM or 0 in spec.shape:
        return None
    if (data_type.bits is not None and data_type.bits < 8) or holds_text(dtype):
        return None  # the codec has to look at every item
    order = tuple(range(len(spec.shape)))
    for codec, _ in pipeline.array_array:
        if not isinstance(codec, Transpose):
            return None
        order = tuple(order[i] for i in codec.axes(len(order)))
    steps = _steps(pipeline)
    swap = _swap(pipeline, dtype)
    inner, index = None, (False, False, False)
    counts = getattr(pipeline.array_bytes, "counts", None)
    if counts is not None:
        shards: Any = pipeline.array_bytes
        found = _index(shards.layout.index_pipeline, shards.layout.at_end)
        nested = hasattr(shards.inner.array_bytes, "counts")
        inner = None if nested or pipeline.array_array else _capsule(shards.inner, keep_empty)
        if inner is None or found is None or pipeline.bytes_bytes:
            return None
        index, swap = found, 0
    elif not isinstance(pipeline.array_bytes, Bytes):
        return None
    if steps is None or swap is None:
        return None
    fill = spec.fill.tobytes()
    try:
        return _kernel.chain(
            spec.shape, order, dtype.itemsize, swap, steps, fill, keep_empty, inner, *index
        )
    except ValueError:
        return None


def _index(pipeline: CodecPipeline, at_end: bool) -> tuple[bool, bool, bool] | None:
    """Whether a shard's index has a checksum, is big-endian, stands at the end; None: other."""
    steps = _steps(pipeline)
    serializer = pipeline.array_bytes
    if pipeline.array_array or not isinstance(serializer, Bytes) or steps is None:
        return None
    if [s[0] for s in steps] not in ([], [_CRC32C]):
        return None
    return bool(steps), serializer.endian == "big", at_end


def _swap(pipeline: CodecPipeline, dtype: np.dtype[Any]) -> int | None:
    """The size of units whose bytes differ in order between memory and store; None: mixed."""
    serializer = pipeline.array_bytes
    if not isinstance(serializer, Bytes):
        return 0
    stored = serializer.stored(pipeline.inner)
    if stored == dtype:
        return 0
    if dtype.names is not None:
        return None
    if dtype.kind == "U":
        return 4
    return dtype.itemsize // (2 if dtype.kind == "c" else 1)


def _steps(pipeline: CodecPipeline) -> tuple[Step, ...] | None:
    out: list[Step] = []
    for codec, _ in pipeline.bytes_bytes:
        step = _step(codec)
        if step is None:
            return None
        out.append(step)
    return tuple(out)


def _step(codec: Any) -> Step | None:
    name = getattr(codec, "name", "")
    if name == "crc32c":
        return (_CRC32C, 0, 0, 0, 0, 0, 0)
    if name in ("blosc", "numcodecs.blosc"):
        inside = _BLOSC_NAMES.get(codec.cname, _OTHER)
        size = codec.typesize or 1
        return (_BLOSC, codec.clevel, inside, codec.shuffle_code(), size, 0, codec.blocksize)
    if name == "zstd":
        return (_ZSTD, codec.level, 0, 0, 0, int(codec.checksum), 0)
    if name == "numcodecs.lz4":
        return (_LZ4, codec.acceleration, 0, 0, 0, 0, 0)
    if name in ("gzip", "numcodecs.zlib") and _has_deflate():
        level = 6 if codec.level < 0 else codec.level
        return (_GZIP if name == "gzip" else _ZLIB, level, 0, 0, 0, 0, 0)
    return None


@cache
def _has_deflate() -> bool:
    """Whether the kernel can call the libdeflate inside the package that the codec has loaded."""
    file = getattr(sys.modules.get("deflate._deflate"), "__file__", None)
    return file is not None and _kernel.load_deflate(file)


def _writable(pipeline: CodecPipeline) -> bool:
    """Whether the kernel can also encode: not every compressor inside Blosc."""
    shards: Any = pipeline.array_bytes
    if hasattr(shards, "counts"):
        return _writable(shards.inner)
    steps = _steps(pipeline) or ()
    return all(not (s[0] == _BLOSC and s[2] == _OTHER) for s in steps)
