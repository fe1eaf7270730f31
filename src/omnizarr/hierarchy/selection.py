"""Read and write arrays by selection: square brackets, `oindex`, `vindex`, `blocks`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from time import monotonic
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from omnizarr import config, engine
from omnizarr.chunk_grids import Grid
from omnizarr.config import configure
from omnizarr.data_types import as_type, bind, describe
from omnizarr.data_types.cast import as_array, convert, is_masked_array, to_numpy
from omnizarr.data_types.data_type import as_elements, as_plain, fill_masked
from omnizarr.engine import BoundArray, Missing
from omnizarr.errors import InvalidArgument, NodeChanged, SelectionError, WrongType, known_names
from omnizarr.indexing import Plan, axis_plan, plan, point_plan
from omnizarr.indexing.selection import block_plan
from omnizarr.publish.stage import epoch

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # part of type checkers, not needed to run

    S = TypeVar("S", bound=np.generic, default=Any)
else:
    from typing import TypeVar

    S = TypeVar("S")

Whole: TypeAlias = slice | EllipsisType


class Shaped:
    """An object with axes that ``np.asarray`` converts to an array."""

    def _values(self) -> npt.NDArray[Any]:
        """Return all elements in a new NumPy array."""
        raise NotImplementedError

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a stored array cannot be converted without a copy")
        values = self._values()
        return values if dtype is None else as_type(values, np.dtype(dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self!r} has no axes, so it has no len()")
        return self.shape[0]


class Selectable(Shaped, Generic[S]):
    """An array that is read and written by selection."""

    _config: ArrayConfig
    _missing: Missing

    @property
    def _bound(self) -> BoundArray:
        raise NotImplementedError

    @cached_property
    def _data(self) -> BoundArray:  # to read
        raise NotImplementedError

    @property
    def _target(self) -> BoundArray:  # to assign to
        raise NotImplementedError

    def _check_writable(self) -> None:
        raise NotImplementedError

    def _follow_shape(self, error: NodeChanged) -> None:
        """Read the metadata of an array that was made smaller; raise any other error."""
        raise error

    def _read(
        self,
        planner: Planner,
        selection: Any,
        out: Any = None,
        missing: Missing | None = None,
        filled: list[tuple[int, ...]] | None = None,
    ) -> Any:
        missing = self._missing if missing is None else missing
        try:
            values = read(self._data, planner, selection, out, missing, filled)
        except NodeChanged as e:
            self._follow_shape(e)
            values = read(self._data, planner, selection, out, missing, filled)
        return values if self._config.order == "C" or out is not None else _as_fortran(values)

    def _write(self, planner: Planner, selection: Any, value: Any) -> None:
        self._check_writable()
        with self._config.active():
            try:
                write(self._target, planner, selection, value)
            except NodeChanged as e:
                self._follow_shape(e)
                write(self._target, planner, selection, value)

    if TYPE_CHECKING:

        @overload
        def __array__(self, dtype: None = None, copy: bool | None = None) -> npt.NDArray[S]: ...
        @overload
        def __array__(
            self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
        ) -> npt.NDArray[Any]: ...
        def __array__(
            self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
        ) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(self, selection: tuple[()]) -> Any: ...
    @overload
    def __getitem__(self, selection: Whole | tuple[Whole, ...]) -> npt.NDArray[S]: ...
    @overload
    def __getitem__(self, selection: Any) -> Any: ...
    def __getitem__(self, selection: Any) -> Any:
        """Return the selected elements as a NumPy array, or a scalar if every index is a number.

        Args:
            selection: Integers, slices, lists or masks, as in NumPy.

        Raises:
            SelectionError: If the selection does not fit the shape.
            ChunkError: If a chunk cannot be read or decoded.

        Examples:
            >>> oz.create_array(data=np.arange(6))[1:3]
            array([1, 2])
        """
        array, settings = self._data, config.get()
        if (
            array.small
            and (watch := array.watch) is not None
            and watch.epoch == epoch[0]
            and watch.expires > monotonic()
            and settings.engine == "auto"
            and self._missing == "fill"
            and self._config.order == "C"
            and (settings.chunk_cache is None or not engine.costly(array))
        ):
            if settings.trace is None:
                values = engine.read_small(array.small, selection, watch.metadata, watch.identity)
            else:
                values = engine.read_small_traced(array, watch, selection, settings.trace[0])
            if values is not None:
                return values
        try:
            chosen = plan(array.grid, selection)
            values = engine.read(array, chosen, None, self._missing, settings=settings)
        except (SelectionError, NodeChanged):
            # It may name fields, or have stored arrays as indices; or the shape has changed.
            return self._read(plan, selection)
        if array.data_type.masking is not None:  # asked here to save ordinary reads a call
            values = array.shown(values)
        return values if self._config.order == "C" else _as_fortran(values)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._bound.data_type.value_dtype.names or ())

    def read(
        self,
        selection: Any = ...,
        *,
        out: npt.NDArray[Any] | None = None,
        missing: Missing | None = None,
        filled: list[tuple[int, ...]] | None = None,
    ) -> Any:
        """Return the selected elements as a NumPy array, or a scalar if every index is a number.

        Args:
            selection: Integers, slices, lists or masks, as in square brackets.
            out: An array to fill instead of a new one.
            missing: The treatment of missing chunks: ``"fill"`` reads the fill value, ``"warn"``
                also warns, ``"raise"`` raises `MissingChunk`, ``"raise-key"`` does so only where
                the store has no value for a chunk or shard; the default is as the array was opened.
            filled: A list to which the coordinates of filled chunks are appended.

        Raises:
            MissingChunk: If a chunk is missing and `missing` forbids it.

        Examples:
            >>> a = oz.create_array(shape=6, chunks=2, fill_value=-1)
            >>> a[:2] = 5
            >>> filled = []
            >>> a.read(slice(4), filled=filled)
            array([ 5.,  5., -1., -1.])
            >>> filled
            [(1,)]
        """
        return self._read(plan, selection, out, missing, filled)

    def __setitem__(self, selection: Any, value: Any) -> None:
        """Store values.

        Args:
            selection: Integers, slices, lists or masks, as in NumPy.
            value: The values, broadcast to the shape of the selection.

        Raises:
            SelectionError: If the selection does not fit the shape.

        Examples:
            >>> a = oz.create_array(shape=3)
            >>> a[1:] = 5
            >>> a[...]
            array([0., 5., 5.])
        """
        self._write(plan, selection, value)

    @property
    def oindex(self) -> Selector:
        """Select with a list, mask, slice or integer for each axis separately."""
        return Selector(self, axis_plan, "oindex")

    @property
    def vindex(self) -> Selector:
        """Select single points by lists of positions, or by a mask of the whole shape."""
        return Selector(self, point_plan, "vindex")

    @property
    def blocks(self) -> Selector:
        """Select whole chunks, or shards of a sharded array, by their coordinates in the grid."""
        return Selector(self, block_plan, "blocks")

    def astype(self, dtype: npt.DTypeLike) -> Converted:
        """Return a read-only view whose elements are converted to another type.

        Args:
            dtype: The NumPy type of the elements that are read.

        Examples:
            >>> oz.create_array(data=[1, 2]).astype("f4")[...]
            array([1., 2.], dtype=float32)
        """
        return Converted(self, np.dtype(dtype))

    def _values(self) -> npt.NDArray[Any]:
        return as_plain(self.read())

    def __dlpack__(self, **options: Any) -> Any:
        options.pop("copy", None)  # the values are always a copy
        return self._values().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # main memory

    def __buffer__(self, flags: int) -> memoryview:
        return self._values().data

    def __iter__(self) -> Iterator[Any]:
        """Yield the elements along the first axis; each chunk along it is read once."""
        length = len(self)
        axis = self._bound.grid.axes[0]
        for number in range(axis.count if length else 0):
            start = int(axis.start(number))
            if start < length:
                yield from self[start : min(start + int(axis.size(number)), length)]


def _as_fortran(values: Any) -> Any:
    if is_masked_array(values):
        return values.copy(order="F")
    return np.asfortranarray(values) if isinstance(values, np.ndarray) else values


Planner = Callable[[Grid, Any], Plan]


def read(
    array: BoundArray,
    planner: Planner,
    selection: Any,
    out: npt.NDArray[Any] | None = None,
    missing: Missing = "fill",
    filled: list[tuple[int, ...]] | None = None,
) -> Any:
    """Return the selected elements as a NumPy array, or a scalar if every index is a number."""
    chosen, fields = _planned(planner, array, selection)
    if out is not None:
        return _read_into(array, chosen, fields, out, missing, filled)
    result = engine.read(array, chosen, None, missing, filled)
    return array.shown(result) if fields is None else result[fields]


def _planned(planner: Planner, array: BoundArray, selection: Any) -> tuple[Plan, Any]:
    """Return the plan, and the names of fields or None; stored arrays as indices are read first."""
    try:
        return planner(array.grid, selection), None
    except SelectionError:
        fields, selection = split_fields(selection, array.data_type.value_dtype)
        items = selection if isinstance(selection, tuple) else (selection,)
        known = (np.ndarray, np.generic)
        stored = any(hasattr(i, "__array__") and not isinstance(i, known) for i in items)
        if fields is None and not stored:
            raise
    if stored:
        selection = tuple(np.asarray(i) if hasattr(i, "__array__") else i for i in items)
    return planner(array.grid, selection), fields


def _read_into(
    array: BoundArray,
    chosen: Plan,
    fields: Any,
    out: Any,
    missing: Missing,
    filled: list[tuple[int, ...]] | None,
) -> npt.NDArray[Any]:
    target: npt.NDArray[Any] = out.as_ndarray_like() if hasattr(out, "as_ndarray_like") else out
    if not isinstance(target, np.ndarray):
        raise WrongType(f"out must be a NumPy array, got {type(out).__name__}")
    wanted = array.data_type.value_dtype
    wanted = wanted if fields is None else wanted[fields]
    if target.shape != chosen.shape or not np.can_cast(wanted, target.dtype, "safe"):
        raise SelectionError(
            f"out must have shape {chosen.shape} and type {wanted},"
            f" got {target.shape} {target.dtype}"
        )
    if array.data_type.masking is not None:
        fill_masked(target, array.shown(engine.read(array, chosen, None, missing, filled)))
        return target
    full = chosen.to_full(target)
    if fields is None and target.dtype == wanted and np.shares_memory(full, target):
        engine.read(array, chosen, full, missing, filled)
        return target
    whole = np.empty(chosen.full_shape, array.dtype)
    engine.read(array, chosen, whole, missing, filled)
    result = chosen.result(whole)
    np.copyto(target, result if fields is None else result[fields], casting="safe")
    return target


def write(array: BoundArray, planner: Planner, selection: Any, value: Any) -> None:
    """Store values, broadcast to the shape of the selection."""
    fields = None
    try:
        chosen = planner(array.grid, selection)
    except SelectionError:
        chosen, fields = _planned(planner, array, selection)
    if fields is None:
        values = as_elements(value, array.data_type, array.path)
        engine.write(array, chosen, chosen.to_full(broadcast(values, chosen.shape)))
    else:
        values = convert(value, array.dtype[fields], array.path)
        full = chosen.to_full(broadcast(values, chosen.shape))
        engine.write_fields(array, chosen, fields, full)


def broadcast(data: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return elements, broadcast to the shape of a selection."""
    try:
        return np.broadcast_to(data, shape)
    except ValueError:
        raise SelectionError(
            f"cannot put values of shape {data.shape} into a selection of shape {shape}"
        ) from None


