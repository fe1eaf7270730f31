"""`omnizarr cf` and `omnizarr geo` describe datasets and maps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import omnizarr as oz
from omnizarr.cli.main import main


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
