"""Open arrays and groups, and consolidate the metadata of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal, Unpack, overload

import numpy as np

from omnizarr._json import load_object
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.engine import Missing, check_missing
from omnizarr.errors import InvalidArgument, NodeExists, WrongType, known_names
from omnizarr.formats import consolidated
from omnizarr.formats.format import cannot
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.build import make_array
from omnizarr.hierarchy.consolidated import collect, lock_consolidated, mark_changed
from omnizarr.hierarchy.group import Group, make_group
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.lookup import Mode, find_node, format_for, resolve_store_path
from omnizarr.hierarchy.options import (
    OfGroup,
    OpenOptions,
    OpenRest,
    check_options,
    document_options,
)
from omnizarr.hierarchy.selection import ArrayConfig, S
from omnizarr.model import paths
from omnizarr.publish.publication import lock_replacement, replacing_stage, settle_replacements
from omnizarr.stores import Store, update_value

_NEW = ("shape", "dtype", "data")  # any of them describes a new array
_NOTHING_NEW: dict[str, Any] = dict.fromkeys(_NEW)


@overload
def open(
    store: Any,
    mode: Literal["w", "w-"],
    *,
    kind: Literal["array"] | None = None,
    shape: int | Iterable[int],
    dtype: type[S] | np.dtype[S],
    **options: Unpack[OpenRest],
) -> Array[S]: ...
@overload
def open(
    store: Any = None,
    mode: Mode | None = None,
    *,
    kind: Literal["array"],
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    **options: Unpack[OpenRest],
) -> Array: ...
@overload
def open(
    store: Any = ..., mode: Mode | None = ..., *, kind: Literal["group"], **options: Unpack[OfGroup]
) -> Group: ...
@overload
def open(store: Any, mode: Literal["w", "w-"], **options: Unpack[OfGroup]) -> Group: ...
@overload
def open(
    store: Any = None,
    mode: Mode | None = None,
    *,
    kind: None = None,
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    **options: Unpack[OpenRest],
) -> Any: ...
@document_options(OpenOptions, returns="Array | Group")
def open(
    store: Any = None,
    mode: Mode | None = None,
    *,
    kind: Literal["array", "group"] | None = None,
    path: str | None = None,
    zarr_format: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    use_consolidated: bool | str | None = None,
    missing: Missing = "fill",
    **options: Unpack[OpenOptions],
) -> Any:
    """Open the array or group at a path, in any format; by default read-only.

    Mode ``r`` (the default) reads, ``r+`` also writes; neither creates anything. ``a`` opens or
    creates, ``w`` replaces an existing node, ``w-`` fails if one exists: with a shape or data they
    create an array, else a group. Without a mode, a shape or data mean ``a``.

    `use_consolidated`: True takes the nodes below a group from its consolidated metadata, without
    further requests, and fails if there are none; a string is their key if it is not
    ``.zmetadata`` (version 2). When the values of an array are first used, its own metadata are
    compared. False ignores consolidated metadata. None uses them only to list the members of a
    group where the store cannot.

    For type checkers, `kind` decides the type of the result, and in modes ``w`` and ``w-`` a
    `shape` does. Otherwise the type is known only at run time.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"r"`` to read (the default), ``"r+"`` to read and write, ``"a"`` to open or create,
            ``"w"`` to replace, ``"w-"`` to create only.
        kind: ``"array"`` or ``"group"`` to open nothing else; where a path has metadata of both,
            ``"group"`` opens the group.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default the format is detected.
        storage_options: Options for the store of a URL, such as credentials.
        use_consolidated: True, False, None or a key, as above.
        missing: The treatment of missing chunks when values are read: ``"fill"``, ``"warn"`` or
            ``"raise"``; see `Array.read`.
        **options: Options of `create_array`, for the modes that create. Of these, `config` applies
            to existing arrays, too, and ``chunk_key_encoding="/"`` or ``"."`` is used if version 2
            metadata do not state it, for data that were written through a nested store.

    Returns:
        An `Array` or a `Group`.

    Raises:
        NodeNotFound: If there is no such node.
        NodeExists: If there is a node and the mode is ``w-``.
        WrongNode: If there is a node of the other kind.
        InvalidMetadata: If the stored metadata are not valid.
        InvalidArgument: If `kind` is not one of these.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(6).reshape(2, 3))
        >>> oz.open("ocean.zarr")[0]
        array([0, 1, 2])
        >>> g = oz.open("run.zarr", "w", attributes={"year": 2026})
        >>> g.create_array("a", shape=3, dtype="i2").name
        '/a'
    """
    if missing != "fill":
        check_missing(missing)
    given = {k: options.get(k) for k in _NEW} if options else _NOTHING_NEW
    rest: Any = {k: v for k, v in options.items() if k not in _NEW} if options else options
    if kind is not None and kind not in ("array", "group"):
        raise InvalidArgument(f"kind must be 'array' or 'group', got {kind!r}")
    if kind == "group":
        _check_group_options(options)
    elif rest:
        check_options(rest)
    if mode is None:
        new = store is None or given["shape"] is not None or given["data"] is not None
        mode = "a" if new else "r"
    resolved, node_path = resolve_store_path(store, path, mode, storage_options)
    if mode == "r" or _should_open(resolved, node_path, mode):
        encoding = rest.get("chunk_key_encoding") if rest else None
        location, node = find_node(
            resolved,
            node_path,
            zarr_format=zarr_format,
            read_only=mode == "r",
            use_consolidated=use_consolidated,
            separator=encoding if encoding in ("/", ".") else None,
            missing=missing,
            prefer_group=kind == "group",
        )
        chosen: type[Array | Group] = Array if (kind or node.kind) == "array" else Group
        found = chosen.at(location, node)
        if rest and isinstance(found, Array) and rest.get("config") is not None:
            found._configure(ArrayConfig.of(rest["config"]))
        return found
    wanted = format_for(resolved, node_path, zarr_format)
    location = Location(resolved, node_path, wanted, missing=missing)
    is_array = kind == "array" or any(given[name] is not None for name in _NEW)
    try:
        if is_array:
            return make_array(location, **given, overwrite=mode == "w", options=rest)
        _check_group_options(rest)
        return make_group(location, rest.get("attributes"), mode == "w")
    except NodeExists:
        if mode != "a":
            raise
    # Another writer has just created it.
    again: Any = {"kind": "array" if is_array else "group", "path": node_path, "missing": missing}
    return open(resolved, "r+", **again, **(rest if is_array else {}))


def consolidate_metadata(
    store: Any,
    path: str | None = None,
    zarr_format: int | str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Store the metadata of all nodes below a group in the group, and return the group.

    This library updates them whenever it changes a node below the group.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        path: The path of the group in the store; by default the root.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default the format is detected.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The group.

    Raises:
        NodeNotFound: If there is no such node.
        ReadOnly: If the node or its store is read-only.
        CannotExpress: If the format has no consolidated metadata.

    Examples:
        >>> oz.save("run.zarr", a=np.arange(3), b=np.arange(4))
        >>> sorted(oz.consolidate_metadata("run.zarr").consolidated)
        ['a', 'b']
    """
    resolved, node_path = resolve_store_path(store, path, storage_options=storage_options)
    location, node = find_node(resolved, node_path, zarr_format=zarr_format)
    group = Group.at(location, node)
    location.check_writable()
    if replacing_stage(resolved, node_path) is not None:
        with lock_replacement(resolved):
            settle_replacements(resolved, node_path)
    key = consolidated.key(location.format, location.path)
    if key is None:
        raise cannot(location.format.name, "consolidated metadata")

    def attempt() -> None:  # until no node has changed meanwhile; who does it later updates them
        if update_value(resolved, key, partial(collect, location, key)):
            raise Overtaken(str(location))  # unless they are the same when read again

    with lock_consolidated(resolved, location.format, key, location.path):
        retry_conflicts(attempt, " while its consolidated metadata was stored; try again")
    mark_changed()
    group.refresh()
    return group


