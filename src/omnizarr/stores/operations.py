"""The whole store interface for any store: native where a store has it, derived where not."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from omnizarr import errors
from omnizarr.concurrency.pool import in_parallel
from omnizarr.concurrency.retry import AnswerLost, Overtaken, retry_conflicts
from omnizarr.errors import InvalidArgument, InvalidName, NodeChanged, StoreError, raised_by_system
from omnizarr.model.paths import is_ours
from omnizarr.stores import base, leases
from omnizarr.stores.base import Bytes, Entry, GetMany, HasSizes, LockKind, SetsIf, Store, traits

_ROOM = 100  # bytes of the names of a stage and of chunks
_BATCH = 1000  # keys whose sizes are requested at a time
_BAD_KEY = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|\0")  # empty, '.' and '..' segments, NUL
T = TypeVar("T")


# Reading


def get_many(store: Store, requests: base.Requests) -> list[bytes | None]:
    """Return values, or parts of them, in the order of the requests; None for missing keys."""
    many: GetMany | None = getattr(store, "get_many", None)  # faster than isinstance
    return [store.get(*request) for request in requests] if many is None else many(requests)


def get_existing(store: Store, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the values of those keys that exist, from one batch of requests."""
    wanted = list(keys)
    values = get_many(store, [(key, None) for key in wanted])
    return {k: v for k, v in zip(wanted, values, strict=True) if v is not None}


def get_existing_or_empty(
    store: Store, prefix: str, keys: Iterable[str]
) -> tuple[dict[str, bytes], bool]:
    """Return the values of existing keys, and True if one request shows that a prefix is free."""
    wanted = list(keys)
    has_keys: Callable[[str], bool] | None = getattr(store, "has_keys", None)
    inside = [key for key in wanted if key.startswith(prefix)]
    if has_keys is None or len(inside) < 3:
        return get_existing(store, wanted), False
    above = [key for key in wanted if not key.startswith(prefix)]
    looks: list[partial[Any]] = [partial(has_keys, prefix), *(partial(store.get, k) for k in above)]
    try:
        taken, *values = in_parallel(lambda look: look(), looks)
    except StoreError:  # not everybody who may read and write may list
        return get_existing(store, wanted), False
    found = {key: data for key, data in zip(above, values, strict=True) if data is not None}
    return ({**found, **get_existing(store, inside)}, False) if taken else (found, True)


def get_partial_values(
    store: Store, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
) -> list[bytes | None]:
    """Return what `get_many` does; requests are the draft's, ``(key, (start, length))``."""
    return get_many(store, [(key, base.Range(*range)) for key, range in key_ranges])


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


# Writing


def set_many(store: Store, values: Iterable[tuple[str, Bytes]]) -> None:
    """Store several whole values."""
    check_writable(store)
    many = getattr(store, "set_many", None)
    if many is not None:
        many(values)
        return
    for key, value in values:
        store.set(key, value)


def set_new(store: Store, key: str, value: Bytes) -> bool:
    """Store a value unless the key exists, as far as the store can tell; True if it was stored."""
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
        part = base.flat(value)
        if len(part):
            by_key.setdefault(key, []).append((start, part))
    for key, pieces in by_key.items():
        pieces.sort(key=lambda piece: piece[0])
        for (a, first), (b, _) in itertools.pairwise(pieces):
            if a + len(first) > b:
                raise StoreError(f"parts of {key!r} overlap: [{a}, {a + len(first)}) and [{b}, …)")
    for key, pieces in by_key.items():
        partly = getattr(store, "set_partial", None)
        if partly is not None:
            for start, value in pieces:
                partly(key, start, value)
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
    erase = getattr(store, "erase_prefix", None)
    if erase is not None:
        erase(prefix)
    else:
        erase_values(store, list(list_prefix(store, prefix)))


# Locks and compare-and-set


