"""`omnizarr stats`, `diff` and `du`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.cli.conftest import run


def test_stats_shows_a_line_for_each_array(ocean: Path) -> None:
    result = run("stats", "ocean.zarr")
    assert result.exit_code == 0
    header, *rows = result.output.splitlines()
    assert header.split() == [
        "path", "type", "count", "min", "max", "mean", "std", "nan", "fill", "missing",
    ]  # fmt: skip
    assert rows[0].split() == [
        "/deep/t", "int32", "600", "0", "599", "299.5", "173.205", "0", "1",
        "0", "of", "6", "chunks",
    ]  # fmt: skip
    assert rows[1].split()[:7] == ["/name", "string", "0", "-", "-", "-", "-"]


def test_stats_as_json_has_the_documented_members(ocean: Path) -> None:
    result = run("stats", "ocean.zarr", "--node", "deep/t", "--bins", "3", "--range", "0", "600",
                 "--json")  # fmt: skip
    (found,) = json.loads(result.output)["results"]
    assert found["path"] == "ocean.zarr"
    (array,) = found["arrays"]
    assert array.pop("histogram") == {
        "counts": [200, 200, 200], "edges": [0, 200, 400, 600], "below": 0, "above": 0,
    }  # fmt: skip
    assert array == {
        "path": "/deep/t", "data_type": "int32", "kind": "numbers", "size": 600, "count": 600,
        "shape": [20, 30], "nan": 0, "infinite": 0, "fill": 1, "outside": 0, "min": 0, "max": 599,
        "mean": 299.5, "std": pytest.approx(173.20484), "chunks": 6, "missing_chunks": 0,
    }  # fmt: skip


def test_stats_draws_a_histogram_and_takes_ranges(ocean: Path) -> None:
    result = run("stats", "ocean.zarr", "--node", "deep/t", "--bins", 2, "--range", 0, 100)
    assert "0 to 50       50  ####" in result.output
    assert "above        499  " in result.output
    result = run("stats", "ocean.zarr", "--node", "deep/t", "--valid-range", 10, 19, "--skip-fill")
    assert result.output.splitlines()[1].split()[2:6] == ["10", "10", "19", "14.5"]
    assert run("stats", "ocean.zarr", "--range", 0, 1).exit_code == 2


def test_infinities_and_nan_are_text_in_json(in_tmp: Path) -> None:
    oz.save("x.zarr", np.array([np.inf, np.nan, 1]))
    (array,) = json.loads(run("stats", "x.zarr", "--json").output)["results"][0]["arrays"]
    assert (array["max"], array["mean"], array["std"]) == ("Infinity", "Infinity", "NaN")


def test_stats_of_a_folder_of_stores_and_of_damaged_data(ocean: Path) -> None:
    oz.save("lake/x.zarr", np.zeros(3))
    oz.save("lake/y.zarr", np.ones(3))
    result = run("stats", "lake", "ocean.zarr")
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if line.endswith(":")] == [
        "lake/x.zarr:", "lake/y.zarr:", "ocean.zarr:",
    ]  # fmt: skip
    (ocean / "deep/t/c/0/0").write_bytes(b"damaged")
    result = run("stats", "ocean.zarr")
    assert result.exit_code == 3
    assert "chunk (0, 0) of /deep/t" in result.stderr
    (ocean / "deep/t/zarr.json").write_text("{}")
    result = run("stats", "ocean.zarr")
    assert result.exit_code == 1
    assert "/deep/t:" in result.output


def test_a_dry_run_of_stats_and_diff_shows_the_plan(ocean: Path) -> None:
    result = run("stats", "ocean.zarr", "--dry-run")
    assert "statistics of / in ocean.zarr" in result.output
    plans = json.loads(run("stats", "ocean.zarr", "--dry-run", "--json").output)["results"]
    assert plans[0]["plan"]["phases"][0]["name"] == "read"
    result = run("diff", "ocean.zarr", "ocean.zarr", "--dry-run")
    assert "/deep/t: in 1 tiles" in result.output


def test_diff_tells_differences_by_the_exit_code(ocean: Path) -> None:
    oz.convert("ocean.zarr", "old.zarr", zarr_format=2)
    result = run("diff", "ocean.zarr", "old.zarr")
    assert (result.exit_code, result.output) == (
        0, "no differences but in storage (--storage shows them)\n",
    )  # fmt: skip
    result = run("diff", "ocean.zarr", "old.zarr", "--storage")
    assert result.exit_code == 1
    assert "/deep/t zarr_format: '3' and '2'" in result.output
    group = oz.open("old.zarr", mode="r+")
    group.attrs["title"] = "lake"
    group["deep/t"][3, 4] = -1
    del group["name"]
    result = run("diff", "ocean.zarr", "old.zarr")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "/name: only in the first",
        "/ attributes.title: 'sea' and 'lake'",
        "/deep/t: 1 of 600 values differ by at most 95 (1.01 relative)",
        "  /deep/t[3, 4]: 94 and -1",
    ]
    assert run("diff", "ocean.zarr", "old.zarr", "--node", "deep", "--atol", 95).exit_code == 0
    assert (
        run("diff", "ocean.zarr", "old.zarr", "--node", "deep/t", "--metadata-only").exit_code == 0
    )
    assert run("diff", "ocean.zarr", "nothing.zarr").exit_code == 3
    assert run("diff", "ocean.zarr").exit_code == 2


def test_du_adds_up_to_the_files(ocean: Path) -> None:
    total = sum(path.stat().st_size for path in ocean.rglob("*") if path.is_file())
    result = run("du", "ocean.zarr", "--bytes")
    assert result.exit_code == 0
    header, first, *rest = result.output.splitlines()
    assert header.split() == ["size", "memory", "ratio", "keys", "path"]
    assert (first.split()[0], first.split()[-1]) == (str(total), "ocean.zarr")
    assert {row.split()[-1] for row in rest} == {
        "ocean.zarr/deep", "ocean.zarr/deep/t", "ocean.zarr/name",
    }  # fmt: skip
    lines = run("du", "ocean.zarr", "--depth", 1, "--sort", "path").output.splitlines()[1:]
    assert [line.split()[-1] for line in lines] == [
        "ocean.zarr", "ocean.zarr/deep", "ocean.zarr/name",
    ]  # fmt: skip


def test_du_of_several_stores_ends_with_the_total(ocean: Path) -> None:
    oz.save("lake/x.zarr", np.zeros(3))
    result = run("du", "-s", "-b", "lake", "ocean.zarr", "nothing.zarr")
    assert result.exit_code == 3
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[-1] for row in rows] == ["ocean.zarr", "lake/x.zarr", "total"]
    assert int(rows[2][0]) == int(rows[0][0]) + int(rows[1][0])
    assert "nothing.zarr" in result.stderr


def test_a_part_of_a_job_is_not_called_complete(ocean: Path) -> None:
    results = [run("stats", "ocean.zarr", "--part", f"{k}/3", "--json") for k in (1, 2, 3)]
    found = [json.loads(result.stdout)["results"][0]["complete"] for result in results]
    assert sorted(set(found)) == [False, True]
    compared = [run("diff", "ocean.zarr", "ocean.zarr", "--part", f"{k}/9") for k in range(1, 10)]
    assert {result.exit_code for result in compared} == {0, 1}
    for result in compared:
        assert ("not the whole result" in result.stderr) == (result.exit_code == 1)
