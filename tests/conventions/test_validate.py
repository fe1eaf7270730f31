"""Nodes that declare a convention are found and checked, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import cf as cf_door
from omnizarr import ome as ome_door
from omnizarr.conventions import validate as declared
from omnizarr.stores import LocalStore

FORMATS = [2, 3]


def found(check: Any, root: Path) -> list[tuple[str, str, str, str]]:
    problems = check(LocalStore(root), "")
    return [(path, problem.key, problem.field, rule) for path, problem, rule in problems]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_attributes_without_a_convention_are_not_checked(zarr_format: int, tmp_path: Path) -> None:
    attributes = {"multiscales": [{"datasets": 3}], "labels": ["x"], "series": 1, "plate": "big"}
    group = oz.create_group(tmp_path, attributes=attributes, zarr_format=zarr_format)
    group.create_array("a", shape=3, dtype="f4", attributes={"coordinates": "nowhere"})
    for check in (declared.ome, declared.cf, declared.geo):
        assert found(check, tmp_path) == []


@pytest.mark.parametrize(("zarr_format", "version"), [(2, "0.4"), (3, "0.5")])
def test_images_anywhere_are_checked(zarr_format: int, version: str, tmp_path: Path) -> None:
    oz.create_group(tmp_path, zarr_format=zarr_format)
    image = np.arange(4096, dtype="u1").reshape(64, 64)
    for path in ("a/good", "b/bad"):
        ome_door.write(tmp_path, image, path=path, axes="yx", version=version)
    level = oz.open(tmp_path, "r+", path="b/bad")
    del level[next(iter(level.arrays()))[0]]
    (error,) = [row for row in found(declared.ome, tmp_path) if "datasets[0].path" in row[2]]
    assert error[0] == "b/bad"
    assert error[3] == f"OME-Zarr {version}, multiscales"


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_references_of_cf_datasets_are_checked(zarr_format: int, tmp_path: Path) -> None:
    made = cf_door.create(
        tmp_path, path="data", attributes={"Conventions": "CF-1.8"}, zarr_format=zarr_format
    )
    made.create_variable("t", np.arange(4.0), dimensions=("t",), attributes={"bounds": "nowhere"})
    ends = {2: ("data/t/.zattrs", "bounds"), 3: ("data/t/zarr.json", "attributes.bounds")}
    assert found(declared.cf, tmp_path) == [
        ("data/t", *ends[zarr_format], "CF, 7.1 Cell boundaries")
    ]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_variables_that_cannot_be_decoded_are_named(zarr_format: int, tmp_path: Path) -> None:
    group = oz.create_group(tmp_path, attributes={"Conventions": "CF-1.8"}, zarr_format=zarr_format)
    group.create_array("v", shape=3, dtype="i2", attributes={"scale_factor": "ten"})
    ((path, _, _, rule),) = found(declared.cf, tmp_path)
    assert (path, rule) == ("v", "CF, 8 Packed data")


@pytest.mark.parametrize(
    ("attributes", "field", "rule"),
    [
        ({"spatial:transform": [1, 2]}, "spatial:transform", "GeoZarr, spatial:"),
        ({"proj:code": 5}, "proj:code", "GeoZarr, proj:"),
        ({"multiscales": {"layout": 5}}, "multiscales", "GeoZarr, multiscales"),
    ],
)
def test_wrong_attributes_of_maps_are_named(
    attributes: dict[str, Any], field: str, rule: str, tmp_path: Path
) -> None:
    group = oz.create_group(tmp_path, attributes=attributes)
    group.create_array("z", shape=(4, 4), dtype="f4")
    assert found(declared.geo, tmp_path) == [("", "zarr.json", f"attributes.{field}", rule)]
