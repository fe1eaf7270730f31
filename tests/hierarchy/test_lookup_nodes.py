"""Operations on hierarchies take arrays, groups and other objects with a store and a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.publish.stage import FOLDER, PLAN, Mark, marker
from omnizarr.storage import LocalStore, MemoryStore, StorePath

VALUES = np.arange(6)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (f"{FOLDER}/1_00000000_1_00000000/{PLAN}", b"{}", "`omnizarr repair` finishes that"),
        (marker("a"), Mark("rechunk", attempt="x").write(), "run that again with resume=True"),
    ],
)
def test_the_reason_for_an_absent_member_names_an_interrupted_job(
    key: str, value: bytes, words: str
) -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store)
    store[key] = value
    with pytest.raises(oz.NodeNotFound, match=words):
        root["a"]


def group(zarr_format: Any = 3, store: Any = None) -> oz.Group:
    """Return a group in another one, with an array of its own; a third one is not valid."""
    root = oz.create_group({} if store is None else store, zarr_format=zarr_format)
    made = root.create_group("g")
    made.create_array("a", data=VALUES)
    if zarr_format == 3:
        root.store.set("bad/zarr.json", b"{}")
    return made


GIVEN: dict[str, Callable[[oz.Group], Any]] = {
    "group": lambda made: made,
    "array": lambda made: made["a"],
    "store path": lambda made: StorePath(made.store, made.path) / "a",
}


@pytest.mark.parametrize("kind", GIVEN)
def test_only_the_node_that_is_given_is_read(kind: str) -> None:
    given = GIVEN[kind](group())
    assert oz.validate(given) == []
    assert oz.verify(given).ok
    assert oz.verify(given).arrays == 1
    assert oz.repair(given) == []


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", GIVEN)
def test_only_the_node_that_is_given_is_copied_and_converted(kind: str, zarr_format: Any) -> None:
    given = GIVEN[kind](group(zarr_format))
    other = 5 - zarr_format
    copies: list[dict[str, bytes]] = [{}, {}]
    oz.copy(given, copies[0])
    assert oz.convert(given, copies[1], zarr_format=other).arrays == 1
    for copy, expected in zip(copies, (zarr_format, other), strict=True):
        node = oz.open(copy)
        assert node.zarr_format == expected
        assert (oz.load(copy, path="a" if kind == "group" else "") == VALUES).all()


def test_a_path_is_relative_to_the_group_that_is_given() -> None:
    made, copy = group(), dict[str, bytes]()
    assert oz.validate(made, path="a") == []
    assert oz.verify(made, path="a").groups == 0
    oz.copy(made, copy, path="a")
    assert (oz.load(copy) == VALUES).all()


def test_a_copy_goes_to_the_path_of_the_destination(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "x.zarr")
    oz.create_group(store)
    oz.copy(group()["a"], StorePath(store, "b/c"))
    assert (oz.load(store, path="b/c") == VALUES).all()
    with pytest.raises(oz.NodeExists):
        oz.copy(group()["a"], oz.open(store, "r+", path="b/c"))
    frozen = oz.open(store, "r", path="b/c")
    with pytest.raises(oz.ReadOnly, match="read-only"):
        oz.copy(group()["a"], frozen, overwrite=True)
    assert (oz.load(store, path="b/c") == VALUES).all()


def test_a_store_of_a_node_stays_open(tmp_path: Path) -> None:
    store = oz.storage.ZipStore(tmp_path / "x.zip", mode="w")
    oz.copy(group()["a"], StorePath(store, "b"))
    assert (oz.load(store, path="b") == VALUES).all()
    oz.save(store, VALUES, path="c")
    store.close()


def test_parts_that_cannot_be_treated_alone_are_refused() -> None:
    draft, made = group("3-draft"), group(2)
    with pytest.raises(oz.InvalidArgument, match="/g/a cannot be converted alone"):
        oz.convert(draft["a"], {}, zarr_format=3)
    with pytest.raises(oz.InvalidArgument, match="in_place=True converts whole hierarchies"):
        oz.convert(made, in_place=True)
    with pytest.raises(oz.InvalidArgument, match="writes the root of a store, not /x"):
        oz.convert(made, StorePath(MemoryStore(), "x"))
    with pytest.raises(oz.InvalidArgument, match=r"remove_jobs erases the .* whole store"):
        oz.repair(made, dry_run=False, remove_jobs=True)


def test_a_root_is_converted_in_place_unless_it_is_read_only() -> None:
    store = MemoryStore()
    oz.save(store, VALUES, zarr_format=2)
    with pytest.raises(oz.ReadOnly, match="read-only"):
        oz.convert(oz.open(store, "r"), in_place=True)
    with pytest.raises(oz.ReadOnly, match="read-only"):
        oz.repair(oz.open(store, "r"), dry_run=False)
    oz.convert(oz.open(store, "r+"), in_place=True)
    assert oz.open(store).zarr_format == 3


def test_images_and_plates_are_given_as_their_groups() -> None:
    store = MemoryStore()
    image = oz.ome.write(store, np.ones((8, 8), "u1"), axes="yx", path="images/cell")
    for given in (image, image.group, StorePath(image.group.store, image.group.path)):
        assert [each for each in oz.ome.validate(given) if each.level == "error"] == []
        assert oz.verify(given, conventions=True).ok
    assert "array" in oz.ome.validate(image.levels[0])[0].message
    plate = oz.ome.write_plate({}, {"A/1": [np.ones((8, 8), "u1")]}, axes="yx")
    assert [each for each in oz.ome.validate(plate) if each.level == "error"] == []
