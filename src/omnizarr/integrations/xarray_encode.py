"""Variables of xarray as they are stored: CF encoding, and the options of new arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray import conventions
from xarray.backends.common import ensure_dtype_not_object
from xarray.coding import strings

from omnizarr.conventions.cf.fill import encode_fill
from omnizarr.errors import InvalidMetadata, NoSuchLabel, WrongType
from omnizarr.hierarchy.array import Array
from omnizarr.integrations.xarray_read import variable

_OPTIONS = {
    "chunks", "shards", "filters", "serializer", "compressors", "compressor", "order",
    "chunk_key_encoding", "dimension_separator", "object_codec", "write_empty_chunks",
    "cache_metadata", "fill_value",
}  # fmt: skip
UNNAMED = "__values__"  # what xarray calls a variable whose name is None
_OF_NETCDF = {"chunksizes", "zlib", "complevel", "compression", "shuffle", "contiguous"}
_OF_THE_SOURCE = {"source", "original_shape", "preferred_chunks"}
# Older releases have no list of their own for Zarr, and encode it with this default.
_CODERS = {"coders": conventions.ZARR_CODERS} if hasattr(conventions, "ZARR_CODERS") else {}  # type: dict[str, Any]


def encoded_dataset(
    dataset: xr.Dataset, encoding: Mapping[str, Mapping[str, Any]] | None
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """Variables with the given encodings, and attributes, coordinates told among them."""
    for name in dataset.variables:
        if name is not None and (not isinstance(name, str) or not name):
            raise WrongType(f"names of variables must be texts that are not empty, got {name!r}")
    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    for name, given in (encoding or {}).items():
        if name not in variables:
            known = ", ".join(map(str, variables))
            raise NoSuchLabel(f"encoding for {name!r}, which is no variable; known: {known}")
        variables[name].encoding = dict(given)
    return {UNNAMED if k is None else k: v for k, v in variables.items()}, attributes


def encoded(name: str, given: xr.Variable) -> xr.Variable:
    """A variable as it is stored: times as numbers, scaled, with a mark for missing values."""
    var = conventions.encode_cf_variable(given, name=name, **_CODERS)
    var = ensure_dtype_not_object(var, name=name)
    var = strings.EncodedStringCoder(allows_unicode=True).encode(var, name=name)
    return strings.ensure_fixed_length_bytes(var)


def encoded_like(name: str, given: xr.Variable, array: Array) -> xr.Variable:
    """A variable encoded just as the array that is stored, with its axes in that order."""
    stored = variable(name, array)
    decoded = conventions.decode_cf_variables({name: stored}, {})[0][name]
    text = given.dtype.kind in "SU"
    if text and decoded.dtype != object and decoded.dtype != given.dtype:
        raise InvalidMetadata(
            f"variable {name!r} has type {given.dtype}, and {decoded.dtype} is stored;"
            " convert it first, so that no text is cut"
        )
    if set(given.dims) != set(stored.dims):
        raise InvalidMetadata(
            f"variable {name!r} has dimensions {given.dims}, and {stored.dims} are stored"
        )
    copy = given.copy(deep=False)
    copy.encoding = decoded.encoding
    return encoded(name, copy).transpose(*stored.dims)


def encoded_new(
    dataset: xr.Dataset, encoding: Mapping[str, Mapping[str, Any]] | None
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """All variables as new ones are stored, and the attributes; raises where one cannot be."""
    variables, attributes = encoded_dataset(dataset, encoding)
    stored = {name: encoded(name, var) for name, var in variables.items()}
    for name in encoding or ():
        check_encoding(name, stored[name])
    return stored, attributes


def check_encoding(name: str, var: xr.Variable) -> None:
    """Raise where an encoding that a user gave has something that no array has."""
    given = {k for k, v in var.encoding.items() if v is not None}
    unknown = sorted(given - _OPTIONS - _OF_THE_SOURCE)
    if unknown:
        known = ", ".join(sorted(_OPTIONS))
        netcdf = "; of NetCDF: chunks for chunksizes, compressors for zlib"
        hint = netcdf if _OF_NETCDF & given else ""
        raise InvalidMetadata(f"encoding of {name!r}: unknown {unknown}; known: {known}{hint}")


def new_array(var: xr.Variable, fill_masks: bool) -> dict[str, Any]:
    """The options to create an array for an encoded variable."""
    options = {k: v for k, v in var.encoding.items() if k in _OPTIONS and v is not None}
    attributes = dict(var.attrs)
    mark = attributes.pop("_FillValue", None)
    if fill_masks:
        options["fill_value"] = mark
    else:
        if mark is not None:
            attributes["_FillValue"] = encode_fill(mark, var.dtype)
        if var.dtype.kind == "f":
            options.setdefault("fill_value", np.nan)
    chunks = _chunks(var, options.get("chunks"))
    if chunks is None:
        options.pop("chunks", None)
    else:
        options["chunks"] = chunks
    return {
        **options,
        "shape": var.shape,
        "dtype": str if strings.check_vlen_dtype(var.dtype) is str else var.dtype,
        "dimension_names": var.dims,
        "attributes": attributes,
    }


def _chunks(var: xr.Variable, given: Any) -> Any:
    """What the encoding says, else the blocks of a Dask array where they are regular."""
    if isinstance(given, int | str) or (given is not None and len(given) == var.ndim):
        return given
    blocks = var.chunks
    if not blocks or not all(blocks):
        return None
    if any(len(set(axis[:-1])) > 1 or axis[-1] > axis[0] for axis in blocks):
        return None
    return tuple(max(1, axis[0]) for axis in blocks)
