"""Descriptions of nodes for `info` and `ls`: facts as JSON, a summary as text, the grid drawn.

NumPy and the engine take longer to import than most metadata to describe. So this module knows the
regular grid and the common data types itself, and asks the library about any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import omnizarr
from omnizarr import registry
from omnizarr.cli.options import Options
from omnizarr.errors import OmnizarrError
from omnizarr.extension import (
    ArrayModel,
    Info,
    Location,
    Named,
    Node,
    can_list,
    chunk_key_encodings,
    counted,
    decoded_bytes,
    find_node,
    grid_lengths,
    grid_text,
    inner_chunk_shape,
    list_sizes,
    memory_order,
    paths,
    plain_member,
    resolve_store_path,
    size_text,
    stored_text,
    title,
    traits,
    type_name,
)

Coords = tuple[int, ...]

# Bytes of an item.
_SIZES = {
    "bool": 1,
    **{f"int{8 * n}": n for n in (1, 2, 4, 8)},
    **{f"uint{8 * n}": n for n in (1, 2, 4, 8)},
    **{"float16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16},
    **{"numpy.datetime64": 8, "numpy.timedelta64": 8},
}
_VARIABLE = ("string", "bytes", "variable_length_bytes", "object")
# Common codecs that are known to lose nothing.
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
    store, inside = resolve_store_path(path, node, "r", options)
    return find_node(store, inside, read_only=True, use_consolidated=None)


def describe(location: Location, node: Node, *, listing: bool = True) -> dict[str, Any]:
    """Return all facts about a node for JSON; with `listing`, the stored chunks are counted."""
    facts: dict[str, Any] = {
        "node": paths.show(location.path),
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
        "dtype": type_name(array.data_type),
        "dimension_names": None if names is None else list(names),
        "order": memory_order(array),
        "codecs": plain_member(list(array.codecs)),
        "fill_value": array.fill_value.json,
    }
    if array.storage_transformers:
        facts["storage_transformers"] = plain_member(list(array.storage_transformers))
    try:
        facts |= _simple_grid(array) or _any_grid(location, array)
        if lossy := _lossy_codecs(location, array):
            facts["lossy_codecs"] = lossy
    except OmnizarrError as e:
        facts["not_understood"] = str(e)
    return facts


def _simple_grid(array: ArrayModel) -> dict[str, Any] | None:
    """Return chunks, counts and size of a regular grid of a common type; None for others."""
    grid, type = array.chunk_grid, array.data_type
    whole = grid.configuration.get("chunk_shape")
    if grid.name != "regular" or array.storage_transformers or not _is_known(array.codecs):
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
    inner = inner_chunk_shape(array)
    shape = tuple(array.shape)
    sharded = inner is not None
    return {
        "chunks": list(inner or whole),
        "shards": list(whole) if sharded else None,
        "chunk_grid": _counts(shape, inner or whole),
        "shard_grid": _counts(shape, whole) if sharded else None,
        "nbytes": None if size is None else size * math.prod(shape),
    }


def _is_known(codecs: Sequence[Named]) -> bool:
    """Return True if this package has all of these codecs."""
    names = {*registry.names("codec")}
    for codec in codecs:
        if codec.name not in names and not codec.name.startswith("numcodecs."):
            return False
        inner = codec.configuration.get("codecs", [])
        if not all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in inner):
            return False
        if not _is_known([Named(c["name"], c.get("configuration") or {}) for c in inner]):
            return False
    return True


def _lossy_codecs(location: Location, array: ArrayModel) -> list[str]:
    """Return the names of codecs that lose something; common ones are not asked."""
    names = {codec.name for codec in array.codecs}
    for codec in array.codecs:
        inner = codec.configuration.get("codecs", [])
        names |= {str(c.get("name") if isinstance(c, dict) else c) for c in inner}
    return [] if names <= _LOSSLESS else omnizarr.Array.at(location, array)._bound.lossy_codecs


def _counts(shape: Sequence[int], chunks: Sequence[int]) -> list[int]:
    return [-(-n // c) for n, c in zip(shape, chunks, strict=True)]


def _any_grid(location: Location, array: ArrayModel) -> dict[str, Any]:
    """Return the same as `_simple_grid` for any array; errors say what is not understood."""
    opened = omnizarr.Array.at(location, array)
    for codec in array.codecs:
        if not codec.name.startswith("numcodecs."):
            registry.lookup("codec", codec.name)
    variable = opened.dtype.kind in "OT"
    return {
        "chunks": [list(n) if isinstance(n, tuple) else n for n in opened.chunks],
        "shards": None if opened.shards is None else list(opened.shards),
        "chunk_grid": list(opened.cdata_shape),
        "shard_grid": None if opened.shards is None else list(opened._bound.grid.shape),
        "nbytes": None if variable else opened.nbytes,
    }


def stored_chunks(location: Location, array: ArrayModel) -> Iterator[tuple[Coords, int]]:
    """Yield the coordinates and bytes of all stored chunks or shards; the keys are listed."""
    prefix, rank = location.format.chunk_prefix(location.path), len(array.shape)
    encoding = chunk_key_encodings.bind(array.chunk_key_encoding)
    for key, size in list_sizes(location.store, prefix):
        coords = encoding.coords(key[len(prefix) :], rank)
        if coords is not None:
            yield coords, size


def _stored(location: Location, array: ArrayModel, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Count the stored chunks or shards; None if the store cannot list its keys."""
    if not can_list(location.store) or not traits(location.store).lists_all:
        return None
    grid = facts.get("shard_grid") or facts.get("chunk_grid")
    count = size = 0
    present: Counter[Coords] = Counter()
    for coords, length in stored_chunks(location, array):
        count, size = count + 1, size + length
        if len(present) < _MOST_CELLS:
            present[coords[-2:]] += 1
    facts["_present"] = present
    return {"values": count, "of": None if grid is None else math.prod(grid), "bytes": size}


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
    info = Info()
    info["type"] = f"{facts['kind']}, {title(facts['zarr_format'])}"
    info["path"] = f"{facts['node']} in {facts['store']}"
    if facts["kind"] == "array":
        _array_summary(info, facts)
    elif facts.get("members") is not None:
        members = facts["members"]
        arrays, groups = counted(members["arrays"], "array"), counted(members["groups"], "group")
        info["members"] = f"{arrays}, {groups}"
        if members["unreadable"]:
            info["not readable"] = ", ".join(members["unreadable"])
    return info


