"""Stores: bytes at keys. Small protocols, one file a back end. The core imports names from here."""

from typing import TYPE_CHECKING

from omnizarr import registry
from omnizarr.stores.base import Entry, Range, SetsIf, Store, Versioned, traits
from omnizarr.stores.identity import check_disjoint, overlap, storage_identity
from omnizarr.stores.local.store import DirectoryStore, LocalStore, NestedDirectoryStore
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.operations import (
    can_list,
    changing,
    check_key,
    check_writable,
    direct_file_root,
    direct_values,
    erase_prefix,
    erase_values,
    file_root,
    get_existing,
    get_many,
    get_partial_values,
    list_dir,
    list_entries,
    list_prefix,
    list_sizes,
    lock,
    lock_prefix,
    one_level,
    set_many,
    set_new,
    set_partial_values,
    sizes,
    snapshot,
    supports_compare_and_set,
    update_value,
)
from omnizarr.stores.resolve import StoreWithPartialAccess, close_later, resolve

if TYPE_CHECKING:
    from omnizarr.stores.wrappers import CacheStore, PrefixStore, ReadOnlyStore, WrapperStore
    from omnizarr.stores.zip import ZipStore

# Loaded on first use, so that importing the package stays fast.
_LATER = {
    "CacheStore": "stores.wrappers:CacheStore",
    "PrefixStore": "stores.wrappers:PrefixStore",
    "ReadOnlyStore": "stores.wrappers:ReadOnlyStore",
    "WrapperStore": "stores.wrappers:WrapperStore",
    "ZipStore": "stores.zip:ZipStore",
}

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)
