"""Stores around a store that record what is asked, fail on request, or take their time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from omnizarr.stores.base import Store
from omnizarr.stores.wrappers import WrapperStore

T = TypeVar("T")


class Call(NamedTuple):
    """One operation on a store, with the keys or the prefix it was about."""

    operation: str
    keys: tuple[str, ...]


class RecordingStore(WrapperStore):
    """`inner`, with a list of all calls; one call is one request to the store."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []

    def counts(self) -> Counter[str]:
        """How often each operation was called."""
        return Counter(call.operation for call in self.calls)

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        self.calls.append(Call(operation, tuple(keys)))
        return run()


class FaultyStore(WrapperStore):
    """`inner`, with faults: `fault(operation, key)` gives the error to raise, or None.

    It is asked once for each key of a call, before anything is done.
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
    """`inner`, where every call takes `seconds` longer, as one request over a network would.

    `most` is the largest number of calls that were under way at one time.
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
