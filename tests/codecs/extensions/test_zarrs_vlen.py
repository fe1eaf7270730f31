"""zarrs.vlen, zarrs.vlen_v2 and vlen-array, by the documentation of zarrs."""

from __future__ import annotations

import gzip
import itertools
import json
import struct
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from tests.codecs.extensions.damage import check_damaged
from tests.property.test_damaged_chunks import damaged

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
WORDS = ["", "a", "Größe", "漢字\U0001f600", "x" * 300, "end"]


def vlen(
    index: list[Any] | None = None,
    data: list[Any] | None = None,
    type_: str = "uint32",
    location: str | None = None,
    name: str = "zarrs.vlen",
) -> dict[str, Any]:
    members: dict[str, Any] = {
        "index_codecs": index or [LITTLE],
        "data_codecs": data or [{"name": "bytes"}],
        "index_data_type": type_,
    }
    if location is not None:
        members["index_location"] = location
    return {"name": name, "configuration": members}


def make(codec: Any, dtype: Any = str, after: tuple[Any, ...] = ()) -> dict[str, Any]:
    store: dict[str, Any] = {}
    oz.create_array(store, shape=(2, 3), chunks=(2, 3), dtype=dtype, codecs=[codec, *after])
    return store


def laid_out(items: list[bytes], code: str, location: str, index_end: str = "<") -> bytes:
    """Return a chunk as the documentation describes it."""
    offsets = [*itertools.accumulate(map(len, items), initial=0)]
    index = struct.pack(f"{index_end}{len(offsets)}{code}", *offsets)
    data, length = b"".join(items), struct.pack("<Q", len(index))
    return length + index + data if location == "start" else data + index + length


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("dtype", [str, bytes])
@pytest.mark.parametrize(("type_", "code"), [("uint32", "I"), ("uint64", "Q")])
@pytest.mark.parametrize("location", [None, "start", "end"])
def test_chunks_are_laid_out_as_documented(
    location: str | None, type_: str, code: str, dtype: Any, engine: str
) -> None:
    items = [word.encode() for word in WORDS]
    values = WORDS if dtype is str else items
    wanted = laid_out(items, code, location or "start")
    store = make(vlen(type_=type_, location=location), dtype)
    with oz.configure(engine=engine):
        oz.open(store, mode="r+")[...] = np.array(values, object).reshape(2, 3)
        assert store["c/0/0"] == wanted
        assert oz.open(store)[...].ravel().tolist() == values
        assert oz.open(store)[1, 1:].tolist() == values[4:]


def test_index_and_data_have_codecs_of_their_own() -> None:
    store = make(vlen([BIG, GZIP], [{"name": "bytes"}, GZIP], location="end"))
    array = oz.open(store, mode="r+")
    array[...] = np.array(WORDS, object).reshape(2, 3)
    size = int.from_bytes(store["c/0/0"][-8:], "little")
    index, data = store["c/0/0"][-8 - size : -8], store["c/0/0"][: -8 - size]
    whole = "".join(WORDS).encode()
    offsets = [*itertools.accumulate((len(w.encode()) for w in WORDS), initial=0)]
    assert list(struct.unpack(">7I", gzip.decompress(index))) == offsets
    assert gzip.decompress(data) == whole
    assert array[...].ravel().tolist() == WORDS


@pytest.mark.parametrize(
    "name", ["zarrs.vlen", "vlen", "https://codec.zarrs.dev/array_to_bytes/vlen"]
)
def test_the_names_of_all_versions_of_zarrs_are_read(name: str) -> None:
    store = make(vlen())
    document = json.loads(store["zarr.json"])
    document["codecs"][0]["name"] = name
    store["zarr.json"] = json.dumps(document).encode()
    store["c/0/0"] = laid_out([w.encode() for w in WORDS], "I", "start")
    assert oz.open(store)[...].ravel().tolist() == WORDS


