"""A trace counts what servers are asked, what the engine reads, and what is waited for."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

import omnizarr as oz
from omnizarr.concurrency import key_locks
from omnizarr.concurrency.key_locks import CHUNKS, locked
from omnizarr.stores import resolve, tracing
from omnizarr.stores.leases import leased
from tests.parallel import held
from tests.servers.processes import s3_options
from tests.servers.redis import redis_server
from tests.servers.s3 import SimpleStorage
from tests.servers.web import Answer, Web, running

DATA = np.random.default_rng(5).integers(0, 1000, (40, 60)).astype("u2")
LAYOUTS: dict[str, dict[str, Any]] = {
    "version 2": {"zarr_format": 2, "chunks": (8, 8)},
    "large chunks": {"chunks": (40, 60), "compressors": None},
    "shards": {"chunks": (4, 5), "shards": (20, 30)},
    "plain engine": {"chunks": (8, 8), "dtype": "text"},
}
STEPS = ["open", "read", "row", "write", "list", "none"]
ONCE = {"first_wait": 0.001, "longest_wait": 0.001}


class Counting:
    """Counts requests, and the bytes of values that were sent and received."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked = self.gave = self.got = 0
        self._counting = threading.Lock()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        found: Answer = super().answer(method, path, headers, body)  # type: ignore[misc]
        with self._counting:
            self.asked += 1
            if method == "GET" and found.status in (200, 206) and "list-type" not in path:
                self.gave += len(found.body)
            if method == "PUT":
                self.got += len(body)
        return found


class CountingWeb(Counting, Web):
    pass


class CountingBucket(Counting, SimpleStorage):
    pass


@pytest.fixture(scope="module")
def bucket() -> Iterator[CountingBucket]:
    with running(CountingBucket()) as server:
        yield server  # type: ignore[misc]


@pytest.fixture(scope="module")
def web() -> Iterator[CountingWeb]:
    with running(CountingWeb()) as server:
        yield server  # type: ignore[misc]


def created(place: Any, layout: str, **options: Any) -> oz.Array:
    given = dict(LAYOUTS[layout])
    data = DATA.astype("U") if given.pop("dtype", None) else DATA
    return oz.create_array(place, data=data, overwrite=True, **given, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=5)
@given(
    steps=st.lists(st.sampled_from(["open", "read", "row", "write", "list", "none"]), max_size=5)
)
def test_requests_and_bytes_are_those_of_a_bucket(
    layout: str, steps: list[str], bucket: CountingBucket
) -> None:
    bucket.buckets = {"b": {}}
    options = s3_options(bucket.url)
    created("s3://b/x.zarr", layout, storage_options=options)
    array = oz.open("s3://b/x.zarr", mode="r+", storage_options=options)
    bucket.asked = bucket.gave = bucket.got = 0
    with oz.trace() as t:
        for step in steps:
            if step == "open":
                oz.open("s3://b/x.zarr", storage_options=options)
            elif step == "list":
                assert [*array.store.list_prefix("c/")] or layout == "version 2"
            elif step == "none":
                assert array.store.get("nothing") is None
            elif step == "write":
                array[:] = array[:1]
            else:
                _ = array[3] if step == "row" else array[...]
    assert t.total.requests == bucket.asked
    assert t.total.sent_bytes == bucket.got
    assert t.total.received_bytes >= bucket.gave
    if not {"none", "open"} & {*steps}:  # answers about missing keys have bytes, too
        assert t.total.received_bytes == pytest.approx(bucket.gave, rel=0.05, abs=2000)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_requests_and_bytes_are_those_of_a_web_server(layout: str, web: CountingWeb) -> None:
    web.values = {}
    created(web.values, layout)
    web.asked = web.gave = 0
    with oz.trace() as t:
        array = oz.open(web.url)
        for box in (..., 3, (slice(None), 7)):
            _ = array[box]
    assert t.total.requests == web.asked
    assert t.total.received_bytes >= web.gave
    assert [*t.stores] == [web.url]
    assert [*t.arrays] == [web.url]
    assert 0 < t.total.decode_seconds < t.seconds * 100
    inside = t.arrays[web.url]
    assert 0 < inside.requests < t.stores[web.url].requests  # those for metadata are no array's


