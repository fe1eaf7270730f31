"""Verify a hierarchy: its documents, every stored chunk, and that nothing else is there.

The metadata is read first. Then the store is listed once, as a stream: a listing of a billion keys
needs no more memory than one batch, and one byte for each chunk if missing chunks are reported.
Every key is metadata, a chunk of an array, or something else, which is reported; chunks are checked
in batches, the tasks of a job.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from operator import lt
from typing import get_args

from omnizarr import extension, registry, validate
from omnizarr.bulk import checks
from omnizarr.bulk.checks import BATCH_BYTES, SLAB_BYTES, Coords, Finding, Kind, Level, VerifyReport
from omnizarr.bulk.job import Job, Phase, Plan, launch
from omnizarr.bulk.journal import Task, task_id
from omnizarr.bulk.options import Depth, Missing, VerifyArguments, VerifyOptions, takes
from omnizarr.bulk.source_keys import formats_at, prefixes_of
from omnizarr.bulk.tiles import chunk_bytes
from omnizarr.bulk.transfer import check_readable
from omnizarr.errors import InvalidArgument, InvalidMetadata, NodeNotFound, OmnizarrError, Problem
from omnizarr.extension import ArrayModel, BoundArray, Location, Mark, Store, paths, stage, stores

# Conventions are above this module in the layers, so their checks are found by registered names.
CONVENTIONS = ("ome", "cf", "geo")
for _name in CONVENTIONS:
    registry.register("integration", f"check-{_name}", f"omnizarr.conventions.validate:{_name}")

VERBS: dict[Depth, str] = {
    "present": "compare sizes and read the indexes of shards",
    "checksums": "read every chunk and compare its checksum",
    "decode": "read and decode every chunk",
}


@dataclass
class Verify(VerifyOptions, Job[VerifyReport]):
    """The job of `verify`, which explains the options.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(3))
        >>> oz.run(oz.jobs.Verify("ocean.zarr", depth="present")).ok
        True
    """

    def __post_init__(self) -> None:
        for name, known in (("depth", get_args(Depth)), ("missing", get_args(Missing))):
            if getattr(self, name) not in known:
                raise InvalidArgument(f"{name} must be one of {known}, got {getattr(self, name)!r}")
        if self.sample is not None and not 0 < self.sample <= 1:
            raise InvalidArgument(f"sample must be above 0 and at most 1, got {self.sample!r}")

    def plan(self, tasks_at_once: int = 1) -> Plan[VerifyReport]:
        """Read and check all metadata, and plan the checks of chunks."""
        where, path = extension.resolve_store_path(self.store, self.path, "r", self.storage_options)
        report = VerifyReport(self.depth)
        operation = f"verify {paths.show(path)} in {where!r}"
        try:
            location, _ = extension.find_node(where, path)
        except (InvalidMetadata, NodeNotFound):
            if not _report_unreadable(where, path, report):
                raise
            return Plan(operation, extension.key_digest(operation), [], report)
        hierarchy = Hierarchy(location, report)
        hierarchy.read()
        hierarchy.report_leftovers()
        options = self.depth, self.missing, self.conventions, self.sample or 1
        digest = extension.key_digest(
            "verify", extension.unique_key(where), path, hierarchy.digest.hexdigest(), *options
        )
        level: Level = "error" if self.missing == "error" else "warning"
        missing = None if self.missing == "count" else level
        listing = partial(KeyListing, hierarchy, self.depth, missing, self.sample)
        arrays = hierarchy.arrays.values()
        size = sum(math.prod(each.grid.shape) * chunk_bytes(each) for each in arrays)
        phases = [Phase("check chunks", partial(self._tasks, listing), size=size)]
        return Plan(
            operation,
            digest,
            phases,
            report,
            decisions=[
                f"{extension.counted(report.arrays, 'array')} with up to"
                f" {extension.counted(report.absent, 'chunk')}: {VERBS[self.depth]}"
            ],
            memory=tasks_at_once * max(map(_task_memory, arrays), default=0),
        )

    def _tasks(self, new_listing: Callable[[], KeyListing]) -> Iterator[Task[VerifyReport]]:
        """Yield all tasks, then a last task that reports their number."""
        listing = new_listing()
        start, number = (listing.start.store, listing.start.path), 0
        conventions = (
            Task(task_id(name), partial(check_convention, *start, name, self.depth), 0, name)
            for name in (CONVENTIONS if self.conventions else ())
        )
        for task in itertools.chain(listing.tasks(), conventions):
            number += 1
            yield task
        count = VerifyReport(self.depth, tasks=1, tasks_total=number + 1)
        yield Task(task_id("end", number), partial(copy, count))


@takes(VerifyArguments)
def verify(given: VerifyArguments) -> VerifyReport:
    """Check everything stored at and below a path, and return a report of all problems.

    Documents are compared with the specification. Missing chunks are counted.

    Returns:
        Counts of what was checked, and the problems found.

    Raises:
        NodeNotFound: If there is nothing at the path.
        InvalidArgument: If an option has a value that is not allowed.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> oz.verify("a.zarr").ok
        True
    """
    result = launch(Verify, given)
    if given.resume and not result.complete:  # what was checked before is no longer what is there
        result = launch(Verify, replace(given, resume=False))
    result.finish()
    return result


def _report_unreadable(store: Store, path: str, report: VerifyReport) -> bool:
    """Report why there is no readable node at a path; return False if nothing is there."""
    mark = store.get(extension.marker(path))
    if mark is not None:
        message = f"is incomplete: {Mark.read(mark)} was interrupted, or is still writing"
        report.report(path, extension.marker(path), message, "incomplete", "error")
        return True
    try:
        problems = validate(store, path=path)
    except NodeNotFound:
        return False
    report.add(*(Finding.of(problem, path, "metadata") for problem in problems))
    return not report.ok


def _task_memory(array: BoundArray) -> int:
    """Return the bytes that a task needs: stored bytes, and decoded ones."""
    size = chunk_bytes(array)
    if not all(array.grid.shape) or array.first_pipeline.sharded is None:
        return max(BATCH_BYTES, size) + size
    return BATCH_BYTES + SLAB_BYTES


# Conventions


def check_convention(store: Store, path: str, convention: str, depth: Depth) -> VerifyReport:
    """Check the groups that declare one convention; the work of a task."""
    report = VerifyReport(depth, tasks=1)
    check = registry.lookup("integration", f"check-{convention}")
    for where, problem, rule in check(store, path):
        report.add(Finding.of(problem, where, "convention", rule))
    return report


# Documents, and the keys of the store

TASK_BYTES = 2**26  # of decoded chunks that a task checks, unless one chunk is larger
TASK_KEYS = 2048
PROBED_KEYS = 256  # that a task asks for, of a store that cannot list them
TASK_FINDINGS = 512
MISSING = "is missing and reads as the fill value"
EXTENSIONS = ("data_type", "fill_value", "chunk_grid", "chunk_key_encoding", "codecs", "storage_t")


class Hierarchy:
    """The nodes below a location: their arrays, the keys of their metadata, and their problems."""

    def __init__(self, start: Location, report: VerifyReport) -> None:
        self.start, self.report = start, report
        self.arrays: dict[str, BoundArray] = {}  # by the prefix of their chunk keys
        self.unreadable: dict[str, BoundArray] = {}  # arrays whose chunks cannot be checked
        self.unreadable_nodes: set[str] = set()  # prefixes of keys
        self.metadata_keys: set[str] = set(start.format.root_documents())
        # A conversion in place leaves the metadata of the old format beside the new.
        self.formats = formats_at(start)
        self.digest = blake2b(digest_size=20)  # of all arrays

    def read(self) -> None:
        """Check the metadata of all nodes, and bind the arrays."""
        for format in self.formats:
            own = format is self.start.format
            nodes: set[str] = set()
            groups: list[str] = []
            for checked in extension.walk_checked(
                Location(self.start.store, self.start.path, format)
            ):
                path = checked.location.path
                if checked.node is not None:
                    nodes.add(path)
                if isinstance(checked.node, extension.GroupModel):
                    groups.append(path)
                self._add_node(checked, own)
            for group in groups:
                problems: list[Problem] = []
                extension.check_consolidated(self.start.store, format, group, nodes, problems)
                found = (Finding.of(each, group, "stale-consolidated") for each in problems)
                self.report.add(*found)

    def _add_node(self, checked: extension.CheckedNode, own: bool) -> None:
        location, node = checked.location, checked.node
        for format in self.formats if own else (location.format,):
            self.metadata_keys.update(format.keys(location.path))
            if not isinstance(node, ArrayModel):
                key = extension.consolidated.key(format, location.path)
                self.metadata_keys.update(() if key is None else (key,))
        unknown = False
        for problem in checked.problems:
            kind: Kind = "metadata"
            # A warning is of an extension that is unknown here, or whose package is missing.
            warned = problem.level == "warning" and problem.field.startswith(EXTENSIONS)
            if own and isinstance(node, ArrayModel) and warned:
                unknown, kind = True, "unsupported"
                message = f"its chunks cannot be checked: {problem.message}"
                problem = Problem(problem.key, problem.field, message)
            self.report.add(Finding.of(problem, location.path, kind))
        if own and isinstance(node, ArrayModel):
            self.report.arrays += 1
            self.digest.update(f"{location.path}\0{node!r}\0".encode("utf-8", "surrogatepass"))
            self._bind(location, node, unknown or any(p.level == "error" for p in checked.problems))
        elif own and isinstance(node, extension.GroupModel):
            self.report.groups += 1
        elif own:
            self.unreadable_nodes.add(location.format.chunk_prefix(location.path))

    def _bind(self, location: Location, node: ArrayModel, reported: bool) -> None:
        prefix = location.format.chunk_prefix(location.path)
        array = BoundArray(location.store, location.path, prefix, node)
        try:
            array.check()
            _ = array.encoding, array.chunk_store
            check_readable(array)
        except OmnizarrError as e:
            self.unreadable[prefix] = array
            if not reported:
                key = location.format.keys(location.path)[0]
                problem = Problem(key, "", f"its chunks cannot be checked: {e}")
                self.report.add(Finding.of(problem, location.path, "unsupported"))
            return
        self.arrays[prefix] = array
        self.report.absent += math.prod(extension.chunk_counts(array))

    def report_leftovers(self) -> None:
        """Report what writers have left in the root of the store, or are still using."""
        report, path = self.report.report, self.start.path
        for staged in extension.all_stages(self.start.store):
            key = f"{stage.FOLDER}/{staged.name}"
            if staged.concerns(path):
                report(staged.path or "", key, staged.message(), "incomplete", "error")
            else:
                what = "is an unfinished node, or one that is being written; see omnizarr repair"
                report(path, key, what, "leftover")
        listed = stores.can_list(self.start.store)
        for prefix in stores.list_dir(self.start.store, f"{stage.JOURNAL}/")[1] if listed else ():
            what = (
                "is the journal of a job that is running or was interrupted; the same call with"
                " resume=True finishes the job, omnizarr repair removes the journal"
            )
            report(path, prefix.rstrip("/"), what, "leftover")

    def owner(self, key: str) -> BoundArray | None:
        """Return the array that a key may be a chunk of: the innermost one that contains it."""
        for prefix in prefixes_of(key):
            found = self.arrays.get(prefix) or self.unreadable.get(prefix)
            if found is not None:
                return found
        return None


class KeyListing:
    """One listing of a store as tasks: batches of stored chunks, and what else is there."""

    def __init__(
        self, hierarchy: Hierarchy, depth: Depth, missing: Level | None, sample: float | None
    ) -> None:
        self.hierarchy, self.depth = hierarchy, depth
        self.start = hierarchy.start
        self.missing = missing  # the level of missing chunks, None if they are only counted
        self.sample = 1.0 if sample is None else sample
        self._array: BoundArray | None = None  # of the batch
        self._batch: list[tuple[str, Coords, int | None]] = []  # keys, coordinates and sizes
        self._most = 1  # keys in the batch
        self._found = VerifyReport(depth, tasks=1)  # by the listing, and not yet in a task
        self._last = ""  # the key of the last finding that is in a task
        self._listed: set[str] = set()  # prefixes of arrays with listed chunks

    def tasks(self) -> Iterator[Task[VerifyReport]]:
        """Yield the checks of all stored chunks, and reports of other keys."""
        start = self.start
        for prefix in start.format.subtree(start.path)[1]:
            for key, size in _list(start.store, prefix):
                yield from self._add(key, size)
        yield from self._end_batch()
        yield from self._end_findings()
        for prefix, array in self.hierarchy.arrays.items():
            if prefix not in self._listed and not extension.traits(array.store).lists_all:
                every = itertools.product(*map(range, array.grid.shape))
                while some := [*itertools.islice(every, PROBED_KEYS)]:
                    yield self._check(array, [(array.key(each), each, None) for each in some], True)
            for chunk, key in extension.missing_chunk_keys(array) if self.missing else ():
                level = self.missing or "warning"
                self._found.report(array.path, key, MISSING, "missing-chunk", level, chunk)
                yield from self._end_findings(TASK_FINDINGS)
        yield from self._end_findings()

    def _add(self, key: str, size: int | None) -> Iterator[Task[VerifyReport]]:
        array = self._array
        if array is None or not key.startswith(array.prefix):
            array = self.hierarchy.owner(key)
        coords, knows_keys = None, True
        if array is not None:
            try:
                inside = key[len(array.prefix) :].rstrip("/")
                coords = array.encoding.coords(inside, len(array.model.shape))
            except OmnizarrError:
                knows_keys = False  # its key encoding is unknown, so that this may be a chunk
        if coords is None or array is None or array.prefix in self.hierarchy.unreadable:
            if coords is not None:
                self._found.chunks += 1
                self._found.unchecked += 1
            elif knows_keys:
                self._report_other(key)
            yield from self._end_findings(TASK_FINDINGS)
            return
        if key.endswith("/"):
            message = "is a folder, not a file; the chunk reads as the fill value"
            given = array.path, key[:-1], message
            self._found.report(*given, "damaged-chunk", "error", coords)
            return
        self._listed.add(array.prefix)
        if self.sample < 1 and not _is_sampled(key, self.sample):
            self._found.skipped += 1
            if all(map(lt, coords, array.grid.shape)):
                self._found.absent -= math.prod(map(len, checks.inner_ranges(array, coords)))
            return
        if array is not self._array:
            yield from self._end_batch()
            self._array, self._most = array, TASK_KEYS
            if self.depth != "present" or array.first_pipeline.sharded is not None:
                self._most = max(1, min(TASK_KEYS, TASK_BYTES // max(1, chunk_bytes(array))))
        self._batch.append((key, coords, size))
        if len(self._batch) >= self._most:
            yield from self._end_batch()
            self._array = array

    def _end_batch(self) -> Iterator[Task[VerifyReport]]:
        array, batch = self._array, self._batch
        self._array, self._batch = None, []
        if array is not None and batch:
            yield self._check(array, batch)

    def _check(
        self, array: BoundArray, batch: list[tuple[str, Coords, int | None]], probe: bool = False
    ) -> Task[VerifyReport]:
        work = checks.CheckChunks(array, tuple(batch), self.depth, probe)
        id = task_id("chunks", *(key for key, _, _ in batch))
        return Task(id, work, len(batch) * chunk_bytes(array), paths.show(array.path))

    # Other keys

    def _report_other(self, key: str) -> None:
        folder, name = key.endswith("/"), paths.name(key.rstrip("/"))
        if f"{stage.FOLDER}/" in key or f"{stage.JOURNAL}/" in key or folder:
            return  # reported once, by `report_leftovers`
        if name == stage.MARKER:
            self._report_marker(key)
        elif paths.is_ours(name):
            what = "a temporary file or lock of a writer that is running or was killed"
            message = f"is {what}; see omnizarr repair"
            self._found.report(self.start.path, key, message, "leftover")
        elif key not in self.hierarchy.metadata_keys and (
            self.hierarchy.unreadable_nodes.isdisjoint(prefixes_of(key))
        ):
            self._found.report(self.start.path, key, "belongs to no array or group", "orphan")

    def _report_marker(self, key: str) -> None:
        mark = Mark.read(self.start.store.get(key) or b"")
        path = key.rpartition("/")[0]
        if mark.finished:
            message = f"is left of {mark}, which is complete; see omnizarr repair"
            self._found.report(path, key, message, "leftover")
            return
        state, extends = mark.effect, mark.kind is extension.Kind.EXTEND
        if extends and extension.publication.replacing_stage(self.start.store, path) is not None:
            state = "or one below may be absent"
        message = f"the node {state}: {mark} was interrupted, or is still writing"
        if extends:
            self._found.report(path, key, message, "leftover")
        else:
            self._found.report(path, key, message, "incomplete", "error")

    def _end_findings(self, least: int = 0) -> Iterator[Task[VerifyReport]]:
        """Yield a task that reports the findings so far, once there are `least`."""
        found, nothing = self._found, VerifyReport(self.depth, tasks=1)
        if len(found.findings) < least or found == nothing:
            return
        self._found = nothing
        keys = [(f.key, f.chunk, f.message) for f in found.findings]
        numbers = found.unchecked, found.skipped, found.absent
        id = task_id("findings", self._last, keys, numbers)
        self._last = found.findings[-1].key if found.findings else ""
        yield Task(id, partial(copy, found))


def _list(store: Store, prefix: str) -> Iterator[tuple[str, int | None]]:
    """Yield all keys below a prefix, with sizes where a listing has them without requests.

    Of a directory also temporary files, locks, and folders with a slash at the end.
    """
    root = stores.file_root(store)
    if root is not None:
        for key in extension.LocalStore(root, read_only=True).list_everything(prefix):
            yield key, None
    elif isinstance(store, extension.base.ListsEntries):
        yield from stores.list_sizes(store, prefix)
    else:
        for key in stores.list_prefix(store, prefix):
            yield key, None


def _is_sampled(key: str, fraction: float) -> bool:
    """Return True if a key is in the sample, which is the same in every run."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "big") < fraction * 2**32
