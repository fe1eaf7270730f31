"""Locks in a store that can compare and set: a key that says who has it, for a limited time.

Whoever stores the key first has the lock, stores it anew every few seconds, and erases it in the
end. Others wait; one that sees the same value for the length of a lease concludes that its writer
is gone, and replaces it. Only spans of time are measured, so clocks need not agree. The lock of a
process of this machine that has ended is replaced at once.

A writer that was stopped for longer than a lease may go on later. So what is stored under a lock
is checked: a store that can compare several keys at once compares the lock with each change
(`Lease.change`); for others `Lease.check` makes sure before a request that nobody can have taken
the lock yet, and the request itself compares the value that it replaces.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from omnizarr.concurrency import fork
from omnizarr.concurrency.file_locks import NAME, Taken
from omnizarr.concurrency.key_locks import waited
from omnizarr.concurrency.pool import start_thread
from omnizarr.concurrency.retry import AnswerLost
from omnizarr.errors import Conflict, OmnizarrError, warn
from omnizarr.stores.base import SetsIf

LEASE = 15.0  # seconds without a sign of life
POLL = 0.05  # seconds at most between two looks at a lock of somebody else
# The monotonic clock of Linux stands still while a machine is suspended, this one does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def is_running(process: int) -> bool:
    """Return True if a process with this number runs, or may run, on this machine."""
    if sys.platform == "win32":
        return True  # os.kill would end it
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as e:
        return not isinstance(e, ProcessLookupError)
    return True


@cache
def _processes() -> str:
    """Return where our process number is unique: a boot and PID namespace; empty if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _has_ended(value: bytes | None) -> bool:
    """Return True if a lock belongs to a process of this machine that has ended."""
    said = _said(value)
    here = said.get("processes") == _processes() != ""
    return here and type(said.get("pid")) is int and not is_running(said["pid"])


def lease_key(prefix: str, kind: str) -> str:
    """Return the key that a lock of a prefix is stored at."""
    return f"{prefix}{NAME}{kind}"


@contextmanager
def leased(
    store: SetsIf, prefix: str, kind: str, *, wait: bool = True, said: str = ""
) -> Iterator[Lease]:
    """Wait until no other writer has the lock of a prefix, and hold it until the block ends.

    Raises if a change was refused because the lock was lost; and in the end if it was lost and
    changes were not checked. Unless it shall `wait`, raises `Taken` as soon as the other writer
    gives a sign; `said` tells others who has the lock.
    """
    lease = Lease(store, lease_key(prefix, kind), said)
    renews = False
    try:
        lease.take(wait)
        renews = start_thread(lease.renew, "omnizarr-lease")
        yield lease
    except OmnizarrError as e:
        if lease.refused and not isinstance(e, Conflict):  # an error of a chunk, for example
            raise lease.conflict() from e
        raise
    finally:
        lease.done.set()
        if lease.owner == os.getpid() and lease.count:  # else nothing was stored
            if renews:
                lease.ended.wait()
            lease.release()
    if lease.lost and not lease.checked:
        raise lease.conflict()


def remove(store: SetsIf, key: str, generation: str | None) -> bool:
    """Remove a lock of a generation; return False if another writer has taken it since."""
    lease = Lease(store, key)
    if not lease.put(generation):
        return False
    lease.release()
    return not lease.lost


