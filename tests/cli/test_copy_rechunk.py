"""`omnizarr rechunk`."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.cli.conftest import run

EXPECTED = np.arange(600).reshape(20, 30)


def test_rechunk_writes_other_chunks_and_says_so(ocean: Path) -> None:
    result = run("rechunk", "ocean.zarr", "new.zarr", "--chunks", "y=-1,x=5", "--codecs", "zstd:5")
    assert result.exit_code == 0, result.output
    assert "wrote new.zarr: 2 groups, 2 arrays, 2 with a new layout" in result.output
    assert "  /deep/t: chunks (20, 5), int32, zstd\n" in result.output
    made = oz.open("new.zarr")["deep/t"]
    assert made.chunks == (20, 5)
    assert made.codecs[-1].configuration["level"] == 5
    assert np.array_equal(made[...], EXPECTED)


def test_rechunk_as_json(ocean: Path) -> None:
    result = run("rechunk", "ocean.zarr", "new.zarr", "--chunks", "y=-1,x=5", "--json")
    found = json.loads(result.output)
    assert (found["source"], found["destination"]) == ("ocean.zarr", "new.zarr")
    assert (found["arrays"], found["groups"], found["chunks_copied"]) == (2, 2, 1)
    assert found["rechunked"] == {"/deep/t": "chunks (20, 5), int32, blosc, crc32c"}


def test_a_dry_run_shows_the_plan_and_writes_nothing(ocean: Path) -> None:
    options = "--chunks", "y=-1,x=5", "--memory", "18kB"
    result = run("rechunk", "ocean.zarr", "new.zarr", *options, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "/deep/t: chunks (10, 10), int32, blosc, crc32c to chunks (20, 5)" in result.output
    assert "read 6 values" in result.output
    assert "1 array copied byte for byte" in result.output
    plan = json.loads(
        run("rechunk", "ocean.zarr", "new.zarr", *options, "--dry-run", "--json").output
    )
    assert plan["plan"]["phases"][-1]["writes"] == 6
    assert not Path("new.zarr").exists()


def test_options_can_be_for_some_arrays(ocean: Path) -> None:
    options = ("--array", "t", "--chunks", "4,4", "--dtype", "f8")
    result = run("rechunk", "ocean.zarr", "new.zarr", *options)
    assert result.exit_code == 0, result.output
    made = oz.open("new.zarr")["deep/t"]
    assert (made.chunks, made.dtype) == ((4, 4), np.dtype("f8"))
    assert np.array_equal(made[...], EXPECTED)


def test_rechunk_in_place_is_confirmed(ocean: Path) -> None:
    before = run("rechunk", "ocean.zarr", "--in-place", "--array", "t", "--shards", "20,30")
    assert before.exit_code == 2
    assert "Nothing was changed; give --yes to go on" in before.output
    result = run(
        "rechunk", "ocean.zarr", "--in-place", "--array", "t", "--shards", "20,30", "--yes"
    )
    assert result.exit_code == 0, result.output
    made = oz.open("ocean.zarr")["deep/t"]
    assert made.shards == (20, 30)
    assert np.array_equal(made[...], EXPECTED)
    assert run("rechunk", "ocean.zarr", "--in-place", "--shards", "none", "--yes").exit_code == 0
    assert oz.open("ocean.zarr")["deep/t"].shards is None


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["new.zarr", "--chunks", "z=1"], 2, "no array has a dimension 'z'"),
        (["new.zarr", "--chunks", "y=0"], 2, "a length is at least 1"),
        (["--in-place", "--zarr-format", "2", "-y"], 2, "exclude each other"),
        (["new.zarr", "--zarr-format", "2", "--shards", "20,30"], 3, "give --zarr-format 3"),
        (["new.zarr", "--in-place"], 2, "give a DESTINATION or --in-place, not both"),
        ([], 2, "give a DESTINATION or --in-place"),
        (
            ["new.zarr", "--array", "t", "--dtype", "i2", "--casting", "safe"],
            2,
            "--casting 'unsafe'",
        ),
        (["new.zarr", "--chunks", "y=20", "--memory", "10B"], 2, "give --memory "),
        (["old.zarr", "--chunks", "y=20"], 3, "give --overwrite to replace it"),
    ],
)
def test_errors_say_which_option_helps(
    ocean: Path, options: list[Any], code: int, message: str
) -> None:
    oz.create_array("old.zarr", shape=3)
    result = run("rechunk", "ocean.zarr", *options)
    assert message in result.output
    assert result.exit_code == code
    assert not Path("new.zarr").exists()


def test_a_new_format_with_chunks_shards_and_codecs_in_one_command(in_tmp: Path) -> None:
    group = oz.create_group("old.zarr", zarr_format=2, attributes={"title": "sea"})
    group.create_array("t", data=EXPECTED, chunks=(10, 10), dimension_names=["y", "x"])
    group.create_array("y", data=np.arange(20), chunks=20, dimension_names=["y"])
    oz.consolidate_metadata("old.zarr")
    layout = ["--chunks", "5,5", "--shards", "y=20,x=30", "--codecs", "zstd:5"]
    result = run("rechunk", "old.zarr", "new.zarr", "--zarr-format", "3", *layout)
    assert result.exit_code == 0, result.output
    assert "/t: chunks (5, 5) in shards (20, 30), int64, zstd" in result.output
    new = oz.open("new.zarr", zarr_format=3, use_consolidated=True)
    assert new.attrs["title"] == "sea"
    assert (new["t"].chunks, new["t"].shards) == ((5, 5), (20, 30))
    assert run("verify", "new.zarr").exit_code == 0
    back = ("new.zarr", "back.zarr", "--zarr-format", "2", "--shards", "none", "--json")
    assert json.loads(run("rechunk", *back).stdout)["arrays"] == 2
    for made in ("new.zarr", "back.zarr"):
        assert run("diff", "old.zarr", made).exit_code == 0


@pytest.mark.filterwarnings("always")
def test_parts_that_come_late_find_the_work_done(ocean: Path) -> None:
    command = ("rechunk", "ocean.zarr", "new.zarr", "--chunks", "y=-1,x=5")
    said = set()
    for number, part in product((1, 2), range(1, 16)):  # one round for each phase
        result = run(*command, "--part", f"{part}/15")
        assert result.exit_code == 0, result.output
        assert f"part {part} of 15: wrote new.zarr: " in result.stdout
        if "has done its share of phase 1 of 2: when all parts have" in result.stderr:
            said.add(number)
    assert said == {1}
    assert run("diff", "ocean.zarr", "new.zarr").exit_code == 0
    assert not [*Path("new.zarr").glob(".__omnizarr*")]
