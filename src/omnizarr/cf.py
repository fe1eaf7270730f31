"""CF and the NetCDF data model: datasets with dimensions, decoded values and times.

>>> import omnizarr as oz
>>> ocean = oz.cf.open("ocean.zarr")
>>> ocean.dimensions, ocean["time"][:3]
>>> oz.cf.decode(oz.open("ocean.zarr/temp"))[0, ::10]
"""

from omnizarr.conventions.cf.dataset import Dataset, create, open
from omnizarr.conventions.cf.packing import Packing
from omnizarr.conventions.cf.times import Times
from omnizarr.conventions.cf.variable import Decoding, Variable, decode

__all__ = ["Dataset", "Decoding", "Packing", "Times", "Variable", "create", "decode", "open"]
