"""The job of rechunking: other chunks, shards, codecs or types, within a bound of memory.

The planner (`plan`) divides the work into boxes of whole target chunks, so that tasks need
no locks. Arrays whose layout does not change keep their bytes. The result becomes a new hierarchy,
goes into an existing one, or takes the place of the source.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import config, consolidate_metadata, extension, registry
from omnizarr.bulk.adaptation import Options, adapt_array, consolidated_groups, other_fill_note
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of, store_options
from omnizarr.bulk.journal import Outcome, Task, in_batches, task_id
from omnizarr.bulk.options import RechunkArguments, RechunkOptions, takes
from omnizarr.bulk.output import HierarchyOutput, Output, SeveralNodes
from omnizarr.bulk.rechunk import plan, rules
from omnizarr.bulk.source_keys import source_state
from omnizarr.bulk.tiles import Box, corners, show_box
from omnizarr.errors import CannotExpress, InvalidArgument, NodeNotFound, OmnizarrError, StoreError
from omnizarr.extension import BoundArray, Location, Node, boxes, engine, paths, publication, stores


@takes(RechunkArguments)
def rechunk(given: RechunkArguments) -> RechunkReport:
    """Write an array or a hierarchy with other chunks, shards, codecs or types.

    Attributes, groups and the bytes of arrays that do not change are carried over.

    Returns:
        The numbers of nodes, chunks and bytes, and what changed in each array.

    Raises:
        NodeNotFound: If there is nothing at the source.
        NodeExists: If there is something at the destination.
        InvalidArgument: If the chunks do not fit an array.

    Examples:
        >>> names = ("time", "lat", "lon")
        >>> options = {"chunks": (1, 6, 6), "dimension_names": names}
        >>> a = oz.create_array("maps.zarr", shape=(4, 6, 6), **options)
        >>> report = oz.rechunk("maps.zarr", "series.zarr", chunks={"time": -1, "lat": 3})
        >>> oz.open("series.zarr").chunks
        (4, 3, 6)
    """
    return launch(Rechunk, given)


@dataclass
class RechunkReport(Outcome):
    """The result of rechunking."""

    arrays: int = 0
    groups: int = 0
    # Arrays with a new layout, with what changed.
    rechunked: dict[str, str] = field(default_factory=dict)
    # Arrays that keep a part of their layout, with what does not fit them.
    kept: dict[str, str] = field(default_factory=dict)
    # Arrays in which xarray will see other values as missing than before, with the reason.
    notes: dict[str, str] = field(default_factory=dict)
    # Boxes and their bytes in memory, of all passes.
    boxes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    # Chunks that were copied byte for byte, and their bytes.
    chunks_copied: int = 0
    bytes_copied: int = 0


@dataclass(frozen=True)
class CopyBox:
    """Copy a box from one array to another, as whole chunks of the target."""

    source: BoundArray
    target: BoundArray
    box: Box
    casting: str
    job: str  # of which `tasks` tasks run at a time in a process, with so many threads each
    tasks: int
    threads: int

    def __call__(self) -> RechunkReport:
        threads = self.tasks * self.threads
        with extension.task_of(self.job, self.tasks), config.configure(threads=threads):
            return self._copy()

    def _copy(self) -> RechunkReport:
        source, target = self.source, self.target
        missing: list[tuple[int, ...]] | None = None if source.fill_defined else []
        wanted = extension.axis_plan(source.grid, self.box)
        values = np.asarray(engine.read(source, wanted, filled=missing))
        if values.dtype != target.dtype:
            values = self._cast(values)
        if missing:
            self._write_present(values, {*missing})
        else:
            engine.write(target, extension.axis_plan(target.grid, self.box), values)
        nbytes = values.size * source.dtype.itemsize
        return RechunkReport(boxes=1, bytes_read=nbytes, bytes_written=values.nbytes)

    def _cast(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values in the new type; raise if that is more than rounding, unless "unsafe"."""
        if self.casting == "unsafe":
            with np.errstate(all="ignore"):
                return extension.data_types.as_type(values, self.target.dtype)
        where = f" in {show_box(paths.show(self.source.path), self.box)}"
        advice = "give casting='unsafe' to change it, or another dtype"
        return extension.data_types.cast(values, self.target.dtype, where, advice)

    def _write_present(self, values: npt.NDArray[Any], missing: set[tuple[int, ...]]) -> None:
        """Write the target chunks that overlap a stored source chunk; others stay missing."""
        for row in extension.axis_plan(self.target.grid, self.box).rows():
            pairs = zip(self.box, row.outer, strict=True)
            box = tuple(slice(b.start + o.start, b.start + o.stop) for b, o in pairs)
            rows = extension.axis_plan(self.source.grid, box).rows()
            if not all(each.coords in missing for each in rows):
                engine.write(
                    self.target, extension.axis_plan(self.target.grid, box), values[row.outer]
                )


