"""Convert a hierarchy from any format to any other.

Chunk bytes are kept as they are where the other format can describe them, and are decoded and
encoded again where not. Everything that cannot be expressed is found before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnizarr import engine, stores
from omnizarr.codecs.codec import Buffer
from omnizarr.data_types import describe
from omnizarr.engine import BoundArray
from omnizarr.engine.reference import telling
from omnizarr.errors import CannotExpress, NodeExists, OmnizarrError, StoreError
from omnizarr.formats import Format, by_name
from omnizarr.formats.codec_names import without_checksums
from omnizarr.hierarchy.chunking import guess_chunks, inner_chunks
from omnizarr.hierarchy.locate import locate
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.options import check_separator
from omnizarr.hierarchy.stored import stored_keys
from omnizarr.hierarchy.walk import walk
from omnizarr.indexing import plan
from omnizarr.model import ArrayModel, GroupModel, Named, Node, paths
from omnizarr.ops import ome_translate
from omnizarr.stores import Inside, Store, sizes
from omnizarr.stores.resolve import options_for_two

Progress = Callable[[int, int, str], None]


@dataclass
class Report:
    """What a conversion did."""

    arrays: int = 0
    groups: int = 0
    chunks_copied: int = 0
    chunks_encoded: int = 0
    bytes_written: int = 0
    # Arrays that were encoded again, with the reason.
    encoded: dict[str, str] = field(default_factory=dict)
    # Arrays whose checksums were left out, with their names.
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Task:
    """One array to convert."""

    source: BoundArray
    target: Location
    model: ArrayModel
    reason: str | None  # why the chunks must be encoded again; None: bytes are kept
    left_out: tuple[str, ...] = ()  # checksums that the copy is without
    changed: tuple[int, int] = (0, 0)  # for that, how many last codecs are undone, and redone


def convert(
    source: Any,
    destination: Any = None,
    *,
    zarr_format: int | str = 3,
    overwrite: bool = False,
    in_place: bool = False,
    dimension_separator: str | None = None,
    checksum: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
) -> Report:
    """Write `source` in another format to `destination`.

    With `in_place`, and no destination, only documents are written beside the old ones; that
    works where every chunk stays valid under its key (1 to 2, 2 to 3, 1 to 3).
    `dimension_separator` is for the chunk keys at the destination, where it shall be another one.
    Images and plates of OME-Zarr get the metadata of its version on that Zarr, as by `ome.migrate`.
    Version 2 is written as its other readers know it: without checksums, which the report names
    in `left_out`. With `checksum` they stay; few others read that.
    `progress` is called with chunks done, chunks in all, and the array's path.
    `storage_options` are for those of the two that are URLs; `destination_options` are the
    destination's, where they are others.
    """
    if in_place != (destination is None):
        raise TypeError("give a destination, or in_place=True")
    here, there = options_for_two(source, destination, storage_options, destination_options)
    start, node = locate(stores.resolve(source, read_only=not in_place, storage_options=here), "")
    goal = by_name(zarr_format)
    store = start.store if in_place else stores.resolve(destination, storage_options=there)
    if not in_place:
        _check_apart(start.store, store)
    nodes, separator = ome_translate.for_format(
        start, walk(start, node), goal, in_place, check_separator(dimension_separator)
    )
    checksum = checksum or goal.checksums_are_read
    tasks, groups = _prepare(start, nodes, store, goal, in_place, separator, checksum)
    _check_target(store, goal, overwrite, in_place)
    report = Report()
    for path, group in groups.items():
        location = Location(store, path, goal)
        if path == "" or goal.name != start.format.name or not in_place:
            _put(location, group, overwrite and path == "", in_place)
        report.groups += 1
    _run(tasks, report, overwrite, in_place, progress)
    return report


def _check_apart(source: Store, destination: Store) -> None:
    """Raise where writing the one would change or erase the other."""
    if source == destination:
        raise StoreError(
            f"source and destination are both {source!r}; give another place, or in_place=True"
        )
    for inner, outer in ((source, destination), (destination, source)):
        if isinstance(inner, Inside) and outer in inner.around():
            raise StoreError(
                f"cannot convert {source!r} to {destination!r}: one lies inside the other;"
                " give another place"
            )


def _prepare(
    start: Location,
    nodes: dict[str, Node],
    store: Store,
    goal: Format,
    in_place: bool,
    separator: str | None,
    checksum: bool,
) -> tuple[list[_Task], dict[str, GroupModel]]:
    """All that will be done; raises where the format has no words for something."""
    tasks: list[_Task] = []
    groups: dict[str, GroupModel] = {}
    for path, node in nodes.items():
        place = start.at(path)
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
            raise type(e)(f"cannot convert {place} to zarr {goal.name}: {e}") from e
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
            raise CannotExpress(f"it has {source.skipped[0]!r}, which is unknown here")
        kept = _respelled(goal.adapt(model), source, goal)
        if not checksum:
            codecs, left_out = without_checksums(kept.codecs)
            changed = _changed(kept.codecs, codecs)
            kept = kept.with_(codecs=codecs) if left_out else kept
    except CannotExpress as e:
        reason = str(e)
        _check_readable(source)
        kept = _reencoded(source, _respelled(model, source, goal), goal)
    if in_place:
        same = kept.chunk_key_encoding == model.chunk_key_encoding
        same = same and goal.chunk_prefix(source.path) == source.prefix
        if any(changed):
            reason = f"they have a checksum ({left_out[0]}); checksum=True keeps it"
        if reason is not None or not same:
            raise CannotExpress(f"its chunks cannot stay as they are: {reason or 'other keys'}")
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
    """How many codecs at the end of a list, and of the list without checksums, differ."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((i for i, (a, b) in pairs if a.name != b.name), len(new))
    return len(old) - same, len(new) - same


