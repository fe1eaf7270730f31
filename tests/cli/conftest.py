"""Data and helpers for tests of the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import omnizarr as oz
from omnizarr.cli.main import main


def run(*args: object) -> Result:
    """Run a command as from a pipe."""
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture
def ocean(in_tmp: Path) -> Path:
    group = oz.create_group("ocean.zarr", attributes={"title": "sea"})
    data = np.arange(600, dtype="i4").reshape(20, 30)
    group.create_array("deep/t", data=data, chunks=(10, 10), dimension_names=["y", "x"])
    group.create_array("name", data=np.array(["a", "b"], np.dtypes.StringDType()))
    return in_tmp / "ocean.zarr"
