"""Stores: bytes at keys. Small protocols, one file a back end."""

from omnizarr.stores.abilities import (
    can_list,
    check_writable,
    erase_prefix,
    erase_values,
    get_many,
    get_partial_values,
    list_dir,
    list_prefix,
    lock,
    one_level,
    set_many,
    set_partial_values,
)
from omnizarr.stores.local import DirectoryStore, LocalStore, NestedDirectoryStore
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.partial import PartialStore, StoreWithPartialAccess
from omnizarr.stores.resolve import resolve
from omnizarr.stores.store import Inside, Range, SetsIf, Store, Versioned
from omnizarr.stores.zip import ZipStore

__all__ = [
    "DirectoryStore",
    "Inside",
    "LocalStore",
    "MemoryStore",
    "NestedDirectoryStore",
    "PartialStore",
    "Range",
    "SetsIf",
    "Store",
    "StoreWithPartialAccess",
    "Versioned",
    "ZipStore",
    "can_list",
    "check_writable",
    "erase_prefix",
    "erase_values",
    "get_many",
    "get_partial_values",
    "list_dir",
    "list_prefix",
    "lock",
    "one_level",
    "resolve",
    "set_many",
    "set_partial_values",
]
