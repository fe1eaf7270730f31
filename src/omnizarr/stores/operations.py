"""The whole store interface for any store: native where a store has it, derived where not.

A reader of a shard requests its index first and then the chunks that it refers to; another writer
may replace the shard in between. `read_consistently` reads from a snapshot where a store has one,
and otherwise notices by the generation of every part that the value was replaced.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol, TypeGuard, TypeVar

from omnizarr.concurrency import leases
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.errors import InvalidArgument, OmnizarrError, ReadOnly, StoreError
from omnizarr.stores.base import (
    Bytes,
    Entry,
    ErasesPrefix,
    GetMany,
    GetsManyVersioned,
    HasSizes,
    Lists,
    ListsDir,
    ListsEntries,
    ListsPrefix,
    ListsSizes,
    LockKind,
    Locks,
    Range,
    SetsIf,
    SetsMany,
    SetsPartially,
    Store,
    Versioned,
    flat,
)

_BATCH = 1000  # keys whose sizes are requested at a time
_BAD_KEY = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|\0")  # empty, '.' and '..' segments, NUL
T = TypeVar("T")


# Reading


def get_many(store: Store, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
    """Return values, or parts of them, in the order of the requests; None for missing keys."""
    many = getattr(store, "get_many", None)  # faster than isinstance
    if many is not None:
        found: list[bytes | None] = many(requests)
        return found
    return [store.get(key, range) for key, range in requests]


def get_existing(store: Store, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the values of those keys that exist, from one batch of requests."""
    wanted = list(keys)
    values = get_many(store, [(key, None) for key in wanted])
    return {k: v for k, v in zip(wanted, values, strict=True) if v is not None}


def get_partial_values(
    store: Store, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
) -> list[bytes | None]:
    """Return what `get_many` does; requests are the draft's, ``(key, (start, length))``."""
    return get_many(store, [(key, Range(*range)) for key, range in key_ranges])


def sizes(store: Store, keys: Iterable[str]) -> dict[str, int]:
    """Return the bytes of existing values by key; fetch values only if the store has no sizes."""
    if isinstance(store, HasSizes):
        return store.sizes(keys)
    found = ((key, store.get(key)) for key in keys)
    return {key: len(value) for key, value in found if value is not None}


def snapshot(store: Store) -> AbstractContextManager[GetMany]:
    """Return a `get_many` for several requests; values stay as they were where a store can."""
    take = getattr(store, "snapshot", None)  # faster than isinstance
    taken: AbstractContextManager[GetMany] | None = None if take is None else take()
    return nullcontext(partial(get_many, store)) if taken is None else taken


class ValueReplaced(Overtaken):
    """A part of a value belongs to another value than an earlier part."""


class ConsistentReader:
    """Fetches parts of values; raises `ValueReplaced` if a value was replaced in between.

    A store without generations for every part is read by `fetch`.
    """

    def __init__(self, store: Store, fetch: GetMany | None = None) -> None:
        self._store = store
        self._fetch = partial(get_many, store) if fetch is None else fetch
        self._has_generations = isinstance(store, GetsManyVersioned)
        self._known: dict[str, str] = {}

    def __call__(self, requests: Sequence[tuple[str, Range | None]]) -> list[bytes | None]:
        if not self._has_generations or all(part is None for _, part in requests):
            return self._fetch(requests)
        found = self._store.get_many_versioned(requests)  # type: ignore[attr-defined]  # just seen
        for (key, part), (data, generation) in zip(requests, found, strict=True):
            known = self._known.get(key)
            if part is None or known == generation:
                continue
            if known is not None and (data is None or generation is not None):
                raise ValueReplaced(f"{key!r} in {self._store!r}")
            if generation is not None:
                self._known[key] = generation
        return [data for data, _ in found]


def read_consistently(store: Store, read: Callable[[ConsistentReader], T]) -> T:
    """Return what `read` returns; call it again if a value was replaced while it was read."""

    def attempt() -> T:
        with snapshot(store) as fetch:
            return read(ConsistentReader(store, fetch))

    consequence = " while it was read; read it again when it is written less often"
    return retry_conflicts(attempt, consequence, "replaced")


