"""The chunk cache decodes once, respects its limit, and is never stale."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import omnizarr as oz
from omnizarr import config
from omnizarr.concurrency import key_locks
from omnizarr.engine import chunk_cache as caches
from omnizarr.engine import kernel
from omnizarr.engine.chunk_cache import ENTRY, ChunkCache
from omnizarr.errors import ChunkError
from omnizarr.formats import is_metadata
from omnizarr.stores import Range
from omnizarr.stores.local import store as local
from omnizarr.stores.wrappers import WrapperStore
from tests.engine.test_reference import needs_kernel
from tests.property.strategies import FORMATS, bits, described, select, values
from tests.stores.test_operations import settle

LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (8, 8)},
    "raw": {"chunks": (8, 8), "codecs": ["bytes"]},
    "F": {"chunks": (8, 8), "order": "F"},
    "shards": {"chunks": (4, 4), "shards": (8, 16)},
    "version 2": {"chunks": (8, 8), "zarr_format": 2},
    "draft shards": {"chunks": (4, 4), "shards": (8, 8), "zarr_format": "3-draft"},
}


class Counted(oz.storage.MemoryStore):
    """A store that counts the chunks that are fetched."""

    def __init__(self, values: dict[str, bytes] | None = None) -> None:
        super().__init__(values)
        self.fetched: list[tuple[str, Range | None]] = []
        self.slow = 0.0

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        if not is_metadata(key):
            self.fetched.append((key, range))
        return super().get(key, range)

    def generation(self, key: str) -> str | None:
        return oz.storage.MemoryStore(self.values).generation(key)

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        if not is_metadata(key):
            self.fetched.append((key, range))
        time.sleep(self.slow)
        return oz.storage.MemoryStore(self.values).get_versioned(key, range)


DATA = np.random.default_rng(5).integers(1, 1000, (32, 32)).astype("i4")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChunkCache]:
    monkeypatch.setattr(caches, "WORTH", 0)  # for the small chunks of these tests
    with oz.configure(chunk_cache="1MB"):
        found = caches.current()
        assert found is not None
        yield found


def test_a_read_that_the_cache_cannot_hold_leaves_what_it_has() -> None:
    store = Counted()
    array = oz.create_array(store, data=DATA, chunks=(8, 8))
    with oz.configure(chunk_cache="2kB"):
        _ = array[:8, :8]
        assert np.array_equal(array[...], DATA)
        store.fetched.clear()
        assert np.array_equal(array[:8, :8], DATA[:8, :8])
        assert not store.fetched


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_chunk_is_fetched_once_for_many_reads(kept: ChunkCache, engine: str) -> None:
    store = Counted()
    array = oz.create_array(store, data=DATA, chunks=(8, 8))
    store.fetched.clear()
    with oz.configure(engine=engine):
        for start in range(0, 24, 2):
            assert np.array_equal(array[start : start + 8], DATA[start : start + 8])
        other = oz.open(store)
        store.fetched[:] = [f for f in store.fetched if f[0].startswith("c/")]
        assert np.array_equal(other[...], DATA)
    assert sorted(key for key, _ in store.fetched) == sorted(
        f"c/{i}/{j}" for i in range(4) for j in range(4)
    )


def test_the_index_and_inner_chunks_of_a_shard_are_fetched_once(kept: ChunkCache) -> None:
    store = Counted()
    array = oz.create_array(store, data=DATA, chunks=(4, 4), shards=(16, 16))
    store.fetched.clear()
    assert array[1, 1] == DATA[1, 1]
    assert len(store.fetched) == 2
    assert array[2, 2] == DATA[2, 2]
    assert len(store.fetched) == 2
    assert array[2, 7] == DATA[2, 7]
    assert len(store.fetched) == 3  # another inner chunk, the index is here
    assert np.array_equal(array[:16, :16], DATA[:16, :16])
    store.fetched.clear()
    assert np.array_equal(array[3:13, 2:9], DATA[3:13, 2:9])
    assert store.fetched == []


@needs_kernel
@pytest.mark.parametrize("layout", sorted({*LAYOUTS} - {"draft shards"}))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_kept_chunks_are_copied_by_the_kernel(
    kept: ChunkCache, monkeypatch: pytest.MonkeyPatch, layout: str, data: st.DataObject
) -> None:
    stored = oz.create_array({}, shape=(30, 21), dtype="i4", fill_value=7, **LAYOUTS[layout])
    expected = DATA[:30, :21].copy()
    expected[4:8, 4:8] = 7  # a missing inner chunk of a shard that is there
    stored[...] = expected
    rows, columns = (
        data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=9)) for n in stored.shape
    )
    step = data.draw(st.integers(-4, 4).filter(bool))
    points = rows[: len(columns)], columns[: len(rows)]
    reads: list[tuple[Any, Any, Any]] = [
        (stored, np.s_[rows[0], columns[-1]], None),
        (stored, np.s_[min(rows) : max(rows) + 1, columns[0]], None),
        (stored, np.s_[::step, ::3], None),
        (stored.oindex, (rows, columns), np.ix_(rows, columns)),
        (stored.oindex, (rows, slice(None, None, step)), None),
        (stored.vindex, points, None),
    ]
    assert np.array_equal(stored[...], expected)
    with monkeypatch.context() as patched:
        patched.setattr(caches, "read", lambda *_: pytest.fail("not copied by the kernel"))
        for selector, index, equal in reads:
            assert np.array_equal(selector[index], expected[index if equal is None else equal])


@pytest.mark.parametrize("format", FORMATS)
@settings(suppress_health_check=[*HealthCheck], max_examples=50)
@given(data=st.data())
def test_kept_chunks_of_any_array_are_read_as_stored_ones(
    kept: ChunkCache, format: Any, data: st.DataObject
) -> None:
    case = data.draw(described(format, shards=True))
    array = case.create({})
    if array.size:  # some chunks stay missing
        box = tuple(slice(0, data.draw(st.integers(1, n))) for n in case.shape)
        array[box] = data.draw(values(case.dtype, tuple(s.stop for s in box)))
    how, selection = select(data.draw, case.shape)
    view = (getattr(array.view, how) if how else array.view)[selection]
    with oz.configure(chunk_cache=0):
        expected = view.read()
    array[...]
    for _ in range(2):
        assert bits(view.read()) == bits(expected)


def test_nothing_is_cached_by_default() -> None:
    store = Counted()
    array = oz.create_array(store, data=DATA, chunks=(8, 8))
    store.fetched.clear()
    with oz.configure(engine="reference"):
        array[0, 0], array[0, 0]
    assert len(store.fetched) == 2


@pytest.mark.skipif(not kernel.available(), reason="the kernel was not built")
def test_chunks_that_the_kernel_decodes_quickly_are_not_kept(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, data=DATA, chunks=(8, 8))
    with oz.configure(chunk_cache="1MB"):
        found = caches.current()
        assert np.array_equal(array[...], DATA)
        assert found is not None
        assert found.nbytes == 0


def test_the_cache_is_emptied_at_the_end_of_the_block() -> None:
    gc.collect()  # caches of earlier tests
    array = oz.create_array(None, data=DATA, chunks=(8, 8))
    with oz.configure(chunk_cache="1MB", engine="reference"):
        array[...]
        found = caches.current()
        assert found is not None
        assert found.nbytes == DATA.nbytes + 16 * ENTRY
        before = len(caches._caches)
    del found
    gc.collect()
    assert len(caches._caches) == before - 1


def test_the_least_recently_used_chunk_is_dropped_first() -> None:
    found = ChunkCache(2 * (80 + ENTRY))

    def load(places: list[int]) -> list[Any]:
        loaded.extend(places)
        return [np.zeros(10) for _ in places]

    loaded: list[int] = []
    for name in "abacab":
        found.get([name], load)
    assert len(loaded) == 4  # a, b, c which drives out b, and b again


def test_callers_cannot_change_cached_chunks(kept: ChunkCache) -> None:
    array = oz.create_array(None, data=DATA, chunks=(32, 32))
    array[...][:] = 0
    whole = array[...]
    whole += 1
    assert np.array_equal(array[...], DATA)
    words = oz.create_array(None, shape=(4,), dtype=str, chunks=(4,))
    words[:] = ["a", "b", "c", "d"]
    assert words[...].tolist() == ["a", "b", "c", "d"]
    assert all(v.dtype == np.int32 for v in kept._kept.values())


def test_damage_is_reported_as_without_the_cache(kept: ChunkCache) -> None:
    store: dict[str, bytes] = {}
    array = oz.create_array(
        store, data=DATA, chunks=(4, 4), shards=(16, 16), codecs=["bytes", "crc32c"]
    )
    value = bytearray(store["c/0/1"])
    value[3] ^= 1
    store["c/0/1"] = bytes(value)
    with pytest.raises(ChunkError, match=r"chunk \(0, 1\) of /.*inner chunk \(0, 0\).*crc32c") as e:
        array[:16, 10:20]
    assert (e.value.key, e.value.codec, e.value.chunk) == ("c/0/1", "crc32c", (0, 1))
    assert np.array_equal(array[4:], DATA[4:])
    store["c/0/1"] = bytes(7)
    with pytest.raises(ChunkError, match=r"'c/0/1'.*shorter than its index"):
        array[...]


def test_one_key_read_as_two_types_is_cached_twice(kept: ChunkCache, tmp_path: Path) -> None:
    a = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 8), codecs=["bytes"])
    document = (tmp_path / "a" / "zarr.json").read_text()
    settle()
    assert np.array_equal(a[...], DATA)
    (tmp_path / "a" / "zarr.json").write_text(document.replace('"int32"', '"float32"'))
    assert np.array_equal(oz.open(tmp_path / "a")[...], DATA.view("f4"))
    with pytest.raises(oz.NodeChanged, match="data type"):
        a[...]
    (tmp_path / "a" / "zarr.json").write_text(document)
    assert np.array_equal(a[...], DATA)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a file system with a 50 ms clock that reuses inode numbers."""
    exact = local._generation

    def rounded(status: os.stat_result) -> str:
        tick = 5 * 10**7
        times = {
            name: getattr(status, name) // tick * tick + 1
            for name in ("st_mtime_ns", "st_ctime_ns")
        }
        same = {"st_ino": 1, "st_size": status.st_size, "st_mode": status.st_mode}
        return exact(SimpleNamespace(**times, **same))  # type: ignore[arg-type]

    monkeypatch.setattr(local, "_generation", rounded)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_of_equal_size_that_change_within_one_tick_are_read_again(
    kept: ChunkCache, coarse: None, layout: str, tmp_path: Path
) -> None:
    array = oz.create_array(tmp_path, data=DATA, **LAYOUTS[layout])
    settle()
    for value in range(100):
        array[0, 0] = value
        assert array[0, 0] == value
    settle()
    assert array[0, 0] == 99


