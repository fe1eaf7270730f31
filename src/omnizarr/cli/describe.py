"""Descriptions of nodes for `info` and `ls`: facts as JSON, and a summary as text.

NumPy and the engine take longer to import than most metadata to describe. So this module knows the
regular grid and the common data types itself, and asks the library about any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import omnizarr
from omnizarr import extension, registry
from omnizarr.cli.options import Options
from omnizarr.errors import OmnizarrError
from omnizarr.extension import ArrayModel, Info, Location, Node, can_list, counted, info, specify

# Bytes of an item.
_SIZES = {
    **{f"{kind}int{8 * n}": n for kind in ("", "u") for n in (1, 2, 4, 8)},
    **{"float16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16},
    **{"bool": 1, "numpy.datetime64": 8, "numpy.timedelta64": 8},
}
_VARIABLE = ("string", "bytes", "variable_length_bytes", "object")
# Codecs that lose nothing, and need not be asked.
_LOSSLESS = frozenset(
    {
        *("bytes", "endian", "transpose", "reshape", "sharding_indexed", "vlen-utf8", "vlen-bytes"),
        *("blosc", "zstd", "gzip", "crc32c", "numcodecs.blosc", "numcodecs.zstd", "numcodecs.gzip"),
        *("numcodecs.zlib", "numcodecs.lz4", "numcodecs.bz2", "numcodecs.lzma", "numcodecs.delta"),
        *("numcodecs.shuffle", "numcodecs.vlen-utf8", "numcodecs.vlen-bytes", "numcodecs.crc32"),
    }
)


def find(path: str, node: str = "", options: Options = None) -> tuple[Location, Node]:
    """Return the location and the metadata of a node, as `omnizarr.open` finds it."""
    store, inside = extension.resolve_store_path(path, node, "r", options)
    return extension.find_node(store, inside, read_only=True, use_consolidated=None)


def describe(location: Location, node: Node, *, listing: bool = True) -> dict[str, Any]:
    """Return all facts about a node for JSON; with `listing`, the stored chunks are counted."""
    facts: dict[str, Any] = {
        "node": extension.paths.show(location.path),
        "kind": node.kind,
        "zarr_format": int(name) if (name := location.format.name).isdigit() else name,
        "store": str(location.store),
    }
    if isinstance(node, ArrayModel):
        facts |= _array_facts(location, node)
        if listing:
            facts["stored"] = _stored(location, node, facts)
    elif listing:
        facts["members"] = _members(location)
    facts["attributes"] = dict(node.attributes)
    return facts


def _array_facts(location: Location, array: ArrayModel) -> dict[str, Any]:
    names = array.dimension_names
    facts: dict[str, Any] = {
        "shape": list(array.shape),
        "dtype": extension.type_name(array.data_type),
        "dimension_names": None if names is None else list(names),
        "order": extension.memory_order(array),
        "codecs": specify.plain_member(list(array.codecs)),
        "fill_value": array.fill_value.json,
    }
    if array.storage_transformers:
        facts["storage_transformers"] = specify.plain_member(list(array.storage_transformers))
    try:
        facts |= _simple_grid(array) or _any_grid(location, array)
    except OmnizarrError as e:
        facts["not_understood"] = str(e)
    return facts


def _simple_grid(array: ArrayModel) -> dict[str, Any] | None:
    """Return chunks, counts and size of a regular grid of a common type; None for others."""
    grid, type = array.chunk_grid, array.data_type
    whole = grid.configuration.get("chunk_shape")
    if grid.name != "regular" or array.storage_transformers:
        return None
    if not _codec_names(array.codecs) <= _LOSSLESS:
        return None
    if not isinstance(whole, (list, tuple)) or len(whole) != len(array.shape):
        return None
    if not all(isinstance(n, int) and n > 0 for n in whole):
        return None
    size = _SIZES.get(type.name)
    if type.name in ("fixed_length_utf32", "null_terminated_bytes", "raw_bytes"):
        size = type.configuration.get("length_bytes")
    if size is None and type.name not in _VARIABLE:
        return None
    inner = extension.inner_chunk_shape(array)
    shape = tuple(array.shape)
    sharded = inner is not None
    return {
        "chunks": list(inner or whole),
        "shards": list(whole) if sharded else None,
        "chunk_grid": _counts(shape, inner or whole),
        "shard_grid": _counts(shape, whole) if sharded else None,
        "nbytes": None if size is None else size * math.prod(shape),
    }


def _codec_names(codecs: Sequence[extension.Named]) -> set[str]:
    """Return the names of codecs and of those inside shards."""
    names = {codec.name for codec in codecs}
    for codec in codecs:
        for inner in codec.configuration.get("codecs", []):
            names.add(str(inner.get("name") if isinstance(inner, dict) else inner))
    return names


def _counts(shape: Sequence[int], chunks: Sequence[int]) -> list[int]:
    return [-(-n // c) for n, c in zip(shape, chunks, strict=True)]


def _any_grid(location: Location, array: ArrayModel) -> dict[str, Any]:
    """Return the same as `_simple_grid` for any array; errors say what is not understood."""
    from omnizarr.extension import bound_array  # noqa: PLC0415 - loads NumPy

    opened = omnizarr.Array.at(location, array)
    for codec in array.codecs:
        if not codec.name.startswith("numcodecs."):
            registry.lookup("codec", codec.name)
    bound = bound_array(opened)
    _, variable = bound.any_pipeline, opened.dtype.kind in "OT"
    return {
        "chunks": [list(n) if isinstance(n, tuple) else n for n in opened.chunks],
        "shards": None if opened.shards is None else list(opened.shards),
        "chunk_grid": list(opened.cdata_shape),
        "shard_grid": None if opened.shards is None else list(bound.grid.shape),
        "nbytes": None if variable else opened.nbytes,
    }


def _stored(location: Location, array: ArrayModel, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Count the stored chunks or shards; None if the store cannot list its keys."""
    if not can_list(location.store) or not extension.traits(location.store).lists_all:
        return None
    prefix, rank = location.format.chunk_prefix(location.path), len(array.shape)
    encoding = extension.chunk_key_encodings.bind(array.chunk_key_encoding)
    sizes = [
        size
        for key, size in extension.stores.list_sizes(location.store, prefix)
        if encoding.coords(key[len(prefix) :], rank) is not None
    ]
    grid = facts.get("shard_grid") or facts.get("chunk_grid")
    of = None if grid is None else math.prod(grid)
    return {"values": len(sizes), "of": of, "bytes": sum(sizes)}


