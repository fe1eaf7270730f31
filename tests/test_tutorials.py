"""The tutorials print what they show, draw their pictures, and the tables of both columns agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from tests.tutorials import (
    COMPARISONS,
    LARGEST,
    PAGES,
    ROOT,
    TUTORIALS,
    blocks,
    compare,
    matches,
    pictures,
    renewed,
)

# Blocks that no test executes, by the reason in the page. Numbers only fall.
NOT_EXECUTED = Counter(
    {
        "PyTorch is large": 2,
        "it would change the environment of the tests": 1,
        "napari needs a display": 2,
        "needs a cluster": 5,
    }
)


@pytest.mark.parametrize("document", TUTORIALS, ids=lambda d: d.stem)
def test_a_tutorial_prints_and_draws_what_it_shows(document: Path, tmp_path: Path) -> None:
    assert renewed(document, tmp_path) == document.read_text()
    shown = pictures(document)
    assert len(shown) <= 3
    for name in shown:
        with (
            Image.open(tmp_path / "ours" / name) as drawn,
            Image.open(document.with_name(name)) as p,
        ):
            assert drawn.size == p.size, f"python -m tests.tutorials --write {document.stem}"
        assert document.with_name(name).stat().st_size <= LARGEST


@pytest.mark.parametrize("document", COMPARISONS, ids=lambda d: d.stem)
def test_both_columns_run_and_have_the_same_values(document: Path, tmp_path: Path) -> None:
    assert compare(document, tmp_path) >= 3


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = (ROOT / "docs" / "README.md").read_text()
    pages = [*TUTORIALS, *COMPARISONS]
    assert [p for p in pages if f"({p.relative_to(ROOT / 'docs')})" not in listed] == []


def test_every_picture_is_shown() -> None:
    stored = {p.name for page in TUTORIALS for p in page.parent.glob("*.png")}
    assert stored == {name for page in TUTORIALS for name in pictures(page)}


def test_outputs_are_compared_with_wildcards() -> None:
    assert matches("wrote 3 files in ... s\n", "wrote 3 files in 0.25 s  \n\n")
    assert matches("a\n...\nz", "a\nb\nc\nz")
    assert not matches("wrote 3 files", "wrote 4 files")
    assert not matches("", "something")
    assert matches("16 chunks of 820.8 KiB", "16 chunks of 818 KiB")
    assert not matches("16 chunks of 820.8 KiB", "17 chunks of 820.8 KiB")
    assert not matches("820.8 KiB", "620.8 KiB")


def test_few_blocks_are_not_executed() -> None:
    marks = [block.mark for page in PAGES for block in blocks(page.read_text())]
    assert Counter(m.partition("not executed: ")[2] for m in marks if "not" in m) <= NOT_EXECUTED
