"""Sizes stay within limits.json, whose numbers only fall."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import omnizarr
from tests.architecture.sources import MODULES, SOURCE, parsed
from tests.architecture.test_extension import door_names

TABLE = Path(__file__).with_name("limits.json")
LIMITS: dict[str, int] = json.loads(TABLE.read_text())


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _small_modules() -> int:
    # Those at the top, such as cf, geo and ome, only gather public names.
    inside = [p for p in MODULES if p.parent != SOURCE and p.name != "__init__.py"]
    return sum(_lines(path) < 60 for path in inside)


def _class_names_used_twice() -> int:
    trees = map(parsed, MODULES)
    classes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    names = Counter(node.name for node in classes)
    return sum(number > 1 for number in names.values())


def _public_members(kind: type) -> int:
    return sum(not name.startswith("_") for name in dir(kind))


MEASURES: dict[str, Callable[[], int]] = {
    "modules": lambda: len(MODULES),
    "lines of the largest module": lambda: max(map(_lines, MODULES)),
    "files of the largest folder": lambda: max(Counter(p.parent for p in MODULES).values()),
    "modules below 60 lines": _small_modules,
    "names of the door": lambda: len(door_names()),
    "class names used twice": _class_names_used_twice,
    "public names": lambda: len(omnizarr.__all__),
    "public members of Array": lambda: _public_members(omnizarr.Array),
    "public members of Group": lambda: _public_members(omnizarr.Group),
    "options of create_array": lambda: len(inspect.signature(omnizarr.create_array).parameters),
    "lines of concurrency": lambda: sum(map(_lines, (SOURCE / "concurrency").glob("*.py"))),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_size_is_within_its_limit(name: str) -> None:
    assert MEASURES[name]() <= LIMITS[name]


def test_every_size_has_a_limit() -> None:
    assert MEASURES.keys() == LIMITS.keys()


def raised(versions: list[dict[str, int]]) -> list[str]:
    """Return the limits that a later version of the table has raised or dropped, oldest first."""
    return [
        name
        for before, after in pairwise(versions)
        for name, limit in before.items()
        if after.get(name, limit + 1) > limit
    ]


def test_limits_only_fall() -> None:
    """Compare all versions of the table in the history, and the one in the working tree."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=TABLE.parent, capture_output=True, text=True, check=True
        ).stdout

    try:
        commits = git("log", "--first-parent", "--format=%H", "--", TABLE.name).split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    texts = [git("show", f"{commit}:./{TABLE.name}") for commit in reversed(commits)]
    assert raised([*map(json.loads, texts), LIMITS]) == []


def test_a_raised_or_dropped_limit_is_found() -> None:
    assert raised([{"a": 2, "b": 1}, {"a": 2, "b": 1}, {"a": 1}]) == ["b"]
    assert raised([{"a": 2}, {"a": 1, "b": 5}, {"a": 2, "b": 5}]) == ["a"]
