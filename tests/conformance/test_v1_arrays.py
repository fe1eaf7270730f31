"""Zarr version 1: array metadata, data types and chunks."""

from __future__ import annotations

import bz2
import gzip
import json
import zlib
from typing import Any

import numcodecs
import numpy as np
import pytest
from numcodecs import blosc

import omnizarr as oz
from tests.conformance.small_stores import v1_store as store_of

PRINTED_META = """\
{
    "chunks": [
        1000,
        1000
    ],
    "compression": "blosc",
    "compression_opts": {
        "clevel": 5,
        "cname": "lz4",
        "shuffle": 1
    },
    "dtype": "<f8",
    "fill_value": null,
    "order": "C",
    "shape": [
        10000,
        10000
    ],
    "zarr_format": 1
}"""
FIELDS = tuple(json.loads(PRINTED_META))


def meta_of(store: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store["meta"])
    return found


# Metadata


@pytest.mark.shows("V1-04")
def test_the_array_is_described_by_an_object_under_meta() -> None:
    z = oz.open(store_of())
    assert z.zarr_format == 1
    assert (z.shape, z.chunks) == ((4,), (2,))


@pytest.mark.shows("V1-04")
@pytest.mark.parametrize("text", [b"[]", b"{", b"", b"null", b"\xff"])
def test_a_meta_that_is_not_an_object_is_refused_by_its_key(text: bytes) -> None:
    store = {"attrs": b"{}", "meta": text}
    with pytest.raises(oz.InvalidMetadata, match="'meta'"):
        oz.open(store)
    assert store == {"attrs": b"{}", "meta": text}


@pytest.mark.shows("V1-05")
@pytest.mark.parametrize("name", FIELDS)
def test_each_of_the_eight_names_is_required(name: str) -> None:
    meta = json.loads(PRINTED_META)
    del meta[name]
    store = {"meta": json.dumps(meta).encode(), "attrs": b"{}"}
    with pytest.raises(oz.InvalidMetadata) as caught:
        oz.open(store)
    assert [(p.key, p.field) for p in caught.value.problems] == [("meta", name)]
    assert f"meta: {name}: required" in str(caught.value)


@pytest.mark.shows("V1-05", "V1-38")
@pytest.mark.parametrize("options", [{}, {"compressors": None}, {"fill_value": None}])
def test_a_written_meta_has_the_eight_names(options: dict[str, Any]) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(4,), dtype="f8", zarr_format=1, **options)
    assert list(meta_of(store)) == sorted(FIELDS)
    assert meta_of(store)["zarr_format"] == 1


@pytest.mark.shows("V1-06")
@pytest.mark.parametrize("version", [2, "1", 1.5, True, None, 1.0])
def test_only_the_integer_1_is_accepted_as_the_version(version: Any) -> None:
    with pytest.raises(oz.InvalidMetadata, match="meta: zarr_format: expected 1"):
        oz.open(store_of(zarr_format=version))


@pytest.mark.shows("V1-07")
@pytest.mark.parametrize(
    ("shape", "chunks", "field"),
    [
        ([20, 20], [10], "chunks"),
        ([20], [10, 10], "chunks"),
        ([-1], [10], "shape[0]"),
        (["20"], [10], "shape[0]"),
        ([20.5], [10], "shape[0]"),
        ([True], [10], "shape[0]"),
        (20, [10], "shape"),
        ([20], [-1], "chunks[0]"),
        ([20], ["10"], "chunks[0]"),
        ([20], [2.5], "chunks[0]"),
        ([20], None, "chunks"),
        ([20], [0], "chunks[0]"),
        ([20, 20], [10, 0], "chunks[1]"),
    ],
)
def test_shape_and_chunks_are_integers_of_one_rank(shape: Any, chunks: Any, field: str) -> None:
    with pytest.raises(oz.InvalidMetadata) as caught:
        oz.open(store_of(shape=shape, chunks=chunks))
    assert field in str(caught.value)


@pytest.mark.shows("V1-08")
def test_the_named_library_decodes_with_its_options() -> None:
    data = np.arange(4, dtype="<i4")
    zlib_store = store_of(compression="zlib", compression_opts=1)
    zlib_store |= {"0": zlib.compress(data[:2].tobytes()), "1": zlib.compress(data[2:].tobytes())}
    assert oz.open(zlib_store)[:].tolist() == [0, 1, 2, 3]
    options = {"cname": "lz4", "clevel": 5, "shuffle": 1}
    blosc_store = store_of(compression="blosc", compression_opts=options)
    for i in range(2):
        part = data[2 * i : 2 * i + 2].tobytes()
        blosc_store[str(i)] = bytes(blosc.compress(part, b"lz4", 5, 1, typesize=4))
    assert oz.open(blosc_store)[:].tolist() == [0, 1, 2, 3]


