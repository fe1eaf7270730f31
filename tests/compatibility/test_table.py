"""docs/zarr-python.md says of every name of zarr-python what it is here, and says so rightly."""

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
    rows = {(row.place, row.name) for row in table.rows()}
    wanted = {(place, n) for place, (_, _, names) in table.places().items() for n in names}
    assert rows == wanted
    assert len(rows) > 200


def test_what_is_called_the_same_takes_the_same_parameters() -> None:
    parts = table.places()
    for row in table.rows():
        theirs, ours, _ = parts[row.place]
        if row.status == "same" and theirs is not None:
            lacking = table.parameters(theirs, row.name) - table.accepted(ours, row.name)
            assert lacking == set(), (row.place, row.name)
