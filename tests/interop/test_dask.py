"""Dask arrays from stored arrays and back: any blocks, any scheduler."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import tokenize
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
import omnizarr.xarray as ozx
from omnizarr.chunk_grids import RegularAxis
from omnizarr.interop.dask import axis_spans
from omnizarr.interop.zarr.zarr_python import from_zarr, to_zarr
from omnizarr.storage import PrefixStore
from omnizarr.stores import MemoryStore, resolve
from omnizarr.testing import RecordingStore

VALUES = np.arange(37 * 23).reshape(37, 23)


def settled(array: oz.Array) -> str:
    """Wait until the files are old enough for a stable token, and return it."""
    for _ in range(200):
        found = tokenize(array)
        if found == tokenize(array):
            return str(found)
        time.sleep(0.02)
    raise TimeoutError("the token of an array that nobody changes keeps changing")


@given(
    blocks=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    chunk=st.integers(1, 12),
    start=st.integers(0, 15),
)
def test_stretches_cover_all_blocks_once_and_end_where_stored_values_end(
    blocks: list[int], chunk: int, start: int
) -> None:
    total = sum(blocks)
    axis = RegularAxis(start + total + 3, chunk)
    spans = list(axis_spans(axis, start, tuple(blocks)))
    source = np.arange(total)
    parts = np.split(source, np.cumsum(blocks)[:-1])
    result = np.full(total, -1)
    for span in spans:
        for block, inside, taken in zip(span.blocks, span.inside, span.taken, strict=True):
            result[span.start - start : span.stop - start][inside] = parts[block][taken]
    np.testing.assert_array_equal(result, source)
    assert all(a.stop == b.start and a.stop % chunk == 0 for a, b in pairwise(spans))
    values = -(-(start + total) // chunk) - start // chunk
    assert len(spans) <= min(values, sum(n > 0 for n in blocks))


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 20), min_size=0, max_size=3),
    zarr_format=st.sampled_from([1, 2, 3, "3-draft"]),
)
def test_any_blocks_go_into_any_chunks_with_one_task_for_a_stored_value(
    data: st.DataObject, shape: list[int], zarr_format: int | str
) -> None:
    values = np.arange(prod(shape)).reshape(shape)
    sizes = [st.integers(1, n) for n in shape]
    blocks, chunks = data.draw(st.tuples(*sizes)), data.draw(st.tuples(*sizes))
    options: dict[str, object] = {"chunks": chunks}
    if zarr_format in (3, "3-draft") and shape and data.draw(st.booleans()):
        options["shards"] = tuple(c * data.draw(st.integers(1, 3)) for c in chunks)
    x = da.from_array(values, chunks=blocks)
    later = oz.from_dask(x, {}, zarr_format=zarr_format, compute=False, **options)
    writes = [k for k in later.dask if str(k).startswith("('omnizarr-write")]
    assert len(writes) <= prod(-(-n // c) for n, c in zip(shape, options.get("shards", chunks)))  # type: ignore[call-overload]  # noqa: B905
    array = later.compute(scheduler="threads")
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(array.to_dask().compute(scheduler="sync"), values)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_misaligned_blocks_written_side_by_side_lose_nothing(
    tmp_path: Path, scheduler: str
) -> None:
    array = oz.create_array(
        tmp_path / "a", shape=(40, 40), chunks=(4, 4), shards=(8, 16), dtype=int
    )
    x = da.from_array(VALUES, chunks=(5, 3))
    with dask.config.set(scheduler=scheduler):
        oz.from_dask(x, array, region=(slice(2, 39), slice(-30, -7)))
    expected = np.zeros((40, 40), int)
    expected[2:39, 10:33] = VALUES
    np.testing.assert_array_equal(array[...], expected)


def test_blocks_are_the_stored_chunks_or_shards_by_default() -> None:
    plain = oz.create_array({}, shape=(10, 10), chunks=(4, 5), dtype="u1")
    sharded = oz.create_array({}, shape=(10, 10), chunks=(2, 2), shards=(4, 6), dtype="u1")
    uneven = oz.create_array({}, shape=(10,), chunks=[[3, 3, 4]], dtype="u1")
    assert plain.to_dask().chunks == ((4, 4, 2), (5, 5))
    assert sharded.to_dask().chunks == ((4, 4, 2), (6, 4))
    assert uneven.to_dask().chunks == ((3, 3, 4),)
    assert plain.to_dask(chunks=(8, -1)).chunks == ((8, 2), (10,))
    assert plain.to_dask("auto").chunks == ((10,), (10,))
    assert plain.to_dask(name="mine").name == "mine"


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("shards", [None, 4])
def test_axes_of_no_length_are_blocks_of_no_length(
    shape: tuple[int, ...], shards: int | None
) -> None:
    array = oz.create_array(None, shape=shape, chunks=2, shards=shards, dtype="i4")
    assert array.to_dask().compute().shape == shape
    assert oz.from_dask(array.to_dask(), {}).shape == shape


def test_tokens_are_the_same_until_the_data_change(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a", data=VALUES, chunks=(10, 10))
    before = settled(array)
    assert tokenize(oz.open(tmp_path / "a")) == before
    assert array.to_dask().name == oz.open(tmp_path / "a").to_dask().name
    array[0, 0] = 7
    changed = settled(array)
    assert changed != before
    array.attrs["units"] = "m"
    assert len({before, changed, settled(array)}) == 3


def test_arrays_of_different_stores_have_different_names(tmp_path: Path) -> None:
    """A5: names were made from text without references, endpoints and dictionaries."""
    stores: list[Any] = []
    for i, folder in enumerate(("a", "b")):
        values: dict[str, bytes] = {}
        oz.create_array(PrefixStore(MemoryStore(values), "x"), data=np.full(6, i), chunks=3)
        refs = {key.removeprefix("x/"): value.decode("latin1") for key, value in values.items()}
        small = {k: v for k, v in refs.items() if k.endswith("json")}
        for key in refs.keys() - small.keys():
            path = tmp_path / f"{folder}-{key.replace('/', '-')}"
            path.write_bytes(values[f"x/{key}"])
            small[key] = [str(path)]  # type: ignore[assignment]
        stores += [
            PrefixStore(MemoryStore(values), "x"),
            RecordingStore(PrefixStore(MemoryStore(values), "x")),
            resolve("reference://", storage_options={"fo": small}),
            from_zarr(to_zarr(PrefixStore(MemoryStore(values), "x"))),
        ]
    arrays = [oz.open(store) for store in stores]
    lazy = [array.to_dask() for array in arrays]
    assert len({x.name for x in lazy}) == len(lazy)
    expected = np.concatenate([array[...] for array in arrays])
    np.testing.assert_array_equal(da.concatenate(lazy).compute(), expected)
    assert [oz.open(store).to_dask().name for store in stores] == [x.name for x in lazy]


def test_a_new_array_takes_regular_blocks_as_its_chunks() -> None:
    assert oz.from_dask(da.zeros((10, 9), chunks=(4, 9)), {}).chunks == (4, 9)
    uneven = oz.from_dask(da.zeros(10, chunks=((3, 4, 3),)), {})
    assert uneven.shape == (10,)
    assert oz.from_dask(da.zeros((0, 3)), {})[...].shape == (0, 3)


def test_memory_of_another_process_is_refused_instead_of_lost() -> None:
    array = oz.create_array({}, shape=VALUES.shape, dtype=int)
    x = da.from_array(VALUES, chunks=10)
    with (
        dask.config.set(scheduler="processes"),
        pytest.raises(oz.StoreError, match="is in the memory of process"),
    ):
        oz.from_dask(x, array)


def test_dask_stores_into_an_array_by_itself() -> None:
    array = oz.create_array({}, shape=VALUES.shape, chunks=(7, 7), dtype=int)
    da.store(da.from_array(VALUES, chunks=(5, 5)), array)
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(da.from_array(array).compute(), VALUES)


def test_blocks_chosen_by_dask_consist_of_shards_and_have_one_name(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a", data=VALUES, chunks=(2, 3), shards=(4, 6))
    with dask.config.set({"array.chunk-size": 8 * 12 * 8}):
        chosen = da.from_array(array).chunks
    assert all(n % s == 0 for axis, s in zip(chosen, (4, 6), strict=True) for n in axis[:-1])
    assert len(chosen[0]) > 1
    settled(array)
    again = oz.open(tmp_path / "a")
    assert da.from_array(array).name == da.from_array(again).name
    assert array.to_dask().name == again.to_dask().name


def test_functions_of_dask_for_zarr_take_a_store_of_ours_in_the_form_of_zarr_python(
    tmp_path: Path,
) -> None:
    store = to_zarr(tmp_path / "a")
    da.to_zarr(da.from_array(VALUES, chunks=(10, 10)), store)
    np.testing.assert_array_equal(oz.open(tmp_path / "a")[...], VALUES)
    np.testing.assert_array_equal(da.from_zarr(store).compute(), VALUES)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    array = oz.create_array({}, shape=(4, 4), dtype=int)
    with pytest.raises(TypeError, match="takes a Dask array, got ndarray"):
        oz.from_dask(VALUES, array)
    with pytest.raises(IndexError, match=r"shape \(3,\) do not fit|for each of 2 axes|shape"):
        oz.from_dask(da.zeros((3, 3)), array)
    with pytest.raises(IndexError, match="without a step"):
        oz.from_dask(da.zeros((2, 4)), array, region=(slice(0, 4, 2), slice(None)))
    with pytest.raises(TypeError, match=r"omit \['chunks'\]"):
        oz.from_dask(da.zeros((4, 4)), array, chunks=2)
    with pytest.raises(TypeError, match="region requires an existing array"):
        oz.from_dask(da.zeros((4, 4)), {}, region=(slice(4), slice(4)))
    unknown = da.from_array(np.arange(9), chunks=3)
    with pytest.raises(IndexError, match="compute_chunk_sizes"):
        oz.from_dask(unknown[unknown > 3], {})


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def month(number: int) -> xr.Dataset:
    values = np.random.default_rng(number).integers(0, 999, (4, 30, 20)) / 10
    values[1, 2, 3] = np.nan
    days = np.arange(number * 4, number * 4 + 4)
    dataset = xr.Dataset({"t": (("day", "y", "x"), values)}, coords={"day": days})
    packing = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -9}
    dataset["t"].encoding = {**packing, "chunks": (2, 15, 20)}
    return dataset


def test_workers_open_several_files_and_store_results(tmp_path: Path, client: Client) -> None:
    for number in range(4):
        ozx.write(month(number), tmp_path / f"{number}.zarr")
    paths = sorted(map(str, tmp_path.glob("*.zarr")))
    with xr.open_mfdataset(paths, engine="omnizarr", parallel=True, chunks={}) as found:
        ozx.write(found, tmp_path / "all", encoding={"t": {"chunks": (3, 30, 7)}})
    whole = xr.concat([month(number) for number in range(4)], "day")
    with xr.open_dataset(tmp_path / "all", engine="omnizarr") as stored:
        xr.testing.assert_allclose(stored.load(), whole)


def test_a_dataset_that_was_not_read_is_sent_without_its_values(
    tmp_path: Path, client: Client
) -> None:
    values = np.random.default_rng(1).random((100, 1000))
    ozx.write(xr.Dataset({"t": (("y", "x"), values)}), tmp_path / "a")
    lazy = xr.open_dataset(tmp_path / "a", engine="omnizarr")
    assert len(pickle.dumps(lazy)) < values.nbytes / 20
    found = client.submit(lambda dataset: dataset.t[7].values, lazy).result()
    np.testing.assert_array_equal(found, values[7])
    array = oz.open(tmp_path / "a", path="t")
    found = client.submit(lambda array: array[:, 3], array).result()
    np.testing.assert_array_equal(found, values[:, 3])
