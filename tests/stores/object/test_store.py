"""Object stores: S3, Google Cloud Storage and Azure."""

from __future__ import annotations

import gc
import os
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import urllib3

import omnizarr
from omnizarr import stores
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.stores import resolve
from omnizarr.stores.object.store import ObjectStore
from omnizarr.testing import run_in_fork
from tests.servers.fixtures import Cloud
from tests.servers.web import Answer

QUICK = {"attempts": 3, "first_wait": 0.01, "timeout": 5.0, "deadline": 20.0}


def open_store(cloud: Cloud, path: str = "data", **options: Any) -> ObjectStore:
    store = resolve(f"{cloud.url}/{path}", storage_options={**cloud.options, **QUICK, **options})
    assert isinstance(store, ObjectStore)
    return store


# Names


def test_names_that_the_server_refuses_or_changes_are_refused(cloud: Cloud) -> None:
    """L4, L10: Azure takes a backslash for a slash, and no client sends control characters."""
    store = open_store(cloud)
    group = omnizarr.create_group(store)
    refused = ["a\tb", "a\x7fb", "x" * 1000] + (["a\\b", "a."] if cloud.url[:2] == "az" else [])
    for name in refused:
        with pytest.raises(omnizarr.InvalidName):
            group[name] = np.arange(3)
    group["a/b"] = np.arange(3)
    assert sorted(group) == ["a"]
    if cloud.url[:2] == "az":
        with pytest.raises(omnizarr.InvalidName, match="backslash"):
            store.get("a\\b/zarr.json")


# Values


@pytest.mark.parametrize("path", ["", "one", "one/two"])
def test_the_prefix_of_the_url_is_not_part_of_the_keys(cloud: Cloud, path: str) -> None:
    store = open_store(cloud, path)
    store.set("a/zarr.json", b"{}")
    whole = open_store(cloud, "")
    assert list(whole.list()) == ["/".join(filter(None, (path, "a/zarr.json")))]
    assert list(store.list()) == ["a/zarr.json"]
    assert store.list_dir("") == ([], ["a/"])
    assert repr(store) == f"{cloud.url}/{path}".rstrip("/")


# Many at once


def test_a_prefix_is_erased_in_bulk(s3: Cloud) -> None:
    store = open_store(s3)
    store.set_many((f"a/{i}", b"x") for i in range(50))
    s3.server.log.clear()
    store.erase_prefix("a/")
    assert len(s3.server.log) <= 3
    assert list(store.list()) == []


# Generations


def test_a_conditional_write_whose_answer_was_lost_counts_as_written(cloud: Cloud) -> None:
    store = open_store(cloud)
    plain = cloud.server.answer
    seen: list[str] = []

    def answer(method: str, *args: Any) -> Any:
        given = plain(method, *args)
        seen.append(method)
        if seen == ["PUT"]:
            given.status, given.body = 503, b""
        return given

    cloud.server.answer = answer  # type: ignore[method-assign]
    assert store.set_if("k", b"one", None)
    assert seen == ["PUT", "PUT", "GET"]
    assert store.get("k") == b"one"


@pytest.mark.parametrize("old", [None, b"zero"])
def test_a_conditional_write_of_another_with_the_same_bytes_does_not_count(
    cloud: Cloud, old: bytes | None
) -> None:
    """Only one of two concurrent counters succeeds, even after a failed attempt."""
    store, other = open_store(cloud), open_store(cloud)
    if old is not None:
        store.set("k", old)
    generation, plain = store.generation("k"), cloud.server.answer
    failed: list[bool] = []

    def answer(method: str, *args: Any) -> Any:
        if method != "PUT" or failed:
            return plain(method, *args)
        failed.append(True)
        assert other.set_if("k", b"one", generation)
        return Answer(503)

    cloud.server.answer = answer  # type: ignore[method-assign]
    assert not store.set_if("k", b"one", generation)
    assert failed
    assert store.get("k") == b"one"


# Who may


