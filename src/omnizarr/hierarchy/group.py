"""Group: what users hold of a Zarr group."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Unpack

import numpy as np

from omnizarr.engine import BoundArray
from omnizarr.errors import NodeNotFound, OmnizarrWarning, Problem, WrongNode
from omnizarr.hierarchy import render
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.attributes import json_attributes
from omnizarr.hierarchy.copies import Copies
from omnizarr.hierarchy.location import Location, tell
from omnizarr.hierarchy.node import NodeHandle
from omnizarr.hierarchy.options import ArrayOptions, array_model
from omnizarr.model import ArrayModel, GroupModel, Node
from omnizarr.stores import can_list


class Group(NodeHandle[GroupModel]):
    """A folder of arrays and groups, used like a dictionary; names may be paths."""

    def _open(self, location: Location, model: Node) -> None:
        if not isinstance(model, GroupModel):
            raise WrongNode(f"{location} is an array, not a group; use open_array")
        self._location = location
        self._model = model

    # Members

    def __getitem__(self, path: str) -> Array | Group:
        location = self._location.child(path)
        problems: list[Problem] = []
        node = location.find(problems)
        tell(problems)
        if node is None:
            raise NodeNotFound(self._missing(path, location))
        return open_node(location, node)

    def _missing(self, path: str, location: Location) -> str:
        message = f"there is no array or group {path!r} in {self._location}"
        if can_list(self.store):
            names = sorted(self)
            if names:
                message += f"; members: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
        return message

    def get(self, path: str, default: Any = None) -> Any:
        """The member, or `default` where there is none."""
        try:
            return self[path]
        except NodeNotFound:
            return default

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        return self._location.child(path).find([]) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._nodes()))

    def __len__(self) -> int:
        return len(self._nodes())

    def keys(self) -> Iterator[str]:
        """The names of the members."""
        return iter(self)

    def values(self) -> Iterator[Array | Group]:
        """The members."""
        return (member for _, member in self.members())

    def items(self) -> Iterator[tuple[str, Array | Group]]:
        """Names and members."""
        return iter(self.members())

    def members(self, max_depth: int | None = 0) -> tuple[tuple[str, Array | Group], ...]:
        """Members by relative path: direct ones, or down to a depth, None for all."""
        location = self._location if max_depth == 0 else self._location.listed()
        return tuple(self._members(location, max_depth))

    def _members(
        self, location: Location, max_depth: int | None
    ) -> Iterator[tuple[str, Array | Group]]:
        for name, node in sorted(self._nodes(location).items()):
            place = location.child(name)
            member = open_node(place.unlisted(), node)
            yield name, member
            if isinstance(member, Group) and max_depth != 0:
                deeper = None if max_depth is None else max_depth - 1
                yield from ((f"{name}/{p}", m) for p, m in member._members(place, deeper))

    def nmembers(self, max_depth: int | None = 0) -> int:
        """How many members there are."""
        return len(self.members(max_depth))

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Names and arrays among the members."""
        return ((n, m) for n, m in self.members() if isinstance(m, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Names and groups among the members."""
        return ((n, m) for n, m in self.members() if isinstance(m, Group))

    def array_keys(self) -> Iterator[str]:
        """The names of the arrays among the members."""
        return (n for n, m in sorted(self._nodes().items()) if isinstance(m, ArrayModel))

    def group_keys(self) -> Iterator[str]:
        """The names of the groups among the members."""
        return (n for n, m in sorted(self._nodes().items()) if isinstance(m, GroupModel))

    def _nodes(self, location: Location | None = None) -> dict[str, Node]:
        """The readable members; one that is broken is told and left out."""
        good: dict[str, Node] = {}
        for name, node in (location or self._location).children().items():
            if isinstance(node, Exception):
                warnings.warn(f"{name!r} is left out: {node}", OmnizarrWarning, stacklevel=4)
            else:
                good[name] = node
        return good

    @property
    def consolidated(self) -> dict[str, Node] | None:
        """What the group's copies of the documents below it say, by relative path.

        None where it has none. They are read from the store, in one request.
        """
        copies = self._location.copies
        if copies is None or not copies.asked:
            copies = Copies(self.store, self.path, self._location.format)
        return copies.all(self.path)

    # Creating and erasing

    def create_group(
        self, path: str, *, attributes: dict[str, Any] | None = None, overwrite: bool = False
    ) -> Group:
        """A new group below this one."""
        location = self._location.child(path)
        model = GroupModel(json_attributes(attributes or {}))
        return Group.at(location, location.create(model, overwrite=overwrite))

    def require_group(self, path: str, *, overwrite: bool = False) -> Group:
        """The group at a path, created where it does not exist."""
        if not overwrite and path in self:
            member = self[path]
            if not isinstance(member, Group):
                raise WrongNode(f"{member.name} is an array, not a group")
            return member
        return self.create_group(path, overwrite=overwrite)

    def create_array(
        self,
        path: str,
        *,
        shape: int | Iterable[int] | None = None,
        dtype: Any = None,
        data: Any = None,
        overwrite: bool = False,
        **options: Unpack[ArrayOptions],
    ) -> Array:
        """A new array below this group; see `ArrayOptions` for the rest."""
        return make_array(self._location.child(path), shape, dtype, data, overwrite, options)

    create_dataset = create_array

    def __setitem__(self, path: str, value: Any) -> None:
        self.create_array(path, data=value, overwrite=True)

    def __delitem__(self, path: str) -> None:
        self.delete(path)

    def delete(self, path: str, *, keep_parent: bool = False) -> None:
        """Erase a member and all below it.

        In the draft a group without a document vanishes with its last member; `keep_parent`
        gives it a document first.
        """
        location = self._location.child(path)
        if location.find([]) is None:
            raise NodeNotFound(self._missing(path, location))
        if keep_parent:
            parent = location.at(location.path.rpartition("/")[0])
            node = parent.load()
            if isinstance(node, GroupModel) and node.implicit:
                parent.save(None, node.with_(implicit=False))
        location.erase()

    # Looking at it

    def tree(self, max_depth: int | None = None) -> render.Tree:
        """All below this group as an indented text."""
        return render.Tree(render.tree_lines(self._location, self._model, max_depth))

    @property
    def info(self) -> render.Info:
        """A summary."""
        return render.group_info(self._model, self._location)

    def __repr__(self) -> str:
        return render.group_line(self._location)


def open_node(location: Location, node: Node) -> Array | Group:
    """The handle for a model."""
    return Array.at(location, node) if isinstance(node, ArrayModel) else Group.at(location, node)


def make_array(
    location: Location,
    shape: Any,
    dtype: Any,
    data: Any,
    overwrite: bool,
    options: ArrayOptions,
) -> Array:
    """Create an array, and fill it where data are given."""
    if data is not None:
        data = (
            data if hasattr(data, "shape") and hasattr(data, "dtype") else np.asarray(data, dtype)
        )
        shape = data.shape if shape is None else shape
        dtype = data.dtype if dtype is None else dtype
    if shape is None:
        raise TypeError("give the shape of the new array, or data")
    model = array_model(location.format, shape, dtype, options)

    def check(read: Node) -> None:
        if isinstance(read, ArrayModel):
            bound = BoundArray(location.store, location.path, "", read)
            bound.check()
            bound.chain(bound.grid.regular or bound.grid.chunk_shape((0,) * len(bound.grid.axes)))
            _ = bound.encoding, bound.chunk_store

    array = Array.at(location, location.create(model, overwrite=overwrite, check=check))
    if data is not None:
        array[...] = data
    return array
