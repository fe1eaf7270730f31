"""Version 3: stores, the operations of a hierarchy, resizing."""

from __future__ import annotations

import json
import ntpath
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import stores
from omnizarr.stores import Range, base
from omnizarr.stores.local import store as local
from tests.conformance.key_value import SmallestStore
from tests.conformance.v3_metadata import array_doc, group_doc, put, stored

Store = dict[str, bytes]


# Stores


@pytest.mark.shows("V3-83")
def test_a_store_can_keep_metadata_in_its_own_form() -> None:
    class Database(SmallestStore):
        """A store that keeps metadata parsed."""

        def get(self, key: str, range: Range | None = None) -> bytes | None:
            value: Any = self.values.get(key)
            data = json.dumps(value).encode() if isinstance(value, dict) else value
            return data if data is None or range is None else range.of(data)

        def set(self, key: str, value: Any) -> None:
            document = key.endswith("zarr.json")
            self.values[key] = json.loads(bytes(value)) if document else bytes(value)

    database = Database()
    array = oz.create_array(database, data=np.arange(5), attributes={"a": [1, None]})
    kept: Any = database.values["zarr.json"]
    assert kept["shape"] == [5]
    assert json.loads(database.get("zarr.json") or b"") == kept
    array.attrs["b"] = "é"
    again = oz.open(database)
    assert again[...].tolist() == [0, 1, 2, 3, 4]
    assert again.attrs.asdict() == {"a": [1, None], "b": "é"}


@pytest.mark.shows("V3-86")
def test_the_uri_of_a_directory_is_that_of_rfc_8089(monkeypatch: pytest.MonkeyPatch) -> None:
    assert oz.storage.LocalStore("/my data").url == "file:///my%20data"
    assert oz.storage.LocalStore("/Ω/100%").url == "file:///%CE%A9/100%25"
    assert oz.storage.LocalStore.from_url("file:///my%20data").root == Path("/my data")
    assert oz.storage.LocalStore.from_url("file:///%CE%A9/100%25").root == Path("/Ω/100%")
    assert oz.storage.LocalStore.from_url("file:///c:/my%20data")._given == "c:/my data"
    system = SimpleNamespace(path=ntpath, sep="\\", fspath=os.fspath, fsencode=os.fsencode)
    monkeypatch.setattr(ntpath, "abspath", ntpath.normpath)
    monkeypatch.setattr(local, "os", system)
    monkeypatch.setattr(base, "os", system)
    windows = oz.storage.LocalStore("c:\\my data")
    assert windows.url == "file:///c:/my%20data"


