"""Codecs as users give them: an object, a name, or JSON of either style."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from omnizarr import registry
from omnizarr.errors import InvalidArgument, InvalidMetadata, WrongType, error_context
from omnizarr.formats.codec_names import walk
from omnizarr.model import ArrayModel, Named
from omnizarr.model.node import ARRAY_TO_ARRAY, ARRAY_TO_BYTES, PREFIX, with_defaults

_DEFAULTS: dict[str, dict[str, Any]] = {
    "gzip": {"level": 5},
    "zstd": {"level": 0, "checksum": False},
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0},
}
KINDS = ("array->array", "array->bytes", "bytes->bytes")
# What objects of JSON may leave out, as in zarr-python; the rest is the array's.
_MEMBERS = {**_DEFAULTS, "blosc": {"cname": "zstd", "clevel": 5, "blocksize": 0}}


def to_named(codec: Any, itemsize: int | None = 1) -> Named:
    """Return the name and configuration of a codec in any form that users may give.

    A codec object of this library or of numcodecs, a name, ``{"id": …}`` as in version 2, or
    ``{"name": …, "configuration": …}`` as in version 3. `itemsize` completes what an object
    leaves open; None leaves it open for later.
    """
    if isinstance(codec, Named):
        return codec
    if isinstance(codec, str):
        known = codec.startswith(PREFIX) or registry.find("codec", codec) is not None
        named = Named(codec if known else PREFIX + codec, _DEFAULTS.get(codec, {}))
        named = with_defaults("codec", named)
        return named.replace(typesize=itemsize or 1) if codec == "blosc" else named
    if isinstance(codec, dict) and isinstance(codec.get("id"), str):
        return Named(PREFIX + codec["id"], {k: v for k, v in codec.items() if k != "id"})
    if isinstance(codec, dict) and isinstance(codec.get("name"), str):
        configuration = codec.get("configuration", {})
        unknown = codec.keys() - {"name", "configuration", "must_understand"}
        if not isinstance(configuration, dict):
            raise InvalidMetadata(f"configuration: expected an object, got {configuration!r}")
        if unknown and itemsize is not None:  # what a user gives; readers ignore them in metadata
            raise InvalidArgument(f"give {min(unknown)!r} inside 'configuration', got {codec!r}")
        named = with_defaults("codec", Named(codec["name"], configuration))
        if itemsize is None:  # part of metadata, which are complete
            return named
        stated = {**_MEMBERS.get(named.name, {}), **named.configuration}
        return _completed(Named(named.name, stated), itemsize)
    if isinstance(codec, type):
        raise WrongType(f"{codec!r} is a class; give an object of it, {codec.__name__}(…)")
    if hasattr(codec, "to_dict"):  # zarr-python
        named = to_named(codec.to_dict(), None)
        # What such an object would still change when it meets an array.
        named = named.without(*getattr(codec, "_tunable_attrs", ()))
        return _completed(Named(named.name, plain_member(named.configuration)), itemsize)
    name = getattr(codec, "name", None)
    if dataclasses.is_dataclass(codec) and isinstance(name, str):
        return _completed(Named(name, plain_members(codec)), itemsize)
    if hasattr(codec, "get_config"):  # numcodecs
        return to_named(codec.get_config())
    raise InvalidArgument(
        f"{codec!r} is not a codec; give a codec object, a name such as 'zstd', or its JSON"
    )


def is_by_name(codec: Any) -> bool:
    """Return True if a codec states its name in version 3; objects leave it to the format."""
    if isinstance(codec, dict):
        return not isinstance(codec.get("id"), str)
    ours = hasattr(codec, "bind")
    return isinstance(codec, (str, Named)) or (hasattr(codec, "to_dict") and not ours)


def plain_members(codec: Any) -> dict[str, Any]:
    """Return the fields of a codec that have a value as JSON."""
    fields = ((f.name, getattr(codec, f.name)) for f in dataclasses.fields(codec))
    return {name: plain_member(value) for name, value in fields if value is not None}


def plain_member(value: Any) -> Any:
    """Return a member of a codec as JSON."""
    if isinstance(value, (tuple, list)):
        return [plain_member(v) for v in value]
    if isinstance(value, dict):
        return {k: plain_member(v) for k, v in value.items()}
    if isinstance(value, Named):
        return {"name": value.name, "configuration": dict(value.configuration)}
    return value.value if isinstance(value, Enum) else value


def all_named(codecs: Iterable[Any], where: str, itemsize: int | None = 1) -> list[Named]:
    """Return the names and configurations of codecs; errors name the position in `where`."""
    found = []
    for i, codec in enumerate(codecs):
        with error_context(f"{where}[{i}]", catch=(InvalidMetadata, InvalidArgument)):
            found.append(to_named(codec, itemsize))
    return found


def kind(named: Named) -> str:
    """Return the kind of a codec, as far as its name shows it."""
    target = registry.find("codec", named.name)
    found = getattr(target, "kind", None)
    if isinstance(found, str):
        return found
    id_ = named.name.removeprefix(PREFIX)
    if id_ in ARRAY_TO_ARRAY:
        return "array->array"
    return "array->bytes" if id_ in ARRAY_TO_BYTES else "bytes->bytes"


def with_bytes(codecs: Iterable[Named]) -> tuple[Named, ...]:
    """Return the list with `bytes` inserted, unless another codec makes bytes of arrays."""
    found = list(codecs)
    kinds = [kind(c) for c in found]
    if "array->bytes" not in kinds:
        at = kinds.index("bytes->bytes") if "bytes->bytes" in kinds else len(found)
        found.insert(at, Named("bytes"))
    return tuple(found)


def _completed(named: Named, itemsize: int | None) -> Named:
    """Return a codec with the members that depend on the size of the array's items."""
    inner = named.configuration.get("codecs")
    if itemsize is not None and isinstance(inner, list):
        found = all_named(inner, "configuration.codecs", itemsize)
        parts = [_completed(codec, itemsize) for codec in found]
        return named.replace(codecs=plain_member(parts))
    if itemsize is None or named.name != "blosc":
        return named
    stated = {k: v for k, v in named.configuration.items() if v is not None}
    shuffle = "bitshuffle" if itemsize == 1 else "shuffle"
    return Named(named.name, {"shuffle": shuffle, "typesize": itemsize, **stated})


