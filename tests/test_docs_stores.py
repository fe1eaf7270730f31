"""The strings of docs/stores.md name the stated stores, and its own store passes the suites."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from omnizarr import stores
from omnizarr.storage import ZipStore
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore

PAGE = (Path(__file__).parents[1] / "docs" / "stores.md").read_text()


def test_the_suites_run_on_a_user_defined_store_and_a_missing_one_is_reported(
    tmp_path: Path,
) -> None:
    (block,) = re.findall(r"<!-- file: test_shelf.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "test_shelf.py").write_text(block)
    closing = "    def close(self):\n        pass\n\nclass TestShelf"
    lacking = block.replace("\nclass TestShelf", closing)
    (tmp_path / "test_lacking.py").write_text(lacking)
    only = "test_lacking.py::TestShelf::test_every_ability_of_the_store_has_its_suite"
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shelf.py", only]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.findall(r"^FAILED (test_\w+)", done.stdout, re.MULTILINE) == ["test_lacking"]
    assert "TestShelf should also inherit these" in done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 15


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("data/x.zarr", LocalStore),
        ("file:///data/x.zarr", LocalStore),
        ("x.zip", ZipStore),
        ("x.OZX", ZipStore),
        ("file:///data/x.zip", ZipStore),
        ("zip://x.zip", ZipStore),
        ("zip::https://host/download", ZipStore),
        ("https://host/x.zip", ZipStore),
        ("lmdb://data/x.lmdb", LMDBStore),
        ("sqlite://data/x.sqlite", SQLiteStore),
        ("redis://host:6379/0?prefix=zarr", RedisStore),
        ("rediss://host", RedisStore),
        ("unix:///run/redis.sock", RedisStore),
        ("memory://name", MemoryStore),
    ],
)
def test_a_string_names_the_stated_store(where: str, kind: type[object], in_tmp: Path) -> None:
    store = stores.resolve(where)
    assert type(store) is kind
    assert list(in_tmp.iterdir()) == []  # to name a store creates nothing
    if "host/" in where and kind is ZipStore:
        assert repr(store) == f"{where.rpartition('/')[2]} in https://host"


def test_a_directory_named_zip_is_opened_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "x.zip").mkdir()
    assert type(stores.resolve(tmp_path / "x.zip")) is LocalStore
    assert type(stores.resolve(tmp_path / "y.zip")) is ZipStore
