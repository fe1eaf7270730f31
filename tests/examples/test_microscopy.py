"""The microscopy example runs twice and leaves valid images of both versions."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz

EXAMPLE = Path(__file__).parents[2] / "examples" / "microscopy.py"


def test_the_example_runs_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(EXAMPLE))
    example["main"](tmp_path)
    example["main"](tmp_path)
    printed = capsys.readouterr().out
    assert "30 by 30 micrometers at z = 12: (120, 120) pixels" in printed
    new, old = (oz.ome.open(tmp_path / f"cells{v}.ome.zarr") for v in ("", "-0.4"))
    assert isinstance(new, oz.ome.Image)
    assert isinstance(old, oz.ome.Image)
    assert (new.version, old.version) == ("0.5", "0.4")
    np.testing.assert_array_equal(new.read(), example["cells"]()[0])
    np.testing.assert_array_equal(new.read(level=2), old.read(level=2))
    assert list(old.labels) == ["nuclei"]
