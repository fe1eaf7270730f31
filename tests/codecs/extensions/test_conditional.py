"""conditional: a header in every chunk says which codecs were applied."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs.extensions.conditional import Conditional
from tests.codecs.extensions.damage import check_damaged
from tests.property.test_damaged_chunks import damaged

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
ZLIB = {"name": "numcodecs.zlib", "configuration": {"level": 1}}
SHUFFLE = {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}
CRC = {"name": "crc32c"}
NOISE = np.random.default_rng(5).integers(0, 2**32, 64, "u4")


def conditional(*codecs: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"name": "conditional", "configuration": {"codecs": list(codecs), **members}}


def make(store: dict[str, Any], *codecs: dict[str, Any], **members: Any) -> oz.Array:
    listed = [BYTES, conditional(*codecs, **members)]
    return oz.create_array(store, shape=64, chunks=64, dtype="u4", codecs=listed)


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("mask", range(4))
@pytest.mark.parametrize("header_bits", [None, 8, 24])
def test_chunks_are_read_as_their_header_says(
    mask: int, header_bits: int | None, engine: str
) -> None:
    store: dict[str, Any] = {}
    members = {} if header_bits is None else {"header_bits": header_bits}
    make(store, GZIP, ZLIB, **members)
    values = np.arange(64, dtype="<u4")
    data = values.tobytes()
    for bit, encode in ((1, gzip.compress), (2, zlib.compress)):
        data = encode(data) if mask & bit else data
    store["c/0"] = mask.to_bytes((header_bits or 8) // 8, "little") + data
    with oz.configure(engine=engine):
        assert (oz.open(store)[...] == values).all()
        assert (oz.open(store)[3:9] == values[3:9]).all()


def test_nine_codecs_have_a_header_of_two_bytes_with_the_first_codec_lowest() -> None:
    store: dict[str, Any] = {}
    array = make(store, *[CRC] * 8, GZIP)
    array[...] = NOISE
    assert store["c/0"][:2] == b"\xff\x00"
    array[...] = 7
    assert store["c/0"][:2] == b"\xff\x01"
    assert (array[...] == 7).all()


def test_by_default_a_chunk_is_compressed_only_if_that_makes_it_smaller() -> None:
    store: dict[str, Any] = {}
    array = make(store, GZIP)
    array[...] = NOISE
    assert store["c/0"] == b"\0" + NOISE.astype("<u4").tobytes()
    array[...] = 7
    assert store["c/0"][:1] == b"\1"
    assert len(store["c/0"]) < 64


def test_bytes_are_rearranged_only_for_a_codec_that_compresses() -> None:
    store: dict[str, Any] = {}
    array = make(store, SHUFFLE, GZIP, CRC)
    array[...] = NOISE
    assert store["c/0"][0] == 0b100  # a checksum is no attempt to compress
    assert store["c/0"][1:-4] == NOISE.astype("<u4").tobytes()
    array[...] = np.arange(64)
    assert store["c/0"][0] == 0b111
    assert (array[...] == np.arange(64)).all()


@given(
    values=st.lists(st.integers(0, 300), min_size=64, max_size=64),
    first=st.sampled_from([[], [SHUFFLE]]),
    others=st.lists(st.sampled_from([GZIP, ZLIB, CRC]), max_size=4),
    room=st.sampled_from([{}, {"header_bits": 8}, {"header_bits": 40}]),
)
def test_values_come_back_whatever_is_applied(
    values: list[int], first: list[Any], others: list[Any], room: dict[str, int]
) -> None:
    codecs = [*first, *others]
    store: dict[str, Any] = {}
    array = make(store, *codecs, **room)
    with oz.configure(write_empty_chunks=True):
        array[...] = values
    header = room.get("header_bits", 8 if codecs else 0) // 8
    assert len(store["c/0"]) <= header + 256 + 4 * codecs.count(CRC)
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine):
            assert oz.open(store)[...].tolist() == values


def test_the_object_and_its_metadata_agree() -> None:
    codec = Conditional(codecs=("gzip",), header_bits=16)  # type: ignore[arg-type]  # as users may
    store: dict[str, Any] = {}
    oz.create_array(store, data=np.arange(9), compressors=[codec])
    stated = json.loads(store["zarr.json"])["codecs"][-1]
    assert stated == conditional({"name": "gzip", "configuration": {"level": 5}}, header_bits=16)
    assert (oz.open(store)[...] == np.arange(9)).all()


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        (conditional(GZIP, header_bits=12), "header_bits.*multiple of 8"),
        (conditional(*[CRC] * 9, header_bits=8), "header_bits.*9 codecs"),
        (conditional(GZIP, header_bits=2**30), "header_bits"),
        (conditional(BYTES), r"codecs\[0\].*array->bytes"),
        (conditional({"name": "gzip", "configuration": {"level": 99}}), r"codecs\[0\].*level"),
        ({"name": "conditional", "configuration": {"codecs": 3}}, "expected a list"),
        ({"name": "conditional"}, "codecs"),
        (conditional(GZIP, mask=1), "mask"),
    ],
)
def test_wrong_configurations_are_refused_with_their_place(codec: Any, message: str) -> None:
    with pytest.raises(oz.InvalidMetadata, match=message):
        oz.create_array({}, shape=4, dtype="u1", codecs=[BYTES, codec])


def test_an_unknown_codec_inside_is_named() -> None:
    with pytest.raises(oz.UnknownExtension, match="unknown codec 'lz5'"):
        oz.create_array({}, shape=4, dtype="u1", codecs=[BYTES, conditional({"name": "lz5"})])


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "fewer than the header"),
        (b"\x02" + bytes(256), "codec 2 of a list of 1"),
        (b"\x00" + bytes(255), "255 bytes after the header, expected 256"),
        (b"\x01" + bytes(256), "gzip"),
        (b"\x01" + gzip.compress(bytes(257), mtime=0), "256"),
    ],
)
def test_damaged_headers_and_data_are_errors(stored: bytes, message: str) -> None:
    store: dict[str, Any] = {}
    make(store, GZIP)
    store["c/0"] = stored
    with pytest.raises(oz.ChunkError, match=message):
        oz.open(store, kind="array")[...]


@given(data=st.data())
def test_damaged_chunks_are_errors_or_have_the_right_shape(data: Any) -> None:
    store: dict[str, Any] = {}
    make(store, SHUFFLE, GZIP, ZLIB)[...] = np.arange(64)
    check_damaged(store, "c/0", data.draw(damaged(store["c/0"])))
