"""Chunks in a view: stored bytes as they are where possible, otherwise encoded once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs.pipeline import CodecPipeline
from omnizarr.stores import Range
from omnizarr.stores.wrappers import WrapperStore
from tests.bulk.view_as.cases import CHUNKS, SOURCES, VALUES, expected

# Sources whose chunks, or chunks in shards, have the same bytes in the other version.
KEPT = (
    *("1", "2", "2, nested keys", "2, big-endian, F order", "2, checksum", "3-draft"),
    *("3-draft, shards", "3, shards without compression", "3, shards in shards"),
    "3, transposed",
)
CASES = [
    *((name, 2) for name in (*KEPT, "2, zlib", "2, delta")),
    *((name, 3) for name in SOURCES if name in KEPT or name.startswith("3")),
]


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect every chunk that is decoded or encoded."""
    calls: list[str] = []
    for name in ("decode", "decode_into", "decode_last", "encode", "encode_last"):
        method = getattr(CodecPipeline, name)

        def counted(self: Any, *args: Any, name: str = name, method: Any = method) -> Any:
            if self.spec.data_type.named.name != "uint64":  # not the index of a shard
                calls.append(name)
            return method(self, *args)

        monkeypatch.setattr(CodecPipeline, name, counted)
    return calls


@pytest.mark.parametrize(("source", "target"), CASES)
def test_chunks_that_the_format_can_describe_keep_their_bytes(
    source: str, target: int, coded: list[str]
) -> None:
    stored = SOURCES[source]()
    coded.clear()
    view = oz.view_as(stored, target)
    made = "/2" if source.startswith("3") and target == 2 else "none"  # the missing column
    values = {key: view.get(key) or b"" for key in view.list() if not key.endswith(made)}
    assert view.sizes(values) == {key: len(value) for key, value in values.items()}
    assert coded == []
    everything = b"".join(stored.get(key) or b"" for key in stored.list())
    for key, value in values.items():
        if not key.endswith((".json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")):
            assert value
            assert value in everything


@pytest.mark.parametrize("source", ["3", "3, shards"])
def test_a_checksum_that_version_2_does_not_have_is_removed_without_decompression(
    source: str, coded: list[str]
) -> None:
    stored = SOURCES[source]()
    coded.clear()
    view = oz.view_as(stored, 2)
    data = view.get("group/a/0/0")
    assert data is not None
    assert set(coded) == {"decode_last", "encode_last"}
    whole = stored.get("group/a/c/0/0") or b""
    assert data in whole


@pytest.mark.parametrize(
    ("source", "target"),
    [("3, scaled", 2), ("2, zlib", 3)],
)
def test_several_parts_of_a_chunk_are_encoded_once(
    source: str, target: int, coded: list[str]
) -> None:
    view = oz.view_as(SOURCES[source](), target)
    key = "group/a/0/0" if target == 2 else "group/a/c/0/0"
    whole = view.get(key) or b""
    coded.clear()
    parts = [Range(0, 4), Range(4), None, Range(-5), Range(10**6, 3)]
    assert view.get_many([(key, part) for part in parts]) == [
        whole[:4], whole[4:], whole, whole[-5:], b"",
    ]  # fmt: skip
    assert coded.count("encode") == 1


# Requests to the store below


