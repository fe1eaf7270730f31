"""A value replaced during a partial read is read again from the new value alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency.retry import CONFLICTS
from omnizarr.errors import StoreError
from omnizarr.stores import LocalStore, MemoryStore, PrefixStore
from omnizarr.stores.base import Range
from omnizarr.stores.byte_ranges import ConsistentReader, ValueReplaced
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.wrappers import CacheStore
from tests.servers.fixtures import Cloud
from tests.servers.web import Answer, Web

OLD = np.arange(64, dtype="i4")
NEW = OLD[::-1].copy() + 1000
SHARDED: dict[str, Any] = {"chunks": (4,), "shards": (64,), "compressors": None}


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
def test_a_shard_of_a_bucket_is_one_value_or_the_other(cloud: Cloud, engine: str) -> None:
    values, other = arrays(SHARDED)
    store = bucket(cloud)
    for key in values.list():
        store.set(key, values.values[key])
    array = oz.open(cloud.url, storage_options=cloud.options)
    after_parts(cloud.server, "c/0", lambda: store.set("c/0", other))
    part = slice(20, 24) if engine == "one chunk" else [3, 21, 40]
    np.testing.assert_array_equal(array.oindex[part], NEW[part])


def test_a_shard_that_is_erased_between_two_requests_is_absent(web: Web) -> None:
    values, _ = arrays({**SHARDED, "fill_value": -1})
    web.values = dict(values.values)
    after_parts(web, "c/0", lambda: web.values.pop("c/0", None) and None)
    assert oz.open(web.url)[20:24].tolist() == [-1] * 4


def test_a_shard_of_the_draft_is_one_value_or_the_other(web: Web) -> None:
    values, other = arrays({"chunks": (4,), "shards": (64,), "zarr_format": "3-draft"})
    key = first(values)
    web.values = dict(values.values)
    after_parts(web, key, lambda: web.values.update({key: other}))
    np.testing.assert_array_equal(oz.open(web.url)[20:24], NEW[20:24])


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


def test_a_replaced_shard_does_not_delay_the_others(web: Web) -> None:
    values, other = arrays({**SHARDED, "shards": (32,)}, OLD, np.r_[NEW[:32], OLD[32:]])
    web.values = dict(values.values)
    after_parts(web, "c/0", lambda: web.values.update({"c/0": other}))
    picked = [3, 21, 40]
    np.testing.assert_array_equal(oz.open(web.url).oindex[picked], [*NEW[[3, 21]], 40])


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
