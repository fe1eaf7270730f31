"""Array: what users hold of a Zarr array."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from omnizarr import config as settings
from omnizarr import engine, registry
from omnizarr.codecs import bind_codec
from omnizarr.codecs.specify import inner_chunk_shape, memory_order, pipeline
from omnizarr.config import byte_size
from omnizarr.data_types import own_type
from omnizarr.engine import BoundArray, Missing
from omnizarr.errors import (
    OmnizarrError,
    WrongNode,
    warn,
)
from omnizarr.formats.draft.extensions import packed_shard_shape
from omnizarr.formats.format import ARRAY_DIMENSIONS, check_attributes
from omnizarr.hierarchy import chunks as stored
from omnizarr.hierarchy import info, selection
from omnizarr.hierarchy.attributes import alone
from omnizarr.hierarchy.chunks import (
    Writer,
    check_countable,
    grown,
    resize,
    shrunk,
    with_shape,
)
from omnizarr.hierarchy.info import Info
from omnizarr.hierarchy.location import (
    Location,
)
from omnizarr.hierarchy.node import NodeHandle
from omnizarr.hierarchy.options import (
    lengths_of,
)
from omnizarr.hierarchy.selection import ArrayConfig, Selectable, as_source
from omnizarr.hierarchy.view import View, Viewer
from omnizarr.indexing import plan
from omnizarr.model import ArrayModel, Named, Node
from omnizarr.stores import (
    has_cheap_requests,
    sizes,
)

registry.register("integration", "dask", "omnizarr.integrations.dask:to_dask")
registry.register("integration", "dask_token", "omnizarr.integrations.dask:token")


class Array(Selectable, NodeHandle[ArrayModel]):
    """An N-dimensional array of chunks in a store.

    Slicing reads, assigning writes. ``Array(store, path)`` opens an existing one; usually
    `omnizarr.open` and `omnizarr.create_array` are handier.
    """

    _config = ArrayConfig()
    _compared: tuple[tuple[int, ...], str | None] | None = None  # shape and document that agree

    def _open(self, location: Location, model: Node) -> None:
        if not isinstance(model, ArrayModel):
            raise WrongNode(f"{location} is a group, not an array; use open_group")
        prefix = location.format.chunk_prefix(location.path)
        bound = BoundArray(location.store, location.path, prefix, model)
        bound.check()
        self._location, self._model, self._bound = location, model, bound

    def _tell(self) -> None:
        for name in self._bound.skipped:
            warn(
                f"{self._location}: {name!r} is unknown here and is skipped, as the document"
                " allows; nothing can be written",
            )

    @property
    def _data(self) -> BoundArray:
        """What reads and writes go through; by then a copied document was compared with its own."""
        if self._copied:
            copy = self._model
            self.refresh()
            if copy != self._model:
                warn(
                    f"the consolidated metadata of {self._location} are out of date; its own"
                    " document is used. Call consolidate_metadata again",
                )
        return self._bound

    @property
    def _target(self) -> BoundArray:
        """As `_data`; where looking costs little, it knows whether another handle appended."""
        bound = self._data
        store: Any = self._location.store
        if bound.overhangs and has_cheap_requests(store):
            generation = store.generation(self._location.format.keys(self.path)[0])
            if self._compared != (self.shape, generation):
                if self._location.shape() not in (None, self.shape):
                    return replace(bound, outgrown=True)
                self._compared = self.shape, generation
        return bound

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis; setting it is the same as `resize`."""
        return self._model.shape

    @shape.setter
    def shape(self, lengths: Iterable[int]) -> None:
        self.resize(lengths)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return own_type(self._bound.dtype)

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
        if not self._bound.fill_defined:
            return None
        fill = self._bound.fill
        if fill.dtype.kind == "V":  # the scalars of other kinds cannot be changed
            own = np.empty((), self.dtype)
            own[...] = fill
            fill = own
        return fill[()]

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The shape of a chunk; for a rectilinear grid the lengths along each axis.

        Of a sharded array, the shape of the chunks inside its shards.
        """
        inner = inner_chunk_shape(self._model)
        return self._bound.grid.regular or self.write_chunk_sizes if inner is None else inner

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """The shape of a shard, or None where chunks are stored one by one."""
        if inner_chunk_shape(self._model) is not None:
            return self._bound.grid.regular or self.write_chunk_sizes
        return packed_shard_shape(self._model)

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of the chunks along each axis, cut at the end of the array."""
        inner = inner_chunk_shape(self._model)
        if inner is None:
            return self.write_chunk_sizes
        check_countable(self._location, self.cdata_shape)
        pairs = zip(self.shape, inner, strict=True)
        return tuple(tuple(min(c, n - i) for i in range(0, n, c)) for n, c in pairs)

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of what is stored as one value along each axis: chunks, or shards."""
        check_countable(self._location, self._bound.grid.shape)
        axes = self._bound.grid.axes
        pairs = ((a, [int(a.start(k)) for k in range(a.count)]) for a in axes)
        return tuple(
            tuple(min(int(a.size(k)), a.length - s) for k, s in enumerate(starts))
            for a, starts in pairs
        )

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """The number of chunks along each axis; of a sharded array, of those in its shards."""
        return stored.chunk_counts(self._bound)

    @property
    def nchunks(self) -> int:
        """The number of chunks of the grid, stored or not."""
        return math.prod(self.cdata_shape)

    @property
    def filters(self) -> tuple[Any, ...]:
        """The codecs on arrays."""
        return tuple(map(_bound_codec, pipeline(self._model).filters))

    @property
    def serializer(self) -> Any:
        """The codec from array to bytes."""
        serializer = pipeline(self._model).serializer
        return None if serializer is None else _bound_codec(serializer)

    @property
    def compressors(self) -> tuple[Any, ...]:
        """The codecs on bytes."""
        return tuple(map(_bound_codec, pipeline(self._model).compressors))

    @property
    def compressor(self) -> Any:
        """The only codec on bytes, or None where there is none."""
        found = self.compressors
        if len(found) > 1:
            raise TypeError(f"{self._location} has {len(found)} compressors; see .compressors")
        return found[0] if found else None

    @property
    def codecs(self) -> tuple[Named, ...]:
        """The codecs by name, in the order of encoding."""
        return self._model.codecs

    @property
    def order(self) -> str:
        """``"F"`` where chunks are stored with reversed axes, else ``"C"``."""
        return memory_order(self._model)

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The name of each axis, or None where none are known."""
        return self._model.dimension_names

    def _with_attributes(self, model: ArrayModel, attributes: dict[str, Any]) -> ArrayModel:
        changed = attributes.get(ARRAY_DIMENSIONS) != model.attributes.get(ARRAY_DIMENSIONS)
        if changed and self._location.format.names_in_attributes:
            check_attributes(attributes, len(model.shape))
            return model.with_(attributes=attributes, dimension_names=None)
        return model.with_(attributes=attributes)

    # Reading and writing

    def _check_writable(self) -> None:
        self._location.check_writable()

    @property
    def _missing(self) -> Missing:
        return self._location.missing

    @classmethod
    def __class_getitem__(cls, item: Any) -> type[Self]:
        """The class: annotations written for zarr-python name a kind of metadata here."""
        return cls

    @property
    def config(self) -> ArrayConfig:
        """How this handle reads and writes."""
        keep = self._config.write_empty_chunks
        if keep is None:
            keep = settings.get().write_empty_chunks
        return replace(self._config, write_empty_chunks=keep)

    def with_config(self, config: Any) -> Self:
        """Another handle of the array that reads and writes in another way."""
        handle = self.at(self._location, self._model)
        handle._config = ArrayConfig.of(config)
        return handle

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # Copies are of all nodes of a group: hundreds of times as long as what an array needs.
        location = replace(state["location"], copies=None)
        return {**state, "location": location, "config": self._config}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._config = state["config"]

    @property
    def view(self) -> Viewer:
        """Parts that are chosen now and read later: ``array.view[::2].transpose(2, 0, 1)``."""
        return Viewer(self)

    def writer(self, budget: int | str = "512MiB") -> Writer:
        """Assignments that are stored once for every chunk or shard they complete.

        >>> with array.writer() as w:
        ...     for z, plane in enumerate(planes):
        ...         w[z] = plane

        `budget` bounds the bytes that wait in memory; before it is used up, chunks that are not
        complete are stored as they are. Close the writer, or use ``with``: one that is dropped
        warns of what it has not stored. Other handles may append or resize meanwhile.
        """
        self._location.check_writable()
        stream = engine.Stream(self._data, byte_size(budget, "budget"), self._settled)
        return Writer(stream, lambda: self._data, self._settled, self._configured)

    @contextmanager
    def _settled(self) -> Iterator[BoundArray]:
        """Give the array with the shape that is stored now, which stays until the block ends."""
        with alone(self._location):
            self.refresh()
            yield self._bound

    def to_dask(self, chunks: Any = None, name: str | None = None) -> Any:
        """A Dask array that reads this one, with a block for each chunk, or shard if it has them.

        `chunks` is as in Dask: ``"auto"`` gives larger blocks, of whole chunks where it can. The
        name of its tasks tells the array as it is stored now; `name` is another one.
        """
        return registry.lookup("integration", "dask")(self, chunks, name)

    def __dask_tokenize__(self) -> Any:
        return registry.lookup("integration", "dask_token")(self)

    # Chunks

    def chunk_key(self, coords: Iterable[int]) -> str:
        """The key in the store of one chunk; of an array with shards in version 3, of a shard."""
        return self._bound.key(tuple(coords))

    def chunks_present(self) -> npt.NDArray[np.bool_]:
        """For every chunk whether the store has it; of shards the index is read."""
        return stored.chunks_present(self._data, self.cdata_shape)

    @property
    def nchunks_initialized(self) -> int:
        """How many chunks the store has."""
        return stored.count_present(self._data, self.cdata_shape)

    def nbytes_stored(self) -> int:
        """Bytes of the array's documents and chunks in the store."""
        documents = sizes(self.store, self._location.format.keys(self.path))
        return sum(documents.values()) + stored.stored_size(self._data)[1]

    def get_encoded_chunk(self, coords: Iterable[int]) -> bytes | None:
        """The bytes that are stored for one chunk (a shard in version 3), or None."""
        bound = self._data
        return stored.encoded_chunk(bound, stored.check_coords(bound, tuple(coords)))

    def set_encoded_chunk(self, coords: Iterable[int], data: bytes) -> None:
        """Store one chunk (a shard in version 3) as bytes; raises where they do not decode."""
        self._check_writable()
        bound = self._data
        stored.put_encoded_chunk(bound, stored.check_coords(bound, tuple(coords)), data)

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
        lengths = lengths_of(shape[0] if len(shape) == 1 else shape)
        # No shape may show elements that are gone, so it shrinks first and grows last.
        shrink = [lambda: shrunk(self._bound, lengths)] if outside == "erase" else []
        self._reshape(*shrink, lambda: resize(self._bound, lengths, outside).shape)

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add `data` at the end of an axis; the data are stored before the new shape is.

        Threads and processes may append at the same time: one after the other gets room.
        """
        values = selection.as_values(data, self.dtype)

        def appended() -> tuple[int, ...]:
            larger, where = grown(self._bound, values, axis)
            with self._configured():
                engine.write(larger, plan(larger.grid, where), values)
            return larger.model.shape

        self._reshape(appended)
        return self.shape

    def _reshape(self, *steps: Callable[[], tuple[int, ...]]) -> None:
        """Change chunks for a new shape, then store it; again where another shape came between."""
        with alone(self._location):
            self.refresh()
            for chunks in steps:
                while not self._take_shape(self.shape, chunks()):
                    pass

    def _take_shape(self, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        """Store a new shape, and say so, unless the array no longer has the old one."""
        same = []

        def reshaped(model: ArrayModel) -> ArrayModel:
            same.append(model.shape == old)
            return with_shape(model, new) if same[-1] and new != old else model

        self._change(reshaped)
        return same[-1]

    # Looking at it

    @property
    def info(self) -> Info:
        """A summary: sizes, chunks, codecs."""
        return info.array_info(self._model, self._location, self._bound)

    def info_complete(self) -> Info:
        """The summary, with what the store has of the array."""
        return info.stored_info(self.info, self.nbytes, self._bound)

    def __repr__(self) -> str:
        return info.array_line(self._model, self._location)


# Options that say how chunks become bytes.
CODECS = {"codecs", "filters", "serializer", "compressors", "compressor", "order"}


def like(a: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options for an array like another: its own where it has them, unless others are given."""
    found: dict[str, Any] = {"shape": a.shape}
    if hasattr(a, "dtype"):
        found["dtype"] = type_of(as_source(a))
    if isinstance(a, Array):
        found |= {
            "chunks": a.chunks,
            "shards": a.shards,
            "fill_value": a.fill_value,
            "dimension_names": a.dimension_names,
            "zarr_format": a.zarr_format,
        }
        if (
            options.get("zarr_format", a.zarr_format) == a.zarr_format
            and not CODECS & options.keys()
        ):
            found |= codec_options(a)
    elif isinstance(getattr(a, "chunks", None), tuple):
        found["chunks"] = tuple(c[0] if isinstance(c, tuple) and c else c for c in a.chunks)
    return {**found, **options}


def type_of(data: Any) -> Any:
    """Return the type of data; for NumPy byte strings of any length are just objects."""
    array = data.array if isinstance(data, View) else data
    is_bytes = isinstance(array, Array) and array._model.data_type.name == "bytes"
    return bytes if is_bytes else data.dtype


def codec_options(a: Array) -> dict[str, Any]:
    """The codecs of an array as the options that make them."""
    known = pipeline(a._model)
    return {
        "filters": known.filters,
        "serializer": known.serializer,
        "compressors": known.compressors,
    }


def _bound_codec(codec: Named) -> Any:
    """Return the codec object, or its name and configuration where no such codec is known."""
    try:
        return bind_codec(codec, "codecs")
    except OmnizarrError:
        return codec
