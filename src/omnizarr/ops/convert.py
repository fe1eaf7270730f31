"""Convert a hierarchy from any format to any other.

Chunks are copied byte for byte if the other format can describe them, and re-encoded otherwise.
Everything that cannot be expressed is detected before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from omnizarr import engine, registry, stores
from omnizarr.codecs.codec import Buffer
from omnizarr.codecs.specify import inner_chunk_shape
from omnizarr.data_types import describe
from omnizarr.engine import BoundArray, chunk_context
from omnizarr.errors import CannotExpress, ChunkError, NodeExists, OmnizarrError, StoreError
from omnizarr.formats import Format, by_name
from omnizarr.formats.codec_names import without_checksums
from omnizarr.hierarchy.build import build_resumable
from omnizarr.hierarchy.chunk_shapes import guess_chunks
from omnizarr.hierarchy.chunks import check_encoded_chunk, stored_keys
from omnizarr.hierarchy.location import Location, require_readable_nodes, warn_of_other_keys
from omnizarr.hierarchy.lookup import find_node
from omnizarr.hierarchy.options import check_separator, default_codecs
from omnizarr.indexing import plan
from omnizarr.model import ArrayModel, GroupModel, Named, Node, paths
from omnizarr.stores import Store, check_disjoint, sizes
from omnizarr.stores.identity import key_digest, portable_key
from omnizarr.stores.resolve import options_for_two

Progress = Callable[[int, int, str], None]
Coords = tuple[int, ...]

# Conventions are above this module in the layers, so OME-Zarr is found by its registered name.
registry.register("integration", "ome", "omnizarr.conventions.ome.migrate:for_format")


@dataclass
class Report:
    """The result of a conversion."""

    arrays: int = 0
    groups: int = 0
    chunks_copied: int = 0
    chunks_encoded: int = 0
    bytes_written: int = 0
    # Re-encoded arrays, with the reason.
    encoded: dict[str, str] = field(default_factory=dict)
    # Chunks stored by an earlier, interrupted call that this one resumed.
    chunks_kept: int = 0
    # Keys of damaged chunks that were skipped, with the reason.
    damaged: dict[str, str] = field(default_factory=dict)
    # Keys and prefixes that are not Zarr and were skipped.
    foreign: list[str] = field(default_factory=list)
    # Arrays written without checksums, with the names of the checksum codecs.
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Task:
    """One array to convert."""

    source: BoundArray
    target: Location
    model: ArrayModel
    reason: str | None  # for re-encoding the chunks; None if they are copied byte for byte
    left_out: tuple[str, ...] = ()  # checksum codecs that the copy does not have
    changed: tuple[int, int] = (0, 0)  # numbers of last codecs to decode, and to encode again

    @cached_property
    def readable(self) -> bool:
        """True if all codecs are known, so that chunks can be checked."""
        try:
            _check_readable(self.source)
        except OmnizarrError:
            return False
        return True


def convert(
    source: Any,
    destination: Any = None,
    *,
    zarr_format: int | str = 3,
    overwrite: bool = False,
    in_place: bool = False,
    dimension_separator: str | None = None,
    checksum: bool = False,
    resume: bool = False,
    skip_damaged: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
) -> Report:
    """Write `source` in another format to `destination`.

    The destination becomes visible when it is complete; `overwrite` replaces an existing hierarchy
    at that moment. An interrupted conversion is finished by the same call with ``resume=True`` if
    the source has not changed since, or started again with ``overwrite=True``. A damaged chunk is
    an error; with `skip_damaged` it is skipped and listed in the report. Keys that are not Zarr are
    skipped with a warning.

    With `in_place` and no destination, only metadata is written, beside the old metadata; this is
    possible if every chunk stays valid under its key (1 to 2, 2 to 3, 1 to 3).
    `dimension_separator` is the separator of the chunk keys at the destination, by default that of
    the source. OME-Zarr images and plates get the metadata of the OME-Zarr version for that Zarr
    version, as with `ome.migrate`. In version 2, checksums are removed because few readers support
    them; the report names them in `left_out`. `checksum` keeps them.

    `progress` is called with the number of chunks done, their total number, and the array's path.
    `storage_options` apply to both if they are URLs; `destination_options` replace them for the
    destination.
    """
    if in_place != (destination is None):
        raise TypeError("give a destination, or in_place=True")
    here, there = options_for_two(source, destination, storage_options, destination_options)
    start, node = find_node(
        stores.resolve(source, read_only=not in_place, storage_options=here), ""
    )
    goal = by_name(zarr_format)
    store = start.store if in_place else stores.resolve(destination, storage_options=there)
    if not in_place:
        check_disjoint(start.store, store, "; give another destination, or in_place=True")
    stored = require_readable_nodes(start, node)
    translate = registry.lookup("integration", "ome")
    nodes, separator = translate(
        start, stored, goal, in_place, check_separator(dimension_separator)
    )
    checksum = checksum or goal.checksums_are_read
    tasks, groups = _prepare(start, nodes, store, goal, in_place, separator, checksum)
    report = Report(arrays=len(tasks), groups=len(groups))
    for task in tasks:
        if task.reason is not None:
            report.encoded[paths.show(task.source.path)] = task.reason
        if task.left_out:
            report.left_out[paths.show(task.source.path)] = ", ".join(task.left_out)
    models: dict[str, Node] = {**groups, **{t.source.path: t.model for t in tasks}}
    if in_place:
        _store_metadata(store, goal, models)
        return report
    report.foreign = warn_of_other_keys(start, stored)
    origin = portable_key(start.store)
    if resume and origin is None:
        raise StoreError(
            f"cannot resume from {start.store!r}: it cannot be identified as the source of the"
            " interrupted conversion; give overwrite=True to start again"
        )
    new = build_resumable(
        Location(store, "", goal),
        overwrite=overwrite,
        operation=f"the conversion of {start.store!r} to zarr {goal.name}",
        plan=key_digest(origin, _metadata_values(goal, models)),
        resume=resume,
    )
    with new as staged:
        for path, model in sorted(models.items()):
            staged.at(path).create(model)
        _Conversion(new.chunk_store, goal, report, skip_damaged, resume, progress).run(tasks)
    return report


def _store_metadata(store: Store, goal: Format, models: Mapping[str, Node]) -> None:
    """Store the metadata of all nodes beside the old; the root's last, it makes them visible."""
    if any(store.get(key) is not None for key in goal.keys("")):
        raise NodeExists(f"{store!r} already has zarr {goal.name} metadata")
    for path in sorted(models, key=lambda path: (-path.count("/"), path == "", path)):
        Location(store, path, goal).save(None, models[path])


