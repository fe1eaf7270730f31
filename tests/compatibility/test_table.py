"""docs/zarr-python.md describes every name of zarr-python correctly."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.compatibility import table

pytestmark = pytest.mark.skipif(
    version("zarr") != table.VERSION, reason=f"the page is about zarr-python {table.VERSION}"
)


def test_the_page_has_the_table_of_the_installed_zarr_python() -> None:
    page = table.PAGE.read_text()
    found = page.partition(table.START)[2].partition(table.END)[0]
    assert found == table.text(), "python -m tests.compatibility.table writes it"


def test_every_public_name_has_a_row() -> None:
    rows = {(row.part, row.name) for row in table.rows()}
    wanted = {(part, n) for part, (_, _, names) in table.parts().items() for n in names}
    assert rows == wanted
    assert len(rows) > 200


def test_functions_of_the_same_name_take_the_same_parameters() -> None:
    parts = table.parts()
    for row in table.rows():
        theirs, ours, _ = parts[row.part]
        if row.status == "same" and theirs is not None:
            lacking = table.parameters(theirs, row.name) - table.accepted(ours, row.name)
            assert lacking == set(), (row.part, row.name)
