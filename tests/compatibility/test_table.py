"""docs/generated/zarr-names.md describes every name of zarr-python correctly."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.compatibility import names, table


def test_the_page_has_the_table_of_the_newest_zarr_python() -> None:
    page = table.PAGE.read_text()
    found = page.partition(table.START)[2].partition(table.END)[0]
    assert found == table.text(), "python -m tests.compatibility.table writes it"
    assert names.listed()["version"] in page


@pytest.mark.skipif(
    version("zarr") != names.listed()["version"], reason="the names are of another zarr-python"
)
def test_the_names_are_those_of_zarr_python() -> None:
    assert names.listed() == names.installed(), "python -m tests.compatibility.names writes them"


def test_every_public_name_has_a_row() -> None:
    rows = {(row.part, row.name) for row in table.rows()}
    wanted = {(part, n) for part, (_, theirs) in table.parts().items() for n in theirs}
    assert rows == wanted
    assert len(rows) > 200


def test_functions_of_the_same_name_take_the_same_parameters() -> None:
    parts = table.parts()
    for row in table.rows():
        ours, theirs = parts[row.part]
        if row.status == "same":
            taken = set(theirs[row.name])
            lacking = taken - table.accepted(ours, row.name, taken)
            assert lacking == set(), (row.part, row.name)
