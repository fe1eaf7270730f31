"""Groups as NetCDF datasets: dimensions and their scope, coordinates, NetCDF-C files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import omnizarr as oz

FORMATS = (2, "3-draft", 3)


def climate(store: Any, zarr_format: Any = 3) -> oz.cf.Dataset:
    dataset = oz.cf.create(store, attributes={"title": "made up"}, zarr_format=zarr_format)
    times = np.array(["2000-01-01", "2000-01-02", "2000-01-04"], "M8[s]")
    dataset.create_variable(
        "time", times, dimensions=["time"], attributes={"units": "hours since 1900-01-01"}
    )
    values = np.array([[1.5, np.nan], [3, 4], [5, 6]])
    dataset.create_variable(
        "temp",
        values,
        dimensions=["time", "lat"],
        dtype="i2",
        attributes={"scale_factor": 0.25, "_FillValue": -1, "units": "K", "coordinates": "height"},
    )
    dataset.create_variable("height", np.float32(2), dimensions=[])
    inner = dataset.create_group("inner", attributes={"note": "deeper"})
    inner.create_variable(
        "salt",
        np.array([[1, 2, 3], [4, np.nan, 6]], "f4"),
        dimensions=["lat", "depth"],
        attributes={"_FillValue": -999.0},
    )
    return dataset


@pytest.mark.shows("GEO-17")
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_dataset_is_read_as_it_was_written(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    climate(store, zarr_format)
    found = oz.cf.open(store)
    assert found.attributes == {"title": "made up"}
    assert found.dimensions == {"time": 3, "lat": 2}
    assert sorted(found) == ["height", "temp", "time"]
    assert sorted(found.coordinates) == ["height", "time"]
    assert found["time"].attributes == {"units": "hours since 1900-01-01"}
    assert found["temp"].dimensions == ("time", "lat")
    assert str(found["time"][2]) == "2000-01-04T00:00:00.000000"
    np.testing.assert_array_equal(found["temp"][0], [1.5, np.nan])
    assert found["temp"].array[0].tolist() == [6, -1]
    assert [(name, g.attributes) for name, g in found.groups.items()] == [
        ("inner", {"note": "deeper"})
    ]
    assert found["inner/salt"].attributes == {"_FillValue": -999.0}
    np.testing.assert_array_equal(found["inner/salt"][1], [4, np.nan, 6])
    assert found.problems() == []


@pytest.mark.shows("GEO-17")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_datasets_are_exchanged_with_xarray(tmp_path: Path, zarr_format: Any) -> None:
    climate(tmp_path / "ours", zarr_format)
    options: dict[str, Any] = {"engine": "zarr", "consolidated": False}
    with xr.open_dataset(tmp_path / "ours", **options) as theirs:
        theirs.load()
    with xr.open_datatree(tmp_path / "ours", **options) as tree:
        assert tree["inner/salt"].sizes == {"lat": 2, "depth": 3}
    theirs.attrs["by"] = "xarray"
    theirs.to_zarr(tmp_path / "theirs", zarr_format=zarr_format, consolidated=False)
    found = oz.cf.open(tmp_path / "theirs")
    assert set(found) == set(theirs.variables)
    assert found.attributes == {"title": "made up", "by": "xarray"}
    for name, variable in found.items():
        expected = theirs[name]
        assert variable.dimensions == expected.dims
        np.testing.assert_array_equal(variable[...], expected.values)


def test_dimensions_belong_to_the_group_that_names_them_and_are_seen_below() -> None:
    inner = climate({}).groups["inner"]
    assert inner.dimensions == {"depth": 3}
    assert (inner.dimension("lat"), inner.dimension("depth")) == (2, 3)
    with pytest.raises(oz.NodeNotFound, match="'altitude'"):
        inner.dimension("altitude")
    other = inner.create_variable("v", np.zeros(9), dimensions=["lat"])
    assert inner.dimension("lat") == 9, "one of another length is another dimension"
    assert other.shape == (9,)


def test_a_variable_that_does_not_fit_is_refused() -> None:
    dataset = climate({})
    with pytest.raises(oz.InvalidArgument, match="'time' has length 5 here, but 3"):
        dataset.create_variable("v", np.zeros(5), dimensions=["time"])
    with pytest.raises(oz.InvalidArgument, match="2 axes"):
        dataset.create_variable("v", np.zeros((3, 2)), dimensions=["time"])
    with pytest.raises(oz.InvalidArgument, match="not a NetCDF type"):
        dataset.create_variable("v", np.zeros(3, "M8[s]"), dimensions=["time"])
    assert "v" not in dataset


def test_values_that_were_never_written_are_missing() -> None:
    for zarr_format in FORMATS:
        dataset = climate({}, zarr_format)
        new = dataset.create_variable(
            "v", dimensions=["time"], dtype="f4", attributes={"_FillValue": 1e20}
        )
        assert np.isnan(new[...]).all()


def test_one_variable_without_sense_leaves_the_others_readable() -> None:
    dataset = climate({})
    dataset.group.create_array("bad", shape=2, attributes={"units": "months since 2000-01-01"})
    found = oz.cf.open(dataset.group.store)
    with pytest.raises(oz.InvalidMetadata, match="/bad"):
        found["bad"]
    assert found["temp"][1].tolist() == [3, 4]
    assert oz.cf.open(dataset.group.store, times=None)["bad"][...].tolist() == [0, 0]


def test_named_variables_that_are_not_there_are_problems() -> None:
    dataset = climate({})
    dataset.group["temp"].attrs.update(bounds="edges", grid_mapping="crs")
    assert [str(p) for p in dataset.problems()] == [
        "temp: bounds: there is no variable 'edges'",
        "temp: grid_mapping: there is no variable 'crs'",
    ]


def test_bounds_of_times_are_times_without_saying_so() -> None:
    dataset = climate({})
    dataset.group["time"].attrs.update(bounds="edges", calendar="noleap")
    edges = dataset.create_variable("edges", np.zeros((3, 2), "i4"), dimensions=["time", "two"])
    assert edges.dtype == object
    assert str(edges[0, 0]) == "1900-01-01 00:00:00"
    theirs = xr.open_dataset(dataset.group.store.values, engine="omnizarr")
    assert theirs["edges"].values.tolist() == edges[...].tolist()
    assert "units" not in dataset.group["edges"].attrs
    assert oz.cf.open(dataset.group.store, times=None)["edges"][0].tolist() == [0, 0]


def test_values_outside_of_the_range_of_a_netcdf_file_are_those_that_netcdf4_masks(
    tmp_path: Path,
) -> None:
    with netCDF4.Dataset(f"file://{tmp_path}/x.zarr#mode=nczarr,file", "w") as made:
        made.createDimension("x", 6)
        for dtype in ("i2", "u1", "f4"):
            v = made.createVariable(dtype, dtype, ["x"], fill_value=99)
            v.valid_range = np.array([2, 5], dtype)
            v.missing_value = np.array([3, 99], dtype)
            v.set_auto_mask(False)
            v[:] = np.array([1, 2, 3, 5, 6, 99])
    found = oz.cf.open(tmp_path / "x.zarr")
    with netCDF4.Dataset(f"file://{tmp_path}/x.zarr#mode=nczarr,file") as theirs:
        for name in found:
            masked = theirs[name][:].astype("f4")
            np.testing.assert_array_equal(found[name][...], masked.filled(np.nan))


def test_the_header_shows_everything_but_the_data() -> None:
    text = climate({}).header()
    for line in ("dimension time = 3", "int16 temp(time, lat)", "    scale_factor = 0.25",
                 "group inner", "    float32 salt(lat, depth)", "        _FillValue = -999.0",
                 ":title = 'made up'"):  # fmt: skip
        assert line in text.splitlines()


def nczarr(path: Path, mode: str = "nczarr") -> None:
    with netCDF4.Dataset(f"file://{path}#mode={mode},file", "w") as made:
        made.createDimension("time", 3)
        made.createDimension("lat", 2)
        made.createVariable("time", "f8", ["time"])[:] = [0, 1, 2]
        made["time"].units = "days since 2000-01-01"
        temp = made.createVariable("temp", "i2", ["time", "lat"], fill_value=-1)
        temp.scale_factor = 0.5
        temp[:] = np.ma.masked_equal([[1, 2], [3, 40], [5, 6]], 40)
        made.createVariable("crs", "i4", [])[...] = 7
        made.title = "NetCDF-C"
        if mode == "nczarr":
            inner = made.createGroup("inner")
            inner.createDimension("depth", 4)
            inner.createVariable("salt", "f4", ["lat", "depth"])[:] = 1


@pytest.mark.parametrize("mode", ["nczarr", "zarr"])
def test_files_of_netcdf_c_are_datasets(tmp_path: Path, mode: str) -> None:
    nczarr(tmp_path / "x.zarr", mode)
    found = oz.cf.open(tmp_path / "x.zarr")
    assert {k: v for k, v in found.dimensions.items() if k != "_scalar_"} == {"time": 3, "lat": 2}
    assert found["temp"].dimensions == ("time", "lat")
    np.testing.assert_array_equal(found["temp"][...], [[1, 2], [3, np.nan], [5, 6]])
    assert str(found["time"][1]) == "2000-01-02T00:00:00.000000"
    assert found["temp"].attributes == {"_FillValue": -1, "scale_factor": 0.5}
    assert found.attributes.keys() <= {"title", "_NCProperties"}
    assert found.problems() == []
    assert found["crs"].shape == ()
    assert found["crs"][()] == 7
    if mode == "nczarr":
        assert found["inner/salt"].dimensions == ("lat", "depth")
        assert found.groups["inner"].dimensions == {"depth": 4}


def test_names_are_taken_from_nczarr_where_the_attribute_is_missing() -> None:
    document = {
        **{"zarr_format": 2, "shape": [3, 2], "dtype": "<i2", "chunks": [3, 2], "order": "C"},
        **{"fill_value": -1, "compressor": None, "filters": None},
    }
    old = {**document, "_NCZARR_ARRAY": {"dimrefs": ["/time", "/g/lat"], "storage": "chunked"}}
    array = oz.open({".zarray": json.dumps(old).encode()})
    assert array.dimension_names == ("time", "lat")
    new = {"_nczarr_array": {"dimension_references": ["/time", "/lat"]}}
    store = {".zarray": json.dumps(document).encode(), ".zattrs": json.dumps(new).encode()}
    assert oz.open(store).dimension_names == ("time", "lat")
    store[".zattrs"] = b'{"_nczarr_array": {"dimension_references": [1]}}'
    assert oz.open(store).dimension_names is None


@pytest.mark.parametrize("mode", ["nczarr", "zarr"])
def test_xarray_reads_files_of_netcdf_c_as_netcdf_does(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "x.zarr"
    nczarr(path, mode)
    if mode == "nczarr":  # its own references name the dimensions as well
        for name in ("temp", "time", "crs"):
            del oz.open(path, "r+", path=name).attrs["_ARRAY_DIMENSIONS"]
    with xr.open_dataset(path, engine="omnizarr") as found:
        assert dict(found.sizes) == {"time": 3, "lat": 2}
        assert found["temp"].dims == ("time", "lat")
        assert found["crs"].dims == ()
        assert found["crs"].item() == 7
        assert list(found.attrs) == ["title"]
        changed = found.load() + 1
    changed[["crs"]].omnizarr.to(path, mode="r+")
    assert oz.cf.open(path)["crs"][()] == 8


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_in_an_array_of_objects_is_text(zarr_format: int) -> None:
    texts = np.array([["a", "bcß"], ["", "d"]], object)
    root = oz.cf.create({}, zarr_format=zarr_format)
    variable = root.create_variable("v", texts, dimensions=["y", "x"])
    assert variable[...].tolist() == texts.tolist()
    with pytest.raises(oz.errors.CannotExpress, match="type object"):
        root.create_variable("w", np.array(["a", 1], object), dimensions=["z"])
