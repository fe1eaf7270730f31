"""Zarr version 2: chunks, their keys, filters and object codecs."""

from __future__ import annotations

import json
import pickle
import zlib
from typing import Any

import numcodecs
import numpy as np
import pytest
from numcodecs import blosc

import omnizarr as oz
from omnizarr import registry
from tests.conformance.small_stores import v2_store as store_of


def document(store: dict[str, bytes], key: str = ".zarray") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store[key])
    return found


class Watched(dict[str, bytes]):
    """A dictionary that records the requested keys."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.append(key)
        return super().get(key, default)


# Bytes


@pytest.mark.shows("V2-07")
def test_without_filters_and_compressor_a_chunk_is_its_raw_items() -> None:
    store: dict[str, bytes] = {}
    values = np.arange(100, dtype="<i4").reshape(10, 10)
    oz.create_array(store, data=values, chunks=(10, 10), compressors=None, zarr_format=2)
    assert (document(store)["compressor"], document(store)["filters"]) == (None, None)
    assert len(store["0.0"]) == 400
    assert store["0.0"] == values.tobytes()


@pytest.mark.shows("V2-09")
@pytest.mark.parametrize(
    ("order", "stored"), [("C", [0, 1, 2, 3, 4, 5]), ("F", [0, 3, 1, 4, 2, 5])]
)
@pytest.mark.parametrize("compressor", [None, {"id": "zlib", "level": 1}])
def test_the_order_is_the_layout_of_bytes_in_a_chunk(
    order: str, stored: list[int], compressor: Any
) -> None:
    store: dict[str, bytes] = {}
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    oz.create_array(
        store, data=values, chunks=(2, 3), order=order, compressors=compressor, zarr_format=2
    )
    raw = store["0.0"] if compressor is None else zlib.decompress(store["0.0"])
    assert np.frombuffer(raw, "<i4").tolist() == stored
    assert document(store)["order"] == order
    np.testing.assert_array_equal(oz.open(store)[:], values)


@pytest.mark.shows("V2-34")
def test_a_chunk_is_the_output_of_the_compressor() -> None:
    values = np.ones((10, 10), "<i4")
    store: dict[str, bytes] = {}
    oz.create_array(
        store, data=values, chunks=(10, 10), compressors=oz.codecs.Zlib(1), zarr_format=2
    )
    unpacker = zlib.decompressobj()
    assert unpacker.decompress(store["0.0"]) == values.tobytes()
    assert unpacker.unused_data == b""


@pytest.mark.shows("V2-34")
@pytest.mark.parametrize("dtype", ["<f8", "<i4", "|u1", ">i2"])
def test_a_blosc_chunk_starts_with_its_own_header(dtype: str) -> None:
    values = np.arange(5000).astype(dtype)
    store: dict[str, bytes] = {}
    options = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    oz.create_array(store, data=values, chunks=5000, compressors=options, zarr_format=2)
    chunk = store["0"]
    assert chunk[3] == values.dtype.itemsize
    assert int.from_bytes(chunk[4:8], "little") == values.nbytes
    assert int.from_bytes(chunk[12:16], "little") == len(chunk)
    assert bytes(blosc.decompress(chunk)) == values.tobytes()


# Keys


@pytest.mark.shows("V2-35")
@pytest.mark.parametrize(
    ("shape", "chunks", "at", "key"),
    [
        ((10000, 10000), (1000, 1000), (0, 0), "0.0"),
        ((10000, 10000), (1000, 1000), (2999, 4999), "2.4"),
        ((40,), (10,), (30,), "3"),
        ((11, 1, 8), (1, 1, 1), (10, 0, 7), "10.0.7"),
    ],
)
def test_a_chunk_key_is_its_indices_joined_by_periods(
    shape: tuple[int, ...], chunks: tuple[int, ...], at: tuple[int, ...], key: str
) -> None:
    store: dict[str, bytes] = {}
    z = oz.create_array(store, shape=shape, chunks=chunks, dtype="u1", fill_value=3, zarr_format=2)
    assert z[at] == 3
    z[at] = 7
    assert sorted(store) == [".zarray", key]
    assert z[at] == 7
    del store[key]
    assert z[at] == 3


@pytest.mark.shows("V2-36", "V2-08")
@pytest.mark.parametrize(
    "dtype",
    ["<f8", "|b1", "<c8", "<M8[s]", "|S3", "<U3", "|V5", [["a", "<i4"], ["b", "|S2", [2]]]],
    ids=str,
)
def test_without_a_fill_value_missing_chunks_are_zero_bytes_or_nat(
    dtype: Any,
) -> None:
    z = oz.open(store_of(shape=[3000], chunks=[1000], dtype=dtype, fill_value=None))
    assert z.fill_value is None
    expected = bytes(3000 * z.itemsize)
    if z.dtype.kind == "M":
        expected = np.full(3000, "NaT", dtype).tobytes()
    noise = np.full(len(expected), 255, "u1")  # so that fresh memory would not be zeros by chance
    del noise
    assert z[:].tobytes() == expected
    assert z[:].tobytes() == expected


@pytest.mark.shows("V2-37")
def test_edge_chunks_are_complete_and_their_overhang_is_ignored() -> None:
    store: dict[str, bytes] = {}
    z = oz.create_array(
        store, data=np.arange(25, dtype="<i4"), chunks=10, compressors=None, zarr_format=2
    )
    assert len(store["2"]) == 40
    store["2"] = store["2"][:20] + b"\xff" * 20
    for region in (np.s_[:], np.s_[20:], np.s_[-1], np.s_[15:100], np.s_[::7]):
        np.testing.assert_array_equal(z[region], np.arange(25)[region])


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
    assert document(store)["filters"] == filters
    assert document(store)["compressor"] == ZLIB
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


# Separators


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
        assert document(made).get("dimension_separator") == (None if stated == "." else "/")
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
    assert document(store)["dimension_separator"] == "/"
    assert oz.open(store)[:].tolist() == [[1, 2], [7, 8], [0, 0]]


# Few or no elements


@pytest.mark.shows("V2-74")
def test_the_one_chunk_of_an_array_without_axes_is_0() -> None:
    store = store_of(shape=[], chunks=[], fill_value=3)
    z = oz.open(store, mode="r+")
    assert z[()] == 3
    z[()] = 7
    assert store["0"] == b"\x07\0\0\0"
    assert oz.open(store)[()] == 7
    made: dict[str, bytes] = {}
    oz.create_array(made, data=np.array(7, "<i4"), compressors=None, zarr_format=2)
    assert sorted(made) == [".zarray", "0"]
    assert (document(made)["shape"], document(made)["chunks"]) == ([], [])
    assert made["0"] == b"\x07\0\0\0"


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


@pytest.mark.shows("V2-75")
@pytest.mark.parametrize("chunks", ["auto", None, False, (0, 5), (3, 5)])
def test_the_chunks_of_an_empty_axis_are_written_with_length_1_or_more(chunks: Any) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(0, 5), dtype="i4", chunks=chunks, zarr_format=2)
    assert min(document(store)["chunks"]) >= 1
    assert oz.open(store)[:].tolist() == []


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


@pytest.mark.shows("V2-77")
def test_objects_are_not_written_unless_a_codec_is_given() -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(oz.InvalidArgument, match="dtype object needs a codec"):
        oz.create_array(store, shape=4, dtype=object, zarr_format=2)
    assert store == {}
    z = oz.create_array(store, shape=2, dtype=object, filters=[numcodecs.JSON()], zarr_format=2)
    z[:] = np.array([{"a": 1}, "b"], object)
    assert document(store)["dtype"] == "|O"
    assert [f["id"] for f in document(store)["filters"]] == ["json2"]
    assert oz.open(store)[:].tolist() == [{"a": 1}, "b"]


class Ran(Exception):
    """An error raised by code hidden in data."""


class Bomb:
    """An object whose pickle runs code when it is read."""

    def __reduce__(self) -> Any:
        return run, ()


def run() -> None:
    raise Ran


class Pickled:
    """A codec that a user who trusts the data may register."""

    kind = "array->bytes"
    name = "numcodecs.pickle"

    @classmethod
    def bind(cls, named: Any) -> Pickled:
        return cls()

    def encoded_size(self, spec: Any) -> None:
        return None

    def decode(self, data: bytes, spec: Any) -> Any:
        return pickle.loads(bytes(data)).reshape(spec.shape)


@pytest.mark.shows("V2-77")
def test_pickle_is_refused_until_it_is_explicitly_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    store["0"] = pickle.dumps(np.array(["a", {"b": 1}], object), 4)
    monkeypatch.setattr(registry, "_table", dict(registry._table))
    oz.register("codec", "numcodecs.pickle", Pickled)
    assert oz.open(store)[:].tolist() == ["a", {"b": 1}]


@pytest.mark.shows("V2-39")
def test_a_filter_works_without_a_compressor() -> None:
    store = store_of(shape=[3], chunks=[3], filters=[DELTA])
    oz.open(store, mode="r+")[:] = [100, 101, 103]
    assert np.frombuffer(store["0"], "<i4").tolist() == [100, 1, 2]
    assert oz.open(store)[:].tolist() == [100, 101, 103]
    made: dict[str, bytes] = {}
    oz.create_array(
        made,
        data=np.array([100, 101, 103], "<i4"),
        chunks=3,
        filters=[DELTA],
        compressors=None,
        zarr_format=2,
    )
    assert (document(made)["filters"], document(made)["compressor"]) == ([DELTA], None)
    assert made["0"] == store["0"]
