"""The xarray engine: ``xarray.open_dataset(path, engine="omnizarr")``.

Every array of a group is a lazy variable: only the chunks that are used are read. A single
array is a dataset with one variable.

xarray unpacks a whole selection at once, with several copies. Here a box is divided into parts of
whole chunks, and each part is unpacked with the same arithmetic directly into the result; other
selections are left to xarray. Axes without names are named ``<variable>_dim_<number>``.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numcodecs
import numpy as np
import numpy.typing as npt

from omnizarr import Array, Group, View, extension
from omnizarr import open as open_node
from omnizarr.bulk.tiles import Box, chunk_axes
from omnizarr.conventions.cf.packing import MISSING, as_numbers, decode_fill
from omnizarr.conventions.cf.variable import fill_is_missing, is_scalar
from omnizarr.errors import CannotExpress, InvalidMetadata, MissingModule, OmnizarrError, WrongNode
from omnizarr.extension import boxes, formats, location_of, specify

try:
    import xarray as xr
    from xarray import conventions
    from xarray.backends import (
        AbstractDataStore,
        BackendArray,
        BackendEntrypoint,
        StoreBackendEntrypoint,
    )
    from xarray.core import indexing
except ImportError as e:
    raise MissingModule("datasets need xarray: pip install 'omnizarr[xarray]'") from e

PART = 2**20  # numbers that are unpacked at a time
MAX_INDEX = 2**22  # bytes of a coordinate that is read before it is asked for
TEXT = np.dtypes.StringDType()  # of stored variable-length text
_OBJECT_CODECS = ("vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2", "pickle")
OBJECTS = np.dtype("O", metadata={"element_type": str})  # xarray's older type of such text


class Engine(BackendEntrypoint):
    """Reads datasets and trees of every Zarr format with omnizarr."""

    description = "Open Zarr of every version with omnizarr"
    supports_groups = True
    open_dataset_parameters = (
        *("filename_or_obj", "mask_and_scale", "decode_times", "concat_characters"),
        *("decode_coords", "drop_variables", "use_cftime", "decode_timedelta", "group"),
        *("consolidated", "storage_options", "zarr_format", "use_zarr_fill_value_as_mask"),
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True if zarr-python would not open a path, so that this engine is the default."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj).rstrip("/")
        return name.endswith(".zarr.zip") or (name.endswith(".zarr") and not find_spec("zarr"))

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        consolidated: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
        zarr_format: int | str | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        **decoding: Any,
    ) -> xr.Dataset:
        """Open a group, or a single array, as a dataset; `decoding` has xarray's own options.

        `consolidated`: None uses consolidated metadata if there is any, True fails if there is
        none, False reads the metadata of every array. `use_zarr_fill_value_as_mask`: if True, the
        fill value marks missing values; None means True in versions 1 and 2, where it may be
        undefined. The draft and version 3 have the attribute ``_FillValue`` for that purpose.
        """
        node = open_stored(filename_or_obj, group, consolidated, storage_options, zarr_format)
        arrays = {name_of(node): node} if isinstance(node, Array) else dict(node.arrays())
        attributes = {} if isinstance(node, Array) else node.attrs.asdict()
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        arrays = {name: array for name, array in arrays.items() if name not in dropped}
        stored = Stored(arrays, attributes, use_zarr_fill_value_as_mask)
        return _decoded(stored, **decoding)

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """Open a group with all groups below it as a tree of datasets."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        consolidated: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
        zarr_format: int | str | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        **decoding: Any,
    ) -> dict[str, xr.Dataset]:
        """Open a group and all groups below it as datasets by path; the group itself is ``/``."""
        node = open_stored(filename_or_obj, group, consolidated, storage_options, zarr_format)
        if isinstance(node, Array):
            raise WrongNode(f"{node.name} is an array, not a group; use open_dataset")
        found = {"": Stored({}, node.attrs.asdict(), use_zarr_fill_value_as_mask)}
        for path, member in node.members(max_depth=None):
            parent, _, name = path.rpartition("/")
            if isinstance(member, Array):
                found[parent].arrays[name] = member
            else:
                attributes = member.attrs.asdict()
                found[path] = Stored({}, attributes, use_zarr_fill_value_as_mask)
        return {f"/{path}": _decoded(s, **decoding) for path, s in found.items()}


