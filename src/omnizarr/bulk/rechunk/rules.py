"""Rules of rechunking: which chunks, shards, codecs and type each array of a hierarchy gets."""

from __future__ import annotations

import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from omnizarr import extension
from omnizarr.bulk.transfer import check_sign
from omnizarr.errors import InvalidArgument, OmnizarrError, WrongType, known_names
from omnizarr.extension import ArrayModel, BoundArray, Format, Named, Node, data_types, paths

CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
KEEP: Any = None  # of a rule: as in the source
_MARKS = ("_FillValue", "missing_value")
# Attributes of a CF variable that have the type of its values.
TYPED_ATTRIBUTES = (*_MARKS, "valid_min", "valid_max", "valid_range")


@dataclass(frozen=True)
class Rule:
    """The requested layout of an array; None keeps the source's."""

    chunks: Any = KEEP
    shards: Any = KEEP  # False for none
    codecs: Any = KEEP
    dtype: Any = KEEP
    fill_value: Any = KEEP

    def with_members(self, given: Any, where: str) -> Rule:
        """Return this rule with members from a mapping."""
        if not isinstance(given, Mapping):
            raise WrongType(f"{where}: expected a mapping such as {{'chunks': …}}, got {given!r}")
        names = [each.name for each in fields(self)]
        for name in given:
            if name not in names:
                raise InvalidArgument(f"{where}: unknown {name!r}; {known_names(name, names)}")
        return replace(self, **{name: value for name, value in given.items() if value is not KEEP})


def choose_rules(
    nodes: Mapping[str, Node], rules: Mapping[str, Any] | None, default: Rule
) -> tuple[dict[str, Rule], dict[str, str]]:
    """Return the rule of every array: the first whose pattern matches, completed by the default.

    Raises for a pattern that matches no array, and for a dimension that no array has. The second
    value has the arrays that keep a part of their layout because a shape is for arrays of another
    number of axes, with the reason.
    """
    arrays = {path: node for path, node in nodes.items() if isinstance(node, ArrayModel)}
    found = dict.fromkeys(arrays, default)
    for pattern, members in [*(rules or {}).items()][::-1]:
        rule = default.with_members(members, f"rules[{pattern!r}]")
        matching = [*filter(paths.Patterns.of(pattern or "/").match_node, arrays)]
        if not matching:
            hint = known_names(pattern, sorted(map(paths.show, arrays)))
            raise InvalidArgument(f"rules: no array matches {pattern!r}; {hint}")
        found |= dict.fromkeys(matching, rule)
    _check_dimensions(nodes, found)
    chosen: dict[str, Rule] = {}
    kept: dict[str, str] = {}
    for path, rule in found.items():
        rank, unfit = len(arrays[path].shape), list[str]()
        for option in ("chunks", "shards"):
            given = getattr(rule, option)
            if not isinstance(given, (list, tuple)) or len(given) == rank:
                continue
            same = (p for p, r in found.items() if getattr(r, option) is given)
            if any(len(arrays[other].shape) == len(given) for other in same):
                unfit.append(f"{option} {tuple(given)}")
                rule = replace(rule, **{option: KEEP})
        chosen[path] = rule
        if unfit:
            kept[path] = f"{' and '.join(unfit)} are for another number of axes"
    return chosen, kept


def _check_dimensions(nodes: Mapping[str, Node], rules: Mapping[str, Rule]) -> None:
    """Raise if a rule names a dimension that none of its arrays has."""
    known = {path: dimension_names(nodes, path) for path in rules}
    every = {name for names in known.values() for name in names if name is not None}
    for rule in rules.values():
        for option in ("chunks", "shards"):
            given = getattr(rule, option)
            for name in given if isinstance(given, Mapping) else ():
                if isinstance(name, str) and name not in every and "shape" not in given:
                    hint = known_names(name, sorted(every)) if every else "no array names its axes"
                    raise InvalidArgument(f"{option}: no array has a dimension {name!r}; {hint}")


