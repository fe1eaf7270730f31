"""An interpreter that ends while the library is at work ends, and says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import exits


@pytest.mark.parametrize("program", exits.PROGRAMS)
def test_the_end_of_an_interpreter_is_quiet(program: str, tmp_path: Path) -> None:
    exits.prepare(tmp_path / "x")
    assert exits.run(tmp_path / "x", program, "reference")["wrong"] == ""
