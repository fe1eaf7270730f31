"""omnizarr in the place of zarr-python, and back."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import zarr as plain_zarr
from benchmarks.downstream.trips import round_trip

import omnizarr
from omnizarr import registry
from omnizarr.errors import OmnizarrWarning
from omnizarr.interop.zarr import installing, library
from tests.sampling import sample

# Objects that only describe, and stores, are zarr-python's.
SHARED = {"__version__", "config", "copy", "copy_all", "copy_store"}


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120
    )


def test_every_public_name_of_zarr_is_ours(zarr: Any) -> None:
    names = set(zarr.__all__) - SHARED
    assert {n for n in names if not library.is_ours(getattr(zarr, n))} == set()


@pytest.mark.parametrize("module", sorted(installing.NAMES))
def test_names_are_exchanged_in_every_module(zarr: Any, module: str) -> None:
    found = vars(sys.modules[module])
    ours = installing.NAMES[module]
    assert {n for n in ours if n in found and found[n] is not ours[n]} == set()


def test_undo_restores_every_name() -> None:
    before = {m: dict(vars(sys.modules[m])) for m in sys.modules if m.startswith("zarr")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmnizarrWarning)  # other tests have imported zarr before
        installing.install()
    assert installing.is_installed()
    omnizarr.as_zarr(undo=True)
    assert not installing.is_installed()
    for module, names in before.items():
        now = vars(sys.modules[module])
        assert {n for n, v in names.items() if now[n] is not v} == set()


@pytest.mark.parametrize("late", [False, True])
def test_an_error_while_installing_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    def fail() -> None:
        if late:
            exchange()
        raise OmnizarrWarning("as an error")

    exchange = installing._exchange
    monkeypatch.setattr(installing, "_exchange", fail)
    before = plain_zarr.Array
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmnizarrWarning)
        with pytest.raises(OmnizarrWarning, match="as an error"):
            installing.install()
    assert not installing.is_installed()
    assert plain_zarr.Array is before
    assert registry._sources["codec"] is None
    with pytest.warns(OmnizarrWarning, match="bare NaN"):
        omnizarr.open(
            {"zarr.json": b'{"zarr_format": 3, "node_type": "group", "attributes": {"a": NaN}}'}
        )
    with pytest.warns(OmnizarrWarning, match="reserved"):
        omnizarr.create_array({}, path="__x", shape=1, dtype="i4")


def test_a_script_runs_with_omnizarr_in_place(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, zarr\nprint(zarr.Array.__module__, sys.argv[1:])\n"
    )
    done = _run("-m", "omnizarr.as_zarr", "script.py", "a", "-b", cwd=tmp_path)
    assert done.stdout.split(maxsplit=1) == [
        "omnizarr.interop.zarr.arrays",
        "['a', '-b']\n",
    ], done.stderr


def test_a_module_runs_with_omnizarr_in_place(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import zarr\nprint(zarr.Group.__module__)\n")
    done = _run("-m", "omnizarr.as_zarr", "-m", "program", cwd=tmp_path)
    assert done.stdout.strip() == "omnizarr.interop.zarr.groups", done.stderr


def test_pytest_runs_with_omnizarr_in_place(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from zarr import Array\n")
    (tmp_path / "test_it.py").write_text(
        "from conftest import Array\n"
        "def test_it():\n"
        "    assert Array.__module__ == 'omnizarr.interop.zarr.arrays'\n"
    )
    done = _run("-m", "pytest", "-q", "-p", "omnizarr.as_zarr", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_that_were_imported_before_are_exchanged_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text("from zarr import open_group\n")
    (tmp_path / "script.py").write_text(
        "import early, omnizarr\nomnizarr.as_zarr()\nprint(early.open_group.__module__)\n"
    )
    done = _run("script.py", cwd=tmp_path)
    assert done.stdout.strip() == "omnizarr.interop.zarr.opening"
    assert "by early" in done.stderr


def test_without_zarr_python_the_error_says_what_to_install(tmp_path: Path) -> None:
    program = "import sys\nsys.modules['zarr'] = None\nimport omnizarr\nomnizarr.as_zarr()\n"
    done = _run("-c", program, cwd=tmp_path)
    assert "MissingModule" in done.stderr
    assert "pip install 'zarr>=3.1'" in done.stderr


def test_names_of_xarray_that_version_3_reserves_are_not_warned_of(zarr: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = zarr.create_group({})
        group.create_array("__xarray_dataarray_variable__", shape=1, dtype="i4")
        assert len(dict(group.members())) == 1
    omnizarr.as_zarr(undo=True)
    with pytest.warns(OmnizarrWarning, match="reserved"):
        omnizarr.create_array({}, path="__x", shape=1, dtype="i4")


MODULES = {"dask": "dask.array", "xarray": "xarray", "anndata": "anndata", "ome-zarr": "ome_zarr"}


@pytest.mark.parametrize("package", sample(MODULES, 1))
def test_what_a_package_writes_on_one_library_it_reads_on_the_other(
    package: str, tmp_path: Path
) -> None:
    for module in ("zarr", MODULES[package].partition(".")[0]):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: pip install {package}")
    round_trip(Path(sys.executable), package, tmp_path / "data")