@pytest.mark.shows("V1-08")
@pytest.mark.parametrize(
    ("name", "options", "compress"),
    [
        ("zlib", {"level": 3}, zlib.compress),
        ("zlib", 3, zlib.compress),
        ("zlib", None, zlib.compress),
        ("bz2", {"level": 3}, bz2.compress),
        ("gzip", 3, gzip.compress),
        ("gzip", {"level": 3}, gzip.compress),
        ("zstd", 3, numcodecs.Zstd(3).encode),
        ("lz4", 1, numcodecs.LZ4(1).encode),
    ],
)
def test_options_are_a_level_or_an_object_for_every_library(
    name: str, options: Any, compress: Any
) -> None:
    """C4: gzip with a level and zlib with an object were refused."""
    data = np.arange(2, dtype="<i4")
    store = store_of(compression=name, compression_opts=options)
    store["0"] = bytes(compress(data.tobytes()))
    assert oz.open(store)[:].tolist() == [0, 1, 0, 0]
    assert oz.validate(store) == []
    array = oz.open(store, mode="r+")
    array.resize(6)
    assert oz.open(store)[:2].tolist() == [0, 1]


@pytest.mark.shows("V1-08")
@pytest.mark.parametrize("options", [3, "fast", {"level": 3}, None])
def test_an_unknown_library_prevents_reading_data_but_not_metadata(options: Any) -> None:
    store = store_of(compression="foo", compression_opts=options)
    store["attrs"] = b'{"a": 1}'
    z = oz.open(store)
    assert (z.shape, z.dtype, dict(z.attrs)) == ((4,), np.dtype("<i4"), {"a": 1})
    assert "foo" in repr(z)
    assert "foo" in str(z.info)
    with pytest.raises(oz.UnknownExtension, match="foo"):
        z[:]


@pytest.mark.parametrize("options", [3, "fast", {"level": 3}, None])
def test_attributes_and_shape_can_change_despite_an_unknown_library(options: Any) -> None:
    store = store_of(compression="foo", compression_opts=options)
    array = oz.open(store, mode="r+")
    array.attrs["a"] = 1
    array.resize(6)
    assert json.loads(store["attrs"]) == {"a": 1}
    meta = json.loads(store["meta"])
    assert (meta["compression"], meta["compression_opts"]) == ("foo", options)
    assert meta["shape"] == [6]
    with pytest.raises(oz.CannotExpress, match="foo"):
        oz.create_array({}, shape=(1,), dtype="u1", zarr_format=1, compressors={"id": "foo"})


@pytest.mark.shows("V1-08")
@pytest.mark.parametrize(
    ("name", "options", "field"),
    [(3, None, "compression"), ("zlib", "1", "compression_opts"), ("blosc", 5, "compression_opts")],
)
def test_a_compression_of_the_wrong_form_is_refused(name: Any, options: Any, field: str) -> None:
    with pytest.raises(oz.InvalidMetadata, match=f"meta: {field}: expected"):
        oz.open(store_of(compression=name, compression_opts=options))


@pytest.mark.shows("V1-09")
def test_unwritten_parts_have_the_fill_value() -> None:
    z = oz.open(store_of(shape=[10], chunks=[4], fill_value=42))
    assert z[:].tolist() == [42] * 10
    assert z.fill_value == 42


@pytest.mark.shows("V1-10")
@pytest.mark.parametrize(
    ("order", "stored"), [("C", [0, 1, 2, 3, 4, 5]), ("F", [0, 3, 1, 4, 2, 5])]
)
@pytest.mark.parametrize("compressor", [None, {"id": "zlib", "level": 1}])
def test_the_order_is_the_layout_of_bytes_in_a_chunk(
    order: str, stored: list[int], compressor: Any
) -> None:
    store: dict[str, bytes] = {}
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    z = oz.create_array(
        store, data=values, chunks=(2, 3), order=order, compressors=compressor, zarr_format=1
    )
    raw = store["0.0"] if compressor is None else zlib.decompress(store["0.0"])
    assert np.frombuffer(raw, "<i4").tolist() == stored
    assert meta_of(store)["order"] == order
    assert z.order == order
    np.testing.assert_array_equal(oz.open(store)[:], values)


