"""``group.tree()``: what is below a group, as text and as HTML."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.render import codec_names, escape, type_name
from omnizarr.model import ArrayModel, GroupModel, Node, paths


@dataclass
class _Branch:
    """A node of the tree, and those below it."""

    name: str
    about: str = ""
    below: list[_Branch] = field(default_factory=list)
    left_out: str = ""

    def lines(self, indent: str) -> Iterator[str]:
        """All below it, a line each."""
        texts: list[tuple[str, _Branch | None]] = [(b.name + b.about, b) for b in self.below]
        texts += [(self.left_out, None)] if self.left_out else []
        for number, (text, branch) in enumerate(texts, 1):
            last = number == len(texts)
            yield f"{indent}{'└── ' if last else '├── '}{text}"
            if branch is not None:
                yield from branch.lines(indent + ("    " if last else "│   "))

    def html(self, opened: bool) -> str:
        """It and all below it, as a list that folds."""
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
    """A node and what is below it, level by level until one of the bounds is reached."""
    root = _branch(paths.name(location.path) or "/", node)
    place = location if level == 0 else location.listed()
    waiting = deque([(root, place, 0)] if isinstance(node, GroupModel) else [])
    while waiting:
        branch, place, depth = waiting.popleft()
        if depth == level:
            continue
        if max_nodes <= 0:
            branch.left_out = "…"
            continue
        children = sorted(place.children().items())
        shown = children[:max_nodes]
        max_nodes -= len(shown)
        if len(shown) < len(children):
            branch.left_out = f"… {len(children) - len(shown)} more"
        for name, child in shown:
            branch.below.append(_branch(name, child))
            if isinstance(child, GroupModel):
                waiting.append((branch.below[-1], place.child(name), depth + 1))
    return Tree(root, opened)


def _branch(name: str, node: Node | Exception) -> _Branch:
    if isinstance(node, Exception):
        return _Branch(name, f"  (cannot be read: {str(node).splitlines()[0]})")
    if isinstance(node, ArrayModel):
        return _Branch(name, f" {node.shape} {type_name(node.data_type)}  {codec_names(node)}")
    return _Branch(name)
