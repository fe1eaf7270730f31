"""Limits on file size, memory and open files: clear errors, and no stored value is lost."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import curl
from omnizarr.stores.object.store import ObjectStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.crash.server import build
from tests.faults.programs import run
from tests.parallel import together
from tests.sampling import sample, tries
from tests.servers.processes import s3_options, simple_storage
from tests.servers.skipped import COMPILER
from tests.soak import descriptors, memory, operations
from tests.soak.descriptors import free_descriptors

DATA = np.arange(256 * 256, dtype="i4").reshape(256, 256)
ENGINES = sample(["auto", "reference"], 1)


def run_limited(code: str, location: Path, engine: str) -> list[str]:
    """Run a program that lowers one of its own limits, and return its output."""
    start = """
    import resource
    def limit(what, most):
        resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
    """
    return run(textwrap.dedent(start) + textwrap.dedent(code), location, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shards", [None, (256, 256)])
def test_a_write_beyond_the_file_size_limit_is_an_error_and_keeps_old_values(
    shards: tuple[int, int] | None, engine: str, tmp_path: Path
) -> None:
    options = {"chunks": (64, 64), "shards": shards, "compressors": None}
    oz.create_array(tmp_path / "x", data=DATA, **options)  # type: ignore[arg-type]  # options
    output = run_limited(
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        array = oz.open(location, "r+")
        limit(resource.RLIMIT_FSIZE, 4096)
        for part in (np.s_[:], np.s_[3:200, 5:70]):
            try:
                array[part] = 7
            except oz.OmnizarrError as e:
                print(type(e).__name__, "File too large" in str(e))
        """,
        tmp_path / "x",
        engine,
    )
    assert output == ["ChunkError True"] * 2
    assert np.array_equal(oz.open(tmp_path / "x")[...], DATA)
    report = oz.verify(tmp_path / "x")
    assert report.ok
    assert not report.findings


@pytest.mark.parametrize("engine", ENGINES)
def test_an_out_of_memory_error_states_the_requested_size(engine: str, tmp_path: Path) -> None:
    oz.create_array(tmp_path / "x", shape=(2**16, 2**16), chunks=(256, 256), dtype="f8")[0, 0] = 5
    output = run_limited(
        """
        array = oz.open(location)
        array[0, 0]
        limit(resource.RLIMIT_AS, 2**32)
        try:
            array[...]
        except MemoryError as e:
            print(e)
        print(array[0, 0])
        """,
        tmp_path / "x",
        engine,
    )
    assert "32.0 GiB for an array with shape (65536, 65536)" in output[0]
    assert output[-1] == "5.0"


# Allocations that fail one by one, and limits on the address space; the codecs of the reference
# engine but zstd crash if their own allocations fail, so the engine asks for memory before.
OPERATIONS = [name for name in operations.OPERATIONS if name != "write a dataset"]
TRIES = [
    *itertools.product(OPERATIONS, ["auto"], ["blosc"]),
    *itertools.product(OPERATIONS, ["reference"], ["zstd"]),
    *itertools.product(memory.LARGE, ["auto", "reference"], memory.CODECS),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library that makes allocations fail."""
    made = build(memory.SOURCE, tmp_path_factory.mktemp("library"))
    if made is None:
        pytest.skip(COMPILER)
    return made


@pytest.mark.parametrize(("operation", "engine", "codec"), sample(TRIES, 3))
def test_a_failed_allocation_is_an_error_and_tears_no_value(
    operation: str, engine: str, codec: str, library: Path, tmp_path: Path
) -> None:
    words = ["-m", "tests.soak.memory", str(tmp_path), operation, engine, codec, str(tries(16, 1))]
    # The C library keeps less memory that was freed.
    gives_back = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    environment = {**os.environ, "LD_PRELOAD": str(library), **gives_back}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr


NONE_LEFT = "Too many open files"


@pytest.mark.parametrize(
    ("operation", "engine"),
    sample(itertools.product(operations.OPERATIONS, ["auto", "reference"]), 6),
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

        with free_descriptors(3):
            together(*[read] * 8)
            together(lambda: results.append(str(store.get("key"))))
    values = [one for one in results if one == "b'value'"]
    assert len(values) >= 2
    assert all(NONE_LEFT in one for one in results if one not in values)
    assert results[-1] == "b'value'"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return the port of a server in another process, with an array in its bucket."""
    with simple_storage("bucket") as port:
        oz.create_array(
            "s3://bucket/x", data=operations.DATA, chunks=(16, 16), storage_options=s3_options(port)
        )
        yield port


def test_a_web_server_is_read_with_few_descriptors(port: int) -> None:
    url = f"http://127.0.0.1:{port}/bucket/x"
    wanted = {"attempts": 2, "timeout": 5}
    curl.close_idle()
    with free_descriptors(0), pytest.raises(oz.StoreError, match=NONE_LEFT):
        oz.open(url, storage_options=wanted, kind="array")
    with free_descriptors(descriptors.HANDFUL):
        assert np.array_equal(oz.open(url, storage_options=wanted)[...], operations.DATA)


def test_a_slow_web_server_is_read_with_few_descriptors() -> None:
    """D9b: a request without a descriptor waits for one while other requests are running."""
    with simple_storage("bucket", latency=0.04) as port:
        oz.create_array(
            "s3://bucket/x", data=operations.DATA, chunks=(16, 16), storage_options=s3_options(port)
        )
        array = oz.open(f"http://127.0.0.1:{port}/bucket/x", storage_options={"attempts": 1})
        array.store.close()
        with free_descriptors(descriptors.HANDFUL):
            assert np.array_equal(array[...], operations.DATA)


def test_a_bucket_is_used_with_few_descriptors(port: int) -> None:
    # A client that was used has connections left, so each of these has one of its own.
    wanted = [{**s3_options(port, attempts=2), "timeout": 5 + n} for n in range(3)]
    store = ObjectStore.from_url("s3://bucket/x", **wanted[0])
    curl.close_idle()
    with free_descriptors(0):
        with pytest.raises(oz.StoreError, match=NONE_LEFT):
            store.get("zarr.json")
        with pytest.raises(oz.StoreError, match=NONE_LEFT):
            store.set("zarr.json", b"{}")
        with pytest.raises(oz.StoreError, match=NONE_LEFT):
            oz.open("s3://bucket/x", storage_options=wanted[1], kind="array")
    with free_descriptors(descriptors.HANDFUL):
        array = oz.open("s3://bucket/x", mode="r+", storage_options=wanted[2])
        assert np.array_equal(array[...], operations.DATA)
        array[3:50, 5:70] = operations.DATA[3:50, 5:70]
    assert np.array_equal(array[...], operations.DATA)