def test_a_shard_replaced_by_another_process_is_noticed(kept: ChunkCache, tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, data=DATA, chunks=(4, 4), shards=(16, 16))
    settle()
    assert np.array_equal(array[...], DATA)
    code = "import sys, omnizarr as oz; oz.open(sys.argv[1], 'r+')[0, int(sys.argv[2])] = -1"
    for column in (1, 30):
        subprocess.run([sys.executable, "-c", code, str(tmp_path), str(column)], check=True)
        assert array[0, column] == -1
        settle()
        assert array[0, column] == -1


def test_a_store_changed_during_a_read_gives_current_values(kept: ChunkCache) -> None:
    class Racing(Counted):
        def get_versioned(
            self, key: str, range: Range | None = None
        ) -> tuple[bytes | None, str | None]:
            if key == "c/0/0":
                self.values[key] = np.full((8, 8), 77, "<i4").tobytes()
            return super().get_versioned(key, range)

    store = Racing()
    array = oz.create_array(store, data=DATA, chunks=(8, 8), codecs=["bytes"])
    assert array[0, 0] == 77
    assert array[0, 0] == 77


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_during_a_fetch_does_not_hang(kept: ChunkCache, tmp_path: Path) -> None:
    store = Counted()
    array = oz.create_array(store, data=DATA, chunks=(32, 32))
    store.slow = 0.3
    store.fetched.clear()
    settings_ = config.get()

    def read() -> Any:
        config.inherit(settings_)
        return array[...]

    def child() -> None:
        store.slow = 0.0
        os._exit(0 if np.array_equal(array[...], DATA) else 1)

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(read)
        while not store.fetched:
            time.sleep(1e-3)
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(60)
        assert process.exitcode == 0
        assert np.array_equal(slow.result(), DATA)


