"""Selections of every kind, each with the NumPy index that means the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

import omnizarr as oz
from tests.indexing.test_selection import positions

Values = npt.NDArray[Any]
Shape = tuple[int, ...]


@dataclass
class Chosen:
    """A selection: where omnizarr is indexed by it, and NumPy's index and shape for it."""

    where: Callable[[oz.Array], Any]
    selection: Any
    index: Any
    shape: Shape
    lazy: bool = False  # it gives a view
    turned: bool = False  # the view is transposed

    def read(self, array: oz.Array) -> Any:
        """Return the elements of an array."""
        return self._view(array).read() if self.lazy else self.where(array)[self.selection]

    def write(self, array: oz.Array, values: Any) -> None:
        """Assign to the elements of an array."""
        if self.lazy:
            self._view(array)[...] = values
        else:
            self.where(array)[self.selection] = values

    def _view(self, array: oz.Array) -> Any:
        found = self.where(array)[self.selection]
        return found.T if self.turned else found

    def of(self, data: Values) -> Values:
        """Return the same elements of a NumPy array."""
        return np.asarray(data[self.index]).reshape(self.shape)

    def put(self, data: Values, values: Values) -> None:
        """Assign to the same elements of a NumPy array."""
        shaped = np.asarray(values).reshape(np.shape(data[self.index]))
        # NumPy would put a 0-dimensional array of objects into the element itself.
        data[self.index] = shaped if shaped.ndim else shaped[()]


def _basic(draw: st.DrawFn, array: oz.Array, unique: bool) -> Chosen:
    index = draw(basic_indices(array.shape, allow_newaxis=False))
    return Chosen(lambda a: a, index, index, _shape(array, index))


def _orthogonal(draw: st.DrawFn, array: oz.Array, unique: bool) -> Chosen:
    shape = array.shape
    items = tuple(draw(_along(n, unique)) for n in shape)
    index = np.ix_(*(positions(i, n) for i, n in zip(items, shape, strict=True)))
    lengths = zip(np.broadcast_shapes(*(x.shape for x in index)), items, strict=True)
    kept = tuple(n for n, item in lengths if not isinstance(item, int))
    if draw(st.booleans()):
        return Chosen(lambda a: a.view.oindex, items, index, kept, lazy=True)
    return Chosen(lambda a: a.oindex, items, index, kept)


def _along(length: int, unique: bool) -> st.SearchStrategy[Any]:
    """Return a strategy for an integer, slice, list or mask for one axis."""
    position = st.integers(-length, length - 1)
    once = (lambda i: i % length) if unique else None
    chosen = st.lists(position, max_size=5, unique_by=once).map(lambda i: np.array(i, int))
    masks = st.lists(st.booleans(), min_size=length, max_size=length)
    return st.one_of(
        st.slices(length), position, chosen, masks.map(lambda found: np.array(found, bool))
    )


def _points(draw: st.DrawFn, array: oz.Array, unique: bool) -> Chosen:
    shape = array.shape
    places = st.lists(st.integers(0, int(np.prod(shape)) - 1), max_size=6, unique=unique)
    flat = np.array(draw(places), int)
    below = draw(st.booleans())
    pairs = zip(np.unravel_index(flat, shape), shape, strict=True)
    index = tuple(i - n if below else i for i, n in pairs)
    return Chosen(lambda a: a.vindex, index, index, (len(flat),))


def _mask(draw: st.DrawFn, array: oz.Array, unique: bool) -> Chosen:
    mask = np.random.default_rng(draw(st.integers(0, 99))).random(array.shape) > 0.7
    where = draw(st.sampled_from([lambda a: a, lambda a: a.vindex]))
    return Chosen(where, mask, mask, (int(mask.sum()),))


def _blocks(draw: st.DrawFn, array: oz.Array, unique: bool) -> Chosen:
    items: list[Any] = []
    index = []
    for sizes in array.write_chunk_sizes:
        starts = [0, *np.cumsum(sizes).tolist()]
        first = draw(st.integers(0, len(sizes) - 1))
        last = draw(st.integers(first + 1, len(sizes)))
        items.append(first if last == first + 1 and draw(st.booleans()) else slice(first, last))
        index.append(slice(starts[first], starts[last]))
    found = tuple(index)
    return Chosen(lambda a: a.blocks, tuple(items), found, _shape(array, found))


def _view(draw: st.DrawFn, array: oz.Array, unique: bool) -> Chosen:
    """Return a view of a view, possibly transposed."""
    shape = array.shape
    first = draw(basic_indices(shape, allow_newaxis=False))
    second = draw(basic_indices(_shape(array, first), allow_newaxis=False))
    turned = draw(st.booleans())
    numbers = np.arange(int(np.prod(shape))).reshape(shape)[first][second]
    numbers = np.asarray(numbers.T if turned else numbers)
    index = np.unravel_index(numbers, shape) if shape else ()
    return Chosen(lambda a: a.view[first].view, second, index, numbers.shape, True, turned)


def _shape(array: oz.Array, index: Any) -> Shape:
    return np.shape(np.empty(array.shape, bool)[index])


@st.composite
def selections(draw: st.DrawFn, array: oz.Array, *, unique: bool) -> Chosen:
    """Draw a selection of an array; with `unique`, no element is selected twice."""
    some = 0 not in array.shape and bool(array.shape)
    of_some = [_orthogonal, _points, _mask, _blocks] if some else []
    return draw(st.sampled_from([_basic, _view, *of_some]))(draw, array, unique)