NAMES = ["zarrs.vlen_v2", "vlen_v2", "https://codec.zarrs.dev/array_to_bytes/vlen_v2"]


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("name", [*NAMES, "vlen-array", "numcodecs.vlen-array"])
def test_the_others_are_laid_out_as_in_version_2(name: str, engine: str) -> None:
    items = [word.encode() for word in WORDS]
    for dtype, values in ((str, WORDS), (bytes, items)):
        store = make({"name": name}, dtype)
        with oz.configure(engine=engine):
            oz.open(store, mode="r+")[...] = np.array(values, object).reshape(2, 3)
            wanted = b"".join(struct.pack("<I", len(item)) + item for item in items)
            assert store["c/0/0"] == struct.pack("<I", 6) + wanted
            assert oz.open(store)[...].ravel().tolist() == values


def test_vlen_array_with_a_type_is_still_that_of_version_2() -> None:
    codec = numcodecs.VLenArray("<i4")
    array = oz.create_array({}, shape=2, dtype=object, filters=[codec], zarr_format=2)
    values = np.empty(2, object)
    values[:] = [np.array([1, 2, 3], "<i4"), np.array([], "<i4")]
    array[...] = values
    assert array[0].tolist() == [1, 2, 3]
    assert array[0].dtype == np.dtype("<i4")


@pytest.mark.parametrize(
    ("codec", "dtype", "message"),
    [
        (vlen(), "int32", "stores 'string' and 'bytes', not 'int32'"),
        ({"name": "zarrs.vlen_v2"}, "int32", "stores 'string' and 'bytes', not 'int32'"),
        ({"name": "vlen-array"}, "int32", "stores 'string' and 'bytes', not 'int32'"),
        ({"name": "zarrs.vlen"}, str, "index_codecs"),
        (vlen(type_="int8"), str, "index_data_type.*uint32 or uint64"),
        (vlen(location="middle"), str, "index_location.*start or end"),
        (vlen(index=[GZIP]), str, "index_codecs"),
        (vlen(data=[{"name": "vlen-utf8"}]), str, "vlen-utf8"),
        ({"name": "zarrs.vlen_v2", "configuration": {"level": 1}}, str, "level"),
    ],
)
def test_what_does_not_fit_is_refused(codec: Any, dtype: Any, message: str) -> None:
    with pytest.raises(oz.InvalidMetadata, match=message):
        oz.create_array({}, shape=4, dtype=dtype, codecs=[codec])


def packed(*offsets: int) -> bytes:
    return struct.pack("<Q7Q", 56, *offsets)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"\1\2\3", "fewer than the length of an index"),
        (struct.pack("<Q", 2**63), "does not fit into the chunk"),
        (struct.pack("<Q", 8) + bytes(8), "index"),
        (packed(0, 1, 2, 3, 4, 5, 2**50), "more than the limit"),
        (packed(0, 1, 2, 3, 4, 5, 6) + b"abc", "3 bytes, expected 6"),
        (packed(0, 3, 2, 3, 4, 5, 6) + b"abcdef", "do not rise"),
        (packed(0, 1, 2, 3, 4, 5, 6) + b"abc\xffef", "utf-8"),
    ],
)
def test_damaged_indexes_are_errors(stored: bytes, message: str) -> None:
    store = make(vlen(type_="uint64"))
    store["c/0/0"] = stored
    with pytest.raises(oz.ChunkError, match=message):
        oz.open(store, kind="array")[...]


@given(data=st.data(), codec=st.sampled_from([vlen(), vlen([LITTLE, GZIP], location="end")]))
def test_damaged_chunks_are_errors_or_have_the_right_shape(data: Any, codec: Any) -> None:
    store = make(codec)
    oz.open(store, mode="r+")[...] = np.array(WORDS, object).reshape(2, 3)
    check_damaged(store, "c/0/0", data.draw(damaged(store["c/0/0"])))
