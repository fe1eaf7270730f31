"""Documents that the specifications do not allow are refused, with their key and the field."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import omnizarr as oz
from tests.conformance.draft_metadata import (
    ARRAY,
    GZIP,
    at_root,
    codec,
    extension_type,
    hierarchy,
    without,
)
from tests.conformance.draft_metadata import regular as draft_grid
from tests.conformance.small_stores import v1_store, v2_store
from tests.conformance.v3_metadata import array_doc, group_doc, put, regular

Store = dict[str, bytes]
# The field that the error names, a pattern of what it says, and values that the field cannot have.
Table = list[tuple[str, str, list[Any]]]
Fills = list[tuple[Any, list[Any]]]  # that do not fit the data type


def refuses(store: Store, said: str) -> None:
    """Check that opening a node and reading it gives such an error and changes nothing."""
    before = dict(store)
    with pytest.raises((oz.InvalidMetadata, oz.UnknownExtension)) as caught:
        oz.open(store, "r+")[...]
    keys = "|".join(map(re.escape, store))
    assert re.search(rf"(({keys}): |array '/'.*){said}", str(caught.value), re.DOTALL)
    assert store == before
    unknown = caught.type is oz.UnknownExtension
    problems = [str(p) for p in oz.validate(store) if p.level == "error" or unknown]
    assert any(re.search(said, problem) for problem in problems)


def wrong(make: Callable[..., Store], table: Table) -> list[tuple[Store, str]]:
    """Return a store for each wrong value, and a pattern of the error."""
    return [
        (make(**{re.split(r"[\[.]", field)[0]: value}), rf"{re.escape(field)}.*{said}")
        for field, said, values in table
        for value in values
    ]


def wrong_fills(make: Callable[..., Store], name: str, table: Fills) -> list[tuple[Store, str]]:
    """Return a store for each fill value that does not fit, and what the error says."""
    return [
        (make(**{name: type_, "fill_value": fill}), f"fill_value of {'' if named else type_}")
        for type_, fills in table
        for named in [name == "dtype" or not isinstance(type_, str)]
        for fill in fills
    ]


# Version 1

NO_LENGTHS: list[Any] = [[-1], ["20"], [20.5], [True]]
V1: Table = [
    ("zarr_format", "", [2, "1", 1.5, True, None, 1.0, ...]),
    ("shape", "", [*NO_LENGTHS, 20, ...]),
    ("chunks", "", [*NO_LENGTHS, 20, [2, 2], None, [0], ...]),
    ("dtype", "", ["f8", "=f8", "|f8", [["a", "i4"]], ...]),
    ("compression", "", [3, ...]),
    *((name, "", [...]) for name in ("compression_opts", "fill_value")),
    ("order", "", ["A", ...]),
]

V1_CASES = [
    *wrong(v1_store, V1),
    (v1_store(compression="zlib", compression_opts="1"), "compression_opts"),
    (v1_store(compression="blosc", compression_opts=5), "compression_opts"),
]


@pytest.mark.shows("V1-05", "V1-06", "V1-07", "V1-08", "V1-10", "V1-15")
@pytest.mark.parametrize(("store", "said"), V1_CASES)
def test_metadata_of_version_1_that_is_not_allowed_is_refused(store: Store, said: str) -> None:
    refuses(store, said)


# Version 2

V2: Table = [
    ("zarr_format", "expected 2", [1, 3, "2", 2.5, 2.0, True, None]),
    *((name, "required", [...]) for name in json.loads(v2_store()[".zarray"])),
    ("shape[0]", "", NO_LENGTHS),
    ("shape", "", ["20"]),
    ("chunks[0]", "", NO_LENGTHS),
    ("chunks", "", ["20", [2, 2]]),
    ("order", "expected 'C' or 'F'", ["K"]),
    ("dimension_separator", "expected", ["-", "", None, 1]),
    ("compressor.id", "expected", [{"level": 1}, {"id": 1}]),
    ("compressor", "expected", ["zlib"]),
    ("filters[0].id", "expected", [[{"dtype": "<f8"}]]),
    ("filters[1]", "expected", [[{"id": "delta", "dtype": "<i4"}, "zlib"]]),
    ("filters", "expected", [{"id": "delta"}]),
    ("dtype", "byte order", ["i4", "=i4", "|i4", [["a", "i4"]]]),
    ("dtype", "unit", ["<M8", "<m8", "<f8[s]", "<M8[fortnight]"]),
    ("dtype", "type string", ["<M8[]", 4]),
    ("dtype", "not a known type", ["<i3"]),
    ("dtype", "", [[], [["a"]], [["a", "<i4", [2], 1]], [[1, "<i4"]], [["a", "<i4", [-1]]]]),
    ("dtype", "", [["<i4"]]),
]
FILLS_V2: Fills = [
    ([["a", "<i4"], ["b", ">f8"]], [base64.b64encode(bytes(n)).decode() for n in (11, 13)]),
    ([["a", "<i4"]], ["", 1]),
    ("|S3", [base64.b64encode(b"four").decode(), "not base64", 1]),
    ("|S12", ["aGVsbG8-"]),
    ("<i4", ["42", 1.5]),
    ("|u1", [256]),
    ("|b1", ["true"]),
    ("<f4", ["nan", [1.0]]),
    ("<c8", [[1.0]]),
    ("<U2", ["abc"]),
    ("|V5", ["AAAA"]),
    ("<M8[s]", ["2020-01-01"]),
]

V2_CASES = [
    *wrong(v2_store, V2),
    *wrong_fills(v2_store, "dtype", FILLS_V2),
    *(
        ({".zgroup": json.dumps({"zarr_format": value}).encode()}, "zarr_format: expected 2")
        for value in ("2", 3, 2.0)
    ),
]


@pytest.mark.shows("V2-03", "V2-04", "V2-05", "V2-06", "V2-09", "V2-10", "V2-16", "V2-18", "V2-20")
@pytest.mark.shows("V2-29", "V2-31", "V2-51", "V2-71", "V2-76")
@pytest.mark.parametrize(("store", "said"), V2_CASES)
def test_metadata_of_version_2_that_is_not_allowed_is_refused(store: Store, said: str) -> None:
    refuses(store, said)


# The draft of version 3

X = "http://example.org/x"
UNKNOWN = {"extension": X, "type": "weird"}
IGNORABLE = {"extension": "http://example.org/foo", "must_understand": False}
EXTENSIONS: Table = [
    ("extensions", "", [{}, ...]),
    ("extensions[0].must_understand", "", [[{"extension": X}]]),
    ("extensions[0].must_understand", "", [[{"extension": X, "must_understand": 1}]]),
    ("extensions[0].extension", "", [[{"must_understand": False}]]),
    ("extensions[0]", "", [[X]]),
    ("extensions[1]", X, [[IGNORABLE, {"extension": X, "must_understand": True}]]),
]
CBOR = {"extension": X, "type": "cbor", "metadata_key_suffix": ".cbor"}
ENTRIES: Table = [
    *EXTENSIONS,
    ("metadata_encoding.metadata_key_suffix", "", [{"type": "json"}]),
    ("metadata_key_suffix", "", [{"type": "json", "metadata_key_suffix": 1}]),
    ("metadata_encoding.type", "", [{"metadata_key_suffix": ".json"}, without(CBOR, "extension")]),
    ("metadata_encoding", "", ["json", None, ...]),
    ("metadata_encoding.extension", X, [CBOR]),
    *((f"metadata_encoding.{n}", "", [without(CBOR, n)]) for n in ("type", "metadata_key_suffix")),
]
GRID = draft_grid(2, 3)
TYPE_NAMES = ["int7", "Float64", "int128", "", "float", "r7", "r12", "r0", "r", "r-8", "r08", "R8"]
TIMES = ["<M8[xx]", "<m8[generic]", "<M8[]", "<M8[NS]", "<M8", "<m8", "<M8ns", "<M4[ns]"]
TIMES += ["M8[ns]", "m8[ns]", "|M8[ns]", "=M8[ns]", ""]
STRUCTS: list[Any] = [[["a"]], [["a", "i4"]], [["a", "<M8"]], [["a", "int33"]], [["", "<i4"]]]
STRUCTS += [[["a", "<i4"], ["a", "<i4"]], [["a", "|O"]], ["a", "<i4"], {"a": "<i4"}, []]
DRAFT_BLOSC = {"cname": "lz4", "clevel": 1, "shuffle": 1, "blocksize": 0}
DRAFT_BLOSC_MEMBERS = {
    **{"clevel": [10, -1, "1"], "cname": ["brotli", 1], "blocksize": [1.5], "speed": [1]},
    "shuffle": [3, -2, "shuffle", True],
}
DRAFT: Table = [
    *EXTENSIONS,
    *((name, "required", [...]) for name in ARRAY),
    ("shape[1]", "", [[10, -1]]),
    ("shape[0]", "", [[1.5], [True]]),
    ("shape", "", ["10"]),
    *((f"data_type.{name}", "", [without(UNKNOWN, name)]) for name in UNKNOWN),
    ("data_type", "", [5, [["x", "<i4"]], "weird"]),
    *(("data_type", repr(name), [name]) for name in TYPE_NAMES),
    *(("data_type.type", "", [extension_type("datetime", t)]) for t in TIMES),
    *(("data_type.type", "", [extension_type("datetime", t)]) for t in (None, 8, {"unit": "ns"})),
    *(("data_type", "", [extension_type("struct", t)]) for t in STRUCTS),
    ("chunk_grid.separator", "", [draft_grid(2, 3, separator="-")]),
    ("chunk_grid.chunk_shape", "", [draft_grid(2, 3, 4), draft_grid(2)]),
    ("chunk_grid.chunk_shape[1]", "", [draft_grid(2, -3)]),
    ("chunk_grid.type", "", [{**GRID, "type": "rectilinear"}, {"extension": X}]),
    *((f"chunk_grid.{name}", "", [without(GRID, name)]) for name in ("type", "chunk_shape")),
    ("chunk_grid.offset", "", [{**GRID, "offset": 1}]),
    ("chunk_grid.extension", "", [{"extension": 5, "type": "x"}]),
    ("chunk_grid", "", ["regular"]),
    ("codecs[0].type", "", [[without(GZIP, "type")]]),
    ("codecs[1].type", "", [[GZIP, {"type": 5}]]),
    *(
        ("codecs[1].type", "expected a URI, got", [[GZIP, {**GZIP, "type": name}]])
        for name in ("gzip", "numcodecs.zlib", "bytes", "two words: x")
    ),
    ("codecs[0].configuration", "", [[{**GZIP, "configuration": [1]}]]),
    ("codecs[0].level", "", [[{**GZIP, "level": 1}]]),
    ("codecs[0]", "", [["gzip"]]),
    ("codecs", "", [{}, None]),
    *(
        (f"codecs[0].configuration.{name}", "", [[codec("blosc", **{**DRAFT_BLOSC, name: value})]])
        for name, values in DRAFT_BLOSC_MEMBERS.items()
        for value in values
    ),
    ("storage_transformers[0].type", "", [[{"extension": X}]]),
    ("storage_transformers[0].extension", "", [[{"type": "x"}]]),
    ("storage_transformers[0]", "", [[X]]),
    ("storage_transformers", "", [{}]),
    ("chunk_memory_layout", "", ["c", None, ["C"]]),
    ("chunk_memory_layout.extension", "", [{"type": "hilbert"}, UNKNOWN]),
    ("chunk_memory_layout.type", "", [{"extension": X}]),
    *((name, "", [None]) for name in ("dimension_names", "foo", "compressor", "zarr_format")),
]
# Members of the sharding transformer, ... for none.
SHARDING: list[tuple[str, dict[str, Any]]] = [
    *(("type", {"type": value}) for value in ("zipped", ..., 1)),
    *(("configuration", {"configuration": value}) for value in ([],)),
    *(("chunks_per_shard", {"configuration": value}) for value in (..., {})),
    *(
        ("chunks_per_shard", {"configuration": {"chunks_per_shard": value}})
        for value in (
            2,
            [2],
            [2, 2, 2],
            [2, 0],
            [2, -1],
            [2, "2"],
            [2, 1.5],
            [2, True],
            [2**40] * 2,
        )
    ),
    ("order", {"configuration": {"chunks_per_shard": [2, 2], "order": "morton"}}),
]


def sharding(changes: dict[str, Any]) -> Store:
    uri = "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0"
    right = {"extension": uri, "type": "indexed", "configuration": {"chunks_per_shard": [2, 2]}}
    stated = {k: value for k, value in {**right, **changes}.items() if value is not ...}
    return at_root(storage_transformers=[stated])


FILLS_DRAFT: Fills = [
    ("bool", [0, "true"]),
    ("int8", [128, -129, 1.0, 1e2, True, "1"]),
    ("uint8", [-1]),
    ("float32", ["0x3f8", "0x3f80000000", "0xzzzzzzzz"]),
    ("float16", ["0b11"]),
    ("float64", ["nan", True]),
    ("complex64", [[1], [1, 2, 3], "0x3f80000", "0x3f8000003f80000", "0b0011"]),
    ("r24", ["0x0102", "0x01 02 03", f"0b{'0' * 23}2", f"0b{'0' * 25}", 0]),
    (extension_type("datetime", "<M8[s]"), ["1970-01-02", 1.5, 2**63, True]),
    (extension_type("string", "S4"), [7, "too long, and not Base64"]),
    (extension_type("string", "<U2"), ["three", "YWJj", 0]),
    (extension_type("struct", [["a", "<i2"]]), ["AAA", base64.b64encode(bytes(3)).decode(), [1]]),
]

DRAFT_CASES = [
    *wrong(hierarchy, ENTRIES),
    *wrong(at_root, DRAFT),
    *wrong_fills(at_root, "data_type", FILLS_DRAFT),
    *((sharding(changes), rf"storage_transformers\[0\].*{said}") for said, changes in SHARDING),
    *(
        (hierarchy({"meta/group.json": document}), field)
        for document, field in (
            ({}, "attributes"),
            ({"attributes": []}, "attributes"),
            ({"attributes": {}, "foo": 1}, "foo"),
            ({"attributes": {}, "extensions": []}, "extensions"),
        )
    ),
]


@pytest.mark.shows("D3-11", "D3-17", "D3-37", "D3-40", "D3-43", "D3-44", "D3-46", "D3-47", "D3-50")
@pytest.mark.shows("D3-51", "D3-52", "D3-55", "D3-56", "D3-60", "D3-61", "D3-62", "D3-64", "D3-66")
@pytest.mark.shows("D3-67", "D3-68", "D3-71", "D3-72", "D3-106", "D3-118", "D3-122", "DX-09")
@pytest.mark.shows("DX-11", "DX-14", "DX-15", "DX-37", "DX-38", "DX-44", "DX-45", "DX-49")
@pytest.mark.parametrize(("store", "said"), DRAFT_CASES)
def test_metadata_of_the_draft_that_is_not_allowed_is_refused(store: Store, said: str) -> None:
    refuses(store, said)


# Version 3

BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
BLOSC_MEMBERS: dict[str, list[Any]] = {
    "cname": ["lz5", "LZ4", 1],
    "clevel": [10, "5", 5.0, True],
    "shuffle": [1, "auto", None],
    "typesize": [0, -4, "4", 4.0],
    "blocksize": [-1, "0", 1.5],
}
ORDERS = [[0, 0, 1], [1, 2, 3], [-1, 0, 1], [0, 1], [0.0, 1, 2], "K", None, [True, 0, 2]]
# Objects of extensions, and the member that the error names.
OBJECTS: list[tuple[Any, str]] = [
    *((value, "name") for value in ({}, {"configuration": {}}, {"name": 1}, {"name": ""})),
    *(({"name": "gzip", "configuration": v}, "configuration") for v in ([], None, "x")),
    ({"name": "gzip", "must_understand": "no"}, "must_understand"),
    ({"name": "gzip", "options": {}}, "options"),
]


def named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def after_bytes(name: str, **configuration: Any) -> list[Any]:
    return ["bytes", named(name, **configuration)]


KNOWN = {
    **{"data_type": named("uint8"), "chunk_grid": regular(4)},
    "chunk_key_encoding": named("default"),
}
V3: Table = [
    ("zarr_format", "", ["3", 3.5, 3.0, True, None, 4, ...]),
    ("node_type", "", ["Array", "thing", 1, None, ...]),
    ("shape", "", [[-1], [1.5], [6.0], 10, "6", None, ["6"], ...]),
    ("shape[0]", "", [[True], [4.0]]),
    ("shape", "63 bits", [[2**63], [2**40, 2**40]]),
    ("shape", "65 dimensions", [[1] * 65]),
    ("data_type", "", [7, ["x"], None, True, ...]),
    ("data_type", "int32x", ["int32x"]),
    ("data_type.configuration.endian", "", [named("int32", endian="big")]),
    ("chunk_grid", "", [7, ["regular"], None, 1.5, regular(-1), ...]),
    ("chunk_grid", "entries", [regular(4, 4)]),
    ("chunk_grid", "chunk_shape", [{"name": "regular"}, named("regular")]),
    ("chunk_grid", r"configuration\.z", [named("regular", chunk_shape=[4], z=1)]),
    ("chunk_key_encoding", "", [7, ["default"], ...]),
    *(
        ("chunk_key_encoding", "separator", [named(name, separator=value)])
        for name in ("default", "v2")
        for value in ("-", "", None, 1, "//")
    ),
    ("chunk_key_encoding", r"configuration\.prefix", [named("default", prefix="d")]),
    ("fill_value", "", [2**31, 1.0, ...]),
    ("codecs", "", [[], {"name": "bytes"}, "bytes"]),
    ("codecs[1]", "", [["bytes", value] for value in (7, ["gzip"], None, True, "bytes")]),
    ("codecs", "gzip", [[named("gzip", level=1)]]),
    ("codecs", r"configuration\.swap", [[named("bytes", swap=1)]]),
    ("codecs", r"configuration\.seed", [after_bytes("crc32c", seed=1)]),
    ("codecs", r"configuration\.x", [after_bytes("gzip", level=1, x=1)]),
    ("codecs", "level", [after_bytes("gzip", level=v) for v in (10, -1, "1", 1.5, True)]),
    *(
        ("codecs", name, [after_bytes("blosc", **{**BLOSC, name: value}) for value in values])
        for name, values in BLOSC_MEMBERS.items()
    ),
    *(
        ("codecs", name, [after_bytes("blosc", **without(BLOSC, name))])
        for name in ("cname", "clevel", "shuffle")
    ),
    ("codecs", "order", [["transpose", "bytes"]]),
    ("storage_transformers[0]", "", [[7], [None], [["x"]]]),
    ("dimension_names", "", [["a", "b"], [1], "x", [["x"]]]),
    ("attributes", "", [[], "x", 1, None]),
    ("surprise", "", [1]),
    *(
        item
        for value, member in OBJECTS
        for item in (
            *((f"{field}.{member}", "", [value]) for field in KNOWN),
            (f"codecs[1].{member}", "", [["bytes", value]]),
            (f"storage_transformers[0].{member}", "", [[value]]),
        )
    ),
    *(
        (f"{field}.must_understand", "", [{**value, "must_understand": False}])
        for field, known in KNOWN.items()
        for value in (known, {"name": "foo"})
    ),
]
CUBE: dict[str, Any] = {"shape": [2, 2, 2], "chunk_grid": regular(2, 2, 2)}
INT32 = {"data_type": "int32"}
V3_TOGETHER: list[tuple[dict[str, Any], str]] = [
    *(({"data_type": r, "fill_value": [0]}, "multiple of 8") for r in ("r12", "r0", "r7")),
    *(({**INT32, "codecs": [named("bytes", endian=e)]}, "endian") for e in ("", 1)),
    *(({**CUBE, "codecs": [named("transpose", order=o), "bytes"]}, "order") for o in ORDERS),
]
FILLS_V3: Fills = [
    ("bool", [2, 0.0, "true", [True]]),
    ("int8", [128, -129, 1.0, 1e2, "1", True, [1]]),
    ("uint8", [-1]),
    ("uint64", [2**64]),
    ("float32", ["nan", "+Infinity", "inf", "-inf", "1.5", True, [1]]),
    ("float32", ["0x7fc0000", "0x07fc00000", "0x", "7fc00000", "0x7fc0000g"]),
    ("float64", ["0x7fc00000"]),
    ("complex64", [1, [1], [1, 2, 3], "NaN", [1, "nan"], {"re": 1, "im": 2}]),
    ("r16", [[256, 0], [1], [1, 2, 3], [-1, 0], [1.0, 0], [True, 0], 0, None, [0] * 16]),
]


def v3_store(**changes: Any) -> Store:
    return put(array_doc(**changes))


V3_CASES = [
    *wrong(v3_store, V3),
    *wrong_fills(v3_store, "data_type", FILLS_V3),
    *((v3_store(**changes), said) for changes, said in V3_TOGETHER),
    *(
        (put(group_doc(consolidated_metadata=value)), "consolidated_metadata")
        for value in (1, [], "inline", {"kind": "inline", "metadata": {}})
    ),
]


@pytest.mark.shows("V3-09", "V3-10", "V3-11", "V3-13", "V3-14", "V3-16", "V3-26", "V3-36", "V3-37")
@pytest.mark.shows("V3-38", "V3-40", "V3-41", "V3-42", "V3-43", "V3-47", "V3-51", "V3-61", "V3-62")
@pytest.mark.shows("V3-71", "V3-73", "V3-75", "V3-76", "V3-77", "V3-78", "V3-95", "V3-98", "V3-106")
@pytest.mark.shows("V3-107")
@pytest.mark.filterwarnings("ignore::omnizarr.errors.OmnizarrWarning")
@pytest.mark.parametrize(("store", "said"), V3_CASES)
def test_metadata_of_version_3_that_is_not_allowed_is_refused(store: Store, said: str) -> None:
    refuses(store, said)


# Text that is not JSON

NOT_JSON: list[tuple[bytes, str]] = [
    (b'{"attributes": {"spam": "ham", "eggs": 42,}}', r"line 1 column 4\d"),
    (b'{"attributes": ', "line 1 column"),
    (b"", "line 1 column 1"),
    ('{"attributes": {}}'.encode("utf-16-le"), r"line 1 column|UTF-8"),
    (b'{"attributes": {"x": "\xff"}}', "not UTF-8 at byte 22"),
    (b"[]", "expected a JSON object"),
    (b"null", "expected a JSON object"),
    (b'{"attributes": ' + b"[" * 100_000, "nested too deeply"),
    (b'{"attributes": {"x": ' + b"[" * 150 + b"]" * 150 + b"}}", "128 levels"),
    (b'{"attributes": {"x": ' + b"9" * 10_000 + b"}}", "digits"),
]
NOT_JSON_IN_THE_DRAFT: list[tuple[bytes, str]] = [
    (b'{"attributes": {"x": NaN}}', "bare NaN"),
    (b'{"attributes": {"x": -Infinity}}', "bare -Infinity"),
    (b'\xef\xbb\xbf{"attributes": {}}', "byte order mark"),
    (b'{"attributes": {}, "attributes": {}}', "occurs twice"),
]
KEYS = ("meta", ".zarray", ".zgroup", "zarr.json", "meta/group.json", "meta/array.json")


@pytest.mark.shows("V1-04", "V2-02", "V2-51", "D3-74", "D3-115")
@pytest.mark.parametrize(
    ("key", "broken", "message"),
    [
        (key, *pair)
        for key in KEYS
        for pair in (*NOT_JSON, *(NOT_JSON_IN_THE_DRAFT if ".json" in key else ()))
    ],
)
def test_invalid_json_is_an_error_with_key_and_position(
    key: str, broken: bytes, message: str
) -> None:
    store = {**(hierarchy() if "/" in key else {}), "attrs": b"{}", key: broken}
    if key == "zarr.json" and message.startswith("bare"):
        message = "zarr_format"  # it may be final metadata, whose attributes may have such numbers
    with pytest.raises(oz.InvalidMetadata, match=message) as error:
        oz.open(store)
    assert key in str(error.value)
