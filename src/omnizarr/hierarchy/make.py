"""New arrays, and arrays that must be there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from omnizarr.engine import BoundArray
from omnizarr.errors import WrongNode
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.options import ArrayOptions, array_model
from omnizarr.model import ArrayModel, Node


def make_array(
    location: Location,
    shape: Any,
    dtype: Any,
    data: Any,
    overwrite: bool,
    options: ArrayOptions,
) -> Array:
    """Create an array, and fill it where data are given."""
    if data is not None:
        data = (
            data if hasattr(data, "shape") and hasattr(data, "dtype") else np.asarray(data, dtype)
        )
        shape = data.shape if shape is None else shape
        dtype = data.dtype if dtype is None else dtype
    if shape is None:
        raise TypeError("give the shape of the new array, or data")
    model = array_model(location.format, shape, dtype, options)

    def check(read: Node) -> None:
        if isinstance(read, ArrayModel):
            bound = BoundArray(location.store, location.path, "", read)
            bound.check()
            bound.chain(bound.grid.regular or bound.grid.chunk_shape((0,) * len(bound.grid.axes)))
            _ = bound.encoding, bound.chunk_store

    array = Array.at(location, location.create(model, overwrite=overwrite, check=check))
    if data is not None:
        array[...] = data
    return array


def like(data: Any) -> dict[str, Any]:
    """The options of a new array with the shape and type of `data`, and its chunks and shards."""
    options = {"shape": data.shape, "dtype": data.dtype}
    for name in ("chunks", "shards"):
        value = getattr(data, name, None)
        if value is not None:
            options[name] = value
    return options


def check_required(node: Any, shape: int | Iterable[int], dtype: Any, exact: bool) -> None:
    """Raise where a node is not an array of that shape and type."""
    if not isinstance(node, Array):
        raise WrongNode(f"{node.name} is a group, not an array")
    wanted = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if node.shape != wanted:
        raise WrongNode(f"{node.name} has shape {node.shape}, not {wanted}")
    if dtype is None:
        return
    same = node.dtype == np.dtype(dtype)
    if not same and (exact or not np.can_cast(node.dtype, np.dtype(dtype))):
        raise WrongNode(f"{node.name} has type {node.dtype}, not {np.dtype(dtype)}")
