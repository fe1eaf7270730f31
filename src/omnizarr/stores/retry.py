"""Retries: how often, how long and after which waits a failed request is tried again.

One policy for every store that is reached over a network. Only failures that may pass are tried
again: no connection, a reset, a short answer, a time-out, 408, 425, 429 and 5xx. An attempt begins
only if it can end before the deadline, so that no call takes longer than that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from omnizarr.errors import InvalidMetadata, StoreError
from omnizarr.stores.requests import given_up

T = TypeVar("T")
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that may pass


class MayPass(StoreError):
    """A failure that another attempt may not meet; `after`: seconds the server asks to wait."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class Retry:
    """How failed requests are repeated; all times are in seconds."""

    attempts: int = 6
    timeout: float = 60.0  # of one attempt, from connecting to the last byte
    deadline: float = 180.0  # of a call with all its attempts
    first_wait: float = 0.1  # doubles from attempt to attempt; each wait is a random part of it
    longest_wait: float = 10.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidMetadata(f"attempts must be at least 1, got {self.attempts!r}")
        for name in ("timeout", "deadline", "first_wait", "longest_wait"):
            if not getattr(self, name) > 0:
                raise InvalidMetadata(f"{name} must be positive, got {getattr(self, name)!r}")
        if self.timeout > self.deadline:
            object.__setattr__(self, "timeout", self.deadline)

    def call(self, attempt: Callable[[], T]) -> T:
        """What `attempt` gives, tried again as long as it raises `MayPass` and time allows."""
        start = time.monotonic()
        for number in range(1, self.attempts + 1):
            try:
                return attempt()
            except MayPass as e:
                wait = max(self._wait(number), e.after)
                spent = time.monotonic() - start
                late = spent + wait + self.timeout > self.deadline
                if late or number == self.attempts or given_up():
                    why = f"deadline {self.deadline:g} s" if late else "no attempts left"
                    tries = f"{number} attempt{'s' if number > 1 else ''}"
                    raise StoreError(f"{e} ({tries} in {spent:.1f} s, {why})") from e.__cause__
                time.sleep(wait)
        raise StoreError("no attempt was made")  # not reached: there is at least one

    def _wait(self, number: int) -> float:
        most = min(self.longest_wait, self.first_wait * 2.0 ** (number - 1))
        return random.uniform(most / 2, most)


RETRY_OPTIONS = ("retry", *(f.name for f in fields(Retry)))


def take_retry(options: dict[str, Any]) -> Retry:
    """The policy that storage options ask for; its options are taken out of them."""
    given = options.pop("retry", None)
    if given is not None and not isinstance(given, Retry):
        raise InvalidMetadata(f"storage option 'retry' must be a Retry, got {given!r}")
    changes = {f.name: options.pop(f.name) for f in fields(Retry) if f.name in options}
    base = given or Retry()
    return Retry(**{f.name: changes.get(f.name, getattr(base, f.name)) for f in fields(Retry)})
