"""Replacing nodes: other nodes and files nearby, retries, repairs."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest

import omnizarr as oz
from omnizarr import storage, stores
from omnizarr.bulk import journal
from omnizarr.model.paths import is_ours
from omnizarr.publish.directory import DirectoryStage
from omnizarr.publish.publication import all_stages
from omnizarr.publish.stage import FOLDER, Extent, stage
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.testing import FaultyStore
from tests.failing import Killed, Killing, interrupt_after
from tests.hierarchy.test_build import STORES, VALUES


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("kind", ["directory", "sqlite", "fsspec"])
def test_arrays_without_a_parent_group_are_not_overwritten(
    tmp_path: Path, kind: str, overwrite: bool
) -> None:
    """Their chunks were erased, or written over, since no node was at the root."""
    store = STORES[kind](tmp_path)
    source = oz.create_group({})
    source.create_array("a", data=VALUES * 2)
    for name in ("a", "b"):
        oz.create_array(storage.PrefixStore(store, name), data=VALUES, chunks=(4, 4))
    for write in (
        lambda: oz.convert(source.store, store, overwrite=overwrite),
        lambda: oz.ome.write(store, np.zeros((4, 4)), overwrite=overwrite),
    ):
        with pytest.raises(oz.NodeExists, match="others are below"):
            write()
    for name in ("a", "b"):
        found = oz.open(storage.PrefixStore(store, name))
        np.testing.assert_array_equal(found[...], VALUES)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_failed_array_takes_nothing_with_it_and_leaves_nothing(
    tmp_path: Path, zarr_format: int
) -> None:
    """A foreign file kept the new array alive; a node below it was erased with it."""
    oz.create_group(tmp_path / "s", zarr_format=zarr_format)
    oz.create_array(tmp_path / "s" / "g" / "a", data=VALUES, zarr_format=zarr_format)
    (tmp_path / "s" / "g" / "notes.txt").write_text("keep me")
    for name in ("g", "new"):
        with pytest.raises(ValueError, match="no"):
            oz.open(tmp_path / "s", "r+", kind="group").create_array(name, data=["no"], dtype="i4")
    assert list(oz.open(tmp_path / "s")) == []
    np.testing.assert_array_equal(oz.open(tmp_path / "s" / "g" / "a")[...], VALUES)
    assert (tmp_path / "s" / "g" / "notes.txt").read_text() == "keep me"


@pytest.mark.parametrize("operation", ["set", "erase"])
@pytest.mark.parametrize("number", range(1, 16))
def test_a_copy_to_a_failing_store_is_complete_or_absent(operation: str, number: int) -> None:
    """Chunks were erased after metadata had been stored: arrays of fill values."""
    source = oz.create_group({})
    source.create_array("g/x", data=VALUES, chunks=(4, 4))
    inner = MemoryStore()
    oz.create_group(inner)
    cut = Killing(inner, number + 1, lambda: oz.StoreError("the line is cut"), (operation,))
    with suppress(oz.StoreError):
        oz.copy(source["g"], storage.PrefixStore(cut, "g"))
    for _, array in oz.open(inner).members(None):
        if isinstance(array, oz.Array):
            np.testing.assert_array_equal(array[...], VALUES)


def test_an_incomplete_conversion_is_not_taken_for_an_empty_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New arrays took the chunks of an interrupted conversion for their own."""
    monkeypatch.setattr(journal, "BATCH", 1)
    source = oz.create_array({}, data=VALUES, chunks=(2, 2))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            oz.convert(source.store, tmp_path / "t", progress=interrupt_after(5), overwrite=True)
        for create in (
            lambda: oz.create_array(tmp_path / "t", shape=VALUES.shape, dtype="i4", chunks=(2, 2)),
            lambda: oz.open(tmp_path / "t", "a"),
            lambda: oz.create_array(tmp_path / "t", data=VALUES),
        ):
            with pytest.raises((oz.NodeExists, oz.NodeNotFound), match="incomplete"):
                create()
    made = oz.create_array(tmp_path / "t", shape=(6, 10), dtype="i4", chunks=(2, 2), overwrite=True)
    assert not made[...].any()
    assert oz.verify(tmp_path / "t").findings == []


