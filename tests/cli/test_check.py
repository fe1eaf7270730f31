"""`omnizarr validate`, `verify` and `repair`."""

from __future__ import annotations

import json
from pathlib import Path

import omnizarr as oz
from tests.cli.conftest import run


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


def test_an_archive_is_validated_as_a_hierarchy(ocean: Path) -> None:
    oz.copy_store("ocean.zarr", "ocean.zarr.zip")
    result = run("validate", "ocean.zarr.zip")
    assert (result.exit_code, result.output) == (0, "0 errors, 0 warnings\n")
