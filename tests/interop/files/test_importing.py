"""Imports: options of new arrays, several files, memory, processes, kill -9 and resume."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import omnizarr as oz
from omnizarr.interop.files.importing import Import


def _h5(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
            for axis, label in enumerate(
                ("t", "y", "x")[-np.ndim(values) :] if np.ndim(values) else ()
            ):
                file[name].dims[axis].label = label
    return path


def test_options_apply_to_all_arrays(tmp_path: Path) -> None:
    values = np.arange(60.0).reshape(3, 4, 5)
    text = np.array(["a"], object)
    file = _h5(tmp_path / "a.h5", one=values, text=text, x=np.arange(5.0))
    oz.import_file(
        file, tmp_path / "a.zarr", chunks={"y": 2, "t": -1}, shards={"y": 4},
        compressors=[{"name": "zstd", "configuration": {"level": 3}}], dtype="f4",
    )  # fmt: skip
    group = oz.open(tmp_path / "a.zarr")
    one = group["one"]
    assert (one.chunks, one.shards, one.dtype) == ((3, 2, 5), (3, 4, 5), np.dtype("f4"))
    assert one.codecs[-1].configuration["codecs"][-1]["name"] == "zstd"
    assert group["x"].dtype == "f8"  # a coordinate
    assert one.dimension_names == ("t", "y", "x")
    np.testing.assert_array_equal(one[...], np.arange(60).reshape(3, 4, 5))
    with pytest.raises(
        oz.InvalidArgument, match=r"chunks: no dimension 'lat'; dimensions: t, x, y"
    ):
        oz.import_file(file, tmp_path / "b.zarr", chunks={"lat": 1})


def test_values_that_do_not_fit_a_type_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 300]))
    with pytest.raises(oz.InvalidArgument, match=r"^300 at index \(1,\) .* uint8 in /\[0:2\]: "):
        oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr", dtype="u1")
    np.save(tmp_path / "b.npy", np.array([1.5]))
    with pytest.raises(oz.InvalidArgument, match="which cannot be cast to int64"):
        oz.import_file(tmp_path / "b.npy", tmp_path / "b.zarr", dtype="i8")
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "a.zarr")


def test_an_existing_node_is_replaced_only_on_demand_and_at_the_end(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.zeros(3))
    np.save(tmp_path / "a.npy", np.arange(5))
    with pytest.raises(oz.NodeExists, match="overwrite=True"):
        oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr")
    np.savez_compressed(tmp_path / "b.npz", x=np.random.default_rng(0).random(9999))
    data = bytearray((tmp_path / "b.npz").read_bytes())
    data[40_000] ^= 1
    (tmp_path / "b.npz").write_bytes(data)
    with pytest.raises(oz.InvalidArgument, match="damaged"):
        oz.import_file(tmp_path / "b.npz", tmp_path / "a.zarr", overwrite=True)
    assert oz.open(tmp_path / "a.zarr")[:].tolist() == [0, 0, 0]
    oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr", overwrite=True)
    assert oz.open(tmp_path / "a.zarr")[:].tolist() == [0, 1, 2, 3, 4]


def test_several_files_become_members_with_their_names(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.arange(3))
    _h5(tmp_path / "two.h5", x=np.arange(4))
    oz.create_group(tmp_path / "a.zarr")
    report = oz.import_file(
        [tmp_path / "one.npy", tmp_path / "two.h5"], tmp_path / "a.zarr", path="in/side"
    )
    assert (report.arrays, report.groups) == (2, 2)
    group = oz.open(tmp_path / "a.zarr")
    assert group["in/side/one"][:].tolist() == [0, 1, 2]
    assert group["in/side/two/x"][:].tolist() == [0, 1, 2, 3]
    with pytest.raises(oz.InvalidArgument, match="would both become 'one'"):
        oz.import_file([tmp_path / "one.npy"] * 2, tmp_path / "b.zarr")


def test_names_that_the_format_forbids_are_reported(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["zarr.json/x"] = 1
        file["fine"] = 1
    report = oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert set(report.skipped) == {"zarr.json", "zarr.json/x"}
    assert list(oz.open(tmp_path / "a.zarr")) == ["fine"]


def test_a_plan_says_what_will_be_done_and_writes_nothing(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((1000, 1000))
        file["empty"] = h5py.Empty("f4")
    job = Import(tmp_path / "a.h5", tmp_path / "a.zarr")
    text = str(job.plan())
    assert "left out: empty: it is empty" in text
    assert "read 7.6 MiB" in text
    assert not (tmp_path / "a.zarr").exists()
    again = pickle.loads(pickle.dumps(job))
    assert again == job
    assert again.plan().digest == job.plan().digest
    old = job.plan().digest
    os.utime(tmp_path / "a.h5", ns=(1, 1))
    assert job.plan().digest != old


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_tasks_run_on_threads_and_processes(tmp_path: Path, on: str) -> None:
    values = np.random.default_rng(0).random((40, 100, 100))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(10, 50, 50), compression="gzip")
    oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", on=on, workers=2, memory="2MB")
    np.testing.assert_array_equal(oz.open(tmp_path / "a.zarr")["x"][...], values)


def test_memory_stays_within_the_bound(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (64, 512, 512), "f4", chunks=(1, 256, 256))
        for i in range(64):
            data[i] = i
    tracemalloc.start()
    oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", memory="12MB", workers=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 14e6
    assert oz.open(tmp_path / "a.zarr")["x"][63, 0, 0] == 63


SOME = """
import sys
from omnizarr.bulk import journal
from omnizarr.bulk import transfer as fill
from omnizarr.interop.files.importing import import_file
call = fill.FillBox.__call__
begun = []
def some(self):
    begun.append(self)
    if len(begun) > 3:
        sys.stdin.read()  # until it is killed
    return call(self)
