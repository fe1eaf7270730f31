"""Every Zarr ever written, in one library.

>>> import omnizarr as oz
>>> a = oz.create_array("ocean.zarr", shape=(365, 720, 1440), dtype="f4")
>>> oz.open("ocean.zarr")[0].shape
(720, 1440)
"""

import typing as _typing

from omnizarr import config, errors
from omnizarr import registry as _registry
from omnizarr._version import VERSION as __version__
from omnizarr.config import configure
from omnizarr.errors import (
    CannotExpress,
    ChunkError,
    Conflict,
    InvalidArgument,
    InvalidMetadata,
    InvalidName,
    MissingChunk,
    MissingPackage,
    NodeChanged,
    NodeExists,
    NodeNotFound,
    NoSuchLabel,
    OmnizarrError,
    OmnizarrWarning,
    Problem,
    ReadOnly,
    SelectionError,
    StoreError,
    TargetError,
    UnknownExtension,
    WrongNode,
    WrongType,
)
from omnizarr.registry import register

if _typing.TYPE_CHECKING:
    from omnizarr import aio, cf, codecs, geo, jobs, ome, storage, xarray
    from omnizarr._version import show_versions
    from omnizarr._version import show_versions as print_debug_info
    from omnizarr.as_zarr import as_zarr
    from omnizarr.bulk.analysis.diff import diff
    from omnizarr.bulk.analysis.stats import stats
    from omnizarr.bulk.analysis.suggestion import suggest_chunks
    from omnizarr.bulk.analysis.usage import disk_usage
    from omnizarr.bulk.batches.reader import batches
    from omnizarr.bulk.convert import convert
    from omnizarr.bulk.copy import copy, copy_all, from_array
    from omnizarr.bulk.copy_store import copy_hierarchy, copy_store
    from omnizarr.bulk.in_place import undo_conversion
    from omnizarr.bulk.job import run
    from omnizarr.bulk.rechunk.job import rechunk
    from omnizarr.bulk.repair import repair
    from omnizarr.bulk.verify import verify
    from omnizarr.bulk.view_as.store import view_as
    from omnizarr.codecs.blosc import NumcodecsBlosc as Blosc
    from omnizarr.codecs.compressors import Bz2 as BZ2
    from omnizarr.codecs.compressors import Gzip as GZip
    from omnizarr.codecs.compressors import Lzma as LZMA
    from omnizarr.codecs.compressors import Zlib
    from omnizarr.codecs.zstd import Zstd
    from omnizarr.conventions.ome.pyramid import pyramid
    from omnizarr.hierarchy.array import Array
    from omnizarr.hierarchy.create import (
        array,
        create,
        create_array,
        create_group,
        create_hierarchy,
        empty,
        empty_like,
        full,
        full_like,
        group,
        init_store,
        ones,
        ones_like,
        save,
        save_array,
        save_group,
        tree,
        zeros,
        zeros_like,
    )
    from omnizarr.hierarchy.group import Group
    from omnizarr.hierarchy.open import (
        consolidate_metadata,
        load,
        open,
        open_array,
        open_consolidated,
        open_group,
        open_like,
    )
    from omnizarr.hierarchy.validate import validate
    from omnizarr.hierarchy.view import View
    from omnizarr.interop.dask import from_dask
    from omnizarr.interop.files.exporting import export_file
    from omnizarr.interop.files.importing import import_file
    from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore, NestedDirectoryStore
    from omnizarr.stores.lmdb import LMDBStore
    from omnizarr.stores.redis import RedisStore
    from omnizarr.stores.sqlite import SQLiteStore
    from omnizarr.stores.zip.store import ZipStoreV2 as ZipStore
    from omnizarr.viewer.picture import preview
    from omnizarr.viewer.server import serve, serving

__all__ = [  # noqa: RUF022 - the version last
    "Array",
    "BZ2",
    "Blosc",
    "CannotExpress",
    "ChunkError",
    "Conflict",
    "DirectoryStore",
    "GZip",
    "Group",
    "InvalidArgument",
    "InvalidMetadata",
    "InvalidName",
    "LMDBStore",
    "LZMA",
    "LocalStore",
    "MemoryStore",
    "MissingChunk",
    "MissingPackage",
    "NestedDirectoryStore",
    "NoSuchLabel",
    "NodeChanged",
    "NodeExists",
    "NodeNotFound",
    "OmnizarrError",
    "OmnizarrWarning",
    "Problem",
    "ReadOnly",
    "RedisStore",
    "SQLiteStore",
    "SelectionError",
    "StoreError",
    "TargetError",
    "UnknownExtension",
    "View",
    "WrongNode",
    "WrongType",
    "ZipStore",
    "Zlib",
    "Zstd",
    "aio",
    "array",
    "as_zarr",
    "batches",
    "cf",
    "codecs",
    "config",
    "configure",
    "consolidate_metadata",
    "convert",
    "copy",
    "copy_all",
    "copy_hierarchy",
    "copy_store",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "diff",
    "disk_usage",
    "empty",
    "empty_like",
    "errors",
    "export_file",
    "from_array",
    "from_dask",
    "full",
    "full_like",
    "geo",
    "group",
    "import_file",
    "init_store",
    "jobs",
    "load",
    "ome",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
    "preview",
    "print_debug_info",
    "pyramid",
    "rechunk",
    "register",
    "repair",
    "run",
    "save",
    "save_array",
    "save_group",
    "serve",
    "serving",
    "show_versions",
    "stats",
    "storage",
    "suggest_chunks",
    "tree",
    "undo_conversion",
    "validate",
    "verify",
    "view_as",
    "xarray",
    "zeros",
    "zeros_like",
    "__version__",
]


