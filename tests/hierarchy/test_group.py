"""Groups: a mapping of nodes by path in every format."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores.wrappers import WrapperStore
from omnizarr.testing import FaultyStore, RecordingStore
from tests.conformance.key_value import SmallestStore

T = TypeVar("T")
FORMATS: tuple[int | str, ...] = (2, "3-draft", 3)


def sample(zarr_format: int | str = 3, store: Any = None) -> oz.Group:
    """/a (array), /b (group), /b/c (array), /b/d (group), /b/d/e (array)."""
    root = oz.create_group(store, zarr_format=zarr_format)
    root.create_array("a", data=np.arange(6).reshape(2, 3), chunks=2)
    root.create_group("b", attributes={"x": 1})
    root["b"].create_array("c", data=np.arange(4.0))
    root.create_group("b/d")
    root["b/d/e"] = np.ones(2, bool)
    return root


@pytest.mark.parametrize("option", [{"zarr_format": 2}, {"path": "b"}, {"storage_options": {}}])
def test_options_of_a_place_are_refused_with_the_reason(option: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"has the store and the format of the group; .*path="):
        sample().create_array("new", shape=2, **option)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_it_is_a_mapping_of_its_members(zarr_format: int | str) -> None:
    root = sample(zarr_format)
    assert list(root) == list(root.keys()) == ["a", "b"]
    assert [m.name for m in root.values()] == ["/a", "/b"]
    assert [(n, m.name) for n, m in root.items()] == [("a", "/a"), ("b", "/b")]
    assert len(root) == 2
    assert "b/c" in root
    assert "/b/d/" in root
    assert "x" not in root
    assert 3 not in root
    assert isinstance(root["b/d"], oz.Group)
    assert root["b"]["d"]["e"] == root["b/d/e"]
    assert root.get("b/c")[2] == 2.0
    assert root.get("x") is None
    assert root.get("x", 5) == 5
    with pytest.raises(KeyError, match="members: a, b"):
        root["x"]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_members_are_found_to_any_depth(zarr_format: int | str) -> None:
    root = sample(zarr_format)
    paths = ["a", "b", "b/c", "b/d", "b/d/e"]
    assert [p for p, _ in root.members(max_depth=None)] == paths
    assert [p for p, _ in root.members(max_depth=1)] == paths[:4]
    assert [p for p, _ in root.members()] == ["a", "b"]
    assert all(m.path == p for p, m in root.members(None))
    with pytest.raises(ValueError, match="max_depth"):
        root.members(-1)


@pytest.mark.parametrize(("zarr_format", "count"), [(2, 1000), ("3-draft", 1000), (3, 10_000)])
def test_many_members_are_one_listing_and_one_fetch(zarr_format: int | str, count: int) -> None:
    root = oz.create_group(None, zarr_format=zarr_format)
    first = root.create_array("n00000", shape=3, chunks=3)
    documents = {k: v for k, v in root.store.values.items() if "n00000" in k}
    for number in range(1, count):
        name = f"n{number:05}"
        root.store.values.update({k.replace("n00000", name): v for k, v in documents.items()})
    store = RecordingStore(root.store)
    found = oz.open(store, zarr_format=zarr_format)
    for act in (lambda g: list(g.keys()), lambda g: g.members()):
        store.calls.clear()
        assert len(act(found)) == count
        assert store.counts() == {"get_many": 1, "list_dir": 1}
    assert found[f"n{count - 1:05}"].shape == first.shape


def test_showing_and_pickling_nodes_makes_no_store_request() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    root = sample(3, store)
    array = root["a"]
    store.calls.clear()
    for node in (root, array):
        assert repr(node)
        assert str(node.info)
        assert node._repr_html_().startswith("<div")
        assert node.metadata.kind in ("array", "group")
    assert "members" not in root.info
    assert store.calls == []


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_nodes_survive_pickling_and_are_equal(zarr_format: int | str, tmp_path: Path) -> None:
    root = sample(zarr_format, tmp_path)
    for node in (root, root["a"], root["b/d"]):
        again = pickle.loads(pickle.dumps(node))
        assert again == node
        assert repr(again) == repr(node)
    array = pickle.loads(pickle.dumps(root["a"]))
    array[0] = 7
    assert root["a"][0].tolist() == [7, 7, 7]
    assert root["a"] != root["b/c"]
    assert root["b"] != root


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_required_node_is_opened_or_created(zarr_format: int | str) -> None:
    root = sample(zarr_format)
    assert root.require_group("b").attrs == {"x": 1}
    assert root.require_group("new/deep").path == "new/deep"
    assert root.require_group("b", overwrite=True).attrs == {}
    assert len(root["b"]) == 0
    assert root.require_array("a", shape=(2, 3))[1, 2] == 5
    assert root.require_array("a", shape=(2, 3), dtype="f8").dtype == np.dtype("i8")
    assert root.require_array("b/z", shape=4, dtype="i2", chunks=2).chunks == (2,)
    for wrong in (
        lambda: root.require_array("a", shape=(2, 4)),
        lambda: root.require_array("a", shape=(2, 3), dtype="i2"),
        lambda: root.require_array("a", shape=(2, 3), dtype="f8", exact=True),
        lambda: root.require_array("b", shape=(2, 3)),
        lambda: root.require_group("a"),
    ):
        with pytest.raises(TypeError):
            wrong()
    assert root["a"].shape == (2, 3)


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("where", ["memory", "directory"])
def test_a_member_is_moved_with_all_below_it(
    zarr_format: int | str, where: str, tmp_path: Path
) -> None:
    root = sample(zarr_format, None if where == "memory" else tmp_path)
    before = {p: n.metadata for p, n in root.members(None)}
    root.move("b", "new/place")
    assert "b" not in root
    after = {p: n.metadata for p, n in root["new/place"].members(None)}
    assert after == {p[2:]: n for p, n in before.items() if p.startswith("b/")}
    assert root["new/place"].attrs == {"x": 1}
    assert root["new/place/c"][...].tolist() == [0, 1, 2, 3]
    root.move("a", "new/place/d/a")
    assert root["new/place/d/a"][...].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert oz.validate(root.store) == []


@pytest.mark.parametrize(
    ("source", "dest", "error"),
    [
        ("x", "y", oz.NodeNotFound),
        ("b", "b/d/inside", oz.InvalidName),
        ("b", "b", oz.InvalidName),
        ("", "y", oz.InvalidName),
        ("a", "b", oz.NodeExists),
        ("b", "a/below", oz.NodeExists),
    ],
)
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_move_that_makes_no_sense_changes_nothing(
    zarr_format: int | str, source: str, dest: str, error: type[Exception]
) -> None:
    root = sample(zarr_format)
    before = dict(root.store.values)
    with pytest.raises(error):
        root.move(source, dest)
    assert root.store.values == before


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("after", range(5))
def test_an_interrupted_move_can_be_tried_again(zarr_format: int | str, after: int) -> None:
    """Its remains have no metadata and could not be erased by name either."""
    root = sample(zarr_format)
    left = iter([None] * after)
    stopped = FaultyStore(
        root.store,
        lambda operation, key: next(left, KeyError()) if operation.startswith("set") else None,
    )
    with pytest.raises((KeyError, oz.StoreError)):
        oz.open(stopped, "r+", kind="group").move("b", "new")
    assert root["b/c"][...].tolist() == [0, 1, 2, 3]
    if oz.open(root.store).get("new") is not None:
        del root["new"]
    root.move("b", "new")
    assert root["new/c"][...].tolist() == [0, 1, 2, 3]
    assert "b" not in root
    assert oz.validate(root.store) == []


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_deleting_takes_all_below_and_nothing_beside(zarr_format: int | str) -> None:
    root = sample(zarr_format)
    del root["b/d"]
    assert [p for p, _ in root.members(None)] == ["a", "b", "b/c"]
    for name in ("x", "b/d", "", "/"):
        with pytest.raises(KeyError):
            del root[name]
    assert len(root) == 2


def test_moving_and_deleting_keep_what_is_not_zarr_unless_asked_to_erase_it() -> None:
    root = sample()
    root.store.set("b/notes.txt", b"mine")
    before = dict(root.store.values)
    with pytest.raises(oz.StoreError, match=r"notes\.txt"):
        root.move("b", "c")
    assert root.store.values == before
    with pytest.raises(oz.StoreError, match=r"notes\.txt.*foreign=True"):
        del root["b"]
    assert root.store.values == before
    root.delete("b", foreign=True)
    assert not [key for key in root.store.values if key.startswith("b/")]


def test_requiring_a_node_below_an_array_says_that_it_is_one() -> None:
    root = sample()
    root.create_array("z", shape=3)
    for require in (root.require_group, lambda path: root.require_array(path, shape=3, dtype="i4")):
        with pytest.raises(oz.NodeExists, match="is an array; nothing can be below it"):
            require("z/below")


def test_a_store_that_cannot_list_is_reported_and_opens_by_name() -> None:
    store = SmallestStore()
    oz.create_group(store).create_array("a", shape=3)
    root = oz.open(store)
    assert root["a"].shape == (3,)
    assert "a" in root
    assert root.get("b") is None
    for act in (len, list, lambda g: g.members(), lambda g: g.tree()):
        with pytest.raises(oz.StoreError, match="cannot list"):
            act(root)


def test_a_tree_is_bounded_by_depth_and_by_number() -> None:
    root = sample()
    full = str(root.tree()).splitlines()
    assert full[0] == "/"
    assert [line.strip("│├└─ ").split(" ")[0] for line in full[1:]] == ["a", "b", "c", "d", "e"]
    assert len(str(root.tree(level=1)).splitlines()) == 3
    assert str(root.tree(level=0)) == "/"
    assert str(root.tree(max_nodes=1)).splitlines()[1:] == [full[1], "└── … 1 more"]
    assert str(root.tree(max_nodes=2)).endswith("└── b  …")
    html = root.tree()._repr_html_()
    assert html.count("<details open='open'>") == 3
    assert root.tree(expand=False)._repr_html_().count("<details>") == 3


def test_a_bounded_tree_asks_for_no_more_than_it_shows() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    root = oz.create_group(store)
    for number in range(30):
        root.create_group(f"g{number:02}/inner")
    store.calls.clear()
    text = str(root.tree(max_nodes=32))
    assert len(text.splitlines()) == 1 + 32
    assert text.count("…") == 30
    assert len(store.calls) == 2 * 3


class Overtaken(WrapperStore):
    """Lets another writer act right after a key was found to be absent."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.meanwhile: dict[str, Callable[[], object]] = {}

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        result = run()
        if operation in ("get", "get_many"):
            for key in keys:
                self.meanwhile.pop(key, lambda: None)()
        return result


