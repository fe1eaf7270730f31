"""An array's codecs in the three groups that users name them by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnizarr.codecs import bind_codec
from omnizarr.codecs.specify import kind, to_named
from omnizarr.errors import OmnizarrError
from omnizarr.model import ArrayModel, Named


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Codecs on arrays, the one from array to bytes, and those on bytes; inside shards, if any."""

    filters: tuple[Named, ...]
    serializer: Named | None
    compressors: tuple[Named, ...]


def pipeline(array: ArrayModel) -> Pipeline:
    """The codecs of an array in groups; of a sharded one those that its chunks go through."""
    return _grouped(array.codecs)


def _grouped(codecs: tuple[Named, ...]) -> Pipeline:
    kinds = [kind(codec) for codec in codecs]
    middle = [c for c, k in zip(codecs, kinds, strict=True) if k == "array->bytes"]
    serializer = middle[0] if middle else None
    filters = tuple(c for c, k in zip(codecs, kinds, strict=True) if k == "array->array")
    inner = None if serializer is None else serializer.configuration.get("codecs")
    if isinstance(inner, (list, tuple)) and inner:
        found = _grouped(tuple(to_named(codec, None) for codec in inner))
        return Pipeline((*filters, *found.filters), found.serializer, found.compressors)
    compressors = tuple(c for c, k in zip(codecs, kinds, strict=True) if k == "bytes->bytes")
    return Pipeline(filters, serializer, compressors)


def order(array: ArrayModel) -> str:
    """``"F"`` where chunks are stored with reversed axes, else ``"C"``."""
    first = array.codecs[0] if array.codecs else Named("")
    axes = list(reversed(range(len(array.shape))))
    return "F" if first.name == "transpose" and first.configuration.get("order") == axes else "C"


def as_object(codec: Named) -> Any:
    """The codec's own object, or its name and configuration where it is not known here."""
    try:
        return bind_codec(codec, "codecs")
    except OmnizarrError:
        return codec
