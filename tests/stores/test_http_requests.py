"""Requests to web servers: parts, many at a time, faults, redirects that are checked."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
def test_parts_are_those_of_the_values(
    served: Web, requests: list[tuple[str, Range | None]]
) -> None:
    expected = [
        value if value is None or part is None else part.of(value)
        for value, part in ((VALUES.get(key), part) for key, part in requests)
    ]
    store = HTTPStore(served.url, retry=QUICK)
    assert store.get_many(requests) == expected
    assert [store.get(*request) for request in requests] == expected
    assert [data for data, _ in store.get_many_versioned(requests)] == expected


@pytest.mark.parametrize("part", [None, Range(4, 100), Range(5, None), Range(-7, None)])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_right_bytes_or_an_error_that_names_the_key(
    web: Web, fault: str, part: Range | None
) -> None:
    web.values |= {"a/0": bytes(range(200)), "a/1": bytes(range(100))}
    web.slowness = 0.3
    expected = [v if part is None else part.of(v) for v in (web.values["a/0"], web.values["a/1"])]
    for times in (1, None):
        retry = Retry(3, 0.2 if fault == "slow" else 2, 20, 0.001, 0.002)
        store = HTTPStore(web.url, retry=retry)
        for many in (False, True):
            web.break_down(fault, times)
            try:
                found = store.get_many([("a/0", part), ("a/1", part)]) if many else None
                found = [store.get("a/0", part)] if found is None else found
            except StoreError as e:
                assert re.search("cannot read 'a/[01]' in ", str(e))  # noqa: PT017 - a retry may also succeed
            else:
                for value, right in zip(found, expected, strict=False):
                    assert value == right or (fault == "404" and value is None)
    web.break_down(None)


def test_many_values_come_over_few_connections(web: Web) -> None:
    web.values |= {f"c/{i}": bytes([i]) * 50 for i in range(20)}
    store = HTTPStore(web.url)
    wanted = [(f"c/{i}", None) for i in range(20)]
    for _ in range(2):
        assert store.get_many(wanted) == [bytes([i]) * 50 for i in range(20)]
        assert store.get("c/3", Range(1, 2)) == b"\3\3"
        assert store.get("c/99") is None
    assert len(web.log) == 44


def test_checked_redirects_are_followed_as_others_are_and_secrets_stay_behind(web: Web) -> None:
    other = Web({"moved": b"there"})
    with running(other):
        web.redirects |= {"near": "/a", "far": f"{other.url}/moved", "round": "/round"}
        web.redirects |= {"wrong": "http://[::1", "ä": "/ä b".encode().decode("latin-1")}
        web.values |= {"a": b"here", "ä b": b"here"}
        seen: list[str] = []
        headers = {"Authorization": "secret"}
        checked = HTTPStore(web.url, headers=headers, retry=QUICK).checking_redirects(seen.append)
        for store in (HTTPStore(web.url, headers=headers, retry=QUICK), checked):
            assert store.get_many([("near", None), ("far", None)]) == [b"here", b"there"]
            assert "authorization" not in other.log[-1][2]
            for key in ("round", "wrong"):
                with pytest.raises(StoreError, match=r"redirects|URL"):
                    store.get(key)
            assert store.get("ä") == b"here"
        assert f"{other.url}/moved" in seen

        def refuse(url: str) -> None:
            raise StoreError(f"not allowed: {url}")

        web.log.clear()
        with pytest.raises(StoreError, match="not allowed"):
            checked.checking_redirects(refuse).get("a")
        assert not web.log
