"""Reasons why names of zarr-python differ or are missing; checked against both libraries."""

from __future__ import annotations

# Public names of zarr-python 2.18 that programs still use.
OLD = [
    "ABSStore", "BZ2", "Blosc", "DBMStore", "DirectoryStore", "FSStore", "GZip", "KVStore",
    "LMDBStore", "LRUStoreCache", "LZMA", "MemoryStore", "MongoDBStore", "N5FSStore", "N5Store",
    "NestedDirectoryStore", "ProcessSynchronizer", "RedisStore", "SQLiteStore", "TempStore",
    "ThreadSynchronizer", "ZipStore", "Zlib", "Zstd", "consolidate_metadata", "copy", "copy_all",
    "copy_store", "open_consolidated", "tree",
]  # fmt: skip
OLD_ARRAY = [
    "astype", "attrs", "blocks", "cdata_shape", "chunk_store", "compressor", "digest", "filters",
    "hexdigest", "initialized", "is_view", "islice", "itemsize", "nbytes", "nbytes_stored",
    "nchunks_initialized", "oindex", "order", "read_only", "synchronizer", "view", "vindex",
    "write_empty_chunks",
]  # fmt: skip
OLD_GROUP = [
    "array_keys", "arrays", "create_dataset", "create_groups", "empty_like", "group_keys",
    "groups", "items", "keys", "move", "require_dataset", "require_groups", "tree", "values",
    "visit", "visititems", "visitkeys", "visitvalues",
]  # fmt: skip

REASONS: dict[str, dict[str, str]] = {
    "zarr": {
        "copy": "use `omnizarr.copy`; zarr-python 3 raises NotImplementedError",
        "copy_all": "use `omnizarr.copy`; zarr-python 3 raises NotImplementedError",
        "copy_store": "use `omnizarr.copy`; zarr-python 3 raises NotImplementedError",
        "load": "returns a dictionary of arrays for a group; zarr-python 3 cannot load groups",
        "print_debug_info": "prints another text",
    },
    "zarr.Array": {},
    "zarr.Group": {},
    "zarr.codecs": {
        **dict.fromkeys(("BloscCname", "BloscShuffle", "Endian", "ShardingCodecIndexLocation"),
                        "give its text; the enum is in `omnizarr.zarr.codecs`"),
        "SubchunkWriteOrder": "metadata do not state the order of chunks inside a shard",
    },
    "zarr.storage": {
        "GpuMemoryStore": "arrays are read into CPU memory; use DLPack to move them to a GPU",
        "ManagedMemoryStore": "use a `MemoryStore`, or a dictionary, and share it",
        "LoggingStore": "see `RecordingStore` in `omnizarr.testing`",
    },
    "zarr 2.18": {
        "DBMStore": "use `SQLiteStore` or `LMDBStore`: DBM files lose what several processes write",
        "copy": "use `omnizarr.copy`",
        "copy_all": "use `omnizarr.copy`",
        "copy_store": "use `omnizarr.copy`",
        "ABSStore": "use a URL, `az://…`",
        "FSStore": "use a URL, or `FsspecStore` in `omnizarr.storage`",
        "KVStore": "use the dictionary itself",
        "LRUStoreCache": "use `CacheStore` in `omnizarr.storage`",
        "MongoDBStore": "write your own store: any object with `get`, `set` and `erase`",
        "N5FSStore": "N5 is another format",
        "N5Store": "N5 is another format",
        **dict.fromkeys(("BZ2", "Blosc", "GZip", "LZMA", "Zstd"), "use `numcodecs`"),
        **dict.fromkeys(("LMDBStore", "RedisStore", "SQLiteStore", "MemoryStore"),
                        "use `omnizarr.storage`"),
        **dict.fromkeys(("DirectoryStore", "NestedDirectoryStore", "ZipStore"),
                        "those of `omnizarr.storage`"),
        "Zlib": "that of `omnizarr.codecs`",
        "ProcessSynchronizer": "not needed: processes lock what they share",
        "TempStore": "use a path from `tempfile`",
        "ThreadSynchronizer": "not needed: threads lock what they share",
    },
    "zarr.Array 2.18": {
        "chunk_store": "metadata and chunks are in the same store",
        "digest": "hash the values that were read",
        "hexdigest": "hash the values that were read",
        "initialized": "see `chunks_present()`",
        "is_view": "see `view`",
        "islice": "iterate over `array[start:end]`",
        "nbytes_stored": "a method, as in zarr-python 3",
        "synchronizer": "not needed: writers lock what they share",
        "view": "`array.view[…]` is a lazy selection",
        "write_empty_chunks": "see `config.write_empty_chunks`",
    },
    "zarr.Group 2.18": dict.fromkeys(
        ("visit", "visititems", "visitkeys", "visitvalues"), "use `members(max_depth=None)`"
    ),
}  # fmt: skip
