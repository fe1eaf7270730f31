"""Case-insensitive disks, simulated by a look-up that ignores case."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import LocalStore
from omnizarr.stores.base import Bytes
from omnizarr.stores.local import atomic_files

FORMATS = [2, 3, "3-draft"]


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> None:
    def lexists(path: str) -> bool:
        folder, name = os.path.split(os.path.normpath(path))
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return name.casefold() in (n.casefold() for n in names)

    create = atomic_files.create_file

    def create_file(path: str, value: Bytes, sync: bool) -> bool:
        return not lexists(os.path.dirname(path)) and create(path, value, sync)

    monkeypatch.setattr(atomic_files.os.path, "lexists", lexists)
    monkeypatch.setattr(atomic_files, "create_file", create_file)  # its system call would fail


def test_a_case_sensitive_disk_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "some").touch()
    if os.path.lexists(tmp_path / "SOME"):
        pytest.skip("this disk does not")
    assert not atomic_files.ignores_case(str(tmp_path))
    assert not atomic_files.ignores_case(str(tmp_path / "not" / "there"))
    group = oz.open(tmp_path, mode="a")
    group.create_array("temp", data=np.arange(3))
    group.create_array("Temp", data=np.arange(4))
    assert sorted(group) == ["Temp", "temp"]


@pytest.mark.usefixtures("folding")
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_name_that_differs_in_case_only_is_refused(tmp_path: Path, zarr_format: object) -> None:
    group = oz.create_group(tmp_path / "g", zarr_format=zarr_format)
    group.create_array("temp", data=np.arange(3))
    with pytest.raises(oz.InvalidName, match=r"'Temp.*' is the same name as 'temp"):
        group.create_array("Temp", data=np.arange(4))
    with pytest.raises(oz.InvalidName, match="more than case"):
        group.create_array("Temp", data=np.arange(4), overwrite=True)
    np.testing.assert_array_equal(oz.open(tmp_path / "g")["temp"][:], np.arange(3))
    group.create_array("temp", data=np.arange(4), overwrite=True)
    assert group["temp"].shape == (4,)


@pytest.mark.usefixtures("folding")
def test_a_group_above_in_another_spelling_is_refused(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "g")
    root.create_group("outer")
    with pytest.raises(oz.InvalidName, match="'Outer' is the same name as 'outer'"):
        root.create_array("Outer/inner", shape=(1,), dtype="u1")


def test_a_composed_and_a_decomposed_letter_are_one_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("caf\u00e9/zarr.json", b"{}")
    atomic_files.check_spelling(str(tmp_path), "cafe\u0301/zarr.json")  # two names on this disk
    assert atomic_files._normalised("caf\u00e9") == atomic_files._normalised("CAFE\u0301")


@pytest.mark.parametrize(
    "name", ["con", "NUL.txt", "Com1", "a.", "a ", "a:b", "a?b", "a\\b", "a\tb", "*", "aux"]
)
def test_a_name_that_windows_changes_or_refuses_is_refused_there(name: str) -> None:
    with pytest.raises(oz.InvalidName, match="Windows"):
        atomic_files.check_names(f"above/{name}/zarr.json", windows=True)
    atomic_files.check_names(f"above/{name}/zarr.json", windows=False)
    atomic_files.check_names("console/a.b/.zarray", windows=True)
