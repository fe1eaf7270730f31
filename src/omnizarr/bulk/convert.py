"""Convert a hierarchy from any format to any other.

Chunks keep their bytes if the other format can describe them, and are re-encoded otherwise.
Everything that cannot be expressed is detected before anything is written.

In place, no chunk is touched: the metadata of both formats describe the same chunks under the same
keys. The metadata of the root is stored last and erased first, since it makes the rest visible.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from omnizarr import errors, extension, registry
from omnizarr.bulk.adaptation import Adapted, Options, adapt_nodes, consolidate, consolidated_groups
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of, store_options
from omnizarr.bulk.journal import Task
from omnizarr.bulk.options import ConvertArguments, ConvertOptions, takes
from omnizarr.bulk.output import ChangeOutput, HierarchyOutput, Output, mark_at
from omnizarr.bulk.source_keys import source_state, warn_of_other_keys
from omnizarr.bulk.transfer import REMOTE_BATCH, Transfer, Transferred, TransferTask, transfer_tasks
from omnizarr.errors import CannotExpress, InvalidArgument, NodeExists, NodeNotFound, StoreError
from omnizarr.extension import Format, Location, Node, Store, consolidated, find_node, paths, stores

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
        here, there = store_options(self)
        store = origin = self._origin(here)
        if not self.in_place:
            store, end = extension.lookup.resolve_root(self.destination, storage_options=there)
            if end:
                raise InvalidArgument(
                    f"a conversion writes the root of a store, not {paths.show(end)} in {store!r};"
                    " convert to another store, and copy the result with omnizarr.copy"
                )
            extension.check_node_writable(self.destination)
        goal = extension.by_name(self.zarr_format, extension.traits(store).separator)
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
        stored = extension.lookup.readable_nodes(start, node, require=True)
        separator = self.dimension_separator
        if separator not in (None, "/", "."):
            raise InvalidArgument(f"dimension_separator must be '/' or '.', got {separator!r}")
        try:
            translate = registry.lookup("integration", "ome")
            nodes, separator = translate(start, stored, goal, self.in_place, separator)
        except errors.OmnizarrError:
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
        store, path = extension.lookup.resolve_root(self.source, mode, options)
        if self.in_place:
            extension.check_node_writable(self.source)
        if not path:
            return store
        if self.in_place:
            raise InvalidArgument(
                f"in_place=True converts whole hierarchies, and {paths.show(path)} is a part of"
                f" {store!r}; give the store, or a destination"
            )
        location, _ = find_node(store, path)
        extension.check_whole(store, path)  # the store below the path does not show it
        if not location.is_under_one_prefix:
            raise InvalidArgument(
                f"zarr {location.format.name} keeps metadata and chunks apart, so"
                f" {paths.show(path)} cannot be converted alone; convert the whole hierarchy"
            )
        return extension.PrefixStore(store, path, read_only=True)

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
                f"{extension.counted(len(ome), 'group')} of OME-Zarr get the metadata of the"
                f" version for zarr {goal.name}: {_names(ome)}"
            )
        state = "" if job.in_place else source_state(start.store, start.path)
        digest = extension.key_digest(
            extension.unique_key(start.store), state, sorted(documents.items())
        )
        output: InPlaceOutput | HierarchyOutput
        if job.in_place:
            given = start, stored, documents, job.remove_old
            operation = _operation(start, goal)
            output = InPlaceOutput(self.target, *given, operation=operation, digest=digest)
            added = f"{extension.counted(len(documents), 'document')} added beside the old metadata"
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
                operation=_operation(start, goal),
                digest=digest,
                overwrite=job.overwrite,
                documents=documents,
            )
        room = memory_of(job.memory, tasks_at_once)
        transfers = [] if job.in_place else self._transfers(self.target.store)
        largest = max((transfer.largest for transfer in transfers), default=0)
        if largest > room and job.memory is not None:
            raise InvalidArgument(
                f"one chunk needs up to {extension.size_text(largest)} of memory, and"
                f" {tasks_at_once} are converted at a time: give"
                f" memory={extension.size_text(largest * tasks_at_once)!r} or more, or fewer"
                " workers"
            )
        phase = Phase("write chunks", partial(self._tasks, output, room))
        if job.measure and transfers:
            self._measure(transfers, phase, report)
        into = "in place" if job.in_place else f"at {self.target.store!r}"
        return Plan(
            f"convert {start.store!r} from {extension.title(start.format.name, '')} to zarr"
            f" {goal.name} {into}",
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
        goal, wanted, models = self.target.format, self.job.consolidated, self.adapted.models
        groups = [path for path in consolidated_groups(self.start, stored) if path in models]
        if wanted and not groups and "" in models and models[""].kind == "group":
            groups = [""]
        if not groups or wanted is False:
            return [], []
        if consolidated.key(goal, "") is not None:
            return groups, [f"consolidated metadata is written for {_names(groups)}"]
        if wanted:
            raise CannotExpress(
                f"zarr {goal.name} has no consolidated metadata; leave consolidated=True out"
            )
        return [], [f"consolidated metadata is left out: zarr {goal.name} has none"]

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
            yield f"{how}: {extension.counted(len(names), 'array')} ({_names(names)}){why}"

    def _measure(
        self, transfers: list[Transfer], phase: Phase[ConvertReport], report: ConvertReport
    ) -> None:
        """Count the stored chunks and their bytes."""
        phase.reads = phase.size = 0
        for transfer in transfers:
            for coords, size in transfer.units():
                report.chunks_total += transfer.count(coords)
                phase.reads += 1
                phase.size += size
        phase.writes, phase.bytes_read = report.chunks_total, phase.size
        if all(transfer.method == "copy" for transfer in transfers):
            phase.bytes_written = phase.size


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


# In place


@dataclass(eq=False, repr=False)
class InPlaceOutput(ChangeOutput):
    """Metadata that are stored beside the old ones."""

    start: Location  # of the old ones
    nodes: Iterable[str]
    documents: Mapping[str, bytes]
    remove_old: bool

    def begin(self, resume: bool, shared: bool) -> extension.Begun:
        """Raise if other metadata of the format exist than will be stored."""
        target = self.location
        target.check_writable()
        there = stores.get_existing(target.store, self.documents)
        root = [key for key in target.format.keys("") if key in there]
        same = all(self.documents[key] == text for key, text in there.items())
        complete = same and len(there) == len(self.documents)
        again = resume or _attempt(self.start, target.format) is not None
        if (root and not (complete and again)) or not same:
            other = next((k for k, text in there.items() if self.documents[k] != text), *root[:1])
            raise NodeExists(
                f"{target.store!r} already has zarr {target.format.name} metadata, in {other!r};"
                f" erase them first with undo_conversion(…, zarr_format={target.format.name})"
            )
        return super().begin(resume, shared)

    def finish(self) -> None:
        """Store the new metadata, all or none; then erase the old ones if requested.

        The old root is erased last, so that the same call finds what an interrupted one has left.
        """
        start, kept = self.start, self.location.format
        store_metadata(self.store, self.documents)
        # After an interruption when all were erased, the source has the new format.
        if self.remove_old and start.format.name != kept.name:
            new = [key for path in self.nodes for key in kept.keys(path)]
            removed = metadata_keys(start, self.nodes, [*new, *kept.root_documents()])
            removed.sort(key=extension.formats.publication_order)
            for _, keys in itertools.groupby(
                removed, lambda key: extension.formats.publication_order(key)[:2]
            ):
                stores.erase_values(start.store, [*keys])
        extension.mark_changed()
        super().finish()


def _operation(start: Location, goal: Format) -> str:
    return f"the conversion of {start.store!r} to zarr {goal.name}"


def _attempt(start: Location, goal: Format) -> extension.Publication | None:
    """Return the mark that an interrupted conversion in place has left, or None."""
    mark = mark_at(start.store, "")
    if mark is None or mark.operation != _operation(start, goal):
        return None
    return extension.Publication.at(start.store, "", mark)


def check_still_listed(start: Location, kept: Format) -> None:
    """Raise if an outer hierarchy lists the store by the metadata of `start`, not of `kept`."""
    for outer, formats in extension.lookup.hierarchies_above(start.store):
        names = [format.name for format in formats]
        if start.format.name in names and kept.name not in names:
            raise StoreError(
                f"{start.store!r} is a part of {outer!r}, which is zarr {start.format.name} and"
                f" would not list it by its metadata of zarr {kept.name} alone; nothing was"
                f" erased. Keep both metadata, or convert {outer!r} as a whole"
            )
        return


def store_metadata(store: Store, documents: Mapping[str, bytes]) -> None:
    """Store metadata, all or none, the root's last; in each node, what makes it one last."""
    done: list[str] = []
    try:
        ordered = sorted(documents, key=extension.formats.publication_order)
        for _, keys in itertools.groupby(
            ordered, lambda key: extension.formats.publication_order(key)[:2]
        ):
            some = [*keys]
            done += some
            stores.set_many(store, [(key, documents[key]) for key in some])
    except BaseException:
        stores.erase_values(store, reversed(done))
        raise


