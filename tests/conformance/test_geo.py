"""Named dimensions, NetCDF, CF, reference systems and maps of the OGC specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pyproj
import pytest

import omnizarr as oz
from omnizarr.testing import RecordingStore
from tests.conventions.cf.test_dataset import climate, nczarr

FORMATS = (1, 2, "3-draft", 3)
UTM = pyproj.CRS.from_epsg(32633)
TEXT = UTM.to_wkt("WKT2_2019")
ARRAY = {
    **{"zarr_format": 2, "shape": [2, 3, 4], "dtype": "<i2", "chunks": [2, 3, 4], "order": "C"},
    **{"fill_value": None, "compressor": None, "filters": None},
}


def stored(attributes: dict[str, Any] | None, **more: Any) -> dict[str, bytes]:
    store = {
        ".zarray": json.dumps({**ARRAY, **more}).encode(),
        "0.0.0": np.arange(24, dtype="<i2").tobytes(),
    }
    if attributes is not None:
        store[".zattrs"] = json.dumps(attributes).encode()
    return store


def in_group(attributes: dict[str, Any], **others: dict[str, Any]) -> oz.Array:
    group = oz.create_group({}, zarr_format=2)
    for name, each in others.items():
        group.create_array(name, shape=(), dtype="i4", attributes=each)
    return group.create_array("map", shape=(4, 6), attributes=attributes)


@pytest.mark.shows("GEO-12", "GEO-15")
def test_names_are_written_as_a_list_one_for_each_axis() -> None:
    for shape, names in (((2, 3), ["lat", "lon"]), ((), [])):
        store: dict[str, bytes] = {}
        oz.create_array(store, shape=shape, dimension_names=tuple(names), zarr_format=2)
        assert json.loads(store[".zattrs"]) == {"_ARRAY_DIMENSIONS": names}


@pytest.mark.shows("GEO-13")
def test_arrays_without_names_are_ordinary() -> None:
    array = oz.open(stored(None), "r+")
    assert array.dimension_names is None
    array[0, 0, 0] = 9
    array.attrs["a"] = 1
    assert array[0, 0].tolist() == [9, 1, 2, 3]
    assert oz.validate(array.store) == []


@pytest.mark.shows("GEO-14")
@pytest.mark.parametrize("names", [["time"], ["time", "lat", 3], "time", {"time": 2}])
def test_names_that_do_not_fit_are_reported_and_not_used(names: Any) -> None:
    store = stored({"_ARRAY_DIMENSIONS": names})
    with pytest.warns(oz.OmnizarrWarning, match="names are ignored"):
        array = oz.open(store)
    assert array.dimension_names is None
    assert array[...].sum() == 276
    [problem] = oz.validate(store)
    assert (problem.key, problem.field) == (".zattrs", "_ARRAY_DIMENSIONS")
    with pytest.raises(oz.InvalidMetadata, match="_ARRAY_DIMENSIONS"):
        oz.create_array({}, shape=(2, 3, 4), attributes={"_ARRAY_DIMENSIONS": names}, zarr_format=2)
    with pytest.raises(oz.InvalidArgument, match="dimension_names needs a name"):
        oz.create_array({}, shape=(2, 3, 4), dimension_names=["time"], zarr_format=2)


@pytest.mark.shows("GEO-18")
def test_inconsistent_lengths_are_reported_and_arrays_stay_readable() -> None:
    group = oz.create_group({}, zarr_format=2)
    for name, length in (("a", 10), ("b", 12)):
        group.create_array(name, data=np.arange(length), dimension_names=["time"])
    dataset = oz.cf.open(group.store)
    assert [str(p) for p in dataset.problems()] == [
        "b: dimension_names: dimension 'time' has length 12 here, but 10 in the dataset"
    ]
    assert (len(dataset["a"]), len(dataset["b"])) == (10, 12)


@pytest.mark.shows("GEO-19")
def test_user_defined_types_are_refused_by_name(tmp_path: Path) -> None:
    dataset = oz.cf.create({})
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as file:
        compound = file.createCompoundType(np.dtype([("u", "f4"), ("v", "f4")]), "wind")
        enum = file.createEnumType("u1", "clouds", {"clear": 0, "grey": 1})
        for dtype, name in ((compound, "wind"), (enum, "clouds")):
            with pytest.raises(oz.CannotExpress, match=name):
                dataset.create_variable("v", dimensions=["t"], shape=(2,), dtype=dtype)
    for dtype in (np.dtype([("u", "f4")]), object, np.dtype("V4")):
        with pytest.raises(oz.CannotExpress, match="user-defined type"):
            dataset.create_variable("v", dimensions=["t"], shape=(2,), dtype=dtype)
    assert list(dataset.group) == []


@pytest.mark.shows("GEO-20")
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_cf_attributes_are_plain_attributes(zarr_format: Any) -> None:
    attributes = {
        **{"units": "K", "scale_factor": 0.01, "add_offset": 273, "_FillValue": -32768},
        **{"standard_name": "air_temperature", "coordinates": "lat lon"},
    }
    source: dict[str, bytes] = {}
    oz.create_array(
        source, data=np.arange(3, dtype="i2"), attributes=attributes, zarr_format=zarr_format
    )
    assert dict(oz.open(source).attrs) == attributes
    for other in FORMATS:
        target: dict[str, bytes] = {}
        oz.convert(source, target, zarr_format=other)
        assert json.dumps(oz.open(target).attrs.asdict(), sort_keys=True) == json.dumps(
            attributes, sort_keys=True
        )
    assert oz.cf.decode(oz.open(source), fill_value_is_missing=False)[2] == 273.02


@pytest.mark.shows("GEO-21")
@pytest.mark.parametrize("zarr_format", [2, "3-draft", 3])
def test_no_metadata_of_nczarr_is_written(tmp_path: Path, zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    climate(store, zarr_format)
    nczarr(tmp_path / "x.zarr")
    target: dict[str, bytes] = {}
    oz.convert(tmp_path / "x.zarr", target, zarr_format=zarr_format)
    assert [key for key in {**store, **target} if "ncz" in key.lower()] == []
    assert not any(b"nczarr" in value.lower() for value in store.values())
    assert oz.open(target, path="temp").dimension_names == ("time", "lat")
    assert oz.validate(target) == []


@pytest.mark.shows("GEO-22")
def test_metadata_of_nczarr_is_ignored(tmp_path: Path) -> None:
    for mode in ("zarr", "nczarr"):
        nczarr(tmp_path / mode, mode)
        group = oz.open(tmp_path / mode)
        assert set(group) - {"inner"} == {"crs", "temp", "time"}
        assert group["time"].dimension_names == ("time",)
        assert group["time"][...].tolist() == [0, 1, 2]
    store = stored({}, _NCZARR_ARRAY={"dimrefs": ["/a", "/b", "/c"], "storage": "chunked"})
    store = {**{f"v/{k}": v for k, v in store.items()}, ".zgroup": b'{"zarr_format": 2}'}
    store |= {".nczgroup": b"{}", "v/.nczarray": b"{}", "v/.nczattr": b"{}", ".nczarr": b"{}"}
    group = oz.open(store)
    assert list(group) == ["v"]
    assert group["v"].dimension_names == ("a", "b", "c")
    assert group["v"][...].sum() == 276


@pytest.mark.shows("GEO-11", "GEO-15", "GEO-23")
def test_netcdf_c_reads_our_names_and_we_read_its(tmp_path: Path) -> None:
    dataset = oz.cf.create(tmp_path / "ours.zarr", zarr_format=2)
    dataset.create_variable("v", np.ones((3, 2)), dimensions=["lat", "lon"], compressors=None)
    with netCDF4.Dataset(f"file://{tmp_path / 'ours.zarr'}#mode=zarr,file") as theirs:
        assert theirs["v"].dimensions == ("lat", "lon")
        assert {n: len(d) for n, d in theirs.dimensions.items()} == {"lat": 3, "lon": 2}
        assert theirs["v"][:].sum() == 6
    nczarr(tmp_path / "theirs.zarr", "zarr")
    assert oz.open(tmp_path / "theirs.zarr", path="temp").dimension_names == ("time", "lat")


@pytest.mark.shows("GEO-25")
def test_a_grid_mapping_variable_has_the_system() -> None:
    array = in_group({"grid_mapping": "spatial_ref"}, spatial_ref={"crs_wkt": TEXT})
    found = oz.geo.read_crs(array)
    assert found is not None
    assert found.wkt == TEXT
    with pytest.warns(oz.OmnizarrWarning, match="'lost', which is missing"):
        assert oz.geo.read_crs(in_group({"grid_mapping": "lost"})) is None


@pytest.mark.shows("GEO-26", "GEO-27")
def test_the_attribute_of_gdal_has_the_system() -> None:
    url = "http://www.opengis.net/def/crs/EPSG/0/4326"
    stated = {"url": url, "wkt": TEXT, "projjson": pyproj.CRS.from_epsg(3857).to_json_dict()}
    codes = {"url": "EPSG:4326", "wkt": "EPSG:32633", "projjson": "EPSG:3857"}
    for name, code in codes.items():
        alone = oz.geo.read_crs(in_group({"_CRS": {name: stated[name]}}))
        assert alone is not None
        assert (alone.code, alone.definition) == (code, stated[name])
    for names in (["url", "wkt", "projjson"], ["wkt", "projjson"]):
        found = oz.geo.read_crs(in_group({"_CRS": {n: stated[n] for n in names}}))
        assert found is not None
        assert found.definition == stated[names[0]]
        assert found.code == codes[names[0]]
    assert oz.geo.read_crs(in_group({"_CRS": {}})) is None


@pytest.mark.shows("GEO-28")
def test_wkt2_is_written_and_wkt1_is_also_read() -> None:
    old = UTM.to_wkt("WKT1_GDAL")
    assert old.startswith("PROJCS[")
    assert str(oz.geo.read_crs(in_group({"_CRS": {"wkt": old}}))) == "EPSG:32633"
    array = in_group({})
    oz.geo.write_crs(array, old, way="gdal")
    assert array.attrs["_CRS"]["wkt"].startswith("PROJCRS[")
    oz.geo.write_crs(array, pyproj.CRS.from_epsg(4326).to_wkt("WKT1_GDAL"), way="gdal")
    assert array.attrs["_CRS"]["wkt"].startswith("GEOGCRS[")


@pytest.mark.shows("GEO-29")
def test_either_notation_is_converted_to_the_other_and_back() -> None:
    array = in_group({"grid_mapping": "crs"}, crs={"crs_wkt": TEXT})
    for way in ("gdal", "cf", "both", "proj", "cf"):
        oz.geo.write_crs(array, oz.geo.read_crs(array), way=way, name="crs")
        found = oz.geo.read_crs(array)
        assert found is not None
        assert found.wkt == TEXT


@pytest.mark.shows("GEO-30")
def test_cf_takes_precedence_over_gdal_and_is_the_default() -> None:
    other = {"url": "http://www.opengis.net/def/crs/EPSG/0/4326"}
    array = in_group({"grid_mapping": "crs", "_CRS": other}, crs={"crs_wkt": TEXT})
    with pytest.warns(oz.OmnizarrWarning, match="EPSG:32633, but _CRS says EPSG:4326"):
        found = oz.geo.read_crs(array)
    assert str(found) == "EPSG:32633"
    plain = in_group({})
    oz.geo.write_crs(plain, TEXT)
    assert set(plain.attrs) == {"grid_mapping"}
    oz.geo.write_crs(plain, TEXT, way="both")
    assert set(plain.attrs) == {"grid_mapping", "_CRS"}
    assert str(oz.geo.read_crs(plain)) == "EPSG:32633"


@pytest.mark.shows("GEO-31")
def test_levels_are_found_by_the_attribute_of_the_group() -> None:
    root = oz.create_group({}, zarr_format=2)
    group = root.create_group(
        "map", attributes={"multiscales": [{"datasets": [{"path": "0"}, {"path": "1"}]}]}
    )
    for name, length in (("0", 8), ("1", 4)):
        group.create_array(name, shape=(length, length))
    found = oz.geo.open(root.store, path="map")
    assert [level.array.path for level in found.levels] == ["map/0", "map/1"]


@pytest.mark.shows("GEO-32", "GEO-33")
def test_a_pyramid_is_an_ordinary_group_with_that_attribute() -> None:
    store: dict[str, bytes] = {}
    oz.geo.write(store, np.ones((16, 32), "u1"), levels=3, zarr_format=2)
    group = oz.open(store, "r+")
    [listed] = group.attrs["multiscales"]
    assert [d["path"] for d in listed["datasets"]] == ["0", "1", "2"] == list(group)
    assert [a.shape for _, a in group.arrays()] == [(16, 32), (8, 16), (4, 8)]
    before = group.attrs.asdict()
    group.create_array("more", shape=2)
    group.attrs["note"] = "changed"
    assert {**before, "note": "changed"} == oz.open(store).attrs.asdict()
    assert oz.validate(store) == []


@pytest.mark.shows("GEO-24")
def test_a_missing_reference_system_is_neither_an_error_nor_guessed() -> None:
    assert oz.geo.read_crs(in_group({"units": "degrees"})) is None


@pytest.mark.shows("GEO-34")
def test_arrays_may_be_far_larger_than_memory() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    array = oz.create_array(
        store,
        shape=(1_000_000, 1_000_000, 1000),
        dtype="<f4",
        chunks=(100, 100, 100),
        zarr_format=2,
    )
    assert array.nbytes == 4 * 10**15
    assert array.nbytes_stored() < 1000
    array[999_999, 5, 5] = 3
    store.calls.clear()
    assert array[999_999, 5, 5] == 3
    assert {key for call in store.calls for key in call.keys} - {".zarray"} == {"9999.0.0"}
