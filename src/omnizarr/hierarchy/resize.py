"""Changing the shape of an array: what happens to chunks that fall outside, or come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import engine
from omnizarr.chunk_grids import covering
from omnizarr.engine import BoundArray
from omnizarr.errors import InvalidMetadata, SelectionError, warn
from omnizarr.hierarchy.chunking import inner_chunks
from omnizarr.model import ArrayModel, paths
from omnizarr.stores import can_list, list_prefix


def resize(array: BoundArray, shape: tuple[int, ...], outside: str) -> ArrayModel:
    """The model with the new shape, after dealing with chunks outside the smaller of the two."""
    model = _checked(array, shape, outside)
    old = array.model.shape
    inner = within(old, shape)
    if inner == old == shape and outside == "keep":
        return model
    left = _outside(array, inner)
    if outside == "erase":
        array.check_skipped()
        with engine.exclusive(array, left.values()):
            for key in left.values():
                array.chunk_store.erase(key)
        _clear_border(array, inner)
    elif left:
        grows = any(b > a for a, b in zip(old, shape, strict=True))
        what = "show again" if grows else "are kept, but not shown"
        warn(
            f"{len(left)} chunks outside {inner} of {paths.show(array.path)} {what};"
            " resize(..., outside='erase') removes them",
        )
    return model


def with_shape(model: ArrayModel, shape: tuple[int, ...]) -> ArrayModel:
    """Return the model of an array with another shape, and with chunks for all of it."""
    grid = covering(model.chunk_grid, shape, inner_chunks(model))
    return model.with_(shape=shape, chunk_grid=grid)


def shrunk(array: BoundArray, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without what is outside a new one, to be stored before that is erased."""
    _checked(array, shape, "erase")
    array.check_skipped()
    return within(array.model.shape, shape)


def within(old: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """What two shapes have in common."""
    return tuple(min(a, b) for a, b in zip(old, shape, strict=True))


def _checked(array: BoundArray, shape: tuple[int, ...], outside: str) -> ArrayModel:
    """The model with the new shape; raises where that cannot be."""
    if outside not in ("keep", "erase"):
        raise InvalidMetadata(f"outside must be 'keep' or 'erase', got {outside!r}")
    old = array.model.shape
    if len(shape) != len(old) or any(n < 0 for n in shape):
        raise InvalidMetadata(
            f"cannot resize {old} to {shape}: expected {len(old)} lengths of at least 0"
        )
    model = with_shape(array.model, shape)
    array.reshaped(model).check()  # a grid of another package may not cover the new shape
    return model


def grown(
    array: BoundArray, values: npt.NDArray[Any], axis: int
) -> tuple[BoundArray, tuple[slice, ...]]:
    """The array with room for `values` at the end of an axis, and where that room is."""
    shape, rank = array.model.shape, len(array.model.shape)
    number = axis + rank if axis < 0 else axis
    rest = [n for i, n in enumerate(values.shape) if i != number]
    inside = 0 <= number < rank == values.ndim
    if not inside or rest != [n for i, n in enumerate(shape) if i != number]:
        raise SelectionError(
            f"cannot append values of shape {values.shape} to {shape} along axis {axis}"
        )
    lengths = list(shape)
    lengths[number] += values.shape[number]
    larger = array.reshaped(with_shape(array.model, tuple(lengths)))
    return larger, (slice(None),) * number + (slice(shape[number], None),)


def _outside(array: BoundArray, inner: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    """Stored chunks with no element inside a shape."""
    if not can_list(array.store):
        return {}
    small = array.reshaped(array.model.with_(shape=inner))
    counts = small.grid.shape
    found = {}
    for key in list_prefix(array.chunk_store, array.prefix):
        coords = array.encoding.coords(key[len(array.prefix) :], len(inner))
        if coords is not None and any(c >= n for c, n in zip(coords, counts, strict=True)):
            found[coords] = key
    return found


def _clear_border(array: BoundArray, inner: tuple[int, ...]) -> None:
    """Put the fill value into those parts of border chunks that lie outside a shape."""
    small = array.reshaped(array.model.with_(shape=inner))
    if 0 in inner:
        return
    prefix = array.prefix
    for key in list(list_prefix(array.chunk_store, prefix)):
        coords = array.encoding.coords(key[len(prefix) :], len(inner))
        counts = small.grid.shape
        if coords is None or any(c >= n for c, n in zip(coords, counts, strict=True)):
            continue
        shape, origin = small.grid.chunk_shape(coords), small.grid.origin(coords)
        inside = tuple(min(n, i - o) for n, i, o in zip(shape, inner, origin, strict=True))
        if inside == shape:
            continue
        with engine.exclusive(small, [key]):
            chunk = engine.read_chunk(small, coords)
            if chunk is None:
                continue
            cleared = np.empty_like(chunk)
            cleared[...] = small.fill
            kept: Any = (*(slice(n) for n in inside), ...)
            cleared[kept] = chunk[kept]
            engine.write_chunk(small, coords, cleared)
