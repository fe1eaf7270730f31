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
    from omnizarr.integrations.dask import from_dask
    from omnizarr.integrations.files.exporting import export_file
    from omnizarr.integrations.files.importing import import_file
    from omnizarr.integrations.preview.figure import preview
    from omnizarr.integrations.serve.embed import show
    from omnizarr.integrations.serve.server import serve, serving
    from omnizarr.ops.analysis.diff import diff
    from omnizarr.ops.analysis.stats import stats
    from omnizarr.ops.analysis.suggestion import suggest_chunks
    from omnizarr.ops.analysis.usage import disk_usage
    from omnizarr.ops.batches.reader import batches
    from omnizarr.ops.convert import convert
    from omnizarr.ops.copy import copy, copy_all, from_array
    from omnizarr.ops.copy_store import copy_hierarchy, copy_store
    from omnizarr.ops.in_place import undo_conversion
    from omnizarr.ops.job import run
    from omnizarr.ops.rechunk.job import rechunk
    from omnizarr.ops.repair import repair
    from omnizarr.ops.verify import verify
    from omnizarr.ops.view_as.store import view_as
    from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore, NestedDirectoryStore
    from omnizarr.stores.lmdb import LMDBStore
    from omnizarr.stores.redis import RedisStore
    from omnizarr.stores.sqlite import SQLiteStore
    from omnizarr.stores.zip.store import ZipStoreV2 as ZipStore

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
    "show",
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
    "batches": "ops.batches.reader:batches",
    "View": "hierarchy.view:View",
    "convert": "ops.convert:convert",
    "cf": "cf",
    "geo": "geo",
    "ome": "ome",
    "copy": "ops.copy:copy",
    "copy_all": "ops.copy:copy_all",
    "copy_hierarchy": "ops.copy_store:copy_hierarchy",
    "copy_store": "ops.copy_store:copy_store",
    "create_hierarchy": "hierarchy.create:create_hierarchy",
    "diff": "ops.analysis.diff:diff",
    "disk_usage": "ops.analysis.usage:disk_usage",
    "export_file": "integrations.files.exporting:export_file",
    "from_array": "ops.copy:from_array",
    "from_dask": "integrations.dask:from_dask",
    "import_file": "integrations.files.importing:import_file",
    "init_store": "hierarchy.create:init_store",
    "jobs": "jobs",
    "load": "hierarchy.open:load",
    "open_consolidated": "hierarchy.open:open_consolidated",
    "print_debug_info": "_version:show_versions",
    "pyramid": "conventions.ome.pyramid:pyramid",
    "rechunk": "ops.rechunk.job:rechunk",
    "repair": "ops.repair:repair",
    "run": "ops.job:run",
    "save": "hierarchy.create:save",
    "save_array": "hierarchy.create:save_array",
    "save_group": "hierarchy.create:save_group",
    "serve": "integrations.serve.server:serve",
    "serving": "integrations.serve.server:serving",
    "show": "integrations.serve.embed:show",
    "show_versions": "_version:show_versions",
    "preview": "integrations.preview.figure:preview",
    "tree": "hierarchy.create:tree",
    "undo_conversion": "ops.in_place:undo_conversion",
    "validate": "hierarchy.validate:validate",
    "verify": "ops.verify:verify",
    "view_as": "ops.view_as.store:view_as",
    "stats": "ops.analysis.stats:stats",
    "suggest_chunks": "ops.analysis.suggestion:suggest_chunks",
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
