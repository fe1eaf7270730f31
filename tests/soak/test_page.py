"""A run updates the page of results row by row and keeps the rows of other parts."""

from __future__ import annotations

from pathlib import Path

from tests.soak.page import Table, show

FRUIT = Table("Fruit", "What was picked.", ("tree", "side", "apples"), labels=2)
NUTS = Table("Nuts", "What was found.", ("tree", "nuts"))


def test_a_row_replaces_the_one_with_the_same_labels(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    show(FRUIT, [("old", "north", 1), ("old", "south", 2)], page=page)
    show(NUTS, [("hazel", 7)], page=page)
    show(FRUIT, [("old", "north", 9), ("new", "north", 4)], replace=False, page=page)
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## Fruit", "## Nuts"]
    rows = ["| old | north | 9 |", "| old | south | 2 |", "| new | north | 4 |", "| hazel | 7 |"]
    assert [line for line in lines if line.startswith("|")][2:5] + lines[-1:] == rows


def test_running_a_whole_part_replaces_all_its_rows(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    show(NUTS, [("hazel", 7), ("walnut", 3)], page=page)
    show(NUTS, [("walnut", 5)], page=page)
    text = page.read_text()
    assert "hazel" not in text
    assert text.count("walnut") == 1
    assert text.startswith("# Reliability\n")
