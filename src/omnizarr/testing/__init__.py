"""Test tools: stores that record, fail or wait, and test suites for stores.

The suites are in `omnizarr.testing.stores`, which needs `pytest` and `hypothesis`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from omnizarr.stores.base import Store
from omnizarr.stores.wrappers import WrapperStore

__all__ = ["Call", "FaultyStore", "RecordingStore", "SlowStore"]

T = TypeVar("T")
FORK_SECONDS = 60
if "pytest" in sys.modules:  # so that failures of the suites show values
    sys.modules["pytest"].register_assert_rewrite(f"{__name__}.stores")


class Call(NamedTuple):
    """One operation on a store, with its keys or prefix.

    Attributes:
        operation: The name of the method, such as ``"get"``.
        keys: The keys, or the prefix.

    Examples:
        >>> from omnizarr.testing import Call
        >>> Call("get", ("zarr.json",)).operation
        'get'
    """

    operation: str
    keys: tuple[str, ...]


class RecordingStore(WrapperStore):
    """Records all calls to another store; one call is one request to the store.

    Args:
        inner: The other store.

    Examples:
        >>> from omnizarr.testing import RecordingStore
        >>> store = RecordingStore(oz.storage.MemoryStore())
        >>> oz.save(store, np.arange(3))
        >>> store.calls.clear()
        >>> values = oz.load(store)
        >>> [call.keys for call in store.calls][-1]
        ('c/0',)
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []

    def counts(self) -> Counter[str]:
        """Return the number of calls of each operation."""
        return Counter(call.operation for call in self.calls)

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        self.calls.append(Call(operation, tuple(keys)))
        return run()


class FaultyStore(WrapperStore):
    """Injects errors into calls to another store.

    Args:
        inner: The other store.
        fault: A function of an operation and a key that returns an error to raise, or None. It is
            called once for each key of a call, before the call.

    Examples:
        >>> from omnizarr.testing import FaultyStore
        >>> memory = oz.storage.MemoryStore()
        >>> store = FaultyStore(memory, lambda operation, key: OSError("disk on fire"))
        >>> oz.save(store, np.arange(3))
        Traceback (most recent call last):
        OSError: disk on fire...
    """

    def __init__(self, inner: Store, fault: Callable[[str, str], Exception | None]) -> None:
        super().__init__(inner)
        self.fault = fault

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        for key in keys:
            error = self.fault(operation, key)
            if error is not None:
                raise error
        return run()


class SlowStore(WrapperStore):
    """Delays every call to another store, like a request over a network.

    The attribute `most` is the largest number of concurrent calls.

    Args:
        inner: The other store.
        seconds: The delay of each call.

    Examples:
        >>> from omnizarr.testing import SlowStore
        >>> oz.save(SlowStore(oz.storage.MemoryStore(), 0.001), np.arange(3))
    """

    def __init__(self, inner: Store, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            time.sleep(self.seconds)
            return run()
        finally:
            with self._lock:
                self._now -= 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner, self.seconds)


def run_in_threads(work: Callable[[int], None], count: int) -> None:
    """Run `work` in several threads concurrently, and raise the first error of one of them."""
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))


def run_in_fork(work: Callable[[], None]) -> None:
    """Run `work` in a forked child, which must succeed before a time-out."""
    child = os.fork()
    if child == 0:
        signal.alarm(FORK_SECONDS)  # which ends it
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code == 0, "the child hung" if code == -signal.SIGALRM else "the child failed"