def copy_chunks(transfer: extension.ValueCopy, entries: tuple[stores.Entry, ...]) -> RechunkReport:
    """Copy the bytes of some stored chunks."""
    done = transfer.copy(entries)
    return RechunkReport(chunks_copied=done.values, bytes_copied=done.nbytes)


def stored_entries(source: BoundArray) -> Iterator[stores.Entry]:
    """Yield all stored chunks or shards; keys are relative to the array's prefix."""
    start, rank = len(source.prefix), len(source.model.shape)
    listed = False
    for entry in stores.list_entries(source.store, source.prefix):
        if source.encoding.coords(entry.key[start:], rank) is not None:
            listed = True
            yield entry._replace(key=entry.key[start:])
    if not listed:  # a store that may list metadata only
        yield from (stores.Entry(key[start:]) for _, key in extension.stored_keys(source))


@dataclass(frozen=True)
class Change:
    """An array whose values are written anew, in one pass or two."""

    path: str  # relative to the source
    source: BoundArray
    target: BoundArray  # where it is in the end; it may be written elsewhere
    passes: plan.Passes
    digest: str  # of the source's place and the new metadata
    middle: BoundArray | None = None


LAYOUT = tuple(each.name for each in fields(rules.Rule))  # options that are members of a rule
BATCH_BYTES = 2**24  # of chunks that one task copies
Arrays: TypeAlias = dict[str, tuple[BoundArray, BoundArray]]  # the source and the target


@dataclass
class Rechunk(RechunkOptions, Job[RechunkReport]):
    """The job of `rechunk`, which explains the options.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> report = oz.run(oz.jobs.Rechunk("a.zarr", "b.zarr", chunks=3))
        >>> oz.open("b.zarr").chunks
        (3,)
    """

    def settle(self, resume: bool) -> None:
        """Finish, or undo, the replacement of an array in which this, or another, was killed."""
        if self.in_place:
            here, _ = store_options(self)
            store, path = extension.resolve_store_path(self.source, self.node or None, "r+", here)
            if resume or any(not each.writer.is_alive for each in publication.all_stages(store)):
                with publication.locked_destination(store, path, "resume", None):
                    for left in publication.all_stages(store):
                        if left.writer.is_alive and not resume:  # only those known to have ended
                            continue
                        if left.pending:
                            with publication.lock_replacement(store):
                                left.settle(overwrite=resume)
                        if left.finished:
                            left.discard()
                    with suppress(NodeNotFound):
                        # It was killed before it changed them.
                        if extension.consolidated_is_stale(store):
                            consolidate_metadata(store)

    def plan(self, tasks_at_once: int = 1) -> Plan[RechunkReport]:
        """Decide about every array, and count what will be read and written."""
        if self.in_place != (self.destination is None):
            raise InvalidArgument("give a destination, or in_place=True")
        if self.in_place and (self.merge or self.zarr_format is not None):
            other = "merge" if self.merge else "zarr_format"
            raise InvalidArgument(f"in_place and {other} exclude each other; give one of them")
        here, there = store_options(self)
        mode = "r+" if self.in_place else "r"
        source = extension.resolve_store_path(self.source, self.node or None, mode, here)
        start, node = extension.find_node(*source, use_consolidated=None)
        goal = start if self.in_place else _destination(self, start, there)
        temp = goal.store if self.temp is None else stores.resolve(self.temp, storage_options=there)
        return _Planner(self, start, goal, temp, tasks_at_once).plan(node)


