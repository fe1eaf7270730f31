"""Chunk grids: the chunks partition the array, and a selection meets each of its elements once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr import chunk_grids
from omnizarr.chunk_grids import Grid, ListedAxis
from omnizarr.errors import InvalidMetadata, UnknownExtension
from omnizarr.model import Named


def regular(*chunks: Any) -> Named:
    return Named("regular", {"chunk_shape": list(chunks)})


def rectilinear(*axes: Any) -> Named:
    return Named("rectilinear", {"kind": "inline", "chunk_shapes": list(axes)})


def spelt(draw: st.DrawFn, sizes: list[int]) -> list[Any]:
    """Return a list of lengths with some runs of equal ones as [length, repeats]."""
    out: list[Any] = []
    for size in sizes:
        if out and draw(st.booleans()) and isinstance(out[-1], list) and out[-1][0] == size:
            out[-1] = [size, out[-1][1] + 1]
        else:
            out.append([size, 1] if draw(st.booleans()) else size)
    return out


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Draw a regular or rectilinear grid of up to three axes."""
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    if draw(st.booleans()):
        return chunk_grids.bind(regular(*(draw(st.integers(1, 5)) for _ in shape)), shape)
    axes: list[Any] = []
    for length in shape:
        sizes = draw(st.lists(st.integers(1, 4), max_size=4))
        sizes += [max(1, length - sum(sizes))] if length > sum(sizes) else []
        axes.append(draw(st.one_of(st.integers(1, 5), st.just(spelt(draw, sizes)))))
    return chunk_grids.bind(rectilinear(*axes), shape)


@pytest.mark.shows("D3-19", "D3-20", "D3-21")
@given(grids())
def test_every_element_is_in_exactly_one_chunk(grid: Grid) -> None:
    owners = np.zeros(grid.array_shape, int)
    assert grid.count == np.prod(grid.shape, dtype=int)
    for coords in np.ndindex(grid.shape):
        origin, shape = grid.origin(coords), grid.chunk_shape(coords)
        box = tuple(slice(o, o + n) for o, n in zip(origin, shape, strict=True))
        assert owners[box].size or not owners.ndim  # no chunk is entirely outside the array
        owners[box] += 1
        assert all(a.begins(o) for a, o in zip(grid.axes, origin, strict=True))
    assert (owners == 1).all()


@given(grids())
def test_a_position_is_in_the_chunk_that_starts_at_or_before_it(grid: Grid) -> None:
    for axis in grid.axes:
        positions = np.arange(axis.length)
        chunks = axis.chunk_of(positions)
        assert chunks.tolist() == [axis.chunk_of(int(p)) for p in positions]
        inside = positions - axis.start(chunks)
        assert ((inside >= 0) & (inside < axis.size(chunks))).all()


@given(grids(), st.data())
def test_a_selection_meets_each_of_its_elements_once(grid: Grid, data: st.DataObject) -> None:
    array = np.arange(np.prod(grid.array_shape, dtype=int)).reshape(grid.array_shape)
    region = tuple(
        slice(start, data.draw(st.integers(start, n)), data.draw(st.integers(1, 4)))
        for n in grid.array_shape
        for start in [data.draw(st.integers(0, n))]
    )
    expected = array[region]
    found = np.full(expected.shape, -1)
    touched = list(grid.intersect(region))
    for coords, inside, outside in touched:
        origin, shape = grid.origin(coords), grid.chunk_shape(coords)
        chunk = array[tuple(slice(o, o + n) for o, n in zip(origin, shape, strict=True))]
        assert (found[outside] == -1).all()
        assert found[outside].size
        found[outside] = chunk[inside]
    assert (found == expected).all()
    assert [coords for coords, _, _ in touched] == sorted({coords for coords, _, _ in touched})


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
def test_whole_chunks_are_those_of_which_nothing_is_left_out(
    sizes: list[int], data: st.DataObject
) -> None:
    length = data.draw(st.integers(1, sum(sizes)))
    axis = ListedAxis(length, np.cumsum(sizes))
    start = data.draw(st.integers(0, length - 1))
    size = data.draw(st.integers(1, length - start))
    for chunk, inside, _, whole in chunk_grids.intersect(axis, start, size, 1).rows():
        real = min(axis.size(chunk), length - axis.start(chunk))
        assert whole == (inside == slice(0, real, 1))


@given(grids(), st.data())
def test_a_resized_regular_grid_is_the_grid_of_the_new_shape(
    grid: Grid, data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.integers(0, 12)) for _ in grid.axes)
    chunks = grid.regular
    if chunks is None:
        assert grid.resized(shape) is None
    else:
        assert grid.resized(shape) == chunk_grids.bind(regular(*chunks), shape)


@given(st.lists(st.integers(1, 4), max_size=4), st.integers(0, 30), st.integers(1, 3))
def test_a_covering_grid_keeps_its_chunks_and_has_room_for_the_shape(
    sizes: list[int], length: int, unit: int
) -> None:
    covering = chunk_grids.covering(rectilinear(sizes), (length,), (unit,))
    [axis] = chunk_grids.bind(covering, (length,)).axes
    assert isinstance(axis, ListedAxis)
    assert np.diff(axis.ends, prepend=0)[: len(sizes)].tolist() == sizes
    added = int(axis.ends[-1]) - sum(sizes) if len(axis.ends) else 0
    assert sum(sizes) + added >= length
    assert added % unit == 0
    assert (added == 0) == (length <= sum(sizes))


@pytest.mark.parametrize(
    ("named", "field"),
    [
        (regular(2), "chunk_shape"),
        (regular(2, "x"), "chunk_shape[1]"),
        (regular(0, 2), "chunk_shape[0]"),
        (Named("regular"), "chunk_shape"),
        (regular(2, 2).replace(other=1), "other"),
        (rectilinear(2), "chunk_shapes"),
        (rectilinear(2, [1, 1]), "chunk_shapes[1]"),
        (rectilinear(2, [0, 4]), "chunk_shapes[1][0]"),
        (rectilinear(2, [[4]]), "chunk_shapes[1][0]"),
        (rectilinear(2, [[4, True]]), "chunk_shapes[1][0]"),
        (rectilinear(2, [[1, 2**40]]), "chunk_shapes[1]"),
        (rectilinear(2, 4).replace(kind="other"), "kind"),
    ],
)
def test_a_grid_that_is_not_valid_is_refused_with_its_place(named: Named, field: str) -> None:
    with pytest.raises(InvalidMetadata) as error:
        chunk_grids.bind(named, (4, 4))
    assert [p.field for p in error.value.problems] == [f"configuration.{field}"]


def test_an_unknown_grid_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownExtension, match="hexagonal") as error:
        chunk_grids.bind(Named("hexagonal"), (4,))
    assert (error.value.kind, error.value.name) == ("chunk_grid", "hexagonal")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_with_chunks_of_length_0_can_grow(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(0, 4), chunks=(1, 4), dtype="i2", zarr_format=zarr_format)
    key = ".zarray" if zarr_format == 2 else "zarr.json"
    document = json.loads(store[key])
    holder = document if zarr_format == 2 else document["chunk_grid"]["configuration"]
    holder["chunks" if zarr_format == 2 else "chunk_shape"] = [0, 4]
    store[key] = json.dumps(document).encode()
    array = oz.open(store, mode="r+")
    array.append(np.ones((3, 4), "i2"))
    assert oz.open(store).chunks == (1, 4)
    assert oz.open(store)[:].tolist() == [[1] * 4] * 3
