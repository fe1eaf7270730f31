"""Parts of Blosc chunks are read by block from a remote store."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs import blosc
from omnizarr.stores import Range

SHAPE = (64, 96, 70)


class Far:
    """A store that counts the bytes it returns."""

    read_only = False

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.handed = 0
        self.whole = 0

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        value = self.values.get(key)
        part = value if value is None or range is None else range.of(value)
        self.handed += len(part or b"")
        self.whole += range is None and value is not None
        return part

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        return [self.get(key, range) for key, range in requests]

    def set(self, key: str, value: Any) -> None:
        self.values[key] = bytes(value)

    def erase(self, key: str) -> None:
        self.values.pop(key, None)


def made(data: Any, **options: Any) -> tuple[Far, oz.Array]:
    """Return an array of one chunk in such a store."""
    store = Far()
    codec = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0, **options}
    array = oz.create_array(
        store,
        shape=data.shape,
        chunks=data.shape,
        dtype=data.dtype,
        zarr_format=2,
        compressors=codec,
    )
    array[...] = data
    store.handed = store.whole = 0
    return store, array


def smooth(dtype: str = "u2") -> Any:
    noise = np.random.default_rng(0).integers(0, 16, SHAPE)
    return (np.arange(noise.size).reshape(SHAPE) // 7 % 5000 + noise).astype(dtype)


PARTS = st.tuples(
    *(
        st.integers(0, n - 1).flatmap(
            lambda a, n=n: st.tuples(
                st.just(a), st.integers(a + 1, min(n, a + 9)), st.integers(1, 3)
            )
        )
        for n in SHAPE
    )
)


@settings(max_examples=40, deadline=None)
@given(
    PARTS,
    st.sampled_from(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]),
    st.integers(0, 2),
    st.sampled_from([0, 4096, 10_000, 65_536]),
    st.sampled_from(["u1", "u2", "f4", "f8"]),
)
def test_a_part_of_a_chunk_agrees_with_numpy(
    parts: Any, cname: str, shuffle: int, blocksize: int, dtype: str
) -> None:
    data = smooth(dtype)
    _, array = made(data, cname=cname, shuffle=shuffle, blocksize=blocksize)
    box = tuple(slice(*p) for p in parts)
    np.testing.assert_array_equal(array[box], data[box])
    np.testing.assert_array_equal(array[-1, -1], data[-1, -1])  # the last block is a short one


@pytest.mark.shows("V3-68")
def test_a_small_part_fetches_few_bytes() -> None:
    store, array = made(smooth(), blocksize=8192)
    size = len(store.values["0.0.0"])
    array[3, 4:9]
    assert store.whole == 0
    assert store.handed < size / 8


def test_most_of_a_chunk_is_read_in_one_request() -> None:
    store, array = made(smooth(), blocksize=8192)
    array[5:]
    assert store.whole == 1


def test_incompressible_values_are_read_in_part() -> None:
    data = np.random.default_rng(0).integers(0, 2**16, SHAPE, "u2")
    store, array = made(data, clevel=1, shuffle=0)
    assert store.values["0.0.0"][2] & 2  # stored as they are
    np.testing.assert_array_equal(array[60:, 90:, 3:60:2], data[60:, 90:, 3:60:2])
    assert store.whole == 0
    assert store.handed < data.nbytes / 2


def test_a_block_table_longer_than_the_first_request_is_fetched() -> None:
    data = np.arange(400_000, dtype="f8").reshape(100, 4000)
    store, array = made(data, blocksize=128)
    count = -(-data.nbytes // int.from_bytes(store.values["0.0"][8:12], "little"))
    assert 16 + 4 * count > blosc.FIRST
    np.testing.assert_array_equal(array[7:9, 5:50], data[7:9, 5:50])
    assert store.whole == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_transposed_chunks_are_read_in_part(order: str) -> None:
    data = smooth()
    store = Far()
    array = oz.create_array(
        store,
        shape=SHAPE,
        chunks=SHAPE,
        dtype="u2",
        zarr_format=2,
        order=order,
        compressors={"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 8192},
    )
    array[...] = data
    store.whole = 0
    np.testing.assert_array_equal(array[1:3, 4:6, 60:], data[1:3, 4:6, 60:])
    assert store.whole == 0


def test_inner_chunks_of_shards_are_read_in_part() -> None:
    data = np.stack([smooth(), smooth() + 1])
    store = Far()
    array = oz.create_array(
        store, shape=data.shape, chunks=(1, *SHAPE), shards=data.shape, dtype="u2",
        compressors={"name": "blosc", "configuration": {
            "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 8192}},
    )  # fmt: skip
    array[...] = data
    store.handed = store.whole = 0
    np.testing.assert_array_equal(array[1, 3, 4:9], data[1, 3, 4:9])
    assert store.whole == 0
    assert store.handed < len(store.values["c/0/0/0/0"]) / 4


def test_a_checksum_needs_the_whole_chunk() -> None:
    data = smooth()
    store = Far()
    array = oz.create_array(store, shape=SHAPE, chunks=SHAPE, dtype="u2")  # with crc32c
    array[...] = data
    store.whole = 0
    np.testing.assert_array_equal(array[3, 4:9], data[3, 4:9])
    assert store.whole == 1


def test_a_value_replaced_during_a_read_is_read_again() -> None:
    old, new = smooth(), smooth()[::-1].copy()
    store, array = made(old, blocksize=8192)
    other, _ = made(new, blocksize=8192, cname="zlib")
    real, calls = store.get_many, itertools.count()

    def replace_after_the_first(requests: Any) -> Any:
        answers = real(requests)
        if next(calls) == 0:
            store.values["0.0.0"] = other.values["0.0.0"]
        return answers

    store.get_many = replace_after_the_first  # type: ignore[method-assign]
    np.testing.assert_array_equal(array[3, 4:9], new[3, 4:9])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda v: v[:10],
        lambda v: v[:2000],
        lambda v: v[: len(v) // 2],
        lambda v: v[:4] + (7).to_bytes(4, "little") + v[8:],
        lambda v: v[:8] + bytes(4) + v[12:],
        lambda v: v[:8] + (2**31).to_bytes(4, "little") + v[12:],
        lambda v: v[:16] + bytes(4000) + v[4016:],
        lambda v: v[:16] + b"\xff" * 4000 + v[4016:],
        lambda v: v[:2000] + bytes(len(v) - 2000),
    ],
)
def test_damage_is_an_error(spoil: Any) -> None:
    store, array = made(smooth(), blocksize=8192)
    store.values["0.0.0"] = spoil(store.values["0.0.0"])
    with pytest.raises(oz.ChunkError, match=r"0\.0\.0"):
        array[-1, -5:]
