"""Metadata that is parsed once, and models that are bound once, are shared without a leak."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr._json import dumps
from omnizarr.concurrency import cache
from omnizarr.errors import InvalidMetadata
from omnizarr.formats import by_name
from omnizarr.formats import format as metadata_cache
from omnizarr.formats.v3 import V3
from omnizarr.model import ArrayModel, FillValue, Named, Node


@pytest.mark.parametrize("format", [2, 3])
def test_consolidated_metadata_that_were_handed_out_change_no_node(format: int) -> None:
    """A7: the models that a group's consolidated metadata give are shared too."""
    store: dict[str, bytes] = {}
    oz.create_group(store, zarr_format=format).create_group("a", attributes={"list": [1]})
    oz.consolidate_metadata(store)
    nodes = oz.open(store).consolidated
    assert nodes is not None
    with pytest.raises(TypeError):
        nodes["a"].attributes["list"].append(2)
    nodes.clear()
    again = oz.open(store, use_consolidated=True)
    assert dict(again["a"].attrs) == {"list": [1]}
    assert set(again.consolidated or ()) == {"a"}


@pytest.mark.usefixtures("own_names")
def test_a_codec_that_becomes_known_is_used_by_arrays_that_are_opened_then() -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, data=np.arange(3, dtype="u1"), codecs=["bytes", "crc32c"])
    store["zarr.json"] = store["zarr.json"].replace(b"crc32c", b"test.sum")
    with pytest.raises(oz.UnknownExtension, match=r"test\.sum"):
        oz.open(store)[...]
    oz.register("codec", "test.sum", "omnizarr.codecs.compressors:Crc32c")
    assert oz.open(store)[...].tolist() == [0, 1, 2]


def test_invalid_metadata_is_reported_every_time() -> None:
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


def test_the_cache_is_bounded() -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store)
    for i in range(metadata_cache._models.size + 10):
        root.create_array(f"a{i}", shape=(i + 1,), dtype="u1")
    assert len(metadata_cache._models) <= metadata_cache._models.size
    shapes = {name: member.shape for name, member in root.arrays()}
    assert shapes == {f"a{i}": (i + 1,) for i in range(metadata_cache._models.size + 10)}


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
def test_metadata_is_serialised_as_by_the_standard_library(
    value: Any, sort_keys: bool, indent: int
) -> None:
    plain = json.dumps(value, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
    try:
        expected = plain.encode()
    except UnicodeEncodeError:
        expected = json.dumps(value, indent=indent, sort_keys=sort_keys).encode()
    assert dumps(value, indent=indent, sort_keys=sort_keys) == expected


def test_options_that_a_caller_changes_later_change_no_array() -> None:
    given = {"attributes": {"a": [1]}, "codecs": [{"name": "bytes"}], "chunks": [2]}
    stores: list[dict[str, bytes]] = [{}, {}]
    oz.create_array(stores[0], shape=[4], dtype="u1", **given)
    given["attributes"]["a"].append(2)  # type: ignore[call-overload,index]
    given["codecs"].append({"name": "crc32c"})  # type: ignore[attr-defined]
    oz.create_array(stores[1], shape=[4], dtype="u1", **given)
    first, second = (oz.open(store) for store in stores)
    assert (dict(first.attrs), dict(second.attrs)) == ({"a": [1]}, {"a": [1, 2]})
    assert [len(a.metadata.codecs) for a in (first, second)] == [1, 2]


ATTRIBUTES: list[dict[str, Any]] = [
    {},
    {"a": 1},
    {"a": True},
    {"a": 1.0},
    {"shape": [0, 0]},
    {"x": '\n  "shape": [\n    0\n  ]', "shape": []},
]


def made_up(shape: list[int], attributes: dict[str, Any]) -> ArrayModel:
    rank = len(shape)
    return ArrayModel(
        shape=tuple(shape),
        data_type=Named("float32"),
        chunk_grid=Named("regular", {"chunk_shape": [1] * rank}),
        chunk_key_encoding=Named("default", {"separator": "/"}),
        fill_value=FillValue(0, "v3"),
        codecs=(Named("transpose", {"order": [*range(rank)]}), Named("bytes")),
        attributes=attributes,
        dimension_names=("shape",) * rank,
    )


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2**40), max_size=3), st.sampled_from(ATTRIBUTES), st.booleans()
        ),
        max_size=6,
    )
)
def test_cached_metadata_is_written_like_new_metadata(
    steps: list[tuple[list[int], dict[str, Any], bool]],
) -> None:
    format = by_name(3)
    assert isinstance(format, V3)
    node = made_up([], {})
    for shape, attributes, anew in steps:
        keep = len(shape) == len(node.shape) and not anew  # the last one, with another shape
        node = node.with_(shape=tuple(shape)) if keep else made_up(shape, attributes)
        [text] = format.write("x", node).values()
        assert text == dumps(format.document(node), indent=2)


