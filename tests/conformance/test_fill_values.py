"""Fill values in the metadata of all versions, and what the parts never written read as."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.draft_metadata import DRAFT, at_root, extension_type
from tests.conformance.small_stores import v1_store, v2_store
from tests.conformance.v3_metadata import array_doc, put

KEYS = ("meta", ".zarray", "meta/array.json", "zarr.json")
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
STRUCT: list[Any] = [["a", "<i4"], ["b", ">f8"], ["c", "|S3"]]
NOT_NUMBERS: list[Any] = ["|S3", "<U3", "<m8[s]", ">M8[ns]", "|V5", [["a", "<i4"], ["b", "|S2"]]]


def stored(version: Any, data_type: Any, fill: Any) -> dict[str, bytes]:
    """Return handwritten metadata of an array without chunks."""
    if version in (1, 2):
        return (v1_store if version == 1 else v2_store)(dtype=data_type, fill_value=fill)
    if version == DRAFT:
        return at_root(1, data_type=data_type, fill_value=fill)
    codecs = ["vlen-utf8"] if data_type == "string" else [LITTLE]
    return put(array_doc(data_type=data_type, fill_value=fill, codecs=codecs))


def created(version: Any, **options: Any) -> dict[str, bytes]:
    store: dict[str, bytes] = {}
    oz.create_array(store, **{"shape": 2, "zarr_format": version, **options})
    return store


def stated(store: dict[str, bytes]) -> Any:
    """Return the fill value in metadata, which must be strict JSON."""
    key = next(key for key in KEYS if key in store)
    return json.loads(store[key], parse_constant=pytest.fail)["fill_value"]


def float_of(bits: str) -> Any:
    """Return a float without a cast, which would quieten signalling NaNs."""
    return np.frombuffer(bytes.fromhex(bits)[::-1], f"f{len(bits) // 2}")[0]


@pytest.mark.shows("V2-08", "V2-27", "V2-29", "V2-30", "V2-31", "V2-32")
@pytest.mark.shows("V3-40", "V3-41", "V3-42", "V3-43", "V3-95")
@pytest.mark.shows("D3-59", "D3-61", "D3-117", "D3-118", "DX-49")
@pytest.mark.parametrize(
    ("version", "dtype", "value", "notation"),
    [
        *((1, dtype, None, None) for dtype in NOT_NUMBERS),
        (2, "<i4", 42, 42),
        (2, "<i4", np.int64(-1), -1),
        (2, "|b1", False, False),
        (2, "|b1", True, True),
        (2, "<u8", 2**64 - 1, 18446744073709551615),
        (2, "<i8", -(2**63), -9223372036854775808),
        (2, "<f8", 0.1, 0.1),
        (2, "<f4", 0.5, 0.5),
        (2, "<f8", -0.0, -0.0),
        (2, "<i4", None, None),
        (2, "|S12", None, None),
        (2, STRUCT, None, None),
        (2, "|S12", b"hello", "aGVsbG8="),
        (2, [["r", "|u1"], ["g", "|u1"], ["b", "|u1"]], (1, 2, 3), "AQID"),
        (2, STRUCT, (1, 2.0, b"ab"), "AQAAAEAAAAAAAAAAYWIA"),
        (2, "<c8", 1 + 2j, [1.0, 2.0]),
        (2, ">c16", complex(-np.inf, np.nan), ["-Infinity", "NaN"]),
        (2, "<M8[ns]", np.datetime64(7, "ns"), 7),
        (2, "<m8[s]", np.timedelta64(-7, "s"), -7),
        (2, "<M8[s]", np.datetime64("NaT", "s"), -(2**63)),
        (2, "<U3", "äß€", "äß€"),
        (2, "|V5", np.void(b"12345"), "MTIzNDU="),
        (DRAFT, "f4", np.nan, "NaN"),
        (DRAFT, "f8", np.inf, "+Infinity"),
        (DRAFT, "f8", -np.inf, "-Infinity"),
        (DRAFT, "f4", float_of("7fc00001"), "0x7fc00001"),
        (DRAFT, "c8", 1 + 2j, [1.0, 2.0]),
        (DRAFT, "c16", complex(0, np.inf), [0.0, "+Infinity"]),
        (DRAFT, "V3", np.void(b"\1\2\3"), "0x010203"),
        (DRAFT, "?", True, True),
        (DRAFT, "u8", 2**64 - 1, 2**64 - 1),
        (DRAFT, "<M8[s]", np.datetime64("1970-01-02"), 86400),
        (DRAFT, "<m8[D]", np.timedelta64("NaT"), -(2**63)),
        (DRAFT, ">m8[D]", np.timedelta64(3, "D"), 3),
        (DRAFT, "S4", b"ab", "ab"),
        (DRAFT, "S4", b"\xff\0\xfeq", "/wD+cQ=="),
        (DRAFT, "S4", b"", ""),
        (DRAFT, "<U4", "añ", "añ"),
        (DRAFT, [["a", "<i2"], ["b", "|u1"]], (513, 3), "AQID"),
        (3, "f4", float_of("7fc00000"), "NaN"),
        (3, "f4", float_of("7fc00001"), "0x7fc00001"),
        (3, "f4", float_of("7f800001"), "0x7f800001"),
        (3, "f4", float_of("ffc00000"), "0xffc00000"),
        (3, "f2", float_of("7e01"), "0x7e01"),
        (3, "f8", float_of("7ff8000000000001"), "0x7ff8000000000001"),
        *((3, dtype, np.nan, "NaN") for dtype in ("f2", "f4", "f8")),
        (3, "f4", np.inf, "Infinity"),
        (3, "f8", -np.inf, "-Infinity"),
        (3, "c8", np.frombuffer(bytes.fromhex("0000803f0100c07f"), "c8")[0], [1.0, "0x7fc00001"]),
        (3, "V2", np.void(b"\1\xff"), [1, 255]),
    ],
    ids=str,
)
def test_fill_values_are_written_in_the_notation_of_the_version_and_lose_no_bit(
    version: Any, dtype: Any, value: Any, notation: Any
) -> None:
    store = created(version, dtype=dtype, fill_value=value)
    assert (stated(store), str(stated(store))) == (notation, str(notation))
    array = oz.open(store)
    if value is None:
        assert array.fill_value is None
    else:
        assert array[...].tobytes() == np.full(2, np.array(value, array.dtype)).tobytes()


BOTH = (DRAFT, 3)
# The versions, the data type, the fill value in metadata, and the bytes that it means.
EXACT: list[tuple[tuple[Any, ...], str, Any, str]] = [
    (BOTH, "bool", True, "01"),
    (BOTH, "bool", False, "00"),
    (BOTH, "int8", -128, "80"),
    (BOTH, "int8", 127, "7f"),
    (BOTH, "uint64", 18446744073709551615, "ffffffffffffffff"),
    (BOTH, "int64", -9223372036854775808, "0000000000000080"),
    (BOTH, "float64", 1, "000000000000f03f"),
    (BOTH, "float64", -0.0, "0000000000000080"),
    (BOTH, "float32", 0.1, "cdcccc3d"),
    (BOTH, "float16", "NaN", "007e"),
    (BOTH, "float32", "NaN", "0000c07f"),
    (BOTH, "float64", "NaN", "000000000000f87f"),
    (BOTH, "float16", "Infinity", "007c"),
    (BOTH, "float64", "Infinity", "000000000000f07f"),
    (BOTH, "float32", "-Infinity", "000080ff"),
    (BOTH, "float64", "-Infinity", "000000000000f0ff"),
    (BOTH, "float32", "0x7fc00000", "0000c07f"),
    (BOTH, "float32", "0x7fc00001", "0100c07f"),
    (BOTH, "float32", "0x3f800000", "0000803f"),
    (BOTH, "complex64", [1, 2], "0000803f00000040"),
    (BOTH, "complex64", ["-Infinity", "NaN"], "000080ff0000c07f"),
    ((DRAFT,), "float32", "+Infinity", "0000807f"),
    ((DRAFT,), "float64", "+Infinity", "000000000000f07f"),
    ((DRAFT,), "float16", "0b0011110000000000", "003c"),
    ((DRAFT,), "complex64", 3, "0000404000000000"),
    ((DRAFT,), "complex64", ["0x7fc00001", "0b" + "0" * 32], "0100c07f00000000"),
    ((DRAFT,), "complex64", "0x7fc000013f800000", "0100c07f0000803f"),
    ((DRAFT,), "complex64", "0b" + f"{0x3F80000040000000:064b}", "0000803f00000040"),
    (
        (DRAFT,),
        "complex128",
        "0x3ff0000000000000c000000000000000",
        "000000000000f03f00000000000000c0",
    ),
    ((DRAFT,), "r24", "0x010203", "010203"),
    ((DRAFT,), "r24", "0b000000010000001000000011", "010203"),
    ((3,), "float32", 16777217, "0000804b"),
    ((3,), "float32", 2**60 + 2**36 + 1, "0100805d"),  # rounded once
    ((3,), "float16", 2049, "0068"),
    ((3,), "float16", 2051, "0268"),
    ((3,), "float32", 1e39, "0000807f"),
    ((3,), "float32", "0x7f800001", "0100807f"),
    ((3,), "float32", "0xFFC00000", "0000c0ff"),
    ((3,), "float16", "0x3c00", "003c"),
    ((3,), "float64", "0x7ff800000000abcd", "cdab00000000f87f"),
    ((3,), "complex128", ["0x7ff8000000000001", 1.5], "010000000000f87f000000000000f83f"),
    ((3,), "r16", [1, 255], "01ff"),
]


@pytest.mark.shows("D3-60", "D3-61", "D3-62", "D3-117", "D3-118")
@pytest.mark.shows("V3-37", "V3-38", "V3-39", "V3-40", "V3-41", "V3-42", "V3-43", "V3-45", "V3-95")
@pytest.mark.parametrize(
    ("version", "data_type", "fill", "bits"),
    [(version, *row) for versions, *row in EXACT for version in versions],
)
def test_fill_values_mean_exact_bits(version: Any, data_type: str, fill: Any, bits: str) -> None:
    assert oz.open(stored(version, data_type, fill))[:1].tobytes().hex() == bits


@pytest.mark.shows("DX-49", "V2-29", "V2-32")
@pytest.mark.parametrize(
    ("version", "data_type", "fill", "expected"),
    [
        (DRAFT, extension_type("datetime", "<M8[s]"), "NaT", np.datetime64("NaT", "s")),
        (DRAFT, extension_type("string", "<U2"), "aAAAAOkAAAA=", "hé"),
        (DRAFT, extension_type("string", ">U2"), "AAAAaAAAAOk=", "hé"),
        (2, "|S12", "aGVsbG8AAAAAAAAA", b"hello"),
        (2, "<M8[s]", "NaT", np.datetime64("NaT", "s")),
    ],
    ids=str,
)
def test_other_notations_of_fill_values_are_read(
    version: Any, data_type: Any, fill: Any, expected: Any
) -> None:
    array = oz.open(stored(version, data_type, fill))
    np.testing.assert_array_equal(array[0], np.array(expected, array.dtype))


@pytest.mark.shows("V1-34", "V2-33")
@pytest.mark.filterwarnings("ignore:.*expected Base64 text")
@pytest.mark.parametrize(
    ("version", "dtype", "written"),
    [
        *((1, dtype, 0) for dtype in NOT_NUMBERS),
        (2, "|S3", ""),
        (2, "<U3", ""),
        (2, "|V3", "AAAA"),
        (2, [["a", "<i4"], ["b", "|S2"]], "AAAAAAAA"),
    ],
    ids=str,
)
def test_the_number_0_is_an_item_of_zero_bytes(version: int, dtype: Any, written: Any) -> None:
    for fill in (0, written):
        assert not any(oz.open(stored(version, dtype, fill))[...].tobytes())
    assert stated(created(version, dtype=dtype)) == written
