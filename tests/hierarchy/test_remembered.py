"""Documents that are parsed once, and models that are bound once, are shared without a leak."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr import registry
from omnizarr._json import dumps
from omnizarr.formats import remembered
from omnizarr.model import Node

FORMATS = (1, 2, 3, "3-draft")


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_user_does_with_attributes_changes_no_other_handle(format: Any) -> None:
    store: dict[str, bytes] = {}
    given = {"list": [1, {"deep": [2]}], "dict": {"a": {}}}
    oz.create_array(store, shape=(2,), dtype="u1", zarr_format=format, attributes=given)
    first, second = oz.open(store), oz.open(store)
    first.attrs["list"][1]["deep"].append(3)
    first.attrs.asdict()["dict"]["a"]["b"] = 1
    dict(first.attrs)["list"].clear()
    assert first.attrs == given
    assert second.attrs == given
    assert oz.open(store).attrs == given


@pytest.mark.parametrize("format", FORMATS)
def test_equal_arrays_change_apart(format: Any) -> None:
    stores: list[dict[str, bytes]] = [{}, {}]
    a, b = (oz.create_array(s, shape=(2,), dtype="i4", zarr_format=format) for s in stores)
    a[...] = [1, 2]
    a.append([3])
    a.attrs["x"] = 1
    assert (a.shape, b.shape) == ((3,), (2,))
    assert b[...].tolist() == [0, 0]
    assert dict(b.attrs) == {}
    assert oz.open(stores[0])[...].tolist() == [1, 2, 3]


def test_a_codec_that_becomes_known_is_used_by_arrays_that_are_opened_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_table", dict(registry._table))
    store: dict[str, bytes] = {}
    oz.create_array(store, data=np.arange(3, dtype="u1"), codecs=["bytes", "crc32c"])
    store["zarr.json"] = store["zarr.json"].replace(b"crc32c", b"test.sum")
    with pytest.raises(oz.UnknownExtension, match=r"test\.sum"):
        oz.open(store)[...]
    oz.register("codec", "test.sum", "omnizarr.codecs.crc32c:Crc32c")
    assert oz.open(store)[...].tolist() == [0, 1, 2]


def test_a_wrong_document_is_told_every_time() -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(2,), dtype="u1", zarr_format=2)
    doc = {**json.loads(store[".zarray"]), "odd": 1}
    store[".zarray"] = json.dumps(doc).encode()
    for _ in range(2):
        with pytest.warns(oz.OmnizarrWarning, match="odd"):
            oz.open(store)
    store[".zarray"] = json.dumps({**doc, "shape": [-1]}).encode()
    for _ in range(2):
        with pytest.raises(oz.InvalidMetadata, match="shape"):
            oz.open(store)


def test_what_is_kept_is_bounded() -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store)
    for i in range(remembered.MOST + 10):
        root.create_array(f"a{i}", shape=(i + 1,), dtype="u1")
    assert len(remembered._models) <= remembered.MOST
    shapes = {name: member.shape for name, member in root.arrays()}
    assert shapes == {f"a{i}": (i + 1,) for i in range(remembered.MOST + 10)}


TEXT = st.text(st.characters(), max_size=5)  # half surrogate pairs too
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.booleans(), st.sampled_from([2, 4]))
def test_texts_of_documents_are_those_of_the_standard_library(
    value: Any, sort_keys: bool, indent: int
) -> None:
    plain = json.dumps(value, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
    try:
        expected = plain.encode()
    except UnicodeEncodeError:
        expected = json.dumps(value, indent=indent, sort_keys=sort_keys).encode()
    for _ in range(2):
        assert dumps(value, indent=indent, sort_keys=sort_keys) == expected


def model(node: Any) -> Node:
    return node.metadata  # type: ignore[no-any-return]


@pytest.mark.parametrize("format", FORMATS)
def test_a_new_node_is_what_will_be_read_of_it(format: Any) -> None:
    store: dict[str, bytes] = {}
    options: dict[str, Any] = {"attributes": {"t": (1, 2), "n": np.float32(0.5)}}
    made = oz.create_array(
        store, shape=(5,), chunks=(2,), dtype="f4", zarr_format=format, **options
    )
    remembered._models.clear()
    assert model(made) == model(oz.open(store))
    made.resize(7)
    remembered._models.clear()
    assert model(made) == model(oz.open(store))
