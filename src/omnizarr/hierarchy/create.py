"""Opening and creating: the functions that most programs start with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt

from omnizarr import stores
from omnizarr.errors import InvalidMetadata, NodeExists, NodeNotFound
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group, make_group, open_node
from omnizarr.hierarchy.location import Location, existing_node, format_for, locate
from omnizarr.hierarchy.make import make_array
from omnizarr.hierarchy.options import ArrayOptions, check_separator
from omnizarr.model import paths
from omnizarr.stores import Store

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
_MODES = ("r", "r+", "a", "w", "w-")


def open(
    store: Any,
    mode: Mode = "r",
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    use_consolidated: bool | str | None = None,
) -> Array | Group:
    """The array or group at a path, in whatever format it is; nothing is created.

    `store` is a path, a URL, a dict or a store. Mode ``r`` (the default) reads, ``r+`` also
    writes. To create, use `create_array`, `create_group`, `open_array` or `open_group`.
    `use_consolidated` is as in `open_group`.
    """
    where, node_path = _place(store, path, mode)
    if mode not in ("r", "r+", "a"):
        raise InvalidMetadata(
            f"open() never creates: mode {mode!r} is for open_array and open_group"
        )
    location, node = locate(
        where,
        node_path,
        zarr_format=zarr_format,
        read_only=mode == "r",
        use_consolidated=use_consolidated,
    )
    return open_node(location, node)


def open_array(
    store: Any,
    mode: Mode = "r",
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    **options: Unpack[ArrayOptions],
) -> Array:
    """The array at a path; modes ``a``, ``w`` and ``w-`` create it from the other options.

    ``a`` opens or creates, ``w`` replaces what is there, ``w-`` fails if something is.
    Opening looks at one of them: `dimension_separator` is used where a version 2 document does
    not state it, for data that were written through a nested store.
    """
    where, node_path = _place(store, path, mode)
    if _should_open(where, node_path, mode):
        location, node = locate(
            where,
            node_path,
            zarr_format=zarr_format,
            read_only=mode == "r",
            separator=check_separator(options.get("dimension_separator")),
        )
        return Array.at(location, node)
    location = Location(where, node_path, format_for(where, node_path, zarr_format))
    return make_array(location, shape, dtype, None, mode == "w", options)


def open_group(
    store: Any,
    mode: Mode = "r",
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    attributes: dict[str, Any] | None = None,
    use_consolidated: bool | str | None = None,
) -> Group:
    """The group at a path; modes as in `open_array`.

    `use_consolidated`: True takes the nodes below from the group's copies of their documents,
    without a request, and fails where it has none; a string is another key for them than
    ``.zmetadata`` (version 2). An array's copy is compared with its own document when its data
    are first used. False never looks at copies. None uses them only to list where a store cannot.
    """
    where, node_path = _place(store, path, mode)
    if _should_open(where, node_path, mode):
        location, node = locate(
            where,
            node_path,
            zarr_format=zarr_format,
            read_only=mode == "r",
            use_consolidated=use_consolidated,
        )
        return Group.at(location, node)
    return create_group(
        where,
        path=node_path,
        zarr_format=zarr_format,
        attributes=attributes,
        overwrite=mode == "w",
    )


def create_array(
    store: Any = None,
    *,
    path: str | None = None,
    name: str | None = None,
    shape: int | Iterable[int] | None = None,
    dtype: Any = None,
    data: Any = None,
    zarr_format: int | str | None = None,
    overwrite: bool = False,
    **options: Unpack[ArrayOptions],
) -> Array:
    """A new array, in version 3 unless another format is asked for.

    `store` is a path, a URL, a dict, a store, or None for memory. An array or group that is
    already there is an error, unless `overwrite`. With `data` the array is filled, and shape
    and type may be left out. See `ArrayOptions` for the rest.
    """
    where = stores.resolve(store)
    node_path = paths.normalize(path if path is not None else name)
    location = Location(where, node_path, format_for(where, node_path, zarr_format))
    return make_array(location, shape, dtype, data, overwrite, options)


def create(shape: int | Iterable[int], *, store: Any = None, **options: Any) -> Array:
    """As `create_array`, with the shape first, as zarr-python 2 has it."""
    return create_array(store, shape=shape, **options)


def array(data: npt.ArrayLike, *, store: Any = None, **options: Any) -> Array:
    """A new array that holds `data`."""
    return create_array(
        store, data=np.asarray(data) if not hasattr(data, "shape") else data, **options
    )


def create_group(
    store: Any = None,
    *,
    path: str | None = None,
    zarr_format: int | str | None = None,
    attributes: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> Group:
    """A new group, in version 3 unless another format is asked for."""
    where = stores.resolve(store)
    node_path = paths.normalize(path)
    location = Location(where, node_path, format_for(where, node_path, zarr_format))
    return make_group(location, attributes, overwrite)


def group(
    store: Any = None,
    *,
    path: str | None = None,
    overwrite: bool = False,
    zarr_format: int | str | None = None,
    attributes: dict[str, Any] | None = None,
) -> Group:
    """The group at a path, created where it does not exist."""
    where = stores.resolve(store)
    node_path = paths.normalize(path)
    if not overwrite:
        try:
            location, node = locate(where, node_path, zarr_format=zarr_format)
            return Group.at(location, node)
        except NodeNotFound:
            pass
    return create_group(
        where,
        path=node_path,
        zarr_format=zarr_format,
        attributes=attributes,
        overwrite=overwrite,
    )


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


def _place(store: Any, path: str | None, mode: str) -> tuple[Store, str]:
    if mode not in _MODES:
        raise InvalidMetadata(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    return stores.resolve(store, read_only=mode == "r"), paths.normalize(path)


def _should_open(store: Store, path: str, mode: str) -> bool:
    """Whether a mode opens what is there, rather than creating."""
    if mode in ("r", "r+"):
        return True
    exists = existing_node(store, path) is not None
    if mode == "w-" and exists:
        raise NodeExists(f"there is already a node at {paths.show(path)} in {store!r}")
    return mode == "a" and exists


def zeros(shape: int | Iterable[int], *, store: Any = None, **options: Any) -> Array:
    """A new array of zeros."""
    return create_array(store, shape=shape, **options)


def empty(shape: int | Iterable[int], *, store: Any = None, **options: Any) -> Array:
    """A new array whose values do not matter; they are zeros."""
    return create_array(store, shape=shape, **options)


def ones(shape: int | Iterable[int], *, store: Any = None, **options: Any) -> Array:
    """A new array of ones."""
    return create_array(store, shape=shape, **{"fill_value": 1, **options})


def full(
    shape: int | Iterable[int], fill_value: Any, *, store: Any = None, **options: Any
) -> Array:
    """A new array of one value."""
    return create_array(store, shape=shape, fill_value=fill_value, **options)
