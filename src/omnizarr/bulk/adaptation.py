"""Adapt nodes to another format: with the same chunk bytes where it can describe them.

Everything that a format cannot express is found before anything is written, for all nodes at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnizarr import extension, registry
from omnizarr.bulk.transfer import Method, Transfer, check_readable, is_readable
from omnizarr.errors import CannotExpress, OmnizarrError, Problem
from omnizarr.extension import ArrayModel, BoundArray, Format, Named, Node, old, paths, stores

SHOWN = 20  # nodes that a message names

FILL = "_FillValue"  # the attribute that marks missing values where the fill value does not

# Conventions are above this module in the layers, so they are found by their registered names.
registry.register("integration", "ome", "omnizarr.conventions.ome.migrate:for_format")
registry.register("integration", "cf-encode-fill", "omnizarr.conventions.cf.packing:encode_fill")
registry.register("integration", "cf-decode-fill", "omnizarr.conventions.cf.packing:decode_fill")


@dataclass(frozen=True)
class Adaptation:
    """An array and its model in another format."""

    source: BoundArray
    model: ArrayModel
    reason: str | None  # for re-encoding the chunks; None if they keep their bytes
    left_out: tuple[str, ...] = ()  # checksum codecs that the new array does not have
    changed: tuple[int, int] = (0, 0)  # numbers of last codecs to decode, and to encode again
    fills: bool = False  # chunks that the source lacks are needed, as the fill value is another
    note: str | None = None  # what readers of the new array take for missing that was not, or was

    @property
    def method(self) -> Method:
        """The transfer of chunks: byte for byte, encoded again, or cut into other chunks."""
        if self.model.chunk_grid != self.source.model.chunk_grid:
            return "values"
        return "copy" if self.reason is None else "encode"

    def transfer(self, store: extension.Store, format: Format) -> Transfer:
        """Return the transfer of the chunks to a store."""
        path, method = self.source.path, self.method
        target = BoundArray(store, path, format.chunk_prefix(path), self.model)
        check = is_readable(self.source)
        method = "values" if self.fills else method
        return Transfer(self.source, target, method, self.changed, check, self.fills)


@dataclass
class Adapted:
    """All nodes of a hierarchy in another format, and their metadata."""

    arrays: list[Adaptation] = field(default_factory=list)
    models: dict[str, Node] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """The choices that a user has in the adaptation of arrays."""

    in_place: bool = False  # the chunks stay under their keys
    separator: str | None = None  # of the chunk keys, by default that of the source
    checksum: bool = False  # keep checksums also where few readers support them
    same_format: bool = False  # unknown fields of the metadata are kept
    for_view: bool = False  # only codecs that most readers know; missing chunks can be made


def adapt_nodes(
    start: extension.Location, nodes: Mapping[str, Node], goal: Format, options: Options
) -> Adapted:
    """Return all arrays and groups in another format; raise naming nodes that it cannot express."""
    if not goal.has_groups and isinstance(nodes.get(""), extension.GroupModel):
        raise CannotExpress(
            f"{start.at('')} is a group, and zarr {goal.name} has only arrays; convert its arrays"
            " one by one"
        )
    found = Adapted()
    failures: dict[str, OmnizarrError] = {}
    for path, node in nodes.items():
        try:
            paths.check_new(path)
            goal.check_name(path)
            if isinstance(node, extension.GroupModel):
                extra = node.extra if options.same_format else {}
                found.models[path] = extension.GroupModel(node.attributes, extra)
            else:
                parent = nodes.get(path.rpartition("/")[0])
                is_level = parent is not None and "ome" in parent.attributes
                if is_level and not (options.same_format or goal.names_in_attributes):
                    # A level of an image has names of axes, and is no variable of a dataset.
                    node = node.with_(attributes=extension.without_duplicate_names(node))
                bound = BoundArray(start.store, path, start.format.chunk_prefix(path), node)
                bound.check()
                array = adapt_array(bound, goal, options)
                found.arrays.append(array)
                found.models[path] = array.model
            documents = goal.write(path, found.models[path]).items()
            found.documents |= {key: text for key, text in documents if text is not None}
        except OmnizarrError as e:
            failures[path] = e
    if failures:
        raise cannot_convert(start, goal, failures)
    return found


def cannot_convert(
    start: extension.Location, goal: Format, failures: Mapping[str, OmnizarrError]
) -> OmnizarrError:
    """Return one error for all nodes that cannot be converted."""
    if len(failures) == 1:
        path, error = next(iter(failures.items()))
        found = type(error)(f"cannot convert {start.at(path)} to zarr {goal.name}: {error}")
        found.__cause__ = error
        return found
    lines = [f"\n  - {paths.show(path)}: {e}" for path, e in failures.items()]
    more = f"\n  - and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    message = (
        f"cannot convert {len(lines)} nodes of {start.store!r} to zarr {goal.name}; nothing was"
        f" written:{''.join(lines[:SHOWN])}{more}"
    )
    problems = (Problem(paths.show(path), "", str(e)) for path, e in failures.items())
    return CannotExpress(message, tuple(problems))


def adapt_array(source: BoundArray, goal: Format, options: Options) -> Adaptation:
    """Return an array in another format; raise CannotExpress if that is impossible."""
    model = source.model
    if not options.same_format:
        own = (
            model.attributes
            if goal.names_in_attributes
            else extension.without_duplicate_names(model)
        )
        model = model.with_(extra={}, attributes=own)
        if goal.names_in_attributes and not (model.shape or old(model.fill_value.dialect)):
            model = model.with_(dimension_names=())  # which xarray requires of scalars, too
    reason = None
    left_out: tuple[str, ...] = ()
    changed = 0, 0
    try:
        if model.storage_transformers:
            raise CannotExpress("its chunks are packed by a storage transformer")
        if source.skipped:
            raise CannotExpress(f"it has the unknown extension {source.skipped[0]!r}")
        kept = _with_fill_value(goal.adapt(model), source, goal)
        if not (options.checksum or goal.checksums_are_read):
            codecs, left_out = extension.without_checksums(kept.codecs)
            changed = _changed(kept.codecs, codecs)
            kept = kept.with_(codecs=codecs) if left_out else kept
        known_only = options.for_view and not (options.same_format or goal.codecs_by_id)
        if known_only and is_readable(source):
            for codec in kept.codecs:
                if codec.name.startswith(extension.PREFIX):
                    raise CannotExpress(f"few readers of zarr {goal.name} know {codec.name!r}")
    except CannotExpress as e:
        reason = str(e)
        check_readable(source)
        kept = _reencoded(source, _with_fill_value(model, source, goal), goal, options.for_view)
    fills, note = False, None
    if not options.same_format:
        kept, fills, note = _with_missing_marks(kept, source, goal, options)
    if fills and reason is None and not options.for_view:
        reason = f"missing chunks have the value {source.fill[()]!r}, which is not to be missing"
    if options.in_place:
        same = kept.chunk_key_encoding == model.chunk_key_encoding
        same = same and goal.chunk_prefix(source.path) == source.prefix
        if any(changed):
            reason = f"they have a checksum ({left_out[0]}); checksum=True keeps it"
        if reason is not None or not same:
            why = reason or "their keys would change"
            raise CannotExpress(f"its chunks cannot be kept unchanged: {why}")
    else:
        separator = options.separator
        same_kind = kept.chunk_key_encoding.name == goal.key_encoding(None).name
        if separator is None and same_kind:
            separator = kept.chunk_key_encoding.configuration.get("separator")
        kept = kept.with_(chunk_key_encoding=goal.key_encoding(separator))
    if any(changed):
        check_readable(source)
    return Adaptation(source, kept, reason, left_out, changed, fills, note)


def _changed(old: tuple[Named, ...], new: tuple[Named, ...]) -> tuple[int, int]:
    """Return the lengths of the differing tails of two codec lists."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((i for i, (a, b) in pairs if a.name != b.name), len(new))
    return len(old) - same, len(new) - same


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


