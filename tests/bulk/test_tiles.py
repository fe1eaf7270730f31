"""The axes of an array as they are stored and read, and tiles that have stored chunks."""

from __future__ import annotations

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.bulk.tiles import chunk_axes, item_bytes, stored_axes
from omnizarr.extension import RegularAxis


@pytest.mark.parametrize(
    ("options", "stored", "chunks"),
    [
        ({"chunks": 3}, 3, 3),
        ({"chunks": 3, "shards": 6}, 6, 3),
        ({"chunks": 3, "shards": 6, "zarr_format": "3-draft"}, 6, 3),
    ],
)
def test_axes_are_those_of_shards_or_of_chunks(
    options: dict[str, int], stored: int, chunks: int
) -> None:
    array = oz.create_array({}, shape=10, dtype="u1", **options)  # type: ignore[arg-type]
    assert stored_axes(array) == (RegularAxis(10, stored),)
    assert chunk_axes(array) == (RegularAxis(10, chunks),)


def test_text_counts_as_a_guess() -> None:
    assert item_bytes("f4") == 4
    assert item_bytes(str) == item_bytes(np.dtypes.StringDType()) == item_bytes(object) == 128
