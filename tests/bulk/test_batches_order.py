"""Every row is in one place of the order, whatever the blocks, windows and workers are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.bulk import batches as order
from omnizarr.bulk.batches import Blocks, equal_blocks, find_blocks, make_order
from omnizarr.chunk_grids import ListedAxis, RegularAxis


@st.composite
def picks(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Draw positions along an axis, and its shards and chunks."""
    length = draw(st.integers(0, 60))
    if draw(st.booleans()):
        chunk = draw(st.integers(1, 7))
        stored: Any = RegularAxis(length, chunk * draw(st.integers(1, 4)))
        chunks: Any = RegularAxis(length, chunk)
    else:
        ends = np.cumsum(draw(st.lists(st.integers(1, 9), min_size=1, max_size=12)))
        length = min(length, int(ends[-1]))
        stored = chunks = ListedAxis(length, ends)
    low = draw(st.integers(0, length))
    if draw(st.booleans()):
        return range(low, length, draw(st.integers(1, 3))), stored, chunks
    positions = st.lists(st.integers(0, max(0, length - 1)), max_size=40 if length else 0)
    return np.array(draw(positions), np.int64), stored, chunks


def given_rows(blocks: Blocks, window: int, seed: int, workers: int) -> list[list[int]]:
    """Return the rows of every worker in the order in which they are given."""
    found = []
    for worker in range(workers):
        each = make_order(blocks, window, seed, worker, workers)
        mine: list[int] = []
        for number in range(len(each.bounds) - 1):
            rows, shuffled = each.rows(number)
            first, last = each.span(number)
            assert each.window_of(first) == each.window_of(last - 1) == number
            assert (first, last - first) == (len(mine), len(rows))
            assert len(rows) <= window
            mine += rows[shuffled].tolist()
        assert len(mine) == each.count
        found.append(mine)
    return found


@given(picks(), st.integers(1, 20))
def test_a_block_is_of_one_shard_unless_it_has_too_many_rows(pick: Any, most: int) -> None:
    positions, stored, chunks = pick
    blocks = find_blocks(positions, stored, chunks, most)
    at = np.asarray(positions, np.int64)
    at = at if blocks.rows is None else at[blocks.rows]
    largest = int(stored.size(np.arange(stored.count)).max()) if stored.count else 0
    for first, last in zip(blocks.bounds[:-1], blocks.bounds[1:], strict=True):
        if largest <= most:
            assert len(np.unique(stored.chunk_of(at[first:last]))) <= 1


def test_seeds_give_different_orders_and_the_same_one_in_every_version() -> None:
    blocks = equal_blocks(12, 2)
    orders = {tuple(given_rows(blocks, 4, seed, 1)[0]) for seed in range(20)}
    assert len(orders) == 20
    assert given_rows(blocks, 4, 7, 1)[0] == [2, 3, 11, 10, 9, 1, 8, 0, 7, 6, 5, 4]


def test_arrays_of_very_many_chunks_have_a_bounded_number_of_blocks() -> None:
    axis = RegularAxis(10**10, 1)
    blocks = find_blocks(range(10**10), axis, axis, 10**9)
    assert len(blocks.bounds) <= order.MAX_BLOCKS + 1
    assert blocks.count == 10**10
    assert len(equal_blocks(10**10, 1).bounds) <= order.MAX_BLOCKS + 2
