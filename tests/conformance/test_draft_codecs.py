"""The codecs that accompany the draft: gzip, endian and blosc."""

from __future__ import annotations

import gzip
import itertools
import json
import struct
from typing import Any

import numcodecs
import numcodecs.blosc
import numpy as np
import pytest

import omnizarr
from omnizarr.errors import ChunkError, InvalidMetadata
from tests.conformance.draft_metadata import array, hierarchy, regular

URI = "https://purl.org/zarr/spec/codecs/{}/1.0"
BLOSC = {"cname": "lz4", "clevel": 1, "shuffle": 1, "blocksize": 0}  # the printed example


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"type": URI.format(name), "configuration": configuration}


def stored(
    codecs: list[Any] | None, value: bytes | None = None, data_type: str = "int32", size: int = 4
) -> dict[str, bytes]:
    """Return a hierarchy whose root is an array of one chunk with these codecs and this value."""
    fill = [0.0, 0.0] if data_type.startswith("complex") else 0
    fields: dict[str, Any] = {"shape": [size], "chunk_grid": regular(size), "fill_value": fill}
    if codecs is not None:
        fields["codecs"] = codecs
    store = hierarchy({"meta/array.json": array(data_type=data_type, **fields)})
    return store if value is None else {**store, "data/c0": value}


def created(data: Any, **options: Any) -> dict[str, bytes]:
    """Return the bytes that the library stores for `data` in one chunk."""
    store: dict[str, bytes] = {}
    omnizarr.create_array(store, data=data, chunks=False, zarr_format="3-draft", **options)
    return store


def codecs_in(store: dict[str, bytes]) -> Any:
    return json.loads(store["meta/array.json"]).get("codecs")


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


@pytest.mark.shows("DX-03")
@pytest.mark.parametrize("cuts", [[8], [4, 8, 12], [0], [16], [3, 3, 11]])
def test_several_gzip_members_are_read_as_one(cuts: list[int]) -> None:
    data = NUMBERS.tobytes()
    edges = [0, *cuts, len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    value = b"".join(gzip.compress(piece) for piece in pieces)
    opened = omnizarr.open(stored([codec("gzip", level=1)], value))
    np.testing.assert_array_equal(opened[...], NUMBERS)


WHOLE = gzip.compress(NUMBERS.tobytes())


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
    opened = omnizarr.open(stored([codec("gzip", level=1)], value))
    with pytest.raises(ChunkError, match=r"chunk \(0,\).*'data/c0'.*gzip") as caught:
        opened[...]
    assert caught.value.codec == "gzip"


@pytest.mark.shows("DX-04")
@pytest.mark.parametrize("plural", ["codec", "codecs"])
@pytest.mark.parametrize("version", ["", "/1.0"])
def test_every_spelling_of_the_gzip_uri_is_read(plural: str, version: str) -> None:
    uri = f"https://purl.org/zarr/spec/{plural}/gzip{version}"
    store = stored([{"type": uri, "configuration": {"level": 1}}], WHOLE)
    np.testing.assert_array_equal(omnizarr.open(store)[...], NUMBERS)
    omnizarr.open(store, "r+").attrs["touched"] = True
    assert codecs_in(store) == [codec("gzip", level=1)]  # written in the one right way


# endian


@pytest.mark.shows("DX-05", "DX-06")
@pytest.mark.parametrize(
    ("data_type", "endian", "value", "expected"),
    [
        ("int32", "big", "fffffffe", -2),
        ("int32", "little", "feffffff", -2),
        ("complex128", "big", "3ff00000000000004000000000000000", 1 + 2j),
        ("complex128", "little", "000000000000f03f0000000000000040", 1 + 2j),
        ("complex64", "big", "3f80000040000000", 1 + 2j),
        ("float16", "big", "3c00", 1.0),
        ("uint64", "big", "0000000000000102", 258),
        ("uint8", "big", "07", 7),
    ],
)
def test_items_are_stored_in_the_stated_byte_order(
    data_type: str, endian: str, value: str, expected: Any
) -> None:
    store = stored([codec("endian", endian=endian)], bytes.fromhex(value), data_type, size=1)
    opened = omnizarr.open(store, "r+")
    assert opened[0] == expected
    assert opened.dtype == np.dtype(data_type)
    del store["data/c0"]
    opened[0] = expected
    assert store["data/c0"].hex() == value


@pytest.mark.shows("DX-08")
@pytest.mark.parametrize("first", [codec("gzip", level=1), codec("blosc", **BLOSC)])
def test_endian_after_a_bytes_codec_is_refused(first: dict[str, Any]) -> None:
    store = stored([first, codec("endian", endian="big")], WHOLE)
    with pytest.raises(InvalidMetadata, match=r"codecs\[1\].*endian/1\.0' is array->bytes, but"):
        omnizarr.open(store, kind="array")
    twice = stored([codec("endian", endian="big"), codec("endian", endian="big")])
    with pytest.raises(InvalidMetadata, match=r"codecs\[1\].*is array->bytes, but codecs before"):
        omnizarr.open(twice, kind="array")


# blosc


@pytest.mark.shows("DX-09")
def test_the_printed_blosc_example_works() -> None:
    value = bytes(numcodecs.blosc.compress(NUMBERS.tobytes(), b"lz4", 1, 1, 0))
    store = stored([codec("blosc", **BLOSC)], value)
    np.testing.assert_array_equal(omnizarr.open(store)[...], NUMBERS)
    opened = omnizarr.open(store, "r+")
    opened[0] = 5
    opened.attrs["touched"] = True
    assert codecs_in(store) == [codec("blosc", **BLOSC)]
    assert omnizarr.open(store)[...].tolist() == [5, -2, 300, 70000]


@pytest.mark.shows("DX-09", "DX-11")
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("clevel", 10),
        ("clevel", -1),
        ("clevel", "1"),
        ("cname", "brotli"),
        ("cname", 1),
        ("blocksize", 1.5),
        ("shuffle", 3),
        ("shuffle", -2),
        ("shuffle", "shuffle"),
        ("shuffle", True),
        ("speed", 1),
    ],
)
def test_a_wrong_blosc_member_is_refused(member: str, value: Any) -> None:
    store = stored([codec("blosc", **{**BLOSC, member: value})])
    with pytest.raises(InvalidMetadata, match=rf"blosc.*configuration\.{member}"):
        omnizarr.open(store, kind="array")


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
