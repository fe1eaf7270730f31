"""Verify a hierarchy: its documents, every stored chunk, and that nothing else is there.

The metadata is read first. Then the store is listed once, as a stream. Every key is metadata, a
chunk of an array, or something else, which is reported; chunks are checked in batches, the tasks of
a job.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from omnizarr import registry, validate
from omnizarr.bulk import job
from omnizarr.bulk.checks.chunks import RUN_BYTES, SLAB_BYTES
from omnizarr.bulk.checks.documents import Hierarchy
from omnizarr.bulk.checks.findings import Depth, Finding, FindingsFile, Level, VerifyReport
from omnizarr.bulk.checks.keys import Listing, chunk_bytes
from omnizarr.bulk.checks.shards import BATCH_BYTES
from omnizarr.bulk.job import Job, Plan, Stage, Task, task_id
from omnizarr.bulk.output import Part
from omnizarr.errors import InvalidArgument, InvalidMetadata, NodeNotFound, StoreError
from omnizarr.extension import (
    BoundArray,
    Location,
    Mark,
    On,
    Store,
    counted,
    find_node,
    key_digest,
    marker,
    paths,
    portable_key,
    resolve_store_path,
)

Progress: TypeAlias = Callable[[int, int, str], None]
Missing: TypeAlias = Literal["count", "warn", "error"]
DEPTHS = ("present", "checksums", "decode")
MISSING = ("count", "warn", "error")

# Conventions are above this module in the layers, so their checks are found by registered names.
CONVENTIONS = ("ome", "cf", "geo")
for _name in CONVENTIONS:
    registry.register("integration", f"check-{_name}", f"omnizarr.conventions.declared:{_name}")


@dataclass
class Verify(Job[VerifyReport]):
    """The job of `verify`, which explains the fields.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(3))
        >>> oz.run(oz.jobs.Verify("ocean.zarr", depth="present")).ok
        True
    """

    store: Any
    path: str | None = None
    depth: Depth = "decode"
    missing: Missing = "count"
    conventions: bool = False
    sample: float | None = None
    report: str | os.PathLike[str] | FindingsFile | None = None  # a file for all findings
    resume: bool = False  # the file is that of an interrupted job
    storage_options: Mapping[str, Any] | None = None
    listed: int = field(default=0, init=False, compare=False, repr=False)  # values so far

    def __post_init__(self) -> None:
        if self.depth not in DEPTHS:
            raise InvalidArgument(f"depth must be one of {DEPTHS}, got {self.depth!r}")
        if self.missing not in MISSING:
            raise InvalidArgument(f"missing must be one of {MISSING}, got {self.missing!r}")
        if self.sample is not None and not 0 < self.sample <= 1:
            raise InvalidArgument(f"sample must be above 0 and at most 1, got {self.sample!r}")

    def plan(self, tasks_at_once: int = 1) -> Plan[VerifyReport]:
        """Read and check all metadata, and plan the checks of chunks."""
        where, path = resolve_store_path(self.store, self.path, "r", self.storage_options)
        report = VerifyReport(self.depth)
        operation = f"verify {paths.show(path)} in {where!r}"
        origin = portable_key(where)
        if self.resume and origin is None:
            raise StoreError(
                f"cannot resume: {where!r} exists in this process only; leave resume=True out"
            )
        try:
            location, _ = find_node(where, path)
        except (InvalidMetadata, NodeNotFound):
            if not _report_unreadable(where, path, report):
                raise
            return Plan(operation, key_digest(operation), [], self._listened(report))
        hierarchy = Hierarchy(location, report)
        hierarchy.read()
        hierarchy.report_leftovers()
        identity = os.urandom(16).hex() if origin is None else origin
        options = self.depth, self.missing, self.conventions, self.sample or 1
        digest = key_digest("verify", identity, path, hierarchy.digest, *options)
        level: Level = "error" if self.missing == "error" else "warning"
        missing = None if self.missing == "count" else level
        listing = Listing(hierarchy, self.depth, missing, self.sample)
        size = sum(map(_grid_bytes, hierarchy.bound()))
        stages = [Stage("check chunks", partial(self._tasks, listing), size=size)]
        return Plan(
            operation,
            digest,
            stages,
            self._listened(report),
            decisions=self._decisions(hierarchy),
            memory=tasks_at_once * max(map(_task_memory, hierarchy.bound()), default=0),
        )

    def _tasks(self, listing: Listing) -> Iterator[Task[VerifyReport]]:
        """Yield all tasks, and a last one that knows their number."""
        start, number = listing.start, 0
        conventions = _conventions(start, self.depth) if self.conventions else ()
        for task in itertools.chain(listing.tasks(), conventions):
            number += 1
            self.listed = listing.found
            yield dataclasses.replace(task, work=Counted(task.work))
        yield Task(task_id("end", number), Counted(CountTasks(self.depth, number + 1)))

    def _listened(self, report: VerifyReport) -> VerifyReport:
        """Return the report of the metadata, to which the job adds what it finds."""
        file, name = self.report, str(getattr(self.store, "store_path", self.store))
        if file is None:
            return report
        if not isinstance(file, FindingsFile):
            file = FindingsFile(file, resume=self.resume)
        file.write(report.findings, name)
        report.listener = partial(_write_findings, file, name)
        return report

    def _decisions(self, hierarchy: Hierarchy) -> list[str]:
        verb = {
            "present": "compare sizes and read the indexes of shards",
            "checksums": "read every chunk and compare its checksum",
            "decode": "read and decode every chunk",
        }[self.depth]
        lines = [
            f"{counted(hierarchy.report.arrays, 'array')} with up to"
            f" {counted(hierarchy.report.absent, 'chunk')}: {verb}"
        ]
        if self.sample is not None:
            lines.append(f"a sample of {self.sample:g} of the stored values, chosen by their keys")
        return lines


def verify(
    store: Any,
    *,
    path: str | None = None,
    depth: Depth = "decode",
    missing: Missing = "count",
    conventions: bool = False,
    sample: float | None = None,
    report: str | os.PathLike[str] | FindingsFile | None = None,
    on: On = None,
    workers: int | None = None,
    resume: bool = False,
    part: Part | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """Check everything stored at and below a path, and return a report of all problems.

    Documents are compared with the specification. Depth ``present`` compares sizes and reads only
    shard indexes; ``checksums`` also reads every chunk and compares its checksum, if the codecs
    have one; ``decode`` also decodes every chunk. Missing chunks are counted.

    Args:
        store: A path, URL, dict, store, array or group.
        path: The path of the node in the store, or below the group that is given; by default that
            itself.
        depth: ``"present"``, ``"checksums"`` or ``"decode"``, as above.
        missing: With ``"warn"`` or ``"error"``, each missing chunk is a finding with its key, for
            arrays that must have every chunk stored (`write_empty_chunks`).
        conventions: True to check groups that declare OME-Zarr, CF or GeoZarr for these, too.
        sample: The share of stored values to check, always the same ones: 0.01 for one of a
            hundred.
        report: A file for all findings, one JSON object in a line; the result lists a limited
            number of each kind.
        on: Where the tasks run: threads by default, ``"processes"``, an executor of
            `concurrent.futures`, or a Dask client.
        workers: The largest number of threads or processes.
        resume: True to finish what an interrupted call began; if chunks were added or erased since,
            or are listed in another order, everything is checked again.
        part: The number of the part to run, from 1, and the number of parts.
        progress: A function of the number of stored values done, the number found so far, and the
            array's path.
        storage_options: Options for the store of a URL, such as credentials.

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
    label = paths.show(paths.normalize(path))
    begun = resume or part is not None
    description = Verify(
        store, path, depth, missing, conventions, sample, report, begun, storage_options
    )

    def tell(state: job.Progress) -> None:
        done = state.outcome.values if isinstance(state.outcome, VerifyReport) else 0
        if progress is not None and done:
            progress(done, max(done, description.listed), state.label or label)

    result = job.run(description, on, workers=workers, resume=resume, part=part, progress=tell)
    if resume and not result.complete:  # what was checked before is no longer what is there
        result = job.run(description, on, workers=workers, progress=tell)
    result.finish()
    return result


