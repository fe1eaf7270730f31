"""Create arrays and groups, and save arrays.

Options are those of `create_array`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from omnizarr.errors import (
    InvalidArgument,
    NodeExists,
    NodeNotFound,
    WrongType,
)
from omnizarr.hierarchy.array import Array, options_like
from omnizarr.hierarchy.build import create_nodes, make_array
from omnizarr.hierarchy.group import Group, make_group, open_node
from omnizarr.hierarchy.info import Tree
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.lookup import find_node, format_for, resolve_store_path
from omnizarr.hierarchy.node import complete_hierarchy
from omnizarr.hierarchy.open import check_group_options, one_format
from omnizarr.hierarchy.options import (
    ZERO,
    ArrayOptions,
    CreateOptions,
    PlaceOptions,
    document_options,
)
from omnizarr.hierarchy.selection import S, as_source
from omnizarr.stores import Store

_OPTIONS = {*ArrayOptions.__annotations__, "overwrite"}
_SHAPES = {"chunks", "chunk_shape", "shards"}
# Options that may be lists; a list by the name of another option is an array.
_LISTS = _SHAPES | {
    *("fill_value", "codecs", "filters", "compressors", "dimension_names", "chunk_key_encoding"),
    *("fallback", "storage_transformers"),
}


@overload
def create_array(
    store: Any = None,
    *,
    shape: int | Iterable[int] | None = None,
    dtype: type[S] | np.dtype[S],
    data: Any = None,
    write_data: bool = True,
    **options: Unpack[PlaceOptions],
) -> Array[S]: ...
@overload
def create_array(
    store: Any = None,
    *,
    shape: int | Iterable[int] | None = None,
    dtype: None = None,
    data: npt.NDArray[S],
    write_data: bool = True,
    **options: Unpack[PlaceOptions],
) -> Array[S]: ...
@overload
def create_array(
    store: Any = None,
    *,
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    data: Any = None,
    write_data: bool = True,
    **options: Unpack[PlaceOptions],
) -> Array: ...
@document_options(ArrayOptions, explained=True)
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
    """Create an array, in version 3 unless it joins a hierarchy or `zarr_format` is given.

    It joins the hierarchy at the root of `store`. A path or URL that ends inside a hierarchy is a
    store of its own, in version 3 by default, which a hierarchy of another version does not list.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        path: The path of the node in the store; by default the root.
        name: Another name for `path`.
        shape: The length of every axis; a number for one axis.
        dtype: The type of the elements, as NumPy or Zarr name it.
        data: Values to store; shape and type may then be left out.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
        zarr_version: Another name for `zarr_format`.
        overwrite: True to replace an existing array or group, with all below it.
        write_data: False to use only the shape and type of `data`.
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
    wanted = one_format(zarr_format, zarr_version)
    location = new_location(store, path if path is not None else name, wanted, storage_options)
    return make_array(location, shape, dtype, data, overwrite, options, write_data)


