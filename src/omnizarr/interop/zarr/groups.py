"""Groups as zarr-python has them, read and written by omnizarr."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import numpy as np

from omnizarr import Array, Group, aio
from omnizarr.errors import InvalidArgument, NodeNotFound, WrongNode
from omnizarr.extension import ArrayModel, GroupModel
from omnizarr.interop.zarr import library, nodes, stores
from omnizarr.interop.zarr.library import translate_methods, translated, warn
from omnizarr.interop.zarr.nodes import facade, later


def _creator(function: str, what: str) -> Any:
    """Return a method that creates an array in the group with a function of `creation`."""

    def create(self: Any, name: str, *args: Any, **options: Any) -> Any:
        self._check_format(options.get("zarr_format"))
        given = {"zarr_format": self.zarr_format, **options}
        if "data" in given:
            args = (given.pop("data"), *args)
        return later(f"creation:{function}")(*args, store=self.store_path, path=name, **given)

    create.__doc__ = f"Create an array {what}; options are those of `zarr.{function}`."
    return create


class ZarrGroup(nodes.ZarrNode, Group):
    """A group of arrays and groups, with the interface of zarr-python's."""

    def __init__(self, _async_group: Any, *args: Any, **options: Any) -> None:
        """Take over an `AsyncGroup`, or open the group at a store and path."""
        blocking = getattr(_async_group, "blocking", None)
        if blocking is None and hasattr(_async_group, "store_path"):  # of zarr-python itself
            blocking = ZarrGroup.described(_async_group.metadata, _async_group.store_path)
        if blocking is None:
            Group.__init__(self, _async_group, *args, **options)
        else:
            vars(self).update(vars(blocking))

    @property
    def _async_group(self) -> Any:
        """The group with awaitable methods."""
        found = vars(self).get("_async")
        if found is None:
            found = self._async = later("asynchronous:ZarrAsyncGroup")(blocking=self)
        return found

    @translated()
    def __getitem__(self, path: str) -> Any:
        return facade(super().__getitem__(path), self._given)

    @translated()
    def get(self, path: str, default: Any = None) -> Any:
        """Return the member, or `default` if there is none."""
        return facade(super().get(path, default), self._given)

    def _member(self, path: str) -> Any:
        return facade(super()._member(path), self._given)

    def _members(self, location: Any, max_depth: int | None) -> Iterator[tuple[str, Any]]:
        for name, member in super()._members(location, max_depth):
            yield name, facade(member, self._given)

    @translated()
    def members(
        self, max_depth: int | None = 0, *, use_consolidated_for_children: bool = True
    ) -> tuple[tuple[str, Any], ...]:
        """Return members by relative path: direct ones, or down to a depth, None for all."""
        found = super().members(
            max_depth, use_consolidated_for_children=use_consolidated_for_children
        )
        return tuple(sorted(found, key=lambda member: member[0].count("/")))  # level by level

    def nmembers(self, max_depth: int | None = 0) -> int:
        """Return the number of members down to a depth."""
        return len(self) if max_depth == 0 else len(self.members(max_depth))

    def array_keys(self) -> Iterator[str]:
        """Return an iterator over the names of the arrays among the members."""
        return (n for n, m in sorted(self._nodes().items()) if isinstance(m, ArrayModel))

    def group_keys(self) -> Iterator[str]:
        """Return an iterator over the names of the groups among the members."""
        return (n for n, m in sorted(self._nodes().items()) if isinstance(m, GroupModel))

    def array_values(self) -> Iterator[Array]:
        """Return an iterator over the arrays among the members."""
        return (array for _, array in self.arrays())

    def group_values(self) -> Iterator[Group]:
        """Return an iterator over the groups among the members."""
        return (group for _, group in self.groups())

    @translated("array")
    def get_array(self, path: str) -> Any:
        """Return the array at a path below this group; raise if there is none, or a group."""
        return self._required(path, "array")

    @translated("group")
    def get_group(self, path: str) -> Any:
        """Return the group at a path below this one; raise if there is none, or an array."""
        return self._required(path, "group")

    def _required(self, path: str, kind: str) -> Any:
        found = self._member(path)
        if found is None:
            raise NodeNotFound(f"there is no {kind} at {path!r} below {self.store_path}")
        if isinstance(found, Group) is not (kind == "group"):
            raise WrongNode(f"{path!r} below {self.store_path} is not the {kind} that was expected")
        return found

    @classmethod
    def from_store(cls, store: Any, *, zarr_format: Any = 3, **options: Any) -> Self:
        """Create a group in a store, with the options of `zarr.create_group`."""
        made: Self = later("creation:create_group")(store, zarr_format=zarr_format, **options)
        return made

    @classmethod
    def open(cls, store: Any, zarr_format: Any = 3) -> Self:
        """Open the group at a store or store path."""
        found: Self = later("opening:open_existing_group")(store, zarr_format=zarr_format)
        return found

    @translated("group")
    def create_group(
        self, name: str, *, attributes: dict[str, Any] | None = None, overwrite: bool = False
    ) -> Any:
        """Create a group below this one."""
        named = nodes.with_text_keys(attributes)
        made = super().create_group(name, attributes=named, overwrite=overwrite)
        return facade(made, self._given)

    @translated("group")
    def require_group(self, name: str, *, overwrite: bool = False) -> Any:
        """Return the group at a path, created if it does not exist."""
        try:
            return facade(super().require_group(name, overwrite=overwrite), self._given)
        except WrongNode as e:
            raise TypeError(f"Incompatible object (Array) already exists: {e}") from e

    def create_groups(self, *names: str, overwrite: bool = False) -> tuple[Any, ...]:
        """Create several groups below this one."""
        return tuple(self.create_group(name, overwrite=overwrite) for name in names)

    def require_groups(self, *names: str) -> tuple[Any, ...]:
        """Return the groups at several paths, created if they do not exist."""
        return tuple(self.require_group(name) for name in names)

    def create_array(self, name: str, **options: Any) -> Any:
        """Create an array below this group, with the options of `zarr.create_array`."""
        options.pop("storage_options", None)
        parse = library.original("zarr.core.array", "_parse_deprecated_compressor")
        options["compressors"] = parse(
            options.pop("compressor", "auto"),
            options.get("compressors", "auto"),
            zarr_format=self.zarr_format,
        )
        self._check_format(options.pop("zarr_format", None))
        target = stores.ZarrTarget(self._location.store, self.path, self.store).below(name)
        return later("creation:create_array_at")(target, zarr_format=self.zarr_format, **options)

    create = create_array

    def create_dataset(self, name: str, **options: Any) -> Any:
        """Create an array, and store `data` in it; deprecated in zarr-python."""
        warn("Use Group.create_array instead.", "ZarrDeprecationWarning")
        data = options.pop("data", None)
        if data is not None:
            values = np.asanyarray(data) if not hasattr(data, "dtype") else data
            options = {"shape": values.shape, "dtype": values.dtype, **options}
        made = self.create_array(name, **{"dtype": "f8", **options})
        if data is not None:
            made[...] = data
        return made

    array = create_dataset

    def require_array(self, name: str, *, shape: Any, **options: Any) -> Any:
        """Return the array at a path, created if it does not exist."""
        found = self._member(name)
        if found is None:
            options.pop("exact", None)
            return self.create_array(name, shape=shape, **options)
        with translated("array"):
            try:
                exact = bool(options.get("exact"))
                super().require_array(name, shape=shape, dtype=options.get("dtype"), exact=exact)
            except WrongNode as e:
                raise TypeError(f"Incompatible {_mismatch(found, shape)}: {e}") from e
        if options.get("config") is not None:
            found._use(library.array_config(options["config"]))
        return found

    def require_dataset(self, name: str, *, shape: Any, **options: Any) -> Any:
        """Return the array at a path, created if it does not exist; deprecated in zarr-python."""
        warn("Use Group.require_array instead.", "ZarrDeprecationWarning")
        return self.require_array(name, shape=shape, **options)

    def _check_format(self, wanted: Any) -> None:
        if wanted not in (None, self.zarr_format):
            raise InvalidArgument(
                f"cannot create a zarr_format={wanted} array in a zarr_format={self.zarr_format}"
                " group; leave zarr_format out"
            )

    empty = _creator("empty", "of arbitrary values, which are the fill value")
    zeros = _creator("zeros", "of zeros")
    ones = _creator("ones", "of ones")
    full = _creator("full", "of one value")
    empty_like = _creator("empty_like", "like another, of arbitrary values")
    zeros_like = _creator("zeros_like", "of zeros like another")
    ones_like = _creator("ones_like", "of ones like another")
    full_like = _creator("full_like", "of one value like another")

    def create_hierarchy(self, nodes: Any, *, overwrite: bool = False) -> Iterator[Any]:
        """Create arrays and groups below this one by path, parents first."""
        with translated():
            for name, node in super().create_hierarchy(nodes, overwrite=overwrite):
                yield name, facade(node, self._given)

    @translated()
    def __setitem__(self, name: str, value: Any) -> None:
        self.create_array(name, data=value, overwrite=True)

    @translated()
    def __delitem__(self, name: str) -> None:
        """Erase a member and all files below it; as in zarr-python, it may be missing."""
        with suppress(NodeNotFound):
            self.delete(name, foreign=True)

    async def update_attributes_async(self, new_attributes: Any) -> Self:
        """Replace all attributes, as zarr-python does here, and return this group."""
        await aio.run(self.attrs.put, new_attributes)
        return self

    def tree(
        self,
        expand: bool | None = None,
        level: int | None = None,
        *,
        max_nodes: int = 500,
        plain: bool = False,
    ) -> Any:
        """Show all nodes below this group as indented text, down to a level."""
        if expand is not None:
            raise NotImplementedError("tree has no 'expand' here; leave it out, or give a level")
        show = library.module("zarr.core._tree").group_tree_async
        more: dict[str, Any] = {"max_nodes": max_nodes, "plain": plain}
        if "max_nodes" not in inspect.signature(show).parameters:  # before zarr-python 3.2
            more = {}
        return library.sync(show(self._async_group, max_depth=level, **more))

    @property
    def synchronizer(self) -> None:
        """None: writers lock what they share."""
        return None

    @property
    def info(self) -> Any:
        """A summary of the group's metadata, and of its consolidated metadata if there are any."""
        found = nodes.consolidated_nodes(self._location)
        if found is None:
            return self._info(None)
        return self._info([isinstance(node, GroupModel) for node in found.values()])

    def info_complete(self) -> Any:
        """Return the summary with the number of members, which are listed."""
        every = self.members(max_depth=None)
        return self._info([isinstance(member, Group) for _, member in every])

    def _info(self, groups: list[bool] | None) -> Any:
        """Return the summary; `groups` tells for each member whether it is a group."""
        numbers = () if groups is None else (len(groups), len(groups) - sum(groups), sum(groups))
        counted = zip(("_count_members", "_count_arrays", "_count_groups"), numbers, strict=False)
        return library.module("zarr.core._info").GroupInfo(
            _name=self.path,
            _read_only=self.read_only,
            _store_type=type(self.store).__name__,
            _zarr_format=self.zarr_format,
            **dict(counted),
        )

    def __repr__(self) -> str:
        return f"<Group {self.store_path}>"


ZarrGroup.__name__ = "Group"  # as programs for zarr-python read it
translate_methods(ZarrGroup, ("__contains__", "_nodes", "delete", "move", "refresh"))


def _mismatch(node: Any, shape: Any) -> str:
    """Return the word for the mismatch of a required array: object, dtype or shape."""
    if isinstance(node, Group):
        return "object"
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    return "dtype" if node.shape == wanted else "shape"
