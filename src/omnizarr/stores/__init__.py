"""Stores: bytes at keys. Small protocols, one file a back end. The core imports names from here."""

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