def _metadata_values(goal: Format, models: Mapping[str, Node]) -> list[tuple[str, bytes | None]]:
    """Return the keys and values of all metadata that a conversion stores."""
    return [
        pair
        for path, model in sorted(models.items())
        for pair in sorted(goal.write(path, model).items())
    ]


def _prepare(
    start: Location,
    nodes: dict[str, Node],
    store: Store,
    goal: Format,
    in_place: bool,
    separator: str | None,
    checksum: bool,
) -> tuple[list[_Task], dict[str, GroupModel]]:
    """Return the arrays and groups to write; raise if the format cannot express one of them."""
    tasks: list[_Task] = []
    groups: dict[str, GroupModel] = {}
    for path, node in nodes.items():
        location = start.at(path)
        try:
            goal.check_name(path)
            if isinstance(node, GroupModel):
                groups[path] = GroupModel(node.attributes)
                goal.write(path, groups[path])
                continue
            prefix = start.format.chunk_prefix(path)
            bound = BoundArray(start.store, path, prefix, node)
            bound.check()
            task = _task(bound, Location(store, path, goal), in_place, separator, checksum)
        except OmnizarrError as e:
            raise type(e)(f"cannot convert {location} to zarr {goal.name}: {e}") from e
        tasks.append(task)
    return tasks, groups


