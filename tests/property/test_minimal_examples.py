"""Minimal examples of the failures that random tests found."""

from __future__ import annotations

import numpy as np
import pytest

import omnizarr
from omnizarr import ChunkError


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("record", [False, True])
def test_text_with_an_impossible_code_point_is_an_error(order: str, record: bool) -> None:
    store: dict[str, bytes] = {}
    dtype = np.dtype([("t", f"{order}U1")] if record else f"{order}U1")
    omnizarr.create_array(store, shape=1, dtype=dtype, zarr_format=2, compressors=None)
    code = int.from_bytes(b"\x00\x11\x00\x00", "big")
    store["0"] = np.array(code, f"{order}u4").tobytes()
    with pytest.raises(ChunkError, match=r"U\+10FFFF"):
        omnizarr.open(store)[...]
    store["0"] = np.array(0x10FFFF, f"{order}u4").tobytes()
    assert omnizarr.open(store)[...].tolist() == [("\U0010ffff",) if record else "\U0010ffff"]


@pytest.mark.parametrize("format", [1, 2, "3-draft", 3])
def test_a_lone_surrogate_in_attributes_is_kept(format: int | str) -> None:
    store: dict[str, bytes] = {}
    attributes = {"é": "\ud800"}
    omnizarr.create_array(store, shape=1, dtype="i4", zarr_format=format, attributes=attributes)
    array = omnizarr.open(store, mode="r+")
    assert dict(array.attrs) == attributes
    array.attrs["b"] = 1
    assert dict(omnizarr.open(store).attrs) == {**attributes, "b": 1}
    assert omnizarr.validate(store) == []
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    assert omnizarr.validate(group) == []
