"""Worker processes of dask.distributed read and write datasets and arrays."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import omnizarr as oz
import omnizarr.xarray as ozx


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
