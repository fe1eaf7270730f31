"""Selections of every kind, each with the NumPy index that means the same.

A `Chosen` knows how an `oz.Array` is read and written by it, and which index of a NumPy array
means the same elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

import omnizarr as oz

Values = npt.NDArray[Any]
KINDS = ("basic", "orthogonal", "points", "mask", "blocks", "view")


@dataclass
class Chosen:
    """A selection: its use with omnizarr, and NumPy's index and shape for it."""

    kind: str
    selection: Any
    index: Any
    shape: tuple[int, ...]
    read: Callable[[oz.Array], Any]
    write: Callable[[oz.Array, Any], None]

    def of(self, data: Values) -> Values:
        """Return the same elements of a NumPy array."""
        return np.asarray(data[self.index]).reshape(self.shape)

    def put(self, data: Values, values: Values) -> None:
        """Assign to the same elements of a NumPy array."""
        index: Any = self.index
        target = data[index]
        shaped = np.asarray(values).reshape(np.shape(target))
        # NumPy would put a 0-dimensional array of objects into the element itself.
        data[index] = shaped if shaped.ndim else shaped[()]

    def __repr__(self) -> str:
        return f"<{self.kind} {self.selection!r}>"


@st.composite
def selections(draw: st.DrawFn, array: oz.Array, *, unique: bool) -> Chosen:
    """Draw a selection of an array; with `unique`, no element is selected twice."""
    shape = array.shape
    some = 0 not in shape and bool(shape)
    kind = draw(st.sampled_from(KINDS if some else ("basic", "view")))
    return _MAKE[kind](draw, array, shape, unique)


def _basic(draw: st.DrawFn, array: oz.Array, shape: tuple[int, ...], unique: bool) -> Chosen:
    index = draw(basic_indices(shape, allow_newaxis=False))
    way = draw(st.sampled_from(["brackets", "method"]))
    if way == "brackets":
        return _made("basic", index, index, shape, lambda a: a[index], _setter(index))
    return _made(
        "basic", index, index, shape,
        lambda a: a.read(index),
        lambda a, v: a.__setitem__(index, v),
    )  # fmt: skip


def _orthogonal(draw: st.DrawFn, array: oz.Array, shape: tuple[int, ...], unique: bool) -> Chosen:
    items = tuple(draw(_along(n, unique)) for n in shape)
    index = np.ix_(*(_positions(i, n) for i, n in zip(items, shape, strict=True)))
    kept = tuple(
        n
        for n, i in zip(np.broadcast_shapes(*(x.shape for x in index)), items, strict=True)
        if not isinstance(i, int)
    )
    way = draw(st.sampled_from(["oindex", "method", "view"]))
    if way == "oindex":
        read, write = (lambda a: a.oindex[items]), _oindex_setter(items)
    elif way == "method":
        read, write = (
            lambda a: a.oindex[items],
            lambda a, v: a.oindex.__setitem__(items, v),
        )
    else:
        read, write = (lambda a: a.view.oindex[items].read()), _view_setter(items)
    return Chosen("orthogonal", items, index, kept, read, write)


def _along(length: int, unique: bool) -> st.SearchStrategy[Any]:
    """Return a strategy for an integer, slice, list or mask for one axis."""
    position = st.integers(-length, length - 1)
    chosen = st.lists(
        position, max_size=5, unique_by=(lambda i: i % length) if unique else None
    ).map(lambda found: np.array(found, int))
    masks = st.lists(st.booleans(), min_size=length, max_size=length).map(
        lambda found: np.array(found, bool)
    )
    return st.one_of(st.slices(length), position, chosen, masks)


def _positions(item: Any, length: int) -> npt.NDArray[np.intp]:
    if isinstance(item, slice):
        return np.arange(length)[item]
    found = np.atleast_1d(np.asarray(item))
    return np.flatnonzero(found) if found.dtype == bool else found.astype(np.intp)


