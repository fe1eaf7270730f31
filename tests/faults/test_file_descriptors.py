"""Few file descriptors are enough; without any, the error says so and nothing is lost."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores.object.store import ObjectStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.faults.programs import run
from tests.sampling import sample
from tests.servers.processes import s3_options, simple_storage
from tests.soak import descriptors
from tests.soak.descriptors import free_descriptors
from tests.soak.operations import DATA, OPERATIONS

NONE_LEFT = "Too many open files"


@pytest.mark.parametrize(
    ("operation", "engine"), sample(itertools.product(OPERATIONS, ["auto", "reference"]), 6)
)
def test_operations_need_few_descriptors_and_lose_nothing_without_them(
    operation: str, engine: Any, tmp_path: Path
) -> None:
    with oz.configure(engine=engine, threads=8):
        descriptors.run(tmp_path, operation)


def test_a_lazy_import_without_descriptors_is_not_reported_as_unknown_name(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "x", data=[1, 2, 3], compressors=oz.codecs.GzipCodec())
    code = """
    import resource
    from omnizarr import registry
    tries = {
        "codec": lambda: registry.find("codec", "gzip"),
        "plug-in": lambda: registry.lookup("codec", "of-nobody"),
        "type": lambda: oz.create_array(None, shape=3, dtype="bfloat16"),
        "function": lambda: oz.verify,
        "codec of a name": lambda: oz.codecs.BloscCodec,
        "store": lambda: oz.open("sqlite://x.sqlite"),
        "array": lambda: oz.open(location),
    }
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < 63:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    for name, act in tries.items():
        try:
            act()
        except oz.OmnizarrError as e:
            assert "Too many open files" in str(e), (name, e)
        else:
            raise AssertionError(name)
    for descriptor in taken:
        os.close(descriptor)
    for name in ("codec", "type", "function", "codec of a name"):
        tries[name]()
    try:
        tries["plug-in"]()
    except oz.UnknownExtension:
        print(oz.open(location)[...].tolist())
    """
    assert run(code, tmp_path / "x") == ["[1, 2, 3]"]


def test_threads_reading_a_database_report_too_many_open_files_and_leak_none(
    tmp_path: Path,
) -> None:
    results: list[str] = []
    with SQLiteStore(tmp_path / "x.sqlite") as store:
        store.set("key", b"value")
        start = threading.Barrier(8)

        def read() -> None:
            start.wait()
            try:
                results.append(str(store.get("key")))
            except oz.StoreError as e:
                results.append(str(e))
            start.wait()

        threads = [threading.Thread(target=read) for _ in range(8)]
        with free_descriptors(3):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            other = threading.Thread(target=lambda: results.append(str(store.get("key"))))
            other.start()
            other.join()
    values = [one for one in results if one == "b'value'"]
    assert len(values) >= 2
    assert all(NONE_LEFT in one for one in results if one not in values)
    assert results[-1] == "b'value'"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return the port of a server in another process, with an array in its bucket."""
    with simple_storage("bucket") as port:
        oz.create_array(
            "s3://bucket/x", data=DATA, chunks=(16, 16), storage_options=s3_options(port)
        )
        yield port


def test_a_web_server_is_read_with_few_descriptors(port: int) -> None:
    url = f"http://127.0.0.1:{port}/bucket/x"
    # A client that was used has connections left, so each of these has one of its own.
    wanted = [{"attempts": 2, "timeout": 5 + n} for n in range(2)]
    with free_descriptors(0), pytest.raises(oz.StoreError, match=NONE_LEFT):
        oz.open(url, storage_options=wanted[0], kind="array")
    with free_descriptors(descriptors.HANDFUL):
        assert np.array_equal(oz.open(url, storage_options=wanted[1])[...], DATA)


def test_a_slow_web_server_is_read_with_few_descriptors() -> None:
    """D9b: a request without a descriptor waits for one while other requests are running."""
    with simple_storage("bucket", latency=0.04) as port:
        oz.create_array(
            "s3://bucket/x", data=DATA, chunks=(16, 16), storage_options=s3_options(port)
        )
        array = oz.open(f"http://127.0.0.1:{port}/bucket/x", storage_options={"attempts": 1})
        array.store.close()
        with free_descriptors(descriptors.HANDFUL):
            assert np.array_equal(array[...], DATA)


def test_a_bucket_is_used_with_few_descriptors(port: int) -> None:
    # A client that was used has connections left, so each of these has one of its own.
    wanted = [{**s3_options(port, attempts=2), "timeout": 5 + n} for n in range(3)]
    store = ObjectStore.from_url("s3://bucket/x", **wanted[0])
    with free_descriptors(0):
        with pytest.raises(oz.StoreError, match=NONE_LEFT):
            store.get("zarr.json")
        with pytest.raises(oz.StoreError, match=NONE_LEFT):
            store.set("zarr.json", b"{}")
        with pytest.raises(oz.StoreError, match=NONE_LEFT):
            oz.open("s3://bucket/x", storage_options=wanted[1], kind="array")
    with free_descriptors(descriptors.HANDFUL):
        array = oz.open("s3://bucket/x", mode="r+", storage_options=wanted[2])
        assert np.array_equal(array[...], DATA)
        array[3:50, 5:70] = DATA[3:50, 5:70]
    assert np.array_equal(array[...], DATA)