@pytest.mark.shows("V1-10")
def test_another_order_is_refused() -> None:
    with pytest.raises(oz.InvalidMetadata, match="meta: order: expected 'C' or 'F'"):
        oz.open(store_of(order="A"))
    with pytest.raises(oz.InvalidArgument, match="order"):
        oz.create_array({}, shape=4, dtype="i4", order="A", zarr_format=1)


@pytest.mark.shows("V1-11")
def test_additional_names_are_kept() -> None:
    store = store_of(note=1)
    z = oz.open(store, mode="r+")
    z[:] = [1, 2, 3, 4]
    z.resize(6)
    assert meta_of(store)["note"] == 1
    assert meta_of(store)["shape"] == [6]
    assert oz.open(store)[:].tolist() == [1, 2, 3, 4, 0, 0]
    assert oz.validate(store) == []


@pytest.mark.shows("V1-12")
def test_additional_names_do_not_change_the_meaning_of_required_ones() -> None:
    store = store_of(
        shape=[2, 2],
        chunks=[1, 2],
        dimension_separator="/",
        filters=[{"id": "delta", "dtype": "<i4"}],
    )
    store |= {"0.0": np.array([5, 6], "<i4").tobytes(), "1/0": np.array([8, 9], "<i4").tobytes()}
    z = oz.open(store)
    assert z[:].tolist() == [[5, 6], [0, 0]]
    assert z.chunk_key((1, 0)) == "1.0"


@pytest.mark.shows("V1-13", "V1-18", "V1-20", "V1-32")
def test_the_printed_metadata_works() -> None:
    store = {"meta": PRINTED_META.encode(), "attrs": b"{}"}
    z = oz.open(store, mode="r+")
    assert (z.shape, z.chunks, z.dtype) == ((10000, 10000), (1000, 1000), np.dtype("<f8"))
    assert (z.cdata_shape, z.nchunks) == ((10, 10), 100)
    assert (z.fill_value, z.order) == (None, "C")
    values = np.arange(1_000_000, dtype="<f8").reshape(1000, 1000)
    z[2000:3000, 4000:5000] = values
    assert sorted(store) == ["2.4", "attrs", "meta"]
    chunk = store["2.4"]
    assert chunk[3] == 8
    assert int.from_bytes(chunk[4:8], "little") == 8_000_000
    assert int.from_bytes(chunk[12:16], "little") == len(chunk)
    unpacked = np.frombuffer(blosc.decompress(chunk), "<f8")
    np.testing.assert_array_equal(unpacked, values.reshape(-1))
    assert z[2000, 4000] == unpacked[0]
    assert z[2999, 4999] == unpacked[-1]
    assert z[1999:2001, 3999:4001].tolist() == [[0, 0], [0, values[0, 0]]]
    assert z[2999:3001, 4999:5001].tolist() == [[values[-1, -1], 0], [0, 0]]
    # What the library writes for such an array is the printed text.
    written: dict[str, bytes] = {}
    options = {"cname": "lz4", "clevel": 5, "shuffle": 1}
    oz.create_array(
        written,
        shape=(10000, 10000),
        chunks=(1000, 1000),
        dtype="<f8",
        fill_value=None,
        compressors={"id": "blosc", **options},
        zarr_format=1,
    )
    assert written["meta"].decode() == PRINTED_META


# Data types


@pytest.mark.shows("V1-14")
@pytest.mark.parametrize(
    ("stated", "raw", "value"),
    [
        ("<f8", bytes.fromhex("000000000000f03f"), 1.0),
        (">i4", bytes.fromhex("fffffffe"), -2),
        ("|b1", b"\x01", True),
        ("|S12", b"hello\0\0\0\0\0\0\0", b"hello"),
    ],
)
def test_simple_types_are_type_strings(stated: str, raw: bytes, value: Any) -> None:
    store = store_of(shape=[1], chunks=[1], dtype=stated)
    store["0"] = raw
    z = oz.open(store)
    assert z.dtype == np.dtype(stated)
    assert z.dtype.itemsize == len(raw)
    assert z[0] == value
    written: dict[str, bytes] = {}
    made = oz.create_array(written, shape=1, dtype=stated, compressors=None, zarr_format=1)
    made[0] = value
    assert meta_of(written)["dtype"] == stated
    assert written["0"] == raw


