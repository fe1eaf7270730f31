"""Exports: round trips through every format, complete files only, resume, processes, memory."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from omnizarr.interop.files import hdf5_writer
from omnizarr.interop.files.exporting import Export
from tests.interop.files.comparison import TEXT, assert_same, attribute_values
from tests.sampling import sample

NAMES = st.text("abcdefg", min_size=1, max_size=4)
ATTRIBUTES = st.dictionaries(NAMES, attribute_values(2), max_size=3)
KINDS = {
    ".h5": "biufcSVMT",
    ".nc": "iufT",
    ".tif": "iufc",
}
TYPES = {
    "b": ["?"], "i": ["i1", "i2", "i4", "i8"], "u": ["u1", "u2", "u4", "u8"], "f": ["f4", "f8"],
    "c": ["c8", "c16"], "S": ["S3"], "V": [[("a", "<i4"), ("b", "<f8")]], "M": ["M8[s]", "M8[ns]"],
}  # fmt: skip


@st.composite
def arrays(draw: st.DrawFn, suffix: str) -> Any:
    least = 2 if suffix == ".tif" else 0
    shape = draw(hnp.array_shapes(min_dims=least, max_dims=4, min_side=1, max_side=9))
    shape = shape if least else draw(st.sampled_from([shape, ()]))
    kind = draw(st.sampled_from(KINDS[suffix]))
    if kind == "T":
        count = int(np.prod(shape))
        texts = draw(st.lists(TEXT, min_size=count, max_size=count))
        return np.array(texts, np.dtypes.StringDType()).reshape(shape)
    dtype = np.dtype(draw(st.sampled_from(TYPES[kind])))
    return draw(hnp.arrays(dtype, shape))


@pytest.mark.parametrize("suffix", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), zarr_format=st.sampled_from([2, 3]), sharded=st.booleans())
def test_a_round_trip_returns_the_same_array(
    suffix: str, data: st.DataObject, zarr_format: int, sharded: bool
) -> None:
    values = data.draw(arrays(suffix))
    attributes = data.draw(ATTRIBUTES)
    names = [f"d{i}" for i in range(values.ndim)]
    options: dict[str, Any] = {"shards": 6} if sharded and zarr_format == 3 and values.ndim else {}
    source: dict[str, bytes] = {}
    oz.create_array(
        source, data=values, chunks=3, attributes=attributes, dimension_names=names,
        zarr_format=zarr_format, fill_value=None if zarr_format == 2 else 0
        if values.dtype.kind in "biufc" else "" if values.dtype.kind == "T" else None, **options,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        oz.export_file(source, f"{folder}/a{suffix}", memory=2_000, workers=1)
        assert os.listdir(folder) == [f"a{suffix}"]
        out: dict[str, bytes] = {}
        oz.import_file(f"{folder}/a{suffix}", out, zarr_format=zarr_format)
    path = "" if suffix == ".tif" else "data"
    found = oz.open(out, path=path)
    assert found.dtype == values.dtype
    assert_same(found[...], values)
    stored = {k: v for k, v in found.attrs.items() if k != "_ARRAY_DIMENSIONS"}
    assert stored == attributes
    assert found.dimension_names == (tuple(names) if names or suffix == ".nc" else None)


@pytest.mark.parametrize("suffix", [".h5", ".nc"])
def test_a_round_trip_returns_the_same_hierarchy(tmp_path: Path, suffix: str) -> None:
    root = oz.create_group(tmp_path / "a.zarr", attributes={"title": "root"})
    root.create_array("x", data=np.arange(4.0), dimension_names=["x"], attributes={"u": "m"})
    inner = root.create_group("g/inner", attributes={"n": [1, 2]})
    inner.create_array(
        "v", data=np.arange(12).reshape(4, 3), chunks=(2, 2), dimension_names=["x", "y"]
    )
    oz.export_file(tmp_path / "a.zarr", tmp_path / f"a{suffix}")
    oz.import_file(tmp_path / f"a{suffix}", tmp_path / "b.zarr")
    other = oz.open(tmp_path / "b.zarr")
    paths = sorted(path for path, _ in root.members(max_depth=None))
    assert sorted(path for path, _ in other.members(max_depth=None)) == paths
    for path, node in root.members(max_depth=None):
        assert other[path].attrs == node.attrs
        if isinstance(node, oz.Array):
            np.testing.assert_array_equal(other[path][...], node[...])
            assert other[path].dimension_names == node.dimension_names
            assert other[path].chunks == node.chunks


def test_a_file_is_replaced_only_on_demand(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.arange(3))
    (tmp_path / "a.h5").write_bytes(b"precious")
    with pytest.raises(oz.NodeExists, match=r"a.h5' exists; give overwrite=True to replace it"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "a.h5")
    assert (tmp_path / "a.h5").read_bytes() == b"precious"
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.h5", overwrite=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["data"][:].tolist() == [0, 1, 2]
    (tmp_path / "b.h5").mkdir()
    with pytest.raises(oz.NodeExists, match="is a directory"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "b.h5", overwrite=True)
    with pytest.raises(oz.NodeNotFound, match="there is no directory"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "no" / "b.h5")


def test_what_a_format_cannot_hold_is_listed_and_strict_refuses(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr", attributes={"nested": {"a": 1}})
    group.create_array("ok", data=np.arange(3))
    group.create_array("complex", data=np.array([1j]))
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert report.skipped == {"complex": "NetCDF has no type for complex128; .h5 files may hold it"}
    assert report.notes == ["the attribute 'nested' of / is stored as JSON text"]
    with pytest.raises(oz.CannotExpress, match="1 parts cannot be exported"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "b.nc", strict=True)
    oz.export_file(tmp_path / "a.zarr", tmp_path / "b.nc", strict=True, exclude=["complex"])
    with pytest.raises(oz.CannotExpress, match=r"can hold one array only.*: complex, ok"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "a.tif")
    with pytest.raises(oz.CannotExpress, match="nothing of /complex"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "c.nc", path="complex")
    assert not (tmp_path / "c.nc").exists()


def test_types_are_cast_if_values_fit(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.array([1, 200]))
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.h5", dtype="u1")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["data"].dtype == "u1"
    with pytest.raises(oz.InvalidArgument, match="cannot be stored as int8"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "b.h5", dtype="i1")


def test_tasks_run_on_processes(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((50, 100, 40))
    oz.create_array(tmp_path / "a.zarr", data=values, chunks=(10, 50, 40))
    file = tmp_path / "a.h5"
    oz.export_file(tmp_path / "a.zarr", file, on="processes", workers=2, memory="500kB")
    oz.import_file(file, tmp_path / "b.zarr")
    np.testing.assert_array_equal(oz.open(tmp_path / "b.zarr", path="data")[...], values)


def test_an_export_has_no_parts(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.arange(10))
    job = Export(str(tmp_path / "a.zarr"), str(tmp_path / "a.h5"))
    assert pickle.loads(pickle.dumps(job)) == job
    with pytest.raises(oz.InvalidArgument, match="cannot be written in parts"):
        oz.run(job, part=(1, 2))
    assert os.listdir(tmp_path) == ["a.zarr"]


KILLED = """
import sys
from omnizarr.interop.files import exporting, hdf5_writer
def waits(self):
    print("begun", flush=True)
    sys.stdin.read()  # until it is killed