def _destination(job: Rechunk, start: Location, options: Mapping[str, Any] | None) -> Location:
    store, path = extension.resolve_store_path(job.destination, None, "r+", options)
    prefixes = paths.prefix(start.path), paths.prefix(path)
    remedy = "; give another destination, or in_place=True"
    stores.check_disjoint(start.store, store, remedy, prefixes)
    wanted = start.format
    if start.format.frozen or job.zarr_format is not None:
        wanted = extension.lookup.format_for(store, "", job.zarr_format)
    return Location(store, path, start.format if wanted.name == start.format.name else wanted)


class _Planner:
    """One call of `Rechunk.plan`: reads metadata, and collects what is to be done."""

    def __init__(
        self, job: Rechunk, start: Location, goal: Location, temp: extension.Store, threads: int
    ) -> None:
        self.job, self.start, self.goal, self.temp, self.threads = job, start, goal, temp, threads
        self.memory = memory_of(job.memory, 1)
        self.nodes: dict[str, Node] = {}  # of the result, by relative path
        self.kept: list[tuple[str, BoundArray]] = []  # arrays whose bytes are copied
        self.changes: list[Change] = []
        self.decisions: list[str] = []
        self.states: dict[str, str] = {}  # of arrays that are replaced in place
        self.unfit: dict[str, str] = {}  # arrays that shapes do not fit, with these
        self.notes: dict[str, str] = {}  # on arrays whose missing values change

    def plan(self, root: Node) -> Plan[RechunkReport]:
        """Return the plan for a node of the source and all below it."""
        nodes = extension.lookup.readable_nodes(self.start, root, require=True)
        self.is_consolidated = bool(consolidated_groups(self.start, {self.start.path: root}))
        arrays = self._rechunked(nodes)
        digest = self._digest()
        # One for each destination, which the job owns: what another attempt left there is found.
        folder = stores.file_root(self.goal.store)  # which need not exist yet
        store = (
            extension.portable_key(self.goal.store) if folder is None else os.path.realpath(folder)
        )
        place = extension.key_digest(store, self.goal.path)
        prefix = f"{extension.stage.INTERMEDIATE}/{place[:20]}/"
        for number, (path, (source, target)) in enumerate(arrays.items()):
            keys = source.model.chunk_key_encoding, target.model.chunk_key_encoding
            if rules.same_layout(source.model, target.model) and keys[0] == keys[1]:
                self.kept.append((path, source))
            else:
                self._plan_array(path, source, target, f"{prefix}{number}/")
        if self.kept:
            self.decisions.append(
                f"{extension.counted(len(self.kept), 'array')} copied byte for byte"
            )
        output = self._output(digest)
        # Those of an array that was replaced when the job was killed are left to be erased.
        left = self.job.in_place and not arrays and stores.can_list(self.temp)
        left = left and any(stores.list_prefix(self.temp, prefix))
        if left or any(change.middle is not None for change in self.changes):
            if not stores.can_list(self.temp):
                raise StoreError(
                    f"{self.temp!r} cannot list its keys, so that intermediate chunks could not be"
                    " erased; give temp"
                )
            output.intermediate = self.temp, prefix
        groups = sum(isinstance(node, extension.GroupModel) for node in self.nodes.values())
        report = RechunkReport(len(arrays), groups)
        for change in self.changes:
            report.rechunked[paths.show(change.path)] = plan.layout_text(change.target)
        report.kept = {paths.show(path): why for path, why in self.unfit.items()}
        report.notes = self.notes
        peaks = [p.memory * c.passes.tasks for c in self.changes for p in c.passes.passes]
        used = max(peaks, default=0) + self.memory - plan.usable_memory(self.memory)
        phases = self._phases(output)
        return Plan(self._operation(), digest, phases, report, output, self.decisions, used)

    def _operation(self) -> str:
        if self.job.in_place:
            return f"rechunk {self.start} in place"
        other = self.goal.format.name != self.start.format.name
        suffix = f" as zarr {self.goal.format.name}" if other else ""
        return f"rechunk {self.start} to {self.goal}{suffix}"

    def _digest(self) -> str:
        """Return what identifies the job, also when some arrays are replaced already."""
        places = extension.unique_key(self.start.store), self.start.path
        if self.job.in_place:
            wanted = [repr(getattr(self.job, name)) for name in (*LAYOUT, "rules", "casting")]
            return extension.key_digest("in place", *places, wanted)
        state = source_state(self.start.store, self.start.path)
        return extension.key_digest(
            "rechunk", *places, state, sorted(map(self._node_digest, self.nodes))
        )

    def _node_digest(self, path: str) -> str:
        """Return what identifies the new metadata of a node and where its values come from."""
        documents = self.goal.format.write(path, self.nodes[path])
        places = extension.unique_key(self.start.store), self.start.path, path
        if self.job.in_place:  # what was written to the array since is not replaced
            self.states[path] = source_state(self.start.store, paths.join(self.start.path, path))
        return extension.key_digest(*places, self.states.get(path), sorted(documents.items()))

    def _is_unchanged(self, path: str) -> bool:
        """Return True if an array that is replaced is as it was when the job was planned."""
        where = paths.join(self.start.path, path)
        return source_state(self.start.store, where) == self.states[path]

    # What becomes of each array

    def _rechunked(self, nodes: Mapping[str, Node]) -> Arrays:
        """Apply the rules to all arrays; in place, only those are returned that change."""
        job, format = self.job, self.goal.format
        default = rules.Rule(*(getattr(job, name) for name in LAYOUT))
        chosen, self.unfit = rules.choose_rules(nodes, job.rules, default)
        self.decisions += [f"{paths.show(p)}: {why}" for p, why in self.unfit.items()]
        arrays: Arrays = {}
        translated, separator = self._translated(nodes)
        for path, node in nodes.items():
            goal = translated[path]
            if isinstance(goal, extension.GroupModel) or isinstance(node, extension.GroupModel):
                kept = goal.extra if format is self.start.format else {}
                self.nodes[path] = extension.GroupModel(goal.attributes, kept)
                continue
            source = self._bound(self.start, path, node)
            try:
                names = rules.dimension_names(nodes, path)
                new = source
                paths.check_new(path)
                if format is not self.start.format:
                    format.check_name(path)
                    other = self._bound(self.start, path, goal)
                    adapted = adapt_array(other, format, Options(separator=separator))
                    new = self._bound(self.goal, path, adapted.model)
                    if adapted.note is not None:
                        self.notes[paths.show(path)] = adapted.note
                model = rules.apply_rule(new, names, chosen[path], format, job.casting)
                format.write(path, model)
                target = self._bound(self.goal, path, model)
                asked = chosen[path].fill_value is not rules.KEEP
                note = other_fill_note(new, target) if asked else None
                if note is not None:
                    self.notes[paths.show(path)] = note
            except OmnizarrError as e:
                raise type(e)(f"cannot rechunk {self.start.child(path)}: {e}") from e
            if not job.in_place or not rules.same_layout(node, model):
                self.nodes[path] = model
                arrays[path] = source, target
        return arrays

    def _translated(self, nodes: Mapping[str, Node]) -> tuple[Mapping[str, Node], str | None]:
        """Return the nodes with the OME-Zarr version of the new format, and the key separator."""
        start, goal = self.start, self.goal.format
        if goal is start.format:
            return nodes, None
        if not goal.has_groups and isinstance(nodes.get(""), extension.GroupModel):
            raise CannotExpress(
                f"{start} is a group, and zarr {goal.name} has only arrays; rechunk its arrays one"
                " by one"
            )
        translate = registry.lookup("integration", "ome")
        full = {paths.join(start.path, path): node for path, node in nodes.items()}
        found, separator = translate(start, full, goal, False, None)
        return {path: found[paths.join(start.path, path)] for path in nodes}, separator

    def _bound(self, root: Location, path: str, model: extension.ArrayModel) -> BoundArray:
        where = paths.join(root.path, path)
        bound = BoundArray(root.store, where, root.format.chunk_prefix(where), model)
        bound.check()
        return bound

    # Passes

    def _plan_array(self, path: str, source: BoundArray, target: BoundArray, prefix: str) -> None:
        read, write = plan.read_layout(source), plan.write_layout(target)
        try:
            passes = plan.plan_passes(read, write, self.memory, self.threads, self.job.passes)
        except InvalidArgument as e:
            raise InvalidArgument(f"cannot rechunk {self.start.child(path)}: {e}") from None
        middle = None
        if passes.intermediate is not None:
            model = plan.intermediate_model(source, target, passes.intermediate)
            shape = "-".join(map(str, ("chunks", *passes.intermediate)))
            middle = BoundArray(self.temp, target.path, f"{prefix}{shape}/", model)
        change = Change(path, source, target, passes, self._node_digest(path), middle)
        self.changes.append(change)
        self.decisions.append(f"{paths.show(path)}: {plan.passes_text(source, target, passes)}")

    def _phases(self, output: Output) -> list[Phase[RechunkReport]]:
        """Return the phases: first passes first, arrays with equal concurrency together."""
        phases: list[Phase[RechunkReport]] = []
        if self.kept:
            phases.append(Phase("copy chunks", partial(self._copies, output)))
        alike: dict[tuple[int, int, int], list[Change]] = {}
        for change in self.changes:
            count = len(change.passes.passes)
            for number in range(count):
                alike.setdefault((number, -change.passes.tasks, count), []).append(change)
        for (number, at_once, count), chosen in sorted(alike.items(), key=lambda item: item[0]):
            name = "rechunk" if count == 1 else f"rechunk, pass {number + 1} of {count}"
            some = [change.passes.passes[number] for change in chosen]
            phases.append(
                Phase(
                    name,
                    partial(self._tasks, chosen, output, number),
                    sum(each.boxes.count for each in some),
                    sum(each.bytes_written for each in some),
                    sum(each.reads for each in some),
                    sum(each.writes for each in some),
                    sum(each.bytes_read for each in some),
                    sum(each.bytes_written for each in some),
                    -at_once,
                )
            )
        return phases

    def _tasks(
        self, changes: Iterable[Change], output: Output, number: int
    ) -> Iterator[Task[RechunkReport]]:
        for change in changes:
            passes, there, middle = change.passes, change.target, change.middle
            last = number == len(passes.passes) - 1
            final = BoundArray(output.store_of(there.path), there.path, there.prefix, there.model)
            source = change.source if number == 0 or middle is None else middle
            target = final if last or middle is None else middle
            item = max(1, target.dtype.itemsize)
            limit = change.digest, passes.tasks, passes.threads
            for box in passes.passes[number].boxes:
                yield Task(
                    task_id(change.digest, last or passes.intermediate, corners(box)),
                    CopyBox(source, target, box, self.job.casting, *limit),
                    boxes.box_size(box) * item,
                    paths.show(change.path),
                )

    def _copies(self, output: Output) -> Iterator[Task[RechunkReport]]:
        for path, source in self.kept:
            where = paths.join(self.goal.path, path)
            prefix = self.goal.format.chunk_prefix(where)
            transfer = extension.ValueCopy(
                source.store, output.store_of(where), source.prefix, prefix
            )
            for some in in_batches(stored_entries(source), lambda e: e.size or 0, BATCH_BYTES):
                keys, size = [entry[:2] for entry in some], sum(entry.size or 0 for entry in some)
                work = partial(copy_chunks, transfer, some)
                yield Task(task_id("copy", path, keys), work, size, paths.show(path))

    def _output(self, digest: str) -> Output:
        job, operation = self.job, self._operation()
        nodes = {paths.join(self.goal.path, path): node for path, node in self.nodes.items()}
        groups = {p: node for p, node in nodes.items() if isinstance(node, extension.GroupModel)}
        inside = job.in_place or (
            job.merge and extension.existing_node(self.goal.store, self.goal.path)
        )

        def output(
            where: Location, nodes: Mapping[str, Node], path: str, digest: str
        ) -> HierarchyOutput:
            return HierarchyOutput(
                where,
                nodes,
                operation=operation,
                digest=digest,
                overwrite=job.overwrite or job.in_place,
                consolidate=not inside and self.is_consolidated,
                is_unchanged=partial(self._is_unchanged, path) if job.in_place else None,
            )

        if not inside or isinstance(self.nodes.get(""), extension.ArrayModel):
            own = self._node_digest("") if job.in_place else digest
            return output(self.goal, nodes, "", own)
        outputs = {
            there: output(self.goal.at(there), {there: nodes[there]}, path, self._node_digest(path))
            for path in self.nodes
            if (there := paths.join(self.goal.path, path)) not in groups
        }
        if job.in_place:
            groups = {}
        return SeveralNodes(self.goal, outputs, groups, operation=operation, digest=digest)
