"""Move chunks to other arrays, byte for byte or encoded again, and values from elsewhere.

A `Transfer` says how the chunks of one array become those of another. `transfer_tasks` lists the
stored chunks as it goes and packs them into tasks of a job, many small arrays into one.

`fill_tasks` fill an array from a source that reads boxes: a file of another format, or an array in
another store. Boxes consist of whole chunks or shards of the target, so that each of these is
stored once, and no task needs what another one stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from omnizarr import Array, extension
from omnizarr.bulk.journal import Outcome, Task, in_batches, task_id
from omnizarr.bulk.output import HierarchyOutput
from omnizarr.bulk.tiles import Box, chunk_bytes, corners, item_bytes, show_box, stored_axes
from omnizarr.errors import ChunkError, InvalidArgument, OmnizarrError, StoreError
from omnizarr.extension import BoundArray, Buffer, boxes, decoded_size, engine, paths, plan, stores

Coords: TypeAlias = tuple[int, ...]
Values: TypeAlias = npt.NDArray[Any]
Method: TypeAlias = Literal["copy", "encode", "values"]

LOCAL_BATCH = 2**22  # bytes of one task, so that few chunks are shared by several threads
REMOTE_BATCH = 2**25  # the same for stores that answer many requests at a time
TASK_BYTES = 2**26  # of values that a task handles, if memory allows
COPIES = 3  # of the values of a task that are in memory at a time


@dataclass
class Transferred(Outcome):
    """The result of transferring chunks."""

    chunks_copied: int = 0
    chunks_encoded: int = 0
    bytes_written: int = 0
    # Chunks that were read back and compared with the source.
    chunks_verified: int = 0
    # Keys of damaged chunks that were skipped, with the reason.
    damaged: dict[str, str] = field(default_factory=dict)

    @property
    def chunks(self) -> int:
        """The number of chunks that were handled, damaged ones among them."""
        return self.chunks_copied + self.chunks_encoded + len(self.damaged)


T = TypeVar("T", bound=Transferred)


@dataclass(frozen=True)
class Transfer:
    """The way in which chunks of one array become chunks of another of the same shape.

    ``copy`` keeps the stored bytes; ``encode`` decodes chunks and encodes them with other codecs;
    ``values`` also cuts them into the chunks of another grid.
    """

    source: BoundArray
    target: BoundArray
    method: Method
    # The numbers of last codecs that copied bytes are decoded from, and encoded with again.
    changed: tuple[int, int] = (0, 0)
    # True if copied chunks are decoded as a check; the codecs of the source must be known.
    check: bool = True
    # True if chunks that the source lacks are written, since the target's fill value is another.
    fills: bool = False

    @cached_property
    def by_source(self) -> bool:
        """True if every chunk of the source consists of whole chunks of the target."""
        if self.method != "values":
            return True
        if self.fills:
            return False
        old, new = self.source.grid.regular, self.target.grid.regular
        if old is None or new is None:
            return False
        return all(a % b == 0 for a, b in zip(old, new, strict=True))

    @property
    def unit_array(self) -> BoundArray:
        """The array whose chunks are the units of work."""
        return self.source if self.by_source else self.target

    def units(self) -> Iterator[tuple[Coords, int]]:
        """Yield the coordinates and bytes of the smallest units of work: mostly chunks.

        They are the stored chunks of the source, or all of them if it cannot list them; and where
        the grids do not fit, all chunks of the target.
        """
        if self.by_source and stores.can_list(self.source.store):
            yield from extension.stored_chunks(self.source)
            return
        for row in plan(self.unit_array.grid, ...).rows():
            yield row.coords, decoded_size(self.unit_array, row.coords)

    def count(self, coords: Coords) -> int:
        """Return the number of chunks of the target that a unit becomes."""
        if self.method != "values" or not self.by_source:
            return 1
        return plan(self.target.grid, self.source.grid.box(coords)).count

    def memory(self, size: int, decoded: int) -> int:
        """Return the bytes of memory that a unit of `size` stored bytes needs."""
        if self.method in ("encode", "values"):
            return 3 * decoded
        return size + (decoded if self.check else 0)

    @cached_property
    def largest(self) -> int:
        """The bytes in memory that the largest unit needs."""
        size = chunk_bytes(self.unit_array)
        return self.memory(size, size)


@dataclass(frozen=True)
class TransferTask(Generic[T]):
    """Transfer some chunks of one or several arrays; can be pickled and repeated."""

    parts: tuple[tuple[Transfer, tuple[Coords, ...]], ...]
    result: type[T]
    skip_damaged: bool = False  # list damaged chunks instead of raising
    verify: bool = False  # read what was written, and compare it with the source

    def __call__(self) -> T:
        out = self.result()
        copied: list[tuple[Transfer, Coords]] = []  # of all arrays, in one batch of requests
        for transfer, units in self.parts:
            if transfer.method == "copy":
                copied += [(transfer, coords) for coords in units]
                continue
            move = self._copy_values if transfer.method == "values" else self._encode
            for coords in units:
                move(transfer, coords, out)
        if copied:
            self._copy(copied, out)
        return out

    # Bytes as they are

    def _copy(self, units: Sequence[tuple[Transfer, Coords]], out: T) -> None:
        store = units[0][0].target.store  # arrays of one job have the same
        found = [*self._recoded(units, out)]
        pairs = [(transfer.target.key(coords), data) for transfer, coords, data in found]
        stores.set_many(store, pairs)
        out.chunks_copied += len(pairs)
        out.bytes_written += sum(memoryview(data).nbytes for _, data in pairs)
        if not self.verify:
            return
        values = stores.get_many(store, [(key, None) for key, _ in pairs])
        for (transfer, _, data), (key, _), value in zip(found, pairs, values, strict=True):
            if value is None or value != data:
                raise _differs(transfer, key)
        out.chunks_verified += len(pairs)

    def _recoded(
        self, units: Sequence[tuple[Transfer, Coords]], out: T
    ) -> Iterator[tuple[Transfer, Coords, Buffer]]:
        """Yield the bytes of all stored chunks that are not damaged, as the target has them."""
        keys = [(transfer.source.key(coords), None) for transfer, coords in units]
        found = stores.get_many(units[0][0].source.store, keys)
        for (transfer, coords), stored in zip(units, found, strict=True):
            data: Buffer | None = stored
            if data is None and transfer.source.encoding.other_keys(coords):
                data = transfer.source.encoded(coords)
            if data is None:
                continue
            try:
                if transfer.check:
                    extension.check_encoded_chunk(transfer.source, coords, data)
                if any(transfer.changed):
                    data = recode(transfer, coords, data)
            except ChunkError as e:
                self._damaged(e, transfer.source, coords, out)
                continue
            yield transfer, coords, data

    # Values

    def _encode(self, transfer: Transfer, coords: Coords, out: T) -> None:
        try:
            chunk = engine.read_chunk(transfer.source, coords)
        except ChunkError as e:
            self._damaged(e, transfer.source, coords, out)
            return
        if chunk is not None:
            self._write(transfer, coords, np.asarray(chunk, transfer.target.dtype), out)

    def _copy_values(self, transfer: Transfer, coords: Coords, out: T) -> None:
        """Read one chunk of the source, or of the target's grid, and write the target's chunks."""
        box = transfer.unit_array.grid.box(coords)
        rows = [*plan(transfer.target.grid, box).rows()]
        try:
            self._write_rows(transfer, box, rows, out)
        except ChunkError as e:
            if not self.skip_damaged or len(rows) == 1:
                self._damaged(e, transfer.unit_array, coords, out)
                return
            for row in rows:  # without the damaged ones
                one = transfer.target.grid.box(row.coords)
                try:
                    self._write_rows(transfer, one, [*plan(transfer.target.grid, one).rows()], out)
                except ChunkError as e:
                    self._damaged(e, transfer.target, row.coords, out)

    def _write_rows(
        self, transfer: Transfer, box: tuple[slice, ...], rows: list[extension.Row], out: T
    ) -> None:
        source, target = transfer.source, transfer.target
        part = plan(source.grid, box)
        values = np.empty(part.full_shape, source.dtype)
        engine.read(source, part, values)
        for row in rows:  # whole chunks; the rest has the fill value
            chunk = np.full(target.grid.chunk_shape(row.coords), target.fill, target.dtype)
            chunk[row.region] = values[row.outer]
            self._write(transfer, row.coords, chunk, out)

    def _write(self, transfer: Transfer, coords: Coords, chunk: npt.NDArray[Any], out: T) -> None:
        target = transfer.target
        out.bytes_written += engine.write_chunk(target, coords, chunk)
        out.chunks_encoded += 1
        if self.verify:
            try:
                found = engine.read_chunk(target, coords)
            except ChunkError as e:
                raise _differs(transfer, target.key(coords)) from e
            if found is None:
                found = np.full(chunk.shape, target.fill, target.dtype)
            if not _equal(found, chunk):
                raise _differs(transfer, target.key(coords))
            out.chunks_verified += 1

    def _damaged(self, error: ChunkError, array: BoundArray, coords: Coords, out: T) -> None:
        if not self.skip_damaged:
            raise error
        out.damaged[error.key or array.key(coords)] = str(error)


def recode(transfer: Transfer, coords: Coords, data: Buffer) -> Buffer:
    """Undo the source's last codecs, such as checksums, and apply the target's."""
    decode, encode = transfer.changed
    with engine.chunk_context("read", transfer.source, coords):
        data = transfer.source.pipeline_at(coords).decode_last(data, decode)
        return transfer.target.pipeline_at(coords).encode_last(data, encode)


def _equal(one: Any, other: Any) -> bool:
    """Return True if two arrays, or objects in them, are equal; NaN equals NaN."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return bool(one == other or (one != one and other != other))
    if one.shape != other.shape:
        return False
    if one.dtype.hasobject:
        return all(map(_equal, one.flat, other.flat))
    return one.tobytes() == other.tobytes() or np.array_equal(one, other)


