"""Functions of earlier versions of zarr-python that programs still call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnizarr.hierarchy.create import create_array
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.tree import Tree


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
