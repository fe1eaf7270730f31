"""Records of the registered type ``struct``, and of its older spelling ``structured``."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.v3_metadata import array_doc, put, stored

FIELDS = [
    {"name": "id", "data_type": "int32"},
    {"name": "flags", "data_type": "uint8"},
    {"name": "value", "data_type": "float64"},
]
PAIRS = [["id", "int32"], ["flags", "uint8"], ["value", "float64"]]
PACKED = {"little": "<iBd", "big": ">iBd"}


def doc_of(name: str, fields: Any, fill: Any, endian: str | None) -> dict[str, Any]:
    """Return the metadata of an array of records."""
    codec = "bytes" if endian is None else {"name": "bytes", "configuration": {"endian": endian}}
    type_ = {"name": name, "configuration": {"fields": fields}}
    return array_doc(data_type=type_, fill_value=fill, codecs=[codec], shape=[3])


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_fields_are_packed_in_their_order(endian: str, engine: Any) -> None:
    rows = [(1, 2, 0.5), (-3, 255, 1e300), (7, 8, -0.0), (9, 10, 1.0)]
    chunk = b"".join(struct.pack(PACKED[endian], *row) for row in rows)
    fill = {"id": 4, "flags": 5, "value": "NaN"}
    store = put(doc_of("struct", FIELDS, fill, endian), c0=chunk)
    with oz.configure(engine=engine):
        array = oz.open(store, mode="r+")
        assert array[...].tolist() == rows[:3]
        values = array[...]
        array[...] = np.zeros(3, array.dtype)
        array[...] = values
    assert store["c/0"][:39] == chunk[:39]


@pytest.mark.parametrize("endian", [None, "little", "big"])
@pytest.mark.filterwarnings("ignore:.*'bytes' without 'endian'")
def test_a_structured_array_is_read_with_pairs_and_a_base64_fill_value(endian: str | None) -> None:
    """Its bytes are in the order of the chunks."""
    fill = struct.pack(PACKED[endian or "little"], 4, 5, 6.5)
    text = base64.b64encode(fill).decode()
    store = put(doc_of("structured", PAIRS, text, endian))
    array = oz.open(store)
    assert array[...].tolist() == 3 * [(4, 5, 6.5)]
    assert array.fill_value.item() == (4, 5, 6.5)


@pytest.mark.parametrize("endian", ["little", "big"])
def test_a_base64_fill_value_survives_changed_attributes(endian: str) -> None:
    text = base64.b64encode(struct.pack(PACKED[endian], 4, 5, 6.5)).decode()
    store = put(doc_of("structured", PAIRS, text, endian))
    oz.open(store, mode="r+").attrs["a"] = 1
    assert oz.open(store)[...].tolist() == 3 * [(4, 5, 6.5)]


def test_new_arrays_are_never_structured() -> None:
    store: dict[str, bytes] = {}
    inner = {"name": "structured", "configuration": {"fields": [["x", "int16"]]}}
    given = {"name": "structured", "configuration": {"fields": [*PAIRS, ["more", inner]]}}
    oz.create_array(store, shape=3, dtype=given)
    assert "structured" not in store["zarr.json"].decode()
    nested = {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "int16"}]}}
    assert stored(store)["data_type"] == {
        "name": "struct",
        "configuration": {"fields": [*FIELDS, {"name": "more", "data_type": nested}]},
    }


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [{"name": "", "data_type": "int8"}],
        [{"name": "x"}],
        [{"name": "x", "data_type": "int8"}, {"name": "x", "data_type": "int8"}],
        [{"name": "x", "data_type": "string"}],
        [{"name": "x", "data_type": "int8", "more": 1}],
        [{"name": "", "data_type": "r8"}, {"name": "x", "data_type": "int8"}],
    ],
)
def test_malformed_fields_are_refused(fields: Any) -> None:
    with pytest.raises((oz.InvalidMetadata, oz.OmnizarrError), match=r"field|padding"):
        oz.open(put(doc_of("struct", fields, {"x": 0}, "little")), kind="array")[...]


@pytest.mark.parametrize("fill", [0, {}, {"id": 1}, {"id": 1, "flags": 2, "value": 3, "w": 4}])
def test_a_fill_value_states_every_field(fill: Any) -> None:
    with pytest.raises(oz.InvalidMetadata, match="fill_value"):
        oz.open(put(doc_of("struct", FIELDS, fill, "little")), kind="array")[...]


def test_a_field_type_may_be_an_object_without_configuration() -> None:
    fields = [{"name": "x", "data_type": {"name": "float64"}}]
    array = oz.open(put(doc_of("struct", fields, {"x": 1.5}, "little")))
    assert array[...].tolist() == 3 * [(1.5,)]
    assert json.loads(json.dumps(array.metadata.to_dict()))["fill_value"] == {"x": 1.5}
