"""Storage transformers: an array's view of its store, with other keys or values below.

A transformer is registered under its URI as a class called with the store below, the array's
chunk prefix, its own entry in the document, the chunk key encoding and the grid; it has the
methods of a store.
"""

from __future__ import annotations

from omnizarr import registry
from omnizarr.chunk_grids import Grid
from omnizarr.chunk_key_encodings import ChunkKeyEncoding
from omnizarr.errors import UnknownExtension
from omnizarr.model import Named
from omnizarr.stores import Store

__all__ = ["transform"]

registry.register(
    "storage_transformer",
    "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0",
    "omnizarr.storage_transformers.sharding:IndexedShards",
)


def transform(
    store: Store,
    prefix: str,
    transformers: tuple[Named, ...],
    encoding: ChunkKeyEncoding,
    grid: Grid,
) -> Store:
    """The store as the array sees it; the first transformer listed sees its keys first."""
    for i, named in reversed(list(enumerate(transformers))):
        try:
            make = registry.lookup("storage_transformer", named.name, f"storage_transformers[{i}]")
        except UnknownExtension:
            if named.must_understand:
                raise
            continue
        store = make(store, prefix, named, encoding, grid)
    return store
