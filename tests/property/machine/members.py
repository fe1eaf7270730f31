"""Rules for groups and attributes: creating, moving and erasing nodes."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnizarr as oz
from tests.property.machine.model import Node
from tests.property.machine.state import HANDLES, PATHS, State

VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.text("xyz", max_size=3)
JSON = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.text("xy"), VALUES, max_size=2)


class Members(State):
    """Rules about the hierarchy that contains the arrays."""

    def is_group(self) -> bool:
        """Return True if the root is a group."""
        return "" in self.model.nodes and self.model.nodes[""].data is None

    @precondition(is_group)
    @rule(handle=HANDLES, path=PATHS)
    def require_group(self, handle: int, path: str) -> None:
        old = self.model.nodes.get(path)
        if self.model.blocked(path) or (old is not None and old.data is not None):
            try:
                self.handles[handle].require_group(path)
            except (oz.NodeExists, oz.WrongNode):
                return
            raise AssertionError(f"{path} was created over an array")
        group = self.handles[handle].require_group(path)
        assert isinstance(group, oz.Group)
        if old is None:
            self.put(path, Node())

    @precondition(is_group)
    @rule(handle=HANDLES, path=PATHS, attributes=st.dictionaries(st.sampled_from("kl"), JSON))
    def replace_by_a_group(self, handle: int, path: str, attributes: dict[str, Any]) -> None:
        if self.model.blocked(path):
            return
        self.handles[handle].create_group(path, attributes=attributes, overwrite=True)
        self.put(path, Node(attributes=attributes))

    @precondition(lambda self: self.model.nodes)
    @rule(
        handle=HANDLES,
        data=st.data(),
        act=st.sampled_from(["set", "update", "pop", "setdefault", "put"]),
        new=st.dictionaries(st.sampled_from(["k", "l", "m"]), JSON, max_size=2),
    )
    def attributes(self, handle: int, data: st.DataObject, act: str, new: dict[str, Any]) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.nodes)), "path")
        node = self.model.nodes[path]
        found = self.held[path] if path in self.held else self.node(handle, path)
        wanted, before = node.attributes, dict(node.attributes)
        name, value = next(iter(new.items()), ("k", 1))
        if act == "set":
            found.attrs[name] = wanted[name] = value
        elif act == "update":
            found.attrs.update(new)
            wanted.update(new)
        elif act == "pop":
            assert found.attrs.pop(name, "none") == wanted.pop(name, "none")
        elif act == "setdefault":
            assert found.attrs.setdefault(name, value) == wanted.setdefault(name, value)
        else:
            found.attrs.put(new)
            node.attributes = dict(new)
        if node.attributes != before:
            node.explicit = True  # in the draft a group may have no document before

    @precondition(lambda self: self.format in (2, 3) and self.is_group())
    @rule()
    def consolidate(self) -> None:
        oz.consolidate_metadata(self.store)
        self.consolidated = True

    @precondition(is_group)
    @rule(handle=HANDLES, source=PATHS, dest=PATHS)
    def move(self, handle: int, source: str, dest: str) -> None:
        nodes = self.model.nodes
        inside = f"{dest}/".startswith(f"{source}/")
        if source not in nodes or dest in nodes or inside or self.model.blocked(dest):
            try:
                self.handles[handle].move(source, dest)
            except (oz.NodeNotFound, oz.NodeExists, oz.InvalidName):
                return
            assert self._holds_a_part_of(dest, source), f"{source} was moved to {dest}"
        else:
            self.handles[handle].move(source, dest)
        moved = {p: nodes[p] for p in [source, *self.model.below(source)]}
        self.drop(source)
        self.put(dest, moved[source])
        nodes.update({dest + p[len(source) :]: node for p, node in moved.items()})
        self.model.drop_empty_groups()

    def _holds_a_part_of(self, dest: str, source: str) -> bool:
        """Return True if a group without metadata has what an interrupted move leaves."""
        nodes, start = self.model.nodes, len(dest)
        if dest not in nodes or nodes[dest].explicit or source not in nodes:
            return False
        pairs = ((nodes[p], nodes.get(source + p[start:])) for p in self.model.below(dest))
        return all(o is not None and n.attributes == o.attributes for n, o in pairs)

    @precondition(is_group)
    @rule(handle=HANDLES, path=PATHS)
    def delete(self, handle: int, path: str) -> None:
        if path not in self.model.nodes:
            try:
                del self.handles[handle][path]
            except KeyError:
                return
            raise AssertionError(f"{path} was not there")
        del self.handles[handle][path]
        self.drop(path)
        self.model.drop_empty_groups()

    @rule(alias=st.integers(0, 99), closed=st.booleans())
    def reopen(self, alias: int, closed: bool) -> None:
        """Open the hierarchy as another process would."""
        if closed:
            self.store.close()
        self.store = self.location.open()
        self.stores.append(self.store)
        if self.model.nodes or self.format == 1:
            self.open_handles(alias)

    @precondition(lambda self: self.location.kind not in ("memory", "fsspec memory"))
    @rule(handle=HANDLES)
    def pickle_a_handle(self, handle: int) -> None:
        self.handles[handle] = pickle.loads(pickle.dumps(self.handles[handle]))
