"""Locks in a store that can compare and set: a key that says who has it, for a limited time.

Whoever stores the key first has the lock, stores it anew every few seconds, and erases it in the
end. Others wait; one that sees the same value for the length of a lease concludes that its writer
is gone, and replaces it. Only spans of time are measured, so clocks need not agree. A writer that
was stopped for longer than a lease finds out when it goes on.
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

from omnizarr.concurrency.file_locks import NAME
from omnizarr.concurrency.pool import start_thread
from omnizarr.errors import Conflict

LEASE = 15.0  # seconds without a sign of life
POLL = 0.05  # seconds at most between two looks at a lock of somebody else


class CompareAndSetStore(Protocol):
    """The methods of a store that a lease uses."""

    def get(self, key: str) -> bytes | None:
        """Return a value."""

    def get_versioned(self, key: str) -> tuple[bytes | None, str | None]:
        """Return a value with its generation."""

    def generation(self, key: str) -> str | None:
        """Return what changes with the value; None where there is none."""

    def set_if(self, key: str, value: bytes, generation: str | None) -> bool:
        """Store a value if that of a generation is still there; return False otherwise."""

    def erase(self, key: str) -> None:
        """Remove a value."""


@contextmanager
def leased(store: CompareAndSetStore, prefix: str, kind: str) -> Iterator[None]:
    """Wait until no other writer has the lock of a prefix, and hold it until the block ends.

    Raises in the end where it was lost meanwhile.
    """
    lease = _Lease(store, f"{prefix}{NAME}{kind}")
    renews = False
    try:
        lease.take()
        renews = start_thread(lease.renew, "omnizarr-lease")
        yield
    finally:
        lease.done.set()
        if lease.owner == os.getpid() and lease.count:  # else nothing was stored
            if renews:
                lease.ended.wait()
            lease.release()
    if lease.lost:
        raise Conflict(
            f"the lock {lease.key!r} in {store!r} was taken over by another writer, since this one"
            f" gave no sign for {LEASE:g} s; what was written meanwhile may be incomplete"
        )


def remove(store: CompareAndSetStore, key: str, generation: str | None) -> bool:
    """Remove a lock of a generation; return False where somebody has taken it since."""
    lease = _Lease(store, key)
    if not lease.put(generation):
        return False
    lease.release()
    return not lease.lost


class _Lease:
    """One key, and the value that is ours."""

    def __init__(self, store: CompareAndSetStore, key: str) -> None:
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
                if self.put(now):
                    return
            elif now != seen:
                seen, since = now, time.monotonic()
            time.sleep(random.uniform(POLL / 10, POLL))

    def put(self, generation: str | None) -> bool:
        self.count += 1
        text = json.dumps({"owner": self.name, "pid": self.owner, "count": self.count}).encode()
        if not self.store.set_if(self.key, text, generation):
            return False
        value, self.generation = self.store.get_versioned(self.key)
        return value == text

    def renew(self) -> None:
        try:
            while not self.done.wait(LEASE / 3):
                try:
                    if not self.put(self.generation):
                        self.lost = True
                        return
                except (OSError, RuntimeError):  # tried again; others see that nothing comes
                    continue
        finally:
            self.ended.set()

    def release(self) -> None:
        value = self.store.get(self.key)
        if value is not None and self.name.encode() in value:
            self.store.erase(self.key)
        else:
            self.lost = True
