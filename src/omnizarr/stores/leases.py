"""Locks in a store that can compare and replace: a key that says who has it, and for how long.

Whoever stores the key first has the lock, stores it anew every few seconds, and erases it in the
end. Others wait; one that sees the same value for the length of a lease takes it for that of a
writer who is gone, and replaces it. Only spans of time are measured, so clocks need not agree.
A writer that was stopped for longer than a lease finds out when it goes on.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from omnizarr.errors import StoreError
from omnizarr.stores.base import SetsIf, Store, Versioned
from omnizarr.stores.locks import NAME
from omnizarr.stores.patience import LONGEST
from omnizarr.stores.threads import start

LEASE = 15.0  # seconds without a sign of life


class Conditional(Store, Versioned, SetsIf, Protocol):
    """A store that can compare and replace."""


@contextmanager
def leased(store: Conditional, prefix: str, kind: str) -> Iterator[None]:
    """Wait until no other writer has the lock of a prefix, and keep it until the block ends.

    Raises in the end where it was lost meanwhile.
    """
    lease = _Lease(store, f"{prefix}{NAME}{kind}")
    renews = False
    try:
        lease.take()
        renews = start(lease.keep, "omnizarr-lease")
        yield
    finally:
        lease.done.set()
        if lease.owner == os.getpid() and lease.count:  # else nothing was stored
            if renews:
                lease.ended.wait()
            lease.give()
    if lease.lost:
        raise StoreError(
            f"the lock {lease.key!r} in {store!r} was taken over by another writer, since this one"
            f" gave no sign for {LEASE:g} s; what was written meanwhile may be incomplete"
        )


def remove(store: Conditional, key: str, generation: str | None) -> bool:
    """Whether a lock was removed; not where somebody has it since."""
    lease = _Lease(store, key)
    if not lease._put(generation):
        return False
    lease.give()
    return not lease.lost


class _Lease:
    """One key, and the value that is ours."""

    def __init__(self, store: Conditional, key: str) -> None:
        self.store, self.key = store, key
        self.name = os.urandom(16).hex()
        self.owner = os.getpid()
        self.count = 0
        self.generation: str | None = None
        self.done = threading.Event()
        self.ended = threading.Event()
        self.lost = False

    def take(self) -> None:
        seen, since = None, time.monotonic()
        while True:
            now = self.store.generation(self.key)
            if now is None or (now == seen and time.monotonic() - since > LEASE):
                if self._put(now):
                    return
            elif now != seen:
                seen, since = now, time.monotonic()
            time.sleep(random.uniform(0.005, LONGEST / 10))

    def _put(self, generation: str | None) -> bool:
        self.count += 1
        text = json.dumps({"owner": self.name, "pid": self.owner, "count": self.count}).encode()
        if not self.store.set_if(self.key, text, generation):
            return False
        value, self.generation = self.store.get_versioned(self.key)
        return value == text

    def keep(self) -> None:
        try:
            while not self.done.wait(LEASE / 3):
                try:
                    if not self._put(self.generation):
                        self.lost = True
                        return
                except (OSError, RuntimeError):  # tried again; others see that nothing comes
                    continue
        finally:
            self.ended.set()

    def give(self) -> None:
        value = self.store.get(self.key)
        if value is not None and self.name.encode() in value:
            self.store.erase(self.key)
        else:
            self.lost = True
