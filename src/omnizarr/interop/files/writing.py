"""New files: written under a temporary name, and renamed when they are complete.

A `FileWriter` makes an empty file of a format, and tasks that fill it. Where tasks can write
anywhere in the file, they run in parallel, and an interrupted export is resumed; the other formats
are written from the first to the last byte by one task, which starts again.
"""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnizarr import Array
from omnizarr.bulk.fill import Filled, item_bytes
from omnizarr.bulk.job import Task
from omnizarr.bulk.output import Attempt, Begun, StoreOutput, new_mark
from omnizarr.bulk.partition import Box, cuts, read_axes
from omnizarr.errors import (
    CannotExpress,
    InvalidArgument,
    NodeExists,
    NodeNotFound,
    OmnizarrError,
    warn,
)
from omnizarr.extension import (
    ARRAY_DIMENSIONS,
    MARKER,
    Kind,
    LocalStore,
    Mark,
    Store,
    list_prefix,
    paths,
    set_new,
)

AUTO = "auto"
NUMBERS = "biufc"


@dataclass
class FileWriter(ABC):
    """A file to be written: arrays and attributes of groups, by path; a single array has ""."""

    arrays: dict[str, Array]
    groups: dict[str, Mapping[str, Any]]
    dtype: Any = None  # of the arrays of numbers
    compression: str | None = AUTO
    memory: int = 2**26  # of one task
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    node: Any = None  # the array or group that is exported

    resumable = False

    @abstractmethod
    def check(self) -> None:
        """Leave out what the format cannot express; raise if it can hold one array only."""

    @abstractmethod
    def prepare(self, file: str) -> None:
        """Make an empty file, or one without values."""

    @abstractmethod
    def tasks(self, file: str) -> Iterator[Task[Filled]]:
        """Yield the tasks that write the values."""

    @property
    def count(self) -> int | None:
        """The number of tasks, if it is known."""
        return 1

    @property
    def size(self) -> int:
        """The bytes of all values in memory."""
        return sum(math.prod(a.shape) * item_bytes(a.dtype) for a in self.arrays.values())

    def type_of(self, array: Array) -> np.dtype[Any]:
        """Return the type in which an array is written; coordinates keep theirs."""
        if self.dtype is None or array.dimension_names == (paths.name(array.path),):
            return array.dtype
        wanted = np.dtype(self.dtype)
        same = (wanted.kind in NUMBERS) == (array.dtype.kind in NUMBERS)
        return wanted if same else array.dtype

    def attributes_of(self, array: Array) -> dict[str, Any]:
        """Return the attributes of an array, without the one that holds its dimension names."""
        return {k: v for k, v in array.attrs.asdict().items() if k != ARRAY_DIMENSIONS}

    def leave_out(self, path: str, reason: str) -> None:
        """Take note of an array or attribute that is not written."""
        self.skipped[path or "/"] = reason
        self.arrays.pop(path, None)

    def one_array(self, suffix: str) -> Array:
        """Return the array of a format that holds only one."""
        if list(self.arrays) == [""]:
            return self.arrays[""]
        names = ", ".join(sorted(self.arrays)[:8]) or "none"
        raise CannotExpress(
            f"a {suffix} file can hold one array only; give the path of one: {names}"
        )


