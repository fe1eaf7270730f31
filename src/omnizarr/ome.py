"""OME-Zarr: images, labels and plates of microscopes.

>>> import omnizarr as oz
>>> image = oz.ome.open("cell.ome.zarr")
>>> image.read({"y": (10, 50), "x": (10, 50)}, unit="micrometer")
>>> oz.ome.write("new.ome.zarr", volume, axes="zyx", scale=(0.5, 0.1, 0.1), unit="micrometer")
"""

from omnizarr.conventions.ome.image import Image, Labels
from omnizarr.conventions.ome.model import (
    Acquisition,
    Axis,
    Channel,
    ImageLabel,
    Metadata,
    Multiscale,
    Transform,
)
from omnizarr.conventions.ome.open import open
from omnizarr.conventions.ome.plate import Plate, Series, Well
from omnizarr.conventions.ome.versions import VERSIONS, Version
from omnizarr.ops.ome_write import write

__all__ = [
    "VERSIONS",
    "Acquisition",
    "Axis",
    "Channel",
    "Image",
    "ImageLabel",
    "Labels",
    "Metadata",
    "Multiscale",
    "Plate",
    "Series",
    "Transform",
    "Version",
    "Well",
    "open",
    "write",
]