def _with_missing_marks(
    model: ArrayModel, source: BoundArray, goal: Format, options: Options
) -> tuple[ArrayModel, bool, str | None]:
    """Return the model of a variable so that the same values are missing as in the source.

    In versions 1 and 2, xarray and NetCDF take the fill value for missing; in others, the attribute
    `_FillValue`. Also return whether missing chunks must be written because the fill value
    changes, and a note on what cannot be kept.
    """
    if _fill_may_mark(source) and not goal.undefined_fill:
        if _is_variable(source):
            model, note = _marked_by_attribute(model, source, goal)
            return model, False, note
    elif goal.undefined_fill and not _fill_may_mark(source):
        axes = model.dimension_names
        if axes is not None and None not in axes:
            return _marked_by_fill_value(model, source, goal, options)
    return model, False, None


def _fill_may_mark(array: BoundArray) -> bool:
    """Return True for the formats in which the fill value marks missing values."""
    return old(array.model.fill_value.dialect)


def _is_variable(array: BoundArray) -> bool:
    """Return True for an array of xarray or NetCDF in a format with names in attributes."""
    names = (*array.model.attributes, *array.model.extra)
    return any(name == extension.ARRAY_DIMENSIONS or extension.is_nczarr(name) for name in names)


def other_fill_note(old: BoundArray, new: BoundArray) -> str | None:
    """Return a note if the fill value that marks missing values was replaced by another."""
    names = new.model.dimension_names
    if not _fill_may_mark(new) or not (_is_variable(new) or (names and None not in names)):
        return None
    before, after = (each.fill[()] if each.fill_defined else None for each in (old, new))
    if before is None or after is None:
        same = before is after
    else:
        with np.errstate(all="ignore"):
            cast = old.fill.astype(new.dtype)[()]
        same = bool(cast == after) or bool(cast != cast and after != after)
    if same:
        return None
    now = "no value marks" if after is None else f"the fill value {after!r} marks"
    instead = "" if before is None else f" instead of {before!r}"
    return f"{now} missing values{instead}, as was asked for"


