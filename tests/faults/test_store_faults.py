"""The fault matrix: what goes wrong, by what is done, by store.

Whatever happens, there is no wrong value, no call that outlasts its deadline, and no error without
the key (or prefix) in it.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr
from omnizarr import LocalStore, stores
from omnizarr.concurrency.retry import Retry
from omnizarr.errors import StoreError
from omnizarr.stores import Range, Store, resolve
from omnizarr.stores.http import HTTPStore
from tests.servers.fixtures import Cloud
from tests.servers.web import FAULTS, Web

POLICY = {"attempts": 3, "first_wait": 0.01, "timeout": 0.7, "deadline": 2.0}
LATE = 10.0  # seconds; far above the deadline, far below the server's slowness
OLD, NEW = b"old value", b"new value!"


def bounded(call: Callable[[], Any]) -> Any:
    """What a call gives or raises; fails where it takes longer than any deadline."""
    start = time.monotonic()
    try:
        return call()
    finally:
        assert time.monotonic() - start < LATE


def outcome(call: Callable[[], Any]) -> str | None:
    """The error of a call, which must name the key, or None."""
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


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        (fault, part)
        for fault in FAULTS
        for part in (None, Range(1, 4), Range(-4))
        # obstore does not tell that a part came where all was asked for
        if (fault, part) != ("wrong range", None)
    ],
)
def test_reading_from_an_object_store(cloud: Cloud, fault: str, part: Range | None) -> None:
    store = open_cloud(cloud)
    store.set("a/k", OLD)
    cloud.server.break_down(fault)
    if fault == "404":
        assert bounded(lambda: store.get("a/k", part)) is None
        return
    for call in (
        lambda: store.get("a/k", part),
        lambda: stores.get_many(store, [("a/k", part), ("a/l", part)]),
    ):
        with pytest.raises(StoreError, match=r"'a/[kl]'"):
            bounded(call)
    cloud.server.break_down(None)
    assert store.get("a/k", part) == (OLD if part is None else part.of(OLD))


@pytest.mark.parametrize("fault", FAULTS)
def test_writing_to_an_object_store(cloud: Cloud, fault: str) -> None:
    store = open_cloud(cloud)
    store.set("a/k", OLD)
    cloud.server.break_down(fault)
    error = outcome(lambda: store.set("a/k", NEW))
    if error is None:
        assert fault in ("short", "wrong range")  # a broken answer to a write that was made
    expected = [NEW] if error is None else [OLD, NEW]
    cloud.server.break_down(None)
    assert store.get("a/k") in expected


@pytest.mark.parametrize("fault", FAULTS)
def test_listing_an_object_store(cloud: Cloud, fault: str) -> None:
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
def test_erasing_in_an_object_store(cloud: Cloud, fault: str) -> None:
    store = open_cloud(cloud)
    store.set("a/k", OLD)
    cloud.server.break_down(fault)
    error = outcome(lambda: store.erase("a/k"))
    if error is None:  # a page in answer to DELETE is taken for success
        assert fault in ("404", "short", "wrong range", "page")
    cloud.server.break_down(None)
    done = error is None and fault in ("short", "wrong range")
    assert store.get("a/k") in ([None] if done else [None, OLD])


@pytest.mark.parametrize("part", [None, Range(1, 4), Range(-4)])
@pytest.mark.parametrize("fault", FAULTS)
def test_reading_from_a_web_server(web: Web, fault: str, part: Range | None) -> None:
    web.values["data/a/k"] = OLD
    store = HTTPStore(f"{web.url}/data", retry=Retry(**POLICY))
    web.break_down(fault)
    if fault == "404":
        assert bounded(lambda: store.get("a/k", part)) is None
        return
    for call in (
        lambda: store.get("a/k", part),
        lambda: store.get_many([("a/k", part), ("a/l", part)]),
    ):
        with pytest.raises(StoreError, match=r"'a/[kl]'"):
            bounded(call)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "404"])
def test_no_chunk_of_an_array_is_filled_after_a_fault(web: Web, fault: str) -> None:
    data = np.arange(1, 1001).reshape(10, 100)
    omnizarr.create_array(omnizarr.MemoryStore(web.values), data=data, chunks=(1, 100))
    array = omnizarr.open(HTTPStore(web.url, retry=Retry(**POLICY)))
    web.break_down(fault)
    with pytest.raises(omnizarr.ChunkError, match="c/"):
        bounded(lambda: array[...])
    web.break_down(fault if fault not in ("403", "page", "slow") else None, times=2)
    np.testing.assert_array_equal(array[...], data)


# A local disk


def broken(number: int) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ELOOP])
def test_a_disk_that_fails_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = LocalStore(tmp_path / "data")
    store.set("a/k", OLD)
    with monkeypatch.context() as patch:
        patch.setattr("omnizarr.stores.local.files._files", None)  # it asks the system itself
        patch.setattr(os, "open", broken(number))
        patch.setattr("builtins.open", broken(number))
        patch.setattr(os, "scandir", broken(number))
        for call in (
            lambda: store.get("a/k"),
            lambda: store.get("a/k", Range(1, 2)),
            lambda: store.set("a/k", NEW),
            lambda: list(stores.list_prefix(store, "a/")),
            lambda: stores.list_dir(store, "a/"),
        ):
            with pytest.raises(StoreError, match=os.strerror(number)):
                call()
    assert store.get("a/k") == OLD


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_disk_that_is_full_is_an_error_and_leaves_the_old_value(tmp_path: Path) -> None:
    """The limit on the size of a file stands in for a full disk: the write stops half-way."""
    import resource
    import signal

    store = LocalStore(tmp_path / "data")
    store.set("a/k", OLD)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            store.set("a/k", b"x" * 5000)
        except StoreError as e:
            status = 0 if "a/k" in str(e) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get("a/k") == OLD
    assert list(store.list()) == ["a/k"]
    assert [p.name for p in (tmp_path / "data" / "a").iterdir()] == ["k"]


def test_a_directory_in_the_place_of_a_key_is_no_value_and_is_not_overwritten(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path)
    store.set("a/k", OLD)
    assert store.get("a") is None
    assert store.get("a", Range(0, 1)) is None
    with pytest.raises(StoreError, match=r"'.*a'"):
        store.set("a", NEW)
    store.erase("a")
    assert store.get("a/k") == OLD


def test_many_threads_that_meet_a_dead_server_all_end(web: Web) -> None:
    store = HTTPStore(f"{web.url}/data", retry=Retry(**POLICY))
    web.break_down("slow")
    errors: list[BaseException] = []

    def read() -> None:
        try:
            store.get_many([(f"k{i}", None) for i in range(20)])
        except StoreError as e:
            errors.append(e)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(errors) == 4
