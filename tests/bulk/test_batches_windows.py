"""Batches of windows: each window once, each chunk decoded little more than once."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.windows import MOST_DECODED
from omnizarr.errors import InvalidArgument, WrongType

FILL = -1


def expected_windows(data: Any, sizes: Any, strides: Any, edges: str) -> list[Any]:
    """Return all windows in C order, made by NumPy."""
    starts = []
    for length, size, stride in zip(data.shape, sizes, strides, strict=True):
        found = [a for a in range(0, length, stride) if a + size <= length]
        if edges == "pad" and not (found and found[-1] + size == length):
            found += [a for a in range(0, length, stride) if a not in found][:1]
        starts.append(found)
    wide = np.pad(data, [(0, n) for n in sizes], constant_values=FILL)
    return [
        wide[tuple(slice(a, a + n) for a, n in zip(at, sizes, strict=True))]
        for at in itertools.product(*starts)
    ]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Any, dict[str, Any], list[int], list[int]]:
    """Draw an array's values, its chunks, and the sizes and strides of windows."""
    shape = draw(st.lists(st.integers(1, 11), min_size=1, max_size=3))
    chunks = [draw(st.integers(1, 5)) for _ in shape]
    layout: dict[str, Any] = {"chunks": tuple(chunks)}
    if draw(st.booleans()):
        layout["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    sizes = [draw(st.integers(1, n)) for n in shape]
    strides = [draw(st.integers(1, 6)) for _ in shape]
    return np.arange(np.prod(shape), dtype="i4").reshape(shape), layout, sizes, strides


def stored(data: Any, layout: dict[str, Any], **more: Any) -> oz.Array:
    return oz.create_array(oz.storage.MemoryStore(), data=data, fill_value=FILL, **layout, **more)


@given(
    layouts(),
    st.sampled_from(["drop", "pad"]),
    st.integers(1, 9),
    st.integers(2, 5000),
    st.integers(1, 4),
    st.integers(0, 2**64),
    st.integers(0, 9),
)
def test_all_workers_together_give_every_window_once_and_can_go_on_anywhere(
    made: Any, edges: Any, size: int, budget: int, workers: int, seed: int, at: int
) -> None:
    data, layout, sizes, strides = made
    array, found = stored(data, layout), []
    expected = expected_windows(data, sizes, strides, edges)
    options: Any = {"sample": sizes, "stride": strides, "edges": edges, "budget": budget}
    in_order = [*oz.batches(array, size, shuffle=False, **options)]
    np.testing.assert_array_equal(np.concatenate(in_order), expected)
    assert all(len(batch) == size for batch in in_order[:-1])
    for worker in range(workers):
        options.update(worker=worker, workers=workers, seed=seed)
        own = [*oz.batches(array, size, **options)]
        np.testing.assert_equal([*oz.batches(array, size, start=at, **options)], own[at:])
        found += [window for batch in own for window in batch]
    assert sorted(w.tobytes() for w in found) == sorted(w.tobytes() for w in expected)


@given(layouts(), st.integers(100, 3000))
def test_windows_of_views_and_of_several_arrays_are_those_of_numpy(made: Any, budget: int) -> None:
    data, layout, sizes, strides = made
    wide = np.pad(data, [(1, 2)] * data.ndim)
    view = stored(wide, layout).view[tuple(slice(1, n + 1) for n in data.shape)]
    options: Any = {"sample": sizes, "stride": strides, "budget": budget, "seed": 1}
    for one, same, array in oz.batches((view, data, stored(data * 2, layout)), 4, **options):
        np.testing.assert_array_equal(one, same)
        np.testing.assert_array_equal(array, same * 2)
    found = oz.batches(view, 10**4, sample=sizes, stride=strides, shuffle=False)
    np.testing.assert_array_equal(next(found), expected_windows(data, sizes, strides, "drop"))


@pytest.mark.parametrize(
    ("sample", "stride", "budget"),
    [
        ({"time": 6, "y": 16, "x": 16}, {"y": 8, "x": 8}, "400kB"),
        ({"time": 6, "y": 16, "x": 16}, None, "100kB"),
        ({"y": 20, "x": 20}, {"y": 7, "x": 9}, "1MB"),
        ({"time": 1}, None, "300kB"),
        ((5, 10, 10), (3, 10, 10), "200kB"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_chunks_are_decoded_little_more_than_once_an_epoch(
    sample: Any, stride: Any, budget: str, seed: int
) -> None:
    data = np.zeros((24, 128, 160), "i1")
    array = stored(data, {"chunks": (6, 16, 16)}, dimension_names=("time", "y", "x"))
    options: Any = {"sample": sample, "stride": stride, "budget": budget, "seed": seed}
    with oz.trace() as trace:
        count = sum(map(len, oz.batches(array, 32, **options)))
    assert count >= 24
    assert trace.total.chunks_read <= MOST_DECODED * array.nchunks


def test_windows_of_different_groups_are_mixed() -> None:
    array = stored(np.arange(64 * 64).reshape(64, 64), {"chunks": (8, 8)})
    batch = next(oz.batches(array, 16, sample=(8, 8), budget=64 * 8 * 8 * 2, seed=3))
    assert len({(window[0, 0] // 64 // 8, window[0, 0] % 64 // 8) for window in batch}) == 16
    chunks = batch[:, 0, 0] // 64 // 8
    assert len(set(chunks.tolist())) > 3


def test_a_pickled_iterator_of_windows_goes_on_at_its_position() -> None:
    data = np.arange(400).reshape(20, 20)
    some = oz.batches(data, 5, sample=(4, 4), stride=(2, 2), seed=1, budget=2000)
    first = [next(some) for _ in range(3)]
    other = pickle.loads(pickle.dumps(some))
    rest = [*some]
    np.testing.assert_equal([*other], rest)
    assert sum(map(len, [*first, *rest])) == 81


def test_rows_come_in_their_order_without_shuffling() -> None:
    data = np.arange(60).reshape(30, 2)
    array = stored(data, {"chunks": (4, 2)})
    picked = [3, 29, 5, 5, 17]
    for rows in (slice(None), picked, slice(None, None, -2)):
        found = oz.batches(array.view[rows], 7, shuffle=False, budget=100)
        np.testing.assert_array_equal(np.concatenate([*found]), data[rows])
    found = oz.batches(data, 7, shuffle=False, budget=100)
    np.testing.assert_array_equal(np.concatenate([*found]), data)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sample": {"z": 2}}, InvalidArgument, "no dimension 'z'.*'y', 'x'"),
        ({"sample": (2,)}, InvalidArgument, "a length for each of 2 axes"),
        ({"sample": (2, 21)}, InvalidArgument, r"\(2, 21\) is larger than the array.*\(20, 20\)"),
        ({"sample": (2, 0)}, InvalidArgument, "at least 1"),
        ({"sample": (2, 1.5)}, WrongType, "integers"),
        ({"sample": "xy"}, WrongType, "lengths by name"),
        ({"sample": (2, 2), "stride": {"x": -1}}, InvalidArgument, "stride must .* at least 1"),
        ({"sample": (2, 2), "edges": "wrap"}, InvalidArgument, "'drop' or 'pad', got 'wrap'"),
        ({"stride": (2, 2)}, InvalidArgument, "give sample, too"),
    ],
)
def test_an_invalid_sample_is_an_error_that_says_so(
    options: Any, error: type[Exception], message: str
) -> None:
    array = stored(np.zeros((20, 20)), {"chunks": (4, 4)}, dimension_names=("y", "x"))
    with pytest.raises(error, match=message):
        oz.batches(array, 4, **options)
    with pytest.raises(InvalidArgument, match="different shapes"):
        oz.batches((array, np.zeros((20, 2))), 4, sample=(2, 2))


def test_a_window_larger_than_the_array_can_be_padded() -> None:
    array = stored(np.ones((3, 2), "i4"), {"chunks": (2, 2)})
    [batch] = oz.batches(array, 4, sample=(4, 2), edges="pad")
    np.testing.assert_array_equal(batch, [[[1, 1]] * 3 + [[FILL, FILL]]])
