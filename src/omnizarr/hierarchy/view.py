"""``array.view[...]``: a part of an array that is selected now and read later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.data_types.data_type import as_elements, fill_masked
from omnizarr.engine import Missing
from omnizarr.errors import SelectionError
from omnizarr.hierarchy import selection as access
from omnizarr.hierarchy.info import card, size_text
from omnizarr.hierarchy.selection import Shaped
from omnizarr.indexing import Plan
from omnizarr.indexing.selection import AxisSelection, Selection, everything, means_points

if TYPE_CHECKING:
    from omnizarr.hierarchy.array import Array

registry.register("integration", "explain", "omnizarr.bulk.analysis.explain:explain")


class View(Shaped):
    """A part of an array that is read on demand.

    It has a shape and a type, and ``np.asarray`` converts it to an array. As with an array, square
    brackets read and assignments write; ``view.view[...]``, ``T`` and ``transpose`` give further
    views. However many views are combined, every chunk is read once.

    Args:
        array: The array.
        selection: The selected part.

    Examples:
        >>> a = oz.create_array(data=np.arange(12).reshape(3, 4))
        >>> v = a.view[1:].T
        >>> v.shape
        (4, 2)
        >>> v[0]
        array([4, 8])
    """

    def __init__(self, array: Array, selection: Selection) -> None:
        self.array = array
        self._selection = selection

    # Properties

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self._selection.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def axes(self) -> tuple[tuple[int, Any], ...] | None:
        """For each axis, the array's axis and the range or list of positions; None for points."""
        if not isinstance(self._selection, AxisSelection):
            return None
        return tuple((axis, self._selection.picks[axis]) for axis in self._selection.order)

    def chunk_keys(self) -> list[str]:
        """Return the keys of the chunks, or shards, that are needed to read the view.

        Examples:
            >>> oz.create_array(shape=10, chunks=2).view[3:5].chunk_keys()
            ['c/1', 'c/2']
        """
        bound = self.array._data
        rows = self._selection.plan(bound.grid).rows()
        keys = (bound.stored_key(row.coords) for row in rows)
        return list(dict.fromkeys(keys))

    def explain(
        self, *, sizes: bool = False, price_per_1000_requests: float = 0, price_per_gb: float = 0
    ) -> Any:
        """Return an `Explanation` of what reading the view costs, without reading a chunk.

        Args:
            sizes: True to ask for stored sizes and shard indexes instead of estimating them.
            price_per_1000_requests: The price of requests, in any currency.
            price_per_gb: The price of 10⁹ bytes that are fetched.

        Examples:
            >>> a = oz.create_array(shape=(100, 100), chunks=(10, 100), dtype="u1")
            >>> found = a.view[:, 0].explain()
            >>> found.requests, found.decoded_bytes, found.wanted_bytes
            (10, 10000, 100)
        """
        plan = self._selection.plan(self.array._data.grid)
        prices = price_per_1000_requests, price_per_gb
        return registry.lookup("integration", "explain")(self.array, plan, sizes, *prices)

    # Selecting further

    @property
    def view(self) -> Viewer:
        """Views of this view."""
        return Viewer(self.array, self._selection)

    def transpose(self, *axes: Any) -> View:
        """Return a view with the axes in the given order, or in reverse order; as in NumPy.

        Args:
            *axes: The axes in their new order, as numbers or as one sequence; nothing for the
                reverse order.

        Raises:
            SelectionError: If they are not the axes, each once.

        Examples:
            >>> oz.create_array(shape=(2, 3, 4)).view[...].transpose(2, 0, 1).shape
            (4, 2, 3)
        """
        one = len(axes) == 1 and isinstance(axes[0], (int, np.integer))
        wanted = axes if one or len(axes) != 1 else axes[0]
        is_reversed = wanted is None or not len(wanted)
        order = tuple(reversed(range(self.ndim))) if is_reversed else tuple(map(int, wanted))
        whole = tuple(axis + self.ndim if axis < 0 else axis for axis in order)
        if sorted(whole) != list(range(self.ndim)):
            raise SelectionError(
                f"axes {order} are not the {self.ndim} axes of the view, each once"
            )
        return View(self.array, self._selection.transpose(whole))

    @property
    def T(self) -> View:
        """The axes in reverse order."""
        return self.transpose()

    # Reading and writing

    def read(
        self,
        *,
        out: npt.NDArray[Any] | None = None,
        missing: Missing | None = None,
        filled: list[tuple[int, ...]] | None = None,
    ) -> Any:
        """Return the selected values as a NumPy array, or as a scalar if there are no axes.

        Args:
            out: An array to fill instead of a new one.
            missing: The treatment of missing chunks, as in `Array.read`.
            filled: A list to which the coordinates of filled chunks are appended.

        Raises:
            SelectionError: If `out` has another shape.
            ChunkError: If a chunk cannot be read or decoded.

        Examples:
            >>> oz.create_array(data=np.arange(6)).view[::2].read()
            array([0, 2, 4])
        """
        axes = self._selection.stored_order
        wanted = self.array._missing if missing is None else missing
        bound, selection = self.array._data, self._selection
        if out is not None:
            if out.shape != self.shape:
                raise SelectionError(f"out must have shape {self.shape}, got {out.shape}")
            if bound.data_type.masking is None:
                access.read(bound, _make_plan, selection, out.transpose(axes), wanted, filled)
            else:
                fill_masked(out, self.read(missing=missing, filled=filled))
            return out
        found = access.read(bound, _make_plan, selection, None, wanted, filled)
        return found.transpose(np.argsort(axes)) if axes else found

    def __getitem__(self, selection: Any) -> Any:
        return self.view[selection].read()

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.view[selection]._write(value)

    def _write(self, value: Any) -> None:
        self.array._check_writable()
        if self._selection.repeats:
            raise SelectionError("the view has an element of the array more than once")
        values = as_elements(value, self.array._bound.data_type, self.array.path)
        spread = access.broadcast(values, self.shape)
        transposed = spread.transpose(self._selection.stored_order)
        self.array._write(_make_plan, self._selection, transposed)

    def _values(self) -> npt.NDArray[Any]:
        return cast(npt.NDArray[Any], self.read(out=np.empty(self.shape, self.dtype)))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<View {self.shape} {self.dtype}  {size_text(self.nbytes)}  of {self.array!r}>"

    def _repr_html_(self) -> str:
        rows = {
            "shape": str(self.shape),
            "data type": str(self.dtype),
            "size in memory": size_text(self.nbytes),
            "array": repr(self.array).strip("<>"),
        }
        return card(f"{self.array.name} in {self.array.store!r}  ·  view", rows)


class Viewer:
    """Make views by square brackets, `oindex` and `vindex`, as an array is read."""

    def __init__(
        self, array: Array, selection: Selection | None = None, points: bool | None = None
    ) -> None:
        """`points` is what square brackets select; None if that depends on what is in them."""
        self._array = array
        self._selection = everything(array.shape) if selection is None else selection
        self._points = points

    def __getitem__(self, selection: Any) -> View:
        points = self._points
        if points is None:
            points = means_points(selection, len(self._selection.shape))
        choose = self._selection.points if points else self._selection.along
        return View(self._array, choose(selection))

    @property
    def oindex(self) -> Viewer:
        """Select with a list, mask, slice or integer for each axis separately."""
        return Viewer(self._array, self._selection, points=False)

    @property
    def vindex(self) -> Viewer:
        """Select single points by lists of positions, or by a mask of the whole shape."""
        return Viewer(self._array, self._selection, points=True)

    def __repr__(self) -> str:
        return f"<views of {self._array!r}; choose with [...], .oindex[...] or .vindex[...]>"


def _make_plan(grid: Any, selection: Any) -> Plan:
    return cast(Selection, selection).plan(grid)
