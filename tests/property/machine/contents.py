"""Rules for arrays: creating, writing, reading, resizing, appending."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnizarr as oz
from tests.property.machine.model import Node, Values, check_node, check_values
from tests.property.machine.selections import selections
from tests.property.machine.state import HANDLES, PATHS, SETTINGS, Settings, State
from tests.property.strategies import Described, described, filled, values

MOST = 12  # the length of an axis


def given(array: Described, data: Values | None) -> dict[str, Any]:
    """Return options of `create_array`."""
    content = {"shape": array.shape} if data is None else {"data": data}
    return {**array.options, **content, "fill_value": array.fill}


class Contents(State):
    """Rules about the values of arrays."""

    @rule(
        handle=HANDLES,
        path=PATHS,
        overwrite=st.booleans(),
        settings=SETTINGS,
        data=st.data(),
    )
    def create_array(
        self, handle: int, path: str, overwrite: bool, settings: Settings, data: st.DataObject
    ) -> None:
        path = path if isinstance(self.handles[handle], oz.Group) else ""
        array = data.draw(described(self.format, most=7, shards=True), "array")
        content = data.draw(st.none() | values(array.dtype, array.shape), "content")
        with self.configured(settings):
            if (path in self.model.nodes and not overwrite) or self.model.blocked(path):
                try:
                    self._create(handle, path, array, content, overwrite)
                except oz.NodeExists:
                    return
                raise AssertionError(f"{path} was created over something")
            made = self._create(handle, path, array, content, overwrite)
        node = Node(array.empty() if content is None else content.copy(), array.fill)
        self.put(path, node)
        self.held[path] = made
        check_node(made, node)
        if content is not None and content.size:  # what was given is the caller's own
            content[...] = array.fill

    def _create(
        self, handle: int, path: str, array: Described, data: Values | None, overwrite: bool
    ) -> oz.Array:
        options = given(array, data)
        at = self.handles[handle]
        if isinstance(at, oz.Group):
            return at.create_array(path, overwrite=overwrite, **options)
        return oz.create_array(at, zarr_format=self.format, overwrite=overwrite, **options)

    @precondition(lambda self: self.model.arrays())
    @rule(handle=HANDLES, held=st.booleans(), settings=SETTINGS, data=st.data())
    def write(self, handle: int, held: bool, settings: Settings, data: st.DataObject) -> None:
        path, wanted = self.some_values(data)
        array = self.array(handle, path, held)
        array.refresh()
        chosen = data.draw(selections(array, unique=True), "selection")
        new = data.draw(values(wanted.dtype, chosen.shape), "values")
        with self.configured(settings):
            chosen.write(array, new if new.ndim else new[()])
        chosen.put(wanted, new)

    @precondition(lambda self: self.with_fields())
    @rule(handle=HANDLES, settings=SETTINGS, data=st.data())
    def write_and_read_a_field(self, handle: int, settings: Settings, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(self.with_fields()), "path")
        wanted = self.model.nodes[path].data
        assert wanted is not None
        assert wanted.dtype.names is not None
        name = data.draw(st.sampled_from(wanted.dtype.names), "field")
        base, inside = wanted.dtype[name].base, wanted.dtype[name].shape
        new = data.draw(values(base, (*wanted.shape, *inside)), "values")
        array = self.array(handle, path)
        with self.configured(settings):
            if not inside:
                array[name] = new
                wanted[name] = new
            check_values(array[name], wanted[name], f"{path}[{name!r}]")
            check_values(array[name], wanted[name], path)

    def with_fields(self) -> list[str]:
        """Return the paths of arrays of records."""
        nodes = ((p, self.model.nodes[p].data) for p in self.model.arrays())
        return [p for p, d in nodes if d is not None and d.dtype.names]

    @precondition(lambda self: self.model.arrays())
    @rule(handle=HANDLES, settings=SETTINGS, data=st.data())
    def write_through_a_writer(self, handle: int, settings: Settings, data: st.DataObject) -> None:
        path, wanted = self.some_values(data)
        array = self.array(handle, path)
        budget = data.draw(st.sampled_from([0, 100, 2**20]), "budget")
        with self.configured(settings), array.writer(budget=budget) as writer:
            for _ in range(data.draw(st.integers(0, 4), "parts")):
                start = data.draw(st.integers(0, wanted.shape[0] if wanted.ndim else 0))
                part: Any = slice(start, start + 2) if wanted.ndim else ...
                new = data.draw(values(wanted.dtype, wanted[part].shape), "values")
                writer[part] = new if new.ndim else new[()]
                wanted[part] = new if new.ndim else new[()]

    @precondition(lambda self: self.model.arrays())
    @rule(handle=HANDLES, settings=SETTINGS, data=st.data())
    def read(self, handle: int, settings: Settings, data: st.DataObject) -> None:
        path, wanted = self.some_values(data)
        array = self.array(handle, path)
        chosen = data.draw(selections(array, unique=False), "selection")
        with self.configured(settings):
            found = chosen.read(array)
            check_values(found, chosen.of(wanted), f"{path}{chosen!r}")
            if isinstance(found, np.ndarray) and found.size and found.flags.writeable:
                found[...] = self.model.nodes[path].fill  # what was read is the caller's own
            out = np.empty(wanted.shape, wanted.dtype)
            check_values(array.read(out=out), wanted, path)

    @precondition(lambda self: self.model.arrays())
    @rule(handle=HANDLES, held=st.booleans(), settings=SETTINGS, data=st.data())
    def resize(self, handle: int, held: bool, settings: Settings, data: st.DataObject) -> None:
        path = self.some_array(data)
        node = self.model.nodes[path]
        assert node.data is not None
        shape = tuple(data.draw(st.integers(0, MOST), "length") for _ in node.data.shape)
        array = self.array(handle, path, held)
        with self.configured(settings):
            array.resize(shape, outside="erase")
        new = filled(node.fill, node.data.dtype, shape)
        both = tuple(slice(min(a, b)) for a, b in zip(shape, node.data.shape, strict=True))
        new[both] = node.data[both]
        node.data = new
        assert array.shape == shape

    @precondition(lambda self: self.model.arrays())
    @rule(handle=HANDLES, held=st.booleans(), settings=SETTINGS, data=st.data())
    def append(self, handle: int, held: bool, settings: Settings, data: st.DataObject) -> None:
        path = self.some_array(data)
        node = self.model.nodes[path]
        assert node.data is not None
        if not node.data.ndim:
            return
        axis = data.draw(st.integers(0, node.data.ndim - 1), "axis")
        shape = list(node.data.shape)
        shape[axis] = data.draw(st.integers(0, max(0, min(3, MOST - shape[axis]))), "length")
        new = data.draw(values(node.data.dtype, tuple(shape)), "values")
        array = self.array(handle, path, held)
        with self.configured(settings):
            node.data = np.concatenate([node.data, new], axis, dtype=node.data.dtype)
            assert array.append(new, axis) == node.data.shape

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def an_old_handle_is_correct_after_a_refresh(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.held)), "path")
        array = self.held[path]
        array.refresh()
        check_node(array, self.model.nodes[path])
