"""Contents of files; NumPy files of every order, type and shape, damaged and dangerous ones."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from omnizarr.interop.files.contents import detect, format_of_name
from tests.interop.files.comparison import TYPES, assert_same


def test_the_format_is_found_by_content_whatever_the_name(tmp_path: Path) -> None:
    name = str(tmp_path / "data.bin")
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "a.npy").rename(name)
    assert detect(name) == "numpy"
    with h5py.File(name, "w") as file:
        file["x"] = 1
    assert detect(name) == "hdf5"
    with h5py.File(name, "w", userblock_size=1024) as file:
        file["x"] = 1
    assert detect(name) == "hdf5"
    for big in (False, True):
        for order in "<>":
            tifffile.imwrite(name, np.zeros((2, 2), "u1"), bigtiff=big, byteorder=order)
            assert detect(name) == "tiff"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.tif", b"not a TIFF file", r"is not a TIFF file, as its name says: it begins with"),
        ("a.h5", b"\x00" * 2000, r"is not a HDF5 or NetCDF4 file, as its name says"),
        ("a.xyz", b"something", r"has an unknown format: .*known are HDF5, NetCDF4, TIFF"),
        ("a.npy", b"", "is empty"),
        ("a.nc", b"CDF\x01 old", "NetCDF file of the classic format.*nccopy -k nc4"),
    ],
)
def test_other_files_are_refused_with_the_reason(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(oz.InvalidArgument, match=message):
        oz.import_file(tmp_path / name, tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(oz.NodeNotFound, match="there is no file"):
        oz.import_file(tmp_path / "no.h5", {})
    with pytest.raises(oz.InvalidArgument, match="is a directory"):
        oz.import_file(tmp_path, {})
    with pytest.raises(oz.InvalidArgument, match="at least one file"):
        oz.import_file([], {})


def test_names_of_new_files_say_the_format() -> None:
    names = {"a.NC": "netcdf", "b.ome.tiff": "ome-tiff", "b.tif": "tiff"}
    assert {name: format_of_name(name) for name in names} == names
    with pytest.raises(oz.InvalidArgument, match=r"does not say which format.*known: \.nc"):
        format_of_name("a.zip")


ARRAYS = TYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)


@given(values=ARRAYS, fortran=st.booleans(), zarr_format=st.sampled_from([2, 3]))
def test_any_array_is_imported_unchanged(values: Any, fortran: bool, zarr_format: int) -> None:
    values = np.asarray(values, order="F" if fortran else "C")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/a.npy", values)
        np.savez(f"{folder}/b.npz", values=values)
        np.savez_compressed(f"{folder}/c.npz", values=values)
        out: dict[str, bytes] = {}
        oz.import_file(
            [f"{folder}/{name}" for name in ("a.npy", "b.npz", "c.npz")],
            out,
            zarr_format=zarr_format,
        )
    for path in ("a", "b/values", "c/values"):
        found = oz.open(out, path=path)
        assert found.dtype == values.dtype.newbyteorder("=")
        assert_same(found[...], values)


def test_python_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(oz.InvalidArgument, match="holds Python objects"):
        oz.import_file(tmp_path / "a.npy", tmp_path / "out.zarr")
    np.savez(tmp_path / "b.npz", good=np.ones(2), bad=np.array([{}], object))
    report = oz.import_file(tmp_path / "b.npz", tmp_path / "out.zarr")
    assert "holds Python objects" in report.skipped["bad.npy"]
    assert list(oz.open(tmp_path / "out.zarr")) == ["good"]


def test_members_that_are_no_arrays_are_reported(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("inner/x.npy", buffer.getvalue())
        archive.writestr("readme.txt", "hello")
        archive.writestr("../y.npy", buffer.getvalue())
    report = oz.import_file(tmp_path / "a.npz", tmp_path / "out.zarr")
    assert set(report.skipped) == {"readme.txt", "../y.npy"}
    assert oz.open(tmp_path / "out.zarr")["inner/x"][:].tolist() == [0, 1, 2]
    with pytest.raises(oz.CannotExpress, match=r"2 parts cannot be imported:\n  - readme.txt"):
        oz.import_file(tmp_path / "a.npz", tmp_path / "strict.zarr", strict=True)
    assert not (tmp_path / "strict.zarr").exists()