def test_redis_and_fsspec_count_requests(tmp_path: Path) -> None:
    with redis_server(tmp_path) as url:
        store = resolve(url)
        with oz.trace() as t:
            store.set("k", b"12345")
            assert store.get("k") == b"12345"
        assert (t.total.requests, t.total.sent_bytes, t.total.received_bytes) == (2, 5, 5)
    files = oz.storage.FsspecStore(fsspec.filesystem("memory"), path="/x.zarr")
    array = oz.create_array(files, data=DATA, chunks=(40, 60), compressors=None)
    with oz.trace() as t:
        _ = array[...]
    assert (t.total.requests, t.total.received_bytes) == (1, DATA.nbytes)


def test_retries_and_their_waits_are_counted_and_logged(
    web: CountingWeb, caplog: pytest.LogCaptureFixture
) -> None:
    web.values = {}
    created(web.values, "version 2")
    array = oz.open(web.url, storage_options=ONCE)
    caplog.set_level(logging.INFO, "omnizarr")
    web.break_down("500", 2)
    with oz.trace() as t:
        assert (array[...] == DATA).all()
    web.break_down(None)
    assert t.total.retries == 2
    assert 0 < t.total.retry_seconds < 0.1
    assert t.stores[web.url].retries == 2
    assert [f"in {web.url} failed and is repeated in" in text for text in caplog.messages] == [
        True
    ] * 2


def test_slow_requests_are_logged_without_secrets(
    web: CountingWeb, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "SLOW", 0.01)
    caplog.set_level(logging.INFO, "omnizarr")
    web.values, web.latency = {"a": b"1"}, 0.05
    resolve(f"{web.url}?signature=secret").get("a")
    web.latency = 0.0
    assert len(caplog.messages) == 1
    assert f"{web.url}/a" in caplog.text
    assert "took 0." in caplog.text
    assert "secret" not in caplog.text


def test_waits_for_locks_of_threads_files_and_leases_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_locks, "SLOW", 0.05)
    caplog.set_level(logging.INFO, "omnizarr")
    local = resolve(tmp_path)
    database: Any = oz.storage.SQLiteStore(tmp_path / "x.sqlite")
    blocks = [
        lambda: locked(CHUNKS, ["k"]),
        lambda: local.lock_keys("", ["k"], "chunks"),
        lambda: leased(database, "", "chunks"),
    ]
    for block in blocks:
        with held(block()) as leave:
            threading.Timer(0.1, leave.set).start()
            with oz.trace() as t, block():
                pass
        assert t.total.lock_waits == 1
        assert 0.05 < t.total.lock_seconds < 5
        with oz.trace() as t, block():
            pass
        assert t.total.lock_waits == 0
    assert [text.startswith("waited 0.") for text in caplog.messages] == [True] * 3


def test_the_chunk_cache_counts_hits_and_misses(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a", data=DATA, chunks=(20, 30), compressors="gzip")
    ones = np.ones((4, 2**19))
    big = oz.create_array(tmp_path / "b", data=ones, chunks=(2, 2**19), compressors="gzip")
    time.sleep(0.2)  # files that were just written may change unnoticed
    with oz.configure(chunk_cache="100MB"), oz.trace() as t:
        _ = big[...], big[...], array[0]
    assert (t.total.cache_misses, t.total.cache_hits) == (2, 2)
    assert t.arrays[f"{big.store!r}"].cache_hits == 2


def test_counts_are_those_of_the_block_and_of_its_threads(tmp_path: Path) -> None:
    a = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 8))
    b = oz.create_array(tmp_path / "b", shape=(4, 4), chunks=2)
    other = threading.Thread(target=lambda: a[...])
    with oz.trace() as t:
        other.start()
        other.join()
        b[...] = 1
        with oz.trace() as inner, oz.configure(threads=1):
            assert b[0, 0] == 1
        assert inner.total.chunks_read == 1
        seen = t.total.chunks_read
        oz.stats(a)
    _ = a[...], b[...]
    assert seen == 1
    assert (t.total.chunks_read, t.total.chunks_written) == (1 + a.nchunks, 4)
    assert {name: (c.chunks_read, c.chunks_written) for name, c in t.arrays.items()} == {
        f"{b.store!r}": (1, 4),
        f"{a.store!r}": (a.nchunks, 0),
    }
    assert t.seconds == t.seconds


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> oz.Array:
    return oz.create_array(tmp_path_factory.mktemp("small") / "a", data=DATA, chunks=(8, 8))


