"""The xarray engine: ``xarray.open_dataset(path, engine="omnizarr")``.

Every array of a group is a variable, of which only the chunks that are used are read. A single
array is a dataset with one variable.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import xarray as xr
from xarray.backends import BackendEntrypoint, StoreBackendEntrypoint

from omnizarr import Array
from omnizarr.errors import WrongNode
from omnizarr.interop.xarray.read import Stored, name_of, open_stored, unpack_in_place
from omnizarr.interop.xarray.write import write


class Engine(BackendEntrypoint):
    """Reads datasets and trees of every Zarr format with omnizarr."""

    description = "Open Zarr of every version with omnizarr"
    supports_groups = True

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
        """Open a group, or a single array, as a dataset.

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
        return _decoded(
            stored,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

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
    lazy = {name: a for name, a in stored.arrays.items() if name not in stored.loaded}
    unpack_in_place(dataset, lazy)
    return dataset


@xr.register_datatree_accessor("omnizarr")
@xr.register_dataarray_accessor("omnizarr")
@xr.register_dataset_accessor("omnizarr")
class Accessor:
    """The methods that omnizarr adds to xarray's datasets, arrays and trees."""

    def __init__(self, data: xr.Dataset | xr.DataArray | xr.DataTree) -> None:
        self._data = data

    def to(self, store: Any, **options: Any) -> Any:
        """Store the data and return the group; see `omnizarr.xarray.write` for the options."""
        return write(self._data, store, **options)
