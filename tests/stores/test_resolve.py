"""Every store can be opened by a string."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr
from omnizarr.errors import StoreError
from omnizarr.storage import LocalStore, MemoryStore, ZipStore
from omnizarr.stores import resolve
from omnizarr.stores.base import redact_url, redact_urls
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.object.store import ObjectStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.servers.web import Web


@pytest.mark.shows("V3-84", "V3-87")
@pytest.mark.parametrize(
    ("where", "options", "kind", "text"),
    [
        ("data/x.zarr", {}, LocalStore, "data/x.zarr"),
        ("/abs/x.zarr", {}, LocalStore, "/abs/x.zarr"),
        ("a:b", {}, LocalStore, "a:b"),
        ("file:///my%20data", {}, LocalStore, "/my data"),
        ("memory://shared", {}, MemoryStore, "memory"),
        ("memory:", {}, MemoryStore, "memory"),
        ("http://host/x.zarr/", {}, HTTPStore, "http://host/x.zarr"),
        ("https://host/x.zarr", {}, HTTPStore, "https://host/x.zarr"),
        ("s3://bucket/a/b/", {"anonymous": True}, ObjectStore, "s3://bucket/a/b"),
        ("S3://bucket", {"anonymous": True}, ObjectStore, "s3://bucket"),
        ("gs://bucket/a", {"anonymous": True}, ObjectStore, "gs://bucket/a"),
        ("gcs://bucket/a", {"anonymous": True}, ObjectStore, "gs://bucket/a"),
        ("az://box/a", {"anonymous": True, "account": "me"}, ObjectStore, "az://box/a"),
        (
            "abfs://box@me.dfs.core.windows.net/a",
            {"anonymous": True},
            ObjectStore,
            "az://box/a",
        ),
        ("simplecache::memory://x", {}, FsspecStore, "simplecache:///x"),
        ("local:///x", {}, FsspecStore, "file:///x"),
        ("x.zip", {}, ZipStore, "{}/x.zip"),
        ("x.OZX", {}, ZipStore, "{}/x.OZX"),
        ("file:///data/x.zip", {}, ZipStore, "/data/x.zip"),
        ("zip://x.zip", {}, ZipStore, "{}/x.zip"),
        ("zip::https://host/download", {}, ZipStore, "download in https://host"),
        ("https://host/x.zip", {}, ZipStore, "x.zip in https://host"),
        ("lmdb://data/x.lmdb", {}, LMDBStore, "lmdb://{}/data/x.lmdb"),
        ("sqlite://data/x.sqlite", {}, SQLiteStore, "sqlite://{}/data/x.sqlite"),
        ("redis://host:6379/0?prefix=zarr", {}, RedisStore, "redis://host:6379/0 (zarr)"),
        ("rediss://host", {}, RedisStore, "rediss://host (zarr)"),
        ("unix:///run/redis.sock", {}, RedisStore, "unix:///run/redis.sock (zarr)"),
    ],
)
def test_a_string_names_a_store(
    where: str, options: dict[str, Any], kind: type[Any], text: str, in_tmp: Path
) -> None:
    store = resolve(where, storage_options=options)
    assert type(store) is kind
    assert repr(store) == text.format(in_tmp)
    assert list(in_tmp.iterdir()) == []  # to name a store creates nothing


def test_a_name_in_memory_is_a_shared_store() -> None:
    data = np.arange(5)
    omnizarr.create_array("memory://of-this-test", data=data)
    np.testing.assert_array_equal(omnizarr.open("memory://of-this-test")[...], data)
    assert resolve("memory://of-this-test") == resolve("memory:of-this-test")
    assert resolve("memory:") != resolve("memory:")
    assert resolve("memory://of-this-test", read_only=True).read_only


def test_an_unknown_scheme_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(StoreError, match="unknown kind of store 'nonsense'") as caught:
        resolve("nonsense://bucket/x")
    for known in ("s3", "gs", "az", "https", "file", "memory", "ftp", "dropbox"):
        assert known in str(caught.value)
    assert "pip install" not in str(caught.value)  # of fsspec, which is there


def test_a_registered_class_that_takes_no_read_only_is_an_error_that_says_so() -> None:
    omnizarr.register("store", "bare-store", lambda url: {}, replace=True)
    with pytest.raises(StoreError, match="gets the URL and read_only="):
        resolve("bare-store://x")


def test_the_store_of_a_registered_scheme_may_be_minimal() -> None:
    values: dict[str, bytes] = {}

    class Minimal:
        def get(self, key: str) -> bytes | None:
            return values.get(key)

        def set(self, key: str, value: Any) -> None:
            values[key] = bytes(value)

        def erase(self, key: str) -> None:
            values.pop(key, None)

    omnizarr.register("store", "minimal-store", lambda url, read_only: Minimal(), replace=True)
    omnizarr.create_array("minimal-store://x", data=np.arange(6), chunks=4)
    assert omnizarr.open("minimal-store://x")[4:].tolist() == [4, 5]
    with pytest.raises(omnizarr.ReadOnly):
        resolve("minimal-store://x", read_only=True).set("a", b"b")
    omnizarr.register("store", "minimal-store", lambda url, read_only: "s3://x/y", replace=True)
    with pytest.raises(StoreError, match="its function gave 's3://x/y'"):
        resolve("minimal-store://x")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://me:pw@host:80/a%20b?sig=s#f", "https://host:80/a%20b?…"),
        ("s3://bucket/x", "s3://bucket/x"),
        ("file:///a/b", "file:///a/b"),
        ("redis://:pw@host:6379/0", "redis://host:6379/0"),
    ],
)
def test_urls_are_shown_without_secrets(url: str, text: str) -> None:
    assert redact_url(url) == text
    assert redact_urls(f"cannot open {url!r}: no") == f"cannot open {text!r}: no"


@pytest.mark.parametrize("query", ["", "?sig=a/b.zip"])
def test_a_zip_file_on_a_web_server_is_opened_by_a_string(web: Web, query: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        held: dict[str, bytes] = {}
        omnizarr.create_array(held, data=np.arange(5))
        for key, value in held.items():
            archive.writestr(key, value)
    web.values["data/a b.zip"] = packed.getvalue()
    array = omnizarr.open(f"{web.url}/data/a%20b.zip{query}")
    np.testing.assert_array_equal(array[...], np.arange(5))
    assert {path for _, path, _ in web.log} == {f"/data/a%20b.zip{query}"}
