"""Missing chunks: reads fill, warn or raise, and report which chunks are missing."""

from __future__ import annotations

import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.stores import MemoryStore
from omnizarr.testing import FaultyStore, RecordingStore
from tests.conformance.shards import GZIP, sharding

ENGINES = ["auto", "reference"]
TURN = {"name": "transpose", "configuration": {"order": [1, 0]}}
NESTED = sharding(4, 6, codecs=[sharding(2, 3)])
SHARDS: dict[str, dict[str, Any]] = {
    "none": {},
    "shards": {"shards": (4, 6)},
    "nested": {"chunks": (4, 12), "codecs": [NESTED]},
    "turned": {"chunks": (4, 6), "codecs": [TURN, sharding(3, 2)]},
    "packed": {"chunks": (4, 6), "codecs": [sharding(2, 3), GZIP]},
}


def make(store: Any, kind: str, missing: set[tuple[int, int]]) -> oz.Array:
    """Create an 8 × 12 array with chunks of 2 × 3, some of them missing."""
    given = {"chunks": (2, 3), **SHARDS[kind]}
    array = oz.create_array(store, shape=(8, 12), dtype="u1", fill_value=0, **given)
    data = np.arange(1, 97, dtype="u1").reshape(8, 12)
    for y, x in missing:
        data[2 * y : 2 * y + 2, 3 * x : 3 * x + 3] = 0
    array[...] = data
    return array


ALL = list(itertools.product(range(4), range(4)))
SELECTIONS: list[Any] = [
    ...,
    (slice(1, 7), slice(2, 5)),
    (slice(0, 8, 5), slice(None, None, 7)),
    (3, slice(4, None)),
    ([0, 5, 7], slice(None)),
    ([0, 7], [1, 11]),
    (slice(None, None, -1), slice(None)),
]


