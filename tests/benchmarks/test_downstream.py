"""Comparison of packages on zarr-python and on omnizarr in its place."""

from __future__ import annotations

import pytest
from benchmarks.downstream import reasons
from benchmarks.downstream.packages import PACKAGES
from benchmarks.downstream.page import write_page
from benchmarks.downstream.reasons import Reason
from benchmarks.downstream.results import Result, count
from benchmarks.downstream.suites import Outcomes
from benchmarks.downstream.trips import TripFailed, compare
from benchmarks.downstream.workloads.__main__ import MODULES

THEIRS = Outcomes({"a": ("passed", ""), "b": ("passed", ""), "c": ("failed", "no network")})
OURS = Outcomes({"a": ("passed", ""), "b": ("failed", "ValueError: x"), "c": ("passed", "")})


def test_a_package_has_exactly_one_workload() -> None:
    named = sorted(name for names in MODULES.values() for name in names)
    assert named == sorted(package.name for package in PACKAGES if not package.of)


def test_a_test_that_passes_on_one_library_only_is_counted_as_lost_or_gained() -> None:
    counts = count(THEIRS, OURS)
    assert (counts.theirs, counts.ours, counts.gained) == (2, 2, 1)
    assert counts.lost == {"b": "failed: ValueError: x"}


def test_the_page_gives_the_reason_of_a_difference_or_says_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = Result("dask", "2026-01-01", version="1", suite=count(THEIRS, OURS))
    assert "1 lost, not explained: `b`" in write_page({"dask": result})
    known = Reason("dask", "^b$", "ValueError", "stores are locked")
    monkeypatch.setattr(reasons, "REASONS", (known,))
    assert "1 lost, stores are locked: `b`" in write_page({"dask": result})


def test_a_round_trip_ignores_only_what_varies_on_zarr_python_itself() -> None:
    expected = {"id": 1, "values": [1, 2]}
    compare(expected, {"id": 2, "values": [1, 2]}, {"id"}, "here")
    with pytest.raises(TripFailed, match="here: values"):
        compare(expected, {"id": 1, "values": [1, 3]}, {"id"}, "here")
    with pytest.raises(TripFailed, match="here: values"):
        compare(expected, {"id": 1}, {"id"}, "here")
