"""Copy hierarchies between stores: bytes as they are, all keys or some, or only what differs.

Everything but metadata is copied first, in batches that are tasks of a job. Metadata follow, those
of the innermost nodes first, so that no group is visible before its members, and none before its
chunks. A marker in the destination says that it is incomplete until then.
"""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np

from omnizarr import extension
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of, store_options
from omnizarr.bulk.journal import Outcome, Task, TaskIds, in_batches, task_id
from omnizarr.bulk.options import Compare, CopyArguments, CopyOptions, takes
from omnizarr.bulk.output import CopyOutput, Mode, mark_at
from omnizarr.bulk.source_keys import chunk_prefixes, lists_all, prefixes_of, select, source_keys
from omnizarr.errors import InvalidArgument, NodeNotFound, StoreError
from omnizarr.extension import Entry, Kind, Store, ValueCopy, check_whole, key_digest, paths, stores

BATCH_BYTES = 2**26  # of the values of one task, unless one value is larger
UNKNOWN = 16  # keys of one task, where a store does not list sizes
ERASURES = 64  # tasks that erase keys, at most
LISTED = 200_000  # keys that are listed ahead, to know how much there is to do
KEPT = 500_000  # entries of a listing of the destination that are kept in memory
COMPARED = {
    "time": "size and modification time or ETag, or by their bytes where a store has none",
    "size": "size alone",
    "checksum": "their bytes",
}


@dataclass
class Copied(Outcome):
    """The result of a copy."""

    copied: int = 0  # values
    same: int = 0  # values that were not copied, since the destination has them
    erased: int = 0  # values of the destination that the source does not have
    verified: int = 0  # values that were read back and compared
    bytes_copied: int = 0


@dataclass(frozen=True)
class CopyBatch:
    """A task: copy the values of some keys, or only the values that differ."""

    transfer: ValueCopy
    entries: tuple[Entry, ...]
    known: tuple[Entry | None, ...] | None  # the destination's; None: to be asked for
    compare: Compare | None  # None: all are copied
    verify: bool
    dry_run: bool  # compare and count only
    may_be_missing: bool  # keys were not listed, so that some may have no value

    def __call__(self) -> Copied:
        differing = self._differing()
        if self.dry_run:
            nbytes = sum(entry.size or 0 for entry in differing)
            return Copied(len(differing), len(self.entries) - len(differing), bytes_copied=nbytes)
        done = self.transfer.copy(differing)
        if done.missing and not self.may_be_missing:
            raise StoreError(
                f"{self.transfer.start}{done.missing[0]} was erased from {self.transfer.source!r}"
                " while it was being copied; copy again when nobody writes to it"
            )
        missing = set(done.missing)
        result = Copied(done.values, bytes_copied=done.nbytes)
        result.same = len(self.entries) - len(differing)
        if self.verify:
            written = [entry for entry in differing if entry.key not in missing]
            wrong = self.transfer.differing(written)
            if wrong:
                raise StoreError(
                    f"{self.transfer.end}{wrong[0]} in {self.transfer.target!r} is not what was"
                    f" written ({len(wrong)} of {len(written)} values): the source was changed"
                    " meanwhile, or the storage is faulty; copy again"
                )
            result.verified = len(written)
        return result

    def _differing(self) -> Sequence[Entry]:
        if self.compare is None:
            return self.entries
        known = self.known
        if known is None:
            known = tuple(self.transfer.target_entries(self.entries))
        chosen, unknown = set[str](), []
        for entry, other in zip(self.entries, known, strict=True):
            same = self.transfer.is_same(entry, other, self.compare)
            if same is None:
                unknown.append(entry)
            elif not same:
                chosen.add(entry.key)
        began = time.time_ns()
        chosen.update(self.transfer.differing(unknown))
        if not self.dry_run:
            for entry in unknown:
                if entry.key not in chosen:
                    self.transfer.keep_time(entry, began)
        return [entry for entry in self.entries if entry.key in chosen]


def copy_and_erase(
    batches: tuple[CopyBatch, ...], store: Store, extra: tuple[str, ...], dry_run: bool
) -> Copied:
    """Copy batches one after the other, then erase keys that the source does not have."""
    total = Copied(erased=len(extra))
    for batch in batches:
        total.merge(batch())
    if not dry_run:
        stores.erase_values(store, extra)
    return total


