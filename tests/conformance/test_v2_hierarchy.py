"""Zarr version 2: paths, groups, attributes, chunks, filters and object codecs."""

from __future__ import annotations

import pickle
import zlib
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.small_stores import strict, v1_store
from tests.conformance.small_stores import v2_store as store_of

ZGROUP = b'{\n    "zarr_format": 2\n}'


def an_array(store: Any, path: str = "", **options: Any) -> oz.Array:
    return oz.create_array(
        store, path=path, zarr_format=2, **{"shape": 4, "chunks": 2, "dtype": "<i4", **options}
    )


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
    store = {key: {**store_of(), ".zgroup": ZGROUP}[key]}
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
    store = {**store_of(), ".zgroup": ZGROUP}
    assert isinstance(oz.open(store), oz.Array)
    assert [(p.key, p.level) for p in oz.validate(store)] == [(".zgroup", "warning")]


class Watched(dict[str, bytes]):
    """A dictionary that records the requested keys."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.append(key)
        return super().get(key, default)


@pytest.mark.shows("V1-22", "V2-36", "V2-08")
@pytest.mark.parametrize("make", [v1_store, store_of])
@pytest.mark.parametrize(
    "dtype",
    ["<f8", "|b1", "<c8", "<M8[s]", "|S3", "<U3", "|V5", [["a", "<i4"], ["b", "|S2", [2]]]],
    ids=str,
)
def test_without_a_fill_value_missing_chunks_are_zero_bytes_or_nat(dtype: Any, make: Any) -> None:
    if make is v1_store and isinstance(dtype, list):
        dtype = dtype[:1]  # version 1 has no arrays as fields
    z = oz.open(make(shape=[3000], chunks=[1000], dtype=dtype, fill_value=None))
    assert z.fill_value is None
    expected = bytes(3000 * z.itemsize)
    if z.dtype.kind == "M" and make is store_of:
        expected = np.full(3000, "NaT", dtype).tobytes()
    noise = np.full(len(expected), 255, "u1")  # so that fresh memory would not be zeros by chance
    del noise
    assert z[:].tobytes() == expected
    assert z[:].tobytes() == expected


# Filters


DELTA = {"id": "delta", "dtype": "<i4"}
SHUFFLE = {"id": "shuffle", "elementsize": 4}
ZLIB = {"id": "zlib", "level": 1}


@pytest.mark.shows("V2-38")
@pytest.mark.parametrize("filters", [[DELTA, SHUFFLE], [SHUFFLE, DELTA], [DELTA, DELTA]])
def test_filters_encode_in_the_listed_order_before_the_compressor(
    filters: list[dict[str, Any]],
) -> None:
    values = np.array([100, 101, 103, 70000, -5, 0, 1, 2], "<i4")
    store: dict[str, bytes] = {}
    z = oz.create_array(
        store, data=values, chunks=8, filters=filters, compressors=ZLIB, zarr_format=2
    )
    assert strict(store)["filters"] == filters
    assert strict(store)["compressor"] == ZLIB
    expected: Any = values
    for config in filters:
        expected = numcodecs.get_codec(dict(config)).encode(expected)
    assert zlib.decompress(store["0"]) == np.asarray(expected).tobytes()
    for array in (z, oz.open(store)):
        np.testing.assert_array_equal(array[:], values)
    # Bytes of another writer, decoded backwards.
    other = store_of(shape=[8], chunks=[8], filters=filters, compressor=ZLIB)
    other["0"] = zlib.compress(np.asarray(expected).tobytes(), 9)
    np.testing.assert_array_equal(oz.open(other)[:], values)


@pytest.mark.shows("V2-71")
def test_the_separator_is_read_and_written_only_if_it_is_a_slash() -> None:
    for stated, key in ((".", "1.0"), ("/", "1/0")):
        store = store_of(shape=[2, 2], chunks=[1, 2], dimension_separator=stated)
        store[key] = np.array([7, 8], "<i4").tobytes()
        assert oz.open(store)[:].tolist() == [[0, 0], [7, 8]]
        made: dict[str, bytes] = {}
        z = oz.create_array(
            made, shape=(2, 2), chunks=(1, 2), dtype="i4", chunk_key_encoding=stated, zarr_format=2
        )
        z[1] = 5
        assert sorted(made) == [".zarray", key]
        assert strict(made).get("dimension_separator") == (None if stated == "." else "/")
        assert oz.validate(made) == []


@pytest.mark.shows("V2-73")
def test_nested_chunks_without_a_stated_separator_are_found_on_request() -> None:
    store = store_of(shape=[2, 2], chunks=[1, 2])
    store |= {"0/0": np.array([5, 6], "<i4").tobytes(), "1/0": np.array([7, 8], "<i4").tobytes()}
    assert oz.open(store)[:].tolist() == [[0, 0], [0, 0]]
    z = oz.open(store, mode="r+", chunk_key_encoding="/")
    assert z[:].tolist() == [[5, 6], [7, 8]]
    # The choice holds for as long as the array is open, and a rewritten document states it.
    z.attrs["a"] = 1
    z[0] = [1, 2]
    assert sorted(store) == [".zarray", ".zattrs", "0/0", "1/0"]
    z.resize(3, 2)
    assert strict(store)["dimension_separator"] == "/"
    assert oz.open(store)[:].tolist() == [[1, 2], [7, 8], [0, 0]]


@pytest.mark.shows("V2-75")
@pytest.mark.parametrize("chunks", [[1, 5], [10, 2], [0, 5]])
def test_an_axis_of_length_0_has_no_chunks(chunks: list[int]) -> None:
    store = Watched(store_of(shape=[0, 5], chunks=chunks))
    z = oz.open(store, mode="r+")
    asked = len(store.asked)
    assert asked > 0
    assert z[:].shape == (0, 5)
    z[:] = np.empty((0, 5), "i4")
    z[...] = 1
    assert {*store.asked[asked:]} <= {".zarray", ".zgroup", ".zattrs"}  # is it still the array?
    assert sorted(store) == [".zarray"]


# Objects


TEXT = ["", "a", "äß€", "𝄞" * 40]
OBJECTS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"id": "vlen-utf8"}, TEXT),
    ({"id": "vlen-bytes"}, [b"", b"\0", b"abc", b"\xff" * 40]),
    ({"id": "json2"}, ["a", 1, {"b": [None, True]}, 2.5]),
    ({"id": "msgpack2"}, ["a", 1, {"b": [None, True]}, b"c"]),
]


@pytest.mark.shows("V2-77")
@pytest.mark.parametrize(("codec", "items"), OBJECTS, ids=[c["id"] for c, _ in OBJECTS])
def test_objects_of_other_writers_are_read(codec: dict[str, Any], items: list[Any]) -> None:
    made = numcodecs.get_codec(dict(codec))
    filters = [made.get_config()]
    values = np.empty(4, object)
    values[:] = items
    store = store_of(chunks=[4], dtype="|O", filters=filters, compressor=ZLIB, fill_value=None)
    store["0"] = zlib.compress(bytes(made.encode(values)))
    assert oz.open(store)[:].tolist() == items


class Ran(Exception):
    """An error raised by code hidden in data."""


class Bomb:
    """An object whose pickle runs code when it is read."""

    def __reduce__(self) -> Any:
        return run, ()


def run() -> None:
    raise Ran


@pytest.mark.shows("V2-77")
def test_pickle_is_refused() -> None:
    store = store_of(
        shape=[2], dtype="|O", filters=[{"id": "pickle", "protocol": 4}], fill_value=None
    )
    bomb = np.empty(2, object)
    bomb[:] = [Bomb(), 1]
    store["0"] = pickle.dumps(bomb, 4)
    z = oz.open(store)
    assert z.shape == (2,)
    with pytest.raises(oz.UnknownExtension, match="pickle"):
        z[:]


@pytest.mark.shows("V2-39")
def test_a_filter_works_without_a_compressor() -> None:
    store = store_of(shape=[3], chunks=[3], filters=[DELTA])
    oz.open(store, mode="r+")[:] = [100, 101, 103]
    assert np.frombuffer(store["0"], "<i4").tolist() == [100, 1, 2]
    assert oz.open(store)[:].tolist() == [100, 101, 103]
    made: dict[str, bytes] = {}
    oz.create_array(made, shape=3, dtype="i4", filters=[DELTA], compressors=None, zarr_format=2)
    assert (strict(made)["filters"], strict(made)["compressor"]) == ([DELTA], None)
