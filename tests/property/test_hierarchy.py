"""Any sequence of operations on two handles of one hierarchy agrees with NumPy and a dictionary."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import omnizarr as oz

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
HANDLES = st.integers(0, 1)
DTYPES = st.sampled_from(["i4", "f8", "u1", "b1"])
VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.text("xyz", max_size=3)
JSON = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.text("xy"), VALUES, max_size=2)


@dataclass
class Node:
    """What a node should be; data None for a group."""

    data: npt.NDArray[Any] | None = None
    fill: Any = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    explicit: bool = True  # whether a group has a document, without which it needs members


def values(shape: tuple[int, ...], dtype: Any, seed: int) -> npt.NDArray[Any]:
    numbers = np.random.default_rng(seed).integers(0, 100, shape)
    return np.asarray(numbers % 2 if np.dtype(dtype) == bool else numbers).astype(dtype)


class Hierarchy(RuleBasedStateMachine):
    """Two handles of one hierarchy; what either does, the other finds after a refresh."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.model: dict[str, Node] = {}
        # Handles that were opened at some time; others may have changed the arrays since.
        self.held: dict[str, oz.Array] = {}
        self.consolidated = False

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(
        zarr_format=st.sampled_from([1, 2, "3-draft", 3]),
        where=st.sampled_from(["memory", "directory"]),
        engine=st.sampled_from(["auto", "reference"]),
    )
    def begin(self, zarr_format: int | str, where: str, engine: str) -> None:
        self.format, self.engine = zarr_format, engine
        self.store: Any = oz.MemoryStore() if where == "memory" else oz.LocalStore(self.folder)
        if zarr_format != 1:
            oz.create_group(self.store, zarr_format=zarr_format)
            self.model[""] = Node()
            self.handles = [oz.open_group(self.store, "r+", zarr_format=zarr_format)]
            self.handles.append(oz.Group.open(self.store))

    # What is there

    def node(self, handle: int, path: str) -> Any:
        if self.format == 1:
            return oz.open_array(self.store, "r+")
        return self.handles[handle][path] if path else self.handles[handle]

    def arrays(self) -> list[str]:
        return sorted(p for p, n in self.model.items() if n.data is not None)

    def below(self, path: str) -> list[str]:
        return [p for p in self.model if p.startswith(path + "/")]

    def blocked(self, path: str) -> bool:
        """Whether something above a path is an array."""
        parts = path.split("/")
        above = ("/".join(parts[:i]) for i in range(1, len(parts)))
        return any(p in self.model and self.model[p].data is not None for p in above)

    def add_groups(self, path: str) -> None:
        parts = path.split("/")
        for i in range(1, len(parts)):
            self.model.setdefault("/".join(parts[:i]), Node(explicit=self.format != "3-draft"))

    def drop(self, path: str) -> None:
        for gone in [path, *self.below(path)]:
            del self.model[gone]
            self.held.pop(gone, None)

    def forget_empty(self) -> None:
        """Groups without a document vanish with their last member."""
        for path in sorted(self.model, key=len, reverse=True):
            if not self.model[path].explicit and not self.below(path):
                del self.model[path]

    # Creating

    @rule(
        handle=HANDLES,
        path=PATHS,
        shape=st.lists(st.integers(0, 7), min_size=1, max_size=3),
        chunk=st.integers(1, 4),
        dtype=DTYPES,
        shards=st.booleans(),
        filled=st.booleans(),
        overwrite=st.booleans(),
        seed=st.integers(0, 9),
    )
    def create_array(
        self,
        handle: int,
        path: str,
        shape: list[int],
        chunk: int,
        dtype: str,
        shards: bool,
        filled: bool,
        overwrite: bool,
        seed: int,
    ) -> None:
        path = "" if self.format == 1 else path
        options: dict[str, Any] = {"chunks": chunk, "dtype": dtype, "overwrite": overwrite}
        if shards and self.format in (3, "3-draft"):
            options["shards"] = 2 * chunk
        fill = values((), dtype, seed)[()]
        data = values(tuple(shape), dtype, seed) if filled else np.full(shape, fill, dtype)

        def create() -> oz.Array:
            given = {"data": data} if filled else {"shape": shape}
            if self.format == 1:
                return oz.create_array(
                    self.store, zarr_format=1, fill_value=fill, **given, **options
                )
            return self.handles[handle].create_array(path, fill_value=fill, **given, **options)

        old = self.model.get(path)
        if self.blocked(path) or (old is not None and not overwrite):
            try:
                create()
            except oz.NodeExists:
                return
            raise AssertionError(f"{path} was created over something")
        array = create()
        if old is not None:
            self.drop(path)
        self.add_groups(path)
        self.model[path] = Node(data, fill)
        self.held[path] = array

    @precondition(lambda self: self.format != 1)
    @rule(handle=HANDLES, path=PATHS)
    def require_group(self, handle: int, path: str) -> None:
        if self.blocked(path) or self.model.get(path, Node()).data is not None:
            try:
                self.handles[handle].require_group(path)
            except (oz.NodeExists, oz.WrongNode):
                return
            raise AssertionError(f"{path} was created over an array")
        group = self.handles[handle].require_group(path)
        assert isinstance(group, oz.Group)
        self.add_groups(path)
        self.model.setdefault(path, Node())

    # Changing

    def some_array(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.arrays()))

    @precondition(lambda self: self.arrays())
    @rule(handle=HANDLES, data=st.data(), seed=st.integers(0, 9), through=st.booleans())
    def write(self, handle: int, data: st.DataObject, seed: int, through: bool) -> None:
        path = self.some_array(data)
        wanted = self.model[path].data
        assert wanted is not None
        selection = data.draw(basic_indices(wanted.shape, allow_newaxis=False))
        new = values(np.shape(wanted[selection]), wanted.dtype, seed)
        with oz.configure(engine=self.engine):
            array = self.node(handle, path)
            if through:
                array.view[selection][...] = new
            else:
                array[selection] = new
        wanted[selection] = new

    @precondition(lambda self: self.arrays())
    @rule(handle=HANDLES, data=st.data(), held=st.booleans())
    def resize(self, handle: int, data: st.DataObject, held: bool) -> None:
        path = self.some_array(data)
        node = self.model[path]
        assert node.data is not None
        shape = tuple(data.draw(st.integers(0, 8)) for _ in node.data.shape)
        array = self.held[path] if held and path in self.held else self.node(handle, path)
        array.resize(shape, outside="erase")
        new = np.full(shape, node.fill, node.data.dtype)
        both = tuple(slice(min(a, b)) for a, b in zip(shape, node.data.shape, strict=True))
        new[both] = node.data[both]
        node.data = new
        assert array.shape == shape

    @precondition(lambda self: self.arrays())
    @rule(handle=HANDLES, data=st.data(), held=st.booleans(), seed=st.integers(0, 9))
    def append(self, handle: int, data: st.DataObject, held: bool, seed: int) -> None:
        path = self.some_array(data)
        node = self.model[path]
        assert node.data is not None
        axis = data.draw(st.integers(0, node.data.ndim - 1))
        shape = list(node.data.shape)
        shape[axis] = data.draw(st.integers(0, 3))
        if node.data.shape[axis] + shape[axis] > 12:
            return
        new = values(tuple(shape), node.data.dtype, seed)
        array = self.held[path] if held and path in self.held else self.node(handle, path)
        with oz.configure(engine=self.engine):
            node.data = np.concatenate([node.data, new], axis)
            assert array.append(new, axis) == node.data.shape

    @precondition(lambda self: self.model)
    @rule(
        handle=HANDLES,
        data=st.data(),
        act=st.sampled_from(["set", "update", "pop", "setdefault", "put"]),
        new=st.dictionaries(st.sampled_from(["k", "l", "m"]), JSON, max_size=2),
    )
    def attributes(self, handle: int, data: st.DataObject, act: str, new: dict[str, Any]) -> None:
        path = data.draw(st.sampled_from(sorted(self.model)))
        node = self.model[path]
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

    @precondition(lambda self: self.format in (2, 3))
    @rule()
    def consolidate(self) -> None:
        oz.consolidate_metadata(self.store)
        self.consolidated = True

    # Moving and erasing

    @precondition(lambda self: self.format != 1)
    @rule(handle=HANDLES, source=PATHS, dest=PATHS)
    def move(self, handle: int, source: str, dest: str) -> None:
        inside = f"{dest}/".startswith(f"{source}/")
        if source not in self.model or dest in self.model or inside or self.blocked(dest):
            try:
                self.handles[handle].move(source, dest)
            except (oz.NodeNotFound, oz.NodeExists, oz.InvalidName):
                return
            raise AssertionError(f"{source} was moved to {dest}")
        self.handles[handle].move(source, dest)
        moved = {p: self.model[p] for p in [source, *self.below(source)]}
        self.drop(source)
        self.add_groups(dest)
        self.model.update({dest + p[len(source) :]: node for p, node in moved.items()})
        self.forget_empty()

    @precondition(lambda self: self.format != 1)
    @rule(handle=HANDLES, path=PATHS)
    def delete(self, handle: int, path: str) -> None:
        if path not in self.model:
            try:
                del self.handles[handle][path]
            except KeyError:
                return
            raise AssertionError(f"{path} was not there")
        del self.handles[handle][path]
        self.drop(path)
        self.forget_empty()

    # Looking

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def a_handle_that_was_held_is_right_after_a_refresh(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.held)))
        array, node = self.held[path], self.model[path]
        array.refresh()
        assert array.attrs == node.attributes
        assert np.array_equal(array[...], node.data)

    @precondition(lambda self: self.arrays())
    @rule(handle=HANDLES, data=st.data())
    def reading_a_part_agrees(self, handle: int, data: st.DataObject) -> None:
        path = self.some_array(data)
        wanted = self.model[path].data
        assert wanted is not None
        selection = data.draw(basic_indices(wanted.shape, allow_newaxis=False))
        with oz.configure(engine=self.engine):
            array = self.node(handle, path)
            assert np.array_equal(array[selection], wanted[selection])
            assert np.array_equal(array.view[selection].T, np.transpose(wanted[selection]))

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        if not self.model:
            return
        if self.format == 1:
            found: dict[str, Any] = {"": oz.open_array(self.store)}
        else:
            found = {"": oz.open_group(self.store), **dict(self.handles[0].members(None))}
            assert list(self.handles[1]) == sorted(p for p in self.model if p and "/" not in p)
        assert found.keys() == self.model.keys()
        if self.consolidated:
            copies = oz.open_group(self.store, use_consolidated=True)
            assert {p: n.attrs for p, n in copies.members(None)} == {
                p: n.attributes for p, n in self.model.items() if p
            }
        for path, node in self.model.items():
            assert found[path].attrs == node.attributes
            if node.data is not None:
                assert found[path].dtype == node.data.dtype
                assert np.array_equal(found[path][...], node.data)
        assert oz.validate(self.store) == []


def test_any_sequence_of_operations_on_two_handles_agrees_with_numpy() -> None:
    run_state_machine_as_test(
        Hierarchy,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
