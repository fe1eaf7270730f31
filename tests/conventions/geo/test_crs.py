"""Coordinate reference systems are read and written in three equivalent notations."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyproj
import pytest

import omnizarr as oz
from omnizarr.geo import CRS

WKT1 = pyproj.CRS.from_epsg(32633).to_wkt("WKT1_GDAL")
WKT2 = pyproj.CRS.from_epsg(32633).to_wkt("WKT2_2019")
URL = "http://www.opengis.net/def/crs/EPSG/0/32633"


def array(attributes: dict[str, Any] | None = None, zarr_format: int = 2) -> oz.Array:
    group = oz.create_group({}, zarr_format=zarr_format)
    data = np.zeros((4, 6), "f4")
    return group.create_array(
        "map", data=data, attributes=attributes or {}, dimension_names=["y", "x"]
    )


@pytest.mark.parametrize(
    "given",
    [
        *(32633, "EPSG:32633", "epsg:32633", URL, "urn:ogc:def:crs:EPSG::32633", WKT1, WKT2),
        *(pyproj.CRS.from_epsg(32633), pyproj.CRS.from_epsg(32633).to_json_dict()),
    ],
)
def test_every_way_to_state_one_gives_the_same(given: Any) -> None:
    crs = CRS.of(given)
    assert crs.code == "EPSG:32633"
    assert crs.to_pyproj() == pyproj.CRS.from_epsg(32633)
    assert crs.same(CRS.of("EPSG:32633"))
    assert crs.same(CRS.of("EPSG:4326")) is False


@pytest.mark.parametrize("given", ["", "somewhere", "FOO[1]", 3.5, None, True])
def test_an_invalid_reference_system_is_refused(given: Any) -> None:
    with pytest.raises(oz.InvalidArgument, match="coordinate reference system"):
        CRS.of(given)


def test_the_code_of_text_is_that_of_the_whole() -> None:
    assert CRS.of(WKT2).code == "EPSG:32633"
    without = WKT2[: WKT2.rindex("ID[")].rstrip().rstrip(",") + "]"
    assert CRS.of(without).code is None
    tricky = 'GEOGCRS["a [ID[""X"",1]] b",DATUM["d",ID["EPSG",1]],ID["EPSG",4326]]'
    assert CRS.of(tricky).code == "EPSG:4326"


@pytest.mark.parametrize("way", ["cf", "gdal", "both", "proj"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_written_reference_system_is_read(way: Any, zarr_format: int) -> None:
    made = array(zarr_format=zarr_format)
    oz.geo.write_crs(made, "EPSG:32633", way=way)
    found = oz.geo.read_crs(oz.open(made.store, path="map"))
    assert found is not None
    assert found.to_pyproj() == pyproj.CRS.from_epsg(32633)
    assert made.dimension_names == ("y", "x")


def test_another_way_replaces_the_first() -> None:
    made = array()
    oz.geo.write_crs(made, "EPSG:4326", way="gdal")
    oz.geo.write_crs(made, "EPSG:32633", way="cf")
    assert "_CRS" not in made.attrs
    with pytest.raises(oz.NodeExists, match="another variable name"):
        oz.geo.write_crs(made, "EPSG:4326", way="cf")
    oz.geo.write_crs(made, "EPSG:4326", way="cf", name="crs")
    found = oz.geo.read_crs(made)
    assert found is not None
    assert found.code == "EPSG:4326"


def test_a_grid_mapping_is_found_in_a_group_around_and_in_its_longer_form() -> None:
    root = oz.create_group({})
    root.create_array("crs", shape=(), attributes={"crs_wkt": WKT2})
    made = root.create_array("a/b/map", shape=(2, 2), attributes={"grid_mapping": "crs: x y"})
    found = oz.geo.read_crs(made)
    assert found is not None
    assert found.code == "EPSG:32633"


def test_parameters_alone_are_a_reference_system() -> None:
    parameters = pyproj.CRS.from_epsg(32633).to_cf()
    del parameters["crs_wkt"]
    root = oz.create_group({})
    root.create_array("crs", shape=(), attributes=parameters)
    made = root.create_array("map", shape=(2, 2), attributes={"grid_mapping": "crs"})
    found = oz.geo.read_crs(made)
    assert found is not None
    assert found.to_pyproj().to_cf()["longitude_of_central_meridian"] == 15


def test_a_group_states_one_for_its_own_arrays_only() -> None:
    root = oz.create_group({}, attributes={"proj:code": "EPSG:32633"})
    near, far = (root.create_array(p, shape=(2, 2)) for p in ("near", "a/far"))
    assert str(oz.geo.read_crs(near)) == "EPSG:32633"
    assert oz.geo.read_crs(far) is None


def test_an_array_at_the_root_cannot_have_a_grid_mapping_variable() -> None:
    made = oz.create_array({}, shape=(2, 2))
    with pytest.raises(oz.CannotExpress, match="way='gdal'"):
        oz.geo.write_crs(made, WKT2)
    oz.geo.write_crs(made, WKT2, way="gdal")
    assert str(oz.geo.read_crs(made)) == "EPSG:32633"


def test_without_pyproj_text_passes_through_and_translations_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyproj", None)
    made = array()
    oz.geo.write_crs(made, WKT2, way="both")
    assert made.attrs["_CRS"] == {"wkt": WKT2}
    assert str(oz.geo.read_crs(made)) == "EPSG:32633"
    other = array()
    with pytest.raises(oz.CannotExpress, match=r"pip install 'omnizarr\[geo\]'"):
        oz.geo.write_crs(other, "EPSG:32633")
    assert "spatial_ref" not in oz.open(other.store)
    assert CRS.of(WKT2).same(CRS.of({"type": "GeographicCRS"})) is None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *((32633, "code"), (URL, "code"), (WKT2, "wkt2"), (WKT1, "wkt2"), ("OGC:CRS84", "wkt2")),
        (pyproj.CRS.from_epsg(32633).to_json_dict(), "projjson"),
    ],
)
def test_the_convention_proj_gets_exactly_one_statement(given: Any, name: str) -> None:
    made = array()
    oz.geo.write_crs(made, given, way="proj")
    assert [key for key in made.attrs if key.startswith("proj:")] == [f"proj:{name}"]
    assert [c["name"] for c in made.attrs["zarr_conventions"]] == ["proj:"]
    found = oz.geo.read_crs(made)
    assert found is not None
    assert found.same(CRS.of(given))


def test_writing_a_reference_system_keeps_changes_of_other_handles() -> None:
    found = array()
    oz.open(found.store, "r+", path=found.path).attrs["title"] = "height"
    oz.geo.write_crs(found, "EPSG:4326", way="gdal")
    assert found.attrs["title"] == "height"
