"""Storage transformers: stores between an array and its store, which change keys or values.

A transformer is registered under its URI as a class called with the store below, the array's
chunk prefix, its own entry in the metadata, the chunk key encoding and the grid; it has the
methods of a store, and ``stored_key(key)`` for the key below it, in the store ``store``. One that
stores several values in one may have ``group(key)``, the stored key that has the value of a key,
and ``change_many(changes)``, which stores (or erases: None) several values.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnizarr import registry
from omnizarr.chunk_grids import Grid
from omnizarr.chunk_key_encodings import ChunkKeyEncoding
from omnizarr.codecs.pipeline import placed
from omnizarr.errors import InvalidMetadata, UnknownExtension
from omnizarr.formats.draft_extensions import SHARDING
from omnizarr.model import Named
from omnizarr.stores import Store

registry.register(
    "storage_transformer", SHARDING, "omnizarr.storage_transformers.sharding:bind_shards"
)


def indexed_shards(chunks_per_shard: Iterable[int]) -> Named:
    """Return the draft's sharding, with that many chunks along each axis in one shard.

    Give it to `create_array` in the option ``storage_transformers``.
    """
    config = {"chunks_per_shard": [int(n) for n in chunks_per_shard]}
    return Named(SHARDING, {"type": "indexed", "configuration": config})


def transform(
    store: Store,
    prefix: str,
    transformers: tuple[Named, ...],
    encoding: ChunkKeyEncoding,
    grid: Grid,
) -> Store:
    """Return the store for an array's chunks; the first transformer gets their keys first."""
    for i, named in reversed(list(enumerate(transformers))):
        where = f"storage_transformers[{i}]"
        try:
            make = registry.lookup("storage_transformer", named.name, where)
        except UnknownExtension:
            if named.must_understand:
                raise
            continue
        try:
            store = make(store, prefix, named, encoding, grid)
        except InvalidMetadata as e:
            raise placed(e, f"storage transformer {named.name!r}", where) from None
    return store


def stored_key(store: Store, key: str) -> str:
    """Return the key below all transformers of the value that `store` has at `key`."""
    while hasattr(store, "stored_key"):
        key, store = store.stored_key(key), store.store  # type: ignore[attr-defined]
    return key
