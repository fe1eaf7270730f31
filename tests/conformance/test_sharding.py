"""sharding_indexed: its configuration, the bytes of a shard, requests, and partial writes."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import ChunkError, InvalidArgument, InvalidMetadata, OmnizarrWarning
from tests.conformance.shards import (
    CRC32C,
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
from tests.conformance.v3_metadata import stored

TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
_LZ4 = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
BLOSC = {"name": "blosc", "configuration": _LZ4}
ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
# A uint8 shard of 4 in inner chunks of 2, of which only the first is stored: [1, 2].
AT_END = "0102 0000000000000000 0200000000000000" + 16 * "ff" + "bd13bd56"
AT_START = "2400000000000000 0200000000000000" + 16 * "ff" + "2609790d 0102"


@pytest.fixture(autouse=True, params=["auto", "reference"])
def _engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test on both engines."""
    with oz.configure(engine=request.param):
        yield


def numbers(*shape: int, dtype: str = "u2") -> Any:
    """Return different values, none of them the fill value of `sharded`."""
    return (np.arange(np.prod(shape)) + 10).astype(dtype).reshape(shape)


def is_refused(codecs: list[Any], *words: str, shard: tuple[int, ...] = (64, 64)) -> None:
    """Check that codecs are refused on opening and on creation, with this message."""
    pattern = ".*".join(map(re.escape, words))
    with pytest.raises(InvalidMetadata, match=pattern):
        oz.open(sharded(shard, shard, *codecs), kind="array")
    store: dict[str, bytes] = {}
    with pytest.raises((InvalidArgument, InvalidMetadata), match=pattern):
        oz.create_array(store, shape=shard, chunks=shard, dtype="u1", codecs=codecs)
    assert store == {}


def is_kept(codecs: list[Any], shape: tuple[int, ...] = (64, 64), dtype: str = "<u2") -> oz.Array:
    """Return an array of one shard with these codecs after a round trip."""
    store: dict[str, bytes] = {}
    data = numbers(*shape, dtype=dtype)
    oz.create_array(store, data=data, chunks=shape, codecs=codecs)
    array = oz.open(store)
    assert np.array_equal(array[...], data)
    assert sorted(store) == ["/".join("c" + "0" * len(shape)), "zarr.json"]
    return array


# Configuration


@pytest.mark.shows("SH-01")
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("other", [raw(), sharding(32, 32)], ids=["bytes", "itself"])
def test_sharding_is_the_one_array_to_bytes_codec_of_its_chain(at: int, other: Any) -> None:
    codecs = [other]
    codecs.insert(at, sharding(32, 32))
    is_refused(codecs, "codecs[1]", codecs[1]["name"], "codecs before it made bytes")
    assert is_kept([sharding(32, 32)]).codecs[0].name == "sharding_indexed"


