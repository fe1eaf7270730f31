"""Open arrays and groups, and consolidate the metadata of a group.

Options are those of `create_array`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any, Literal, Unpack, overload

import numpy as np

from omnizarr._json import load_object
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.engine import Missing, check_missing
from omnizarr.errors import (
    InvalidArgument,
    InvalidMetadata,
    NodeExists,
    NodeNotFound,
    WrongType,
    known_names,
)
from omnizarr.formats import consolidated
from omnizarr.formats.format import cannot
from omnizarr.hierarchy.array import Array, options_like
from omnizarr.hierarchy.build import lock_replacement, make_array
from omnizarr.hierarchy.consolidated import lock_consolidated, mark_changed
from omnizarr.hierarchy.group import Group, make_group, open_node
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.lookup import Mode, find_node, format_for, resolve_store_path
from omnizarr.hierarchy.options import (
    ArrayOptions,
    CreateOptions,
    OpenOptions,
    check_options,
    check_separator,
    document_options,
    runtime_config,
)
from omnizarr.hierarchy.selection import S
from omnizarr.model import GroupModel, paths
from omnizarr.stores import Store, get_existing, update_value
from omnizarr.stores.staging import replaced, settle_replacements

BATCH = 1000  # nodes whose metadata are fetched at once


@overload
def open(
    store: Any,
    mode: Literal["w", "w-"],
    *,
    shape: int | Iterable[int],
    dtype: type[S] | np.dtype[S],
    data: Any = None,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    missing: Missing = "fill",
    **options: Unpack[ArrayOptions],
) -> Array[S]: ...
@overload
def open(
    store: Any,
    mode: Literal["w", "w-"],
    *,
    shape: int | Iterable[int],
    dtype: Any = None,
    data: Any = None,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    missing: Missing = "fill",
    **options: Unpack[ArrayOptions],
) -> Array: ...
@overload
def open(
    store: Any,
    mode: Literal["w", "w-"],
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    missing: Missing = "fill",
    attributes: Mapping[str, Any] | None = None,
) -> Group: ...
@overload
def open(
    store: Any = None,
    mode: Mode | None = None,
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    use_consolidated: bool | str | None = None,
    missing: Missing = "fill",
    **options: Unpack[OpenOptions],
) -> Any: ...
@document_options(OpenOptions, returns="Array | Group")
def open(
    store: Any = None,
    mode: Mode | None = None,
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    use_consolidated: bool | str | None = None,
    missing: Missing = "fill",
    **options: Unpack[OpenOptions],
) -> Any:
    """Open the array or group at a path, in any format; read-only unless a mode is given.

    Mode ``r`` (the default) reads, ``r+`` also writes; neither creates anything. ``a`` opens or
    creates, ``w`` replaces an existing node, ``w-`` fails if one exists: with a shape or data they
    create an array as `open_array` does, else a group.

    For type checkers, modes ``w`` and ``w-`` return an array with a `shape`, else a group. In other
    modes the type is known only at run time; a program with type checks declares it, ``a: Array =
    open(…)``, or uses `open_array` or `open_group`.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"r"`` to read (the default), ``"r+"`` to read and write, ``"a"`` to open or create,
            ``"w"`` to replace, ``"w-"`` to create only.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3, ``"3-draft"`` or ``"n5"`` to open that format; by default it is
            detected.
        zarr_version: Another name for `zarr_format`.
        storage_options: Options for the store of a URL, such as credentials.
        use_consolidated: True to read the nodes below from consolidated metadata, as in
            `open_group`.
        missing: The treatment of missing chunks when values are read: ``"fill"``, ``"warn"`` or
            ``"raise"``; see `Array.read`.
        **options: Options of `create_array`, for the modes that create.

    Returns:
        An `Array` or a `Group`.

    Raises:
        NodeNotFound: If there is no such node.
        NodeExists: If there is a node and the mode is ``w-``.
        InvalidMetadata: If the stored metadata are not valid.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(6).reshape(2, 3))
        >>> oz.open("ocean.zarr")[0]
        array([0, 1, 2])
    """
    check_missing(missing)
    if options:
        check_options({k: v for k, v in options.items() if k not in ("shape", "dtype", "data")})
    if mode is None:
        mode = _default_mode(store, options)
    if zarr_version is not None:
        zarr_format = one_format(zarr_format, zarr_version)
    resolved, node_path = resolve_store_path(store, path, mode, storage_options)
    if mode == "r" or _should_open(resolved, node_path, mode):
        location, node = find_node(
            resolved,
            node_path,
            zarr_format=zarr_format,
            read_only=mode == "r",
            use_consolidated=use_consolidated,
            missing=missing,
        )
        found = open_node(location, node)
        return _configured(found, options) if options else found
    given: Any = {"path": node_path, "zarr_format": zarr_format, "missing": missing, **options}
    if any(options.get(name) is not None for name in ("shape", "data", "dtype")):
        return open_array(resolved, mode, **given)
    return open_group(resolved, mode, **given)


@document_options(ArrayOptions, explained=True)
def open_array(
    store: Any = None,
    mode: Mode | None = None,
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    data: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    missing: Missing = "fill",
    **options: Unpack[ArrayOptions],
) -> Array:
    """Open the array at a path; modes ``a``, ``w`` and ``w-`` create it from the other options.

    ``a`` opens or creates, ``w`` replaces an existing node, ``w-`` fails if one exists. Without a
    mode the array is opened read-only, or, if a shape or data are given, as with ``a``. One of the
    options applies to existing arrays: `dimension_separator` is used if version 2 metadata do not
    state it, for data that were written through a nested store.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"r"`` to read (the default), ``"r+"`` to read and write, ``"a"`` to open or create,
            ``"w"`` to replace, ``"w-"`` to create only.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3, ``"3-draft"`` or ``"n5"`` to open that format; by default it is
            detected.
        zarr_version: Another name for `zarr_format`.
        shape: The length of every axis; a number for one axis.
        dtype: The type of the elements, as NumPy or Zarr name it.
        data: Values to store; shape and type may then be left out.
        storage_options: Options for the store of a URL, such as credentials.
        missing: The treatment of missing chunks when values are read: ``"fill"``, ``"warn"`` or
            ``"raise"``; see `Array.read`.
        **options: Options of `create_array`, for the modes that create.

    Returns:
        The array.

    Raises:
        NodeNotFound: If there is no such node.
        NodeExists: If there is a node at the path, and it may not be replaced.
        WrongNode: If there is a node of the other kind.
        InvalidMetadata: If the stored metadata are not valid.

    Examples:
        >>> a = oz.open_array("ocean.zarr", "w", shape=(4, 6), chunks=(2, 3), dtype="f4")
        >>> a[0] = 1
        >>> oz.open_array("ocean.zarr")[:2, 0]
        array([1., 0.], dtype=float32)
    """
    check_missing(missing)
    if mode is None:
        mode = _default_mode(store, {"shape": shape, "data": data})
    if zarr_version is not None:
        zarr_format = one_format(zarr_format, zarr_version)
    resolved, node_path = resolve_store_path(store, path, mode, storage_options)
    if mode == "r" or _should_open(resolved, node_path, mode):
        check_options(options)
        location, node = find_node(
            resolved,
            node_path,
            zarr_format=zarr_format,
            read_only=mode == "r",
            separator=check_separator(options.get("dimension_separator")),
            missing=missing,
        )
        array = Array.at(location, node)
        array._configure(runtime_config(options))
        return array
    location = Location(
        resolved, node_path, format_for(resolved, node_path, zarr_format), missing=missing
    )
    try:
        return make_array(location, shape, dtype, data, mode == "w", options)
    except NodeExists:
        if mode != "a":
            raise
    # Another writer has just created it.
    return open_array(resolved, "r+", path=node_path, missing=missing, **options)


def open_group(
    store: Any = None,
    mode: Mode | None = None,
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    attributes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    use_consolidated: bool | str | None = None,
    missing: Missing = "fill",
    **unused: Any,
) -> Group:
    """Open the group at a path, read-only without a mode; modes are as in `open_array`.

    `use_consolidated`: True takes the nodes below from the group's consolidated metadata, without
    further requests, and fails if there are none; a string is another key for them than
    ``.zmetadata`` (version 2). Those of an array are compared with its own metadata when its data
    are first used. False ignores consolidated metadata. None uses them only to list where a store
    cannot.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"r"`` to read (the default), ``"r+"`` to read and write, ``"a"`` to open or create,
            ``"w"`` to replace, ``"w-"`` to create only.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3, ``"3-draft"`` or ``"n5"`` to open that format; by default it is
            detected.
        zarr_version: Another name for `zarr_format`.
        attributes: User attributes of a new node.
        storage_options: Options for the store of a URL, such as credentials.
        use_consolidated: True, False, None or a key, as above.
        missing: The treatment of missing chunks when values are read: ``"fill"``, ``"warn"`` or
            ``"raise"``; see `Array.read`.
        **unused: `cache_attrs` and `synchronizer` of zarr-python 2, which have no effect.

    Returns:
        The group.

    Raises:
        NodeNotFound: If there is no such node.
        NodeExists: If there is a node at the path, and it may not be replaced.
        WrongNode: If there is a node of the other kind.
        InvalidMetadata: If the stored metadata are not valid.

    Examples:
        >>> g = oz.open_group("run.zarr", "w", attributes={"year": 2026})
        >>> g.create_array("a", shape=3, dtype="i2").name
        '/a'
        >>> list(oz.open_group("run.zarr"))
        ['a']
    """
    check_missing(missing)
    if mode is None:
        mode = _default_mode(store, {})
    check_group_options(unused)
    zarr_format = one_format(zarr_format, zarr_version)
    resolved, node_path = resolve_store_path(store, path, mode, storage_options)
    if _should_open(resolved, node_path, mode):
        location, node = find_node(
            resolved,
            node_path,
            zarr_format=zarr_format,
            read_only=mode == "r",
            use_consolidated=use_consolidated,
            missing=missing,
            prefer_group=True,
        )
        return Group.at(location, node)
    wanted = format_for(resolved, node_path, zarr_format)
    location = Location(resolved, node_path, wanted, missing=missing)
    try:
        return make_group(location, attributes, mode == "w")
    except NodeExists:
        if mode != "a":
            raise
    # Another writer has just created it.
    return open_group(resolved, "r+", path=node_path, missing=missing)


@document_options(CreateOptions)
def open_like(a: Any, path: str | None = None, **options: Any) -> Array:
    """Open the array at a path, or create one there like another if it does not exist.

    Args:
        a: An array whose shape, type, chunks and codecs the new one gets.
        path: The path of the node in the store; by default the root.
        **options: Options of `open_array`, such as `store` and `mode`.

    Returns:
        The array, for reading and writing.

    Raises:
        WrongNode: If there is a node of the other kind.

    Examples:
        >>> a = oz.zeros((4, 6), chunks=(2, 3), store="a.zarr")
        >>> oz.open_like(a, store="b.zarr").chunks
        (2, 3)
    """
    given = {"mode": "a", **options_like(a, options)}
    return open_array(given.pop("store", None), path=path, **given)


def open_consolidated(store: Any, *, use_consolidated: bool | str = True, **options: Any) -> Group:
    """Open a group as `open_group` does, with its consolidated metadata.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        use_consolidated: True, or the key of the consolidated metadata.
        **options: Options of `open_group`.

    Returns:
        The group.

    Raises:
        NodeNotFound: If there is no such node.
        InvalidMetadata: If it has no consolidated metadata.
        WrongType: If `use_consolidated` is False or None.

    Examples:
        >>> oz.save_group("run.zarr", a=np.arange(3), b=np.arange(4))
        >>> group = oz.consolidate_metadata("run.zarr")
        >>> oz.open_consolidated("run.zarr")["b"].shape
        (4,)
    """
    if not use_consolidated:
        raise WrongType(
            f"open_consolidated needs use_consolidated=True or a key, got {use_consolidated!r};"
            " use open_group to read the nodes' own metadata"
        )
    return open_group(store, use_consolidated=use_consolidated, **options)


def consolidate_metadata(
    store: Any,
    path: str | None = None,
    zarr_format: int | str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Store the metadata of all nodes below a group in the group, and return the group.

    This library updates them whenever it changes a node below the group. If they are larger than 4
    MiB, it drops them instead, with a warning, when a process has changed them many times.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        path: The path of the group in the store; by default the root.
        zarr_format: 1, 2, 3, ``"3-draft"`` or ``"n5"`` to open that format; by default it is
            detected.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The group.

    Raises:
        NodeNotFound: If there is no such node.
        ReadOnly: If the node or its store is read-only.
        CannotExpress: If the format has no consolidated metadata.

    Examples:
        >>> oz.save_group("run.zarr", a=np.arange(3), b=np.arange(4))
        >>> sorted(oz.consolidate_metadata("run.zarr").consolidated)
        ['a', 'b']
    """
    resolved, node_path = resolve_store_path(store, path, storage_options=storage_options)
    location, node = find_node(resolved, node_path, zarr_format=zarr_format)
    group = Group.at(location, node)
    location.check_writable()
    if replaced(resolved, node_path) is not None:
        with lock_replacement(resolved):
            settle_replacements(resolved, node_path)
    key = consolidated.key(location.format, location.path)
    if key is None:
        raise cannot(location.format.name, "consolidated metadata")
    _consolidate(location, key)
    group.refresh()
    return group


