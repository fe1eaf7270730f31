"""Bound arrays: the model of an array with its names bound to code, for the engines.

An unknown codec, data type or transformer does not stop an array from being opened; asking for
what needs it raises then, naming it.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter, eq
from typing import Any

import numpy as np

from omnizarr import chunk_grids, chunk_key_encodings, data_types, errors, registry
from omnizarr.chunk_grids import Grid
from omnizarr.chunk_key_encodings import ChunkKeyEncoding
from omnizarr.codecs import CodecPipeline, Spec, bind_codec, bind_pipeline
from omnizarr.codecs.codec import Buffer
from omnizarr.concurrency.cache import Cache, Key
from omnizarr.data_types.data_type import DataType, Scalar
from omnizarr.errors import ChunkError, OmnizarrError, StoreError, UnknownExtension, error_context
from omnizarr.formats.codec_names import stored_order
from omnizarr.model import ArrayModel, Named, paths
from omnizarr.storage_transformers import stored_key, transform
from omnizarr.stores import Store, changing, traits
from omnizarr.stores.base import ChangesIf
from omnizarr.stores.identity import unique_key

MAX_CHUNK_BYTES = 2**40
_pipelines: Cache[Hashable, CodecPipeline] = Cache(512)
# The parts of bound models by the ids of all that they depend on, which the model keeps alive. So
# what is opened again need not be checked again.
_checked: Cache[Hashable, tuple[ArrayModel, dict[str, Any]]] = Cache(512)
# Models that were bound completely, by their ids, so that handles need not bind them at once.
_complete: Cache[Hashable, ArrayModel] = Cache(512)
# The parts of a model that binding depends on, besides the shape.
_bound_parts = attrgetter(
    *("data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
    "storage_transformers",
)
_PARTS = ("data_type", "fill", "encoding", "skipped", "_pipelines", "layouts")


def was_bound(model: ArrayModel) -> bool:
    """Return True if binding this model again cannot raise, and skips nothing."""
    return _complete.get((registry.generation(), id(model))) is not None


@dataclass(eq=False)
class BoundArray:
    """An array in a store, with its model bound to code."""

    store: Store
    path: str
    prefix: str
    model: ArrayModel
    _pipelines: dict[tuple[int, ...], CodecPipeline] = field(default_factory=dict)
    # The layout for the compiled kernel, with and without empty chunks, by type of store.
    layouts: dict[tuple[bool, type], Any] = field(default_factory=dict)
    # What `kernel.read_small` needs to know of the array; empty: it cannot read it; None: not yet
    # known.
    small: tuple[Any, ...] | None = None
    # The `ArrayWatch`; None for an array that nobody else can change, or that has no metadata yet.
    watch: Any = None
    # The watch of the array as it is stored, for one with a shape that is not stored yet.
    stored_watch: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what is not bound; another process binds it again."""
        return BoundArray, (self.store, self.path, self.prefix, self.model)

    def note_missing(self) -> None:
        """Note a missing chunk; another writer may just have erased it, or the whole array."""
        if self.watch is not None:
            self.watch.note_missing()

    def confirm(self) -> None:
        """Raise NodeChanged if another node is stored in the place of the array."""
        if self.watch is not None:
            self.watch.confirm()

    @cached_property
    def compares_metadata(self) -> bool:
        """True if chunks are stored in transactions that compare the metadata of the array."""
        store = self.store
        if self.chunk_store is not store or (self.watch or self.stored_watch) is None:
            return False
        return isinstance(store, ChangesIf) and traits(store).low_latency

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Keep threads from replacing the array in memory while its chunks are stored."""
        with changing(self.store):
            self.confirm()
            yield

    def check(self) -> bool:
        """Raise if the model is invalid; return False if part of it is only unknown."""
        if not self._was_checked():
            unknown = False
            for part in ("grid", "encoding", "fill", "any_pipeline", "chunk_store"):
                try:
                    getattr(self, part)
                except (UnknownExtension, errors.MissingPackage):
                    unknown = True
            if unknown:
                return False
            _ = self.skipped
            mine = {part: self.__dict__[part] for part in (*_PARTS, "grid")}
            _checked.put(self._identity(), (self.model, mine))
        model = self.model
        if not (model.storage_transformers or self.skipped or self.grid.regular is None):
            _complete.put((registry.generation(), id(model)), model)
        return True

    def _identity(self) -> Hashable:
        return registry.generation(), *map(id, _bound_parts(self.model))

    def _was_checked(self) -> bool:
        """Bind the array as an equal one was bound before; return False if there is none."""
        found = _checked.get(self._identity())
        if found is None:
            return False
        model, parts = found
        grid = parts["grid"]
        if model.shape != self.model.shape:
            grid = grid.resized(self.model.shape)
            if grid is None:
                return False
        self.__dict__.update(parts, grid=grid)
        _ = self.chunk_store
        return True

    @cached_property
    def overhangs(self) -> bool:
        """True where chunks at the end of an axis reach beyond it, so it may grow into them."""
        return any(n >= 0 for n in self._ends)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """The last chunk of each axis if it reaches beyond the axis, else -1."""
        if 0 in self.grid.shape:
            return ()
        ends = ((a, a.count - 1) for a in self.grid.axes)
        return tuple(n if a.start(n) + a.size(n) > a.length else -1 for a, n in ends)

    def reaches_beyond(self, coords: tuple[int, ...]) -> bool:
        """Return True if a chunk has elements beyond the shape."""
        return any(map(eq, coords, self._ends))

    def reshaped(self, model: ArrayModel) -> BoundArray:
        """Return the array with another shape; the caller prevents its replacement."""
        stored = self.watch or self.stored_watch
        other = BoundArray(self.store, self.path, self.prefix, model, stored_watch=stored)
        other.__dict__.update({p: self.__dict__[p] for p in _PARTS if p in self.__dict__})
        grid = self.grid.resized(model.shape)
        if grid is not None:
            other.__dict__["grid"] = grid
        return other

    @property
    def any_pipeline(self) -> CodecPipeline | None:
        """The pipeline of the first chunk; None for an empty array without a chunk shape."""
        no_chunk = 0 in self.grid.shape and self.grid.regular is None
        return None if no_chunk else self.first_pipeline

    def _binding(self, what: str) -> error_context:
        """Have errors of the block name the array and the part of its metadata."""

        def where(error: Exception) -> tuple[str, dict[str, Any]]:
            text = f"array {paths.show(self.path)!r} in {self.store!r}"
            return (text if what in str(error) else f"{text}: {what}"), {}

        return error_context(where)

    @cached_property
    def data_type(self) -> DataType:
        with self._binding("data_type"):
            return data_types.bind(self.model.data_type)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return self.data_type.dtype

    @cached_property
    def fill(self) -> Scalar:
        data_type, model = self.data_type, self.model
        with self._binding("fill_value"):
            found = data_type.fill(model.fill_value).copy()
        in_bytes = isinstance(model.fill_value.json, str) and model.data_type.name == "structured"
        if in_bytes and stored_order(model.codecs) == "big":  # which are as chunks have them
            big = np.frombuffer(found.tobytes(), found.dtype.newbyteorder(">"))
            found = big.astype(found.dtype)[0:1].reshape(())
        found.flags.writeable = False  # all arrays of an equal description share it
        return found

    def shown(self, elements: Any) -> Any:
        """Return elements as users see them: for an optional type, a masked array."""
        masking = self.data_type.masking
        return elements if masking is None else masking.masked_array(elements, self.fill)

    @cached_property
    def fill_defined(self) -> bool:
        """True if the metadata state the value of missing chunks."""
        stated = self.model.fill_value
        return stated.json is not None or stated.dialect == "v3"  # where null is a value

    @cached_property
    def grid(self) -> Grid:
        with self._binding("chunk_grid"):
            return chunk_grids.bind(self.model.chunk_grid, self.model.shape)

    @cached_property
    def encoding(self) -> ChunkKeyEncoding:
        with self._binding("chunk_key_encoding"):
            return chunk_key_encodings.bind(self.model.chunk_key_encoding)

    @cached_property
    def encoded_prefix(self) -> bytes:
        """The prefix as bytes of file names."""
        return os.fsencode(self.prefix)

    @cached_property
    def chunk_store(self) -> Store:
        """The store of the array's chunks: above its storage transformers."""
        transformers = self.model.storage_transformers
        if not transformers:
            return self.store
        with self._binding("storage_transformers"):
            return transform(self.store, self.prefix, transformers, self.encoding, self.grid)

    def pipeline(self, chunk_shape: tuple[int, ...]) -> CodecPipeline:
        """Return the codec pipeline for chunks of that shape."""
        found = self._pipelines.get(chunk_shape)
        if found is None:
            spec = Spec(chunk_shape, self.data_type, self.fill)
            if (spec.nbytes or 0) > MAX_CHUNK_BYTES:
                raise errors.InvalidMetadata(
                    f"array {paths.show(self.path)!r}: one chunk of shape {chunk_shape} has"
                    f" {spec.nbytes} bytes"
                )
            # Many arrays have the same codecs, and a pipeline is the same for all of them.
            key = self.pipeline_key(chunk_shape)
            found = None if key is None else _pipelines.get(key)
            if found is None:
                with self._binding("codecs"):
                    found = bind_pipeline(self.model.codecs, spec)
                if key is not None:
                    _pipelines.put(key, found)
            self._pipelines[chunk_shape] = found
        return found

    def pipeline_at(self, coords: tuple[int, ...]) -> CodecPipeline:
        """Return the codec pipeline for one chunk."""
        return self._regular_pipeline or self.pipeline(self.grid.chunk_shape(coords))

    @property
    def first_pipeline(self) -> CodecPipeline:
        """The codec pipeline for the first chunk; in a regular grid, for all chunks."""
        return self.pipeline_at((0,) * len(self.grid.axes))

    @cached_property
    def _regular_pipeline(self) -> CodecPipeline | None:
        regular = self.grid.regular
        return None if regular is None else self.pipeline(regular)

    def pipeline_key(self, chunk_shape: tuple[int, ...]) -> Hashable:
        """Return a key for everything that determines how chunks of a shape are stored, or None."""
        rest = self.codecs_key
        return None if rest is None else (registry.generation(), chunk_shape, rest)

    @cached_property
    def codecs_key(self) -> Key | None:
        """A key for everything but the shape that determines the encoding of chunks, or None."""
        data_type, fill = self.data_type, self.fill
        value = fill[()] if data_type.variable else fill
        steps = self.model.codecs, self.model.storage_transformers
        return data_types.value_key((*steps, data_type.named, data_type.dtype, value))

    @cached_property
    def source(self) -> Key:
        """A key that identifies the store; it does not keep the store alive."""
        return unique_key(self.store)

    def key(self, coords: tuple[int, ...]) -> str:
        """Return the key of a chunk."""
        return self.prefix + self.encoding.key(coords)

    def stored_key(self, coords: tuple[int, ...]) -> str:
        """Return the key of the stored value that has a chunk: in the draft, maybe of its shard."""
        return stored_key(self.chunk_store, self.key(coords))

    def encoded(self, coords: tuple[int, ...]) -> bytes | None:
        """Return the stored bytes of a chunk, or None if it is missing."""
        found = self.chunk_store.get(self.key(coords))
        for other in self.encoding.other_keys(coords) if found is None else ():
            found = self.chunk_store.get(self.prefix + other)
        return found

    def put_encoded(self, coords: tuple[int, ...], data: Buffer | None) -> None:
        """Store the bytes of a chunk; None erases it."""
        key, store = self.key(coords), self.chunk_store
        if data is None:
            store.erase(key)
        else:
            store.set(key, data)
        for other in self.encoding.other_keys(coords):
            if store.get(self.prefix + other) is not None:
                store.erase(self.prefix + other)  # or the old value would be read again

    @cached_property
    def skipped(self) -> tuple[str, ...]:
        """The names of unknown codecs and transformers that may be ignored."""
        transformers = (
            t.name
            for t in self.model.storage_transformers
            if not t.must_understand and registry.find("storage_transformer", t.name) is None
        )
        return (*_skipped(self.model.codecs), *transformers)

    def check_skipped(self) -> None:
        """Raise if chunks would be written without a codec that only reading may skip."""
        if self.skipped:
            raise StoreError(
                f"array {paths.show(self.path)!r} has {self.skipped[0]!r}, which is unknown here;"
                " it may be skipped on reading, but not on writing"
            )


def chunk_context(verb: str, array: BoundArray, coords: tuple[int, ...]) -> error_context:
    """Have errors of the block say which chunk could not be read or written."""

    def where(error: Exception) -> tuple[str, dict[str, Any]]:
        path, key = paths.show(array.path), array.stored_key(coords)
        text = f"cannot {verb} chunk {coords} of {path} (key {key!r} in {array.store!r})"
        return text, {"path": path, "chunk": coords, "key": key}

    return error_context(where, into=ChunkError, catch=(OmnizarrError, MemoryError))


def _skipped(codecs: tuple[Named, ...]) -> Iterator[str]:
    """Yield the names of unknown codecs that may be ignored, also inside others."""
    for codec in codecs:
        if codec.must_understand and "codecs" not in codec.configuration:
            continue
        try:
            bound = bind_codec(codec, "")
        except UnknownExtension:
            if not codec.must_understand:
                yield codec.name
        except OmnizarrError:
            continue  # reported by `check`, or when data are read
        else:
            yield from _skipped(getattr(bound, "inside", ()))