NUMBERS = st.integers(0, 2**70).map(str) | st.sampled_from(
    ["01", "1_0", "+1", "-1", "1.0", "1e3", "true", "", "[]", " 7", '"7"', "\u0663", "9" * 5000]
)


@given(st.lists(NUMBERS, max_size=3), st.sampled_from(ATTRIBUTES))
def test_metadata_with_another_shape_is_read_like_new_metadata(
    numbers: list[str], attributes: dict[str, Any]
) -> None:
    format = V3()
    for rank in range(4):
        [known] = format.write("x", made_up([5] * rank, attributes)).values()
        format.read("x", {"x/zarr.json": known}, [])
    shape = ",\n    ".join(numbers)
    [text] = format.write("x", made_up([5] * len(numbers), attributes)).values()
    text = text.replace(b",\n    ".join([b"5"] * len(numbers)), shape.encode(), 1)
    results: list[Any] = []
    for read in (
        lambda: format._read_document("x/zarr.json", text, []),
        lambda: format.read("x", {"x/zarr.json": text}, []),
    ):
        try:
            results.append(read())
        except oz.InvalidMetadata as e:
            results.append(str(e))
    assert results[0] == results[1]


LOOK_ALIKES: list[tuple[Any, ...]] = [
    ("i4", np.uint8(255), np.int8(-1)),
    ("M8[s]", np.datetime64(1, "D"), np.datetime64(1, "s")),
    ("M8[s]", np.datetime64(7, "D"), np.datetime64(1, "W"), np.datetime64(1, "M")),
    ("m8[ns]", np.timedelta64(1, "us"), np.timedelta64(1, "ns")),
    ("f8", 0.0, -0.0, np.float32(0), np.float32(-0.0), 1, np.uint8(1)),
    ("f8", np.array(1, ">i4"), np.array(1, "<i4"), np.array(16777216, "<i4")),
]


@pytest.mark.parametrize("case", LOOK_ALIKES, ids=str)
def test_a_fill_value_is_the_one_that_was_given(case: tuple[Any, ...]) -> None:
    """A3: options were found by their bytes, which say nothing of type, sign and unit."""
    dtype, *values = case
    group = oz.create_group({})
    for i, value in enumerate([*values, *reversed(values)]):
        found = group.create_array(f"{i}", shape=(1,), dtype=dtype, fill_value=value)[...]
        assert found.tobytes() == np.array(value).astype(dtype).tobytes()


def test_a_type_whose_fields_were_renamed_is_another_type() -> None:
    """A3: NumPy renames the fields of a type in place."""
    group, dtype = oz.create_group({}), np.dtype([("x", "i4"), ("y", "f4")])
    group.create_array("a", shape=(1,), dtype=dtype)
    dtype.names = ("p", "q")
    assert group.create_array("b", shape=(1,), dtype=dtype).dtype.names == ("p", "q")
    assert group["a"].dtype.names == ("x", "y")


names = st.sampled_from(["a", "shape", "attributes", "fill_value"])
values = st.recursive(
    st.none() | st.integers(-3, 3) | st.sampled_from(["", "}", '"', ', "shape": [1]', "]"]),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(names, inside, max_size=2),
    max_leaves=5,
)


@given(
    shapes=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=2), min_size=2, max_size=4),
    attributes=st.lists(st.dictionaries(names, values, max_size=3), min_size=4, max_size=4),
    indent=st.sampled_from([None, 2]),
    damage=st.tuples(st.integers(0, 3), st.integers(0, 2000), st.sampled_from(b'{}[],":1 a')),
)
def test_arrays_that_differ_only_in_attributes_are_read_as_if_they_were_alone(
    shapes: list[list[int]],
    attributes: list[dict[str, Any]],
    indent: int | None,
    damage: tuple[int, int, int],
) -> None:
    texts = []
    for shape, given_attributes in zip(shapes, attributes, strict=False):
        store: dict[str, bytes] = {}
        oz.create_array(store, shape=shape, chunks=(1,) * len(shape), dtype="i4")
        doc = {**json.loads(store["zarr.json"]), "attributes": given_attributes}
        texts.append(json.dumps(doc, indent=indent).encode())
    number, place, byte = damage
    broken = bytearray(texts[number % len(texts)])
    broken[place % len(broken)] = byte

    def read(text: bytes) -> Node | str | None:
        try:
            return V3().read("", {"zarr.json": text}, [])
        except InvalidMetadata as e:
            return str(e)

    for text in [*texts, bytes(broken)]:
        cache.clear_all()
        alone = read(text)
        cache.clear_all()
        assert read(texts[0]) is not None
        assert read(text) == alone