@pytest.mark.shows("SH-02")
@pytest.mark.parametrize(
    ("chunks", "count"), [((32, 2), 64), ((64, 64), 1), ((1, 64), 64), ((32, 32), 4)]
)
def test_the_inner_shape_determines_the_number_of_inner_chunks(
    chunks: tuple[int, int], count: int
) -> None:
    array = is_kept([sharding(*chunks)], dtype="u1")
    shard = array.store.get("c/0/0")
    assert shard is not None
    assert len(shard) == 64 * 64 + 16 * count + 4
    assert {length for _, length in index_of(shard, count)} == {64 * 64 // count}
    assert (array.shards, array.chunks) == ((64, 64), chunks)


@pytest.mark.shows("SH-02")
@pytest.mark.parametrize(
    "chunks", [[30, 32], [32], [32, 32, 1], [0, 32], [128, 64], [32, -1], [32.0, 32], "32", None]
)
def test_an_inner_shape_that_does_not_divide_the_shard_is_refused(chunks: Any) -> None:
    is_refused([sharding(chunk_shape=chunks)], "codecs[0].configuration.chunk_shape")


@pytest.mark.shows("SH-03", "SH-04")
@pytest.mark.parametrize("member", ["codecs", "index_codecs"])
@pytest.mark.parametrize(
    "codecs",
    [
        *([], [GZIP], [CRC32C], [raw(), raw()], [GZIP, raw()], "bytes", None, [3], [{}]),
        *([{"name": "bytes", "configuration": given}] for given in (3, None, [1], "x")),
    ],
)
def test_both_lists_need_exactly_one_array_to_bytes_codec(member: str, codecs: Any) -> None:
    is_refused([sharding(32, 32, **{member: codecs})], "codecs[0]", f"configuration.{member}")


@pytest.mark.shows("SH-03")
@pytest.mark.parametrize(
    "codecs",
    [
        [raw("big")],
        [raw(), GZIP, CRC32C],
        [TRANSPOSE, raw(), BLOSC],
        [sharding(16, 32)],
        [TRANSPOSE, sharding(8, 16, codecs=[TRANSPOSE, sharding(4, 8), GZIP])],
    ],
    ids=["big", "gzip", "transpose-blosc", "nested", "nested-twice"],
)
def test_inner_chunks_may_have_any_codecs(codecs: list[Any]) -> None:
    is_kept([sharding(32, 32, codecs=codecs)])


@pytest.mark.shows("SH-04")
@pytest.mark.parametrize(
    "codecs",
    [
        [raw(), CRC32C],
        [raw("big")],
        [raw(), CRC32C, CRC32C],
        [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, raw(), CRC32C],
    ],
    ids=["usual", "big", "two checksums", "transposed"],
)
def test_the_index_may_have_any_codecs_of_fixed_size(codecs: list[Any]) -> None:
    is_kept([sharding(16, 32, index_codecs=codecs)])


@pytest.mark.shows("SH-05")
@pytest.mark.parametrize("codec", [GZIP, BLOSC, ZSTD, sharding(2, 2, 2)], ids=lambda c: c["name"])
def test_an_index_of_variable_size_is_refused(codec: Any) -> None:
    codecs = [codec] if codec["name"] == "sharding_indexed" else [raw(), codec]
    is_refused([sharding(32, 32, index_codecs=codecs)], "configuration.index_codecs", "fixed size")


@pytest.mark.shows("SH-06", "SH-09", "SH-30")
def test_a_new_array_has_a_little_endian_index_with_checksum_at_the_end() -> None:
    for write_empty in (False, True):
        store: dict[str, bytes] = {}
        with oz.configure(write_empty_chunks=write_empty):
            array = oz.create_array(
                store, shape=8, dtype="i4", chunks=2, shards=4, compressors=None
            )
            array[1:5] = 1
        lists = {"codecs": [raw()], "index_codecs": [raw(), CRC32C]}
        configuration = {"chunk_shape": [2], **lists, "index_location": "end"}
        stated = {"name": "sharding_indexed", "configuration": configuration}
        assert stored(store)["codecs"] == [stated]


@pytest.mark.shows("SH-07")
def test_the_index_is_at_the_end_unless_the_metadata_says_start() -> None:
    for location, shard in ((..., AT_END), ("end", AT_END), ("start", AT_START)):
        store = sharded([4], [4], sharding(2, index_location=location))
        store["c/0"] = bytes.fromhex(shard)
        assert oz.open(store)[...].tolist() == [1, 2, 9, 9]
    for location in ("middle", "", None, 0):
        is_refused([sharding(32, 32, index_location=location)], "configuration.index_location")


@pytest.mark.shows("SH-08")
def test_the_printed_configuration_works() -> None:
    codec = sharding(32, 32, codecs=[raw(), GZIP], index_location="end")
    array = is_kept([codec])
    assert stored(array.store.values)["codecs"] == [codec]


@pytest.mark.shows("SH-30")
def test_short_forms_are_read_in_both_lists_and_written_as_objects() -> None:
    for location in ("start", "end"):
        short = {"codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}
        store = sharded([4], [4], sharding(2, index_location=location, **short))
        store["c/0"] = pack({0: b"\1\2"}, 2, location=location)
        with pytest.warns(OmnizarrWarning, match="'bytes' without 'endian'"):
            array = oz.open(store, "r+")
        assert array[...].tolist() == [1, 2, 9, 9]
        with pytest.warns(OmnizarrWarning, match="'bytes' without 'endian'"):
            array.attrs["seen"] = True
        assert stored(store)["codecs"] == [
            sharding(2, codecs=[{"name": "bytes"}], index_location=location)
        ]


# Bytes


@pytest.mark.shows("SH-11", "SH-12")
@pytest.mark.parametrize(("side", "size"), [(128, 260), (64, 68)])
def test_the_index_has_offset_and_length_of_every_inner_chunk_in_c_order(
    side: int, size: int
) -> None:
    store: dict[str, bytes] = {}
    data = np.random.default_rng(1).integers(1, 255, (side, side), "u1")
    oz.create_array(store, data=data, chunks=(side, side), codecs=[sharding(32, 32)])
    shard = store["c/0/0"]
    assert len(shard) == side * side + size
    index = np.array(index_of(shard, (side // 32) ** 2)).reshape(side // 32, side // 32, 2)
    for row, column in np.ndindex(index.shape[:2]):
        offset, length = index[row, column].tolist()
        piece = np.frombuffer(shard[offset : offset + length], "u1").reshape(32, 32)
        assert np.array_equal(piece, data[32 * row :, 32 * column :][:32, :32])


@pytest.mark.shows("SH-13", "SH-14", "SH-15")
@pytest.mark.parametrize(("location", "shard"), [("end", AT_END), ("start", AT_START)])
def test_a_shard_with_one_of_two_inner_chunks_has_these_bytes(location: str, shard: str) -> None:
    store = sharded([4], [4], sharding(2, index_location=location))
    oz.open(store, "r+")[:2] = [1, 2]
    assert store["c/0"] == bytes.fromhex(shard)
    assert oz.open(store)[...].tolist() == [1, 2, 9, 9]
    assert index_of(store["c/0"], 2, location)[1] == (MISSING, MISSING)


@pytest.mark.shows("SH-16")
def test_the_index_covers_inner_chunks_beyond_the_array() -> None:
    store = sharded([70, 64], [64, 64], sharding(32, 32))
    array = oz.open(store, "r+")
    array[...] = numbers(70, 64, dtype="u1") | 128
    assert np.array_equal(array[...], numbers(70, 64, dtype="u1") | 128)
    shard = store["c/1/0"]
    assert len(shard) == 2 * 32 * 32 + 68
    assert index_of(shard, 4) == [(0, 1024), (1024, 1024), (MISSING, MISSING), (MISSING, MISSING)]


@pytest.mark.shows("SH-17")
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize(
    "gap", [b"", b"\xee" * 5, checked([[0, 2], [MISSING] * 2])], ids=["dense", "gaps", "dead index"]
)
def test_inner_chunks_can_be_in_any_order_with_unused_space(
    location: str, order: tuple[int, ...], gap: bytes
) -> None:
    store = sharded([8], [8], sharding(2, index_location=location))
    pieces = {0: b"\1\2", 1: b"\3\4", 2: b"\5\6"}
    store["c/0"] = pack(pieces, 4, location=location, gap=gap, order=order)
    array = oz.open(store, "r+")
    assert array[...].tolist() == [1, 2, 3, 4, 5, 6, 9, 9]
    assert array[3:6:2].tolist() == [4, 6]
    array[3] = 7
    assert array[...].tolist() == [1, 2, 3, 7, 5, 6, 9, 9]


def is_damaged(store: dict[str, bytes], *words: str) -> None:
    """Check that the second inner chunk of c/0 can be neither read nor partly written."""
    before = dict(store)
    array = oz.open(store, "r+")
    for read in (lambda: array[2:4], lambda: array[...], lambda: array[3]):
        with pytest.raises(ChunkError, match=".*".join(map(re.escape, ("'c/0'", *words)))):
            read()
    with pytest.raises(ChunkError, match=re.escape("'c/0'")):
        array[0] = 1
    assert store == before


@pytest.mark.shows("SH-19")
@pytest.mark.parametrize("location", ["start", "end"])
def test_every_flipped_bit_of_the_index_is_found(location: str) -> None:
    store = sharded([4], [4], sharding(2, index_location=location))
    good = pack({0: b"\1\2", 1: b"\3\4"}, 2, location=location)
    start = 0 if location == "start" else 4
    for bit in range(8 * start, 8 * (start + 36), 7):
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        store["c/0"] = bytes(damaged)
        is_damaged(store, "index", "crc32c")


@pytest.mark.shows("SH-19")
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((MISSING, 2), "entry of inner chunk (1,) is damaged"),
        ((0, MISSING), "entry of inner chunk (1,) is damaged"),
        ((2**63, 2**63), "entry of inner chunk (1,) is damaged"),
        ((2**64 - 2, 2), "entry of inner chunk (1,) is damaged"),
        ((39, 2), "names 2 bytes from 39 on, but the shard is shorter"),
        ((0, 100), "names 100 bytes from 0 on, but the shard is shorter"),
        ((40, 1), "names 1 bytes from 40 on, but the shard is shorter"),
        ((2**62, 2), f"names 2 bytes from {2**62} on, but the shard is shorter"),
    ],
)
def test_an_impossible_index_entry_is_an_error(
    location: str, pair: tuple[int, int], message: str
) -> None:
    store = sharded([4], [4], sharding(2, index_location=location))
    index = checked([[36 if location == "start" else 0, 2], pair])
    pieces = b"\1\2\3\4"
    store["c/0"] = index + pieces if location == "start" else pieces + index
    is_damaged(store, message)


@pytest.mark.shows("SH-19")
@pytest.mark.parametrize("size", [0, 1, 35])
@pytest.mark.parametrize("location", ["start", "end"])
def test_a_value_shorter_than_its_index_is_an_error(location: str, size: int) -> None:
    store = sharded([4], [4], sharding(2, index_location=location))
    store["c/0"] = pack({}, 2)[:size]
    is_damaged(store, str(size), "36")


@pytest.mark.shows("SH-19")
def test_a_truncated_or_damaged_inner_chunk_is_an_error_that_names_it() -> None:
    store = sharded([4], [4], sharding(2, codecs=[raw(), CRC32C]))
    oz.open(store, "r+")[...] = [1, 2, 3, 4]
    damaged = bytearray(store["c/0"])
    damaged[7] ^= 1
    store["c/0"] = bytes(damaged)
    array = oz.open(store)
    with pytest.raises(ChunkError, match=r"inner chunk \(1,\): codec 'crc32c'") as caught:
        array[...]
    assert (caught.value.key, caught.value.codec) == ("c/0", "crc32c")
    assert array[:2].tolist() == [1, 2]
    store["c/0"] = pack({1: b"\3"}, 2)
    with pytest.raises(ChunkError, match=r"inner chunk \(1,\).*too few"):
        array[2:]


@pytest.mark.shows("SH-20")
def test_overlapping_inner_chunks_are_read_and_never_written() -> None:
    store = sharded([6], [6], sharding(2))
    store["c/0"] = b"\1\2\3" + checked([[0, 2], [1, 2], [0, 2]])
    array = oz.open(store, "r+")
    assert array[...].tolist() == [1, 2, 2, 3, 1, 2]
    array[0] = 5
    assert array[...].tolist() == [5, 2, 2, 3, 1, 2]
    assert sorted(index_of(store["c/0"], 3)) == [(0, 2), (2, 2), (4, 2)]
    assert len(store["c/0"]) == 6 + 52


@pytest.mark.shows("SH-10")
def test_a_shard_is_one_value_under_the_key_of_its_chunk() -> None:
    store: dict[str, bytes] = {}
    data = numbers(128, 128)
    array = oz.create_array(store, data=data, chunks=(32, 32), shards=(64, 64))
    assert sorted(store) == ["c/0/0", "c/0/1", "c/1/0", "c/1/1", "zarr.json"]
    assert array.write_chunk_sizes == ((64, 64), (64, 64))
    assert np.array_equal(oz.open(store)[...], data)


@pytest.mark.shows("SH-18")
def test_an_absent_shard_reads_as_the_fill_value() -> None:
    store = sharded([8], [4], sharding(2))
    array = oz.open(store, "r+")
    array[...] = np.arange(8)
    del store["c/0"]
    assert array[...].tolist() == [9, 9, 9, 9, 4, 5, 6, 7]
    assert array[1] == 9


LOCATIONS = pytest.mark.parametrize("location", ["start", "end"])


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