def _consolidate(location: Location, key: str) -> None:
    """Store the consolidated metadata of a group, until no node has changed meanwhile.

    Whoever changes a node after that updates them.
    """
    store, seen = location.store, _Seen()

    def attempt() -> None:
        if update_value(store, key, partial(_collect, location, key, seen)):
            raise Overtaken(str(location))  # unless they are the same when read again

    with lock_consolidated(store, location.format, key, location.path):
        retry_conflicts(attempt, " while its consolidated metadata was stored; try again")
    mark_changed()


@dataclass
class _Seen:
    """Hashes of the documents of a group, and of the members of it and each group below."""

    documents: int | None = None
    groups: list[tuple[Location, int]] = field(default_factory=list)

    def is_current(self, documents: int) -> bool:
        """Return True if all documents are the same as before."""
        if documents != self.documents:
            return False
        return all(mark == _hash_members(group) for group, mark in self.groups)


def _hash_members(group: Location) -> int:
    mark = 0
    for names, documents in _member_documents(group):
        mark = hash((mark, *names, *documents.items()))
    return mark


def _collect(location: Location, key: str, seen: _Seen, stored: bytes | None) -> bytes | None:
    """Return the consolidated metadata of a group, `stored` itself if that is the same text."""
    store, format, path = location.store, location.format, location.path
    own = get_existing(store, [k for k in format.keys(path) if k != key])
    others = tuple(own.items())
    if seen.is_current(hash((stored, others))):
        return stored
    if stored is not None and key in format.keys(path):
        own[key] = stored
    group = format.read(path, own, [])
    if not isinstance(group, GroupModel):
        raise NodeNotFound(f"there is no group at {location}")
    seen.groups.clear()
    known, found = 0, None
    for part in consolidated.parts(format, group, _own_metadata(location, own, seen)):
        if found is None:
            if stored is not None and stored.startswith(part, known):
                known += len(part)
                continue
            found = BytesIO()
            found.write(memoryview(stored or b"")[:known])
        found.write(part)
    made = (stored or b"")[:known] if found is None else found.getvalue()
    seen.documents = hash((made, others))
    return stored if made == stored else made


