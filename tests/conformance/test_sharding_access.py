"""sharding_indexed: store requests, partial writes, and combination with other codecs."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.shards import (
    GZIP,
    MISSING,
    CountingStore,
    checked,
    index_of,
    pack,
    raw,
    sharded,
    sharding,
)

TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
LOCATIONS = pytest.mark.parametrize("location", ["start", "end"])


@pytest.fixture(autouse=True, params=["auto", "reference"])
def _engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test on both engines."""
    with oz.configure(engine=request.param):
        yield


def counted(shape: Any, shard: Any, *codecs: Any, data: Any = None) -> tuple[oz.Array, Any]:
    """Return a filled uint8 array in a counting store, with no requests counted yet."""
    store = CountingStore(sharded(shape, shard, *codecs))
    array = oz.open(store, "r+")
    if data is not None:
        array[...] = data
    store.taken()
    return array, store


def bytes_data(*shape: int) -> Any:
    """Return random bytes, none of them the fill value of `sharded`."""
    return np.random.default_rng(3).integers(10, 255, shape, "u1")


# Requests


@pytest.mark.shows("SH-21", "V3-68")
@LOCATIONS
@pytest.mark.parametrize("codecs", [[], [TRANSPOSE]], ids=["plain", "transposed"])
def test_one_inner_chunk_takes_a_request_for_the_index_and_one_for_the_chunk(
    location: str, codecs: list[Any]
) -> None:
    data = bytes_data(64, 64)
    codec = sharding(32, 16, index_location=location)
    array, store = counted([64, 64], [64, 64], *codecs, codec, data=data)
    assert np.array_equal(array[33:35, 1:3], data[33:35, 1:3])
    assert store.taken() == [("part", "c/0/0", 16 * 8 + 4), ("part", "c/0/0", 32 * 16)]
    assert array[63, 63] == data[63, 63]
    assert [size for _, _, size in store.taken()] == [132, 512]


@pytest.mark.shows("SH-21")
@LOCATIONS
def test_an_inner_chunk_that_is_missing_takes_one_request(location: str) -> None:
    array, store = counted([8], [8], sharding(2, index_location=location))
    array[:2] = 1
    store.taken()
    assert array[5] == 9
    assert store.taken() == [("part", "c/0", 68)]
    del store.values["c/0"]
    assert array[5] == 9  # now the metadata, too: the array may have been erased
    taken = [each for each in store.taken() if each[1] != "zarr.json"]
    assert {*taken} == {("part", "c/0", 0)}
    assert array[5] == 9
    assert [each[:2] for each in store.taken()] == [("part", "c/0"), ("get", "zarr.json")]


@pytest.mark.shows("SH-22")
@LOCATIONS
def test_a_whole_shard_takes_one_request(location: str) -> None:
    data = bytes_data(64, 32)
    array, store = counted([64, 32], [32, 32], sharding(16, 8, index_location=location), data=data)
    size = 32 * 32 + 16 * 8 + 4
    assert np.array_equal(array[...], data)
    assert sorted(store.taken()) == [("get", "c/0/0", size), ("get", "c/1/0", size)]
    assert np.array_equal(array[1:31:3, ::7], data[1:31:3, ::7])
    assert store.taken() == [("get", "c/0/0", size)]


@pytest.mark.shows("SH-24")
@LOCATIONS
@pytest.mark.parametrize("value", [1, 9], ids=["data", "fill"])
def test_writing_a_whole_shard_reads_nothing(location: str, value: int) -> None:
    array, store = counted([6, 4], [4, 4], sharding(2, 2, index_location=location), data=3)
    array[:4] = value
    written = ("set", "c/0/0", 16 + 68) if value == 1 else ("erase", "c/0/0", 0)
    assert store.taken() == [written]
    array[4:] = 1  # all that the array has of the border shard
    assert store.taken() == [("set", "c/1/0", 8 + 68)]
    assert (array[:4] == value).all()
    assert (array[4:] == 1).all()


# Writing


