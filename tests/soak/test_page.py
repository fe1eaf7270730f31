"""A part that has run replaces its section of the page, and no other."""

from __future__ import annotations

from pathlib import Path

from tests.soak.page import Table, show

FRUIT = Table("Fruit", "What was picked.", ("tree", "apples"))
NUTS = Table("Nuts", "What was found.", ("tree", "nuts"))


def test_running_a_part_replaces_all_its_rows_and_no_others(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    show(FRUIT, [("old", 1), ("new", 2)], page)
    show(NUTS, [("hazel", 7)], page)
    show(FRUIT, [("old", 9)], page)
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## Fruit", "## Nuts"]
    rows = [line for line in lines if line.startswith("| ") and "---" not in line]
    assert rows == ["| tree | apples |", "| old | 9 |", "| tree | nuts |", "| hazel | 7 |"]
