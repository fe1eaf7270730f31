"""The scripts that other libraries are compared by: nothing goes wrong here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import losses


@pytest.mark.parametrize("accident", losses.ACCIDENTS)
def test_an_accident_tears_nothing_and_hangs_nobody(accident: str, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o755)
    found = losses.run("omnizarr", tmp_path / "x", accident, 3)
    assert found.pop("tried") >= 3
    assert set(found.values()) == {0}
