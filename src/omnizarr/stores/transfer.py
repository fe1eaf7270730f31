"""Copy whole values from one store to another, as fast as the two stores allow.

Files of a directory are copied by the operating system, in compiled code. Stores behind a network
get many requests at a time, others one batch for many values. Values that are larger than
`STREAMED` bytes go through memory in parts, where the target can take them so.

A later update has to notice every change of the source. A copy in a directory therefore gets a
modification time that tells the state of its source when it was listed, before it was read. In a
bucket a copy has the time at which it was stored: a source that changed until then is copied again.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from omnizarr import config
from omnizarr.concurrency.pool import in_parallel
from omnizarr.errors import StoreError
from omnizarr.stores import operations
from omnizarr.stores.base import Entry, Range, Store, traits
from omnizarr.stores.byte_ranges import ConsistentReader, ValueReplaced
from omnizarr.stores.local.atomic_files import _files, status_of_files
from omnizarr.stores.operations import direct_file_root, file_root, get_many, set_many, snapshot

PART = 2**24  # bytes of a large value that are in memory at a time
STREAMED = 2**26  # bytes; a smaller value is copied as a whole
SMALLEST = 2**16  # bytes of a part, however little memory there is
RECENT = 2 * 10**9  # nanoseconds in which a file may change twice and have the same time
MARK = 1000  # nanoseconds that the copy of a file is older that may have changed so
CLOCKS = 60 * 10**9  # nanoseconds by which the clocks of two stores may differ
ATTEMPTS = 5  # to copy a value that is changed meanwhile

Compare: TypeAlias = Literal["time", "size", "checksum"]


class MissingValue(StoreError):
    """A value that was listed does not exist."""


@dataclass
class CopyResult:
    """The number and bytes of copied values, and the keys that were missing."""

    values: int = 0
    nbytes: int = 0
    missing: list[str] = field(default_factory=list)  # keys without a value in the source


@dataclass(frozen=True)
class ValueCopy:
    """Copies values from below a prefix of a source to below another prefix of a target."""

    source: Store
    target: Store
    start: str = ""
    end: str = ""
    fresh: bool = False  # the target has probably none of the keys
    room: int | None = None  # bytes of values that may be in memory

    def copy(self, entries: Sequence[Entry]) -> CopyResult:
        """Copy values; keys in the entries are relative to the prefixes."""
        result, quick = CopyResult(), self.has_low_latency
        old, new = direct_file_root(self.source), direct_file_root(self.target)
        compiled = hasattr(_files, "copy_many") and config.get().durability != "fsync"
        if compiled and old is not None and new is not None:
            self._copy_files(old, new, entries, result)
            return result
        self._copy_batch([e for e in entries if quick and not self._is_large(e)], result)
        single = [e for e in entries if not quick or self._is_large(e)]
        at_once = 1 if quick else None
        for entry, nbytes in zip(single, in_parallel(self._copy_one, single, at_once), strict=True):
            self._note(entry, nbytes, result)
        return result

    @property
    def has_low_latency(self) -> bool:
        """True if both stores answer so quickly that requests need not overlap."""
        return is_quick(self.source) and is_quick(self.target)

    @property
    def takes_parts(self) -> bool:
        """True if a large value need not be in memory as a whole."""
        return hasattr(self.target, "set_parts")

    def _copy_files(
        self, old: bytes, new: bytes, entries: Sequence[Entry], result: CopyResult
    ) -> None:
        old, new = old + os.fsencode(self.start), new + os.fsencode(self.end)
        left = tuple(entry.key for entry in entries)
        by_key = {entry.key: entry for entry in entries}
        while left:
            done, began = 0, time.time_ns()
            with suppress(ValueError):  # a key that is no path, which the stores refuse below
                done, nbytes = _files.copy_many(old, new, left, self.fresh)
                result.values, result.nbytes = result.values + done, result.nbytes + nbytes
            self._mark_recent(left[:done], began)
            for key in left[done : done + 1]:  # this raises, makes folders, or copies otherwise
                self._note(by_key[key], self._copy_one(by_key[key]), result)
            left = left[done + 1 :]

    def _mark_recent(self, keys: Sequence[str], began: int) -> None:
        """Mark recent files among copies with the times of their sources, as `keep_time` does."""
        top = os.path.join(str(file_root(self.target)), self.end)
        for folder, some in itertools.groupby(keys, lambda key: key.rpartition("/")[0]):
            names = [key[len(folder) + bool(folder) :] for key in some]
            inside = os.path.join(top, folder)
            for name, status in zip(names, status_of_files(inside, names), strict=True):
                if status is not None and status[1] > began - RECENT:
                    _set_time(os.path.join(inside, name), status[1] - MARK)

    def _copy_batch(self, entries: Sequence[Entry], result: CopyResult) -> None:
        began = time.time_ns()
        values = get_many(self.source, [(self.start + entry.key, None) for entry in entries])
        found = [(e, v) for e, v in zip(entries, values, strict=True) if v is not None]
        set_many(self.target, [(self.end + entry.key, value) for entry, value in found])
        for entry, value in zip(entries, values, strict=True):
            if value is not None:
                self.keep_time(entry, began)
            self._note(entry, None if value is None else len(value), result)

    def _note(self, entry: Entry, nbytes: int | None, result: CopyResult) -> None:
        if nbytes is None:
            result.missing.append(entry.key)
            return
        result.values += 1
        result.nbytes += nbytes

    def _copy_one(self, entry: Entry) -> int | None:
        """Copy one value; return its number of bytes, or None if the source has none."""
        timed = entry.modified is not None and entry.tag is None and not self.keeps_times
        status = getattr(self.source, "entry", None) if timed else None
        for _ in range(ATTEMPTS):
            with suppress(ValueReplaced):
                before = status and status(self.start + entry.key)
                copied = self._copy_once(entry)
                # An update compares with the time at which the copy was stored: until then the
                # source has to be what was read.
                if status is None or status(self.start + entry.key) == before:
                    return copied
        raise StoreError(
            f"{self.start}{entry.key} in {self.source!r} is changed faster than it can be copied;"
            " copy again when nobody writes to it"
        )

    def _copy_once(self, entry: Entry) -> int | None:
        began = time.time_ns()
        if self._is_large(entry) and self.takes_parts:
            nbytes = self._stream(entry)
        else:
            value = self.source.get(self.start + entry.key)
            if value is None:
                return None
            self.target.set(self.end + entry.key, value)
            nbytes = len(value)
        self.keep_time(entry, began)
        return nbytes

    def _stream(self, entry: Entry) -> int:
        target: Any = self.target
        nbytes = 0

        def parts() -> Iterator[bytes]:  # again after an error that may pass
            nonlocal nbytes
            nbytes = 0
            for part in read_parts(self.source, self.start + entry.key, self._part):
                nbytes += len(part)
                yield part

        target.set_parts(self.end + entry.key, parts)
        return nbytes

    def _is_large(self, entry: Entry) -> bool:
        return entry.size is not None and entry.size > min(STREAMED, self.room or STREAMED)

    @property
    def _part(self) -> int:
        """The size of a part: a reader holds two parts, and a comparison has two readers."""
        return min(PART, max(SMALLEST, (self.room or STREAMED) // 4))

    # Times

    def keep_time(self, entry: Entry, began: int) -> None:
        """Give a copied file the time that encodes the state of its source; see `kept_time`.

        The source was read after the time `began`. If it had changed just before, it may have
        changed again without another time: the file is marked as one whose bytes are compared.
        """
        root, kept = file_root(self.target), kept_time(entry)
        if root is None or kept is None or entry.modified is None:
            return
        is_recent = entry.tag is None and entry.modified > began - RECENT
        _set_time(str(root / (self.end + entry.key)), kept - (MARK if is_recent else 0))

    # Comparing

    @property
    def keeps_times(self) -> bool:
        """True if copies get the modification times of their sources."""
        return file_root(self.target) is not None

    def target_entries(self, entries: Sequence[Entry]) -> list[Entry | None]:
        """Return what is known of the values at the target, without reading them."""
        entry_of = getattr(self.target, "entry", None)
        if entry_of is not None:
            found = [entry_of(self.end + entry.key) for entry in entries]
            return [None if e is None else e._replace(key=e.key[len(self.end) :]) for e in found]
        known = operations.sizes(self.target, [self.end + entry.key for entry in entries])
        found = [Entry(entry.key, known.get(self.end + entry.key)) for entry in entries]
        return [None if entry.size is None else entry for entry in found]

    def is_same(self, source: Entry, target: Entry | None, compare: Compare) -> bool | None:
        """Return True if a value need not be copied, None if both have to be read to know.

        A copy in a directory has a time that encodes its source's state. Elsewhere it is newer
        by so much that the source has not changed while it was stored, if the clocks agree roughly.
        """
        if target is None:
            return False
        sized = source.size is not None and target.size is not None
        if sized and source.size != target.size:
            return False
        if compare == "size" and sized:
            return True
        if compare == "time":
            if source.tag is not None and target.tag is not None:
                return source.tag == target.tag
            if sized and source.modified is not None and target.modified is not None:
                if not self.keeps_times:
                    return source.modified + CLOCKS < target.modified
                age = (kept_time(source) or 0) - target.modified
                return None if abs(age) == MARK else age == 0  # also of a copy that is copied back
        return None

    def differing(self, entries: Sequence[Entry]) -> list[str]:
        """Return the keys whose values differ, by reading both; a missing value differs."""
        at_once = 4 if any(map(self._is_large, entries)) else None
        same = in_parallel(self._is_equal, entries, at_once)
        return [entry.key for entry, equal in zip(entries, same, strict=True) if not equal]

    def _is_equal(self, entry: Entry) -> bool:
        old = read_parts(self.source, self.start + entry.key, self._part)
        new = read_parts(self.target, self.end + entry.key, self._part)
        try:
            return all(one == other for one, other in zip(old, new, strict=True))
        except (ValueError, MissingValue, ValueReplaced):  # one is shorter, gone or changed
            return False


def read_parts(store: Store, key: str, size: int | None = None) -> Iterator[bytes]:
    """Yield a value in parts; raise if it is missing, or replaced meanwhile."""
    size = size or PART
    with snapshot(store) as fetch:
        read, position = ConsistentReader(store, fetch, remember=False), 0
        while True:
            (part,) = read([(key, Range(position, size))])
            if part is None:
                raise MissingValue(
                    f"there is no value at {key!r} in {store!r}; was it just erased?"
                )
            if part:
                yield part
            position += len(part)
            if len(part) < size:
                return


def is_quick(store: object) -> bool:
    """Return True for a store of low latency, and for one that wraps such a store."""
    inner = getattr(store, "inner", None)
    return traits(store).low_latency or (inner is not None and is_quick(inner))


def kept_time(entry: Entry) -> int | None:
    """Return the time for a copy in a directory: of an object, with a digest of its ETag."""
    if entry.modified is None or entry.tag is None:
        return entry.modified
    unit = 10**9 if entry.modified % 10**9 == 0 else 10**6
    digest = int.from_bytes(blake2b(entry.tag.encode(), digest_size=8).digest())
    return entry.modified // unit * unit + digest % unit


def _set_time(path: str, modified: int) -> None:
    with suppress(OSError):  # not allowed: it will be copied again
        os.utime(path, ns=(modified, modified))