def lock(
    store: Store, prefix: str, keys: Iterable[str], kind: LockKind
) -> AbstractContextManager[None]:
    """Keep other processes from changing keys below a prefix, if the store can."""
    take = getattr(store, "lock_keys", None)  # faster than isinstance
    if take is None:
        return nullcontext()
    found: AbstractContextManager[None] = take(prefix, keys, kind)
    return found


def lock_prefix(
    store: Store, prefix: str, keys: Iterable[str], kind: LockKind
) -> AbstractContextManager[leases.Lease | None]:
    """Do as `lock` does; with compare-and-set yield one lease for the whole prefix, else None."""
    if supports_compare_and_set(store):
        return leases.leased(store, prefix, kind)
    return lock(store, prefix, keys, kind)


def changing(store: Store) -> AbstractContextManager[None]:
    """Keep other threads from storing chunks until the block ends, if the store can."""
    take = getattr(store, "changing", None)  # faster than isinstance
    return nullcontext() if take is None else take()


def supports_compare_and_set(store: Store) -> TypeGuard[SetsIf]:
    """Return True if concurrent changes are detected by compare-and-set, not prevented by locks."""
    return not hasattr(store, "lock_keys") and isinstance(store, SetsIf)


def update_value(
    store: Store,
    key: str,
    change: Callable[[bytes | None], Bytes | None],
    consequence: str = "; it was not stored, try again",
) -> bool:
    """Store what `change` makes of a value; return False if it changes nothing.

    `change` gets the current value, None if there is none, and returns the new one, the same
    object to change nothing, or None to erase the key. It is called again if another writer has
    replaced the value meanwhile, and perhaps on top of its own result if the answer was lost;
    `consequence` ends the message if that happens every time. For a store without compare-and-set,
    the caller has to lock the key.
    """
    comparing = store if supports_compare_and_set(store) else None

    def attempt() -> bool:
        old, known = (store.get(key), "") if comparing is None else comparing.get_versioned(key)
        new = change(old)
        if new is old:
            return False
        if new is None:
            store.erase(key)
        elif comparing is None:
            store.set(key, new)
        elif not conditionally(partial(comparing.set_if, key, new, known)):
            raise Overtaken(f"{key!r} in {store!r}")
        return True

    return retry_conflicts(attempt, consequence)


def set_new_below(
    store: Any, values: Mapping[str, Bytes], above: Iterable[str], same: Mapping[str, str | None]
) -> bool:
    """Store new values in one step, if a key of `above` exists and all of `same` are unchanged.

    `same` has generations. Return False if one of the new keys exists; raise NodeChanged if no key
    of `above` exists any more, or one of `same` has changed.
    """

    def attempt() -> bool:
        known = {key: found for key in above if (found := store.generation(key)) is not None}
        changed = any(store.generation(key) != found for key, found in same.items())
        if changed or not known:
            raise NodeChanged(
                f"{next(iter(values))!r} was not stored in {store!r}: the node above it was deleted"
                " or moved by another writer"
            )
        if store.change_if(values, {**known, **same, **dict.fromkeys(values)}):
            return True
        if any(store.generation(key) is not None for key in values):
            return False
        raise Overtaken(f"{next(iter(known))!r} in {store!r}")

    return retry_conflicts(attempt, "; nothing was stored, try again")


def conditionally(change: Callable[[], bool]) -> bool:
    """Return the result of a conditional change; False if unknown, so it may be made twice."""
    try:
        return change()
    except AnswerLost as e:
        if e.superseded:
            return False
        raise


def waits_for(store: Store) -> bool:
    """Return True if an interrupt waits for pending values, not where a server may stall."""
    return traits(store).low_latency or not supports_compare_and_set(store)


# Listing


def can_list(store: Store) -> bool:
    """Return True if a store can list its keys."""
    return any(hasattr(store, name) for name in ("list", "list_prefix", "list_dir"))


def list_prefix(store: Store, prefix: str) -> Iterator[str]:
    """Yield all keys below a prefix."""
    check_prefix(prefix)
    lists: Any = store
    if hasattr(store, "list_prefix"):
        yield from lists.list_prefix(prefix)
    elif hasattr(store, "list"):
        yield from (key for key in lists.list() if key.startswith(prefix))
    elif hasattr(store, "list_dir"):
        keys, prefixes = lists.list_dir(prefix)
        yield from keys
        for inner in prefixes:
            yield from list_prefix(store, inner)
    else:
        raise StoreError(f"{store!r} cannot list its keys")


