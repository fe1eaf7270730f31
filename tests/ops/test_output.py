"""Outputs of jobs in stores that cannot rename: a job killed at any change is resumed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import leases
from omnizarr.ops import job as jobs
from omnizarr.ops.job import run
from omnizarr.stores import list_prefix
from omnizarr.stores.local.atomic_files import OURS
from omnizarr.testing import FaultyStore
from tests.hierarchy.test_build import Killed
from tests.ops.test_job import EXPECTED, Fill

CHANGES = ("set", "set_many", "set_new", "erase", "erase_prefix")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_killed_at_any_change_is_resumed(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "FLUSH", 0.0)
    monkeypatch.setattr(leases, "LEASE", 0.3)
    old = np.arange(5)
    for number in range(1, 200):
        store = oz.SQLiteStore(tmp_path / f"{number}.sqlite")
        if overwrite:
            oz.create_array(store, name="a", data=old)
        left = number

        def fault(what: str, key: str) -> Exception | None:
            nonlocal left
            left -= what in CHANGES
            if left <= 0:  # and all later ones, as what is killed cleans up nothing
                raise Killed
            return None

        with suppress(Killed):
            run(Fill(FaultyStore(store, fault), tmp_path, overwrite), workers=1)
        if left > 0:
            assert number > 15
            return
        try:
            found = oz.open(store)["a"][:]
        except (oz.NodeNotFound, KeyError):
            pass  # it is not visible
        else:
            assert found.tolist() in (EXPECTED.tolist(), old.tolist())
        with suppress(oz.NodeExists):  # if nothing was left to do
            run(Fill(store, tmp_path, overwrite), resume=True, workers=1)
        assert np.array_equal(oz.open(store)["a"][:], EXPECTED), number
        assert [key for key in list_prefix(store, "") if OURS in key] == [], number
    raise AssertionError("the job has no end")
