"""`omnizarr ome …`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import omnizarr as oz
from tests.cli.conftest import run as run_command


def run(*arguments: str) -> Result:
    return run_command("ome", *arguments)


@pytest.fixture
def image(in_tmp: Path) -> oz.ome.Image:
    return oz.ome.write("cell.zarr", np.ones((4, 32, 32), "u1"), unit="um", levels=2)


def test_info_shows_levels_and_pixels(image: oz.ome.Image) -> None:
    output = run("info", "cell.zarr").output
    assert "OME-Zarr 0.5 image" in output
    assert "level 1   : 1: (2, 16, 16), pixel z 2 micrometer" in output


def test_validate_has_the_exit_code_of_its_verdict(image: oz.ome.Image) -> None:
    good = run("validate", "cell.zarr")
    assert (good.exit_code, good.output) == (0, "0 errors, 0 warnings\n")
    group = oz.open("cell.zarr", "r+")
    group.attrs["ome"] = {"version": "0.5", "multiscales": []}
    bad = run("validate", "cell.zarr")
    assert bad.exit_code == 1
    assert "zarr.json: attributes.ome.multiscales: has 0 entries" in bad.output


def test_images_and_their_problems_as_json(image: oz.ome.Image) -> None:
    found = json.loads(run("info", "cell.zarr", "--json").stdout)["results"][0]
    assert (found["kind"], found["version"], found["dtype"]) == ("image", "0.5", "uint8")
    assert found["axes"][0] == {"name": "z", "type": "space", "unit": "micrometer"}
    assert [level["shape"] for level in found["levels"]] == [[4, 32, 32], [2, 16, 16]]
    assert found["levels"][1]["scale"] == [2, 2, 2]
    good = json.loads(run("validate", "cell.zarr", "--json").stdout)["results"][0]
    assert (good["ok"], good["problems"]) == (True, [])


def test_plates_as_json_list_their_wells(in_tmp: Path) -> None:
    oz.ome.write_plate("plate.zarr", {"A/1": [np.ones((8, 8), "u1")]}, levels=1)
    found = json.loads(run("info", "plate.zarr", "--json").stdout)["results"][0]
    assert (found["kind"], found["rows"], found["wells"]) == ("plate", ["A"], ["A/1"])
    well = json.loads(run("info", "plate.zarr", "--node", "A/1", "--json").stdout)["results"][0]
    assert (well["kind"], well["images"]) == ("well", ["0"])
