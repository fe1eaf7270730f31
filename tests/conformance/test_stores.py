"""Kinds of stores that the specifications name: directories, ZIP files, key-value systems."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import storage, stores
from omnizarr.stores import Store
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.conformance.key_value import KeyValueStore
from tests.conformance.printed_examples import run_printed
from tests.conformance.test_v1 import example
from tests.conformance.test_v2_examples import both_examples
from tests.files import files
from tests.servers.fixtures import Cloud
from tests.stores.test_sqlite import redis_url

__all__ = ["redis_url"]

NAMES = [".zarray", ".zattrs", "0.0", "0.1", "1.0", "1.1"]
IN_ZIP = [".zgroup", "foo/.zgroup", *(f"foo/bar/{name}" for name in NAMES)]

ZIP_EXAMPLE = """
>>> import zarr
>>> store = zarr.ZipStore('data/group.zip', mode='w')
>>> root_grp = zarr.group(store)
>>> sub_grp = root_grp.create_group('foo')
>>> a = sub_grp.create_dataset('bar', shape=(20, 20), chunks=(10, 10))
>>> a[:] = 42
>>> a.attrs['comment'] = 'answer to life, the universe and everything'
>>> store.close()
>>> import zipfile
>>> zf = zipfile.ZipFile('data/group.zip', mode='r')
>>> for name in sorted(zf.namelist()):
...     print(name)
.zgroup
foo/.zgroup
foo/bar/.zarray
foo/bar/.zattrs
foo/bar/0.0
foo/bar/0.1
foo/bar/1.0
foo/bar/1.1
"""


@pytest.mark.shows("V2-66", "V2-67", "V2-68")
def test_the_example_of_a_hierarchy_in_a_zip_file_runs_as_printed(in_tmp: Path) -> None:
    for _ in range(2):  # the second time over the first
        assert run_printed(ZIP_EXAMPLE) == ZIP_EXAMPLE.count(">>>")
        with zipfile.ZipFile("data/group.zip") as file:
            assert sorted(file.namelist()) == IN_ZIP
            assert file.testzip() is None
    bar = oz.open("data/group.zip")["foo/bar"]
    np.testing.assert_array_equal(bar[:], np.full((20, 20), 42.0))
    assert dict(bar.attrs) == {"comment": "answer to life, the universe and everything"}


@pytest.mark.shows("GEO-01")
def test_chunks_of_an_array_are_in_its_directory(tmp_path: Path) -> None:
    root = oz.create_group(oz.storage.DirectoryStore(tmp_path))
    root.create_array("a", shape=(20, 20), chunks=(10, 10), dtype="i4")[...] = 1
    found = sorted(p.relative_to(tmp_path / "a").as_posix() for p in (tmp_path / "a").rglob("*"))
    assert found == [".zarray", "0.0", "0.1", "1.0", "1.1"]


@pytest.mark.shows("GEO-03")
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zipped_directory_is_a_store_and_an_unzipped_store_a_directory(
    tmp_path: Path, method: int
) -> None:
    both_examples({}, oz.storage.DirectoryStore(tmp_path / "g"))
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w", method) as file:
        for path in sorted((tmp_path / "g").rglob("*")):  # folders too, as zip tools do
            file.write(path, path.relative_to(tmp_path / "g").as_posix())
    assert oz.open(tmp_path / "zipped.zip")["foo/bar"][0, 0] == 42
    assert sorted(oz.open(tmp_path / "zipped.zip")) == ["foo"]
    store = oz.storage.ZipStore(tmp_path / "ours.zip", mode="w")
    both_examples({}, store)
    store.close()
    with zipfile.ZipFile(tmp_path / "ours.zip") as file:
        file.extractall(tmp_path / "unzipped")
    assert files(tmp_path / "unzipped") == files(tmp_path / "g")
    tool = shutil.which("unzip")
    if tool is not None:
        subprocess.run([tool, "-tq", str(tmp_path / "ours.zip")], check=True)


MAKE: dict[str, Callable[[Path, str], Any]] = {
    "key-value": lambda path, url: KeyValueStore(),
    "directory": lambda path, url: oz.storage.LocalStore(path / "d"),
    "zip": lambda path, url: storage.ZipStore(path / "x.zip", mode="a"),
    "sqlite": lambda path, url: SQLiteStore(path / "x.sqlite"),
    "lmdb": lambda path, url: LMDBStore(path / "x.lmdb"),
    "redis": lambda path, url: RedisStore(url, prefix=str(path)),
}


@pytest.fixture(params=MAKE)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[Any]:
    """Return three stores of one kind."""
    url = request.getfixturevalue("redis_url") if request.param == "redis" else ""
    for name in "abc":
        (tmp_path / name).mkdir()
    return [MAKE[request.param](tmp_path / name, url) for name in "abc"]


def held_in(place: Any) -> dict[str, bytes | None]:
    if isinstance(place, KeyValueStore):
        return {**place.values}
    store = stores.resolve(place)
    return {key: store.get(key) for key in stores.list_prefix(store, "")}


@pytest.mark.shows("GEO-08", "V1-01", "V2-01", "V2-46")
def test_every_kind_of_store_holds_the_same_keys_and_bytes(places: list[Any]) -> None:
    expected: list[dict[str, bytes]] = [{}, {}, {}]
    for array, group, old in (expected, places):
        both_examples(array, group)
        example(old)
    assert sorted(expected[0]) == NAMES
    assert sorted(expected[1]) == IN_ZIP
    assert sorted(expected[2]) == [*NAMES[2:], "attrs", "meta"]
    assert [held_in(place) for place in places] == expected


class Gets:
    """A store that gets whole values, and nothing else."""

    def __init__(self, values: dict[str, bytes] | None = None) -> None:
        self.values: dict[str, bytes] = {} if values is None else values

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)


class Raises(Gets):
    """A store that raises KeyError for a missing key, as a dictionary does."""

    def get(self, key: str) -> bytes:
        return self.values[key]


class Deletes(Gets):
    """A store that gets, sets and deletes."""

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        del self.values[key]


class Indexed(Deletes):
    """The same store, which can be indexed like a mapping."""

    def __getitem__(self, key: str) -> bytes:
        return self.values[key]


class Erases(Deletes):
    """The same store with the draft's method names and a list operation."""

    read_only = False

    def erase(self, key: str) -> None:
        self.values.pop(key, None)

    def list(self) -> Iterator[str]:
        return iter(list(self.values))


