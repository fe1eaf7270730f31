"""Files left by killed writers are found and removed; data and files in use are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import file_locks
from omnizarr.errors import NodeExists, NodeNotFound, StoreError
from omnizarr.publish.publication import locked_destination
from omnizarr.publish.stage import INTERMEDIATE, MARKER, Kind, Mark, marker
from omnizarr.stores import LocalStore, leases
from omnizarr.stores.local.atomic_files import PARTIAL
from omnizarr.stores.sqlite import SQLiteStore
from tests.conformance.key_value import SmallestStore
from tests.failing import interrupt_after


def gone() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    root = tmp_path / "x.zarr"
    array = oz.create_array(root, shape=(8,), chunks=(4,), dtype="i4")
    array[:] = 7
    (root / "c" / f"1{PARTIAL}{gone()}_1f").write_bytes(b"half")
    (root / "c" / f"0{PARTIAL}{os.getpid()}_1f").write_bytes(b"mine")
    (root / f"{file_locks.NAME}chunks").touch()
    return root


def names(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


def test_leftovers_are_listed_and_nothing_is_touched(damaged: Path) -> None:
    before = names(damaged)
    found = oz.repair(damaged, older_than=0)
    assert sorted((f.kind, f.state) for f in found) == [
        ("lock", "unused"),
        ("unfinished value", "in use"),
        ("unfinished value", "unused"),
    ]
    assert names(damaged) == before


def test_only_unused_files_are_removed(damaged: Path) -> None:
    oz.repair(damaged, dry_run=False, older_than=0)
    assert names(damaged) == {"zarr.json", "0", "1", f"0{PARTIAL}{os.getpid()}_1f"}
    np.testing.assert_array_equal(oz.open(damaged)[:], np.full(8, 7))


def test_a_fresh_file_may_belong_to_another_machine(damaged: Path) -> None:
    states = {f.state for f in oz.repair(damaged, dry_run=False) if f.kind != "lock"}
    assert states == {"in use"}


def test_a_held_lock_is_kept(tmp_path: Path) -> None:
    with LocalStore(tmp_path).lock_keys("", ["k"], "chunks"):
        [found] = oz.repair(tmp_path, dry_run=False)
        assert found.state == "in use"
        assert names(tmp_path) == {f"{file_locks.NAME}chunks"}


def test_files_of_other_names_are_never_removed(tmp_path: Path) -> None:
    kept = {
        "k.__omnizarr_partial__",
        f"k{PARTIAL}1_x.txt",
        f"a{file_locks.NAME}chunks",
        file_locks.NAME,
    }
    for name in kept:
        (tmp_path / name).touch()
    assert oz.repair(tmp_path, dry_run=False, older_than=0) == []
    assert names(tmp_path) == kept


def test_a_missing_or_unlistable_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFound, match="does not exist"):
        oz.repair(tmp_path / "nothing")
    with pytest.raises(StoreError, match="cannot list"):
        oz.repair(SmallestStore())
    assert oz.repair({}) == []


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_left_stale_by_a_killed_writer_is_updated(
    tmp_path: Path, zarr_format: int
) -> None:
    group = oz.create_group(tmp_path / "x", zarr_format=zarr_format)
    group.create_array("a", shape=(3,), dtype="i4")
    oz.consolidate_metadata(tmp_path / "x")
    assert oz.repair(tmp_path / "x") == []
    key = tmp_path / "x" / (".zmetadata" if zarr_format == 2 else "zarr.json")
    before = key.read_bytes()
    group["a"].attrs["colour"] = "red"
    key.write_bytes(before)  # as if killed before this
    [found] = oz.repair(tmp_path / "x")
    assert (found.kind, found.state, key.read_bytes()) == (
        "consolidated metadata",
        "out of date",
        before,
    )
    [found] = oz.repair(tmp_path / "x", dry_run=False)
    assert found.state == "renewed"
    assert oz.open(tmp_path / "x", use_consolidated=True)["a"].attrs["colour"] == "red"
    assert oz.repair(tmp_path / "x") == []


def test_expired_locks_of_a_database_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.5)
    store = SQLiteStore(tmp_path / "x.sqlite")
    array = oz.create_array(store, path="a", shape=(3,), dtype="i4")
    array[:] = 7
    store.set(f"a/{file_locks.NAME}shape", b"of one who is gone")
    with leases.leased(store, "b/", "shape"):
        found = {left.path: left.state for left in oz.repair(store)}
        assert found == {
            f"a/{file_locks.NAME}shape": "unused",
            f"b/{file_locks.NAME}shape": "in use",
        }
        found = {left.path: left.state for left in oz.repair(store, dry_run=False)}
        assert found == {
            f"a/{file_locks.NAME}shape": "removed",
            f"b/{file_locks.NAME}shape": "in use",
        }
    assert sorted(store.list()) == ["a/c/0", "a/zarr.json", "zarr.json"]
    assert (array[:] == 7).all()


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Return the destination of an interrupted conversion."""
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("x", data=np.arange(1, 41), chunks=2)
    stop = interrupt_after(1)
    with pytest.raises(KeyboardInterrupt):
        oz.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, progress=stop)
    return tmp_path / "b.zarr"


