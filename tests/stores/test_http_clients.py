"""The two clients of web servers: obstore's, and the one in Python that has the last word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.concurrency.retry import Retry
from omnizarr.errors import StoreError
from omnizarr.stores import Range
from omnizarr.stores.http import HTTPStore
from tests.servers.web import FAULTS, Web, running

QUICK = Retry(attempts=3, timeout=2, deadline=20, first_wait=0.001, longest_wait=0.002)
VALUES = {"zarr.json": b"{}", "c/0/0": bytes(range(256)) * 5, "one": b"x", "none": b""}


def plain(url: str, **options: Any) -> HTTPStore:
    """Return a store that uses the client in Python only."""
    store = HTTPStore(url, **options)
    store._failures = 10**6
    return store


def by_obstore(web: Web) -> list[bool]:
    """Return for each request if obstore sent it."""
    return ["urllib3" not in headers.get("user-agent", "") for _, _, headers in web.log]


@pytest.fixture(scope="module")
def served() -> Iterator[Web]:
    with running(Web(dict(VALUES))) as server:
        yield server


RANGES = st.one_of(
    st.none(),
    st.builds(Range, st.integers(0, 1400), st.none() | st.integers(0, 1400)),
    st.builds(Range, st.integers(-1400, -1), st.none()),
)


@given(st.lists(st.tuples(st.sampled_from([*VALUES, "c/1/1", "nothing"]), RANGES), max_size=6))
def test_both_clients_return_the_same_parts(
    served: Web, requests: list[tuple[str, Range | None]]
) -> None:
    expected = [
        value if value is None or part is None else part.of(value)
        for value, part in ((VALUES.get(key), part) for key, part in requests)
    ]
    fast, slow = HTTPStore(served.url, retry=QUICK), plain(served.url, retry=QUICK)
    assert fast.get_many(requests) == slow.get_many(requests) == expected
    assert [fast.get(*request) for request in requests] == expected
    with_versions = fast.get_many_versioned(requests)
    assert with_versions == slow.get_many_versioned(requests)


@pytest.mark.parametrize("part", [None, Range(4, 100), Range(5, None), Range(-7, None)])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_right_bytes_or_the_error_of_the_other_client(
    web: Web, fault: str, part: Range | None
) -> None:
    web.values["a/0"] = value = bytes(range(200))
    web.slowness = 0.3
    expected = value if part is None else part.of(value)
    outcome: list[Any] = []
    for times in (1, None):
        for make in (HTTPStore, plain):
            retry = Retry(3, 0.2 if fault == "slow" else 2, 20, 0.001, 0.002)
            web.break_down(fault, times)
            try:
                outcome.append(make(web.url, retry=retry).get("a/0", part))
            except StoreError as e:
                outcome.append(str(e).partition(" (")[0].partition(": no resp")[0])
    web.break_down(None)
    for found in outcome:
        assert found == expected or isinstance(found, str) or (fault == "404" and found is None)
    if fault != "slow":  # each client has its own words for that
        assert outcome[2] == outcome[3]


def test_values_and_parts_come_by_obstore_over_few_connections(web: Web) -> None:
    web.values |= {f"c/{i}": bytes([i]) * 50 for i in range(20)}
    store = HTTPStore(web.url)
    assert store.get_many([(f"c/{i}", None) for i in range(20)]) == [
        bytes([i]) * 50 for i in range(20)
    ]
    assert store.get("c/3", Range(1, 2)) == b"\3\3"
    assert store.get("c/99") is None
    assert all(by_obstore(web))
    assert len(web.log) == 22