fill.FillBox.__call__ = some
journal.FLUSH = 0  # every task that is done is entered in the journal
import_file(sys.argv[1], sys.argv[2], memory=300_000, workers=1, overwrite=len(sys.argv) > 3)
"""


def _journal(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if "journal" in str(path) and path.is_file()]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_killed_import_is_invisible_and_is_resumed(tmp_path: Path, replaced: bool) -> None:
    values = np.arange(100 * 10_000, dtype="i4").reshape(100, 10_000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(1, 10_000))
    out = tmp_path / "a.zarr"
    if replaced:
        oz.create_group(out, attributes={"old": True})
    command = [sys.executable, "-c", SOME, str(tmp_path / "a.h5"), str(out), *(["x"] * replaced)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not _journal(out):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if replaced:
        assert oz.open(out).attrs["old"]
    else:
        with pytest.raises(oz.NodeNotFound):
            oz.open(out)
        with pytest.raises(oz.NodeExists, match="interrupted"):
            oz.import_file(tmp_path / "a.h5", out, memory=300_000, workers=1)
    done: list[int] = []
    report = oz.import_file(
        tmp_path / "a.h5", out, memory=300_000, workers=1, resume=True, overwrite=replaced,
        progress=lambda state: done.append(state.tasks),
    )  # fmt: skip
    assert report.bytes_read == values.nbytes
    np.testing.assert_array_equal(oz.open(out)["x"][...], values)
    assert _journal(out) == []


def test_a_changed_file_is_not_mixed_with_what_was_imported_before(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(10))
    job = Import(str(tmp_path / "a.npy"), str(tmp_path / "a.zarr"))
    output = job.plan().output
    assert output is not None
    output.begin(False, False)
    np.save(tmp_path / "a.npy", np.ones(10))
    with pytest.raises(oz.NodeExists, match="was not the same"):
        oz.run(job, resume=True)


def _zeros() -> dict[str, Any]:
    """Return arrays of many types with values that are zero, false or empty."""
    random = np.random.default_rng(7)
    types = ("?", "u1", "i4", "f4", "f8", "c16", "S2")
    found: dict[str, Any] = {kind: random.integers(0, 2, 6).astype(kind) for kind in types}
    found["S2"][0] = b""
    return {kind.strip("?") or "b": values for kind, values in found.items()}


def test_no_value_of_a_plain_file_is_missing_in_version_2(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in _zeros().items():
            file[name] = values
        file["text"] = np.array(["", "b"], h5py.string_dtype())
        file.create_dataset("stated", data=np.array([5, 1], "i2"), fillvalue=5)
    report = oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=2)
    assert [note for note in report.notes if "fill value" in note] == [
        "/stated: the fill value np.int16(5) is left out, as it would mark missing values in zarr 2"
    ]
    found = xr.load_dataset(tmp_path / "a.zarr", engine="omnizarr")
    for name, values in _zeros().items():
        np.testing.assert_array_equal(found[name].values, values)
        assert found[name].dtype.kind == values.dtype.kind
    assert found["text"].values.tolist() == ["", "b"]
    assert found["stated"].values.tolist() == [5, 1]
    for number, values in enumerate(_zeros().values()):
        np.save(tmp_path / f"{number}.npy", values)
        oz.import_file(tmp_path / f"{number}.npy", tmp_path / f"{number}.zarr", zarr_format=2)
        [read] = xr.load_dataset(tmp_path / f"{number}.zarr", engine="omnizarr").values()
        np.testing.assert_array_equal(read.values, values)
        assert read.dtype.kind == values.dtype.kind


def test_a_fill_value_of_the_caller_is_used_in_version_2(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr", zarr_format=2, fill_value=7)
    assert oz.open(tmp_path / "a.zarr").fill_value == 7
