"""Retries: one loop and one policy for everything that is tried again.

That is requests to servers that may fail for a moment, changes that other writers were quicker
with, files that cannot be opened while too many are, and directories that others remove.
"""

from __future__ import annotations

import errno
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from omnizarr import config
from omnizarr.concurrency.pool import check_waited_for
from omnizarr.errors import Conflict, InvalidArgument, StoreError, log

T = TypeVar("T")
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})  # of HTTP


class TransientError(StoreError):
    """A failure that a retry may avoid; `after` is the wait in seconds that the server asks for."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


MAY_BE_DONE = "it may have been done nevertheless: look before you try again"


class AnswerLost(StoreError):
    """No answer came, so that a change may have been made or not.

    `superseded`: the value has changed since, by this change and others or by others alone.
    """

    superseded = False


def superseded(what: str, store: object) -> AnswerLost:
    """Return the error for a conditional change that was repeated and then refused."""
    error = AnswerLost(
        f"cannot write {what!r} in {store!r}: the first answer was lost, and another writer has"
        f" changed it since; {MAY_BE_DONE}"
    )
    error.superseded = True
    return error


class Overtaken(Exception):
    """The value named in the message has changed since it was read, and must be read again."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A policy for repeating failed requests; all times are in seconds.

    Only failures that may pass are repeated: no connection, a reset, a short answer, a time-out,
    408, 425, 429 and 5xx. An attempt begins only if it can end before the deadline.
    """

    attempts: int = 6
    timeout: float = 60.0  # of one attempt, from connecting to the last byte
    deadline: float = 180.0  # of a call with all its attempts
    first_wait: float = 0.1  # doubles from attempt to attempt; each wait is at least half of it
    longest_wait: float = 10.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidArgument(f"attempts must be at least 1, got {self.attempts!r}")
        for name in ("timeout", "deadline", "first_wait", "longest_wait"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name} must be positive, got {getattr(self, name)!r}")
        if self.timeout > self.deadline:
            object.__setattr__(self, "timeout", self.deadline)

    def call(
        self,
        attempt: Callable[[], T],
        errors: type[Exception] | tuple[type[Exception], ...] = TransientError,
        is_transient: Callable[[Any], bool] = lambda error: True,
        store: object = None,
    ) -> T:
        """Return what `attempt` returns, tried again after `errors`; retries count for `store`."""
        start, number = time.monotonic(), 0
        while True:
            number += 1
            try:
                return attempt()
            except errors as e:
                if not is_transient(e):
                    raise
                check_waited_for()
                wait = max(self._wait(number), getattr(e, "after", 0.0))
                spent = time.monotonic() - start
                late = spent + wait + self.timeout > self.deadline
                if late or number >= self.attempts:
                    if errors is not TransientError:
                        raise
                    why = f"deadline {self.deadline:g} s" if late else "no attempts left"
                    tries = f"{number} attempt{'s' if number > 1 else ''}"
                    raise AnswerLost(f"{e} ({tries} in {spent:.1f} s, {why})") from e.__cause__
                where = "" if store is None else f" in {store!r}"
                log(f"attempt {number}{where} failed and is repeated in {wait:.2f} s: {e}")
                config.count(store, retries=1, retry_seconds=wait)
            time.sleep(wait)

    def tries(self) -> Iterator[int]:
        """Yield the numbers of all attempts, after a wait before each but the first."""
        for number in range(self.attempts):
            if number:
                time.sleep(self._wait(number))
            yield number

    def _wait(self, number: int) -> float:
        most = min(self.longest_wait, self.first_wait * 2.0 ** min(number - 1, 64))
        return random.uniform(most / 2, most)


def _local(attempts: int, first_wait: float, longest_wait: float) -> Retry:
    """Return a policy for local operations, which take no time themselves."""
    return Retry(attempts, 1e-9, math.inf, first_wait, longest_wait)


CONFLICTS = _local(200, 0.001, 0.5)  # of compare-and-set
NO_DESCRIPTORS = _local(10, 0.0015, 0.1)  # those of other threads are free again in a moment
REMOVED_DIRECTORY = _local(40, 0.0001, 0.03)  # by others, while it is empty
ABSENCE = _local(5, 0.001, 0.05)  # of metadata that are just being replaced
REPLACEMENT = _local(1000, 0.01, 0.01)  # of a node, by a writer that is at work
_EMFILE = (errno.EMFILE, errno.ENFILE)

RETRY_OPTIONS = ("retry", *(f.name for f in fields(Retry)))


def take_retry(options: dict[str, Any]) -> Retry:
    """Return the policy that storage options ask for, and remove its options from them."""
    given = options.pop("retry", None)
    if given is not None and not isinstance(given, Retry):
        raise InvalidArgument(f"storage option 'retry' must be a Retry, got {given!r}")
    changes = {f.name: options.pop(f.name) for f in fields(Retry) if f.name in options}
    return replace(given or Retry(), **changes)


def retry_conflicts(
    attempt: Callable[[], T], consequence: str, event: str = "changed by another writer"
) -> T:
    """Return what `attempt` returns; call it again while it raises `Overtaken`."""
    try:
        return CONFLICTS.call(attempt, Overtaken)
    except Overtaken as e:
        times = f"{CONFLICTS.attempts} times in a row"
        raise Conflict(f"{e} was {event} {times}{consequence}") from None


def retry_on_emfile(call: Callable[..., T], *args: Any) -> T:
    """Return what `call` returns, tried again where no file descriptor is left for it."""
    try:
        return call(*args)  # the ordinary case, for which nothing is measured
    except OSError as e:
        if e.errno not in _EMFILE:
            raise
    return NO_DESCRIPTORS.call(lambda: call(*args), OSError, lambda e: e.errno in _EMFILE)
