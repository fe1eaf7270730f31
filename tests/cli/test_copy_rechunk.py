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
