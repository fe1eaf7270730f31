"""The store of docs/stores.md passes the suites, and a store that lacks one is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from omnizarr import stores
from omnizarr.stores import LocalStore

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


def test_a_directory_named_zip_is_opened_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "x.zip").mkdir()
    assert type(stores.resolve(tmp_path / "x.zip")) is LocalStore
