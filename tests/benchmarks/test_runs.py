"""Measurements in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SCRIPT = """
import sys, time
from benchmarks import runs

def work():
    if sys.argv[2] == "fails":
        raise SystemExit("no such thing")
    text = bytearray(int(sys.argv[3]) << 20)
    text[::4096] = b"x" * len(text[::4096])

runs.measure(work)
"""


def test_a_run_has_the_time_and_memory_of_its_action_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(runs.__file__).parents[1]}")
    found = runs.start("script", "works", 50)
    assert found is not None
    assert 49 <= found.extra < 80
    assert found.peak > found.extra
    assert 0 < found.cpu <= found.seconds + 0.1
    assert runs.start("script", "fails") is None
    assert capsys.readouterr().out == "fails: no such thing\n"