def slabs(array: Array, memory: int) -> Iterator[Box]:
    """Yield boxes in the order of memory, each of whole rows of the first axis if these fit."""
    if not array.shape:
        yield ()
        return
    row = math.prod(array.shape[1:]) * item_bytes(array.dtype)
    fitting = max(1, memory // max(1, row))
    length = int(read_axes(array)[0].size(0)) if array.shape[0] else 1
    step = fitting // length * length if fitting >= length else fitting
    for start in range(0, array.shape[0], step):
        rows = slice(start, min(start + step, array.shape[0]))
        yield (rows, *(slice(0, n) for n in array.shape[1:]))


def box_total(array: Array, items: int) -> int:
    """Return the number of boxes of at most `items` elements, or of one chunk, of an array."""
    return math.prod(map(len, read_cuts(array, items))) if array.shape else 1


def read_cuts(array: Array, items: int) -> list[list[slice]]:
    """Return the sides of boxes of whole chunks that cover an array."""
    whole = tuple(slice(0, n) for n in array.shape)
    return cuts(read_axes(array), whole, items)


class FileOutput(StoreOutput):
    """One file: complete under its name, or not there."""

    def __init__(
        self, file: str, writer: FileWriter, *, operation: str, digest: str, overwrite: bool
    ) -> None:
        self.file, self.writer = os.path.abspath(file), writer
        self.operation, self.digest, self.overwrite = operation, digest, overwrite
        self.folder, self.name = os.path.split(self.file)
        self.temporary = self._temporary(digest)
        self.store = LocalStore(self.folder)
        self.shared = False  # other processes write other parts of the file

    @property
    def place(self) -> tuple[Store, str]:
        """The folder, which must exist, and the name of the file."""
        if not os.path.isdir(self.folder):
            raise NodeNotFound(f"there is no directory {self.folder!r} to write to")
        return self.store, self.name

    def _temporary(self, digest: str) -> str:
        return os.path.join(self.folder, f".{self.name}.{digest[:12]}.part")

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Make the file under its temporary name, or find that of an interrupted export."""
        self.shared = shared
        resumes = self.writer.resumable and (resume or shared)
        found = self._attempt if resumes else None
        if found is not None and found.mark.plan == self.digest:
            self.attempt = found
            if found.mark.finished:
                return "finished"
        self._check_free()
        if shared and not self.writer.resumable:
            raise InvalidArgument(f"{self.name!r} cannot be written in parts; leave part out")
        if self.attempt is not None and os.path.exists(self.temporary):
            return "resumed"
        if resume and not self.writer.resumable:
            warn(f"{self.name!r} cannot be resumed: it is written from the start")
        if self.writer.resumable and (self.attempt is None or not shared):
            self._begin_attempt(shared)
        self._prepare(shared)
        return "resumed" if shared else "new"

    @property
    def _attempt(self) -> Attempt | None:
        text = self.store.get(self._marker)
        return None if text is None else Attempt(self.store, self._marker, Mark.read(text))

    @property
    def _marker(self) -> str:
        return f"{MARKER}{self.name}"

    def _begin_attempt(self, shared: bool) -> None:
        """Store the marker of a new attempt; whoever is first does it for all parts."""
        mark, old = new_mark(self.operation, self.digest, Kind.CREATE), self._attempt
        self.attempt = Attempt(self.store, self._marker, mark)
        if old is not None:
            with suppress(FileNotFoundError):  # of a source that has changed since, for example
                os.unlink(self._temporary(old.mark.plan))
            old.erase_journal()
            self.store.set(self._marker, mark.write())
        elif not set_new(self.store, self._marker, mark.write()):
            joined = self._attempt if shared else None
            if joined is None or joined.mark.plan != self.digest:
                raise NodeExists(f"another process is just writing {self.file!r}")
            self.attempt = joined

    def _prepare(self, shared: bool) -> None:
        making = f"{self.temporary}.{os.getpid()}" if shared else self.temporary
        try:
            if not shared:
                with suppress(FileNotFoundError):
                    os.unlink(self.temporary)
            self.writer.prepare(making)
            if shared:  # whoever is first makes the file for all parts
                with suppress(FileExistsError):
                    os.link(making, self.temporary)
                os.unlink(making)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(making)
            if not shared:
                with suppress(OmnizarrError):  # the first error is the one to raise
                    self.clear()
            raise

    def _check_free(self) -> None:
        if os.path.isdir(self.file):
            raise NodeExists(f"{self.file!r} is a directory; give the name of a file")
        if os.path.exists(self.file) and not self.overwrite:
            raise NodeExists(f"{self.file!r} exists; give overwrite=True to replace it")

    def finish(self) -> None:
        """Give the file its name."""
        found = None if self.attempt is None else self._attempt
        if found is not None and found.mark.finished:
            return  # another part has just done so
        self._check_free()
        descriptor = os.open(self.temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(self.temporary, self.file)
        if self.attempt is not None:
            self.attempt.note_finished()

    def abandon(self) -> None:
        """Remove the unfinished file, unless it can be resumed, or other parts write to it."""
        error = sys.exception()
        if self.attempt is not None:
            store, prefix = self.journal
            if self.shared or next(list_prefix(store, prefix), None) is not None:
                if error is not None:
                    error.add_note(
                        f"{self.temporary!r} is incomplete; the same call with resume=True goes on"
                        " from here"
                    )
                return
        with suppress(OSError, OmnizarrError):  # the first error is the one to raise
            if os.path.exists(self.temporary):
                os.unlink(self.temporary)
            self.clear()

    def _keys(self) -> Iterator[str]:
        return iter([self.name])
