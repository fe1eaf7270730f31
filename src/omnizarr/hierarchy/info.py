"""Descriptions of nodes as text and HTML: one line, a summary, a tree; and debug information."""

from __future__ import annotations

import math
import platform
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnizarr._version import VERSION
from omnizarr.codecs.specify import inner_chunk_shape, memory_order
from omnizarr.errors import OmnizarrError
from omnizarr.hierarchy.location import Location
from omnizarr.model import ArrayModel, GroupModel, Named, Node, paths

if TYPE_CHECKING:  # the engine is slow to import, and metadata can be described without it
    from omnizarr.engine import BoundArray

# html.escape does the same, but its module is slow to import.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape(text: str) -> str:
    """Escape text for HTML."""
    return text.translate(_ESCAPED)


class Info(dict[str, str]):
    """A summary as names and values, shown as a table."""

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:<{width}} : {value}" for name, value in self.items())

    __str__ = __repr__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self.items()
        )
        return f"<table>{rows}</table>"


def type_name(named: Named) -> str:
    """Return a short name of a data type."""
    config = named.configuration
    order = ">" if config.get("endian") == "big" else ""
    if named.name.startswith("numpy.") and "unit" in config:
        scale = config.get("scale_factor", 1)
        return f"{order}{named.name[6:]}[{scale if scale != 1 else ''}{config.get('unit')}]"
    if named.name in ("struct", "structured"):
        fields = config.get("fields", [])
        names = [f["name"] if isinstance(f, dict) else str(f[0]) for f in fields]
        return f"struct({', '.join(name for name in names if name)})"
    if "length_bytes" in config:
        unit = 4 if named.name == "fixed_length_utf32" else 1
        letter = {"fixed_length_utf32": "U", "null_terminated_bytes": "S"}.get(named.name, "V")
        return f"{order}{letter}{config['length_bytes'] // unit}"
    return order + named.name.removeprefix("numpy.")


def codec_names(array: ArrayModel) -> str:
    """Return the names of the codecs, joined, without those of no interest to most users."""
    names: list[str] = []
    for codec in array.codecs:
        inner = codec.configuration.get("codecs") if codec.name == "sharding_indexed" else None
        if isinstance(inner, list):
            names += [str(c.get("name") if isinstance(c, dict) else c) for c in inner]
        else:
            names.append(codec.name)
    names = [name.removeprefix("numcodecs.") for name in names]
    return "+".join(n for n in names if n != "bytes") or "uncompressed"


def chunk_text(array: ArrayModel) -> str:
    """Describe the chunk shape, or name the grid."""
    chunks = array.chunk_grid.configuration.get("chunk_shape")
    whole = str(tuple(chunks)) if isinstance(chunks, list) else array.chunk_grid.name
    inner = inner_chunk_shape(array)
    return whole if inner is None else f"{inner} in shards {whole}"


def array_line(array: ArrayModel, location: Location) -> str:
    """Describe an array in one line."""
    return (
        f"<Array {paths.show(location.path)}  {type_name(array.data_type)} {array.shape}"
        f"  chunks {chunk_text(array)}  zarr v{location.format.name}  {codec_names(array)}"
        f"  on {location.store!r}>"
    )


def group_line(location: Location) -> str:
    """Describe a group in one line."""
    return (
        f"<Group {paths.show(location.path)}  zarr v{location.format.name}  on {location.store!r}>"
    )


def size_text(size: int) -> str:
    """Format a number of bytes with a binary unit."""
    number = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if number < 1024 or unit == "PiB":
            return f"{size} bytes" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError("unreachable")


def array_info(
    array: ArrayModel, location: Location, bound: BoundArray, counts: Callable[[], tuple[int, ...]]
) -> Info:
    """Summarise an array without reading a chunk; `counts` are those of chunks along each axis."""
    info = Info()
    info["type"] = f"array, zarr version {location.format.name}"
    info["path"] = f"{paths.show(location.path)} in {location.store!r}"
    info["shape"] = str(array.shape)
    info["data type"] = type_name(array.data_type)
    info["chunk shape"] = chunk_text(array)
    if array.dimension_names is not None:
        info["dimensions"] = ", ".join(n or "-" for n in array.dimension_names)
    info["order"] = memory_order(array)
    info["codecs"] = " -> ".join(repr(c) for c in array.codecs)
    if array.storage_transformers:
        info["transformers"] = ", ".join(repr(t) for t in array.storage_transformers)
    try:
        info["fill value"] = str(bound.fill[()]) if bound.fill_defined else "undefined"
        info["chunks"] = grid_text(array, counts(), bound.grid.shape)
        info["size in memory"] = size_text(bound.dtype.itemsize * math.prod(array.shape))
    except OmnizarrError as e:
        info["not understood"] = str(e)
    if array.attributes:
        info["attributes"] = ", ".join(array.attributes)
    return info


def grid_text(array: ArrayModel, counts: tuple[int, ...], shards: tuple[int, ...]) -> str:
    """Describe the number of chunks and of shards."""
    text = f"{math.prod(counts)} in a grid of {counts}"
    if inner_chunk_shape(array) is None:
        return text
    return f"{text}, in {counted(math.prod(shards), 'shard')} in a grid of {shards}"


