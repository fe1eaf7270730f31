"""The tables of requirements and of registered extensions agree with tests and library."""

from __future__ import annotations

from tests.conformance.register import DATE, NAMES, PAGE, shown_table, table
from tests.conformance.table import PARTLY, UNMET, all_ids, evidence, rows, shown


def test_every_requirement_has_a_row() -> None:
    assert list(rows()) == all_ids()


def test_every_row_has_a_test_or_a_reason() -> None:
    tests = shown()
    assert [i for i in all_ids() if i not in tests and i not in UNMET] == []


def test_every_marked_row_exists() -> None:
    assert set(shown()) <= set(all_ids())
    assert set(UNMET) | set(PARTLY) <= set(all_ids())
    assert not set(UNMET) & set(PARTLY)


def test_the_table_is_up_to_date() -> None:
    tests = shown()
    stale = {i: stated for i, (_, stated) in rows().items() if stated != evidence(i, tests)}
    assert stale == {}, "run: python -m tests.conformance.table"


def test_the_table_of_registered_names_is_what_the_library_does() -> None:
    assert shown_table() == table(), "run: python -m tests.conformance.register"
    assert DATE in PAGE.read_text()


def test_every_registered_name_is_in_the_table_once() -> None:
    shown: dict[str, list[str]] = {}
    for line in shown_table().splitlines()[2:]:
        kind, names = line.strip("| ").split(" | ")[:2]
        shown.setdefault(kind.replace(" ", "_"), []).extend(names.split("`")[1::2])
    wanted = {kind: sorted(names) for kind, names in NAMES.items()}
    found = {kind: sorted(n.replace("r<bits>", "r") for n in shown[kind]) for kind in shown}
    assert found == wanted