def _members(location: Location) -> dict[str, Any] | None:
    if location.consolidated is None and not can_list(location.store):
        return None
    children = location.children()
    kinds = Counter(getattr(child, "kind", "unreadable") for child in children.values())
    broken = [name for name, child in children.items() if isinstance(child, Exception)]
    return {"arrays": kinds["array"], "groups": kinds["group"], "unreadable": broken}


# Text


def summary(facts: dict[str, Any]) -> Info:
    """Return the facts as names and values for people."""
    summary = Info()
    summary["type"] = f"{facts['kind']}, {extension.title(facts['zarr_format'])}"
    summary["path"] = f"{facts['node']} in {facts['store']}"
    if facts["kind"] == "array":
        _array_summary(summary, facts)
    elif facts.get("members") is not None:
        members = facts["members"]
        arrays, groups = counted(members["arrays"], "array"), counted(members["groups"], "group")
        summary["members"] = f"{arrays}, {groups}"
        if members["unreadable"]:
            summary["not readable"] = ", ".join(members["unreadable"])
    return summary


def shape_text(lengths: Sequence[Any] | None) -> str:
    """Return a shape as the text of a tuple; axes with several lengths stay lists."""
    return "" if lengths is None else str(tuple(lengths))


def chunk_text(facts: dict[str, Any]) -> str:
    """Describe the shape of chunks and shards."""
    if "chunks" not in facts:
        return "unknown"
    shards = facts["shards"]
    return shape_text(facts["chunks"]) + (f" in shards {shape_text(shards)}" if shards else "")


def _array_summary(summary: Info, facts: dict[str, Any]) -> None:
    """Add the facts about an array, in the order and words of `Array.info`."""
    summary["shape"] = shape_text(facts["shape"])
    if facts["dimension_names"] is not None:
        summary["dimensions"] = ", ".join(name or "-" for name in facts["dimension_names"])
    summary["data type"] = facts["dtype"]
    fill = facts["fill_value"]
    text = repr(fill) if isinstance(fill, str) else str(fill)
    summary["fill value"] = "undefined" if fill is None else text
    nbytes = facts.get("nbytes")
    itemsize = 0 if nbytes is None else nbytes // max(1, math.prod(facts["shape"]))
    if nbytes is not None:
        summary["size in memory"] = extension.size_text(nbytes)
    if "chunk_grid" in facts:
        for name, counts in (("chunks", facts["chunk_grid"]), ("shards", facts["shard_grid"])):
            if counts is not None:
                text, full = info.grid_lengths(facts[name], itemsize)
                summary[name] = info.grid_text(text, full, tuple(counts))
    else:
        summary["chunks"] = chunk_text(facts)
    if facts["order"] != "C":
        summary["order"] = facts["order"]
    summary["codecs"] = " -> ".join(map(codec_text, facts["codecs"]))
    if "storage_transformers" in facts:
        summary["transformers"] = ", ".join(map(codec_text, facts["storage_transformers"]))
    if "not_understood" in facts:
        summary["not understood"] = facts["not_understood"]
    stored = facts.get("stored")
    if stored is not None and stored["of"] is not None:
        what = "chunk" if facts["shards"] is None else "shard"
        nbytes, decoded = stored["bytes"], _decoded_bytes(facts)
        ratio = f"; compression ratio {decoded / nbytes:.1f}" if nbytes and decoded else ""
        text = f"{stored['values']} of {counted(stored['of'], what)}"
        summary["stored"] = f"{text}, {extension.size_text(nbytes)}{ratio}"


def _decoded_bytes(facts: dict[str, Any]) -> float:
    """Return how many bytes the stored chunks of an array decode to; about, if they differ."""
    nbytes, stored, count = facts["nbytes"] or 0, facts["stored"], facts["stored"]["values"]
    itemsize = nbytes // max(1, math.prod(facts["shape"]))
    _, full = info.grid_lengths(facts["shards"] or facts["chunks"], itemsize)
    found: float = min(count * full, nbytes) if full else nbytes * count / max(1, stored["of"])
    return found


def ratio(facts: dict[str, Any]) -> float | None:
    """Return the compression ratio of the stored chunks of an array; None if it is not known."""
    stored = facts.get("stored") or {"bytes": 0, "of": None}
    known = stored["bytes"] and stored["of"] and facts.get("nbytes")
    return _decoded_bytes(facts) / stored["bytes"] if known else None


def codec_text(codec: dict[str, Any]) -> str:
    """Return a codec as its name, and its configuration in brackets."""
    members = dict(codec.get("configuration") or {})
    inner = members.pop("codecs", None)
    members.pop("index_codecs", None)
    parts = [f"{name}={value}" for name, value in members.items()]
    if inner:
        parts.append("codecs=[" + " -> ".join(map(codec_text, inner)) + "]")
    return f"{codec['name']}({', '.join(parts)})" if parts else str(codec["name"])