class Requests(WrapperStore):
    """A store, slow by its own account, that records which parts of values are read."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.seen: list[list[tuple[str, Range | None]]] = []

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        self.seen.append([(key, range)])
        return self.inner.get(key, range)

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        self.seen.append([*requests])
        return [self.inner.get(key, part) for key, part in self.seen[-1]]


@pytest.mark.parametrize(
    ("source", "key", "stored"),
    [
        ("1", "c/0/1", "0.1"),
        ("2", "group/a/c/0/1", "group/a/0.1"),
        ("3-draft", "group/a/c/0/1", "data/group/a/c0/1"),
        ("3", "group/a/c/0/1", "group/a/c/0/1"),
    ],
)
def test_a_byte_range_is_passed_on_after_a_request_for_the_metadata(
    source: str, key: str, stored: str
) -> None:
    below = Requests(SOURCES[source]())
    view = oz.view_as(below, 3)
    whole = view.get(key) or b""
    below.seen.clear()
    assert view.get(key, Range(2, 3)) == whole[2:5]
    *metadata, [(last, part)] = below.seen
    assert last.endswith(stored.removeprefix("data/"))
    assert part == Range(2, 3)
    assert len(metadata) == 1
    below.seen.clear()
    assert view.get_many([(key, Range(-4)), (key, Range(0, 1))]) == [whole[-4:], whole[:1]]
    assert len(below.seen) == 2


def test_of_a_shard_only_the_index_and_one_chunk_are_read() -> None:
    below = Requests(SOURCES["3, shards without compression"]())
    view = oz.view_as(below, 2)
    whole = view.get("group/a/0/1") or b""
    assert whole == expected()[:4, 3:6].tobytes()
    below.seen.clear()
    assert view.get("group/a/0/1", Range(4, 8)) == whole[4:12]
    parts = [r for batch in below.seen for r in batch if r[0] == "group/a/c/0/0"]
    assert all(part is not None for _, part in parts)
    assert Range(4 * CHUNKS[0] * CHUNKS[1] + 4, 8) in [part for _, part in parts]
    below.seen.clear()
    assert view.sizes(["group/a/0/1"]) == {"group/a/0/1": len(whole)}
    parts = [r for batch in below.seen for r in batch if r[0] == "group/a/c/0/0"]
    assert [part.start for _, part in parts if part is not None] == [-68]  # the index


def test_a_generation_changes_with_the_chunk() -> None:
    store = SOURCES["3, shards"]()
    view = oz.view_as(store, 2)
    array = oz.open(store, "r+", path="group/a")
    key, other = "group/a/0/0", "group/a/2/0"
    seen = {view.generation(key)}
    kept = view.generation(other)
    array[0, 0] = 1
    seen.add(view.generation(key))
    assert view.generation(other) == kept
    oz.create_array(store, path="group/a", data=VALUES + 1, chunks=CHUNKS, overwrite=True)
    seen.add(view.generation(key))
    assert len(seen) == 3
    assert None not in seen


# Damage


@pytest.mark.parametrize("target", [2, 3])
@pytest.mark.parametrize("source", ["2", "3-draft, shards", "3", "3, shards", "3, scaled"])
def test_a_damaged_chunk_gives_the_same_error_and_stops_no_other(source: str, target: int) -> None:
    store = SOURCES[source]()
    [key] = [k for k in store.list() if k.endswith(("a/0.0", "a/c0/0", "a/c/0/0"))]
    data = bytearray(store.get(key) or b"")
    half = len(data) // 2 if "shards" not in source else 40
    store.set(key, bytes(data[:half]) if "shards" not in source else bytes(40) + bytes(data[40:]))
    stored = oz.open(store, path="group/a")
    seen = oz.open(oz.view_as(store, target), path="group/a")
    with pytest.raises(oz.ChunkError):
        stored[0, 0]
    with pytest.raises(oz.ChunkError, match=r"\(0, 0\).* /group/a"):
        seen[0, 0]
    np.testing.assert_array_equal(seen[8:], expected()[8:])
    assert len(oz.open(oz.view_as(store, target), use_consolidated=True)) == 1


def test_the_damaged_index_of_a_shard_is_an_error_of_its_chunks() -> None:
    store = SOURCES["3, shards"]()
    data = store.get("group/a/c/0/0") or b""
    store.set("group/a/c/0/0", data[:-1] + bytes([data[-1] ^ 1]))
    view = oz.view_as(store, 2)
    for ask in (view.get, view.generation, lambda key: view.sizes([key])):
        with pytest.raises(oz.ChunkError, match="index of the shard"):
            ask("group/a/0/0")
    assert view.get("group/a/2/0") is not None


# Anything that can be stored


@st.composite
def arrays(draw: st.DrawFn) -> tuple[dict[str, Any], Any, int]:
    """Return the options of an array, its values and the version of the view."""
    zarr_format = draw(st.sampled_from([2, "3-draft", 3]))
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    dtype = draw(st.sampled_from(["u1", "<i2", ">i4", "<f8", "bool", "c8", "f2"]))
    options: dict[str, Any] = {"chunks": chunks, "zarr_format": zarr_format}
    if zarr_format == 3 and shape and draw(st.booleans()):
        options["shards"] = tuple(c * draw(st.integers(1, 3)) for c in chunks)
    if zarr_format == 2 and draw(st.booleans()):
        options["order"] = "F"
    if zarr_format == 2 and draw(st.booleans()):
        options["compressors"] = draw(
            st.sampled_from([None, oz.codecs.Zlib(), oz.codecs.ZstdCodec(), oz.codecs.BZ2()])
        )
    if draw(st.booleans()):
        options["fill_value"] = draw(st.sampled_from([0, 1]))
    values = (np.arange(int(np.prod(shape)), dtype="i8") % 7).reshape(shape).astype(dtype)
    return options, values, draw(st.sampled_from([2, 3]))


@given(arrays(), st.data())
def test_values_of_any_array_are_the_same_through_a_view(
    case: tuple[dict[str, Any], Any, int], data: st.DataObject
) -> None:
    options, values, target = case
    store = oz.storage.MemoryStore()
    array = oz.create_array(store, path="a", shape=values.shape, dtype=values.dtype, **options)
    box = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in array.shape)
    array[box] = values[box]
    view = oz.view_as(store, target)
    seen = oz.open(view, path="a")
    assert seen.dtype.newbyteorder("<") == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(seen[...], array[...])
    if seen.shards is None and seen.shape:  # the chunk of a scalar is made in version 2
        assert seen.nchunks_initialized == array.nchunks_initialized
    assert dict(view.sizes(view.list())) == {k: len(view.get(k) or b"") for k in view.list()}