def inner_chunk_shape(array: ArrayModel) -> tuple[int, ...] | None:
    """Return the shape of the chunks inside shards, along the array's axes; None without shards.

    Also None where a configuration is wrong, which an unknown data type may have kept unnoticed.
    """
    axes = list(range(len(array.shape)))
    members = {"transpose": "order", "sharding_indexed": "chunk_shape"}
    for codec in array.codecs:
        if codec.name not in members:
            continue
        value = codec.configuration.get(members[codec.name])
        if not isinstance(value, list) or not all(isinstance(n, int) for n in value):
            return None
        if codec.name == "sharding_indexed" and len(value) == len(axes):
            return tuple(n for _, n in sorted(zip(axes, value, strict=True)))
        if sorted(value) != sorted(axes):
            return None
        axes = [axes[i] for i in value]
    return None


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """The codecs of an array by kind; for a sharded array, the codecs of its inner chunks."""

    filters: tuple[Named, ...]
    serializer: Named | None
    compressors: tuple[Named, ...]


def pipeline(array: ArrayModel) -> PipelineSpec:
    """Return the codecs of an array by kind; for a sharded array, of its inner chunks."""
    filters, codecs = list[Named](), array.codecs
    while True:
        groups: dict[str, list[Named]] = {each: [] for each in KINDS}
        for codec in codecs:
            groups[kind(codec)].append(codec)
        arrays, middle, compressors = groups.values()
        filters += arrays
        inner = middle[0].configuration.get("codecs") if middle else None
        if not isinstance(inner, (list, tuple)) or not inner:
            return PipelineSpec(tuple(filters), next(iter(middle), None), tuple(compressors))
        codecs = tuple(to_named(codec, None) for codec in inner)


def memory_order(array: ArrayModel) -> str:
    """``"F"`` where chunks, inside shards if there are any, have reversed axes, else ``"C"``."""
    axes = list(range(len(array.shape)))
    backwards, orders = axes[::-1], list[Any]()
    for codec in walk(array.codecs):
        order = codec.configuration.get("order") if codec.name == "transpose" else None
        if isinstance(order, (str, list, tuple)) and order != "C":
            orders.append(order)
    for order in orders:
        if order != "F" and {*map(repr, order)} != {*map(repr, backwards)}:
            return "C"  # not all axes: another codec reshapes the array, or it is not valid
        axes = axes[::-1] if order == "F" else [axes[i] for i in order]
    return "F" if orders and axes == backwards else "C"
