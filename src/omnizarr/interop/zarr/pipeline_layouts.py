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
from omnizarr.errors import OmnizarrError
from omnizarr.extension import Named, cache, data_types, formats, kernel

_PACKAGES = ("zarr", "numcodecs")
_NONE = np.dtype("V0")
# All pipelines share them, since those of shards are short-lived.
_layouts = cache.Cache[Any, "PipelineLayout"](256)


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


def find(pipeline: Any, spec: Any) -> PipelineLayout:
    """Return the layout of the chunks that an `ArraySpec` describes."""
    dtype, config, fill = spec.dtype.to_native_dtype(), spec.config, spec.fill_value
    stored = np.empty((), dtype)
    try:
        stored[()] = spec.dtype.default_scalar() if fill is None else fill
    except (TypeError, ValueError) as e:
        return PipelineLayout(unreadable=f"the fill value {fill!r} of {dtype}: {e}")
    if dtype.hasobject or dtype.kind not in "biufcmMSUV":
        return PipelineLayout(unreadable=f"data type {dtype}")
    codecs, key = tuple(pipeline), (spec.shape, dtype, stored.tobytes(), config.order)
    described = (codecs, *key, bool(config.write_empty_chunks))
    try:
        found = _layouts.get(described)
    except TypeError:  # a codec that cannot be hashed
        return _make(*described)
    return found or _layouts.put(described, _make(*described))


def _make(
    codecs: tuple[Any, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    fill: bytes,
    order: str,
    keep_empty: bool,
) -> PipelineLayout:
    """Return the layout of chunks of a shape, type and fill value."""
    if kernel.run_rows is None:
        return PipelineLayout(unreadable="the compiled kernel is missing")
    modules = {type(c).__module__: c for c in _all(codecs)}
    foreign = [c for m, c in modules.items() if m.partition(".")[0] not in _PACKAGES]
    if foreign:
        cls = type(foreign[0])
        return PipelineLayout(unreadable=f"codec {cls.__module__}.{cls.__qualname__}")
    items = _items(codecs, dtype)
    if items is None:
        return PipelineLayout(unreadable=f"data type {dtype} in another byte order")
    used = ", ".join(type(c).__name__ for c in _all(codecs) if not isinstance(c, V2Codec))
    try:
        data_type = data_types.bind(data_types.describe(items))
        own_fill = np.frombuffer(fill, data_type.dtype).reshape(())
        names = _names(codecs, shape, order, data_type.named)
        pipeline = own_codecs.bind_pipeline(names, own_codecs.Spec(shape, data_type, own_fill))
    except (OmnizarrError, TypeError, ValueError) as e:
        return PipelineLayout(unreadable=f"codecs {used} of {dtype}: {e}")
    parts, unwritable = (0, None) if keep_empty else _fill_parts(dtype, own_fill)
    shards: Any = pipeline.array_bytes if hasattr(pipeline.array_bytes, "counts") else None
    sequence = None if shards is None else _sequence(codecs[0], shards.counts)
    capsule = kernel.describe(pipeline, keep_empty, parts, sequence)
    if capsule is None:
        return PipelineLayout(unreadable=f"codecs {used} of {dtype}")
    if not kernel.can_write(pipeline):
        unwritable = f"codecs {used}"
    unit = math.prod(shape if shards is None else shards.inner.spec.shape) * dtype.itemsize
    stored = np.frombuffer(fill, dtype).reshape(())
    sharded = shards is not None
    return PipelineLayout(capsule, dtype, shape, stored, unit, sharded, None, unwritable)


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


def _names(
    codecs: tuple[Any, ...], shape: tuple[int, ...], order: str, data_type: Named
) -> tuple[Named, ...]:
    """Return the codecs by the names that this package has for them."""
    if len(codecs) == 1 and isinstance(codecs[0], V2Codec):
        steps = [codec.get_config() for codec in [*_all(codecs)][1:]]
        return formats.codec_names.from_ids(steps, order, len(shape), data_type)
    # Members of enumerations and numbers of NumPy are stated as JSON has them.
    plain = [c.to_dict() for c in codecs]
    stated = json.loads(
        json.dumps(plain, default=lambda v: v.item() if isinstance(v, np.generic) else v.value)
    )
    return tuple(Named(s["name"], s.get("configuration", {})) for s in stated)


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
