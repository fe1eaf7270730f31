"""Chunked computation and labelled arrays: dask, xarray, cubed."""

# ruff: noqa: PLC0415 - a package is imported only in its own environment

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(16)


def write_dask(folder: Path) -> None:
    import dask.array as da
    import zarr

    values = da.from_array(RNG.normal(size=(40, 30)), chunks=(16, 10))
    da.to_zarr(values, str(folder / "url"))
    values.astype("i4").to_zarr(str(folder / "group"), component="deep/er")
    da.to_zarr(values, str(folder / "v2"), zarr_format=2, attributes={"unit": "m"})
    target = zarr.create_array(folder / "given", shape=(40, 30), chunks=(8, 30), dtype="f8")
    da.to_zarr(values.rechunk((8, 30)), target)
    da.to_zarr(values[:20], target, region=(slice(0, 20), slice(None)))


def read_dask(folder: Path) -> dict[str, Any]:
    import dask.array as da
    import zarr

    found = {name: da.from_zarr(str(folder / name)) for name in ("url", "v2", "given")}
    found["deep"] = da.from_zarr(str(folder / "group"), component="deep/er")
    found["object"] = da.from_zarr(zarr.open_array(folder / "url", mode="r"))
    found["asarray"] = da.from_array(zarr.open_array(folder / "given", mode="r"))
    return {name: [array.compute(), array.chunks] for name, array in found.items()}


def write_xarray(folder: Path) -> None:
    import xarray as xr

    for version in (2, 3):
        data = xr.Dataset(
            {
                "t2m": (("time", "y", "x"), RNG.normal(size=(4, 6, 5)), {"units": "K"}),
                "n": (("y",), np.arange(6, dtype="i2"), {"valid_min": 0}),
                "name": (("x",), np.array(["a", "bb", "ccc", "é", ""], dtype=object)),
            },
            coords={"time": np.arange("2020-01-01", "2020-01-05", dtype="M8[D]").astype("M8[ns]")},
            attrs={"title": "round trip"},
        )
        where = folder / f"v{version}"
        data.chunk({"y": 3}).to_zarr(where, zarr_format=version, consolidated=version == 2)
        later = data.isel(time=[3]).assign_coords(time=data.time[[3]] + np.timedelta64(1, "D"))
        later.to_zarr(where, append_dim="time", zarr_format=version)
        data.isel(time=slice(0, 1)).drop_vars(["n", "name"]).to_zarr(where, region="auto")


def read_xarray(folder: Path) -> dict[str, Any]:
    import xarray as xr

    found = {}
    for version in (2, 3):
        with xr.open_zarr(folder / f"v{version}") as data:
            found[f"v{version}"] = data.load().to_dict()
        with xr.open_dataset(folder / f"v{version}", engine="zarr", decode_cf=False) as data:
            found[f"v{version} undecoded"] = data.load().to_dict()
    return found


def write_cubed(folder: Path) -> None:
    import cubed
    import cubed.array_api as xp

    spec = cubed.Spec(work_dir=str(folder.with_name("cubed-work")), allowed_mem="200MB")
    values = cubed.from_array(RNG.normal(size=(40, 30)), chunks=(16, 10), spec=spec)
    cubed.to_zarr(values + 1, str(folder / "plain"))
    cubed.to_zarr(cubed.rechunk(values, (40, 5)), str(folder / "rechunked"))
    cubed.to_zarr(xp.mean(values, axis=0), str(folder / "mean"))


def read_cubed(folder: Path) -> dict[str, Any]:
    import cubed

    spec = cubed.Spec(work_dir=str(folder.with_name("cubed-work")), allowed_mem="200MB")
    names = ("plain", "rechunked", "mean")
    arrays = {name: cubed.from_zarr(str(folder / name), spec=spec) for name in names}
    return {name: [array.compute(), array.chunks] for name, array in arrays.items()}