# Loaded on first use, so that importing the package stays quick.
_LATER = {
    "codecs": "codecs",
    "Array": "hierarchy.array:Array",
    "Group": "hierarchy.group:Group",
    "array": "hierarchy.create:array",
    "create": "hierarchy.create:create",
    "create_array": "hierarchy.create:create_array",
    "create_group": "hierarchy.create:create_group",
    "empty": "hierarchy.create:empty",
    "empty_like": "hierarchy.create:empty_like",
    "full": "hierarchy.create:full",
    "full_like": "hierarchy.create:full_like",
    "group": "hierarchy.create:group",
    "ones": "hierarchy.create:ones",
    "ones_like": "hierarchy.create:ones_like",
    "zeros": "hierarchy.create:zeros",
    "zeros_like": "hierarchy.create:zeros_like",
    "open": "hierarchy.open:open",
    "open_array": "hierarchy.open:open_array",
    "open_group": "hierarchy.open:open_group",
    "open_like": "hierarchy.open:open_like",
    "DirectoryStore": "stores:DirectoryStore",
    "LocalStore": "stores:LocalStore",
    "MemoryStore": "stores:MemoryStore",
    "NestedDirectoryStore": "stores:NestedDirectoryStore",
    "storage": "storage",
    "BZ2": "codecs.compressors:Bz2",
    "Blosc": "codecs.blosc:NumcodecsBlosc",
    "GZip": "codecs.compressors:Gzip",
    "LZMA": "codecs.compressors:Lzma",
    "Zlib": "codecs.compressors:Zlib",
    "Zstd": "codecs.zstd:Zstd",
    "ZipStore": "stores.zip.store:ZipStoreV2",
    "consolidate_metadata": "hierarchy.open:consolidate_metadata",
    "aio": "aio",
    "as_zarr": "as_zarr",
    "batches": "bulk.batches.reader:batches",
    "View": "hierarchy.view:View",
    "convert": "bulk.convert:convert",
    "cf": "cf",
    "geo": "geo",
    "ome": "ome",
    "copy": "bulk.copy:copy",
    "copy_all": "bulk.copy:copy_all",
    "copy_hierarchy": "bulk.copy_store:copy_hierarchy",
    "copy_store": "bulk.copy_store:copy_store",
    "create_hierarchy": "hierarchy.create:create_hierarchy",
    "diff": "bulk.analysis.diff:diff",
    "disk_usage": "bulk.analysis.usage:disk_usage",
    "export_file": "interop.files.exporting:export_file",
    "from_array": "bulk.copy:from_array",
    "from_dask": "interop.dask:from_dask",
    "import_file": "interop.files.importing:import_file",
    "init_store": "hierarchy.create:init_store",
    "jobs": "jobs",
    "load": "hierarchy.open:load",
    "open_consolidated": "hierarchy.open:open_consolidated",
    "print_debug_info": "_version:show_versions",
    "pyramid": "conventions.ome.pyramid:pyramid",
    "rechunk": "bulk.rechunk.job:rechunk",
    "repair": "bulk.repair:repair",
    "run": "bulk.job:run",
    "save": "hierarchy.create:save",
    "save_array": "hierarchy.create:save_array",
    "save_group": "hierarchy.create:save_group",
    "serve": "viewer.server:serve",
    "serving": "viewer.server:serving",
    "show_versions": "_version:show_versions",
    "preview": "viewer.picture:preview",
    "tree": "hierarchy.create:tree",
    "undo_conversion": "bulk.in_place:undo_conversion",
    "validate": "hierarchy.validate:validate",
    "verify": "bulk.verify:verify",
    "view_as": "bulk.view_as.store:view_as",
    "stats": "bulk.analysis.stats:stats",
    "suggest_chunks": "bulk.analysis.suggestion:suggest_chunks",
    "SQLiteStore": "stores.sqlite:SQLiteStore",
    "RedisStore": "stores.redis:RedisStore",
    "LMDBStore": "stores.lmdb:LMDBStore",
    "xarray": "xarray",
}

# By `__getattr__`, too, so that an asterisk imports only what can be had.
_PUBLIC = __all__
del __all__
if not _typing.TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = _registry.attributes(__name__, _LATER, _PUBLIC)


def __dir__() -> list[str]:
    return _registry.available(_PUBLIC)