def dimension_names(nodes: Mapping[str, Node], path: str) -> tuple[str | None, ...]:
    """Return the names of an array's axes, or else the axes of the OME-Zarr group above it."""
    array = nodes[path]
    if not isinstance(array, ArrayModel):
        return ()
    if array.dimension_names is not None:
        return array.dimension_names
    parent = nodes.get(path.rpartition("/")[0]) if path else None
    names = [*_image_axes(parent)] if isinstance(parent, extension.GroupModel) else []
    return tuple(names) if len(names) == len(array.shape) else (None,) * len(array.shape)


def _image_axes(group: extension.GroupModel) -> Iterator[str | None]:
    attributes = group.attributes.get("ome", group.attributes)
    images = attributes.get("multiscales") if isinstance(attributes, Mapping) else None
    first = images[0] if isinstance(images, Sequence) and images else None
    axes = first.get("axes") if isinstance(first, Mapping) else None
    for axis in axes if isinstance(axes, Sequence) else ():
        name = axis.get("name") if isinstance(axis, Mapping) else axis
        yield name if isinstance(name, str) else None


def apply_rule(
    source: BoundArray,
    names: Sequence[str | None],
    rule: Rule,
    format: Format,
    casting: str = "same_kind",
) -> ArrayModel:
    """Return the model of the new array; the same object if the rule changes nothing."""
    model = source.model
    data_type = _new_type(source, rule, format, casting)
    chunks = _new_chunks(source, names, rule.chunks, data_type)
    codecs = _new_codecs(source, rule.codecs, data_type, format)
    new = model.with_(
        data_type=model.data_type if data_type is source.data_type else data_type.named,
        chunk_grid=chunks,
        codecs=codecs,
        storage_transformers=(),
        fill_value=_new_fill(source, rule, data_type, format),
        attributes=_typed_attributes(source, data_type, format),
    )
    shards = _new_shards(source, names, rule.shards, new)
    if shards is not None:
        shape, location = shards
        new = format.sharded(new, extension.shard_shape(shape, new, data_type), location)
    new = format.adapt(new)
    return model if same_layout(new, model) else new


def same_layout(one: ArrayModel, other: ArrayModel) -> bool:
    """Return True if two arrays store equal chunks as equal bytes."""
    names = "data_type", "chunk_grid", "codecs", "storage_transformers", "fill_value"
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _new_type(source: BoundArray, rule: Rule, format: Format, casting: str) -> data_types.DataType:
    if casting not in CASTINGS:
        raise InvalidArgument(f"casting: {known_names(casting, CASTINGS)}, got {casting!r}")
    if rule.dtype is KEEP:
        return source.data_type
    named = format.new_type(data_types.describe(rule.dtype))
    if named == source.model.data_type:
        return source.data_type
    made = data_types.bind(named)
    old, new = source.dtype, made.dtype
    check_sign(source.model.attributes, old, new, paths.show(source.path))
    if extension.is_complex_pair(old) and new.kind == "c":
        return made  # which holds all numbers of the small type
    if not np.can_cast(old, new, casting):  # type: ignore[arg-type]  # checked above
        raise InvalidArgument(
            f"{paths.show(source.path)}: {old} cannot be cast to {new} by the rule {casting!r};"
            " give casting='unsafe' if values may change"
        )
    return made


def _new_chunks(
    source: BoundArray, names: Sequence[str | None], given: Any, data_type: data_types.DataType
) -> Named:
    """Return the grid of the chunks, which are inside shards if the array gets any."""
    inner = extension.inner_chunk_shape(source.model)
    old = source.model.chunk_grid
    if inner is not None:
        old = Named("regular", {"chunk_shape": list(inner)})
    if given is KEEP:
        return old
    if isinstance(given, Mapping):
        kept = old.configuration.get("chunk_shape") or old.configuration.get("chunk_shapes")
        given = _by_name(given, names, [*(kept or ())], source)
    grid = extension.chunk_grid(given, source.model.shape, data_type)
    return old if grid == old else grid


