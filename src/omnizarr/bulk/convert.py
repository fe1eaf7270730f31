"""Convert a hierarchy from any format to any other.

Chunks keep their bytes if the other format can describe them, and are re-encoded otherwise; in
place, they are not touched at all. Everything that cannot be expressed is detected before
anything is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from omnizarr import registry
from omnizarr.bulk.adaptation import Adapted, Options, adapt_nodes, consolidate, consolidated_groups
from omnizarr.bulk.in_place import (
    InPlaceOutput,
    check_still_listed,
    differences,
    find_source,
    root_in,
)
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of
from omnizarr.bulk.journal import Task
from omnizarr.bulk.options import ConvertArguments, ConvertOptions, takes
from omnizarr.bulk.output import HierarchyOutput, Output
from omnizarr.bulk.source_keys import source_state, warn_of_other_keys
from omnizarr.bulk.transfer import REMOTE_BATCH, Transfer, Transferred, TransferTask, transfer_tasks
from omnizarr.errors import CannotExpress, InvalidArgument, OmnizarrError
from omnizarr.extension import (
    Location,
    Node,
    PrefixStore,
    Store,
    by_name,
    check_node_writable,
    check_separator,
    check_whole,
    consolidated,
    counted,
    find_node,
    key_digest,
    options_for_two,
    paths,
    readable_nodes,
    resolve_root,
    size_text,
    stores,
    title,
    traits,
    unique_key,
)

SHOWN = 8  # arrays that a line of a plan names


@dataclass
class ConvertReport(Transferred):
    """The result of a conversion."""

    arrays: int = 0
    groups: int = 0
    # Re-encoded arrays, with the reason.
    encoded: dict[str, str] = field(default_factory=dict)
    # Keys and prefixes that are not Zarr and were skipped.
    foreign: list[str] = field(default_factory=list)
    # Arrays written without checksums, with the names of the checksum codecs.
    left_out: dict[str, str] = field(default_factory=dict)
    # Arrays of which other values are missing for xarray than before, with the reason, and what old
    # metadata that were erased said otherwise than the new ones, by node.
    notes: dict[str, str] = field(default_factory=dict)
    # Groups with consolidated metadata.
    consolidated: list[str] = field(default_factory=list)
    # Chunks to be written, if they were counted beforehand.
    chunks_total: int = 0


@dataclass
class Convert(ConvertOptions, Job[ConvertReport]):
    """The job of `convert`, which explains the other options.

    Attributes:
        measure: True to count the chunks beforehand, for the totals of the plan and the progress.

    Examples:
        >>> oz.save("old.zarr", np.arange(6), zarr_format=2)
        >>> oz.run(oz.jobs.Convert("old.zarr", "new.zarr", zarr_format=3)).arrays
        1
    """

    _: KW_ONLY
    measure: bool = True

    def plan(self, tasks_at_once: int = 1) -> Plan[ConvertReport]:
        """Read the metadata and decide how each node is converted."""
        self._check_arguments()
        given = self.storage_options, self.destination_options
        here, there = options_for_two(self.source, self.destination, *given)
        store = origin = self._origin(here)
        if not self.in_place:
            store, end = resolve_root(self.destination, storage_options=there)
            if end:
                raise InvalidArgument(
                    f"a conversion writes the root of a store, not {paths.show(end)} in {store!r};"
                    " convert to another store, and copy the result with omnizarr.copy"
                )
            check_node_writable(self.destination)
        goal = by_name(self.zarr_format, traits(store).separator)
        if self.in_place:
            start, node = find_source(origin, goal)
            store = start.store
            if self.remove_old:
                check_still_listed(start, goal)
        else:
            start, node = find_node(origin, "", use_consolidated=None)
            stores.check_disjoint(
                start.store, store, "; give another destination, or in_place=True"
            )
        stored = readable_nodes(start, node, require=True)
        separator = check_separator(self.dimension_separator)
        try:
            translate = registry.lookup("integration", "ome")
            nodes, separator = translate(start, stored, goal, self.in_place, separator)
        except OmnizarrError:
            if not self.remove_old or root_in(origin, goal) is None:
                raise
            nodes = stored  # the rest of an image whose removal was interrupted, only compared
        options = Options(
            self.in_place, separator, self.checksum, same_format=start.format.name == goal.name
        )
        adapted = adapt_nodes(start, nodes, goal, options)
        changed = [p for p, n in stored.items() if nodes[p] is not n and n.kind == "group"]
        return _Planning(self, start, Location(store, "", goal), adapted).plan(
            stored, changed, tasks_at_once
        )

    def _origin(self, options: Mapping[str, Any] | None) -> Store:
        """Return the store of the source; for a node below the root, only the keys below it."""
        mode = "r+" if self.in_place else "r"
        store, path = resolve_root(self.source, mode, options)
        if self.in_place:
            check_node_writable(self.source)
        if not path:
            return store
        if self.in_place:
            raise InvalidArgument(
                f"in_place=True converts whole hierarchies, and {paths.show(path)} is a part of"
                f" {store!r}; give the store, or a destination"
            )
        location, _ = find_node(store, path)
        check_whole(store, path)  # the store below the path does not show it
        if not location.is_under_one_prefix:
            raise InvalidArgument(
                f"zarr {location.format.name} keeps metadata and chunks apart, so"
                f" {paths.show(path)} cannot be converted alone; convert the whole hierarchy"
            )
        return PrefixStore(store, path, read_only=True)

    def _check_arguments(self) -> None:
        if self.in_place != (self.destination is None):
            raise TypeError("give a destination, or in_place=True")
        if self.remove_old and not self.in_place:
            raise TypeError("remove_old requires in_place=True; a copy does not change the source")
        if self.in_place and (self.verify or self.skip_damaged):
            raise InvalidArgument(
                "in place, no chunk is read: check them before with omnizarr.verify, and leave"
                " verify and skip_damaged out"
            )


@dataclass
class _Planning:
    """A conversion whose nodes are known."""

    job: Convert
    start: Location
    target: Location
    adapted: Adapted

    def plan(
        self, stored: Mapping[str, Node], ome: list[str], tasks_at_once: int
    ) -> Plan[ConvertReport]:
        job, start, goal = self.job, self.start, self.target.format
        arrays, models = self.adapted.arrays, self.adapted.models
        report = ConvertReport(arrays=len(arrays), groups=len(models) - len(arrays))
        for array in arrays:
            path = paths.show(array.source.path)
            if array.reason is not None:
                report.encoded[path] = array.reason
            if array.left_out:
                report.left_out[path] = ", ".join(array.left_out)
            if array.note is not None:
                report.notes[path] = array.note
        groups, why = self._consolidated(stored)
        report.consolidated = [paths.show(path) for path in groups]
        documents = {**goal.root_documents(), **self.adapted.documents}
        documents |= consolidate(goal, models, groups)
        if job.remove_old and root_in(start.store, goal) is not None:
            # It was converted before, and may have been changed since.
            documents, report.consolidated, why = {}, [], []
            report.notes |= differences(start, self.target, models)
        decisions = [*self._decisions(), *why]
        decisions += [f"{path}: {note}" for path, note in report.notes.items()]
        if ome:
            decisions.append(
                f"{counted(len(ome), 'group')} of OME-Zarr get the metadata of the version for zarr"
                f" {goal.name}: {_names(ome)}"
            )
        state = "" if job.in_place else source_state(start.store, start.path)
        digest = key_digest(unique_key(start.store), state, sorted(documents.items()))
        output: InPlaceOutput | HierarchyOutput
        if job.in_place:
            output = InPlaceOutput(start, self.target, stored, documents, job.remove_old, digest)
            added = f"{counted(len(documents), 'document')} added beside the old metadata"
            decisions.append(
                added if documents else f"the metadata of zarr {goal.name} are there, and stay"
            )
            if job.remove_old:
                decisions.append("the old metadata is erased; that cannot be undone")
        else:
            if stores.can_list(start.store):  # else only what consolidated metadata name is known
                report.foreign = warn_of_other_keys(start, stored)
            output = HierarchyOutput(
                self.target,
                {},
                operation=f"the conversion of {start.store!r} to zarr {goal.name}",
                digest=digest,
                overwrite=job.overwrite,
                documents=documents,
            )
        room = memory_of(job.memory, tasks_at_once)
        transfers = [] if job.in_place else self._transfers(self.target.store)
        largest = max((transfer.largest for transfer in transfers), default=0)
        if largest > room and job.memory is not None:
            raise InvalidArgument(
                f"one chunk needs up to {size_text(largest)} of memory, and {tasks_at_once} are"
                f" converted at a time: give memory={size_text(largest * tasks_at_once)!r} or more,"
                " or fewer workers"
            )
        phase = Phase("write chunks", partial(self._tasks, output, room))
        if job.measure and transfers:
            self._measure(transfers, phase, report, decisions)
        into = "in place" if job.in_place else f"at {self.target.store!r}"
        return Plan(
            f"convert {start.store!r} from {title(start.format.name, '')} to zarr {goal.name}"
            f" {into}",
            digest,
            [phase] if transfers else [],
            report,
            output,
            decisions,
            max(min(room, REMOTE_BATCH), largest) * tasks_at_once if transfers else None,
        )

    def _tasks(self, output: Output, room: int) -> Iterator[Task[ConvertReport]]:
        template = TransferTask((), ConvertReport, self.job.skip_damaged, self.job.verify)
        return transfer_tasks(self._transfers(output.chunk_store), template, room)

    def _transfers(self, store: Store) -> list[Transfer]:
        return [array.transfer(store, self.target.format) for array in self.adapted.arrays]

    def _consolidated(self, stored: Mapping[str, Node]) -> tuple[list[str], list[str]]:
        """Return the groups that get consolidated metadata, and the reason."""
        goal, wanted = self.target.format, self.job.consolidated
        can = consolidated.key(goal, "") is not None
        groups = [
            path for path in consolidated_groups(self.start, stored) if path in self.adapted.models
        ]
        if wanted is False:
            return [], ["consolidated metadata is left out, as requested"] if groups else []
        root = self.adapted.models.get("")
        if wanted and not groups and root is not None and root.kind == "group":
            groups = [""]
        if not groups:
            return [], []
        if not can and wanted:
            raise CannotExpress(
                f"zarr {goal.name} has no consolidated metadata; leave consolidated=True out"
            )
        if not can:
            return [], [f"consolidated metadata is left out: zarr {goal.name} has none"]
        return groups, [f"consolidated metadata is written for {_names(groups)}"]

    def _decisions(self) -> Iterator[str]:
        kept = f"chunks kept {'where they are' if self.job.in_place else 'byte for byte'}"
        found: dict[tuple[str, str], list[str]] = {}
        for array in self.adapted.arrays:
            way = kept, ""
            if array.reason is not None:
                way = "re-encoded", f": {array.reason}"
            elif any(array.changed):
                way = f"copied without {', '.join(array.left_out)}", ""
            found.setdefault(way, []).append(array.source.path)
        for (how, why), names in found.items():
            yield f"{how}: {counted(len(names), 'array')} ({_names(names)}){why}"

    def _measure(
        self,
        transfers: list[Transfer],
        phase: Phase[ConvertReport],
        report: ConvertReport,
        decisions: list[str],
    ) -> None:
        """Count the stored chunks and their bytes."""
        kinds = (True, "that keep their bytes"), (False, "to re-encode")
        counts, sizes = Counter[bool](), Counter[bool]()
        for transfer in transfers:
            same = transfer.method == "copy"
            for coords, size in transfer.units():
                report.chunks_total += transfer.count(coords)
                counts[same] += 1
                sizes[same] += size
        phase.reads, phase.writes = counts.total(), report.chunks_total
        phase.size = phase.bytes_read = sizes.total()
        phase.bytes_written = None if counts[False] else sizes[True]
        for same, what in kinds:
            if counts[same]:
                decisions.append(
                    f"{counted(counts[same], 'chunk')} {what}: {size_text(sizes[same])}"
                )


def _names(found: list[str]) -> str:
    more = f", … ({len(found) - SHOWN} more)" if len(found) > SHOWN else ""
    return ", ".join(map(paths.show, found[:SHOWN])) + more


@takes(ConvertArguments)
def convert(given: ConvertArguments) -> ConvertReport:
    """Write a hierarchy in another format.

    The destination becomes visible when it is complete. An interrupted conversion is finished by
    the same call with ``resume=True`` if the source has not changed since, or started again with
    ``overwrite=True``. Keys that are not Zarr are skipped with a warning.

    In place, only metadata is written, beside the old metadata; this is possible if every chunk
    stays valid under its key (1 to 2, 2 to 3, 1 to 3). `undo_conversion` erases the new metadata
    again. Chunks are not read then, and damage is not found.

    OME-Zarr images and plates get the metadata of the OME-Zarr version for that Zarr version: 0.4
    for 2, 0.5 for 3. In version 2, checksums are removed because few readers support them; the
    report names them in `left_out`.

    Returns:
        The numbers of nodes and chunks, and what was left out.

    Raises:
        NodeNotFound: If there is nothing at the source.
        NodeExists: If there is something at the destination.
        CannotExpress: If the format cannot express a node.
        ChunkError: If a chunk is damaged.
        StoreError: With `remove_old`, if a hierarchy around the directory lists it by the old
            metadata only.

    Examples:
        >>> oz.save("old.zarr", np.arange(6), zarr_format=2)
        >>> oz.convert("old.zarr", "new.zarr", zarr_format=3).arrays
        1
        >>> oz.open("new.zarr").zarr_format
        3
    """
    return launch(Convert, given, measure=given.progress is not None)