def list_sizes(store: Store, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield all keys below a prefix with the bytes of their values, if these can be read."""
    if isinstance(store, base.ListsEntries):
        entries = list_entries(store, prefix)
    else:
        entries = map(Entry, list_prefix(store, prefix))
    while some := [*itertools.islice(entries, _BATCH)]:
        unknown = sizes(store, [entry.key for entry in some if entry.size is None])
        for key, size, _, _ in some:
            if size is not None or key in unknown:
                yield key, unknown[key] if size is None else size


def list_entries(store: Store, prefix: str) -> Iterator[Entry]:
    """Yield what a store knows of the values below a prefix, if these can be read."""
    check_prefix(prefix)
    if isinstance(store, base.ListsEntries):
        yield from store.list_entries(prefix)
    elif isinstance(store, HasSizes):
        yield from (Entry(key, size) for key, size in list_sizes(store, prefix))
    else:
        yield from map(Entry, list_prefix(store, prefix))


def list_dir(store: Store, prefix: str) -> tuple[list[str], list[str]]:
    """Return the keys and prefixes one level below a prefix, in full and sorted."""
    check_prefix(prefix)
    level = getattr(store, "list_dir", None)
    if level is not None:
        keys, prefixes = level(prefix)
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


# Direct access


def file_root(store: object) -> Path | None:
    """Return the directory of a store in which every value is a file, else None."""
    root: Path | None = getattr(store, "file_root", None)
    return root


def direct_file_root(store: Any) -> bytes | None:
    """Return the directory whose files compiled code may access; None unless the class has one."""
    return store.direct_file_root if "direct_file_root" in vars(type(store)) else None


def direct_values(store: Any) -> MutableMapping[str, bytes] | None:
    """Return the dictionary in which values may be looked up; None unless the class has one."""
    return store.direct_values if "direct_values" in vars(type(store)) else None


# Checks


def check_writable(store: Store) -> None:
    """Raise if a store is read-only."""
    if store.read_only:
        how = traits(store).to_write or "open it with mode 'r+' or 'a'"
        raise errors.ReadOnly(f"{store!r} is read-only; to write, {how}")


class NeverWritten(base.Closeable):
    """Base of stores that nothing can be written to: their `traits` say what to do instead."""

    read_only = True
    get: Any

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)

    def erase(self, key: str) -> None:
        check_writable(self)


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


def check_length(key: str, most: int, store: object, *, start: str = "") -> None:
    """Raise if the keys of a node, its chunks or its stage are longer than `most` bytes."""
    size = len(f"{start}{key}".encode()) + (0 if is_ours(key) else _ROOM)
    if size > most:
        raise InvalidName(
            f"{key!r} is too long for {store!r}, whose keys have at most {most} bytes: shorten"
            f" the path of the node by {size - most}"
        )


def check_offset(key: str, start: int) -> None:
    """Raise if an offset in a value is negative."""
    if start < 0:
        raise StoreError(f"cannot write part of {key!r} at {start}: offsets count from 0")


def named(keys: Iterable[str]) -> str:
    """Return the first few keys, for a message."""
    return ", ".join(itertools.islice(keys, 3))


# Errors of back ends


@contextmanager
def translated_errors(
    verb: str, what: object, store: object, kinds: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[None]:
    """Turn errors of a back end into a `StoreError` that says what failed; a `Conflict` stays."""
    try:
        yield
    except errors.Conflict:
        raise
    except kinds as e:
        if isinstance(e, TimeoutError | FileNotFoundError) and not raised_by_system(e):
            raise
        reason = (e.strerror if isinstance(e, OSError) else None) or e
        raise StoreError(f"cannot {verb} {what!r} in {store!r}: {reason}") from e
