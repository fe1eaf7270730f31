"""The 2022 draft of version 3: operations on nodes, storage transformers, extensions, conflicts."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import stores
from omnizarr.stores import Range, Store
from omnizarr.testing import RecordingStore
from tests.conformance.draft_metadata import (
    BIG,
    DRAFT,
    ENTRY,
    GZIP,
    array,
    hierarchy,
    regular,
    text,
    with_array,
)
from tests.conformance.key_value import KeyValueStore

EXPLICIT = {"attributes": {}}
VALUES = np.arange(24, dtype="<i4").reshape(4, 6)


def kinds(group: oz.Group, max_depth: int | None = 0) -> dict[str, str]:
    return {name: type(m).__name__ for name, m in group.members(max_depth)}


def data_keys(store: dict[str, bytes]) -> list[str]:
    return sorted(k for k in store if k.startswith("data/"))


# Creating


@pytest.mark.shows("D3-91", "D3-113")
def test_creating_a_node_sets_only_its_own_metadata() -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, path="foo/baz/qux", shape=1, dtype="i4", zarr_format=DRAFT)
    assert sorted(store) == ["meta/foo/baz/qux.array.json", "zarr.json"]
    for path in ("", "foo", "foo/baz"):
        group = oz.open(store, path=path)
        assert group.metadata.implicit
    oz.create_group(store, path="foo/bar", zarr_format=DRAFT)
    assert sorted(store) == [
        "meta/foo/bar.group.json",
        "meta/foo/baz/qux.array.json",
        "zarr.json",
    ]
    assert not oz.open(store, path="foo/bar").metadata.implicit


@pytest.mark.shows("D3-92")
def test_many_arrays_are_created_in_parallel_below_one_group(tmp_path: Path) -> None:
    root = tmp_path / "h"

    def create(i: int) -> None:
        made = oz.create_array(root, path=f"g/a{i}", shape=1, dtype="i4", zarr_format=DRAFT)
        made[...] = i

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(create, range(1, 101)))
    group = oz.open(root, path="g")
    assert kinds(group) == {f"a{i}": "Array" for i in range(1, 101)}
    assert sorted(int(a[0]) for _, a in group.arrays()) == list(range(1, 101))


# Discovering


@pytest.mark.shows("D3-94", "D3-113")
def test_children_are_explicit_nodes_and_implied_groups() -> None:
    store = hierarchy({"meta/foo/bar.group.json": EXPLICIT, "meta/foo/baz/qux.array.json": array()})
    assert kinds(oz.open(store, path="foo")) == {"bar": "Group", "baz": "Group"}
    assert kinds(oz.open(store)) == {"foo": "Group"}
    assert kinds(oz.open(store, path="foo/baz")) == {"qux": "Array"}
    assert kinds(oz.open(store, path="foo/bar")) == {}


@pytest.mark.shows("D3-95", "D3-99")
def test_without_a_listing_an_implied_group_cannot_be_found() -> None:
    """C4: such a store was said to have none."""
    store = KeyValueStore()
    store.values = hierarchy({"meta/foo/bar.array.json": array()})
    root = oz.open(store)
    for use in (lambda: "foo" in root, lambda: root.get("foo")):
        with pytest.raises(oz.StoreError, match=r"cannot list.*cannot be known whether /foo is"):
            use()
    for ask in (lambda: root["foo"], lambda: oz.open(store, path="foo")):
        with pytest.raises(oz.NodeNotFound, match="cannot be known whether /foo is a group"):
            ask()
    assert "foo/bar" in root
    assert oz.open(store, "r+").require_group("foo").path == "foo"
    assert "foo" in root
    listed = oz.open(store.values)
    assert "nothing" not in listed
    assert listed.get("nothing") is None


def listed(store: RecordingStore) -> list[str]:
    """Return the prefixes that were listed."""
    return [call.keys[0] for call in store.calls if call.operation.startswith("list")]


def deep_hierarchy() -> RecordingStore:
    documents = {f"meta/g{i}/h/a{j}.array.json": array() for i in range(5) for j in range(3)}
    values = hierarchy({**documents, "meta/g0/x.group.json": EXPLICIT})
    values.update({f"data/g0/h/a0/c{i}/{j}": bytes(24) for i in range(30) for j in range(30)})
    return RecordingStore(oz.storage.MemoryStore(values))


@pytest.mark.shows("D3-96")
def test_one_listing_of_the_metadata_yields_every_node() -> None:
    store = deep_hierarchy()
    root = oz.open(store)
    store.calls.clear()
    found = kinds(root, max_depth=None)
    groups = {f"g{i}": "Group" for i in range(5)} | {f"g{i}/h": "Group" for i in range(5)}
    arrays = {f"g{i}/h/a{j}": "Array" for i in range(5) for j in range(3)}
    assert found == {**groups, **arrays, "g0/x": "Group"}
    assert listed(store) == ["meta/"]
    store.calls.clear()
    assert len(str(root.tree()).splitlines()) == 1 + len(found)
    assert listed(store) == ["meta/"]
    store.calls.clear()
    assert len(root["g0"].members(max_depth=None)) == 5
    assert listed(store)[-1] == "meta/g0/"


# Erasing


@pytest.mark.shows("D3-100")
def test_an_implied_group_vanishes_with_its_last_member_unless_it_is_kept() -> None:
    store = hierarchy({"meta/g/a.array.json": array(), "meta/h/a.array.json": array()})
    root = oz.open(store, "r+")
    root.delete("g/a")
    assert "g" not in root
    root.delete("h/a", keep_parent=True)
    assert json.loads(store["meta/h.group.json"]) == EXPLICIT
    assert kinds(root) == {"h": "Group"}


@pytest.mark.shows("D3-101")
def test_parent_groups_are_made_explicit_on_request() -> None:
    store = hierarchy({"meta/old.group.json": {"attributes": {"x": 1}}})
    with oz.configure(explicit_groups=True):
        oz.create_array(store, path="a/b/c", shape=1, dtype="i4", zarr_format=DRAFT)
        oz.create_group(store, path="old/g", zarr_format=DRAFT)
    assert sorted(store) == [
        "meta/a.group.json",
        "meta/a/b.group.json",
        "meta/a/b/c.array.json",
        "meta/group.json",
        "meta/old.group.json",
        "meta/old/g.group.json",
        "zarr.json",
    ]
    assert json.loads(store["meta/a.group.json"]) == EXPLICIT
    assert oz.open(store, path="old").attrs == {"x": 1}


# Storage transformers


class Renaming:
    """A transformer that renames keys and mixes values with a byte, both from its configuration."""

    log: list[tuple[str, str]] = []  # noqa: RUF012 - shared by all on purpose

    def __init__(self, store: Store, prefix: str, named: Any, encoding: Any, grid: Any) -> None:
        config = named.configuration["configuration"]
        self.store, self.ending, self.byte = store, config["ending"], config["byte"]
        self.read_only = store.read_only

    def _mix(self, value: bytes) -> bytes:
        return bytes(b ^ self.byte for b in value)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        value = self.store.get(key + self.ending)
        plain = None if value is None else self._mix(value)
        return plain if plain is None or range is None else range.of(plain)

    def set(self, key: str, value: Any) -> None:
        self.log.append((self.ending, key))
        self.store.set(key + self.ending, self._mix(bytes(value)))

    def erase(self, key: str) -> None:
        self.store.erase(key + self.ending)

    def list(self) -> Iterator[str]:
        for key in stores.list_prefix(self.store, ""):
            yield key.removesuffix(self.ending)


@pytest.fixture
def renaming(own_names: None) -> list[dict[str, Any]]:
    """Register two entries for `storage_transformers` during the test."""
    uri = "http://example.org/transformer/renaming"
    oz.register("storage_transformer", uri, Renaming)
    Renaming.log.clear()
    return [
        {"extension": uri, "type": "x", "configuration": {"ending": ending, "byte": byte}}
        for ending, byte in ((".first", 0x0F), (".second", 0xF0))
    ]


@pytest.mark.shows("D3-102", "D3-103")
def test_transformers_are_stacked_in_order_and_return_the_set_values(
    renaming: list[dict[str, Any]],
) -> None:
    store = with_array(storage_transformers=renaming)
    opened = oz.open(store, "r+", path="a")
    opened[:2, :3] = VALUES[:2, :3]
    assert Renaming.log == [(".first", "data/a/c0/0"), (".second", "data/a/c0/0.first")]
    raw = VALUES[:2, :3].tobytes()
    assert store["data/a/c0/0.first.second"] == bytes(b ^ 0xFF for b in raw)
    seen = opened._bound.chunk_store
    assert seen.get("data/a/c0/0") == raw
    assert seen.get("data/a/c0/0", Range(4, 4)) == raw[4:8]
    assert opened.chunks_present().tolist() == [[True, False], [False, False]]
    assert np.array_equal(oz.open(dict(store), path="a")[:2, :3], VALUES[:2, :3])
    opened[:2, :3] = 0
    assert data_keys(store) == []


@pytest.mark.shows("D3-104")
def test_a_cache_at_run_time_changes_neither_keys_nor_metadata() -> None:
    plain: dict[str, bytes] = {}
    below: dict[str, bytes] = {}
    cache = oz.storage.CacheStore(oz.storage.MemoryStore(below))
    for store in (plain, cache):
        root = oz.create_group(store, zarr_format=DRAFT)
        made = root.create_array("a", shape=(4, 6), chunks=(2, 3), dtype="i4", compressors=None)
        made[...] = VALUES
        assert np.array_equal(made[...], made[...])
        made[:2, :3] = 0
        assert made[0, 1] == 0
    assert below == plain


# Where the text contradicts itself, or says nothing


@pytest.mark.shows("D3-107", "D3-108", "D3-120")
@pytest.mark.parametrize(
    "stated", ["<f8", ">i4", "|u1", "i1", "u1", "|i1", ">f2", "<c16", "<i8", ">u8", "int64"]
)
def test_numpy_spellings_are_read_and_written_as_core_names(stated: str) -> None:
    store = with_array(shape=[3], chunk_grid=regular(3), data_type=stated)
    name, big = np.dtype(stated).name, stated[0] == ">"
    stored = np.array([1, 2, 3], np.dtype(stated))
    store["data/a/c0"] = stored.tobytes()
    opened = oz.open(store, "r+", path="a")
    assert opened.dtype == stored.dtype
    assert np.array_equal(opened[...], stored)
    opened.attrs["x"] = 1
    document = json.loads(store["meta/a.array.json"])
    assert document["data_type"] == name
    assert document.get("codecs", []) == ([BIG] if big else [])
    assert store["data/a/c0"] == stored.tobytes()
    assert np.array_equal(oz.open(store, path="a")[...], stored)


@pytest.mark.shows("D3-112")
def test_the_root_uses_meta_and_data_without_a_double_slash() -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store, zarr_format=DRAFT)
    assert list(root) == []
    root.create_array("group", shape=1, dtype="i4")
    root.create_group("array")
    assert kinds(root) == {"array": "Group", "group": "Array"}
    assert not any("//" in key for key in store)
    oz.create_array(store, shape=1, dtype="i4", zarr_format=DRAFT, overwrite=True)[...] = 1
    assert sorted(store) == ["data/c0", "meta/array.json", "zarr.json"]
    assert isinstance(oz.open(store), oz.Array)


@pytest.mark.shows("D3-119")
def test_the_chunk_c0_of_an_array_without_axes_is_read_but_never_written() -> None:
    store = with_array(shape=[], chunk_grid=regular(), fill_value=-1)
    store["data/a/c0"] = np.array(5, "<i4").tobytes()
    opened = oz.open(store, "r+", path="a")
    assert opened[()] == 5
    store["data/a/c"] = np.array(6, "<i4").tobytes()
    assert opened[()] == 6
    opened[...] = 7
    assert data_keys(store) == ["data/a/c"]
    assert opened[()] == 7


# Earlier states of the draft

OLD_ENTRY = {
    "zarr_format": "https://purl.org/zarr/spec/core/3.0",
    "metadata_encoding": "https://purl.org/zarr/spec/core/3.0",
    "metadata_key_suffix": ".json",
    "extensions": [],
}
PROTOCOL = "https://purl.org/zarr/spec/protocol/core/3.0"
OLD_GZIP = {"codec": "https://purl.org/zarr/spec/codec/gzip/1.0", "configuration": {"level": 1}}
FLOATS = np.linspace(-1, 1, 24).reshape(4, 6)
# Each state of the document: entry point, below which folder, array fields, bytes of an item.
_EARLIEST = {**OLD_ENTRY, "zarr_format": PROTOCOL, "metadata_encoding": PROTOCOL}
STATES: dict[str, tuple[dict[str, Any], str, dict[str, Any], str]] = {
    name: (entry, "" if entry is ENTRY else "root/", fields, stored)
    for name, entry, fields, stored in (
        ("2020 to May 2022", _EARLIEST, {"data_type": "<f8", "compressor": OLD_GZIP}, "<f8"),
        ("the same, big endian", _EARLIEST, {"data_type": ">f8", "compressor": OLD_GZIP}, ">f8"),
        ("May 2022", OLD_ENTRY, {"data_type": "<f8", "compressor": OLD_GZIP}, "<f8"),
        ("7 November 2022", OLD_ENTRY, {"data_type": "<f8", "codecs": [GZIP]}, "<f8"),
        ("10 November 2022", OLD_ENTRY, {"data_type": "float64", "codecs": [GZIP]}, "<f8"),
        ("10 November, big", OLD_ENTRY, {"data_type": "float64", "codecs": [BIG, GZIP]}, ">f8"),
        ("24 November 2022", ENTRY, {"data_type": "float64", "codecs": [GZIP]}, "<f8"),
        ("24 November, its example", ENTRY, {"data_type": "<f8", "codecs": [GZIP]}, "<f8"),
    )
}


def in_state(state: str) -> dict[str, bytes]:
    """Return a store with an array at ``/g/a`` and group attributes, in a state of the draft."""
    entry, folder, fields, stored = STATES[state]
    store = {"zarr.json": text(entry)}
    extensions = {"extensions": []} if folder else {}
    top = "meta/root.group.json" if folder else "meta/group.json"
    store[top] = text({"attributes": {"title": "old"}, **extensions})
    store[f"meta/{folder}g/a.array.json"] = text(array(**fields, attributes={"x": 1}))
    for j, i in np.ndindex(2, 2):
        chunk = FLOATS[2 * j : 2 * j + 2, 3 * i : 3 * i + 3].astype(stored)
        store[f"data/{folder}g/a/c{j}/{i}"] = gzip.compress(chunk.tobytes())
    return store


@pytest.mark.shows("D3-120")
@pytest.mark.parametrize("state", STATES)
def test_every_state_of_the_draft_is_read_and_earlier_ones_are_never_written(state: str) -> None:
    store, early = in_state(state), bool(STATES[state][1])
    before = dict(store)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        root = oz.open(store, "r+")
    assert len(record) == early
    assert all("(before 24 November 2022)" in str(w.message) for w in record)
    assert root.attrs == {"title": "old"}
    assert kinds(root, max_depth=None) == {"g": "Group", "g/a": "Array"}
    opened = root["g/a"]
    assert (opened.zarr_format, opened.attrs) == (DRAFT, {"x": 1})
    assert np.array_equal(opened[...], FLOATS)
    for use in (
        lambda: opened.__setitem__(0, 1),
        lambda: opened.attrs.update(y=2),
        lambda: opened.resize(8, 8),
        lambda: root.create_group("new"),
        lambda: root.delete("g"),
        lambda: oz.create_group(store, zarr_format=DRAFT, overwrite=True),
    ):
        if early:
            with pytest.raises(oz.ReadOnly, match=r"24 November 2022.*convert"):
                use()
    assert store == before


@pytest.mark.shows("D3-120")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.filterwarnings("ignore::omnizarr.OmnizarrWarning")
def test_converting_an_earlier_state_writes_the_final_draft(state: str) -> None:
    target: dict[str, bytes] = {}
    oz.convert(in_state(state), target, zarr_format=DRAFT)
    assert json.loads(target["zarr.json"]) == ENTRY
    codecs = [BIG, GZIP] if STATES[state][3] == ">f8" else [GZIP]
    document = json.loads(target["meta/g/a.array.json"])
    assert document == array(data_type="float64", codecs=codecs, attributes={"x": 1})
    assert np.array_equal(oz.open(target, path="g/a")[...], FLOATS)


@pytest.mark.parametrize("zarr_format", [3, None])
def test_version_3_is_not_created_in_a_draft_hierarchy(zarr_format: int | None) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, path="a", data=np.arange(3), zarr_format="3-draft")
    before = dict(store)
    with pytest.raises(oz.NodeExists, match="3-draft"):
        oz.create_group(store, zarr_format=zarr_format)
    with pytest.raises(oz.NodeExists, match=r"'zarr\.json'"):
        oz.create_array(store, path="b", zarr_format=3, shape=1, dtype="u1")
    assert store == before
    oz.create_group(store, zarr_format=zarr_format, overwrite=True)
    assert list(store) == ["zarr.json"]
    assert oz.open(store).zarr_format == 3
