"""Shards of any shape and depth behave like NumPy and agree with other libraries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorstore
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.core.buffer import cpu

import omnizarr as oz
from omnizarr.errors import OmnizarrWarning, StoreError, UnknownExtension
from tests.conformance.shards import CRC32C, GZIP, index_of, raw, sharded, sharding
from tests.conformance.v3_metadata import stored
from tests.sampling import tries

Write = tuple[tuple[Any, ...], int]  # where, and the step from value to value; 0: fill value
FILL = 9
BLOSC = {"cname": "lz4", "clevel": 1, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0}
INDICES = ([raw(), CRC32C], [raw()], [raw("big"), CRC32C])
TAILS = ([], [GZIP], [CRC32C], [{"name": "blosc", "configuration": BLOSC}])


@dataclass(frozen=True)
class Layout:
    """The storage of an array, and the values written to it."""

    shape: tuple[int, ...]
    shard: tuple[int, ...]
    codecs: list[Any]
    dtype: str
    writes: list[Write]

    def store(self) -> dict[str, bytes]:
        """Return a store with the empty array."""
        return sharded(self.shape, self.shard, *self.codecs, data_type=self.dtype)

    def fill(self, array: Any, data: npt.NDArray[Any]) -> None:
        """Write the same to both."""
        for number, (selection, step) in enumerate(self.writes):
            shape = data[selection].shape
            values = np.arange(math.prod(shape)).reshape(shape) * step
            value = (values + (number if step else FILL)).astype(data.dtype)
            array[selection] = value
            data[selection] = value

    def empty(self) -> npt.NDArray[Any]:
        """Return the NumPy array that corresponds to a new array."""
        return np.full(self.shape, FILL, self.dtype)


@st.composite
def transposes(draw: st.DrawFn, rank: int) -> list[Any]:
    """Draw no transpose, or one."""
    order = draw(st.one_of(st.none(), st.permutations(range(rank))))
    return [] if order is None else [{"name": "transpose", "configuration": {"order": order}}]


@st.composite
def levels(
    draw: st.DrawFn, rank: int, depth: int, *, turned: bool, packed: bool
) -> tuple[list[Any], list[int]]:
    """Draw codecs with `depth` levels of shards, and the shape of what they encode."""
    before = draw(transposes(rank)) if turned else []
    if depth == 0:
        tail = draw(st.sampled_from(TAILS))
        shape = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
        return [*before, raw(draw(st.sampled_from(("little", "big")))), *tail], shape
    inner, part = draw(levels(rank, depth - 1, turned=True, packed=packed))
    counts = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    codec = sharding(
        *part,
        codecs=inner,
        index_codecs=draw(st.sampled_from(INDICES)),
        index_location=draw(st.sampled_from(("start", "end"))),
    )
    whole = [n * count for n, count in zip(part, counts, strict=True)]
    shape = list(whole)
    for turn in before:
        for axis, length in zip(turn["configuration"]["order"], whole, strict=True):
            shape[axis] = length
    after = draw(st.sampled_from(([], [], [GZIP]))) if packed else []
    return [*before, codec, *after], shape


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...], *, numbers: bool = True) -> tuple[Any, ...]:
    """Draw slices with steps in both directions, and integers."""
    items: list[Any] = []
    for length in shape:
        edge = st.one_of(st.none(), st.integers(-length, length))
        steps = st.sampled_from((None, 1, 2, 3, 5, -1, -2))
        item: st.SearchStrategy[Any] = st.builds(slice, edge, edge, steps)
        if numbers:
            item = st.one_of(item, st.integers(-length, length - 1))
        items.append(draw(item))
    return tuple(items)


@st.composite
def layouts(draw: st.DrawFn, *, turned: bool = True, packed: bool = True) -> Layout:
    """Draw arrays of one to three axes, of shards that nest up to three deep.

    `turned`: a transpose may come before the outermost shards; `packed`: gzip after any.
    """
    rank = draw(st.integers(1, 3))
    depth = draw(st.integers(1, 3 if rank < 3 else 2))
    codecs, shard = draw(levels(rank, depth, turned=turned, packed=packed))
    shape = tuple(draw(st.integers(1, 2 * n + 1)) for n in shard)
    dtype = draw(st.sampled_from(("uint8", "int16", "float64")))
    writes = draw(st.lists(st.tuples(selections(shape), st.integers(0, 3)), max_size=4))
    everything = (tuple(slice(None) for _ in shape), 1)
    if draw(st.booleans()):
        writes.insert(0, everything)
    return Layout(shape, tuple(shard), codecs, dtype, writes)


@given(layouts(), st.data(), st.booleans(), st.permutations(("auto", "reference")))
@settings(max_examples=tries(50, 1000))
def test_writes_and_reads_of_any_slices_agree_with_numpy(
    layout: Layout, data: st.DataObject, write_empty: bool, engines: list[str]
) -> None:
    store = layout.store()
    array, expected = oz.open(store, "r+"), layout.empty()
    with oz.configure(write_empty_chunks=write_empty, engine=engines[0]):
        layout.fill(array, expected)
    chosen = [data.draw(selections(layout.shape)) for _ in range(3)]
    for engine in engines:
        with oz.configure(engine=engine):
            again = oz.open(store)
            assert np.array_equal(again[...], expected)
            for selection in chosen:
                assert np.array_equal(again[selection], expected[selection])


@given(layouts(), st.data())
def test_chunks_that_become_empty_are_removed(layout: Layout, data: st.DataObject) -> None:
    store = layout.store()
    array, expected = oz.open(store, "r+"), layout.empty()
    layout.fill(array, expected)
    selection = data.draw(selections(layout.shape))
    array[selection] = FILL
    expected[selection] = FILL
    assert np.array_equal(array[...], expected)
    array[...] = FILL
    assert list(store) == ["zarr.json"]


def theirs(store: dict[str, bytes]) -> tuple[Any, zarr.Array[Any]]:
    """Return the array in zarr-python, and its store."""
    values = {key: cpu.Buffer.from_bytes(value) for key, value in store.items()}
    copy = zarr.storage.MemoryStore(values)
    return copy, zarr.open_array(copy, mode="r+")


@pytest.mark.filterwarnings("ignore")
@given(layouts(turned=False), st.data())
@settings(max_examples=40)
def test_shards_are_exchanged_with_zarr_python(layout: Layout, data: st.DataObject) -> None:
    store = layout.store()
    expected = layout.empty()
    layout.fill(oz.open(store, "r+"), expected)
    copy, array = theirs(store)
    assert np.array_equal(array[...], expected)
    selection = tuple(
        slice(*sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))))
        for n in layout.shape
    )
    array[selection] = 5
    expected[selection] = 5
    values = {key: value.to_bytes() for key, value in copy._store_dict.items()}
    assert np.array_equal(oz.open(values)[...], expected)


@given(layouts(packed=False), st.data())
def test_shards_are_exchanged_with_tensorstore(layout: Layout, data: st.DataObject) -> None:
    store = layout.store()
    expected = layout.empty()
    layout.fill(oz.open(store, "r+"), expected)
    memory, context = {"driver": "memory"}, tensorstore.Context()
    copy = tensorstore.KvStore.open(memory, context=context).result()
    for key, value in store.items():
        copy.write(key, value).result()
    spec = {"driver": "zarr3", "kvstore": memory}
    array = tensorstore.open(spec, context=context).result()
    assert np.array_equal(array.read().result(), expected)
    selection = data.draw(selections(layout.shape, numbers=False))
    positive = tuple(slice(*s.indices(n)) for s, n in zip(selection, layout.shape, strict=True))
    if all(s.step > 0 and s.stop > s.start for s in positive):
        array[positive].write(np.full((), 5, layout.dtype)).result()
        expected[positive] = 5
    values = {key.decode(): copy.read(key).result().value for key in copy.list().result()}
    assert np.array_equal(oz.open(values)[...], expected)


@pytest.mark.parametrize("value", [np.array(5), np.array("text", np.dtypes.StringDType())])
def test_an_array_without_axes_can_be_a_shard(value: npt.NDArray[Any]) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, data=value, shards=())
    array = oz.open(store, "r+")
    assert array[()] == value[()]
    assert len(index_of(store["c"], 1)) == 1
    array[...] = value.dtype.type() if value.dtype.kind == "i" else ""
    assert "c" not in store


def test_inner_chunks_get_the_codecs_of_any_notation() -> None:
    store: dict[str, bytes] = {}
    options: dict[str, Any] = {"compressors": {"id": "gzip", "level": 1}, "order": "F"}
    data = np.arange(24, dtype=">i4").reshape(4, 6)
    oz.create_array(store, data=data, chunks=(2, 3), shards=(4, 6), **options)
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    assert stored(store)["codecs"] == [
        sharding(2, 3, codecs=[transpose, raw("big"), GZIP], index_location="end")
    ]
    assert np.array_equal(oz.open(store)[...], data)


def test_the_byte_order_is_stated_inside_shards() -> None:
    store: dict[str, bytes] = {}
    short = {"codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}
    nested = sharding(4, codecs=[sharding(2, **short)], index_codecs=["bytes"])
    oz.create_array(store, data=np.arange(8, dtype=">u2"), chunks=8, codecs=[nested])
    inner = sharding(2, codecs=[raw("big")])
    assert stored(store)["codecs"] == [sharding(4, codecs=[inner], index_codecs=[raw()])]
    assert oz.open(store)[...].tolist() == list(range(8))


@pytest.mark.parametrize(
    ("shards", "shape"), [(4, (4, 4)), ((4, 6), (4, 6)), ("64B", (8, 8)), ("auto", (16, 16))]
)
def test_the_option_shards_takes_shapes_and_sizes(shards: Any, shape: tuple[int, int]) -> None:
    array = oz.create_array(shape=(16, 16), dtype="u1", chunks=(2, 2), shards=shards)
    assert (array.shards, array.chunks) == (shape, (2, 2))


@pytest.mark.parametrize("shards", [4, "auto"])
def test_shards_need_chunks_of_one_shape(shards: Any) -> None:
    with pytest.raises(oz.InvalidArgument, match="one shape"):
        oz.create_array(shape=10, chunks=[[3, 5, 2]], shards=shards)


def test_an_unknown_inner_codec_prevents_only_reading_data() -> None:
    store = sharded([4], [4], sharding(2, codecs=[raw(), {"name": "lz5"}]))
    array = oz.open(store)
    assert (array.shards, array.chunks) == ((4,), (2,))
    with pytest.raises(UnknownExtension, match=r"'lz5' at .*codecs\[1\]"):
        array[...]


@pytest.mark.parametrize("order", ["x", None, [0, 5], [[1]], [0], [2, 0, 1], [1.0, 0]])
@pytest.mark.parametrize("chunks", [[2, 2], ["a", None], [2], None])
def test_an_invalid_configuration_of_an_unknown_type_can_be_inspected(
    order: Any, chunks: Any
) -> None:
    transpose = {"name": "transpose", "configuration": {"order": order}}
    codecs = [transpose, sharding(chunk_shape=chunks)]
    array = oz.open(sharded([4, 4], [4, 4], *codecs, data_type={"name": "example.type"}))
    assert (array.shards, array.chunks) == (None, (4, 4))
    assert "example.type" in repr(array)
    with pytest.raises(UnknownExtension, match=r"example\.type"):
        array[...]


def test_an_ignorable_inner_codec_is_skipped_on_reading_only() -> None:
    note = {"name": "example.note", "must_understand": False}
    plain = sharded([4], [4], sharding(2))
    oz.open(plain, "r+")[...] = [1, 2, 3, 4]
    store = sharded([4], [4], sharding(2, codecs=[raw(), note]))
    store["c/0"] = plain["c/0"]
    with pytest.warns(OmnizarrWarning, match="'example.note' is unknown here and is skipped"):
        array = oz.open(store, "r+")
    assert array[...].tolist() == [1, 2, 3, 4]
    with pytest.raises(StoreError, match=r"example\.note"):
        array[0] = 5
    assert store["c/0"] == plain["c/0"]


def test_resizing_clears_inner_chunks_outside_and_keeps_the_others() -> None:
    store = sharded([8], [8], sharding(2))
    array = oz.open(store, "r+")
    array[...] = np.arange(1, 9)
    array.resize(5, outside="erase")
    array.resize(8)
    assert array[...].tolist() == [1, 2, 3, 4, 5, 9, 9, 9]
    array.append([1, 2])
    assert array[6:].tolist() == [9, 9, 1, 2]