# Writing


def set_many(store: Store, values: Iterable[tuple[str, Bytes]]) -> None:
    """Store several whole values."""
    check_writable(store)
    if isinstance(store, SetsMany):
        store.set_many(values)
        return
    for key, value in values:
        store.set(key, value)


def set_new(store: Store, key: str, value: Bytes) -> bool:
    """Store a value unless the key exists; return True if it was stored.

    If a store has neither `set_new` nor `set_if`, another writer may create the key in between.
    """
    new = getattr(store, "set_new", None)  # faster than isinstance
    if new is not None:
        return bool(new(key, value))
    if isinstance(store, SetsIf):
        return store.set_if(key, value, None)
    if store.get(key) is not None:
        return False
    store.set(key, value)
    return True


def set_partial_values(store: Store, parts: Iterable[tuple[str, int, Bytes]]) -> None:
    """Overwrite parts of values at byte offsets; the parts of one key must not overlap.

    An empty part changes nothing. A wrong part is an error before anything is changed.
    """
    check_writable(store)
    by_key: dict[str, list[tuple[int, Bytes]]] = {}
    for key, start, value in parts:
        check_offset(check_key(key), start)
        part = flat(value)
        if len(part):
            by_key.setdefault(key, []).append((start, part))
    for key, pieces in by_key.items():
        pieces.sort(key=lambda piece: piece[0])
        for (a, first), (b, _) in itertools.pairwise(pieces):
            if a + len(first) > b:
                raise StoreError(f"parts of {key!r} overlap: [{a}, {a + len(first)}) and [{b}, …)")
    for key, pieces in by_key.items():
        if isinstance(store, SetsPartially):
            for start, value in pieces:
                store.set_partial(key, start, value)
            continue
        whole = bytearray(store.get(key) or b"")
        for start, value in pieces:
            if start > len(whole):
                whole.extend(bytes(start - len(whole)))
            whole[start : start + len(value)] = value
        store.set(key, bytes(whole))


def erase_values(store: Store, keys: Iterable[str]) -> None:
    """Erase several keys; missing ones are no error."""
    check_writable(store)
    for key in keys:
        store.erase(key)


def erase_prefix(store: Store, prefix: str) -> None:
    """Erase all keys below a prefix, which ends in ``/`` or is empty for everything."""
    check_writable(store)
    check_prefix(prefix)
    if isinstance(store, ErasesPrefix):
        store.erase_prefix(prefix)
    else:
        erase_values(store, list(list_prefix(store, prefix)))


# Locks and compare-and-set


def lock(
    store: Store, prefix: str, keys: Iterable[str], kind: LockKind
) -> AbstractContextManager[None]:
    """Keep other processes from changing keys below a prefix, if the store can."""
    return store.lock_keys(prefix, keys, kind) if isinstance(store, Locks) else nullcontext()


def lock_prefix(
    store: Store, prefix: str, keys: Iterable[str], kind: LockKind
) -> AbstractContextManager[None]:
    """Do as `lock` does; a store with compare-and-set gets one lease for the whole prefix."""
    if supports_compare_and_set(store):
        return leases.leased(store, prefix, kind)
    return lock(store, prefix, keys, kind)


class Conditional(Store, Versioned, SetsIf, Protocol):
    """A store that can compare and set."""


def supports_compare_and_set(store: Store) -> TypeGuard[Conditional]:
    """Return True if concurrent changes are detected by compare-and-set, not kept out by locks."""
    # An isinstance check of a protocol is fast if the object has the ability.
    locks = isinstance(store, Locks)
    return not locks and isinstance(store, SetsIf) and isinstance(store, Versioned)


