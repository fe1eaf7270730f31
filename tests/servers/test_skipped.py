"""The line about skipped tests at the end of a test run."""

from __future__ import annotations

from tests.servers.skipped import summary


def test_there_is_no_line_if_nothing_was_skipped() -> None:
    assert summary([]) == ""


def test_missing_packages_are_named_once_and_other_reasons_counted() -> None:
    redis = "Skipped: redis-server is not installed (apt-get install redis-server)"
    azurite = "Skipped: azurite-blob is not installed (install npm)"
    line = summary([azurite, redis, redis, "Skipped: there is no fork here", "another reason"])
    assert line == (
        "skipped 5 tests: 2 because redis-server is not installed (apt-get install redis-server);"
        " 1 because azurite-blob is not installed (install npm);"
        " 2 for other reasons (pytest -rs lists them)"
    )
