"""Store faults by operation and store: no wrong value, no hang, no error without its key."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import omnizarr
from omnizarr import stores
from omnizarr.concurrency.retry import Retry
from omnizarr.errors import StoreError
from omnizarr.stores import Range, Store, resolve
from omnizarr.stores.http import HTTPStore
from tests.parallel import together
from tests.sampling import SEED, sample, tries
from tests.servers.fixtures import Cloud
from tests.servers.web import FAULTS, Web
from tests.soak import faults

POLICY = {"attempts": 3, "first_wait": 0.01, "timeout": 0.3, "deadline": 0.8}
LATE = 10.0  # seconds; far above the deadline, far below the server's slowness
OLD, NEW = b"old value", b"new value!"


def bounded(call: Callable[[], Any]) -> Any:
    """Call a function and fail if it takes longer than any deadline."""
    start = time.monotonic()
    try:
        return call()
    finally:
        assert time.monotonic() - start < LATE


def error_of(call: Callable[[], Any]) -> str | None:
    """Return the error text of a call, which must name the key, or None."""
    try:
        bounded(call)
    except StoreError as e:
        text = str(e)
    else:
        return None
    assert "'a/k'" in text
    return text


def open_cloud(cloud: Cloud) -> Store:
    return resolve(f"{cloud.url}/data", storage_options={**cloud.options, **POLICY})


# An answer that never comes has no parts, and takes seconds.
READS = [(f, p) for f in FAULTS for p in (None, Range(1, 4), Range(-4)) if f != "slow" or not p]


def is_an_error(store: Any, server: Web, fault: str, part: Range | None) -> None:
    """Check that reads fail while there is a fault, and work afterwards."""
    server.break_down(fault)
    if fault == "404":
        assert bounded(lambda: store.get("a/k", part)) is None
        return
    for call in (
        lambda: store.get("a/k", part),
        lambda: stores.get_many(store, [("a/k", part), ("a/l", part)]),
    ):
        with pytest.raises(StoreError, match=r"'a/[kl]'"):
            bounded(call)
    server.break_down(None)
    assert store.get("a/k", part) == (OLD if part is None else part.of(OLD))


# obstore does not tell that a part came where all was asked for
@pytest.mark.parametrize(
    ("fault", "part"), sample([r for r in READS if r != ("wrong range", None)], 12)
)
def test_a_faulty_read_from_an_object_store_is_an_error(
    cloud: Cloud, fault: str, part: Range | None
) -> None:
    store = open_cloud(cloud)
    store.set("a/k", OLD)
    is_an_error(store, cloud.server, fault, part)


@pytest.mark.parametrize(("fault", "part"), READS)
def test_a_faulty_read_from_a_web_server_is_an_error(
    web: Web, fault: str, part: Range | None
) -> None:
    web.values["data/a/k"] = OLD
    is_an_error(HTTPStore(f"{web.url}/data", retry=Retry(**POLICY)), web, fault, part)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_write_to_an_object_store_leaves_the_old_or_the_new_value(
    cloud: Cloud, fault: str
) -> None:
    store = open_cloud(cloud)
    store.set("a/k", OLD)
    cloud.server.break_down(fault)
    error = error_of(lambda: store.set("a/k", NEW))
    if error is None:
        assert fault in ("short", "wrong range")  # a broken answer to a write that was made
    expected = [NEW] if error is None else [OLD, NEW]
    cloud.server.break_down(None)
    assert store.get("a/k") in expected


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_listing_of_an_object_store_is_an_error(cloud: Cloud, fault: str) -> None:
    store = open_cloud(cloud)
    store.set("a/k", OLD)
    cloud.server.break_down(fault)
    for call in (
        lambda: list(stores.list_prefix(store, "a/")),
        lambda: stores.list_dir(store, "a/"),
    ):
        with pytest.raises(StoreError, match="'a/'"):
            bounded(call)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_erase_in_an_object_store_is_an_error_or_done(cloud: Cloud, fault: str) -> None:
    store = open_cloud(cloud)
    store.set("a/k", OLD)
    cloud.server.break_down(fault)
    error = error_of(lambda: store.erase("a/k"))
    if error is None:  # a page in answer to DELETE is taken for success
        assert fault in ("404", "short", "wrong range", "page")
    cloud.server.break_down(None)
    done = error is None and fault in ("short", "wrong range")
    assert store.get("a/k") in ([None] if done else [None, OLD])


@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "404"])
def test_a_fault_is_not_taken_for_a_missing_chunk(web: Web, fault: str) -> None:
    data = np.arange(1, 1001).reshape(10, 100)
    omnizarr.create_array(omnizarr.storage.MemoryStore(web.values), data=data, chunks=(1, 100))
    array = omnizarr.open(HTTPStore(web.url, retry=Retry(**POLICY)))
    web.break_down(fault)
    with pytest.raises(omnizarr.ChunkError, match="c/"):
        bounded(lambda: array[...])
    web.break_down(fault if fault not in ("403", "page", "slow") else None, times=2)
    np.testing.assert_array_equal(array[...], data)


def test_threads_waiting_for_a_dead_server_all_end(web: Web) -> None:
    store = HTTPStore(f"{web.url}/data", retry=Retry(**POLICY))
    web.break_down("slow")

    def read() -> None:
        with pytest.raises(StoreError):
            store.get_many([(f"k{i}", None) for i in range(20)])

    together(*[read] * 4)


def test_a_read_through_a_failing_store_is_correct_or_an_error() -> None:
    tally = faults.faulted_reads(SEED, tries(150, 3000))
    assert tally["error"] > 20
    assert tally["right values"] > 20
    assert (
        tally["error"] + tally["right values"] + tally["missing chunk reported"] == tally["reads"]
    )
