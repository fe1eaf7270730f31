"""The codecs of a stored array as encodings of a variable, which zarr-python takes too.

So ``to_zarr`` writes a dataset with the codecs that it was read with. Where documents have the ids
of numcodecs, as in version 2, they are its objects; else JSON with the names of version 3.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numcodecs
import numpy as np

from omnizarr.errors import CannotExpress
from omnizarr.formats.codec_names import split_compressor, to_ids, to_names
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.pipeline import pipeline
from omnizarr.model import Named
from omnizarr.model.numcodecs_ids import ARRAY_TO_BYTES

# How objects become bytes.
_OF_OBJECTS = ARRAY_TO_BYTES - {"pcodec", "zfpy"}


def codec_encoding(array: Array) -> dict[str, Any]:
    """The options of `create_array` for an array with the same codecs."""
    model, format = array._model, array._location.format
    if not format.codecs_by_id:
        with suppress(CannotExpress):
            model = model.with_(codecs=to_names(model))
        groups = pipeline(model)
        return {
            "filters": tuple(map(_json, groups.filters)),
            "serializer": _serializer(groups.serializer, array.dtype),
            "compressors": tuple(map(_json, groups.compressors)),
        }
    order, steps, _ = to_ids(model, format.name)
    plain = [s for s in steps if s["id"] not in _OF_OBJECTS]
    filters, compressor = split_compressor(plain)
    found: dict[str, Any] = {"compressors": () if compressor is None else (_object(compressor),)}
    if filters or plain == steps:  # where they are not told, writers choose the one of objects
        found["filters"] = tuple(map(_object, filters or ()))
    if order == "F":
        found["order"] = order
    return found


def _serializer(codec: Named | None, dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """Return how elements become bytes, with the byte order, which the draft has in the type."""
    if codec is None:
        return None
    found = _json(codec)
    if codec.name == "bytes" and "endian" not in codec.configuration and _has_order(dtype):
        little = dtype.newbyteorder("<") == dtype
        found["configuration"]["endian"] = "little" if little else "big"
    return found


def _has_order(dtype: np.dtype[Any]) -> bool:
    """Return True where elements have bytes that could be in another order."""
    return dtype.newbyteorder("S") != dtype


def _json(codec: Named) -> dict[str, Any]:
    return {"name": codec.name, "configuration": dict(codec.configuration)}


def _object(configuration: dict[str, Any]) -> Any:
    """The codec of numcodecs, or its configuration where it is not known here."""
    try:
        return numcodecs.get_codec(configuration)
    except (ValueError, TypeError):
        return configuration
