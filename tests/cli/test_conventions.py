"""`omnizarr cf`, `geo` and `ome` describe datasets, maps and images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import omnizarr as oz
from omnizarr.cli.main import main
from tests.cli.conftest import run as run_command


def run(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    return result.exit_code, result.output


def test_a_dataset_is_shown_and_checked(tmp_path: Path) -> None:
    dataset = oz.cf.create(tmp_path, attributes={"title": "rivers"})
    dataset.create_variable("flow", np.zeros(3), dimensions=["time"], attributes={"units": "m/s"})
    assert run("cf", "info", tmp_path) == (
        0,
        "dimension time = 3\nfloat64 flow(time)\n    units = 'm/s'\n:title = 'rivers'\n",
    )
    assert run("cf", "validate", tmp_path) == (0, "0 errors, 0 warnings\n")
    dataset.group.create_array("other", shape=4, dimension_names=["time"])
    code, text = run("cf", "validate", tmp_path)
    assert code == 1
    assert "other: dimension_names: dimension 'time' has length 4" in text


def test_a_map_is_shown(tmp_path: Path) -> None:
    values = np.zeros((20, 40), "u1")
    oz.geo.write(tmp_path, values, crs="EPSG:4326", bounds=(-180, -90, 180, 90), levels=2)
    assert run("geo", "info", tmp_path) == (
        0,
        "reference system  EPSG:4326\nbounds            -180 -90 180 90\n"
        "/0  20 by 40  uint8  pixels of 9\n/1  10 by 20  uint8  pixels of 18\n",
    )
    oz.geo.write(tmp_path / "utm", values, bounds=(380_000.5, 5_239_280, 384_000.5, 5_241_280))
    assert "380000.5 5239280 384000.5 5241280\n" in run("geo", "info", tmp_path / "utm")[1]
    code, text = run("geo", "info", tmp_path, "--node", "spatial_ref")
    assert code == 3
    assert "a map has at least two" in text


def test_datasets_and_maps_as_json(in_tmp: Path) -> None:
    dataset = oz.cf.create("a.zarr", attributes={"title": "rivers"})
    dataset.create_variable("flow", np.zeros(3), dimensions=["time"], attributes={"units": "m/s"})
    dataset.create_group("inner").create_variable("x", np.zeros(2), dimensions=["n"])
    found = json.loads(run("cf", "info", "a.zarr", "--json")[1])["results"][0]
    assert found["dimensions"] == {"time": 3}
    assert [(v["name"], v["shape"]) for v in found["variables"]] == [("flow", [3])]
    assert found["groups"][0]["variables"][0]["name"] == "x"
    dataset.group.create_array("other", shape=4, dimension_names=["time"])
    code, text = run("cf", "validate", "a.zarr", "--json")
    assert code == 1
    bad = json.loads(text)["results"][0]
    assert (bad["ok"], bad["errors"]) == (False, 1)
    assert bad["problems"][0]["level"] == "error"

    values = np.zeros((20, 40), "u1")
    oz.geo.write("m.zarr", values, crs="EPSG:4326", bounds=(-180, -90, 180, 90), levels=2)
    map = json.loads(run("geo", "info", "m.zarr", "--json")[1])["results"][0]
    assert (map["crs"], map["bounds"]) == ("EPSG:4326", [-180, -90, 180, 90])
    assert [level["resolution"] for level in map["levels"]] == [9, 18]


def ome(*arguments: str) -> Result:
    return run_command("ome", *arguments)


@pytest.fixture
def image(in_tmp: Path) -> oz.ome.Image:
    return oz.ome.write("cell.zarr", np.ones((4, 32, 32), "u1"), unit="um", levels=2)


def test_info_shows_levels_and_pixels(image: oz.ome.Image) -> None:
    output = ome("info", "cell.zarr").output
    assert "OME-Zarr 0.5 image" in output
    assert "level 1   : 1: (2, 16, 16), pixel z 2 micrometer" in output


def test_validate_has_the_exit_code_of_its_verdict(image: oz.ome.Image) -> None:
    good = ome("validate", "cell.zarr")
    assert (good.exit_code, good.output) == (0, "0 errors, 0 warnings\n")
    group = oz.open("cell.zarr", "r+")
    group.attrs["ome"] = {"version": "0.5", "multiscales": []}
    bad = ome("validate", "cell.zarr")
    assert bad.exit_code == 1
    assert "zarr.json: attributes.ome.multiscales: has 0 entries" in bad.output


def test_images_and_their_problems_as_json(image: oz.ome.Image) -> None:
    found = json.loads(ome("info", "cell.zarr", "--json").stdout)["results"][0]
    assert (found["kind"], found["version"], found["dtype"]) == ("image", "0.5", "uint8")
    assert found["axes"][0] == {"name": "z", "type": "space", "unit": "micrometer"}
    assert [level["shape"] for level in found["levels"]] == [[4, 32, 32], [2, 16, 16]]
    assert found["levels"][1]["scale"] == [2, 2, 2]
    good = json.loads(ome("validate", "cell.zarr", "--json").stdout)["results"][0]
    assert (good["ok"], good["problems"]) == (True, [])


def test_plates_as_json_list_their_wells(in_tmp: Path) -> None:
    oz.ome.write_plate("plate.zarr", {"A/1": [np.ones((8, 8), "u1")]}, levels=1)
    found = json.loads(ome("info", "plate.zarr", "--json").stdout)["results"][0]
    assert (found["kind"], found["rows"], found["wells"]) == ("plate", ["A"], ["A/1"])
    well = json.loads(ome("info", "plate.zarr", "--node", "A/1", "--json").stdout)["results"][0]
    assert (well["kind"], well["images"]) == ("well", ["0"])
