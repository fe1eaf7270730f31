"""Batches: each row once, the same order for a seed, shares of workers, going on where it ended."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import tempfile
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import StoreError
from omnizarr.testing import FaultyStore, RecordingStore
from tests.memory import peak

ROWS = np.arange(97 * 3 * 2, dtype="i4").reshape(97, 3, 2)
LABELS = np.arange(97, dtype="u1") * 2
LAYOUTS: list[dict[str, Any]] = [
    {"chunks": (5, 3, 1)},
    {"chunks": (2, 2, 2), "shards": (10, 4, 2)},
    {"chunks": (97, 3, 2)},
    {"chunks": (1, 3, 2), "zarr_format": 2},
    {"chunks": [[40, 57], [3], [2]]},
]


def stored(layout: dict[str, Any], store: Any = None) -> oz.Array:
    return oz.create_array(
        oz.storage.MemoryStore() if store is None else store, data=ROWS, **layout
    )


def numbers(given_batches: Any) -> list[int]:
    """Return the numbers of the rows in the order in which they were given."""
    return [int(row[0, 0]) // 6 for batch in given_batches for row in batch]


@given(
    layout=st.sampled_from(LAYOUTS),
    size=st.integers(1, 120),
    seed=st.integers(0, 2**64),
    budget=st.integers(50, 4000),
    workers=st.integers(1, 5),
    at=st.integers(0, 60),
)
def test_all_workers_together_give_every_row_once_and_can_go_on_anywhere(
    layout: dict[str, Any], size: int, seed: int, budget: int, workers: int, at: int
) -> None:
    array = stored(layout)
    found: list[int] = []
    for worker in range(workers):
        options = {"seed": seed, "budget": budget, "worker": worker, "workers": workers}
        own = list(oz.batches(array, size, **options))
        assert len(own) == len(oz.batches(array, size, **options))
        assert all(len(batch) == size for batch in own[:-1])
        np.testing.assert_array_equal(np.concatenate(own) if own else ROWS[:0], ROWS[numbers(own)])
        rest = oz.batches(array, size, start=at, **options)
        assert rest.position == min(at, len(own))
        assert numbers(rest) == numbers(own[at:])
        assert rest.position == len(own)
        found += numbers(own)
    assert sorted(found) == list(range(97))


def test_a_pickled_iterator_goes_on_at_its_position() -> None:
    array = stored({"chunks": (5, 3, 2)})
    with tempfile.TemporaryDirectory() as folder:
        array = stored({"chunks": (5, 3, 2)}, Path(folder) / "a")
        all_rows = numbers(oz.batches(array, 10, seed=1, budget=700))
        some = oz.batches(array, 10, seed=1, budget=700)
        first = [next(some) for _ in range(4)]
        other = pickle.loads(pickle.dumps(some))
        assert other.position == some.position == 4
        assert numbers(first) + numbers(other) == all_rows
        some.close()
        assert numbers(first) + numbers(some) == all_rows


def test_a_seed_is_drawn_if_none_is_given() -> None:
    array = stored({"chunks": (5, 3, 2)})
    one, other = oz.batches(array, 10), oz.batches(array, 10)
    assert one.seed != other.seed
    assert numbers(oz.batches(array, 10, seed=one.seed)) == numbers(one)
    assert numbers(oz.batches(array, 10, seed=one.seed + 1)) != numbers(other)


def test_several_arrays_keep_their_rows_together() -> None:
    images, labels = (
        stored(LAYOUTS[1]),
        oz.create_array(oz.storage.MemoryStore(), data=LABELS, chunks=30),
    )
    for batch, label in oz.batches((images, labels), 8, seed=4, budget=900):
        assert (label == batch[:, 0, 0] // 6 * 2).all()
    seen = 0
    for named in oz.batches({"x": images, "y": LABELS}, 8, seed=4, budget=900, drop_last=True):
        assert list(named) == ["x", "y"]
        assert len(named["x"]) == 8
        assert (named["y"] == named["x"][:, 0, 0] // 6 * 2).all()
        seen += 8
    assert seen == 96


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(data=st.data())
def test_views_give_the_rows_that_they_show(layout: dict[str, Any], data: st.DataObject) -> None:
    array = stored(layout)
    chosen = data.draw(
        st.one_of(
            st.slices(97),
            st.lists(st.integers(-97, 96), max_size=30),
            st.just(ROWS[:, 0, 0] % 18 == 0),
        )
    )
    index = np.zeros(0, int) if isinstance(chosen, list) and not chosen else chosen
    view, expected = array.view[chosen], ROWS[index]
    if data.draw(st.booleans()):
        view, expected = view.T.view[1:].T, expected.T[1:].T
    found = list(oz.batches(view, 7, seed=0, budget=500))
    got = np.concatenate(found) if found else expected[:0]
    key = [tuple(row.ravel()) for row in got]
    assert sorted(key) == sorted(tuple(row.ravel()) for row in expected)


def test_points_can_be_given_in_batches() -> None:
    view = stored(LAYOUTS[0]).view[ROWS % 5 == 0]
    found = np.concatenate(list(oz.batches(view, 7, seed=0, budget=64)))
    assert sorted(found) == sorted(ROWS[ROWS % 5 == 0])


@pytest.mark.parametrize("budget", ["100kB", "1MB"])
def test_every_chunk_is_read_once(budget: str) -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    array = oz.create_array(store, shape=(600, 100), dtype="u1", chunks=(10, 100))
    array[...] = 1
    store.calls.clear()
    assert sum(map(len, oz.batches(array, 32, seed=0, budget=budget))) == 600
    read = Counter(key for call in store.calls for key in call.keys)
    assert len(read) == 60
    assert set(read.values()) == {1}


def test_memory_is_bounded_by_the_budget() -> None:
    data = np.random.default_rng(0).integers(0, 255, (8000, 1000), "u1")
    with tempfile.TemporaryDirectory() as folder:
        array = oz.create_array(folder, data=data, chunks=(100, 1000), overwrite=True)
        del data
        rows = oz.batches(array, 10, seed=0, budget="1MB")
        assert 500_000 < peak(lambda: deque(rows, maxlen=0)) < 1_400_000


def test_an_error_is_raised_and_the_same_batch_tried_again() -> None:
    broken = False

    def fault(operation: str, key: str) -> Exception | None:
        return StoreError("no connection") if broken and operation != "set" else None

    array = stored({"chunks": (5, 3, 2)}, FaultyStore(oz.storage.MemoryStore(), fault))
    expected = numbers(oz.batches(array, 10, seed=1, budget=480))
    some = oz.batches(array, 10, seed=1, budget=480)
    found = [next(some)]
    broken = True
    with pytest.raises(oz.OmnizarrError, match="no connection"):
        found.extend(some)
    broken = False
    assert numbers([*found, *some]) == expected


def _worker(array: oz.Array, worker: int) -> list[int]:
    return numbers(oz.batches(array, 10, seed=3, worker=worker, workers=3, budget=1000))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_worker_processes_share_the_rows(method: str, tmp_path: Path) -> None:
    array = stored({"chunks": (5, 3, 2)}, tmp_path / "a")
    some = oz.batches(array, 10, seed=3, budget=1000)
    first = numbers([next(some)])  # threads read ahead while the process forks
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(3, context) as pool:
        found = list(pool.map(_worker, [array] * 3, range(3)))
        rest = pool.submit(numbers, some).result()
    assert sorted(itertools.chain(*found)) == list(range(97))
    assert found == [_worker(array, n) for n in range(3)]
    assert first + rest == numbers(oz.batches(array, 10, seed=3, budget=1000))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork"
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_goes_on_with_the_iterator_of_its_parent(tmp_path: Path) -> None:
    array = stored({"chunks": (5, 3, 2)}, tmp_path / "a")
    some = oz.batches(array, 10, seed=3, budget=1000)
    next(some)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(numbers(some)))
    child.start()
    assert receiver.poll(60)
    assert receiver.recv() == numbers(some)
    child.join()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"size": 1.5}, r"size must be an integer, got 1\.5"),
        ({"size": 1, "start": -1}, "start must be at least 0"),
        ({"size": 1, "worker": 2, "workers": 2}, "worker must be less than workers, 2, got 2"),
        ({"size": 1, "seed": -1}, "seed must be at least 0"),
        ({"size": 1, "budget": "much"}, "budget: 'much' is not a size"),
    ],
)
def test_invalid_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(oz.InvalidArgument, match=message):
        oz.batches(ROWS, **options)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((), "at least one array"),
        ([ROWS, LABELS], "several in a tuple .* got list"),
        (oz.create_group(None), "several in a tuple .* got Group"),
        (np.zeros(()), "has no axes"),
        ((ROWS, ROWS[:5]), r"different lengths: \[97, 5\]"),
    ],
)
def test_what_has_no_rows_is_refused(arrays: Any, message: str) -> None:
    with pytest.raises(oz.InvalidArgument, match=message):
        oz.batches(arrays, 4)
