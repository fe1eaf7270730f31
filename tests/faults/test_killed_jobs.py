"""Jobs that are killed at random moments and resumed; the long run is `make soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import jobs


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", jobs.WORKS)
def test_a_killed_job_is_resumed_with_the_same_bytes(tmp_path: Path, name: str) -> None:
    found = jobs.run(tmp_path / "x", name, rounds=2)
    assert found.pop("killed") >= 1
    assert found == {"jobs": 2, "looked complete": 0, "wrong": 0}


def test_a_killed_dask_worker_changes_no_byte(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = jobs.run_on_dask(tmp_path, rounds=1)
    assert found == {"jobs": 1, "killed": 1, "looked complete": 0, "wrong": 0}
