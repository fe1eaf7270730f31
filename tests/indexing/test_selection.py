"""Selections agree with NumPy, for reading and for writing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.chunk_grids import Grid, ListedAxis, RegularAxis, intersect
from omnizarr.indexing import ProductPlan, Run, axis_plan, plan

Array = np.ndarray[Any, Any]


@st.composite
def shapes(draw: st.DrawFn, least: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw a shape and a chunk shape."""
    shape = tuple(draw(st.lists(st.integers(least, 11), min_size=1, max_size=3)))
    return shape, tuple(draw(st.integers(1, max(1, n + 2))) for n in shape)


@st.composite
def basic(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw integers, slices of any step and perhaps an ellipsis, as NumPy takes them."""
    items: list[Any] = []
    for n in shape:
        if n and draw(st.booleans()):
            items.append(draw(st.integers(-n, n - 1)))
        else:
            items.append(draw(st.slices(n)))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(items)))
        end = draw(st.integers(at, len(items)))
        items[at:end] = [Ellipsis]
    return tuple(items)


@st.composite
def orthogonal(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw an integer, slice, list or mask for every axis."""
    items: list[Any] = []
    for n in shape:
        kind = draw(st.sampled_from(["integer", "slice", "list", "mask", "run"]))
        if kind == "integer":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            items.append(draw(st.slices(n)))
        elif kind == "list":
            items.append(draw(st.lists(st.integers(-n, n - 1), max_size=8)))
        elif kind == "mask":
            items.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool))
        else:
            items.append(np.arange(draw(st.integers(0, n - 1)), n, draw(st.integers(1, 3))))
    return tuple(items)


def positions(item: Any, length: int) -> Array:
    """Return the positions that one item of an orthogonal selection means."""
    if isinstance(item, slice):
        return np.arange(length)[item]
    found = np.atleast_1d(np.asarray(item))
    return np.flatnonzero(found) if found.dtype == bool else found.astype(int)


def fresh(
    shape: tuple[int, ...], chunks: tuple[int, ...], **options: Any
) -> tuple[oz.Array, Array]:
    data = np.arange(np.prod(shape), dtype="i4").reshape(shape) + 1
    return oz.create_array(None, data=data, chunks=chunks, **options), data


@given(st.data(), shapes(least=0))
def test_integers_and_slices_agree_with_numpy(data: Any, sizes: Any) -> None:
    array, wanted = fresh(*sizes)
    selection = data.draw(basic(sizes[0]))
    found = array[selection]
    assert np.array_equal(found, wanted[selection])
    assert np.shape(found) == wanted[selection].shape
    values = -np.arange(np.size(found), dtype="i4").reshape(np.shape(found))
    array[selection] = values
    wanted[selection] = values
    assert np.array_equal(array[...], wanted)


@given(st.data(), shapes())
def test_orthogonal_selections_agree_with_numpy(data: Any, sizes: Any) -> None:
    array, wanted = fresh(*sizes)
    selection = data.draw(orthogonal(sizes[0]))
    index = np.ix_(*(positions(i, n) for i, n in zip(selection, sizes[0], strict=True)))
    kept = [
        n for n, i in zip(wanted[index].shape, selection, strict=True) if not isinstance(i, int)
    ]
    assert np.array_equal(array.oindex[selection], wanted[index].reshape(kept))
    assert array.oindex[selection].shape == tuple(kept)
    values = -np.arange(wanted[index].size, dtype="i4").reshape(wanted[index].shape)
    array.oindex[selection] = values.reshape(kept)
    wanted[index] = values
    assert np.array_equal(array[...], wanted)


@given(st.data(), shapes())
def test_points_agree_with_numpy(data: Any, sizes: Any) -> None:
    array, wanted = fresh(*sizes)
    count = data.draw(st.integers(0, 10))
    points = tuple(
        np.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)), int)
        for n in sizes[0]
    )
    assert np.array_equal(array.vindex[points], wanted[points])
    values = -np.arange(count, dtype="i4")
    array.vindex[points] = values
    wanted[points] = values
    assert np.array_equal(array[...], wanted)


