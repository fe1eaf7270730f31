"""Commands, errors and exit codes."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import run


def test_a_missing_path_is_a_helpful_one_line_error(in_tmp: Path) -> None:
    result = run("info", "nothing.zarr")
    assert result.exit_code == 3
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