def touched(selection: Any) -> set[tuple[int, int]]:
    """Return the chunks with a selected element, computed with NumPy."""
    y, x = np.indices((8, 12))
    return set(zip((y[selection] // 2).flat, (x[selection] // 3).flat, strict=True))


def sizes(kind: str) -> tuple[int, int]:
    """Return how many user-visible chunks an entry of `ALL` covers; fewer in nested shards."""
    return (2, 2) if kind == "nested" else (1, 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", SHARDS)
@given(missing=st.sets(st.sampled_from(ALL)), number=st.integers(0, len(SELECTIONS) - 1))
def test_a_read_reports_exactly_the_selected_missing_chunks(
    kind: str, engine: str, missing: set[tuple[int, int]], number: int
) -> None:
    selection = SELECTIONS[number]
    array = make(MemoryStore(), kind, missing)
    whole = array[...]
    per = sizes(kind)
    expected = sorted(
        {(y // per[0], x // per[1]) for y, x in touched(selection) if (y, x) in missing}
    )
    filled: list[tuple[int, ...]] = []
    with oz.configure(engine=engine):
        found = array.read(selection, filled=filled)
        assert np.array_equal(found, whole[selection])
        assert filled == expected
        if expected:
            with pytest.raises(oz.MissingChunk) as e:
                array.read(selection, missing="raise")
            assert e.value.chunk in expected
            with pytest.warns(oz.OmnizarrWarning, match=f"^{len(expected)} missing chunks of /"):
                array.read(selection, missing="warn")
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert np.array_equal(array.read(selection, missing="raise"), found)
                assert np.array_equal(array.read(selection, missing="warn"), found)


@pytest.mark.parametrize("kind", SHARDS)
@pytest.mark.parametrize("wrap", [False, True])
def test_the_chunk_cache_hides_no_missing_chunk(kind: str, wrap: bool, tmp_path: Path) -> None:
    missing = {(0, 0), (3, 2)}
    make(tmp_path, kind, missing)
    store: Any = RecordingStore(oz.storage.LocalStore(tmp_path)) if wrap else tmp_path
    array = oz.open(store)
    per = sizes(kind)
    with oz.configure(chunk_cache="1MB"):
        for _ in range(2):
            filled: list[tuple[int, ...]] = []
            array.read(filled=filled)
            assert filled == sorted((y // per[0], x // per[1]) for y, x in missing)


@pytest.mark.parametrize(
    ("zarr_format", "shards"), [(1, None), (2, None), ("3-draft", None), ("3-draft", 4), (3, None)]
)
def test_missing_chunks_are_reported_in_every_format(
    zarr_format: Any, shards: int | None, tmp_path: Path
) -> None:
    array = oz.create_array(
        tmp_path, shape=8, chunks=2, shards=shards, dtype="i4", zarr_format=zarr_format
    )
    array[2:4] = 7
    filled: list[tuple[int, ...]] = []
    array.read(filled=filled)
    assert filled == [(0,), (2,), (3,)]


def test_a_missing_chunk_of_an_array_without_axes_is_reported(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=(), dtype="i4")
    with pytest.raises(oz.MissingChunk, match=r"chunk \(\) of / .* missing='fill'"):
        array.read(missing="raise")
    array[...] = 5
    assert array.read(missing="raise") == 5


def test_the_setting_for_missing_chunks_applies_to_members_and_pickles(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path)
    group.create_array("a/b", shape=4, chunks=2, dtype="i4")
    strict = oz.open(tmp_path, missing="raise")
    array = strict["a"]["b"]
    direct = oz.open(tmp_path / "a/b", missing="raise")
    for again in (array, pickle.loads(pickle.dumps(array)), direct):
        with pytest.raises(oz.MissingChunk) as e:
            again[...]
        assert (e.value.path, e.value.chunk, e.value.key) in (
            ("/a/b", (0,), "a/b/c/0"),
            ("/", (0,), "c/0"),
        )
        with pytest.raises(oz.MissingChunk):
            again.view[1:].read()
        with pytest.raises(oz.MissingChunk):
            again.oindex[[0, 3]]
        assert again.read(missing="fill").tolist() == [0] * 4
    assert oz.open(tmp_path / "a/b")[...].tolist() == [0] * 4


@pytest.mark.parametrize("shards", [None, (6,)])
def test_a_config_without_missing_chunks_raises_only_for_missing_keys(
    shards: Any, tmp_path: Path
) -> None:
    config = {"read_missing_chunks": False}
    made = oz.create_array(
        tmp_path, shape=12, chunks=3, shards=shards, dtype="i4", fill_value=7, config=config
    )
    made[0:3] = 1
    opened = [
        made,
        oz.open(tmp_path, config=config),
        oz.open(tmp_path, config=config),
        oz.open(tmp_path).with_config(config),
        pickle.loads(pickle.dumps(made)),
        oz.open(tmp_path, missing="raise-key"),
    ]
    for array in opened:
        array.refresh()
        assert array[0:3].tolist() == [1, 1, 1]
        with pytest.raises(oz.MissingChunk, match=r"chunk \(2,\)"):
            array[6:12]
        if shards:
            assert array[0:6].tolist() == [1, 1, 1, 7, 7, 7]
        else:
            with pytest.raises(oz.MissingChunk, match=r"chunk \(1,\)"):
                array[0:6]
    strict = oz.open(tmp_path, config=config, missing="raise")
    with pytest.raises(oz.MissingChunk, match=r"chunk \(1,\)"):
        strict[0:6]


def test_a_config_of_zarr_python_is_checked() -> None:
    for config, error in (({"read_missing_chunks": "no"}, ValueError), ({"nope": 1}, TypeError)):
        with pytest.raises(error, match=next(iter(config))):
            oz.create_array({}, shape=3, dtype="i4", config=config)


def test_writing_part_of_a_missing_chunk_does_not_report_it(tmp_path: Path) -> None:
    array = oz.open(tmp_path, "w", shape=4, chunks=4, dtype="i4", missing="raise")
    array[1] = 3
    assert array[...].tolist() == [0, 3, 0, 0]


def test_a_view_reports_its_missing_chunks() -> None:
    array = make(MemoryStore(), "none", {(1, 1)})
    filled: list[tuple[int, ...]] = []
    out = np.empty((6, 4), "u1")
    array.view[2:6, 3:9].T.read(out=out, filled=filled)
    assert filled == [(1, 1)]
    assert np.array_equal(out, array[2:6, 3:9].T)


def test_an_unknown_value_of_missing_is_refused(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=4, dtype="i4")
    with pytest.raises(oz.InvalidArgument, match="missing must be one of"):
        array.read(missing="ignore")  # type: ignore[arg-type]  # which is the point
    with pytest.raises(oz.InvalidArgument, match="missing must be one of"):
        oz.open(tmp_path, missing="ignore")  # type: ignore[arg-type]  # which is the point


def test_a_store_error_is_not_a_missing_chunk() -> None:
    inner = MemoryStore()
    make(inner, "none", set())
    broken = oz.StoreError("broken")
    store = FaultyStore(inner, lambda _, key: broken if "c/" in key else None)
    array = oz.open(store)
    with pytest.raises(oz.ChunkError, match="broken") as e:
        array.read(missing="warn")
    assert not isinstance(e.value, oz.MissingChunk)