def new_location(
    store: Any,
    path: str | None,
    zarr_format: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Location:
    """Return the location of a new node, in the given format or in that of its hierarchy."""
    resolved, node_path = resolve_store_path(store, path, "r+", storage_options)
    return Location(resolved, node_path, format_for(resolved, node_path, zarr_format))


@document_options(CreateOptions)
def create(
    shape: int | Iterable[int],
    *,
    store: Any = None,
    read_only: bool | None = None,
    **options: Unpack[CreateOptions],
) -> Array:
    """Create an array as `create_array` does, with the shape first; or return it read-only.

    Args:
        shape: The length of every axis; a number for one axis.
        store: A path, URL, dict, store or `StorePath`; None for memory.
        read_only: True to return the array read-only.
        **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

    Returns:
        The array.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.

    Examples:
        >>> oz.create((4, 6), chunks=(2, 3), dtype="i2").nchunks
        4
    """
    made = create_array(store, shape=shape, **options)
    return Array(made.store_path, read_only=True) if read_only else made


@overload
def array(
    data: npt.NDArray[S], *, store: Any = None, **options: Unpack[PlaceOptions]
) -> Array[S]: ...
@overload
def array(data: npt.ArrayLike, *, store: Any = None, **options: Unpack[CreateOptions]) -> Array: ...
@document_options(CreateOptions)
def array(data: npt.ArrayLike, *, store: Any = None, **options: Unpack[CreateOptions]) -> Array:
    """Create an array that holds `data`; options are those of `create_array`.

    Args:
        data: An array or nested sequences of values.
        store: A path, URL, dict, store or `StorePath`; None for memory.
        **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

    Returns:
        The array, for reading and writing.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.

    Examples:
        >>> a = oz.array([[1, 2], [3, 4]])
        >>> a[:, 1]
        array([2, 4])
    """
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
    """Create a group, in version 3 unless it joins a hierarchy or `zarr_format` is given.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        path: The path of the node in the store; by default the root.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
        attributes: User attributes of a new node.
        overwrite: True to replace an existing node.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The group, for reading and writing.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.

    Examples:
        >>> g = oz.create_group("run.zarr", attributes={"year": 2026})
        >>> g.attrs["year"]
        2026
    """
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
    """Return the group at a path, created if it does not exist.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        path: The path of the node in the store; by default the root.
        overwrite: True to replace an existing node by an empty group.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
        zarr_version: Another name for `zarr_format`.
        attributes: User attributes of a new node.
        storage_options: Options for the store of a URL, such as credentials.
        **unused: `cache_attrs` and `synchronizer` of zarr-python 2, which have no effect.

    Raises:
        WrongNode: If there is a node of the other kind.

    Examples:
        >>> oz.group("run.zarr").create_group("day1").name
        '/day1'
        >>> list(oz.group("run.zarr"))
        ['day1']
    """
    check_group_options(unused)
    zarr_format = one_format(zarr_format, zarr_version)
    resolved, node_path = resolve_store_path(store, path, "a", storage_options)
    found = None if overwrite else _group_at(resolved, node_path, zarr_format)
    if found is not None:
        return found
    try:
        return create_group(
            resolved,
            path=node_path,
            zarr_format=zarr_format,
            attributes=attributes,
            overwrite=overwrite,
        )
    except NodeExists:
        found = None if overwrite else _group_at(resolved, node_path, zarr_format)
        if found is None:
            raise
        return found  # another writer has just created it


def _group_at(store: Store, path: str, zarr_format: int | str | None) -> Group | None:
    try:
        return Group.at(*find_node(store, path, zarr_format=zarr_format))
    except NodeNotFound:
        return None


@overload
def empty(
    shape: int | Iterable[int],
    *,
    store: Any = None,
    dtype: type[S] | np.dtype[S],
    **options: Unpack[PlaceOptions],
) -> Array[S]: ...
@overload
def empty(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array: ...
@document_options(CreateOptions)
def empty(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """Create an array of arbitrary values; they are the default fill value.

    Args:
        shape: The length of every axis; a number for one axis.
        store: A path, URL, dict, store or `StorePath`; None for memory.
        **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

    Returns:
        The array, for reading and writing.

    Examples:
        >>> oz.empty((4, 6), chunks=(2, 3)).shape
        (4, 6)
    """
    return create_array(store, shape=shape, **options)


@overload
def zeros(
    shape: int | Iterable[int],
    *,
    store: Any = None,
    dtype: type[S] | np.dtype[S],
    **options: Unpack[PlaceOptions],
) -> Array[S]: ...
@overload
def zeros(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array: ...
@document_options(CreateOptions)
def zeros(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """Create an array of zeros.

    Args:
        shape: The length of every axis; a number for one axis.
        store: A path, URL, dict, store or `StorePath`; None for memory.
        **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

    Returns:
        The array, for reading and writing.

    Examples:
        >>> oz.zeros(3, dtype="i2")[...]
        array([0, 0, 0], dtype=int16)
    """
    given: Any = {"fill_value": ZERO, **options}
    return create_array(store, shape=shape, **given)


@overload
def ones(
    shape: int | Iterable[int],
    *,
    store: Any = None,
    dtype: type[S] | np.dtype[S],
    **options: Unpack[PlaceOptions],
) -> Array[S]: ...
@overload
def ones(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array: ...
@document_options(CreateOptions)
def ones(
    shape: int | Iterable[int], *, store: Any = None, **options: Unpack[CreateOptions]
) -> Array:
    """Create an array of ones.

    Args:
        shape: The length of every axis; a number for one axis.
        store: A path, URL, dict, store or `StorePath`; None for memory.
        **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

    Returns:
        The array, for reading and writing.

    Examples:
        >>> oz.ones(3, dtype="i2")[...]
        array([1, 1, 1], dtype=int16)
    """
    given: Any = {"fill_value": 1, **options}
    return create_array(store, shape=shape, **given)


@document_options(CreateOptions)
def full(
    shape: int | Iterable[int], fill_value: Any, *, store: Any = None, **options: Any
) -> Array:
    """Create an array of one value.

    Args:
        shape: The length of every axis; a number for one axis.
        fill_value: The value of all elements.
        store: A path, URL, dict, store or `StorePath`; None for memory.
        **options: Options of `create_array`, such as `chunks`, `shards` and `compressors`.

    Returns:
        The array, for reading and writing.

    Examples:
        >>> oz.full(3, 7, dtype="i2")[...]
        array([7, 7, 7], dtype=int16)
    """
    return create_array(store, shape=shape, fill_value=fill_value, **options)


@document_options(CreateOptions)
def empty_like(a: Any, **options: Any) -> Array:
    """Create an array with the shape, type and chunks of another, of arbitrary values.

    Args:
        a: An array of this library, of NumPy or of another library.
        **options: Options of `create_array` that differ, and `store`.

    Returns:
        The array, for reading and writing.

    Examples:
        >>> oz.empty_like(oz.zeros((4, 6), chunks=(2, 3))).chunks
        (2, 3)
    """
    return empty(**options_like(a, options))


@document_options(CreateOptions)
def zeros_like(a: Any, **options: Any) -> Array:
    """Create an array of zeros with the shape, type and chunks of another.

    Args:
        a: An array of this library, of NumPy or of another library.
        **options: Options of `create_array` that differ, and `store`.

    Returns:
        The array, for reading and writing.

    Examples:
        >>> oz.zeros_like(np.ones(3))[...]
        array([0., 0., 0.])
    """
    return zeros(**options_like(a, {"fill_value": ZERO, **options}))


@document_options(CreateOptions)
def ones_like(a: Any, **options: Any) -> Array:
    """Create an array of ones with the shape, type and chunks of another.

    Args:
        a: An array of this library, of NumPy or of another library.
        **options: Options of `create_array` that differ, and `store`.

    Returns:
        The array, for reading and writing.

    Examples:
        >>> oz.ones_like(np.zeros(3))[...]
        array([1., 1., 1.])
    """
    return ones(**options_like(a, {"fill_value": 1, **options}))


@document_options(CreateOptions)
def full_like(a: Any, fill_value: Any = None, **options: Any) -> Array:
    """Create an array of one value with the shape, type and chunks of another.

    Args:
        a: An array of this library, of NumPy or of another library.
        fill_value: The value of all elements; by default the fill value of `a`.
        **options: Options of `create_array` that differ, and `store`.

    Returns:
        The array, for reading and writing.

    Raises:
        TypeError: If `a` has no fill value and none is given.

    Examples:
        >>> oz.full_like(np.zeros(3), 7)[...]
        array([7., 7., 7.])
    """
    given = options if fill_value is None else {"fill_value": fill_value, **options}
    found = options_like(a, given)
    if "fill_value" not in found:
        raise TypeError(f"{type(a).__name__} has no fill value; give fill_value")
    return full(**found)


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

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.
        InvalidArgument: If a description is not valid, or the formats differ.

    Examples:
        >>> like = oz.zeros((4, 6)).metadata
        >>> nodes = oz.create_hierarchy(store="run.zarr", nodes={"day1/a": like, "day2/a": like})
        >>> sorted(path for path, node in nodes)
        ['', 'day1', 'day1/a', 'day2', 'day2/a']
    """
    resolved, node_path = resolve_store_path(store, storage_options=storage_options)
    wanted, version = complete_hierarchy(nodes)
    start = Location(resolved, node_path, format_for(resolved, node_path, version))
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
    """Create an empty version 1 array in a store, as zarr-python 1 did.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        shape: The length of every axis; a number for one axis.
        dtype: The type of the elements, as NumPy or Zarr name it.
        compression: The name of a compressor, or None.
        compression_opts: Its level, or a dictionary of its options.
        overwrite: True to replace an existing node.
        **options: Further options of `create_array`.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.

    Examples:
        >>> oz.init_store("old.zarr", (4, 6), dtype="i2", compression="zlib", compression_opts=1)
        >>> oz.open("old.zarr").zarr_format
        1
    """
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
    """Show all nodes below a group as indented text, down to a level; see `Group.tree`.

    Args:
        grp: The group.
        expand: False to fold all groups, in notebooks.
        level: The depth to show; by default all of it.

    Returns:
        An object that shows itself.

    Examples:
        >>> oz.save("run.zarr", a=np.arange(3), b=np.ones(2))
        >>> oz.tree(oz.open("run.zarr"))
        /
        ├── a (3,) int64 ...
        └── b (2,) float64 ...
    """
    return grp.tree(expand, level)


def save(
    store: Any,
    *args: npt.ArrayLike,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store one array, or several in a group: ``arr_0``, ``arr_1``, … and those given by name.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        *args: Arrays: one, or several that are named by position.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
        zarr_version: Another name for `zarr_format`.
        path: The path of the array or group in the store; by default the root.
        storage_options: Options for the store of a URL, such as credentials.
        **kwargs: Arrays by name, and options of `create_array`, which are used for all of them.

    Raises:
        InvalidArgument: If there is no array to store, or one is named like an option.

    Examples:
        >>> oz.save("one.zarr", np.arange(3))
        >>> oz.save("several.zarr", depth=np.arange(3), salt=np.ones(2))
        >>> list(oz.open("several.zarr"))
        ['depth', 'salt']
    """
    wanted = zarr_version if zarr_format is None else zarr_format
    if not args and not kwargs:
        raise InvalidArgument("give at least one array to save")
    _check_places(zarr_format=wanted, path=path, storage_options=storage_options)
    if len(args) == 1 and not _named_arrays(kwargs):
        save_array(
            store,
            args[0],
            zarr_format=wanted,
            path=path,
            storage_options=storage_options,
            **kwargs,
        )
    else:
        save_group(
            store,
            *args,
            zarr_format=wanted,
            path=path,
            storage_options=storage_options,
            **kwargs,
        )


def save_array(
    store: Any,
    arr: npt.ArrayLike,
    *,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store one array; options are those of `create_array`.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        arr: The values.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
        zarr_version: Another name for `zarr_format`.
        path: The path of the node in the store; by default the root.
        storage_options: Options for the store of a URL, such as credentials.
        **kwargs: Options of `create_array`.

    Examples:
        >>> oz.save_array("one.zarr", np.arange(6), chunks=3)
        >>> oz.open("one.zarr").nchunks
        2
    """
    create_array(
        store,
        path=path,
        data=as_source(arr),
        zarr_format=zarr_format,
        zarr_version=zarr_version,
        storage_options=storage_options,
        **kwargs,
    )


def save_group(
    store: Any,
    *args: npt.ArrayLike,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store several arrays in a group: ``arr_0``, ``arr_1``, … and those given by name.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        *args: Arrays that are named by position.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
        zarr_version: Another name for `zarr_format`.
        path: The path of the group in the store; by default the root.
        storage_options: Options for the store of a URL, such as credentials.
        **kwargs: Arrays by name, and options of `create_array`, which are used for all of them.

    Raises:
        InvalidArgument: If there is no array to store, or one is named like an option.
        WrongType: If an option is neither an array nor an option of `create_array`.

    Examples:
        >>> oz.save_group("run.zarr", np.arange(3), salt=np.ones(4), chunks=2)
        >>> oz.open("run.zarr")["salt"].chunks
        (2,)
    """
    _check_places(zarr_format=zarr_format, path=path, storage_options=storage_options)
    named = _named_arrays(kwargs)
    options = {k: v for k, v in kwargs.items() if k not in named}
    arrays = {f"arr_{i}": a for i, a in enumerate(args)}
    for name in named & arrays.keys():
        raise InvalidArgument(f"{name} is the name of an array that is given by position")
    arrays |= {k: v for k, v in kwargs.items() if k in named}
    if not arrays:
        raise InvalidArgument("give at least one array to save")
    for name, values in arrays.items():
        if values is None or np.isscalar(values):
            raise WrongType(f"{name}={values!r} is neither an array nor an option of create_array")
    parent = group(
        store,
        path=path,
        zarr_format=zarr_format,
        zarr_version=zarr_version,
        storage_options=storage_options,
    )
    for name, values in arrays.items():
        parent.create_array(name, data=as_source(values), **options)


def _named_arrays(given: Mapping[str, Any]) -> set[str]:
    """Return the names of arrays among keywords; raise if one may also be an option."""
    found = set()
    for name, value in given.items():
        if name not in _OPTIONS:
            found.add(name)
        elif name in _SHAPES and _is_array(value) and value.ndim == 1 and value.dtype.kind in "iu":
            raise _ambiguous(name)
        elif _is_array(value) or (isinstance(value, (list, tuple)) and name not in _LISTS):
            found.add(name)
    return found


def _check_places(**given: Any) -> None:
    for name, value in given.items():
        if _is_array(value):
            raise _ambiguous(name)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and value.shape != ()


def _ambiguous(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name} is an option: give a tuple or number for that; to store an array of this name, use"
        f" omnizarr.create_group(store)[{name!r}] = values"
    )
