"""The layout of the tree: few files of one concept each, and tests that are found by their path."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import omnizarr

SOURCE = Path(omnizarr.__file__).parent
TESTS = Path(__file__).parents[1]
MODULES = sorted(SOURCE.rglob("*.py"))

# Test files that are about several modules of their folder.
SHARED = {
    "formats/test_roundtrip.py",
    "stores/test_databases.py",
    "stores/test_remote_suites.py",
    "stores/test_replaced_files.py",
    "stores/test_suites.py",
}


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def _docstring_lines(path: Path) -> int:
    """Return the lines of docstrings, which are for readers of the reference, not of the code."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, kinds)]
    first = [n.body[0] for n in nodes if ast.get_docstring(n, clean=False) is not None]
    return sum((d.end_lineno or d.lineno) - d.lineno + 1 for d in first)


def test_no_folder_has_more_than_eighteen_files() -> None:
    counts = Counter(path.parent for path in MODULES)
    assert {str(f.relative_to(SOURCE)): n for f, n in counts.items() if n > 18} == {}


def test_there_are_at_most_302_modules() -> None:
    assert len(MODULES) <= 302


def test_no_module_has_more_than_600_lines_without_docstrings() -> None:
    sizes = {path: _lines(path) - _docstring_lines(path) for path in MODULES}
    assert {str(path.relative_to(SOURCE)): n for path, n in sizes.items() if n > 600} == {}


def test_few_modules_have_fewer_than_60_lines() -> None:
    small = [p for p in MODULES if p.name not in ("__init__.py", "__main__.py") and _lines(p) < 60]
    # The doors of the package (cf, geo, xarray, ome, storage) and its version are small by nature.
    assert len([p for p in small if p.parent != SOURCE]) <= 5, small


def _packages() -> list[Path]:
    # The draft's tests are tests/conformance/test_draft_*.py and the round trips of all formats.
    elsewhere = {SOURCE, SOURCE / "conventions", SOURCE / "formats" / "draft"}
    folders = {path.parent for path in MODULES} - elsewhere
    return sorted(f for f in folders if "testing" not in f.parts)


@pytest.mark.parametrize("package", _packages(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_package_has_tests_that_are_named_after_its_modules(package: Path) -> None:
    inside = package.relative_to(SOURCE)
    modules = {path.stem for path in package.glob("*.py")} | {f.name for f in package.iterdir()}
    found = sorted((TESTS / inside).glob("test_*.py"))
    assert found
    others = [
        str(inside / path.name)
        for path in found
        if not any(f"{path.stem}_".startswith(f"test_{module}_") for module in modules)
    ]
    assert set(others) - SHARED == set()
