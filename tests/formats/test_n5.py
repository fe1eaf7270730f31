"""N5 hierarchies: what is a node, arrays with every compression and type, and bad documents."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import omnizarr as oz
from omnizarr.hierarchy import lookup
from tests.formats.n5_writer import COMPRESSIONS, header, write
from tests.servers.web import Web

VALUES = np.arange(2, 2 + 7 * 5 * 3, dtype="int16").reshape(7, 5, 3)
TYPES = [
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float32", "float64", "bool", "float16"),
]
ROOT = {"n5": "4.0.0", "title": "cells"}
SCALES = {"downsamplingFactors": [[1, 1, 1], [2, 2, 2]], "dataType": "uint8"}


def document(**members: Any) -> bytes:
    return json.dumps(members).encode()


def hierarchy() -> dict[str, bytes]:
    """Return a root, a group with attributes, one without any, and two arrays."""
    return {
        "attributes.json": document(**ROOT),
        "setup0/attributes.json": document(**SCALES),
        **write(VALUES, (4, 2, 2), "gzip", path="setup0/s0", attributes={"unit": "nm"}),
        **write(VALUES[::2, ::2], (4, 2, 2), "raw", path="none/here/small"),
    }


# Arrays


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("name", COMPRESSIONS)
def test_arrays_of_every_compression_are_read(name: str, cut: bool) -> None:
    array = oz.open(write(VALUES, (4, 2, 2), name, cut=cut))
    assert array.zarr_format == "n5"
    assert (array.shape, array.chunks, array.dtype) == ((7, 5, 3), (4, 2, 2), VALUES.dtype)
    assert array.fill_value == 0
    assert np.array_equal(array[...], VALUES)
    assert np.array_equal(array[1:6:2, 4, ::-1], VALUES[1:6:2, 4, ::-1])


@given(data=st.data())
def test_arrays_of_any_shape_and_type_are_read(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(TYPES)))
    shape = data.draw(npst.array_shapes(max_dims=4, max_side=6, min_side=0))
    blocks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    values = data.draw(npst.arrays(dtype, shape, elements=npst.from_dtype(dtype, allow_nan=False)))
    name = data.draw(st.sampled_from([*COMPRESSIONS]))
    if dtype.kind == "b" or dtype.itemsize == 0:
        name = "raw"
    stored = write(values, blocks, name, cut=data.draw(st.booleans()))
    array = oz.open(stored)
    assert (array.shape, array.dtype) == (values.shape, values.dtype)
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine):
            assert np.array_equal(array[...], values)


def test_missing_blocks_are_zeros() -> None:
    stored = write(VALUES, (4, 2, 2))
    del stored["0/1/0"]  # the axes of N5 are in the opposite order
    want = VALUES.copy()
    want[:4, 2:4, :2] = 0
    assert np.array_equal(oz.open(stored)[...], want)


def test_the_compression_of_version_0_is_a_name() -> None:
    stored = write(VALUES, (4, 2, 2), "gzip")
    doc = json.loads(stored["attributes.json"])
    del doc["compression"]
    stored["attributes.json"] = document(**doc, compressionType="gzip")
    assert np.array_equal(oz.open(stored)[...], VALUES)


def test_other_attributes_are_those_of_the_array() -> None:
    attributes = {"unit": "nm", "_ARRAY_DIMENSIONS": ["z", "y", "x"], "nan": None}
    array = oz.open(write(VALUES, (4, 2, 2), attributes=attributes))
    assert array.attrs == attributes
    assert array.dimension_names == ("z", "y", "x")
    stored = write(VALUES, (4, 2, 2), attributes=attributes)
    assert array.metadata.documents() == {"attributes.json": json.loads(stored["attributes.json"])}


def test_values_of_a_variable_number_are_refused_with_the_reason() -> None:
    stored = write(VALUES, (4, 2, 2))
    stored["0/0/0"] = header((2, 2, 4), 1) + bytes(8)
    with pytest.raises(oz.ChunkError, match="mode 'varlength', whose number of values"):
        oz.open(stored, kind="array")[0, 0, 0]


# Hierarchies


def test_groups_with_and_without_metadata_are_listed() -> None:
    root = oz.open(hierarchy())
    assert root.zarr_format == "n5"
    assert root.attrs == {"title": "cells"}
    names = {name: type(node).__name__ for name, node in root.members(None)}
    assert names == {
        "none": "Group",
        "none/here": "Group",
        "none/here/small": "Array",
        "setup0": "Group",
        "setup0/s0": "Array",
    }
    assert root["setup0"].attrs == SCALES  # of viewers, and no array in spite of its dataType
    assert root["none/here"].attrs == {}
    assert np.array_equal(root["setup0/s0"][...], VALUES)


@pytest.mark.parametrize("path", ["setup0", "none/here", "none/here/small"])
def test_nodes_below_the_root_are_opened_by_path(path: str) -> None:
    node = oz.open(hierarchy(), path=path)
    assert node.zarr_format == "n5"
    assert (node.path, isinstance(node, oz.Array)) == (path, path.endswith("small"))


def test_a_folder_of_blocks_is_no_group() -> None:
    root = oz.open(hierarchy())
    for path in ("setup0/s0/0", "setup0/s0/0/0", "nothing"):
        assert path not in root
        with pytest.raises(KeyError):
            root[path]


def test_directories_are_opened_and_read(tmp_path: Path) -> None:
    for key, value in hierarchy().items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(value)
    assert np.array_equal(oz.open(tmp_path / "setup0/s0")[...], VALUES)
    assert [*oz.open(tmp_path)] == ["none", "setup0"]
    assert oz.open(tmp_path, zarr_format="n5").attrs == {"title": "cells"}
    assert oz.validate(tmp_path) == []
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "none")  # which only its root shows to be N5
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "nothing", zarr_format="n5")


def test_metadata_of_zarr_take_precedence() -> None:
    stored, other = hierarchy(), dict[str, bytes]()
    oz.create_array(other, path="setup0/s0", shape=3, dtype="u1")
    stored["setup0/s0/zarr.json"] = other["setup0/s0/zarr.json"]
    assert oz.open(stored, path="setup0/s0").zarr_format == 3
    assert oz.open(stored, path="setup0/s0", zarr_format="n5").shape == VALUES.shape
    with pytest.raises(oz.NodeNotFound):
        oz.open(stored, zarr_format=2)


def test_nothing_is_written() -> None:
    stored = hierarchy()
    before = dict(stored)
    root = oz.open(stored, mode="r+")
    changes: list[Any] = [
        lambda: root.create_array("new", shape=3, dtype="u1"),
        lambda: root.create_group("new"),
        lambda: root.attrs.update(a=1),
        lambda: root["setup0/s0"].__setitem__(..., 1),
        lambda: root["setup0/s0"].resize((1, 1, 1)),
        lambda: root.__delitem__("setup0"),
        lambda: oz.create_group({}, zarr_format="n5"),
        lambda: oz.create_array({}, shape=3, dtype="u1", zarr_format="n5"),
        lambda: oz.convert(before, {}, zarr_format="n5"),
        lambda: oz.create_array(stored, path="new/one", shape=3, dtype="u1"),
        lambda: oz.create_group(stored, path="new"),
        lambda: oz.convert({**before}, in_place=True),
    ]
    for change in changes:
        with pytest.raises((oz.ReadOnly, oz.CannotExpress)) as error:
            change()
        assert "N5 is read but never written" in str(error.value) or "unchanged" in str(error.value)
    assert stored == before


def test_a_node_of_n5_is_not_hidden_by_a_new_one(tmp_path: Path) -> None:
    for key, value in hierarchy().items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(value)
    for path in (tmp_path, tmp_path / "setup0/s0"):
        for create in (oz.create_group, lambda path: oz.create_array(path, shape=3, dtype="u1")):
            with pytest.raises(oz.NodeExists, match=r"already an N5 .*another path"):
                create(path)
        with pytest.raises(oz.StoreError, match="nothing was erased"):
            oz.create_group(path, overwrite=True)
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {*hierarchy()}


# Bad documents


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimensions": [3, "x", 7]}, r"dimensions\[1\]: expected an integer"),
        ({"dimensions": {}}, "dimensions: expected a list"),
        ({"dimensions": [2**62, 2**62, 2]}, "does not fit into 63 bits"),
        ({"blockSize": [2, 2]}, "blockSize: has 2 entries, but shape has 3"),
        ({"blockSize": [2, 0, 4]}, r"blockSize\[1\]: a chunk cannot have length 0"),
        ({"dataType": "object"}, "dataType: blocks of the type 'object'"),
        ({"dataType": "string"}, "dataType: blocks of the type 'string'"),
        ({"dataType": "int128"}, "dataType: expected one of uint8"),
        ({"dataType": ["uint8"]}, "dataType: expected one of uint8"),
        ({"compression": "gzip"}, "compression: expected an object with 'type'"),
        ({"compression": {"level": 3}}, "compression.type: expected a name"),
    ],
)
def test_a_wrong_document_stops_only_its_array(changes: dict[str, Any], message: str) -> None:
    stored = hierarchy()
    doc = json.loads(stored["setup0/s0/attributes.json"])
    stored["setup0/s0/attributes.json"] = document(**{**doc, **changes})
    with pytest.raises(oz.InvalidMetadata, match=message):
        oz.open(stored, path="setup0/s0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [name for name, _ in oz.open(stored).members(None)]
    assert "none/here/small" in names
    assert any(message.partition(":")[0].strip("\\")[:5] in str(p) for p in oz.validate(stored))


@pytest.mark.parametrize(
    ("compression", "error", "message"),
    [
        ({"type": "jpeg"}, oz.UnknownExtension, "unknown codec 'jpeg'"),
        ({"type": "gzip", "level": "x"}, oz.InvalidMetadata, "level"),
        ({"type": "blosc", "shuffle": 7}, oz.InvalidMetadata, "shuffle"),
        ({"type": "xyz", "id": "xyz"}, oz.UnknownExtension, "xyz"),
    ],
)
def test_a_compression_that_is_not_known_stops_only_its_array(
    compression: dict[str, Any], error: type[Exception], message: str
) -> None:
    stored = hierarchy()
    doc = json.loads(stored["setup0/s0/attributes.json"])
    stored["setup0/s0/attributes.json"] = document(**{**doc, "compression": compression})
    assert oz.open(stored).attrs == {"title": "cells"}
    with pytest.raises(error, match=message):
        oz.open(stored, path="setup0/s0", kind="array")[...]


@pytest.mark.parametrize("text", [b"", b"[1]", b"{", b"\xff", b"3"])
def test_a_document_that_is_no_object_is_an_error(text: bytes) -> None:
    with pytest.raises(oz.InvalidMetadata, match=r"attributes\.json"):
        oz.open({"attributes.json": text})


def test_dimensions_without_the_rest_are_an_attribute_with_a_warning() -> None:
    with pytest.warns(oz.OmnizarrWarning, match="without blockSize and dataType and compression"):
        group = oz.open({"attributes.json": document(dimensions=[1, 2])})
    assert group.attrs == {"dimensions": [1, 2]}


@given(
    st.dictionaries(
        st.sampled_from(["dimensions", "blockSize", "dataType", "compression", "n5"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["type", "level", "blockSize"]), inner, max_size=3
                )
            ),
            max_leaves=6,
        ),
    )
)
def test_any_document_is_a_node_or_an_error_of_ours(doc: dict[str, Any]) -> None:
    stored = {"attributes.json": json.dumps(doc).encode()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(oz.OmnizarrError):
            assert oz.open(stored).zarr_format == "n5"
        problems = oz.validate(stored)
    assert all(problem.key == "attributes.json" for problem in problems)


# Requests


def test_other_formats_are_opened_without_a_look_for_n5(web: Web) -> None:
    for version in (1, 2, 3, "3-draft"):
        lookup._likely.clear()
        some: dict[str, bytes] = {}
        oz.create_array(some, shape=3, dtype="i4", zarr_format=version)
        web.values |= {f"v{version}/{key}": value for key, value in some.items()}
        oz.open(f"{web.url}/v{version}")
    assert not [path for _, path, _ in web.log if "attributes.json" in path]


def test_n5_is_found_on_a_server_and_its_neighbours_at_once(web: Web) -> None:
    lookup._likely.clear()
    web.values |= hierarchy()
    assert np.array_equal(oz.open(f"{web.url}/setup0/s0")[...], VALUES)
    web.log.clear()
    oz.open(f"{web.url}/none/here/small")
    assert sum(path.endswith("attributes.json") for _, path, _ in web.log) == 1
    other: dict[str, bytes] = {}
    oz.create_array(other, shape=3, dtype="i4")
    web.values |= {f"other/{key}": value for key, value in other.items()}
    assert oz.open(f"{web.url}/other").zarr_format == 3
    lookup._likely.clear()
