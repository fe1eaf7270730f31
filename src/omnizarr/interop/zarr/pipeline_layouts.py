"""Codecs and data types of zarr-python, as the kernel knows them.

Only the codecs of zarr-python and numcodecs themselves are translated: a class of another package
may do something else under the same name.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.codecs import ShardingCodec
from zarr.codecs._v2 import V2Codec

from omnizarr import codecs as own_codecs
from omnizarr.concurrency.cache import Cache
from omnizarr.engine import rows
from omnizarr.errors import OmnizarrError
from omnizarr.extension import Named, data_types, kernel
from omnizarr.formats.codec_names import from_ids

_PACKAGES = ("zarr", "numcodecs")
_SIMPLE = {"bytes", "transpose", "crc32c", "blosc", "zstd", "gzip"}
_COMPRESSOR_IDS = ("blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma")
_COMPRESSORS = {f"numcodecs.{name}" for name in _COMPRESSOR_IDS}
_FILTERS = {f"numcodecs.{name}" for name in ("delta", "fixedscaleoffset", "shuffle")}
_NONE = np.dtype("V0")
_KEPT = 8  # layouts of one pipeline; those of another chunk shape or fill value are made again
_layouts = Cache[Any, "PipelineLayout"](256)


@dataclass(frozen=True, slots=True)
class PipelineLayout:
    """The kernel's layout of a chunk, or the reason why it has none."""

    capsule: Any = None
    dtype: np.dtype[Any] = _NONE
    shape: tuple[int, ...] = ()
    fill: Any = None  # an array without axes
    unit: int = 0  # decoded bytes of the smallest part that is decoded: an inner chunk, or all
    sharded: bool = False
    unreadable: str | None = None
    unwritable: str | None = None
    pipeline: Any = None  # of codecs in Python, where there is no capsule


def find(pipeline: Any, spec: Any) -> PipelineLayout:
    """Return the layout of the chunks that an `ArraySpec` describes."""
    known = pipeline.__dict__.get("layouts")
    if known is None:
        known = pipeline.__dict__["layouts"] = []
    shape, dtype, fill, config = spec.shape, spec.dtype, spec.fill_value, spec.config
    for a, b, c, order, empty, layout in known:
        if (
            b is dtype
            and c is fill
            and a == shape
            and order == config.order
            and empty == config.write_empty_chunks
        ):
            return layout  # type: ignore[no-any-return] # of the list
    layout = _find(tuple(pipeline), spec)
    del known[_KEPT - 1 :]
    known.insert(0, (shape, dtype, fill, config.order, config.write_empty_chunks, layout))
    return layout


def _find(codecs: tuple[Any, ...], spec: Any) -> PipelineLayout:
    """Return a layout that all pipelines share, since the pipelines of shards are short-lived."""
    try:
        dtype = spec.dtype.to_native_dtype()
        fill = _fill(spec, dtype).tobytes()
        config = spec.config
        key = codecs, spec.shape, dtype, fill, config.order, config.write_empty_chunks
        found = _layouts.get(key)
    except (TypeError, ValueError):  # a codec that cannot be hashed, a fill value of another kind
        return _make(codecs, spec)
    return found or _layouts.put(key, _make(codecs, spec))