@pytest.mark.shows("V1-15")
@pytest.mark.parametrize(("asked", "stored"), [("<i4", "<i4"), ("u1", "|u1"), (">f4", ">f4")])
def test_a_written_type_states_its_byte_order(asked: str, stored: str) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=4, dtype=asked, zarr_format=1)
    assert meta_of(store)["dtype"] == stored


@pytest.mark.shows("V1-15")
def test_the_native_byte_order_is_written_explicitly() -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=4, dtype="i4", zarr_format=1)
    assert meta_of(store)["dtype"] == np.dtype("i4").str


@pytest.mark.shows("V1-15")
@pytest.mark.parametrize("stated", ["f8", "=f8", "|f8", [["a", "i4"]]])
def test_a_type_without_byte_order_fails_validation(stated: Any) -> None:
    problems = oz.validate(json.loads(store_of(dtype=stated)["meta"]))
    assert [(p.key, p.field, p.level) for p in problems] == [("meta", "dtype", "error")]
    assert "byte order" in problems[0].message
    with pytest.raises(oz.InvalidMetadata, match="meta: dtype"):
        oz.open(store_of(dtype=stated))


@pytest.mark.shows("V1-16")
def test_structures_are_lists_of_pairs() -> None:
    fields = [["r", "|u1"], ["g", "|u1"], ["b", "|u1"]]
    store = store_of(shape=[2], dtype=fields, fill_value=None)
    store["0"] = bytes([1, 2, 3, 4, 5, 6])
    z = oz.open(store)
    assert z.dtype.itemsize == 3
    assert z.dtype.names == ("r", "g", "b")
    assert [z.dtype.fields[n][1] for n in "rgb"] == [0, 1, 2]
    assert z[:].tolist() == [(1, 2, 3), (4, 5, 6)]
    written: dict[str, bytes] = {}
    oz.create_array(written, data=z[:], chunks=2, compressors=None, zarr_format=1)
    assert meta_of(written)["dtype"] == fields
    assert written["0"] == store["0"]


# Chunks


@pytest.mark.shows("V1-19")
@pytest.mark.parametrize(
    ("shape", "chunks", "at", "key"),
    [
        ((10000, 10000), (1000, 1000), (0, 0), "0.0"),
        ((10000, 10000), (1000, 1000), (2000, 4000), "2.4"),
        ((40,), (10,), (30,), "3"),
        ((11, 1, 8), (1, 1, 1), (10, 0, 7), "10.0.7"),
    ],
)
def test_a_chunk_key_is_its_indices_joined_by_periods(
    shape: tuple[int, ...], chunks: tuple[int, ...], at: tuple[int, ...], key: str
) -> None:
    store: dict[str, bytes] = {}
    z = oz.create_array(store, shape=shape, chunks=chunks, dtype="u1", zarr_format=1)
    z[at] = 7
    assert sorted(store) == [key, "attrs", "meta"]
    assert z[at] == 7


@pytest.mark.shows("V1-22")
@pytest.mark.parametrize("region", [np.s_[0:3, 0:3], np.s_[9999, :], np.s_[2000:2300, 4000:4300]])
def test_without_a_fill_value_absent_chunks_are_zeros(region: Any) -> None:
    z = oz.open({"meta": PRINTED_META.encode(), "attrs": b"{}"})
    noise = np.full(90_000, np.nan)  # so that fresh memory would not be zeros by chance
    del noise
    first, second = z[region], z[region]
    assert first.shape == np.empty(z.shape, "u1")[region].shape
    assert not first.any()
    assert not second.any()


@pytest.mark.shows("V1-23")
def test_edge_chunks_are_whole_and_their_overhang_is_ignored() -> None:
    store: dict[str, bytes] = {}
    z = oz.create_array(
        store, data=np.arange(25, dtype="<i4"), chunks=10, compressors=None, zarr_format=1
    )
    assert len(store["2"]) == 40
    assert np.frombuffer(store["2"], "<i4")[:5].tolist() == [20, 21, 22, 23, 24]
    store["2"] = store["2"][:20] + b"\xff" * 20
    np.testing.assert_array_equal(z[:], np.arange(25))
    assert z[20:].tolist() == [20, 21, 22, 23, 24]
    assert z[-1] == 24


def test_creating_a_nested_structure_is_refused() -> None:
    """C6: it was written, and reading it then gave a warning."""
    with pytest.raises(oz.CannotExpress, match="fields of its own"):
        oz.create_array({}, shape=1, dtype=[("f", [("g", "?")])], zarr_format=1)
