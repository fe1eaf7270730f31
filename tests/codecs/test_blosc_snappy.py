from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs import blosc
from omnizarr.engine import kernel


@pytest.mark.parametrize("tag", [0b01, 0b10, 0b11])
def test_copy_elements_of_all_widths_are_read_even_if_they_overlap(tag: int) -> None:
    wide = {1: 1, 2: 2, 3: 4}[tag]
    count = 9
    head = (count - 4 << 2 | tag) if tag == 1 else (count - 1 << 2 | tag)
    stream = bytes([2 + count, 1 << 2, 65, 66, head]) + (2).to_bytes(wide, "little")
    assert blosc.snappy_decompress(stream, 11) == b"ABABABABABA"


def test_long_literals_state_their_length_in_one_to_four_bytes() -> None:
    for wide in (1, 2, 3, 4):
        body = bytes(range(200))
        stream = b"\xc8\x01" + bytes([59 + wide << 2]) + (199).to_bytes(wide, "little") + body
        assert blosc.snappy_decompress(stream, 200) == body


@given(st.binary(max_size=60), st.integers(0, 100))
def test_damaged_streams_are_refused_and_never_longer_than_expected(data: bytes, n: int) -> None:
    found = None
    with contextlib.suppress(ValueError):
        found = blosc.snappy_decompress(data, n)
    assert found is None or len(found) == n


@pytest.mark.skipif(not kernel.available(), reason="only the kernel writes snappy")
@given(
    st.sampled_from(["u1", "<u2", "<f4", "<c16", "V300"]),
    st.sampled_from([0, 1, 2]),
    st.integers(0, 9),
    st.sampled_from([0, 100, 4096]),
    st.binary(max_size=40),
    st.integers(0, 400),
    st.integers(0, 3),
)
def test_both_engines_read_what_the_kernel_stores(
    dtype: str, shuffle: int, clevel: int, blocksize: int, text: bytes, times: int, noise: int
) -> None:
    count = len(text) * times // np.dtype(dtype).itemsize
    size = count * np.dtype(dtype).itemsize
    steps = np.random.default_rng(size).integers(0, 1 + noise, size)
    values = (np.frombuffer(text * times, "u1")[:size] + np.cumsum(steps)).astype("u1").view(dtype)
    options = {"cname": "snappy", "clevel": clevel, "shuffle": shuffle, "blocksize": blocksize}
    array = oz.create_array(
        {},
        data=values,
        chunks=(max(1, count),),
        zarr_format=2,
        fill_value=None,
        compressors={"id": "blosc", **options},
        filters=None,
    )
    assert array[...].tobytes() == values.tobytes()
    with oz.configure(engine="reference"):
        assert array[...].tobytes() == values.tobytes()


def test_the_reference_engine_refuses_to_write_it() -> None:
    compressor = {"id": "blosc", "cname": "snappy"}
    with oz.configure(engine="reference"), pytest.raises(oz.OmnizarrError, match="another cname"):
        oz.create_array({}, data=[1, 2], zarr_format=2, compressors=compressor)


def test_a_stream_that_snappy_made_longer_is_read() -> None:
    values = np.random.default_rng(0).integers(0, 256, 1000).astype("u1")
    stream = b"\xe8\x07" + bytes((61 << 2, 999 & 255, 999 >> 8)) + values.tobytes()
    sizes = blosc._HEADER.pack(
        2, 1, blosc._UNSPLIT | blosc._SNAPPY, 1, 1000, 1000, 24 + len(stream)
    )
    store: dict[str, bytes] = {}
    compressor = {"id": "blosc", "cname": "snappy"}
    array = oz.create_array(
        store, shape=1000, dtype="u1", zarr_format=2, compressors=compressor, chunks=1000
    )
    store["0"] = sizes + blosc._WORD.pack(20) + blosc._WORD.pack(len(stream)) + stream
    assert array[...].tolist() == values.tolist()
