"""The command line as a newcomer uses it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import omnizarr as oz
from omnizarr.cli.main import main


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


@pytest.fixture
def ocean(in_tmp: Path) -> Path:
    group = oz.create_group("ocean.zarr", attributes={"title": "sea"})
    data = np.arange(600, dtype="i4").reshape(20, 30)
    group.create_array("deep/t", data=data, chunks=(10, 10), dimension_names=["y", "x"])
    group.create_array("name", data=np.array(["a", "b"], np.dtypes.StringDType()))
    return in_tmp / "ocean.zarr"


def test_info_shows_an_array_and_how_much_is_stored(ocean: Path) -> None:
    result = run("info", "ocean.zarr", "--node", "deep/t")
    assert result.exit_code == 0
    for text in ("zarr version 3", "(20, 30)", "int32", "y, x", "blosc", "6 of 6 values: "):
        assert text in result.output


def test_info_shows_a_group_and_its_attributes(ocean: Path) -> None:
    result = run("info", "ocean.zarr")
    assert "1 array, 1 group" in result.output
    assert '"title": "sea"' in result.output


def test_tree_shows_everything_below(ocean: Path) -> None:
    lines = run("tree", "ocean.zarr").output.splitlines()
    assert lines[0] == "/"
    assert lines[1] == "├── deep"
    assert lines[2].startswith("│   └── t (20, 30) int32")
    assert lines[3].startswith("└── name (2,) string")
    assert len(run("tree", "ocean.zarr", "--depth", "1").output.splitlines()) == 3


@pytest.mark.parametrize("to", ["2", "3"])
def test_convert_writes_another_format_and_reports_it(ocean: Path, to: str) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--to", to)
    assert result.exit_code == 0, result.output
    assert "2 groups, 2 arrays, 7 chunks copied, 0 re-encoded" in result.output
    new = oz.open_group("new.zarr")
    assert new.zarr_format == int(to)
    assert np.array_equal(new["deep/t"][...], np.arange(600).reshape(20, 30))


def test_convert_says_which_checksums_it_left_out(in_tmp: Path) -> None:
    """B1: readers of version 2 do not know them."""
    oz.create_array("a.zarr", data=[1, 2])
    left_out = "/ was written without crc32c"
    assert left_out in run("convert", "a.zarr", "b.zarr", "--to", "2").output
    assert left_out not in run("convert", "a.zarr", "c.zarr", "--to", "2", "--checksum").output
    documents = [
        json.loads((in_tmp / name / ".zarray").read_text()) for name in ("b.zarr", "c.zarr")
    ]
    assert [[f["id"] for f in found or ()] for found in (d["filters"] for d in documents)] == [
        [],
        ["blosc", "crc32c"],
    ]


def test_convert_replaces_only_on_request(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3, zarr_format=2)
    result = run("convert", "ocean.zarr", "new.zarr")
    assert result.exit_code == 1
    assert "overwrite" in result.output
    assert run("convert", "ocean.zarr", "new.zarr", "--overwrite").exit_code == 0
    assert oz.open("new.zarr").zarr_format == 3


def test_convert_reports_what_a_format_cannot_express(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--to", "3-draft")
    assert result.exit_code == 1
    assert "/name" in result.output
    assert "variable length" in result.output
    assert not Path("new.zarr").exists()


def test_validate_is_silent_about_good_data_and_fails_on_bad(ocean: Path) -> None:
    assert run("validate", "ocean.zarr").output == "0 errors, 0 warnings\n"
    document = json.loads((ocean / "deep/t/zarr.json").read_text())
    document["shape"] = [20, -1]
    del document["fill_value"]
    (ocean / "deep/t/zarr.json").write_text(json.dumps(document))
    result = run("validate", "ocean.zarr")
    assert result.exit_code == 1
    assert "error deep/t/zarr.json: shape[1]: expected an integer >= 0" in result.output
    assert "error deep/t/zarr.json: fill_value: required, but missing" in result.output
    assert run("validate", "ocean.zarr/deep/t/zarr.json").exit_code == 1


def test_a_missing_path_is_a_helpful_one_line_error(in_tmp: Path) -> None:
    result = run("info", "nothing.zarr")
    assert result.exit_code == 1
    assert "NodeNotFound" in result.output
    assert "Is the path right?" in result.output
    assert "Traceback" not in result.output
    assert "Is the path right?" in run("validate", "nothing.zarr").output


def test_the_error_for_a_folder_without_zarr_lists_its_contents(in_tmp: Path) -> None:
    (in_tmp / "folder").mkdir()
    (in_tmp / "folder/notes.txt").write_text("hello")
    assert "it holds: notes.txt" in run("info", "folder").output


def test_a_path_to_a_file_is_not_reported_as_missing(ocean: Path) -> None:
    output = run("info", "ocean.zarr/zarr.json").output
    assert "which is a file; give the directory that holds the data" in output
    assert "nothing is there" not in output


def test_remedies_name_command_line_options(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3)
    output = run("convert", "ocean.zarr", "new.zarr").output
    assert output.endswith("give --overwrite to replace it\n")
    assert "or --in-place" in run("convert", "ocean.zarr", "ocean.zarr").output
    both = run("convert", "ocean.zarr", "else.zarr", "--in-place").output
    assert "give a DESTINATION or --in-place, not both" in both
    assert not Path("else.zarr").exists()


def test_convert_writes_one_line_without_a_terminal(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr")
    assert result.output.count("\n") == 1
    assert result.output.startswith("wrote zarr 3 to new.zarr")


def test_info_shows_a_compression_ratio_only_if_data_is_compressed(in_tmp: Path) -> None:
    oz.create_array("raw.zarr", data=np.arange(100, dtype="i8"), compressors=None)
    oz.create_array("small.zarr", data=np.ones(1000, dtype="i8"))
    assert "times smaller" not in run("info", "raw.zarr").output
    assert "times smaller" in run("info", "small.zarr").output


def test_a_negative_depth_is_refused(ocean: Path) -> None:
    result = run("tree", "ocean.zarr", "--depth", "-1")
    assert result.exit_code == 2
    assert "x>=0" in result.output


def test_an_archive_is_validated_as_a_hierarchy(ocean: Path) -> None:
    oz.copy_store("ocean.zarr", "ocean.zarr.zip")
    result = run("validate", "ocean.zarr.zip")
    assert (result.exit_code, result.output) == (0, "0 errors, 0 warnings\n")
