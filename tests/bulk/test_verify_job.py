"""Verification as a job: executors, resume, parts, samples, conventions, kinds of findings."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import cf, ome
from omnizarr.bulk import verify as verifying
from omnizarr.bulk.verify import Verify
from omnizarr.concurrency import file_locks
from omnizarr.publish.stage import JOURNAL, MARKER
from omnizarr.stores.local import atomic_files
from omnizarr.stores.local.atomic_files import PARTIAL


def hierarchy(where: Path, chunks: int = 40) -> Path:
    """Return a group with an array of many chunks, three of them damaged, and a sharded one."""
    group = oz.create_group(where)
    group.create_array("many", data=np.arange(1, chunks * 4 + 1), chunks=4)
    group.create_array("sharded", data=np.arange(1, 65), chunks=4, shards=16)
    for number in (0, 7, 31):
        (where / f"many/c/{number}").write_bytes(b"bad")
    return where


def change(document: Path, **members: Any) -> None:
    """Replace members of a JSON document."""
    document.write_text(json.dumps({**json.loads(document.read_text()), **members}))


def test_a_job_can_be_looked_at_and_pickled(tmp_path: Path) -> None:
    job = Verify(str(hierarchy(tmp_path / "x")), depth="checksums", sample=0.5)
    plan = str(pickle.loads(pickle.dumps(job)).plan())
    assert "2 arrays with up to 56 chunks: read every chunk and compare its checksum" in plan
    report = oz.run(oz.jobs.Verify(str(tmp_path / "x")))
    assert len(report.findings) == 3


class Interrupt(Exception):
    """The end of a job in the middle."""


@pytest.mark.parametrize("changed", ["nothing", "order", "added", "erased"])
def test_an_interrupted_verification_is_resumed_and_counts_no_chunk_twice(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setattr(verifying, "TASK_KEYS", 3 if changed == "nothing" else 8)
    monkeypatch.setattr("omnizarr.bulk.journal.FLUSH", 0.0)
    where, checked, resumed = hierarchy(tmp_path / "x"), list[str](), False
    oz.open(where, mode="r+")["many"].resize(400)
    real = verifying.checks.CheckChunks.__call__

    def check(task: verifying.checks.CheckChunks) -> Any:
        if len(checked) > 20 and not resumed:
            raise Interrupt
        checked.extend(key for key, _, _ in task.values)
        return real(task)

    monkeypatch.setattr(verifying.checks.CheckChunks, "__call__", check)
    with pytest.raises(Interrupt):
        oz.verify(where, workers=1)
    assert [*state.rglob("*-000000")]
    resumed = True
    if changed == "order":
        entries = atomic_files.entries
        monkeypatch.setattr(
            atomic_files, "entries", lambda *given: tuple(found[::-1] for found in entries(*given))
        )
    elif changed == "added":
        shutil.copy(where / "many/c/1", where / "many/c/41")
    elif changed == "erased":
        os.unlink(where / checked[0])
    found = oz.verify(where, resume=True)
    if changed == "nothing":
        assert 44 <= len(checked) <= 44 + 6  # what was checked is not checked again
    assert found == oz.verify(where)
    assert found.complete
    assert not [path for path in state.rglob("*") if path.is_file()]


def test_parts_give_the_whole_report_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "TASK_KEYS", 3)
    where = hierarchy(tmp_path / "x")
    expected = oz.verify(where, conventions=True)
    reports = [oz.verify(where, part=(number, 3), conventions=True) for number in (2, 3, 1)]
    assert reports[-1] == expected
    assert reports[0].chunks < expected.chunks
    assert [report.complete for report in reports] == [False, False, True]
    assert str(reports[0]).startswith("a part of the verification: ")


def test_a_sample_is_always_the_same(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "x", shape=4000, chunks=1, dtype="u1")
    array[...] = 1
    first, second = (oz.verify(tmp_path / "x", sample=0.25) for _ in range(2))
    assert first == second
    assert first.values + first.skipped == 4000
    assert 800 < first.values < 1200
    assert first.absent == 0
    whole = oz.verify(tmp_path / "x", sample=0.5)
    assert whole.values > first.values
    with pytest.raises(oz.InvalidArgument, match="sample must be above 0"):
        oz.verify(tmp_path / "x", sample=0)


def test_every_kind_of_finding_is_named(tmp_path: Path) -> None:
    root = hierarchy(tmp_path / "x")
    group = oz.open(root, "r+")
    group.create_array("broken", shape=3, dtype="i4")[...] = 1
    change(root / "broken/zarr.json", shape=[-3])
    group.create_array("unknown", data=np.ones(4))
    change(root / "unknown/zarr.json", codecs=["bytes", "of-nobody"])
    with pytest.warns(oz.OmnizarrWarning, match="outside"):
        group["sharded"].resize((16,))
    (root / "notes.txt").write_text("mine")
    (root / f"many/c/1{PARTIAL}77_1").write_text("half")
    (root / f"many/{file_locks.NAME}chunks").touch()
    (root / JOURNAL / "0123456789").mkdir(parents=True)
    (root / JOURNAL / "0123456789" / "1-000000").write_text("{}")
    (root / "later").mkdir()
    (root / "later" / MARKER).write_text('{"operation": "the copy of a to b", "plan": ""}')
    (root / "many/c/2").unlink()
    image = np.arange(4096, dtype="u1").reshape(64, 64)
    ome.write(root, image, path="image", axes="yx")
    attributes = json.loads((root / "image/zarr.json").read_text())["attributes"]
    attributes["ome"]["multiscales"][0]["axes"][0]["name"] = 7
    change(root / "image/zarr.json", attributes=attributes)
    report = oz.verify(root, missing="error", conventions=True)
    kinds = {(f.kind, f.level) for f in report.findings}
    assert kinds >= {
        ("metadata", "error"),
        ("unsupported", "error"),
        ("damaged-chunk", "error"),
        ("missing-chunk", "error"),
        ("outside-chunk", "warning"),
        ("incomplete", "error"),
        ("convention", "error"),
        ("orphan", "warning"),
        ("leftover", "warning"),
    }
    leftovers = {f.key for f in report.findings if f.kind == "leftover"}
    assert leftovers == {
        f"many/c/1{PARTIAL}77_1",
        f"many/{file_locks.NAME}chunks",
        f"{JOURNAL}/0123456789",
    }
    documents = [f for f in report.findings if f.kind in ("metadata", "convention", "unsupported")]
    assert all(f.field and f.rule and f.key and f.pointer.startswith("/") for f in documents)
    shape = next(f for f in documents if f.path == "/broken")
    assert (shape.pointer, shape.rule) == ("/shape/0", "Zarr 3, shape")


def test_stale_consolidated_metadata_is_found_for_groups_of_versions_2_and_3(
    tmp_path: Path,
) -> None:
    for zarr_format in (2, 3):
        root = tmp_path / str(zarr_format)
        group = oz.create_group(root, zarr_format=zarr_format)
        group.create_array("a", data=np.ones(4))
        oz.consolidate_metadata(root)
        assert not oz.verify(root).findings
        for document in ("a/zarr.json", "a/.zarray"):
            if (root / document).exists():
                (root / document).unlink()
        found = {(f.kind, f.level) for f in oz.verify(root).findings}
        assert ("stale-consolidated", "error") in found


def test_a_root_that_cannot_be_read_is_reported_not_raised(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "x", data=np.ones(4))
    change(tmp_path / "x/zarr.json", shape="four")
    report = oz.verify(tmp_path / "x")
    assert not report.ok
    [found] = report.findings
    assert (found.kind, found.field, found.path) == ("metadata", "shape", "/")
    with pytest.raises(oz.NodeNotFound):
        oz.verify(tmp_path / "nothing")


def test_conventions_are_checked_only_where_they_are_declared(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "x")
    group.create_array("a", shape=4, dtype="f4", dimension_names=["t"])
    group.create_array("b", shape=5, dtype="f4", dimension_names=["t"])
    assert not oz.verify(tmp_path / "x", conventions=True).findings
    dataset = cf.create(tmp_path / "x", path="data", attributes={"Conventions": "CF-1.11"})
    dataset.create_variable("t", np.arange(4.0), dimensions=("t",))
    oz.open(tmp_path / "x", "r+").create_array(
        "data/u", shape=(5,), dtype="f4", dimension_names=["t"]
    )
    assert not oz.verify(tmp_path / "x").findings
    [found] = oz.verify(tmp_path / "x", conventions=True).findings
    assert (found.kind, found.path, found.field) == ("convention", "/data/u", "dimension_names")
    assert found.rule == "CF, 2.4 Dimensions"