def stored_text(count: int, expected: int, stored: int, nbytes: int) -> str:
    """Describe the number and bytes of stored chunks or shards."""
    times = round(nbytes / stored, 1) if stored else 0
    ratio = f", {times} times smaller" if times > 1 else ""
    return f"{count} of {expected} values: {size_text(stored)}{ratio}"


def group_info(group: GroupModel, location: Location) -> Info:
    """Summarise the metadata of a group."""
    info = Info()
    info["type"] = f"group, zarr version {location.format.name}"
    info["path"] = f"{paths.show(location.path)} in {location.store!r}"
    if group.attributes:
        info["attributes"] = ", ".join(group.attributes)
    return info


def counted(number: int, what: str) -> str:
    """Return a number with a noun in singular or plural."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def members_info(location: Location) -> Info:
    """Summarise the members of a group."""
    children = location.children()
    arrays = sum(isinstance(c, ArrayModel) for c in children.values())
    groups = sum(isinstance(c, GroupModel) for c in children.values())
    info = Info(members=f"{counted(arrays, 'array')}, {counted(groups, 'group')}")
    broken = [name for name, child in children.items() if isinstance(child, Exception)]
    if broken:
        info["not readable"] = ", ".join(broken)
    return info


@dataclass
class _Branch:
    """A node of the tree, and the nodes below it."""

    name: str
    about: str = ""
    below: list[_Branch] = field(default_factory=list)
    left_out: str = ""

    def lines(self, indent: str) -> Iterator[str]:
        """Yield a line for each node below."""
        texts: list[tuple[str, _Branch | None]] = [(b.name + b.about, b) for b in self.below]
        texts += [(self.left_out, None)] if self.left_out else []
        for number, (text, branch) in enumerate(texts, 1):
            last = number == len(texts)
            yield f"{indent}{'└── ' if last else '├── '}{text}"
            if branch is not None:
                yield from branch.lines(indent + ("    " if last else "│   "))

    def html(self, opened: bool) -> str:
        """Return the node and all below it as an HTML list that folds."""
        label = f"<b>{escape(self.name)}</b>{escape(self.about)}"
        inner = "".join(f"<li>{b.html(opened)}</li>" for b in self.below)
        inner += f"<li>{escape(self.left_out)}</li>" if self.left_out else ""
        if not inner:
            return label
        start = "<details open>" if opened else "<details>"
        return f"{start}<summary>{label}</summary><ul>{inner}</ul></details>"


class Tree:
    """Arrays and groups below a group; printed as text, in notebooks shown as HTML."""

    def __init__(self, root: _Branch, opened: bool) -> None:
        self._root = root
        self._opened = opened

    def __repr__(self) -> str:
        return "\n".join([self._root.name + self._root.about, *self._root.lines("")])

    def _repr_html_(self) -> str:
        return f"<div>{self._root.html(self._opened)}</div>"


def tree(
    location: Location, node: Node, level: int | None, max_nodes: int, opened: bool = True
) -> Tree:
    """Return the tree of a node, level by level until one of the limits is reached."""
    root = _branch(paths.name(location.path) or "/", node)
    below = location if level == 0 else location.with_listing()
    waiting = deque([(root, below, 0)] if isinstance(node, GroupModel) else [])
    while waiting:
        branch, below, depth = waiting.popleft()
        if depth == level:
            continue
        if max_nodes <= 0:
            branch.left_out = "…"
            continue
        children = sorted(below.children().items())
        shown = children[:max_nodes]
        max_nodes -= len(shown)
        if len(shown) < len(children):
            branch.left_out = f"… {len(children) - len(shown)} more"
        for name, child in shown:
            branch.below.append(_branch(name, child))
            if isinstance(child, GroupModel):
                waiting.append((branch.below[-1], below.child(name), depth + 1))
    return Tree(root, opened)


def _branch(name: str, node: Node | Exception) -> _Branch:
    if isinstance(node, Exception):
        return _Branch(name, f"  (cannot be read: {str(node).splitlines()[0]})")
    if isinstance(node, ArrayModel):
        return _Branch(name, f" {node.shape} {type_name(node.data_type)}  {codec_names(node)}")
    return _Branch(name)


def print_debug_info() -> None:
    """Print the versions of omnizarr, Python and its packages, and which parts are compiled."""
    # Only this report needs them, and they take long to import.
    from importlib.metadata import PackageNotFoundError, requires, version  # noqa: PLC0415

    from omnizarr.engine import kernel  # noqa: PLC0415

    try:
        required = requires("omnizarr") or []
    except PackageNotFoundError:  # not installed: run from its sources
        required = []
    print(f"omnizarr: {VERSION}")
    print(f"compiled kernel: {'yes' if kernel.available() else 'no'}")
    print(f"python: {sys.version.split()[0]} on {platform.platform()}")
    for package in (*_packages(required), "zarr"):
        try:
            print(f"{package}: {version(package)}")
        except PackageNotFoundError:
            print(f"{package}: not installed")


def _packages(required: list[str]) -> list[str]:
    """Return the names of the packages in requirements, but for those of tests."""
    return sorted(
        {re.split(r"[^\w.-]", line)[0] for line in required if "'testing'" not in _marker(line)}
    )


def _marker(line: str) -> str:
    return line.partition(";")[2].replace('"', "'")
