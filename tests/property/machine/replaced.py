"""Rules for files that another program replaces under open stores."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnizarr as oz
from tests.property.machine.locations import Location
from tests.property.machine.model import Model, Node
from tests.property.machine.state import State
from tests.property.strategies import described, values


class Replaced(State):
    """Rules about files that another program replaces."""

    @precondition(lambda self: self.location.kind in ("zip", "SQLite", "LMDB"))
    @rule(
        how=st.sampled_from(["moved there", "removed and created again"]),
        alias=st.integers(0, 99),
        through_old=st.booleans(),
        data=st.data(),
    )
    def replace_the_file(
        self, how: str, alias: int, through_old: bool, data: st.DataObject
    ) -> None:
        """Replace this hierarchy by another one while old stores stay open."""
        old = self.handles[data.draw(st.integers(0, 1), "old handle")]
        if how == "moved there":
            other = self.new_location(self.location.kind)
            model = self._fill(other, data)
            self.location.take(other)
        else:
            self.location.erase()
            model = self._fill(self.location, data)
        self.model, self.consolidated = model, False
        self.store = self.location.open()
        self.stores.append(self.store)
        self.open_handles(alias)
        self.unchanged()
        if through_old and "" in self.model.nodes:
            self._write_through(old)

    def _fill(self, location: Location, data: st.DataObject) -> Model:
        """Store another hierarchy with one array and return its model."""
        model, store = Model(self.format), location.open()
        array = data.draw(described(self.format, most=5), "array")
        content = data.draw(values(array.dtype, array.shape), "content")
        if self.format != 1:
            oz.create_group(store, zarr_format=self.format)
            model.nodes[""] = Node()
        path = "" if self.format == 1 else "n"
        made = array.create(store, path=path or None)
        made[...] = content if content.ndim else content[()]
        model.nodes[path] = Node(content, array.fill)
        store.close()
        return model

    def _write_through(self, old: Any) -> None:
        """Write through an old store, which changes the new files or reports that it cannot."""
        try:
            root = old if isinstance(old, oz.Group) else oz.open(old, "r+")
            root.attrs["k"] = "old"
        except oz.OmnizarrError:
            return
        self.model.nodes[""].attributes["k"] = "old"

    @precondition(lambda self: len(self.stores) > 1)
    @rule(number=st.integers(0, 99))
    def close_an_old_store(self, number: int) -> None:
        """Close a store that was left open; nothing may change."""
        others = [s for s in self.stores if s is not self.store and s != self.store]
        if others:
            with suppress(oz.OmnizarrError):  # the file was replaced
                others[number % len(others)].close()
