"""The 2022 draft of version 3: the entry point, array and group metadata."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.draft_metadata import (
    DRAFT,
    ENTRY,
    array,
    hierarchy,
    text,
    with_array,
    without,
)

IGNORABLE = {
    "extension": "http://example.org/zarr/extension/foo",
    "must_understand": False,
    "configuration": {"foo": "bar"},
}
PRINTED_ENTRY = json.dumps(ENTRY, indent=4).encode()
PRINTED_ENTRY_WITH_EXTENSION = json.dumps({**ENTRY, "extensions": [IGNORABLE]}, indent=4).encode()
PRINTED_ARRAY = b"""{
    "shape": [10000, 1000],
    "data_type": "<f8",
    "chunk_grid": {
        "type": "regular",
        "chunk_shape": [1000, 100],
        "separator" : "/"
    },
    "chunk_memory_layout": "C",
    "codecs": [{
        "type": "https://purl.org/zarr/spec/codecs/gzip/1.0",
        "configuration": {
            "level": 1
        }
    }],
    "fill_value": "NaN",
    "extensions": [],
    "attributes": {
        "foo": 42,
        "bar": "apples",
        "baz": [1, 2, 3, 4]
    }
}"""
TYPES = "https://purl.org/zarr/spec/extensions/data-types"
TIMES = {"extension": f"{TYPES}/datetime/1.0", "type": "<M8[ns]", "fallback": "<i8"}
UNKNOWN_TYPE = {"extension": "http://example.org/type", "type": "weird"}


def refused(store: dict[str, bytes], field: str, key: str = "meta/a.array.json") -> str:
    """Return the error of opening the array at ``/a``, which names the key and the field."""
    before = dict(store)
    with pytest.raises(oz.InvalidMetadata) as error:
        oz.open(store, "r+", path="a")
    places = [(p.key, p.field) for p in error.value.problems]
    assert (key, field) in places
    assert f"{key}: {field}" in str(error.value)
    assert store == before
    return str(error.value)


def document(store: dict[str, bytes], key: str = "meta/array.json") -> Any:
    return json.loads(store[key])


def created(**options: Any) -> dict[str, bytes]:
    """Return the store with a new array of two items at the root."""
    store: dict[str, bytes] = {}
    oz.create_array(store, **{"shape": 2, "dtype": "i4", "zarr_format": DRAFT, **options})
    return store


# The entry point


@pytest.mark.shows("D3-40")
def test_without_an_entry_point_there_is_no_hierarchy() -> None:
    store = without(with_array(), "zarr.json")
    for path in ("", "a"):
        with pytest.raises(oz.NodeNotFound, match=r"no zarr\.json|nothing exists"):
            oz.open(store, path=path)


@pytest.mark.shows("D3-41", "D3-43", "D3-49")
def test_creating_a_hierarchy_writes_the_first_printed_entry_point() -> None:
    store: dict[str, bytes] = {}
    oz.create_group(store, zarr_format=DRAFT)
    assert store["zarr.json"] == PRINTED_ENTRY
    assert created()["zarr.json"] == PRINTED_ENTRY


@pytest.mark.shows("D3-42", "D3-110")
def test_unknown_names_are_skipped_with_a_warning_in_later_minor_versions_only() -> None:
    documents = {"meta/a.array.json": array(later=1), "meta/g.group.json": {"attributes": {}}}
    later = "https://purl.org/zarr/spec/core/3.7"
    store = hierarchy(documents, zarr_format=later, extra={"new": 1})
    with pytest.warns(oz.OmnizarrWarning, match=r"zarr\.json: extra: unknown field"):
        root = oz.open(store)
    with pytest.warns(oz.OmnizarrWarning, match=r"meta/a\.array\.json: later: unknown field"):
        assert root["a"].shape == (4, 6)
    with pytest.raises(oz.InvalidMetadata, match=r"zarr\.json: extra: unknown field"):
        oz.open(hierarchy(documents, extra={"new": 1}))
    refused(hierarchy(documents), "later")


class MessagePack:
    """A metadata encoding that is not JSON."""

    @staticmethod
    def decode(data: bytes) -> Any:
        return msgpack.unpackb(data)

    @staticmethod
    def encode(document: dict[str, Any]) -> bytes:
        packed: bytes = msgpack.packb(document)
        return packed


@pytest.fixture
def message_pack(own_names: None) -> dict[str, Any]:
    """Register an entry for `metadata_encoding` during the test."""
    uri = "http://example.org/encoding/msgpack"
    oz.register("metadata_encoding", uri, MessagePack)
    return {"extension": uri, "type": "msgpack", "metadata_key_suffix": ".msgpack"}


@pytest.mark.shows("D3-45", "D3-74")
def test_another_encoding_holds_the_same_names_under_its_own_suffix(
    message_pack: dict[str, Any],
) -> None:
    store = hierarchy(metadata_encoding=message_pack)
    entry = store["zarr.json"]
    root = oz.create_group(store, zarr_format=DRAFT, attributes={"x": 1})
    root.create_array("foo", shape=4, dtype="i4", attributes={"y": 2})[...] = 7
    keys = sorted(k for k in store if not k.startswith("data/"))
    assert keys == ["meta/foo.array.msgpack", "meta/group.msgpack", "zarr.json"]
    assert store["zarr.json"] == entry
    assert msgpack.unpackb(store["meta/group.msgpack"]) == {"attributes": {"x": 1}}
    same = created(shape=4, attributes={"y": 2})
    assert msgpack.unpackb(store["meta/foo.array.msgpack"]) == document(same)
    opened = oz.open(store)
    assert list(opened) == ["foo"]
    assert opened["foo"][...].tolist() == [7] * 4


@pytest.mark.shows("D3-45", "D3-114")
@pytest.mark.filterwarnings("ignore:.*expected '.json' for JSON")
def test_the_suffix_of_the_entry_point_ends_all_metadata_keys() -> None:
    encoding = {"type": "json", "metadata_key_suffix": ".txt"}
    store = hierarchy({"meta/old.array.txt": array()}, metadata_encoding=encoding)
    store["meta/other.array.json"] = text(array())
    group = oz.open(store, "r+")
    group.create_group("foo/bar")
    group.create_array("baz", shape=1, dtype="i4")
    assert list(group) == ["baz", "foo", "old"]
    assert {"meta/foo/bar.group.txt", "meta/baz.array.txt"} <= store.keys()
    assert [k for k in store if k.endswith(".json")] == ["zarr.json", "meta/other.array.json"]


@pytest.mark.shows("D3-48", "D3-49", "D3-64", "D3-106")
def test_an_extension_that_may_be_ignored_is_ignored_and_kept() -> None:
    store = {"zarr.json": PRINTED_ENTRY_WITH_EXTENSION}
    group = oz.open(store, "r+")
    group.attrs["x"] = 1
    group.create_array("a", shape=2, dtype="i4")[...] = 5
    oz.create_group(store, zarr_format=DRAFT, overwrite=True)
    assert store["zarr.json"] == PRINTED_ENTRY_WITH_EXTENSION
    store = with_array(extensions=[IGNORABLE])
    opened = oz.open(store, "r+", path="a")
    opened.attrs["x"] = 1
    opened.resize(6, 6)
    assert document(store, "meta/a.array.json") == array(
        shape=[6, 6], attributes={"x": 1}, extensions=[IGNORABLE]
    )


# Array documents


@pytest.mark.shows("D3-52", "D3-57", "D3-122")
@pytest.mark.parametrize(
    ("dtype", "extension", "fallback"),
    [
        ("<M8[ns]", "datetime", ["int64", "r64"]),
        ("<m8[s]", "datetime", ["int64", "r64"]),
        ("S5", "string", ["r40"]),
        ("<U3", "string", ["r96"]),
        ([("x", "<i2"), ("y", "<f4")], "struct", ["r48"]),
    ],
)
def test_other_types_are_written_as_an_extension_object_with_fallbacks(
    dtype: Any, extension: str, fallback: list[str]
) -> None:
    store = created(dtype=dtype)
    stated = document(store)["data_type"]
    type_ = dtype if isinstance(dtype, str) else [list(field) for field in dtype]
    uri = f"{TYPES}/{extension}/1.0"
    assert stated == {"extension": uri, "type": type_, "fallback": fallback}
    assert oz.open(store).dtype == np.dtype(dtype)


@pytest.mark.shows("D3-53", "D3-58", "D3-106")
@pytest.mark.parametrize(
    ("fallback", "dtype"),
    [
        (["foo", "int32", "r32"], "<i4"),
        ("int16", "<i2"),
        (["r16", "int16"], "V2"),
        ("<i8", "<i8"),
        (["r12", "<M8[ns]", "int64"], "<M8[ns]"),
        ([{"extension": f"{TYPES}/datetime/1.0", "type": "<M8[s]"}], "<M8[s]"),
        ([{"extension": "http://example.org/x", "type": "x"}, "S3", "r24"], "S3"),
        ([{"extension": f"{TYPES}/struct/1.0", "type": [["x", "<i2"]]}], [("x", "<i2")]),
    ],
)
@pytest.mark.parametrize(
    "unknown", [{}, {"extension": f"{TYPES}/datetime/1.0"}], ids=["extension", "type"]
)
def test_the_first_known_fallback_of_an_unknown_type_is_used_with_a_warning(
    fallback: Any, dtype: Any, unknown: dict[str, str]
) -> None:
    """C4: also of extensions, and of the unknown type of a known extension."""
    fill = {"V": "0x0000", "S": "", "M": 0}.get(np.dtype(dtype).kind, 0)
    fill = "AAA=" if isinstance(dtype, list) else fill
    stated = {**UNKNOWN_TYPE, **unknown, "fallback": fallback}
    store = with_array(data_type=stated, fill_value=fill)
    with pytest.warns(oz.OmnizarrWarning, match=f"'weird' of {stated['extension']!r}") as caught:
        opened = oz.open(store, path="a")
    first = fallback if isinstance(fallback, str) else fallback[0]
    skipped = first in ("foo", "r12") or "http://example.org/x" in str(first)
    used = fallback[1] if skipped else first
    assert f"its fallback {used!r} is used" in str(caught[0].message)
    assert opened.dtype == np.dtype(dtype)
    assert opened[...].shape == (4, 6)


@pytest.mark.shows("D3-58")
def test_fallbacks_can_be_switched_on_and_off() -> None:
    store = with_array(data_type={**UNKNOWN_TYPE, "fallback": "int32"})
    with oz.configure(fallback="use"):  # a warning would be an error here
        assert oz.open(store, path="a").dtype == "<i4"
    with oz.configure(fallback="refuse"), pytest.raises(oz.UnknownExtension, match="weird"):
        oz.open(store, path="a", kind="array")[...]
    with pytest.raises(oz.InvalidArgument, match="fallback"), oz.configure(fallback="maybe"):
        pass


@pytest.mark.shows("D3-54", "D3-106")
@pytest.mark.parametrize("fallback", [{}, {"fallback": "foo"}, {"fallback": ["foo", 1, "r7"]}])
def test_an_unknown_type_without_a_usable_fallback_is_refused(fallback: dict[str, Any]) -> None:
    store = with_array(data_type={**UNKNOWN_TYPE, **fallback})
    before = dict(store)
    opened = oz.open(store, "r+", path="a")
    uses = (
        lambda: opened.dtype,
        lambda: opened[...],
        lambda: opened.fill_value,
        lambda: opened.__setitem__(..., 1),
    )
    for use in uses:
        with pytest.raises(oz.UnknownExtension, match=r"'/a'.*data_type") as error:
            use()
        assert "http://example.org/type" in str(error.value)
        assert "'weird'" in str(error.value)
    assert store == before


# Fill values


@pytest.mark.shows("D3-59", "D3-109")
@pytest.mark.parametrize("data_type", ["int32", "bool", "float32", "complex64", "r16", TIMES])
def test_null_is_read_as_zero_with_a_warning_and_never_written(data_type: Any) -> None:
    store = with_array(data_type=data_type, fill_value=None)
    with pytest.warns(oz.OmnizarrWarning, match=r"a\.array\.json: fill_value: null is not perm"):
        opened = oz.open(store, "r+", path="a")
    assert not any(np.asarray(opened.fill_value).tobytes())
    with pytest.warns(oz.OmnizarrWarning):
        opened.attrs["x"] = 1
    assert document(store, "meta/a.array.json")["fill_value"] is not None
    [problem] = [p for p in oz.validate(with_array(fill_value=None)) if p.field == "fill_value"]
    assert problem.level == "warning"


@pytest.mark.shows("D3-63")
@pytest.mark.parametrize("fill", [{"deep": [1, "x"]}, "text", 1.5, [None]])
def test_the_fill_value_of_an_unknown_type_is_kept_unchanged(fill: Any) -> None:
    stated = array(data_type=UNKNOWN_TYPE, fill_value=fill)
    store = hierarchy({"meta/a.array.json": stated})
    oz.open(store, "r+", path="a").attrs["x"] = 1
    assert document(store, "meta/a.array.json") == {**stated, "attributes": {"x": 1}}


# Attributes, codecs, transformers, other names


@pytest.mark.shows("D3-69", "D3-107")
def test_the_first_printed_array_works() -> None:
    store = hierarchy()
    store["meta/a.array.json"] = PRINTED_ARRAY
    opened = oz.open(store, "r+", path="a")
    assert (opened.dtype, opened.shape, opened.chunks) == ("<f8", (10000, 1000), (1000, 100))
    assert (opened.cdata_shape, opened.nchunks, opened.order) == ((10, 10), 100, "C")
    assert opened.chunk_key((0, 0)) == "data/a/c0/0"
    assert opened.chunk_key((9, 9)) == "data/a/c9/9"
    assert np.isnan(opened[9990:, 990:]).all()
    assert opened.attrs == {"foo": 42, "bar": "apples", "baz": [1, 2, 3, 4]}
    assert oz.validate(PRINTED_ARRAY) == []
    opened[0, 0] = 1.5
    assert [k for k in store if k.startswith("data/")] == ["data/a/c0/0"]
    assert store["data/a/c0/0"][:2] == b"\x1f\x8b"
    assert oz.open(store, path="a")[0, 0] == 1.5


@pytest.mark.shows("D3-70", "D3-109")
def test_the_second_printed_array_works() -> None:
    printed = json.loads(PRINTED_ARRAY) | {"data_type": TIMES, "fill_value": None, "attributes": {}}
    store = hierarchy({"meta/a.array.json": printed})
    with pytest.warns(oz.OmnizarrWarning, match="fill_value: null"):
        opened = oz.open(store, "r+", path="a")
    assert opened.dtype == np.dtype("<M8[ns]")
    assert opened[0, 0] == np.datetime64(0, "ns")
    opened[0, 0] = np.datetime64("2022-12-01")
    with pytest.warns(oz.OmnizarrWarning):
        assert oz.open(store, path="a")[0, 0] == np.datetime64("2022-12-01")


@pytest.mark.shows("D3-73")
def test_a_group_is_implied_by_its_members() -> None:
    store = hierarchy({"meta/foo/baz.array.json": array()})
    for path in ("", "foo"):
        group = oz.open(store, path=path)
        assert group.attrs == {}
    assert [name for name, _ in oz.open(store).members(max_depth=None)] == ["foo", "foo/baz"]
    with pytest.raises(oz.NodeNotFound, match="/fo in memory"):
        oz.open(store, path="fo")
    oz.open(store, "r+", path="foo").attrs["x"] = 1
    assert document(store, "meta/foo.group.json") == {"attributes": {"x": 1}}
