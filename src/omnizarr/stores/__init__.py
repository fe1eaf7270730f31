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
    set_partial_values,
)
from omnizarr.stores.local import DirectoryStore, LocalStore
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.resolve import resolve
from omnizarr.stores.store import Range, Store

__all__ = [
    "DirectoryStore",
    "LocalStore",
    "MemoryStore",
    "Range",
    "Store",
    "can_list",
    "check_writable",
    "erase_prefix",
    "erase_values",
    "get_many",
    "get_partial_values",
    "list_dir",
    "list_prefix",
    "resolve",
    "set_partial_values",
]
