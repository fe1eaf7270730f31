"""Tests are found by the path of the module that they are about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import pure
from tests.architecture.sources import MODULES, SOURCE

TESTS = Path(__file__).parents[1]

# Test files that are about several modules of their folder.
SHARED = {
    "formats/test_roundtrip.py",
    "stores/test_remote_suites.py",
    "stores/test_replaced_files.py",
}


def _packages() -> list[Path]:
    # The draft's tests are tests/conformance/test_draft_*.py and the round trips of all formats;
    # the door has names, and tests in architecture/.
    others = ("conventions", "extension")
    elsewhere = {SOURCE, *(SOURCE / other for other in others)}
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


def test_the_tests_without_compiled_modules_are_there() -> None:
    assert [path for path in pure.TESTS if not (TESTS.parent / path).exists()] == []


def test_the_map_of_contributors_names_modules_that_are_there() -> None:
    rows = re.findall(
        r"^\| `(\w+)/` \| (.*) \|$", (TESTS.parent / "CONTRIBUTING.md").read_text(), re.M
    )
    parts = [(SOURCE / folder, text) for folder, text in rows if (SOURCE / folder).is_dir()]
    assert len(parts) > 10
    gone = []
    for folder, text in parts:
        there = {path.stem for path in folder.rglob("*")}
        names = re.findall(r"`(\w+)/?`", text)
        gone += [f"{folder.name}: {n}" for n in names if n not in there | {"oindex", "vindex"}]
    assert gone == []