@pytest.fixture(params=["memory", "directory", "sqlite", "smallest"])
def overtaken(request: pytest.FixtureRequest, tmp_path: Path) -> Overtaken:
    inner: dict[str, Callable[[], Any]] = {
        "memory": oz.storage.MemoryStore,
        "directory": lambda: oz.storage.LocalStore(tmp_path / "d"),
        "sqlite": lambda: oz.storage.SQLiteStore(tmp_path / "s"),
        "smallest": SmallestStore,
    }
    return Overtaken(inner[request.param]())


def test_a_group_that_another_writer_makes_just_now_keeps_its_attributes(
    overtaken: Overtaken,
) -> None:
    root = oz.create_group(overtaken)
    other = oz.open(overtaken.inner, "r+")
    make = partial(other.create_group, "new", attributes={"by": "other"})
    overtaken.meanwhile["new/zarr.json"] = make
    root.create_array("new/a", shape=3, dtype="i4")
    assert root["new"].attrs == {"by": "other"}
    assert root["new/a"].shape == (3,)

    make = partial(other.create_group, "b", attributes={"by": "other"})
    overtaken.meanwhile["b/zarr.json"] = make
    assert root.require_group("b").attrs == {"by": "other"}
    overtaken.meanwhile["c/zarr.json"] = partial(other.create_array, "c", shape=2, dtype="u1")
    assert root.require_array("c", shape=2).dtype == "u1"
    overtaken.meanwhile["d/zarr.json"] = partial(other.create_array, "d", shape=2, dtype="u1")
    with pytest.raises(oz.NodeExists):
        root.create_array("d", shape=5, dtype="f8")
    assert root["d"].shape == (2,)


