"""Views: a series of selections is one selection and is read once."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.formats import is_metadata
from omnizarr.testing import RecordingStore
from tests.sampling import tries

SHAPE = (7, 9, 5)
DATA = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE) + 1
LAYOUTS: list[dict[str, Any]] = [
    {"chunks": (3, 2, 4)},
    {"chunks": (1, 2, 2), "shards": (3, 4, 4)},
    {"chunks": (3, 2, 4), "zarr_format": 2, "order": "F"},
    {"chunks": (2, 2, 2), "shards": (4, 4, 4), "zarr_format": "3-draft"},
    {"chunks": [[3, 4], [5, 4], [1, 1, 3]]},
]


def stored(layout: dict[str, Any], store: Any = None) -> oz.Array:
    return oz.create_array(store, data=DATA, **layout)


@st.composite
def axis_items(draw: Any, length: int) -> Any:
    """Draw a slice, a list or a mask for an axis, not an integer."""
    kind = draw(st.sampled_from(["slice", "slice", "list", "mask"]))
    if kind == "slice":
        return draw(st.slices(length))
    if kind == "mask":
        return np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), bool)
    if not length:
        return np.zeros(0, int)
    return draw(st.lists(st.integers(-length, length - 1), max_size=6))


@st.composite
def steps(draw: Any, shape: tuple[int, ...]) -> tuple[str, Any]:
    """Draw one link of a chain: a way to choose and what is chosen."""
    ways = ["basic", "one list", "oindex", "transpose"]
    if shape and 0 not in shape:
        ways += ["vindex", "mask"]
    way = draw(st.sampled_from(ways))
    if way == "transpose":
        return way, tuple(draw(st.permutations(range(len(shape)))))
    if way == "vindex":
        count = draw(st.integers(1, 8))
        lists = [st.lists(st.integers(-n, n - 1), min_size=count, max_size=count) for n in shape]
        return way, tuple(np.array(draw(one)) for one in lists)
    if way == "mask":
        return way, np.random.default_rng(draw(st.integers(0, 99))).random(shape) < 0.3
    basic = [draw(st.slices(n) | st.integers(-n, n - 1) if n else st.slices(n)) for n in shape]
    if way == "basic":
        return way, (*basic[: draw(st.integers(0, len(basic)))], ...)
    if way == "oindex" or not shape:
        return "oindex", tuple(draw(axis_items(n)) for n in shape)
    slices = [draw(st.slices(n)) for n in shape]
    at = draw(st.integers(0, len(shape) - 1))
    slices[at] = draw(axis_items(shape[at]))
    return way, tuple(slices)


def in_numpy(data: Any, way: str, chosen: Any) -> Any:
    if way == "transpose":
        return data.transpose(chosen)
    if way == "oindex":
        for axis, item in enumerate(chosen):
            data = data[(slice(None),) * axis + (item,)]
        return data
    return data[chosen]


def in_view(viewer: Any, way: str, chosen: Any) -> Any:
    if way == "transpose":
        return viewer[...].transpose(*chosen)
    if way == "oindex":
        return viewer.oindex[chosen]
    if way in ("vindex", "mask"):
        return viewer.vindex[chosen]
    return viewer[chosen]


def chain(data: Any, array: oz.Array, depth: int) -> tuple[oz.View, Any]:
    """Return a random chain of links, as a view and in NumPy."""
    view, wanted = array.view[...], DATA
    for _ in range(data.draw(st.integers(0, depth))):
        way, chosen = data.draw(steps(wanted.shape))
        view, wanted = in_view(view.view, way, chosen), in_numpy(wanted, way, chosen)
        assert view.shape == np.shape(wanted)
    return view, np.asarray(wanted)


@settings(max_examples=tries(60, 1000))
@given(st.sampled_from(LAYOUTS), st.data())
def test_a_chain_is_the_same_chain_in_numpy_and_reads_the_keys_it_names(
    layout: dict[str, Any], data: Any
) -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    array = stored(layout, store)
    view, wanted = chain(data, array, 4)
    keys = view.chunk_keys()
    assert len(set(keys)) == len(keys)
    store.calls.clear()
    with oz.configure(engine="reference"):
        assert np.array_equal(np.asarray(view), wanted)
    read = {key for call in store.calls if call.operation.startswith("get") for key in call.keys}
    chunks = {key for key in read if not is_metadata(key)}
    assert chunks == set(keys)
    assert np.array_equal(view[...], wanted)
    out = np.zeros(view.shape, view.dtype)
    assert view.read(out=out) is out
    assert np.array_equal(out, wanted)
    assert (view.size, view.nbytes, view.ndim) == (wanted.size, wanted.nbytes, wanted.ndim)
    again = pickle.loads(pickle.dumps(view))
    assert np.array_equal(again[...], wanted)


@given(st.data(), st.sampled_from(["memory", "directory"]))
def test_an_assignment_through_a_view_changes_only_its_elements(data: Any, where: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        array = stored(LAYOUTS[0], None if where == "memory" else folder)
        view, _ = chain(data, array, 3)
        positions = np.asarray(view) - 1
        values = -np.arange(positions.size, dtype="i4").reshape(positions.shape) - 5
        if len(np.unique(positions)) < positions.size:
            with pytest.raises(oz.SelectionError, match="more than once"):
                view[...] = values
            assert np.array_equal(array[...], DATA)
            return
        view[...] = values
        wanted = DATA.reshape(-1).copy()
        wanted[positions.reshape(-1)] = values.reshape(-1)
        assert np.array_equal(array[...], wanted.reshape(SHAPE))
        assert np.array_equal(view[...], values)


def test_square_brackets_of_a_view_read_and_its_view_chooses() -> None:
    view = stored(LAYOUTS[0]).view[1:, ::2].T
    assert isinstance(view[0], np.ndarray)
    assert isinstance(view.view[0], oz.View)
    assert view[1, 2, 3] == DATA[1:, ::2].T[1, 2, 3]
    assert np.array_equal(list(view), DATA[1:, ::2].T)
    assert len(view) == SHAPE[2]


def test_part_of_a_view_is_assigned_with_broadcasting() -> None:
    array = stored(LAYOUTS[0])
    wanted = DATA.copy()
    array.view[2:6].transpose(1, 0, 2)[3] = np.arange(5)
    wanted[2:6, 3] = np.arange(5)
    array.view[0, 0][1:3] = -1
    wanted[0, 0, 1:3] = -1
    assert np.array_equal(array[...], wanted)


def test_no_chunk_is_read_before_values_are_requested() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    array = stored(LAYOUTS[0], store)
    store.calls.clear()
    view = array.view[::2].T.view[1:3, [0, 4]]
    assert view.chunk_keys()
    assert repr(view).startswith("<View (2, 2, 4) int32  64 bytes  of <Array /")
    assert "oindex" in repr(array.view)
    assert store.calls == []


def test_objects_and_elements_keep_their_type() -> None:
    array = oz.create_array(None, data=np.array([b"a", b"bcd"], object), dtype=bytes)
    assert np.asarray(array.view[1]).dtype == object
    assert array.view[1].read() == b"bcd"
    assert np.asarray(array.view[::-1], dtype="S3").tolist() == [b"bcd", b"a"]


def test_a_view_of_an_array_that_shrank_is_an_error() -> None:
    array = oz.create_array(None, data=np.arange(10), chunks=3)
    views = [array.view[2:8], array.view[[7, 1]], array.view[9], array.view.vindex[[0, 8],]]
    array.resize(5, outside="erase")
    for view in views:
        with pytest.raises(oz.SelectionError, match="now has shape"):
            view.read()
    assert array.view[2:4].read().tolist() == [2, 3]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda a: a.view[9], "out of bounds"),
        (lambda a: a.view[0].view[:, :, 0], "too many indices"),
        (lambda a: a.view[[0, 1], :, [1, 2]], "ambiguous"),
        (lambda a: a.view[:].transpose(0, 1), "not the 3 axes"),
        (lambda a: a.view[:].transpose(0, 0, 1), "not the 3 axes"),
        (lambda a: a.view["x"], "cannot select with str"),
        (lambda a: a.view[1:3].read(out=np.zeros(3)), "out must have shape"),
        (lambda a: a.view[1:3].__setitem__(..., np.zeros((4, 4))), "into a selection of shape"),
        (lambda a: np.array(a.view[1:3], copy=False), "without a copy"),
    ],
)
def test_values_that_do_not_fit_a_view_are_refused(act: Any, message: str) -> None:
    with pytest.raises((oz.SelectionError, ValueError), match=message):
        act(stored(LAYOUTS[0]))


def test_a_view_reads_stored_values_despite_stale_consolidated_metadata(
    tmp_path: Path,
) -> None:
    group = oz.create_group(tmp_path)
    group.create_array("a", data=np.arange(4), chunks=(4,), attributes={"old": 1})
    oz.consolidate_metadata(tmp_path)
    array = oz.open(tmp_path, use_consolidated=True)["a"]
    path = tmp_path / "a" / "zarr.json"
    path.write_text(path.read_text().replace("little", "big"))
    with pytest.warns(oz.OmnizarrWarning, match="out of date"):
        values = array.view[1:].read()
    assert values.tolist() == np.arange(1, 4).byteswap().tolist()


def test_a_view_is_transposed_by_numpy_integers() -> None:
    view = stored(LAYOUTS[0]).view[...]
    for axes in ((2, 0, 1), [2, 0, 1], np.array([2, 0, 1]), (np.int64(2), np.int64(0), -2)):
        assert view.transpose(axes).shape == (5, 7, 9)
        assert view.transpose(*axes).shape == (5, 7, 9)
    assert view.transpose().shape == view.transpose(None).shape == (5, 9, 7)
