"""Transient errors are retried with growing waits for a limited time."""

from __future__ import annotations

import errno
import itertools
import time

import pytest

from omnizarr.concurrency.retry import (
    NO_DESCRIPTORS,
    Overtaken,
    Retry,
    TransientError,
    retry_on_emfile,
    take_retry,
)
from omnizarr.errors import InvalidArgument, StoreError


def failing(times: int, after: float = 0.0) -> tuple[list[float], object]:
    calls: list[float] = []

    def attempt() -> str:
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise TransientError("no luck", after)
        return "done"

    return calls, attempt


def test_transient_errors_are_retried_with_growing_waits() -> None:
    calls, attempt = failing(3)
    assert Retry(attempts=4, first_wait=0.04).call(attempt) == "done"  # type: ignore[arg-type]
    waits = [b - a for a, b in itertools.pairwise(calls)]
    assert len(waits) == 3
    for number, wait in enumerate(waits):
        assert wait >= 0.02 * 2**number


def test_attempts_are_counted_in_the_error() -> None:
    calls, attempt = failing(99)
    with pytest.raises(StoreError, match=r"no luck \(3 attempts in .*no attempts left\)"):
        Retry(attempts=3, first_wait=0.001).call(attempt)  # type: ignore[arg-type]
    assert len(calls) == 3


def test_no_attempt_begins_that_may_end_after_the_deadline() -> None:
    calls, attempt = failing(99, after=5.0)
    with pytest.raises(StoreError, match=r"1 attempt in .*deadline 5 s"):
        Retry(deadline=5.0, timeout=1.0).call(attempt)  # type: ignore[arg-type]
    assert len(calls) == 1


def test_other_errors_are_not_tried_again() -> None:
    calls = []

    def attempt() -> None:
        calls.append(1)
        raise StoreError("for good")

    with pytest.raises(StoreError, match=r"^for good$"):
        Retry().call(attempt)
    assert len(calls) == 1


def test_options_make_the_policy() -> None:
    options = {"attempts": 2, "timeout": 3.0, "region": "x"}
    assert take_retry(options) == Retry(attempts=2, timeout=3.0)
    assert options == {"region": "x"}
    assert take_retry({"retry": Retry(attempts=9), "deadline": 7}) == Retry(9, 7.0, 7.0)
    for wrong in ({"attempts": 0}, {"timeout": 0}, {"deadline": -1}, {"retry": 3}):
        with pytest.raises(InvalidArgument):
            take_retry(dict(wrong))


def test_the_last_conflict_is_raised_unchanged() -> None:
    calls = []

    def attempt() -> None:
        calls.append(1)
        raise Overtaken(len(calls))

    policy = Retry(attempts=5, first_wait=1e-4)
    with pytest.raises(Overtaken, match=r"^5$"):
        policy.call(attempt, Overtaken)
    assert len(calls) == 5
    assert len(list(policy.tries())) == 5


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_call_without_a_descriptor_is_tried_for_a_moment(number: int) -> None:
    calls = []

    def attempt() -> str:
        calls.append(1)
        if len(calls) < NO_DESCRIPTORS.attempts:
            raise OSError(number, "too many open files")
        return "opened"

    assert retry_on_emfile(attempt) == "opened"
    with pytest.raises(FileNotFoundError):
        retry_on_emfile(lambda: open("/no/such/file"))  # noqa: SIM115 - it is not opened
    calls.clear()
    with pytest.raises(OSError, match="too many"):
        retry_on_emfile(lambda: (attempt(), calls.clear(), attempt())[0])