def test_without_credentials_access_is_anonymous(
    s3: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget_credentials(monkeypatch, tmp_path)
    bucket = s3.url.removeprefix("s3://")
    made = urllib3.request(
        "PUT", f"{s3.server.url}/{bucket}/data/k", body=b"x", headers={"x-amz-acl": "public-read"}
    )
    assert made.status == 200
    s3.server.log.clear()
    options = {k: v for k, v in s3.options.items() if "key" not in k}
    store = resolve(f"{s3.url}/data", storage_options=options)
    assert store.get("k") == b"x"
    assert "authorization" not in s3.server.log[0][2]


def test_the_error_says_that_neither_anonymous_access_nor_credentials_did(
    s3: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    s3.server.break_down("403")
    options = {"endpoint": s3.options["endpoint"], "region": "us-east-1", **QUICK}
    store = resolve(f"{s3.url}/data", storage_options=options)
    with pytest.raises(StoreError, match=r"'a/k'.*anonymous.*denied.*no credentials"):
        store.get("a/k")
    asked = resolve(f"{s3.url}/data", storage_options={**options, "anonymous": True})
    with pytest.raises(StoreError, match=r"'a/k'.*denied \(anonymously\)"):
        asked.get("a/k")


def forget_credentials(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))


def test_forbidden_is_an_error_unless_configured_as_missing(cloud: Cloud) -> None:
    cloud.server.break_down("403")
    with pytest.raises(StoreError, match=r"'a/k'.*denied"):
        open_store(cloud).get("a/k")
    assert open_store(cloud, absent_status={403}).get("a/k") is None


def test_a_missing_bucket_is_an_error_and_not_a_missing_key(cloud: Cloud) -> None:
    options = {**cloud.options, **QUICK}
    store = resolve(f"{cloud.url}-not-there/data", storage_options=options)
    for call in (
        lambda: store.get("k"),
        lambda: store.set("k", b"x"),
        lambda: list(stores.list_prefix(store, "")),
    ):
        with pytest.raises(StoreError, match="not-there"):
            call()


def test_secrets_are_in_no_repr_and_no_error(cloud: Cloud) -> None:
    secrets = [v for k, v in cloud.options.items() if "secret" in k or "key" in k or "token" in k]
    store = open_store(cloud)
    cloud.server.break_down("500")
    with pytest.raises(StoreError) as caught:
        store.get("k")
    for secret in secrets:
        assert secret not in repr(store) + str(store) + str(caught.value) + repr(store.bucket)


def test_invalid_options_are_reported_at_once(gs: Cloud) -> None:
    with pytest.raises(InvalidArgument, match="nonsense"):
        resolve(gs.url, storage_options={**gs.options, "nonsense": 1})
    with pytest.raises(StoreError, match="Account"):
        resolve("az://container/x")
    with pytest.raises(StoreError, match="storage_options") as caught:
        resolve("s3://key:password@bucket/x")
    assert "password" not in str(caught.value)
    assert gs.server.log == []


# Whole arrays


@pytest.mark.shows("GEO-04")
def test_keys_are_objects_below_the_prefix(cloud: Cloud) -> None:
    omnizarr.create_array(
        open_store(cloud, "p"), path="a", data=np.ones((20, 20)), chunks=(10, 10), zarr_format=2
    )
    objects = set(open_store(cloud, "").list())
    assert {"p/a/.zarray", "p/a/0.0", "p/a/1.1"} <= objects


# What it is


def test_a_store_of_obstore_can_be_given(s3: Cloud) -> None:
    from obstore.store import MemoryStore, S3Store

    open_store(s3, "data/deep").set("k", b"x")
    inner = S3Store(
        s3.url.removeprefix("s3://"),
        prefix="data",
        config=s3.options,
        client_options={"allow_http": True},
    )
    store = ObjectStore(inner, "deep")
    assert store.get("k") == b"x"
    assert repr(store) == f"{s3.url}/data/deep"
    with pytest.raises(StoreError, match="not a bucket of obstore"):
        ObjectStore({})
    with pytest.raises(StoreError, match="MemoryStore is not a bucket of obstore"):
        ObjectStore(MemoryStore())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_store_works_in_forked_processes_and_their_children(cloud: Cloud) -> None:
    store = open_store(cloud)
    store.set("k", b"x")

    def grandchild() -> None:
        assert store.get_many([("k", None), ("no", None)]) == [b"x", None]

    def child() -> None:
        assert store.get("k") == b"x"
        run_in_fork(grandchild)

    for _ in range(2):
        run_in_fork(child)
        assert store.get("k") == b"x"


def bucket(number: int, **options: Any) -> Any:
    given = {"endpoint": "http://127.0.0.1:1", "anonymous": True, **options}
    return resolve(f"s3://bucket-{number}/x", storage_options=given)


def test_clients_are_shared_while_they_are_used_and_released_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A16: clients were never released; A2: they were found by a text of their options."""
    from omnizarr.stores.object import obstore

    first = bucket(0)
    assert bucket(0).bucket.client is first.bucket.client
    others = [bucket(0, timeout=7), bucket(0, region="eu"), bucket(1)]
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another login")
    others.append(bucket(0))
    found = [first.bucket.client, *(store.bucket.client for store in others)]
    assert len({*map(id, found)}) == len(found)
    again = pickle.loads(pickle.dumps(others[0]))
    assert again.bucket.client is others[0].bucket.client or again.bucket == others[0].bucket
    held = [weakref.ref(store.bucket.__dict__["_held"]) for store in (first, *others)]
    del found, others, again
    kept = [bucket(number) for number in range(2, 2 + obstore.KEPT)]
    gc.collect()
    assert [client() is not None for client in held] == [True, False, False, False, False]
    assert first.bucket.client is held[0]().store  # type: ignore[union-attr]
    assert len(kept) == obstore.KEPT
