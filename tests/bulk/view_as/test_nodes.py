"""Metadata in a view: those of a conversion, of every node that can be shown, never stale."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import list_dir
from tests.bulk.view_as.cases import SOURCES, VALUES, expected
from tests.conventions.ome.test_migrate import SOURCES as IMAGES
from tests.conventions.ome.test_migrate import documents, image
from tests.sampling import some_of_each

# Conventions of OME-Zarr


@pytest.mark.parametrize(("case", "path"), some_of_each(IMAGES, ["", "images/one"], 1))
def test_images_and_plates_get_the_version_that_a_conversion_gives_them(
    case: str, path: str
) -> None:
    make, version, target = IMAGES[case]
    start: dict[str, bytes] = {}
    if path:
        top = oz.create_group(start, zarr_format=5 - target, attributes={"labels": ["a"]})
        top.create_array("table", data=[1, 2])
        top.create_group("images")
    start |= {f"{path}/{key}" if path else key: value for key, value in make(version).items()}
    there: dict[str, bytes] = {}
    oz.convert(start, there, zarr_format=target)
    view = oz.view_as(start, target)
    found = {key: view.get(key) or b"" for key in view.list()}
    assert _plain(documents(found)) == _plain(documents(there))
    problems = oz.ome.validate(view, path)
    assert [str(p) for p in problems if p.level == "error"] == []
    group = oz.open(start)
    for name, member in group.members(None):
        if isinstance(member, oz.Array):
            np.testing.assert_array_equal(oz.open(view, path=name)[...], member[...])


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """Return documents without what a conversion does not write."""
    kept = {key: value for key, value in found.items() if not key.endswith(".zmetadata")}
    for document in kept.values():
        document.pop("consolidated_metadata", None)
    return kept


def test_every_document_of_an_image_is_that_of_the_consolidated_metadata() -> None:
    for version, target in (("0.4", 3), ("0.5", 2)):
        view = oz.view_as(image(version), target)
        name = "zarr.json" if target == 3 else ".zmetadata"
        whole = json.loads(view.get(name) or b"")
        entries = whole["consolidated_metadata" if target == 3 else "metadata"]
        entries = entries["metadata"] if target == 3 else entries
        own = _plain(documents({key: view.get(key) or b"" for key in view.list()}))
        own.pop("zarr.json", None)
        found = {f"{k}/zarr.json" if target == 3 else k: value for k, value in entries.items()}
        assert found == own


def test_an_image_without_a_level_is_shown_as_it_is_stored() -> None:
    start = image("0.4")
    for key in [key for key in start if key.startswith("1/")]:
        del start[key]
    view = oz.view_as(start, 3)
    levels = oz.open(view).attrs["ome"]["multiscales"][0]["datasets"]
    assert [level["path"] for level in levels] == ["0", "1"]
    assert oz.open(view, path="0").dimension_names == ("c", "z", "y", "x")
    assert view.get("1/zarr.json") is None


def test_an_image_that_cannot_be_migrated_is_not_shown_and_says_why() -> None:
    """The scales of version 0.3 come from the shapes of its levels."""
    store: dict[str, bytes] = {}
    top = oz.create_group(store, zarr_format=2)
    top.create_array("other", data=[1, 2])
    inner = top.create_group("image")
    inner.create_array("0", data=np.zeros((1, 1, 1, 8, 8)), chunk_key_encoding="/")
    datasets = [{"path": "0"}, {"path": "1"}]
    axes = list("tczyx")
    inner.attrs["multiscales"] = [{"version": "0.3", "datasets": datasets, "axes": axes}]
    view = oz.view_as(store, 3)
    assert list_dir(view, "") == (["zarr.json"], ["other/"])
    for key in ("image/zarr.json", "image/0/zarr.json"):
        with pytest.raises(oz.CannotExpress, match=r"/image.* cannot be shown as zarr 3: .*'1'"):
            view.get(key)
    assert [*oz.open(view, use_consolidated=True)] == ["other"]
    np.testing.assert_array_equal(oz.open(view, path="other")[...], [1, 2])


# Nodes that cannot be shown


def _with_bad_node(target: int, bad: str) -> oz.storage.MemoryStore:
    """Return a hierarchy of the other version, with one node that has no form in this one."""
    store = oz.storage.MemoryStore()
    top = oz.create_group(store, zarr_format=5 - target)
    top.create_array("good", data=VALUES)
    if bad == "type":
        dtype: Any = [("a", "i4", (2,))] if target == 3 else "bfloat16"
        top.create_array("bad", shape=(3,), chunks=(2,), dtype=dtype)
    elif bad == "name":
        top.create_group("bad")
        top.create_array("bad/...", data=[1])
    else:
        top.create_array("bad", data=[1])
        key = "bad/.zarray" if target == 3 else "bad/zarr.json"
        document = json.loads(store.get(key) or b"")
        document["shape"] = "wrong"
        store.set(key, json.dumps(document).encode())
    return store


@pytest.mark.parametrize("target", [2, 3])
@pytest.mark.parametrize(
    ("bad", "error"), [("type", oz.CannotExpress), ("metadata", oz.InvalidMetadata)]
)
def test_a_node_that_cannot_be_shown_is_not_listed_and_says_why(
    target: int, bad: str, error: type[Exception]
) -> None:
    view = oz.view_as(_with_bad_node(target, bad), target)
    assert list_dir(view, "")[1] == ["good/"]
    assert not any(key.startswith("bad") for key in view.list())
    assert [*oz.open(view, use_consolidated=True)] == [*oz.open(view)] == ["good"]
    np.testing.assert_array_equal(oz.open(view, path="good")[...], VALUES)
    own = ("zarr.json",) if target == 3 else (".zarray", ".zattrs", ".zgroup")
    for key in (*own, "c/0" if target == 3 else "0"):
        for ask in (view.get, view.generation, view.get_versioned, lambda k: view.sizes([k])):
            with pytest.raises(error, match="bad"):
                ask(f"bad/{key}")
    with pytest.raises(error, match="bad"):
        oz.open(view, path="bad", kind="array")


def test_a_name_that_version_3_forbids_is_not_listed_and_says_why() -> None:
    view = oz.view_as(_with_bad_node(3, "name"), 3)
    assert list_dir(view, "bad/") == (["bad/zarr.json"], [])
    with pytest.raises(oz.InvalidName, match="periods only"):
        view.get("bad/.../zarr.json")


def test_version_2_has_names_for_all_dimensions_or_for_none() -> None:
    store = oz.storage.MemoryStore()
    oz.create_array(store, path="a", data=VALUES, dimension_names=["y", None])
    found = oz.open(oz.view_as(store, 2), path="a")
    assert found.dimension_names is None
    np.testing.assert_array_equal(found[...], VALUES)


# Changes of the source


@pytest.mark.parametrize("target", [2, 3])
@pytest.mark.parametrize("source", ["1", "2", "3-draft", "3-draft, shards", "3", "3, shards"])
def test_every_change_of_the_source_is_seen_at_once(source: str, target: int) -> None:
    store = SOURCES[source]()
    view = oz.view_as(store, target)
    path = "" if source == "1" else "group/a"
    stored = oz.open(store, "r+", path=path)
    seen = oz.open(view, path=path)
    np.testing.assert_array_equal(seen[...], expected())
    stored[0, 0] = 99
    assert seen[0, 0] == 99
    stored.resize((12, 7))
    assert oz.open(view, path=path).shape == (12, 7)
    stored[11, 6] = 5
    assert oz.open(view, path=path)[11, 6] == 5
    stored.attrs["unit"] = "m"
    assert oz.open(view, path=path).attrs["unit"] == "m"
    if source == "1":
        return
    stored = oz.create_array(
        store, path=path, data=VALUES.astype("i8"), chunks=(5, 5), overwrite=True
    )
    for found in (oz.open(view, path=path), oz.open(view, use_consolidated=True)[path]):
        assert found.dtype == "i8"
        np.testing.assert_array_equal(found[...], VALUES)
    oz.open(store, "r+").create_array("new/b", data=[1, 2, 3])
    assert [*oz.open(view, use_consolidated=True)] == [*oz.open(view)] == ["group", "new"]
    np.testing.assert_array_equal(oz.open(view, path="new/b")[...], [1, 2, 3])
    del oz.open(store, "r+")["group"]
    assert [*oz.open(view, use_consolidated=True)] == [*oz.open(view)] == ["new"]
    assert view.get("group/a/c/0/0") is None


@pytest.mark.parametrize("target", [2, 3])
def test_a_hierarchy_that_is_replaced_by_one_of_another_format_is_seen(target: int) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, path="g/a", data=[1, 2, 3], chunks=(2,), zarr_format=2)
    view = oz.view_as(store, target)
    chunk = "g/a/0" if target == 2 else "g/a/c/0"
    assert view.get(chunk) is not None
    store.clear()
    oz.create_array(store, path="g/a", data=[4.5, 5, 6], chunks=(3,), zarr_format=3)
    assert view.get("g/a/c/0" if target == 3 else "g/a/0") is not None
    np.testing.assert_array_equal(oz.open(view, path="g/a")[...], [4.5, 5, 6])
    store.clear()
    assert view.get(chunk) is None
    assert view.get("g/a/.zarray" if target == 2 else "g/a/zarr.json") is None
    assert [*view.list()] == []


# Stores that cannot list


class Unlisted:
    """A store without listing."""

    read_only = True

    def __init__(self, inner: oz.storage.MemoryStore) -> None:
        self.inner = inner

    def get(self, key: str, range: Any = None) -> bytes | None:
        return self.inner.get(key, range)

    def set(self, key: str, value: Any) -> None: ...
    def erase(self, key: str) -> None: ...


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("target", [2, 3])
@pytest.mark.parametrize("source", ["2", "3, shards"])
def test_a_store_that_cannot_list_is_shown_as_far_as_its_nodes_are_known(
    source: str, target: int, consolidated: bool
) -> None:
    stored = SOURCES[source]()
    if consolidated:
        oz.consolidate_metadata(stored)
    view = oz.view_as(Unlisted(stored), target)
    np.testing.assert_array_equal(oz.open(view, path="group/a")[...], expected())
    root = json.loads(view.get("zarr.json" if target == 3 else ".zgroup") or b"")
    assert root["zarr_format"] == target
    if consolidated:
        assert oz.open(view, use_consolidated=True)["group/a"].shape == VALUES.shape
    else:
        with pytest.raises(oz.InvalidMetadata, match="no consolidated metadata"):
            oz.open(view, use_consolidated=True)
    with pytest.raises(oz.StoreError, match="cannot list"):
        list_dir(view, "group/a/")
