"""Listed rows: the kernel reads what NumPy selects, and only the parts of chunks that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import kernel
from omnizarr.indexing import axis_plan, point_plan

pytestmark = pytest.mark.skipif(not kernel.available(), reason="the kernel was not built")

CODECS: list[list[Any]] = [
    [],
    [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    [{"name": "blosc", "configuration": {"cname": "lz4", "blocksize": 256}}],
    [{"name": "blosc", "configuration": {"cname": "zstd"}}, {"name": "crc32c"}],
    [{"name": "gzip", "configuration": {"level": 1}}],
]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[oz.Array, np.ndarray[Any, Any]]:
    """Draw an array in memory, some of whose chunks may be missing, and its values."""
    shape = tuple(draw(st.integers(1, n)) for n in (24, 12, 40))
    inner = tuple(draw(st.integers(1, n)) for n in (5, 6, 40))
    sharded = draw(st.booleans())
    shards = tuple(n * draw(st.integers(1, 4)) for n in inner) if sharded else None
    endian = draw(st.sampled_from("<>"))
    order: list[Any] = (
        []
        if sharded or draw(st.booleans())
        else [{"name": "transpose", "configuration": {"order": draw(st.permutations(range(3)))}}]
    )
    name = "little" if endian == "<" else "big"
    array = oz.create_array(
        oz.storage.MemoryStore(),
        shape=shape,
        dtype="u2",
        chunks=inner,
        shards=shards,
        fill_value=7,
        codecs=[
            *order,
            {"name": "bytes", "configuration": {"endian": name}},
            *draw(st.sampled_from(CODECS)),
        ],
    )
    values = np.full(shape, 7, "u2")
    cut = draw(st.integers(0, shape[0]))
    data = np.arange(values.size, dtype="u2").reshape(shape) // 3
    values[:cut] = data[:cut]
    array[:cut] = data[:cut]
    return array, values


def items(length: int) -> st.SearchStrategy[Any]:
    """Return a strategy for the part of a selection along one axis."""
    return st.one_of(
        st.slices(length),
        st.just(slice(None)),
        st.lists(st.integers(-length, length - 1), min_size=1, max_size=30),
        st.integers(0, length - 1).map(lambda low: list(range(low, length))),
    )


@given(arrays(), st.data(), st.booleans(), st.integers(1, 3))
def test_lists_and_points_select_what_numpy_selects(
    made: Any, data: st.DataObject, of_points: bool, threads: int
) -> None:
    array, values = made
    bound, expected = array._data, values
    if of_points:
        count = data.draw(st.integers(1, 40))
        numbers = (
            st.lists(st.integers(0, n - 1), min_size=count, max_size=count) for n in array.shape
        )
        selection = tuple(np.array(data.draw(some)) for some in numbers)
        chosen, expected, plan = array.vindex, values[selection], point_plan(bound.grid, selection)
    else:
        lengths = array.shape[: data.draw(st.integers(1, 3))]
        selection = tuple(data.draw(items(n)) for n in lengths)
        for axis, item in enumerate(selection):
            expected = expected[(slice(None),) * axis + (item,)]
        chosen, plan = array.oindex, axis_plan(bound.grid, selection)
    out = np.empty(plan.full_shape, "u2")
    with mock.patch.object(kernel, "SMALL", 0), oz.configure(threads=threads):
        np.testing.assert_array_equal(chosen[selection], expected)
        assert kernel.read(bound, plan, out) == ([] if out.size else None)
        if not out.size:
            return
        np.testing.assert_array_equal(plan.result(out), expected)
        left = kernel.read(bound, plan, out, skip_missing=True)
    assert left is not None
    for row in (row for number, row in enumerate(plan.rows()) if number not in left):
        np.testing.assert_array_equal(out[row.outer], plan.to_full(expected)[row.outer])


def _bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts bytes")
@pytest.mark.parametrize(
    ("codecs", "shards"),
    [
        ({"compressors": None}, None),
        ({"compressors": {"name": "blosc", "configuration": {"cname": "lz4"}}}, None),
        ({"compressors": "zstd"}, (512, 4096)),
    ],
    ids=["raw", "blosc", "shards"],
)
def test_only_the_listed_rows_of_large_chunks_are_read(
    codecs: dict[str, Any], shards: Any, tmp_path: Path
) -> None:
    data = np.random.default_rng(0).integers(0, 2**15, (512, 4096), "u2")
    chunks = (512, 4096) if shards is None else (8, 4096)
    array = oz.create_array(tmp_path / "a", data=data, chunks=chunks, shards=shards, **codecs)
    rows = [500, 3, 250, 4]
    _ = array[rows]  # what a first read does besides
    before = _bytes_read()
    counting = _bytes_read() - before
    before = _bytes_read()
    got = array[rows]
    read = _bytes_read() - before - counting
    np.testing.assert_array_equal(got, data[rows])
    assert read < data.nbytes // 4
