"""What the specifications of all versions have in common: chunks, their keys, nodes, attributes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.draft_metadata import at_root, codec, extension_type
from tests.conformance.small_stores import strict, v1_store, v2_store
from tests.conformance.v3_metadata import array_doc, put, regular

FORMATS: list[Any] = [1, 2, "3-draft", 3]
HIERARCHIES = FORMATS[1:]
every_format = pytest.mark.parametrize("zarr_format", FORMATS)
# The key of the attributes, and of the document that has them.
DOCUMENTS = {1: "attrs", 2: ".zattrs", "3-draft": "meta/array.json", 3: "zarr.json"}


def key(zarr_format: Any, *coords: int) -> str:
    """Return the key of a chunk of an array at the root."""
    parts = [*map(str, coords)]
    if zarr_format in (1, 2):
        return ".".join(parts) or "0"
    return "data/c" + "/".join(parts) if zarr_format == "3-draft" else "/".join(["c", *parts])


def chunks_of(store: dict[str, bytes]) -> list[str]:
    return sorted(k for k in store if k[-1:].isdigit() or k[-1:] == "c")


def created(zarr_format: Any, data: Any, **options: Any) -> dict[str, bytes]:
    """Return a store with an array of raw items."""
    store: dict[str, bytes] = {}
    oz.create_array(store, data=data, compressors=None, zarr_format=zarr_format, **options)
    return store


@pytest.mark.shows("V1-10", "V2-07", "V2-09", "D3-29", "D3-30", "D3-36", "D3-66")
@every_format
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_chunk_without_filters_and_compressor_is_its_items_in_the_order(
    zarr_format: Any, order: Any
) -> None:
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    store = created(zarr_format, values, chunks=(2, 3), order=order)
    assert store[key(zarr_format, 0, 0)] == values.tobytes(order)
    assert oz.open(store).order == order
    assert np.array_equal(oz.open(store)[...], values)


@pytest.mark.shows("V1-19", "V2-35", "D3-22", "D3-88", "D3-89", "V3-58", "V3-61")
@every_format
@pytest.mark.parametrize(
    ("shape", "chunks", "at", "coords"),
    [
        ((10000, 10000), (1000, 1000), (0, 0), (0, 0)),
        ((10000, 10000), (1000, 1000), (2999, 4999), (2, 4)),
        ((40,), (10,), (30,), (3,)),
        ((11, 1, 8), (1, 1, 1), (10, 0, 7), (10, 0, 7)),
        ((), (), (), ()),
    ],
)
def test_the_key_of_a_chunk_is_made_of_its_indices(
    zarr_format: Any,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    at: tuple[int, ...],
    coords: tuple[int, ...],
) -> None:
    store: dict[str, bytes] = {}
    options: dict[str, Any] = {"dtype": "u1", "fill_value": 3, "zarr_format": zarr_format}
    array = oz.create_array(store, shape=shape, chunks=chunks, **options)
    assert array[at] == 3
    array[at] = 7
    assert chunks_of(store) == [key(zarr_format, *coords)]
    assert array.chunk_key(coords) == key(zarr_format, *coords)
    assert oz.open(store)[at] == 7
    del store[key(zarr_format, *coords)]
    assert array[at] == 3


@pytest.mark.shows("V1-36", "V2-74", "D3-05", "D3-24", "D3-119", "V3-05")
@every_format
@pytest.mark.parametrize("shape", [(), (0, 5), (1, 1, 1, 1, 1), (100, 20)])
def test_any_rank_and_any_length_work(zarr_format: Any, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype="<i4").reshape(shape) + 7
    store = created(zarr_format, values)
    found = oz.open(store)
    assert (found.shape, found.size) == (shape, values.size)
    assert np.array_equal(found[...], values)
    assert bool(chunks_of(store)) == bool(values.size)
    if not shape:
        assert store[key(zarr_format)] == b"\x07\0\0\0"


@pytest.mark.shows("V1-23", "V2-37", "D3-25", "D3-26", "D3-116", "V3-59", "V3-60")
@every_format
def test_edge_chunks_are_complete_and_their_overhang_is_ignored(zarr_format: Any) -> None:
    values, last = np.arange(25, dtype="<i4"), key(zarr_format, 2)
    store = created(zarr_format, values, chunks=10, fill_value=-1)
    assert np.frombuffer(store[last], "<i4").tolist() == [*range(20, 25), *[-1] * 5]
    store[last] = store[last][:20] + b"\x7f" * 20
    array = oz.open(store)
    for region in (np.s_[:], np.s_[20:], np.s_[-1], np.s_[15:100], np.s_[::7]):
        assert np.array_equal(array[region], values[region])
    store[last] = store[last][:20]
    with pytest.raises(oz.ChunkError, match=f"{last}.*20 bytes, expected 40"):
        oz.open(store, kind="array")[20]


@pytest.mark.shows("V1-09", "V1-21", "V2-08", "V3-45")
@every_format
def test_missing_chunks_have_the_fill_value(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(
        store, shape=(20, 20), chunks=(7, 7), dtype="i4", fill_value=42, zarr_format=zarr_format
    )
    array = oz.open(store, mode="r+")
    assert array.fill_value == 42
    assert (array[...] == 42).all()
    array[:7, :7] = 1
    expected = np.full((20, 20), 42)
    expected[:7, :7] = 1
    assert np.array_equal(oz.open(store)[...], expected)


@pytest.mark.shows("V1-33", "V2-28")
@pytest.mark.parametrize("make", [v1_store, v2_store])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
@pytest.mark.parametrize(
    ("name", "value"), [("NaN", np.nan), ("Infinity", np.inf), ("-Infinity", -np.inf)]
)
def test_special_floats_are_read_bare_or_quoted_and_written_quoted(
    make: Any, dtype: str, name: str, value: float
) -> None:
    quoted = make(dtype=dtype, fill_value=name)
    document = min(quoted.keys() & {"meta", ".zarray"})
    bare = {**quoted, document: quoted[document].replace(f'"{name}"'.encode(), name.encode())}
    assert bare[document] != quoted[document]
    for store in (quoted, bare):
        assert np.array_equal(oz.open(store)[:], np.full(4, value, dtype), equal_nan=True)
    oz.open(bare, mode="r+").resize(5)
    written: dict[str, bytes] = {}
    options: dict[str, Any] = {"fill_value": value, "zarr_format": 1 if document == "meta" else 2}
    oz.create_array(written, shape=4, dtype=dtype, **options)
    for store in (written, bare):
        assert json.loads(store[document], parse_constant=pytest.fail)["fill_value"] == name


@pytest.mark.shows("DX-05", "DX-06", "V3-71")
@pytest.mark.parametrize("zarr_format", ["3-draft", 3])
@pytest.mark.parametrize(
    ("data_type", "endian", "values", "stored"),
    [
        ("int32", "big", [-2], "fffffffe"),
        ("int32", "little", [-2], "feffffff"),
        ("complex128", "big", [1 + 2j], "3ff00000000000004000000000000000"),
        ("complex128", "little", [1 + 2j], "000000000000f03f0000000000000040"),
        ("complex64", "big", [1 + 2j], "3f80000040000000"),
        ("bool", "little", [True, False], "0100"),
        ("float16", "big", [1.5], "3e00"),
        ("uint64", "big", [258], "0000000000000102"),
        ("uint8", "big", [1, 2], "0102"),
    ],
)
def test_items_are_in_c_order_and_in_the_stated_byte_order(
    zarr_format: Any, data_type: str, endian: str, values: list[Any], stored: str
) -> None:
    size, fill = len(values), {"b": False, "c": [0.0, 0.0]}.get(data_type[0], 0)
    fields: dict[str, Any] = {"data_type": data_type, "fill_value": fill}
    if zarr_format == 3:
        codecs = [{"name": "bytes", "configuration": {"endian": endian}}]
        store = put(array_doc(shape=[size], chunk_grid=regular(size), codecs=codecs, **fields))
    else:
        store = at_root(size, codecs=[codec("endian", endian=endian)], **fields)
    oz.open(store, "r+")[...] = values
    assert store[key(zarr_format, 0)].hex() == stored
    found = oz.open(store)
    assert (found.dtype, found[...].tolist()) == (np.dtype(data_type), values)


UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]


@pytest.mark.shows("V2-19", "DX-36", "DX-37", "DX-39")
@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize(
    ("zarr_format", "unit"),
    [*((2, u) for u in (*UNITS, "10ms", "25s", "3M")), *(("3-draft", u) for u in UNITS)],
)
def test_every_unit_of_time_keeps_the_whole_range_of_counts(
    zarr_format: Any, kind: str, unit: str
) -> None:
    counts, dtype = np.array([-(2**63), -1, 0, 1, 2**63 - 1], "<i8"), f"<{kind}8[{unit}]"
    store = created(zarr_format, counts.view(dtype), chunks=5)
    if zarr_format == 2:
        assert strict(store)["dtype"] == dtype
    else:
        extended = extension_type("datetime", dtype, fallback=["int64", "r64"])
        assert strict(store, "meta/array.json")["data_type"] == extended
    assert store[key(zarr_format, 0)] == counts.tobytes()
    found = oz.open(store)[...]
    assert found.dtype == np.dtype(dtype)
    assert found.view("<i8").tolist() == counts.tolist()


@pytest.mark.shows("V2-48", "V2-49", "V2-50", "V2-52", "V3-04", "V3-89")
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (".zgroup", b' {"zarr_format": 2 }'),
        ("zarr.json", b'{"node_type": "group", "zarr_format": 3, "attributes": {"kept": true}}'),
    ],
)
def test_creating_a_node_creates_the_missing_groups_above_it(name: str, kept: bytes) -> None:
    zarr_format = 2 if name == ".zgroup" else 3
    store: dict[str, bytes] = {}
    oz.create_group(store, path="foo/baz", zarr_format=zarr_format)
    groups = dict(store)
    assert sorted(groups) == sorted([name, f"foo/{name}", f"foo/baz/{name}"])
    if zarr_format == 2:
        assert set(groups.values()) == {b'{\n    "zarr_format": 2\n}'}
    store = {f"foo/{name}": kept, "foo/.zattrs": b'{"z": 1,  "a": [1,2]}'}
    before = dict(store)
    options: dict[str, Any] = {"shape": 1, "dtype": "u1", "zarr_format": zarr_format}
    array = oz.create_array(store, path="foo/baz/qux", **options)
    assert array.name == "/foo/baz/qux"
    assert oz.open(store, path="/foo/baz/") == oz.open(store)["foo"]["baz"]
    assert [oz.open(store, path=p).name for p in ("", "/foo/", "foo/baz")] == [
        "/",
        "/foo",
        "/foo/baz",
    ]
    array_key = "foo/baz/qux/" + {2: ".zarray", 3: "zarr.json"}[zarr_format]
    assert store == {**groups, **before, array_key: store[array_key]}


@pytest.mark.shows("D3-97", "D3-98", "V3-92")
@pytest.mark.parametrize("zarr_format", HIERARCHIES)
@pytest.mark.parametrize("explicit", [True, False])
def test_erasing_a_node_erases_all_below_it_and_nothing_else(
    zarr_format: Any, explicit: bool
) -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store, zarr_format=zarr_format)
    for name in ("foo/baz", "foo/ba.array", "foo/bag/ba/c"):
        root.create_array(name, data=np.arange(1, 5), chunks=2)
    before = dict(store)
    root.create_array("foo/ba", data=np.arange(1, 5), chunks=2)
    del root["foo/ba"]
    assert store == before
    if explicit:
        root.create_group("foo/ba")
    for name in ("foo/ba/a", "foo/ba/h/b"):
        dots = root.create_array(name, shape=4, chunks=2, chunk_key_encoding=".")
        dots[...] = 1
    del root["foo/ba"]
    assert store == before
    assert list(root["foo"]) == ["ba.array", "bag", "baz"]
    with pytest.raises(oz.NodeNotFound, match="'foo/ba'"):
        del root["foo/ba"]


@pytest.mark.shows("V1-24", "V2-54", "D3-65", "V3-17")
@every_format
def test_attributes_are_an_object_of_any_json(zarr_format: Any) -> None:
    values = {"list": [1, [2, {"x": None}]], "null": None, "float": 1.5e300, "text": "é☃", "": {}}
    values["half of a pair"] = "\ud800"
    store = created(zarr_format, np.arange(3), attributes=values)
    array = oz.open(store, "r+")
    assert dict(array.attrs) == values
    array.attrs["more"] = [True]
    assert dict(oz.open(store).attrs) == {**values, "more": [True]}
    assert oz.validate(store) == []
    document = DOCUMENTS[zarr_format]
    whole = json.loads(store[document])
    assert whole.get("attributes", whole) == {**values, "more": [True]}
    for bad in ([], None, "x", 1):
        wrong = {**whole, "attributes": bad} if "attributes" in whole else bad
        with pytest.raises(oz.InvalidMetadata, match=document.rpartition("/")[2]):
            oz.open({**store, document: json.dumps(wrong).encode()})


@pytest.mark.shows("V2-56", "D3-02", "V3-02")
@pytest.mark.parametrize("path", ["a/b", "a/b/c"])
@pytest.mark.parametrize("zarr_format", HIERARCHIES)
def test_nothing_can_be_created_below_an_array(zarr_format: Any, path: str) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, path="a", shape=3, dtype="i4", zarr_format=zarr_format)
    before = dict(store)
    options: dict[str, Any] = {"shape": 1, "dtype": "i4"}
    for make in (
        lambda: oz.create_group(store, path=path, zarr_format=zarr_format),
        lambda: oz.create_array(store, path=path, zarr_format=zarr_format, **options),
        lambda: oz.open(store, mode="r+").create_group(path),
        lambda: oz.create_array(store, path=path, overwrite=True, **options),
    ):
        with pytest.raises(oz.NodeExists, match="/a in memory is an array"):
            make()
    assert store == before


@pytest.mark.shows("V2-57", "D3-03", "V3-03")
@pytest.mark.parametrize("zarr_format", HIERARCHIES)
def test_a_second_node_at_one_path_needs_overwrite(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store, zarr_format=zarr_format)
    root.create_array("x", data=np.arange(3))
    root.create_group("y")
    before = dict(store)
    for path in ("x", "y"):
        with pytest.raises(oz.NodeExists, match=f"/{path}"):
            root.create_group(path)
        with pytest.raises(oz.NodeExists, match=f"/{path}"):
            root.create_array(path, shape=1, dtype="i4")
    assert store == before
    root.create_group("x", overwrite=True)
    root.create_array("y", shape=1, dtype="i4", overwrite=True)
    kinds = {name: type(member) for name, member in oz.open(store).members()}
    assert kinds == {"x": oz.Group, "y": oz.Array}
    assert chunks_of(store) == []
