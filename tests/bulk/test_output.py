"""Outputs of jobs in stores that cannot rename: a job killed at any change is resumed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import jobs as jobs_
from omnizarr.bulk import job as jobs
from omnizarr.bulk.job import Job, run
from omnizarr.errors import StoreError
from omnizarr.publish import publication
from omnizarr.publish.stage import MARKER, Kind, Mark
from omnizarr.stores import leases, list_prefix
from omnizarr.stores.local.atomic_files import OURS
from tests.bulk.test_job import EXPECTED, Fill
from tests.conformance.key_value import PrefixStore
from tests.failing import Killed, Killing
from tests.sampling import sample

DATA = np.arange(24).reshape(6, 4)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_killed_at_any_change_is_resumed(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnizarr.bulk.journal.FLUSH", 0.0)
    monkeypatch.setattr(leases, "LEASE", 0.02)  # the killed one is this process, which is alive
    monkeypatch.setattr(leases, "POLL", 0.002)
    brief = replace(publication.REPLACEMENT, attempts=2)  # readers would wait for this process
    monkeypatch.setattr(publication, "REPLACEMENT", brief)
    old = np.arange(5)

    def prepared(name: object) -> Any:
        store = oz.storage.SQLiteStore(tmp_path / f"{name}.sqlite")
        if overwrite:
            oz.create_array(store, path="a", data=old)
        return store

    whole = Killing(prepared("whole"))
    run(Fill(whole, tmp_path, overwrite), workers=1)
    assert whole.changes > 15
    for number in sample(range(1, whole.changes + 1), 5):
        store = prepared(number)
        with suppress(Killed, oz.OmnizarrError):
            run(Fill(Killing(store, number), tmp_path, overwrite), workers=1)
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


def _source(store: Any, rows: int = 6) -> Any:
    group = oz.create_group(store, zarr_format=2)
    for name in ("x", "y"):
        group.create_array(name, data=DATA[:rows], chunks=(2, 4), dimension_names=("t", "n"))
    return store


def _image(store: Any) -> Any:
    oz.ome.write(store, np.arange(64.0).reshape(8, 8), axes="yx", levels=1, chunks=(4, 4))
    return store


# The state before; the job, given a source and that state.
KILLED: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Job[Any]]]] = {
    "copy": (lambda store: store, lambda source, store: jobs_.Copy(source, store)),
    "copy over another": (
        lambda store: oz.create_array(store, path="old", data=DATA),
        lambda source, store: jobs_.Copy(source, store, overwrite=True),
    ),
    "update of a copy": (
        lambda store: _source(store, 3),
        lambda source, store: jobs_.Copy(source, store, update=True, compare="checksum"),
    ),
    "rechunk": (
        lambda store: store,
        lambda source, store: jobs_.Rechunk(source, store, chunks=(-1, 1), passes=2),
    ),
    "rechunk in place": (
        _source,
        lambda source, store: jobs_.Rechunk(store, in_place=True, chunks=(-1, 1)),
    ),
    "rechunk an array in place": (
        _source,
        lambda source, store: jobs_.Rechunk(store, in_place=True, chunks=(-1, 1), node="x"),
    ),
    "rechunk into a hierarchy": (
        lambda store: oz.create_array(store, path="y", data=DATA, zarr_format=2),
        lambda source, store: jobs_.Rechunk(
            source, store, merge=True, overwrite=True, chunks=(-1, 1)
        ),
    ),
    "convert": (lambda store: store, lambda source, store: jobs_.Convert(source, store)),
    "convert in place": (
        _source,
        lambda source, store: jobs_.Convert(store, in_place=True),
    ),
    "levels": (_image, lambda source, store: jobs_.BuildPyramid(store, levels=3, factors=2)),
}


@pytest.mark.parametrize("name", KILLED)
@pytest.mark.filterwarnings("ignore")
def test_every_kind_of_job_is_resumed_after_a_kill(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill it at changes of the store, resume it, and compare with one that ran through."""
    monkeypatch.setattr("omnizarr.bulk.journal.FLUSH", 0.0)
    prepare, describe = KILLED[name]
    source = _source(tmp_path / "source.zarr")
    whole, old = PrefixStore(), PrefixStore()  # they cannot rename or lock, as many cannot
    for store in (whole, old):
        prepare(store)
    counted = Killing(whole)
    run(describe(source, counted), workers=1)
    expected = whole.values
    assert expected != old.values
    assert not any(OURS in key for key in expected)
    assert counted.changes > 5
    for number in sample(range(1, counted.changes + 1), 12):
        store = PrefixStore()
        prepare(store)
        killing = Killing(store, number)
        with suppress(Killed, oz.OmnizarrError):
            run(describe(source, killing), workers=1)
        killing.at = 10**9
        run(describe(source, killing), resume=True, workers=1)
        assert store.values == expected, number


