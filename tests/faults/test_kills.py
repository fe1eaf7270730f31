"""A writer that is killed at any moment leaves every key as it was or as it was to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import kills


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("task", kills.TASKS)
def test_a_killed_writer_leaves_nothing_torn(tmp_path: Path, task: str) -> None:
    found = kills.run(tmp_path, task, kills=15)
    assert found == {"killed": 15, "torn": 0, "left": 0}
