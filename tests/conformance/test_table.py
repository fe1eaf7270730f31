"""docs/generated/conformance.md names the tests of every requirement, or why there are none."""

from __future__ import annotations

from tests.conformance.table import all_ids, evidence, rows, shown
from tests.conformance.unmet import PARTLY, UNMET


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
