"""Properties and methods of arrays other than reading and writing."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.hierarchy.chunks import missing_chunk_keys
from omnizarr.stores import MemoryStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.sqlite import SQLiteStore
from omnizarr.stores.wrappers import WrapperStore
from omnizarr.stores.zip.store import ZipStore
from omnizarr.testing import RecordingStore
from tests.calls import python_calls
from tests.conformance.shards import sharding
from tests.engine.test_reference import needs_kernel
from tests.parallel import together


def sharded(zarr_format: int | str = 3) -> oz.Array:
    return oz.create_array(
        shape=(10, 9), dtype="i2", chunks=(2, 3), shards=(4, 6), zarr_format=zarr_format
    )


@pytest.mark.parametrize("zarr_format", [3, "3-draft"])
def test_chunks_of_shards_are_counted_one_by_one(zarr_format: Any) -> None:
    array = sharded(zarr_format)
    assert (array.chunks, array.shards) == ((2, 3), (4, 6))
    assert (array.cdata_shape, array.nchunks) == ((5, 3), 15)
    array[0:2, 0:3] = 1
    array[9, 8] = 1
    present = array.chunks_present()
    assert present.shape == array.cdata_shape
    assert np.argwhere(present).tolist() == [[0, 0], [4, 2]]
    assert array.nchunks_initialized == 2


SLICES = st.builds(slice, st.none() | st.integers(-6, 6), st.none() | st.integers(-6, 6))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 8)), max_size=6), SLICES, SLICES)
def test_stored_chunks_are_found_by_region_and_one_by_one(
    points: list[tuple[int, int]], rows: slice, columns: slice
) -> None:
    wanted = np.zeros((5, 3), bool)
    for row, column in points:
        wanted[row // 2, column // 3] = True
    for options in ({"shards": (4, 6), "order": "F"}, {"shards": (4, 6)}, {}):
        array = oz.create_array(shape=(10, 9), dtype="i2", chunks=(2, 3), **options)
        for point in points:
            array[point] = 1
        present = array.chunks_present()
        assert np.array_equal(present, wanted)
        assert np.array_equal(array.chunks_present((rows, columns)), present[rows, columns])
        assert sorted(array.stored_chunks()) == list(map(tuple, np.argwhere(present).tolist()))
        missing = [coords for coords, _ in missing_chunk_keys(array._data)]
        assert missing == list(map(tuple, np.argwhere(~present).tolist()))


def test_regions_of_chunks_are_checked_and_scalars_have_one_chunk() -> None:
    array = oz.create_array(shape=(10, 9), dtype="i2", chunks=(2, 3))
    for wrong in ((slice(None),), (slice(None, None, 2), slice(None))):
        with pytest.raises(oz.SelectionError, match="slice without step"):
            array.chunks_present(wrong)
    scalar = oz.create_array(shape=(), dtype="i2")
    assert [coords for coords, _ in missing_chunk_keys(scalar._data)] == [()]
    scalar[()] = 1
    assert [*scalar.stored_chunks()] == [()]
    assert scalar.chunks_present(())
    assert [*missing_chunk_keys(scalar._data)] == []


def test_few_chunks_of_a_huge_grid_are_found() -> None:
    array = oz.create_array(shape=(10**12,), chunks=(1,), dtype="i1")
    array[7] = array[10**12 - 1] = 1
    assert sorted(array.stored_chunks()) == [(7,), (10**12 - 1,)]
    assert array.chunks_present((slice(5, 9),)).tolist() == [False, False, True, False]
    with pytest.raises(oz.SelectionError, match="stored_chunks"):
        array.chunks_present()


def test_lengths_of_chunks_are_cut_at_the_end_of_the_array() -> None:
    array = sharded()
    assert array.write_chunk_sizes == ((4, 4, 2), (6, 3))
    uneven = oz.create_array(shape=9, chunks=[[2, 4, 6]])
    assert uneven.chunks == uneven.write_chunk_sizes == ((2, 4, 3),)


def test_encoded_chunks_move_from_one_array_to_another() -> None:
    source = oz.create_array(data=np.arange(8), chunks=4)
    target = oz.create_array(shape=8, chunks=4, dtype=source.dtype)
    data = source.get_encoded_chunk((1,))
    assert data is not None
    target.set_encoded_chunk((1,), data)
    assert target[...].tolist() == [0, 0, 0, 0, 4, 5, 6, 7]
    assert target.get_encoded_chunk((0,)) is None
    with pytest.raises(oz.ChunkError, match="not stored"):
        target.set_encoded_chunk((0,), data[:-1])
    with pytest.raises(IndexError, match=r"no chunk \(2,\)"):
        target.get_encoded_chunk((2,))
    assert target.get_encoded_chunk((0,)) is None


def test_stored_bytes_are_counted_without_fetching_values() -> None:
    values: dict[str, bytes] = {}
    store = RecordingStore(oz.storage.MemoryStore(values))
    array = oz.create_array(store, data=np.arange(100), chunks=10)
    store.calls.clear()
    assert array.nbytes_stored() == sum(map(len, values.values()))
    assert store.counts() == {"list_prefix": 1, "sizes": 2}


def test_empty_chunks_are_stored_by_a_handle_configured_so() -> None:
    store: dict[str, bytes] = {}
    array = oz.create_array(store, shape=4, chunks=2, config={"write_empty_chunks": True})
    array[...] = 0
    assert {"c/0", "c/1"} <= store.keys()
    assert array.config.write_empty_chunks
    assert pickle.loads(pickle.dumps(array)).config == array.config
    array.with_config({"write_empty_chunks": False})[...] = 0
    assert not {"c/0", "c/1"} & store.keys()
    array.view[...][...] = 0
    assert {"c/0", "c/1"} <= store.keys()
    array.with_config({"write_empty_chunks": False})[...] = 0
    with oz.open(store, "r+", config={"write_empty_chunks": True}).writer() as writer:
        writer[...] = 0
    assert {"c/0", "c/1"} <= store.keys()
    with pytest.raises(oz.InvalidArgument, match="'speed'"):
        array.with_config({"speed": 1})


def test_values_come_in_the_order_that_a_handle_asks_for() -> None:
    array = oz.create_array(data=np.arange(6).reshape(2, 3), config={"order": "F"})
    assert array[...].flags.f_contiguous
    assert array.with_config(None)[...].flags.c_contiguous
    assert array[...].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_out_takes_any_type_that_holds_the_values() -> None:
    array = oz.create_array(data=np.arange(6, dtype="i4"), chunks=4)
    out = np.zeros((6, 2))[:, 0]
    array.read(..., out=out)
    assert out.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="out must"):
        array.read(..., out=np.zeros(6, "S1"))


def test_a_stored_array_selects_like_its_values() -> None:
    array = oz.create_array(data=np.arange(10), chunks=3)
    chosen = oz.create_array(data=np.array([7, 2, 2]))
    mask = oz.create_array(data=np.arange(10) % 2 == 0)
    assert array[chosen].tolist() == array.oindex[chosen].tolist() == [7, 2, 2]
    assert array[mask].tolist() == [0, 2, 4, 6, 8]


def test_astype_gives_a_view_with_another_type() -> None:
    array = oz.create_array(data=np.arange(6).reshape(3, 2))
    view = array.astype("f4")
    assert (view.dtype, view.shape, len(view)) == (np.dtype("f4"), (3, 2), 3)
    assert view[1].dtype == view.oindex[[0], [1]].dtype == np.dtype("f4")
    assert np.array_equal(view, array[...])
    assert [row.tolist() for row in view] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(AttributeError, match="resize"):
        view.resize(2)


def test_arrays_are_exported_by_dlpack_and_iteration() -> None:
    array = oz.create_array(data=np.arange(7, dtype="f4"), chunks=3)
    assert np.from_dlpack(array).tolist() == array[...].tolist() == list(array)
    assert list(oz.create_array(shape=0)) == []
    assert bytes(array.__buffer__(0)) == array[...].tobytes()


def test_a_lone_surrogate_is_refused_with_its_position() -> None:
    array = oz.create_array(shape=1, dtype=str)
    with pytest.raises(oz.InvalidArgument, match=r"position 1.*surrogate"):
        array[...] = "a\ud800"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shards", [None, 4])
def test_elements_of_border_chunks_are_not_hidden_or_shown_again_without_a_warning(
    shards: int | None,
) -> None:
    array = oz.create_array(
        {}, data=np.arange(1, 7), chunks=4 if shards is None else 2, shards=shards
    )
    array.resize(8)  # the rest of the border chunk was never written
    with pytest.warns(oz.OmnizarrWarning, match=r"of 1 border chunks outside \(7,\) .* kept"):
        array.resize(7)
    array.resize(8)  # has nothing but the fill value there
    with pytest.warns(oz.OmnizarrWarning, match=r"elements of 1 border chunks outside \(5,\)"):
        array.resize(5)
    with pytest.warns(oz.OmnizarrWarning, match=r"of 1 border chunks outside \(5,\) .* again"):
        array.resize(6)
    assert array[...].tolist() == [1, 2, 3, 4, 5, 6]
    array.resize(5, outside="erase")
    array.resize(6)
    assert array[...].tolist() == [1, 2, 3, 4, 5, 0]


def test_a_read_only_array_refuses_every_change() -> None:
    store = MemoryStore()
    oz.create_array(store, data=np.arange(4), chunks=2)
    before, array = dict(store.values), oz.open(store, kind="array")
    changes: list[Callable[[], object]] = [
        lambda: array.view[0].__setitem__(..., 1),
        lambda: array.attrs.update(a=1),
        lambda: array.append([1]),
        lambda: array.resize(3),
        array.writer,
    ]
    for change in changes:
        with pytest.raises(oz.ReadOnly):
            change()
    assert store.values == before


def test_setting_the_shape_resizes() -> None:
    array = oz.create_array(data=np.arange(4), chunks=2)
    array.shape = (6,)
    assert array[...].tolist() == [0, 1, 2, 3, 0, 0]


@pytest.mark.parametrize("inner", [[], None, 3, {}, {"name": []}])
def test_an_array_of_an_unknown_type_is_shown_with_any_shard_codecs(
    inner: Any,
) -> None:
    store = MemoryStore()
    oz.create_array(store, shape=(8,), chunks=(4,), shards=(8,), dtype="i4")
    document = json.loads(store.values["zarr.json"])
    document["data_type"] = "not_known_here"
    document["codecs"][0]["configuration"]["codecs"] = [inner]
    store.set("zarr.json", json.dumps(document).encode())
    found = oz.open(store)
    assert "not_known_here" in repr(found)
    assert "sharding_indexed" in str(found.info)


def test_a_list_of_fields_can_be_combined_with_an_array_of_positions() -> None:
    array = oz.create_array({}, shape=(4,), dtype=[("x", "i4"), ("y", "f4")], chunks=(2,))
    array["x"] = [1, 2, 3, 4]
    found = array.oindex[np.array([0, 2]), ["y", "x"]]
    assert found.tolist() == [(0.0, 1), (0.0, 3)]


class Interrupting(MemoryStore):
    """Lets another thread write while the first one reads a chunk that it will change."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None
        self.thread: threading.Thread | None = None

    def get(self, key: str, range: Any = None) -> bytes | None:
        value = super().get(key, range)
        if self.meanwhile is not None and key.startswith("c/"):
            self.thread = threading.Thread(target=self.meanwhile)
            self.meanwhile = None
            self.thread.start()
            self.thread.join(0.3)
        return value


