"""The tasks of rechunking: copy one box of values, or the bytes of a few chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.bulk.boxes import show_box
from omnizarr.bulk.journal import Outcome
from omnizarr.extension import (
    BoundArray,
    Entry,
    ValueCopy,
    as_type,
    axis_plan,
    data_types,
    engine,
    list_entries,
    paths,
    stored_keys,
    task_of,
)

Box = tuple[slice, ...]
Coords = tuple[int, ...]
Values = npt.NDArray[Any]
BATCH = 256  # chunks that one task copies at most
BATCH_BYTES = 2**24  # of the chunks of one task


@dataclass
class RechunkReport(Outcome):
    """The result of rechunking."""

    arrays: int = 0
    groups: int = 0
    # Arrays with a new layout, with what changed.
    rechunked: dict[str, str] = field(default_factory=dict)
    # Arrays that keep a part of their layout, with what does not fit them.
    kept: dict[str, str] = field(default_factory=dict)
    # Arrays of which other values are missing for xarray than before, with the reason.
    notes: dict[str, str] = field(default_factory=dict)
    # Boxes and their bytes in memory, of all passes.
    boxes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    # Chunks that were copied byte for byte, and their bytes.
    chunks_copied: int = 0
    bytes_copied: int = 0


@dataclass(frozen=True)
class Append:
    """The old part of an array that is appended to: chunks at the border keep its values."""

    array: BoundArray  # as it was
    axis: int
    length: int  # along the axis


@dataclass(frozen=True)
class Limit:
    """The tasks of a job that run at a time in a process, and the threads of each."""

    job: str
    tasks: int
    threads: int


@dataclass(frozen=True)
class CopyBox:
    """Copy a box from one array to another, as whole chunks of the target."""

    source: BoundArray
    target: BoundArray
    box: Box
    limit: Limit
    casting: str = "same_kind"
    append: Append | None = None

    def __call__(self) -> RechunkReport:
        threads = self.limit.tasks * self.limit.threads
        with task_of(self.limit.job, self.limit.tasks), config.configure(threads=threads):
            return self._copy()

    def _copy(self) -> RechunkReport:
        source, target = self.source, self.target
        append = self.append
        missing: list[Coords] | None = None if source.fill_defined else []
        if append is not None and self.box[append.axis].start < append.length:
            values = self._read_both(source, target, append)
        else:
            values = self._read(source, self.box, target.dtype, missing)
        if missing:
            self._write_present(source, target, values, {*missing})
        else:
            engine.write(target, axis_plan(target.grid, self.box), values)
        nbytes = values.size * source.dtype.itemsize
        return RechunkReport(boxes=1, bytes_read=nbytes, bytes_written=values.nbytes)

    def _read(
        self,
        source: BoundArray,
        box: Box,
        dtype: np.dtype[Any],
        missing: list[Coords] | None = None,
    ) -> Values:
        """Return the values of a box as a type; the coordinates of missing chunks go to a list."""
        values = np.asarray(engine.read(source, axis_plan(source.grid, box), filled=missing))
        if values.dtype == dtype:
            return values
        return cast(values, dtype, self.casting, show_box(paths.show(source.path), box))

    def _write_present(
        self, source: BoundArray, target: BoundArray, values: Values, missing: set[Coords]
    ) -> None:
        """Write the target chunks that have elements of a stored chunk: others have no value."""
        for row in axis_plan(target.grid, self.box).rows():
            pairs = zip(self.box, row.outer, strict=True)
            box = tuple(slice(b.start + o.start, b.start + o.stop) for b, o in pairs)
            rows = axis_plan(source.grid, box).rows()
            if not all(each.coords in missing for each in rows):
                engine.write(target, axis_plan(target.grid, box), values[row.outer])

    def _read_both(self, source: BoundArray, target: BoundArray, append: Append) -> Values:
        """Return the values of a box at the border: the old ones from where they are."""
        axis, whole = append.axis, self.box[append.axis]
        out = engine.empty(tuple(s.stop - s.start for s in self.box), target.dtype)
        border = min(append.length, whole.stop)
        parts = (append.array, whole.start, border), (source, border, whole.stop)
        for array, start, stop in parts:
            if start == stop:
                continue
            box = (*self.box[:axis], slice(start, stop), *self.box[axis + 1 :])
            inside = (slice(None),) * axis + (slice(start - whole.start, stop - whole.start),)
            out[inside] = self._read(array, box, target.dtype)
        return out


def cast(values: Values, dtype: np.dtype[Any], casting: str, where: str) -> Values:
    """Return values as another type; raise if that is more than rounding, unless "unsafe"."""
    if casting == "unsafe":
        with np.errstate(all="ignore"):
            return as_type(values, dtype)
    return data_types.cast(
        values, dtype, f" in {where}", "give casting='unsafe' to change it, or another dtype"
    )


@dataclass(frozen=True)
class CopyChunks:
    """Copy the bytes of some stored chunks."""

    transfer: ValueCopy
    entries: tuple[Entry, ...]

    def __call__(self) -> RechunkReport:
        done = self.transfer.copy(self.entries)
        return RechunkReport(chunks_copied=done.values, bytes_copied=done.nbytes)


def stored_batches(source: BoundArray) -> Iterator[tuple[Entry, ...]]:
    """Yield batches of all stored values with chunks; keys are relative to the array's prefix."""
    found: list[Entry] = []
    size = 0
    for entry in _stored(source):
        found.append(entry)
        size += entry.size or 0
        if len(found) == BATCH or size >= BATCH_BYTES:
            yield tuple(found)
            found, size = [], 0
    if found:
        yield tuple(found)


def _stored(source: BoundArray) -> Iterator[Entry]:
    start, rank = len(source.prefix), len(source.model.shape)
    listed = False
    for entry in list_entries(source.store, source.prefix):
        if source.encoding.coords(entry.key[start:], rank) is not None:
            listed = True
            yield entry._replace(key=entry.key[start:])
    if not listed:  # a store that may list metadata only
        yield from (Entry(key[start:]) for _, key in stored_keys(source))


def box_bytes(box: Box, itemsize: int) -> int:
    """Return the bytes of a box in memory."""
    count: int = math.prod(s.stop - s.start for s in box)
    return count * itemsize
