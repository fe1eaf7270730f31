"""Arrays to disk and back in one call, as NumPy's save and load do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidMetadata, WrongType
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.create import create_array, group, open
from omnizarr.hierarchy.options import ArrayOptions
from omnizarr.hierarchy.selection import as_source

_OPTIONS = {*ArrayOptions.__annotations__, "overwrite"}


def save(
    store: Any,
    *args: npt.ArrayLike,
    zarr_format: int | str | None = None,
    zarr_version: int | str | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store one array, or several in a group: ``arr_0``, ``arr_1``, … and those given by name."""
    wanted = zarr_version if zarr_format is None else zarr_format
    if not args and not kwargs:
        raise InvalidMetadata("give at least one array to save")
    named = kwargs.keys() - _OPTIONS
    if len(args) == 1 and not named:
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
    """Store one array; options are those of `create_array`."""
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

    A keyword that is an option of `create_array` is used for all of them.
    """
    options = {k: v for k, v in kwargs.items() if k in _OPTIONS}
    arrays = {f"arr_{i}": a for i, a in enumerate(args)}
    arrays |= {k: v for k, v in kwargs.items() if k not in _OPTIONS}
    if not arrays:
        raise InvalidMetadata("give at least one array to save")
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
