"""The whole store interface for any store: native where the store has it, derived where not.

A reader of a shard asks for its index, and then for the chunks that it names; somebody may replace
the shard in between. Stores that hold a value open give parts of that one; those that say of every
part which value it is of let a change be noticed.
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
from omnizarr.concurrency.retry import CONFLICTS
from omnizarr.errors import (
    Conflict,
    InvalidArgument,
    OmnizarrError,
    ReadOnly,
    StoreError,
)
from omnizarr.stores.base import (
    Bytes,
    ErasesPrefix,
    GetMany,
    GetsManyVersioned,
    Kind,
    Lists,
    ListsDir,
    ListsPrefix,
    Locks,
    Range,
    SetsIf,
    SetsMany,
    SetsPartially,
    Store,
    TellsSizes,
    Versioned,
    flat,
)

_BAD_KEY = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|\0")  # empty, '.' and '..' segments, NUL


def get_many(store: Store, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
    """The values, or parts of values, in the order asked for; None for missing keys."""
    many = getattr(store, "get_many", None)  # quicker than to ask for the protocol
    if many is not None:
        found: list[bytes | None] = many(requests)
        return found
    return [store.get(key, range) for key, range in requests]


def get_existing(store: Store, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the values of those keys that exist, from one batch of requests."""
    wanted = list(keys)
    values = get_many(store, [(key, None) for key in wanted])
    return {k: v for k, v in zip(wanted, values, strict=True) if v is not None}


def holding(store: Store) -> AbstractContextManager[GetMany]:
    """A `get_many` for several requests to one value, which others may replace in between."""
    hold = getattr(store, "holding", None)  # quicker than to ask for the protocol
    held: AbstractContextManager[GetMany] | None = None if hold is None else hold()
    return nullcontext(partial(get_many, store)) if held is None else held


def get_partial_values(
    store: Store, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
) -> list[bytes | None]:
    """As `get_many`, in the draft's words: ``(key, (start, length or None))``."""
    return get_many(store, [(key, Range(*range)) for key, range in key_ranges])


def sizes(store: Store, keys: Iterable[str]) -> dict[str, int]:
    """Bytes of those values that are there; they are fetched only where a store cannot tell."""
    if isinstance(store, TellsSizes):
        return store.sizes(keys)
    found = ((key, store.get(key)) for key in keys)
    return {key: len(value) for key, value in found if value is not None}


def set_many(store: Store, values: Iterable[tuple[str, Bytes]]) -> None:
    """Store several whole values."""
    check_writable(store)
    if isinstance(store, SetsMany):
        store.set_many(values)
        return
    for key, value in values:
        store.set(key, value)


def set_new(store: Store, key: str, value: Bytes) -> bool:
    """Whether a value was stored where there was none; one that is there stays.

    A store that can neither do so nor compare is asked first, and another may come in between.
    """
    new = getattr(store, "set_new", None)  # quicker than to ask for the protocol
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


def check_offset(key: str, start: int) -> None:
    """Raise where a part of a value would begin before the value does."""
    if start < 0:
        raise StoreError(f"cannot write part of {key!r} at {start}: offsets count from 0")


def erase_values(store: Store, keys: Iterable[str]) -> None:
    """Remove several keys; missing ones are no error."""
    check_writable(store)
    for key in keys:
        store.erase(key)


def erase_prefix(store: Store, prefix: str) -> None:
    """Remove all keys below a prefix, which ends in ``/`` or is empty for everything."""
    check_writable(store)
    check_prefix(prefix)
    if isinstance(store, ErasesPrefix):
        store.erase_prefix(prefix)
    else:
        erase_values(store, list(list_prefix(store, prefix)))


def lock(
    store: Store, prefix: str, keys: Iterable[str], kind: Kind
) -> AbstractContextManager[None]:
    """Keep other processes from changing keys below a prefix, where a store can."""
    return store.lock_keys(prefix, keys, kind) if isinstance(store, Locks) else nullcontext()


def lock_prefix(
    store: Store, prefix: str, keys: Iterable[str], kind: Kind
) -> AbstractContextManager[None]:
    """As `lock`; a store that can compare and replace has a lock for all of the prefix."""
    if compares(store):
        return leases.leased(store, prefix, kind)
    return lock(store, prefix, keys, kind)


class Conditional(Store, Versioned, SetsIf, Protocol):
    """A store that can compare and set."""


def compares(store: Store) -> TypeGuard[Conditional]:
    """Whether others are kept from losing a change by comparing, not by locks."""
    # Whether it has an ability is quickly asked of those that have it.
    locks = isinstance(store, Locks)
    return not locks and isinstance(store, SetsIf) and isinstance(store, Versioned)


def replace(store: Store, key: str, change: Callable[[bytes | None], Bytes]) -> None:
    """Store what `change` makes of a value: of a newer one again where a writer was quicker.

    Without that ability, whoever calls has locked the key.
    """
    if not compares(store):
        store.set(key, change(store.get(key)))
        return
    for _ in CONFLICTS.tries():
        old, generation = store.get_versioned(key)
        if store.set_if(key, change(old), generation):
            return
    raise Conflict(
        f"{key!r} in {store!r} was changed by other writers {CONFLICTS.attempts} times in a row;"
        " it was not stored, try again"
    )