@dataclass
class Copy(CopyOptions, Job[Copied]):
    """The job of `copy`, which explains the other options.

    Attributes:
        dry_run: True to compare and count; nothing is written.
        destination_path: The path of the copy in its store.

    Examples:
        >>> oz.save("run.zarr", a=np.arange(3), b=np.ones(2))
        >>> oz.run(oz.jobs.Copy("run.zarr", "copy.zarr")).copied
        5
    """

    _: KW_ONLY
    dry_run: bool = False
    destination_path: str = ""

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            given = getattr(self, name)
            setattr(self, name, (given,) if isinstance(given, str) else tuple(given))
        if self.update and self.overwrite:
            raise InvalidArgument("give update=True or overwrite=True, not both")
        if self.delete and not self.update:
            raise InvalidArgument("delete=True needs update=True")
        if self.delete and (self.include or self.exclude):
            raise InvalidArgument("delete=True erases all that the source does not have; it cannot"
                                  " be combined with include or exclude")  # fmt: skip
        if self.compare not in COMPARED:
            raise InvalidArgument(
                f"compare must be one of {', '.join(COMPARED)}, got {self.compare!r}"
            )

    def plan(self, tasks_at_once: int = 1) -> Plan[Copied]:
        """List the source; nothing is written."""
        return Copying(self, tasks_at_once).plan()


