"""Checksums of what a job has written: those of sha256sum, for every kind of job."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.bulk.checks import checksums
from omnizarr.bulk.checks.checksums import write_checksums
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.jobs import Rechunk
from omnizarr.stores import LocalStore, MemoryStore, list_prefix
from omnizarr.stores.local.atomic_files import OURS

DATA = np.arange(36 * 24).reshape(36, 24)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    group = oz.create_group(tmp_path / "a.zarr", zarr_format=2)
    for name in ("x", "deep/y"):
        options: Any = {"chunks": (6, 24), "dimension_names": ("t", "n")}
        group.create_array(name, data=DATA, **options)
    return tmp_path / "a.zarr"


def checked(folder: Path, sums: Path) -> set[str]:
    """Return the names in a file of checksums that sha256sum finds to be right."""
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", sums], cwd=folder, check=True)
    names = [line.split("  ", 1)[1] for line in sums.read_text().splitlines()]
    assert len(names) == len({*names})
    return {*names}


def stored(folder: Path) -> set[str]:
    return {*list_prefix(LocalStore(folder), "")}


def _import(source: Path, out: Path, **options: Any) -> None:
    np.save(out.with_suffix(".npy"), DATA)
    oz.import_file(out.with_suffix(".npy"), out, chunks=(6, 6), **options)


def _pyramid(source: Path, out: Path, **options: Any) -> None:
    oz.pyramid(oz.open(source)["x"], out, axes="yx", levels=2, **options)


WHOLE: dict[str, Callable[..., Any]] = {
    "copy": oz.copy,
    "convert": oz.convert,
    "copy to another format": lambda a, b, **o: oz.copy(a, b, zarr_format=3, **o),
    "rechunk": lambda a, b, **o: oz.rechunk(a, b, chunks=(-1, 3), **o),
    "import": _import,
    "pyramid": _pyramid,
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_all_values_of_a_new_hierarchy_have_a_checksum(
    name: str, overwrite: bool, source: Path, tmp_path: Path
) -> None:
    out, sums = tmp_path / "out.zarr", tmp_path / "sums.txt"
    if overwrite:
        oz.create_array(out, path="old", data=DATA)
    WHOLE[name](source, out, checksums=sums, overwrite=overwrite)
    assert checked(out, sums) == stored(out)
    assert "old/zarr.json" not in stored(out)


def test_only_what_was_written_has_a_checksum(source: Path, tmp_path: Path) -> None:
    sums = tmp_path / "sums.txt"
    oz.rechunk(source, in_place=True, chunks=(-1, 3), checksums=sums)
    assert checked(source, sums) == {
        key for key in stored(source) if key.startswith(("x/", "deep/y/"))
    }
    oz.convert(source, in_place=True, checksums=sums)
    assert checked(source, sums) == {key for key in stored(source) if key.endswith("zarr.json")}


def test_appended_chunks_have_a_checksum(tmp_path: Path) -> None:
    for name, rows in (("a", 36), ("b", 20)):
        group = oz.create_group(tmp_path / name)
        options: Any = {"chunks": (6, 24), "dimension_names": ("t", "n")}
        group.create_array("x", data=DATA[:rows], **options)
    sums = tmp_path / "sums.txt"
    oz.rechunk(tmp_path / "a", tmp_path / "b", append_dim="t", checksums=sums)
    assert checked(tmp_path / "b", sums) == {"x/zarr.json", "x/c/3/0", "x/c/4/0", "x/c/5/0"}


def test_added_levels_have_a_checksum(tmp_path: Path) -> None:
    image, sums = tmp_path / "image.zarr", tmp_path / "sums.txt"
    oz.ome.write(image, np.arange(64.0 * 64).reshape(64, 64), axes="yx", levels=1)
    oz.pyramid(image, levels=3, factors=2, checksums=sums)
    found = checked(image, sums)
    assert found == {key for key in stored(image) if key[:2] in ("1/", "2/")} | {"zarr.json"}
    assert oz.ome.open(image).levels[2].shape == (16, 16)


def test_an_exported_file_has_a_checksum(source: Path, tmp_path: Path) -> None:
    sums = tmp_path / "sums.txt"
    oz.export_file(source, tmp_path / "x.h5", path="x", checksums=sums)
    assert checked(tmp_path, sums) == {"x.h5"}


def test_an_update_has_the_checksums_of_all_that_the_source_has(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "b.zarr"
    for sums in (tmp_path / "sums", out / "SHA256SUMS", out / "SHA256SUMS"):
        oz.copy(source, out, update=True, checksums=sums)
        assert checked(out, sums) == stored(source)
        assert checked(source, sums) == stored(source)


def test_a_store_without_files_has_checksums(source: Path, tmp_path: Path) -> None:
    store, sums = MemoryStore(), tmp_path / "sums.txt"
    oz.convert(source, store, checksums=sums)
    lines = (f"{sha256(value).hexdigest()}  {key}" for key, value in store.values.items())
    assert {*sums.read_text().splitlines()} == {*lines}


def test_unusual_names_are_escaped_as_sha256sum_does(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    names = ["a\\b", "line\nbreak", "back\rward", "gr\u00fcn", "two  spaces"]
    for name in names:
        (tmp_path / "d" / name).write_text(name)
    store = {name: name.encode() for name in names}
    write_checksums(tmp_path / "sums", MemoryStore(store), iter(names))
    command = ["sha256sum", "--check", "--strict", "--quiet", str(tmp_path / "sums")]
    subprocess.run(command, cwd=tmp_path / "d", check=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_checksums_that_failed_are_written_on_resume(
    overwrite: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, sums = tmp_path / "out.zarr", tmp_path / "sums.txt"
    if overwrite:
        oz.create_array(out, path="old", data=DATA)
    options: Any = {"chunks": (-1, 3), "overwrite": overwrite, "checksums": sums}

    def fail(*given: Any) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(checksums, "_line", fail)
        with pytest.raises(StoreError, match="the disk is full") as error:
            oz.rechunk(source, out, **options)
    assert "complete, but its checksums are not" in error.value.__notes__[0]
    assert not sums.exists()
    assert np.array_equal(oz.open(out)["x"], DATA)
    assert oz.rechunk(source, out, resume=True, **options).arrays == 2
    assert checked(out, sums) == stored(out)
    assert not [path for path in tmp_path.rglob("*") if OURS in path.name]


def test_parts_write_the_checksums_once(source: Path, tmp_path: Path) -> None:
    sums = tmp_path / "sums.txt"
    job = Rechunk(source, tmp_path / "out.zarr", chunks=(-1, 3))
    for part in range(1, 5):
        oz.run(job, part=(part, 4), checksums=sums)
    assert checked(tmp_path / "out.zarr", sums) == stored(tmp_path / "out.zarr")


def test_what_cannot_be_written_is_refused_before_anything_is(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no directory"):
        oz.rechunk(source, tmp_path / "out", chunks=(-1, 3), checksums=tmp_path / "no" / "sums")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidArgument, match="only reads"):
        oz.stats(source, checksums=tmp_path / "sums")
    with pytest.raises(InvalidArgument, match="cannot list what was written"):
        oz.copy(source, Unlisted(MemoryStore()), checksums=tmp_path / "sums")


class Unlisted:
    """A store that does not list its keys."""

    read_only = False

    def __init__(self, inner: MemoryStore) -> None:
        self.get, self.set, self.erase = inner.get, inner.set, inner.erase
