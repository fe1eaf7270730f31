"""Missing chunks: a read fills them, warns or raises.

Chunks are counted as the user knows them: in a sharded array those inside shards, whether the whole
shard is missing or only its chunk. ``raise-key`` raises only for values that the store does not
have: chunks that a stored shard leaves out are read as the fill value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import Region
from omnizarr.engine.binding import BoundArray
from omnizarr.errors import InvalidArgument, MissingChunk, warn
from omnizarr.indexing import Row
from omnizarr.model import paths

Coords: TypeAlias = tuple[int, ...]
Missing: TypeAlias = Literal["fill", "warn", "raise", "raise-key"]
CHOICES = ("fill", "warn", "raise", "raise-key")
SHOWN = 3  # chunks that a warning names


def check_missing(missing: object) -> None:
    """Raise if `missing` is none of the choices."""
    if missing not in CHOICES:
        raise InvalidArgument(f"missing must be one of {CHOICES}, got {missing!r}")


class FilledParts:
    """Collects the missing chunks of one read, or raises for the first."""

    def __init__(self, array: BoundArray, missing: Missing) -> None:
        check_missing(missing)
        self.array, self.missing, self.coords = array, missing, set[Coords]()

    def add(self, row: Row, boxes: list[Region] | None = None) -> None:
        """Add the chunks in boxes of a shard that are missing and that the row selects.

        None stands for all of a chunk, or shard, that the store does not have.
        """
        refused = self.missing == "raise" or (self.missing == "raise-key" and boxes is None)
        if boxes is None:
            boxes = [tuple(slice(0, s.stop) for s in row.region)]
        found = {coords for box in boxes for coords in self._coords_in(row, box)}
        if found and refused:
            raise self._error(row, min(found))
        self.coords |= found

    def finish(self, filled: list[Coords] | None) -> None:
        """Append the coordinates in order to `filled`, and warn if `missing` is "warn"."""
        coords = sorted(self.coords)
        if filled is not None:
            filled.extend(coords)
        if coords and self.missing == "warn":
            several = len(coords) > SHOWN
            names = ", ".join(map(str, coords[:SHOWN])) + (", …" if several else "")
            warn(
                f"{len(coords)} missing chunks of {paths.show(self.array.path)} in"
                f" {self.array.store!r} were read as the fill value"
                f" {self.array.fill[()]!r}: {names}"
            )

    def _coords_in(self, row: Row, box: Region) -> Iterator[Coords]:
        """Yield the chunks with an element that is both in the box and selected."""
        sizes = _inner_sizes(self.array, row.coords)
        if sizes is None:
            yield row.coords
            return
        starts = self.array.grid.origin(row.coords)
        if row.pick is None:
            at = [np.arange(r.start, r.stop, r.step) for r in row.region]
            at = [a[i] for a, i in zip(at, map(_inside, at, box), strict=True)]
            numbers = [(o + a) // n for a, o, n in zip(at, starts, sizes, strict=True)]
            yield from itertools.product(*(np.unique(n).tolist() for n in numbers))
            return
        picks = np.broadcast_arrays(*row.pick)
        at = [r.start + p.ravel() * r.step for r, p in zip(row.region, picks, strict=True)]
        inside = np.logical_and.reduce([*map(_inside, at, box)])
        numbers = [(o + a[inside]) // n for a, o, n in zip(at, starts, sizes, strict=True)]
        yield from map(tuple, np.unique(np.stack(numbers, axis=-1), axis=0).tolist())

    def _error(self, row: Row, coords: Coords) -> MissingChunk:
        array, path = self.array, paths.show(self.array.path)
        key = array.stored_key(row.coords)
        what = f"chunk {coords}"
        if coords != row.coords:
            what += f", in shard {row.coords},"
        return MissingChunk(
            f"{what} of {path} (key {key!r} in {array.store!r}) is missing; missing='fill' reads"
            f" the fill value {array.fill[()]!r} in its place",
            path=path,
            chunk=coords,
            key=key,
        )


def _inside(at: npt.NDArray[Any], box: slice) -> npt.NDArray[np.bool_]:
    """Return which positions along one axis are in a box."""
    found: npt.NDArray[np.bool_] = (box.start <= at) & (at < box.stop)
    return found


def _inner_sizes(array: BoundArray, coords: Coords) -> Coords | None:
    """Return the shape of chunks in a shard along the array's axes, or None without shards."""
    pipeline = array.pipeline_at(coords)
    inner = getattr(pipeline.array_bytes, "inner", None)
    if inner is None or pipeline.reshapes:
        return None
    sizes = [0] * len(pipeline.axes)
    for axis, size in zip(pipeline.axes, inner.spec.shape, strict=True):
        sizes[axis] = size
    return tuple(sizes)