def _check_readable(source: BoundArray) -> None:
    """Raise where a codec is unknown; chunks that are kept as they are do not need it."""
    if 0 not in source.grid.shape:
        _ = source.first_chain


def _respelled(model: ArrayModel, source: BoundArray, goal: Format) -> ArrayModel:
    """The model with its fill value in the words of the other format."""
    stated = model.fill_value
    if stated.dialect == goal.dialect:
        return model
    if not source.fill_defined and goal.undefined_fill:
        fill = type(stated)(None, goal.dialect)
    else:
        fill = source.data_type.fill_json(source.fill, goal.dialect)
    return model.with_(fill_value=fill)


def _reencoded(source: BoundArray, model: ArrayModel, goal: Format) -> ArrayModel:
    """A model that the other format can express, with its default codecs."""
    inner = inner_chunks(model)
    if inner is not None:
        model = model.with_(chunk_grid=Named("regular", {"chunk_shape": list(inner)}))
    variable = {"string": "vlen-utf8", "bytes": "vlen-bytes"}.get(model.data_type.name)
    itemsize = None if source.data_type.variable else source.dtype.itemsize
    data_type = model.data_type
    if not source.data_type.variable:
        data_type = describe(source.dtype.newbyteorder("<"))
    model = model.with_(
        data_type=data_type,
        codecs=goal.default_codecs(itemsize, variable),
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


def _check_target(store: Store, goal: Format, overwrite: bool, in_place: bool) -> None:
    if in_place:
        keys = goal.keys("")
        if any(store.get(key) is not None for key in keys):
            raise NodeExists(f"there are already zarr {goal.name} documents in {store!r}")
    elif existing_node(store, "") is not None and not overwrite:
        raise NodeExists(f"there is already a node in {store!r}; give overwrite=True to replace it")


def _put(location: Location, node: Node, overwrite: bool, in_place: bool) -> None:
    if in_place:
        location.save(None, node)
    else:
        location.create(node, overwrite=overwrite)


def _run(
    tasks: list[_Task], report: Report, overwrite: bool, in_place: bool, progress: Progress | None
) -> None:
    chunks = [
        [] if in_place else [coords for coords, _ in stored_keys(task.source)] for task in tasks
    ]
    total, done = sum(map(len, chunks)), 0
    for task, coords in zip(tasks, chunks, strict=True):
        root = not task.source.path
        _put(task.target, task.model, overwrite and root, in_place)
        report.arrays += 1
        prefix = task.target.format.chunk_prefix(task.source.path)
        target = BoundArray(task.target.store, task.source.path, prefix, task.model)
        if task.reason is not None:
            report.encoded[paths.show(task.source.path)] = task.reason
        if task.left_out:
            report.left_out[paths.show(task.source.path)] = ", ".join(task.left_out)
        if task.model.chunk_grid != task.source.model.chunk_grid:
            _copy_values(task.source, target, report)
            done += len(coords)
            if progress is not None:
                progress(done, total, paths.show(task.source.path))
            continue
        for each in coords:
            if task.reason is None:
                _copy_bytes(task, target, each, report)
            else:
                _encode(task.source, target, each, report)
            done += 1
            if progress is not None:
                progress(done, total, paths.show(task.source.path))


def _copy_bytes(task: _Task, target: BoundArray, coords: tuple[int, ...], report: Report) -> None:
    source = task.source
    keys = [source.encoding.key(coords), *source.encoding.other_keys(coords)]
    for key in keys:
        data = source.store.get(source.prefix + key)
        if data is not None:
            kept = _without_checksum(task, target, coords, data) if any(task.changed) else data
            target.store.set(target.key(coords), kept)
            report.chunks_copied += 1
            report.bytes_written += len(kept)
            return


def _without_checksum(
    task: _Task, target: BoundArray, coords: tuple[int, ...], data: Buffer
) -> Buffer:
    """The bytes of a chunk without its checksums, which are checked; the rest stays as it is."""
    undo, redo = task.changed
    with telling("read", task.source, coords):
        data = task.source.chain_at(coords).undone(data, undo)
        return target.chain_at(coords).redone(data, redo)


def _encode(
    source: BoundArray, target: BoundArray, coords: tuple[int, ...], report: Report
) -> None:
    chunk = engine.read_chunk(source, coords)
    if chunk is not None:
        engine.write_chunk(target, coords, np.asarray(chunk, target.dtype))
        _count(target, coords, report)


def _copy_values(source: BoundArray, target: BoundArray, report: Report) -> None:
    """Copy where the grids differ, one chunk of the new grid at a time."""
    for row in plan(target.grid, ...).rows():
        part = plan(source.grid, row.outer)
        values = np.empty(part.full_shape, source.dtype)
        engine.read(source, part, values)
        engine.write(target, plan(target.grid, row.outer), values.astype(target.dtype))
        _count(target, row.coords, report)


def _count(target: BoundArray, coords: tuple[int, ...], report: Report) -> None:
    """Count a chunk that was encoded again; one of nothing but the fill value is not stored."""
    report.chunks_encoded += 1
    report.bytes_written += sum(sizes(target.store, [target.key(coords)]).values())
