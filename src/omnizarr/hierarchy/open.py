"""Open arrays and groups, and consolidate the metadata of a group.

Options are those of `create_array`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from omnizarr._json import load_object
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.engine import Missing, check_missing
from omnizarr.errors import (
    InvalidArgument,
    NodeExists,
    WrongType,
    known_names,
)
from omnizarr.formats import consolidated
from omnizarr.hierarchy.array import Array, like
from omnizarr.hierarchy.build import make_array
from omnizarr.hierarchy.consolidated import changing, note_change
from omnizarr.hierarchy.group import Group, make_group, open_node
from omnizarr.hierarchy.location import Location, existing_node, walk
from omnizarr.hierarchy.lookup import Mode, format_for, locate, place
from omnizarr.hierarchy.options import (
    ArrayOptions,
    CreateOptions,
    OpenOptions,
    check_options,
    check_separator,
    runtime_config,
    shows,
)
from omnizarr.model import paths
from omnizarr.stores import Store, supports_compare_and_set


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
    zarr_format = one_format(zarr_format, zarr_version)
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
    zarr_format = one_format(zarr_format, zarr_version)
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
    check_group_options(unused)
    zarr_format = one_format(zarr_format, zarr_version)
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


@shows(CreateOptions)
def open_like(a: Any, path: str | None = None, **options: Any) -> Array:
    """The array at a path, created there like another where it does not exist."""
    given = {"mode": "a", **like(a, options)}
    return open_array(given.pop("store", None), path=path, **given)


def open_consolidated(store: Any, *, use_consolidated: bool | str = True, **options: Any) -> Group:
    """As `open_group`, with the nodes below taken from the group's consolidated metadata."""
    if not use_consolidated:
        raise WrongType(
            f"open_consolidated needs use_consolidated=True or a key, got {use_consolidated!r};"
            " use open_group to read the nodes' own documents"
        )
    return open_group(store, use_consolidated=use_consolidated, **options)


def consolidate_metadata(
    store: Any,
    path: str | None = None,
    zarr_format: int | str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Store a copy of all documents below a group with the group, and give back the group.

    Whatever this library changes below the group afterwards, it changes in the copy too; copies
    of more than a megabyte it drops instead, with a warning.
    """
    where, node_path = place(store, path, storage_options=storage_options)
    location, node = locate(where, node_path, zarr_format=zarr_format)
    group = Group.at(location, node)
    location.check_writable()
    _gather(location)
    group.refresh()
    return group


def _gather(location: Location) -> None:
    """Store copies until they are those of now: who changes a node after that renews them."""
    store, format, path = location.store, location.format, location.path
    key = consolidated.key(format, path) or ""

    def attempt() -> None:
        generation = store.generation(key) if key and supports_compare_and_set(store) else None
        stored = store.get(key) if key else None
        text = consolidated.write(format, path, walk(location, location.load()))[key]
        if text == stored:
            return
        if supports_compare_and_set(store):
            store.set_if(key, text, generation)
        else:
            store.set(key, text)
        raise Overtaken(str(location))  # unless it is the same when it is read again

    with changing(store, format, key, path):
        retry_conflicts(attempt, " while its consolidated metadata was stored; try again")
    note_change()


def copies_are_stale(store: Any) -> bool:
    """Whether the root has consolidated metadata that differ from the documents below it."""
    location, node = locate(*place(store, None))
    key = consolidated.key(location.format, location.path)
    data = location.store.get(key) if key else None
    if key is None or data is None or not consolidated.has_copies(location.format, data, key):
        return False
    now = consolidated.write(location.format, location.path, walk(location, node))[key]
    return load_object(now, key, allow_nan=True) != load_object(data, key, allow_nan=True)


def load(
    store: Any,
    path: str | None = None,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """An array in memory, or for a group a dictionary of those directly in it."""
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


def _mode(mode: str | None, store: Any, options: Mapping[str, Any]) -> Any:
    """Without a mode: read, or create where the call says what, or nothing could be there."""
    if mode is not None:
        return mode
    given = any(options.get(name) is not None for name in ("shape", "data"))
    return "a" if given or store is None else "r"


def one_format(zarr_format: int | str | None, zarr_version: int | str | None) -> int | str | None:
    if None not in (zarr_format, zarr_version) and str(zarr_format) != str(zarr_version):
        raise InvalidArgument(
            f"zarr_format {zarr_format!r} and zarr_version {zarr_version!r} are two names for one"
            " option; give one"
        )
    return zarr_version if zarr_format is None else zarr_format


_OF_GROUPS = ("path", "zarr_format", "attributes", "overwrite", "storage_options", "mode")


def check_group_options(options: dict[str, Any]) -> None:
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