def _differs(transfer: Transfer, key: str) -> StoreError:
    """Return an error of the destination, which is none of the source: nothing skips it."""
    return StoreError(
        f"the chunk {key!r} of {paths.show(transfer.target.path)} in {transfer.target.store!r} is"
        " not what was written there; check the disk, and run it again"
    )


def check_readable(array: BoundArray) -> None:
    """Raise if a codec is unknown; only chunks that are copied byte for byte do not need it."""
    if 0 not in array.grid.shape:
        _ = array.first_pipeline


def is_readable(array: BoundArray) -> bool:
    """Return True if all codecs are known, so that chunks can be decoded."""
    try:
        check_readable(array)
    except OmnizarrError:
        return False
    return True


def transfer_tasks(
    transfers: Iterable[Transfer], template: TransferTask[T], memory: int
) -> Iterator[Task[T]]:
    """Yield tasks that transfer all stored chunks, of several arrays together if they are small.

    A task needs at most `memory` bytes, unless one chunk needs more. `template` has the options.
    """
    several = [*transfers]  # all between the same two stores
    every = ((each, coords, size) for each in several for coords, size in each.units())

    def needed(unit: tuple[Transfer, Coords, int]) -> int:
        transfer, coords, size = unit
        return transfer.memory(size, decoded_size(transfer.unit_array, coords))

    ends = [each.store for t in several[:1] for each in (t.source, t.target)]
    near = all(stores.traits(store).cheap_requests for store in ends)
    limit = min(memory, LOCAL_BATCH if near else REMOTE_BATCH)
    for units in in_batches(every, needed, limit):
        parts: dict[int, tuple[Transfer, list[Coords]]] = {}
        for transfer, coords, _ in units:
            parts.setdefault(id(transfer), (transfer, []))[1].append(coords)
        found = tuple((transfer, tuple(some)) for transfer, some in parts.values())
        identity = repr([(transfer.source.path, some) for transfer, some in found])
        size, label = sum(unit[2] for unit in units), paths.show(found[0][0].source.path)
        yield Task(task_id("transfer", identity), replace(template, parts=found), size, label)


