"""Descriptions of nodes as text and HTML: one line, a summary, a tree."""

from __future__ import annotations

import math
import re
import shutil
import textwrap
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omnizarr import _json
from omnizarr.codecs.specify import inner_chunk_shape, memory_order, to_named
from omnizarr.errors import OmnizarrError
from omnizarr.formats import title
from omnizarr.formats.codec_names import walk
from omnizarr.hierarchy.location import Location
from omnizarr.model import ArrayModel, GroupModel, Named, Node, paths

if TYPE_CHECKING:  # the engine is slow to import, and metadata can be described without it
    from omnizarr.engine import BoundArray

SPACING = 5.0  # pixels between borders of chunks at least: of more, some borders are left out
MAX_LINES = 1000  # of a report that are shown
MAX_ATTRIBUTES = 10_000  # characters of attributes that are shown
LONGEST, SHORTEST = 140.0, 24.0  # edges of a drawing in pixels

# html.escape does the same, but its module is slow to import.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_TEXT = "text-align:left;vertical-align:top;white-space:normal;overflow-wrap:anywhere"
_NUMBERS = re.compile(r"\[\n +([^\[\]{}\"]{1,200})\n +\]")  # a list of them in indented JSON
_BORDER = "color-mix(in srgb,currentColor 25%,transparent)"
_CARD = (
    "display:inline-block;max-width:100%;box-sizing:border-box;border:1px solid;border-radius:6px;"
    f"border-color:{_BORDER};padding:8px 14px;overflow-wrap:anywhere"
)
_LIST = "list-style:none;margin:0 0 0 .3em;padding:0 0 0 1.2em;border-left:1px solid " + _BORDER
MOST_LENGTHS = 6  # of chunks along an axis that are shown, if they differ
LONG_NAME = 24  # characters of the name of a row, above which it may be wrapped


class Info(dict[str, str]):
    """A summary as names and values, shown as a table; in notebooks with a drawing of the chunks.

    Notebooks unfold `attributes`, and draw the array `drawn`.
    """

    attributes: Mapping[str, Any] = MappingProxyType({})
    drawn: ArrayModel | None = None

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        room = shutil.get_terminal_size((0, 0)).columns - width - 3
        lines = []
        for name, value in self.items():
            if len(value) > room >= 20:  # else there is no terminal, or it is very narrow
                parts = textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False)
                value = f"\n{' ' * (width + 3)}".join(parts)
            lines.append(f"{name:<{width}} : {value}")
        return "\n".join(lines)

    __str__ = __repr__

    def add_attributes(self, values: Mapping[str, Any]) -> None:
        """Add the names of attributes as the last row, and keep their values for notebooks."""
        if values:
            self["attributes"] = ", ".join(values)
            self.attributes = values

    def _repr_html_(self) -> str:
        rows = dict(self)
        about = [rows.pop(name) for name in ("path", "type") if name in rows]
        if self.attributes:
            rows.pop("attributes", None)
        folded = attributes_section(self.attributes)
        return card("  ·  ".join(about), rows, drawn=self.drawn, folded=folded)


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
    """Return the names of the codecs joined by "+", without `bytes`; for shards, the inner ones."""
    names = (codec.name.removeprefix("numcodecs.") for codec in walk(array.codecs))
    return "+".join(n for n in names if n not in ("bytes", "sharding_indexed")) or "uncompressed"


def codecs_text(codecs: Iterable[Named]) -> str:
    """Describe codecs in the order in which they encode; those inside others in brackets."""
    return " -> ".join(_nested_text(c) if "codecs" in c.configuration else repr(c) for c in codecs)


def _nested_text(codec: Named) -> str:
    """Describe the codecs of inner chunks and of the index of shards."""
    config = codec.configuration
    try:
        inner = [to_named(c, None) for c in config["codecs"]]
        index = [to_named(c, None) for c in config.get("index_codecs", ())]
    except (OmnizarrError, TypeError):
        return repr(codec)
    if not index:
        return f"{codec.name}[{codecs_text(inner)}]"
    place = config.get("index_location", "end")
    return f"{codec.name}[{codecs_text(inner)}; index at the {place}: {codecs_text(index)}]"


