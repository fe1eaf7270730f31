"""Statistics agree with NumPy for every data type, format, chunk shape and tile size."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk import tiles
from omnizarr.bulk.analysis.stats import ArrayStats, ReadTile, Stats, StatsReport
from omnizarr.errors import InvalidArgument
from omnizarr.testing import RecordingStore
from tests.property.strategies import FORMATS, described, filled, values
from tests.property.test_roundtrip import selections


def check_numbers(found: ArrayStats, numbers: npt.NDArray[Any]) -> None:
    """Compare with NumPy's results for numbers without NaN."""
    assert found.count == numbers.size
    if not numbers.size:
        assert (found.mean, found.std) == (None, None)
        return
    assert (found.min, found.max) == (numbers.min(), numbers.max())
    wide = numbers.astype(np.longdouble)
    infinite = int(np.isinf(wide).sum())
    assert found.infinite == infinite
    if infinite:
        assert math.isnan(found.std)
        return
    mean, scale = wide.mean(), np.abs(wide).max()
    deviation = np.sqrt((np.abs(wide - mean) ** 2).mean())
    if deviation < 1e150 and scale < 1e150:  # as in NumPy, the sums of larger ones overflow
        assert abs(found.mean - mean) <= 1e-13 * scale + 1e-320
        # Means are rounded, in the expected value those of large integers.
        assert abs(found.std - deviation) <= 1e-7 * deviation + 1e-15 * scale + 1e-150


def check(found: ArrayStats, expected: npt.NDArray[Any], fill: npt.NDArray[Any]) -> None:
    """Compare with NumPy's results for any array."""
    dtype = expected.dtype
    flat = expected.reshape(-1)
    assert found.size == flat.size
    if dtype.kind in "TO":
        assert (found.kind, found.count, found.min, found.mean) == ("none", 0, None, None)
        assert found.fill == sum(v == fill[()] for v in flat.tolist())
        return
    if dtype.kind in "mM":
        whole = flat[~np.isnat(flat)].astype(dtype.newbyteorder("=")).view(np.int64)
        assert found.nan == flat.size - whole.size
        if whole.size:
            exact = whole.astype(object)
            assert found.min.view(np.int64) == whole.min()
            assert found.max.view(np.int64) == whole.max()
            spread = int(whole.max()) - int(whole.min())
            difference = int(found.mean.view(np.int64)) - round(exact.sum() / exact.size)
            assert abs(difference) <= 1 + max(map(abs, exact)) * 2e-15 + spread * 1e-13
            assert found.mean.dtype == dtype.newbyteorder("=")
            assert found.std.dtype.kind == "m"
    elif dtype.kind in "biuf":
        nan = flat != flat
        assert found.nan == nan.sum()
        check_numbers(found, flat[~nan])
    elif dtype.kind == "V" and dtype.names is None and not issubclass(dtype.type, np.void):
        # of ml_dtypes
        wide = flat.astype(np.float64)
        assert found.nan == np.isnan(wide).sum()
        check_numbers(found, wide[~np.isnan(wide)])
    else:
        assert (found.kind, found.count, found.min, found.mean) == ("none", 0, None, None)
    if dtype.names is None:
        is_nan = dtype.kind not in "biu" and bool(fill != fill)  # also of ml_dtypes
        assert found.fill == ((flat != flat) if is_nan else (flat == fill)).sum()