def _by_name(
    given: Mapping[Any, Any], names: Sequence[str | None], kept: list[Any], source: BoundArray
) -> list[Any]:
    """Return a length for each axis from lengths by dimension name or axis number."""
    out = [*kept]
    rank = len(source.model.shape)
    for name, length in given.items():
        if isinstance(name, str):
            axes = [i for i, known in enumerate(names) if known == name]
        elif isinstance(name, (int, np.integer)) and -rank <= name < rank:
            axes = [int(name)]
        else:
            axes = []
        for axis in axes:
            whole = length in (-1, None) if not isinstance(length, (list, tuple)) else False
            out[axis] = max(1, source.model.shape[axis]) if whole else length
    return out


def _new_shards(
    source: BoundArray, names: Sequence[str | None], given: Any, model: ArrayModel
) -> tuple[Any, str] | None:
    """Return the shape and the index location of shards, or None for no shards."""
    old, location = extension.packed_shard_shape(source.model), "end"
    if extension.inner_chunk_shape(source.model) is not None:
        codec = next(c for c in source.model.codecs if c.name == "sharding_indexed")
        location = codec.configuration.get("index_location", "end")
        old = source.grid.regular
    if given is False or (given is KEEP and old is None):
        return None
    chunks = model.chunk_grid.configuration.get("chunk_shape")
    if chunks is None:
        raise InvalidArgument(f"{paths.show(source.path)}: shards need chunks of one shape")
    if given is KEEP:
        return _multiples(old or (), chunks), location
    if isinstance(given, Mapping) and "shape" in given:
        given, location = extension.shard_options(given)
    if isinstance(given, Mapping):
        return _multiples(_by_name(given, names, [*(old or chunks)], source), chunks), location
    if isinstance(given, (tuple, list)):
        pairs = zip(given, source.model.shape, strict=False)
        given = [n if size in (-1, None) else size for size, n in pairs]
        given = [-(-s // c) * c if s >= n else s
                 for s, c, n in zip(given, chunks, source.model.shape, strict=False)]  # fmt: skip
    return given, location


def _multiples(sizes: Sequence[int], chunks: Sequence[int]) -> list[int]:
    """Return sizes rounded up to whole chunks."""
    return [-(-max(s, c) // c) * c for s, c in zip(sizes, chunks, strict=True)]


def _new_codecs(
    source: BoundArray, given: Any, data_type: data_types.DataType, format: Format
) -> tuple[Named, ...]:
    """Return the codecs of a chunk, without shards.

    Codecs on bytes replace those of the source; with others among them, they replace all.
    """
    known = extension.specify.pipeline(source.model)
    itemsize = 1 if data_type.variable else data_type.dtype.itemsize
    front = [*known.filters, *([known.serializer] if known.serializer is not None else [])]
    tail = [*known.compressors]
    if given is not KEEP:
        several = given if isinstance(given, (list, tuple)) else [given]
        wanted = extension.named_codecs(format, several, "codecs", itemsize)
        if any(extension.specify.kind(codec) != "bytes->bytes" for codec in wanted):
            return extension.specify.with_bytes(wanted)
        tail = wanted
    if data_type is not source.data_type:
        front, tail = _for_type(source, front, tail, data_type, itemsize)
    return extension.specify.with_bytes([*front, *tail])


def _for_type(
    source: BoundArray,
    front: list[Named],
    tail: list[Named],
    data_type: data_types.DataType,
    itemsize: int,
) -> tuple[list[Named], list[Named]]:
    """Return codecs for another data type; raise if one of them depends on the old type."""
    fixed = data_type.variable != source.data_type.variable
    for codec in front:
        if codec.name not in ("transpose", "bytes") or fixed:
            raise InvalidArgument(
                f"{paths.show(source.path)}: the codec {codec.name!r} is for {source.dtype}, not"
                f" for {data_type.dtype}; give codecs with a codec from array to bytes"
            )
    front = [c.without("endian") if c.name == "bytes" and itemsize == 1 else c for c in front]
    if itemsize > 1:
        front = [
            c.replace(endian="little") if c.name == "bytes" and "endian" not in c.configuration
            else c for c in front
        ]  # fmt: skip
    tail = [c.replace(typesize=itemsize) if "typesize" in c.configuration else c for c in tail]
    return front, tail


def _new_fill(
    source: BoundArray, rule: Rule, data_type: data_types.DataType, format: Format
) -> Any:
    old = source.model.fill_value
    if rule.fill_value is not KEEP:
        return data_type.fill_json(rule.fill_value, format.dialect)
    if data_type is source.data_type or not source.fill_defined:
        return old
    try:
        with np.errstate(all="ignore"):
            value = data_types.as_type(np.asarray(source.fill), data_type.dtype)
            back = data_types.as_type(value, source.dtype)
            rounded = {value.dtype.kind, back.dtype.kind} <= {*"fc"} and bool(np.isfinite(value))
        same = bool(back == source.fill) or bool(back != back and source.fill != source.fill)
    except (TypeError, ValueError):
        same = rounded = False
    if not same and not rounded:
        raise InvalidArgument(
            f"{paths.show(source.path)}: the fill value {source.fill[()]!r} is no value of type"
            f" {data_type.dtype}; give fill_value"
        )
    return data_type.fill_json(value, format.dialect)


def _typed_attributes(
    source: BoundArray, data_type: data_types.DataType, format: Format
) -> Mapping[str, Any]:
    """Return the attributes, with missing values and valid ranges converted to the new type."""
    attributes, old, new = source.model.attributes, source.dtype, data_type.dtype
    # Limits of integers stay true for another integer type; those of floats are rounded.
    names = TYPED_ATTRIBUTES if old.kind != new.kind or new.kind == "f" else _MARKS
    if data_type is source.data_type or (old.kind == new.kind and new.kind not in "iuf"):
        return attributes
    found = {name: attributes[name] for name in names if name in attributes}
    changed = {}
    for name, value in found.items():
        try:
            changed[name] = _convert_attribute(name, value, old, new, format)
        except (ValueError, TypeError, OverflowError, struct.error, OmnizarrError):
            raise InvalidArgument(
                f"{paths.show(source.path)}: the attribute {name} {value!r} is no value of type"
                f" {data_type.dtype}; change it first"
            ) from None
    return {**attributes, **changed}


def _convert_attribute(
    name: str, value: Any, old: np.dtype[Any], new: np.dtype[Any], format: Format
) -> Any:
    """Return an attribute for another type, rounded as values are.

    xarray stores the `_FillValue` of floats in base64.
    """
    if isinstance(value, (list, tuple)):
        return [_convert_attribute(name, each, old, new, format) for each in value]
    if old.kind == new.kind and (value is None or value in ("NaN", "Infinity", "-Infinity")):
        return value
    encoded = name == "_FillValue" and isinstance(value, str)
    number = struct.unpack("<d", b64decode(value))[0] if encoded else value
    if old.kind == "f" and new.kind == "f":
        number = _rounded(number, old)
    if new.kind in "iu":
        if int(number) != number or not np.iinfo(new).min <= number <= np.iinfo(new).max:
            raise ValueError(number)
        return int(number)
    if new.kind != "f":
        return number
    number = _rounded(number, new)
    if name == "_FillValue" and format.dialect == "v3":
        return b64encode(struct.pack("<d", number)).decode()
    return number


def _rounded(number: Any, dtype: np.dtype[Any]) -> float:
    """Return a number rounded to a float type; raise if it would become infinite."""
    with np.errstate(over="ignore"):
        found = float(dtype.type(number))
    if math.isinf(found) and not math.isinf(number):
        raise ValueError(number)
    return found