def missing_mark(array: BoundArray) -> Any:
    """Return the `_FillValue` that marks a variable's missing values in version 3, or None."""
    encode = registry.lookup("integration", "cf-encode-fill")
    if not _fill_may_mark(array):
        return array.model.attributes.get(FILL)
    known = array.fill_defined and _is_variable(array) and array.dtype.kind in "biufc"
    return encode(array.fill[()], array.dtype) if known else None


def _marked_by_attribute(
    model: ArrayModel, source: BoundArray, goal: Format
) -> tuple[ArrayModel, str | None]:
    encode = registry.lookup("integration", "cf-encode-fill")
    decode = registry.lookup("integration", "cf-decode-fill")
    dtype, own, note = source.dtype, model.attributes.get(FILL), None
    fill = source.fill[()]
    if dtype.kind not in "biufc":
        if source.fill_defined and not (dtype.kind in "mM" and np.isnat(fill)):
            note = (
                f"its fill value {fill!r} no longer marks missing values: xarray reads no {FILL} of"
                f" type {dtype} in zarr {goal.name}"
            )
        return model, note
    mark = missing_mark(source)
    if own is not None:
        try:
            found = encode(decode(own, dtype), dtype)
        except OmnizarrError:
            found = own
        if mark is not None and mark != found:
            note = (
                f"its attribute {FILL} {own!r} becomes the fill value {fill!r}, which xarray used"
            )
        mark = found if mark is None else mark
    if mark is None:
        return model, None
    return model.with_(attributes={**model.attributes, FILL: mark}), note