def box(length: int) -> st.SearchStrategy[slice]:
    ends = st.integers(0, length)
    return st.builds(lambda a, b, s: slice(min(a, b), max(a, b), s), ends, ends, st.integers(1, 3))


BOXES = st.tuples(box(20), box(12))


class Cached(RuleBasedStateMachine):
    """Two handles, one of them without the cache, compared with an array in memory."""

    @initialize(
        layout=st.sampled_from(sorted(LAYOUTS)),
        limit=st.sampled_from(["10B", "2kB", "6kB", "1MB"]),  # the first is less than one chunk
        files=st.booleans(),
        engine=st.sampled_from(["auto", "reference"]),
    )
    def create(self, layout: str, limit: str, files: bool, engine: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store: Any = (
            oz.storage.LocalStore(self.folder.name) if files else oz.storage.MemoryStore()
        )
        self.truth = np.zeros((20, 12), "i2")
        oz.create_array(self.store, shape=(20, 12), dtype="i2", **LAYOUTS[layout])
        self.handles = [oz.open(self.store, "r+") for _ in range(2)]
        self.setting = oz.configure(chunk_cache=limit, engine=engine)
        self.setting.__enter__()
        self.worth, caches.WORTH = caches.WORTH, 0

    @rule(where=BOXES, handle=st.integers(0, 1), value=st.integers(0, 100))
    def write(self, where: Any, handle: int, value: int) -> None:
        self.truth[where] = value
        self.handles[handle][where] = value

    @rule(where=BOXES, handle=st.integers(0, 1))
    def write_without_the_cache(self, where: Any, handle: int) -> None:
        self.truth[where] += 1
        with oz.configure(chunk_cache=0):
            self.handles[handle][where] = self.truth[where]

    @rule(where=BOXES, handle=st.integers(0, 1))
    def read(self, where: Any, handle: int) -> None:
        assert np.array_equal(self.handles[handle][where], self.truth[where])

    @rule(rows=st.lists(st.integers(0, 19), max_size=5), handle=st.integers(0, 1))
    def read_rows(self, rows: list[int], handle: int) -> None:
        assert np.array_equal(self.handles[handle].oindex[rows, 2:9], self.truth[rows, 2:9])

    @rule()
    def rest(self) -> None:
        settle()

    @rule(handle=st.integers(0, 1))
    def erase(self, handle: int) -> None:
        array = self.handles[handle]
        bound = array._bound
        if bound.model.storage_transformers:
            return
        self.store.erase(array.chunk_key((0, 0)))
        rows, columns = bound.grid.chunk_shape((0, 0))
        self.truth[:rows, :columns] = 0

    @invariant()
    def within_the_limit(self) -> None:
        found = caches.current() if hasattr(self, "setting") else None
        if found is not None:
            kept = found._kept.values()
            assert sum(values.nbytes + ENTRY for values in kept) == found.nbytes <= found.limit
            assert all(values.base is None for values in kept)

    def teardown(self) -> None:
        if hasattr(self, "setting"):
            caches.WORTH = self.worth
            self.setting.__exit__(None, None, None)
            self.folder.cleanup()


TestCached = Cached.TestCase
TestCached.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


class Far(Counted):
    """A store that counts how many requests it serves concurrently, and waits for the least."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()
        self.now = self.most = self.least = 0

    def _serve(self) -> None:
        with self.changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.most >= self.least, 60)
            self.now -= 1

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        return [self.get(key, part) for key, part in requests]

    def generation(self, key: str) -> str | None:
        self._serve()
        return super().generation(key)

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        self._serve()
        return super().get_versioned(key, range)


@pytest.mark.parametrize("layout", ["chunks", "shards"])
def test_chunks_of_a_remote_store_are_fetched_concurrently(kept: ChunkCache, layout: str) -> None:
    store = Far()
    array = oz.create_array(store, data=DATA, **LAYOUTS[layout])
    store.fetched.clear()
    store.least = 3  # requests wait until that many have come at a time
    with oz.configure(threads=1):
        assert np.array_equal(array[1:31, 1:31], DATA[1:31, 1:31])
        assert store.most >= 3
        first = len(store.fetched)
        assert np.array_equal(array[1:31, 1:31], DATA[1:31, 1:31])
        assert len(store.fetched) == first
        array[5, 5] = 0
        assert array[5, 5] == 0
        with oz.configure(in_flight=1):
            assert np.array_equal(array[6:], DATA[6:])


@pytest.mark.parametrize("kind", [Counted, Far])
def test_errors_of_a_store_name_the_chunk(kept: ChunkCache, kind: type[Counted]) -> None:
    class Broken(kind):  # type: ignore[misc,valid-type]  # one of two
        def get_versioned(self, key: str, range: Any = None) -> Any:
            if key == "c/1/2":
                raise oz.StoreError("the network is down")
            return super().get_versioned(key, range)

    array = oz.create_array(Broken(), data=DATA, chunks=(8, 8))
    with pytest.raises(ChunkError, match=r"chunk \(1, 2\) of /.*the network is down"):
        array[...]
    assert np.array_equal(array[:8], DATA[:8])


def open_files() -> Iterator[str]:
    """Return the paths of the files that this process has open."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # another thread closed it
            yield os.readlink(f"/proc/self/fd/{number}")


def test_the_cache_keeps_no_store_alive(tmp_path: Path) -> None:
    """A16: every store ever read was kept, with its values and open files."""
    for i in range(3):
        with oz.storage.ZipStore(tmp_path / f"{i}.zip", mode="w") as archive:
            oz.create_array(archive, data=DATA, chunks=(8, 8))
    stores: list[weakref.ref[Any]] = []
    with oz.configure(chunk_cache="1MB"):
        for i in range(3):
            memory = Counted()
            oz.create_array(memory, data=DATA, chunks=(8, 8))
            for store in (
                memory,
                oz.storage.MemoryStore(memory.values),
                oz.storage.ZipStore(tmp_path / f"{i}.zip"),
            ):
                assert np.array_equal(oz.open(store)[...], DATA)
                stores.append(weakref.ref(store))
            del memory, store
        gc.collect()
        assert [found() for found in stores] == [None] * len(stores)
        assert not [f for f in open_files() if f.startswith(str(tmp_path))]


def test_stores_that_differ_in_more_than_their_location_share_nothing(kept: ChunkCache) -> None:
    """A10: a wrapper may change values and still compare equal to another."""

    class Shifted(WrapperStore):
        shift = 0

        def get(self, key: str, range: Range | None = None) -> bytes | None:
            return self._changed(key, super().get(key, range))

        def _get_versioned(self, key: str, range: Range | None = None) -> Any:
            value, generation = super()._get_versioned(key, range)
            return self._changed(key, value), generation

        def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
            return [self.get(*request) for request in requests]

        def _changed(self, key: str, value: bytes | None) -> bytes | None:
            if value is None or not key.startswith("c/"):
                return value
            return bytes((b + self.shift) % 256 for b in value)

    inner = oz.storage.MemoryStore()
    oz.create_array(inner, data=np.ones(4, "u1"), codecs=["bytes"])
    for shift in (1, 2, 3):
        store = Shifted(inner)
        store.shift = shift
        array = oz.open(store)
        for _ in range(3):  # it is kept from the second time on
            assert array[...].tolist() == [1 + shift] * 4


def test_a_finaliser_goes_without_the_cache_while_its_thread_holds_a_lock() -> None:
    with oz.configure(chunk_cache=10**6):
        with key_locks.locked(key_locks.INTERNAL, ()):
            assert caches.current() is None
        assert caches.current() is not None
