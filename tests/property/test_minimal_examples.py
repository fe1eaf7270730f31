"""Minimal examples of the failures that random tests found."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr
from omnizarr import ChunkError, InvalidMetadata


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


def _version_3(**changes: Any) -> dict[str, bytes]:
    store: dict[str, bytes] = {}
    omnizarr.create_array(store, shape=2, dtype="i4")
    document = {**json.loads(store["zarr.json"]), **changes}
    return {"zarr.json": json.dumps(document).encode()}


def _record(field: dict[str, Any]) -> dict[str, Any]:
    fields = [{"name": "a", "data_type": "int32", **field}]
    return {"name": "struct", "configuration": {"fields": fields}}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"data_type": _record({"data_type": {"name": "int8", "configuration": 3}})}, "data_type"),
        ({"data_type": _record({"shape": 3})}, "shape"),
        ({"data_type": _record({"shape": "ab"})}, "shape"),
        ({"data_type": _record({"shape": [2**31]})}, "shape"),
        ({"data_type": _record({"shape": [2**16, 2**16]})}, "shape"),
        ({"data_type": _record({"data_type": {"name": None}})}, "data_type"),
        (
            {
                "codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {
                        "name": "blosc",
                        "configuration": {"cname": "lz4", "clevel": 5, "shuffle": {}},
                    },
                ]
            },
            "shuffle",
        ),
    ],
)
def test_invalid_members_deep_in_metadata_are_named(changes: dict[str, Any], named: str) -> None:
    store = _version_3(**changes)
    with pytest.raises(InvalidMetadata, match=named):
        omnizarr.open(store)
    problems = omnizarr.validate(store)
    assert any(named in str(p) and p.level == "error" for p in problems)


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