class Copying:
    """A copy that is planned and run: the keys of the source, and the tasks made of them."""

    def __init__(self, job: Copy, tasks_at_once: int) -> None:
        self.job = job
        here, there = store_options(job)
        if not job.dry_run:
            extension.check_node_writable(job.destination)
        self.source, self.path = extension.resolve_store_path(job.source, job.path, "r", here)
        mode = "r" if job.dry_run else "r+"
        place = job.destination, job.destination_path
        self.store, self.end = extension.resolve_store_path(*place, mode, there)
        self._check()
        self.listed = lists_all(self.source, self.path)
        self.selection = select(self.source, self.path, job.include, job.exclude)
        self.room = memory_of(job.memory, tasks_at_once) // (2 if job.verify else 1)
        self.metadata: list[Entry] = []
        self.seen = array("Q")  # digests of the keys of the source
        self.erases = job.update
        self.arrays = chunk_prefixes(self.source, self.path) if self.erases else {}
        self._ahead: list[Entry] | None = None  # the keys, if they are few
        self._batched: list[tuple[Entry, ...]] | None = None  # those of values
        way: Mode = "update" if job.update else "overwrite" if job.overwrite else "new"
        origin = paths.place(self.path, self.source)
        self.operation = f"copy {origin} to {self.store!r}"
        self.digest = key_digest(
            *(extension.unique_key(self.source), self.path, self.end),
            *(way, job.compare, job.delete, job.include, job.exclude),
        )
        self.output = CopyOutput(
            self.store,
            self.end,
            operation=f"the copy of {origin}",
            digest=self.digest,
            source=self.source,
            mode=way,
            consolidate=self.selection is not None,
        )

    def _check(self) -> None:
        """Raise if places overlap, a node has more keys, or a writer is making or replacing it."""
        prefixes = paths.prefix(self.path), paths.prefix(self.end)
        stores.check_disjoint(self.source, self.store, prefixes=prefixes)
        if self.path:
            location, _ = extension.find_node(self.source, self.path, use_consolidated=None)
            if not location.is_under_one_prefix:
                raise InvalidArgument(
                    f"zarr {location.format.name} keeps metadata and chunks apart, so"
                    f" {paths.show(self.path)} cannot be copied alone; copy the whole hierarchy,"
                    " or convert it"
                )
        check_whole(self.source, self.path)
        mark = mark_at(self.source, self.path)
        if mark is None or mark.kind not in (Kind.CREATE, Kind.COPY):
            return
        if extension.existing_node(self.source, self.path) is None:
            where = paths.place(self.path, self.source)
            raise StoreError(f"{where} is incomplete: {mark} was interrupted, or is still writing;"
                             " finish that first")  # fmt: skip

    def entries(self) -> Iterator[Entry]:
        """Yield the keys to copy, relative to the path."""
        if self._ahead is not None:
            return iter(self._ahead)
        found = source_keys(self.source, self.path, self.listed)
        if self.selection is None:
            return found
        return (entry for entry in found if self._is_chosen(entry.key))

    def plan(self) -> Plan[Copied]:
        """List the source as far as memory allows, and return the plan."""
        listing = self.entries()
        ahead = [*itertools.islice(listing, LISTED)]
        rest = next(listing, None) is not None
        if not ahead:
            where = paths.place(self.path, self.source)
            raise NodeNotFound(f"there is nothing to copy at {where}; is the path right?")
        self._ahead = None if rest else ahead
        both = count = size = None
        if not rest:
            self._batched = [*self._batches(self._values())]
            both, count = len(ahead) - len(self.metadata), len(self._batched)
            if all(entry.size is not None for entry in ahead):
                size = sum(entry.size or 0 for batch in self._batched for entry in batch)
        phases = [
            Phase("values", self._value_tasks, count, size, both, both, size, size, self._at_once),
            Phase("metadata", self._metadata_tasks, 1),
        ]
        if self.erases:
            phases.append(Phase("erase what the source does not have", self._erase_tasks))
        output = None if self.job.dry_run else self.output
        lines = []
        if not self.listed:
            lines.append(
                f"{self.source!r} does not list its keys: chunks are asked for one by one, and"
                " only what belongs to arrays and groups is copied"
            )
        if self.job.update:
            lines.append(f"values are compared by {COMPARED[self.job.compare]}")
        if self.selection is not None:
            lines.append("only what the patterns choose; consolidated metadata are written anew")
        memory = memory_of(self.job.memory, 1)
        return Plan(self.operation, self.digest, phases, Copied(), output, lines, memory)

    # Tasks

    def _batches(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
        """Return entries in batches of a limited number and size."""
        limit = min(self.room, BATCH_BYTES) if self._transfer.has_low_latency else self.room
        unknown = -(-limit // UNKNOWN)
        return in_batches(entries, lambda e: unknown if e.size is None else e.size, limit)

    @property
    def _at_once(self) -> int | None:
        """The number of concurrent tasks if the largest value must fit into memory, else None."""
        largest = max((entry.size or 0 for entry in self._ahead or ()), default=0)
        if largest <= self.room or self._transfer.takes_parts:
            return None
        return max(1, memory_of(self.job.memory, 1) // (2 * largest))  # as read, and as stored

    @property
    def _transfer(self) -> ValueCopy:
        start, end = paths.prefix(self.path), paths.prefix(self.end)
        fresh = not self.job.update
        return ValueCopy(self.source, self.output.chunk_store, start, end, fresh, self.room)

    def _value_tasks(self) -> Iterator[Task[Copied]]:
        there = self._destination_entries()
        for batch in self._batched or self._batches(self._values()):
            work = self._batch(batch, there)
            size = sum(entry.size or 0 for entry in batch)
            yield Task(task_id(batch), work, size, paths.show(paths.join("", batch[0].key)))

    def _values(self) -> Iterator[Entry]:
        """Yield the entries of all values except metadata, which are collected for later."""
        self.metadata, self.seen = [], array("Q")
        for entry in self.entries():
            if self.erases:
                self.seen.append(task_id(entry.key))
            if _is_document(entry.key):
                self.metadata.append(entry)
            else:
                yield entry

    def _destination_entries(self) -> dict[str, Entry] | None:
        """Return a listing of the destination, where asking for each key would be slow.

        None, too, if it is too long: then each key is asked for all the same.
        """
        if not self.job.update or extension.is_quick(self.store) or not stores.can_list(self.store):
            return None
        prefix = paths.prefix(self.end)
        entries = itertools.islice(stores.list_entries(self.store, prefix), KEPT + 1)
        found = {entry.key[len(prefix) :]: entry for entry in entries}
        return found if len(found) <= KEPT else None

    def _batch(self, batch: tuple[Entry, ...], there: dict[str, Entry] | None) -> CopyBatch:
        known = None if there is None else tuple(there.get(entry.key) for entry in batch)
        compare = self.job.compare if self.job.update else None
        options = compare, self.job.verify, self.job.dry_run, not self.listed
        return CopyBatch(self._transfer, batch, known, *options)

    def _metadata_tasks(self) -> Iterator[Task[Copied]]:
        """Yield one task, since the order matters: inner nodes first, the node's own key last."""
        there = self._destination_entries()
        order = extension.formats.publication_order
        ordered = sorted(self.metadata, key=lambda entry: order(entry.key))
        levels = itertools.groupby(ordered, lambda entry: order(entry.key)[:2])
        batches = (self._batch(some, there) for _, level in levels for some in self._batches(level))
        extra = tuple(sorted(filter(_is_document, self._extra()), key=lambda key: key.count("/")))
        given = tuple(batches), self.output.chunk_store, extra, self.job.dry_run
        yield Task(task_id(ordered), partial(copy_and_erase, *given), 0, "metadata")

    def _erase_tasks(self) -> Iterator[Task[Copied]]:
        """Yield tasks whose ids stay the same while other parts of the job erase keys."""
        tasks: dict[int, list[str]] = {}
        for key in itertools.filterfalse(_is_document, self._extra()):  # those are erased
            tasks.setdefault(task_id(key) % ERASURES, []).append(key)
        for number, keys in tasks.items():
            given = (), self.output.chunk_store, tuple(keys), self.job.dry_run
            yield Task(task_id("erase", number), partial(copy_and_erase, *given))

    def _extra(self) -> Iterator[str]:
        """Yield the keys to erase: the source does not have them.

        A chunk that an array no longer has is a change of its values: what is in an array's folder
        is erased even if other keys stay. Beside the chunks of an array at the root may be
        anything, so that only keys of chunks are erased there.
        """
        if not self.erases:
            return iter(())
        check_whole(self.source, self.path)  # again: what is absent may be about to come back
        prefix, seen = paths.prefix(self.end), TaskIds(np.frombuffer(self.seen, np.uint64))
        root, encodings = self.arrays.get(""), extension.chunk_key_encodings
        encoding = None if root is None else encodings.bind(root.chunk_key_encoding)

        def is_extra(key: str) -> bool:
            name = key[len(prefix) :]
            if paths.is_ours(key) or task_id(name) in seen:
                return False
            array = next((each for each in prefixes_of(name) if each in self.arrays), None)
            is_chunk = bool(array)
            if array == "" and root is not None and encoding is not None:
                is_chunk = encoding.coords(name, len(root.shape)) is not None
            return self.job.delete or (is_chunk and self._is_chosen(name))

        return iter([key for key in stores.list_prefix(self.store, prefix) if is_extra(key)])

    def _is_chosen(self, key: str) -> bool:
        return self.selection is None or self.selection.has(key)


def _is_document(key: str) -> bool:
    """Return True for a metadata key; most chunk keys end in a digit and are ruled out quickly."""
    return not key[-1].isdigit() and extension.is_metadata(key)


@takes(CopyArguments)
def copy(given: CopyArguments) -> Copied:
    """Copy a hierarchy from any store to any other, byte for byte, with all keys that it has.

    The destination becomes visible when it is complete; the same call with ``resume=True``
    finishes an interrupted copy. `convert` writes another format.

    `update` copies only values that differ into an existing copy, which stays visible meanwhile.
    `compare` decides if two values are the same: with ``"time"``, if their sizes and their
    modification times agree (a copy in a directory has a time that tells the time and ETag of its
    source; in a bucket, it is newer by a minute) or their ETags; it reads both if a store has
    neither; ``"size"`` looks at the size alone; ``"checksum"`` reads both. Chunks that an array
    of the source no longer has are erased.

    Returns:
        The numbers of values and bytes that were copied, and of values that were the same or
        erased.

    Raises:
        NodeNotFound: If there is nothing at the source.
        NodeExists: If there is something at the destination.

    Examples:
        >>> oz.save("run.zarr", a=np.arange(3), b=np.ones(2))
        >>> oz.copy("run.zarr", "copy.zarr").copied
        5
        >>> oz.copy("run.zarr", "copy.zarr", update=True).same
        5
    """
    return launch(Copy, given)
