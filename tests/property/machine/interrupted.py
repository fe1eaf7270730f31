"""Bulk operations that are interrupted at any of their writes.

Afterwards all old content is stored, or all new content, or the target says that it is
incomplete; and the same call with ``overwrite=True`` succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnizarr as oz
from omnizarr import ome
from omnizarr.stores import list_prefix
from omnizarr.stores.wrappers import WrapperStore
from tests.property.machine.model import Model, Node, Values
from tests.property.machine.state import SETTINGS, Settings, State
from tests.property.strategies import described, values

T = TypeVar("T")
CHANGES = ("set", "set_many", "set_new", "set_if", "set_partial", "erase", "erase_prefix")


class Stopped(OSError):
    """The error that a store raises when it is made to fail."""


class StoppingStore(WrapperStore):
    """A store whose n-th change fails; with `for_good`, all later ones fail too."""

    def __init__(self, inner: Any, left: int, error: type[BaseException], for_good: bool) -> None:
        super().__init__(inner)
        self.left, self.error, self.for_good = left, error, for_good
        self.stopped = False

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        if operation in CHANGES:
            if self.left == 0 or (self.stopped and self.for_good):
                self.stopped, self.left = True, -1
                raise self.error(f"stopped at {operation} {keys}")
            self.left -= 1
        return run()


@dataclass
class Work:
    """An operation on a store and the expected result; `again` repeats it with overwriting."""

    name: str
    old: Model
    new: Model
    do: Callable[[Any], Any]
    again: Callable[[Any], Any]
    exact: bool = True
    between: Model | None = None  # old and new, of which nodes that are new may be missing


class Interrupted(State):
    """Rules about operations that do not finish."""

    @precondition(lambda self: self.model.nodes)
    @rule(
        what=st.sampled_from(
            ["overwrite", "save", "copy", "convert", "image", "append", "resize", "move"]
        ),
        kind=st.sampled_from(["memory", "directory", "zip"]),
        after=st.integers(0, 12),
        error=st.sampled_from([Stopped, KeyboardInterrupt]),
        for_good=st.booleans(),
        settings=SETTINGS,
        data=st.data(),
    )
    def interrupt(
        self,
        what: str,
        kind: str,
        after: int,
        error: type[BaseException],
        for_good: bool,
        settings: Settings,
        data: st.DataObject,
    ) -> None:
        work = getattr(self, f"_{what}")(data)
        if work is None:
            return
        location = self.new_location(kind)
        inner = location.open()
        self.stores.append(inner)
        with self.configured(settings):
            if work.old.nodes:
                for key in list_prefix(self.store, ""):
                    inner.set(key, self.store.get(key))
            store = StoppingStore(inner, after, error, for_good)
            try:
                work.do(store)
            except (oz.OmnizarrError, Stopped, KeyboardInterrupt) as e:
                if not store.stopped:
                    self._refused(work, inner, e)
                    return
                self.tally["interrupted"] += 1
            else:
                assert not store.stopped or not for_good, f"{work.name}: an error was lost"
            self._check(work, inner, store.stopped)
            work.again(inner)
            work.new.check(inner, exact=work.exact)

    def _refused(self, work: Work, store: Any, error: BaseException) -> None:
        """Raise if a refused call changed something."""
        assert isinstance(error, oz.OmnizarrError), error
        work.old.check(store)
        if not work.old.nodes:
            assert list(store.list()) == []

    def _check(self, work: Work, store: Any, stopped: bool) -> None:
        """Raise unless all nodes are old, all are new, or the target says it is incomplete."""
        if agrees(work.new, store, work.exact):
            return
        assert stopped, f"{work.name} did something else"
        if agrees(work.old, store) or _in_part(work, store):
            return
        errors = complaints(store, {**work.old.nodes, **work.new.nodes})
        assert errors, f"{work.name} was interrupted, but the result looks complete"
        self.tally["reported as incomplete"] += 1

    # What is interrupted

    def _overwrite(self, data: st.DataObject) -> Work | None:
        """Replace a node by an array with other values."""
        path = data.draw(st.sampled_from(sorted(p for p in self.model.nodes)), "path")
        if self.model.nodes[path].data is None and not path:
            return None
        array = data.draw(described(self.format, most=5), "array")
        content = data.draw(values(array.dtype, array.shape), "content")
        new = self.model.copy()
        new.put(path, Node(content, array.fill))

        def do(store: Any) -> None:
            options = {**array.options, "fill_value": array.fill, "zarr_format": self.format}
            oz.create_array(store, path=path or None, data=content, overwrite=True, **options)

        return Work("overwriting", self.model, new, do, do)

    def _save(self, data: st.DataObject) -> Work | None:
        """Replace an array by its own reversed values."""
        path = self._chosen(data)
        values = None if path is None else self.model.nodes[path].data
        if values is None or not values.ndim or values.dtype.hasobject:
            return None
        turned = values[::-1].copy()
        new = self._with_array(path, turned)

        def do(store: Any) -> None:
            oz.save(store, turned, path=path, zarr_format=self.format, overwrite=True)

        return Work("save_array", self.model, new, do, do, exact=False)

    def _copy(self, data: st.DataObject) -> Work | None:
        """Copy an array over another."""
        path, other = self._chosen(data), self._chosen(data)
        if path is None or other is None or path == other:
            return None
        node = self.model.nodes[path]
        assert node.data is not None
        new = self._with_array(other, node.data)
        new.nodes[other].attributes = dict(node.attributes)

        def do(store: Any) -> None:
            source = oz.open(self.store, path=path, zarr_format=self.format)
            group, attributes = oz.open(store, "r+"), source.attrs.asdict()
            group.create_array(other, data=source, attributes=attributes, overwrite=True)

        return Work("copy", self.model, new, do, do, exact=False)

    def _convert(self, data: st.DataObject) -> Work:
        """Convert everything to an empty store."""
        goal: Any = data.draw(st.sampled_from([1, 2, "3-draft", 3]), "format")
        new = self.model.copy()
        new.format = goal

        def do(store: Any) -> None:
            oz.convert(self.store, store, zarr_format=goal)

        def again(store: Any) -> None:
            oz.convert(self.store, store, zarr_format=goal, overwrite=True)

        return Work("convert", Model(goal), new, do, again, exact=False)

    def _image(self, data: st.DataObject) -> Work | None:
        """Write an image to a new location."""
        path = self._chosen(data)
        pixels = None if path is None else self.model.nodes[path].data
        if pixels is None or pixels.ndim != 2 or not pixels.size or pixels.dtype != "u1":
            return None

        def do(store: Any, overwrite: bool = False) -> None:
            ome.write(store, pixels, axes="yx", levels=2, chunks=(2, 2), overwrite=overwrite)

        scratch = oz.storage.MemoryStore()
        do(scratch)
        new = Model(3)
        for name, member in [("", oz.open(scratch)), *oz.open(scratch).members(None)]:
            found = member[...] if isinstance(member, oz.Array) else None
            new.nodes[name] = Node(found, attributes=dict(member.attrs))
        new.nodes["0"].data = pixels
        return Work("ome.write", Model(3), new, do, lambda s: do(s, True))

    def _append(self, data: st.DataObject) -> Work | None:
        path = data.draw(st.sampled_from(self.model.arrays() or [None]), "path")
        node = None if path is None else self.model.nodes[path]
        if node is None or node.data is None or not node.data.ndim or not len(node.data):
            return None
        more, new = node.data, self.model.copy()
        new.nodes[path].data = np.concatenate([node.data, more], dtype=more.dtype)

        def do(store: Any) -> None:
            oz.open(store, "r+", path=path or None).append(more)

        def again(store: Any) -> None:
            array = oz.open(store, "r+", path=path or None)
            if len(array) == len(more):
                array.append(more)

        return Work("append", self.model, new, do, again)

    def _resize(self, data: st.DataObject) -> Work | None:
        path = data.draw(st.sampled_from(self.model.arrays() or [None]), "path")
        node = None if path is None else self.model.nodes[path]
        if node is None or node.data is None or not node.data.ndim:
            return None
        shape = tuple(data.draw(st.integers(0, n), "length") for n in node.data.shape)
        new = self.model.copy()
        new.nodes[path].data = node.data[tuple(map(slice, shape))].copy()

        def do(store: Any) -> None:
            oz.open(store, "r+", path=path or None).resize(shape, outside="erase")

        return Work("resize", self.model, new, do, do)

    def _move(self, data: st.DataObject) -> Work | None:
        """Rename a node; after an interrupt, both names may exist."""
        named = sorted(p for p in self.model.nodes if p)
        if not named:
            return None
        path = data.draw(st.sampled_from(named), "path")
        new = self.model.copy()
        moved = {p: new.nodes[p] for p in [path, *new.below(path)]}
        both = self.model.copy()
        both.put("z", moved[path])
        both.nodes |= {"z" + p[len(path) :]: n for p, n in moved.items()}
        new = both.copy()
        new.drop(path)
        new.drop_empty_groups()

        def do(store: Any) -> None:
            oz.open(store, "r+").move(path, "z")

        def again(store: Any) -> None:
            group = oz.open(store, "r+")
            if path in group:
                if "z" in group:
                    del group["z"]
                group.move(path, "z")

        return Work("move", self.model, new, do, again, between=both)

    def _chosen(self, data: st.DataObject) -> str | None:
        """Return the path of an array that is not the root."""
        paths = [p for p in self.model.arrays() if p]
        return data.draw(st.sampled_from(paths), "path") if paths else None

    def _with_array(self, path: str | None, values: Values) -> Model:
        new = self.model.copy()
        assert path is not None
        new.put(path, Node(values))
        return new


def _in_part(work: Work, store: Any) -> bool:
    """Return True if all old nodes and a part of the new ones are stored."""
    if work.between is None:
        return False
    there = {"", *dict(oz.open(store).members(None))}
    nodes = {p: n for p, n in work.between.nodes.items() if p in there}
    return work.old.nodes.keys() <= nodes.keys() and agrees(Model(work.old.format, nodes), store)


def agrees(model: Model, store: Any, exact: bool = True) -> bool:
    """Return True if a store holds exactly what a model says."""
    if not model.nodes:
        return list(store.list()) == []
    try:
        model.check(store, exact=exact)
    except (AssertionError, oz.OmnizarrError, oz.OmnizarrWarning):
        return False
    return True


def complaints(store: Any, paths: Iterable[str]) -> list[str]:
    """Return the errors of opening, reading and verifying an incomplete store."""
    found = []
    for path in paths:
        try:
            node = oz.open(store, path=path or None)
            if isinstance(node, oz.Array):
                node[...]
        except oz.NodeNotFound as e:
            found += [str(e)] if re.search("incomplete|being replaced", str(e)) else []
        except (oz.OmnizarrError, oz.OmnizarrWarning) as e:
            found.append(str(e))
    try:
        report = oz.verify(store)
    except (oz.OmnizarrError, oz.OmnizarrWarning) as e:
        return [*found, str(e)]
    return found if report.ok else [*found, str(report)]
