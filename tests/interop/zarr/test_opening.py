"""Opening, loading and saving behave as in zarr-python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interop.zarr.conftest import replaced

zarr = pytest.fixture(replaced, scope="module")


def _contents(store: Any) -> dict[str, bytes]:
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


def test_a_config_is_for_arrays(zarr: Any) -> None:
    store = zarr.storage.MemoryStore()
    for mode in ("a", "a", "w"):
        with pytest.raises(TypeError, match="resolves to a group"):
            zarr.open(store, mode=mode, config={"order": "F"})
        zarr.create_group(store, overwrite=True)


def test_a_group_is_saved_only_if_all_its_arrays_can_be(zarr: Any) -> None:
    store = zarr.storage.MemoryStore()
    zarr.save_group(store, a=np.arange(3))
    before = _contents(store)
    for bad in (np.array([object()], dtype=object), "text"):
        with pytest.raises((TypeError, ValueError)):
            zarr.save_group(store, a=np.arange(2), b=bad)
        assert _contents(store) == before


def test_an_array_in_a_zip_file_is_loaded(zarr: Any, tmp_path: Path) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        zarr.save(store, np.arange(3))
        assert zarr.load(store).tolist() == [0, 1, 2]
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="r") as store:
        assert zarr.load(store).tolist() == [0, 1, 2]


@pytest.mark.parametrize("call", ["open_array", "create", "open_group", "create_group"])
def test_a_node_is_not_replaced_in_a_store_that_cannot_delete(
    zarr: Any, tmp_path: Path, call: str
) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "open_array": {"mode": "w", "shape": 2},
        "create": {"overwrite": True, "shape": 2},
        "open_group": {"mode": "w"},
        "create_group": {"overwrite": True},
    }
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        zarr.create_array(store, shape=(3,), dtype="i4")[...] = 1
        with pytest.raises(zarr.errors.ContainsArrayError, match="cannot delete"):
            getattr(zarr, call)(store=store, **arguments[call])
        assert zarr.open(store)[:].tolist() == [1, 1, 1]


def test_mode_r_plus_makes_no_directory(zarr: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        zarr.open(tmp_path / "new", mode="r+")
    assert not (tmp_path / "new").exists()


def test_an_array_like_another_has_its_format_but_one_that_is_opened_has_its_own(
    zarr: Any,
) -> None:
    old = zarr.zeros((4,), store={}, zarr_format=2)
    assert zarr.zeros_like(old, zarr_format=None).metadata.zarr_format == 2
    store = zarr.storage.MemoryStore()
    assert zarr.open_like(old, path="a", store=store, mode=None).metadata.zarr_format == 3
    assert zarr.open_like(old, path="a", store=store).metadata.zarr_format == 3


def test_an_unknown_format_is_invalid_metadata(zarr: Any) -> None:
    with pytest.raises(zarr.errors.MetadataValidationError, match="zarr_format"):
        zarr.open_group({}, zarr_format="3.0", mode="a")


def test_mode_w_minus_never_replaces(zarr: Any) -> None:
    store = zarr.storage.MemoryStore()
    zarr.create((3,), store=store)
    with pytest.raises(FileExistsError):
        zarr.create((3,), store=store, mode="w-", overwrite=True)


def _recording(zarr: Any) -> Any:
    class Recording(zarr.storage.MemoryStore):
        """A store that records which keys are read, and refuses what is not metadata."""

        supports_listing = True

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.asked: list[str] = []

        async def get(self, key: str, *args: Any, **options: Any) -> Any:
            self.asked.append(key)
            if not key.endswith(("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")):
                raise PermissionError(key)
            return await super().get(key, *args, **options)

        def list_dir(self, prefix: str) -> Any:
            raise PermissionError(prefix)

    return Recording()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("consolidated", [False, True])
def test_opening_reads_each_document_once(zarr: Any, zarr_format: int, consolidated: bool) -> None:
    store = _recording(zarr)
    group = zarr.create_group(zarr.storage.MemoryStore(store._store_dict), zarr_format=zarr_format)
    group.create_array("x", data=np.arange(3))
    if consolidated:
        zarr.consolidate_metadata(group.store)
    opened = zarr.open_group(store, mode="r+")
    assert (opened.metadata.consolidated_metadata is not None) is consolidated
    assert len(set(store.asked)) == len(store.asked)
    assert {*store.asked} <= {".zattrs", ".zgroup", ".zmetadata", "zarr.json"}
    store.asked.clear()
    zarr.open_array(store, path="x", mode="r+")
    assert len(set(store.asked)) == len(store.asked)
    assert {*store.asked} <= {"x/.zarray", "x/.zattrs", "x/zarr.json", "zarr.json"}


def test_a_missing_node_is_not_found_where_a_store_refuses_other_keys(zarr: Any) -> None:
    store = _recording(zarr)
    zarr.create_group(zarr.storage.MemoryStore(store._store_dict))
    with pytest.raises(zarr.errors.GroupNotFoundError):
        zarr.open_group(store, path="labels", mode="r+")
    with pytest.raises(KeyError):
        zarr.open_group(store, mode="r+")["labels"]


def test_empty_directories_vanish_where_a_group_replaces_them(zarr: Any, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    zarr.open_group(tmp_path, mode="w")
    assert [path.name for path in tmp_path.iterdir()] == ["zarr.json"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").write_text("keep")
    with pytest.raises(OSError, match="not Zarr"):
        zarr.open_group(tmp_path, mode="w")
    assert (tmp_path / "a" / "notes.txt").read_text() == "keep"


def test_open_raises_what_zarr_python_raises_for_a_path_without_a_node(zarr: Any) -> None:
    with pytest.raises(zarr.errors.GroupNotFoundError) as caught:
        zarr.open({}, mode="r")
    assert type(caught.value).__name__ == "GroupNotFoundError"
    with pytest.raises(zarr.errors.ArrayNotFoundError) as missing:
        zarr.open_array({}, mode="r")
    assert type(missing.value).__name__ == "ArrayNotFoundError"


STATEMENTS = Path(__file__).with_name("statements.txt")
PROGRAM = Path(__file__).with_name("run_statements.py")


def _results(tmp_path: Path, *, ours: bool) -> dict[str, Any]:
    folder = tmp_path / ("ours" if ours else "theirs")
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "ours" if ours else "theirs", str(STATEMENTS)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("statements")
    return _results(folder, ours=False), _results(folder, ours=True)


def _blocks() -> list[str]:
    return [block.strip() for block in STATEMENTS.read_text().split("\n---\n")]


@pytest.mark.parametrize("block", _blocks(), ids=lambda block: block.splitlines()[-1][:60])
def test_results_and_warnings_are_the_same(
    both: tuple[dict[str, Any], dict[str, Any]], block: str
) -> None:
    theirs, ours = both[0][block], both[1][block]
    assert ours["result"] == theirs["result"]
    # An error of ours is also one of zarr-python's classes for the case.
    assert set(theirs["error"]) <= set(ours["error"])
    assert ours["warnings"] == theirs["warnings"]
