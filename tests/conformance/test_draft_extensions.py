"""The codecs and data types that accompany the draft."""

from __future__ import annotations

import gzip
import json
import struct
from typing import Any

import numcodecs
import numcodecs.blosc
import numpy as np
import pytest

import omnizarr
from omnizarr.errors import ChunkError, InvalidMetadata
from tests.conformance.draft_metadata import DRAFT, at_root, codec, extension_type

BLOSC = {"cname": "lz4", "clevel": 1, "shuffle": 1, "blocksize": 0}  # the printed example


def stored(value: bytes | None = None, size: int = 4, **fields: Any) -> dict[str, bytes]:
    """Return a hierarchy whose root is an array of one chunk, which has this value."""
    return at_root(size, **fields) | ({} if value is None else {"data/c0": value})


def created(data: Any, **options: Any) -> dict[str, bytes]:
    """Return the bytes that the library stores for `data` in one chunk."""
    store: dict[str, bytes] = {}
    options = {"compressors": None, **options}
    omnizarr.create_array(store, data=data, chunks=False, zarr_format=DRAFT, **options)
    return store


def document(store: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store["meta/array.json"])
    return found


def codecs_in(store: dict[str, bytes]) -> Any:
    return document(store).get("codecs")


NUMBERS = np.array([1, -2, 300, 70000], "<i4")


# gzip


@pytest.mark.shows("DX-01", "DX-02")
@pytest.mark.parametrize("level", range(10))
def test_gzip_values_are_gzip_files_at_every_level(level: int) -> None:
    data = np.arange(1000, dtype="<i4")
    store = created(data, compressors={"id": "gzip", "level": level})
    assert codecs_in(store) == [codec("gzip", level=level)]
    value = store["data/c0"]
    assert value[:3].hex() == "1f8b08"
    assert gzip.decompress(value) == data.tobytes()
    assert (len(value) > data.nbytes) == (level == 0)  # stored, but still a gzip file
    np.testing.assert_array_equal(omnizarr.open(store)[...], data)


WHOLE = gzip.compress(NUMBERS.tobytes())


@pytest.mark.shows("DX-03")
@pytest.mark.parametrize("cut", [0, 3, 8, 16])
def test_several_gzip_members_are_read_as_one(cut: int) -> None:
    data = NUMBERS.tobytes()
    value = gzip.compress(data[:cut]) + gzip.compress(data[cut:])
    opened = omnizarr.open(stored(value, codecs=[codec("gzip", level=1)]))
    np.testing.assert_array_equal(opened[...], NUMBERS)


@pytest.mark.shows("DX-03")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="empty"),
        pytest.param(WHOLE[:-1], id="one byte short"),
        pytest.param(WHOLE[:12], id="cut in the data"),
        pytest.param(WHOLE[:5], id="cut in the header"),
        pytest.param(WHOLE + b"\0", id="a zero follows"),
        pytest.param(WHOLE + b"garbage", id="garbage follows"),
        pytest.param(WHOLE + WHOLE[:10], id="a member that ends early follows"),
        pytest.param(WHOLE + gzip.compress(b"more"), id="more bytes than a chunk"),
        pytest.param(gzip.compress(NUMBERS.tobytes()[:-4]), id="fewer bytes than a chunk"),
        pytest.param(WHOLE[:-8] + bytes(4) + WHOLE[-4:], id="wrong checksum"),
        pytest.param(NUMBERS.tobytes(), id="not gzip"),
    ],
)
def test_a_damaged_gzip_value_is_an_error_that_names_chunk_and_codec(value: bytes) -> None:
    opened = omnizarr.open(stored(value, codecs=[codec("gzip", level=1)]))
    with pytest.raises(ChunkError, match=r"chunk \(0,\).*'data/c0'.*gzip") as caught:
        opened[...]
    assert caught.value.codec == "gzip"


@pytest.mark.shows("DX-04")
@pytest.mark.parametrize("plural", ["codec", "codecs"])
@pytest.mark.parametrize("version", ["", "/1.0"])
def test_every_spelling_of_the_gzip_uri_is_read(plural: str, version: str) -> None:
    uri = f"https://purl.org/zarr/spec/{plural}/gzip{version}"
    store = stored(WHOLE, codecs=[{"type": uri, "configuration": {"level": 1}}])
    np.testing.assert_array_equal(omnizarr.open(store)[...], NUMBERS)
    omnizarr.open(store, "r+").attrs["touched"] = True
    assert codecs_in(store) == [codec("gzip", level=1)]  # written in the one right way


# endian