def test_threads_that_write_two_fields_of_an_element_lose_none() -> None:
    store = Interrupting()
    array = oz.create_array(store, shape=(4,), dtype=[("x", "i4"), ("y", "i4")], chunks=(4,))
    array[:] = [(0, 0)] * 3 + [(9, 9)]
    store.meanwhile = lambda: array.__setitem__("y", [5, 6, 7, 8])
    array["x"] = [1, 2, 3, 4]
    assert store.thread is not None
    store.thread.join()
    assert array[:].tolist() == [(1, 5), (2, 6), (3, 7), (4, 8)]


def test_writers_in_a_store_that_compares_lose_no_field(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.sqlite")
    array = oz.create_array(store, shape=(6,), dtype=[("x", "i4"), ("y", "i4")], chunks=(4,))

    def count(name: str) -> None:
        for number in range(20):
            array[1:5, name] = number
        array.vindex[[0, 5], name] = -1

    together(partial(count, "x"), partial(count, "y"))
    assert array[:].tolist() == [(-1, -1), *[(19, 19)] * 4, (-1, -1)]


@pytest.mark.parametrize("shape", [np.int64(3), (np.int64(3),), np.array([3])])
def test_a_shape_has_integers_of_any_kind(shape: Any) -> None:
    array = oz.create_array({}, shape=(5,), dtype="i4")
    array.resize(shape)
    assert array.shape == (3,)
    with pytest.raises(oz.errors.WrongType, match="expected integers >= 0"):
        array.resize((2.5,))
    assert array.shape == (3,)


def test_a_summary_calls_only_reversed_axes_fortran_order() -> None:
    turned = {"name": "transpose", "configuration": {"order": [0, 2, 1]}}
    array = oz.create_array({}, shape=(2, 3, 4), dtype="i4", filters=[turned])
    assert (array.order, array.info.get("order")) == ("C", None)
    fortran = oz.create_array({}, shape=(2, 3, 4), dtype="i4", order="F")
    assert (fortran.order, fortran.info["order"]) == ("F", "F")


def test_values_that_a_type_cannot_hold_are_named() -> None:
    array = oz.create_array({}, shape=(3,), dtype="i4")
    with pytest.raises(TypeError, match=r"'hello' cannot be stored as int32 in /: it is not a num"):
        array[0] = "hello"
    with pytest.raises(TypeError, match=r"cannot be stored as int32"):
        array[0] = {"a": 1}


def test_every_way_to_select_shows_itself() -> None:
    array = oz.create_array({}, shape=(3,), dtype="i4")
    for name in ("oindex", "vindex", "blocks", "view"):
        assert repr(array) in repr(getattr(array, name))


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize(
    "place",
    [
        lambda folder: {},
        lambda folder: folder / "a",
        lambda folder: SQLiteStore(folder / "a"),
        lambda folder: LMDBStore(folder / "a"),
        lambda folder: ZipStore(folder / "a", mode="a"),
        lambda folder: WrapperStore(SQLiteStore(folder / "a")),  # not known to be quick
    ],
    ids=["memory", "directory", "sqlite", "lmdb", "zip", "remote"],
)
@pytest.mark.parametrize(
    "layout", [{"chunks": 10}, {"chunks": 5, "shards": 20}, {"chunks": [[2, 9]]}], ids=str
)
def test_assigning_to_everything_keeps_values_appended_by_another_handle(
    layout: dict[str, Any], place: Callable[[Path], Any], engine: Any, tmp_path: Path
) -> None:
    """A11: the chunk at the end was stored as if nothing could be beyond the shape."""
    store = place(tmp_path)
    with oz.configure(engine=engine):
        stale = oz.create_array(store, shape=5, dtype="i4", **layout)
        oz.open(store, mode="r+").append([7, 7, 7])
        stale[:] = 2
        assert oz.open(store)[:].tolist() == [2] * 5 + [7] * 3
        stale.view[:][:] = 0
        assert oz.open(store)[:].tolist() == [0] * 5 + [7] * 3
        assert stale.shape == (5,)


@needs_kernel
@pytest.mark.parametrize(("rows", "calls"), [(100, 286), (10, 336)])  # whole chunks, parts
def test_rows_are_appended_in_a_directory_with_few_calls(
    tmp_path: Path, rows: int, calls: int
) -> None:
    """The limits include locks between threads and processes; newer Pythons need fewer."""
    array = oz.create_array(tmp_path, shape=(0, 100), chunks=(100, 100), dtype="f4")
    data = np.arange(rows * 100, dtype="f4").reshape(rows, 100)
    array.append(data)
    array.append(data)
    _, called = python_calls(array.append, data)
    assert np.array_equal(array[...], np.concatenate([data] * 3))
    assert len(called) <= calls, [code.co_qualname for code in called]


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({"order": "F"}, "F"),
        ({"order": "F", "shards": (4, 4, 4)}, "F"),
        ({"shards": (4, 4, 4)}, "C"),
        ({"shards": (4, 4, 4), "filters": [oz.codecs.TransposeCodec(order=(1, 0, 2))]}, "C"),
        ({"shards": (4, 4, 4), "filters": [oz.codecs.TransposeCodec(order="F")]}, "F"),
    ],
)
def test_the_order_is_that_of_items_in_chunks_inside_shards_too(options: Any, order: str) -> None:
    values = np.arange(64, dtype="u1").reshape(4, 4, 4)
    store: dict[str, bytes] = {}
    array = oz.create_array(store, data=values, chunks=(4, 4, 4), compressors=None, **options)
    assert array.order == order
    assert (values.tobytes("F") in store["c/0/0/0"]) == (order == "F")
    assert (array[...] == values).all()


