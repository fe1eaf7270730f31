"""Arrays as zarr-python has them, read and written by omnizarr."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Self

import numpy as np

from omnizarr import Array, indexing
from omnizarr.errors import OmnizarrError, SelectionError
from omnizarr.extension import (
    Named,
    axis_plan,
    bind_codec,
    memory_order,
    pipeline,
    plan,
    stored_keys,
)
from omnizarr.interop.zarr import library, nodes
from omnizarr.interop.zarr.errors import translate_methods, translated, warn
from omnizarr.interop.zarr.library import array_config


def basic_plan(grid: Any, selection: Any) -> Any:
    """Return the plan for integers and slices; raise for lists and masks."""
    for item in selection if isinstance(selection, tuple) else (selection,):
        if not (isinstance(item, slice) or item is Ellipsis or np.ndim(item) == 0):
            raise SelectionError(
                f"a basic selection has integers, slices and '...', got {type(item).__name__};"
                " use oindex, vindex or brackets for lists and masks"
            )
    return plan(grid, selection)


def _with_fields(selection: Any, names: Any) -> Any:
    """Add names of fields to a selection; None and an empty list add nothing."""
    if names is None or names == []:
        return selection
    names = [names] if isinstance(names, str) else list(names)
    items = selection if isinstance(selection, tuple) else (selection,)
    return (*items, *names) if len(names) == 1 else (*items, names)


_REQUIRED: Any = object()  # the value may follow a mask that is given by its name


def _getter(planner: Any, by: str) -> Any:
    def get(
        self: Any,
        selection: Any = ...,
        *,
        out: Any = None,
        fields: Any = None,
        prototype: Any = None,
        mask: Any = None,
    ) -> Any:
        chosen = selection if mask is None else mask
        return self._read(planner, _with_fields(chosen, fields), out)

    get.__doc__ = f"Return elements by {by}."
    return get


def _setter(planner: Any, by: str) -> Any:
    def set(
        self: Any,
        selection: Any = ...,
        value: Any = _REQUIRED,
        *,
        fields: Any = None,
        prototype: Any = None,
        mask: Any = None,
    ) -> None:
        if value is _REQUIRED:
            raise TypeError("the values to store are missing")
        chosen = selection if mask is None else mask
        self._write(planner, _with_fields(chosen, fields), value)

    set.__doc__ = f"Store values by {by}."
    return set


class ZarrArray(nodes.ZarrNode, Array):
    """An N-dimensional array of chunks in a store, with the interface of zarr-python's."""

    _runtime: Any = None  # zarr-python's settings of this handle

    def __init__(self, _async_array: Any, *args: Any, **options: Any) -> None:
        """Take over an `AsyncArray`, or open the array at a store and path."""
        blocking = getattr(_async_array, "blocking", None)
        if blocking is None and hasattr(_async_array, "store_path"):  # of zarr-python itself
            blocking = ZarrArray.described(_async_array.metadata, _async_array.store_path)
            blocking._use(_async_array.config)
        if blocking is None:
            Array.__init__(self, _async_array, *args, **options)
        else:
            vars(self).update(vars(blocking))
        self._set_up()

    def _set_up(self) -> None:
        self._use(array_config() if self._runtime is None else self._runtime)

    def _use(self, runtime: Any) -> None:
        """Use zarr-python's settings."""
        self._runtime = runtime
        stored = memory_order(self._model) if self.zarr_format == 2 else None
        self._configure(library.handle_config(runtime, stored))

    @property
    def async_array(self) -> Any:
        """The array with awaitable methods."""
        found = vars(self).get("_async")
        if found is None:
            found = self._async = nodes.later("asynchronous:ZarrAsyncArray")(blocking=self)
        return found

    _async_array = async_array

    # Codecs and settings

    def _codecs(self, part: str, kind: str) -> tuple[Any, ...]:
        """Return the codecs of one part of the pipeline; for shards, of the inner chunks."""
        if not self._theirs:
            return own_codecs(self._model, part)
        codecs = self.metadata.codecs
        if len(codecs) == 1 and isinstance(codecs[0], library.module("zarr.codecs").ShardingCodec):
            codecs = codecs[0].codecs
        wanted = getattr(library.module("zarr.abc.codec"), kind)
        return tuple(codec for codec in codecs if isinstance(codec, wanted))

    @property
    def filters(self) -> tuple[Any, ...]:
        """The codecs on arrays: objects of numcodecs in version 2, else of `zarr.codecs`."""
        if self.zarr_format == 2 and self._theirs:
            return tuple(self.metadata.filters or ())
        return self._codecs("filters", "ArrayArrayCodec")

    @property
    def serializer(self) -> Any:
        """The codec from array to bytes; None in version 2."""
        if self.zarr_format == 2 and self._theirs:
            return None
        return next(iter(self._codecs("serializer", "ArrayBytesCodec")), None)

    @property
    def compressors(self) -> tuple[Any, ...]:
        """The codecs on bytes: objects of numcodecs in version 2, else of `zarr.codecs`."""
        if self.zarr_format == 2 and self._theirs:
            return () if self.metadata.compressor is None else (self.metadata.compressor,)
        return self._codecs("compressors", "BytesBytesCodec")

    @property
    def codecs(self) -> Any:
        """Not offered: programs that look for it do not expect it at arrays of zarr-python."""
        raise AttributeError("use metadata.codecs, or filters, serializer and compressors")

    @property
    def compressor(self) -> Any:
        """The compressor of a version 2 array; deprecated in zarr-python."""
        warn("Use Array.compressors instead.", "ZarrDeprecationWarning")
        if self.zarr_format != 2:  # the words of zarr-python
            raise TypeError("`compressor` is not available for Zarr format 3 arrays.")
        return next(iter(self.compressors), None)

    @property
    def order(self) -> str:
        """The order of stored elements in version 2, else of values in memory."""
        return memory_order(self._model) if self.zarr_format == 2 else str(self._runtime.order)

    @property
    def config(self) -> Any:
        """The settings for reading and writing through this handle."""
        return self._runtime

    def with_config(self, config: Any) -> Self:
        """Return another handle of the array with other settings."""
        handle = type(self).adopt(self)
        if isinstance(config, dict):
            now = {f.name: getattr(self._runtime, f.name) for f in fields(self._runtime)}
            config = {**now, **config}
        handle._use(array_config(config))
        return handle

    @property
    def fill_value(self) -> Any:
        """The value of elements without a chunk."""
        return self.metadata.fill_value if self._theirs else super().fill_value

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The shape of a chunk; for a sharded array, of those inside its shards."""
        found = super().chunks
        if 0 in self.shape and self._theirs:  # where the metadata may have chunks of length 0
            found = getattr(self.metadata, "chunks", found)
        return found

    def __bool__(self) -> bool:
        return True  # also of arrays without elements, as in zarr-python

    # Reading and writing

    @translated("array")
    def __getitem__(self, selection: Any) -> Any:
        return self._as_array(super().__getitem__(selection))

    @translated("array")
    def _read(self, *args: Any, **options: Any) -> Any:
        return self._as_array(super()._read(*args, **options))

    def _as_array(self, values: Any) -> Any:
        """Return single elements as arrays without axes, unless the array itself has none."""
        if isinstance(values, np.ndarray) or not self.shape:
            return values
        dtype = values.dtype if isinstance(values, np.void) else self.dtype
        found = np.empty((), dtype)
        found[()] = values
        return found

    get_basic_selection = _getter(basic_plan, "integers and slices")
    set_basic_selection = _setter(basic_plan, "integers and slices")
    get_orthogonal_selection = _getter(axis_plan, "a list, mask, slice or integer for each axis")
    set_orthogonal_selection = _setter(axis_plan, "a list, mask, slice or integer for each axis")
    get_coordinate_selection = _getter(indexing.point_plan, "lists of positions, one for each axis")
    set_coordinate_selection = _setter(indexing.point_plan, "lists of positions, one for each axis")
    get_mask_selection = _getter(indexing.mask_plan, "a mask of the whole shape")
    set_mask_selection = _setter(indexing.mask_plan, "a mask of the whole shape")
    get_block_selection = _getter(indexing.block_plan, "the coordinates of chunks in the grid")
    set_block_selection = _setter(indexing.block_plan, "the coordinates of chunks in the grid")

    @translated()
    def resize(self, *new_shape: Any, outside: Any = "erase-chunks", **named: Any) -> None:
        """Change the shape; chunks outside a smaller shape are erased, as zarr-python does."""
        given = named.pop("new_shape", None)
        if named:
            raise TypeError(f"resize() got an unexpected keyword argument {next(iter(named))!r}")
        super().resize(*((given,) if given is not None else new_shape), outside=outside)

    def _check_names(self, attributes: dict[str, Any]) -> None:
        """Accept any names of dimensions in attributes, as zarr-python does."""

    # Counting

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of the chunks along each axis, cut at the end of the array."""
        if self.shards is None:
            return self.write_chunk_sizes
        pairs = zip(self.shape, super().chunks, strict=True)
        return tuple(tuple(min(c, n - i) for i in range(0, n, c)) for n, c in pairs)

    @property
    def _chunk_grid(self) -> Any:
        """The chunk grid as an object of zarr-python."""
        kind = library.module("zarr.core.chunk_grids").ChunkGrid
        if not hasattr(kind, "from_metadata"):  # before zarr-python 3.2
            return self.metadata.chunk_grid
        return kind.from_metadata(self.metadata)

    @property
    def _chunk_grid_shape(self) -> tuple[int, ...]:
        return self.cdata_shape

    @property
    def _shard_grid_shape(self) -> tuple[int, ...]:
        return tuple(self._bound.grid.shape)

    @property
    def _nshards(self) -> int:
        return math.prod(self._shard_grid_shape)

    @property
    def _nshards_initialized(self) -> int:
        return sum(1 for _ in stored_keys(self._data))

    @property
    def nchunks_initialized(self) -> int:
        """The number of chunks that are stored, or that are in a stored shard."""
        if self.shards is None:
            return super().nchunks_initialized
        axes, chunks = self._bound.grid.axes, self.chunks
        return sum(
            math.prod(int(a.size(k)) // n for a, k, n in zip(axes, coords, chunks, strict=True))
            for coords, _ in stored_keys(self._data)
        )

    def _iter_chunk_coords(self, **part: Any) -> Iterator[tuple[int, ...]]:
        return _coordinates(self.cdata_shape, **part)

    def _iter_shard_coords(self, **part: Any) -> Iterator[tuple[int, ...]]:
        return _coordinates(self._shard_grid_shape, **part)

    def _iter_shard_keys(self, **part: Any) -> Iterator[str]:
        start = len(self._bound.prefix)
        return (self.chunk_key(coords)[start:] for coords in self._iter_shard_coords(**part))

    def _iter_chunk_regions(self, **part: Any) -> Iterator[tuple[slice, ...]]:
        return (self._region(self.chunks, coords) for coords in self._iter_chunk_coords(**part))

    def _iter_shard_regions(self, **part: Any) -> Iterator[tuple[slice, ...]]:
        sizes = self.shards or self.chunks
        return (self._region(sizes, coords) for coords in self._iter_shard_coords(**part))

    def _region(self, sizes: tuple[int, ...], coords: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the slices of a chunk, cut at the end of the array."""
        sides = zip(coords, sizes, self.shape, strict=True)
        return tuple(slice(c * size, min((c + 1) * size, length), 1) for c, size, length in sides)

    # Opening

    @classmethod
    def open(cls, store: Any, zarr_format: Any = None, *, config: Any = None) -> Self:
        """Open the array at a store or store path."""
        open_array = nodes.later("opening:open_array")
        found: Self = open_array(store, zarr_format=zarr_format, config=config)
        return found

    @classmethod
    def _create(cls, store: Any, *, shape: Any, **options: Any) -> Self:
        made: Self = nodes.later("creation:create")(shape, store=store, **options)
        return made

    @classmethod
    def from_dict(cls, store_path: Any, data: Any) -> Self:
        """Return the array that metadata describe, without reading any."""
        return cls.described(data, store_path)

    # Summaries

    @property
    def info(self) -> Any:
        """A summary: shape, chunks, codecs."""
        return self._info()

    def info_complete(self) -> Any:
        """Return the summary with the number and bytes of stored chunks."""
        return self._info(self._nshards_initialized, self.nbytes_stored())

    def _info(self, count_chunks: int | None = None, count_bytes: int | None = None) -> Any:
        return library.module("zarr.core._info").ArrayInfo(
            _zarr_format=self.zarr_format,
            _data_type=self._zdtype,
            _fill_value=self.fill_value,
            _shape=self.shape,
            _order=self.order,
            _shard_shape="<variable>" if _is_variable(self.shards) else self.shards,
            _chunk_shape=None if _is_variable(self.chunks) else self.chunks,
            _read_only=self.read_only,
            _compressors=self.compressors,
            _filters=self.filters,
            _serializer=self.serializer,
            _store_type=type(self.store).__name__,
            _count_bytes=self.nbytes,
            _count_bytes_stored=count_bytes,
            _count_chunks_initialized=count_chunks,
        )

    @property
    def _zdtype(self) -> Any:
        """The data type of zarr-python, or the NumPy type if it has none."""
        if not self._theirs:
            return self.dtype
        return self.metadata.dtype if self.zarr_format == 2 else self.metadata.data_type

    def __repr__(self) -> str:
        return f"<Array {self.store_path} shape={self.shape} dtype={self.dtype}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "runtime": self._runtime}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._runtime = state["runtime"]
        super().__setstate__(state)


ZarrArray.__name__ = "Array"  # as programs for zarr-python read it
translate_methods(ZarrArray, ("__setitem__", "read", "append", "_write", "refresh"), "array")


def own_codecs(model: Any, part: str) -> tuple[Any, ...]:
    """Return the codecs of omnizarr in one part of a pipeline, by name where they are unknown."""
    found = getattr(pipeline(model), part)
    several = (found,) if isinstance(found, Named) else tuple(found or ())
    return tuple(map(_bound_codec, several))


def _bound_codec(codec: Named) -> Any:
    try:
        return bind_codec(codec, "codecs")
    except OmnizarrError:
        return codec


def _is_variable(shape: Any) -> bool:
    """Return True for the lengths along each axis of a rectilinear grid."""
    return any(isinstance(n, tuple) for n in shape or ())


def _coordinates(
    counts: tuple[int, ...], *, origin: Any = None, selection_shape: Any = None
) -> Iterator[tuple[int, ...]]:
    """Yield the coordinates in a part of a grid, the last axis first."""
    start = (0,) * len(counts) if origin is None else tuple(origin)
    lengths = selection_shape
    if lengths is None:
        lengths = tuple(n - s for n, s in zip(counts, start, strict=True))
    for offset in np.ndindex(*lengths):
        yield tuple(s + o for s, o in zip(start, offset, strict=True))
