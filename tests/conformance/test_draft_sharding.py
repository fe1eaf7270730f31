"""The draft's sharding storage transformer: several chunks in one value with an index."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr
from omnizarr import chunk_grids, chunk_key_encodings, stores
from omnizarr.errors import (
    ChunkError,
    OmnizarrWarning,
)
from omnizarr.model import Named
from omnizarr.storage_transformers import indexed_shards, transform
from omnizarr.stores import MemoryStore
from omnizarr.testing import SlowStore
from tests.conformance.draft_metadata import regular, with_array

HEADER_URI = "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0"
EXAMPLE_URI = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
WRITERS_URI = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"
MISSING = 2**64 - 1


def view(
    store: Any,
    per_shard: list[int],
    *,
    shape: tuple[int, ...] | None = None,
    separator: str = "/",
    prefix: str = "data/a/",
) -> Any:
    """Return the one-element chunks of the array at `prefix`."""
    store = stores.resolve(store)
    grid = chunk_grids.bind(
        Named("regular", {"chunk_shape": [1] * len(per_shard)}), shape or (100,) * len(per_shard)
    )
    encoding = chunk_key_encodings.bind(Named("v3-draft", {"separator": separator}))
    return transform(store, prefix, (indexed_shards(per_shard),), encoding, grid)


def sharded(store: Any, per_shard: Any, **options: Any) -> Any:
    """Return a new array at /a of uncompressed int16 in chunks of (2, 2)."""
    options = {"shape": (8, 8), "chunks": (2, 2), "dtype": "<i2", "compressors": None, **options}
    return omnizarr.create_array(
        store,
        path="a",
        zarr_format="3-draft",
        storage_transformers=[indexed_shards(per_shard)],
        **options,
    )


def index_of(shard: bytes, count: int) -> list[tuple[int, int]]:
    """Return the pairs at the end of a shard."""
    return [
        tuple(map(int, pair)) for pair in np.frombuffer(shard[-16 * count :], "<u8").reshape(-1, 2)
    ]


def shard_of(chunks: dict[int, bytes], count: int, *, gap: int = 0, reverse: bool = False) -> bytes:
    """Return a shard made by hand, in any order and with unused bytes between chunks."""
    index = np.full((count, 2), MISSING, "<u8")
    data = b"\xee" * gap
    for number, value in sorted(chunks.items(), reverse=reverse):
        index[number] = len(data), len(value)
        data += value + b"\xee" * gap
    return data + index.tobytes()


def document() -> dict[str, bytes]:
    """Return an 8 by 8 array at /a with shards of 2 by 2 chunks and no data."""
    sharding = {"type": "indexed", "configuration": {"chunks_per_shard": [2, 2]}}
    fields: dict[str, Any] = {"shape": [8, 8], "chunk_grid": regular(2, 2), "fill_value": 7}
    fields["storage_transformers"] = [{"extension": HEADER_URI, **sharding}]
    return with_array(data_type="int16", **fields)


# Configuration


@pytest.mark.shows("DX-14", "DX-33")
@pytest.mark.parametrize("uri", [HEADER_URI, EXAMPLE_URI, WRITERS_URI])
def test_the_metadata_states_the_header_uri_for_every_given_one(uri: str) -> None:
    store: dict[str, bytes] = {}
    entry = {"extension": uri, "type": "indexed", "configuration": {"chunks_per_shard": [2, 2]}}
    omnizarr.create_array(
        store, path="a", shape=(4, 4), zarr_format="3-draft", storage_transformers=[entry]
    )
    document = json.loads(store["meta/a.array.json"])
    assert document["storage_transformers"] == [{**entry, "extension": HEADER_URI}]


# Keys


@pytest.mark.shows("DX-16", "DX-17")
@pytest.mark.parametrize(
    ("start", "shard"),
    [((0, 0), "c0/0"), ((32, 2), "c1/1"), ((32, 4), "c1/2"), ((64, 2), "c2/1"), ((96, 18), "c3/9")],
)
def test_a_shard_starts_at_multiples_of_its_shape(start: tuple[int, int], shard: str) -> None:
    below: dict[str, bytes] = {}
    chunks = view(below, [32, 2])
    chunks.set(f"data/a/c{start[0]}/{start[1]}", b"first")
    assert list(below) == [f"data/a/{shard}"]
    index = index_of(below[f"data/a/{shard}"], 64)
    assert index[0] == (0, 5)  # the first of its shard
    for before in ((start[0] - 1, start[1]), (start[0], start[1] - 1)):
        if min(before) >= 0:
            chunks.set(f"data/a/c{before[0]}/{before[1]}", b"other")
            assert index_of(below[f"data/a/{shard}"], 64) == index


@pytest.mark.shows("DX-17", "DX-32")
@pytest.mark.parametrize(("separator", "key"), [("/", "data/a/c1/0"), (".", "data/a/c1.0")])
def test_an_array_writes_shards_below_data_and_its_own_path(separator: str, key: str) -> None:
    store: dict[str, bytes] = {}
    array = sharded(store, [2, 2], chunk_key_encoding=separator)
    array[4:8, 0:4] = np.arange(1, 17).reshape(4, 4)
    assert sorted(store) == [key, "meta/a.array.json", "zarr.json"]


# The binary format


@pytest.mark.shows("DX-19")
def test_the_index_at_the_end_has_one_pair_per_chunk_in_c_order() -> None:
    store: dict[str, bytes] = {}
    array = sharded(store, [2, 2], shape=(4, 4))
    array[...] = np.arange(1, 17).reshape(4, 4)
    shard = store["data/a/c0/0"]
    assert len(shard) == 4 * 8 + 64
    quarters = [[1, 2, 5, 6], [3, 4, 7, 8], [9, 10, 13, 14], [11, 12, 15, 16]]
    for (offset, length), items in zip(index_of(shard, 4), quarters, strict=True):
        assert np.frombuffer(shard[offset : offset + length], "<i2").tolist() == items


@pytest.mark.shows("DX-20")
def test_chunks_outside_the_array_have_index_entries() -> None:
    store: dict[str, bytes] = {}
    array = sharded(store, [2], shape=(6,), chunks=(2,))
    array[...] = np.arange(1, 7)
    shard = store["data/a/c1"]
    assert index_of(shard, 2) == [(0, 4), (MISSING, MISSING)]
    assert len(shard) == 4 + 32


@pytest.mark.shows("DX-21")
def test_a_missing_chunk_is_marked_in_the_index_and_reads_as_fill_value() -> None:
    store: dict[str, bytes] = {}
    array = sharded(store, [2, 2], shape=(4, 4), fill_value=9)
    array[0:2, 2:4] = [[1, 2], [3, 4]]
    shard = store["data/a/c0/0"]
    empty = "ff" * 16
    assert shard.hex() == "0100020003000400" + empty + "00" * 8 + "08" + "00" * 7 + empty * 2
    np.testing.assert_array_equal(
        array[...], [[9, 9, 1, 2], [9, 9, 3, 4], [9, 9, 9, 9], [9, 9, 9, 9]]
    )


@pytest.mark.shows("DX-14", "DX-22", "D3-105")
@pytest.mark.parametrize("gap", [0, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_order_of_chunks_and_gaps_are_read(gap: int, reverse: bool) -> None:
    data = np.arange(16, dtype="<i2").reshape(4, 4)
    quarters = [data[i : i + 2, j : j + 2].tobytes() for i in (0, 2) for j in (0, 2)]
    store = document()
    store["data/a/c0/0"] = shard_of(dict(enumerate(quarters)), 4, gap=gap, reverse=reverse)
    array = omnizarr.open(store, "r+", path="a")
    np.testing.assert_array_equal(array[:4, :4], data)
    array[0, 0] = 77  # a rewrite keeps the others, whatever their order was
    data[0, 0] = 77
    np.testing.assert_array_equal(array[:4, :4], data)


@pytest.mark.shows("DX-23")
def test_the_metadata_does_not_depend_on_how_shards_are_written() -> None:
    store: dict[str, bytes] = {}
    array = sharded(store, [2, 2])
    before = store["meta/a.array.json"]
    for part in (np.s_[4:, 4:], np.s_[0, 0], np.s_[:, 2:4]):
        array[part] = 5
    assert store["meta/a.array.json"] == before
    [entry] = json.loads(before)["storage_transformers"]
    assert entry.keys() == {"extension", "type", "configuration"}
    assert entry["configuration"] == {"chunks_per_shard": [2, 2]}


# Reading


@pytest.mark.shows("DX-24")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ((0, 2000), "but the shard is shorter"),
        ((2000, 4), "but the shard is shorter"),
        ((2**63, 4), "damaged"),
        ((4, 2**63), "damaged"),
    ],
)
def test_an_index_that_points_past_the_shard_is_an_error(
    entry: tuple[int, int], message: str
) -> None:
    store = document()
    good = shard_of({1: np.arange(4, dtype="<i2").tobytes()}, 4)
    broken = np.array(index_of(good, 4), "<u8")
    broken[0] = entry
    store["data/a/c0/0"] = good[:8] + broken.tobytes()
    array = omnizarr.open(store, "r+", path="a")
    with pytest.raises(ChunkError, match=rf"chunk \(0, 0\) of /a.*'data/a/c0/0'.*{message}"):
        array[0, 0]
    np.testing.assert_array_equal(array[0:2, 2:4], [[0, 1], [2, 3]])  # its neighbour is fine
    with pytest.raises(ChunkError, match=message):
        array[2:4, 2:4] = 5  # a rewrite would lose what cannot be read
    assert store["data/a/c0/0"] == good[:8] + broken.tobytes()
    array[0:2, 0:2] = 5  # replacing the damaged chunk itself repairs the shard
    np.testing.assert_array_equal(array[0:2], [[5, 5, 0, 1, 7, 7, 7, 7], [5, 5, 2, 3, 7, 7, 7, 7]])


@pytest.mark.shows("DX-35")
@pytest.mark.parametrize("entry", [(MISSING, 8), (0, MISSING)])
def test_a_half_marked_index_entry_is_an_error_and_not_the_fill_value(
    entry: tuple[int, int],
) -> None:
    store = document()
    index = np.full((4, 2), MISSING, "<u8")
    index[2] = entry
    store["data/a/c0/0"] = bytes(8) + index.tobytes()
    array = omnizarr.open(store, "r+", path="a")
    with pytest.raises(ChunkError, match=r"chunk \(1, 0\) of /a.*entry of chunk 2 is damaged"):
        array[2, 0]
    assert array[0, 0] == 7
    assert array.nchunks_initialized == 1  # it counts as there, since reading it raises
    before = dict(store)
    with pytest.raises(ChunkError, match="the index entry of chunk 2 is damaged"):
        array[0:2, 0:2] = 1  # a rewrite must not make it look absent
    assert store == before


# Writing


@pytest.mark.shows("DX-26")
def test_threads_that_write_into_one_shard_lose_nothing() -> None:
    store = SlowStore(MemoryStore(), 1e-4)
    data = np.random.default_rng(0).integers(1, 9, (256, 256)).astype("i2")
    array = sharded(store, [8, 8], shape=data.shape, chunks=(16, 16), compressors="zstd")
    with omnizarr.configure(threads=8):
        array[...] = data
        array[3:250, 5:251] = data[3:250, 5:251] * 100  # border chunks are read first
        data[3:250, 5:251] *= 100
        np.testing.assert_array_equal(array[...], data)
    assert sum(key.startswith("data/") for key in stores.list_prefix(store, "")) == 4


def test_chunks_that_a_resize_left_outside_survive_writes_to_their_shard() -> None:
    store: dict[str, bytes] = {}
    array = sharded(store, [2], shape=(8,), chunks=(2,))
    array[...] = np.arange(8)
    with pytest.warns(OmnizarrWarning, match="chunks outside"):
        array.resize(6)
    array[4:6] = 50
    with pytest.warns(OmnizarrWarning, match="chunks outside"):
        array.resize(8)
    np.testing.assert_array_equal(array[...], [0, 1, 2, 3, 50, 50, 6, 7])


# Erasing


@pytest.mark.shows("DX-28")
def test_erased_chunks_are_marked_missing_and_erasing_the_last_erases_the_shard() -> None:
    below: dict[str, bytes] = {}
    chunks = view(below, [32, 2])
    keys = [f"data/a/c{i}/{j}" for i in range(32) for j in range(2)]
    stores.set_many(chunks, [(key, key.encode()) for key in keys])
    stores.erase_values(chunks, keys[1:])
    index = index_of(below["data/a/c0/0"], 64)
    assert index == [(0, len(keys[0]))] + [(MISSING, MISSING)] * 63
    chunks.erase(keys[5])  # already gone: no error, no change
    assert chunks.get(keys[0]) == keys[0].encode()
    chunks.erase(keys[0])
    assert below == {}
    chunks.erase(keys[0])


@pytest.mark.shows("DX-29")
def test_erase_prefix_erases_exactly_the_chunks_below_it() -> None:
    below: dict[str, bytes] = {"data/ab/c1/0": b"of another array"}
    chunks = view(below, [2, 2])
    keys = [f"data/a/c{i}/{j}" for i in range(4) for j in range(4)]
    stores.set_many(chunks, [(key, key.encode()) for key in keys])
    stores.erase_prefix(chunks, "data/a/c1/")
    kept = [key for key in keys if not key.startswith("data/a/c1/")]
    assert sorted(chunks.list_prefix("data/a/")) == kept
    assert [chunks.get(key) for key in kept] == [key.encode() for key in kept]
    stores.erase_prefix(chunks, "data/a/c0/")  # now the first row of shards is empty
    assert sorted(below) == ["data/a/c1/0", "data/a/c1/1", "data/ab/c1/0"]
    stores.erase_prefix(chunks, "data/a/")
    assert sorted(below) == ["data/ab/c1/0"]


# Listing


@pytest.mark.shows("DX-30", "DX-34")
@pytest.mark.parametrize("separator", ["/", "."])
def test_listing_returns_the_keys_of_existing_chunks(separator: str) -> None:
    chunks = view({"meta/a.array.json": b"{}"}, [2, 2], separator=separator)
    key = f"data/a/c3{separator}2"
    chunks.set(key, b"x")
    assert (
        sorted(chunks.list())
        == sorted(stores.list_prefix(chunks, ""))
        == [key, "meta/a.array.json"]
    )
    assert list(stores.list_prefix(chunks, "data/")) == [key]
    assert list(stores.list_prefix(chunks, "data/a/")) == [key]
    assert list(stores.list_prefix(chunks, "data/b/")) == []
