"""Maps: coordinate reference systems, affine transforms, pyramids.

>>> import omnizarr as oz
>>> heights = np.zeros((180, 360), "f4")
>>> earth = oz.geo.write("earth.zarr", heights, crs="EPSG:4326", bounds=(-180, -90, 180, 90))
>>> oz.geo.open("earth.zarr").read((5, 45, 15, 55)).shape
(10, 10)
"""

from omnizarr.conventions.geo.crs import CRS, read_crs, write_crs
from omnizarr.conventions.geo.map import Level, Map, open
from omnizarr.conventions.geo.transform import Affine, read_transform
from omnizarr.conventions.geo.write import write

__all__ = [
    "CRS",
    "Affine",
    "Level",
    "Map",
    "open",
    "read_crs",
    "read_transform",
    "write",
    "write_crs",
]