def _decoded(stored: Stored, **decoding: Any) -> xr.Dataset:
    dataset = StoreBackendEntrypoint().open_dataset(stored, **decoding)
    for name, array in stored.arrays.items():
        var = dataset.variables.get(name)
        if var is not None and name not in stored.loaded and _is_packed(var, array):
            var.data = indexing.LazilyIndexedArray(Packed(var, array))
    return dataset


def _is_packed(var: xr.Variable, array: Array) -> bool:
    """Return True if `Packed` can compute the values of a variable from the stored ones."""
    plain = var.dtype.kind == "f" and array.dtype.kind in "iuf" and var.shape == array.shape != ()
    scaled = any(var.encoding.get(key) is not None for key in ("scale_factor", "add_offset"))
    lazy = isinstance(var._data, indexing.ExplicitlyIndexed)
    known = lazy and "_Unsigned" not in var.encoding
    return plain and known and (scaled or bool(missing_values(var.encoding)))


def missing_values(encoding: Mapping[Any, Any]) -> set[Any]:
    """Return the stored numbers that mark missing values, other than NaN."""
    listed = (encoding.get(key) for key in ("_FillValue", MISSING))
    found = {number for some in listed if some is not None for number in np.ravel(some)}
    return {number for number in found if isinstance(number, np.number) and not np.isnan(number)}


class AwaitableArray(BackendArray):
    """A lazy array that is read in another thread for ``load_async``."""

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        return await asyncio.to_thread(lambda: self[key])  # type: ignore[index]  # of subclasses