hdf5_writer.WriteBox.__call__ = waits
exporting.export_file(sys.argv[1], sys.argv[2], workers=1)
"""


def test_a_killed_export_leaves_no_file_and_the_next_one_clears_up(tmp_path: Path) -> None:
    values = np.arange(100)
    oz.create_array(tmp_path / "a.zarr", data=values)
    file = tmp_path / "a.h5"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a.zarr"), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
    assert not file.exists()
    oz.export_file(tmp_path / "a.zarr", file)
    with h5py.File(file) as opened:
        np.testing.assert_array_equal(opened["data"], values)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.zarr"]


def test_a_plan_names_what_is_written(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.zeros((100, 100)))
    text = str(Export(str(tmp_path / "a.zarr"), str(tmp_path / "a.nc")).plan())
    assert "netcdf: 1 arrays" in text
    assert "write 78.1 KiB" in text
    assert not (tmp_path / "a.nc").exists()
    with pytest.raises(oz.InvalidArgument, match="unknown format 'grib'"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "a", format="grib")
    with pytest.raises(oz.InvalidArgument, match="compression must be"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc", compression="lz4")


@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.tif", "a.ome.tif"])
def test_a_failed_export_keeps_the_old_file_and_starts_again(tmp_path: Path, name: str) -> None:
    values = np.arange(40_000, dtype="u2").reshape(200, 200)
    source = tmp_path / "a.zarr"
    oz.create_array(source, data=values, chunks=(20, 200), dimension_names=["y", "x"])
    chunk = source / "c/7/0"
    stored = chunk.read_bytes()
    chunk.write_bytes(stored[:-9])
    (tmp_path / name).write_bytes(b"precious")
    job = Export(str(source), str(tmp_path / name), memory=50_000, overwrite=True)
    assert "starts again" in str(job.plan())
    with pytest.raises(oz.ChunkError):
        oz.run(job, workers=1)
    assert (tmp_path / name).read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == sorted(["a.zarr", name])
    chunk.write_bytes(stored)
    with pytest.warns(oz.OmnizarrWarning, match="cannot be resumed"):
        oz.run(job, resume=True)
    assert sorted(os.listdir(tmp_path)) == sorted(["a.zarr", name])
    oz.import_file(tmp_path / name, tmp_path / "b.zarr", image=False)
    found = oz.open(tmp_path / "b.zarr")
    array = found if isinstance(found, oz.Array) else next(iter(dict(found.arrays()).values()))
    np.testing.assert_array_equal(array[...], values)


@pytest.mark.parametrize("error", [oz.StoreError("lost"), KeyboardInterrupt()])
def test_an_export_that_fails_before_anything_is_written_leaves_nothing(
    tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.arange(10))

    def fails(box: object) -> None:
        raise error

    monkeypatch.setattr(hdf5_writer.WriteBox, "__call__", fails)
    with pytest.raises(type(error)):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "a.h5")
    assert os.listdir(tmp_path) == ["a.zarr"]


_FULL = """
import os, resource, signal, sys
import numpy as np
import omnizarr as oz

file, limit, compression = sys.argv[1], int(sys.argv[2]), sys.argv[3] or None
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
values = np.random.default_rng(0).integers(0, 255, (16, 256, 256), dtype="u1")
root = oz.open({}, "w")
root.create_array("v", data=values, chunks=(1, 256, 256))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    oz.export_file(root, file, compression=compression, memory="1MB")
except oz.errors.StoreError as e:
    print(e.__cause__.errno, os.listdir(os.path.dirname(file)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of file sizes")
@pytest.mark.parametrize(
    ("suffix", "limit", "compression"),
    sample(itertools.product([".h5", ".nc"], [1000, 3000, 300_000], ["", "deflate"]), 5),
)
def test_a_file_that_cannot_grow_is_an_error_and_no_crash(
    tmp_path: Path, suffix: str, limit: int, compression: str
) -> None:
    call = [sys.executable, "-c", _FULL, str(tmp_path / f"a{suffix}"), str(limit), compression]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{errno.EFBIG} []\n"
