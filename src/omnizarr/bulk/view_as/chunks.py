"""The chunks of an array in a view: their stored bytes where the other format can describe them.

Chunks inside shards are chunks of their own where the other format has no shards. Chunks whose
codecs or grid the other format does not have are decoded and encoded again, one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.bulk.adaptation import Adaptation
from omnizarr.bulk.transfer import Transfer, chunk_box, cut_chunk, recode
from omnizarr.extension import (
    BoundArray,
    FilledParts,
    Format,
    IndexedShards,
    Named,
    Range,
    ShardingIndexed,
    Store,
    bind_codec,
    chunk_context,
    chunk_counts,
    encoded_chunk,
    engine,
    get_many,
    inner_chunk_shape,
    key_digest,
    plan,
    present_chunks,
    sizes,
    stored_key,
    stored_keys,
)

Coords: TypeAlias = tuple[int, ...]


def unpacked(array: BoundArray) -> BoundArray:
    """Return an array without shards whose chunks are those inside the shards of another one.

    It is the array itself if it has no shards, or if their chunks cannot be had byte for byte:
    because the axes are transposed before, the shards differ in size or are compressed once more.
    """
    if array.model.storage_transformers:
        model = array.model.with_(storage_transformers=())
        array = BoundArray(array.chunk_store, array.path, array.prefix, model)
    while _is_plainly_sharded(array):
        array = _without_shards(array)
    return array


def _is_plainly_sharded(array: BoundArray) -> bool:
    codecs = array.model.codecs
    plain = len(codecs) == 1 and codecs[0].name == ShardingIndexed.name
    return plain and array.grid.regular is not None and bool(array.model.shape)


def _without_shards(array: BoundArray) -> BoundArray:
    """Return the array of the chunks in shards that no other codec has changed."""
    codec: Any = bind_codec(array.model.codecs[0], "codecs[0]")
    shards: Any = array.first_pipeline.array_bytes
    store = IndexedShards.of_layout(array.store, array.prefix, array.encoding, shards.layout)
    grid = Named("regular", {"chunk_shape": list(codec.chunk_shape)})
    model = array.model.with_(chunk_grid=grid, codecs=codec.codecs)
    return BoundArray(store, array.path, array.prefix, model)


class ViewedArray:
    """An array in another format, whose chunks come from the array that is stored."""

    def __init__(self, adaptation: Adaptation, stored: Store, path: str, format: Format) -> None:
        self.stored = stored  # below all shards
        self.model = adaptation.model
        self.source = adaptation.source
        prefix = format.chunk_prefix(path)
        self.target = BoundArray(self.source.store, path, prefix, self.model)
        changed = adaptation.changed
        self._transfer = Transfer(self.source, self.target, adaptation.method, changed, check=False)
        self.method = adaptation.method
        # True if the stored bytes are those of the view.
        self.keeps_bytes = self.method == "copy" and not any(changed)
        # True if missing chunks are made, since the fill value of the view is another.
        self.fills = adaptation.fills

    def coords(self, key: str) -> Coords | None:
        """Return the coordinates of the chunk at a key of the view, or None if it is none."""
        inside = key[len(self.target.prefix) :]
        coords = self.target.encoding.coords(inside, len(self.model.shape))
        counts = self.target.grid.shape
        if coords is None or not all(c < n for c, n in zip(coords, counts, strict=True)):
            return None
        return coords

    @cached_property
    def description(self) -> str:
        """A digest of all that decides how the stored bytes become those of the view."""
        return key_digest(repr(self.source.model), repr(self.model), self.source.prefix)

    @cached_property
    def memory_needed(self) -> int:
        """About how many bytes making a chunk needs: its values and their encodings."""
        sizes = (math.prod(int(a.size(0)) for a in b.grid.axes) for b in (self.source, self.target))
        return 3 * max(sizes) * self.target.dtype.itemsize

    @property
    def is_partial(self) -> bool:
        """True if a stored value may have some chunks and lack others."""
        return self.method == "values" or self.source.chunk_store is not self.stored

    def direct_key(self, coords: Coords) -> str | None:
        """Return the only key whose stored bytes are those of a chunk, or None."""
        source = self.source
        direct = self.keeps_bytes and source.chunk_store is self.stored
        return source.key(coords) if direct and not source.encoding.other_keys(coords) else None

    # Bytes

    def get(self, coords: Coords, parts: Sequence[Range | None]) -> list[bytes | None]:
        """Return parts of a chunk, each None if the chunk is missing; it is encoded once."""
        if self.keeps_bytes:
            found = self._stored(coords, parts)
            if not self.fills or None not in found:
                return found
        data = self._encoded(coords)
        if data is None:
            return [None] * len(parts)
        return [data if part is None else part.of(data) for part in parts]

    def _stored(self, coords: Coords, parts: Sequence[Range | None]) -> list[bytes | None]:
        source = self.source
        found = get_many(source.chunk_store, [(source.key(coords), part) for part in parts])
        for other in source.encoding.other_keys(coords):
            if found and found[0] is None:
                key = source.prefix + other
                found = get_many(source.chunk_store, [(key, part) for part in parts])
        return found

    def _encoded(self, coords: Coords) -> bytes | None:
        """Return the bytes of a chunk as the view has them, or None if it is missing."""
        if self.method == "copy":
            stored = encoded_chunk(self.source, coords)
            if stored is not None:
                return bytes(recode(self._transfer, coords, stored))
        chunk = None if self.method == "copy" else self._values(coords)
        if chunk is None and self.fills:
            chunk = np.full(self.target.grid.chunk_shape(coords), self.source.fill)
        if chunk is None:
            return None
        with chunk_context("read", self.target, coords):
            values = np.asarray(chunk, self.target.dtype)
            return bytes(self.target.pipeline_at(coords).encode(values))

    def _values(self, coords: Coords) -> npt.NDArray[Any] | None:
        if self.method == "encode":
            return engine.read_chunk(self.source, coords)
        box = chunk_box(self.target, coords)
        part = plan(self.source.grid, box)
        values = np.empty(part.full_shape, self.source.dtype)
        missing: list[Coords] = []
        engine.read(self.source, part, values, filled=missing)
        every = FilledParts(self.source, "fill")
        for row in part.rows():
            every.add_chunk(row)
        if every.coords == set(missing):
            return None
        [row] = plan(self.target.grid, box).rows()
        return cut_chunk(self.target, row, values)

    # Sizes and generations

    def sizes(self, several: Iterable[Coords]) -> dict[Coords, int]:
        """Return the bytes of existing chunks; those that are encoded again are encoded for it."""
        wanted = list(several)
        if self.keeps_bytes:
            keys = {self.source.key(coords): coords for coords in wanted}
            known = sizes(self.source.chunk_store, keys)
            found = {keys[key]: size for key, size in known.items()}
            wanted = [c for c in wanted if c not in found]
            if not self.fills:
                wanted = [c for c in wanted if self.source.encoding.other_keys(c)]
        else:
            found = {}
        for coords in wanted:
            [data] = self.get(coords, [None])
            if data is not None:
                found[coords] = len(data)
        return found

    def stored_keys(self, coords: Coords) -> list[str]:
        """Return the keys of the stored values that a chunk is made from, some of which may exist.

        A shard is the value of its chunks.
        """
        source = self.source
        several = [coords]
        if self.method == "values":
            rows = plan(source.grid, chunk_box(self.target, coords)).rows()
            several = [row.coords for row in rows]
        keys = [
            source.prefix + end
            for c in several
            for end in (source.encoding.key(c), *source.encoding.other_keys(c))
        ]
        return list(dict.fromkeys(stored_key(source.chunk_store, key) for key in keys))

    # Listing

    def list_chunks(self) -> Iterator[Coords]:
        """Yield the coordinates of all chunks that exist."""
        if self.fills:
            yield from np.ndindex(self.target.grid.shape)
            return
        if self.method != "values":
            yield from (coords for coords, _ in stored_keys(self.source))
            return
        source, target = self.source, self.target
        inner = inner_chunk_shape(source.model)
        readable = 0 in source.grid.shape or source.first_pipeline.sharded is not None
        if inner is not None and inner == target.grid.regular and readable:
            yield from present_chunks(source, chunk_counts(source))
            return
        seen: set[Coords] = set()
        for coords, _ in stored_keys(source):
            for row in plan(target.grid, chunk_box(source, coords)).rows():
                if row.coords not in seen:
                    seen.add(row.coords)
                    if inner is None or self.get(row.coords, [None]) != [None]:
                        yield row.coords
