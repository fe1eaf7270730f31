"""Write TIFF files: an array as pages of its last two axes, an image as OME-TIFF with its levels.

Pages are compressed by Deflate. OME-TIFF files are tiled, and levels are sub-images of the finest
one, as Bio-Formats and QuPath read them. Files of more than 4 GB are BigTIFF. The file is written
from the first page to the last; a few pages are in memory at a time.

A map is written as GeoTIFF (OGC 19-008r4), with its bands in one page and its coarser levels as
overviews. Its no-data value, scale, offset, units and names are in the tags of GDAL.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import Array, Group
from omnizarr.bulk.journal import Task, task_id
from omnizarr.bulk.tiles import chunk_axes
from omnizarr.bulk.transfer import COPIES, Filled, cast
from omnizarr.conventions.geo.map import Map
from omnizarr.conventions.geo.map import open as open_map
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.image import open as open_ome
from omnizarr.conventions.ome.rules import load
from omnizarr.conventions.ome.versions import NEWEST, is_image, to_attributes
from omnizarr.errors import CannotExpress
from omnizarr.extension import as_plain, paths
from omnizarr.interop.files.contents import required
from omnizarr.interop.files.exporting import FileWriter
from omnizarr.interop.files.geotiff import is_colour, place_tags, value_tags
from omnizarr.interop.files.ome_xml import xml_metadata

tifffile = required("tifffile", "tiff")

TILE = 512
_BANDS = {"s", "band", "bands"}  # names of the axis of bands; s are the samples of a pixel
_LARGE = 2**32 - 2**25  # bytes from which a file must be BigTIFF
_OME_TYPES = ("i1", "i2", "i4", "u1", "u2", "u4", "f4", "f8", "c8", "c16")


@dataclass
class TiffWriter(FileWriter):
    """Write one array, or the finest level of an image, as a TIFF file."""

    levels: list[Array] = field(default_factory=list)
    image: Image | None = None
    map: Map | None = None  # what is written as GeoTIFF
    tags: list[Any] = field(default_factory=list)
    is_ome = False

    def check(self) -> None:
        """Raise if there is no array that TIFF can hold."""
        found_map = _map_of(self.node)
        if isinstance(self.node, Group) and found_map is not None:
            self.levels = [level.array for level in found_map.levels]
            self.groups = {}
        elif isinstance(self.node, Group):
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
        if self.image is None:
            self._describe(found_map)

    def _describe(self, found: Map | None) -> None:
        """Make the tags for the map's place and its numbers' meaning; report what has no tag."""
        first = self.levels[0]
        if found is not None:
            finest = found.levels[0]
            placed = found.crs is not None or finest.transform is not None
            axes = (0, 1) if _bands_last(found, first) else (first.ndim - 2, first.ndim - 1)
            names = {*(first.dimension_names or ())}
            counts = isinstance(self.node, Group) or bool(names & _BANDS)  # as a map
            is_flat = (finest.rows, finest.columns) == axes and first.ndim <= 3
            if placed and self.is_ome:
                self.skipped["place on the Earth"] = "OME-TIFF has none; write a .tif file"
            elif placed and not is_flat:
                self.skipped["place on the Earth"] = (
                    f"a GeoTIFF has rows, columns and bands, not the axes {first.dimension_names}"
                )
            elif is_flat and not self.is_ome and (placed or counts):
                self.map = found
                self.tags = place_tags(found, self.skipped)
        if len(self.levels) > len(self._levels()):
            self.skipped["coarser levels"] = "the file has only levels that GDAL can find"
        if not self.is_ome:
            self.tags += value_tags(first, self._type(), self._bands(), self.skipped)

    def _bands(self) -> int:
        first = self.levels[0]
        if self.map is None or first.ndim == 2:
            return 1
        return first.shape[-1 if _bands_last(self.map, first) else 0]

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
            tuple(self._levels()), file, self._type(), self._metadata(), self.is_ome,
            self.compression is not None, self.memory // COPIES, tuple(self.tags),
            None if self.map is None else _bands_last(self.map, first),
        )  # fmt: skip
        yield Task(task_id("export", first.path), work, self.size, os.path.basename(file))

    def _levels(self) -> list[Array]:
        if self.map is None:
            return self.levels[:1]
        finest = self.map.levels[0]
        kept = [finest.array]
        for level in self.map.levels[1:]:
            here, there = level.transform, finest.transform
            same = here is None or there is None or (here.c, here.f) == (there.c, there.f)
            if same and len(level.array.shape) == len(finest.array.shape):
                kept.append(level.array)
        return kept

    def _type(self) -> np.dtype[Any]:
        dtype = self.type_of(self.levels[0])
        return np.dtype("u1") if dtype.kind == "b" else dtype

    def _metadata(self) -> dict[str, Any]:
        first = self.levels[0]
        names = list(first.dimension_names or ())
        attributes = {} if self.image is not None else self.attributes_of(first)
        if self.map is not None:
            attributes.pop("grid_mapping", None)  # it names a variable that is not in the file
        described: dict[str, Any] = {"array_shape": list(first.shape)}
        if attributes:
            described["attributes"] = attributes
        if any(names):
            described["dimension_names"] = names
        return described


def _map_of(node: Array | Group) -> Map | None:
    """Return the node as a map; None if it is an image or neither."""
    multiscales = node.attrs.get("multiscales")
    if isinstance(node, Group):
        first = multiscales[0] if isinstance(multiscales, list) and multiscales else None
        if isinstance(first, Mapping) and "axes" in first:
            return None
        if not isinstance(first, Mapping) and not isinstance(multiscales, Mapping):
            return None
    elif node.ndim < 2:
        return None
    found = open_map(node.store, path=node.path)
    if isinstance(node, Array) or isinstance(multiscales, Mapping):
        return found
    placed = found.crs is not None or found.bounds is not None
    # Of the version that both conventions have, images have five axes.
    is_map = placed or not is_image(node.attrs, node.zarr_format)
    return found if is_map or found.levels[0].array.ndim != 5 else None


def _bands_last(found: Map | None, array: Array) -> bool:
    """Return True if the bands of a map are its last axis."""
    if found is None or array.ndim != 3:
        return False
    return (found.levels[0].rows, found.levels[0].columns) == (0, 1)


@dataclass
class OmeTiffWriter(TiffWriter):
    """Write an image with its levels, or an array with the axes of an image, as OME-TIFF."""

    is_ome = True

    def check(self) -> None:
        """Raise if OME-TIFF does not allow the axes or the type; report what is left out."""
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
    tags: tuple[Any, ...] = ()
    bands_last: bool | None = None  # None if it is not a GeoTIFF, whose bands are in one page

    def __call__(self) -> Filled:
        first = self.levels[0]
        size = sum(math.prod(a.shape) for a in self.levels) * self.dtype.itemsize
        options: dict[str, Any] = {
            "dtype": self.dtype,
            "photometric": "minisblack",
            "compression": "zlib" if self.compressed else None,
        }
        geo = self.bands_last is not None
        colour = not self.ome and self.dtype.kind == "u" and is_colour(first)
        if self.bands_last is not None:
            colour = self.bands_last and first.shape[-1] > 1
            if colour or (first.ndim == 3 and first.shape[0] > 1 and not self.bands_last):
                options["planarconfig"] = "contig" if colour else "separate"
                if is_colour(first):
                    options["photometric"] = "rgb"
                else:
                    count = first.shape[-1 if colour else 0]
                    options["extrasamples"] = ["unspecified"] * (count - 1)
        elif colour:
            options |= {"photometric": "rgb", "planarconfig": "contig"}
        inner = 3 if colour else 2
        with tifffile.TiffWriter(
            self.file, bigtiff=size > _LARGE, ome=self.ome, shaped=not self.ome and not geo
        ) as out:
            for number, array in enumerate(self.levels):
                length, width = array.shape[array.ndim - inner : array.ndim - inner + 2]
                page = math.prod(array.shape[-inner:]) * self.dtype.itemsize
                tile = None
                if self.ome or geo or page > self.memory:
                    tile = min(TILE, -(-length // 16) * 16), min(TILE, -(-width // 16) * 16)
                own = dict(options)
                if number == 0:
                    own["extratags"] = self.tags
                    own["metadata"] = None if geo else self.metadata
                    own["description"] = json.dumps(self.metadata) if geo else None
                    if len(self.levels) > 1:
                        own["subifds"] = len(self.levels) - 1
                else:
                    own |= {"subfiletype": 1, "metadata": None}
                if width == 1:  # then tifffile arranges pages in its own way
                    values = self._read(array, ())
                    out.write(values[..., 0] if self.bands_last and not colour else values, **own)
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
            together = int(chunk_axes(array)[outer - 1].size(0))
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
