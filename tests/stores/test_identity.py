"""Stores of one location are recognised as such, and others distinguished (A1, A5, A10)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import pytest
import zarr.storage

from omnizarr import storage, stores
from omnizarr.interop.zarr.zarr_python import from_zarr, to_zarr
from omnizarr.stores import LocalStore, MemoryStore, Store, overlap, storage_identity
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.testing import RecordingStore
from tests.conformance.key_value import KeyValueStore


def same_storage(one: Store, other: Store) -> bool:
    return storage_identity(one)[0] == storage_identity(other)[0]


def ways(directory: Path) -> dict[str, Any]:
    """Return every way that we know to reach one directory."""
    link = directory.parent / "link"
    link.symlink_to(directory)
    relative = os.path.relpath(directory)
    files = fsspec.filesystem("file")
    inside = fsspec.filesystem("dir", path=str(directory.parent), fs=files)
    return {
        "link": LocalStore(link),
        "relative": LocalStore(relative),
        "dots": LocalStore(f"{directory}/../{directory.name}"),
        "url": stores.resolve(directory.as_uri()),
        "nested": stores.NestedDirectoryStore(directory),
        "read-only": storage.ReadOnlyStore(LocalStore(directory)),
        "prefix": storage.PrefixStore(LocalStore(directory.parent), directory.name),
        "recorded": RecordingStore(storage.ReadOnlyStore(LocalStore(link))),
        "cached": storage.CacheStore(LocalStore(directory)),
        "fsspec": FsspecStore(files, path=str(directory)),
        "fsspec dir": FsspecStore(inside, path=directory.name),
        "zarr-python": from_zarr(zarr.storage.LocalStore(directory)),
        "there and back": from_zarr(to_zarr(LocalStore(directory))),
    }


@pytest.mark.parametrize("exists", [True, False])
def test_every_path_to_a_directory_has_the_same_identity(tmp_path: Path, exists: bool) -> None:
    directory = tmp_path / "x"
    if exists:
        directory.mkdir()
    plain = LocalStore(directory)
    for name, other in ways(directory).items():
        assert same_storage(plain, other), name
        assert storage_identity(plain, "a/b/")[0] == storage_identity(other, "a/b/")[0], name
        assert not same_storage(plain, LocalStore(tmp_path / "y")), name


def test_a_directory_that_is_renamed_keeps_its_identity_and_its_old_path_gets_another(
    tmp_path: Path,
) -> None:
    (tmp_path / "x").mkdir()
    before = storage_identity(LocalStore(tmp_path / "x"))
    (tmp_path / "x").rename(tmp_path / "y")
    (tmp_path / "x").mkdir()
    assert storage_identity(LocalStore(tmp_path / "y")) == before
    assert storage_identity(LocalStore(tmp_path / "x")) != before


def test_a_store_overlaps_those_inside_it_but_not_its_siblings(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    outer = storage_identity(LocalStore(tmp_path / "a"))
    for inner in (
        LocalStore(tmp_path / "a" / "not" / "there"),
        storage.PrefixStore(LocalStore(tmp_path), "a/b"),
        storage.ZipStore(tmp_path / "a" / "x.zip"),
        stores.resolve(f"sqlite://{tmp_path}/a/x.db"),
    ):
        assert overlap(outer, storage_identity(inner)), inner
        assert overlap(storage_identity(inner), outer), inner
    for other in (LocalStore(tmp_path / "ab"), storage.ZipStore(tmp_path / "a.zip"), MemoryStore()):
        assert not overlap(outer, storage_identity(other)), other


def test_memory_stores_are_distinguished_by_their_dictionary() -> None:
    values: dict[str, bytes] = {}
    assert same_storage(MemoryStore(values), storage.ReadOnlyStore(MemoryStore(values)))
    assert not same_storage(MemoryStore(), MemoryStore())
    inner = MemoryStore(values)
    assert not same_storage(storage.PrefixStore(inner, "a"), storage.PrefixStore(inner, "b"))
    shared = zarr.storage.MemoryStore(store_dict={})
    assert same_storage(from_zarr(shared), from_zarr(shared))


def test_buckets_are_distinguished_by_endpoint_bucket_and_prefix() -> None:
    def bucket(url: str, endpoint: str) -> Any:
        options = {"anonymous": True, "endpoint": endpoint}
        return stores.resolve(url, storage_options=options)

    one = bucket("s3://b/p", "http://127.0.0.1:1/")
    assert same_storage(one, bucket("s3a://b/p/", "http://127.0.0.1:1"))
    for other in (
        bucket("s3://b/p", "http://127.0.0.1:2"),
        bucket("s3://c/p", "http://127.0.0.1:1"),
        bucket("s3://b/q", "http://127.0.0.1:1"),
        bucket("s3://b/p2", "http://127.0.0.1:1"),
    ):
        assert not overlap(storage_identity(one), storage_identity(other)), other
    assert overlap(
        storage_identity(one), storage_identity(bucket("s3://b/p/deep/er", "http://127.0.0.1:1"))
    )


def test_a_store_without_an_identity_differs_from_all_others() -> None:
    store = KeyValueStore()
    assert same_storage(store, storage.ReadOnlyStore(store))
    assert not same_storage(store, KeyValueStore())