def chunk_text(array: ArrayModel) -> str:
    """Describe the chunk shape, or name the grid."""
    chunks = array.chunk_grid.configuration.get("chunk_shape")
    whole = str(tuple(chunks)) if isinstance(chunks, list) else array.chunk_grid.name
    inner = inner_chunk_shape(array)
    return whole if inner is None else f"{inner} in shards {whole}"


def array_line(array: ArrayModel, location: Location) -> str:
    """Describe an array in one line."""
    return (
        f"<Array {paths.show(location.path)}  {array.shape} {type_name(array.data_type)}"
        f"  chunks {chunk_text(array)}  {title(location.format.name)}  {codec_names(array)}"
        f"  on {location.store!r}>"
    )


def number_text(value: Any) -> str:
    """Return a number of at most six digits, or a dash in place of None."""
    if value is None:
        return "-"
    if isinstance(value, complex):
        return f"{value.real:.6g}{value.imag:+.6g}j"
    return f"{value:.6g}" if isinstance(value, float) else value_text(value)


def value_text(value: Any) -> str:
    """Return the text of a value as NumPy shows it; of a time that it cannot show, the count."""
    try:
        return str(value)
    except OverflowError:  # NumPy 2.5 refuses years that 64 bits do not hold
        import numpy as np  # noqa: PLC0415 - needed by few

    if isinstance(value, np.ndarray):
        return f"[{' '.join(map(value_text, value))}]" if value.ndim else value_text(value[()])
    if value.dtype.names is not None:
        return f"({', '.join(value_text(value[name]) for name in value.dtype.names)})"
    unit, step = np.datetime_data(value.dtype)
    return f"{int(value.view(np.int64))} times {step}{unit}"


def size_text(size: int) -> str:
    """Format a number of bytes with a binary unit."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = min(max(int(size).bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{size / 1024**power:.1f} {units[power]}" if power else f"{size} bytes"


def array_info(array: ArrayModel, location: Location, bound: BoundArray) -> Info:
    """Summarise an array without reading a chunk."""
    place = f"{paths.show(location.path)} in {location.store!r}"
    info = Info(type=f"array, {title(location.format.name)}", path=place)
    info["shape"] = str(array.shape)
    if array.dimension_names is not None:
        info["dimensions"] = ", ".join(n or "-" for n in array.dimension_names)
    info["data type"] = type_name(array.data_type)
    problem = None
    try:
        fill = bound.shown(bound.fill[()])
        text = repr(str(fill)) if isinstance(fill, str) else value_text(fill)
        info["fill value"] = text if bound.fill_defined else "undefined"
        itemsize = 0 if bound.data_type.variable else bound.dtype.itemsize
        if itemsize:
            info["size in memory"] = size_text(itemsize * math.prod(array.shape))
        inner = inner_chunk_shape(array)
        if inner is not None:
            counts = tuple(-(-n // c) for n, c in zip(array.shape, inner, strict=True))
            info["chunks"] = grid_text(str(inner), math.prod(inner) * itemsize, counts)
        few = [(axis, range(min(axis.count, MOST_LENGTHS + 1))) for axis in bound.grid.axes]
        lengths = bound.grid.regular or [[int(axis.size(k)) for k in ks] for axis, ks in few]
        stored = grid_text(*grid_lengths(lengths, itemsize), bound.grid.shape)
        info["chunks" if inner is None else "shards"] = stored
    except OmnizarrError as e:
        problem = str(e)
        info.setdefault("chunks", chunk_text(array))
    if memory_order(array) != "C":
        info["order"] = memory_order(array)
    info["codecs"] = codecs_text(array.codecs)
    try:
        _ = bound.any_pipeline if problem is None else None
    except OmnizarrError as e:
        problem = str(e)
    if array.storage_transformers:
        info["transformers"] = ", ".join(repr(t) for t in array.storage_transformers)
    if problem is not None:
        info["not understood"] = problem
    info.add_attributes(array.attributes)
    info.drawn = array
    return info


def grid_lengths(lengths: Sequence[Any], itemsize: int) -> tuple[str, int]:
    """Return a chunk shape as text, and its bytes in memory; 0 bytes if chunks differ."""
    if not any(isinstance(each, (list, tuple)) for each in lengths):
        return str(tuple(lengths)), math.prod(lengths) * itemsize
    axes = []
    for each in lengths:
        sizes = [str(n) for n in each] if isinstance(each, (list, tuple)) else [str(each)]
        if len(sizes) > MOST_LENGTHS:
            sizes[MOST_LENGTHS:] = ["…"]
        axes.append(f"({', '.join(sizes)})")
    return f"lengths {' × '.join(axes)}", 0


def grid_text(shape: str, nbytes: int, counts: tuple[int, ...]) -> str:
    """Describe the shape of chunks or shards, their bytes in memory if not 0, and their number."""
    size = f", {size_text(nbytes)}" if nbytes else ""
    grid = f" in a grid of {counts}" if counts else ""
    return f"{shape}{size}; {math.prod(counts)}{grid}"


def counted(number: int, what: str) -> str:
    """Return a number with a noun in singular or plural."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


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
        about = f"<span style='opacity:.75'>{escape(self.about)}</span>" if self.about else ""
        label = f"<b>{escape(self.name)}</b>{about}"
        inner = "".join(f"<li>{b.html(opened)}</li>" for b in self.below)
        inner += f"<li>{escape(self.left_out)}</li>" if self.left_out else ""
        if not inner:
            return label
        start = "<details open='open'>" if opened else "<details>"
        summary = f"<summary style='cursor:pointer'>{label}</summary>"
        return f"{start}{summary}<ul style='{_LIST}'>{inner}</ul></details>"


