"""The draft's shards: chunks come back as they were stored, whatever the order of writing."""

from __future__ import annotations

import itertools
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr
from omnizarr.errors import ChunkError
from omnizarr.stores import MemoryStore, Range, Store, list_dir, list_prefix
from tests.conformance.test_draft_sharding import view

PREFIX = "data/a/"
COUNT = (3, 4)  # chunks along each axis
KEYS = [f"{PREFIX}c{i}/{j}" for i, j in itertools.product(*map(range, COUNT))]
OTHER = "meta/a.array.json"
VALUES = st.one_of(st.none(), st.binary(max_size=12))
CHANGES = st.lists(st.tuples(st.sampled_from([*KEYS, OTHER]), VALUES), max_size=20)


def shards(store: Store, per_shard: tuple[int, ...] = (2, 3)) -> Store:
    """Return a store with the view of single chunks of an array."""
    made: Store = view(store, [*per_shard], shape=COUNT, prefix=PREFIX)
    return made


def apply(store: Store, changes: list[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """Make changes one after the other, and return what the store must then hold."""
    expected: dict[str, bytes] = {}
    for key, value in changes:
        if value is None:
            store.erase(key)
            expected.pop(key, None)
        else:
            store.set(key, value)
            expected[key] = value
    return expected


def content(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in list_prefix(store, "")}


@given(CHANGES, st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_chunks_come_back_as_they_were_stored(
    changes: list[tuple[str, bytes | None]], per_shard: tuple[int, int]
) -> None:
    below = MemoryStore()
    store = shards(below, per_shard)
    expected = apply(store, changes)
    assert content(store) == expected
    assert content(shards(below, per_shard)) == expected  # nothing is kept but what is stored
    for key in KEYS:
        assert store.get(key) == expected.get(key)


@given(CHANGES, st.randoms(use_true_random=False))
def test_the_order_of_writing_does_not_matter(
    changes: list[tuple[str, bytes | None]], random: Random
) -> None:
    first, second = MemoryStore(), MemoryStore()
    expected = apply(shards(first), changes)
    shuffled = list(expected.items())
    random.shuffle(shuffled)
    for key, value in shuffled:
        shards(second).set(key, value)
    assert content(shards(first)) == content(shards(second)) == expected
    assert sorted(list_prefix(first, "")) == sorted(list_prefix(second, ""))


@given(st.dictionaries(st.sampled_from(KEYS), st.binary(min_size=1, max_size=12)), st.data())
def test_a_part_of_a_chunk_is_that_part_of_its_value(
    values: dict[str, bytes], data: st.DataObject
) -> None:
    store = shards(MemoryStore())
    for key, value in values.items():
        store.set(key, value)
    for key in KEYS:
        length = data.draw(st.one_of(st.none(), st.integers(0, 13)))
        part = Range(data.draw(st.integers(-13, 13)), length)
        assert store.get(key, part) == (part.of(values[key]) if key in values else None)


@pytest.mark.shows("DX-28")
@given(CHANGES)
def test_a_shard_without_chunks_is_erased(changes: list[tuple[str, bytes | None]]) -> None:
    below = MemoryStore()
    store = shards(below)
    for key in apply(store, changes):
        store.erase(key)
    assert list(list_prefix(below, "")) == []


@pytest.mark.shows("DX-31")
@given(CHANGES)
def test_a_listing_of_one_level_names_the_prefixes_of_all_chunks(
    changes: list[tuple[str, bytes | None]],
) -> None:
    store = shards(MemoryStore())
    expected = apply(store, changes)
    _, prefixes = list_dir(store, PREFIX)
    assert set(prefixes) >= {key.rpartition("/")[0] + "/" for key in expected if key != OTHER}
    for prefix in prefixes:
        keys, _ = list_dir(store, prefix)
        assert sorted(keys) == sorted(key for key in expected if key.startswith(prefix))


@pytest.mark.shows("DX-24")
def test_a_shard_that_was_cut_off_names_its_key() -> None:
    below = MemoryStore()
    store = shards(below)
    store.set(KEYS[0], b"value")
    [shard] = list_prefix(below, "")
    below.set(shard, (below.get(shard) or b"")[3:10])
    with pytest.raises(ChunkError, match=shard):
        store.get(KEYS[0])


def test_an_error_of_a_chunk_has_the_key_of_the_stored_shard() -> None:
    store: dict[str, bytes] = {}
    array = omnizarr.create_array(
        store, shape=3, chunks=1, shards=2, dtype="u1", compressors=None, zarr_format="3-draft"
    )
    array[...] = 1
    store["data/c1"] = b""
    with pytest.raises(ChunkError, match="key 'data/c1'") as caught:
        array[2]
    assert (caught.value.key, caught.value.chunk) == ("data/c1", (2,))


@pytest.mark.shows("DX-18")
def test_other_keys_pass_through_unchanged() -> None:
    below = MemoryStore()
    store = shards(below)
    text = json.dumps({"shape": [3, 4]}).encode()
    store.set(OTHER, text)
    assert below.get(OTHER) == store.get(OTHER) == text
