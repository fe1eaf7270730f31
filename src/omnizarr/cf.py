"""CF and the NetCDF data model: datasets with dimensions, decoded values and times.

>>> import omnizarr as oz
>>> ocean = oz.cf.create("ocean.zarr")
>>> packed = {"scale_factor": 0.5, "add_offset": 10.0}
>>> salt = ocean.create_variable(
...     "salt", [10.5, 11], dimensions=["depth"], dtype="i2", attributes=packed
... )
>>> oz.cf.open("ocean.zarr")["salt"][:]
array([10.5, 11. ])
"""

from omnizarr.conventions.cf.dataset import Dataset, create, open
from omnizarr.conventions.cf.variable import Variable, decode

__all__ = ["Dataset", "Variable", "create", "decode", "open"]
