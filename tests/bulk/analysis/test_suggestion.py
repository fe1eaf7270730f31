"""Suggested chunks keep their limits, can be created, and cost what the suggestion says."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.analysis.suggestion import MAX_FILES, Suggestion, suggest_chunks, touched
from omnizarr.formats import is_metadata
from omnizarr.testing import RecordingStore

FORMATS = (1, 2, "3-draft", 3)
SHAPES = st.lists(st.integers(0, 3000) | st.integers(0, 10**7), max_size=5).filter(
    lambda shape: math.prod(shape) < 2**50
)
PATTERNS: st.SearchStrategy[Any] = st.sampled_from(["blocks", "planes", "series", "samples"])
YEAR = (365, 720, 1440)


@st.composite
def calls(draw: st.DrawFn) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = draw(SHAPES)
    lengths = st.lists(st.integers(1, 5000) | st.just(-1), min_size=len(shape), max_size=len(shape))
    by_axis = st.dictionaries(st.integers(0, len(shape) - 1), st.just(-1)) if shape else PATTERNS
    read = draw(PATTERNS | lengths.map(tuple) | by_axis)
    options = {
        "read": read if draw(st.booleans()) else [read, draw(PATTERNS)],
        "store": draw(st.sampled_from(["local", "remote"])),
        "zarr_format": draw(st.sampled_from(FORMATS)),
        "chunk_bytes": draw(st.none() | st.integers(1, 2**23)),
    }
    return (tuple(shape), draw(st.sampled_from(["u1", "f4", "c16", "S100"]))), options


@given(calls())
@example((((10**6, 10), "f4"), {"read": "series", "zarr_format": 2, "chunk_bytes": "64 KiB"}))
@example((((0,), "u1"), {"read": "blocks", "store": "local", "zarr_format": "3-draft"}))
def test_suggestions_keep_their_limits_and_can_be_created(
    call: tuple[tuple[Any, ...], dict[str, Any]],
) -> None:
    (shape, dtype), options = call
    found = suggest_chunks(shape, dtype, **options)
    limit = options.get("chunk_bytes") or {"local": 2**20, "remote": 2**22}[options["store"]]
    limit = 2**16 if isinstance(limit, str) else limit
    chunk_nbytes = math.prod(found.chunks) * found.itemsize
    assert chunk_nbytes <= max(limit, np.dtype(dtype).itemsize)
    assert all(1 <= c <= max(1, n) for c, n in zip(found.chunks, shape, strict=True))
    nchunks = math.prod(-(-n // c) for n, c in zip(shape, found.chunks, strict=True))
    if found.shards is None:
        assert found.nfiles <= MAX_FILES or options["zarr_format"] in (1, 2)
    else:
        assert math.prod(found.shards) * found.itemsize <= max(2**26, chunk_nbytes)
        assert found.nfiles <= nchunks
    array = oz.create_array(
        {}, shape=shape, dtype=dtype, zarr_format=options["zarr_format"], **found.options
    )
    assert (array.chunks, array.shards) == (found.chunks, found.shards)
    assert array.nchunks == nchunks


@given(SHAPES, st.sampled_from(["u1", "f8", "S100"]))
def test_without_a_kind_of_read_chunks_are_those_of_auto(shape: list[int], dtype: str) -> None:
    array = oz.create_array({}, shape=shape, dtype=dtype, chunks="auto")
    assert suggest_chunks(shape, dtype).chunks == array.chunks


@given(st.data())
def test_the_mean_number_of_chunks_is_that_of_all_places(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    chunks = [data.draw(st.integers(1, n)) for n in shape]
    read = [data.draw(st.integers(1, n)) for n in shape]
    starts = itertools.product(*(range(n - r + 1) for n, r in zip(shape, read, strict=True)))
    counts = [
        math.prod((s + r - 1) // c - s // c + 1 for s, r, c in zip(at, read, chunks, strict=True))
        for at in starts
    ]
    assert touched(shape, chunks, read) == pytest.approx(sum(counts) / len(counts))


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("read", ["planes", "series", (2, 5, 1)])
def test_reads_take_as_many_requests_as_suggested(
    read: Any, sharded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sharded:
        monkeypatch.setattr("omnizarr.bulk.analysis.suggestion.MAX_FILES", 10)
    data = np.arange(8 * 10 * 12, dtype="f4").reshape(8, 10, 12)
    found = suggest_chunks(data, read=read, chunk_bytes=120, shard_bytes=480)
    assert (found.shards is not None) == sharded
    store = RecordingStore(oz.storage.MemoryStore())
    array = oz.create_array(store, data=data, compressors=None, **found.options)
    cost = next(r for r in found.reads if r.name != "everything")
    places = [
        tuple(slice(s, s + r) for s, r in zip(at, cost.shape, strict=True))
        for at in itertools.product(
            *(range(n - r + 1) for n, r in zip(data.shape, cost.shape, strict=True))
        )
    ]
    store.calls.clear()
    for place in places:
        np.testing.assert_array_equal(array[place], data[place])
    fetched = [key for call in store.calls for key in call.keys if not is_metadata(key)]
    mean = len(fetched) / len(places)
    assert 0 < mean <= cost.requests + 1e-9
    if not sharded:
        assert mean == pytest.approx(cost.requests)


def slowest(found: Suggestion, *names: str) -> float:
    """Return the bytes that the slowest of some reads takes, a request counted as 64 KiB."""
    reads = [read for read in found.reads if read.name in names]
    assert len(reads) == len(names)
    return max(read.chunks * (2**16 + math.prod(found.chunks) * found.itemsize) for read in reads)


@pytest.mark.parametrize(
    "wanted", [["planes"], ["series"], ["planes", "series"]], ids=lambda names: "-".join(names)
)
def test_the_reads_that_were_asked_about_are_faster_than_with_other_chunks(
    wanted: list[Any],
) -> None:
    best = slowest(suggest_chunks(YEAR, "f4", read=wanted), *wanted)
    for other in ({"read": "blocks"}, {"read": "planes"}, {"read": "series"}):
        assert best <= slowest(suggest_chunks(YEAR, "f4", **other), *wanted)  # type: ignore[arg-type]


def test_chunks_follow_the_reads() -> None:
    assert suggest_chunks(YEAR, "f4", read="planes").chunks == (1, 360, 720)
    assert suggest_chunks(YEAR, "f4", read="series").chunks[0] == 365
    assert suggest_chunks((60000, 28, 28), "u1", read="samples").chunks[1:] == (28, 28)
    named = suggest_chunks(YEAR, "f4", read={"time": -1}, dimension_names=["time", "y", "x"])
    assert named.chunks == suggest_chunks(YEAR, "f4", read={0: -1}).chunks
    assert named.chunks == suggest_chunks(YEAR, "f4", read=(-1, 1, 1)).chunks


def test_an_array_stands_for_its_shape_type_and_names() -> None:
    array = oz.create_array({}, shape=YEAR, dtype="f4", dimension_names=["time", "y", "x"])
    assert suggest_chunks(array, read={"time": -1}) == suggest_chunks(
        YEAR, "f4", read={"time": -1}, dimension_names=["time", "y", "x"]
    )


def test_the_text_shows_sizes_files_and_costs() -> None:
    assert str(suggest_chunks(YEAR, "f4", read="planes")).splitlines() == [
        "array   (365, 720, 1440)     1.4 GiB  float32",
        "chunks  (1, 360, 720)     1012.5 KiB  1460 chunks",
        "shards  (16, 720, 1440)     63.3 MiB  23 files of 64 chunks",
        "",
        "read        shape                size  chunks  requests at most  bytes read",
        "planes      (1, 720, 1440)    4.0 MiB       4                 6     4.0 MiB",
        "series      (365, 1, 1)       1.4 KiB     365               411   360.9 MiB",
        "everything  (365, 720, 1440)  1.4 GiB    1460              1506     1.4 GiB",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read": "plane"}, r"read: unknown pattern 'plane'.*planes"),
        ({"read": (1, 2)}, r"read: \(1, 2\) has 2 lengths, the shape \(365, 720, 1440\) has 3"),
        ({"read": (0, 1, 1)}, "read: a length is positive, or -1 for the axis"),
        ({"read": (1.5, 1, 1)}, "read: expected lengths as integers"),
        ({"read": {"time": -1}}, "read: no axis 'time'.*dimension_names"),
        ({"read": {3: -1}}, "read: no axis 3 in an array of 3 axes"),
        ({"read": []}, "read: the list is empty"),
        ({"store": "s3"}, r"store: unknown kind 's3'.*remote"),
        ({"chunk_bytes": "many"}, "chunk_bytes: 'many' is not a size"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((oz.InvalidArgument, oz.WrongType), match=message):
        suggest_chunks(YEAR, "f4", **options)