# Values from elsewhere


class Source(Protocol):
    """Values that are read box by box. It can be pickled, and opens files when it reads."""

    def read(self, box: Box) -> Values:
        """Return the values in a box."""


@dataclass
class Filled(Outcome):
    """The result of a job that fills arrays; all but the bytes is known beforehand."""

    arrays: int = 0
    groups: int = 0
    bytes_read: int = 0  # of values, as they are in memory
    # What was left out, with the reason, and what users may want to know besides.
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ArraySource:
    """The values of a Zarr array."""

    array: Array

    def read(self, box: Box) -> Values:
        """Return the values in a box."""
        return extension.as_plain(self.array[box])


@dataclass(frozen=True)
class FillBox:
    """Copy a box of values from a source to an array."""

    source: Source
    target: Array
    box: Box

    def __call__(self) -> Filled:
        values, name = self.source.read(self.box), show_box(self.target.name, self.box)
        self.target[self.box] = cast(values, self.target.dtype, name)
        return Filled(bytes_read=values.nbytes)


def cast(values: Values, dtype: np.dtype[Any], name: str) -> Values:
    """Return values in another type; raise if it cannot hold them, or may lose their fractions."""
    if values.dtype.kind not in "TOSUV" and dtype.kind not in "TOSUV":
        check_cast(values.dtype, dtype, name)
    return extension.data_types.cast(values, dtype, f" in {name}", "choose a larger type")


