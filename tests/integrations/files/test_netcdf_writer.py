"""NetCDF files: what xarray reads from Zarr is what it and netCDF4 read from the export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import omnizarr as oz


def _dataset() -> xr.Dataset:
    times = np.array(["2020-01-01", "2020-01-02", "2020-01-05", "NaT"], "M8[ns]")
    dataset = xr.Dataset(
        {
            "packed": (("time", "x"), np.arange(12.0).reshape(4, 3), {"units": "K"}),
            "flag": ("x", [True, False, True]),
            "text": ("x", np.array(["a", "bb", "ß"])),
            "raw": ("x", np.array([b"a", b"bb", b"c"])),
            "when": ("time", times),
            "masked": ("x", np.array([1, np.nan, 3], "f4")),
            "scalar": ((), 5),
        },
        coords={"time": np.arange(4), "x": [1.0, 2.0, 3.0]},
        attrs={"title": "a file", "numbers": [1, 2], "one": 1.5},
    )
    dataset["packed"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    return dataset


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarray_reads_the_same_from_zarr_and_from_the_export(
    tmp_path: Path, zarr_format: int, engine: Any
) -> None:
    oz.xarray.write(_dataset(), tmp_path / "a.zarr", zarr_format=zarr_format)
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert report.skipped == {}
    expected = xr.open_dataset(tmp_path / "a.zarr", engine="omnizarr")
    found = xr.open_dataset(tmp_path / "a.nc", engine=engine)
    xr.testing.assert_equal(found, expected)
    for name in expected.variables:
        assert found[name].attrs == expected[name].attrs
        if expected[name].dtype.kind not in "OUT":
            assert found[name].dtype == expected[name].dtype
    oz.import_file(tmp_path / "a.nc", tmp_path / "b.zarr", zarr_format=zarr_format)
    again = xr.open_dataset(tmp_path / "b.zarr", engine="omnizarr")
    xr.testing.assert_equal(again, expected)


def test_values_are_stored_as_they_are_with_their_dimensions(tmp_path: Path) -> None:
    oz.xarray.write(_dataset(), tmp_path / "a.zarr")
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        file.set_auto_maskandscale(False)
        packed = file["packed"]
        assert (packed.dtype, packed.dimensions) == (np.dtype("i2"), ("time", "x"))
        assert (packed.scale_factor, packed._FillValue) == (0.5, -1)
        assert packed[0].tolist() == [0, 2, 4]
        assert packed.filters()["zlib"]
        assert dict(file.dimensions).keys() == {"time", "x", "string2"}


def test_times_of_every_unit_and_axes_without_names(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    for unit in ("D", "h", "m", "s", "ms", "us", "ns", "M", "25s"):
        values = np.array([0, 100, "NaT"], f"M8[{unit}]")
        root.create_array(f"t-{unit}", data=values)
    root.create_array("delta", data=np.array([1, 2], "m8[ms]"), dimension_names=["n"])
    root.create_array("square", data=np.eye(3))
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    found = xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", decode_timedelta=True)
    for name, array in root.arrays():
        if array.dtype.kind == "M":
            assert found[name].dims == ("dim_3",)
            np.testing.assert_array_equal(found[name].values, array[...].astype("M8[ns]"))
    np.testing.assert_array_equal(found["delta"].values, root["delta"][...].astype("m8[ns]"))
    assert found["square"].dims == ("dim_3", "dim_3")


def test_dimensions_are_inherited_shadowed_or_refused(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    root.create_array("a", data=np.zeros(3), dimension_names=["x"])
    root.create_array("b", data=np.zeros(4), dimension_names=["x"])
    root.create_array("g/same", data=np.zeros(3), dimension_names=["x"])
    root.create_array("h/other", data=np.ones(7), dimension_names=["x"])
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert list(report.skipped) == ["b"]
    assert "has length 4, but another array of the group has 3" in report.skipped["b"]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert len(file.dimensions["x"]) == 3
        assert dict(file["g"].dimensions) == {}
        assert len(file["h"].dimensions["x"]) == 7
        assert file["h/other"][:].tolist() == [1] * 7


def test_durations_without_a_fixed_length_are_left_out(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("months", data=np.array([1, 2], "m8[M]"))
    group.create_array("weeks", data=np.array([1, 2], "m8[W]"))
    report = oz.export_file(group, tmp_path / "a.nc")
    assert "no fixed number" in report.skipped["months"]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["weeks"][:].tolist() == [7, 14]
