"""A node is replaced by itself: by reversed values, another handle, a view or another type.

In every notation the result is that of NumPy, which reads before it writes, or the call
is refused and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnizarr as oz
from tests.property.machine.model import Node, Values, check_values, plain
from tests.property.machine.state import FORMATS, HANDLES, SETTINGS, Settings, State
from tests.property.strategies import filled

ALIASES = st.integers(0, 99)

# What the values come from, and NumPy's word for it.
SOURCES: dict[str, tuple[Callable[[oz.Array], Any], Callable[[Values], Values]]] = {
    "itself": (lambda a: a, lambda v: v),
    "a view": (lambda a: a.view[...], lambda v: v),
    "backwards": (lambda a: a.view[::-1], lambda v: v[::-1]),
    "turned": (lambda a: a.view[...].T, lambda v: v.T),
    "in part": (lambda a: a.view[1:], lambda v: v[1:]),
    "another type": (lambda a: a.astype("f8"), lambda v: v.astype("f8")),
    "Dask": (lambda a: a.to_dask()[::-1], lambda v: v[::-1]),
    "read": (lambda a: a[::-1], lambda v: v[::-1]),
}

# Where they go: the store by any of its names, the group that has the array, its name there.
Sink = Callable[[Any, oz.Group | None, str, Any], Any]
SINKS: dict[str, Sink] = {
    "setitem": lambda at, group, path, x: _group(group).__setitem__(path, x),
    "create_array of a group": lambda at, group, path, x: _group(group).create_array(
        path, data=x, overwrite=True
    ),
    "create_array": lambda at, group, path, x: oz.create_array(
        at, path=path, data=x, overwrite=True
    ),
    "open_array": lambda at, group, path, x: oz.open(at, "w", path=path, data=x),
    "save": lambda at, group, path, x: oz.save(at, x, path=path, overwrite=True),
    "from_dask": lambda at, group, path, x: oz.from_dask(x, at, path=path, overwrite=True),
    "into itself": lambda at, group, path, x: _into(oz.open(at, "r+", path=path), x),
    "from_dask into itself": lambda at, group, path, x: _dask_into(oz.open(at, "r+", path=path), x),
}


class NotApplicable(oz.OmnizarrError):
    """A call that makes no sense for this array."""


def _group(group: oz.Group | None) -> oz.Group:
    if group is None:
        raise NotApplicable("there is no group")
    return group


def _into(array: oz.Array, x: Any) -> None:
    if array.shape != x.shape or array.dtype != x.dtype:
        raise NotApplicable("it does not fit")
    array[...] = x


def _dask_into(array: oz.Array, x: Any) -> None:
    if not hasattr(x, "dask") or array.shape != x.shape or array.dtype != x.dtype:
        raise NotApplicable("it does not fit")
    oz.from_dask(x, array)


class Overwrites(State):
    """Rules about nodes that are replaced by themselves."""

    def adopt(self, path: str, wanted: dict[str, Values], old: Node | None = None) -> None:
        """Update the model from a path whose arrays must have the given values."""
        found = oz.open(self.store, path=path or None)
        members = {"": found}
        if isinstance(found, oz.Group):
            members |= dict(found.members(None))
        arrays = {p: a for p, a in members.items() if isinstance(a, oz.Array)}
        assert arrays.keys() == wanted.keys(), f"{path}: {sorted(arrays)}"
        self.put(path, Node())
        for name, member in members.items():
            at = "/".join(filter(None, (path, name)))
            node = Node(attributes=dict(member.attrs))
            if isinstance(member, oz.Array):
                assert plain(member.dtype) == plain(wanted[name].dtype), at
                check_values(member[...], wanted[name], f"{at} as replaced")
                node.data = filled(wanted[name], member.dtype, member.shape)
                fill = member.fill_value
                node.fill = None if fill is None else filled(fill, member.dtype)
                if old is not None:
                    assert node.attributes in ({}, old.attributes)
            self.model.nodes[at] = node
        if not path and found.zarr_format != self.format:  # a new root has the default format
            self.model.format = found.zarr_format
            self.open_handles(0)

    @precondition(lambda self: self.model.arrays())
    @rule(
        handle=HANDLES,
        aliases=st.tuples(ALIASES, ALIASES),
        source=st.sampled_from(sorted(SOURCES)),
        sink=st.sampled_from(sorted(SINKS)),
        settings=SETTINGS,
        data=st.data(),
    )
    def replace_an_array_by_itself(
        self,
        handle: int,
        aliases: tuple[int, int],
        source: str,
        sink: str,
        settings: Settings,
        data: st.DataObject,
    ) -> None:
        path = self.some_array(data)
        old = self.model.nodes[path]
        assert old.data is not None
        read, turn = SOURCES[source]
        plain = old.data.dtype.kind in "iub" and not old.data.dtype.names
        if not old.data.ndim or (source == "another type" and not plain):
            return
        group = self.handles[handle]
        location = self.alias(aliases[1])
        with self.configured(settings):
            reader = oz.open(
                self.alias(aliases[0], writable=False), path=path or None, zarr_format=self.format
            )
            try:
                values = read(reader)
                group = group if isinstance(group, oz.Group) else None
                SINKS[sink](location, group, path, values)
            except oz.OmnizarrError:
                self.unchanged()
                return
            self.adopt(path, {"": turn(old.data)}, old)
            if "into itself" in sink:
                assert self.model.nodes[path].attributes == old.attributes

    @precondition(lambda self: any("/" in p for p in self.model.arrays()))
    @rule(handle=HANDLES, alias=ALIASES, settings=SETTINGS, data=st.data())
    def replace_a_group_by_an_array_in_it(
        self, handle: int, alias: int, settings: Settings, data: st.DataObject
    ) -> None:
        path = data.draw(st.sampled_from([p for p in self.model.arrays() if "/" in p]), "path")
        old = self.model.nodes[path]
        assert old.data is not None
        group = path.rpartition("/")[0]
        with self.configured(settings):
            array = oz.open(self.alias(alias, writable=False), path=path, zarr_format=self.format)
            try:
                self.handles[handle][group] = array
            except oz.OmnizarrError:
                self.unchanged()
                return
            self.adopt(group, {"": old.data})

    @precondition(lambda self: isinstance(self.handles[0], oz.Group))
    @rule(
        aliases=st.tuples(ALIASES, ALIASES),
        zarr_format=st.sampled_from(FORMATS),
        settings=SETTINGS,
    )
    def copy_everything_onto_itself(
        self, aliases: tuple[int, int], zarr_format: Any, settings: Settings
    ) -> None:
        source, target = self.alias(aliases[0], writable=False), self.alias(aliases[1])
        with self.configured(settings):
            try:
                oz.convert(source, target, zarr_format=zarr_format, overwrite=True)
            except oz.OmnizarrError:
                self.unchanged()
                return
        self.model.format, self.consolidated = zarr_format, False
        self.model.check(self.store, exact=False)
        for path in self.model.nodes:  # byte orders, and what is said of fill values
            self.take_over(path)
        self.open_handles(aliases[0])

    def take_over(self, path: str) -> None:
        """Update type and fill value of an array in the model after its values were compared."""
        node = self.model.nodes[path]
        if node.data is None:
            return
        found = oz.open(self.store, path=path or None, zarr_format=self.format)
        node.data = filled(node.data, found.dtype, found.shape)
        fill = found.fill_value
        node.fill = None if fill is None else filled(fill, found.dtype)
        self.held.pop(path, None)

    @precondition(lambda self: self.model.arrays())
    @rule(aliases=st.tuples(ALIASES, ALIASES), settings=SETTINGS, data=st.data())
    def append_itself(
        self, aliases: tuple[int, int], settings: Settings, data: st.DataObject
    ) -> None:
        path = self.some_array(data)
        node = self.model.nodes[path]
        assert node.data is not None
        if not node.data.ndim or len(node.data) > 6:
            return
        with self.configured(settings):
            where = {"path": path or None, "zarr_format": self.format}
            source = oz.open(self.alias(aliases[0], writable=False), **where, kind="array")
            oz.open(self.alias(aliases[1]), "r+", **where, kind="array").append(source)
        node.data = np.concatenate([node.data, node.data], dtype=node.data.dtype)