def test_a_node_that_another_writer_created_meanwhile_is_opened() -> None:
    store = Overtaken(oz.storage.MemoryStore())
    make = partial(oz.create_group, store.inner, attributes={"by": "other"})
    store.meanwhile["zarr.json"] = make
    assert oz.open(store, "a").attrs == {"by": "other"}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("place", [lambda _: {}, lambda folder: folder / "x"])
def test_a_group_that_was_deleted_gets_no_members(
    tmp_path: Path, place: Callable[[Path], Any], zarr_format: Any
) -> None:
    """They would bring it back without its attributes."""
    root = oz.create_group(place(tmp_path), zarr_format=zarr_format)
    group = root.create_group("g", attributes={"k": 1})
    del root["g"]
    creators: list[Callable[[], object]] = [
        lambda: group.create_group("a"),
        lambda: group.create_array("a", shape=3, dtype="i4"),
        lambda: group.create_array("a", data=[1], overwrite=True),
        lambda: group.require_group("a"),
        lambda: group.__setitem__("a", [1]),
    ]
    for create in creators:
        with pytest.raises(oz.NodeChanged, match="deleted or moved"):
            create()
    assert list(root) == []


def test_a_list_of_names_needs_one_look_at_the_members() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    group = oz.create_group(store)
    group.create_group("a")
    assert [*group] == ["a"]
    store.calls.clear()
    assert list(group) == ["a"]  # which also asks for the length
    alone = len(store.calls)
    store.calls.clear()
    assert ",".join(iter(group)) == "a"
    assert len(store.calls) == alone
    later = iter(group)
    assert len(group) == 1
    group.create_group("b")
    assert (list(group), sorted(group), len(group)) == (["a", "b"], ["a", "b"], 2)
    assert [*later] == ["a"]  # as of the length
