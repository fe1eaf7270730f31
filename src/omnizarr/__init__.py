"""Every Zarr ever written, in one library.

>>> import omnizarr as oz
>>> a = oz.create_array("ocean.zarr", shape=(365, 720, 1440), dtype="f4")
>>> oz.open("ocean.zarr")[0]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnizarr._version import VERSION as __version__
from omnizarr.config import configure
from omnizarr.errors import (
    CannotExpress,
    ChunkError,
    InvalidMetadata,
    InvalidName,
    MissingPackage,
    NodeExists,
    NodeNotFound,
    OmnizarrError,
    OmnizarrWarning,
    Problem,
    ReadOnly,
    SelectionError,
    StoreError,
    UnknownExtension,
    WrongNode,
)
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.create import (
    array,
    create,
    create_array,
    create_group,
    empty,
    full,
    group,
    init_store,
    ones,
    open,
    open_array,
    open_group,
    zeros,
)
from omnizarr.hierarchy.group import Group
from omnizarr.registry import register
from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore, NestedDirectoryStore

if TYPE_CHECKING:
    from omnizarr import aio, ome
    from omnizarr.codecs.blosc import NumcodecsBlosc as Blosc
    from omnizarr.codecs.deflate import Gzip as GZip
    from omnizarr.codecs.deflate import Zlib
    from omnizarr.codecs.stdlib import Bz2 as BZ2
    from omnizarr.codecs.stdlib import Lzma as LZMA
    from omnizarr.codecs.zstd import Zstd
    from omnizarr.hierarchy.consolidate import consolidate_metadata, open_consolidated
    from omnizarr.hierarchy.validate import validate
    from omnizarr.hierarchy.view import View
    from omnizarr.ops.convert import convert
    from omnizarr.stores.dbm import DBMStore
    from omnizarr.stores.zarr_python_2 import ZipStore

__all__ = [  # noqa: RUF022 - the version last
    "BZ2",
    "LZMA",
    "Array",
    "Blosc",
    "CannotExpress",
    "ChunkError",
    "DBMStore",
    "DirectoryStore",
    "GZip",
    "Group",
    "InvalidMetadata",
    "InvalidName",
    "LocalStore",
    "MemoryStore",
    "MissingPackage",
    "NestedDirectoryStore",
    "NodeExists",
    "NodeNotFound",
    "OmnizarrError",
    "OmnizarrWarning",
    "Problem",
    "ReadOnly",
    "SelectionError",
    "StoreError",
    "UnknownExtension",
    "View",
    "WrongNode",
    "ZipStore",
    "Zlib",
    "Zstd",
    "aio",
    "array",
    "configure",
    "consolidate_metadata",
    "convert",
    "create",
    "create_array",
    "create_group",
    "empty",
    "full",
    "group",
    "init_store",
    "ome",
    "ones",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "register",
    "validate",
    "zeros",
    "__version__",
]


# Loaded on first use, so that importing the package stays quick.
_LATER = {
    "Blosc": "codecs.blosc:NumcodecsBlosc",
    "GZip": "codecs.deflate:Gzip",
    "Zlib": "codecs.deflate:Zlib",
    "BZ2": "codecs.stdlib:Bz2",
    "LZMA": "codecs.stdlib:Lzma",
    "Zstd": "codecs.zstd:Zstd",
    "ZipStore": "stores.zarr_python_2:ZipStore",
    "DBMStore": "stores.dbm:DBMStore",
    "consolidate_metadata": "hierarchy.consolidate:consolidate_metadata",
    "aio": "aio",
    "View": "hierarchy.view:View",
    "open_consolidated": "hierarchy.consolidate:open_consolidated",
    "validate": "hierarchy.validate:validate",
    "convert": "ops.convert:convert",
    "ome": "ome",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'omnizarr' has no attribute {name!r}")
    module, _, attribute = _LATER[name].partition(":")
    value: Any = import_module(f"omnizarr.{module}")
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
