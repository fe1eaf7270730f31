"""`omnizarr copy`, `convert` and `rechunk`."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.cli.conftest import run
from tests.files import files


def test_copy_writes_the_same_files_and_reports_it(ocean: Path) -> None:
    (ocean / "README.md").write_text("not Zarr")
    result = run("copy", "ocean.zarr", "new.zarr", "--verify")
    assert result.exit_code == 0, result.output
    count = len(files("ocean.zarr"))
    size = sum(map(len, files("ocean.zarr").values()))
    assert result.output.startswith(f"copied to new.zarr: {count} values, ")
    assert result.output.endswith(f", {count} verified\n")
    assert files("new.zarr") == files("ocean.zarr")
    found = json.loads(run("copy", "ocean.zarr", "other.zarr", "--json").output)
    assert found == {
        "source": "ocean.zarr",
        "destination": "other.zarr",
        "copied": count,
        "same": 0,
        "erased": 0,
        "verified": 0,
        "bytes_copied": size,
    }


def test_copy_updates_what_differs(ocean: Path) -> None:
    run("copy", "ocean.zarr", "new.zarr")
    count = len(files("ocean.zarr"))
    oz.open("ocean.zarr", mode="r+")["deep/t"][0, 0] = 7
    Path("new.zarr/mine.txt").write_text("mine")
    shown = run("copy", "ocean.zarr", "new.zarr", "--update", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "values are compared by size and modification time" in shown.output
    assert "would copy 1 value, " in shown.output
    assert f"; {count - 1} are the same\n" in shown.output
    assert files("new.zarr") != files("ocean.zarr")
    found = json.loads(run("copy", "ocean.zarr", "new.zarr", "--update", "--json").output)
    assert (found["copied"], found["same"], found["erased"]) == (1, count - 1, 0)
    assert files("new.zarr") == {**files("ocean.zarr"), "mine.txt": b"mine"}
    again = run("copy", "ocean.zarr", "new.zarr", "--update", "--compare", "checksum")
    assert again.output == f"copied to new.zarr: 0 values, 0 bytes, {count} were the same\n"


def test_what_is_erased_is_confirmed(ocean: Path) -> None:
    run("copy", "ocean.zarr", "new.zarr")
    Path("new.zarr/mine.txt").write_text("mine")
    shown = json.loads(
        run("copy", "ocean.zarr", "new.zarr", "--update", "--delete", "--dry-run", "--json").output
    )
    assert shown["outcome"]["erased"] == 1
    refused = run("copy", "ocean.zarr", "new.zarr", "--update", "--delete")
    assert refused.exit_code == 2
    assert "1 key of new.zarr will be erased" in refused.output
    assert Path("new.zarr/mine.txt").exists()
    done = run("copy", "ocean.zarr", "new.zarr", "--update", "--delete", "--yes")
    assert ", 1 erased\n" in done.output
    assert files("new.zarr") == files("ocean.zarr")


def test_copy_replaces_only_on_request(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3)
    before = files("new.zarr")
    result = run("copy", "ocean.zarr", "new.zarr")
    assert result.exit_code == 3
    assert "--update copies what differs, --overwrite replaces it" in result.output
    assert files("new.zarr") == before
    assert run("copy", "ocean.zarr", "new.zarr", "--overwrite").exit_code == 0
    assert files("new.zarr") == files("ocean.zarr")


def test_several_sources_are_copied_below_a_folder(ocean: Path) -> None:
    oz.create_array("b.zarr", data=[1, 2])
    result = run("copy", "ocean.zarr", "./b.zarr/", "backup/")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1].startswith("copied to backup/b.zarr: 2 values")
    assert files("backup/ocean.zarr") == files("ocean.zarr")
    found = json.loads(run("copy", "ocean.zarr", "b.zarr", "more", "--json").output)
    assert [one["destination"] for one in found["results"]] == ["more/ocean.zarr", "more/b.zarr"]
    assert "has no name" in run("copy", "b.zarr", ".", "else").output


def test_one_node_is_copied(ocean: Path) -> None:
    assert run("copy", "ocean.zarr", "new.zarr", "--node", "deep/t").exit_code == 0
    assert np.array_equal(oz.open("new.zarr")[...], np.arange(600).reshape(20, 30))
    missing = run("copy", "ocean.zarr", "else.zarr", "--node", "deep/x")
    assert missing.exit_code == 3
    assert "no array or group at /deep/x" in missing.output
    assert not Path("else.zarr").exists()


@pytest.mark.parametrize("to", ["2", "3"])
def test_convert_writes_another_format_and_reports_it(ocean: Path, to: str) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--to", to)
    assert result.exit_code == 0, result.output
    assert "2 groups, 2 arrays, 7 chunks copied, 0 re-encoded" in result.output
    new = oz.open("new.zarr")
    assert new.zarr_format == int(to)
    assert np.array_equal(new["deep/t"][...], np.arange(600).reshape(20, 30))


def test_convert_says_which_checksums_it_left_out(in_tmp: Path) -> None:
    """B1: readers of version 2 do not know them."""
    group = oz.create_group("a.zarr")
    for number in range(10):
        group[f"a{number}"] = [1, 2]
    said = run("convert", "a.zarr", "b.zarr", "--to", "2").output.splitlines()[1:]
    assert len(said) == 1
    assert "10 arrays written without crc32c" in said[0]
    assert said[0].endswith("/a6, /a7, … (2 more)")
    kept = run("convert", "a.zarr", "c.zarr", "--to", "2", "--checksum").output
    assert "without" not in kept
    documents = [
        json.loads((in_tmp / name / "a3/.zarray").read_text()) for name in ("b.zarr", "c.zarr")
    ]
    assert [[f["id"] for f in found or ()] for found in (d["filters"] for d in documents)] == [
        [],
        ["blosc", "crc32c"],
    ]


def test_remedies_name_command_line_options(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3)
    refused = run("convert", "ocean.zarr", "new.zarr")
    assert refused.exit_code == 3
    assert refused.output.endswith("give --overwrite to replace it\n")
    assert run("convert", "ocean.zarr", "new.zarr", "--overwrite").output.count("\n") == 1
    assert "or --in-place" in run("convert", "ocean.zarr", "ocean.zarr").output
    both = run("convert", "ocean.zarr", "else.zarr", "--in-place").output
    assert "give a DESTINATION or --in-place, not both" in both
    assert not Path("else.zarr").exists()


def test_the_plan_is_shown_as_text_and_json(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--zarr-format", "2", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "from zarr 3 to zarr 2 at new.zarr" in result.output
    assert "copied without crc32c: 1 array (/deep/t)" in result.output
    assert "write chunks: read 7 values of " in result.output
    assert "nothing was written" in result.output
    found = json.loads(run("convert", "ocean.zarr", "new.zarr", "--dry-run", "--json").output)
    assert found["plan"]["phases"][0]["reads"] == 7
    assert any("chunks kept byte for byte: 2 arrays" in line for line in found["plan"]["decisions"])
    assert not Path("new.zarr").exists()


def test_the_result_as_json(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--to", "2", "--json", "--verify")
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["source"] == "ocean.zarr"
    assert found["destination"] == "new.zarr"
    assert found["zarr_format"] == "2"
    assert found["chunks_copied"] == found["chunks_verified"] == 7
    assert list(found["left_out"]) == ["/deep/t", "/name"]
    failed = run("convert", "ocean.zarr", "new.zarr", "--json")
    assert failed.exit_code == 3
    assert '"error": "NodeExists"' in failed.output


def test_metadata_is_added_in_place_and_removed_again(in_tmp: Path) -> None:
    group = oz.create_group("a.zarr", zarr_format=2)
    group.create_array("x", data=[1, 2], chunks=1)
    before = sorted(Path("a.zarr").rglob("*"))
    result = run("convert", "a.zarr", "--in-place")
    assert "wrote zarr 3 to a.zarr: 1 group, 1 array, 0 chunks copied" in result.output
    assert oz.open("a.zarr", zarr_format=3)["x"][...].tolist() == [1, 2]
    shown = run("convert", "--undo", "a.zarr", "--dry-run")
    assert shown.output == "would remove 2 documents of zarr 3 from a.zarr\n"
    shown = run("convert", "--undo", "a.zarr", "--json")
    assert json.loads(shown.output)["erased"] == ["zarr.json", "x/zarr.json"]
    assert sorted(Path("a.zarr").rglob("*")) == before
    again = run("convert", "--undo", "a.zarr")
    assert again.exit_code == 3
    assert "no zarr 3 metadata" in again.output
    assert "one path" in run("convert", "--undo", "a.zarr", "b.zarr").output


def test_old_metadata_is_removed_after_confirmation(in_tmp: Path) -> None:
    oz.create_array("a.zarr", data=[1, 2], zarr_format=2)
    refused = run("convert", "a.zarr", "--in-place", "--remove-old")
    assert refused.exit_code == 2
    assert "cannot be undone" in refused.output
    assert "--yes" in refused.output
    assert not Path("a.zarr/zarr.json").exists()
    assert run("convert", "a.zarr", "--in-place", "--remove-old", "--yes").exit_code == 0
    assert not Path("a.zarr/.zarray").exists()
    assert oz.open("a.zarr").zarr_format == 3
    wrong = run("convert", "a.zarr", "b.zarr", "--remove-old")
    assert "--remove-old needs --in-place" in wrong.output


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
