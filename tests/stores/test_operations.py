"""Reads of values that are replaced meanwhile, few requests, and generations of values."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.concurrency.retry import CONFLICTS
from omnizarr.errors import StoreError
from omnizarr.storage import PrefixStore
from omnizarr.stores import LocalStore, MemoryStore, Range, resolve
from omnizarr.stores.byte_ranges import ConsistentReader, Speed, ValueReplaced
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.local import store as local
from omnizarr.stores.wrappers import CacheStore
from tests.sampling import tries
from tests.servers.fixtures import Cloud
from tests.servers.web import Answer, Web

OLD = np.arange(64, dtype="i4")
NEW = OLD[::-1].copy() + 1000
SHARDED: dict[str, Any] = {"chunks": (4,), "shards": (64,), "compressors": None}


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no server be so fast that it sends all of a value instead of parts."""
    monkeypatch.setattr(Speed, "prefers_whole", lambda *_: False)


def after_parts(server: Web, key: str, replace: Callable[[], None], times: int = 1) -> None:
    """Have somebody replace a key right after each of the first requests for a part of it."""
    answer, left = server.answer, [times]

    def answering(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        found = answer(method, path, headers, body)
        mine = unquote(path.partition("?")[0]).endswith(key) and "range" in headers
        if method == "GET" and mine and left[0]:
            left[0] -= 1
            replace()
        return found

    server.answer = answering  # type: ignore[method-assign]


def bucket(cloud: Cloud) -> Any:
    return oz.open(cloud.url, storage_options=cloud.options, mode="a").store


def arrays(options: dict[str, Any], old: Any = OLD, new: Any = NEW) -> tuple[MemoryStore, bytes]:
    """Return an array in memory, and the bytes of its first shard or chunk with other values."""
    store = MemoryStore()
    array = oz.create_array(store, shape=old.shape, dtype=old.dtype, **options)
    array[:] = new
    key = first(store)
    other = store.values[key]
    array[:] = old
    assert store.values[key] != other
    return store, other


def first(store: MemoryStore) -> str:
    return min(key for key, value in store.values.items() if value[:1] != b"{")


@pytest.fixture(params=["s3", "gs"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    found: Cloud = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("engine", ["one chunk", "fetched ahead"])
@pytest.mark.usefixtures("in_parts")
def test_a_shard_of_a_bucket_is_one_value_or_the_other(cloud: Cloud, engine: str) -> None:
    values, other = arrays(SHARDED)
    store = bucket(cloud)
    for key in values.list():
        store.set(key, values.values[key])
    array = oz.open(cloud.url, storage_options=cloud.options)
    after_parts(cloud.server, "c/0", lambda: store.set("c/0", other))
    part = slice(20, 24) if engine == "one chunk" else [3, 21, 40]
    np.testing.assert_array_equal(array.oindex[part], NEW[part])


@pytest.mark.usefixtures("in_parts")
def test_a_shard_that_is_erased_between_two_requests_is_absent(web: Web) -> None:
    values, _ = arrays({**SHARDED, "fill_value": -1})
    web.values = dict(values.values)
    after_parts(web, "c/0", lambda: web.values.pop("c/0", None) and None)
    assert oz.open(web.url)[20:24].tolist() == [-1] * 4


@pytest.mark.shows("DX-26")
def test_a_shard_of_the_draft_is_one_value_or_the_other(web: Web) -> None:
    values, other = arrays({"chunks": (4,), "shards": (64,), "zarr_format": "3-draft"})
    key = first(values)
    web.values = dict(values.values)
    after_parts(web, key, lambda: web.values.update({key: other}))
    np.testing.assert_array_equal(oz.open(web.url)[20:24], NEW[20:24])


@pytest.mark.usefixtures("in_parts")
def test_a_read_that_always_meets_a_new_value_is_an_error(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(CONFLICTS, attempts=3)
    monkeypatch.setattr("omnizarr.concurrency.retry.CONFLICTS", few)
    values, other = arrays(SHARDED)
    web.values = dict(values.values)
    versions = itertools.count()

    def change() -> None:
        web.values["c/0"] = next(versions).to_bytes(4, "little") + other[4:]

    after_parts(web, "c/0", change, times=1000)
    with pytest.raises(StoreError, match=r"was replaced .* times in a row while it was read"):
        oz.open(web.url)[20:24]


@pytest.mark.usefixtures("in_parts")
def test_a_replaced_shard_does_not_delay_the_others(web: Web) -> None:
    values, other = arrays({**SHARDED, "shards": (32,)}, OLD, np.r_[NEW[:32], OLD[32:]])
    web.values = dict(values.values)
    after_parts(web, "c/0", lambda: web.values.update({"c/0": other}))
    picked = [3, 21, 40]
    np.testing.assert_array_equal(oz.open(web.url).oindex[picked], [*NEW[[3, 21]], 40])


def test_small_shards_come_with_their_indexes_which_are_used_again(web: Web) -> None:
    """Parts of shards are requested once their index is known, and are of the same value."""
    values, other = arrays({**SHARDED, "shards": (32,)}, OLD, np.r_[NEW[:32], OLD[32:]])
    web.values = dict(values.values)
    array = oz.open(web.url)

    def read() -> list[str]:
        web.log.clear()
        np.testing.assert_array_equal(array[20:44], expected[20:44])
        return sorted(f"{path} {headers['range']}" for _, path, headers in web.log)

    expected = OLD
    size = 128 + 16 + 4096
    assert read() == [f"/c/0 bytes=-{size}", f"/c/1 bytes=-{size}"]
    assert read() == ["/c/0 bytes=80-127", "/c/1 bytes=0-47"]
    web.values["c/0"], expected = other, np.r_[NEW[:32], OLD[32:]]
    assert f"/c/0 bytes=-{size}" in read()
    assert read() == ["/c/0 bytes=80-127", "/c/1 bytes=0-47"]


class Versions(MemoryStore):
    """A store that tells the generation of every part, and counts the requests."""

    count = 0

    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(values)
        self.speed = Speed()

    def get_many_versioned(
        self, requests: Iterable[tuple[str, Range | None]]
    ) -> list[tuple[bytes | None, str | None]]:
        asked = list(requests)
        self.count += len(asked)
        return [(self.get(*one), "1" if one[0] in self.values else None) for one in asked]


@given(
    value=st.binary(max_size=20),
    size=st.integers(0, 30),
    at_end=st.booleans(),
    index=st.integers(1, 8),
    parts=st.lists(st.tuples(st.integers(-9, 25), st.integers(0, 9) | st.none()), max_size=5),
)
def test_values_that_come_with_their_first_part_have_the_same_parts(
    value: bytes, size: int, at_end: bool, index: int, parts: list[tuple[int, int | None]]
) -> None:
    store = Versions({"k": value})
    size = index + size if size else 0
    first = Range(-index) if at_end else Range(0, index)
    fetch = ConsistentReader(store, size=size)
    assert fetch([("k", first), ("none", first)]) == [first.of(value), None]
    ranges = [Range(*part) for part in parts]
    assert fetch([("k", part) for part in ranges]) == [part.of(value) for part in ranges]
    assert store.count == 2 + (0 if len(value) < size else len(parts))


def test_a_part_after_the_end_is_of_the_same_value(s3: Cloud) -> None:
    store = bucket(s3)
    store.set("k", b"0123456789")
    fetch = ConsistentReader(store)
    assert fetch([("k", Range(0, 3)), ("k", Range(20, 3))]) == [b"012", b""]
    assert fetch([("k", Range(30, 3))]) == [b""]
    store.set("k", b"another")
    with pytest.raises(ValueReplaced, match="k"):
        fetch([("k", Range(0, 3))])


def test_wrappers_return_the_generation_of_a_part(web: Web) -> None:
    web.values = {"a/k": b"0123456789"}
    inner = HTTPStore(web.url)
    for store, key in (
        (PrefixStore(inner, "a"), "k"),
        (CacheStore(inner), "a/k"),
        (CacheStore(CacheStore(inner)), "a/k"),
    ):
        assert hasattr(store, "get_many_versioned")
        for _ in range(2):
            [(data, generation)] = store.get_many_versioned([(key, Range(2, 3))])
            assert (data, generation) == (b"234", inner.generation("a/k"))
    assert not hasattr(PrefixStore(MemoryStore(), "a"), "get_many_versioned")
    assert not hasattr(LocalStore("."), "get_many_versioned")


def test_equal_stores_with_other_headers_remember_indexes_of_their_own(web: Web) -> None:
    stores = [HTTPStore(web.url, headers={"tenant": name}) for name in "ab"]
    assert stores[0] == stores[1]
    assert stores[0].speed.first_parts is not stores[1].speed.first_parts


class Counted(HTTPStore):
    """Counts the times that a caller waits for the server: a batch is one."""

    trips = 0

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        if not self.batch:
            self.trips += 1
        return super().get_versioned(key, range)

    batch = False

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        self.trips += 1
        self.batch = True
        try:
            return super().get_many(requests)
        finally:
            self.batch = False


@pytest.mark.parametrize("zarr_format", [1, 2, "3-draft", 3])
def test_an_array_is_opened_in_few_round_trips(web: Web, zarr_format: int | str) -> None:
    """Documents of version 3 are asked for first, and those of version 1 last."""
    path = "" if zarr_format == 1 else "a"
    oz.create_array(
        oz.storage.MemoryStore(web.values), path=path, data=np.arange(4), zarr_format=zarr_format
    )
    store = Counted(web.url)
    array = oz.open(store, "r", path=path)
    assert store.trips == {3: 1, 2: 2, "3-draft": 2, 1: 3}[zarr_format]
    opened = store.trips
    np.testing.assert_array_equal(array[...], np.arange(4))
    assert store.trips == opened + 1


def test_thousands_of_nodes_are_listed_in_a_bounded_number_of_requests(gs: Cloud) -> None:
    nodes = tries(3000, 10_000)
    held: dict[str, bytes] = {}
    oz.create_array(held, shape=1, dtype="i4")
    document = held["zarr.json"], 1
    group: dict[str, bytes] = {}
    oz.create_group(group)
    objects = {f"n{i:05}/zarr.json": document for i in range(nodes)}
    gs.server.buckets["bucket"] = {"zarr.json": (group["zarr.json"], 1), **objects}  # type: ignore[attr-defined]
    hierarchy = oz.open(resolve(gs.url, read_only=True, storage_options=gs.options), "r")
    gs.server.log.clear()
    assert len(hierarchy) == nodes
    listings = [path for _, path, _ in gs.server.log if "list-type" in path]
    assert len(listings) <= nodes // 1000 + 1
    assert len(gs.server.log) - len(listings) <= nodes


def settle() -> None:
    """Wait until files written so far are old enough to be trusted."""
    time.sleep(1.2 * local.TICK / 1e9)


def test_a_file_changed_in_place_within_one_tick_is_never_trusted(tmp_path: Path) -> None:
    store = oz.storage.LocalStore(tmp_path)
    store.set("a", b"one")
    first = store.generation("a")
    status = os.stat(tmp_path / "a")
    with open(tmp_path / "a", "r+b") as file:
        file.write(b"two")
    os.utime(tmp_path / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.generation("a") != first
    settle()
    assert store.generation("a") != first
    assert store.generation("a") == store.generation("a")


@pytest.mark.parametrize("ahead", [0, 3600])
def test_a_fresh_file_and_one_of_the_future_have_another_generation_each_time(
    ahead: int, tmp_path: Path
) -> None:
    store = oz.storage.LocalStore(tmp_path)
    store.set("a", b"one")
    if ahead:
        settle()
        later = time.time() + ahead
        os.utime(tmp_path / "a", (later, later))
    assert store.generation("a") != store.generation("a")
    assert store.get_versioned("a")[1] != store.get_versioned("a")[1]


def test_times_kept_in_seconds_are_trusted_later(tmp_path: Path) -> None:
    store = oz.storage.LocalStore(tmp_path)
    store.set("a", b"one")
    status = os.stat(tmp_path / "a")

    def kept(age: float) -> Any:
        second = (time.time_ns() - int(age * 1e9)) // 10**9 * 10**9
        names = ("st_mode", "st_ino", "st_size")
        fields = {name: getattr(status, name) for name in names}
        return type("Status", (), {**fields, "st_mtime_ns": second, "st_ctime_ns": second})

    assert local._generation(kept(1)) != local._generation(kept(1))
    old = kept(60)
    assert local._generation(old) == local._generation(old)


def test_a_memory_store_notices_changes_of_its_dictionary() -> None:
    values: dict[str, Any] = {"a": b"one"}
    store, other = oz.storage.MemoryStore(values), oz.storage.MemoryStore(values)
    first = store.generation("a")
    values["a"] = b"two"
    assert other.generation("a") == store.generation("a") != first
    values["a"] = bytearray(b"six")
    second = store.generation("a")
    values["a"][0] = 0
    assert store.generation("a") != second
