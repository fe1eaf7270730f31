"""A view of whatever is stored, in version 2 or 3, read by this package and by zarr-python."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import zarr

import omnizarr as oz
from omnizarr.bulk.view_as.store import ViewStore
from omnizarr.interop.zarr.zarr_python import OmnizarrStore
from omnizarr.stores import Range, list_dir, list_sizes
from tests.bulk.view_as.cases import CHUNKS, PAIRS, REFUSED, SOURCES, VALUES, expected


def array_in(node: Any) -> Any:
    """Return the array of a case, at the root for version 1."""
    return node if hasattr(node, "shape") else node["group/a"]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_values_attributes_and_names_are_those_that_are_stored(source: str, target: int) -> None:
    view = oz.view_as(SOURCES[source](), target)
    array = array_in(oz.open(view))
    np.testing.assert_array_equal(array[...], expected())
    assert array.zarr_format == target
    assert dict(array.attrs)["unit"] == "K"
    assert dict(array.attrs)["n"] == [1, None, {"a": 2.5}]
    if source != "1":
        assert array.dimension_names == ("y", "x")
        assert dict(oz.open(view).attrs) == {"title": "all"}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_zarr_python_reads_a_view(source: str, target: int) -> None:
    stored = SOURCES[source]()
    if f"{target}," in source and not _reads(stored):
        return  # what the format has already is shown as it is
    store = OmnizarrStore(oz.view_as(stored, target))
    node: Any = zarr.open(store, mode="r")
    np.testing.assert_array_equal(array_in(node)[...], expected())
    if source != "1":
        group: Any = zarr.open_consolidated(store, mode="r")
        assert [name for name, _ in group.members(max_depth=None)] == ["group", "group/a"]
        np.testing.assert_array_equal(group["group/a"][...], expected())


@pytest.mark.parametrize("source", sorted(REFUSED))
def test_chunks_that_would_be_cut_anew_are_refused(source: str) -> None:
    view = oz.view_as(SOURCES[source](), 2)
    assert "group/a/.zarray" not in view.list()
    with pytest.raises(oz.CannotExpress, match=r"would be cut anew .*; convert it"):
        view.get("group/a/.zarray")


def _reads(stored: oz.storage.MemoryStore) -> bool:
    """Return True if zarr-python reads what is stored, without a view."""
    try:
        array_in(zarr.open(OmnizarrStore(stored), mode="r"))[...]
    except Exception:
        return False
    return True


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_listings_sizes_and_values_agree(source: str, target: int) -> None:
    view = oz.view_as(SOURCES[source](), target)
    keys = sorted(view.list())
    values = dict(zip(keys, view.get_many([(key, None) for key in keys]), strict=True))
    assert len(keys) == len(set(keys))
    assert None not in values.values()
    assert dict(list_sizes(view, "")) == {k: len(v or b"") for k, v in values.items()}
    assert sorted(_walk(view, "")) == keys
    for key, value in values.items():
        assert value is not None
        assert view.get(key, Range(1, 3)) == value[1:4]
        assert view.get_many([(key, Range(-2)), (key, Range(0, 0))]) == [value[-2:], b""]
        assert view.get_versioned(key, Range(2)) == (value[2:], view.generation(key))
        folder = key.rpartition("/")[0]
        assert key in view.list_prefix(folder + "/" if folder else "")


def _walk(view: ViewStore, prefix: str) -> list[str]:
    keys, prefixes = list_dir(view, prefix)
    return [*keys, *(key for inner in prefixes for key in _walk(view, inner))]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_missing_chunks_are_missing_in_the_view(source: str, target: int) -> None:
    view = oz.view_as(SOURCES[source](), target)
    bound = array_in(oz.open(view))._data
    listed = set(view.list())
    if source.startswith("3") and target == 2:
        # The fill value is null, as xarray would take 0 for missing; so all chunks are there.
        assert not bound.fill_defined
        assert all(view.get(bound.key(coords)) for coords in np.ndindex(*bound.grid.shape))
        assert {bound.key(coords) for coords in np.ndindex(*bound.grid.shape)} <= listed
        return
    for coords in np.ndindex(*bound.grid.shape):
        key = bound.key(coords)
        stored = bound.grid.origin(coords)[1] < 2 * CHUNKS[1]
        assert (view.get(key) is not None) is stored
        assert (view.generation(key) is not None) is stored
        assert (key in view.sizes([key])) is stored
        assert (key in listed) is stored


def test_a_view_starts_at_any_node() -> None:
    store = SOURCES["3, shards"]()
    group = oz.open(store)
    for given in ({"path": "group"}, {}):
        view = oz.view_as(store if given else group["group"], 2, **given)
        np.testing.assert_array_equal(oz.open(view, path="a")[...], expected())
        assert "a/.zarray" in set(view.list())
    view = oz.view_as(store, 2, path="group/a")
    np.testing.assert_array_equal(oz.open(view)[...], expected())
    assert view.get(".zarray") is not None


def test_a_view_is_read_only() -> None:
    view = oz.view_as(SOURCES["2"](), 3)
    for change in (lambda: view.set("x", b""), lambda: view.erase("zarr.json")):
        with pytest.raises(oz.ReadOnly, match="read-only"):
            change()
    with pytest.raises(oz.ReadOnly):
        oz.open(view, path="group/a", mode="r+", kind="array")[...] = 0


def test_there_is_no_view_of_nothing_or_in_a_format_without_consolidated_metadata() -> None:
    with pytest.raises(oz.NodeNotFound, match="nothing exists"):
        oz.view_as(oz.storage.MemoryStore(), 3)
    with pytest.raises(oz.NodeNotFound):
        oz.view_as(SOURCES["2"](), 3, path="no")
    for other in (1, "3-draft"):
        with pytest.raises(oz.InvalidArgument, match="2 or 3"):
            oz.view_as(SOURCES["2"](), other)


@pytest.mark.parametrize("key", ["no", "no/zarr.json", "group/a/c/9/0", "group/a/c/0", "c/0/0"])
def test_other_keys_have_no_value(key: str) -> None:
    view = oz.view_as(SOURCES["2"](), 3)
    assert view.get(key) is None
    assert view.generation(key) is None
    assert view.sizes([key]) == {}
    assert view.get_versioned(key) == (None, None)
    assert [*view.list_prefix("no/")] == [*view.list_prefix("group/a/c/9/")] == []
    for stored in (".zgroup", "group/a/.zarray", "group/a/0.0"):
        assert view.get(stored) is None


@pytest.mark.parametrize("key", ["../x", "/zarr.json", "group//zarr.json", "a\0"])
def test_keys_that_lead_outside_are_refused(key: str) -> None:
    view = oz.view_as(SOURCES["2"](), 3)
    with pytest.raises(oz.InvalidArgument, match="not allowed"):
        view.get(key)


def test_a_view_can_be_pickled_and_compared(tmp_path: Any) -> None:
    oz.save(tmp_path / "a.zarr", VALUES, zarr_format=2)
    view = oz.view_as(tmp_path / "a.zarr", 3)
    other = pickle.loads(pickle.dumps(view))
    assert other == view
    assert hash(other) == hash(view)
    assert other != oz.view_as(tmp_path / "a.zarr", 2)
    np.testing.assert_array_equal(oz.open(other)[...], VALUES)
    assert "zarr 3 view of" in repr(view)
