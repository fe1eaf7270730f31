"""Variables of xarray as they are stored: CF encoding, and the options of new arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray import conventions
from xarray.backends import BackendArray
from xarray.backends.common import ensure_dtype_not_object
from xarray.coding import strings
from xarray.core import indexing

from omnizarr.conventions.cf.fill import encode_fill
from omnizarr.errors import InvalidMetadata, InvalidName, NoSuchLabel, WrongType
from omnizarr.hierarchy.array import Array
from omnizarr.integrations.xarray_read import variable

_OPTIONS = {
    "chunks", "shards", "filters", "serializer", "compressors", "compressor", "order",
    "chunk_key_encoding", "dimension_separator", "object_codec", "write_empty_chunks",
    "cache_metadata", "fill_value",
}  # fmt: skip
LARGE = 2**21  # bytes from which on numbers are encoded part by part
UNNAMED = "__values__"  # what xarray calls a variable whose name is None
_NAME = "__xarray_dataarray_name__"  # where xarray looks for the name of an array on its own
_OF_NETCDF = {"chunksizes", "zlib", "complevel", "compression", "shuffle", "contiguous"}
_OF_THE_SOURCE = {"source", "original_shape", "preferred_chunks"}
# Older releases have no list of their own for Zarr, and encode it with this default.
_CODERS = {"coders": conventions.ZARR_CODERS} if hasattr(conventions, "ZARR_CODERS") else {}  # type: dict[str, Any]


def dataset_of(array: xr.DataArray) -> xr.Dataset:
    """A dataset of one variable, which `xarray.open_dataarray` turns into the array again.

    An array without a name, or with that of one of its axes or coordinates, has its name in an
    attribute. xarray's own name for the variable begins with "__", which version 3 reserves.
    """
    taken = {*array.coords, *array.dims}
    if array.name is not None and array.name not in taken:
        return array.to_dataset()
    free = next(name for i in range(len(taken) + 1) if (name := "array" + "_" * i) not in taken)
    dataset = array.to_dataset(name=free)
    dataset.attrs[_NAME] = array.name
    return dataset


def encoded_dataset(
    dataset: xr.Dataset, encoding: Mapping[str, Mapping[str, Any]] | None
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """Variables with the given encodings, and attributes, coordinates told among them."""
    for name in dataset.variables:
        if name is not None and not isinstance(name, str):
            raise WrongType(f"the name of a variable must be a string or None, got {name!r}")
        if name == "":
            raise InvalidName("a variable is called '', which is no name; rename it")
    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    for name, given in (encoding or {}).items():
        if name not in variables:
            known = ", ".join(map(str, variables))
            raise NoSuchLabel(f"encoding for {name!r}, which is no variable; known: {known}")
        if not isinstance(given, Mapping):
            raise InvalidMetadata(f"encoding of {name!r} must be a dict of options, got {given!r}")
        variables[name].encoding = dict(given)
    return {UNNAMED if k is None else k: v for k, v in variables.items()}, attributes


def encoded(name: str, given: xr.Variable) -> xr.Variable:
    """A variable as it is stored: times as numbers, scaled, with a mark for missing values.

    Many numbers in memory are encoded when they are read, only those that are; what has to be
    refused is refused here.
    """
    if not _by_parts(given):
        return _encoded(name, given)
    none = _encoded(name, given[(slice(0, 0),) * given.ndim])
    values = indexing.LazilyIndexedArray(Unencoded(name, given, none.dtype))
    return xr.Variable(given.dims, values, none.attrs, none.encoding)


def _by_parts(given: xr.Variable) -> bool:
    """Whether the parts of a variable are encoded alone just as among the others, without warning.

    Times, text and objects take units, lengths and types from all values.
    """
    if given.ndim == 0 or given.nbytes < LARGE or given.dtype.kind not in "biuf":
        return False
    encoding = given.encoding
    marked = any(encoding.get(k) is not None for k in ("_FillValue", "missing_value"))
    packed = any(encoding.get(k) is not None for k in ("scale_factor", "add_offset", "dtype"))
    if not (marked or packed) or "_Unsigned" in encoding or not isinstance(given.data, np.ndarray):
        return False
    dtype = np.dtype(encoding.get("dtype") or given.dtype)
    return dtype.kind in "fb" or (dtype.kind in "iu" and dtype.metadata is None and marked)


class Unencoded(BackendArray):
    """Numbers that are encoded as they are read."""

    def __init__(self, name: str, given: xr.Variable, dtype: np.dtype[Any]) -> None:
        self._name, self._given = name, given
        self.shape, self.dtype = given.shape, dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        def read(selection: Any) -> Any:
            return _encoded(self._name, self._given[selection]).data

        support = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, support, read)


def _encoded(name: str, given: xr.Variable) -> xr.Variable:
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
    copy = given.transpose(*stored.dims).copy(deep=False)
    copy.encoding = decoded.encoding
    return encoded(name, copy)


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
