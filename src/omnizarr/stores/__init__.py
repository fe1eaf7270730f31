"""Stores: bytes at keys. Small protocols, one file a back end."""

from typing import TYPE_CHECKING

from omnizarr import registry
from omnizarr.stores.base import ChecksSpelling, Inside, Range, SetsIf, Store, Versioned
from omnizarr.stores.identity import check_apart, overlap, place_of, same_place
from omnizarr.stores.local.store import DirectoryStore, LocalStore, NestedDirectoryStore
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.operations import (
    can_list,
    check_key,
    check_writable,
    compares,
    direct_file_root,
    direct_values,
    erase_prefix,
    erase_values,
    file_root,
    get_existing,
    get_many,
    get_partial_values,
    has_cheap_requests,
    has_low_latency,
    holding,
    is_process_local,
    list_dir,
    list_prefix,
    lock,
    lock_prefix,
    one_level,
    replace,
    set_many,
    set_new,
    set_partial_values,
    sizes,
)
from omnizarr.stores.resolve import resolve
from omnizarr.stores.wrappers import PartialStore, StoreWithPartialAccess

if TYPE_CHECKING:
    from omnizarr.stores.cache import CacheStore
    from omnizarr.stores.wrappers import PrefixStore, ReadOnlyStore, WrapperStore
    from omnizarr.stores.zip import ZipStore

__all__ = [
    "CacheStore",
    "ChecksSpelling",
    "DirectoryStore",
    "Inside",
    "LocalStore",
    "MemoryStore",
    "NestedDirectoryStore",
    "PartialStore",
    "PrefixStore",
    "Range",
    "ReadOnlyStore",
    "SetsIf",
    "Store",
    "StoreWithPartialAccess",
    "Versioned",
    "WrapperStore",
    "ZipStore",
    "can_list",
    "check_apart",
    "check_key",
    "check_writable",
    "compares",
    "direct_file_root",
    "direct_values",
    "erase_prefix",
    "erase_values",
    "file_root",
    "get_existing",
    "get_many",
    "get_partial_values",
    "has_cheap_requests",
    "has_low_latency",
    "holding",
    "is_process_local",
    "list_dir",
    "list_prefix",
    "lock",
    "lock_prefix",
    "one_level",
    "overlap",
    "place_of",
    "replace",
    "resolve",
    "same_place",
    "set_many",
    "set_new",
    "set_partial_values",
    "sizes",
]


# Loaded on first use, so that importing the package stays quick.
_LATER = {
    "CacheStore": "stores.cache:CacheStore",
    "PrefixStore": "stores.wrappers:PrefixStore",
    "ReadOnlyStore": "stores.wrappers:ReadOnlyStore",
    "WrapperStore": "stores.wrappers:WrapperStore",
    "ZipStore": "stores.zip:ZipStore",
}

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)