def shape_text(lengths: Sequence[Any] | None) -> str:
    """Return a shape like that of a tuple; lists of lengths as they are."""
    return "" if lengths is None else str(tuple(lengths))


def chunk_text(facts: dict[str, Any]) -> str:
    """Describe the shape of chunks and shards."""
    if "chunks" not in facts:
        return "unknown"
    shards = facts["shards"]
    return shape_text(facts["chunks"]) + (f" in shards {shape_text(shards)}" if shards else "")


def _array_summary(info: Info, facts: dict[str, Any]) -> None:
    """Add the facts about an array, in the order and words of `Array.info`."""
    info["shape"] = shape_text(facts["shape"])
    if facts["dimension_names"] is not None:
        info["dimensions"] = ", ".join(name or "-" for name in facts["dimension_names"])
    info["data type"] = facts["dtype"]
    fill = facts["fill_value"]
    text = repr(fill) if isinstance(fill, str) else str(fill)
    info["fill value"] = "undefined" if fill is None else text
    nbytes = facts.get("nbytes")
    itemsize = 0 if nbytes is None else nbytes // max(1, math.prod(facts["shape"]))
    if nbytes is not None:
        info["size in memory"] = size_text(nbytes)
    if "chunk_grid" in facts:
        for name, counts in (("chunks", facts["chunk_grid"]), ("shards", facts["shard_grid"])):
            if counts is not None:
                text, full = grid_lengths(facts[name], itemsize)
                info[name] = grid_text(text, full, tuple(counts))
    else:
        info["chunks"] = chunk_text(facts)
    if facts["order"] != "C":
        info["order"] = facts["order"]
    info["codecs"] = " -> ".join(map(codec_text, facts["codecs"]))
    if "lossy_codecs" in facts:
        info["lossy codecs"] = ", ".join(facts["lossy_codecs"])
    if "storage_transformers" in facts:
        info["transformers"] = ", ".join(map(codec_text, facts["storage_transformers"]))
    if "not_understood" in facts:
        info["not understood"] = facts["not_understood"]
    stored = facts.get("stored")
    if stored is not None and stored["of"] is not None:
        what = "chunk" if facts["shards"] is None else "shard"
        _, full = grid_lengths(facts["shards"] or facts["chunks"], itemsize)
        numbers = (stored["values"], stored["of"])
        decoded = decoded_bytes(*numbers, full, nbytes or 0)
        info["stored"] = stored_text(*numbers, what, stored["bytes"], decoded)


