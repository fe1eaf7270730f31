"""Create arrays and groups, and save arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.specify import pipeline
from omnizarr.errors import InvalidArgument, WrongType
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.build import create_nodes, make_array
from omnizarr.hierarchy.group import Group, make_group, open_node
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.lookup import format_for, resolve_store_path
from omnizarr.hierarchy.node import complete_hierarchy
from omnizarr.hierarchy.open import open
from omnizarr.hierarchy.options import ArrayOptions, Place, document_options
from omnizarr.hierarchy.selection import S, as_source

_OPTIONS = {*ArrayOptions.__annotations__, "overwrite"}


@overload
def create_array(
    store: Any = ..., *, dtype: type[S] | np.dtype[S], data: Any = ..., **options: Unpack[Place]
) -> Array[S]: ...
@overload
def create_array(
    store: Any = ..., *, data: npt.NDArray[S], dtype: None = None, **options: Unpack[Place]
) -> Array[S]: ...
@overload
def create_array(
    store: Any = ..., *, dtype: Any = None, data: Any = None, **options: Unpack[Place]
) -> Array: ...
@document_options(ArrayOptions, explained=True)
def create_array(
    store: Any = None,
    *,
    path: str | None = None,
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    data: Any = None,
    zarr_format: int | str | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[ArrayOptions],
) -> Array:
    """Create an array, by default in the format of its hierarchy, or in version 3.

    It joins the hierarchy at the root of `store`. A path or URL that ends inside a hierarchy is a
    store of its own, in version 3 by default, which a hierarchy of another version does not list.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        path: The path of the node in the store; by default the root.
        shape: The length of every axis; a number for one axis.
        dtype: The type of the elements, as NumPy or Zarr name it.
        data: Values to store; shape and type may then be left out.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default as in the hierarchy, or 3.
        overwrite: True to replace an existing array or group, with all below it.
        storage_options: Options for the store of a URL, such as credentials.
        **options: Options of the array, such as `chunks`, `shards`, `fill_value`, `codecs`,
            `compressors`, `dimension_names` and `attributes`; ``help`` shows all of them.

    Returns:
        The array, for reading and writing.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.
        InvalidArgument: If an option has a value that is not allowed, or there is neither shape nor
            data.
        CannotExpress: If the format cannot express an option.

    Examples:
        >>> a = oz.create_array("ocean.zarr", shape=(4, 6), chunks=(2, 3), dtype="f4")
        >>> a[1:3] = 7
        >>> a[:, 0]
        array([0., 7., 7., 0.], dtype=float32)
    """
    location = new_location(store, path, zarr_format, storage_options)
    return make_array(location, shape, dtype, data, overwrite, options)


def new_location(
    store: Any,
    path: str | None,
    zarr_format: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Location:
    """Return the location of a new node, by default in the format of its hierarchy."""
    resolved, node_path = resolve_store_path(store, path, "r+", storage_options)
    return Location(resolved, node_path, format_for(resolved, node_path, zarr_format))


def create_group(
    store: Any = None,
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group, by default in the format of its hierarchy, or in version 3.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default as in the hierarchy, or 3.
        attributes: User attributes of a new node.
        overwrite: True to replace an existing node.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The group, for reading and writing.

    Examples:
        >>> g = oz.create_group("run.zarr", attributes={"year": 2026})
        >>> g.attrs["year"]
        2026
    """
    location = new_location(store, path, zarr_format, storage_options)
    return make_group(location, attributes, overwrite)


def create_hierarchy(
    *,
    store: Any,
    nodes: Mapping[str, Any],
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[str, Array | Group]]:
    """Create arrays and groups by path, and yield each when it is stored.

    A node is described by the `metadata` of another one, by its model, or by its JSON metadata.
    Missing groups above them are created and yielded, too. Nothing is stored if formats differ, if
    an array has nodes below it, or, without `overwrite`, if a node exists.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        nodes: Descriptions of the nodes by path.
        overwrite: True to replace existing nodes.
        storage_options: Options for the store of a URL, such as credentials.

    Yields:
        The path of a node, and the array or group.

    Examples:
        >>> like = oz.create_array(shape=(4, 6)).metadata
        >>> nodes = oz.create_hierarchy(store="run.zarr", nodes={"day1/a": like, "day2/a": like})
        >>> sorted(path for path, node in nodes)
        ['', 'day1', 'day1/a', 'day2', 'day2/a']
    """
    resolved, node_path = resolve_store_path(store, storage_options=storage_options)
    wanted, version = complete_hierarchy(nodes)
    start = Location(resolved, node_path, format_for(resolved, node_path, version))
    for name, location, node in create_nodes(start, wanted, overwrite):
        yield name, open_node(location, node)


def save(
    store: Any,
    *args: npt.ArrayLike,
    zarr_format: int | str | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store one array, or several in a group: ``arr_0``, ``arr_1``, … and those given by name.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        *args: Arrays: one, or several that are named by position.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default as in the hierarchy, or 3.
        path: The path of the array or group in the store; by default the root.
        storage_options: Options for the store of a URL, such as credentials.
        **kwargs: Arrays by name, and options of `create_array`, which are used for all of them.

    Raises:
        InvalidArgument: If there is no array to store, or one is named like an option.
        WrongType: If an option is neither an array nor an option of `create_array`.

    Examples:
        >>> oz.save("one.zarr", np.arange(3))
        >>> oz.save("several.zarr", depth=np.arange(3), salt=np.ones(2))
        >>> list(oz.open("several.zarr"))
        ['depth', 'salt']
    """
    place: Any = {"path": path, "zarr_format": zarr_format, "storage_options": storage_options}
    options = {name: value for name, value in kwargs.items() if name in _OPTIONS}
    named = kwargs.keys() - options.keys()
    for name, value in {**place, **options}.items():
        wrong = name == "overwrite" and not isinstance(value, bool)
        if wrong or getattr(value, "shape", ()) != ():
            raise InvalidArgument(
                f"{name} is an option: give a tuple or number for that; to store an array of this"
                f" name, use omnizarr.create_group(store)[{name!r}] = values"
            )
    if len(args) == 1 and not named:
        create_array(store, data=as_source(args[0]), **place, **options)
        return
    arrays = {f"arr_{i}": a for i, a in enumerate(args)}
    for name in named & arrays.keys():
        raise InvalidArgument(f"{name} is the name of a positional array")
    arrays |= {k: v for k, v in kwargs.items() if k in named}
    if not arrays:
        raise InvalidArgument("give at least one array to save")
    for name, values in arrays.items():
        if values is None or np.isscalar(values):
            raise WrongType(f"{name}={values!r} is neither an array nor an option of create_array")
    parent = open(store, "a", kind="group", **place)
    for name, values in arrays.items():
        parent.create_array(name, data=as_source(values), **options)


def options_like(array: Array, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an array stored like another one, updated with `options`."""
    found = {n: getattr(array, n) for n in ("chunks", "shards", "fill_value", "dimension_names")}
    known = pipeline(array._model)
    codecs = {name: getattr(known, name) for name in ("filters", "serializer", "compressors")}
    return {**found, **codecs, **options}
