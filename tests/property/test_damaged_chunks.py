"""A damaged chunk is an error that names it, or gives values of the right shape."""

from __future__ import annotations

import warnings
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr
from omnizarr import ChunkError
from tests.property.strategies import FORMATS, described, named, values

CHECKED = (  # chains that end in a checksum over every stored byte; first those of new arrays
    None,
    [named("bytes", endian="little"), named("crc32c")],
    [named("bytes", endian="little"), named("gzip", level=1), named("crc32c")],
    [named("bytes", endian="little"), named("numcodecs.crc32")],
    [named("vlen-utf8"), named("crc32c")],
    [named("vlen-bytes"), named("zstd", level=1, checksum=True), named("crc32c")],
)


@st.composite
def damaged(draw: st.DrawFn, value: bytes) -> bytes:
    """Draw bytes that are truncated, extended or have flipped bits."""
    what = draw(st.sampled_from(("cut", "add", "flip", "flip", "replace")))
    if what == "cut" and value:
        return value[: draw(st.integers(0, len(value) - 1))]
    if what == "flip" and value:
        out = bytearray(value)
        places = st.integers(0, 8 * len(value) - 1)
        for bit in draw(st.sets(places, min_size=1, max_size=3)):
            out[bit // 8] ^= 1 << bit % 8
        return bytes(out)
    if what == "replace":
        other = draw(st.binary(max_size=40))
        return other if other != value else value + b"\0"
    return value + draw(st.binary(min_size=1, max_size=20))


def read(store: dict[str, bytes], path: str = "") -> Any:
    """Return all values, or the ChunkError; anything else fails the test."""
    array = omnizarr.open(store, path=path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return array[...]
    except ChunkError as e:
        error = e
    assert error.key in store
    assert repr(error.key) in str(error)
    return error


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_a_damaged_chunk_is_an_error_or_has_the_right_shape(
    format: int | str, data: st.DataObject
) -> None:
    array = data.draw(described(format, most=4, shards=True))
    store: dict[str, bytes] = {}
    with omnizarr.configure(write_empty_chunks=True):
        written = array.create(store)
        documents = set(store)
        written[...] = data.draw(values(array.dtype, array.shape))
    chunks = sorted(store.keys() - documents)
    if not chunks:
        assert 0 in array.shape
        return
    key = data.draw(st.sampled_from(chunks))
    store[key] = data.draw(damaged(store[key]))
    found = read(store)
    if isinstance(found, ChunkError):
        assert found.key == key
    else:
        assert np.shape(found) == array.shape
        assert array.shape == () or found.dtype == array.dtype


@pytest.mark.shows("V3-81")
@pytest.mark.parametrize("codecs", CHECKED, ids=lambda c: "+".join(x["name"] for x in c or ()))
@given(data=st.data())
def test_a_checksum_detects_all_damage(codecs: list[Any] | None, data: st.DataObject) -> None:
    kinds = {"vlen-utf8": str, "vlen-bytes": bytes}
    store: dict[str, bytes] = {}
    dtype = kinds.get(codecs[0]["name"] if codecs else "", "u4")
    array = omnizarr.create_array(store, shape=5, chunks=3, dtype=dtype, codecs=codecs)
    with omnizarr.configure(write_empty_chunks=True):
        array[...] = data.draw(values(array.dtype, (5,)))
    store["c/0"] = data.draw(damaged(store["c/0"]))
    found = read(store)
    assert isinstance(found, ChunkError)
    assert found.chunk == (0,)


OBJECT_CODECS = (numcodecs.JSON(), numcodecs.MsgPack(), numcodecs.VLenArray("<i4"))


@pytest.mark.parametrize("codec", OBJECT_CODECS, ids=lambda c: c.codec_id)
@given(data=st.data())
def test_a_damaged_chunk_of_objects_is_an_error_or_has_the_right_shape(
    codec: Any, data: st.DataObject
) -> None:
    store: dict[str, bytes] = {}
    options: dict[str, Any] = {"dtype": object, "filters": [codec], "compressors": None}
    array = omnizarr.create_array(store, shape=4, chunks=4, zarr_format=2, **options)
    items = np.empty(4, object)
    for i in range(4):
        items[i] = np.arange(i, dtype="<i4") if codec.codec_id == "vlen-array" else {"n": i}
    array[...] = items
    store["0"] = data.draw(damaged(store["0"]))
    found = read(store)
    assert isinstance(found, ChunkError) or found.shape == (4,)
