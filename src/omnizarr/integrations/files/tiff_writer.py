"""Write TIFF files: an array as pages of its last two axes, an image as OME-TIFF with its levels.

Pages are compressed by Deflate. OME-TIFF files are tiled, and levels are sub-images of the finest
one, as Bio-Formats and QuPath read them. Files of more than 4 GB are BigTIFF. The file is written
from the first page to the last; a few pages are in memory at a time.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.conventions.ome.image import Image, load
from omnizarr.conventions.ome.plate import open as open_ome
from omnizarr.conventions.ome.versions import NEWEST, to_attributes
from omnizarr.data_types.data_type import as_plain
from omnizarr.errors import CannotExpress, MissingModule
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group
from omnizarr.integrations.files.ome_xml import xml_metadata
from omnizarr.integrations.files.writing import FileWriter
from omnizarr.model import paths
from omnizarr.ops.fill import COPIES, Filled, cast
from omnizarr.ops.job import Task, task_id
from omnizarr.ops.partition import read_axes

try:
    import tifffile
except ImportError as e:
    raise MissingModule(f"TIFF files need tifffile: pip install 'omnizarr[tiff]' ({e})") from e

TILE = 512
_LARGE = 2**32 - 2**25  # bytes from which a file must be BigTIFF
_OME_TYPES = ("i1", "i2", "i4", "u1", "u2", "u4", "f4", "f8", "c8", "c16")


@dataclass
class TiffWriter(FileWriter):
    """Write one array, or the finest level of an image, as a TIFF file."""

    levels: list[Array] = field(default_factory=list)
    image: Image | None = None

    def check(self) -> None:
        """Raise if there is no array that TIFF can hold."""
        if isinstance(self.node, Group):
            if load(self.node) is None:
                self.one_array(".tif")
            found = open_ome(self.node.store, path=self.node.path)
            if not isinstance(found, Image):
                raise CannotExpress(f"{found!r} is not a single image; give the path of one")
            self.image, self.levels = found, list(found.levels)
            self.groups = {}
            self._report_image(found)
        else:
            self.levels = [self.one_array(".tif")]
        first = self.levels[0]
        self.arrays = {first.path: first}
        dtype = self.type_of(first)
        if dtype.kind not in "biufc" or first.ndim < 2 or 0 in first.shape:
            raise CannotExpress(
                f"{first.name} of shape {first.shape} and type {dtype} cannot be a TIFF file:"
                " it holds numbers with at least two axes"
            )
        if first.shape[-1] == 1 and first.nbytes > max(self.memory, 2**20):
            raise CannotExpress(f"{first.name} has a last axis of length 1; move it to the front")
        if dtype.kind == "b":
            self.notes.append("booleans are written as bytes 0 and 1")

    def _report_image(self, image: Image) -> None:
        """Report what is part of an image, and not of a TIFF file."""
        inner = {paths.normalize(dataset.path) for dataset in image.multiscale.datasets}
        for name in image.labels:
            labels = f"labels/{paths.normalize(name)}"
            found = {path for path in self.arrays if path.startswith(f"{labels}/")}
            if found:  # otherwise they are excluded
                self.skipped[labels] = "a TIFF file has no labels; export them by their path"
            inner |= found
        for path in sorted(self.arrays.keys() - inner):
            self.skipped[path] = "it is not a level of the image"
        if any(image.transform().offset):
            self.skipped["translation"] = "a TIFF file has no position of the first pixel"
        if image.label is not None and (image.label.colors or image.label.properties):
            self.skipped["colours and properties of labels"] = "a TIFF file has none"
        own = [*to_attributes({}, NEWEST, image.group.attrs.asdict())][1:]
        own += [f"{a.name}: {name}" for a in self.levels for name in self.attributes_of(a)]
        if own:
            self.skipped["attributes"] = f"a TIFF file of an image has none: {', '.join(own)}"
        self._report_description(image)

    def _report_description(self, image: Image) -> None:
        """Report what only OME-TIFF can say of an image."""
        if len(self.levels) > 1:
            self.skipped["coarser levels"] = "a .tif file has one; write an .ome.tif file"
        has_sizes = any(s != 1 for s in image.scale) or any(a.unit for a in image.axes)
        for what, there in (("pixel sizes", has_sizes), ("channels", bool(image.channels))):
            if there:
                self.skipped[what] = "a .tif file has none; write an .ome.tif file"

    def prepare(self, file: str) -> None:
        """Make an empty file."""
        with open(file, "wb"):
            pass

    def tasks(self, file: str) -> Iterator[Task[Filled]]:
        """Yield one task, which writes all pages."""
        first = self.levels[0]
        work = WritePages(
            tuple(self._levels()), file, self._type(), self._metadata(), self._is_ome(),
            self.compression is not None, self.memory // COPIES,
        )  # fmt: skip
        yield Task(task_id("export", first.path), work, self.size, os.path.basename(file))

    def _levels(self) -> list[Array]:
        return self.levels[:1]

    def _is_ome(self) -> bool:
        return False

    def _type(self) -> np.dtype[Any]:
        dtype = self.type_of(self.levels[0])
        return np.dtype("u1") if dtype.kind == "b" else dtype

    def _metadata(self) -> dict[str, Any]:
        first = self.levels[0]
        names = list(first.dimension_names or ())
        attributes = {} if self.image is not None else self.attributes_of(first)
        described: dict[str, Any] = {"array_shape": list(first.shape)}
        if attributes:
            described["attributes"] = attributes
        if any(names):
            described["dimension_names"] = names
        return described


@dataclass
class OmeTiffWriter(TiffWriter):
    """Write an image with its levels, or an array with the axes of an image, as OME-TIFF."""

    def check(self) -> None:
        """Raise if the axes or the type are not those of an image; report what is left out."""
        super().check()
        first = self.levels[0]
        if self._axes() is None:
            raise CannotExpress(
                f"{first.name} has the axes {self._names()}, not some of t, c, z, y, x;"
                " write a .tif file instead"
            )
        if self._type().str[1:] not in _OME_TYPES:
            raise CannotExpress(
                f"{first.name} has the type {self._type()}, which OME-TIFF does not have; give"
                " another dtype, or write a .tif file"
            )
        if self.image is None and (attributes := self.attributes_of(first)):
            names = ", ".join(attributes)
            self.skipped["attributes"] = f"OME-TIFF has none: {names}; a .tif file keeps them"
        self._metadata()

    def _report_description(self, image: Image) -> None:
        """Report what OME-TIFF cannot say of an image."""
        for number, array in enumerate(self.levels):
            if array.shape[:-2] != self.levels[0].shape[:-2]:
                why = f"it is smaller along {self._shorter(array)}, which OME-TIFF does not allow"
                self.skipped[f"level {number}"] = why
        omero = image.metadata.omero
        if omero is None:
            return
        count = dict(zip(self._names(), image.shape, strict=True)).get("c", 1)
        if len(omero.channels) != count:
            text = f"there are {len(omero.channels)}, but the image has {count}"
            self.skipped["channels"] = text
        if omero.extra or any(c.window or c.extra or c.active is False for c in omero.channels):
            self.notes.append("OME-TIFF has no display settings of channels, only colours")

    def _shorter(self, array: Array) -> str:
        lengths = zip(self._names(), array.shape, self.levels[0].shape, strict=True)
        return " and ".join(name for name, n, first in lengths if n < first and name not in "yx")

    def _names(self) -> list[str]:
        if self.image is not None:
            return [a.name for a in self.image.axes]
        first = self.levels[0]
        return [n or "?" for n in first.dimension_names or "tczyx"[-first.ndim :]]

    def _axes(self) -> str | None:
        names = self._names()
        known = all(len(n) == 1 and n in "tczyx" for n in names)
        unique = len(set(names)) == len(names) == self.levels[0].ndim
        return "".join(names).upper() if known and unique and names[-2:] == ["y", "x"] else None

    def _is_ome(self) -> bool:
        return True

    def _levels(self) -> list[Array]:
        """Return the levels that differ from the finest one along y and x only."""
        return [a for a in self.levels if a.shape[:-2] == self.levels[0].shape[:-2]]

    def _metadata(self) -> dict[str, Any]:
        described: dict[str, Any] = {"axes": self._axes()}
        if self.image is None:
            return described
        axes = self.image.axes
        sizes = {a.name: s for a, s in zip(axes, self.image.scale, strict=True)}
        units = {a.name: a.unit for a in axes}
        channels = self.image.channels
        count = dict(zip(self._names(), self.image.shape, strict=True)).get("c", 1)
        found = xml_metadata(
            self.image.name, sizes, units, channels if len(channels) == count else (), self.skipped
        )
        return {**found, **described}


@dataclass(frozen=True)
class WritePages:
    """Copy an array, and its coarser levels, into a TIFF file."""

    levels: tuple[Array, ...]
    file: str
    dtype: np.dtype[Any]
    metadata: dict[str, Any]
    ome: bool
    compressed: bool
    memory: int

    def __call__(self) -> Filled:
        first = self.levels[0]
        size = sum(math.prod(a.shape) for a in self.levels) * self.dtype.itemsize
        options: dict[str, Any] = {
            "dtype": self.dtype,
            "photometric": "minisblack",
            "compression": "zlib" if self.compressed else None,
        }
        names = first.dimension_names or ()
        colour = not self.ome and names[-1:] == ("s",) and first.shape[-1] in (3, 4)
        if colour and first.ndim > 2 and self.dtype.kind == "u":
            options |= {"photometric": "rgb", "planarconfig": "contig"}
        else:
            colour = False
        inner = 3 if colour else 2
        with tifffile.TiffWriter(
            self.file, bigtiff=size > _LARGE, ome=self.ome, shaped=not self.ome
        ) as out:
            for number, array in enumerate(self.levels):
                length, width = array.shape[array.ndim - inner : array.ndim - inner + 2]
                page = math.prod(array.shape[-inner:]) * self.dtype.itemsize
                tile = None
                if self.ome or page > self.memory:
                    tile = min(TILE, -(-length // 16) * 16), min(TILE, -(-width // 16) * 16)
                own = dict(options)
                if number == 0:
                    own["metadata"] = self.metadata
                    if len(self.levels) > 1:
                        own["subifds"] = len(self.levels) - 1
                else:
                    own |= {"subfiletype": 1, "metadata": None}
                if width == 1:  # then tifffile arranges pages in its own way
                    out.write(self._read(array, ()), **own)
                else:
                    parts = self._parts(array, inner, tile)
                    out.write(parts, shape=array.shape, tile=tile, **own)
        return Filled(bytes_read=size)

    def _parts(
        self, array: Array, inner: int, tile: tuple[int, int] | None
    ) -> Iterator[npt.NDArray[Any]]:
        """Yield pages, or the tiles of each page from left to right, from top to bottom."""
        for page in self._pages(array, inner, tile):
            if tile is None:
                yield page
                continue
            for row, column in itertools.product(
                range(0, page.shape[0], tile[0]), range(0, page.shape[1], tile[1])
            ):
                part = page[row : row + tile[0], column : column + tile[1]]
                if part.shape[:2] != tile:
                    whole = np.zeros((*tile, *part.shape[2:]), part.dtype)
                    whole[: part.shape[0], : part.shape[1]] = part
                    part = whole
                yield np.ascontiguousarray(part)

    def _pages(
        self, array: Array, inner: int, tile: tuple[int, int] | None
    ) -> Iterator[npt.NDArray[Any]]:
        """Yield pages, or bands of whole tiles of pages that do not fit into memory.

        Several pages that share chunks are read together.
        """
        outer = array.ndim - inner
        shape = array.shape
        page = math.prod(shape[outer:]) * self.dtype.itemsize
        together = 1
        if outer:
            together = int(read_axes(array)[outer - 1].size(0))
            together = max(1, min(together, self.memory // max(1, page)))
        rows = shape[outer]
        if tile is not None and page > self.memory:
            band = page // max(1, shape[outer])
            rows = max(tile[0], self.memory // max(1, band) // tile[0] * tile[0])
        if rows < shape[outer]:  # a page does not fit
            for index in itertools.product(*(range(n) for n in shape[:outer])):
                for row in range(0, shape[outer], rows):
                    yield self._read(array, (*index, slice(row, row + rows)))
            return
        if not outer:
            yield self._read(array, ())
            return
        for index in itertools.product(*(range(n) for n in shape[: outer - 1])):
            for start in range(0, shape[outer - 1], together):
                yield from self._read(array, (*index, slice(start, start + together)))

    def _read(self, array: Array, box: tuple[Any, ...]) -> npt.NDArray[Any]:
        values = as_plain(array[box])
        if values.dtype.kind == "b" and self.dtype.kind == "u":
            return values.astype(self.dtype)
        return cast(values, self.dtype, array.name)
