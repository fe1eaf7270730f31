"""Write datasets of xarray; ``xarray.open_dataset(path, engine="omnizarr")`` reads them.

>>> import xarray
>>> import omnizarr.xarray
>>> dataset = xarray.Dataset({"salt": ("time", [34.5, 35.0])})
>>> group = dataset.omnizarr.to("ocean.zarr")
>>> group = dataset.omnizarr.to("ocean.zarr", append_dim="time")
>>> xarray.open_dataset("ocean.zarr", engine="omnizarr").sizes["time"]
4

Importing this module adds the method ``omnizarr.to`` to xarray's datasets, arrays and trees.
"""

from typing import Any

from omnizarr.errors import MissingModule

try:
    import xarray as xr

    from omnizarr.interop.xarray.engine import Engine
    from omnizarr.interop.xarray.write import write
except ModuleNotFoundError as e:
    raise MissingModule(f"datasets need xarray: pip install 'omnizarr[xarray]' ({e})") from e

__all__ = ["Engine", "write"]


@xr.register_datatree_accessor("omnizarr")  # type: ignore[no-untyped-call]
@xr.register_dataarray_accessor("omnizarr")  # type: ignore[no-untyped-call]
@xr.register_dataset_accessor("omnizarr")  # type: ignore[no-untyped-call]
class Accessor:
    """The methods that omnizarr adds to xarray's datasets, arrays and trees."""

    def __init__(self, data: xr.Dataset | xr.DataArray | xr.DataTree) -> None:
        self._data = data

    def to(self, store: Any, **options: Any) -> Any:
        """Store the data and return the group; see `omnizarr.xarray.write` for the options."""
        return write(self._data, store, **options)
