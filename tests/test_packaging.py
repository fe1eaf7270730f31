"""The extras in pyproject.toml, in the docs and in error messages agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_extra_all_includes_every_other_except_testing() -> None:
    (whole,) = map(Requirement, EXTRAS["all"])
    assert whole.name == PROJECT["name"]
    assert whole.extras == EXTRAS.keys() - {"all", "testing"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_is_listed_in_the_docs(extra: str) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    (section,) = re.findall(r"^## Optional packages$(.*)", page, re.M | re.S)
    (row,) = re.findall(rf"^\| `{extra}` \| (.*) \|$", section, re.M)
    for requirement in map(Requirement, EXTRAS[extra]):
        assert extra == "all" or requirement.name in row


def test_errors_name_existing_extras() -> None:
    texts = [path.read_text() for path in (ROOT / "src" / "omnizarr").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"omnizarr\[(\w+)\]", text)}
    assert named
    assert named <= EXTRAS.keys()
