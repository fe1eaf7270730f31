"""Zarr version 2: paths, groups and attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnizarr as oz
from tests.conformance.v2_metadata import ZARRAY

ZGROUP = b'{\n    "zarr_format": 2\n}'


def an_array(store: Any, path: str = "", **options: Any) -> oz.Array:
    return oz.create_array(
        store, path=path, zarr_format=2, **{"shape": 4, "chunks": 2, "dtype": "<i4", **options}
    )


# Storage


# Paths


@pytest.mark.shows("V2-40", "V2-42")
def test_a_node_keeps_its_keys_below_its_path() -> None:
    store: dict[str, bytes] = {}
    z = an_array(store, "foo/bar", shape=(2, 4), chunks=(2, 2), attributes={"a": 1})
    z[:] = 1
    names = (".zarray", ".zattrs", "0.0", "0.1")
    assert sorted(k for k in store if k.startswith("foo/bar/")) == [f"foo/bar/{n}" for n in names]
    assert sorted(set(store)) == [".zgroup", "foo/.zgroup", *(f"foo/bar/{n}" for n in names)]
    assert (z.path, z.name) == ("foo/bar", "/foo/bar")


@pytest.mark.shows("V2-41", "V2-42")
@pytest.mark.parametrize(
    "path", ["foo/bar", "\\foo//bar/", "/foo/bar", "foo/bar///", "//foo\\\\bar\\", "foo\\bar"]
)
def test_paths_are_normalised(path: str) -> None:
    store: dict[str, bytes] = {}
    assert an_array(store, path).path == "foo/bar"
    assert sorted(store) == [".zgroup", "foo/.zgroup", "foo/bar/.zarray"]
    assert oz.open(store, path=path).path == "foo/bar"
    group = oz.open(store)
    assert group[path].path == "foo/bar"
    assert path in group
    with pytest.raises(oz.NodeExists):
        oz.open(store, mode="r+").create_group(path)


@pytest.mark.shows("V2-43")
@pytest.mark.parametrize(
    "path", ["foo/../bar", "./foo", "foo\\..\\bar", "..", ".", "foo/.", "/../"]
)
def test_a_relative_path_segment_is_refused(path: str) -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store, zarr_format=2)
    before = dict(store)
    for make in (
        lambda: an_array(store, path),
        lambda: oz.create_group(store, path=path, zarr_format=2),
        lambda: oz.open(store, path=path),
        lambda: root.create_group(path),
        lambda: root.create_array(path, shape=4, dtype="i4"),
        lambda: root[path],
    ):
        with pytest.raises(oz.InvalidName, match=r"'\.' or '\.\.'"):
            make()
    assert store == before


@pytest.mark.shows("V2-44")
@pytest.mark.parametrize("path", ["", "/", "\\", "///", None])
def test_the_prefix_of_the_root_is_empty(path: str | None) -> None:
    store: dict[str, bytes] = {}
    oz.create_group(store, path=path, zarr_format=2)
    assert sorted(store) == [".zgroup"]
    assert oz.open(store, path=path).path == ""
    array: dict[str, bytes] = {}
    oz.create_array(array, path=path, shape=2, dtype="i4", zarr_format=2)[:] = 1
    assert sorted(array) == [".zarray", "0"]


@pytest.mark.shows("V2-45")
@pytest.mark.parametrize("name", ["größe", "高さ", "a b", "𝄞"])
def test_non_ascii_names_are_read_unchanged(name: str, tmp_path: Path) -> None:
    made: dict[str, bytes] = {}
    an_array(made, "x", fill_value=5)
    store = {k.replace("x/", f"{name}/"): v for k, v in made.items()}
    for key, value in store.items():
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(value)
    for place in (store, tmp_path):
        root = oz.open(place, mode="r+")
        assert list(root) == [name]
        assert root[name][:].tolist() == [5] * 4
        root[name][:] = 1
        root[name].attrs["a"] = 1
        assert oz.validate(place) == []
    assert f"{name}/.zattrs" in store
    assert (tmp_path / name / "0").exists()


# Groups


@pytest.mark.shows("V2-47", "V2-51")
def test_a_group_exists_exactly_if_its_metadata_does(tmp_path: Path) -> None:
    store = {".zgroup": ZGROUP, "foo/bar/.zgroup": ZGROUP}
    for key, value in store.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(value)
    for place in (store, tmp_path):
        assert isinstance(oz.open(place), oz.Group)
        assert isinstance(oz.open(place, path="foo/bar"), oz.Group)
        with pytest.raises(oz.NodeNotFound, match="/foo"):
            oz.open(place, path="foo")
        assert "foo" not in oz.open(place)
        assert "foo/bar" in oz.open(place)
        assert list(oz.open(place)) == []


@pytest.mark.shows("V2-48", "V2-49", "V2-52")
def test_creating_a_node_creates_the_groups_above_it() -> None:
    store: dict[str, bytes] = {}
    an_array(store, "foo/bar/baz")
    groups = {".zgroup": ZGROUP, "foo/.zgroup": ZGROUP, "foo/bar/.zgroup": ZGROUP}
    assert {key: value for key, value in store.items() if ".zgroup" in key} == groups
    made: dict[str, bytes] = {}
    oz.create_group(made, path="foo/bar", zarr_format=2)
    assert made == groups


@pytest.mark.shows("V2-50")
def test_existing_groups_are_not_changed() -> None:
    kept = {
        "foo/.zgroup": b'{"zarr_format":2}',
        "foo/.zattrs": b'{"z": 1,  "a": [1,2]}',
        "foo/other/.zgroup": b' {"zarr_format": 2 }',
    }
    store = dict(kept)
    an_array(store, "foo/bar/baz")
    oz.create_group(store, path="foo/other/x", zarr_format=2)
    assert {k: v for k, v in store.items() if k in kept} == kept
    assert store[".zgroup"] == store["foo/bar/.zgroup"] == ZGROUP
    assert dict(oz.open(store, path="foo").attrs) == {"z": 1, "a": [1, 2]}


@pytest.mark.shows("V2-51")
@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b'{"zarr_format": "2"}', "zarr_format: expected 2"),
        (b'{"zarr_format": 3}', "zarr_format: expected 2"),
        (b'{"zarr_format": 2.0}', "zarr_format: expected 2"),
        (b"[]", "object"),
        (b"{", "JSON"),
    ],
)
def test_invalid_group_metadata_is_refused(text: bytes, word: str) -> None:
    with pytest.raises(oz.InvalidMetadata, match=rf"\.zgroup.*{word}"):
        oz.open({".zgroup": text})


@pytest.mark.shows("V2-53")
def test_members_are_exactly_one_level_below() -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store, zarr_format=2)
    root.create_group("foo/bar")
    an_array(store, "foo/baz", shape=(4, 4), chunks=(2, 2), chunk_key_encoding="/")[:] = 1
    foo = root["foo"]
    assert [(n, type(m)) for n, m in foo.members()] == [("bar", oz.Group), ("baz", oz.Array)]
    assert ([*dict(foo.groups())], [*dict(foo.arrays())]) == (["bar"], ["baz"])
    assert list(root) == ["foo"]
    assert (len(foo), len(root), len(foo["bar"])) == (2, 1, 0)


# Attributes


@pytest.mark.shows("V2-55", "V2-70")
@pytest.mark.parametrize("key", [".zarray", ".zgroup"])
@pytest.mark.parametrize("attrs", [None, b"{}"])
def test_missing_attributes_are_empty_and_are_not_created(key: str, attrs: bytes | None) -> None:
    store = {key: {".zarray": ZARRAY.encode(), ".zgroup": ZGROUP}[key]}
    if attrs is not None:
        store[".zattrs"] = attrs
    before = dict(store)
    node = oz.open(store, mode="r+")
    assert dict(node.attrs) == {}
    assert oz.validate(store) == []
    assert store == before


@pytest.mark.shows("V2-70")
def test_no_empty_attributes_are_written() -> None:
    store: dict[str, bytes] = {}
    an_array(store, "a", attributes={})
    group = oz.create_group(store, path="g", zarr_format=2)
    assert sorted(store) == [".zgroup", "a/.zarray", "g/.zgroup"]
    group.attrs["a"] = 1
    assert "g/.zattrs" in store
    del group.attrs["a"]
    assert dict(oz.open(store, path="g").attrs) == {}
    assert "g/.zattrs" not in store


# Arrays and groups in one place


@pytest.mark.shows("V2-57")
def test_an_array_takes_precedence_over_a_group_at_its_path_and_is_reported() -> None:
    store = {".zarray": ZARRAY.encode(), ".zgroup": ZGROUP}
    assert isinstance(oz.open(store), oz.Array)
    assert [(p.key, p.level) for p in oz.validate(store)] == [(".zgroup", "warning")]
