"""The compiled kernel: reads and writes files and values in memory, for many kinds of arrays.

It accepts or refuses an array as a whole. Of a plan it returns the rows that it could not do,
damaged chunks among them; the reference engine does those again and raises the errors.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.chunk_grids import Integers
from omnizarr.chunk_key_encodings import Default, Draft, V2Keys
from omnizarr.codecs import CodecPipeline
from omnizarr.codecs.filters import Transpose
from omnizarr.codecs.serializers import Bytes, holds_text
from omnizarr.concurrency import pool
from omnizarr.concurrency.pool import bytes_in_flight, return_threads, take_threads, thread_slots
from omnizarr.config import Config
from omnizarr.data_types import own_type
from omnizarr.engine.binding import BoundArray
from omnizarr.engine.inner_chunks import InnerPlan
from omnizarr.errors import OmnizarrError
from omnizarr.indexing import Plan, PointPlan, ProductPlan, Run
from omnizarr.stores import direct_file_root, direct_values, get_many, traits
from omnizarr.stores.byte_ranges import ValueReplaced

try:
    from omnizarr.engine import _kernel
except ImportError:  # no compiler when it was installed
    _kernel = None  # type: ignore[assignment]

# Returns a number for the file at a path that changes when it is replaced.
identity: Any = getattr(_kernel, "identity", None)
run_rows: Any = getattr(_kernel, "run_rows", None)  # for `rows`
# Takes `BoundArray.small`, a selection of integers and slices, and the path and the identity of the
# metadata; returns the result of the selection if that takes little time; None for all others,
# where a chunk cannot be read, and where the array may have been replaced meanwhile.
read_small: Any = getattr(_kernel, "read_small", None)
MAX_ITEM = 1024
MAX_AXES = 32
LARGE = 2**22  # bytes of a result whose memory is worth reusing
LATE = 2**17  # bytes of a chunk that is decoded before others have come
SMALL = 2**17  # bytes that a thread must read, decode or encode to be worth its start
PART = 2**19  # bytes of a part of a chunk that a thread reads while others read the rest
_QUICK = ("lz4", "blosclz", "snappy")  # compressors whose blocks in Blosc are small
_STYLES: dict[type, int] = {Default: 0, V2Keys: 1, Draft: 2}
_CRC32C, _BLOSC, _ZSTD, _LZ4, _GZIP, _ZLIB = 1, 2, 3, 4, 5, 6
_BLOSC_NAMES = {"lz4": 0, "lz4hc": 1, "zstd": 2, "snappy": 3}
_OTHER = 4

CodecNumbers = tuple[int, int, int, int, int, int, int]


def available() -> bool:
    """Return True if the kernel was built."""
    return _kernel is not None


@dataclass(frozen=True)
class Layout:
    """The description of one array for the kernel."""

    capsule: Any
    style: int
    separator: int
    writable: bool
    sharded: bool
    in_memory: bool
    fetched: bool = False  # values come from a server, and are then in memory
    inner: Layout | None = None  # of the inner chunks of shards of a server
    # The threads for each chunk from which on parts of it are read by several; 0: never.
    divisible: int = 0


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array with undefined contents; a large one may reuse the memory of another."""
    nbytes, dtype = math.prod(shape) * dtype.itemsize, own_type(dtype)
    if _kernel is None or nbytes < LARGE or dtype.kind not in "biufcmMSUV" or dtype.hasobject:
        return np.empty(shape, dtype)
    try:
        return np.ndarray(shape, dtype, _kernel.memory(nbytes))
    except MemoryError:
        return np.empty(shape, dtype)  # whose error says how much is missing


def reads(array: BoundArray) -> bool:
    """Return True if the kernel reads an array with the current settings."""
    return _layout(array) is not None


