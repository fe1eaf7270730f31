"""The tasks of a copy: batches of keys whose values are compared, copied, verified or erased."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnizarr.bulk.journal import Outcome
from omnizarr.bulk.options import Compare
from omnizarr.errors import StoreError
from omnizarr.extension import Entry, Store, ValueCopy, erase_values

KEPT = 100_000  # entries of a listing that are kept in memory
COMPARED = {
    "time": "size and modification time or ETag, or by their bytes where a store has none",
    "size": "size alone",
    "checksum": "their bytes",
}


@dataclass
class Copied(Outcome):
    """The result of a copy."""

    copied: int = 0  # values
    same: int = 0  # values that were not copied, since the destination has them
    erased: int = 0  # values of the destination that the source does not have
    verified: int = 0  # values that were read back and compared
    bytes_copied: int = 0


class KnownEntries:
    """The entries of a listing, looked up by key without holding all of a long one.

    A listing of more than `KEPT` entries is read once, while batches of keys are looked up in
    order. A key that is not found since a listing is not sorted is taken for missing: its value is
    copied again.
    """

    def __init__(self, entries: Iterator[Entry]) -> None:
        first = [*itertools.islice(entries, KEPT + 1)]
        self._all = {entry.key: entry for entry in first} if len(first) <= KEPT else None
        self._rest = iter(()) if self._all is not None else itertools.chain(first, entries)
        self._next = next(self._rest, None)
        self._last = ""  # key that was looked up

    def find(self, batch: Sequence[Entry]) -> tuple[Entry | None, ...] | None:
        """Return the entries of keys; None if they are not in order, to be asked for one by one."""
        keys = [entry.key for entry in batch]
        if self._all is not None:
            return tuple(map(self._all.get, keys))
        if any(a >= b for a, b in itertools.pairwise([self._last, *keys])):
            return None
        self._last = keys[-1]
        return tuple(map(self._find, keys))

    def _find(self, key: str) -> Entry | None:
        while self._next is not None and self._next.key < key:
            self._next = next(self._rest, None)
        return self._next if self._next is not None and self._next.key == key else None


@dataclass(frozen=True)
class CopyBatch:
    """A task: copy the values of some keys, or of those that differ."""

    transfer: ValueCopy
    entries: tuple[Entry, ...]
    known: tuple[Entry | None, ...] | None  # the destination's; None: to be asked for
    compare: Compare | None  # None: all are copied
    verify: bool
    dry_run: bool  # compare and count only
    may_be_missing: bool  # keys were not listed, so that some may have no value
    process: int | None  # the only one that may write

    def __call__(self) -> Copied:
        if self.process not in (None, os.getpid()):
            raise StoreError(
                f"{self.transfer.source!r} or {self.transfer.target!r} can be used by one process"
                " only; leave `on` out to copy on threads"
            )
        differing = self._differing()
        if self.dry_run:
            nbytes = sum(entry.size or 0 for entry in differing)
            return Copied(len(differing), len(self.entries) - len(differing), bytes_copied=nbytes)
        done = self.transfer.copy(differing)
        if done.missing and not self.may_be_missing:
            raise StoreError(
                f"{self.transfer.start}{done.missing[0]} was erased from {self.transfer.source!r}"
                " while it was being copied; copy again when nobody writes to it"
            )
        missing = set(done.missing)
        result = Copied(done.values, bytes_copied=done.nbytes)
        result.same = len(self.entries) - len(differing)
        if self.verify:
            written = [entry for entry in differing if entry.key not in missing]
            self._verify(written)
            result.verified = len(written)
        return result

    def _differing(self) -> Sequence[Entry]:
        if self.compare is None:
            return self.entries
        known = self.known
        if known is None:
            known = tuple(self.transfer.target_entries(self.entries))
        chosen, unknown = set[str](), []
        for entry, other in zip(self.entries, known, strict=True):
            same = self.transfer.is_same(entry, other, self.compare)
            if same is None:
                unknown.append(entry)
            elif not same:
                chosen.add(entry.key)
        began = time.time_ns()
        chosen.update(self.transfer.differing(unknown))
        if not self.dry_run:
            for entry in unknown:
                if entry.key not in chosen:
                    self.transfer.keep_time(entry, began)
        return [entry for entry in self.entries if entry.key in chosen]

    def _verify(self, entries: Sequence[Entry]) -> None:
        wrong = self.transfer.differing(entries)
        if wrong:
            raise StoreError(
                f"{self.transfer.end}{wrong[0]} in {self.transfer.target!r} is not what was written"
                f" ({len(wrong)} of {len(entries)} values): the source was changed meanwhile, or"
                " the storage is faulty; copy again"
            )


@dataclass(frozen=True)
class CopyMetadata:
    """A task: copy metadata, those of the innermost nodes first, then erase others."""

    batches: tuple[CopyBatch, ...]
    store: Store
    extra: tuple[str, ...]  # of nodes that the source does not have
    dry_run: bool

    def __call__(self) -> Copied:
        total = Copied(erased=len(self.extra))
        for batch in self.batches:
            total.merge(batch())
        if not self.dry_run:
            erase_values(self.store, self.extra)
        return total


@dataclass(frozen=True)
class EraseBatch:
    """A task: erase keys of the destination."""

    store: Store
    keys: tuple[str, ...]
    dry_run: bool

    def __call__(self) -> Copied:
        if not self.dry_run:
            erase_values(self.store, self.keys)
        return Copied(erased=len(self.keys))
