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
