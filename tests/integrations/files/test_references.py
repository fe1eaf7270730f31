"""`reference`: what is common to all formats, the command, and other readers of the result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import imagecodecs.numcodecs as imagecodecs
import numcodecs
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from fsspec.implementations.reference import ReferenceFileSystem

import omnizarr as oz
from omnizarr.cli.main import main
from omnizarr.errors import InvalidArgument, NodeExists, NodeNotFound

VALUES = np.arange(60, dtype="<i4").reshape(6, 10)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made.create_dataset("t", data=VALUES, chunks=(4, 4), compression="gzip")
        made.create_dataset("bad", data=np.zeros(10**5), chunks=(10**4,), scaleoffset=2)
        made.attrs["title"] = "Grüße"
    return tmp_path / "a.h5"


@contextmanager
def imagecodecs_registered() -> Iterator[None]:
    """Let numcodecs know the codecs of imagecodecs, as programs have to for zarr-python."""
    known = numcodecs.registry.codec_registry
    before = dict(known)
    imagecodecs.register_codecs(verbose=False)
    try:
        yield
    finally:
        known.clear()
        known.update(before)


def read_with_zarr(references: Path) -> Any:
    """Open references as other programs do: zarr-python on fsspec."""
    fs = ReferenceFileSystem(fo=str(references), asynchronous=True, remote_protocol="file")
    return zarr.open(zarr.storage.FsspecStore(fs, read_only=True, path=""), mode="r", zarr_format=2)


def test_the_result_is_read_here_and_by_zarr_python(file: Path, tmp_path: Path) -> None:
    done = oz.reference(file, tmp_path / "a.json")
    assert (done.arrays, done.references, done.inline) == (1, 6, 0)
    assert list(done.skipped) == ["bad"]
    assert "scaleoffset (number 6)" in done.skipped["bad"]
    group = oz.open_group(tmp_path / "a.json")
    np.testing.assert_array_equal(group["t"][...], VALUES)
    assert group.attrs["title"] == "Grüße"
    np.testing.assert_array_equal(read_with_zarr(tmp_path / "a.json")["t"][...], VALUES)


def test_a_relative_url_moves_with_its_folder(file: Path, tmp_path: Path) -> None:
    oz.reference(file, tmp_path / "a.json", url="a.h5")
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("a.h5", "a.json"):
        (tmp_path / name).rename(moved / name)
    np.testing.assert_array_equal(oz.open_group(moved / "a.json")["t"][...], VALUES)


def test_nothing_is_replaced_without_being_told(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    with pytest.raises(NodeExists, match="overwrite=True"):
        oz.reference(file, tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text() == "mine"
    with pytest.raises(NodeExists, match="directory"):
        oz.reference(file, tmp_path, overwrite=True)
    before = file.read_bytes()
    with pytest.raises(InvalidArgument, match="both"):
        oz.reference(file, file, overwrite=True)
    assert file.read_bytes() == before
    oz.reference(file, tmp_path / "a.json", overwrite=True)
    assert oz.open_group(tmp_path / "a.json")["t"].shape == (6, 10)
    assert {path.name for path in tmp_path.iterdir()} == {"a.h5", "a.json"}


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    with pytest.raises(InvalidArgument, match="NumPy"):
        oz.reference(tmp_path / "a.npy", tmp_path / "a.json")
    with pytest.raises(NodeNotFound):
        oz.reference(tmp_path / "none.h5", tmp_path / "a.json")
    with h5py.File(tmp_path / "b.h5", "w") as made:
        made.create_dataset("bad", data=np.zeros(10**5), chunks=(10**4,), scaleoffset=2)
    with pytest.raises(InvalidArgument, match="nothing in"):
        oz.reference(tmp_path / "b.h5", tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


def test_the_command_writes_references(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    done = CliRunner().invoke(main, ["reference", str(file), str(target)])
    assert done.exit_code == 0, done.output
    assert "1 array, 6 chunks" in done.stdout
    assert "left out" in done.stderr
    again = CliRunner().invoke(main, ["reference", str(file), str(target)])
    assert again.exit_code != 0
    as_json = ["reference", str(file), str(target), "--json", "-y", "--url", "s3://bucket/a.h5"]
    found = json.loads(CliRunner().invoke(main, as_json).stdout)
    assert found["references"] == 6
    assert json.loads(target.read_text())["refs"]["t/0.0"][0] == "s3://bucket/a.h5"


def test_commands_read_references_and_take_the_consent(file: Path, tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    oz.reference(file, below / "a.json")
    where = str(below / "a.json")
    refused = CliRunner().invoke(main, ["cat", where, "--node", "t"])
    assert refused.exit_code != 0
    assert "allow_targets" in refused.stderr
    allow = f"allow_targets={tmp_path}"
    allowed = CliRunner().invoke(main, ["cat", where, "--node", "t", "--storage-option", allow])
    assert allowed.exit_code == 0, allowed.output
    assert "59" in allowed.stdout
    for command in ("info", "ls", "tree", "du"):
        done = CliRunner().invoke(main, [command, where])
        assert done.exit_code == 0, done.output