@dataclass(repr=False)
class Tree:
    """Arrays and groups below a group; printed as text, in notebooks shown as HTML."""

    root: _Branch
    opened: bool

    def __repr__(self) -> str:
        return "\n".join([self.root.name + self.root.about, *self.root.lines("")])

    def _repr_html_(self) -> str:
        return f"<div style='{_CARD}'>{self.root.html(self.opened)}</div>"


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
            branch.about = "  …"
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


# HTML for notebooks: one design for every kind of object, in the colours of the notebook


def escape(text: str) -> str:
    """Escape text for HTML."""
    return text.translate(_ESCAPED)


def card(
    title: str,
    rows: Mapping[str, str],
    *,
    drawn: ArrayModel | None = None,
    folded: Mapping[str, str] | None = None,
    opened: bool = False,
) -> str:
    """Return a title, a table of names and texts, a drawing, and sections of HTML that unfold."""
    start = "<details open='open'>" if opened else "<details>"
    cells = "".join(
        f"<tr><th style='{_TEXT};padding:1px 14px 1px 0;font-weight:600;opacity:.75"
        f"{'' if len(name) > LONG_NAME else ';white-space:nowrap'}'>"
        f"{escape(name)}</th><td style='{_TEXT};padding:1px 0'>{escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    below = "".join(
        f"{start}<summary style='cursor:pointer;opacity:.75'>{escape(label)}</summary>"
        f"{content}</details>"
        for label, content in (folded or {}).items()
    )
    return (
        f"<div style='{_CARD}'>"
        f"<div style='font-weight:600;padding-bottom:4px'>{escape(title)}</div>"
        "<div style='display:flex;flex-wrap:wrap;gap:8px 28px;align-items:flex-start'>"
        "<div style='flex:1 1 22em;min-width:0;max-width:44em'>"
        f"<table style='margin:0;border-collapse:collapse'>{cells}</table>{below}</div>"
        f"{'' if drawn is None else drawing(drawn)}</div></div>"
    )


def preformatted(text: str) -> str:
    """Return lines of text as HTML that keeps their breaks."""
    return f"<pre style='margin:4px 0;white-space:pre-wrap'>{escape(text)}</pre>"


def attributes_section(values: Mapping[str, object]) -> dict[str, str]:
    """Return attributes as a section of a card, cut if they are long; none if there are none."""
    if not values:
        return {}
    text = _json.dumps(dict(values), indent=2).decode()
    text = _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    if len(text) > MAX_ATTRIBUTES:
        text = f"{text[:MAX_ATTRIBUTES]}\n… {len(text) - MAX_ATTRIBUTES} more characters"
    return {counted(len(values), "attribute"): preformatted(text)}


