"""Groups: the handle of a Zarr group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from omnizarr import data_types
from omnizarr.errors import (
    InvalidArgument,
    NodeExists,
    NodeNotFound,
    Problem,
    WrongNode,
    warn,
    warn_of_problems,
)
from omnizarr.hierarchy import info
from omnizarr.hierarchy.array import Array, options_like
from omnizarr.hierarchy.attributes import json_attributes, lock_nodes
from omnizarr.hierarchy.build import (
    create_node,
    create_nodes,
    lock_replacement,
    make_array,
    move,
)
from omnizarr.hierarchy.consolidated import ConsolidatedMetadata
from omnizarr.hierarchy.info import Info, Tree, tree
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.lookup import (
    check_erasable,
    check_known_absent,
    format_for,
    no_member_message,
    resolve_store_path,
)
from omnizarr.hierarchy.node import NodeHandle, complete_hierarchy, frozen
from omnizarr.hierarchy.options import (
    ZERO,
    ArrayOptions,
    NewOptions,
    document_options,
    plain_type,
)
from omnizarr.hierarchy.selection import S
from omnizarr.model import ArrayModel, GroupModel, Node
from omnizarr.stores import has_low_latency
from omnizarr.stores.staging import settle_replacements, wait_for_replacement


class Group(NodeHandle[GroupModel]):
    """A group of arrays and groups, used like a dictionary; names may be paths.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        path: The path of the group in the store; by default the root.
        read_only: True to refuse all writes through this handle.
        zarr_format: 1, 2, 3, ``"3-draft"`` or ``"n5"`` to open that format; by default it is
            detected.

    Raises:
        NodeNotFound: If there is no such node.
        WrongNode: If there is a node of the other kind.

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
            raise WrongNode(f"{location} is an array, not a group; use open_array")
        self._location = location
        self._model = model

    # Members

    def __getitem__(self, path: str) -> Any:
        """Return the array or group at a path below this group.

        Args:
            path: The name or path of the member.

        Raises:
            NodeNotFound: If there is no such member.

        Examples:
            >>> g = oz.group()
            >>> g["day1/salt"] = np.arange(3)
            >>> g["day1/salt"].shape
            (3,)
        """
        node = self._find(path)
        if node is None and has_low_latency(self.store):  # it may just have been replaced
            wait_for_replacement(self.store)
            node = self._find(path)
        if node is None:
            raise NodeNotFound(no_member_message(self._location, path))
        return open_node(self._location.child(path), node)

    def _find(self, path: str) -> Node | None:
        problems: list[Problem] = []
        node = self._location.child(path).find(problems)
        warn_of_problems(problems)
        return node

    def _member(self, path: str) -> Array | Group | None:
        """Return the member, or None if there is none."""
        node = self._find(path)
        return None if node is None else open_node(self._location.child(path), node)

    def get(self, path: str, default: Any = None) -> Any:
        """Return the member, or `default` if there is none.

        Args:
            path: The name or path of the member.
            default: The result if there is none.

        Examples:
            >>> g = oz.group()
            >>> g.get("salt") is None
            True
        """
        node = self._find(path)
        if node is None:
            check_known_absent(self._location.child(path))
        return default if node is None else open_node(self._location.child(path), node)

    def __contains__(self, path: object) -> bool:
        """Return True if there is an array or group at a path below this group.

        Args:
            path: The name or path of the member.

        Examples:
            >>> "salt" in oz.group()
            False
        """
        if not isinstance(path, str):
            return False
        found = self._find(path) is not None
        if not found:
            check_known_absent(self._location.child(path))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._nodes()))

    def __len__(self) -> int:
        return len(self._nodes())

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def keys(self) -> Iterator[str]:
        """Return an iterator over the names of the members.

        Examples:
            >>> list(oz.group({}).keys())
            []
        """
        return iter(self)

    def values(self) -> Iterator[Array | Group]:
        """Return an iterator over the members.

        Examples:
            >>> g = oz.group()
            >>> a, b = g.create_groups("a", "b")
            >>> sorted(member.name for member in g.values())
            ['/a', '/b']
        """
        return (member for _, member in self.members())

    def items(self) -> Iterator[tuple[str, Array | Group]]:
        """Return an iterator over names and members.

        Examples:
            >>> g = oz.group()
            >>> a, b = g.create_groups("a", "b")
            >>> sorted(name for name, member in g.items())
            ['a', 'b']
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
            >>> g = oz.group()
            >>> a = g.create_array("day1/salt", shape=3, dtype="i2")
            >>> [path for path, node in g.members(max_depth=None)]
            ['day1', 'day1/salt']
        """
        if max_depth is not None and max_depth < 0:
            raise InvalidArgument(f"max_depth must be None or at least 0, got {max_depth}")
        location = self._location
        if not use_consolidated_for_children:
            location = replace(location, consolidated=None)
        return tuple(
            self._members(location if max_depth == 0 else location.with_listing(), max_depth)
        )

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

    def nmembers(self, max_depth: int | None = 0) -> int:
        """Return the number of members.

        Args:
            max_depth: The depth to count to, as in `members`.

        Raises:
            InvalidArgument: If `max_depth` is negative.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("day1/salt", shape=3, dtype="i2")
            >>> g.nmembers(), g.nmembers(max_depth=None)
            (1, 2)
        """
        return len(self) if max_depth == 0 else len(self.members(max_depth))

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Return an iterator over names and arrays among the members.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> [(name, array.shape) for name, array in g.arrays()]
            [('salt', (3,))]
        """
        return ((n, m) for n, m in self.members() if isinstance(m, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Return an iterator over names and groups among the members.

        Examples:
            >>> g = oz.group()
            >>> day = g.create_group("day1")
            >>> [name for name, group in g.groups()]
            ['day1']
        """
        return ((n, m) for n, m in self.members() if isinstance(m, Group))

    def array_keys(self) -> Iterator[str]:
        """Return an iterator over the names of the arrays among the members.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> list(g.array_keys())
            ['salt']
        """
        return (n for n, m in sorted(self._nodes().items()) if isinstance(m, ArrayModel))

    def group_keys(self) -> Iterator[str]:
        """Return an iterator over the names of the groups among the members.

        Examples:
            >>> g = oz.group()
            >>> day = g.create_group("day1")
            >>> list(g.group_keys())
            ['day1']
        """
        return (n for n, m in sorted(self._nodes().items()) if isinstance(m, GroupModel))

    def array_values(self) -> Iterator[Array]:
        """Return an iterator over the arrays among the members.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> [array.shape for array in g.array_values()]
            [(3,)]
        """
        return (array for _, array in self.arrays())

    def group_values(self) -> Iterator[Group]:
        """Return an iterator over the groups among the members.

        Examples:
            >>> g = oz.group()
            >>> day = g.create_group("day1")
            >>> [group.path for group in g.group_values()]
            ['day1']
        """
        return (group for _, group in self.groups())

    def visititems(self, func: Callable[[str, Array | Group], Any]) -> Any:
        """Call `func` with the path and node of all below, until it returns something but None.

        Args:
            func: A function of a path, relative to this group, and a node.

        Returns:
            The first result of `func` that is not None, or None.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("day1/salt", shape=3, dtype="i2")
            >>> g.visititems(lambda path, node: path if node.name.endswith("salt") else None)
            'day1/salt'
        """
        results = (func(path, node) for path, node in self.members(max_depth=None))
        return next((result for result in results if result is not None), None)

    def visitkeys(self, func: Callable[[str], Any]) -> Any:
        """Call `func` as `visititems` does, with paths only.

        Args:
            func: A function of a path, relative to this group.

        Returns:
            The first result of `func` that is not None, or None.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("day1/salt", shape=3, dtype="i2")
            >>> g.visitkeys(print)
            day1
            day1/salt
        """
        return self.visititems(lambda path, node: func(path))

    visit = visitkeys

    def visitvalues(self, func: Callable[[Array | Group], Any]) -> Any:
        """Call `func` as `visititems` does, with nodes only.

        Args:
            func: A function of a node.

        Returns:
            The first result of `func` that is not None, or None.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("day1/salt", shape=3, dtype="i2")
            >>> g.visitvalues(lambda node: getattr(node, "shape", None))
            (3,)
        """
        return self.visititems(lambda path, node: func(node))

    def _nodes(self, location: Location | None = None) -> dict[str, Node]:
        """Return the readable members; warn of those that cannot be read."""
        good: dict[str, Node] = {}
        for name, node in (location or self._location).children().items():
            if isinstance(node, Exception):
                warn(f"{name!r} is left out: {node}")
            else:
                good[name] = node
        return good

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

    @classmethod
    def from_store(
        cls,
        store: Any,
        *,
        attributes: dict[str, Any] | None = None,
        zarr_format: int | str | None = None,
        overwrite: bool = False,
    ) -> Group:
        """Create a group in a store.

        Args:
            store: A path, URL, dict, store or `StorePath`.
            attributes: User attributes of a new node.
            zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
            overwrite: True to replace an existing node.

        Returns:
            The group.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.Group.from_store("run.zarr", attributes={"year": 2026}).attrs["year"]
            2026
        """
        where, path = resolve_store_path(store)
        location = Location(where, path, format_for(where, path, zarr_format))
        return make_group(location, attributes, overwrite)

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

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> oz.group().create_group("day1/morning").name
            '/day1/morning'
        """
        within = None if self._model.implicit else self._location.path or None
        return make_group(self._location.child(name, within), attributes, overwrite)

    def require_group(self, name: str, *, overwrite: bool = False) -> Group:
        """Return the group at a path, created if it does not exist.

        Args:
            name: The name or path of the group, relative to this one.
            overwrite: True to replace an existing node by an empty group.

        Raises:
            WrongNode: If there is an array.
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> g = oz.group()
            >>> g.require_group("day1").path, g.require_group("day1").path
            ('day1', 'day1')
        """
        member = None if overwrite else self._member(name)
        if member is None:
            try:
                return self.create_group(name, overwrite=overwrite)
            except NodeExists:
                member = self._member(name)  # another writer has just created it
                if member is None:
                    raise
        if not isinstance(member, Group):
            raise WrongNode(f"{member.name} is an array, not a group")
        return member

    def create_groups(self, *names: str, overwrite: bool = False) -> tuple[Group, ...]:
        """Create several groups below this one.

        Args:
            *names: The names or paths of the new groups.
            overwrite: True to replace an existing node.

        Returns:
            The groups.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> a, b = oz.group().create_groups("a", "b")
            >>> b.name
            '/b'
        """
        return tuple(self.create_group(name, overwrite=overwrite) for name in names)

    def require_groups(self, *names: str) -> tuple[Group, ...]:
        """Return the groups at several paths, created if they do not exist.

        Args:
            *names: The names or paths of the groups.

        Raises:
            WrongNode: If there is an array.
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> a, b = oz.group().require_groups("a", "b")
            >>> b.name
            '/b'
        """
        return tuple(self.require_group(name) for name in names)

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
            InvalidArgument: If a description is not valid.

        Examples:
            >>> like = oz.zeros((4, 6)).metadata
            >>> [path for path, node in oz.group().create_hierarchy({"day1/salt": like})]
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
        self,
        name: str,
        *,
        shape: int | Iterable[int] | None = None,
        dtype: type[S] | np.dtype[S],
        data: Any = None,
        overwrite: bool = False,
        write_data: bool = True,
        **options: Unpack[ArrayOptions],
    ) -> Array[S]: ...
    @overload
    def create_array(
        self,
        name: str,
        *,
        shape: int | Iterable[int] | None = None,
        dtype: None = None,
        data: npt.NDArray[S],
        overwrite: bool = False,
        write_data: bool = True,
        **options: Unpack[ArrayOptions],
    ) -> Array[S]: ...
    @overload
    def create_array(
        self,
        name: str,
        *,
        shape: int | Iterable[int] | None = None,
        dtype: Any = None,
        data: Any = None,
        overwrite: bool = False,
        write_data: bool = True,
        **options: Unpack[ArrayOptions],
    ) -> Array: ...
    def create_array(
        self,
        name: str,
        *,
        shape: int | Iterable[int] | None = None,
        dtype: Any = None,
        data: Any = None,
        overwrite: bool = False,
        write_data: bool = True,
        **options: Unpack[ArrayOptions],
    ) -> Array:
        """Create an array below this group, as the function `create_array` does.

        Args:
            name: The name or path of the new array, relative to this group.
            shape: The length of every axis; a number for one axis.
            dtype: The type of the elements, as NumPy or Zarr name it.
            data: Values to store; shape and type may then be left out.
            overwrite: True to replace an existing node.
            write_data: False to use only the shape and type of `data`.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.
            ReadOnly: If the node or its store is read-only.
            InvalidArgument: If an option has a value that is not allowed.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("salt", shape=(4, 6), chunks=(2, 3), dtype="f4")
            >>> g["salt"].chunks
            (2, 3)
        """
        within = None if self._model.implicit else self._location.path or None
        location = self._location.child(name, within)
        return make_array(location, shape, dtype, data, overwrite, options, write_data)

    create = array = create_dataset = create_array

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
            WrongType: If the type of an existing array cannot be used.
            InvalidArgument: If an existing array has another shape.
            WrongNode: If there is a group.

        Examples:
            >>> g = oz.group()
            >>> g.require_array("salt", shape=3, dtype="i2")[0] = 5
            >>> int(g.require_array("salt", shape=3, dtype="i2")[0])
            5
        """
        member: Any = self._member(name)
        if member is None:
            try:
                return self.create_array(name, shape=shape, dtype=dtype, **options)
            except NodeExists:
                member = self._member(name)  # another writer has just created it
                if member is None:
                    raise
        check_required(member, shape, dtype, exact)
        found: Array = member
        return found

    require_dataset = require_array

    def empty(self, name: str, shape: int | Iterable[int], **options: Any) -> Array:
        """Create an array of arbitrary values; they are the default fill value.

        Args:
            name: The name or path of the new array, relative to this group.
            shape: The length of every axis; a number for one axis.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().empty("salt", (4, 6)).shape
            (4, 6)
        """
        return self.create_array(name, shape=shape, **options)

    def zeros(self, name: str, shape: int | Iterable[int], **options: Any) -> Array:
        """Create an array of zeros.

        Args:
            name: The name or path of the new array, relative to this group.
            shape: The length of every axis; a number for one axis.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().zeros("salt", 3)[...]
            array([0., 0., 0.])
        """
        return self.full(name, shape, **{"fill_value": ZERO, **options})

    def ones(self, name: str, shape: int | Iterable[int], **options: Any) -> Array:
        """Create an array of ones.

        Args:
            name: The name or path of the new array, relative to this group.
            shape: The length of every axis; a number for one axis.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().ones("salt", 3)[...]
            array([1., 1., 1.])
        """
        return self.full(name, shape, 1, **options)

    def full(self, name: str, shape: int | Iterable[int], fill_value: Any, **options: Any) -> Array:
        """Create an array of one value.

        Args:
            name: The name or path of the new array, relative to this group.
            shape: The length of every axis; a number for one axis.
            fill_value: The value of all elements.
            **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().full("salt", 3, 35)[...]
            array([35., 35., 35.])
        """
        return self.create_array(name, shape=shape, fill_value=fill_value, **options)

    def empty_like(self, name: str, data: Any, **options: Any) -> Array:
        """Create an array like `data`, of arbitrary values.

        Args:
            name: The name or path of the new array, relative to this group.
            data: An array of this library, of NumPy or of another library.
            **options: Options of `create_array` that differ.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().empty_like("salt", np.ones((4, 6))).shape
            (4, 6)
        """
        found = options_like(data, {"zarr_format": self.zarr_format, **options})
        found.pop("zarr_format")
        return self.create_array(name, **found)

    def zeros_like(self, name: str, data: Any, **options: Any) -> Array:
        """Create an array of zeros like `data`.

        Args:
            name: The name or path of the new array, relative to this group.
            data: An array of this library, of NumPy or of another library.
            **options: Options of `create_array` that differ.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().zeros_like("salt", np.ones(3))[...]
            array([0., 0., 0.])
        """
        return self.empty_like(name, data, **{"fill_value": ZERO, **options})

    def ones_like(self, name: str, data: Any, **options: Any) -> Array:
        """Create an array of ones like `data`.

        Args:
            name: The name or path of the new array, relative to this group.
            data: An array of this library, of NumPy or of another library.
            **options: Options of `create_array` that differ.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().ones_like("salt", np.zeros(3))[...]
            array([1., 1., 1.])
        """
        return self.empty_like(name, data, **{"fill_value": 1, **options})

    def full_like(self, name: str, data: Any, fill_value: Any = None, **options: Any) -> Array:
        """Create an array of one value like `data`; by default that of its own fill value.

        Args:
            name: The name or path of the new array, relative to this group.
            data: An array of this library, of NumPy or of another library.
            fill_value: The value of all elements; by default the fill value of `data`.
            **options: Options of `create_array` that differ.

        Returns:
            The array.

        Raises:
            NodeExists: If there is a node at the path, and it may not be replaced.

        Examples:
            >>> oz.group().full_like("salt", np.zeros(3), 35)[...]
            array([35., 35., 35.])
        """
        value = data.fill_value if fill_value is None else fill_value
        return self.empty_like(name, data, **{"fill_value": value, **options})

    def __setitem__(self, name: str, value: Any) -> None:
        """Store an array below this group, in place of an existing member.

        Args:
            name: The name or path of the member.
            value: The values.

        Raises:
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> g = oz.group()
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

        Raises:
            NodeNotFound: If there is no such member.
            NodeExists: If there is a node at the new path.
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> g = oz.group()
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
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> g = oz.group()
            >>> g["salt"] = [34.5, 35]
            >>> del g["salt"]
            >>> len(g)
            0
        """
        self.delete(name)

    def get_array(self, path: str) -> Array:
        """Return the array at a path below this group.

        Args:
            path: The name or path of the array.

        Raises:
            NodeNotFound: If there is no such member.
            WrongNode: If it is a group.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> g.get_array("salt").shape
            (3,)
        """
        found = self[path]
        if not isinstance(found, Array):
            raise WrongNode(f"{found.name} in {self.store!r} is a group, not an array")
        return found

    def get_group(self, path: str) -> Group:
        """Return the group at a path below this one.

        Args:
            path: The name or path of the group.

        Raises:
            NodeNotFound: If there is no such member.
            WrongNode: If it is an array.

        Examples:
            >>> g = oz.group()
            >>> day = g.create_group("day1")
            >>> g.get_group("day1").name
            '/day1'
        """
        found = self[path]
        if not isinstance(found, Group):
            raise WrongNode(f"{found.name} in {self.store!r} is an array, not a group")
        return found

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
            ReadOnly: If the node or its store is read-only.

        Examples:
            >>> g = oz.group()
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
        with lock_replacement(location.store), lock_nodes(location):
            settle_replacements(location.store, location.path)  # else it would come back
            if location.find([]) is None:
                raise NodeNotFound(f"{location} was just deleted or moved by another writer")
            location.check_writable()
            if not foreign:
                check_erasable(location.store, location.path, location.format)
            location.erase()

    # Summaries

    def tree(
        self,
        expand: bool | None = None,
        level: int | None = None,
        *,
        max_nodes: int = 500,
        plain: bool = False,
    ) -> Tree:
        """Show all nodes below this group: as indented text, in notebooks as a list that folds.

        The output says what is left out.

        Args:
            expand: False to fold all groups, in notebooks.
            level: The depth to show; by default all of it.
            max_nodes: The number of nodes to show.
            plain: Not used; the text is always plain.

        Returns:
            An object that shows itself.

        Examples:
            >>> g = oz.group()
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
        return info.group_info(self._model, self._location)

    def info_complete(self) -> Info:
        """Return the summary with the number of members, which are listed.

        Examples:
            >>> g = oz.group()
            >>> a = g.create_array("salt", shape=3, dtype="i2")
            >>> "1 array" in str(g.info_complete())
            True
        """
        found = self.info
        found.add(info.members_info(self._location))
        return found

    def __repr__(self) -> str:
        return info.group_line(self._location)


def open_node(location: Location, node: Node) -> Array | Group:
    """Return the array or group for a model."""
    return Array.at(location, node) if isinstance(node, ArrayModel) else Group.at(location, node)


def make_group(location: Location, attributes: Mapping[str, Any] | None, overwrite: bool) -> Group:
    """Create a group."""
    model = GroupModel(json_attributes(attributes or {}))
    return Group.at(location, create_node(location, model, overwrite=overwrite))


document_options(ArrayOptions, explained=True)(Group.create_array)
for _method in (
    *(Group.require_array, Group.empty, Group.zeros, Group.ones, Group.full),
    *(Group.empty_like, Group.zeros_like, Group.ones_like, Group.full_like),
):
    document_options(NewOptions)(_method)


def check_required(node: Any, shape: int | Iterable[int], dtype: Any, exact: bool) -> None:
    """Raise if a node is not an array of that shape and type."""
    if not isinstance(node, Array):
        raise WrongNode(f"{node.name} is a group, not an array")
    wanted = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if node.shape != wanted:
        raise WrongNode(f"{node.name} has shape {node.shape}, not {wanted}")
    if dtype is None:
        return
    type_ = data_types.bind(data_types.describe(plain_type(dtype))).dtype
    if node.dtype != type_ and (exact or not np.can_cast(node.dtype, type_)):
        raise WrongNode(f"{node.name} has type {node.dtype}, not {type_}")
