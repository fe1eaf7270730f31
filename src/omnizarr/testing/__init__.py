"""Test tools: stores that record, fail or wait, and test suites for stores.

The suites are in `omnizarr.testing.stores`, which needs `pytest` and `hypothesis`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from omnizarr.stores.base import Store
from omnizarr.stores.wrappers import WrapperStore

__all__ = ["Call", "FaultyStore", "RecordingStore", "SlowStore"]

T = TypeVar("T")


class Call(NamedTuple):
    """One operation on a store, with its keys or prefix."""

    operation: str
    keys: tuple[str, ...]


class RecordingStore(WrapperStore):
    """Records all calls to `inner`; one call is one request to the store."""

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
    """Injects errors into calls to `inner`: `fault(operation, key)` returns an error, or None.

    It is called once for each key of a call, before the call.
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
    """Delays every call to `inner` by `seconds`, like a request over a network.

    `most` is the largest number of concurrent calls.
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
