"""Open, load and save as zarr-python does: by default what does not exist is created."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import omnizarr
from omnizarr import Array, Group
from omnizarr.errors import (
    InvalidArgument,
    NodeExists,
    NodeNotFound,
    OmnizarrError,
    WrongNode,
    WrongType,
)
from omnizarr.extension import ArrayModel, Location, Node, existing_node, find_node, paths
from omnizarr.interop.zarr import creation
from omnizarr.interop.zarr.arrays import ZarrArray
from omnizarr.interop.zarr.creation import (
    array,
    check_storable,
    create,
    make_group_at,
    one_version,
    options_like,
    warn_of_unused,
)
from omnizarr.interop.zarr.groups import ZarrGroup
from omnizarr.interop.zarr.library import array_config, configured, default_format, translated, warn
from omnizarr.interop.zarr.stores import ZarrPlace, ZarrTarget, locate

__all__ = [
    "consolidate_metadata", "group", "load", "open", "open_array", "open_consolidated",
    "open_group", "open_like", "save", "save_array", "save_group", "tree",
]  # fmt: skip


def open(
    store: Any = None,
    *,
    mode: str | None = None,
    zarr_format: Any = None,
    path: str | None = None,
    storage_options: Any = None,
    **options: Any,
) -> Any:
    """Open the array or group at a path; by default it is created if it does not exist."""
    wanted = one_version(zarr_format, options.pop("zarr_version", None))
    if mode is None:
        mode = "r" if getattr(store, "read_only", False) else "a"
    with translated("group"), configured():  # which zarr-python looks for last
        target = locate(store, path, mode, storage_options)
        if mode in ("r", "r+", "a") and "shape" not in options:
            try:
                return _open_node(target, wanted, mode, options)
            except NodeNotFound:
                if mode != "a":
                    raise
        if mode != "w-" and options.get("shape") is None and options.get("data") is None:
            return _open_or_create_group(target, mode, wanted, **_group_options(target, options))
    if "shape" in options or "data" in options:
        return _open_or_create_array(target, mode, wanted, options)
    return _open_or_create_group(target, mode, wanted, **_group_options(target, options))


def _group_options(target: ZarrTarget, options: dict[str, Any]) -> dict[str, Any]:
    if options.get("config") is not None:
        raise WrongType(
            f"config is for arrays, but {paths.show(target.path)} in {target.given} resolves to a"
            " group; leave it out"
        )
    return {k: v for k, v in options.items() if k in ("attributes", "use_consolidated")}


def _open_node(target: ZarrTarget, zarr_format: Any, mode: str, options: dict[str, Any]) -> Any:
    location, node = _find(target, zarr_format, mode == "r", options.get("use_consolidated"))
    if not isinstance(node, ArrayModel):
        _group_options(target, options)
        return ZarrGroup.adopt(Group.at(location, node), target.given)
    return _configured_array(location, node, target, options)


def _configured_array(
    location: Location, node: Node, target: ZarrTarget, options: dict[str, Any]
) -> ZarrArray:
    runtime = array_config(options.get("config"))
    return ZarrArray.adopt(Array.at(location, node), target.given, _runtime=runtime)


def open_array(
    store: Any = None,
    *,
    zarr_format: Any = None,
    path: str | None = None,
    storage_options: Any = None,
    **options: Any,
) -> ZarrArray:
    """Open the array at a path; modes ``a``, ``w`` and ``w-`` create it from the other options."""
    mode = options.pop("mode", None)
    wanted = one_version(zarr_format, options.pop("zarr_version", None))
    with translated("array"):
        target = locate(store, path, mode, storage_options)
    return _open_or_create_array(target, mode, wanted, options)


def _open_or_create_array(
    target: ZarrTarget, mode: str | None, zarr_format: Any, options: dict[str, Any]
) -> ZarrArray:
    with translated("array"), configured():
        if mode not in ("w", "w-"):
            try:
                location, node = _find(target, zarr_format, mode == "r", False, "array")
                if not isinstance(node, ArrayModel):
                    raise _wrong_kind(location, "group")
                return _configured_array(location, node, target, options)
            except NodeNotFound:
                if mode != "a" or target.store.read_only:
                    raise
        elif mode == "w-" and existing_node(target.store, target.path) is not None:
            raise NodeExists(f"there is already a node at {target.path!r} in {target.given}")
    place = {
        "store": ZarrPlace(target.given, target.path),
        "zarr_format": default_format(zarr_format),
    }
    given = {**options, **place, "overwrite": mode == "w"}
    if "shape" not in given and given.get("data") is not None:
        return array(given.pop("data"), **given)
    return create(**given)


def open_group(
    store: Any = None,
    *,
    mode: str = "a",
    path: str | None = None,
    storage_options: Any = None,
    zarr_format: Any = None,
    attributes: Any = None,
    use_consolidated: bool | str | None = None,
    **unused: Any,
) -> ZarrGroup:
    """Open the group at a path; by default it is created if it does not exist."""
    wanted = one_version(zarr_format, unused.pop("zarr_version", None))
    warn_of_unused(unused)
    with translated("group"):
        target = locate(store, path, mode, storage_options)
    return _open_or_create_group(target, mode, wanted, attributes, use_consolidated)


def _open_or_create_group(
    target: ZarrTarget,
    mode: str,
    zarr_format: Any,
    attributes: Any = None,
    use_consolidated: bool | str | None = None,
) -> ZarrGroup:
    with translated("group"), configured():
        if mode in ("r", "r+", "a"):
            try:
                return _open_group(target, zarr_format, mode == "r", use_consolidated)
            except NodeNotFound:
                if mode != "a":
                    raise
        if mode == "w":
            target.remove_empty_directories()
        try:
            return make_group_at(target, zarr_format, attributes, mode == "w")
        except NodeExists:
            if mode != "a":
                raise
        # Another writer has just created it.
        return _open_group(target, zarr_format, False, use_consolidated)


def open_existing_group(
    store: Any, *, zarr_format: Any = None, use_consolidated: bool | str | None = None
) -> ZarrGroup:
    """Open the group at a store or store path; raise if there is none."""
    with translated("group"):
        return _open_group(locate(store), zarr_format, False, use_consolidated)


def _open_group(
    target: ZarrTarget, zarr_format: Any, read_only: bool, use_consolidated: bool | str | None
) -> ZarrGroup:
    location, node = _find(target, zarr_format, read_only, use_consolidated, "group")
    if isinstance(node, ArrayModel):
        raise _wrong_kind(location, "array")
    return ZarrGroup.adopt(Group.at(location, node), target.given)


def _wrong_kind(location: Location, kind: str) -> OmnizarrError:
    """Return the error that zarr-python raises for a node of the wrong kind.

    In version 2 it looks only for the other kind's document, and finds none.
    """
    other = "not a group" if kind == "array" else "not an array"
    message = f"the node at {location} is of kind {kind}, {other}; use open_{kind}"
    if location.format.name == "2":
        return NodeNotFound(message)
    return NodeExists(message, kind="array") if kind == "array" else WrongNode(message)


def _find(
    target: ZarrTarget,
    zarr_format: Any,
    read_only: bool,
    use_consolidated: bool | str | None,
    kind: str | None = None,
) -> tuple[Location, Node]:
    """Return the location and the node, from one batch of requests for what zarr-python reads.

    Consolidated metadata of a group are used by default if there are any.
    """
    supported = bool(getattr(target.given, "supports_consolidated_metadata", True))
    location, node = find_node(
        target.store,
        target.path,
        zarr_format=zarr_format,
        read_only=read_only,
        use_consolidated=supported and (use_consolidated is None or use_consolidated),
        need_consolidated=False,
        kind=kind,
    )
    if not use_consolidated or isinstance(node, ArrayModel):
        return location, node
    if not supported:
        raise InvalidArgument(
            f"The Zarr store in use ({type(target.given).__name__}) doesn't support consolidated"
            " metadata, but they were requested with use_consolidated"
        )
    if location.consolidated is None:
        raise InvalidArgument(
            f"Consolidated metadata requested with 'use_consolidated={use_consolidated!r}' but not"
            f" found in '{location.path}'."
        )
    return location, node


def open_consolidated(*args: Any, use_consolidated: bool | str = True, **options: Any) -> ZarrGroup:
    """Open a group with its consolidated metadata."""
    if use_consolidated is not True and not isinstance(use_consolidated, str):
        raise TypeError(
            "'use_consolidated' must be 'True' in 'open_consolidated'. Use 'open' with"
            " 'use_consolidated=False' to bypass consolidated metadata."
        )
    return open_group(*args, use_consolidated=use_consolidated, **options)


def open_like(a: Any, path: str, **options: Any) -> ZarrArray:
    """Open the array at a path, or create one there like another if it does not exist."""
    like = {**options, "zarr_format": default_format(options.get("zarr_format"))}
    given = {**options_like(a, like, fill=True), "zarr_format": options.get("zarr_format")}
    if given.get("mode") is None:
        given["mode"] = "a"
    return open_array(given.pop("store", None), path=path, **given)


def group(store: Any = None, *, overwrite: bool = False, **options: Any) -> ZarrGroup:
    """Return the group at a path, created if it does not exist."""
    return open_group(store, mode="w" if overwrite else "a", **options)


def consolidate_metadata(store: Any, path: str | None = None, zarr_format: Any = None) -> ZarrGroup:
    """Store the metadata of all nodes below a group in the group, and return the group."""
    with translated("group"), configured():
        target = locate(store, path)
        if not getattr(target.given, "supports_consolidated_metadata", True):
            raise TypeError(
                f"The Zarr Store in use ({type(target.given).__name__}) doesn't support"
                " consolidated metadata"
            )
        found = omnizarr.consolidate_metadata(
            ZarrPlace(target.store, target.path), zarr_format=zarr_format
        )
        if found.zarr_format == 3 and found.consolidated:
            warn(
                "Consolidated metadata is currently not part in the Zarr format 3 specification."
                " It may not be supported by other zarr implementations and may change in the"
                " future.",
                "ZarrUserWarning",
            )
        return _open_group(target, found.zarr_format, False, True)


def tree(grp: Any, expand: bool | None = None, level: int | None = None) -> Any:
    """Show all nodes below a group as indented text, down to a level."""
    warn("Use Group.tree instead.", "ZarrDeprecationWarning")
    return grp.tree(expand, level)


def load(store: Any, path: str | None = None, zarr_format: Any = None, **options: Any) -> Any:
    """Return an array in memory, or for a group a dictionary of the arrays directly in it."""
    # A store of zip files has no read-only form, which mode "r" needs.
    mode = "r" if getattr(store, "read_only", True) else "r+"
    node = open(store, path=path, zarr_format=zarr_format, mode=mode, **options)
    return node[...] if isinstance(node, Array) else {n: a[...] for n, a in node.arrays()}


def save(store: Any, *args: Any, **options: Any) -> None:
    """Store one array, or several in a group: ``arr_0``, ``arr_1``, … and those given by name."""
    named = options.keys() - {"zarr_format", "zarr_version", "path", "storage_options"}
    if not args and not named:
        raise ValueError("at least one array must be provided")
    if len(args) == 1 and not named:
        save_array(store, args[0], **options)
    else:
        save_group(store, *args, **options)


def save_array(store: Any, arr: Any, **options: Any) -> None:
    """Store one array, with the options of `create`."""
    _check_array(arr, "arr argument")
    array(arr, store=store, **options)


def save_group(
    store: Any,
    *args: Any,
    zarr_format: Any = None,
    path: str | None = None,
    storage_options: Any = None,
    **arrays: Any,
) -> None:
    """Store several arrays in a group: ``arr_0``, ``arr_1``, … and those given by name."""
    wanted = one_version(zarr_format, arrays.pop("zarr_version", None))
    named = {**{f"arr_{i}": a for i, a in enumerate(args)}, **arrays}
    if not named:
        raise ValueError("at least one array must be provided")
    for name, values in named.items():
        _check_array(values, f"Keyword argument '{name}'")
        check_storable(values, wanted)  # before anything is replaced
    place = {"path": path, "storage_options": storage_options}
    parent = group(store, overwrite=True, zarr_format=wanted, **place)
    for name, values in named.items():
        array(values, store=parent.store_path, path=name, zarr_format=parent.zarr_format)


def _check_array(values: Any, what: str) -> None:
    if not all(hasattr(values, name) for name in ("shape", "dtype", "__getitem__")):
        raise TypeError(f"{what} must be a numpy or other NDArrayLike array")


# The functions that take the place of zarr-python's.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(creation, name) for name in creation.__all__},
    **{name: globals()[name] for name in __all__},
}
