"""`omnizarr cf` and `omnizarr geo` describe datasets and maps."""

from __future__ import annotations

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
    code, text = run("geo", "info", tmp_path, "--node", "spatial_ref")
    assert code == 3
    assert "a map has at least two" in text