def _write_findings(file: FindingsFile, name: str, part: VerifyReport) -> None:
    file.write(part.findings, name)


def _report_unreadable(store: Store, path: str, report: VerifyReport) -> bool:
    """Report why there is no readable node at a path; return False if nothing is there."""
    mark = store.get(marker(path))
    if mark is not None:
        message = f"is incomplete: {Mark.read(mark)} was interrupted, or is still writing"
        report.add(Finding(paths.show(path), marker(path), message, None, "error", "incomplete"))
        return True
    try:
        problems = validate(store, path=path)
    except NodeNotFound:
        return False
    for problem in problems:
        report.add(Finding.of(problem, path, "metadata"))
    return not report.ok


def _grid_bytes(array: BoundArray) -> int:
    """Return the bytes of all chunks of an array, decoded."""
    return math.prod(array.grid.shape) * chunk_bytes(array)


def _task_memory(array: BoundArray) -> int:
    """Return the bytes that a task needs: stored bytes, and decoded ones."""
    size = chunk_bytes(array)
    if not all(array.grid.shape) or array.first_pipeline.sharded is None:
        return max(BATCH_BYTES, size) + max(RUN_BYTES, size)
    return BATCH_BYTES + SLAB_BYTES


@dataclass(frozen=True)
class Counted:
    """Count a task in its report."""

    work: Callable[[], VerifyReport]

    def __call__(self) -> VerifyReport:
        report = self.work()
        report.tasks = 1
        return report


@dataclass(frozen=True)
class CountTasks:
    """Report the number of all tasks, after which a report is complete."""

    depth: Depth
    number: int

    def __call__(self) -> VerifyReport:
        return VerifyReport(self.depth, tasks_total=self.number)


# Conventions


@dataclass(frozen=True)
class CheckConvention:
    """Check the groups that declare one convention; the work of a task."""

    store: Store
    path: str
    convention: str
    depth: Depth

    def __call__(self) -> VerifyReport:
        report = VerifyReport(self.depth)
        check = registry.lookup("integration", f"check-{self.convention}")
        for path, problem, rule in check(self.store, self.path):
            report.add(Finding.of(problem, path, "convention", rule))
        return report


def _conventions(start: Location, depth: Depth) -> Iterator[Task[VerifyReport]]:
    for name in CONVENTIONS:
        work = CheckConvention(start.store, start.path, name, depth)
        yield Task(task_id("convention", name), work, 0, name)
