"""Groups: the handle of a Zarr group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from omnizarr import data_types, errors
from omnizarr.errors import InvalidArgument, NodeExists, NodeNotFound, Problem, WrongNode, warn
from omnizarr.formats import title
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.attributes import json_attributes
from omnizarr.hierarchy.build import create_node, create_nodes, delete, make_array, move
from omnizarr.hierarchy.consolidated import ConsolidatedMetadata
from omnizarr.hierarchy.info import Info, Tree, tree
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.lookup import check_known_absent, no_member_message
from omnizarr.hierarchy.node import NodeHandle, complete_hierarchy, frozen
from omnizarr.hierarchy.options import ArrayOptions, Member, document_options, plain_type
from omnizarr.hierarchy.selection import S
from omnizarr.model import ArrayModel, GroupModel, Node
from omnizarr.publish.publication import wait_for_replacement
from omnizarr.stores import traits


class Group(NodeHandle[GroupModel]):
    """A group of arrays and groups, used like a dictionary; names may be paths.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        path: The path of the group in the store; by default the root.
        read_only: True to refuse all writes through this handle.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default the format is detected.

    Examples:
        >>> g = oz.create_group("run.zarr")
        >>> g["day1/salt"] = np.arange(3)
        >>> "day1" in g, len(g)
        (True, 1)
        >>> g["day1/salt"][:2]
        array([0, 1])
    """

    def _set_model(self, location: Location, model: Node) -> None:
        if not isinstance(model, GroupModel):
            raise WrongNode(f"{location} is an array, not a group; omnizarr.open opens both")
        self._location = location
        self._model = model
        self._listed: list[str] = []  # for an iterator that has not begun

    # Members

    def __getitem__(self, path: str) -> Any:
        """Return the array or group at a path below this group.

        Args:
            path: The name or path of the member.

        Raises:
            NodeNotFound: If there is no such member.

        Examples:
            >>> g = oz.create_group()
            >>> g["day1/salt"] = np.arange(3)
            >>> g["day1/salt"].shape
            (3,)
        """
        found = self._member(path)
        if found is None and traits(self.store).low_latency:  # it may just have been replaced
            wait_for_replacement(self.store)
            found = self._member(path)
        if found is None:
            raise NodeNotFound(no_member_message(self._location, path))
        return found

    def _member(self, path: str) -> Array | Group | None:
        """Return the member, or None if there is none."""
        problems: list[Problem] = []
        location = self._location.child(path)
        node = location.find(problems)
        errors.warn_of_problems(problems)
        return None if node is None else open_node(location, node)

    def get(self, path: str, default: Any = None) -> Any:
        """Return the member, or `default` if there is none.

        Args:
            path: The name or path of the member.
            default: The result if there is none.

        Examples:
            >>> g = oz.create_group()
            >>> g.get("salt") is None
            True
        """
        found = self._member(path)
        if found is None:
            check_known_absent(self._location.child(path))
        return default if found is None else found

    def __contains__(self, path: object) -> bool:
        """Return True if there is an array or group at a path below this group.

        Args:
            path: The name or path of the member.

        Examples:
            >>> "salt" in oz.create_group()
            False
        """
        if not isinstance(path, str):
            return False
        location = self._location.child(path)
        if location.find([]) is not None:
            return True
        check_known_absent(location)
        return False

    def __iter__(self) -> Iterator[str]:
        listed: list[str] = []
        # list() asks for the length before the first name: one listing serves both.
        self._listed = listed

        def names() -> Iterator[str]:
            yield from listed or sorted(self._nodes())

        return names()

    def __len__(self) -> int:
        self._listed[:] = sorted(self._nodes())
        return len(self._listed)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def keys(self) -> Iterator[str]:
        """Return an iterator over the names of the members.

        Examples:
            >>> list(oz.create_group({}).keys())
            []
        """
        return iter(self)

    def values(self) -> Iterator[Array | Group]:
        """Return an iterator over the members.

        Examples:
            >>> list(oz.create_group({}).values())
            []
        """
        return (member for _, member in self.members())

    def items(self) -> Iterator[tuple[str, Array | Group]]:
        """Return an iterator over names and members.

        Examples:
            >>> list(oz.create_group({}).items())
            []
        """
        return iter(self.members())

    def members(
        self, max_depth: int | None = 0, *, use_consolidated_for_children: bool = True
    ) -> tuple[tuple[str, Array | Group], ...]:
        """Return members by relative path: direct ones, or down to a depth, None for all.

        Args:
            max_depth: The number of groups on the way to a member; 0 for direct members, None for
                all.
            use_consolidated_for_children: False to read the members' own metadata even if the group
                was opened with consolidated metadata.

        Raises:
            InvalidArgument: If `max_depth` is negative.

        Examples:
            >>> g = oz.create_group()
            >>> a = g.create_array("day1/salt", shape=3, dtype="i2")
            >>> [path for path, node in g.members(max_depth=None)]
            ['day1', 'day1/salt']
        """
        if max_depth is not None and max_depth < 0:
            raise InvalidArgument(f"max_depth must be None or at least 0, got {max_depth}")
        location = self._location
        if not use_consolidated_for_children:
            location = replace(location, consolidated=None)
        start = location if max_depth == 0 else location.with_listing()
        return tuple(self._members(start, max_depth))

    def _members(
        self, location: Location, max_depth: int | None
    ) -> Iterator[tuple[str, Array | Group]]:
        for name, node in sorted(self._nodes(location).items()):
            below = location.child(name)
            member = open_node(below.without_listing(), node)
            yield name, member
            if isinstance(member, Group) and max_depth != 0:
                deeper = None if max_depth is None else max_depth - 1
                yield from ((f"{name}/{p}", m) for p, m in member._members(below, deeper))

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Return an iterator over names and arrays among the members.

        Examples:
            >>> g = oz.create_group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> [(name, array.shape) for name, array in g.arrays()]
            [('salt', (3,))]
        """
        return ((n, m) for n, m in self.members() if isinstance(m, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Return an iterator over names and groups among the members.

        Examples:
            >>> g = oz.create_group()
            >>> day = g.create_group("day1")
            >>> [name for name, group in g.groups()]
            ['day1']
        """
        return ((n, m) for n, m in self.members() if isinstance(m, Group))

    def _nodes(self, location: Location | None = None) -> dict[str, Node]:
        """Return the readable members; warn of any other."""
        found = (location or self._location).children()
        for name, node in found.items():
            if isinstance(node, Exception):
                warn(f"{name!r} is left out: {node}")
        return {name: node for name, node in found.items() if not isinstance(node, Exception)}

    @property
    def consolidated(self) -> dict[str, Node] | None:
        """The group's consolidated metadata by relative path, or None if it has none.

        They are read from the store in one request.
        """
        found = self._location.consolidated
        if found is None or not found.requested:
            found = ConsolidatedMetadata(self._location.store, self.path, self._location.format)
        nodes = found.all(self.path)
        return None if nodes is None else {path: frozen(node) for path, node in nodes.items()}

    # Creating, moving and erasing

    def create_group(
        self, name: str, *, attributes: dict[str, Any] | None = None, overwrite: bool = False
    ) -> Group:
        """Create a group below this one.

        Args:
            name: The name or path of the new group, relative to this one.
            attributes: User attributes of a new node.
            overwrite: True to replace an existing node.

        Returns:
            The group.

        Examples:
            >>> oz.create_group().create_group("day1/morning").name
            '/day1/morning'
        """
        return make_group(self._new(name), attributes, overwrite)

    def _new(self, name: str) -> Location:
        """Return the location of a new node, which knows through which group it is created."""
        within = None if self._model.implicit else self._location.path or None
        return self._location.child(name, within)

    def require_group(self, name: str, *, overwrite: bool = False) -> Group:
        """Return the group at a path, created if it does not exist.

        Args:
            name: The name or path of the group, relative to this one.
            overwrite: True to replace an existing node by an empty group.

        Raises:
            WrongNode: If there is an array.

        Examples:
            >>> g = oz.create_group()
            >>> g.require_group("day1").path, g.require_group("day1").path
            ('day1', 'day1')
        """
        member = None if overwrite else self._member(name)
        if member is None:
            try:
                return self.create_group(name, overwrite=overwrite)
            except NodeExists:
                member = self.get(name)  # another writer has just created it
                if member is None:  # no: a node above is an array
                    raise
        if not isinstance(member, Group):
            raise WrongNode(f"{member.name} is an array, not a group")
        return member

    def create_hierarchy(
        self, nodes: Mapping[str, Any], *, overwrite: bool = False
    ) -> Iterator[tuple[str, Array | Group]]:
        """Create arrays and groups below this one by path, parents first; see `create_hierarchy`.

        They are stored in the format of this group, whichever they are described in.

        Args:
            nodes: Descriptions of the nodes by path, as in the function `create_hierarchy`.
            overwrite: True to replace existing nodes.

        Yields:
            The path of a node, and the array or group.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> like = oz.create_array(shape=(4, 6)).metadata
            >>> [path for path, node in oz.create_group().create_hierarchy({"day1/salt": like})]
            ['day1', 'day1/salt']
        """
        wanted, _ = complete_hierarchy(nodes)
        if wanted.pop("", None) is not None:
            raise NodeExists(
                f"{self._location} exists already; leave the node '' out, or use the function"
                " create_hierarchy"
            )
        for name, location, node in create_nodes(self._location, wanted, overwrite):
            yield name, open_node(location, node)

    @overload
    def create_array(
        self, name: str, *, dtype: type[S] | np.dtype[S], data: Any = ..., **options: Unpack[Member]
    ) -> Array[S]: ...
    @overload
    def create_array(
        self, name: str, *, data: npt.NDArray[S], dtype: None = None, **options: Unpack[Member]
    ) -> Array[S]: ...
    @overload
    def create_array(
        self, name: str, *, dtype: Any = None, data: Any = ..., **options: Unpack[Member]
    ) -> Array: ...
    def create_array(
        self,
        name: str,
        *,
        shape: int | Iterable[int] | None = None,
        dtype: Any = None,
        data: Any = None,
        overwrite: bool = False,
        **options: Unpack[ArrayOptions],
    ) -> Array:
        """Create an array below this group, as the function `create_array` does.

        Args:
            name: The name or path of the new array, relative to this group.
            shape: The length of every axis; a number for one axis.
            dtype: The type of the elements, as NumPy or Zarr name it.
            data: Values to store; shape and type may then be left out.
            overwrite: True to replace an existing node.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Returns:
            The array.

        Examples:
            >>> g = oz.create_group()
            >>> a = g.create_array("salt", shape=(4, 6), chunks=(2, 3), dtype="f4")
            >>> g["salt"].chunks
            (2, 3)
        """
        return make_array(self._new(name), shape, dtype, data, overwrite, options)

    def require_array(
        self,
        name: str,
        *,
        shape: int | Iterable[int],
        dtype: Any = None,
        exact: bool = False,
        **options: Any,
    ) -> Array:
        """Return the array at a path, created if it does not exist.

        An existing array must have the shape, and a type that can be cast to `dtype` without loss,
        or with `exact` the same type.

        Args:
            name: The name or path of the array, relative to this group.
            shape: The length of every axis; a number for one axis.
            dtype: The type of the elements, as NumPy or Zarr name it.
            exact: True to accept only the same type.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Raises:
            WrongNode: If there is a group, or an array of another shape or type.

        Examples:
            >>> g = oz.create_group()
            >>> g.require_array("salt", shape=3, dtype="i2")[0] = 5
            >>> int(g.require_array("salt", shape=3, dtype="i2")[0])
            5
        """
        member = self._member(name)
        if member is None:
            try:
                return self.create_array(name, shape=shape, dtype=dtype, **options)
            except NodeExists:
                member = self.get(name)  # another writer has just created it
                if member is None:  # no: a node above is an array
                    raise
        if not isinstance(member, Array):
            raise WrongNode(f"{self._location.child(name)} is a group, not an array")
        wanted = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        if member.shape != wanted:
            raise WrongNode(f"{member.name} has shape {member.shape}, not {wanted}")
        type_ = data_types.bind(data_types.describe(plain_type(dtype or member.dtype))).dtype
        if member.dtype != type_ and (exact or not np.can_cast(member.dtype, type_)):
            raise WrongNode(f"{member.name} has type {member.dtype}, not {type_}")
        return member

    def __setitem__(self, name: str, value: Any) -> None:
        """Store an array below this group, in place of an existing member.

        Args:
            name: The name or path of the member.
            value: The values.

        Examples:
            >>> g = oz.create_group()
            >>> g["salt"] = [34.5, 35]
            >>> g["salt"][:]
            array([34.5, 35. ])
        """
        self.create_array(name, data=value, overwrite=True)

    def move(self, source: str, dest: str) -> None:
        """Move a member, and all below it, to another path below this group.

        Args:
            source: The name or path of the member.
            dest: Its new name or path.

        Examples:
            >>> g = oz.create_group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> g.move("salt", "day1/salinity")
            >>> list(g["day1"])
            ['salinity']
        """
        move(self._location.child(source), self._location.child(dest))

    def __delitem__(self, name: str) -> None:
        """Erase a member and all below it, as `delete` does.

        Args:
            name: The name or path of the member.

        Raises:
            NodeNotFound: If there is no such member.

        Examples:
            >>> g = oz.create_group()
            >>> g["salt"] = [34.5, 35]
            >>> del g["salt"]
        """
        self.delete(name)

    def delete(self, name: str, *, keep_parent: bool = False, foreign: bool = False) -> None:
        """Erase a member and all below it.

        That is refused if something below is not Zarr.

        Args:
            name: The name or path of the member.
            keep_parent: True to store metadata for the group above if it has none. In the draft,
                such a group would vanish with its last member.
            foreign: True to erase what is not Zarr, too.

        Raises:
            NodeNotFound: If there is no such member.
            StoreError: If something below is not Zarr.

        Examples:
            >>> g = oz.create_group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> g.delete("salt")
            >>> len(g)
            0
        """
        location = self._location.child(name)
        if location.path == self.path or location.find([]) is None:
            raise NodeNotFound(no_member_message(self._location, name))
        if keep_parent:
            parent = location.at(location.path.rpartition("/")[0])
            node = parent.load()
            if isinstance(node, GroupModel) and node.implicit:
                parent.save(None, node.with_(implicit=False))
        delete(location, foreign)

    # Summaries

    def tree(
        self, expand: bool | None = None, level: int | None = None, *, max_nodes: int = 500
    ) -> Tree:
        """Show all nodes below this group: as indented text, in notebooks as a list that folds.

        The output says what is left out.

        Args:
            expand: False to fold all groups, in notebooks.
            level: The depth to show; by default all of it.
            max_nodes: The number of nodes to show.

        Returns:
            An object that shows itself.

        Examples:
            >>> g = oz.create_group()
            >>> a = g.create_array("day1/salt", shape=3, dtype="i2")
            >>> g.tree()
            /
            └── day1
            └── salt (3,) int16 ...
        """
        return tree(self._location, self._model, level, max_nodes, expand is not False)

    @property
    def info(self) -> Info:
        """A summary of the group's metadata; the store is not accessed."""
        place = f"/{self.path} in {self.store!r}"
        info = Info(type=f"group, {title(self._location.format.name)}", path=place)
        info.add_attributes(self._model.attributes)
        return info

    def __repr__(self) -> str:
        return f"<Group {self.name}  {title(self._location.format.name)}  on {self.store!r}>"


def open_node(location: Location, node: Node) -> Array | Group:
    """Return the array or group for a model."""
    return Array.at(location, node) if isinstance(node, ArrayModel) else Group.at(location, node)


def make_group(location: Location, attributes: Mapping[str, Any] | None, overwrite: bool) -> Group:
    """Create a group."""
    model = GroupModel(json_attributes(attributes or {}))
    return Group.at(location, create_node(location, model, overwrite=overwrite))


document_options(ArrayOptions, explained=True)(Group.create_array)
document_options(Member)(Group.require_array)
