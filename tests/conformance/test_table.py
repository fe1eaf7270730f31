"""docs/conformance.md names, for every requirement, the test that shows it or why none does."""

from __future__ import annotations

from tests.conformance.table import all_ids, evidence, rows, shown
from tests.conformance.waiting import PARTLY, WAITING


def test_every_requirement_has_a_row() -> None:
    assert list(rows()) == all_ids()


def test_every_row_is_shown_by_a_test_or_says_why_not() -> None:
    tests = shown()
    assert [i for i in all_ids() if i not in tests and i not in WAITING] == []


def test_no_test_shows_a_row_that_does_not_exist() -> None:
    assert set(shown()) <= set(all_ids())
    assert set(WAITING) | set(PARTLY) <= set(all_ids())
    assert not set(WAITING) & set(PARTLY)


def test_the_table_names_the_tests_that_exist_now() -> None:
    tests = shown()
    stale = {i: told for i, (_, told) in rows().items() if told != evidence(i, tests)}
    assert stale == {}, "run: python -m tests.conformance.table"