def update_value(
    store: Store,
    key: str,
    change: Callable[[bytes | None], Bytes | None],
    consequence: str = "; it was not stored, try again",
) -> bool:
    """Store what `change` makes of a value; return False if it changes nothing.

    `change` gets the current value, None if there is none, and returns the new one, the same
    object to change nothing, or None to erase the key. It is called again if another writer has
    replaced the value meanwhile; `consequence` ends the message if that happens every time. For a
    store without compare-and-set, the caller has to lock the key.
    """
    if not supports_compare_and_set(store):
        old = store.get(key)
        new = change(old)
        if new is old:
            return False
        if new is None:
            store.erase(key)
        else:
            store.set(key, new)
        return True
    conditional = store

    def attempt() -> bool:
        old, generation = conditional.get_versioned(key)
        new = change(old)
        if new is old:
            return False
        if new is None:
            conditional.erase(key)
        elif not conditional.set_if(key, new, generation):
            raise Overtaken(f"{key!r} in {store!r}")
        return True

    return retry_conflicts(attempt, consequence)


def waits_for(store: Store) -> bool:
    """Return True if an interrupt waits for the values that are being stored.

    Not where a server may stall: a value that is compared and set cannot do harm later.
    """
    return has_low_latency(store) or not supports_compare_and_set(store)


# Listing


def can_list(store: Store) -> bool:
    """Return True if a store can list its keys."""
    return isinstance(store, (Lists, ListsPrefix, ListsDir))


def list_prefix(store: Store, prefix: str) -> Iterator[str]:
    """Yield all keys below a prefix."""
    check_prefix(prefix)
    if isinstance(store, ListsPrefix):
        yield from store.list_prefix(prefix)
    elif isinstance(store, Lists):
        yield from (key for key in store.list() if key.startswith(prefix))
    elif isinstance(store, ListsDir):
        keys, prefixes = store.list_dir(prefix)
        yield from keys
        for inner in prefixes:
            yield from list_prefix(store, inner)
    else:
        raise StoreError(f"{store!r} cannot list its keys")


