"""Write datasets of xarray; ``xarray.open_dataset(path, engine="omnizarr")`` reads them.

>>> import omnizarr.xarray
>>> dataset.omnizarr.to("ocean.zarr")
>>> more.omnizarr.to("ocean.zarr", append_dim="time")
>>> omnizarr.xarray.write(dataset, "copy.zarr", zarr_format=2)

Importing this module adds the method ``omnizarr.to`` to xarray's datasets, arrays and trees.
"""

from omnizarr.errors import MissingModule

try:
    from omnizarr.integrations.xarray.engine import Engine
    from omnizarr.integrations.xarray.write import write
except ModuleNotFoundError as e:
    raise MissingModule(f"datasets need xarray: pip install 'omnizarr[xarray]' ({e})") from e

__all__ = ["Engine", "write"]
