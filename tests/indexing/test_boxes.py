"""Boxes consist of whole chunks, cover a region once, and have a limited size."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.chunk_grids import GridAxis, ListedAxis, RegularAxis
from omnizarr.indexing import boxes


@st.composite
def axes_of_chunks(draw: st.DrawFn) -> GridAxis:
    """Return an axis of up to 20 elements, in chunks of one length or of several."""
    length = draw(st.integers(0, 20))
    if draw(st.booleans()):
        return RegularAxis(length, draw(st.integers(1, 22)))
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    return ListedAxis(length, np.cumsum([*sizes, *[5] * 4]))


@given(st.data(), st.lists(axes_of_chunks(), max_size=3), st.integers(1, 400))
def test_boxes_cover_a_region_once_and_split_no_chunk(
    data: st.DataObject, axes: list[GridAxis], items: int
) -> None:
    shape = [axis.length for axis in axes]
    ends = [sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))) for n in shape]
    region = tuple(slice(a, b) for a, b in ends) if data.draw(st.booleans()) else None
    most = data.draw(st.none() | st.integers(1, 5))
    cut = boxes.cut(axes, items, region, most)
    found = [*cut]
    assert len(found) == cut.count
    seen, owners = np.zeros(shape, int), np.zeros(shape, int)
    for number, box in enumerate(found, 1):
        seen[box] += 1
        owners[box] = number
    expected = np.zeros(shape, int)
    expected[region or ...] = 1
    np.testing.assert_array_equal(seen, expected)
    for coords in np.ndindex(*(axis.count for axis in axes)):
        pairs = [*zip(axes, coords, strict=True)]
        inside = owners[tuple(slice(a.start(n), a.start(n) + a.size(n)) for a, n in pairs)]
        assert len(np.unique(inside[inside > 0])) <= 1
    sizes = [boxes.box_size(box) for box in found]
    assert max(sizes, default=0) <= cut.largest
    single = prod(boxes.Cuts(axis).longest for axis in axes)
    regular = all(isinstance(axis, RegularAxis) for axis in axes)
    assert all(size <= max(items, single) for size in sizes if regular)
    for coords in cut.coords() if most is not None else ():
        assert prod(map(len, cut.chunks_in(coords))) <= most


def test_a_box_of_irregular_chunks_is_no_larger_than_asked_for() -> None:
    axis = ListedAxis(100, np.cumsum([1, 30, 30, 39]))
    assert [box[0].stop - box[0].start for box in boxes.cut([axis], 40)] == [1, 30, 30, 39]
    assert [box[0].stop - box[0].start for box in boxes.cut([axis], 80)] == [31, 69]
