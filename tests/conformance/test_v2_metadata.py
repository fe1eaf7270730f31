"""Zarr version 2: array metadata; its data types, and those of version 1."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numcodecs import blosc

import omnizarr as oz
from tests.conformance.small_stores import KEYS, STORES, strict
from tests.conformance.small_stores import v2_store as store_of


def created(**options: Any) -> dict[str, Any]:
    """Return the metadata of a new array."""
    store: dict[str, bytes] = {}
    oz.create_array(store, zarr_format=2, **{"shape": 4, "chunks": 2, **options})
    return strict(store)


# As printed, without its two misprints.
PRINTED = """\
{
    "chunks": [
        1000,
        1000
    ],
    "compressor": {
        "id": "blosc",
        "cname": "lz4",
        "clevel": 5,
        "shuffle": 1
    },
    "dtype": "<f8",
    "fill_value": "NaN",
    "filters": [
        {"id": "delta", "dtype": "<f8", "astype": "<f4"}
    ],
    "order": "C",
    "shape": [
        10000,
        10000
    ],
    "zarr_format": 2
}"""
FIELDS = tuple(json.loads(PRINTED))


# The document


@pytest.mark.shows("V2-03", "V2-11", "V2-08")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compressors": None},
        {"fill_value": None},
        {"filters": [{"id": "delta", "dtype": "<f8"}]},
        {"order": "F", "attributes": {"a": 1}, "dimension_names": ["x"]},
    ],
)
def test_written_metadata_has_exactly_the_eight_names(options: dict[str, Any]) -> None:
    assert tuple(created(dtype="<f8", **options)) == FIELDS


@pytest.mark.shows("V2-12")
@pytest.mark.parametrize(
    "change", [{"compressor": {"id": "foo", "x": 1}}, {"filters": [{"id": "foo"}]}]
)
def test_an_unknown_codec_prevents_reading_but_not_opening(change: dict[str, Any]) -> None:
    store = {**store_of(**change), ".zattrs": b'{"a": 1}'}
    z = oz.open(store, mode="r+")
    assert (z.shape, z.dtype, dict(z.attrs)) == ((4,), np.dtype("<i4"), {"a": 1})
    assert "foo" in str(z.info)
    with pytest.raises(oz.UnknownExtension, match="foo"):
        z[:]
    with pytest.raises(oz.UnknownExtension, match="foo"):
        z[:] = 1
    z.attrs["b"] = 2
    assert dict(oz.open(store).attrs) == {"a": 1, "b": 2}
    assert sorted(store) == [".zarray", ".zattrs"]


@pytest.mark.shows("V2-13", "V2-34", "V2-35")
def test_the_printed_metadata_works() -> None:
    store = {".zarray": PRINTED.encode()}
    z = oz.open(store, mode="r+")
    assert (z.shape, z.chunks, z.dtype) == ((10000, 10000), (1000, 1000), np.dtype("<f8"))
    assert (z.cdata_shape, z.nchunks) == ((10, 10), 100)
    assert np.isnan(z.fill_value)
    assert np.isnan(z[2500:2503, 4500:4503]).all()
    values = np.arange(1_000_000, dtype="<f8").reshape(1000, 1000) % 1000
    z[2000:3000, 4000:5000] = values
    assert sorted(store) == [".zarray", "2.4"]
    chunk = store["2.4"]
    # Blosc's own header: the item size after the filter, and the unpacked size.
    assert chunk[3] == 4
    assert int.from_bytes(chunk[4:8], "little") == 4_000_000
    assert int.from_bytes(chunk[12:16], "little") == len(chunk)
    unpacked = np.frombuffer(blosc.decompress(chunk), "<f4")
    np.testing.assert_array_equal(unpacked, np.diff(values.reshape(-1), prepend=0).astype("<f4"))
    read = z[2000:3000, 4000:5000]
    assert read.dtype == np.dtype("<f8")
    np.testing.assert_array_equal(read, values)
    assert z[0:1, 0:1].dtype == np.dtype("<f8")


@pytest.mark.shows("V2-72", "V2-11")
def test_unknown_names_are_reported_ignored_and_kept() -> None:
    store = store_of(note={"by": "me"})
    store["0"] = np.array([7, 8], "<i4").tobytes()
    with pytest.warns(oz.OmnizarrWarning, match="note"):
        z = oz.open(store, mode="r+")
    assert z[:].tolist() == [7, 8, 0, 0]
    problems = oz.validate(store)
    assert [(p.key, p.field, p.level) for p in problems] == [(".zarray", "note", "warning")]
    with pytest.warns(oz.OmnizarrWarning, match="note"):
        z.resize(6)
    assert strict(store)["shape"] == [6]
    assert strict(store)["note"] == {"by": "me"}


# Data types


SIMPLE: list[tuple[str, Any]] = [
    ("|b1", [True, False, True, True]),
    ("|i1", [-128, 0, 1, 127]),
    *[
        (f"{o}i{n}", [-(2 ** (8 * n - 1)), -1, 0, 2 ** (8 * n - 1) - 1])
        for n in (2, 4, 8)
        for o in "<>"
    ],
    ("|u1", [0, 1, 128, 255]),
    *[(f"{o}u{n}", [0, 1, 2, 2 ** (8 * n) - 1]) for n in (2, 4, 8) for o in "<>"],
    *[(f"{o}f{n}", [0.5, -np.inf, np.nan, -0.0]) for n in (2, 4, 8) for o in "<>"],
    *[(f"{o}c{n}", [1 + 2j, -1j, complex(np.nan, 1), 0]) for n in (8, 16) for o in "<>"],
    *[(f"{o}m8[s]", [-1, 0, 1, "NaT"]) for o in "<>"],
    *[(f"{o}M8[ns]", ["1970-01-01", "2262-04-11", "NaT", "1677-09-22"]) for o in "<>"],
    ("|S3", [b"", b"a", b"abc", b"\xff\x01"]),
    ("|S12", [b"", b"hello", b"twelve bytes", b"x"]),
    *[(f"{o}U3", ["", "a", "äß€", "𝄞𝄞𝄞"]) for o in "<>"],
    ("|V5", [b"\0\0\0\0\0", b"12345", b"\xff\xfe\0\0\1", b"abcde"]),
]


@pytest.mark.shows("V1-14", "V2-14", "V2-15", "V2-25", "V2-17")
@pytest.mark.parametrize("zarr_format", [1, 2])
@pytest.mark.parametrize(("stated", "items"), SIMPLE, ids=[s for s, _ in SIMPLE])
def test_every_kind_of_type_string_round_trips(
    stated: str, items: list[Any], zarr_format: int
) -> None:
    values = np.array(items, stated)
    store: dict[str, bytes] = {}
    raw: dict[str, Any] = {"chunks": 2, "compressors": None, "fill_value": None}
    oz.create_array(store, data=values, zarr_format=zarr_format, **raw)
    assert strict(store, KEYS[zarr_format])["dtype"] == stated
    # Items lie one after the other in the stated order, as NumPy has them in memory.
    assert store["0"] + store["1"] == values.tobytes()
    z = oz.open(store)
    assert z.dtype == np.dtype(stated)
    assert z[:].tobytes() == values.tobytes()


STRUCTURES: list[tuple[str, list[Any], int, dict[str, int]]] = [
    ("rgb", [["r", "|u1"], ["g", "|u1"], ["b", "|u1"]], 3, {"r": 0, "g": 1, "b": 2}),
    (
        "subarray",
        [["x", "<f4"], ["y", "<f4"], ["z", "<f4", [2, 2]]],
        24,
        {"x": 0, "y": 4, "z": 8},
    ),
    (
        "nested",
        [["foo", "<f4"], ["bar", [["baz", "<f4"], ["qux", "<i4"]]]],
        12,
        {"foo": 0, "bar": 4, "bar.baz": 4, "bar.qux": 8},
    ),
    ("packed", [["a", "|u1"], ["b", "<f8"]], 9, {"a": 0, "b": 1}),
    (
        "deep",
        [["a", [["b", [["c", [["d", ">i2"], ["e", "|S1", [3]]]]]]]], ["f", "<U2"]],
        13,
        {"a.b.c.d": 0, "a.b.c.e": 2, "f": 5},
    ),
]


@pytest.mark.shows("V1-16", "V2-20", "V2-21", "V2-22", "V2-23", "V2-24")
@pytest.mark.parametrize(
    ("zarr_format", "stated", "size", "offsets"),
    [(1, *STRUCTURES[0][1:]), *((2, *s[1:]) for s in STRUCTURES)],
    ids=["rgb of version 1", *(s[0] for s in STRUCTURES)],
)
def test_structures_are_packed_in_order(
    zarr_format: int, stated: list[Any], size: int, offsets: dict[str, int]
) -> None:
    raw = bytes(range(1, 2 * size + 1)) if "U" not in str(stated) else bytes(2 * size)
    store = STORES[zarr_format](dtype=stated, fill_value=None)
    store["0"] = raw
    z = oz.open(store)
    assert z.dtype.itemsize == size
    for name, offset in offsets.items():
        dtype, found = z.dtype, 0
        for part in name.split("."):
            dtype, step = dtype.fields[part][:2]
            found += step
        assert found == offset, name
    assert z[:2].tobytes() == raw
    written: dict[str, bytes] = {}
    options: dict[str, Any] = {"chunks": 2, "compressors": None, "fill_value": None}
    oz.create_array(written, data=z[:2], zarr_format=zarr_format, **options)
    assert strict(written, KEYS[zarr_format])["dtype"] == stated
    assert written["0"] == raw


@pytest.mark.shows("V2-26")
@pytest.mark.parametrize("stated", ["<u1", ">u1", "|u1", "<i1", ">b1"])
def test_the_byte_order_of_one_byte_is_ignored_and_not_written(stated: str) -> None:
    store = store_of(dtype=stated)
    store["0"] = b"\x01\0"
    if stated[0] == "|":
        z = oz.open(store, mode="r+")
    else:
        with pytest.warns(oz.OmnizarrWarning, match="byte order"):
            z = oz.open(store, mode="r+")
    assert z.dtype == np.dtype("|" + stated[1:])
    assert z[:2].tolist() == [1, 0]
    assert created(dtype=stated)["dtype"] == "|" + stated[1:]


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("record", [False, True])
def test_text_with_an_impossible_code_point_is_an_error(order: str, record: bool) -> None:
    dtype: Any = [["t", f"{order}U1"]] if record else f"{order}U1"
    store = store_of(shape=[1], chunks=[1], dtype=dtype, fill_value=None)
    store["0"] = np.array(0x110000, f"{order}u4").tobytes()
    with pytest.raises(oz.ChunkError, match=r"U\+10FFFF"):
        oz.open(store, kind="array")[...]
    store["0"] = np.array(0x10FFFF, f"{order}u4").tobytes()
    assert oz.open(store)[...].tolist() == [("\U0010ffff",) if record else "\U0010ffff"]


# Fill values


@pytest.mark.shows("V2-28")
def test_bare_names_in_attributes_are_read_and_quoted_when_these_change() -> None:
    store = {**store_of(), ".zattrs": b'{"missing": NaN}'}
    z = oz.open(store, mode="r+")
    assert np.isnan(z.attrs["missing"])
    with pytest.warns(oz.OmnizarrWarning, match=r"attributes\.missing"):
        z.attrs["other"] = 1
    assert json.loads(store[".zattrs"]) == {"missing": "NaN", "other": 1}
