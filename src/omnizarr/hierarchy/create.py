"""Open and create arrays and groups.

Options are those of `create_array`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack

import numpy.typing as npt

from omnizarr.engine import Missing, check_missing
from omnizarr.errors import (
    InvalidMetadata,
    NodeExists,
    NodeNotFound,
    WrongType,
    known_names,
)
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group, make_group, open_node
from omnizarr.hierarchy.info import Tree
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.lookup import Mode, format_for, locate, place
from omnizarr.hierarchy.make import complete, create_nodes, like, make_array
from omnizarr.hierarchy.options import (
    ZERO,
    ArrayOptions,
    CreateOptions,
    OpenOptions,
    check_options,
    check_separator,
    runtime_config,
    shows,
)
from omnizarr.hierarchy.selection import as_source
from omnizarr.model import paths
from omnizarr.stores import Store


@shows(OpenOptions, returns="Array | Group")
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
    """The array or group at a path, in whatever format it is; read-only unless a mode is given.

    `store` is a path, a URL, a dict, a store, or a `StorePath`. Mode ``r`` (the default) reads,
    ``r+`` also writes; neither creates anything. ``a`` opens or creates, ``w`` replaces what is
    there, ``w-`` fails if something is: with a shape or data they create an array as
    `open_array` does, else a group. `zarr_version` is another name for `zarr_format`;
    `use_consolidated` is as in `open_group`. `missing` says what reads do about chunks that the
    store does not have, here and below: ``fill``, ``warn`` or ``raise``; see `Array.read`.

    Which of the two it is, is known when the program runs; one that checks types says what it
    expects, ``a: Array = open(…)``, or uses `open_array` or `open_group`.
    """
    check_missing(missing)
    check_options({k: v for k, v in options.items() if k not in ("shape", "dtype", "data")})
    chosen = _mode(mode, store, options)
    zarr_format = _format(zarr_format, zarr_version)
    where, node_path = place(store, path, chosen, storage_options)
    if _should_open(where, node_path, chosen):
        location, node = locate(
            where,
            node_path,
            zarr_format=zarr_format,
            read_only=chosen == "r",
            use_consolidated=use_consolidated,
            missing=missing,
        )
        return _configured(open_node(location, node), options)
    given: Any = {"path": node_path, "zarr_format": zarr_format, "missing": missing, **options}
    if any(options.get(name) is not None for name in ("shape", "data", "dtype")):
        return open_array(where, chosen, **given)
    return open_group(where, chosen, **given)


@shows(ArrayOptions, explained=True)
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
    """The array at a path; modes ``a``, ``w`` and ``w-`` create it from the other options.

    ``a`` opens or creates, ``w`` replaces what is there, ``w-`` fails if something is. Without a
    mode the array is opened to be read, or, where a shape or data are given, as with ``a``.
    Opening looks at one of the options: `dimension_separator` is used where a version 2 document
    does not state it, for data that were written through a nested store. `missing` is as in
    `open`.
    """
    check_missing(missing)
    chosen = _mode(mode, store, {"shape": shape, "data": data})
    zarr_format = _format(zarr_format, zarr_version)
    where, node_path = place(store, path, chosen, storage_options)
    if _should_open(where, node_path, chosen):
        check_options(options)
        location, node = locate(
            where,
            node_path,
            zarr_format=zarr_format,
            read_only=chosen == "r",
            separator=check_separator(options.get("dimension_separator")),
            missing=missing,
        )
        array = Array.at(location, node)
        array._config = runtime_config(options)
        return array
    location = Location(
        where, node_path, format_for(where, node_path, zarr_format), missing=missing
    )
    try:
        return make_array(location, shape, dtype, data, chosen == "w", options)
    except NodeExists:
        if chosen != "a":
            raise
    # Another writer was quicker.
    return open_array(where, "r+", path=node_path, missing=missing, **options)


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
    """The group at a path, read-only without a mode; modes as in `open_array`.

    `use_consolidated`: True takes the nodes below from the group's copies of their documents,
    without a request, and fails where it has none; a string is another key for them than
    ``.zmetadata`` (version 2). An array's copy is compared with its own document when its data
    are first used. False never looks at copies. None uses them only to list where a store cannot.
    `missing` is as in `open`. `cache_attrs` and `synchronizer` of zarr-python 2 have no effect.
    """
    check_missing(missing)
    chosen = _mode(mode, store, {})
    _check_unused(unused)
    zarr_format = _format(zarr_format, zarr_version)
    where, node_path = place(store, path, chosen, storage_options)
    if _should_open(where, node_path, chosen):
        location, node = locate(
            where,
            node_path,
            zarr_format=zarr_format,
            read_only=chosen == "r",
            use_consolidated=use_consolidated,
            missing=missing,
            prefer_group=True,
        )
        return Group.at(location, node)
    wanted = format_for(where, node_path, zarr_format)
    location = Location(where, node_path, wanted, missing=missing)
    try:
        return make_group(location, attributes, chosen == "w")
    except NodeExists:
        if chosen != "a":
            raise
    # Another writer was quicker.
    return open_group(where, "r+", path=node_path, missing=missing)


@shows(ArrayOptions, explained=True)
def create_array(
    store: Any = None,
    *,
    path: str | None = None,
    name: str | None = None,
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    data: Any = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    overwrite: bool = False,
    write_data: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[ArrayOptions],
) -> Array:
    """A new array, in version 3 unless it joins a hierarchy or another format is asked for.

    `store` is a path, a URL, a dict, a store, a `StorePath`, or None for memory. An array or
    group that is already there is an error, unless `overwrite`. With `data` the array is filled
    (not with ``write_data=False``), and shape and type may be left out. `name` is another word
    for `path`.
    """
    wanted = _format(zarr_format, zarr_version)
    location = new_location(store, path if path is not None else name, wanted, storage_options)
    return make_array(location, shape, dtype, data, overwrite, options, write_data)


def new_location(
    store: Any,
    path: str | None,
    zarr_format: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Location:
    """Return where a new node shall be, in the format that is asked for or that it joins."""
    where, node_path = place(store, path, "r+", storage_options)
    return Location(where, node_path, format_for(where, node_path, zarr_format))


@shows(CreateOptions)
def create(
    shape: int | Iterable[int],
    *,
    store: Any = None,
    read_only: bool | None = None,
    **options: Unpack[CreateOptions],
) -> Array:
    """As `create_array`, with the shape first; `read_only` gives back a handle for reading."""
    made = create_array(store, shape=shape, **options)
    return Array(made.store_path, read_only=True) if read_only else made


@shows(CreateOptions)
def array(data: npt.ArrayLike, *, store: Any = None, **options: Unpack[CreateOptions]) -> Array:
    """A new array that holds `data`; options as for `create_array`."""
    return create_array(store, data=as_source(data), **options)


def create_group(
    store: Any = None,
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """A new group, in version 3 unless it joins a hierarchy or another format is asked for."""
    location = new_location(store, path, zarr_format, storage_options)
    return make_group(location, attributes, overwrite)


def group(
    store: Any = None,
    *,
    path: str | None = None,
    overwrite: bool = False,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    attributes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unused: Any,
) -> Group:
    """The group at a path, created where it does not exist.

    `cache_attrs` and `synchronizer` of zarr-python 2 have no effect.
    """
    _check_unused(unused)
    zarr_format = _format(zarr_format, zarr_version)
    where, node_path = place(store, path, "a", storage_options)
    found = None if overwrite else _group_at(where, node_path, zarr_format)
    if found is not None:
        return found
    try:
        return create_group(
            where,
            path=node_path,
            zarr_format=zarr_format,
            attributes=attributes,
            overwrite=overwrite,
        )
    except NodeExists:
        found = None if overwrite else _group_at(where, node_path, zarr_format)
        if found is None:
            raise
        return found  # another writer was quicker


def _group_at(store: Store, path: str, zarr_format: int | str | None) -> Group | None:
    try:
        return Group.at(*locate(store, path, zarr_format=zarr_format))
    except NodeNotFound:
        return None


def _mode(mode: str | None, store: Any, options: Mapping[str, Any]) -> Any:
    """Without a mode: read, or create where the call says what, or nothing could be there."""
    if mode is not None:
        return mode
    given = any(options.get(name) is not None for name in ("shape", "data"))
    return "a" if given or store is None else "r"


def _format(zarr_format: int | str | None, zarr_version: int | str | None) -> int | str | None:
    if None not in (zarr_format, zarr_version) and str(zarr_format) != str(zarr_version):
        raise InvalidMetadata(
            f"zarr_format {zarr_format!r} and zarr_version {zarr_version!r} are two names for one"
            " option; give one"
        )
    return zarr_version if zarr_format is None else zarr_format


_OF_GROUPS = ("path", "zarr_format", "attributes", "overwrite", "storage_options", "mode")


def _check_unused(options: dict[str, Any]) -> None:
    """Options of zarr-python 2 for groups that need nothing here; raises for others."""
    known = ("cache_attrs", "synchronizer", "chunk_store", "meta_array")
    for name in options:
        if name not in known:
            raise WrongType(f"unknown option {name!r}; {known_names(name, (*_OF_GROUPS, *known))}")
    check_options(options)


def _configured(node: Array | Group, options: Mapping[str, Any]) -> Array | Group:
    given: Any = {k: options[k] for k in ("config", "write_empty_chunks") if k in options}
    return node.with_config(runtime_config(given)) if isinstance(node, Array) and given else node


def _should_open(store: Store, path: str, mode: str) -> bool:
    """Whether a mode opens what is there, rather than creating."""
    if mode in ("r", "r+"):
        return True
    exists = existing_node(store, path) is not None
    if mode == "w-" and exists:
        raise NodeExists(
            f"there is already a node at {paths.show(path)} in {store!r}; mode 'a' opens it, 'w'"
            " replaces it"
        )
    return mode == "a" and exists


@shows(CreateOptions)
def empty(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """A new array whose values do not matter; they are the default fill value."""
    return create_array(store, shape=shape, **options)


@shows(CreateOptions)
def zeros(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """A new array of zeros."""
    given: Any = {"fill_value": ZERO, **options}
    return create_array(store, shape=shape, **given)


@shows(CreateOptions)
def ones(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """A new array of ones."""
    given: Any = {"fill_value": 1, **options}
    return create_array(store, shape=shape, **given)


@shows(CreateOptions)
def full(
    shape: int | Iterable[int], fill_value: Any, *, store: Any = None, **options: Any
) -> Array:
    """A new array of one value."""
    return create_array(store, shape=shape, fill_value=fill_value, **options)


@shows(CreateOptions)
def empty_like(a: Any, **options: Any) -> Array:
    """A new array with the shape, type and chunks of another, whose values do not matter."""
    return empty(**like(a, options))


@shows(CreateOptions)
def zeros_like(a: Any, **options: Any) -> Array:
    """A new array of zeros with the shape, type and chunks of another."""
    return zeros(**like(a, {"fill_value": ZERO, **options}))


@shows(CreateOptions)
def ones_like(a: Any, **options: Any) -> Array:
    """A new array of ones with the shape, type and chunks of another."""
    return ones(**like(a, {"fill_value": 1, **options}))


@shows(CreateOptions)
def full_like(a: Any, fill_value: Any = None, **options: Any) -> Array:
    """A new array of one value with the shape, type and chunks of another.

    Without a value it has that of the other array.
    """
    given = options if fill_value is None else {"fill_value": fill_value, **options}
    found = like(a, given)
    if "fill_value" not in found:
        raise TypeError(f"{type(a).__name__} has no fill value; give fill_value")
    return full(**found)


@shows(CreateOptions)
def open_like(a: Any, path: str | None = None, **options: Any) -> Array:
    """The array at a path, created there like another where it does not exist."""
    given = {"mode": "a", **like(a, options)}
    return open_array(given.pop("store", None), path=path, **given)


def create_hierarchy(
    *,
    store: Any,
    nodes: Mapping[str, Any],
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[str, Array | Group]]:
    """Create arrays and groups by path, and give each back when it is stored.

    A node is described by the `metadata` of another one, by its model, or by its JSON document.
    Groups above them are created, and given back, as far as they are missing. Nothing is stored
    where formats differ, an array has nodes below it, or, without `overwrite`, one is there.
    """
    where, path = place(store, storage_options=storage_options)
    wanted, version = complete(nodes)
    start = Location(where, path, format_for(where, path, version))
    for name, location, node in create_nodes(start, wanted, overwrite):
        yield name, open_node(location, node)


def init_store(
    store: Any,
    shape: int | Iterable[int],
    *,
    dtype: Any = None,
    compression: str | None = "blosc",
    compression_opts: Any = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Put an empty version 1 array into a store, as zarr-python 1 did."""
    if compression in (None, "none"):
        compressor = None
    elif isinstance(compression_opts, dict):
        compressor = {"id": compression, **compression_opts}
    elif compression_opts is not None:
        compressor = {"id": compression, "level": compression_opts}
    elif compression == "blosc":
        compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    else:
        compressor = {"id": compression}
    create_array(
        store,
        shape=shape,
        dtype=dtype,
        compressor=compressor,
        zarr_format=1,
        overwrite=overwrite,
        **options,
    )


def tree(grp: Group, expand: bool | None = None, level: int | None = None) -> Tree:
    """All below a group as an indented text, down to a level; see `Group.tree`."""
    return grp.tree(expand, level)