def metadata_keys(start: Location, nodes: Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """Return the keys of all existing metadata of a format but `others`, the root's first."""
    wanted = dict.fromkeys(start.format.root_documents())
    for path in nodes:
        wanted |= dict.fromkeys(start.format.keys(path))
        combined = consolidated.key(start.format, path)
        if combined is not None:
            wanted[combined] = None
    found = stores.get_existing(start.store, wanted.keys() - {*others})
    return sorted(found, key=lambda key: (key.count("/"), key))


def differences(start: Location, target: Location, expected: Mapping[str, Node]) -> dict[str, str]:
    """Return the nodes whose metadata in `target` differ from the `expected`, made of the old.

    Raise if a node would be lost with the old metadata.
    """
    found, old, new = dict[str, str](), start.format.name, target.format.name
    nodes = extension.lookup.readable_nodes(
        *find_node(target.store, "", zarr_format=new), require=True
    )
    for path, before in expected.items():
        node = nodes.get(path)
        same = node is not None and all(
            getattr(before, name, None) == getattr(node, name, None)
            for name in ("kind", "data_type", "chunk_grid", "chunk_key_encoding")
        )
        if node is None or not same:
            state = "is not there" if node is None else "does not have the same chunks"
            raise NodeExists(
                f"{paths.show(path)} of zarr {old} {state} in zarr {new}, and would be lost with"
                f" the old metadata; nothing was erased. To convert {target.store!r} again, erase"
                f" the new metadata first: undo_conversion(…, zarr_format={new})"
            )
        kept = {n: node.attributes[n] for n in before.attributes if n in node.attributes}
        was, shape = getattr(before, "shape", None), getattr(node, "shape", None)
        if was != shape:
            found[paths.show(path)] = f"the shape is {shape} and was {was} in zarr {old}"
        elif _text(before.attributes, target.format) != _text(kept, target.format):
            found[paths.show(path)] = f"other attributes than in zarr {old}"
    return found


def undo_conversion(
    store: Any,
    *,
    zarr_format: int | str = 3,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Erase the metadata of a format that a conversion in place added.

    Values that were written to chunks since then stay.

    Args:
        store: A path, URL, dict or store.
        zarr_format: The format whose metadata are erased.
        dry_run: True to erase nothing.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The keys of the metadata.

    Raises:
        NodeNotFound: If there are no metadata of the format, or none of another one.
        StoreError: If something would be lost: the shape or attributes of a node were changed
            since, or a hierarchy of that format around the store would no longer list it. Nothing
            is erased then.

    Examples:
        >>> oz.save("a.zarr", np.arange(6), zarr_format=2)
        >>> report = oz.convert("a.zarr", zarr_format=3, in_place=True)
        >>> oz.undo_conversion("a.zarr")
        ('zarr.json',)
    """
    where = stores.resolve(store, read_only=dry_run, storage_options=storage_options)
    goal = extension.by_name(zarr_format)
    root = root_in(where, goal)  # none if an earlier call was interrupted
    new = {} if root is None else extension.lookup.readable_nodes(*root, require=True)
    start, node = find_source(where, goal)
    if start.format.name == goal.name:
        raise NodeNotFound(f"{where!r} has only metadata of zarr {goal.name}; nothing was erased")
    check_still_listed(Location(where, "", goal), start.format)
    old = extension.lookup.readable_nodes(start, node, require=True)
    problems = [*_losses(start, old, new, goal)]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise StoreError(f"{problems[0]}{more}; nothing was erased")
    keys = metadata_keys(Location(where, "", goal), {**old, **new}, metadata_keys(start, old))
    left = _attempt(start, goal)
    if not keys and left is None:
        raise NodeNotFound(f"{where!r} has no zarr {goal.name} metadata to erase")
    if not dry_run:
        stores.erase_values(where, keys)
        if left is not None:
            left.clear()
        extension.mark_changed()
    return tuple(keys)


def find_source(store: Store, goal: Format) -> tuple[Location, Node]:
    """Return the root of a hierarchy in another format than `goal`, or any if there is no other."""
    for format in map(extension.by_name, extension.NAMES):
        found = None if format.name == goal.name else root_in(store, format)
        if found is not None:
            return found
    return find_node(store, "")


def root_in(store: Store, format: Format) -> tuple[Location, Node] | None:
    """Return the root in one format, or None if there is none."""
    try:
        start, node = find_node(store, "", zarr_format=format.name)
    except NodeNotFound:
        return None
    return None if isinstance(node, extension.GroupModel) and node.implicit else (start, node)


def _losses(
    start: Location, old: dict[str, Node], new: Mapping[str, Node], goal: Format
) -> Iterator[str]:
    """Yield what would be lost if the new metadata were erased."""
    translate = registry.lookup("integration", "ome")
    nodes, separator = translate(start, old, goal, True, None)
    expected = adapt_nodes(start, nodes, goal, Options(True, separator, checksum=True)).models
    for path, node in new.items():
        before = expected.get(path)
        if before is None or before.kind != node.kind:
            yield f"{paths.show(path)} has no metadata of zarr {start.format.name}"
        elif getattr(node, "shape", None) != getattr(before, "shape", None):
            yield f"{paths.show(path)} was resized after the conversion"
        elif _text(node.attributes, goal) != _text(before.attributes, goal):
            yield f"the attributes of {paths.show(path)} were changed after the conversion"


def _text(attributes: Mapping[str, Any], format: Format) -> Mapping[str, bytes | None]:
    """Return attributes as stored, in which one NaN is like another."""
    return format.write("", extension.GroupModel(attributes))
