"""``dataset.omnizarr.to(path)``: writing as a method of what xarray has."""

from __future__ import annotations

from typing import Any

import xarray as xr

from omnizarr.integrations.xarray_write import write


@xr.register_datatree_accessor("omnizarr")
@xr.register_dataarray_accessor("omnizarr")
@xr.register_dataset_accessor("omnizarr")
class Accessor:
    """What omnizarr adds to datasets, arrays and trees of xarray."""

    def __init__(self, data: xr.Dataset | xr.DataArray | xr.DataTree) -> None:
        self._data = data

    def to(self, store: Any, **options: Any) -> Any:
        """Store it, and give back the group; see `omnizarr.xarray.write` for the options."""
        return write(self._data, store, **options)