@pytest.mark.shows("D3-84", "D3-85", "GEO-09", "V3-82")
@pytest.mark.parametrize("kind", [Gets, Raises, Deletes, Indexed, Erases])
@pytest.mark.parametrize("version", [1, 2, "3-draft", 3])
def test_an_object_with_few_methods_is_a_store(kind: type[Gets], version: Any) -> None:
    """C4: it was refused, or `get` without a range raised a bare TypeError."""
    data = np.arange(24).reshape(4, 6)
    held: dict[str, bytes] = {}
    shards = {"shards": (4, 6)} if version in ("3-draft", 3) else {}
    oz.create_array(held, data=data, chunks=(2, 3), zarr_format=version, **shards)
    own = kind(held)
    opened = oz.open(own)
    np.testing.assert_array_equal(opened[1:3, 2:5], data[1:3, 2:5])
    again = pickle.loads(pickle.dumps(opened))
    np.testing.assert_array_equal(again[...], data)
    if not isinstance(own, Deletes):
        with pytest.raises(oz.ReadOnly):
            oz.open(own, mode="r+", kind="array")[...] = 1
        with pytest.raises(oz.ReadOnly):
            oz.create_array(own, shape=1, dtype="i4", zarr_format=version)
        return
    oz.open(own, mode="r+")[:2] = 0
    assert oz.open(own)[:, 0].tolist() == [0, 0, 12, 18]
    oz.open(own, mode="r+")[...] = 0
    assert not [key for key in held if key[-1:].isdigit()]


@pytest.mark.parametrize("thing", [3, np.arange(3), Gets, object(), MappingProxyType({})])
def test_an_object_that_is_no_store_is_refused(thing: Any) -> None:
    with pytest.raises(oz.StoreError, match="is not a store; give a path, a dict"):
        oz.open(thing)


@pytest.mark.shows("GEO-10")
def test_a_hierarchy_copied_key_by_key_reads_the_same(places: list[Any], tmp_path: Path) -> None:
    source = oz.storage.DirectoryStore(tmp_path / "source")
    root = oz.create_group(source, attributes={"title": "one"})
    data = np.arange(400, dtype="i4").reshape(20, 20)
    root.create_array("a", data=data, chunks=(10, 10)).attrs["unit"] = "m"
    target: Store = stores.resolve(places[0])
    stores.set_many(target, [(key, source.get(key) or b"") for key in source.list()])
    read = oz.open(places[0])
    assert dict(read.attrs) == {"title": "one"}
    assert dict(read["a"].attrs) == {"unit": "m"}
    np.testing.assert_array_equal(read["a"][...], data)


@pytest.mark.shows("GEO-35")
@pytest.mark.parametrize("separator", [".", "/"])
def test_the_metadata_and_not_the_store_determines_the_separator(
    tmp_path: Path, separator: str
) -> None:
    with oz.storage.ZipStore(tmp_path / "x.zip", mode="w") as store:
        made = oz.create_array(
            store,
            shape=(4, 4),
            chunks=(2, 2),
            dtype="i4",
            chunk_key_encoding=separator,
            zarr_format=2,
        )
        made[...] = 5
        assert f"1{separator}1" in list(store.list())
    assert oz.open(tmp_path / "x.zip")[...].tolist() == [[5] * 4] * 4


@pytest.mark.shows("D3-10", "V3-33")
def test_a_key_that_is_too_long_for_object_stores_is_an_error(s3: Cloud) -> None:
    group = oz.create_group(stores.resolve(s3.url, storage_options=s3.options))
    with pytest.raises(oz.InvalidArgument, match="xxx"):
        group.create_array("/".join(["x" * 100] * 11), shape=1, dtype="i4")
    assert list(group) == []
