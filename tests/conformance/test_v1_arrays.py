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
@pytest.mark.parametrize("text", [b"[]", b"{", b"", b"null", b"\xff"])
def test_a_meta_that_is_not_an_object_is_refused_by_its_key(text: bytes) -> None:
    store = {"attrs": b"{}", "meta": text}
    with pytest.raises(oz.InvalidMetadata, match="'meta'"):
        oz.open(store)
    assert store == {"attrs": b"{}", "meta": text}


BAD_LENGTHS: list[Any] = [[-1], ["20"], [20.5], [True], 20]
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"zarr_format": value}, "zarr_format") for value in (2, "1", 1.5, True, None, 1.0)),
    *(({"shape": value}, "shape") for value in BAD_LENGTHS),
    *(({"chunks": value}, "chunks") for value in (*BAD_LENGTHS, [2, 2], None, [0])),
    *(({"dtype": value}, "dtype") for value in ("f8", "=f8", "|f8", [["a", "i4"]])),
    ({"compression": 3}, "compression"),
    ({"compression": "zlib", "compression_opts": "1"}, "compression_opts"),
    ({"compression": "blosc", "compression_opts": 5}, "compression_opts"),
    ({"order": "A"}, "order"),
    *(({name: ...}, name) for name in FIELDS),
]


@pytest.mark.shows("V1-05", "V1-06", "V1-07", "V1-08", "V1-10", "V1-15")
@pytest.mark.parametrize(("changes", "field"), REFUSED)
def test_invalid_metadata_is_refused_with_the_name_of_the_field(
    changes: dict[str, Any], field: str
) -> None:
    meta = {**json.loads(store_of()["meta"]), **changes}
    kept = {name: value for name, value in meta.items() if value is not ...}
    store = {"meta": json.dumps(kept).encode(), "attrs": b"{}"}
    with pytest.raises(oz.InvalidMetadata, match=f"meta: {field}") as caught:
        oz.open(store)
    assert {p.key for p in caught.value.problems} == {"meta"}


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
    with pytest.raises(oz.UnknownExtension, match="foo"):
        z[:]
    oz.open(store, mode="r+").resize(6)
    meta = meta_of(store)
    assert (meta["compression"], meta["compression_opts"]) == ("foo", options)


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


def test_creating_a_nested_structure_is_refused() -> None:
    """C6: it was written, and reading it then gave a warning."""
    with pytest.raises(oz.CannotExpress, match="fields of its own"):
        oz.create_array({}, shape=1, dtype=[("f", [("g", "?")])], zarr_format=1)


@pytest.mark.shows("V1-05", "V1-38")
@pytest.mark.parametrize("options", [{}, {"compressors": None}, {"fill_value": None}])
def test_a_written_meta_has_the_eight_names(options: dict[str, Any]) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(4,), dtype="f8", zarr_format=1, **options)
    assert list(meta_of(store)) == sorted(FIELDS)
    assert meta_of(store)["zarr_format"] == 1
