"""CHANGELOG.md and the fragments that are merged into it."""

from __future__ import annotations

import datetime
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MERGE = runpy.run_path(str(ROOT / "changes" / "merge.py"))
START = "# Changelog\n\n## [Unreleased]\n"


def test_the_changelog_has_the_sections_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert text == MERGE["merge"](text, [])
    assert re.findall(r"^## (.*)$", text, re.M)[0] == "[Unreleased]"
    assert {title.lower() for title in re.findall(r"^### (.*)$", text, re.M)} <= {*MERGE["KINDS"]}
    assert all(re.match(r"- \*\*.+:\*\* ", b) for b in re.findall(r"^- .*$", text, re.M))


def test_every_fragment_says_its_kind() -> None:
    assert MERGE["fragments"](ROOT / "changes").keys() == {
        *(ROOT / "changes").glob("*.*.md")
    }  # raises SystemExit and names the file otherwise


def test_sections_are_ordered_and_old_entries_kept() -> None:
    old = "## [0.1.0] - 2026-01-01\n\n### Fixed\n\n- **Old:** entry.\n"
    once = MERGE["merge"](f"{START}\n{old}", [("fixed", "**A:** one.\n"), ("added", "**B:** two.")])
    twice = MERGE["merge"](once, [("fixed", f"**C:** {'long ' * 30}\nend.")])
    long = f"- **C:** {('long ' * 18).strip()}\n  {'long ' * 12}end."
    assert twice == (
        f"{START}\n### Added\n\n- **B:** two.\n\n"
        f"### Fixed\n\n- **A:** one.\n{long}\n\n{old}"
    )  # fmt: skip


def test_a_release_takes_over_the_unreleased_entries() -> None:
    text = MERGE["merge"](START, [("added", "**A:** one.")])
    day = datetime.date(2026, 12, 1)
    released = MERGE["release"](text, "0.1.0", day)
    assert released == (
        f"{START}\n## [0.1.0] - 2026-12-01\n\n### Added\n\n- **A:** one.\n"
    )  # fmt: skip
    with pytest.raises(SystemExit, match=r"version 0\.1\.0 already"):
        MERGE["release"](released, "0.1.0", day)


def test_the_script_moves_fragments(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "changes", tmp_path / "changes", ignore=shutil.ignore_patterns("*.*.md"))
    (tmp_path / "CHANGELOG.md").write_text(START)
    (tmp_path / "changes" / "zip.added.md").write_text("**Stores:** something\nnew.\n")
    script = [sys.executable, str(tmp_path / "changes" / "merge.py")]
    subprocess.run(script, check=True, cwd=tmp_path)
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        f"{START}\n### Added\n\n- **Stores:** something new.\n"
    )
    assert not [*(tmp_path / "changes").glob("*.*.md")]
    subprocess.run([*script, "0.1.0"], check=True, cwd=tmp_path)
    assert f"## [0.1.0] - {datetime.date.today()}" in (tmp_path / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [("zip.md", "x"), ("zip.new.md", "x"), (".added.md", "x"), ("a.added.md", " ")],
)
def test_a_fragment_without_kind_or_text_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit, match=r"expected one sentence in <topic>\.<kind>\.md"):
        MERGE["fragments"](tmp_path)
