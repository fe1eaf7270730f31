"""The parts of a box consist of whole chunks or shards and cover the box."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.partition import parts, read_axes, stored_axes


@given(data=st.data(), shape=st.lists(st.integers(1, 20), min_size=1, max_size=3))
def test_parts_cover_a_box_once_and_no_chunk_twice(data: st.DataObject, shape: list[int]) -> None:
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    shards = None
    if data.draw(st.booleans()):
        shards = tuple(c * data.draw(st.integers(1, 3)) for c in chunks)
    array = oz.create_array({}, shape=shape, chunks=chunks, shards=shards, dtype="u1")
    ends = [sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))) for n in shape]
    box = tuple(slice(a, b) for a, b in ends)
    items = data.draw(st.integers(1, 400))
    axes = data.draw(st.sampled_from([stored_axes(array), read_axes(array)]))
    found = parts(axes, box, items)
    seen, owners = np.zeros(shape, int), np.zeros(shape, int)
    for number, part in enumerate(found, 1):
        seen[part] += 1
        owners[part] = number
    expected = np.zeros(shape, int)
    expected[box] = 1
    np.testing.assert_array_equal(seen, expected)
    values = [[(a.start(i), a.start(i + 1)) for i in range(a.count)] for a in axes]
    for cell in np.ndindex(*(len(v) for v in values)):
        inside = owners[tuple(slice(*values[k][i]) for k, i in enumerate(cell))]
        assert len(np.unique(inside[inside > 0])) <= 1
    stored = prod(min(int(a.size(0)), n) for a, n in zip(axes, shape, strict=True))
    assert all(prod(s.stop - s.start for s in part) <= max(items, stored) for part in found)