def check_cast(old: np.dtype[Any], new: np.dtype[Any], name: str) -> None:
    """Raise if values cannot be cast without losing their kind, such as fractions."""
    if not np.can_cast(old, new, "same_kind") and not (old.kind in "iu" and new.kind in "iuf"):
        raise InvalidArgument(f"{name} has the type {old}, which cannot be cast to {new}")


def check_sign(
    attributes: Mapping[str, Any], old: np.dtype[Any], new: np.dtype[Any], name: str
) -> None:
    """Raise if a cast would change integers whose sign the attribute `_Unsigned` decides."""
    stated = str(attributes.get("_Unsigned", "")).lower()
    other = (old.kind, stated) in (("i", "true"), ("u", "false"))
    if other and (old.kind, old.itemsize) != (new.kind, new.itemsize):
        raise InvalidArgument(
            f"{name} has the type {old} and the attribute _Unsigned={stated!r}; cast to {new}, its"
            " numbers would be others: leave out dtype or the array, or decode it with omnizarr.cf"
        )


def target_array(output: HierarchyOutput, path: str, model: extension.ArrayModel) -> Array:
    """Return the array that takes the chunks of a job's output, after it has begun."""
    where = extension.Location(output.chunk_store, path, output.location.format)
    array = extension.unpublished(where, model)
    # Without a fill value, chunks that are not stored would be undefined.
    if not extension.bound_array(array).fill_defined:
        return array.with_config({"write_empty_chunks": True})
    return array


def fill_tasks(source: Source, target: Array, items: int) -> Iterator[Task[Filled]]:
    """Yield the tasks that fill an array, each with at most `items` elements or one chunk."""
    for box in cut(target, items):
        size = boxes.box_size(box) * item_bytes(target.dtype)
        work = FillBox(source, target, box)
        yield Task(task_id("fill", target.path, corners(box)), work, size, target.name)


def cut(target: Array, items: int) -> boxes.Boxes:
    """Return boxes of whole chunks or shards that cover an array."""
    return boxes.cut(stored_axes(target), items)


def items_for(memory: int, dtype: Any, copies: int = COPIES) -> int:
    """Return how many elements a task may handle within its share of memory."""
    nbytes = item_bytes(dtype)
    return max(1, min(TASK_BYTES, memory // copies) // nbytes)
