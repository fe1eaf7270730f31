"""Every format reads the model that it writes, and lists every problem of its metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.formats import Format, by_name, consolidated
from omnizarr.formats.detect import guess_format
from omnizarr.model import ArrayModel, GroupModel, Named, Node
from tests.property.strategies import FORMATS, described, json_values

NAMES = st.text("abcdefgh_", min_size=1, max_size=4)
ATTRIBUTES = st.dictionaries(NAMES, json_values(), max_size=3)
# The fields of array metadata that can be wrong independently of each other.
FIELDS = {
    1: "zarr_format shape chunks dtype compression order",
    2: "zarr_format shape chunks dtype compressor filters order dimension_separator",
    "3-draft": "shape data_type chunk_grid chunk_memory_layout codecs storage_transformers"
    " extensions attributes",
    3: "zarr_format node_type shape data_type chunk_grid chunk_key_encoding codecs attributes"
    " dimension_names storage_transformers",
}


def read(format: Format, path: str, documents: Mapping[str, bytes | None]) -> Node:
    """Read a node from the documents that a format wrote; nothing in them is unusual."""
    problems: list[Problem] = []
    node = format.read(path, {k: v for k, v in documents.items() if v is not None}, problems)
    assert problems == []
    assert node is not None
    return node


@st.composite
def arrays(draw: st.DrawFn, format: int | str) -> ArrayModel:
    """Draw the model of an array that a format can express."""
    array = draw(described(format, shards=True))
    node = array.create({}, attributes=draw(ATTRIBUTES))._model
    if draw(st.booleans()):
        rank = len(node.shape)
        names = draw(st.lists(NAMES, min_size=rank, max_size=rank, unique=True))
        node = node.with_(dimension_names=tuple(names) or None)
    return node


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25)
@given(data=st.data())
def test_an_array_is_read_as_it_was_written(name: int | str, data: st.DataObject) -> None:
    format, model = by_name(name), data.draw(arrays(name))
    path = "" if name == 1 else data.draw(st.sampled_from(("", "a", "a/b")))
    documents = format.write(path, model)
    found = read(format, path, documents)
    assert found == model or names_are_attributes(format, found, model)
    assert format.write(path, found) == documents
    assert {key for key, text in documents.items() if text is not None} <= set(format.keys(path))


def names_are_attributes(format: Format, found: Node, model: ArrayModel) -> bool:
    """Return True if models differ only in the attribute that holds the dimension names."""
    attributes = {**model.attributes, "_ARRAY_DIMENSIONS": list(model.dimension_names or ())}
    return format.names_in_attributes and found == model.with_(attributes=attributes)


@pytest.mark.parametrize("name", FORMATS[1:])
@given(attributes=ATTRIBUTES, path=st.sampled_from(("", "a", "a/b")))
def test_a_group_is_read_as_it_was_written(
    name: int | str, attributes: dict[str, Any], path: str
) -> None:
    format, model = by_name(name), GroupModel(attributes)
    documents = format.write(path, model)
    found = read(format, path, documents)
    assert found.attributes == attributes
    assert format.write(path, found) == documents


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25)
@given(data=st.data())
def test_the_format_of_one_document_is_guessed(name: int | str, data: st.DataObject) -> None:
    format = by_name(name)
    text = format.write("", data.draw(arrays(name)))[format.keys("")[0]]
    assert text is not None
    guessed = guess_format(json.loads(text), text)
    assert guessed is not None
    assert guessed[0].name == format.name
    assert isinstance(format.read("", guessed[1], []), ArrayModel)


def test_the_entry_point_of_the_draft_describes_no_node() -> None:
    [entry] = by_name("3-draft").root_documents().values()
    assert guess_format(json.loads(entry), entry) is None


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25)
@given(data=st.data())
def test_every_problem_is_listed_with_its_key_and_field(
    name: int | str, data: st.DataObject
) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(4, 4), chunks=(2, 2), dtype="i4", zarr_format=name)
    format = by_name(name)
    key = format.keys("")[0]
    wrong = data.draw(st.sets(st.sampled_from(FIELDS[name].split()), min_size=1))
    metadata = {**json.loads(store[key]), **dict.fromkeys(wrong, 3.5)}
    with pytest.raises(InvalidMetadata) as error:
        format.read("", {**store, key: json.dumps(metadata).encode()}, [])
    assert {p.key for p in error.value.problems} == {key}
    assert wrong <= {p.field for p in error.value.problems}
    assert all(f"{p.field}: " in str(error.value) for p in error.value.problems)


@pytest.mark.parametrize("name", [2, 3])
@settings(max_examples=25)
@given(data=st.data())
def test_consolidated_metadata_are_read_as_the_nodes_that_were_written(
    name: int, data: st.DataObject
) -> None:
    format = by_name(name)
    nodes: dict[str, Node] = {"": GroupModel(data.draw(ATTRIBUTES))}
    nodes["a"] = GroupModel(data.draw(ATTRIBUTES))
    nodes["a/b"] = data.draw(arrays(name)).with_(dimension_names=None)
    [(key, text)] = consolidated.write(format, "", nodes).items()
    entries = consolidated.read(format, text, key)
    assert entries is not None
    found = {path: consolidated.node(format, path, entry) for path, entry in entries.items()}
    assert {**nodes, **found} == nodes
    assert found.keys() | {""} == nodes.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_an_unknown_codec_is_read_and_written_unchanged(name: int | str) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=4, dtype="i4", zarr_format=name, compressors=None)
    format = by_name(name)
    node = read(format, "", {k: v for k, v in store.items() if k in format.keys("")})
    assert isinstance(node, ArrayModel)
    uri = "https://example.org/codec"
    unknown = Named(uri if name == "3-draft" else "example" if name == 3 else "numcodecs.example")
    if name == 1:
        unknown = unknown.replace(level=1)
    documents = format.write("", node.with_(codecs=(*node.codecs, unknown)))
    again = read(format, "", documents)
    assert isinstance(again, ArrayModel)
    assert again.codecs[-1].name == unknown.name
    assert format.write("", again) == documents
