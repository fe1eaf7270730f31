"""Formats are found by content, and files that are none of them are refused with a clear line."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import tifffile

import omnizarr as oz
from omnizarr.interop.files.contents import detect, format_of_name


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


@pytest.mark.parametrize(
    ("package", "module", "extra"), [("h5py", "hdf5", "hdf5"), ("tifffile", "tiff", "tiff")]
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, module: str, extra: str
) -> None:
    name = tmp_path / "data"
    if package == "h5py":
        with h5py.File(name, "w") as file:
            file["x"] = 1
    else:
        tifffile.imwrite(name, np.zeros((2, 2), "u1"))
    monkeypatch.delitem(sys.modules, f"omnizarr.interop.files.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(oz.MissingPackage, match=rf"pip install 'omnizarr\[{extra}\]'"):
        oz.import_file(name, {})


def test_names_of_new_files_say_the_format() -> None:
    names = {"a.NC": "netcdf", "b.ome.tiff": "ome-tiff", "b.tif": "tiff"}
    assert {name: format_of_name(name) for name in names} == names
    with pytest.raises(oz.InvalidArgument, match=r"does not say which format.*known: \.nc"):
        format_of_name("a.zip")