def list_sizes(store: Store, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield all keys below a prefix with the bytes of their values.

    Keys without a readable value, such as named pipes in a directory, are left out.
    """
    check_prefix(prefix)
    if isinstance(store, ListsSizes):
        yield from store.list_sizes(prefix)
        return
    keys = list_prefix(store, prefix)
    while some := [*itertools.islice(keys, _BATCH)]:
        yield from sizes(store, some).items()


def list_entries(store: Store, prefix: str) -> Iterator[Entry]:
    """Yield all keys below a prefix with what a store knows of their values without reading them.

    Keys without a readable value are left out, as by `list_sizes`.
    """
    check_prefix(prefix)
    if isinstance(store, ListsEntries):
        yield from store.list_entries(prefix)
    elif isinstance(store, (ListsSizes, HasSizes)):
        yield from (Entry(key, size) for key, size in list_sizes(store, prefix))
    else:
        yield from map(Entry, list_prefix(store, prefix))


def list_dir(store: Store, prefix: str) -> tuple[list[str], list[str]]:
    """Return the keys and prefixes one level below a prefix, in full and sorted."""
    check_prefix(prefix)
    if isinstance(store, ListsDir):
        keys, prefixes = store.list_dir(prefix)
        return sorted(keys), sorted(prefixes)
    return one_level(list_prefix(store, prefix), prefix)


def one_level(keys: Iterable[str], prefix: str) -> tuple[list[str], list[str]]:
    """Return what `list_dir` does, from all keys below a prefix."""
    found: set[str] = set()
    inner: set[str] = set()
    for key in keys:
        head, slash, _ = key[len(prefix) :].partition("/")
        (inner if slash else found).add(prefix + head + slash)
    return sorted(found), sorted(inner)


# Listing sorted keys


def prefix_end(prefix: str) -> str:
    """Return the first text that sorts after all keys below a prefix, which ends in a slash."""
    return prefix[:-1] + "0"  # the character after the slash


def keys_below(keys: Sequence[str], prefix: str) -> Sequence[str]:
    """Return the keys below a prefix, of a sorted sequence."""
    if not prefix:
        return keys
    return keys[bisect_left(keys, prefix) : bisect_left(keys, prefix_end(prefix))]


def list_level(scan: Callable[[str], Iterator[str]], prefix: str) -> tuple[list[str], list[str]]:
    """Return keys and prefixes one level down; `scan(start)` yields sorted keys from `start` on."""
    keys: list[str] = []
    prefixes: list[str] = []
    start: str | None = prefix
    while start is not None:
        found, start = scan(start), None
        for key in found:
            if not key.startswith(prefix):
                break
            head, slash, _ = key[len(prefix) :].partition("/")
            if slash:
                prefixes.append(f"{prefix}{head}/")
                start = prefix_end(prefixes[-1])
                break
            keys.append(key)
    return keys, prefixes


def scan_sorted(keys: Sequence[str]) -> Callable[[str], Iterator[str]]:
    """Return the `scan` of `list_level` for a sorted sequence."""
    return lambda start: (keys[i] for i in range(bisect_left(keys, start), len(keys)))


# Declared abilities


def has_low_latency(store: object) -> bool:
    """Return True for a store that declares `LowLatency`."""
    return bool(getattr(store, "low_latency", False))


def has_cheap_requests(store: object) -> bool:
    """Return True for a store that declares `CheapRequests`."""
    return bool(getattr(store, "cheap_requests", False))


def is_process_local(store: object) -> bool:
    """Return True for a store that declares `ProcessLocal`, and for one that wraps such a store."""
    while store is not None:
        if getattr(store, "process_local", False):
            return True
        store = getattr(store, "inner", None)
    return False


def file_root(store: object) -> Path | None:
    """Return the directory of a store that declares `KeepsFiles`, else None."""
    root: Path | None = getattr(store, "file_root", None)
    return root


def direct_file_root(store: object) -> bytes | None:
    """Return the directory of a store whose class declares `DirectFiles`, else None."""
    kind = type(store)
    root: bytes | None = None
    if "direct_file_root" in vars(kind):
        root = store.direct_file_root  # type: ignore[attr-defined]  # just seen
    return root


def direct_values(store: object) -> MutableMapping[str, bytes] | None:
    """Return the dictionary of a store whose class declares `DirectValues`, else None."""
    kind = type(store)
    values: MutableMapping[str, bytes] | None = None
    if "direct_values" in vars(kind):
        values = store.direct_values  # type: ignore[attr-defined]  # just seen
    return values


# Checks


def check_writable(store: Store) -> None:
    """Raise if a store is read-only."""
    if store.read_only:
        raise ReadOnly(f"{store!r} is read-only; open it with mode 'r+' or 'a' to write")


def is_key(text: str) -> bool:
    """Return True if a text can be a key."""
    return not _BAD_KEY.search(text)


def check_key(key: str) -> str:
    """Return `key`, or raise: keys are relative, have no outer slashes and never lead outside."""
    if _BAD_KEY.search(key):
        raise InvalidArgument(
            f"key {key!r} is not allowed: no empty, '.' or '..' segments, no outer slashes, no NUL"
        )
    return key


def check_prefix(prefix: str) -> None:
    """Raise unless a prefix is empty or ends in a slash."""
    if prefix and not prefix.endswith("/"):
        raise InvalidArgument(f"prefix {prefix!r} must end with '/'")
    if prefix:
        check_key(prefix[:-1])


def check_offset(key: str, start: int) -> None:
    """Raise if an offset in a value is negative."""
    if start < 0:
        raise StoreError(f"cannot write part of {key!r} at {start}: offsets count from 0")


# Errors of back ends


def raised_by_system(error: OSError) -> bool:
    """Return True if the operating system raised an error, not a signal handler.

    A ``TimeoutError`` of a handler is not the store's; its ``FileNotFoundError`` proves nothing.
    """
    return error.errno is not None and not isinstance(error, OmnizarrError)


@contextmanager
def translated_errors(
    verb: str, what: object, store: object, kinds: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[None]:
    """Turn errors of a back end, of the given kinds, into a `StoreError` that says what failed."""
    try:
        yield
    except kinds as e:
        if isinstance(e, TimeoutError | FileNotFoundError) and not raised_by_system(e):
            raise
        reason = (e.strerror if isinstance(e, OSError) else None) or e
        raise StoreError(f"cannot {verb} {what!r} in {store!r}: {reason}") from e
