"""The expected hierarchy: NumPy arrays and dictionaries, compared with a store."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import omnizarr as oz
from tests.property.strategies import bits, filled

Values = npt.NDArray[Any]


@dataclass
class Node:
    """An expected node; data is None for a group."""

    data: Values | None = None
    fill: Any = None  # an array of no axes, or None where it is undefined
    attributes: dict[str, Any] = field(default_factory=dict)
    explicit: bool = True  # whether a group has a document, without which it needs members


@dataclass
class Model:
    """All expected nodes by path; the path of the root is empty."""

    format: int | str
    nodes: dict[str, Node] = field(default_factory=dict)

    def copy(self) -> Model:
        """Return a model that shares nothing with this one."""
        return copy.deepcopy(self)

    def arrays(self) -> list[str]:
        """Return the paths of arrays."""
        return sorted(p for p, n in self.nodes.items() if n.data is not None)

    def groups(self) -> list[str]:
        """Return the paths of groups."""
        return sorted(p for p, n in self.nodes.items() if n.data is None)

    def below(self, path: str) -> list[str]:
        """Return the paths below a path."""
        start = path + "/" if path else ""
        return [p for p in self.nodes if p and p.startswith(start) and p != path]

    def blocked(self, path: str) -> bool:
        """Return True if a parent of a path is an array."""
        return any(p in self.nodes and self.nodes[p].data is not None for p in _above(path))

    def put(self, path: str, node: Node) -> None:
        """Set a node, replacing what was at its path, and create missing parent groups."""
        self.drop(path)
        for parent in _above(path):
            self.nodes.setdefault(parent, Node(explicit=self.format != "3-draft"))
        self.nodes[path] = node

    def drop(self, path: str) -> None:
        """Remove a node and everything below it."""
        for gone in [path, *self.below(path)]:
            self.nodes.pop(gone, None)

    def drop_empty_groups(self) -> None:
        """Remove groups without metadata that lost their last member."""
        for path in sorted(self.nodes, key=len, reverse=True):
            if not self.nodes[path].explicit and not self.below(path):
                del self.nodes[path]

    def check(self, store: Any, *, exact: bool = True) -> None:
        """Compare with a store; unless `exact`, byte orders and fill values may differ."""
        if not self.nodes:
            return
        root = oz.open(store, zarr_format=self.format)
        found: dict[str, Any] = {"": root}
        if isinstance(root, oz.Group):
            found |= dict(root.members(None))
            listed = sorted(p for p in self.nodes if p and "/" not in p)
            assert list(root) == listed, f"members {list(root)}, not {listed}"
        assert found.keys() == self.nodes.keys(), f"{sorted(found)} are not {sorted(self.nodes)}"
        for path, node in self.nodes.items():
            check_node(found[path], node, exact=exact)


def check_node(found: Any, node: Node, *, exact: bool = True) -> None:
    """Compare a node with the expected one."""
    name = found.name
    attributes = dict(found.attrs)
    if not exact and attributes.get("_ARRAY_DIMENSIONS") == []:
        del attributes["_ARRAY_DIMENSIONS"]  # which conversions give scalars, for xarray
    assert attributes == node.attributes, f"attributes of {name}"
    assert isinstance(found, oz.Group) == (node.data is None), name
    if node.data is None:
        return
    assert found.shape == node.data.shape, name
    if exact:
        assert found.dtype == node.data.dtype, name
        if node.fill is not None:
            stated = filled(found.fill_value, node.data.dtype)
            assert bits(stated) == bits(node.fill), f"fill value of {name}"
    check_values(found[...], node.data, name)


def check_values(found: Any, wanted: Any, what: object) -> None:
    """Compare values bit by bit in any byte order."""
    wanted = np.asarray(wanted)
    shape = wanted.shape
    assert np.shape(found) == shape or wanted.dtype.hasobject, f"{what}: shape {np.shape(found)}"
    same = bits(native(filled(found, wanted.dtype, shape))) == bits(native(wanted))
    assert same, f"{what}: {found!r} is not {wanted!r}"


def native(values: Values) -> Values:
    """Return the same values in native byte order."""
    dtype = plain(values.dtype)
    return values if dtype == values.dtype else values.astype(dtype)


def plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the same type in native byte order."""
    return dtype if dtype.hasobject or dtype.kind == "T" else dtype.newbyteorder("<")


def _above(path: str) -> list[str]:
    parts = path.split("/") if path else []
    return [""] * bool(parts) + ["/".join(parts[:i]) for i in range(1, len(parts))]
