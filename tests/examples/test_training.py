"""The training example learns, again and again."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.py"


def test_the_example_runs_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(EXAMPLE))
    assert example["main"](tmp_path) > 0.95
    assert example["main"](tmp_path) > 0.95
    assert "16000 images in batches" in capsys.readouterr().out
