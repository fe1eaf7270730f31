"""Array: what users hold of a Zarr array."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from omnizarr import engine
from omnizarr.config import byte_size
from omnizarr.engine import BoundArray
from omnizarr.errors import OmnizarrWarning, WrongNode
from omnizarr.hierarchy import access, render
from omnizarr.hierarchy.chunking import inner_chunks
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.node import NodeHandle
from omnizarr.hierarchy.resize import grown, resize
from omnizarr.hierarchy.view import Viewer
from omnizarr.hierarchy.writer import Writer
from omnizarr.indexing import axis_plan, block_plan, plan, point_plan
from omnizarr.model import ArrayModel, Named, Node
from omnizarr.stores import list_prefix
from omnizarr.stores.turns import DOCUMENTS, turn


class Array(NodeHandle[ArrayModel]):
    """An N-dimensional array of chunks in a store.

    Slicing reads, assigning writes. ``Array(store, path)`` opens an existing one; usually
    `omnizarr.open` and `omnizarr.create_array` are handier.
    """

    def _open(self, location: Location, model: Node) -> None:
        if not isinstance(model, ArrayModel):
            raise WrongNode(f"{location} is a group, not an array; use open_group")
        prefix = location.format.chunk_prefix(location.path)
        bound = BoundArray(location.store, location.path, prefix, model)
        bound.check()
        self._location, self._model, self._bound = location, model, bound

    def _tell(self) -> None:
        for name in self._bound.skipped:
            warnings.warn(
                f"{self._location}: {name!r} is unknown here and is skipped, as the document"
                " allows; nothing can be written",
                OmnizarrWarning,
                stacklevel=5,
            )

    @property
    def _data(self) -> BoundArray:
        """What reads and writes go through; by then a copied document was compared with its own."""
        if self._copied:
            copy = self._model
            self.refresh()
            if copy != self._model:
                warnings.warn(
                    f"the consolidated metadata of {self._location} are out of date; its own"
                    " document is used. Call consolidate_metadata again",
                    OmnizarrWarning,
                    stacklevel=4,
                )
        return self._bound

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self._model.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return self._bound.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.itemsize

    @property
    def fill_value(self) -> Any:
        """What elements without a chunk read as; None where the document leaves it undefined."""
        return self._bound.fill[()] if self._bound.fill_defined else None

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The shape of a chunk; for a rectilinear grid the lengths along each axis.

        Of a sharded array, the shape of the chunks inside its shards.
        """
        grid = self._bound.grid
        inner = inner_chunks(self._model)
        if inner is not None:
            return inner
        if grid.regular is not None:
            return grid.regular
        return tuple(tuple(a.size(k) for k in range(a.count)) for a in grid.axes)

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of a shard, or None where chunks are stored one by one."""
        return None if inner_chunks(self._model) is None else self._bound.grid.regular

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """The number of chunks along each axis."""
        return self._bound.grid.shape

    @property
    def nchunks(self) -> int:
        """The number of chunks of the grid, stored or not."""
        return self._bound.grid.count

    @property
    def codecs(self) -> tuple[Named, ...]:
        """The codecs by name, in the order of encoding."""
        return self._model.codecs

    @property
    def order(self) -> str:
        """``"F"`` where chunks are stored with reversed axes, else ``"C"``."""
        first = self.codecs[0] if self.codecs else Named("")
        axes = list(reversed(range(self.ndim)))
        return "F" if first.name == "transpose" and first.configuration["order"] == axes else "C"

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The name of each axis, or None where none are known."""
        return self._model.dimension_names

    # Reading and writing

    def __getitem__(self, selection: Any) -> Any:
        return self.read(selection)

    def read(self, selection: Any = ..., *, out: npt.NDArray[Any] | None = None) -> Any:
        """The selected elements as a NumPy array, or a scalar where every index is a number.

        `out` is filled instead of a new array where it is given.
        """
        return access.read(self._data, plan, selection, out)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self._location.check_writable()
        access.write(self._data, plan, selection, value)

    def _selector(self, planner: access.Planner) -> access.Selector:
        return access.Selector(lambda: self._data, self._location.check_writable, planner)

    @property
    def oindex(self) -> access.Selector:
        """Selects with a list, mask, slice or integer for each axis on its own."""
        return self._selector(axis_plan)

    @property
    def vindex(self) -> access.Selector:
        """Selects single points by lists of positions, or by a mask of the whole shape."""
        return self._selector(point_plan)

    @property
    def blocks(self) -> access.Selector:
        """Selects whole chunks by their place in the grid."""
        return self._selector(block_plan)

    @property
    def view(self) -> Viewer:
        """Parts that are chosen now and read later: ``array.view[::2].transpose(2, 0, 1)``."""
        return Viewer(self)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a stored array cannot be seen without a copy")
        out = np.asarray(self.read())
        return out if dtype is None else out.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def writer(self, budget: int | str = "512MiB") -> Writer:
        """Assignments that are stored once for every chunk or shard they complete.

        >>> with array.writer() as w:
        ...     for z, plane in enumerate(planes):
        ...         w[z] = plane

        `budget` bounds the bytes that wait in memory; when it is used up, chunks that are not
        complete are stored as they are.
        """
        self._location.check_writable()
        return Writer(engine.Stream(self._data, byte_size(budget, "budget")))

    # Chunks

    def chunk_key(self, coords: Iterable[int]) -> str:
        """The key in the store of one chunk."""
        return self._bound.key(tuple(coords))

    def chunks_present(self) -> npt.NDArray[np.bool_]:
        """For every chunk of the grid, whether the store has it."""
        found = np.zeros(self.cdata_shape, bool)
        prefix = self._bound.prefix
        for key in list_prefix(self._bound.chunk_store, prefix):
            coords = self._bound.encoding.coords(key[len(prefix) :], self.ndim)
            if coords is not None and all(c < n for c, n in zip(coords, found.shape, strict=True)):
                found[coords] = True
        return found

    @property
    def nchunks_initialized(self) -> int:
        """How many chunks the store has."""
        return int(self.chunks_present().sum())

    # Changing the shape

    @overload
    def resize(self, *shape: int, outside: Literal["keep", "erase"] = ...) -> None: ...
    @overload
    def resize(
        self, shape: Iterable[int], /, *, outside: Literal["keep", "erase"] = ...
    ) -> None: ...
    def resize(self, *shape: Any, outside: Literal["keep", "erase"] = "keep") -> None:
        """Change the shape; elements that stay inside keep their values.

        Chunks outside a smaller shape are kept, and show again when the array grows; both are
        told by a warning. ``outside="erase"`` removes them, and clears what a border chunk
        holds over the edge.
        """
        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        lengths = tuple(int(n) for n in wanted)
        self._reshape(lambda: resize(self._bound, lengths, outside).shape)

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add `data` at the end of an axis; the data are stored before the new shape is.

        Threads of one process may append at the same time; processes may not.
        """

        def appended() -> tuple[int, ...]:
            values = access.as_values(data, self.dtype)
            larger, where = grown(self._bound, values, axis)
            engine.write(larger, plan(larger.grid, where), values)
            return larger.model.shape

        self._reshape(appended)
        return self.shape

    def _reshape(self, chunks: Callable[[], tuple[int, ...]]) -> None:
        """Change chunks for a new shape, then store it; again where another shape came between."""
        self._location.check_writable()
        with turn(DOCUMENTS, self._location.format.keys(self.path)):
            self.refresh()
            while not self._take_shape(self.shape, chunks()):
                pass

    def _take_shape(self, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        """Store a new shape, and say so, unless the array no longer has the old one."""
        same = []

        def reshaped(model: ArrayModel) -> ArrayModel:
            same.append(model.shape == old)
            return model.with_(shape=new) if same[-1] else model

        self._change(reshaped)
        return same[-1]

    # Looking at it

    @property
    def info(self) -> render.Info:
        """A summary: sizes, chunks, codecs."""
        return render.array_info(self._model, self._location, self._bound)

    def __repr__(self) -> str:
        return render.array_line(self._model, self._location)
