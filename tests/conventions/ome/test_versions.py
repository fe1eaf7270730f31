"""OME-Zarr metadata of every version: one model, no loss, and every problem found."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.conventions.ome.model import from_json, to_json
from omnizarr.conventions.ome.rules import check
from omnizarr.conventions.ome.versions import (
    find_metadata,
    from_0_4,
    from_0_5,
    get_version,
    to_attributes,
    upgrade,
)
from tests.conventions.ome import metadata as ome_metadata


def errors(attributes: dict[str, Any]) -> list[str]:
    found = find_metadata(attributes)
    assert found is not None
    return [str(p) for p in check(found, "zarr.json") if p.level == "error"]


@given(ome_metadata.MEMBERS)
def test_generated_metadata_is_valid_in_both_versions(members: dict[str, Any]) -> None:
    for version in ("0.4", "0.5"):
        assert errors(to_attributes(members, version, {})) == []


@given(ome_metadata.MEMBERS)
def test_the_model_writes_the_metadata_that_it_read(members: dict[str, Any]) -> None:
    before = copy.deepcopy(members)
    assert to_json(from_json(members)) == before
    assert members == before


@given(ome_metadata.MEMBERS, ome_metadata.OTHERS)
def test_converting_there_and_back_gives_identical_metadata(
    members: dict[str, Any], others: dict[str, Any]
) -> None:
    new = to_attributes(members, "0.5", others)
    old = to_attributes(members, "0.4", others)
    found = find_metadata(old)
    assert found is not None
    assert to_attributes(upgrade(found.members, get_version("0.4")), "0.5", old) == new
    found = find_metadata(new)
    assert found is not None
    assert to_attributes(upgrade(found.members, get_version("0.5")), "0.4", new) == old
    assert from_0_4(from_0_5(members)) == members


@given(ome_metadata.MEMBERS, st.data())
def test_a_value_of_the_wrong_kind_never_breaks_the_validator(
    members: dict[str, Any], data: st.DataObject
) -> None:
    """Any one value is replaced by any other kind of JSON; no step or rule may fail."""
    attributes = to_attributes(members, data.draw(st.sampled_from(["0.4", "0.5"])), {})
    ome_metadata.spoil(attributes, data)
    before = copy.deepcopy(attributes)
    found = find_metadata(attributes)
    if found is not None:
        assert all(p.message for p in check(found, ""))
        for version in ("0.1", "0.3", "0.4", "0.6"):
            assert isinstance(upgrade(found.members, get_version(version)), dict)
    assert attributes == before


BASE = {
    "axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
    "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 2]}]}],
}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"axes": BASE["axes"][::-1] * 3}, "axes"),
        ({"axes": [{"name": "x", "type": "space"}] * 2}, "axes"),
        ({"axes": [*BASE["axes"], {"name": "t", "type": "time"}]}, "axes"),
        ({"axes": [{"name": "y", "type": "space"}, {"name": "c", "type": "channel"}]}, "axes"),
        ({"axes": [{"type": "space"}, {"name": "x", "type": "space"}]}, "axes[0].name"),
        ({"datasets": []}, "datasets"),
        ({"datasets": [{"path": "0"}]}, "datasets[0].coordinateTransformations"),
        ({"datasets": [{**BASE["datasets"][0], "path": 5}]}, "datasets[0].path"),
        ({"datasets": BASE["datasets"] * 2}, "datasets"),
        (
            {"datasets": [{"path": "0", "coordinateTransformations": [{"type": "shear"}]}]},
            "datasets[0].coordinateTransformations[0].type",
        ),
        (
            {
                "datasets": [
                    {
                        "path": "0",
                        "coordinateTransformations": [{"type": "scale", "scale": [1, 2, 3]}],
                    }
                ]
            },
            "datasets[0].coordinateTransformations[0].scale",
        ),
        (
            {"coordinateTransformations": [{"type": "translation", "translation": [1, 2]}]},
            "coordinateTransformations",
        ),
    ],
)
def test_a_problem_is_reported_with_its_path(change: dict[str, Any], place: str) -> None:
    good = {"ome": {"version": "0.5", "multiscales": [BASE]}}
    assert errors(good) == []
    bad = {"ome": {"version": "0.5", "multiscales": [{**BASE, **change}]}}
    expected = f"zarr.json: attributes.ome.multiscales[0].{place}: "
    assert any(e.startswith(expected) for e in errors(bad)), errors(bad)


def test_every_problem_is_reported() -> None:
    bad = {"ome": {"version": "0.5", "multiscales": [{}], "plate": {}, "well": {"images": []}}}
    found = " ".join(errors(bad))
    for place in ("axes", "datasets", "plate.rows", "plate.columns", "plate.wells", "well.images"):
        assert place in found


def test_before_0_4_axes_were_five_or_strings() -> None:
    first = {"multiscales": [{"version": "0.1", "datasets": [{"path": "0"}]}]}
    third = {"multiscales": [{"version": "0.3", "axes": ["y", "x"], "datasets": [{"path": "0"}]}]}
    assert errors(first) == errors(third) == []
    found = find_metadata(first)
    assert found is not None
    (multiscale,) = from_json(upgrade(found.members, get_version("0.1"))).multiscales
    assert [a.name for a in multiscale.axes] == list("tczyx")
    assert [a.type for a in multiscale.axes] == ["time", "channel", "space", "space", "space"]
    objects = {"multiscales": [{**BASE, "version": "0.3"}]}
    assert errors(objects)


def test_a_release_candidate_of_0_6_is_read_if_0_5_can_express_it() -> None:
    def sixth(*transforms: dict[str, Any]) -> dict[str, Any]:
        last = (
            {"type": "sequence", "transformations": list(transforms)}
            if len(transforms) > 1
            else transforms[0]
        )
        dataset = {
            "path": "s0",
            "coordinateTransformations": [
                {**last, "input": {"path": "s0"}, "output": {"name": "physical"}}
            ],
        }
        systems = [{"name": "physical", "axes": BASE["axes"]}]
        multiscale = {"coordinateSystems": systems, "datasets": [dataset]}
        return {"ome": {"version": "0.6rc0", "multiscales": [multiscale]}}

    scale = {"type": "scale", "scale": [4, 3]}
    move = {"type": "translation", "translation": [1, 2]}
    for transforms, offset in (((scale,), None), ((scale, move), (1, 2))):
        found = find_metadata(sixth(*transforms))
        assert found is not None
        assert errors(sixth(*transforms)) == []
        (multiscale,) = from_json(upgrade(found.members, get_version(found.version))).multiscales
        assert multiscale.datasets[0].transform == oz.ome.Transform((4, 3), offset)
    assert errors(sixth({"type": "rotation", "rotation": [[0, 1], [1, 0]]}))
