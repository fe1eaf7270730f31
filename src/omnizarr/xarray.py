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

from omnizarr.errors import MissingModule

try:
    from omnizarr.interop.xarray.engine import Engine
    from omnizarr.interop.xarray.write import write
except ModuleNotFoundError as e:
    raise MissingModule(f"datasets need xarray: pip install 'omnizarr[xarray]' ({e})") from e

__all__ = ["Engine", "write"]
