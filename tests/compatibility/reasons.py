"""Why names of zarr-python are not the same here; checked against both libraries."""

from __future__ import annotations

DEFAULT_MODE = "without a mode nothing is created or written: give mode `a`, `r+` or `w`"
INTERNAL = "made by zarr-python's internals; here metadata are read from documents only"

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
        "AsyncArray": "see `omnizarr.aio`: the same arrays with awaitable methods",
        "AsyncGroup": "see `omnizarr.aio`: the same groups with awaitable methods",
        "config": "a module with `get`, `set`, `reset` and `configure`; of zarr-python's keys it"
        " knows `threading.max_workers`, `array.write_empty_chunks` and `default_zarr_format`,"
        " and warns of the others",
        "copy": "works; zarr-python 3 raises NotImplementedError. As in 2.18",
        "copy_all": "works; zarr-python 3 raises NotImplementedError. As in 2.18",
        "copy_store": "works; zarr-python 3 raises NotImplementedError. As in 2.18",
        "create": "`order` of a version 3 array is stored as a transpose; zarr-python ignores it",
        "create_array": "joins the format of the hierarchy where none is given; the default codecs"
        " are blosc and crc32c, not zstd (setting `codecs`); `order` as in `create`; `overwrite`"
        " leaves files that are not Zarr alone and raises",
        "load": "a group gives a dictionary of its arrays; zarr-python 3 cannot load groups",
        "open": DEFAULT_MODE,
        "open_array": DEFAULT_MODE + ", or a shape or data to create",
        "open_group": DEFAULT_MODE,
        "print_debug_info": "other words",
        "save": "an array that is there already is an error without `overwrite`",
        "save_array": "an array that is there already is an error without `overwrite`",
        "save_group": "an array that is there already is an error without `overwrite`",
    },
    "zarr.Array": {
        "async_array": "see `omnizarr.aio`",
        "chunks": "of a rectilinear grid the lengths along each axis",
        "compressors": "objects of `omnizarr.codecs`, also for version 2",
        "compressor": "the only compressor of any version; zarr-python raises for version 3",
        "create": "deprecated in zarr-python; use `create_array`",
        "filters": "objects of `omnizarr.codecs`, also for version 2",
        "from_dict": INTERNAL,
        "info": "a dictionary that prints as a table; other words",
        "info_complete": "a dictionary that prints as a table; other words",
        "metadata": "the version-free model, with `zarr_format`, `to_dict()` and `documents()`",
        "nchunks_initialized": "of shards the chunks that are there; zarr-python counts all"
        " chunks of a shard that is there",
        "order": "the order that is stored, in every version",
        "resize": "`new_shape` is positional; chunks outside are kept with a warning unless"
        " `outside=\"erase\"`",
        "serializer": "an object of `omnizarr.codecs`",
        "store_path": "a store and a path; no methods that read or write",
    },
    "zarr.Group": {
        "array": "no `storage_options`: the store is the group's",
        "create": "no `storage_options`: the store is the group's",
        "create_array": "no `storage_options`: the store is the group's",
        "info": "a dictionary that prints as a table; other words",
        "info_complete": "a dictionary that prints as a table; other words",
        "metadata": "the version-free model, with `zarr_format`, `to_dict()` and `documents()`",
        "store_path": "a store and a path; no methods that read or write",
        "synchronizer": "none is needed: writers take turns",
        "update_attributes_async": "see `omnizarr.aio`",
    },
    "zarr.codecs": {},
    "zarr.storage": {
        "GpuMemoryStore": "arrays are read into the processor's memory; DLPack leads on from there",
        "LoggingStore": "see `omnizarr.testing` for stores that record what is asked of them",
    },
    "zarr.errors": {
        "UnstableSpecificationWarning": "never given",
        "ZarrDeprecationWarning": "never given",
        "ZarrFutureWarning": "never given",
        "ZarrRuntimeWarning": "every warning is an `OmnizarrWarning`, which is a UserWarning",
    },
    "zarr 2.18": {
        "ABSStore": "a URL `az://…`",
        "FSStore": "a URL, or `FsspecStore` in `omnizarr.storage`",
        "KVStore": "give the dictionary itself",
        "LRUStoreCache": "`CacheStore` in `omnizarr.storage`",
        "MongoDBStore": "any object with `get`, `set` and `erase` is a store",
        "N5FSStore": "N5 is another format",
        "N5Store": "N5 is another format",
        "ProcessSynchronizer": "none is needed: processes on one disk take turns",
        "TempStore": "a path of `tempfile`",
        "ThreadSynchronizer": "none is needed: threads take turns",
    },
    "zarr.Array 2.18": {
        "chunk_store": "documents and chunks lie in one store",
        "digest": "hash the values that were read",
        "hexdigest": "hash the values that were read",
        "initialized": "see `chunks_present()`",
        "is_view": "see `view`",
        "islice": "iterate over `array[start:end]`",
        "nbytes_stored": "a method, as in zarr-python 3",
        "synchronizer": "none is needed: writers take turns",
        "view": "`array.view[…]` is a part that is chosen now and read later",
        "write_empty_chunks": "see `config.write_empty_chunks`",
    },
    "zarr.Group 2.18": {},
}  # fmt: skip