def _points(draw: st.DrawFn, array: oz.Array, shape: tuple[int, ...], unique: bool) -> Chosen:
    size = int(np.prod(shape))
    flat = np.array(draw(st.lists(st.integers(0, size - 1), max_size=6, unique=unique)), int)
    below = draw(st.booleans())
    index = tuple(
        i - n if below else i for i, n in zip(np.unravel_index(flat, shape), shape, strict=True)
    )
    if draw(st.booleans()):
        read, write = (lambda a: a.vindex[index]), _vindex_setter(index)
    else:
        read, write = (
            lambda a: a.vindex[index],
            lambda a, v: a.vindex.__setitem__(index, v),
        )
    return Chosen("points", index, index, (len(flat),), read, write)


def _mask(draw: st.DrawFn, array: oz.Array, shape: tuple[int, ...], unique: bool) -> Chosen:
    mask = np.random.default_rng(draw(st.integers(0, 99))).random(shape) > 0.7
    way = draw(st.sampled_from(["brackets", "vindex", "method"]))
    read, write = {
        "brackets": (lambda a: a[mask], _setter(mask)),
        "vindex": (lambda a: a.vindex[mask], _vindex_setter(mask)),
        "method": (
            lambda a: a.vindex[mask],
            lambda a, v: a.vindex.__setitem__(mask, v),
        ),
    }[way]
    return Chosen("mask", mask, mask, (int(mask.sum()),), read, write)


def _blocks(draw: st.DrawFn, array: oz.Array, shape: tuple[int, ...], unique: bool) -> Chosen:
    items: list[Any] = []
    index = []
    for sizes in array.write_chunk_sizes:
        starts = [0, *np.cumsum(sizes).tolist()]
        first = draw(st.integers(0, len(sizes) - 1))
        last = draw(st.integers(first + 1, len(sizes)))
        items.append(first if last == first + 1 and draw(st.booleans()) else slice(first, last))
        index.append(slice(starts[first], starts[last]))
    chosen = tuple(items)
    return _made(
        "blocks", chosen, tuple(index), shape,
        lambda a: a.blocks[chosen],
        lambda a, v: a.blocks.__setitem__(chosen, v),
    )  # fmt: skip


def _view(draw: st.DrawFn, array: oz.Array, shape: tuple[int, ...], unique: bool) -> Chosen:
    """Return a view of a view, possibly reversed."""
    first = draw(basic_indices(shape, allow_newaxis=False))
    inner = np.shape(np.empty(shape, bool)[first])
    second = draw(basic_indices(inner, allow_newaxis=False))
    turned = draw(st.booleans())
    numbers = np.arange(int(np.prod(shape))).reshape(shape)[first][second]
    numbers = np.asarray(numbers.T if turned else numbers)
    index = np.unravel_index(numbers, shape) if shape else ()

    def chosen(a: oz.Array) -> Any:
        found = a.view[first].view[second]
        return found.T if turned else found

    def write(a: oz.Array, values: Any) -> None:
        chosen(a)[...] = values

    return Chosen(
        "view", (first, second, turned), index, numbers.shape, lambda a: chosen(a).read(), write
    )


def _made(
    kind: str,
    selection: Any,
    index: Any,
    shape: tuple[int, ...],
    read: Callable[[oz.Array], Any],
    write: Callable[[oz.Array, Any], None],
) -> Chosen:
    return Chosen(kind, selection, index, np.shape(np.empty(shape, bool)[index]), read, write)


def _setter(selection: Any) -> Callable[[oz.Array, Any], None]:
    return lambda a, v: a.__setitem__(selection, v)


def _oindex_setter(selection: Any) -> Callable[[oz.Array, Any], None]:
    return lambda a, v: a.oindex.__setitem__(selection, v)


def _vindex_setter(selection: Any) -> Callable[[oz.Array, Any], None]:
    return lambda a, v: a.vindex.__setitem__(selection, v)


def _view_setter(selection: Any) -> Callable[[oz.Array, Any], None]:
    return lambda a, v: a.view.oindex[selection].__setitem__(..., v)


_MAKE = {
    "basic": _basic,
    "orthogonal": _orthogonal,
    "points": _points,
    "mask": _mask,
    "blocks": _blocks,
    "view": _view,
}
