"""Few requests, many at a time, and tried again where it helps."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.errors import InvalidMetadata, StoreError
from omnizarr.stores import Range
from omnizarr.stores.requests import coalesce, fetch_many, in_parallel
from omnizarr.stores.retry import MayPass, Retry, take_retry

VALUES = {"a": bytes(range(200)), "b": b"", "c": b"short"}

ranges = st.one_of(
    st.none(),
    st.builds(
        Range,
        st.integers(-250, 250),
        st.one_of(st.none(), st.integers(0, 250)),
    ),
)
asked = st.lists(st.tuples(st.sampled_from([*VALUES, "missing"]), ranges), max_size=12)


def expected(wanted: Sequence[tuple[str, Range | None]]) -> list[bytes | None]:
    whole = [VALUES.get(key) for key, _ in wanted]
    return [
        value if value is None or part is None else part.of(value)
        for value, (_, part) in zip(whole, wanted, strict=True)
    ]


@given(asked, st.integers(0, 60), st.integers(1, 120))
def test_joined_requests_hold_exactly_what_was_asked_for(
    wanted: list[tuple[str, Range | None]], gap: int, most: int
) -> None:
    fetches = coalesce(wanted, gap=gap, most=most)
    assert len(fetches) <= len(wanted)
    found: dict[int, bytes | None] = {}
    for fetch in fetches:
        (data,) = expected([(fetch.key, fetch.range)])
        for number, part in fetch.cut(data):
            assert number not in found
            found[number] = part
    assert [found[i] for i in range(len(wanted))] == expected(wanted)


@given(asked)
def test_many_answers_are_those_of_single_requests(wanted: list[tuple[str, Range | None]]) -> None:
    assert fetch_many(lambda key, part: expected([(key, part)])[0], wanted) == expected(wanted)


def test_ranges_far_apart_or_large_together_stay_apart() -> None:
    def spans(*wanted: tuple[int, int]) -> list[Range | None]:
        parts = [("a", Range(*part)) for part in wanted]
        return [fetch.range for fetch in coalesce(parts, gap=10, most=100)]

    assert spans((0, 10), (20, 10)) == [Range(0, 30)]
    assert spans((0, 10), (21, 10)) == [Range(0, 10), Range(21, 10)]
    assert spans((0, 60), (60, 60)) == [Range(0, 60), Range(60, 60)]
    assert spans((0, 500)) == [Range(0, 500)]
    assert spans((5, 10), (0, 30), (5, 10)) == [Range(0, 30)]


def test_the_first_error_ends_the_rest() -> None:
    started = []

    def work(number: int) -> int:
        started.append(number)
        if number == 3:
            raise StoreError("broken")
        time.sleep(0.01)
        return number

    with pytest.raises(StoreError, match="broken"):
        in_parallel(work, range(5000))
    assert len(started) < 5000


def test_requests_inside_requests_do_not_wait_for_themselves() -> None:
    def inner(number: int) -> int:
        return sum(in_parallel(lambda n: n * number, [1, 2]))

    results: list[list[int]] = []
    thread = threading.Thread(target=lambda: results.append(in_parallel(inner, range(200))))
    thread.daemon = True
    thread.start()
    thread.join(30)
    assert results == [[3 * n for n in range(200)]]


# Retries


def failing(times: int, after: float = 0.0) -> tuple[list[float], object]:
    calls: list[float] = []

    def attempt() -> str:
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise MayPass("no luck", after)
        return "done"

    return calls, attempt


def test_what_may_pass_is_tried_again_with_growing_waits() -> None:
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
        with pytest.raises(InvalidMetadata):
            take_retry(dict(wrong))