def read(
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any],
    settings: Config | None = None,
    skip_missing: bool = False,
) -> list[int] | None:
    """Fill `out` and return the rows that are left, or None if the kernel cannot read the array.

    With `skip_missing`, rows that would get the fill value, even in part, are left too.
    """
    settings = settings or config.get()
    key = (settings.write_empty_chunks or not array.fill_defined, type(array.store))
    layout = array.layouts[key] if key in array.layouts else _find_layout(array, key)
    if layout is None or not out.size or settings.engine == "reference":
        return None
    if layout.inner is not None:
        return _read_inner(array, plan, out, layout.inner, skip_missing)
    if layout.fetched:
        return _read_fetched(array, plan, out, layout, skip_missing)
    if array.small is None:
        array.small = _describe_small(array, layout)
    store: Any = array.store
    values = None
    if layout.in_memory and (values := _values(array, plan)) is None:
        return None
    # Much as in `on_threads`: the way of an ordinary read is short.
    divided = layout.divisible and out.nbytes >= 2 * PART and plan.runs
    if divided and plan.count * layout.divisible <= settings.threads:
        return _read_in_parts(array, plan, out, layout, settings.threads, skip_missing)
    began = perf_counter() if settings.trace is not None else 0.0
    share = take_threads(settings.threads, settings.threads)
    try:
        return _kernel.run(
            layout.capsule,
            plan.parts if isinstance(plan, ProductPlan) and plan.runs else _columns(plan),
            b"" if layout.in_memory else store.direct_file_root,
            values,
            array.encoded_prefix,
            layout.style,
            layout.separator,
            out.view(items[out.itemsize]),
            False,  # writing
            False,  # durable
            skip_missing,
            share[2] + 1,
            SMALL,
        )
    except MemoryError:
        return None
    finally:
        return_threads(share)
        if began:
            config.count(decode_seconds=perf_counter() - began)