@given(selection=basic_indices(DATA.shape, allow_newaxis=False))
def test_both_engines_count_the_same_chunks_also_of_small_reads(
    small: oz.Array, selection: Any
) -> None:
    _ = small[0, 0]  # what small reads need is known from here on
    with oz.trace() as t:
        values = small[selection]
    with oz.trace() as plain, oz.configure(engine="reference"):
        assert np.array_equal(small[selection], values)
    assert t.total.chunks_read == plain.total.chunks_read == len(chunks_of(selection))
    assert [*t.arrays] == [*plain.arrays] == [repr(small.store)]


def chunks_of(selection: Any) -> set[int]:
    """Return the numbers of the chunks of `DATA` that a selection touches."""
    rows, columns = np.indices(DATA.shape)
    return {*np.ravel((rows // 8 * 8 + columns // 8)[selection]).tolist()}


async def test_tasks_count_for_themselves(tmp_path: Path) -> None:
    a = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 8))
    array = await oz.aio.open(a.store)
    with oz.trace() as t:
        await array.getitem(...)
    assert t.total.chunks_read == a.nchunks


def test_a_trace_is_shown_as_a_table_and_as_json(tmp_path: Path) -> None:
    a = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 8))
    with oz.trace() as t:
        _ = a[...]
    head, total, array = str(t).splitlines()
    assert head.split()[1:] == ["s", "chunks", "read", "decode", "seconds"]
    assert total.split()[:2] == ["total", str(a.nchunks)]
    assert array.startswith(f"array {a.store!r}  ")
    found = json.loads(json.dumps(t.to_json()))
    assert found["total"]["chunks_read"] == a.nchunks
    assert [*found["arrays"]] == [repr(a.store)]
    with oz.trace() as empty:
        pass
    assert empty.total == tracing.Costs()
    assert str(empty).splitlines()[1:] == ["total"]


def test_spans_are_recorded_where_they_are_asked_for(tmp_path: Path) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    processors = pytest.importorskip("opentelemetry.sdk.trace.export")
    api = pytest.importorskip("opentelemetry.trace")
    seen, provider = export.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(processors.SimpleSpanProcessor(seen))
    api.set_tracer_provider(provider)
    a = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 8))
    with oz.trace():
        _ = a[0]
    assert seen.get_finished_spans() == ()
    with oz.trace(spans=True):
        a[...] = a[...]
    read, write, whole = seen.get_finished_spans()
    assert [read.name, write.name, whole.name] == ["omnizarr.read", "omnizarr.write", "omnizarr"]
    assert read.parent.span_id == write.parent.span_id == whole.context.span_id
    assert read.attributes == {"omnizarr.array": repr(a.store), "chunks_read": a.nchunks}
    assert whole.attributes["omnizarr.chunks_written"] == a.nchunks


def test_spans_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with (
        pytest.raises(oz.MissingPackage, match="pip install opentelemetry-api"),
        oz.trace(spans=True),
    ):
        pass


def test_a_block_that_fails_ends_its_trace(tmp_path: Path) -> None:
    a = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 8))
    with pytest.raises(oz.SelectionError), oz.trace() as t:
        _ = a[...], a[99]
    _ = a[...]
    assert t.total.chunks_read == a.nchunks
    assert oz.config.get().trace is None
