"""zarr-python's names on omnizarr: programs for zarr-python change one import.

>>> import omnizarr.zarr as zarr
>>> group = zarr.open_group("ocean.zarr")
>>> group.create_dataset("salt", shape=(4, 6), dtype="f4").chunks
(4, 6)

Functions, arrays and groups have the methods, options and defaults of zarr-python 3.
`omnizarr.as_zarr` puts the same names in the place of zarr-python's.
"""

from __future__ import annotations

import importlib.util as _importlib
import typing as _typing

from omnizarr import registry as _registry
from omnizarr import show_versions as print_debug_info
from omnizarr.interop.zarr import library as _library
from omnizarr.interop.zarr import opening as _opening
from omnizarr.interop.zarr.arrays import ZarrArray as Array
from omnizarr.interop.zarr.asynchronous import ZarrAsyncArray as AsyncArray
from omnizarr.interop.zarr.asynchronous import ZarrAsyncGroup as AsyncGroup
from omnizarr.interop.zarr.creation import *  # noqa: F403 - all of zarr-python's functions
from omnizarr.interop.zarr.groups import ZarrGroup as Group
from omnizarr.interop.zarr.opening import *  # noqa: F403

__all__ = ["Array", "AsyncArray", "AsyncGroup", "Group", "print_debug_info"]
__all__ += [*_opening.FUNCTIONS]

__version__ = str(_library.module("zarr").__version__)
# Names of zarr-python 2 that version 3 has without a use, or not at all, and what does it here.
_OLD = {
    **dict.fromkeys(("copy", "copy_all", "copy_store"), "omnizarr.copy"),
    **dict.fromkeys(("BZ2", "Blosc", "GZip", "LZMA", "Zstd"), "numcodecs"),
    **dict.fromkeys(("LMDBStore", "MemoryStore", "RedisStore", "SQLiteStore"), "omnizarr.storage"),
}
# Names by which the specifications of versions 1 and 2 show how zarr-python is used.
_PRINTED = {
    "DirectoryStore": "omnizarr.storage:DirectoryStore",
    "NestedDirectoryStore": "omnizarr.storage:NestedDirectoryStore",
    "ZipStore": "omnizarr.stores.zip.store:ZipStoreV2",
    "Zlib": "omnizarr.codecs:Zlib",
    "init_store": "omnizarr.interop.zarr.creation:init_store",
}


def __getattr__(name: str) -> _typing.Any:
    if name in _PRINTED:
        return _registry.load(_PRINTED[name])
    if name in _OLD:
        raise AttributeError(f"zarr-python 3 has no {name}; use {_OLD[name]}")
    if not name.startswith("_"):
        found = getattr(_library.module("zarr"), name, None)
        if found is not None:
            return found
        if _importlib.find_spec(f"zarr.{name}") is not None:
            return _library.module(f"zarr.{name}")
    raise AttributeError(f"module 'omnizarr.zarr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "codecs", "config", "errors", "storage"])
