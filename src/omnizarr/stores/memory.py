"""A store in a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping

from omnizarr.concurrency import key_locks
from omnizarr.errors import StoreError
from omnizarr.stores.base import Bytes, Closeable, Range, Traits, VersionedValue, flat
from omnizarr.stores.identity import ObjectIdentity, StorageIdentity, inside
from omnizarr.stores.operations import check_key, check_writable


class MemoryStore(Closeable):
    """Keys and values in memory.

    Args:
        store_dict: A dictionary of your own, to share or inspect the values.
        read_only: True to refuse all writes.

    Examples:
        >>> store = oz.storage.MemoryStore()
        >>> oz.save(store, np.arange(3))
        >>> sorted(store.list())
        ['c/0', 'zarr.json']
    """

    _copies_share_values = True

    traits = Traits(low_latency=True, cheap_requests=True, process_local=True)
    read_only = False

    def __init__(
        self, store_dict: MutableMapping[str, bytes] | None = None, *, read_only: bool = False
    ) -> None:
        self.values = {} if store_dict is None else store_dict
        self.read_only = read_only

    @property
    def direct_values(self) -> MutableMapping[str, bytes]:
        return self.values

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        value = self._whole(key)
        return value if value is None or range is None else range.of(value)

    def _whole(self, key: str) -> bytes | None:
        value = self.values.get(check_key(key))
        if value is not None and type(value) is not bytes:  # in a dictionary of the user
            try:
                value = bytes(memoryview(value))
            except TypeError:
                kind = type(value).__name__
                raise StoreError(
                    f"the value at {key!r} in the given mapping is of type {kind}, not bytes; give"
                    " a mapping of bytes, or the store that made it"
                ) from None
        return value

    def generation(self, key: str) -> str | None:
        return self.get_versioned(key)[1]

    def get_versioned(self, key: str, range: Range | None = None) -> VersionedValue:
        whole = self._whole(key)
        if whole is None:
            return None, None
        return whole if range is None else range.of(whole), f"{len(whole)}-{hash(whole)}"

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        self.values[check_key(key)] = bytes(flat(value))

    def set_new(self, key: str, value: Bytes) -> bool:
        check_writable(self)
        plain = type(self.values) is dict and type(self).set is MemoryStore.set
        if plain and len(value) > 1:  # Python shares shorter bytes objects
            new = bytes(bytearray(flat(value)))  # a new object, to recognise below
            return self.values.setdefault(check_key(key), new) is new
        if self.get(key) is not None:
            return False
        self.set(key, value)
        return True

    def erase(self, key: str) -> None:
        check_writable(self)
        self.values.pop(check_key(key), None)

    def changing(self) -> key_locks.locked:
        """Keep other threads from storing chunks and from replacing nodes until the block ends."""
        return key_locks.locked(key_locks.VALUES, [str(id(self.values))])

    def list(self) -> Iterator[str]:
        yield from tuple(self.values)

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        found = ((key, self.values.get(check_key(key))) for key in keys)
        return {key: len(value) for key, value in found if value is not None}

    def identity(self, prefix: str = "") -> StorageIdentity:
        return inside(("memory", ObjectIdentity(self.values)), prefix)

    def _values_at(self) -> tuple[str, int]:
        return "memory", id(self.values)

    def __repr__(self) -> str:
        return "memory"