@pytest.mark.shows("V3-84", "V3-86")
@pytest.mark.parametrize("host", ["data", "example.org", "DATA"])
@pytest.mark.parametrize("ending", ["x.zarr", "x.zip", "a%20b/x.zarr"])
def test_a_file_uri_with_a_host_is_refused_with_a_remedy(
    host: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1: the host of a file URI was dropped."""
    with pytest.raises(oz.StoreError, match=f"names the machine '{host}'") as caught:
        stores.resolve(f"file://{host}/{ending}")
    path = unquote(ending)
    assert f"'file:///{host}/{path}'" in str(caught.value)
    assert f"'{host}/{path}'" in str(caught.value)
    here = stores.resolve("file://localhost/x.zarr")
    assert here == stores.resolve("file:/x.zarr") == oz.storage.LocalStore("/x.zarr")
    monkeypatch.setattr(
        local, "os", SimpleNamespace(path=ntpath, sep="\\", fspath=os.fspath, fsencode=os.fsencode)
    )
    share = oz.storage.LocalStore.from_url(f"file://{host}/share/my%20data")
    assert share.url == f"file://{host}/share/my%20data"


@pytest.mark.shows("V3-84")
@pytest.mark.parametrize("scheme", ["file", "zip", "sqlite", "lmdb"])
@pytest.mark.parametrize("mark", "?#")
def test_a_name_with_a_question_mark_or_number_sign_is_not_truncated(
    scheme: str, mark: str, tmp_path: Path
) -> None:
    with pytest.raises(oz.StoreError, match="%3F or %23"):
        stores.resolve(f"{scheme}://{tmp_path}/x{mark}1")
    oz.create_array(f"{scheme}://{tmp_path}/x{quote(mark)}1", data=np.arange(3), zarr_format=2)
    assert [p.name for p in tmp_path.iterdir() if mark in p.name]


# Operations


@pytest.fixture
def hierarchy() -> Store:
    return {
        **put(group_doc()),
        **put(group_doc(), "foo"),
        **put(array_doc(), "foo/bar", c0=b"1234"),
        **put(group_doc(), "foo/baz"),
        **put(array_doc(shape=[3]), "foo/baz/deep"),
        "foo/__x/y": b"",
        "foo/file": b"",
    }


@pytest.mark.shows("V3-90", "V3-102")
def test_children_are_found_by_listing_and_their_metadata(hierarchy: Store) -> None:
    root = oz.open(hierarchy)
    foo = root["foo"]
    assert list(foo) == ["bar", "baz"]
    assert [*dict(foo.arrays())] == ["bar"]
    assert [*dict(foo.groups())] == ["baz"]
    by_recursion = {name: type(member) for name, member in root.members(max_depth=None)}
    endings = (key.removesuffix("/zarr.json") for key in hierarchy if key.endswith("/zarr.json"))
    by_one_listing = {
        path: oz.Array if stored(hierarchy, path)["node_type"] == "array" else oz.Group
        for path in endings
        if not any(part.startswith("__") for part in path.split("/"))
    }
    assert by_recursion == by_one_listing
    assert sorted(by_recursion) == ["foo", "foo/bar", "foo/baz", "foo/baz/deep"]


@pytest.mark.shows("V3-91", "V3-27")
def test_a_group_that_cannot_be_listed_is_not_taken_for_empty(
    hierarchy: Store,
) -> None:
    blind = oz.open(SmallestStore(hierarchy))
    assert blind["foo/bar"][0] == ord("1")
    for act in (list, len, lambda g: g.members(), lambda g: str(g.tree())):
        with pytest.raises(oz.StoreError, match="cannot list"):
            act(blind)
    oz.consolidate_metadata(hierarchy)
    assert list(oz.open(SmallestStore(hierarchy))) == ["foo"]


# Resizing


@pytest.fixture
def hundred() -> tuple[Store, oz.Array]:
    store: Store = {}
    data = np.arange(1, 101, dtype="u1")
    return store, oz.create_array(store, data=data, chunks=(10,), codecs=["bytes"], fill_value=0)


def chunk_keys(store: Store) -> list[str]:
    return sorted(key for key in store if key != "zarr.json")


@pytest.mark.shows("V3-93")
def test_shrinking_keeps_or_erases_outer_chunks_on_request(hundred: tuple[Store, oz.Array]) -> None:
    store, array = hundred
    with pytest.warns(oz.OmnizarrWarning, match=r"5 chunks outside \(50,\).*kept"):
        array.resize(50)
    assert chunk_keys(store) == [f"c/{i}" for i in range(10)]
    assert stored(store)["shape"] == [50]
    array.resize(40, outside="erase")
    assert chunk_keys(store) == [f"c/{i}" for i in range(4)]
    assert oz.open(store)[...].tolist() == list(range(1, 41))


@pytest.mark.shows("V3-94")
def test_growing_with_erase_shows_the_fill_value_also_inside_partial_chunks(
    hundred: tuple[Store, oz.Array],
) -> None:
    store, array = hundred
    with pytest.warns(oz.OmnizarrWarning, match="kept"):
        array.resize(45)
    again = r"5 chunks and elements of 1 border chunks outside \(45,\) of / show again"
    with pytest.warns(oz.OmnizarrWarning, match=again):
        array.resize(100)
    with pytest.warns(oz.OmnizarrWarning, match="kept"):
        array.resize(45)
    array.resize(100, outside="erase")
    assert array[...].tolist() == [*range(1, 46), *[0] * 55]
    assert chunk_keys(store) == [f"c/{i}" for i in range(5)]
    fresh: Store = {}
    short = oz.create_array(fresh, shape=(5,), chunks=(4,), dtype="u1", fill_value=9)
    short[...] = 1
    short.resize(10)
    assert short[...].tolist() == [1, 1, 1, 1, 1, 9, 9, 9, 9, 9]