@given(st.data(), shapes())
def test_masks_agree_with_numpy(data: Any, sizes: Any) -> None:
    array, wanted = fresh(*sizes)
    seed = data.draw(st.integers(0, 99))
    mask = np.random.default_rng(seed).random(sizes[0]) > 0.7
    assert np.array_equal(array[mask], wanted[mask])
    assert np.array_equal(array.vindex[mask], wanted[mask])
    array[mask] = -1
    wanted[mask] = -1
    assert np.array_equal(array[...], wanted)


@given(st.integers(0, 99), shapes())
def test_masks_for_all_axes_select_along_each_as_in_zarr_python(seed: int, sizes: Any) -> None:
    array, wanted = fresh(*sizes)
    random = np.random.default_rng(seed)
    masks = tuple(random.random(n) > 0.5 for n in sizes[0])
    assert np.array_equal(array[masks], wanted[np.ix_(*masks)])
    some = (*masks[:-1], np.arange(sizes[0][-1])[::-1])
    assert np.array_equal(array[some], wanted[np.ix_(*some)])
    assert np.array_equal(array.view[masks].read(), wanted[np.ix_(*masks)])
    array[masks] = -1
    wanted[np.ix_(*masks)] = -1
    assert np.array_equal(array[...], wanted)


def test_blocks_outside_the_grid_are_an_error() -> None:
    array, wanted = fresh((9, 7), (4, 3))
    for outside in (slice(3, 5), slice(-4, None), (slice(None), slice(3, None))):
        with pytest.raises(IndexError, match="out of bounds"):
            _ = array.blocks[outside]
        with pytest.raises(IndexError, match="out of bounds"):
            array.blocks[outside] = 0
    assert np.array_equal(array.blocks[1:9], wanted[4:])
    assert np.array_equal(array[...], wanted)


@given(st.data(), shapes())
def test_blocks_are_the_chunks_of_the_grid(data: Any, sizes: Any) -> None:
    array, wanted = fresh(*sizes)
    chunks, grid = sizes[1], array.cdata_shape
    block = tuple(data.draw(st.integers(-n, n - 1)) for n in grid)
    at = tuple(b % n for b, n in zip(block, grid, strict=True))
    region = tuple(slice(b * c, (b + 1) * c) for b, c in zip(at, chunks, strict=True))
    assert np.array_equal(array.blocks[block], wanted[region])
    array.blocks[block[0]] = 0
    wanted[region[0]] = 0
    assert np.array_equal(array[...], wanted)


def test_points_broadcast_and_keep_their_shape() -> None:
    array, wanted = fresh((9, 7), (4, 3))
    rows, columns = np.array([[1], [5]]), np.array([0, 6, 6])
    assert np.array_equal(array.vindex[rows, columns], wanted[rows, columns])
    assert np.array_equal(array[rows, columns], wanted[rows, columns])


@pytest.mark.parametrize("index", [4, 2**63 - 1, 2**63, 2**64 - 4, 2**64 - 1])
def test_an_unsigned_index_never_counts_from_the_end(index: int) -> None:
    values = np.arange(16).reshape(4, 4)
    array = oz.create_array({}, data=values, chunks=2)
    positions = np.array([0, index], np.uint64)
    for select in (array.oindex, array.vindex):
        with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
            select[[0, 1], positions]
        with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
            select[[0, 1], positions] = 99
    assert np.array_equal(array[...], values)


def test_fields_of_a_structure_are_selected_by_name() -> None:
    data = np.zeros(10, [("a", "i4"), ("b", "f8")])
    data["a"] = np.arange(10)
    array = oz.create_array(None, data=data, chunks=3)
    assert array["a"].tolist() == list(range(10))
    assert array["a", 2:4].tolist() == [2, 3]
    assert array[["b", "a"]].dtype.names == ("b", "a")
    out = np.zeros(10)
    assert array.read("b", out=out) is out
    array["b", 5:] = 1.5
    assert array["b"].tolist() == [0] * 5 + [1.5] * 5
    assert array["a"].tolist() == list(range(10))