@pytest.mark.parametrize("format", FORMATS)
@given(few=st.sampled_from([0, tiles.FEW_CHUNKS]), data=st.data())
def test_statistics_of_any_array_are_those_of_numpy(
    format: int | str, few: int, data: st.DataObject
) -> None:
    array = data.draw(described(format, most=7, shards=True))
    expected = array.empty()
    written = array.create({})
    for _ in range(data.draw(st.integers(0, 2))):
        selection = data.draw(selections(array.shape))
        value = data.draw(values(array.dtype, np.shape(expected[selection])))
        written[selection] = value
        expected[selection] = value if value.ndim else value[()]
    memory = data.draw(st.sampled_from([1, 200, 4000, None]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "FEW_CHUNKS", few)
        found = oz.stats(written, memory=memory)
    one = found.arrays["/"]
    assert found.errors == {}
    assert one.shape == array.shape
    check(one, expected, filled(written.fill_value, array.dtype))
    assert one.chunks == written.nchunks
    assert one.chunks - one.missing_chunks == written.nchunks_initialized
    again = StatsReport.from_json(found.to_json())
    assert again.to_json() == found.to_json()


@pytest.fixture
def hierarchy(tmp_path: Path) -> oz.Group:
    group = oz.create_group(tmp_path / "g.zarr")
    group["a"] = np.arange(1000.0).reshape(10, 100)
    group["b/c"] = np.array([[1, np.nan], [np.inf, -5]])
    group["b/text"] = np.array(["", "two", "three"], np.dtypes.StringDType())
    return group


def test_all_arrays_below_a_path_are_read(hierarchy: oz.Group) -> None:
    found = oz.stats(hierarchy)
    assert list(found.arrays) == ["/a", "/b/c", "/b/text"]
    assert found["a"].mean == 499.5
    assert (found["/b/c"].nan, found["/b/c"].infinite, found["/b/c"].mean) == (1, 1, math.inf)
    assert (found["/b/text"].kind, found["/b/text"].size) == ("none", 3)
    assert list(oz.stats(hierarchy, path="b").arrays) == ["/b/c", "/b/text"]
    assert list(oz.stats(hierarchy["a"]).arrays) == ["/a"]
    assert list(oz.stats(str(hierarchy.store), path="a").arrays) == ["/a"]


def test_tiles_without_a_stored_chunk_are_counted_without_a_request() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    array = oz.create_array(
        store, shape=(1_000_000, 1_000_000), chunks=(1000, 1000), dtype="f4", fill_value=2
    )
    array[5000:6000, 7000:8000] = 4
    store.calls.clear()
    found = oz.stats(store)["/"]
    requests = [key for call in store.calls for key in call.keys if "c/" in key]
    assert len(set(requests)) <= 8  # the chunks of one tile
    assert (found.chunks, found.missing_chunks) == (10**6, 10**6 - 1)
    assert (found.size, found.fill) == (10**12, 10**12 - 10**6)
    assert (found.min, found.max) == (2, 4)
    assert math.isclose(found.mean, 2 + 2e-6, rel_tol=1e-15)
    skipped = oz.stats(store, skip_fill=True)["/"]
    assert (skipped.count, skipped.min, skipped.mean, skipped.std) == (10**6, 4, 4, 0)


@pytest.mark.parametrize("dtype", ["u1", "i2", "u8", "f4", "f8"])
def test_a_histogram_in_a_range_is_that_of_numpy(dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 100, (50, 50)).astype(dtype)
    found = oz.stats(
        oz.create_array(data=values, chunks=(7, 50)), bins=9, range=(10, 55), memory=1
    )["/"]
    counts, edges = np.histogram(values, 9, (10, 55))
    assert found.histogram == (counts.tolist(), edges.tolist())
    assert (found.below, found.above) == ((values < 10).sum(), (values > 55).sum())


def test_times_have_times_as_results() -> None:
    days = np.array(["2020-01-01", "2020-01-03", "NaT"], "M8[D]")
    found = oz.stats(oz.create_array(data=days), bins=4, range=(0, 20_000))["/"]
    assert (found.min, found.max) == (days[0], days[1])
    assert found.mean == np.datetime64("2020-01-02")
    assert found.std == np.timedelta64(1, "D")
    assert found.nan == 1
    assert found.summary()["mean"] == "2020-01-02"
    assert found.histogram is not None
    assert found.histogram[1][0].dtype == "M8[D]"


def test_a_node_that_cannot_be_read_is_an_entry_of_errors(hierarchy: oz.Group) -> None:
    hierarchy.store.set("broken/zarr.json", b"{}")
    found = oz.stats(hierarchy)
    assert list(found.errors) == ["/broken"]
    assert list(found.arrays) == ["/a", "/b/c", "/b/text"]


def test_the_job_can_be_sent_elsewhere(hierarchy: oz.Group) -> None:
    expected = oz.stats(hierarchy)
    job = pickle.loads(pickle.dumps(Stats(str(hierarchy.store), memory=1)))
    with ThreadPoolExecutor(2) as pool:
        assert oz.run(job, on=pool).to_json() == expected.to_json()
    plan = job.plan()
    for phase in plan.phases:
        for task in phase.tasks():
            pickle.loads(pickle.dumps(task))
    assert "/a" in str(plan)


@pytest.mark.parametrize(
    "options",
    [{"bins": 1}, {"bins": 2.5, "range": (0, 1)}, {"bins": 5}, {"range": (0, 1)},
     {"bins": 5, "range": (1, 0)},
     {"bins": 5, "range": (0, math.inf)}],
)  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        oz.stats(oz.create_array(shape=3), **options)


def test_the_table_has_a_line_for_each_array(hierarchy: oz.Group) -> None:
    lines = str(oz.stats(hierarchy)).splitlines()
    assert [line.split()[0] for line in lines] == ["path", "/a", "/b/c", "/b/text"]
    assert lines[1].split()[1:7] == ["float64", "1000", "0", "999", "499.5", "288.675"]


@pytest.mark.parametrize("after", [0, 1, 17, 39])
def test_an_interrupted_job_counts_every_tile_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    values = np.random.default_rng(after).normal(1e6, 1, (40, 50))
    array = oz.create_array(tmp_path / "a.zarr", shape=(60, 50), dtype="f8", chunks=(1, 50))
    array[:40] = values
    job = Stats(str(tmp_path / "a.zarr"), bins=10, range=(0, 1e6), memory=1)
    work, calls = ReadTile.__call__, iter(range(1000))

    def fail(self: ReadTile) -> StatsReport:
        if next(calls) >= after:
            raise oz.StoreError("the disk is gone")
        return work(self)

    with monkeypatch.context() as patch:
        patch.setattr(ReadTile, "__call__", fail)
        with pytest.raises(oz.StoreError):
            oz.run(job, workers=1)
    found = oz.run(job, resume=True)["/"]
    whole = np.concatenate([values, np.zeros((20, 50))])
    assert (found.size, found.count, found.fill) == (3000, 3000, 1000)
    assert (found.chunks, found.missing_chunks) == (60, 20)
    assert math.isclose(found.mean, whole.mean(), rel_tol=1e-12)
    assert math.isclose(found.std, whole.std(), rel_tol=1e-9)
    assert found.histogram == oz.stats(array, bins=10, range=(0, 1e6))["/"].histogram


@pytest.mark.parametrize("large", [np.float64(1e9), np.int64(2**53), np.uint64(2**53 + 2**20)])
def test_a_small_spread_around_a_large_value_loses_few_digits(large: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 10**6, 100_000)
    found = oz.stats(oz.create_array(data=noise.astype(large.dtype) + large, chunks=9999))["/"]
    assert math.isclose(found.std, float(noise.std()), rel_tol=1e-7)
    assert math.isclose(found.mean - float(large), float(noise.mean()), rel_tol=1e-5)
