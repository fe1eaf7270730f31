"""Plans of rechunking: every target chunk once, within the memory, with the reads they promise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.bulk.rechunk.plan import Chunking, Passes, plan_passes, smallest_memory, usable_memory
from omnizarr.chunk_grids import GridAxis, ListedAxis, RegularAxis
from omnizarr.errors import InvalidArgument


@st.composite
def axes(draw: st.DrawFn, length: int) -> GridAxis:
    if draw(st.booleans()) or not length:
        return RegularAxis(length, draw(st.integers(1, length + 3)))
    ends = draw(st.sets(st.integers(1, length - 1)) if length > 1 else st.just(set[int]()))
    return ListedAxis(length, np.array([*sorted(ends), length + draw(st.integers(0, 2))]))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Chunking, Chunking]:
    shape = draw(st.lists(st.integers(0, 24), max_size=3))
    sides = []
    for _ in range(2):
        made = tuple(draw(axes(n)) for n in shape)
        sides.append(Chunking(made, draw(st.sampled_from((1, 2, 8))), draw(st.integers(0, 100))))
    return sides[0], sides[1]


def chunks_in(axis: GridAxis, part: slice) -> set[int]:
    return {int(axis.chunk_of(i)) for i in range(part.start, part.stop)}


def check_passes(plan: Passes, source: Chunking, target: Chunking, memory: int) -> None:
    """Raise if a plan writes a chunk twice or not, or counts or needs other than it says."""
    middle = None
    if plan.intermediate is not None:
        middle = tuple(map(RegularAxis, target.shape, plan.intermediate))
    usable = usable_memory(memory)
    for number, each in enumerate(plan.passes):
        last = number == len(plan.passes) - 1
        written = target.axes if last or middle is None else middle
        read = source.axes if number == 0 or middle is None else middle
        boxes = list(each.boxes)
        assert len(boxes) == each.boxes.count
        found = [c for box in boxes for c in itertools.product(*map(chunks_in, written, box))]
        wanted = itertools.product(*(range(axis.count) for axis in written))
        assert sorted(found) == sorted(wanted)
        assert len(found) == each.writes
        reads = sum(math.prod(len(c) for c in map(chunks_in, read, box)) for box in boxes)
        assert reads == each.reads
        item = source.itemsize if number == 0 else min(source.itemsize, target.itemsize)
        largest = max((math.prod(s.stop - s.start for s in box) for box in boxes), default=0)
        assert largest * item <= each.memory
        assert each.memory * plan.tasks <= usable


@given(layouts(), st.integers(1, 30_000), st.integers(1, 5), st.sampled_from((None, 1, 2)))
def test_a_plan_writes_every_chunk_once_and_keeps_to_the_memory(
    layout: tuple[Chunking, Chunking],
    memory: int,
    threads: int,
    passes: int | None,
) -> None:
    source, target = layout
    try:
        plan = plan_passes(source, target, memory, threads, passes)
    except InvalidArgument:
        least = smallest_memory(source, target, passes)
        assert least > memory
        plan = plan_passes(source, target, least, threads, passes)
        memory = least
    assert passes is None or len(plan.passes) == passes
    assert plan.tasks * plan.threads <= threads
    check_passes(plan, source, target, memory)


def regular(chunks: tuple[int, ...], shape: tuple[int, ...] = (1024,) * 3) -> Chunking:
    axes = tuple(map(RegularAxis, shape, chunks))
    return Chunking(axes, 4, 8 * math.prod(chunks))


PLANES, COLUMNS = regular((1, 1024, 1024)), regular((1024, 32, 32))
GB4 = 2**32


@pytest.mark.parametrize(("source", "target"), [(PLANES, COLUMNS), (COLUMNS, PLANES)])
def test_a_transposition_larger_than_the_memory_takes_two_passes(
    source: Chunking, target: Chunking
) -> None:
    plan = plan_passes(source, target, 512_000_000, 2)
    assert plan.intermediate is not None
    assert plan.moved == 4 * GB4  # each pass reads and writes everything once
    assert math.prod(plan.intermediate) * 4 >= 2**22  # few, large values


def test_one_pass_is_enough_where_chunks_can_be_read_in_parts() -> None:
    source = Chunking(PLANES.axes, 4, 2**21, unit=(1, 64, 1024))
    plan = plan_passes(source, COLUMNS, 512_000_000, 2)
    assert (plan.intermediate, plan.tasks, plan.threads) == (None, 1, 2)
    assert plan.moved == 2 * GB4


def test_one_pass_is_enough_where_it_reads_little_twice() -> None:
    plan = plan_passes(regular((64, 64, 64)), regular((100, 100, 100)), 512_000_000, 2)
    assert plan.intermediate is None
    assert plan.passes[0].bytes_read < 1.6 * GB4


def test_equal_chunks_are_read_once_in_boxes_of_a_useful_size() -> None:
    plan = plan_passes(regular((16, 16, 16)), regular((16, 16, 16)), 512_000_000, 2)
    assert plan.moved == 2 * GB4
    assert 2**23 <= GB4 // plan.passes[0].boxes.count <= 2**26


def test_a_chunk_larger_than_the_memory_is_refused_with_the_memory_that_it_needs() -> None:
    with pytest.raises(InvalidArgument, match=r"chunks of 1073741824 bytes .*give memory=(\d+)"):
        plan_passes(PLANES, regular((1024, 512, 512)), 512_000_000, 2)


def test_more_than_two_passes_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="passes must be 1 or 2, got 3"):
        plan_passes(PLANES, COLUMNS, 2**30, passes=3)


def test_petabytes_are_planned_in_no_time() -> None:
    shape = (10**6, 10**5, 10**4)
    plan = plan_passes(
        regular((1, 1000, 1000), shape), regular((10**4, 10, 10), shape), 2**30, 64
    )  # fmt: skip
    assert plan.passes[-1].writes == 10**2 * 10**4 * 10**3
    assert next(iter(plan.passes[-1].boxes))
