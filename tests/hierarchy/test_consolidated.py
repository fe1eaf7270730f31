"""Consolidated metadata is used on request, updated by every change, and checked before use."""

from __future__ import annotations

import json
import pickle
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.hierarchy.lookup import readable_nodes
from omnizarr.model import GroupModel, Node
from omnizarr.testing import RecordingStore
from tests.conformance.key_value import SmallestStore
from tests.hierarchy.test_attributes import ComparingStore
from tests.parallel import run_processes, together

zarr = pytest.importorskip("zarr")

FORMATS = (2, 3)


def hierarchy(format: int, store: Any = None) -> dict[str, bytes]:
    store = {} if store is None else store
    root = oz.create_group(store, zarr_format=format, attributes={"title": "t"})
    root.create_array("a", data=np.arange(6), chunks=(2,), attributes={"n": [1]})
    root.create_group("g", attributes={"k": {"l": 2}})
    root.create_array("g/b", data=np.arange(3.0))
    root.create_array("g/deep/c", data=np.ones((2, 2), "u1"))
    oz.consolidate_metadata(store)
    return store  # type: ignore[no-any-return]


def plain(nodes: dict[str, Node] | None) -> dict[str, Node] | None:
    """Nodes without the copies that groups hold of others."""
    if nodes is None:
        return None
    return {
        p: n.with_(consolidated=None) if isinstance(n, GroupModel) else n
        for p, n in nodes.items()
        if p
    }


def truth(store: Any, path: str = "") -> dict[str, Node] | None:
    group = oz.open(store, path=path, use_consolidated=False)
    return plain(readable_nodes(group._location, group._model))


@pytest.mark.parametrize("kind", [SmallestStore, oz.storage.MemoryStore])
@pytest.mark.parametrize(
    ("format", "keys"),
    [(3, ["zarr.json"]), (2, [".zarray", ".zattrs", ".zgroup", ".zmetadata"])],
)
def test_a_whole_hierarchy_opens_with_one_batch_of_requests(
    kind: Any, format: int, keys: list[str]
) -> None:
    store = RecordingStore(kind(hierarchy(format)))
    group = oz.open(store, zarr_format=format, use_consolidated=True)
    members = dict(group.members(max_depth=None))
    assert sorted(members) == ["a", "g", "g/b", "g/deep", "g/deep/c"]
    assert members["g/deep/c"].shape == (2, 2)
    assert members["a"].attrs["n"] == [1]
    assert group["g"]["deep"]["c"].dtype == "u1"
    assert "c" in str(group.tree())
    assert "g/b" in group
    assert sorted(key for call in store.calls for key in call.keys) == keys


