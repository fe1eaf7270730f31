"""The code of every page runs; tests/test_tutorials.py has that of tutorials and comparisons."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from omnizarr.config import Config
from tests.tutorials import ALONE, COMPARISONS, PAGES, ROOT, TUTORIALS, blocks, renewed

CODE = ("python", "sh", "console")
CLUMSY = re.compile(
    r"\b(so many|no more than|(?:is|are) given|of theirs|what is there|ends it|had better"
    r"|those that|that of)\b",
    re.IGNORECASE,
)
# Pages with code, but for those of which tests/test_tutorials.py runs the code.
ELSEWHERE = {*ALONE, *COMPARISONS, *TUTORIALS}
RUN = [
    page
    for page in PAGES
    if page not in ELSEWHERE
    if any(block.executed and block.language in CODE for block in blocks(page.read_text()))
]


@pytest.mark.parametrize("document", RUN, ids=lambda d: str(d.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_in_order(document: Path, tmp_path: Path) -> None:
    assert renewed(document, tmp_path) == document.read_text()


@pytest.mark.parametrize("document", ALONE, ids=lambda d: d.stem)
def test_the_blocks_of_a_page_run_in_a_process_of_their_own(document: Path) -> None:
    command = [sys.executable, "-m", "tests.tutorials", document.stem]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "as shown" in done.stdout


def test_every_block_says_its_language() -> None:
    languages = {block.language for document in PAGES for block in blocks(document.read_text())}
    assert languages <= {"python", "sh", "console", "text", "json", "toml"}
    indented = [d for d in PAGES if re.search("^ +```(python|sh|console)", d.read_text(), re.M)]
    assert indented == [], "blocks in lists are not executed"


def test_rows_follow_the_head_of_a_table_without_a_gap() -> None:
    assert [d for d in PAGES if re.search(r"^\|[-| :]+\|\n\n\|", d.read_text(), re.M)] == []


@pytest.mark.parametrize("document", PAGES, ids=lambda d: str(d.relative_to(ROOT)))
def test_a_page_is_written_in_plain_words(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    prose = " ".join(text.partition("<!-- promises")[0].split())
    assert CLUMSY.findall(prose) == []
    assert re.findall(r"\[[\w./-]*\.md\]\(", prose) == [], "say what a link leads to"
    if document.stem not in ("install", "troubleshooting"):  # the latter quotes messages
        assert re.findall(r"pip install '?omnizarr", prose) == []


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    defaults = {f.name: f.default for f in fields(Config)}
    assert rows.keys() == defaults.keys()
    for name, default in defaults.items():
        if isinstance(default, str | int):
            quoted = f'"{default}"' if isinstance(default, str) else str(default)
            assert rows[name].strip("`") == quoted


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))
    assert listed == {d.name for d in (ROOT / "docs").glob("*.md")} - {"README.md"}