def test_two_reversals_of_the_axes_are_order_c() -> None:
    reverse = {"name": "transpose", "configuration": {"order": [1, 0]}}
    codecs = [reverse, sharding(2, 3, codecs=[reverse, "bytes"])]
    assert oz.create_array({}, shape=(3, 2), chunks=(3, 2), dtype="u1", codecs=codecs).order == "C"


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("kind", ["directory", "memory", "sqlite"])
def test_a_handle_follows_an_array_that_was_made_smaller(
    kind: str, reads: bool, tmp_path: Path
) -> None:
    stores = {
        "directory": tmp_path / "a",
        "memory": {},
        "sqlite": oz.storage.SQLiteStore(tmp_path / "b"),
    }
    store: Any = stores[kind]
    data = np.arange(1, 25).reshape(6, 4)
    oz.create_array(store, data=data, chunks=(3, 2))
    old = oz.open(store)
    if reads:
        assert old[0, 0] == 1
    oz.open(store, mode="r+").resize((3, 4), outside="erase")
    assert np.array_equal(old[...], data[:3])
    assert old.shape == (3, 4)


def test_an_array_cannot_be_appended_to_beyond_63_bits() -> None:
    array = oz.create_array({}, shape=2**63 - 2, chunks=2**40, dtype="u1")
    with pytest.raises(oz.InvalidArgument, match="63 bits"):
        array.append(np.zeros(3, "u1"))
    assert array.shape == (2**63 - 2,)