def test_a_conversion_is_resumed_from_its_own_source_only(tmp_path: Path) -> None:
    """Equal metadata were enough, so chunks of two sources were mixed."""
    for name, factor in (("one", 1), ("two", 2)):
        oz.create_array(tmp_path / name, data=VALUES * factor, chunks=(2, 2))
    with pytest.raises(KeyboardInterrupt):
        oz.convert(tmp_path / "one", tmp_path / "t", zarr_format=2, progress=interrupt_after(1))
    with pytest.raises(oz.NodeExists, match="not the same"):
        oz.convert(tmp_path / "two", tmp_path / "t", zarr_format=2, resume=True)
    for unknown in ({}, MemoryStore()):
        oz.create_array(unknown, data=VALUES * 2, chunks=(2, 2))
        with pytest.raises(oz.NodeExists, match="not the same"):
            oz.convert(unknown, tmp_path / "t", zarr_format=2, resume=True)
    oz.convert(tmp_path / "one", tmp_path / "t", zarr_format=2, resume=True)
    np.testing.assert_array_equal(oz.open(tmp_path / "t")[...], VALUES)


def _killed_stage(store: Any) -> None:
    """Leave what a writer leaves that is killed while it replaces the root."""
    whole = Extent(("zarr.json",), (), ("",))
    staged: Any = stage(store)
    oz.create_array(staged.store, data=VALUES * 3, chunks=(4, 4))
    name = "_move_new" if isinstance(store, LocalStore) else "_apply"

    def stop(*args: Any, **options: Any) -> None:
        raise Killed

    setattr(staged, name, stop)
    staged.settle = stop
    with suppress(Killed):
        staged.replace(whole, whole)
    assert [left.pending for left in all_stages(store)] == [True]


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_repair_does_not_replace_a_newer_node_by_remains(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = STORES[kind](tmp_path)
    oz.create_array(store, data=VALUES, chunks=(4, 4))
    _killed_stage(store)
    with suppress(oz.NodeExists):  # where the old node has gone
        oz.create_array(store, data=VALUES * 2, chunks=(3, 3), overwrite=True)
    monkeypatch.setattr("omnizarr.publish.stage.is_running", lambda process: False)
    with pytest.warns(oz.OmnizarrWarning, match="made again"):
        found = oz.repair(store, dry_run=False)
    assert [f.state for f in found if f.kind == "unfinished node"] == ["in the way"]
    np.testing.assert_array_equal(oz.open(store)[...], VALUES * 2)
    if kind == "directory":
        shutil.rmtree(tmp_path / "x.zarr" / FOLDER)
    else:
        stores.erase_prefix(store, f"{FOLDER}/")
    assert oz.verify(store).findings == []


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_directory_is_put_in_place_or_back_as_who_settles_it_wishes(
    tmp_path: Path, overwrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "x")
    oz.create_array(store, data=VALUES, chunks=(4, 4))
    staged = stage(store)
    oz.create_array(staged.store, data=VALUES * 3, chunks=(4, 4))

    def stop(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(DirectoryStage, "_rename", stop)
        killed.setattr(DirectoryStage, "settle", stop)
        with pytest.raises(KeyboardInterrupt):
            staged.replace(*[Extent(("zarr.json",), (), ("",))] * 2)
    assert staged.settle(overwrite=overwrite) is overwrite
    np.testing.assert_array_equal(oz.open(store)[...], VALUES * (3 if overwrite else 1))


def test_a_replacement_whose_second_try_succeeds_raises_nothing() -> None:
    inner, failing = MemoryStore(), [False]

    def fault(what: str, key: str) -> Exception | None:
        if failing[0] and what == "set" and key == "zarr.json":
            failing[0] = False
            return oz.StoreError("the line is cut")
        return None

    oz.create_array(inner, data=VALUES, chunks=(4, 4))
    staged = stage(FaultyStore(inner, fault))
    oz.create_array(staged.store, data=VALUES * 3, chunks=(4, 4))
    failing[0] = True
    staged.replace(*[Extent(("zarr.json",), (), ("",))] * 2)
    np.testing.assert_array_equal(oz.open(inner)[...], VALUES * 3)


@pytest.mark.parametrize("number", range(0, 40, 3))
def test_an_interrupt_while_memory_is_replaced_loses_nothing(number: int) -> None:
    class Interrupted(MemoryStore):
        left = 10**9

        def erase(self, key: str) -> None:
            self.step()
            super().erase(key)

        def set(self, key: str, value: Any) -> None:
            self.step()
            super().set(key, value)

        def step(self) -> None:
            self.left -= 1
            if self.left == -1:
                raise KeyboardInterrupt

    store = Interrupted()
    oz.create_array(store, data=VALUES, chunks=(4, 4))
    store.left = number
    with suppress(KeyboardInterrupt):
        oz.create_array(store, data=VALUES * 2, chunks=(4, 4), overwrite=True)
    found = oz.open(store)[...]
    assert np.array_equal(found, VALUES) or np.array_equal(found, VALUES * 2)


def test_a_file_that_is_laid_into_a_node_while_it_is_replaced_is_kept(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "x", data=VALUES)

    def late() -> Any:
        (tmp_path / "x" / "notes.txt").write_text("keep me")
        return VALUES

    values = dask.array.from_delayed(dask.delayed(late)(), VALUES.shape, VALUES.dtype)
    with pytest.raises(oz.StoreError, match="not Zarr"):
        oz.from_dask(values, tmp_path / "x", overwrite=True)
    assert (tmp_path / "x" / "notes.txt").read_text() == "keep me"
    np.testing.assert_array_equal(oz.open(tmp_path / "x")[...], VALUES)


@pytest.mark.parametrize("number", range(1, 16))
def test_a_conversion_killed_while_it_stores_metadata_is_started_again(number: int) -> None:
    """Found by the state machine: metadata below the marker were taken for other nodes."""
    source = oz.create_group({})
    source.create_array("a/b", data=VALUES + 1, chunks=(6, 10))
    inner = MemoryStore()
    with suppress(Killed, oz.StoreError):
        oz.convert(source.store, Killing(inner, number + 1), zarr_format=2)
    oz.convert(source.store, inner, zarr_format=2, overwrite=True)
    np.testing.assert_array_equal(oz.open(inner)["a/b"][...], VALUES + 1)
    assert oz.verify(inner).findings == []


def _read(node: Any) -> dict[str, Any]:
    return {path: array[...].tolist() for path, array in node.members(None) if "/" in path}


READERS: dict[str, Any] = {
    "copy": oz.copy,
    "convert": lambda source, to: oz.convert(source, to, zarr_format=2),
    "rechunk": lambda source, to: oz.rechunk(source, to, chunks=(6, 10)),
    "export": lambda source, to: oz.export_file(source, to.with_suffix(".h5")),
    "diff": lambda source, to: oz.diff(source, source),
    "disk_usage": lambda source, to: oz.disk_usage(source),
    "stats": lambda source, to: oz.stats(source),
}


@pytest.fixture(params=["rechunk", "create_array"])
def half(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a store in which a dead process has erased an array that it was to replace."""
    store = STORES["fsspec"](tmp_path)
    group = oz.create_group(store)
    for name in ("g/a", "g/b"):
        group.create_array(name, data=VALUES, chunks=(4, 4))
    oz.copy(store, tmp_path / "backup")

    class Stopped(oz.storage.WrapperStore):
        def erase(self, key: str) -> None:
            super().erase(key)
            if key == "g/a/zarr.json":
                os._exit(0)

    child = os.fork()
    if not child:
        if request.param == "rechunk":
            oz.rechunk(Stopped(store), in_place=True, rules={"g/a": {"chunks": (6, 10)}})
        oz.create_array(Stopped(store), path="g/a", data=VALUES, overwrite=True)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    return store


def test_what_reads_a_hierarchy_does_not_take_a_staged_array_for_an_erased_one(
    half: Any, tmp_path: Path
) -> None:
    said = r"/g/a in .* may be absent.* was interrupted.*repair"
    for name, read in READERS.items():
        with pytest.raises(oz.StoreError, match=said):
            read(half, tmp_path / name)


def test_a_backup_keeps_what_is_only_staged_in_its_source(half: Any, tmp_path: Path) -> None:
    with pytest.raises(oz.StoreError, match="may be absent"):
        oz.copy(half, tmp_path / "backup", update=True, delete=True)
    assert sorted(_read(oz.open(tmp_path / "backup"))) == ["g/a", "g/b"]
    oz.repair(half, dry_run=False)
    oz.copy(half, tmp_path / "backup", update=True, delete=True)
    assert _read(oz.open(tmp_path / "backup")) == dict.fromkeys(["g/a", "g/b"], VALUES.tolist())


def test_members_that_may_be_absent_are_named_in_a_warning_and_by_verify(half: Any) -> None:
    with pytest.warns(oz.OmnizarrWarning, match="/g/a in .* may be absent"):
        assert sorted(_read(oz.open(half))) == ["g/b"]
    report = oz.verify(half)
    assert not report.ok
    assert any(f.kind == "incomplete" and f.path == "/g/a" for f in report.findings)
    assert not any("is as it was" in f.message for f in report.findings)


@pytest.mark.parametrize("writer", ["rechunk", "consolidate", "move", "delete"])
def test_what_writes_to_a_hierarchy_finishes_an_interrupted_replacement(
    half: Any, writer: str
) -> None:
    names = ["g/a", "g/b"]
    if writer == "rechunk":
        oz.rechunk(half, in_place=True, codecs=["gzip"])
        assert all("gzip" in str(oz.open(half)[name].metadata) for name in names)
    elif writer == "consolidate":
        assert sorted(oz.consolidate_metadata(half).consolidated or ()) == ["g", *names]
    elif writer == "move":
        oz.open(half, "r+").move("g", "h")
        names = ["h/a", "h/b"]
    else:
        oz.open(half, "r+").delete("g")
        names = []
    oz.repair(half, dry_run=False)
    assert _read(oz.open(half)) == dict.fromkeys(names, VALUES.tolist())


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_copy_of_a_directory_whose_writer_was_killed_after_the_swap_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zarr_format: int
) -> None:
    """Inodes, of which a copy has others, do not tell which of the two folders is the new one."""

    def kill(*given: Any) -> None:
        raise KeyboardInterrupt

    group = oz.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group.create_array("x", data=VALUES, chunks=(4, 4))
    options: Any = {"node": "x", "in_place": True, "chunks": (6, 10)}
    with monkeypatch.context() as killed:
        killed.setattr(DirectoryStage, "_finish", kill)
        with pytest.raises(KeyboardInterrupt):
            oz.rechunk(tmp_path / "a.zarr", **options)
    monkeypatch.setattr("omnizarr.publish.stage.is_running", lambda process: False)
    for name in ("again", "repaired"):
        copied = shutil.copytree(tmp_path / "a.zarr", tmp_path / name)
        if name == "again":
            oz.rechunk(copied, **options)
        else:
            oz.repair(copied, dry_run=False, older_than=0)
        assert [path for path in copied.rglob("*") if is_ours(path.name) and path.is_file()] == []
        found = oz.open(copied)["x"]
        assert found.chunks == (6, 10)
        np.testing.assert_array_equal(found[...], VALUES)
