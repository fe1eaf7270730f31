"""The engine of xarray: ``xarray.open_dataset(path, engine="omnizarr")``.

Every array of a group is a variable, and it is read when it is used, only the chunks that are
needed. A single array is a dataset of one variable. Axes without names are called after the
variable, ``<variable>_dim_<number>``.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from omnizarr.conventions.cf.fill import decode_fill
from omnizarr.errors import InvalidMetadata, MissingPackage
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.create import open as open_node
from omnizarr.hierarchy.group import Group

try:
    import xarray as xr
    from xarray.backends import (
        AbstractDataStore,
        BackendArray,
        BackendEntrypoint,
        StoreBackendEntrypoint,
    )
    from xarray.core import indexing
except ImportError as e:
    raise MissingPackage("datasets need xarray: pip install xarray") from e

_HIDDEN = re.compile(r"_ARRAY_DIMENSIONS\Z|_nc", re.IGNORECASE)
TEXT = np.dtype("O", metadata={"element_type": str})  # what xarray calls text of any length


class Engine(BackendEntrypoint):
    """Reads datasets and trees of every Zarr format with omnizarr."""

    description = "Open Zarr of every version with omnizarr"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether a path needs no ``engine``: where zarr-python would not open it."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj).rstrip("/")
        return name.endswith(".zarr.zip") or (name.endswith(".zarr") and not find_spec("zarr"))

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        consolidated: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
        zarr_format: int | str | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
    ) -> xr.Dataset:
        """The variables of a group, or of a single array.

        `consolidated`: None uses consolidated metadata where there are any, True fails where
        there are none, False reads the documents of every array. `use_zarr_fill_value_as_mask`:
        whether the fill value marks missing values; None: in all formats but version 3, which
        has the attribute ``_FillValue`` for it.
        """
        node = open_stored(filename_or_obj, group, consolidated, storage_options, zarr_format)
        arrays = {name_of(node): node} if isinstance(node, Array) else dict(node.arrays())
        attributes = {} if isinstance(node, Array) else node.attrs.asdict()
        stored = Stored(arrays, attributes, use_zarr_fill_value_as_mask)
        return StoreBackendEntrypoint().open_dataset(
            stored,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """A group with all groups below it as a tree of datasets."""
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
        """The datasets of a group and of all below it by path; the group itself is ``/``."""
        node = open_stored(filename_or_obj, group, consolidated, storage_options, zarr_format)
        if isinstance(node, Array):
            raise InvalidMetadata(f"{node.name} is an array, not a group; use open_dataset")
        found = {"": Stored({}, node.attrs.asdict(), use_zarr_fill_value_as_mask)}
        for path, member in node.members(max_depth=None):
            parent, _, name = path.rpartition("/")
            if isinstance(member, Array):
                found[parent].arrays[name] = member
            else:
                attributes = member.attrs.asdict()
                found[path] = Stored({}, attributes, use_zarr_fill_value_as_mask)
        entry = StoreBackendEntrypoint()
        return {f"/{path}": entry.open_dataset(s, **decoding) for path, s in found.items()}


def open_stored(
    place: Any,
    group: str | None,
    consolidated: bool | None,
    storage_options: Mapping[str, Any] | None,
    zarr_format: int | str | None,
) -> Array | Group:
    """The group or array to read, by its consolidated metadata as far as asked for."""
    where = os.path.expanduser(place) if isinstance(place, str) else place
    root: Any = None
    options: Any = {"storage_options": storage_options, "zarr_format": zarr_format}
    if consolidated is not False:
        try:
            root = open_node(where, "r", use_consolidated=True, **options)
        except InvalidMetadata:
            if consolidated:
                raise
    if root is None or (isinstance(root, Array) and group):
        return open_node(where, "r", path=group, use_consolidated=False, **options)
    found: Array | Group = root[group.strip("/")] if group and group.strip("/") else root
    return found


def name_of(array: Array) -> str:
    """The name of a variable for an array that is opened on its own."""
    last = array.basename or re.split(r"[\\/]", str(array.store).rstrip("/"))[-1]
    return re.sub(r"(\.zarr)?(\.zip)?\Z", "", last) or "array"


@dataclass(eq=False)
class Stored(AbstractDataStore):  # type: ignore[misc]  # xarray's class is not typed
    """Arrays and attributes as xarray asks for them."""

    arrays: dict[str, Array]
    attributes: dict[str, Any]
    fill_masks: bool | None = None
    closed: list[Any] = field(default_factory=list)

    def get_variables(self) -> dict[str, xr.Variable]:
        return {name: variable(name, a, self.fill_masks) for name, a in self.arrays.items()}

    def get_attrs(self) -> dict[str, Any]:
        return {k: v for k, v in self.attributes.items() if not _HIDDEN.match(k)}

    def get_dimensions(self) -> dict[str, int]:
        pairs = ((dimensions(n, a), a.shape) for n, a in self.arrays.items())
        return {d: n for dims, shape in pairs for d, n in zip(dims, shape, strict=True)}

    def close(self) -> None:
        """Nothing is held open that needs closing."""


def variable(name: str, array: Array, fill_masks: bool | None = None) -> xr.Variable:
    """An array as a variable that is not decoded yet, and is read when it is used."""
    dims = dimensions(name, array)
    attributes = {k: v for k, v in array.attrs.asdict().items() if not _HIDDEN.match(k)}
    blocks = array.shards or array.chunks
    encoding = {
        "chunks": array.chunks,
        "preferred_chunks": dict(zip(dims, blocks, strict=True)),
        "shards": array.shards,
        "filters": array.filters,
        "serializer": array.serializer,
        "compressors": array.compressors,
    }
    by_format = array._location.format.fill_masks
    if not by_format:
        encoding["fill_value"] = array.fill_value
    if by_format if fill_masks is None else fill_masks:
        if array.fill_value is not None:
            attributes["_FillValue"] = array.fill_value
    elif "_FillValue" in attributes:
        attributes["_FillValue"] = decode_fill(attributes["_FillValue"], array.dtype)
    return xr.Variable(dims, indexing.LazilyIndexedArray(Lazy(array)), attributes, encoding)


def dimensions(name: str, array: Array) -> tuple[str, ...]:
    """The names of the axes; one for each that has none."""
    stated = array.dimension_names or (None,) * array.ndim
    return tuple(d or f"{name}_dim_{i}" for i, d in enumerate(stated))


class Lazy(BackendArray):  # type: ignore[misc]  # xarray's class is not typed
    """An array that xarray reads from by its three kinds of indices."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = TEXT if array.dtype.kind == "T" else array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        by_points = isinstance(key, indexing.VectorizedIndexer)
        by_axis = isinstance(key, indexing.OuterIndexer)
        way: Any = self._array
        way = way.vindex if by_points else way.oindex if by_axis else way

        def read(selection: Any) -> Any:
            values = np.asarray(way[selection])
            return values.astype(object) if values.dtype.kind == "T" else values

        support = indexing.IndexingSupport.VECTORIZED
        return indexing.explicit_indexing_adapter(key, self.shape, support, read)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """The same in another thread, for ``load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)