def _read_in_parts(
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any],
    layout: Layout,
    threads: int,
    skip_missing: bool,
) -> list[int] | None:
    """Do as `read` does for few chunks in files, with several threads for each chunk."""
    began, root = perf_counter(), cast(Any, array.store).direct_file_root
    most = min(-(-threads // plan.count), max(1, out.nbytes // plan.count // PART))
    keys, rows, files = list[str](), list[tuple[Any, ...]](), dict[str, int]()
    for row in plan.rows():
        key, ranges = array.key(row.coords), [range(s.start, s.stop, s.step) for s in row.region]
        files[key] = identity(root + os.fsencode(key))
        axis = next((i for i, each in enumerate(ranges) if len(each) > 1), 0)
        inside, outside, n = ranges[axis], row.outer[axis].start, len(ranges[axis])
        count = min(most, n)
        for part in range(count):
            low, high = n * part // count, n * (part + 1) // count
            region, outer = [*row.region], [*row.outer]
            region[axis] = slice(inside[low], inside[high - 1] + 1, inside.step)
            outer[axis] = slice(outside + low, outside + high, 1)
            rows.append((tuple(region), tuple(outer), False))
            keys.append(key)
    given = layout.capsule, rows, keys, root, None, out.view(items[out.itemsize])
    left = on_threads(run_rows, None, *given, *[False] * 3, skip_missing, False)
    config.count(decode_seconds=perf_counter() - began)
    again = {key for key in files if identity(root + os.fsencode(key)) != files[key]}  # replaced
    again.update(keys[n] for n in left or ())
    return None if left is None else [n for n, key in enumerate(files) if key in again]


def _read_fetched(
    array: BoundArray, plan: Plan, out: npt.NDArray[Any], layout: Layout, skip_missing: bool
) -> list[int] | None:
    """Read chunks that one call fetches from a server; None if they are too many or too large."""
    size = array.first_pipeline.spec.nbytes or 0
    nbytes = size * plan.count
    if nbytes > config.get().in_flight:
        return None
    with bytes_in_flight(nbytes) as granted:
        if granted < nbytes:
            return None
        try:
            if size >= LATE and plan.runs and hasattr(array.store, "get_each"):
                return _decode_each(array, plan, out, layout, skip_missing)
            values = get_many(array.store, [(array.key(c), None) for c in plan.chunks()])
            if None in values:
                array.note_missing()
        except OmnizarrError:
            return None  # asking for each chunk on its own shows which one it is
        return run(layout, plan, [*values], out, skip_missing=skip_missing)


def _read_inner(
    array: BoundArray, plan: Plan, out: npt.NDArray[Any], layout: Layout, skip_missing: bool
) -> list[int] | None:
    """Read inner chunks of shards, as many at a time as may be in flight; None if that fails."""
    rows, failed = set[int](), False
    try:
        inner = InnerPlan.of(array, plan)
        with bytes_in_flight(inner.nbytes) as granted:
            # While one thread decodes some, the other one fetches the next.
            threads = 1 if granted >= inner.nbytes else 2

            def one(some: Integers) -> None:
                nonlocal failed
                left = run(layout, inner.plan, inner.fetch(some), out, skip_missing=skip_missing)
                failed |= left is None
                rows.update(inner.rows[some[np.isin(some, left or [])]].tolist())

            pool.share_items(iter(inner.parts(granted // threads)), one, threads, 1, waits=False)
    except (OmnizarrError, ValueReplaced):
        return None  # asking for each shard on its own shows which one it is
    return None if failed else sorted(rows)


def run(
    layout: Layout,
    plan: Plan,
    values: list[Any] | None,
    data: npt.NDArray[Any],
    root: bytes = b"",
    prefix: bytes = b"",
    known: tuple[Any, ...] = (),
    *,
    writing: bool = False,
    skip_missing: bool = False,
) -> list[int] | None:
    """Run a plan; `known` has the path and identity of the metadata file, if they are checked."""
    began = perf_counter()
    left: list[int] | None = on_threads(
        _kernel.run,
        None,
        layout.capsule,
        plan.parts if isinstance(plan, ProductPlan) and plan.runs else _columns(plan),
        root,
        values,
        prefix,
        layout.style,
        layout.separator,
        data.view(items[data.itemsize]),
        writing,
        writing and config.get().durability == "fsync",
        skip_missing,
        known=known,
    )
    if not writing:
        config.count(decode_seconds=perf_counter() - began)
    return left


def on_threads(function: Any, wanted: int | None, *args: Any, known: tuple[Any, ...] = ()) -> Any:
    """Call the kernel with threads, all by default; None if there is not enough memory."""
    limit = config.get().threads
    share = take_threads(wanted or limit, limit)
    try:
        return function(*args, share[2] + 1, SMALL, *known)
    except MemoryError:
        return None
    finally:
        return_threads(share)


def _decode_each(
    array: BoundArray, plan: Plan, out: npt.NDArray[Any], layout: Layout, skip_missing: bool
) -> list[int]:
    """Fetch chunks; who fetches one decodes it when it comes, up to `threads` at a time."""
    rows, left = [*plan.rows()], list[int]()
    listed = [[(row.region, row.outer, row.whole)] for row in rows]
    decoders, data = thread_slots(), out.view(items[out.itemsize])

    def decode(number: int, value: Any) -> None:
        if value is None:
            array.note_missing()
        with decoders:
            pool.check_waited_for()  # or the caller has its array back
            began = perf_counter()
            given = layout.capsule, listed[number], None, b"", [value], data
            failed = on_threads(run_rows, 1, *given, *[False] * 3, skip_missing, False)
            config.count(decode_seconds=perf_counter() - began)
        if failed is None or failed:
            left.append(number)

    store: Any = array.store
    store.get_each([array.key(row.coords) for row in rows], decode)
    return sorted(left)


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> list[int] | None:
    """Store the values and return the rows that are left, or None as `read` does."""
    layout = _layout(array)
    if layout is None or not layout.writable or layout.fetched or not value.size:
        return None
    if layout.sharded and not plan.runs:
        return None
    root, prefix, values, known = b"", array.encoded_prefix, None, tuple[Any, ...]()
    if layout.in_memory:
        if (values := _values(array, plan)) is None:
            return None
    else:
        root = array.store.direct_file_root  # type: ignore[attr-defined]  # its layout says so
        watch = array.watch
        if watch is not None and watch.identity:
            known = watch.metadata, watch.identity
            # Below the folder of the array, so that what is written while another array takes its
            # place stays in the old folder.
            if watch.metadata.rpartition(b"/")[0] + b"/" == root + prefix:
                root, prefix = root + prefix, b""
    left = run(layout, plan, values, value, root, prefix, known, writing=True)
    if left is not None and values is not None:
        _store_values(array, plan, values, left)
    return left


def _values(array: BoundArray, plan: Plan) -> list[bytes | None] | None:
    """Return the values of the chunks touched from a store in memory; None if not all are bytes."""
    store: Any = array.store
    found = store.direct_values
    values = [found.get(array.key(coords)) for coords in plan.chunks()]
    return values if all(v is None or type(v) is bytes for v in values) else None


def _store_values(
    array: BoundArray, plan: Plan, values: list[bytes | None], left: list[int]
) -> None:
    """Store what the kernel made of the values; None erases a chunk of fill values."""
    skipped = set(left)
    with array.publishing():
        for number, (coords, value) in enumerate(zip(plan.chunks(), values, strict=True)):
            if number in skipped:
                continue
            if value is None:
                array.store.erase(array.key(coords))
            else:
                array.store.set(array.key(coords), value)


class _Items(dict[int, np.dtype[Any]]):
    """Void types by item size, since not every NumPy type supports the buffer protocol."""

    def __missing__(self, size: int) -> np.dtype[Any]:
        found = self[size] = np.dtype(f"V{size}")
        return found


items = _Items()


def _columns(plan: Plan) -> tuple[Any, ...] | list[Any]:
    """Return a plan with listed positions in the form that the kernel takes."""
    if isinstance(plan, PointPlan):
        parts = (plan.coords, plan.begin, plan.inner, plan.outer)
        return [np.ascontiguousarray(p, np.int64) for p in parts]
    return tuple(
        p
        if isinstance(p, Run)
        else tuple(np.ascontiguousarray(c, np.int64) for c in (p.chunk, p.begin, p.inner, p.outer))
        for p in plan.parts
    )


def _layout(array: BoundArray) -> Layout | None:
    """Return the description of an array for the kernel, or None if it refuses the array."""
    settings = config.get()
    if settings.engine == "reference":
        return None
    key = (settings.write_empty_chunks or not array.fill_defined, type(array.store))
    return array.layouts[key] if key in array.layouts else _find_layout(array, key)


def _find_layout(array: BoundArray, key: tuple[bool, type]) -> Layout | None:
    found = _make_layout(array, keep_empty=key[0])
    layout = array.layouts[key] = None if isinstance(found, str) else found
    return layout


def layout_or_reason(array: BoundArray) -> Layout | str:
    """Return how the kernel reads an array with the current settings, or why it does not."""
    if config.get().engine == "reference":
        return "the setting `engine` is 'reference'"
    return _make_layout(array, keep_empty=False)


def _describe_small(array: BoundArray, layout: Layout) -> tuple[Any, ...]:
    """Return the arguments of `read_small` for an array; empty if it cannot read the array."""
    store: Any = array.store
    dtype = array.dtype
    if read_small is None or layout.in_memory or layout.fetched or dtype.names is not None:
        return ()
    try:
        np.empty(0, dtype).data  # noqa: B018
    except ValueError:  # a type without a buffer, such as dates
        return ()
    return (
        layout.capsule,
        array.grid.array_shape,
        store.direct_file_root,
        array.encoded_prefix,
        layout.style,
        layout.separator,
        np.empty,
        dtype,
        SMALL,
    )


def _make_layout(array: BoundArray, keep_empty: bool) -> Layout | str:
    """Return the description of an array for the kernel, or why it refuses the array."""
    if not available():
        return "it was not compiled"
    encoding, grid = array.encoding, array.grid
    style = _STYLES.get(type(encoding))
    in_memory = direct_values(array.store) is not None
    fetched = hasattr(array.store, "get_many")
    if not (in_memory or fetched or direct_file_root(array.store) is not None):
        return f"it does not read {type(array.store).__name__}"
    if array.model.storage_transformers or array.skipped:
        return "it has no storage transformers, and skips no codecs"
    axes = grid.axes
    if grid.regular is None or len(axes) > MAX_AXES:
        return f"it reads regular chunks of at most {MAX_AXES} axes"
    if style is None or (style == 2 and not grid.axes):
        return "it does not have the chunk key encoding"
    try:
        pipeline = array.pipeline(grid.regular)
    except OmnizarrError as e:
        return str(e)
    capsule = describe(pipeline, keep_empty)
    if capsule is None:
        unknown = [codec for codec, _ in pipeline.bytes_bytes if _codec(codec) is None]
        name = f"codec {getattr(unknown[0], 'name', '')!r}" if unknown else "data type or a codec"
        return f"it does not have the {name}"
    separator = ord(getattr(encoding, "separator", "/"))
    sharded = hasattr(pipeline.array_bytes, "counts")
    fetched = fetched and not in_memory and direct_file_root(array.store) is None
    if fetched and encoding.other_keys((0,) * len(grid.axes)):
        return "of a server it reads no arrays without axes"
    if fetched and not sharded and traits(array.store).low_latency:
        return f"of {type(array.store).__name__} it reads shards only"
    codecs = [codec for codec, _ in pipeline.bytes_bytes]
    divisible = 0 if codecs else 8  # one thread copies nearly as much as memory gives
    if len(codecs) == 1 and getattr(codecs[0], "cname", "") in _QUICK:
        divisible = 4
    if sharded or in_memory or fetched or pipeline.array_array or not axes:
        divisible = 0
    common, inner = (style, separator, can_write(pipeline)), None
    if fetched and sharded:
        chunks = describe(cast(Any, pipeline.array_bytes).inner, keep_empty)
        inner = Layout(chunks, *common, False, False, fetched)
    return Layout(capsule, *common, sharded, in_memory, fetched, inner, divisible)


def describe(
    pipeline: CodecPipeline, keep_empty: bool, fill_parts: int = 0, sequence: Any = None
) -> Any:
    """Return the pipeline as an object of the kernel, or None if it lacks a codec.

    With `fill_parts` items are so many floating-point numbers, which are compared to the fill value
    as numbers; otherwise their bytes are. `sequence` has the numbers of the inner chunks of a shard
    in the order in which they are stored.
    """
    spec = pipeline.spec
    data_type, dtype = spec.data_type, spec.data_type.dtype
    if data_type.variable or not 0 < dtype.itemsize <= MAX_ITEM or 0 in spec.shape:
        return None
    if (data_type.bits is not None and data_type.bits < 8) or holds_text(dtype):
        return None  # the codec has to look at every item
    if not all(isinstance(codec, Transpose) for codec, _ in pipeline.array_array):
        return None
    codecs, swap = _codecs(pipeline), _swap(pipeline, dtype)
    inner, index = None, (False, False, False)
    counts = getattr(pipeline.array_bytes, "counts", None)
    if counts is not None:
        shards: Any = pipeline.array_bytes
        found = _index(shards.layout.index_pipeline, shards.layout.at_end)
        nested = hasattr(shards.inner.array_bytes, "counts")
        if not nested and not pipeline.array_array:
            inner = describe(shards.inner, keep_empty, fill_parts)
        if inner is None or found is None or pipeline.bytes_bytes:
            return None
        index, swap = found, 0
    elif not isinstance(pipeline.array_bytes, Bytes):
        return None
    if codecs is None or swap is None:
        return None
    options = (fill_parts, sequence) if fill_parts or sequence is not None else ()
    try:
        return _kernel.pipeline(
            spec.shape,
            pipeline.axes,
            dtype.itemsize,
            swap,
            codecs,
            spec.fill.tobytes(),
            keep_empty,
            inner,
            *index,
            *options,
        )
    except ValueError:
        return None


def _index(pipeline: CodecPipeline, at_end: bool) -> tuple[bool, bool, bool] | None:
    """Return if a shard index has a checksum, is big-endian, is at the end; None if unsupported."""
    codecs, serializer = _codecs(pipeline), pipeline.array_bytes
    if pipeline.array_array or not isinstance(serializer, Bytes) or codecs is None:
        return None
    if [s[0] for s in codecs] not in ([], [_CRC32C]):
        return None
    return bool(codecs), serializer.endian == "big", at_end


def _swap(pipeline: CodecPipeline, dtype: np.dtype[Any]) -> int | None:
    """Return the size of the units to byte-swap between memory and store; None if they differ."""
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


def _codecs(pipeline: CodecPipeline) -> tuple[CodecNumbers, ...] | None:
    known = tuple(n for codec, _ in pipeline.bytes_bytes if (n := _codec(codec)) is not None)
    return known if len(known) == len(pipeline.bytes_bytes) else None


def _codec(codec: Any) -> CodecNumbers | None:
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
    """Return True if the kernel can call the libdeflate of the package that the codec uses."""
    file = getattr(sys.modules.get("deflate._deflate"), "__file__", None)
    return file is not None and _kernel.load_deflate(file)


def can_write(pipeline: CodecPipeline) -> bool:
    """Return True if the kernel can also encode: it lacks some compressors inside Blosc."""
    shards: Any = pipeline.array_bytes
    if hasattr(shards, "counts"):
        return can_write(shards.inner)
    codecs = _codecs(pipeline) or ()
    return all(not (s[0] == _BLOSC and s[2] == _OTHER) for s in codecs)
