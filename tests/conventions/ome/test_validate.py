"""Transformations of OME-Zarr 0.6 are validated even if no reader uses them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from tests.conventions.ome import metadata as ome_metadata

AXES = [{"name": "y", "type": "space", "unit": "micrometer"},
        {"name": "x", "type": "space", "unit": "micrometer"}]  # fmt: skip
SCALE = {"type": "scale", "scale": [1, 2]}
GOOD: dict[str, dict[str, Any]] = {
    "identity": {"type": "identity"},
    "mapAxis": {"type": "mapAxis", "mapAxis": [1, 0]},
    "projectAxis": {"type": "projectAxis", "createdOutputs": [0]},
    "scale": SCALE,
    "translation": {"type": "translation", "translation": [-1, 2.5]},
    "affine": {"type": "affine", "affine": [[1, 0, 3], [0, 1, 4]]},
    "affine elsewhere": {"type": "affine", "path": "matrix"},
    "rotation": {"type": "rotation", "rotation": [[0, 1], [1, 0]]},
    "bijection": {"type": "bijection", "forward": SCALE, "inverse": SCALE},
    "sequence": {"type": "sequence", "transformations": [SCALE, {"type": "identity"}]},
    "byDimension": {
        "type": "byDimension",
        "transformations": [{"transformation": SCALE, "inputAxes": [0], "outputAxes": [1]}],
    },
    "displacements": {"type": "displacements", "path": "field", "interpolation": "cubic"},
    "coordinates": {"type": "coordinates", "path": "field"},
}


def attributes(transform: Any, **ends: Any) -> dict[str, Any]:
    level = {**SCALE, "input": {"path": "s0"}, "output": {"name": "a"}}
    connected = {"input": {"name": "a"}, "output": {"name": "b"}, **transform, **ends}
    multiscale = {
        "name": "image",
        "coordinateSystems": [{"name": "a", "axes": AXES}, {"name": "b", "axes": AXES}],
        "datasets": [{"path": "s0", "coordinateTransformations": [level]}],
        "coordinateTransformations": [connected],
    }
    return {"ome": {"version": "0.6rc0", "multiscales": [multiscale]}}


def errors(found: dict[str, Any]) -> list[str]:
    return [str(p) for p in oz.ome.validate(found) if p.level == "error"]


@pytest.mark.parametrize("name", GOOD)
def test_every_kind_of_transformation_is_known(name: str) -> None:
    assert errors(attributes(GOOD[name])) == []


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"type": "shear"}, ".type: expected one of identity"),
        ({}, ".type: required, but missing"),
        ({"type": "scale", "path": "elsewhere"}, ".scale: expected a list of numbers"),
        ({"type": "scale", "scale": [1, 0]}, ".scale: expected numbers above 0"),
        ({"type": "translation", "translation": ["a"]}, ".translation: expected a list of numbers"),
        ({"type": "mapAxis", "mapAxis": [0, 0]}, ".mapAxis: expected 2 to 5 different integers"),
        ({"type": "mapAxis", "mapAxis": [0, 5]}, ".mapAxis: expected 2 to 5"),
        ({"type": "mapAxis", "mapAxis": {"x": "y"}}, ".mapAxis: expected 2 to 5"),
        ({"type": "projectAxis"}, "neither droppedInputs nor createdOutputs"),
        ({"type": "projectAxis", "droppedInputs": [0, 1, 2, 3]}, ".droppedInputs: expected 1 to 3"),
        ({"type": "affine"}, ".affine: expected either affine or path"),
        ({**GOOD["affine"], "path": "x"}, ".affine: expected either affine or path"),
        ({"type": "affine", "affine": [[1, "a"]]}, ".affine[0]: expected a list of numbers"),
        ({"type": "rotation", "rotation": [[1, 0, 0], [0, 1, 0]]}, "as many rows as columns"),
        ({"type": "rotation", "rotation": 5}, ".rotation: expected a list of rows"),
        ({"type": "bijection", "forward": SCALE}, ".inverse: required, but missing"),
        ({"type": "sequence"}, ".transformations: required, but missing"),
        ({"type": "sequence", "transformations": [{"type": "rotation"}]}, "transformations[0].rot"),
        ({"type": "byDimension", "transformations": [SCALE]}, "[0].inputAxes: expected a list"),
        ({"type": "displacements"}, ".path: required, but missing"),
        ({**GOOD["displacements"], "interpolation": "none"}, "expected one of nearest"),
    ],
)
def test_a_problem_of_a_transformation_is_reported_with_its_path(
    transform: dict[str, Any], message: str
) -> None:
    found = errors(attributes(transform))
    assert any(message in e for e in found), found
    assert all("multiscales[0].coordinateTransformations[0]" in e for e in found)


def test_a_transformation_says_from_where_to_where() -> None:
    for ends in ({"input": "a"}, {"input": {"path": "s0"}}, {"output": {}}, {"output": None}):
        assert len(errors(attributes(SCALE, **ends))) == 1
    bare = attributes(SCALE)
    level = bare["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]
    level["input"] = {"name": "s0"}
    (problem,) = errors(bare)
    assert "datasets[0].coordinateTransformations[0].input.path: required" in problem


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_a_value_of_the_wrong_kind_never_breaks_the_validator(
    name: str, data: st.DataObject
) -> None:
    found = copy.deepcopy(attributes(GOOD[name]))
    ome_metadata.spoil(found["ome"], data)
    before = copy.deepcopy(found)
    problems = oz.ome.validate({**found, "more": 1})
    assert found == before
    assert all(p.message and p.field.startswith("attributes") for p in problems), problems
    unusable = "entries, but there are"  # only a warning, but such an image cannot be read
    if not [p for p in problems if p.level == "error" or unusable in p.message]:
        stored: dict[str, Any] = {}
        group = oz.create_group(stored, attributes={**found, "more": 1})
        assert oz.ome.open(group).version == "0.6rc0"


@pytest.mark.parametrize(
    ("path", "good"), [("0", True), ("a.b", True), (".", False), ("..", False), ("__a", False)]
)
def test_the_fields_of_a_well_have_plain_names(path: str, good: bool) -> None:
    found = {"ome": {"version": "0.6rc0", "well": {"images": [{"path": path}]}}}
    assert (errors(found) == []) == good


def test_an_image_is_read_though_a_transformation_that_is_not_needed_is_wrong() -> None:
    stored: dict[str, Any] = {}
    group = oz.create_group(stored, attributes=attributes({"type": "rotation", "rotation": 5}))
    group.create_array("s0", shape=(4, 4), dtype="u1")
    image = oz.ome.open(stored)
    assert isinstance(image, oz.ome.Image)
    assert image.scale == (1, 2)
    assert errors(stored) != []