class Packed(AwaitableArray):
    """A lazy array of packed numbers, unpacked as they are read."""

    def __init__(self, decoded: xr.Variable, array: Array) -> None:
        self._decoded, self._array = decoded._data, array
        self.shape, self.dtype = decoded.shape, decoded.dtype
        self._missing = missing_values(decoded.encoding)
        self._scale = _single(decoded.encoding.get("scale_factor"))
        self._offset = _single(decoded.encoding.get("add_offset"))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        box = _box(key, self.shape)
        if box is None:
            return indexing.apply_indexer(self._decoded, key).get_duck_array()
        out, errors = extension.empty(tuple(s.stop - s.start for s in box), self.dtype), np.geterr()
        split = extension.traits(self._array.store).cheap_requests and out.size > PART
        parts = [*boxes.cut(chunk_axes(self._array), PART, box)] if split else [box]

        def one(part: Box) -> None:
            shifted = ((p, b.start) for p, b in zip(part, box, strict=True))
            inside = out[tuple(slice(p.start - start, p.stop - start) for p, start in shifted)]
            with np.errstate(**errors):  # NumPy keeps it per thread: use the caller's
                self._unpack(extension.as_plain(self._array[part]), inside)

        extension.for_each(iter(parts), len(parts), one, out.nbytes)
        return out[tuple(slice(None) if isinstance(k, slice) else 0 for k in key.tuple)]

    def _unpack(self, stored: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        np.copyto(out, stored, casting="unsafe")
        for number in self._missing:
            out[out == number] = np.nan
        if self._scale is not None:
            out *= self._scale
        if self._offset is not None:
            out += self._offset


def _single(value: Any) -> Any:
    """Return a factor or offset, which some files store as a list of one number."""
    return np.asarray(value).item() if np.ndim(value) else value


def _box(key: indexing.ExplicitIndexer, shape: tuple[int, ...]) -> Box | None:
    """Return the box that integers and slices without steps select; None for other keys."""
    sides = []
    for index, length in zip(key.tuple, shape, strict=True):
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            if step != 1:
                return None
            sides.append(slice(start, max(start, stop)))
        elif isinstance(index, int | np.integer):
            at = int(index) % length
            sides.append(slice(at, at + 1))
        else:
            return None
    return tuple(sides)


def open_stored(
    store: Any,
    group: str | None,
    consolidated: bool | None,
    storage_options: Mapping[str, Any] | None,
    zarr_format: int | str | None,
) -> Array | Group:
    """Open a group or array, with consolidated metadata as requested."""
    where = os.path.expanduser(store) if isinstance(store, str) else store
    root: Any = None
    options: Any = {"storage_options": storage_options, "zarr_format": zarr_format}
    if consolidated is not False:
        try:
            root = open_node(where, "r", use_consolidated=True, **options)
        except InvalidMetadata:
            if consolidated:
                raise
    if root is None or (isinstance(root, Array) and group):
        plain: Array | Group = open_node(where, "r", path=group, use_consolidated=False, **options)
        return plain
    known = location_of(root).consolidated
    if known is not None:
        known.trust()
    found: Array | Group = root[group.strip("/")] if group and group.strip("/") else root
    return found


def name_of(array: Array) -> str:
    """Return the name of the variable for an array that is opened on its own."""
    last = array.path.rpartition("/")[2] or re.split(r"[\\/]", str(array.store).rstrip("/"))[-1]
    return re.sub(r"(\.zarr)?(\.zip)?\Z", "", last) or "array"


@dataclass(eq=False)
class Stored(AbstractDataStore):
    """The arrays and attributes of a group, as a data store of xarray."""

    arrays: dict[str, Array]
    attributes: dict[str, Any]
    fill_masks: bool | None = None
    loaded: set[str] = field(default_factory=set)  # variables that have been read

    def get_variables(self) -> dict[str, xr.Variable]:
        found = {name: variable(name, a, self.fill_masks) for name, a in self.arrays.items()}
        self.loaded = _load_indexes(found, self.arrays)
        return found

    def get_attrs(self) -> dict[str, Any]:
        return _visible(self.attributes)

    def get_dimensions(self) -> dict[str, int]:
        pairs = ((dimensions(n, a), a.shape) for n, a in self.arrays.items())
        return {d: n for dims, shape in pairs if dims for d, n in zip(dims, shape, strict=True)}

    def close(self) -> None:
        """Do nothing: no file is kept open."""


def _load_indexes(variables: Mapping[str, xr.Variable], arrays: Mapping[str, Array]) -> set[str]:
    """Read the coordinates of dimensions from a server, all at the same time; return their names.

    xarray makes indexes of them, and would read one after the other. Those of several chunks are
    left to it: their chunks are requested together.
    """
    wanted = [
        name
        for name, var in variables.items()
        if var.dims == (name,) and not extension.traits(arrays[name].store).low_latency
        if arrays[name].nchunks == 1 and var.nbytes <= MAX_INDEX
    ]

    def load(name: str) -> bool:
        try:
            variables[name].load()
        except OmnizarrError:
            return False  # it is raised when the values are asked for
        return True

    if len(wanted) < 2:
        return set()
    done = extension.in_parallel(load, wanted)
    return {name for name, is_loaded in zip(wanted, done, strict=True) if is_loaded}


def _visible(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that xarray shows: not the dimension names, and not NCZarr's own."""
    hidden = {
        k
        for k in attributes
        if k.upper() == extension.ARRAY_DIMENSIONS or k.lower().startswith("_nc")
    }
    return as_numbers({k: v for k, v in attributes.items() if k not in hidden})


def variable(name: str, array: Array, fill_masks: bool | None = None) -> xr.Variable:
    """Return an array as a lazy variable that is not decoded yet."""
    dims = dimensions(name, array)
    attributes = _visible(array.attrs.asdict())
    scalar = array.ndim != len(dims)
    chunks = () if scalar else tuple(map(_compact, array.chunks))
    shards = None if array.shards is None else tuple(map(_compact, array.shards))
    encoding = {
        "chunks": chunks,
        "preferred_chunks": dict(zip(dims, chunks if scalar else shards or chunks, strict=True)),
        "shards": shards,
        **codec_encoding(array),
    }
    by_format = fill_is_missing(array)
    if not by_format:
        encoding["fill_value"] = array.fill_value
    if by_format if fill_masks is None else fill_masks:
        if array.fill_value is not None:
            attributes["_FillValue"] = array.fill_value
    elif "_FillValue" in attributes:
        attributes["_FillValue"] = decode_fill(attributes["_FillValue"], array.dtype)
    if array.dtype == TEXT and keeps_text():
        encoding["dtype"] = TEXT
    source = array.view[0] if scalar else array
    return xr.Variable(
        dims, indexing.LazilyIndexedArray(StoredValues(source)), attributes, encoding
    )


def _compact(lengths: int | tuple[int, ...]) -> int | tuple[int, ...]:
    """Return one length for an axis whose chunks are equal, but for a shorter last one."""
    if isinstance(lengths, int):
        return lengths
    if not lengths:
        return 1  # of an axis of length 0
    same = len(set(lengths[:-1])) <= 1 and lengths[-1] <= lengths[0]
    return lengths[0] if same else lengths


def dimensions(name: str, array: Array) -> tuple[str, ...]:
    """Return the names of all axes, with defaults for those without a name."""
    if is_scalar(array):
        return ()
    names = array.dimension_names or (None,) * array.ndim
    return tuple(d or f"{name}_dim_{i}" for i, d in enumerate(names))


@functools.cache
def keeps_text() -> bool:
    """Return True if xarray keeps NumPy's type of variable-length text, as newer releases do."""
    text = xr.Variable("x", np.array([""], TEXT), {}, {"dtype": TEXT})
    return bool(conventions.decode_cf_variable("x", text).dtype == TEXT)


class StoredValues(AwaitableArray):
    """An array that xarray reads with its three kinds of indexers."""

    def __init__(self, array: Array | View) -> None:
        self._array = array
        self.shape = array.shape
        is_text = array.dtype.kind == "T"
        self.dtype = array.dtype if not is_text else TEXT if keeps_text() else OBJECTS

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        by_points = isinstance(key, indexing.VectorizedIndexer)
        by_axis = isinstance(key, indexing.OuterIndexer)
        indexed: Any = self._array
        indexed = indexed.vindex if by_points else indexed.oindex if by_axis else indexed

        def read(selection: Any) -> Any:
            is_text = self._array.dtype.kind == "T"
            values = extension.as_plain(indexed[selection])
            return np.asarray(values, self.dtype) if is_text else values

        support = indexing.IndexingSupport.VECTORIZED
        return indexing.explicit_indexing_adapter(key, self.shape, support, read)


def codec_encoding(array: Array) -> dict[str, Any]:
    """Return the options of `create_array` for an array with the same codecs.

    They are objects of numcodecs for formats with its codec ids, such as version 2, and JSON with
    the codec names of version 3 for the others.
    """
    model, format = extension.model_of(array), location_of(array).format
    if not format.codecs_by_id:
        with suppress(CannotExpress):
            model = model.with_(codecs=formats.codec_names.to_names(model))
        groups = specify.pipeline(model)
        return {
            "filters": tuple(map(_json, groups.filters)),
            "serializer": _serializer(groups.serializer, array.dtype),
            "compressors": tuple(map(_json, groups.compressors)),
        }
    order, steps, _ = extension.formats.codec_names.to_ids(model, format.name)
    plain = [s for s in steps if s["id"] not in _OBJECT_CODECS]
    filters, compressor = extension.formats.codec_names.split_compressor(plain)
    found: dict[str, Any] = {"compressors": () if compressor is None else (_object(compressor),)}
    if filters or plain == steps:  # without filters, writers choose the object codec
        found["filters"] = tuple(map(_object, filters or ()))
    if order == "F":
        found["order"] = order
    return found


def _serializer(codec: extension.Named | None, dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """Return the serializer with its byte order, which the draft keeps in the data type."""
    if codec is None:
        return None
    found = _json(codec)
    if codec.name == "bytes" and "endian" not in codec.configuration:
        little = dtype.newbyteorder("<") == dtype
        if dtype.newbyteorder("S") != dtype:  # not of single bytes
            found["configuration"]["endian"] = "little" if little else "big"
    return found


def _json(codec: extension.Named) -> dict[str, Any]:
    return {"name": codec.name, "configuration": dict(codec.configuration)}


def _object(configuration: dict[str, Any]) -> Any:
    """Return the codec of numcodecs, or its configuration if numcodecs does not know it."""
    try:
        return numcodecs.get_codec(configuration)
    except (ValueError, TypeError):
        return configuration
