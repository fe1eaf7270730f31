"""Zarr version 2: data types and fill values."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.small_stores import v2_store as store_of
from tests.conformance.v2_metadata import created, strict

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


@pytest.mark.shows("V2-14", "V2-15", "V2-25", "V2-17")
@pytest.mark.parametrize(("stated", "items"), SIMPLE, ids=[s for s, _ in SIMPLE])
def test_every_kind_of_type_string_round_trips(stated: str, items: list[Any]) -> None:
    values = np.array(items, stated)
    store: dict[str, bytes] = {}
    oz.create_array(store, data=values, chunks=2, compressors=None, fill_value=None, zarr_format=2)
    assert strict(store)["dtype"] == stated
    # Items lie one after the other in the stated order, as NumPy has them in memory.
    assert store["0"] + store["1"] == values.tobytes()
    z = oz.open(store)
    assert z.dtype == np.dtype(stated)
    assert z[:].tobytes() == values.tobytes()


@pytest.mark.shows("V2-19")
@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize(
    "unit",
    ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "10ms", "25s", "3M"],
)
def test_every_unit_of_time_round_trips(kind: str, unit: str) -> None:
    stated = f"<{kind}8[{unit}]"
    values = np.array([-5, 0, 7, -(2**63)], "<i8").view(stated)
    store: dict[str, bytes] = {}
    oz.create_array(store, data=values, chunks=4, compressors=None, zarr_format=2)
    assert strict(store)["dtype"] == stated
    assert store["0"] == values.tobytes()
    read = oz.open(store)[:]
    assert read.dtype == np.dtype(stated)
    assert read.tobytes() == values.tobytes()


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


@pytest.mark.shows("V2-20", "V2-21", "V2-22", "V2-23", "V2-24")
@pytest.mark.parametrize(
    ("stated", "size", "offsets"), [s[1:] for s in STRUCTURES], ids=[s[0] for s in STRUCTURES]
)
def test_structures_are_packed_in_order(
    stated: list[Any], size: int, offsets: dict[str, int]
) -> None:
    raw = bytes(range(1, 2 * size + 1)) if "U" not in str(stated) else bytes(2 * size)
    store = store_of(dtype=stated, fill_value=None)
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
    oz.create_array(written, data=z[:2], chunks=2, compressors=None, fill_value=None, zarr_format=2)
    assert strict(written)["dtype"] == stated
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


# Fill values


@pytest.mark.shows("V2-08", "V2-27")
@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("<i4", 42, "42"),
        ("<i4", np.int64(-1), "-1"),
        ("|b1", False, "false"),
        ("|b1", True, "true"),
        ("<u8", 2**64 - 1, "18446744073709551615"),
        ("<i8", -(2**63), "-9223372036854775808"),
        ("<f8", 0.1, "0.1"),
        ("<f4", 0.5, "0.5"),
        ("<f8", -0.0, "-0.0"),
        ("<i4", None, "null"),
        ("|S3", None, "null"),
    ],
)
def test_finite_fill_values_are_plain_json(dtype: str, value: Any, text: str) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=2, dtype=dtype, fill_value=value, zarr_format=2)
    assert f'\n    "fill_value": {text},\n' in store[".zarray"].decode()
    z = oz.open(store)
    if value is None:
        assert z.fill_value is None
    else:
        assert z.fill_value == value
        assert z[:].tobytes() == np.full(2, value, dtype).tobytes()


@pytest.mark.shows("V2-28")
def test_bare_names_of_early_writers_are_read_and_quoted_on_rewrite() -> None:
    store = {
        ".zarray": store_of(dtype="<f4", fill_value="-Infinity")[".zarray"].replace(
            b'"-Infinity"', b"-Infinity"
        ),
        ".zattrs": b'{"missing": NaN}',
    }
    z = oz.open(store, mode="r+")
    assert z[:].tolist() == [-np.inf] * 4
    assert np.isnan(z.attrs["missing"])
    z.resize(3)
    assert strict(store)["fill_value"] == "-Infinity"
    assert store[".zattrs"] == b'{"missing": NaN}'
    with pytest.warns(oz.OmnizarrWarning, match=r"attributes\.missing"):
        z.attrs["other"] = 1
    assert json.loads(store[".zattrs"]) == {"missing": "NaN", "other": 1}


@pytest.mark.shows("V2-29", "V2-31")
@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("|S12", b"hello", "aGVsbG8="),
        ([["r", "|u1"], ["g", "|u1"], ["b", "|u1"]], (1, 2, 3), "AQID"),
        ([["a", "<i4"], ["b", ">f8"], ["c", "|S3"]], (1, 2.0, b"ab"), "AQAAAEAAAAAAAAAAYWIA"),
    ],
    ids=str,
)
def test_byte_strings_and_structures_have_base64_fill_values(
    dtype: Any, value: Any, text: str
) -> None:
    store: dict[str, bytes] = {}
    z = oz.create_array(store, shape=2, dtype=dtype, fill_value=value, zarr_format=2)
    assert strict(store)["fill_value"] == text
    for array in (z, oz.open(store)):
        assert array[:].tolist() == np.array([value, value], z.dtype).tolist()


@pytest.mark.shows("V2-30")
@pytest.mark.parametrize("dtype", ["|S12", [["a", "<i4"], ["b", "|S3"]]], ids=str)
def test_null_stays_null(dtype: Any) -> None:
    assert created(dtype=dtype, fill_value=None)["fill_value"] is None
    store = store_of(dtype=dtype, fill_value=None)
    z = oz.open(store, mode="r+")
    assert z.fill_value is None
    z.resize(6)
    assert strict(store)["fill_value"] is None


@pytest.mark.shows("V2-29", "V2-31")
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ([["a", "<i4"], ["b", ">f8"]], base64.b64encode(bytes(11)).decode()),
        ([["a", "<i4"], ["b", ">f8"]], base64.b64encode(bytes(13)).decode()),
        ([["a", "<i4"]], ""),
        ("|S3", base64.b64encode(b"four").decode()),
        ("|S3", "not base64"),
        ("|S12", "aGVsbG8-"),
        ("|S3", 1),
        ([["a", "<i4"]], 1),
        ("<i4", "42"),
        ("<i4", 1.5),
        ("|u1", 256),
        ("|b1", "true"),
        ("<f4", "nan"),
        ("<f4", [1.0]),
        ("<c8", [1.0]),
        ("<U2", "abc"),
        ("|V5", "AAAA"),
        ("<M8[s]", "2020-01-01"),
    ],
    ids=str,
)
def test_a_fill_value_that_does_not_fit_its_type_is_refused(dtype: Any, value: Any) -> None:
    with pytest.raises(oz.InvalidMetadata, match="fill_value"):
        oz.open(store_of(dtype=dtype, fill_value=value))


@pytest.mark.shows("V2-32")
@pytest.mark.parametrize(
    ("dtype", "value", "json_value"),
    [
        ("<c8", 1 + 2j, [1.0, 2.0]),
        (">c16", complex(-np.inf, np.nan), ["-Infinity", "NaN"]),
        ("<M8[ns]", np.datetime64(7, "ns"), 7),
        ("<m8[s]", np.timedelta64(-7, "s"), -7),
        ("<M8[s]", np.datetime64("NaT", "s"), -(2**63)),
        ("<U3", "äß€", "äß€"),
        ("|V5", np.void(b"12345"), "MTIzNDU="),
    ],
    ids=str,
)
def test_fill_values_beyond_the_specification_are_written_as_zarr_python_does(
    dtype: str, value: Any, json_value: Any
) -> None:
    assert created(dtype=dtype, fill_value=value)["fill_value"] == json_value
    expected = np.full(4, value, dtype).tobytes()
    assert oz.open(store_of(dtype=dtype, fill_value=json_value))[:].tobytes() == expected


@pytest.mark.shows("V2-33")
@pytest.mark.parametrize(
    ("dtype", "written"),
    [
        ("|S3", ""),
        ("<U3", ""),
        ("|V3", "AAAA"),
        ([["a", "<i4"], ["b", "|S2"]], "AAAAAAAA"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*expected Base64 text")
def test_the_number_0_is_an_item_of_zero_bytes(dtype: Any, written: str) -> None:
    read = oz.open(store_of(dtype=dtype, fill_value=0))[:]
    assert read.tobytes() == bytes(read.nbytes)
    assert created(dtype=dtype)["fill_value"] == written
    again = oz.open(store_of(dtype=dtype, fill_value=written))[:]
    assert again.tobytes() == bytes(read.nbytes)