def codec_text(codec: dict[str, Any]) -> str:
    """Return a codec as its name, and its configuration in brackets."""
    members = dict(codec.get("configuration") or {})
    inner = members.pop("codecs", None)
    members.pop("index_codecs", None)
    parts = [f"{name}={value}" for name, value in members.items()]
    if inner:
        parts.append("codecs=[" + " -> ".join(map(codec_text, inner)) + "]")
    return f"{codec['name']}({', '.join(parts)})" if parts else str(codec["name"])


# The grid in characters

_MOST_CELLS = 100_000  # of the last two axes, whose chunks are counted for the drawing
_SHADES = "·░▒▓"  # no chunk stored, few, most, all


def draw_grid(facts: dict[str, Any], width: int = 80, height: int = 12) -> list[str]:
    """Draw the chunks of the last two axes, with lines between shards; stored ones are shaded.

    Other axes are put on top of each other: a lighter shade means that some of them are missing.
    """
    counts, shards = facts.get("chunk_grid"), facts.get("shard_grid")
    if not counts or 0 in counts or any(isinstance(n, list) for n in facts["chunks"]):
        return []
    steps = [1] * len(counts)
    if shards is not None:
        steps = [s // c for s, c in zip(facts["shards"], facts["chunks"], strict=True)]
    rows, columns = ([1, *counts])[-2:]
    row_step, column_step = ([1, *steps])[-2:]
    shown = range(min(columns, max(1, (width - 3) // 3)))
    present: Counter[Coords] = facts.get("_present") or Counter()
    depth = math.prod((shards or counts)[:-2])

    def joined(cells: Iterator[str], line: str) -> str:
        ends = (line if shards and (c + 1) % column_step == 0 else " " for c in shown)
        text = "".join(cell + end for cell, end in zip(cells, ends, strict=True))[:-1]
        return text + (" …" if len(shown) < columns else "")

    def cell(row: int, column: int) -> str:
        where = (row // row_step, column // column_step)[-min(len(counts), 2) :]
        share = present[where] / depth
        return 2 * _SHADES[0 if not share else 3 if share >= 1 else 1 if share < 0.5 else 2]

    lines = [_title(facts)]
    for row in range(min(rows, height)):
        if shards and row and row % row_step == 0:
            lines.append(joined(("──" for _ in shown), "┼").replace(" ", "─"))
        lines.append(joined((cell(row, column) for column in shown), "│"))
    return lines if rows <= height else [*lines, "…"]


def _title(facts: dict[str, Any]) -> str:
    """Return the line above the drawing: which axes, how many chunks, which shades."""
    rank = len(facts["shape"])
    names = facts["dimension_names"] or [None] * rank
    labels = [name or f"axis {i}" for i, name in enumerate(names)]
    title = f"chunks along {' and '.join(labels[-2:])}"
    if rank > 2:
        pairs = zip(labels[:-2], facts["chunk_grid"][:-2], strict=True)
        title += ", " + ", ".join(f"{n} deep along {label}" for label, n in pairs)
    if facts.get("stored") is not None:
        title += " (▓ stored, ░ and ▒ in part)" if rank > 2 else " (▓ stored)"
    return title