def split_fields(selection: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Split a selection into names of fields, None if there are none, and the rest."""
    items = list(selection) if isinstance(selection, tuple) else [selection]
    names = [i for i in items if isinstance(i, str)]
    lists = [i for i in items if isinstance(i, list) and i and all(isinstance(n, str) for n in i)]
    if not names and not lists:
        return None, selection
    rest = tuple(i for i in items if not isinstance(i, str) and not any(i is x for x in lists))
    if len(lists) + bool(names) > 1:
        raise SelectionError("give the names of fields once")
    chosen = lists[0] if lists else names[0] if len(names) == 1 else names
    known = dtype.names or ()
    for name in [*names, *(n for some in lists for n in some)]:
        if name not in known:
            what = known_names(name, known) if known else f"this is an array of {dtype}, no group"
            raise SelectionError(f"there is no field {name!r}; {what}")
    return chosen, rest if rest else ...


class Selector:
    """Another kind of selection: ``array.oindex``, ``array.vindex``, ``array.blocks``."""

    def __init__(self, source: Any, planner: Planner, name: str) -> None:
        self._source, self._planner, self._name = source, planner, name

    def __getitem__(self, selection: Any) -> Any:
        return self._source._read(self._planner, selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self._source._write(self._planner, selection, value)

    def __repr__(self) -> str:
        return f"<{self._name} of {self._source!r}; select with [...]>"


class Converted(Shaped):
    """An array that is read as another type; it has everything else from the array."""

    def __init__(self, source: Any, dtype: np.dtype[Any]) -> None:
        self._source = source
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        found: tuple[int, ...] = self._source.shape
        return found

    def __getitem__(self, selection: Any) -> Any:
        return self._as_type(self._source[selection])

    def _as_type(self, values: Any) -> Any:
        if is_masked_array(values):
            return values if values is np.ma.masked else values.astype(self.dtype)
        return as_type(np.asarray(values), self.dtype)[()]

    def _values(self) -> npt.NDArray[Any]:
        return as_plain(self[...])

    def __iter__(self) -> Iterator[Any]:
        return map(self._as_type, self._source)

    def __getattr__(self, name: str) -> Any:
        if name in ("oindex", "vindex", "blocks"):
            return Converted(getattr(self._source, name), self.dtype)
        if name in ("chunks", "attrs", "name", "path", "fill_value"):
            return getattr(self._source, name)
        raise AttributeError(f"a view made by astype() has no {name!r}; see array.{name}")

    def __repr__(self) -> str:
        return f"<{self._source!r} as {self.dtype}>"


def as_source(data: Any, dtype: Any = None) -> Any:
    """Return `data` as an object with a shape and a NumPy type.

    Arrays of NumPy, Dask, h5py, zarr-python and this library are returned as they are, so that they
    can be read in parts; other objects become NumPy arrays. The items of a list stay as they are if
    it is for an array of `dtype`.
    """
    if not hasattr(data, "shape") or not hasattr(data, "dtype"):
        if dtype is None or hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
            values = to_numpy(data)
            mixed = values.dtype.kind in "US" and isinstance(data, (list, tuple))
            return convert(data, values.dtype) if mixed else values  # which refuses numbers
        native = getattr(dtype, "to_native_dtype", lambda: dtype)()  # of zarr-python
        found = bind(describe(native))
        return np.asarray(data, object) if found.masking else as_array(data, found.dtype)
    if isinstance(data.dtype, np.dtype):
        return data
    try:
        np.dtype(data.dtype)
    except TypeError:  # that of PyTorch, and of most that are not made for NumPy
        return to_numpy(data)
    return data


@dataclass(frozen=True, slots=True)
class ArrayConfig:
    """The settings for reading and writing through one handle of an array.

    order
        With ``"F"`` the first axis of values that were read is the fastest in memory.
    write_empty_chunks
        True to store chunks of nothing but the fill value; None for the global setting.
    read_missing_chunks
        False to raise `MissingChunk` where the store has no value for a chunk or shard, the same
        as ``missing="raise-key"``.
    """

    order: Literal["C", "F"] = "C"
    write_empty_chunks: bool | None = None
    read_missing_chunks: bool = True

    def __post_init__(self) -> None:
        if self.order not in ("C", "F"):
            raise InvalidArgument(f"order must be 'C' or 'F', got {self.order!r}")
        if not isinstance(self.read_missing_chunks, bool):
            raise InvalidArgument("read_missing_chunks must be True or False")

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which values are written with these settings."""
        keep = self.write_empty_chunks
        return nullcontext() if keep is None else configure(write_empty_chunks=keep)

    @classmethod
    def of(cls, given: Any) -> ArrayConfig:
        """Return the settings in a mapping or an object with such attributes; None for defaults."""
        if given is None or isinstance(given, cls):
            return given or DEFAULT_CONFIG
        known = [f.name for f in fields(cls)]
        if not isinstance(given, Mapping):
            found = {name: getattr(given, name) for name in known if hasattr(given, name)}
            if not found:
                raise WrongType(f"config: expected a mapping, got {given!r}")
            given = found
        unknown = sorted(given.keys() - set(known))
        if unknown:
            raise WrongType(
                f"config has an unknown member {unknown[0]!r}; {known_names(unknown[0], known)}"
            )
        return cls(**given)


DEFAULT_CONFIG = ArrayConfig()
