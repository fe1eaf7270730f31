"""Every Zarr ever written, in one library.

>>> import omnizarr as oz
>>> a = oz.create_array("ocean.zarr", shape=(365, 720, 1440), dtype="f4")
>>> oz.open("ocean.zarr")[0]
"""

from omnizarr.codecs.blosc import NumcodecsBlosc as Blosc
from omnizarr.codecs.deflate import Gzip as GZip
from omnizarr.codecs.deflate import Zlib
from omnizarr.codecs.stdlib import Bz2 as BZ2
from omnizarr.codecs.stdlib import Lzma as LZMA
from omnizarr.codecs.zstd import Zstd
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
from omnizarr.hierarchy.consolidate import consolidate_metadata
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
from omnizarr.hierarchy.validate import validate
from omnizarr.ops.convert import convert
from omnizarr.registry import register
from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore

__all__ = [
    "BZ2",
    "LZMA",
    "Array",
    "Blosc",
    "CannotExpress",
    "ChunkError",
    "DirectoryStore",
    "GZip",
    "Group",
    "InvalidMetadata",
    "InvalidName",
    "LocalStore",
    "MemoryStore",
    "MissingPackage",
    "NodeExists",
    "NodeNotFound",
    "OmnizarrError",
    "OmnizarrWarning",
    "Problem",
    "ReadOnly",
    "SelectionError",
    "StoreError",
    "UnknownExtension",
    "WrongNode",
    "Zlib",
    "Zstd",
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
    "ones",
    "open",
    "open_array",
    "open_group",
    "oz",
    "register",
    "validate",
    "zeros",
]

__version__ = "0.1.0"
