"""Verify a hierarchy: its documents, every stored chunk, and that nothing else is there.

The metadata is read first. Then the store is listed once, as a stream. Every key is metadata, a
chunk of an array, or something else, which is reported; chunks are checked in batches, the tasks of
a job.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from omnizarr import registry, stores
from omnizarr.concurrency.executors import On
from omnizarr.engine import BoundArray
from omnizarr.errors import InvalidArgument, InvalidMetadata, NodeNotFound, StoreError
from omnizarr.hierarchy.info import counted
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.lookup import find_node
from omnizarr.hierarchy.validate import validate
from omnizarr.model import paths
from omnizarr.ops import job
from omnizarr.ops.checks.chunks import RUN_BYTES, SLAB_BYTES
from omnizarr.ops.checks.documents import Hierarchy
from omnizarr.ops.checks.findings import Depth, Finding, FindingsFile, Level, VerifyReport
from omnizarr.ops.checks.keys import Listing, chunk_bytes
from omnizarr.ops.checks.shards import BATCH_BYTES
from omnizarr.ops.job import Job, Plan, Stage, Task, task_id
from omnizarr.stores import Store
from omnizarr.stores.identity import key_digest, portable_key
from omnizarr.stores.staging import Mark, marker

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
    """Check everything stored at and below a path; see `verify` for the options."""

    store: Any
    path: str | None = None
    depth: Depth = "decode"
    missing: Missing = "count"
    conventions: bool = False
    sample: float | None = None
    report: str | os.PathLike[str] | FindingsFile | None = None  # a file for all findings
    resume: bool = False  # the file is that of an interrupted job
    storage_options: Mapping[str, Any] | None = None
    # Called with the result of each task and the number of stored values that were listed.
    listener: Callable[[VerifyReport, int], None] | None = field(
        default=None, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        if self.depth not in DEPTHS:
            raise InvalidArgument(f"depth must be one of {DEPTHS}, got {self.depth!r}")
        if self.missing not in MISSING:
            raise InvalidArgument(f"missing must be one of {MISSING}, got {self.missing!r}")
        if self.sample is not None and not 0 < self.sample <= 1:
            raise InvalidArgument(f"sample must be above 0 and at most 1, got {self.sample!r}")

    def plan(self, tasks_at_once: int = 1) -> Plan[VerifyReport]:
        """Read and check all metadata, and plan the checks of chunks."""
        where = stores.resolve(self.store, read_only=True, storage_options=self.storage_options)
        path = paths.normalize(self.path)
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
            return Plan(operation, key_digest(operation), [], self._listened(report, None))
        hierarchy = Hierarchy(location, report)
        hierarchy.read()
        hierarchy.report_leftovers()
        identity = os.urandom(16).hex() if origin is None else origin
        options = self.depth, self.missing, self.conventions, self.sample or 1
        digest = key_digest("verify", identity, path, hierarchy.digest, *options)
        level: Level = "error" if self.missing == "error" else "warning"
        missing = None if self.missing == "count" else level
        listing = Listing(hierarchy, self.depth, missing, self.sample)
        stages = [
            Stage("check chunks", listing.tasks, size=sum(map(_grid_bytes, hierarchy.bound())))
        ]
        if self.conventions:
            stages.append(Stage("check conventions", partial(_conventions, location, self.depth)))
        return Plan(
            operation,
            digest,
            stages,
            self._listened(report, listing),
            decisions=self._decisions(hierarchy),
            memory=tasks_at_once * max(map(_task_memory, hierarchy.bound()), default=0),
        )

    def _listened(self, report: VerifyReport, listing: Listing | None) -> VerifyReport:
        """Return the report of the metadata, to which the job adds what it finds."""
        file, name = self.report, str(self.store)
        if file is not None and not isinstance(file, FindingsFile):
            file = FindingsFile(file, resume=self.resume)
        if file is not None:
            file.write(report.findings, name)

        def listen(part: VerifyReport) -> None:
            if part is report:
                return
            if file is not None:
                file.write(part.findings, name)
            if self.listener is not None and listing is not None:
                self.listener(part, listing.found)

        report.listener = listen
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
    part: job.Part | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """Check everything stored at and below a path, and return a report of all problems.

    Documents are compared with the specification. Depth ``present`` compares sizes and reads only
    shard indexes; ``checksums`` also reads every chunk and compares its checksum, if the codecs
    have one; ``decode`` also decodes every chunk. Missing chunks are counted; with `missing`
    ``warn`` or ``error``, each of them is a finding with its key, for arrays that must have every
    chunk stored (`write_empty_chunks`). With `conventions`, groups that declare OME-Zarr, CF or
    GeoZarr are checked for these, too. ``sample=0.01`` checks one of a hundred stored values,
    always the same ones.

    The report lists a limited number of findings of each kind; `report` names a file to which all
    of them are written, one JSON object in a line. `on`, `workers`, `resume` and `part` are those
    of `run`. `progress` is called with the number of stored values done, the number found so far,
    and the array's path.
    """
    done = found = 0
    label = paths.show(paths.normalize(path))

    def count(part: VerifyReport, listed: int) -> None:
        nonlocal done, found
        done, found = done + part.values, listed

    def tell(state: job.Progress) -> None:
        nonlocal label
        label = state.label or label
        if progress is not None and done:
            progress(done, max(done, found), label)

    description = Verify(
        store, path, depth, missing, conventions, sample, report, resume, storage_options, count
    )
    result = job.run(description, on, workers=workers, resume=resume, part=part, progress=tell)
    result.sort()
    return result


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