def _task(
    source: BoundArray, target: Location, in_place: bool, separator: str | None, checksum: bool
) -> _Task:
    goal = target.format
    model = source.model.with_(extra={})
    reason = None
    left_out: tuple[str, ...] = ()
    changed = 0, 0
    try:
        if model.storage_transformers:
            raise CannotExpress("its chunks are packed by a storage transformer")
        if source.skipped:
            raise CannotExpress(f"it has the unknown extension {source.skipped[0]!r}")
        kept = _with_fill_value(goal.adapt(model), source, goal)
        if not checksum:
            codecs, left_out = without_checksums(kept.codecs)
            changed = _changed(kept.codecs, codecs)
            kept = kept.with_(codecs=codecs) if left_out else kept
    except CannotExpress as e:
        reason = str(e)
        _check_readable(source)
        kept = _reencoded(source, _with_fill_value(model, source, goal), goal)
    if in_place:
        same = kept.chunk_key_encoding == model.chunk_key_encoding
        same = same and goal.chunk_prefix(source.path) == source.prefix
        if any(changed):
            reason = f"they have a checksum ({left_out[0]}); checksum=True keeps it"
        if reason is not None or not same:
            why = reason or "their keys would change"
            raise CannotExpress(f"its chunks cannot be kept unchanged: {why}")
    else:
        same_kind = kept.chunk_key_encoding.name == goal.key_encoding(None).name
        if separator is None and same_kind:
            separator = kept.chunk_key_encoding.configuration.get("separator")
        kept = kept.with_(chunk_key_encoding=goal.key_encoding(separator))
    goal.write(source.path, kept)
    if any(changed):
        _check_readable(source)
    return _Task(source, target, kept, reason, left_out, changed)