def test_the_journal_of_a_destination_that_was_made_again_does_not_count(tmp_path: Path) -> None:
    source, target = _source(tmp_path / "source.zarr"), tmp_path / "target.zarr"

    def fail(state: jobs.Progress) -> None:
        if state.tasks == 2:
            raise StoreError("the disk is full")

    options: Any = {"chunks": (4, 2), "merge": True, "workers": 1}
    oz.create_group(target, zarr_format=2)
    with pytest.raises(StoreError, match="the disk is full"):
        oz.rechunk(source, target, progress=fail, **options)
    assert "x" not in oz.open(target)
    for path in target.glob("*"):  # by a program that knows nothing of journals
        if OURS not in path.name or path.name == MARKER:
            rmtree(path) if path.is_dir() else path.unlink()
    oz.create_group(target, zarr_format=2)
    oz.rechunk(source, target, resume=True, **options)
    for name in ("x", "y"):
        np.testing.assert_array_equal(oz.open(target)[name], DATA)


@pytest.mark.parametrize("kind", Kind)
def test_only_an_incomplete_copy_owns_all_that_is_below_it(kind: Kind, tmp_path: Path) -> None:
    source, target = _source(tmp_path / "source.zarr"), tmp_path / "target.zarr"
    target.mkdir()
    (target / "notes.txt").write_text("not Zarr")
    (target / MARKER).write_bytes(Mark("the copy of something", "a plan", kind=kind).write())
    if kind is Kind.COPY:
        oz.copy(source, target, overwrite=True)
        assert oz.diff(source, target).equal
    else:
        with pytest.raises(oz.NodeExists, match="the copy of something was interrupted"):
            oz.copy(source, target, overwrite=True)
    assert (target / "notes.txt").exists() == (kind is not Kind.COPY)


@pytest.mark.parametrize("write", [oz.convert, oz.copy, oz.rechunk])
@pytest.mark.parametrize("around", [2, 3])
def test_a_job_says_if_the_hierarchy_around_its_output_does_not_list_it(
    write: Callable[..., object], around: int, tmp_path: Path
) -> None:
    oz.create_group(tmp_path / "whole.zarr", zarr_format=around)
    oz.create_array(tmp_path / "a.zarr", data=DATA, zarr_format=3)
    options: dict[str, Any] = {"chunks": 2} if write is oz.rechunk else {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        write(tmp_path / "a.zarr", tmp_path / "whole.zarr" / "m", **options)
    assert ["does not list it" in str(each.message) for each in said] == [True] * (around == 2)
    assert ("m" in oz.open(tmp_path / "whole.zarr")) == (around == 3)
    assert not list(tmp_path.rglob(MARKER))


@pytest.mark.parametrize("write", [oz.convert, oz.copy, oz.rechunk])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("inner", ["", "sub/"])
def test_a_job_into_a_member_renews_the_consolidated_metadata_above(
    write: Callable[..., object], zarr_format: int, inner: str, tmp_path: Path
) -> None:
    whole, member = tmp_path / "whole.zarr", f"{inner}m"
    oz.create_group(whole, zarr_format=zarr_format).create_group("sub")
    oz.create_array(whole, path=member, data=DATA[:2])
    for path in ("", "sub"):
        oz.consolidate_metadata(whole, path)
    oz.create_array(tmp_path / "a.zarr", data=DATA, zarr_format=zarr_format)
    options: dict[str, Any] = {"chunks": 2} if write is oz.rechunk else {}
    options |= {"zarr_format": zarr_format} if write is oz.convert else {}
    write(tmp_path / "a.zarr", whole / member, overwrite=True, **options)
    np.testing.assert_array_equal(oz.open(whole, use_consolidated=True)[member][...], DATA)
    if inner:
        np.testing.assert_array_equal(
            oz.open(whole, path="sub", use_consolidated=True)["m"][...], DATA
        )
    assert oz.verify(whole).ok