def _member_documents(group: Location) -> Iterator[tuple[list[str], dict[str, bytes]]]:
    """Yield the names of members of a group, and their documents by key, in batches."""
    start = paths.prefix(group.path)
    names = sorted(group.child_names(), key=paths.prefix)
    for first in range(0, len(names), BATCH):
        batch = names[first : first + BATCH]
        keys = [key for name in batch for key in group.format.keys(start + name)]
        yield batch, get_existing(group.store, keys)


def _own_metadata(
    location: Location, documents: Mapping[str, bytes], seen: _Seen, relative: str = ""
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the paths of a group and of all readable nodes below it, and their documents."""
    format, mark = location.format, 0
    yield relative, {paths.name(key): documents[key] for key in documents}
    start, below = paths.prefix(location.path), paths.prefix(relative)
    for names, found in _member_documents(location):
        mark = hash((mark, *names, *found.items()))
        for name in names:
            try:
                node = format.read(start + name, found, [])
            except InvalidMetadata:
                continue
            if node is None:
                continue
            if format.name_warning(name) is not None:
                location.child(name).warn_of_name()
            own = {key: found[key] for key in format.keys(start + name) if key in found}
            if isinstance(node, GroupModel):
                yield from _own_metadata(location.child(name), own, seen, below + name)
            else:
                yield below + name, {paths.name(key): text for key, text in own.items()}
    seen.groups.append((location, mark))


def consolidated_is_stale(store: Any) -> bool:
    """Return True if the root has consolidated metadata that differ from those of its nodes."""
    location, _ = find_node(*resolve_store_path(store, None))
    key = consolidated.key(location.format, location.path)
    data = location.store.get(key) if key else None
    if key is None or data is None or not consolidated.has_consolidated(location.format, data, key):
        return False
    now = _collect(location, key, _Seen(), data)
    if now is None or now is data:
        return False
    return load_object(now, key, allow_nan=True) != load_object(data, key, allow_nan=True)


def load(
    store: Any,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Return an array in memory, or for a group a dictionary of the arrays directly in it.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3, ``"3-draft"`` or ``"n5"`` to open that format; by default it is
            detected.
        zarr_version: Another name for `zarr_format`.
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
    node = open(
        store,
        path=path,
        zarr_format=zarr_format,
        zarr_version=zarr_version,
        storage_options=storage_options,
    )
    if isinstance(node, Array):
        return node[...]
    return {name: array[...] for name, array in node.arrays()}


def _default_mode(store: Any, options: Mapping[str, Any]) -> Any:
    """Return the mode if none is given: ``r``, or ``a`` if the call describes a new array."""
    new = store is None or options.get("shape") is not None or options.get("data") is not None
    return "a" if new else "r"


def one_format(zarr_format: int | str | None, zarr_version: int | str | None) -> int | str | None:
    if None not in (zarr_format, zarr_version) and str(zarr_format) != str(zarr_version):
        raise InvalidArgument(
            f"zarr_format {zarr_format!r} and zarr_version {zarr_version!r} are two names for one"
            " option; give one"
        )
    return zarr_version if zarr_format is None else zarr_format


_GROUP_OPTIONS = ("path", "zarr_format", "attributes", "overwrite", "storage_options", "mode")


def check_group_options(options: dict[str, Any]) -> None:
    """Raise for unknown options of groups; those of zarr-python 2 are accepted."""
    known = ("cache_attrs", "synchronizer", "chunk_store", "meta_array")
    for name in options:
        if name not in known:
            raise WrongType(
                f"unknown option {name!r}; {known_names(name, (*_GROUP_OPTIONS, *known))}"
            )
    check_options(options)


def _configured(node: Array | Group, options: Mapping[str, Any]) -> Array | Group:
    given: Any = {k: options[k] for k in ("config", "write_empty_chunks") if k in options}
    return node.with_config(runtime_config(given)) if isinstance(node, Array) and given else node


def _should_open(store: Store, path: str, mode: str) -> bool:
    """Return True if a mode opens an existing node; raise if it must not exist."""
    if mode in ("r", "r+"):
        return True
    exists = existing_node(store, path) is not None
    if mode == "w-" and exists:
        raise NodeExists(
            f"there is already a node at {paths.show(path)} in {store!r}; mode 'a' opens it, 'w'"
            " replaces it"
        )
    return mode == "a" and exists
