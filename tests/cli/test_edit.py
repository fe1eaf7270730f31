"""`omnizarr attrs`, `create` and `consolidate`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.cli.conftest import run


def test_attributes_are_shown_set_and_deleted(ocean: Path) -> None:
    assert json.loads(run("attrs", "ocean.zarr").output) == {"title": "sea"}
    done = run("attrs", "ocean.zarr", "--set", "title=Sea of Ice", "--set", "n=007")
    assert done.output == '~ title: "sea" -> "Sea of Ice"\n+ n: "007"\n'
    assert run("attrs", "ocean.zarr", "--delete", "n").output == '- n: "007"\n'
    assert dict(oz.open("ocean.zarr").attrs) == {"title": "Sea of Ice"}


def test_attributes_of_several_paths_are_changed_and_reported_as_json(ocean: Path) -> None:
    oz.create_array("a.zarr", shape=3)
    done = run("attrs", "ocean.zarr", "a.zarr", "none.zarr", "--set", "by=me", "--json")
    assert done.exit_code == 3
    data = json.loads(done.stdout)
    assert [r["path"] for r in data["results"]] == ["ocean.zarr", "a.zarr"]
    assert data["results"][1] == {
        "path": "a.zarr",
        "attributes": {"by": "me"},
        "changes": [{"name": "by", "action": "add", "new": "me"}],
    }
    assert data["failures"][0]["path"] == "none.zarr"
    assert oz.open("a.zarr").attrs["by"] == "me"


def test_wrong_changes_of_attributes_change_nothing(ocean: Path) -> None:
    absent = run("attrs", "ocean.zarr", "--set", "a=1", "--delete", "titel")
    assert absent.exit_code == 2
    assert "did you mean 'title'" in absent.output
    assert run("attrs", "ocean.zarr", "--set", "a=1", "--delete", "a").exit_code == 2
    assert run("attrs", "ocean.zarr", "--set", "a").exit_code == 2
    assert dict(oz.open("ocean.zarr").attrs) == {"title": "sea"}


def test_create_makes_the_array_that_the_options_describe(in_tmp: Path) -> None:
    done = run(
        "create", "a.zarr", "--shape", "10,20,30", "--dtype", "i2", "--dimensions", "time,lat,lon",
        "--chunks", "time=-1,lat=5", "--shards", "-1,10,-1", "--codecs", "zstd:5,crc32c",
        "--fill-value", "-1", "--attribute", "title=Sea", "--zarr-format", "3",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.output.startswith("created array a.zarr\n")
    made = oz.open("a.zarr")
    assert (made.shape, made.dtype, made.chunks) == ((10, 20, 30), np.dtype("i2"), (10, 5, 30))
    assert made.shards == (10, 10, 30)
    assert made.fill_value == -1
    assert [c["name"] for c in made.metadata.to_dict()["codecs"][0]["configuration"]["codecs"]] == [
        *("bytes", "zstd", "crc32c")
    ]
    assert made.metadata.dimension_names == ("time", "lat", "lon")
    assert dict(made.attrs) == {"title": "Sea"}


@pytest.mark.parametrize("zarr_format", ["1", "2", "3-draft", "3"])
def test_create_writes_every_format(in_tmp: Path, zarr_format: str) -> None:
    done = run("create", "a.zarr", "--shape", "4", "--zarr-format", zarr_format, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert str(facts["zarr_format"]) == zarr_format
    assert (facts["shape"], facts["dtype"]) == ([4], "float64")
    assert str(oz.open("a.zarr").zarr_format) == zarr_format


def test_create_inside_a_hierarchy_makes_the_groups_in_between(in_tmp: Path) -> None:
    assert run("create", "a.zarr").exit_code == 0
    result = run("create", "a.zarr/b/c/x", "--shape", "3")
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "created array a.zarr/b/c/x")
    assert oz.open("a.zarr")["b/c/x"].shape == (3,)
    assert oz.open("a.zarr")["b"].attrs.asdict() == {}
    assert run("create", "a.zarr/y", "--shape", "4").exit_code == 0
    assert oz.open("a.zarr")["y"].shape == (4,)
    assert run("create", "plain/folder/z.zarr", "--shape", "5").exit_code == 0
    assert oz.open("plain/folder/z.zarr").path == ""


def test_create_without_a_shape_makes_a_group_and_replaces_on_request(in_tmp: Path) -> None:
    assert run("create", "g.zarr").output.startswith("created group g.zarr\n")
    assert run("create", "g.zarr", "--node", "a", "--shape", "3").exit_code == 0
    again = run("create", "g.zarr")
    assert (again.exit_code, "give --overwrite" in again.output) == (3, True)
    assert "a" in oz.open("g.zarr")
    assert run("create", "g.zarr", "--yes").exit_code == 0
    assert "a" not in oz.open("g.zarr")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--dtype", "f4"), "--dtype is for arrays, which need --shape"),
        (("--shape", "a"), "expected lengths separated by commas"),
        (("--shape", "3", "--codecs", "zsdt"), "did you mean 'zstd'"),
        (("--shape", "3", "--chunks", "0"), "a length is at least 1"),
        (("--shape", "3", "--chunks", "x=1", "--dimensions", "y"), "unknown dimension 'x'"),
        (("--shape", "3", "--dtype", "flot"), "flot"),
    ],
)
def test_wrong_options_of_create_are_explained(
    in_tmp: Path, words: tuple[str, ...], text: str
) -> None:
    done = run("create", "a.zarr", *words)
    assert done.exit_code == 2, done.output
    assert text in done.output
    assert not Path("a.zarr").exists()


def test_consolidate_counts_nodes(ocean: Path) -> None:
    done = run("consolidate", "ocean.zarr", "--json")
    assert json.loads(done.stdout)["results"] == [{"path": "ocean.zarr", "nodes": 4}]
    assert oz.open("ocean.zarr", use_consolidated=True)["deep/t"].shape == (20, 30)
    array = run("consolidate", "ocean.zarr", "--node", "deep/t")
    assert (array.exit_code, "is an array" in array.output) == (3, True)


def test_arrays_in_a_folder_do_not_stop_consolidation(ocean: Path) -> None:
    oz.create_array("lake/a.zarr", data=[1, 2])
    oz.create_group("lake/b.zarr").create_array("x", data=[1, 2])
    result = run("consolidate", "lake")
    assert result.exit_code == 0, result.output
    assert "lake/a.zarr:\nan array, which has no metadata to consolidate\n" in result.output
    assert oz.open("lake/b.zarr", use_consolidated=True)["x"].shape == (2,)
    assert run("consolidate", "lake/a.zarr").exit_code == 3
