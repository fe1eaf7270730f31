"""Verify a hierarchy: its documents, every stored chunk, and that nothing else is there.

The metadata is read first. Then the store is listed once, as a stream. Every key is metadata, a
chunk of an array, or something else, which is reported; chunks are checked in batches, the tasks of
a job.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from omnizarr import registry, validate
from omnizarr.bulk.checks.chunks import BATCH_BYTES, SLAB_BYTES
from omnizarr.bulk.checks.findings import Finding, Level, VerifyReport
from omnizarr.bulk.checks.keys import Hierarchy, KeyListing, chunk_bytes
from omnizarr.bulk.job import Job, Phase, Plan, launch
from omnizarr.bulk.journal import Task, task_id
from omnizarr.bulk.options import Depth, Missing, VerifyArguments, VerifyOptions, takes
from omnizarr.errors import InvalidArgument, InvalidMetadata, NodeNotFound
from omnizarr.extension import (
    BoundArray,
    Mark,
    Store,
    counted,
    find_node,
    key_digest,
    marker,
    paths,
    resolve_store_path,
    unique_key,
)

# Conventions are above this module in the layers, so their checks are found by registered names.
CONVENTIONS = ("ome", "cf", "geo")
for _name in CONVENTIONS:
    registry.register("integration", f"check-{_name}", f"omnizarr.conventions.validate:{_name}")


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
        where, path = resolve_store_path(self.store, self.path, "r", self.storage_options)
        report = VerifyReport(self.depth)
        operation = f"verify {paths.show(path)} in {where!r}"
        try:
            location, _ = find_node(where, path)
        except (InvalidMetadata, NodeNotFound):
            if not _report_unreadable(where, path, report):
                raise
            return Plan(operation, key_digest(operation), [], report)
        hierarchy = Hierarchy(location, report)
        hierarchy.read()
        hierarchy.report_leftovers()
        options = self.depth, self.missing, self.conventions, self.sample or 1
        digest = key_digest("verify", unique_key(where), path, hierarchy.digest, *options)
        level: Level = "error" if self.missing == "error" else "warning"
        missing = None if self.missing == "count" else level
        listing = KeyListing(hierarchy, self.depth, missing, self.sample)
        arrays = hierarchy.arrays.values()
        size = sum(math.prod(each.grid.shape) * chunk_bytes(each) for each in arrays)
        phases = [Phase("check chunks", partial(self._tasks, listing), size=size)]
        return Plan(
            operation,
            digest,
            phases,
            report,
            decisions=self._decisions(hierarchy),
            memory=tasks_at_once * max(map(_task_memory, arrays), default=0),
        )

    def _tasks(self, listing: KeyListing) -> Iterator[Task[VerifyReport]]:
        """Yield all tasks, then a last task that reports their number."""
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
    mark = store.get(marker(path))
    if mark is not None:
        message = f"is incomplete: {Mark.read(mark)} was interrupted, or is still writing"
        report.add(Finding(paths.show(path), marker(path), message, None, "error", "incomplete"))
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