def test_an_interrupted_job_is_kept_and_can_be_resumed(half: Path) -> None:
    before = names(half)
    for options in ({}, {"dry_run": False}, {"remove_jobs": True}):
        [found] = oz.repair(half, older_than=0, **options)
        assert (found.kind, found.state, found.path) == ("interrupted job", "resumable", "/")
        assert "conversion" in found.operation
        assert found.operation in str(found)
        assert found.to_json()["operation"] == found.operation
    assert names(half) == before
    oz.convert(half.parent / "a.zarr", half, zarr_format=2, resume=True)
    np.testing.assert_array_equal(oz.open(half)["x"][...], np.arange(1, 41))
    assert oz.repair(half, older_than=0) == []


def test_a_job_that_is_removed_leaves_nothing(half: Path) -> None:
    [found] = oz.repair(half, dry_run=False, remove_jobs=True, older_than=0)
    assert found.state == "removed"
    assert names(half) == set()
    oz.convert(half.parent / "a.zarr", half, zarr_format=2)
    assert oz.verify(half).ok


def test_nodes_below_an_incomplete_one_are_never_removed(half: Path) -> None:
    oz.create_array(half / "other", data=np.ones(4))
    with pytest.warns(oz.OmnizarrWarning, match="has nodes, such as 'other/zarr.json'"):
        [found] = oz.repair(half, dry_run=False, remove_jobs=True, older_than=0)
    assert found.state == "in the way"
    assert oz.verify(half / "other").ok
    assert [f.kind for f in oz.verify(half).findings] == ["incomplete"]


def test_a_replacement_that_was_interrupted_is_kept_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.zarr", "b.zarr"):
        oz.create_array(tmp_path / name, data=np.arange(1, 41), chunks=2)
    with pytest.raises(KeyboardInterrupt):
        oz.convert(
            tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, overwrite=True,
            progress=interrupt_after(1),
        )  # fmt: skip
    [found] = oz.repair(tmp_path / "b.zarr", dry_run=False)
    assert found.state == "in use"  # by this process, for all that is known
    monkeypatch.setattr("omnizarr.publish.stage.is_running", lambda process: False)
    [found] = oz.repair(tmp_path / "b.zarr", dry_run=False)
    assert (found.kind, found.state) == ("interrupted job", "resumable")
    store = LocalStore(tmp_path / "b.zarr")
    with locked_destination(store, "", "convert", None):  # as if somebody resumed it now
        found, *_ = oz.repair(tmp_path / "b.zarr", dry_run=False, remove_jobs=True)
        assert (found.kind, found.state) == ("interrupted job", "in use")
    [found] = oz.repair(tmp_path / "b.zarr", dry_run=False, remove_jobs=True)
    assert found.state == "removed"
    report = oz.verify(tmp_path / "b.zarr")
    assert (report.ok, report.chunks, report.findings) == (True, 20, [])