def _marked_by_fill_value(
    model: ArrayModel, source: BoundArray, goal: Format, options: Options
) -> tuple[ArrayModel, bool, str | None]:
    attributes = dict(model.attributes)
    own = attributes.pop(FILL, None)
    kept = f"the fill value {source.fill[()]!r} marks missing values in zarr {goal.name}"
    if own is not None:
        decode = registry.lookup("integration", "cf-decode-fill")
        try:
            fill = source.data_type.fill_json(decode(own, source.dtype), goal.dialect)
        except OmnizarrError as e:
            return model, False, f"{kept}, not the attribute {FILL} {own!r}: {e}"
    elif bool(np.all(source.fill != source.fill)):  # which is missing by itself
        return model, False, None
    else:
        fill = extension.FillValue(None, goal.dialect)
    marked = model.with_(attributes=attributes, fill_value=fill)
    if fill == model.fill_value or not (options.for_view or _lacks_chunks(source)):
        return marked, False, None
    if (own is None and options.in_place) or not is_readable(source):
        why = "are not stored" if options.in_place else "cannot be made: their codecs are not known"
        return model, False, f"{kept}, as chunks that have it {why}"
    return marked, True, None


def _lacks_chunks(array: BoundArray) -> bool:
    """Return True if a chunk is not stored, or may not be where the store cannot list them."""
    if not stores.can_list(array.store):
        return True
    return sum(1 for _ in extension.stored_keys(array)) < math.prod(array.grid.shape)


def _reencoded(source: BoundArray, model: ArrayModel, goal: Format, for_view: bool) -> ArrayModel:
    """Return a model that the other format can express, with its default codecs."""
    inner = extension.inner_chunk_shape(model)
    if inner is not None:
        model = model.with_(chunk_grid=Named("regular", {"chunk_shape": list(inner)}))
    variable = {"string": "vlen-utf8", "bytes": "vlen-bytes"}.get(model.data_type.name)
    itemsize = None if source.data_type.variable else source.dtype.itemsize
    data_type = model.data_type
    if not source.data_type.variable:
        data_type = extension.data_types.describe(source.dtype.newbyteorder("<"))
    codecs = goal.default_codecs(itemsize, variable, "portable") if for_view else None
    codecs = codecs or extension.default_codecs(goal, itemsize, variable)
    model = model.with_(data_type=data_type, codecs=codecs, storage_transformers=())
    if data_type.name == "struct" and not source.data_type.variable:
        native = extension.engine.BoundArray(source.store, source.path, "", model).data_type
        value = source.fill.astype(native.dtype)
        if source.fill_defined:
            model = model.with_(fill_value=native.fill_json(value, goal.dialect))
    try:
        return goal.adapt(model)
    except CannotExpress:
        if model.chunk_grid.name == "regular":
            raise
    chunks = extension.guess_chunks(model.shape, itemsize or 16, 2**20)
    return goal.adapt(model.with_(chunk_grid=Named("regular", {"chunk_shape": list(chunks)})))


# Consolidated metadata


def consolidated_groups(start: extension.Location, nodes: Mapping[str, Node]) -> list[str]:
    """Return the paths of groups that have consolidated metadata."""
    found, keys = [], {}
    for path, node in nodes.items():
        key = extension.consolidated.key(start.format, path)
        if key is None or not isinstance(node, extension.GroupModel):
            continue
        if key not in start.format.keys(path):
            keys[key] = path
        elif node.consolidated is not None:
            found.append(path)
    return [*found, *(keys[key] for key in stores.sizes(start.store, keys))]


def consolidate(goal: Format, nodes: Mapping[str, Node], groups: list[str]) -> dict[str, bytes]:
    """Return the consolidated metadata of some groups by key."""
    documents: dict[str, bytes] = {}
    for path in groups:
        start = paths.prefix(path)
        inside = {p[len(start) :]: n for p, n in nodes.items() if p == path or p.startswith(start)}
        documents |= extension.consolidated.write(goal, path, inside)
    return documents