def _changed(old: tuple[Named, ...], new: tuple[Named, ...]) -> tuple[int, int]:
    """Return the lengths of the differing tails of two codec lists."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((i for i, (a, b) in pairs if a.name != b.name), len(new))
    return len(old) - same, len(new) - same


def _check_readable(source: BoundArray) -> None:
    """Raise if a codec is unknown; only chunks copied byte for byte do not need it."""
    if 0 not in source.grid.shape:
        _ = source.first_pipeline


def _with_fill_value(model: ArrayModel, source: BoundArray, goal: Format) -> ArrayModel:
    """Return the model with its fill value in the JSON form of the other format."""
    old = model.fill_value
    if old.dialect == goal.dialect:
        return model
    if not source.fill_defined and goal.undefined_fill:
        fill = type(old)(None, goal.dialect)
    else:
        fill = source.data_type.fill_json(source.fill, goal.dialect)
    return model.with_(fill_value=fill)


def _reencoded(source: BoundArray, model: ArrayModel, goal: Format) -> ArrayModel:
    """Return a model that the other format can express, with its default codecs."""
    inner = inner_chunk_shape(model)
    if inner is not None:
        model = model.with_(chunk_grid=Named("regular", {"chunk_shape": list(inner)}))
    variable = {"string": "vlen-utf8", "bytes": "vlen-bytes"}.get(model.data_type.name)
    itemsize = None if source.data_type.variable else source.dtype.itemsize
    data_type = model.data_type
    if not source.data_type.variable:
        data_type = describe(source.dtype.newbyteorder("<"))
    model = model.with_(
        data_type=data_type,
        codecs=default_codecs(goal, itemsize, variable),
        storage_transformers=(),
    )
    if data_type.name == "struct" and not source.data_type.variable:
        native = engine.BoundArray(source.store, source.path, "", model).data_type
        value = source.fill.astype(native.dtype)
        if source.fill_defined:
            model = model.with_(fill_value=native.fill_json(value, goal.dialect))
    try:
        return goal.adapt(model)
    except CannotExpress:
        if model.chunk_grid.name == "regular":
            raise
    chunks = guess_chunks(model.shape, itemsize or 16, 2**20)
    return goal.adapt(model.with_(chunk_grid=Named("regular", {"chunk_shape": list(chunks)})))


@dataclass
class _Conversion:
    """Copies the chunks of arrays to a store, and counts them in the report."""

    store: Store
    goal: Format
    report: Report
    skip_damaged: bool
    resume: bool
    progress: Progress | None

    def run(self, tasks: list[_Task]) -> None:
        """Store the chunks of all arrays."""
        chunks = [[coords for coords, _ in stored_keys(task.source)] for task in tasks]
        total, done = sum(map(len, chunks)), 0
        for task, every in zip(tasks, chunks, strict=True):
            path = task.source.path
            target = BoundArray(self.store, path, self.goal.chunk_prefix(path), task.model)
            if task.model.chunk_grid != task.source.model.chunk_grid:
                self._copy_values(task.source, target)
                done += len(every)
                self._report_progress(done, total, path)
                continue
            one = partial(self._copy_bytes if task.reason is None else self._encode, task)
            there = {coords for coords, _ in stored_keys(target)} if self.resume else set()
            for coords in every:
                if coords in there:
                    self.report.chunks_kept += 1
                else:
                    self._try(one, target, coords)
                done += 1
                self._report_progress(done, total, path)

    def _report_progress(self, done: int, total: int, path: str) -> None:
        if self.progress is not None:
            self.progress(done, total, paths.show(path))

    def _try(
        self,
        store: Callable[[BoundArray, Coords], None],
        target: BoundArray,
        coords: Coords,
    ) -> None:
        try:
            store(target, coords)
        except ChunkError as e:
            if not self.skip_damaged:
                raise
            self.report.damaged[e.key or target.key(coords)] = str(e)

    def _copy_bytes(self, task: _Task, target: BoundArray, coords: Coords) -> None:
        source = task.source
        for key in [source.encoding.key(coords), *source.encoding.other_keys(coords)]:
            data: Buffer | None = source.store.get(source.prefix + key)
            if data is None:
                continue
            if task.readable:
                check_encoded_chunk(source, coords, data)
            if any(task.changed):
                data = _without_checksum(task, target, coords, data)
            target.store.set(target.key(coords), data)
            self.report.chunks_copied += 1
            self.report.bytes_written += len(data)
            return

    def _encode(self, task: _Task, target: BoundArray, coords: Coords) -> None:
        chunk = engine.read_chunk(task.source, coords)
        if chunk is not None:
            engine.write_chunk(target, coords, np.asarray(chunk, target.dtype))
            self._count(target, coords)

    def _copy_values(self, source: BoundArray, target: BoundArray) -> None:
        """Copy between different grids, one chunk of the new grid at a time."""
        for row in plan(target.grid, ...).rows():
            part = plan(source.grid, row.outer)
            values = np.empty(part.full_shape, source.dtype)
            engine.read(source, part, values)
            engine.write(target, plan(target.grid, row.outer), values.astype(target.dtype))
            self._count(target, row.coords)

    def _count(self, target: BoundArray, coords: Coords) -> None:
        """Count a re-encoded chunk and its bytes; a chunk of only fill values is not stored."""
        self.report.chunks_encoded += 1
        self.report.bytes_written += sum(sizes(target.store, [target.key(coords)]).values())


def _without_checksum(task: _Task, target: BoundArray, coords: Coords, data: Buffer) -> Buffer:
    """Verify and remove the checksums of an encoded chunk; return the remaining bytes."""
    undo, redo = task.changed
    with chunk_context("read", task.source, coords):
        data = task.source.pipeline_at(coords).decode_last(data, undo)
        return target.pipeline_at(coords).encode_last(data, redo)
