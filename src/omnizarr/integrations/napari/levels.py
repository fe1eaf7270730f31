"""What napari takes for arrays: part of a level, and the fields of a plate side by side.

Both give NumPy arrays of what is being looked at. Decoded chunks are kept for a while, since a
slider comes by the same ones again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.errors import SelectionError
from omnizarr.hierarchy.selection import Shaped
from omnizarr.hierarchy.view import View

Values = npt.NDArray[Any]
Box = tuple[slice, ...]
Tile = Callable[[int, int], View | None]  # what lies at a row and column of a mosaic
KEPT = config.ByteBudget(min(2**28, (config.memory() or 2**32) // 16))


class Shown(Shaped):
    """A shape and a type, and a function that reads what square brackets select."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], read: Callable[[Any], Values]
    ) -> None:
        self._shape = shape
        self.dtype = dtype
        self._read = read

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self._shape

    def __getitem__(self, selection: Any) -> Values:
        with config.configure(chunk_cache=KEPT):
            return self._read(selection)

    def _values(self) -> Values:
        return np.asarray(self[...])


def part(view: View) -> Shown:
    """Part of one array."""
    return Shown(view.shape, view.dtype, view.__getitem__)


def mosaic(tile: Tile, first: View, rows: int, columns: int) -> Shown:
    """Tiles of one shape, that of `first`, along the last two axes; zeros where there is none."""
    *others, height, width = first.shape
    shape = (*others, rows * height, columns * width)
    return Shown(shape, first.dtype, partial(_read_mosaic, tile, first, shape))


def _read_mosaic(tile: Tile, first: View, shape: tuple[int, ...], selection: Any) -> Values:
    box, rest = _whole(selection, shape)
    out = np.zeros([s.stop - s.start for s in box], first.dtype)
    height, width = first.shape[-2:]
    for row, y, to_y in _cuts(box[-2], height):
        for column, x, to_x in _cuts(box[-1], width):
            view = tile(row, column)
            if view is None:
                continue
            if view.shape != first.shape:
                raise SelectionError(
                    f"{view.array.name} has shape {view.shape}, but {first.array.name} has"
                    f" {first.shape}: they do not fit side by side; open its well instead"
                )
            out[..., to_y, to_x] = view[(*box[:-2], y, x)]
    return np.asarray(out[rest])


def _cuts(along: slice, length: int) -> Iterator[tuple[int, slice, slice]]:
    """Of each tile along an axis its number, the part that is wanted, and where that goes."""
    for number in range(along.start // length, -(-along.stop // length)):
        start = max(along.start, number * length)
        stop = min(along.stop, (number + 1) * length)
        inside = slice(start - number * length, stop - number * length)
        yield number, inside, slice(start - along.start, stop - along.start)


def _whole(selection: Any, shape: tuple[int, ...]) -> tuple[Box, tuple[Any, ...]]:
    """The smallest box around a selection, and what selects the same from that box."""
    given = selection if isinstance(selection, tuple) else (selection,)
    at = next((i for i, s in enumerate(given) if s is Ellipsis), len(given))
    after = given[at + 1 :]
    middle = (slice(None),) * (len(shape) - at - len(after))
    box: list[slice] = []
    rest: list[Any] = []
    for each, n in zip((*given[:at], *middle, *after), shape, strict=True):
        if isinstance(each, slice):
            chosen = range(n)[each]
        else:
            index = range(n)[int(each)]
            chosen = range(index, index + 1)
        low, high = (min(chosen), max(chosen) + 1) if chosen else (0, 0)
        box.append(slice(low, high))
        rest.append(slice(None, None, chosen.step) if isinstance(each, slice) else 0)
    return tuple(box), tuple(rest)