@pytest.mark.shows("DX-08")
@pytest.mark.parametrize("first", [codec("gzip", level=1), codec("blosc", **BLOSC)])
def test_endian_after_a_bytes_codec_is_refused(first: dict[str, Any]) -> None:
    store = stored(WHOLE, codecs=[first, codec("endian", endian="big")])
    with pytest.raises(InvalidMetadata, match=r"codecs\[1\].*endian/1\.0' is array->bytes, but"):
        omnizarr.open(store, kind="array")
    twice = stored(codecs=[codec("endian", endian="big")] * 2)
    with pytest.raises(InvalidMetadata, match=r"codecs\[1\].*is array->bytes, but codecs before"):
        omnizarr.open(twice, kind="array")


# blosc


@pytest.mark.shows("DX-09")
def test_the_printed_blosc_example_works() -> None:
    value = bytes(numcodecs.blosc.compress(NUMBERS.tobytes(), b"lz4", 1, 1, 0))
    store = stored(value, codecs=[codec("blosc", **BLOSC)])
    np.testing.assert_array_equal(omnizarr.open(store)[...], NUMBERS)
    opened = omnizarr.open(store, "r+")
    opened[0] = 5
    opened.attrs["touched"] = True
    assert codecs_in(store) == [codec("blosc", **BLOSC)]
    assert omnizarr.open(store)[...].tolist() == [5, -2, 300, 70000]


@pytest.mark.shows("DX-10", "DX-12")
@pytest.mark.parametrize("shuffle", [-1, 0, 1, 2])
@pytest.mark.parametrize("clevel", [0, 1, 9])
@pytest.mark.parametrize("cname", ["lz4", "lz4hc", "blosclz", "zstd", "zlib"])
def test_blosc_values_are_exchanged_with_c_blosc(cname: str, clevel: int, shuffle: int) -> None:
    data = np.arange(5000, dtype="<i4")
    config = {"cname": cname, "clevel": clevel, "shuffle": shuffle, "blocksize": 0}
    store = created(data, compressors={"id": "blosc", **config})
    assert codecs_in(store) == [codec("blosc", **config)]
    value = store["data/c0"]
    assert numcodecs.blosc.decompress(value) == data.tobytes()
    assert struct.unpack_from("<III", value, 4)[::2] == (data.nbytes, len(value))
    theirs = bytes(numcodecs.Blosc(cname, clevel, shuffle).encode(data))
    store["data/c0"] = theirs
    np.testing.assert_array_equal(omnizarr.open(store)[...], data)


BYTE_SHUFFLE, BIT_SHUFFLE = 1, 4


@pytest.mark.shows("DX-13")
@pytest.mark.parametrize("dtype", ["|u1", "<i2", "<f4", "<c16"])
def test_the_type_size_is_that_of_the_items_given_to_blosc(dtype: str) -> None:
    data = np.zeros(1000, dtype)
    data[5] = 1
    store = created(data, compressors={"id": "blosc", **BLOSC})
    assert store["data/c0"][3] == np.dtype(dtype).itemsize
    after_gzip = created(
        data, compressors=[{"id": "gzip", "level": 0}, {"id": "blosc", **BLOSC, "shuffle": -1}]
    )
    assert after_gzip["data/c0"][3] == 1
    for each in (store, after_gzip):
        assert all("typesize" not in c["configuration"] for c in codecs_in(each))
        np.testing.assert_array_equal(omnizarr.open(each)[...], data)


# Times


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
    assert document(store)["data_type"] == extension_type("string", "S4", fallback=["r32"])
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
    array = omnizarr.open(
        stored(bytes.fromhex(value), 1, data_type=extension_type("string", type_), fill_value=""),
        "r+",
    )
    assert array.dtype == np.dtype(type_)
    assert array[0] == expected[0]
    array[0] = "b"
    array[0] = str(expected[0])
    assert array.store.values["data/c0"].hex() == value


# Complex numbers


@pytest.mark.shows("DX-46")
@pytest.mark.parametrize(
    ("type_", "name"), [("<c8", "complex64"), ("<c16", "complex128"), (">c8", "complex64")]
)
def test_complex_numbers_are_also_read_as_an_extension(type_: str, name: str) -> None:
    value = np.array([1 + 2j], type_)
    array = omnizarr.open(
        stored(value.tobytes(), 1, data_type=extension_type("complex", type_), fill_value=[0, 0])
    )
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
    codecs = {} if endian is None else {"codecs": [codec("endian", endian=endian)]}
    fields = {"data_type": extension_type(extension, type_), "fill_value": fill, **codecs}
    store = stored(expected.tobytes(), 1, **fields)
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
