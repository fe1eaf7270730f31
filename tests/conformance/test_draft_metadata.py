"""The 2022 draft of version 3: the entry point, array and group metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest

import omnizarr as oz
from omnizarr import registry
from tests.conformance.draft_metadata import (
    ARRAY,
    DRAFT,
    ENTRY,
    GZIP,
    array,
    hierarchy,
    regular,
    text,
    with_array,
    without,
)

IGNORABLE = {
    "extension": "http://example.org/zarr/extension/foo",
    "must_understand": False,
    "configuration": {"foo": "bar"},
}
PRINTED_ENTRY = b"""{
    "zarr_format": "https://purl.org/zarr/spec/core/3.0",
    "metadata_encoding": {
        "type": "json",
        "metadata_key_suffix": ".json"
    },
    "extensions": []
}"""
PRINTED_ENTRY_WITH_EXTENSION = PRINTED_ENTRY.replace(
    b"[]",
    b"""[
        {
            "extension": "http://example.org/zarr/extension/foo",
            "must_understand": false,
            "configuration": {
                "foo": "bar"
            }
        }
    ]""",
)
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
        with pytest.raises(oz.NodeNotFound, match=r"no zarr\.json|nothing is there"):
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


@pytest.mark.shows("D3-44", "D3-106")
@pytest.mark.parametrize("missing", [None, "extension", "type", "metadata_key_suffix"])
def test_an_unknown_or_incomplete_metadata_encoding_is_never_ignored(missing: str | None) -> None:
    whole = {
        "extension": "http://example.org/encoding",
        "type": "cbor",
        "metadata_key_suffix": ".cbor",
    }
    store = hierarchy(metadata_encoding=without(whole, missing or ""))
    field = missing or "extension"
    if missing == "extension":
        field = "type"  # then it is taken for JSON, which has another type
    message = refused(store, f"metadata_encoding.{field}", "zarr.json")
    assert (whole["extension"] in message) == (missing != "extension")


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
def message_pack() -> Iterator[dict[str, Any]]:
    """Register an entry for `metadata_encoding` during the test."""
    uri = "http://example.org/encoding/msgpack"
    oz.register("metadata_encoding", uri, MessagePack)
    yield {"extension": uri, "type": "msgpack", "metadata_key_suffix": ".msgpack"}
    del registry._table["metadata_encoding", uri]


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


@pytest.mark.shows("D3-47", "D3-64", "D3-106")
def test_an_unknown_extension_that_must_be_understood_stops_reading() -> None:
    needed = {"extension": "http://example.org/x", "must_understand": True}
    for store, key in (
        (hierarchy(extensions=[IGNORABLE, needed]), "zarr.json"),
        (with_array(extensions=[IGNORABLE, needed]), "meta/a.array.json"),
    ):
        assert "http://example.org/x" in refused(store, "extensions[1]", key)


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


# What is refused: fields of the entry point, of arrays, and of groups.
_UNKNOWN_EXTENSION = {"extension": "http://example.org/x"}
BAD_EXTENSIONS: list[tuple[str, Any, str]] = [
    ("extensions", {}, "extensions"),
    ("extensions", [_UNKNOWN_EXTENSION], "extensions[0].must_understand"),
    ("extensions", [{**_UNKNOWN_EXTENSION, "must_understand": 1}], "extensions[0].must_understand"),
    ("extensions", [{"must_understand": False}], "extensions[0].extension"),
    ("extensions", ["http://example.org/x"], "extensions[0]"),
]
BAD_ENTRY: list[tuple[str, Any, str]] = [
    *BAD_EXTENSIONS,
    ("metadata_encoding", {"type": "json"}, "metadata_encoding.metadata_key_suffix"),
    ("metadata_encoding", {"metadata_key_suffix": ".json"}, "metadata_encoding.type"),
    ("metadata_encoding", {"type": "x", "metadata_key_suffix": ".x"}, "metadata_encoding.type"),
    ("metadata_encoding", {"type": "json", "metadata_key_suffix": 1}, "metadata_key_suffix"),
    ("metadata_encoding", "json", "metadata_encoding"),
    ("metadata_encoding", None, "metadata_encoding"),
]
BAD_ARRAY: list[tuple[str, Any, str]] = [
    *BAD_EXTENSIONS,
    ("shape", [10, -1], "shape[1]"),
    ("shape", [1.5], "shape[0]"),
    ("shape", "10", "shape"),
    ("shape", [True], "shape[0]"),
    ("data_type", without(UNKNOWN_TYPE, "extension"), "data_type.extension"),
    ("data_type", without(UNKNOWN_TYPE, "type"), "data_type.type"),
    ("data_type", 5, "data_type"),
    ("data_type", [["x", "<i4"]], "data_type"),
    ("data_type", "weird", "data_type"),
    ("chunk_grid", regular(2, 3, separator="-"), "chunk_grid.separator"),
    ("chunk_grid", regular(2, 3, 4), "chunk_grid.chunk_shape"),
    ("chunk_grid", regular(2), "chunk_grid.chunk_shape"),
    ("chunk_grid", regular(2, -3), "chunk_grid.chunk_shape[1]"),
    ("chunk_grid", {**regular(2, 3), "type": "rectilinear"}, "chunk_grid.type"),
    ("chunk_grid", without(regular(2, 3), "type"), "chunk_grid.type"),
    ("chunk_grid", without(regular(2, 3), "chunk_shape"), "chunk_grid.chunk_shape"),
    ("chunk_grid", {**regular(2, 3), "offset": 1}, "chunk_grid.offset"),
    ("chunk_grid", {"extension": "http://example.org/grid"}, "chunk_grid.type"),
    ("chunk_grid", {"extension": 5, "type": "x"}, "chunk_grid.extension"),
    ("chunk_grid", "regular", "chunk_grid"),
    ("codecs", [without(GZIP, "type")], "codecs[0].type"),
    ("codecs", [GZIP, {"type": 5}], "codecs[1].type"),
    ("codecs", [{**GZIP, "configuration": [1]}], "codecs[0].configuration"),
    ("codecs", [{**GZIP, "level": 1}], "codecs[0].level"),
    ("codecs", ["gzip"], "codecs[0]"),
    ("codecs", {}, "codecs"),
    ("codecs", None, "codecs"),
    ("storage_transformers", [_UNKNOWN_EXTENSION], "storage_transformers[0].type"),
    ("storage_transformers", [{"type": "x"}], "storage_transformers[0].extension"),
    ("storage_transformers", ["http://example.org/t"], "storage_transformers[0]"),
    ("storage_transformers", {}, "storage_transformers"),
    *(("chunk_memory_layout", layout, "chunk_memory_layout") for layout in ("c", None, ["C"])),
    ("chunk_memory_layout", {"type": "hilbert"}, "chunk_memory_layout.extension"),
    ("chunk_memory_layout", _UNKNOWN_EXTENSION, "chunk_memory_layout.type"),
    ("chunk_memory_layout", UNKNOWN_TYPE, "chunk_memory_layout.extension"),
    *((name, None, name) for name in ("dimension_names", "foo", "compressor", "zarr_format")),
]
BAD_GROUPS: list[tuple[dict[str, Any], str]] = [
    ({}, "attributes"),
    ({"attributes": []}, "attributes"),
    ({"attributes": {}, "foo": 1}, "foo"),
    ({"attributes": {}, "extensions": []}, "extensions"),
]
REFUSED = [
    *((hierarchy(**{name: value}), field, "zarr.json") for name, value, field in BAD_ENTRY),
    *((with_array(**{n: value}), field, "meta/a.array.json") for n, value, field in BAD_ARRAY),
    *((hierarchy({"meta/a.array.json": without(ARRAY, n)}), n, "meta/a.array.json") for n in ARRAY),
    *(({"zarr.json": text(without(ENTRY, n))}, n, "zarr.json") for n in [*ENTRY][1:]),
    *(
        (hierarchy({"meta/a.group.json": stated}), field, "meta/a.group.json")
        for stated, field in BAD_GROUPS
    ),
]


@pytest.mark.shows("D3-40", "D3-43", "D3-46", "D3-50", "D3-51", "D3-52", "D3-55", "D3-56")
@pytest.mark.shows("D3-64", "D3-66")
@pytest.mark.shows("D3-67", "D3-68", "D3-71", "D3-72", "D3-106", "D3-122")
@pytest.mark.parametrize(("store", "field", "key"), REFUSED)
def test_metadata_that_the_draft_does_not_allow_is_refused(
    store: dict[str, bytes], field: str, key: str
) -> None:
    refused(store, field, key)


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


@pytest.mark.shows("D3-60", "D3-61", "D3-62", "D3-118")
@pytest.mark.parametrize(
    ("data_type", "fills"),
    [
        ("bool", ["0", '"true"']),
        ("int8", ["128", "-129", "1.0", "1e2", "true", '"1"']),
        ("uint8", ["-1"]),
        ("float32", ['"0x3f8"', '"0x3f80000000"', '"0xzzzzzzzz"']),
        ("float16", ['"0b11"']),
        ("float64", ['"nan"', "true"]),
        ("complex64", ["[1]", "[1, 2, 3]", '"0x3f80000"', '"0x3f8000003f80000"', '"0b0011"']),
        ("r24", ['"0x0102"', '"0x01 02 03"', f'"0b{"0" * 23}2"', f'"0b{"0" * 25}"', "0"]),
    ],
)
def test_fill_values_that_do_not_fit_the_type_are_refused(data_type: str, fills: list[str]) -> None:
    for fill in fills:
        store = with_array(data_type=data_type, fill_value="FILL")
        store["meta/a.array.json"] = store["meta/a.array.json"].replace(b'"FILL"', fill.encode())
        with pytest.raises(oz.InvalidMetadata, match=f"'/a'.*fill_value of {data_type}"):
            oz.open(store, path="a", kind="array")


@pytest.mark.shows("D3-60", "D3-61", "D3-62", "D3-117", "D3-118")
@pytest.mark.parametrize(
    ("data_type", "fill", "bits"),
    [
        ("bool", True, "01"),
        ("int8", -128, "80"),
        ("uint64", 2**64 - 1, "ffffffffffffffff"),
        ("float32", "NaN", "0000c07f"),
        ("float32", "+Infinity", "0000807f"),
        ("float64", "NaN", "000000000000f87f"),
        ("float64", "+Infinity", "000000000000f07f"),
        ("float64", "Infinity", "000000000000f07f"),
        ("float64", "-Infinity", "000000000000f0ff"),
        ("float32", "0x7fc00000", "0000c07f"),
        ("float32", "0x7fc00001", "0100c07f"),
        ("float32", "0x3f800000", "0000803f"),
        ("float16", "0b0011110000000000", "003c"),
        ("float64", 1, "000000000000f03f"),
        ("complex64", [1, 2], "0000803f00000040"),
        ("complex64", 3, "0000404000000000"),
        ("complex64", ["NaN", "-Infinity"], "0000c07f000080ff"),
        ("complex64", ["0x7fc00001", "0b" + "0" * 32], "0100c07f00000000"),
        ("complex64", "0x7fc000013f800000", "0100c07f0000803f"),
        ("complex64", "0b" + f"{0x3F80000040000000:064b}", "0000803f00000040"),
        ("complex128", "0x3ff0000000000000c000000000000000", "000000000000f03f00000000000000c0"),
        ("r24", "0x010203", "010203"),
        ("r24", "0b000000010000001000000011", "010203"),
    ],
)
def test_fill_values_mean_exact_bits(data_type: str, fill: Any, bits: str) -> None:
    opened = oz.open(with_array(data_type=data_type, fill_value=fill), path="a")
    assert opened[0, :1].tobytes().hex() == bits


@pytest.mark.shows("D3-59", "D3-61", "D3-117", "D3-118")
@pytest.mark.parametrize(
    ("dtype", "value", "fill"),
    [
        ("f4", np.nan, "NaN"),
        ("f8", np.inf, "+Infinity"),
        ("f8", -np.inf, "-Infinity"),
        ("f4", np.array(0x7FC00001, "u4").view("f4")[()], "0x7fc00001"),
        ("c8", 1 + 2j, [1.0, 2.0]),
        ("c16", complex(0, np.inf), [0.0, "+Infinity"]),
        ("V3", np.void(b"\1\2\3"), "0x010203"),
        ("?", True, True),
        ("u8", 2**64 - 1, 2**64 - 1),
    ],
)
def test_fill_values_are_written_in_the_notation_of_the_draft(
    dtype: str, value: Any, fill: Any
) -> None:
    store = created(dtype=dtype, fill_value=value)
    assert document(store)["fill_value"] == fill
    assert oz.open(store)[:1].tobytes() == np.array([value], dtype).tobytes()


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


# Groups


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


# JSON


@pytest.mark.shows("D3-74", "D3-115")
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (b'{"attributes": {"spam": "ham", "eggs": 42,}}', r"line 1 column 4\d"),
        (b'{"attributes": ', "line 1 column"),
        (b'{"attributes": {"x": NaN}}', "bare NaN"),
        (b'{"attributes": {"x": -Infinity}}', "bare -Infinity"),
        (b'\xef\xbb\xbf{"attributes": {}}', "byte order mark"),
        ('{"attributes": {}}'.encode("utf-16-le"), r"line 1 column|UTF-8"),
        (b'{"attributes": {"x": "\xff"}}', "not UTF-8 at byte 22"),
        (b'{"attributes": {}, "attributes": {}}', "occurs twice"),
        (b"[]", "expected a JSON object"),
    ],
)
@pytest.mark.parametrize("key", ["zarr.json", "meta/a.group.json", "meta/a.array.json"])
def test_invalid_json_is_an_error_with_key_and_position(
    key: str, broken: bytes, message: str
) -> None:
    store = hierarchy()
    store[key] = broken
    # In the final version, whose key it may be, bare numbers in attributes are read.
    final = key == "zarr.json" and message.startswith("bare")
    message = "zarr_format" if final else message
    with pytest.raises((oz.InvalidMetadata, oz.NodeNotFound), match=message) as error:
        oz.open(store, path="a")
    assert key in str(error.value)
    assert isinstance(error.value, oz.NodeNotFound) == final
