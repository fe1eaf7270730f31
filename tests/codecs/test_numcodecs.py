"""Codecs of numcodecs on version 3 arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import InvalidMetadata

FILTERS: list[tuple[str, dict[str, Any]]] = [
    ("delta", {"dtype": "T"}),
    ("fixedscaleoffset", {"dtype": "T", "astype": "<i2", "offset": 0, "scale": 1}),
    ("astype", {"decode_dtype": "T", "encode_dtype": "<i2"}),
    ("quantize", {"dtype": "T", "digits": 1}),
]


@pytest.mark.parametrize("stated", ["<f4", ">f4", "<f8", "<f2"])
@pytest.mark.parametrize(("name", "settings"), FILTERS, ids=[name for name, _ in FILTERS])
def test_a_filter_for_items_of_another_size_is_refused(
    name: str, settings: dict[str, Any], stated: str
) -> None:
    given = {key: stated if value == "T" else value for key, value in settings.items()}
    filters = [{"name": f"numcodecs.{name}", "configuration": given}]
    options: Any = {"shape": 8, "chunks": 4, "dtype": "f4", "filters": filters}
    if np.dtype(stated).itemsize == 4:
        array = oz.create_array(oz.MemoryStore(), **options)
        array[...] = np.arange(8)
        np.testing.assert_array_equal(array[...], np.arange(8))
        return
    with pytest.raises(InvalidMetadata, match="give it the dtype of the array"):
        oz.create_array(oz.MemoryStore(), **options)
