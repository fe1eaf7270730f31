"""Outputs of rechunking: errors between two swaps, parts of a job, archives, conflicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import StoreError
from omnizarr.jobs import Rechunk

DATA = np.arange(32 * 24).reshape(32, 24)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    root = oz.create_group(tmp_path / "a.zarr")
    for name in ("x", "y"):
        root.create_array(name, data=DATA, chunks=(1, 24), dimension_names=("t", "n"))
    return tmp_path / "a.zarr"


@pytest.mark.filterwarnings("ignore:part . of 3 has done its share")
@pytest.mark.parametrize("memory", ["8kB", "40kB"])
def test_parts_of_a_job_complete_it_together(two: Path, memory: str, tmp_path: Path) -> None:
    job = Rechunk(two, tmp_path / "b", chunks=(-1, 4), memory=memory)
    rounds = len(job.plan(1).phases)
    assert rounds == (2 if memory == "8kB" else 1)
    for number in range(rounds):
        for part in (1, 2, 3):
            if (number, part) == (0, 1):
                assert not (tmp_path / "b" / "zarr.json").exists()
            oz.run(job, part=(part, 3), workers=1)
    for name in ("x", "y"):
        np.testing.assert_array_equal(oz.open(tmp_path / "b")[name][...], DATA)
    assert [*(tmp_path / "b").glob(".__omnizarr*")] == []


def test_parts_cannot_share_arrays_that_are_replaced(two: Path) -> None:
    with pytest.raises(StoreError, match="give one that does not exist"):
        oz.run(Rechunk(two, in_place=True, chunks=(-1, 4)), part=(1, 2))


@pytest.mark.parametrize("passes", [1, 2])
def test_an_archive_is_read_and_written(two: Path, passes: int, tmp_path: Path) -> None:
    target = tmp_path / "b.zip"
    oz.rechunk(two, target, chunks=(-1, 4), passes=passes)
    oz.rechunk(target, tmp_path / "c.zarr", chunks=(3, 7), passes=passes)
    for path, chunks in ((target, (32, 4)), (tmp_path / "c.zarr", (3, 7))):
        array = oz.open(path, mode="r")["x"]
        assert array.chunks == chunks
        np.testing.assert_array_equal(array[...], DATA)
