"""Arrays: the handle of a Zarr array."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from omnizarr import config as settings
from omnizarr import engine, registry
from omnizarr.codecs.specify import inner_chunk_shape, memory_order
from omnizarr.config import byte_size
from omnizarr.data_types import own_type
from omnizarr.data_types.cast import is_masked_array
from omnizarr.data_types.data_type import as_elements
from omnizarr.engine import BoundArray, was_bound
from omnizarr.engine.watch import ArrayWatch, check_same_array, is_smaller
from omnizarr.errors import NodeChanged, WrongNode, warn
from omnizarr.formats.draft_extensions import packed_shard_shape
from omnizarr.formats.format import ARRAY_DIMENSIONS, check_attributes
from omnizarr.hierarchy import chunks as stored_chunks
from omnizarr.hierarchy import info
from omnizarr.hierarchy.attributes import lock_shape
from omnizarr.hierarchy.chunks import Outside, Writer, grow_array, shrunken_shape, with_shape
from omnizarr.hierarchy.info import Info
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.node import NodeHandle
from omnizarr.hierarchy.options import lengths_of
from omnizarr.hierarchy.selection import DEFAULT_CONFIG, ArrayConfig, S, Selectable
from omnizarr.hierarchy.view import View, Viewer
from omnizarr.indexing import plan
from omnizarr.model import ArrayModel, Named, Node
from omnizarr.stores import check_writable, sizes, traits

registry.register("integration", "dask", "omnizarr.interop.dask:to_dask")
registry.register("integration", "preview", "omnizarr.viewer.picture:preview")
registry.register("integration", "dask_token", "omnizarr.interop.dask:token")


class Array(Selectable[S], NodeHandle[ArrayModel]):
    """An N-dimensional array of chunks in a store.

    Slicing reads, assigning writes. ``Array(store, path)`` opens an existing array; usually
    `omnizarr.open` and `omnizarr.create_array` are more convenient.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        path: The path of the array in the store; by default the root.
        read_only: True to refuse all writes through this handle.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default the format is detected.

    Examples:
        >>> a = oz.create_array("ocean.zarr", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
        >>> a[1:, 0] = -1
        >>> oz.Array("ocean.zarr", read_only=True)[:, :2]
        array([[ 0,  1],
           [-1,  5],
           [-1,  9]])
    """

    _config = DEFAULT_CONFIG
    _bound_model: BoundArray | None
    _is_published = True  # False: the stored metadata are not compared
    # The monotonic time when the model was read or written; 0 for long ago, None if unpublished.
    _read_at: float | None = 0.0

    def _set_model(self, location: Location, model: Node) -> None:
        if not isinstance(model, ArrayModel):
            raise WrongNode(f"{location} is a group, not an array; omnizarr.open opens both")
        self._read_at = time.monotonic() if self._is_published else None
        bound = None if was_bound(model) else _bind(location, model, self._read_at)
        self._location, self._model, self._bound_model = location, model, bound
        self._configure(self._config)

    def _replace_model(self, model: Node) -> None:
        if model is not self._model:
            self._set_model(self._location, model)
            self.__dict__.pop("_data", None)

    @property
    def _bound(self) -> BoundArray:
        """The model bound to code; bound on first use where binding cannot raise."""
        bound, model = self._bound_model, self._model
        if bound is None or bound.model is not model:  # another thread may just have replaced it
            bound = self._bound_model = _bind(self._location, model, self._read_at)
        return bound

    def _configure(self, config: ArrayConfig) -> None:
        """Use other settings for reading and writing through this handle."""
        self._config = config
        strict = not config.read_missing_chunks and self._location.missing != "raise"
        self._missing = "raise-key" if strict else self._location.missing

    def _warn_of_skipped(self) -> None:
        for name in () if self._bound_model is None else self._bound_model.skipped:
            what = f"{self._location}: {name!r} is unknown here and is skipped"
            warn(f"{what}, as the metadata allow; nothing can be written")

    @cached_property
    def _data(self) -> BoundArray:
        """The array to read, after consolidated metadata were compared with its own."""
        if self._from_consolidated:
            consolidated = self._model
            self.refresh()
            if consolidated != self._model:
                what = f"the consolidated metadata of {self._location} are out of date"
                warn(f"{what}; its own are used. Call consolidate_metadata again")
        return self._bound

    @property
    def _target(self) -> BoundArray:
        """The array to assign to; raises NodeChanged if it was replaced, moved or deleted."""
        bound = self._data
        stored = None if bound.watch is None else bound.watch.confirm()
        if not isinstance(stored, ArrayModel) or stored is self._model:
            return bound
        if not is_smaller(stored, self._model):
            return bound
        self._replace_model(stored)
        return self._target

    def _follow_shape(self, error: NodeChanged) -> None:
        if not error.reshaped:
            raise error
        self._follow()

    def _check_same(self, model: Node) -> None:
        check_same_array(self._location, self._model, model)

    # Properties

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis; setting it is the same as `resize`."""
        return self._model.shape

    @shape.setter
    def shape(self, lengths: Iterable[int]) -> None:
        self.resize(lengths)

    @property
    def dtype(self) -> np.dtype[S]:
        """The NumPy type of the elements."""
        return own_type(self._bound.data_type.value_dtype)

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
        """The value of elements without a chunk; None if the metadata leave it undefined."""
        if not self._bound.fill_defined:
            return None
        fill = self._bound.shown(self._bound.fill[()])
        if is_masked_array(fill):
            return None
        if not isinstance(fill, np.void):
            return fill
        own = np.empty((), own_type(fill.dtype))  # scalars of other kinds are immutable
        own[...] = fill
        return own[()]

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The shape of a chunk; for a rectilinear grid the lengths along each axis.

        For a sharded array, the shape of the chunks inside its shards.
        """
        inner = inner_chunk_shape(self._model)
        return self._bound.grid.regular or self.write_chunk_sizes if inner is None else inner

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """The shape of a shard, or None if chunks are not stored in shards."""
        if inner_chunk_shape(self._model) is not None:
            return self._bound.grid.regular or self.write_chunk_sizes
        return packed_shard_shape(self._model)

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of the stored values, chunks or shards, along each axis."""
        return stored_chunks.chunk_lengths(self._bound)

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """The number of chunks along each axis; for a sharded array, of inner chunks."""
        return stored_chunks.chunk_counts(self._bound)

    @property
    def nchunks(self) -> int:
        """The number of chunks of the grid, stored or not."""
        return math.prod(self.cdata_shape)

    @property
    def codecs(self) -> tuple[Named, ...]:
        """The codecs by name, in the order of encoding."""
        return self._model.codecs

    @property
    def order(self) -> str:
        """``"F"`` if chunks are stored with reversed axes, also inside shards, else ``"C"``."""
        return memory_order(self._model)

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The name of each axis, or None if there are no names."""
        return self._model.dimension_names

    def _with_attributes(self, model: ArrayModel, attributes: dict[str, Any]) -> ArrayModel:
        changed = attributes.get(ARRAY_DIMENSIONS) != model.attributes.get(ARRAY_DIMENSIONS)
        if changed and self._location.format.names_in_attributes:
            self._check_names(attributes)
            return model.with_(attributes=attributes, dimension_names=None)
        return model.with_(attributes=attributes)

    def _check_names(self, attributes: dict[str, Any]) -> None:
        check_attributes(attributes, len(self.shape))

    # Reading and writing

    def _check_writable(self) -> None:
        self._location.check_writable()
        if self._model.storage_transformers:
            check_writable(self._bound.chunk_store)

    @property
    def config(self) -> ArrayConfig:
        """The settings for reading and writing through this handle."""
        if self._config.write_empty_chunks is not None:
            return self._config
        return replace(self._config, write_empty_chunks=settings.get().write_empty_chunks)

    def with_config(self, config: Any) -> Self:
        """Return another handle of the array with other settings.

        Args:
            config: An `ArrayConfig`, or a mapping such as ``{"write_empty_chunks": True}``.

        Examples:
            >>> a = oz.create_array(shape=4, chunks=2)
            >>> a.with_config({"write_empty_chunks": True})[:] = 0
            >>> a.nchunks_initialized
            2
        """
        handle = type(self).__new__(type(self))
        handle.__dict__.update(self.__dict__)
        handle._configure(ArrayConfig.of(config))
        return handle

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # Consolidated metadata are of all nodes of a group: much longer than what an array needs.
        location, published = replace(self._location, consolidated=None), self._is_published
        return {**state, "location": location, "config": self._config, "published": published}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._is_published = state["published"]
        super().__setstate__(state)
        self._bound_model = None
        self._read_at = 0.0 if self._is_published else None  # long ago, in another process
        self._configure(state["config"])

    @property
    def view(self) -> Viewer:
        """Views, which are selected now and read later: ``array.view[::2].transpose(2, 0, 1)``."""
        return Viewer(self)

    def writer(self, budget: int | str = "512MiB") -> Writer:
        """Return a writer, which stores each chunk or shard once when assignments complete it.

        Close the writer, or use ``with``: a writer that is not closed warns of unstored values.
        Other handles may append or resize meanwhile.

        Args:
            budget: The bytes that are buffered in memory; before it is used up, incomplete chunks
                are stored as they are.

        Examples:
            >>> a = oz.create_array(shape=(4, 4), chunks=(4, 2))
            >>> with a.writer() as w:
            ...     for row in range(4):
            ...         w[row] = row
            >>> a[:, 0]
            array([0., 1., 2., 3.])
        """
        self._check_writable()
        stream = engine.Stream(self._data, byte_size(budget, "budget"), self._with_locked_shape)
        return Writer(self, stream)

    @contextmanager
    def _with_locked_shape(self) -> Iterator[BoundArray]:
        """Refresh the array, and keep others from changing its shape until the block ends."""
        with lock_shape(self._location):
            self._follow()
            yield self._bound

    def to_dask(self, chunks: Any = None, name: str | None = None) -> Any:
        """Return a Dask array that reads this one, with a block for each chunk or shard.

        Args:
            chunks: The blocks as in Dask; ``"auto"`` gives larger ones, of whole chunks.
            name: The name of the tasks; by default one of the array as it is stored now.

        Examples:
            >>> a = oz.create_array(data=np.arange(6), chunks=3)
            >>> int(a.to_dask().sum().compute())
            15
        """
        return registry.lookup("integration", "dask")(self, chunks, name)

    def preview(self, *, at: Mapping[str, int] | None = None, pixels: int = 512) -> Any:
        """Return a picture of the array, a plane or a plot; see `omnizarr.preview`.

        Args:
            at: The position along axes that are not shown, by name, such as ``{"t": 3}``.
            pixels: The least number of pixels along the longer side, if there are as many elements.

        Examples:
            >>> oz.create_array(data=np.eye(8)).preview().save("a.png")
        """
        return registry.lookup("integration", "preview")(self, at=at, pixels=pixels)

    def __dask_tokenize__(self) -> Any:
        return registry.lookup("integration", "dask_token")(self)

    # Chunks

    def chunk_key(self, coords: Iterable[int]) -> str:
        """Return the key of one chunk, or of one shard if a codec makes shards.

        Args:
            coords: The coordinates in the grid of chunks, or shards; those outside the grid have a
                key, too.

        Examples:
            >>> oz.create_array(shape=(4, 4), chunks=(2, 2)).chunk_key((0, 1))
            'c/0/1'
        """
        return self._bound.key(tuple(coords))

    def chunks_present(self, region: Sequence[slice] | None = None) -> npt.NDArray[np.bool_]:
        """Return an array, True for stored chunks; for large grids, `stored_chunks` lists them.

        Args:
            region: A slice of the chunk grid for each axis, to look at these chunks only.

        Examples:
            >>> a = oz.create_array(shape=6, chunks=2)
            >>> a[2:4] = 1
            >>> a.chunks_present()
            array([False,  True, False])
        """
        return stored_chunks.chunks_present(self._data, region)

    def stored_chunks(self) -> Iterator[tuple[int, ...]]:
        """Return an iterator over the coordinates of stored chunks, in no particular order.

        Examples:
            >>> a = oz.create_array(data=[1, 2], chunks=2)
            >>> list(a.stored_chunks())
            [(0,)]
        """
        return stored_chunks.present_chunks(self._data)

    @property
    def nchunks_initialized(self) -> int:
        """The number of chunks that are stored."""
        return sum(int(there.sum()) for _, there in stored_chunks.present_boxes(self._data))

    def nbytes_stored(self) -> int:
        """Return the number of bytes that the array's metadata and chunks have in the store.

        Examples:
            >>> a = oz.create_array(shape=1000, chunks=100)
            >>> a.nbytes_stored() < a.nbytes
            True
        """
        metadata = sizes(self._location.store, self._location.format.keys(self.path))
        return sum(metadata.values()) + stored_chunks.stored_size(self._data)

    def get_encoded_chunk(self, coords: Iterable[int]) -> bytes | None:
        r"""Return the stored bytes of one chunk (a shard in version 3), or None.

        Args:
            coords: The coordinates in the grid of chunks, or shards.

        Examples:
            >>> a = oz.create_array(data=np.arange(4, dtype="u1"), chunks=2, compressors=None)
            >>> a.get_encoded_chunk((1,))
            b'\x02\x03'
        """
        bound = self._data
        return bound.encoded(stored_chunks.check_coords(bound, coords))

    def set_encoded_chunk(self, coords: Iterable[int], data: bytes) -> None:
        """Store one chunk (a shard in version 3) as bytes; raise if they cannot be decoded.

        Args:
            coords: The coordinates in the grid of chunks, or shards.
            data: The encoded chunk, as `get_encoded_chunk` returns it.

        Raises:
            SelectionError: If there is no such chunk.
            ChunkError: If the bytes cannot be decoded.

        Examples:
            >>> a = oz.create_array(shape=4, dtype="u1", chunks=2, compressors=None)
            >>> a.set_encoded_chunk((1,), bytes([2, 3]))
            >>> a[...]
            array([0, 0, 2, 3], dtype=uint8)
        """
        self._check_writable()
        bound = self._data
        stored_chunks.put_encoded_chunk(bound, stored_chunks.check_coords(bound, coords), data)

    # Changing the shape

    @overload
    def resize(self, *shape: int, outside: Outside = ...) -> None: ...
    @overload
    def resize(self, shape: Iterable[int], /, *, outside: Outside = ...) -> None: ...
    def resize(self, *shape: Any, outside: Outside = "keep") -> None:
        """Change the shape; elements that stay inside keep their values.

        Args:
            *shape: The new length of every axis, as numbers or as one sequence.
            outside: The treatment of chunks outside a smaller shape. ``"keep"`` keeps them, and
                they are visible again when the array grows; there is a warning in both cases. The
                same holds for elements of border chunks, of which up to 64 MiB are read for that.
                ``"erase"`` removes the chunks, and clears those elements; ``"erase-chunks"`` keeps
                the elements, as zarr-python does.

        Examples:
            >>> a = oz.create_array(shape=(2, 3), fill_value=1)
            >>> a.resize(4, 3)
            >>> a[:, 0]
            array([1., 1., 1., 1.])
        """
        self._check_writable()
        lengths = lengths_of(shape[0] if len(shape) == 1 else shape)
        # No shape may include erased elements, so it shrinks first and grows last; but sessions do
        # not erase what is outside, and show nothing before they are committed.
        steps: list[Callable[[BoundArray], ArrayModel]]
        steps = [lambda array: stored_chunks.resize(array, lengths, outside)]
        if outside != "keep" and not traits(self.store).commits_changes:
            steps.insert(0, lambda array: with_shape(array.model, shrunken_shape(array, lengths)))
        with lock_shape(self._location) as [held]:
            self._follow()
            for reshaped in steps:
                while not self._store_shape(self._model, reshaped(self._bound_at(held)), held):
                    pass  # it was changed meanwhile

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Append `data` along an axis; the data are stored before the new shape.

        Threads and processes may append at the same time; their data follow each other.

        Args:
            data: The values; along the other axes they are as long as this array.
            axis: The axis along which the array grows.

        Returns:
            The new shape.

        Examples:
            >>> a = oz.create_array(data=[[1, 2], [3, 4]])
            >>> a.append([[5, 6]])
            (3, 2)
        """
        self._check_writable()
        values = as_elements(data, (bound := self._bound).data_type, bound.path)

        def store() -> None:
            with self._config.active():
                engine.write(larger, plan(larger.grid, where), values)

        # What fails is discarded with a session: there the values are stored after the new shape.
        shape_first = traits(self.store).commits_changes
        with lock_shape(self._location) as [held]:
            self._follow()
            is_stored = False
            while not is_stored:
                larger, where = grow_array(self._bound_at(held), values, axis)
                if not shape_first:
                    store()
                is_stored = self._store_shape(self._model, larger.model, held)
            if shape_first:
                store()
        return self.shape

    def _bound_at(self, held: Location) -> BoundArray:
        """Return the array to write to while its shape is locked."""
        return self._bound if held is self._location else replace(self._bound, store=held.store)

    def _store_shape(self, old: ArrayModel, new: ArrayModel, held: Location) -> bool:
        """Store a new shape; return False if the array no longer has the old one.

        No one else may store a shape meanwhile, so the new one is ours if an answer was lost.
        """
        same = []

        def reshaped(model: ArrayModel) -> ArrayModel:
            same.append(model.shape == old.shape)
            if not same[-1] or new.shape == old.shape:
                return model
            return new if model is old else with_shape(model, new.shape)

        def is_done(model: Node) -> bool:
            return isinstance(model, ArrayModel) and model.shape == new.shape

        self._change(reshaped, held=held, is_done=is_done)
        return same[-1]

    # Summaries

    @property
    def info(self) -> Info:
        """A summary: sizes, chunks, codecs."""
        return info.array_info(self._model, self._location, self._bound)

    def __repr__(self) -> str:
        return info.array_line(self._model, self._location)


def bound_array(array: Array) -> BoundArray:
    """Return the array as the engine reads it; its codecs are checked, if there are chunks."""
    bound = array._data
    if array.size:
        _ = bound.first_pipeline
    return bound


def unpublished(location: Location, model: ArrayModel) -> Array:
    """Return the handle of an array whose metadata are not stored, and so are never compared."""
    handle = Array.__new__(Array)
    handle._is_published = False
    handle._set_model(location, model)
    return handle


def use_location(array: Array, location: Location) -> None:
    """Let a handle read and write its array through another location, such as a locked one."""
    array._set_model(location, array._model)


def change_shape(array: Array, shape: tuple[int, ...]) -> bool:
    """Store a new shape; return False if another writer has changed the shape meanwhile."""
    old = array._model
    return array._store_shape(old, with_shape(old, shape), array._location)


def _bind(location: Location, model: ArrayModel, read_at: float | None) -> BoundArray:
    """Return an array bound to code, watched if it was stored; raise if its model is invalid."""
    prefix = location.format.chunk_prefix(location.path)
    bound = BoundArray(location.store, location.path, prefix, model)
    bound.check()
    bound.watch = None if read_at is None else ArrayWatch(location, model, read_at)
    return bound


def data_type_of(data: Any) -> Any:
    """Return the data type for an array of these values; by name if NumPy has no such type."""
    array = data.array if isinstance(data, View) else data
    if isinstance(array, Array):
        if array._bound.data_type.masking is not None:
            return array._model.data_type
        if array._model.data_type.name == "bytes":
            return bytes
    return data.dtype
