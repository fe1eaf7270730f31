"""New arrays, and arrays that must be there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np

from omnizarr import data_types
from omnizarr.engine import BoundArray
from omnizarr.errors import InvalidMetadata, NodeExists, OmnizarrError, WrongNode, WrongType
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.build import alone, build
from omnizarr.hierarchy.copies import keep_right
from omnizarr.hierarchy.foreign import as_source
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.options import ArrayOptions, array_model, runtime_config
from omnizarr.hierarchy.pipeline import pipeline
from omnizarr.hierarchy.stored import erase_leftovers
from omnizarr.hierarchy.view import View
from omnizarr.model import ArrayModel, Node
from omnizarr.stores import erase_values

# Options that say how chunks become bytes.
CODECS = {"codecs", "filters", "serializer", "compressors", "compressor", "order"}


def make_array(
    location: Location,
    shape: Any,
    dtype: Any,
    data: Any,
    overwrite: bool,
    options: ArrayOptions,
    write_data: bool = True,
) -> Array:
    """Create an array, and fill it where data are given."""
    if data is not None:
        data = as_source(data, dtype)
        shape = data.shape if shape is None else shape
        dtype = _type_of(data) if dtype is None else dtype
    if shape is None:
        raise WrongType("give the shape of the new array, or data")
    model = array_model(location.format, shape, dtype, options)
    if data is not None and tuple(data.shape) != model.shape:
        raise InvalidMetadata(
            f"data of shape {tuple(data.shape)} do not fit the shape {model.shape} that was given;"
            " leave one of them out"
        )

    def check(read: Node) -> None:
        if isinstance(read, ArrayModel):
            bound = BoundArray(location.store, location.path, "", read)
            if bound.check() and bound.grid.regular is not None:
                return
            _ = bound.first_chain, bound.encoding, bound.chunk_store

    values = data if write_data else None
    try:
        with alone(location.store) if overwrite else nullcontext():
            array = Array.at(location, location.create(model, check=check))
    except NodeExists:
        if not overwrite:
            raise
        with build(location, overwrite=True, operation="create_array", implied=True) as place:
            new = Array.at(place, place.create(model, check=check))
            _fill(new, values, options)
        array = Array.at(location, new._model)
        array._config = runtime_config(options)
        return array
    try:
        if overwrite:
            erase_leftovers(array._bound)
        _fill(array, values, options)
    except BaseException:
        with suppress(OmnizarrError):  # what led here is the error to be told
            _unmake(array)
        raise
    return array


def _unmake(array: Array) -> None:
    """Erase a new array; whatever else lies at its path stays."""
    location = array._location
    store, path, format = location.store, location.path, location.format
    erase_values(store, [*format.keys(path), *format.owned(path)[0]])
    erase_leftovers(array._bound)
    keep_right(store, format, {path: None})


def _fill(array: Array, values: Any, options: ArrayOptions) -> None:
    array._config = runtime_config(options)
    if values is not None:
        array[...] = values


def like(a: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options for an array like another: its own where it has them, unless others are given."""
    found: dict[str, Any] = {"shape": a.shape}
    if hasattr(a, "dtype"):
        found["dtype"] = _type_of(as_source(a))
    if isinstance(a, Array):
        found |= {
            "chunks": a.chunks,
            "shards": a.shards,
            "fill_value": a.fill_value,
            "dimension_names": a.dimension_names,
            "zarr_format": a.zarr_format,
        }
        if (
            options.get("zarr_format", a.zarr_format) == a.zarr_format
            and not CODECS & options.keys()
        ):
            found |= codec_options(a)
    elif isinstance(getattr(a, "chunks", None), tuple):
        found["chunks"] = tuple(c[0] if isinstance(c, tuple) and c else c for c in a.chunks)
    return {**found, **options}


def _type_of(data: Any) -> Any:
    """Return the type of data; for NumPy byte strings of any length are just objects."""
    array = data.array if isinstance(data, View) else data
    is_bytes = isinstance(array, Array) and array._model.data_type.name == "bytes"
    return bytes if is_bytes else data.dtype


def codec_options(a: Array) -> dict[str, Any]:
    """The codecs of an array as the options that make them."""
    known = pipeline(a._model)
    return {
        "filters": known.filters,
        "serializer": known.serializer,
        "compressors": known.compressors,
    }


def check_required(node: Any, shape: int | Iterable[int], dtype: Any, exact: bool) -> None:
    """Raise where a node is not an array of that shape and type."""
    if not isinstance(node, Array):
        raise WrongNode(f"{node.name} is a group, not an array")
    wanted = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if node.shape != wanted:
        raise WrongNode(f"{node.name} has shape {node.shape}, not {wanted}")
    if dtype is None:
        return
    type_ = data_types.bind(data_types.describe(dtype)).dtype
    if node.dtype != type_ and (exact or not np.can_cast(node.dtype, type_)):
        raise WrongNode(f"{node.name} has type {node.dtype}, not {type_}")
