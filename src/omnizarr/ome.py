"""OME-Zarr: images, labels and plates from microscopes.

>>> import omnizarr as oz
>>> volume = np.zeros((8, 64, 64), "u2")
>>> image = oz.ome.write(
...     "cell.ome.zarr", volume, axes="zyx", scale=(0.5, 0.1, 0.1), unit="micrometer"
... )
>>> image = oz.ome.open("cell.ome.zarr")
>>> image.read({"y": (1, 5), "x": (1, 5)}, unit="micrometer").shape
(8, 40, 40)
"""

from omnizarr.conventions.ome.image import Image, Labels, Plate, Series, Well, open
from omnizarr.conventions.ome.model import (
    Acquisition,
    Axis,
    Channel,
    ImageLabel,
    Metadata,
    Multiscale,
    Transform,
)
from omnizarr.conventions.ome.versions import VERSIONS, Version
from omnizarr.conventions.ome.write import write, write_labels, write_plate
from omnizarr.conventions.validate import validate

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
    "validate",
    "write",
    "write_labels",
    "write_plate",
]