def test_out_is_filled_and_returned() -> None:
    array, wanted = fresh((9, 7), (4, 3))
    out = np.zeros((4, 7), "i4")
    assert array.read((slice(8, 0, -2),), out=out) is out
    assert np.array_equal(out, wanted[8:0:-2])
    with pytest.raises(oz.SelectionError, match="out must have shape"):
        array.read(out=np.zeros(3))
    with pytest.raises(TypeError, match="out must be a NumPy array, got list"):
        array.read(..., out=[])


def test_a_list_of_consecutive_indices_becomes_a_slice() -> None:
    grid = Grid((RegularAxis(100, 10),))
    chosen = axis_plan(grid, (list(range(5, 95, 3)),))
    assert chosen.parts == (Run(5, 30, 3, 100),)
    assert chosen.runs


@st.composite
def runs(draw: st.DrawFn) -> tuple[Run, RegularAxis | ListedAxis]:
    """Draw a run along an axis, of one chunk size or of listed ones."""
    length = draw(st.integers(1, 40))
    start = draw(st.integers(0, length - 1))
    step = draw(st.integers(1, 12))
    size = draw(st.integers(0, (length - 1 - start) // step + 1))
    run = Run(start, size, step if size > 1 else 1, length)
    if draw(st.booleans()):
        return run, RegularAxis(length, draw(st.integers(1, 45)))
    cuts = draw(st.sets(st.integers(1, length), max_size=6)) | {length}
    return run, ListedAxis(length, np.array(sorted(cuts)))


@given(runs())
def test_the_rows_of_a_run_are_its_elements_chunk_by_chunk(
    given: tuple[Run, RegularAxis | ListedAxis],
) -> None:
    run, axis = given
    columns = intersect(axis, run.start, run.size, run.step)
    found = []
    for chunk, region, part, whole in columns.rows():
        begin = axis.start(chunk)
        there = min(axis.size(chunk), axis.length - begin)
        assert part.start == len(found) < part.stop
        found += [begin + i for i in range(region.start, region.stop, region.step)]
        assert part.stop == len(found)
        assert whole == (run.step == 1 and part.stop - part.start == there)
    assert found == [run.start + k * run.step for k in range(run.size)]
    made = ProductPlan(Grid((axis,)), (run,), (run.size,), (slice(None),))
    assert [*made.chunks()] == [(chunk,) for chunk, *_ in columns.rows()]
    assert made.count == len(columns)
    assert not run.size or made.whole == columns.whole.all()


def test_a_plan_has_no_python_object_per_element() -> None:
    grid = Grid((RegularAxis(10**7, 10**6),))
    chosen = plan(grid, np.random.default_rng(0).integers(0, 10**7, 10**5))
    assert chosen.count == 10
    assert len(list(chosen.rows())) == 10


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ((9,), "index 9 is out of bounds for axis 0"),
        ((-10,), "index -10"),
        ((0, 0, 0), "too many indices"),
        ((..., ...), "only one ellipsis"),
        ((None,), "NoneType"),
        ((True,), "bool"),
        ((1.5,), "float"),
        (("a",), "field"),
        (([0, 9],), "index 9"),
        (([0.5],), "type float64"),
        (([True, False],), "mask for axis 0"),
        (np.zeros((2, 2), bool), "mask"),
        (([0], [1, 2, 3], slice(None)), "ambiguous"),
        (([True] * 9, [True] * 7, 0), "several masks beside slices are ambiguous"),
        (([0, 1], [1, 2, 3]), "do not fit"),
    ],
)
def test_a_wrong_selection_is_an_error_that_says_why(selection: Any, words: str) -> None:
    array, _ = fresh((9, 7), (4, 3))
    with pytest.raises((oz.SelectionError, oz.InvalidMetadata)) as error:
        _ = array[selection]
    assert words in str(error.value)