def test_chunks_between_two_passes_stay_as_long_as_a_job_may_need_them(half: Path) -> None:
    store = LocalStore(half)
    store.set(f"{INTERMEDIATE}/0123/0/c/0", b"values")
    [job] = oz.repair(half, dry_run=False, older_than=0)
    assert job.state == "resumable"
    assert store.get(f"{INTERMEDIATE}/0123/0/c/0") == b"values"
    oz.convert(half.parent / "a.zarr", half, zarr_format=2, resume=True)
    [found] = oz.repair(half, older_than=0)
    assert (found.kind, found.state, found.nbytes) == ("intermediate chunks", "unused", 6)
    oz.repair(half, dry_run=False, older_than=0)
    assert store.get(f"{INTERMEDIATE}/0123/0/c/0") is None
    assert oz.verify(half).ok


def test_values_of_complete_members_of_an_incomplete_group_are_kept() -> None:
    """Where metadata cannot be published at once, that of members comes first."""
    store = oz.storage.MemoryStore()
    oz.create_group(store)
    member = oz.create_array(store, path="new/a", data=np.arange(6), chunks=2)
    store.erase("new/zarr.json")
    store.set(marker("new"), Mark("copying a group").write())
    with pytest.warns(
        oz.OmnizarrWarning, match="incomplete, but has nodes, such as 'new/a/zarr.json'"
    ):
        (found,) = oz.repair(store, dry_run=False, remove_jobs=True)
    assert found.state == "in the way"
    np.testing.assert_array_equal(member[...], np.arange(6))
    with pytest.raises(NodeExists, match="incomplete"):
        oz.create_group(store, path="new")
    oz.create_group(store, path="new", overwrite=True)["a"] = np.arange(3)
    np.testing.assert_array_equal(oz.open(store, path="new/a")[...], np.arange(3))


def test_a_copy_that_is_removed_leaves_nothing_whatever_it_had_stored() -> None:
    source, store = oz.storage.MemoryStore(), oz.storage.MemoryStore()
    group = oz.create_group(source)
    group["a"] = np.arange(6)
    source.set("notes.txt", b"not Zarr")
    for key in ("a/zarr.json", "a/c/0", "notes.txt"):
        store.set(key, source.get(key) or b"")
    store.set(MARKER, Mark("the copy", "plan", "attempt", kind=Kind.COPY).write())
    [found] = oz.repair(store, dry_run=False, remove_jobs=True, older_than=0)
    assert found.state == "removed"
    assert list(store.list()) == []


def test_a_copy_whose_own_metadata_is_there_is_complete_and_stays() -> None:
    store = oz.storage.MemoryStore()
    oz.create_group(store)["a"] = np.arange(6)
    store.set(MARKER, Mark("the copy", "plan", "attempt", kind=Kind.COPY).write())
    [found] = oz.repair(store, dry_run=False, remove_jobs=True, older_than=0)
    assert found.state == "finished"
    np.testing.assert_array_equal(oz.open(store, path="a")[...], np.arange(6))
    assert oz.repair(store) == []


def test_a_job_of_another_machine_is_in_use_while_it_renews_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.2)
    store = SQLiteStore(tmp_path / "x.sqlite")
    mark = Mark("the copy of a to b", "plan", "attempt", kind=Kind.COPY)
    store.set(marker(""), mark.write())
    with locked_destination(store, "", "copy", None):
        states = {each.kind: each.state for each in oz.repair(store, dry_run=False)}
    assert states == {"interrupted job": "in use", "lock": "in use"}
    assert [each.state for each in oz.repair(store)] == ["resumable"]
