"""The data type extensions that accompany the draft: times, strings, structures, complex."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

import omnizarr
from omnizarr.errors import InvalidMetadata
from tests.conformance.draft_metadata import array as metadata
from tests.conformance.draft_metadata import hierarchy, regular

URI = "https://purl.org/zarr/spec/extensions/data-types/{}/1.0"
ENDIAN = "https://purl.org/zarr/spec/codecs/endian/1.0"
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]


def stored(
    extension: str,
    type_: Any,
    value: bytes | None = None,
    *,
    fill: Any = 0,
    size: int = 1,
    endian: str | None = None,
    **members: Any,
) -> dict[str, bytes]:
    """Return a hierarchy whose root is an array of one chunk of an extension type."""
    fields: dict[str, Any] = {"shape": [size], "chunk_grid": regular(size), "fill_value": fill}
    fields["data_type"] = {"extension": URI.format(extension), "type": type_, **members}
    if endian is not None:
        fields["codecs"] = [{"type": ENDIAN, "configuration": {"endian": endian}}]
    store = hierarchy({"meta/array.json": metadata(**fields)})
    return store if value is None else {**store, "data/c0": value}


def created(data: Any, **options: Any) -> dict[str, bytes]:
    """Return the bytes that the library stores for `data` in one uncompressed chunk."""
    store: dict[str, bytes] = {}
    options = {"chunks": False, "compressors": None, **options}
    omnizarr.create_array(store, data=data, zarr_format="3-draft", **options)
    return store


def document(store: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store["meta/array.json"])
    return found


# Times


@pytest.mark.shows("DX-36", "DX-37", "DX-39")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["M", "m"])
def test_every_unit_keeps_the_whole_range_of_counts(kind: str, unit: str) -> None:
    counts = np.array([-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1], "<i8")
    type_ = f"<{kind}8[{unit}]"
    store = created(counts.view(type_))
    assert document(store)["data_type"]["extension"] == URI.format("datetime")
    assert document(store)["data_type"]["type"] == type_
    assert store["data/c0"] == counts.tobytes()
    found = omnizarr.open(store)[...]
    assert found.dtype == np.dtype(type_)
    assert found.view("<i8").tolist() == counts.tolist()


@pytest.mark.shows("DX-37", "DX-38")
@pytest.mark.parametrize(
    "type_",
    [
        *("<M8[xx]", "<m8[generic]", "<M8[]", "<M8[NS]", "<M8", "<m8", "<M8ns", "<M4[ns]"),
        *("M8[ns]", "m8[ns]", "|M8[ns]", "=M8[ns]", "", None, 8, {"unit": "ns"}),
    ],
)
def test_an_incomplete_time_identifier_is_refused(type_: Any) -> None:
    store = stored("datetime", type_)
    with pytest.raises(InvalidMetadata, match=r"meta/array\.json: data_type\.type"):
        omnizarr.open(store, kind="array")
    [problem] = [p for p in omnizarr.validate(store) if p.level == "error"]
    assert problem.field == "data_type.type"


@pytest.mark.shows("DX-40")
@pytest.mark.parametrize(("unit", "other"), [("M", "D"), ("Y", "s"), ("D", "M"), ("W", "Y")])
def test_months_and_years_are_not_converted_to_days_or_back(unit: str, other: str) -> None:
    store = created(np.array([5], f"<m8[{other}]"))
    array = omnizarr.open(store, "r+")
    before = dict(store)
    one = np.ones(1, f"m8[{unit}]")
    for value in (one, one[0]):
        with pytest.raises(TypeError, match=rf"\[{unit}\].*\[{other}\]"):
            array[...] = value
    with pytest.raises(TypeError, match=rf"\[{unit}\].*\[{other}\]"):
        array.append(one)
    with pytest.raises(InvalidMetadata, match=rf"\[{unit}\].*\[{other}\]"):
        created(np.zeros(1, f"m8[{other}]"), fill_value=one[0])
    assert store == before


# Strings


@pytest.mark.shows("DX-41", "DX-43", "DX-48")
def test_byte_strings_are_padded_with_zeros() -> None:
    data = np.array([b"a", b"bcd", b"efgh"], "S4")
    store = created(data)
    assert store["data/c0"].hex(" ", 4) == "61000000 62636400 65666768"
    assert document(store)["data_type"]["extension"] == URI.format("string")
    assert document(store)["data_type"]["type"] == "S4"
    np.testing.assert_array_equal(omnizarr.open(store)[...], data)


@pytest.mark.shows("DX-42", "DX-43")
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("<U4", "61000000" + "00" * 12),
        (">U4", "00000061" + "00" * 12),
        ("<U4", "61000000f43c010000f60100" + "00" * 4),
    ],
)
def test_text_is_utf_32_in_the_stated_order(type_: str, value: str) -> None:
    expected = np.frombuffer(bytes.fromhex(value), type_)
    assert expected[0][0] == "a"
    array = omnizarr.open(stored("string", type_, bytes.fromhex(value), fill=""), "r+")
    assert array.dtype == np.dtype(type_)
    assert array[0] == expected[0]
    array[0] = "b"
    array[0] = str(expected[0])
    assert array.store.values["data/c0"].hex() == value


# Structures


@pytest.mark.shows("DX-44", "DX-45")
@pytest.mark.parametrize(
    "type_",
    [
        [],
        [["a"]],
        [["a", "i4"]],
        [["a", "<M8"]],
        [["a", "int33"]],
        [["", "<i4"]],
        [["a", "<i4"], ["a", "<i4"]],
        [["a", "|O"]],
        ["a", "<i4"],
        {"a": "<i4"},
    ],
)
def test_a_wrong_list_of_fields_is_refused(type_: Any) -> None:
    with pytest.raises(InvalidMetadata, match="data_type"):
        omnizarr.open(stored("struct", type_, fill=""), kind="array")


# Complex numbers


@pytest.mark.shows("DX-46")
@pytest.mark.parametrize(
    ("type_", "name"), [("<c8", "complex64"), ("<c16", "complex128"), (">c8", "complex64")]
)
def test_complex_numbers_are_also_read_as_an_extension(type_: str, name: str) -> None:
    value = np.array([1 + 2j], type_)
    array = omnizarr.open(stored("complex", type_, value.tobytes(), fill=[0.0, 0.0]))
    assert array.dtype == value.dtype
    assert array[0] == 1 + 2j
    assert document(created(np.array([1 + 2j], type_)))["data_type"] == name


# Byte order


@pytest.mark.shows("DX-47")
@pytest.mark.parametrize("endian", [None, "little", "big"])
@pytest.mark.parametrize(
    ("extension", "type_", "fill"),
    [
        ("datetime", "<M8[s]", 0),
        ("datetime", ">M8[s]", 0),
        ("string", "<U2", ""),
        ("string", ">U2", ""),
        ("struct", [["a", "<i4"], ["b", "<f4"]], "AAAAAAAAAAA="),
        ("struct", [["a", ">i4"], ["b", ">f4"]], "AAAAAAAAAAA="),
        ("struct", [["a", ">i4"], ["b", "<f4"]], "AAAAAAAAAAA="),
    ],
)
def test_the_identifier_sets_the_byte_order_unless_a_codec_does(
    extension: str, type_: Any, fill: Any, endian: str | None
) -> None:
    stated = np.dtype(type_ if isinstance(type_, str) else [tuple(f) for f in type_])
    on_disk = stated if endian is None else stated.newbyteorder("<" if endian == "little" else ">")
    expected = np.zeros(1, on_disk)
    expected[0] = {"M": 86400, "U": "ab", "V": (5, 1.5)}[stated.kind]
    store = stored(extension, type_, expected.tobytes(), fill=fill, endian=endian)
    array = omnizarr.open(store, "r+")
    np.testing.assert_array_equal(array[...], expected)
    # A document that is written again still means the same.
    array.attrs["touched"] = True
    np.testing.assert_array_equal(omnizarr.open(store)[...], expected)
    array = omnizarr.open(store, "r+")
    del store["data/c0"]
    array[...] = expected
    assert store["data/c0"] == expected.tobytes()


@pytest.mark.shows("DX-47")
@pytest.mark.parametrize("order", ["<", ">", "="])
@pytest.mark.parametrize(
    ("dtype", "identifier"),
    [
        ("M8[s]", "<M8[s]"),
        ("m8[D]", "<m8[D]"),
        ("U3", "<U3"),
        ([("a", "i4"), ("b", "U2")], [["a", "<i4"], ["b", "<U2"]]),
    ],
)
def test_new_arrays_have_little_endian_identifiers_and_no_endian_codec(
    dtype: Any, identifier: Any, order: str
) -> None:
    data = np.zeros(2, np.dtype(dtype).newbyteorder(order))
    data[1] = {"M": 86400, "m": 7, "U": "abc", "V": (5, "xy")}[data.dtype.kind]
    store = created(data, fill_value=data[1])
    assert document(store)["data_type"]["type"] == identifier
    assert document(store).get("codecs", []) == []
    assert store["data/c0"] == data.astype(data.dtype.newbyteorder("<")).tobytes()
    array = omnizarr.open(store)
    np.testing.assert_array_equal(array[...], data)
    assert array.fill_value == data[1]


# Fill values


@pytest.mark.shows("DX-49")
@pytest.mark.parametrize(
    ("extension", "type_", "fill", "expected", "written"),
    [
        ("datetime", "<M8[s]", 86400, np.datetime64("1970-01-02"), True),
        ("datetime", "<M8[s]", "NaT", np.datetime64("NaT", "s"), False),
        ("datetime", "<m8[D]", -(2**63), np.timedelta64("NaT", "D"), True),
        ("datetime", ">m8[D]", 3, np.timedelta64(3, "D"), True),
        ("string", "S4", "ab", b"ab", True),
        ("string", "S4", base64.b64encode(b"\xff\x00\xfeq").decode(), b"\xff\x00\xfeq", True),
        ("string", "S4", "", b"", True),
        ("string", "<U4", "añ", "añ", True),
        ("string", "<U2", base64.b64encode("hé".encode("utf-32-le")).decode(), "hé", False),
        ("string", ">U2", base64.b64encode("hé".encode("utf-32-be")).decode(), "hé", False),
        ("struct", [["a", "<i2"], ["b", "|u1"]], "AQID", (513, 3), True),
    ],
)
def test_fill_values_of_extension_types_are_integers_text_and_base64(
    extension: str, type_: Any, fill: Any, expected: Any, written: bool
) -> None:
    array = omnizarr.open(stored(extension, type_, fill=fill))
    np.testing.assert_array_equal(array[0], np.array(expected, array.dtype))
    store = created(array[...], fill_value=array[0])
    assert (document(store)["fill_value"] == fill) == written
    np.testing.assert_array_equal(omnizarr.open(store)[...], array[...])


@pytest.mark.shows("DX-49")
@pytest.mark.parametrize(
    ("extension", "type_", "fill"),
    [
        ("datetime", "<M8[s]", "1970-01-02"),
        ("datetime", "<M8[s]", 1.5),
        ("datetime", "<M8[s]", 2**63),
        ("datetime", "<M8[s]", True),
        ("string", "S4", 7),
        ("string", "S4", "too long, and not Base64"),
        ("string", "<U2", "three"),
        ("string", "<U2", "YWJj"),
        ("string", "<U2", 0),
        ("struct", [["a", "<i2"]], "AAA"),
        ("struct", [["a", "<i2"]], base64.b64encode(bytes(3)).decode()),
        ("struct", [["a", "<i2"]], [1]),
    ],
)
def test_a_fill_value_that_does_not_fit_its_type_is_refused(
    extension: str, type_: Any, fill: Any
) -> None:
    with pytest.raises(InvalidMetadata, match="fill_value"):
        omnizarr.open(stored(extension, type_, fill=fill), kind="array")