@pytest.mark.shows("SH-23")
@LOCATIONS
@pytest.mark.parametrize("before", [[], [TRANSPOSE]], ids=["plain", "transposed"])
def test_writing_one_inner_chunk_keeps_the_bytes_of_the_others(
    location: str, before: list[Any]
) -> None:
    # A stream by another writer: encoding it again would give other bytes.
    pieces = {n: gzip.compress(bytes([n + 1] * 4), 9, mtime=7) for n in range(4)}
    codec = sharding(2, 2, codecs=[raw(), GZIP], index_location=location)
    store = sharded([4, 4], [4, 4], *before, codec)
    store["c/0/0"] = pack(pieces, 4, location=location)
    array = oz.open(store, "r+")
    expected = array[...]
    at = (slice(2, 4), slice(0, 2))
    array[at] = [[5, 6], [7, 8]]
    expected[at] = [[5, 6], [7, 8]]
    assert np.array_equal(array[...], expected)
    shard, changed = store["c/0/0"], 1 if before else 2
    for number, (offset, length) in enumerate(index_of(shard, 4, location)):
        same = shard[offset : offset + length] == pieces[number]
        assert same == (number != changed)


@pytest.mark.shows("SH-27")
def test_inner_chunks_of_fill_values_are_not_stored() -> None:
    store = sharded([4], [4], sharding(2))
    array = oz.open(store, "r+")
    array[...] = [1, 2, 9, 9]
    assert index_of(store["c/0"], 2) == [(0, 2), (MISSING, MISSING)]
    array[2:] = 3
    array[1] = array[0] = 9
    assert index_of(store["c/0"], 2) == [(MISSING, MISSING), (0, 2)]
    array[2:] = 9
    assert sorted(store) == ["zarr.json"]
    array[...] = 9
    assert sorted(store) == ["zarr.json"]


@pytest.mark.shows("SH-27")
def test_inner_chunks_of_fill_values_are_stored_on_request() -> None:
    store = sharded([4], [4], sharding(2))
    array = oz.open(store, "r+")
    with oz.configure(write_empty_chunks=True):
        array[...] = 9
        assert index_of(store["c/0"], 2) == [(0, 2), (2, 2)]
        for empty in (np.s_[:2], np.s_[1]):  # all of an inner chunk, and what is left of one
            array[...] = [9, 2, 3, 4]
            array[empty] = 9
            assert store["c/0"] == bytes([9, 9, 3, 4]) + checked([[0, 2], [2, 2]])
    assert array[...].tolist() == [9, 9, 3, 4]


# Other codecs around it


@pytest.mark.shows("SH-28", "SH-31")
def test_after_a_transpose_the_inner_shape_is_in_the_transposed_order() -> None:
    data = bytes_data(4, 6)
    array, store = counted([4, 6], [4, 6], TRANSPOSE, sharding(3, 2), data=data)
    shard = store.values["c/0/0"]
    assert shard[:6] == data[:2, :3].T.tobytes()  # inner chunk (0, 0): 3 columns of 2 rows
    assert shard[6:12] == data[2:, :3].T.tobytes()  # (0, 1): the other rows
    assert np.array_equal(array[...], data)
    assert (array.chunks, array.shards) == ((2, 3), (4, 6))
    assert "(2, 3) in shards (4, 6)" in repr(array)
    for wrong in ([2, 3], [4, 6]):
        with pytest.raises(oz.InvalidMetadata, match="chunk_shape"):
            oz.open(sharded([4, 6], [4, 6], TRANSPOSE, sharding(*wrong)), kind="array")


@pytest.mark.shows("SH-28")
def test_a_filter_before_shards_sees_the_whole_shard() -> None:
    """A4: a filter gets the fill value for missing inner chunks, as in zarr-python."""
    delta = {"name": "numcodecs.delta", "configuration": {"dtype": "|u1"}}
    array, store = counted([8], [8], delta, sharding(2), data=[20, 21, 22, 23, 32, 41, 41, 42])
    # The third inner chunk holds differences of 9, and that is what a missing one holds.
    expected = pack({0: b"\x14\1", 1: b"\1\1", 3: b"\0\1"}, 4)
    assert store.values["c/0"] == expected
    assert array[4:6].tolist() == [32, 41]
    array[5] = 99
    assert array[...].tolist() == [20, 21, 22, 23, 32, 99, 41, 42]


@pytest.mark.shows("SH-29")
@pytest.mark.parametrize("size", [512, 2**17])
def test_a_foreign_file_that_ends_in_an_index_is_a_shard(size: int) -> None:
    store = sharded([8], [8], sharding(2))
    header = b"\x89HDF\r\n\x1a\n".ljust(size, b"\0")
    pieces = {3: b"\7\1", 0: b"\1\2", 1: b"\3\4"}
    store["c/0"] = pack(pieces, 4, head=header, gap=b"node")
    array = oz.open(store)
    assert array[...].tolist() == [1, 2, 3, 4, 9, 9, 7, 1]
    assert array[6] == 7
