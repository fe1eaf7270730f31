"""Fill arrays with values from elsewhere, box by box, as the tasks of a job.

A source is anything that can be pickled and reads boxes: an array in a file of another format, or
an array in another store. Boxes consist of whole chunks or shards of the target, so that each of
these is stored once, and no task needs what another one stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import Array
from omnizarr.bulk.boxes import Box, corners, item_bytes, show_box, stored_axes
from omnizarr.bulk.journal import Outcome, Task, task_id
from omnizarr.bulk.output import HierarchyOutput
from omnizarr.errors import InvalidArgument
from omnizarr.extension import (
    ArrayModel,
    Location,
    as_plain,
    bound_array,
    boxes,
    data_types,
    unpublished,
)

Values: TypeAlias = npt.NDArray[Any]
Side: TypeAlias = tuple[int, int]
TASK_BYTES = 2**26  # of values that a task handles, if memory allows
COPIES = 3  # of the values of a task that are in memory at a time


class Source(Protocol):
    """Values that are read box by box. It can be pickled, and opens files when it reads."""

    def read(self, box: Box) -> Values:
        """Return the values in a box."""


@dataclass
class Filled(Outcome):
    """The result of a job that fills arrays."""

    arrays: int = 0
    groups: int = 0
    bytes_read: int = 0  # of values, as they are in memory
    # What was left out, with the reason, and what users may want to know besides.
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def merge(self, other: Filled) -> None:
        """Add the result of a task; what the plan knows is the same in all of them."""
        self.arrays = max(self.arrays, other.arrays)
        self.groups = max(self.groups, other.groups)
        self.bytes_read += other.bytes_read
        self.skipped.update(other.skipped)
        self.notes = list(dict.fromkeys([*self.notes, *other.notes]))


@dataclass(frozen=True)
class ArraySource:
    """The values of a Zarr array."""

    array: Array

    def read(self, box: Box) -> Values:
        """Return the values in a box."""
        return as_plain(self.array[box])


@dataclass(frozen=True)
class FillBox:
    """Copy a box of values from a source to an array."""

    source: Source
    target: Array
    box: tuple[Side, ...]

    def __call__(self) -> Filled:
        box = tuple(slice(*side) for side in self.box)
        values = self.source.read(box)
        store_box(self.target, box, values)
        return Filled(bytes_read=values.nbytes)


def store_box(target: Array, box: Box, values: Values) -> None:
    """Store values in a box, cast to the type of the array if they fit it."""
    target[box] = cast(values, target.dtype, show_box(target.name, box))


def cast(values: Values, dtype: np.dtype[Any], name: str) -> Values:
    """Return values in another type; raise if it cannot hold them, or may lose their fractions."""
    if values.dtype.kind not in "TOSUV" and dtype.kind not in "TOSUV":
        check_cast(values.dtype, dtype, name)
    return data_types.cast(values, dtype, f" in {name}", "choose a larger type")


def check_cast(old: np.dtype[Any], new: np.dtype[Any], name: str) -> None:
    """Raise if values cannot be cast without losing their kind, such as fractions."""
    if not np.can_cast(old, new, "same_kind") and not (old.kind in "iu" and new.kind in "iuf"):
        raise InvalidArgument(f"{name} has the type {old}, which cannot be cast to {new}")


def check_sign(
    attributes: Mapping[str, Any], old: np.dtype[Any], new: np.dtype[Any], name: str
) -> None:
    """Raise if a cast would change integers whose sign is given by the attribute `_Unsigned`."""
    stated = str(attributes.get("_Unsigned", "")).lower()
    other = (old.kind, stated) in (("i", "true"), ("u", "false"))
    if other and (old.kind, old.itemsize) != (new.kind, new.itemsize):
        raise InvalidArgument(
            f"{name} has the type {old} and the attribute _Unsigned={stated!r}; cast to {new}, its"
            " numbers would be others: leave out dtype or the array, or decode it with omnizarr.cf"
        )


def target_array(output: HierarchyOutput, path: str, model: ArrayModel) -> Array:
    """Return the array that takes the chunks of a job's output, after it has begun."""
    array = unpublished(Location(output.chunk_store, path, output.location.format), model)
    if not bound_array(array).fill_defined:  # chunks that are not stored would be undefined
        return array.with_config({"write_empty_chunks": True})
    return array


def fill_tasks(source: Source, target: Array, items: int) -> Iterator[Task[Filled]]:
    """Yield the tasks that fill an array, each with at most `items` elements or one chunk."""
    for box in cut(target, items):
        size = boxes.box_size(box) * item_bytes(target.dtype)
        work = FillBox(source, target, corners(box))
        yield Task(task_id("fill", target.path, corners(box)), work, size, target.name)


def cut(target: Array, items: int) -> boxes.Boxes:
    """Return boxes of whole chunks or shards that cover an array."""
    return boxes.cut(stored_axes(target), items)


def items_for(memory: int, dtype: Any, copies: int = COPIES) -> int:
    """Return how many elements a task may handle within its share of memory."""
    nbytes = item_bytes(dtype)
    return max(1, min(TASK_BYTES, memory // copies) // nbytes)