def _fill(spec: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the fill value in the bytes of an item."""
    value = spec.dtype.default_scalar() if spec.fill_value is None else spec.fill_value
    fill = np.empty((), dtype)
    fill[()] = value
    return fill


def _make(codecs: tuple[Any, ...], spec: Any) -> PipelineLayout:
    if not rows.available():
        return PipelineLayout(unreadable="the compiled kernel is missing")
    dtype = spec.dtype.to_native_dtype()
    foreign = next(filter(_is_foreign, _all(codecs)), None)
    if foreign is not None:
        return PipelineLayout(unreadable=f"codec {_name(foreign)}")
    if dtype.hasobject or dtype.kind not in "biufcmMSUV":
        return PipelineLayout(unreadable=f"data type {dtype}")
    items = _items(codecs, dtype)
    if items is None:
        return PipelineLayout(unreadable=f"data type {dtype} in another byte order")
    try:
        data_type = data_types.bind(data_types.describe(items))
        fill = _fill(spec, dtype).reshape(1).view(data_type.dtype).reshape(())
        names = _names(codecs, spec, data_type.named)
        pipeline = own_codecs.bind_pipeline(names, own_codecs.Spec(spec.shape, data_type, fill))
    except (OmnizarrError, TypeError, ValueError) as e:
        return PipelineLayout(unreadable=f"{_text(codecs)} of {dtype}: {e}")
    keep_empty = bool(spec.config.write_empty_chunks)
    parts, unwritable = _fill_parts(dtype, fill)
    if keep_empty:
        parts, unwritable = 0, None
    shards: Any = pipeline.array_bytes if hasattr(pipeline.array_bytes, "counts") else None
    sequence = None if shards is None else _sequence(codecs[0], shards.counts)
    capsule = kernel.describe(pipeline, keep_empty, parts, sequence)
    stored = _fill(spec, dtype)
    if capsule is None and shards is None and _can_decode(names, items.kind):
        nbytes = math.prod(spec.shape) * dtype.itemsize
        return PipelineLayout(None, dtype, spec.shape, stored, nbytes, pipeline=pipeline)
    if capsule is None:
        return PipelineLayout(unreadable=f"{_text(codecs)} of {dtype}")
    if not kernel.can_write(pipeline):
        unwritable = _text(codecs)
    smallest = shards.inner.spec.shape if shards is not None else spec.shape
    unit = math.prod(smallest) * dtype.itemsize
    sharded = shards is not None
    return PipelineLayout(capsule, dtype, spec.shape, stored, unit, sharded, None, unwritable)


def _can_decode(names: Iterable[Named], kind: str) -> bool:
    """Return True for codecs that this package has, with the same results, in Python only."""
    used = {named.name for named in names}
    return used <= _SIMPLE | _COMPRESSORS | _FILTERS and (kind != "V" or not used & _FILTERS)


def _all(codecs: Iterable[Any]) -> Iterable[Any]:
    """Yield all codecs, also those inside of shards and of version 2."""
    for codec in codecs:
        yield codec
        if isinstance(codec, ShardingCodec):
            yield from _all((*codec.codecs, *codec.index_codecs))
        elif isinstance(codec, V2Codec):
            yield from codec.filters or ()
            if codec.compressor is not None:
                yield codec.compressor


def _is_foreign(codec: Any) -> bool:
    return type(codec).__module__.partition(".")[0] not in _PACKAGES


def _name(codec: Any) -> str:
    return f"{type(codec).__module__}.{type(codec).__qualname__}"


def _text(codecs: tuple[Any, ...]) -> str:
    names = (type(c).__name__ for c in _all(codecs) if not isinstance(c, V2Codec))
    return "codecs " + ", ".join(names)


def _names(codecs: tuple[Any, ...], spec: Any, data_type: Named) -> tuple[Named, ...]:
    """Return the codecs by the names that this package has for them."""
    if len(codecs) == 1 and isinstance(codecs[0], V2Codec):
        steps = [codec.get_config() for codec in [*_all(codecs)][1:]]
        return from_ids(steps, spec.config.order, len(spec.shape), data_type)
    stated = json.loads(json.dumps([c.to_dict() for c in codecs], default=_plain))
    return tuple(Named(s["name"], s.get("configuration", {})) for s in stated)


def _plain(value: Any) -> Any:
    """Return a member of an enumeration, or a NumPy number, as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value.value


def _items(codecs: tuple[Any, ...], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type of the items for the kernel; text and structures are bytes to it.

    None if those are stored in another byte order than they have in memory.
    """
    if dtype.kind in "biufcmM":
        return dtype
    serializers = [c for c in _all(codecs) if hasattr(c, "endian")]
    stored = {str(getattr(c.endian, "value", c.endian)) for c in serializers} - {"None"}
    if stored and any(order not in stored or len(stored) > 1 for order in _orders(dtype)):
        return None
    return np.dtype(f"V{dtype.itemsize}")


def _orders(dtype: np.dtype[Any]) -> set[str]:
    """Return the byte orders of items in memory, or of all their fields."""
    if dtype.names is not None:
        return set[str]().union(*(_orders(dtype[name].base) for name in dtype.names))
    if dtype.byteorder == "|":
        return set()
    return {{"<": "little", ">": "big"}.get(dtype.byteorder, sys.byteorder)}


def _fill_parts(dtype: np.dtype[Any], fill: npt.NDArray[Any]) -> tuple[int, str | None]:
    """Return how many floats an item has if bytes cannot tell whether it is the fill value.

    zarr-python treats all NaN values as equal, and zeros of both signs in complex
    numbers; structures it compares field by field.
    """
    simple = f"empty chunks of {dtype}"
    if dtype.kind == "f":
        if not np.isnan(fill.view(dtype)[()]):
            return 0, None
        return (1, None) if dtype.isnative and dtype.itemsize in (4, 8) else (0, simple)
    if dtype.kind == "c":
        return (2, None) if dtype.isnative and dtype.itemsize in (8, 16) else (0, simple)
    if dtype.names is None:
        return 0, None
    kinds = {dtype[name].base.kind for name in dtype.names}
    packed = sum(dtype[name].itemsize for name in dtype.names) == dtype.itemsize
    return 0, None if kinds <= set("biuS") and packed else simple


def _sequence(codec: Any, counts: tuple[int, ...]) -> npt.NDArray[np.int64] | None:
    """Return the numbers of inner chunks in the order in which zarr-python stores them."""
    order = getattr(codec, "subchunk_write_order", "morton")
    if order == "colexicographic":
        numbers = np.arange(math.prod(counts), dtype=np.int64).reshape(counts)
        return np.ascontiguousarray(numbers.T.reshape(-1))
    if order != "morton":
        return None
    bits = [(n - 1).bit_length() for n in counts]
    codes = np.zeros(math.prod(counts), np.int64)
    coords = [axis.reshape(-1) for axis in np.indices(counts)]
    place = 0
    for bit in range(max(bits, default=0)):
        for axis, most in zip(coords, bits, strict=True):
            if bit < most:
                codes |= ((axis >> bit) & 1) << place
                place += 1
    return np.argsort(codes, kind="stable").astype(np.int64)