def list_prefix(store: Store, prefix: str) -> Iterator[str]:
    """All keys below a prefix."""
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


def list_dir(store: Store, prefix: str) -> tuple[list[str], list[str]]:
    """Keys and prefixes one level below a prefix, each sorted and in full."""
    check_prefix(prefix)
    if isinstance(store, ListsDir):
        keys, prefixes = store.list_dir(prefix)
        return sorted(keys), sorted(prefixes)
    return one_level(list_prefix(store, prefix), prefix)


def one_level(keys: Iterable[str], prefix: str) -> tuple[list[str], list[str]]:
    """What `list_dir` answers, from all keys below a prefix."""
    found: set[str] = set()
    inner: set[str] = set()
    for key in keys:
        head, slash, _ = key[len(prefix) :].partition("/")
        (inner if slash else found).add(prefix + head + slash)
    return sorted(found), sorted(inner)


def can_list(store: Store) -> bool:
    """Whether children can be discovered at all."""
    return isinstance(store, (Lists, ListsPrefix, ListsDir))


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


def check_writable(store: Store) -> None:
    """Raise before anything is touched in a read-only store."""
    if store.read_only:
        raise ReadOnly(f"{store!r} is read-only; open it with mode 'r+' or 'a' to write")


def is_key(text: str) -> bool:
    """Whether a text can be a key."""
    return not _BAD_KEY.search(text)


def check_key(key: str) -> str:
    """`key`, or an error: keys are relative, do not end in a slash and never lead outside."""
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


def after(prefix: str) -> str:
    """The first text behind all keys below a prefix that ends in a slash."""
    return prefix[:-1] + "0"  # the character after the slash


def below(keys: Sequence[str], prefix: str) -> Sequence[str]:
    """The keys below a prefix."""
    if not prefix:
        return keys
    return keys[bisect_left(keys, prefix) : bisect_left(keys, after(prefix))]


def level(scan: Callable[[str], Iterator[str]], prefix: str) -> tuple[list[str], list[str]]:
    """Keys and prefixes one level down; `scan(start)` gives the keys from `start` on, in order."""
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
                start = after(prefixes[-1])
                break
            keys.append(key)
    return keys, prefixes


def scan_sorted(keys: Sequence[str]) -> Callable[[str], Iterator[str]]:
    """What `level` needs, from a sequence."""
    return lambda start: (keys[i] for i in range(bisect_left(keys, start), len(keys)))


T = TypeVar("T")


class Replaced(Exception):
    """A key has another value than an earlier part of it came from."""


class OneValue:
    """Fetches parts of values; raises `Replaced` for a part that is of another value than before.

    Where a store does not tell, it asks by `fetch`.
    """

    def __init__(self, store: Store, fetch: GetMany | None = None) -> None:
        self._store = store
        self._fetch = partial(get_many, store) if fetch is None else fetch
        self._tells = isinstance(store, GetsManyVersioned)
        self._known: dict[str, str] = {}

    def __call__(self, requests: Sequence[tuple[str, Range | None]]) -> list[bytes | None]:
        if not self._tells or all(part is None for _, part in requests):
            return self._fetch(requests)
        found = self._store.get_many_versioned(requests)  # type: ignore[attr-defined]  # it tells
        for (key, part), (data, generation) in zip(requests, found, strict=True):
            known = self._known.get(key)
            if part is None or known == generation:
                continue
            if known is not None and (data is None or generation is not None):
                raise Replaced(key)
            if generation is not None:
                self._known[key] = generation
        return [data for data, _ in found]


def settled(store: Store, read: Callable[[OneValue], T]) -> T:
    """What `read` returns, again where a value was replaced while it was read."""
    key = ""
    for _ in CONFLICTS.tries():
        try:
            with holding(store) as fetch:
                return read(OneValue(store, fetch))
        except Replaced as e:
            key = str(e)
    raise Conflict(
        f"{key!r} in {store!r} was replaced {CONFLICTS.attempts} times in a row while it was read;"
        " read it again when it is written less often"
    )


def of_the_system(error: OSError) -> bool:
    """Whether the system raised it, and not a signal handler that happened to run just then.

    A ``TimeoutError`` of a handler is not the store's; its ``FileNotFoundError`` proves nothing.
    """
    return error.errno is not None and not isinstance(error, OmnizarrError)


@contextmanager
def naming(
    verb: str, what: object, store: object, kinds: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[None]:
    """Turn errors of a back end, of the given kinds, into one that says what was tried."""
    try:
        yield
    except kinds as e:
        if isinstance(e, TimeoutError | FileNotFoundError) and not of_the_system(e):
            raise
        reason = (e.strerror if isinstance(e, OSError) else None) or e
        raise StoreError(f"cannot {verb} {what!r} in {store!r}: {reason}") from e


def waits_for(store: Store) -> bool:
    """Return True if an interrupt waits for the values that are being stored.

    Not where a server may stall: a value that is compared and set cannot do harm later.
    """
    return has_low_latency(store) or not compares(store)