def report_card(title: str, values: Mapping[str, object]) -> str:
    """Return a card with numbers and texts in its table; lists and mappings unfold."""
    rows: dict[str, str] = {}
    folded: dict[str, str] = {}
    for key, value in values.items():
        name = key.replace("_", " ")
        if isinstance(value, (list, tuple, dict)):
            lines = [f"{k}: {v}" for k, v in value.items()] if isinstance(value, dict) else value
            text = "\n".join(map(str, lines[:MAX_LINES]))
            more = f"\n… {len(lines) - MAX_LINES} more" if len(lines) > MAX_LINES else ""
            folded |= {f"{name}: {len(lines)}": preformatted(text + more)} if lines else {}
        elif isinstance(value, int) and "bytes" in name.split():
            rows[name] = size_text(value)
        elif value is not None:
            rows[name] = str(value)
    return card(title, rows, folded=folded)


def drawing(array: ArrayModel) -> str:
    """Return the last two axes of a regular chunk grid as SVG; nothing without elements."""
    outer = array.chunk_grid.configuration.get("chunk_shape")
    inner = inner_chunk_shape(array)
    if not isinstance(outer, list) or len(outer) != len(array.shape) or not math.prod(array.shape):
        return ""
    if not array.shape or not all(type(n) is int and n > 0 for n in (*(inner or ()), *outer)):
        return ""
    shape, longest = array.shape[-2:], max(array.shape[-2:])
    # Ratios are damped so that short axes can be seen.
    edges = [max(SHORTEST, LONGEST * (size / longest) ** 0.5) for size in shape]
    width, height = edges[-1], edges[0] if len(edges) == 2 else SHORTEST
    outline = f"M0,0L{width:.1f},0L{width:.1f},{height:.1f}L0,{height:.1f}Z"
    lines = f"<path d='{outline}' fill='#3b82c4' fill-opacity='.22' stroke-width='1.2'/>"
    thin, thick = "stroke-opacity='.35' stroke-width='.7'", "stroke-opacity='.9' stroke-width='1.2'"
    for sizes, style in ((inner or outer, thin), (outer if inner else (), thick)):
        last = _borders(shape[-1], sizes[-1], width) if sizes else []
        first = _borders(shape[0], sizes[-2], height) if len(sizes) > 1 else []
        path = "".join(f"M{x:.1f},0L{x:.1f},{height:.1f}" for x in last)
        path += "".join(f"M0,{y:.1f}L{width:.1f},{y:.1f}" for y in first)
        lines += f"<path d='{path}' {style}/>" if path else ""
    names = [(name or "")[:16] for name in array.dimension_names or [""] * len(array.shape)]
    labels = [escape(f"{name} {n}".strip()) for name, n in zip(names, array.shape, strict=True)]
    row = labels[-2] if len(labels) > 1 else ""
    before = f"{' × '.join(labels[:-2])} of these" if labels[:-2] else ""
    style = "fill='currentColor' stroke='none'"
    texts = f"<text x='{width + 6:.1f}' y='{height / 2 + 4:.1f}' {style}>{row}</text>"
    for text, below in ((labels[-1], 16), (before, 34)):
        middle = f"x='{width / 2:.1f}' y='{height + below:.1f}' text-anchor='middle' {style}"
        texts += f"<text {middle}>{text}</text>" if text else ""
    size = f"{width + 16 + 7 * len(row):.0f}", f"{height + (44 if before else 26):.0f}"
    return (
        f"<svg role='img' aria-label='chunk grid' width='{size[0]}' height='{size[1]}'"
        f" viewBox='-4 -4 {size[0]} {size[1]}' style='flex:none' stroke='currentColor' fill='none'"
        f" font-family='sans-serif' font-size='12'>{lines}{texts}</svg>"
    )


def _borders(size: int, chunk: int, edge: float) -> list[float]:
    """Return where chunks end along an axis, but for the last."""
    count = -(-size // max(chunk, 1))
    step = math.ceil(count / (edge / SPACING))
    return [edge * chunk * number / size for number in range(step, count, step)]