@pytest.mark.parametrize("format", FORMATS)
def test_the_first_use_of_data_compares_only_one_metadata_key(format: int) -> None:
    store = RecordingStore(oz.storage.MemoryStore(hierarchy(format)))
    array = oz.open(store, zarr_format=format, use_consolidated=True)["a"]
    document = "a/zarr.json" if format == 3 else "a/.zarray"
    assert not any(document in call.keys for call in store.calls)
    assert array[...].tolist() == list(range(6))
    assert array[2] == 2
    assert sum(document in call.keys for call in store.calls) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_changes_by_another_library_are_noticed_before_data_is_read(
    tmp_path: Path, format: int
) -> None:
    hierarchy(format, tmp_path)
    theirs = zarr.open_group(tmp_path, mode="r+", use_consolidated=False)
    theirs["a"].resize((8,))
    theirs["a"][6:] = [60, 70]
    theirs.create_array("new", shape=(2,), dtype="i4")
    group = oz.open(tmp_path)
    assert group["a"].shape == (8,)
    assert sorted(group) == ["a", "g", "new"]
    asked = oz.open(tmp_path, use_consolidated=True)
    assert asked["new"].shape == (2,)
    array = asked["a"]
    with pytest.warns(oz.OmnizarrWarning, match="out of date"):
        assert array[...].tolist() == [0, 1, 2, 3, 4, 5, 60, 70]
    assert array.shape == (8,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert array[7] == 70


@pytest.mark.parametrize("format", FORMATS)
def test_a_deleted_array_is_not_read_by_consolidated_metadata(tmp_path: Path, format: int) -> None:
    hierarchy(format, tmp_path)
    asked = oz.open(tmp_path, use_consolidated=True)
    for name in ("zarr.json", ".zarray"):
        (tmp_path / "a" / name).unlink(missing_ok=True)
    assert asked["a"].shape == (6,)
    with pytest.raises(oz.NodeNotFound, match="/a"):
        asked["a"][...]


PATHS = ["a", "g", "g/b", "g/deep", "g/deep/c", "new", "new/x", "moved/to"]


def change(root: oz.Group, path: str, what: str) -> None:
    node = root.get(path)
    if what == "group":
        root.create_group(path, overwrite=True)
    elif what == "array":
        root.create_array(path, shape=(3,), dtype="i2", overwrite=True)
    elif node is None:
        return
    elif what == "delete":
        del root[path]
    elif what == "move" and root.get("moved/to") is None:
        root.move(path, "moved/to")
    elif what == "attribute":
        node.attrs["x"] = len(node.attrs)
    elif isinstance(node, oz.Array) and what == "append":
        node.append(node[-1:])
    elif isinstance(node, oz.Array) and what == "resize":
        node.resize(tuple(n + 1 for n in node.shape))


CHANGES = st.tuples(
    st.sampled_from(PATHS),
    st.sampled_from(["group", "array", "delete", "move", "attribute", "append", "resize"]),
    st.booleans(),
)


@pytest.mark.shows("ZEP-15")
@given(st.sampled_from(FORMATS), st.lists(CHANGES, max_size=6))
def test_consolidated_metadata_agrees_with_the_nodes_after_any_changes(
    format: int, changes: list[tuple[str, str, bool]]
) -> None:
    store = hierarchy(format)
    oz.consolidate_metadata(store, "g")
    first = oz.open(store, mode="r+", use_consolidated=True)
    second = oz.open(store, mode="r+")
    for path, what, other in changes:
        with suppress(oz.NodeExists):  # below an array nothing can be created
            change(second if other else first, path, what)
        assert plain(first.consolidated) == truth(store)
        assert sorted(first) == sorted(second)
        inner = oz.open(store)
        if isinstance(inner.get("g"), oz.Group):
            kept = inner["g"].consolidated
            assert kept is None or plain(kept) == truth(store, "g")


@pytest.mark.parametrize("format", FORMATS)
def test_consolidated_metadata_is_exchanged_with_zarr_python(tmp_path: Path, format: int) -> None:
    hierarchy(format, tmp_path / "ours")
    root = oz.open(tmp_path / "ours", mode="r+")
    root.attrs["title"] = "u"
    root["g/b"].append([7.0])
    root.create_array("g/more", data=np.arange(2, dtype="i2"), attributes={"m": 1})
    del root["g/deep"]
    theirs = zarr.open_consolidated(tmp_path / "ours", zarr_format=format)
    members = dict(theirs.members(max_depth=None))
    assert sorted(members) == ["a", "g", "g/b", "g/more"]
    assert members["g/b"].shape == (4,)
    assert members["g/b"][3] == 7.0
    assert dict(members["g/more"].attrs) == {"m": 1}
    assert dict(theirs.attrs) == {"title": "u"}

    other = zarr.create_group(tmp_path / "t", zarr_format=format, attributes={"a": 1})
    other.create_group("g").create_array("x", shape=(3,), dtype="i4")[...] = [1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(tmp_path / "t")
    read = oz.open(tmp_path / "t", use_consolidated=True)
    assert plain(read.consolidated) == truth(tmp_path / "t")
    assert read["g/x"][...].tolist() == [1, 2, 3]
    changed = oz.open(tmp_path / "t", mode="r+")
    changed["g"].create_array("y", shape=(2,), dtype="u1")
    assert sorted(zarr.open_consolidated(tmp_path / "t")["g"].array_keys()) == ["x", "y"]


@pytest.mark.shows("V3-27", "ZEP-15")
@pytest.mark.parametrize("format", FORMATS)
def test_a_new_member_is_listed_where_a_store_cannot_list(format: int) -> None:
    store = SmallestStore(hierarchy(format))
    root = oz.open(store, mode="r+")
    assert sorted(root) == ["a", "g"]
    root.create_array("new", data=np.arange(4))
    root["g"].create_group("h")
    root["a"].attrs["x"] = 1
    assert sorted(root) == ["a", "g", "new"]
    blind = oz.open(SmallestStore(store.values))
    assert sorted(blind) == ["a", "g", "new"]
    assert sorted(blind["g"]) == ["b", "deep", "h"]
    assert dict(blind.members())["a"].attrs["x"] == 1


@pytest.mark.parametrize("format", FORMATS)
def test_an_array_that_was_opened_by_a_copy_is_still_checked_after_pickling(
    tmp_path: Path, format: int
) -> None:
    hierarchy(format, tmp_path)
    array = pickle.loads(pickle.dumps(oz.open(tmp_path, use_consolidated=True)["a"]))
    zarr.open_group(tmp_path, mode="r+", use_consolidated=False)["a"].resize((2,))
    with pytest.warns(oz.OmnizarrWarning, match="out of date"):
        assert array[...].tolist() == [0, 1]


def test_unreadable_consolidated_metadata_prevents_no_change() -> None:
    store = hierarchy(2)
    store[".zmetadata"] = b"{"
    oz.open(store, mode="r+").create_array("new", shape=(1,), dtype="u1")
    assert sorted(oz.open(store)) == ["a", "g", "new"]
    assert store[".zmetadata"] == b"{"
    with pytest.raises(oz.InvalidMetadata, match="zmetadata"):
        oz.open(store, use_consolidated=True, kind="group")


@pytest.mark.parametrize("run", [together, run_processes])
def test_writers_that_create_arrays_at_once_lose_no_copy(run: Any, tmp_path: Path) -> None:
    store = hierarchy(3, {} if run is together else tmp_path)
    root = oz.open(store, mode="r+")

    def work(number: int) -> None:
        for i in range(5):
            root.create_array(f"t{number}_{i}", shape=(1,), dtype="u1")
            root.attrs[f"t{number}_{i}"] = i

    run(*(partial(work, n) for n in range(4)))
    found = oz.open(store)
    assert plain(found.consolidated) == truth(store)
    assert len(found.attrs) == 21


def test_a_store_that_compares_and_replaces_loses_neither_copy_nor_other_changes() -> None:
    store = ComparingStore()
    hierarchy(3, store)
    root = oz.open(store, mode="r+")

    def change(left: int) -> None:
        oz.open(store, mode="r+").attrs[f"other{left}"] = 1
        store.meanwhile = partial(change, left - 1) if left else None

    store.meanwhile = partial(change, 1)
    root.create_array("new", shape=(1,), dtype="u1")
    assert store.refused == 2
    assert "new" in (root.consolidated or {})
    assert sorted(oz.open(store).attrs) == ["other0", "other1", "title"]


@pytest.mark.parametrize("format", FORMATS)
def test_many_new_nodes_are_added_in_one_write(format: int) -> None:
    store = RecordingStore(oz.storage.MemoryStore(hierarchy(format)))
    root = oz.open(store, mode="r+")
    store.calls.clear()
    array = root["a"].metadata
    found = dict(root.create_hierarchy({f"many/x{n}": array for n in range(50)}))
    assert len(found) == 51
    key = "zarr.json" if format == 3 else ".zmetadata"
    assert [call.keys for call in store.calls if call.operation == "set"].count((key,)) <= 2
    assert plain(root.consolidated) == truth(store)
    with pytest.raises(oz.NodeExists, match="is an array"):
        dict(root.create_hierarchy({"b": array, "a/below": array}))
    with pytest.raises(oz.NodeExists, match="already"):
        dict(root.create_hierarchy({"c": array, "many/x7": array}))
    assert plain(root.consolidated) == truth(store)


@pytest.mark.parametrize("format", FORMATS)
def test_the_text_of_other_entries_stays_as_it_is(format: int) -> None:
    store = hierarchy(format)
    key = "zarr.json" if format == 3 else ".zmetadata"
    doc = json.loads(store[key])
    inside = doc["consolidated_metadata"] if format == 3 else doc
    changed = ["g"] if format == 3 else ["g/.zattrs", "g/.zgroup"]
    inside["metadata"] |= {"odd": {"of": ["another", "program", 1e400 if format == 2 else 1]}}
    store[key] = json.dumps(doc, separators=(",", ":")).encode()
    oz.open(store, mode="r+")["g"].attrs["x"] = 1
    for name, entry in inside["metadata"].items():
        text = json.dumps({name: entry}, separators=(",", ":"))[1:-1].encode()
        assert (text in store[key]) == (name not in changed)
    assert plain(oz.open(store).consolidated).keys() - {"odd"} == truth(store).keys()


def test_attributes_of_a_group_change_beside_large_consolidated_metadata() -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store)
    for number in range(40):
        root.create_array(f"a{number}", shape=(4,), dtype="i4", attributes={"n": "x" * 500})
    oz.consolidate_metadata(store)
    before = json.loads(store["zarr.json"])
    root = oz.open(store, mode="r+")
    root.attrs["title"] = "t"
    after = json.loads(store["zarr.json"])
    assert after == {**before, "attributes": {"title": "t"}}
    assert pickle.loads(pickle.dumps(root)).metadata == root.metadata
    assert store["zarr.json"] == json.dumps(after, indent=2).encode()


def test_requested_consolidated_metadata_must_exist() -> None:
    store: dict[str, bytes] = {}
    oz.create_group(store).create_array("a", shape=(1,), dtype="u1")
    assert oz.open(store).consolidated is None
    with pytest.raises(ValueError, match="consolidate_metadata"):
        oz.open(store, use_consolidated=True)
    with pytest.raises(oz.InvalidArgument, match="True, False or None"):
        oz.open(store, use_consolidated=".other", kind="group")
    draft: dict[str, bytes] = {}
    oz.create_group(draft, zarr_format="3-draft")
    with pytest.raises(oz.InvalidMetadata, match="no consolidated metadata"):
        oz.open(draft, use_consolidated=True, kind="group")
    with pytest.raises(oz.CannotExpress, match="consolidated"):
        oz.consolidate_metadata(draft)


def test_version_2_consolidated_metadata_can_have_another_key() -> None:
    store = hierarchy(2)
    store[".other"] = store.pop(".zmetadata")
    assert sorted(oz.open(store, use_consolidated=".other")["g"]) == ["b", "deep"]
    with pytest.raises(oz.InvalidMetadata, match="no consolidated metadata"):
        oz.open(store, use_consolidated=True, kind="group")


def test_unknown_members_of_consolidated_metadata_survive_a_change() -> None:
    store = hierarchy(2)
    doc = {**json.loads(store[".zmetadata"]), "by": {"someone": 1}}
    store[".zmetadata"] = json.dumps(doc).encode()
    oz.open(store, mode="r+")["a"].attrs["x"] = 1
    after = json.loads(store[".zmetadata"])
    assert after["by"] == {"someone": 1}
    assert after["metadata"]["a/.zattrs"] == {"n": [1], "x": 1}
    assert after["zarr_consolidated_format"] == 1


def test_members_of_an_inner_group_are_found_by_outer_consolidated_metadata() -> None:
    store = hierarchy(3)
    asked = oz.open(store, use_consolidated=True)["g"]
    assert sorted(asked.consolidated or {}) == ["b", "deep", "deep/c"]
    assert oz.open(store, path="g").consolidated is None


def test_an_array_is_pickled_without_the_metadata_of_others(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path)
    for number in range(20):
        group.create_array(f"a{number}", data=np.arange(4))
    oz.consolidate_metadata(tmp_path)
    array = oz.open(tmp_path, use_consolidated=True)["a7"]
    alone = oz.open(tmp_path, path="a7")
    assert len(pickle.dumps(array)) < 1.2 * len(pickle.dumps(alone))
    again = pickle.loads(pickle.dumps(array))
    assert again == array
    np.testing.assert_array_equal(again[...], np.arange(4))


@pytest.mark.parametrize("format", [2, 3])
@pytest.mark.filterwarnings("ignore:.*is not JSON")
def test_numbers_that_json_lacks_are_the_same_in_a_copy_of_zarr_python(format: int) -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store, zarr_format=format)
    root.create_array("a", shape=2, dtype="i4", attributes={"x": "?"})
    oz.consolidate_metadata(store)
    bare = {key: text.replace(b'"?"', b"NaN") for key, text in store.items()}
    assert b'"x": NaN' in bare[".zmetadata" if format == 2 else "zarr.json"]
    assert np.isnan(oz.open(bare)["a"].attrs["x"])
    assert np.isnan(oz.open(bare, use_consolidated=True)["a"].attrs["x"])
    oz.consolidate_metadata(bare)
    json.loads(bare[".zmetadata" if format == 2 else "zarr.json"], parse_constant=pytest.fail)