class Lease:
    """A lock: one key, and our value for it."""

    def __init__(self, store: SetsIf, key: str, said: str = "") -> None:
        self.store, self.key, self.said = store, key, said
        self.name = os.urandom(16).hex()
        self.owner = os.getpid()
        self.count = 0
        self.generation: str | None = None
        self.done = threading.Event()
        self.ended = threading.Event()
        self.taken_over = False  # from a writer that gave no sign, and may go on any time
        self.lost = False
        self.checked = False  # by all that is stored
        self.refused = False  # a change, since the lock was lost
        self._change_if: Any = getattr(store, "change_if", None)
        self._lock = fork.lock()
        self._renewed = 0.0

    @property
    def is_compared(self) -> bool:
        """True if the store compares the lock with each change, so that `change` can be used."""
        return self._change_if is not None

    def take(self, wait: bool = True) -> None:
        seen, since, began = None, time.monotonic(), time.perf_counter()
        while True:
            now = self.store.generation(self.key)
            if now is None or (now == seen and time.monotonic() - since > LEASE):
                if self.put(now):
                    self.taken_over = now is not None
                    if seen is not None:
                        waited(f"{self.key!r} in {self.store!r}", began)
                    return
            elif now != seen:
                if seen is not None and not wait:
                    raise Taken(str(_said(self.store.get(self.key)).get("by", "")).encode())
                seen, since = now, time.monotonic()
                if _has_ended(self.store.get(self.key)):
                    since -= 2 * LEASE  # so that the lock is taken over at once
                    continue
            self.done.wait(POLL * (1 + os.urandom(1)[0]) / 256)

    def put(self, generation: str | None) -> bool:
        """Store the lock over that generation; return True if the lock is ours afterwards."""
        while True:
            began = _now()
            self.count += 1
            said = {"owner": self.name, "pid": self.owner, "count": self.count, "by": self.said}
            text = json.dumps({**said, "processes": _processes()}).encode()
            try:
                self.store.set_if(self.key, text, generation)
            except AnswerLost as e:
                if not e.superseded:
                    raise
            value, generation = self.store.get_versioned(self.key)
            if not self._is_ours(value):
                return False
            self.generation = generation
            if value == text:
                self._renewed = began
                return True
            # That is an earlier value of ours, whose answer was lost.

    def _is_ours(self, value: bytes | None) -> bool:
        return value is not None and self.name.encode() in value

    def renew(self) -> None:
        try:
            while not self.done.wait(LEASE / 3) and not self.lost:
                try:
                    with self._lock:
                        self.lost = self.lost or not self.put(self.generation)
                except (OSError, RuntimeError):  # tried again; others see that nothing comes
                    continue
        finally:
            self.ended.set()

    def check(self) -> None:
        """Raise if another writer may have taken the lock; renew it if that is due."""
        with self._lock:
            if not self.lost and _now() - self._renewed > LEASE / 2:
                self.lost = not self.put(self.generation)
            if self.lost:
                self.refused = True
                raise self.conflict()

    def change(
        self, changes: Mapping[str, Any], expected: Mapping[str, str | None] | None = None
    ) -> bool:
        """Store values, or erase keys for None, if the lock is ours, and `expected` met."""
        with self._lock:
            self.check()
            if self._change_if(changes, {self.key: self.generation, **(expected or {})}):
                return True
            self.lost = not self.put(self.generation)
            self.check()
            return False

    def release(self) -> None:
        had = self.generation is not None  # else it may be ours only if an answer was lost
        try:
            if had:
                self.check()
            if not had or not self.is_compared:
                self._erase()
                return
            while not self.change({self.key: None}):
                pass
        except Conflict:
            pass  # it is another's now
        except (OSError, RuntimeError) as e:  # what was done under the lock is done
            if had:
                warn(f"the lock {self.key!r} was not removed, other writers wait {LEASE:g} s: {e}")

    def _erase(self) -> None:
        if self._is_ours(self.store.get(self.key)):
            self.store.erase(self.key)
        else:
            self.lost = True

    def conflict(self) -> Conflict:
        """Return the error for a lock that was lost."""
        what = (
            "nothing was stored after that: an append has appended nothing, a resize may be"
            " incomplete; try again"
            if self.checked
            else "what was written meanwhile may be incomplete"
        )
        return Conflict(
            f"the lock {self.key!r} in {self.store!r} was taken over by another writer, since this"
            f" one gave no sign for {LEASE:g} s; {what}"
        )


def _said(value: bytes | None) -> dict[str, Any]:
    """Return what a lock says; nothing if it is of another program."""
    with suppress(ValueError):
        said = json.loads(value or b"{}")
        return said if isinstance(said, dict) else {}
    return {}


def _now() -> float:
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