def consolidated_is_stale(store: Any) -> bool:
    """Return True if the root has consolidated metadata that differ from the nodes' own."""
    location, _ = find_node(*resolve_store_path(store, None))
    key = consolidated.key(location.format, location.path)
    data = location.store.get(key) if key else None
    if key is None or data is None or consolidated.read_valid(location.format, data, key) is None:
        return False
    now = collect(location, key, data)
    if now is None or now is data:
        return False
    return load_object(now, key, allow_nan=True) != load_object(data, key, allow_nan=True)


def load(
    store: Any,
    path: str | None = None,
    zarr_format: int | str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Return an array in memory, or for a group a dictionary of the arrays directly in it.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default the format is detected.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        A NumPy array, or a dictionary of them by name.

    Raises:
        NodeNotFound: If there is no such node.
        ChunkError: If a chunk cannot be read or decoded.

    Examples:
        >>> oz.save("run.zarr", a=np.arange(3), b=np.ones(2))
        >>> oz.load("run.zarr")["a"]
        array([0, 1, 2])
    """
    node = open(store, path=path, zarr_format=zarr_format, storage_options=storage_options)
    if isinstance(node, Array):
        return node[...]
    return {name: array[...] for name, array in node.arrays()}


def _check_group_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name != "attributes":
            known = (*OfGroup.__annotations__, "mode", "kind")
            raise WrongType(f"unknown option {name!r} of a group; {known_names(name, known)}")


def _should_open(store: Store, path: str, mode: str) -> bool:
    """Return True if a mode opens an existing node; raise if it must not exist."""
    if mode in ("r", "r+"):
        return True
    exists = existing_node(store, path) is not None
    if mode == "w-" and exists:
        raise NodeExists(
            f"there is already a node at {paths.place(path, store)}; mode 'a' opens it, 'w'"
            " replaces it"
        )
    return mode == "a" and exists
