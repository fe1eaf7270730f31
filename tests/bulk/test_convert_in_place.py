"""Metadata of another format beside the old: added, undone, or in place of the old."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import StoreError
from omnizarr.stores import MemoryStore
from omnizarr.testing import FaultyStore
from tests.conventions.ome.test_migrate import image, plate

SLASHES = {"chunk_key_encoding": {"name": "v2", "separator": "."}}


def hierarchy(zarr_format: int = 2, **options: Any) -> dict[str, bytes]:
    """Return a hierarchy that can be converted in place."""
    store: dict[str, bytes] = {}
    keys: dict[str, Any] = SLASHES if zarr_format == 3 else {}
    group = oz.create_group(store, zarr_format=zarr_format, attributes={"a": 1, "nan": 2.5})
    for number, name in enumerate(("x", "g/y", "g/h/z")):
        group.create_array(
            name,
            data=np.arange(20).reshape(4, 5) + number,
            chunks=(2, 2),
            compressors=["gzip"] if zarr_format == 3 else [{"id": "zlib"}],
            attributes={"n": number},
            **keys,
            **options,
        )
    return store


CASES: dict[str, tuple[Callable[[], dict[str, bytes]], int]] = {
    "2 to 3": (hierarchy, 3),
    "3 to 2": (lambda: hierarchy(3), 2),
    "image": (lambda: image("0.4"), 3),
    "plate": (lambda: plate("0.4"), 3),
}


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_undo_leaves_exactly_what_was_there(case: str, consolidated: bool) -> None:
    make, target = CASES[case]
    store = make()
    if consolidated:
        oz.consolidate_metadata(store)
    before = dict(store)
    report = oz.convert(store, in_place=True, zarr_format=target)
    added = {key for key in store if key not in before}
    assert {key: store[key] for key in before} == before
    assert bool(report.consolidated) == consolidated
    assert {*oz.undo_conversion(store, zarr_format=target, dry_run=True)} == added
    assert len(store) == len(before) + len(added)
    assert {*oz.undo_conversion(store, zarr_format=target)} == added
    assert store == before


@pytest.mark.parametrize("case", CASES)
def test_the_old_metadata_is_removed_on_request(case: str) -> None:
    make, target = CASES[case]
    store, both = make(), make()
    oz.convert(store, in_place=True, zarr_format=target, remove_old=True)
    assert oz.open(store).zarr_format == target
    assert oz.validate(store) == []
    oz.convert(both, in_place=True, zarr_format=target)
    assert both != store
    oz.convert(both, in_place=True, zarr_format=target, remove_old=True)  # that were kept at first
    assert both == store
    with pytest.raises(oz.NodeNotFound, match="only metadata of zarr"):
        oz.undo_conversion(store, zarr_format=target)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "new attribute": lambda root: root["g/y"].attrs.update(new=1),
    "other attribute": lambda root: root["g/y"].attrs.update(n=7),
    "no attribute": lambda root: root.attrs.clear(),
    "values": lambda root: root["x"].__setitem__((slice(None), 1), 7),
    "larger": lambda root: root["g/h/z"].append(np.ones((3, 5), "i8")),
    "smaller": lambda root: root["g/h/z"].resize((1, 5), outside="erase"),
    "new array": lambda root: root["g"].create_array("new", data=[1]),
    "deleted": lambda root: root.delete("x"),
    "moved": lambda root: root.move("g/h", "m"),
    "replaced": lambda root: root.create_array("x", data=[1, 2], overwrite=True),
}
NOTES = {
    "other attribute": {"/g/y": "other attributes than in zarr 2"},
    "no attribute": {"/": "other attributes than in zarr 2"},
    "larger": {"/g/h/z": "the shape is (7, 5) and was (4, 5) in zarr 2"},
    "smaller": {"/g/h/z": "the shape is (1, 5) and was (4, 5) in zarr 2"},
}


@given(names=st.lists(st.sampled_from([*CHANGES]), max_size=4, unique=True))
def test_old_metadata_are_removed_after_later_changes(names: list[str]) -> None:
    names.sort(key=[*CHANGES].index)  # so that each finds its node
    store, expected = hierarchy(), hierarchy()
    for one in (store, expected):
        oz.consolidate_metadata(one)
        oz.convert(one, in_place=True, remove_old=one is expected)
        root = oz.open(one, mode="r+", zarr_format=3)
        for name in names:
            CHANGES[name](root)
    seen = [
        dict(oz.open(store, zarr_format=2, use_consolidated=use).members(max_depth=None))
        for use in (True, False)
    ]
    assert {*seen[0]} == {*seen[1]}
    report = oz.convert(store, in_place=True, remove_old=True)
    notes = {path: text for name in names for path, text in NOTES.get(name, {}).items()}
    if "moved" in names and "/g/h/z" in notes:
        notes["/m/z"] = notes.pop("/g/h/z")
    assert report.notes == notes
    assert store == expected


def test_old_metadata_of_nodes_without_new_ones_are_kept() -> None:
    store = hierarchy()
    oz.convert(store, in_place=True)
    oz.open(store, mode="r+", zarr_format=2).create_array("late", data=[1])
    before = dict(store)
    with pytest.raises(oz.NodeExists, match=r"/late of zarr 2 is not there in zarr 3.*undo_conv"):
        oz.convert(store, in_place=True, remove_old=True)
    store["g/late/.zarray"] = store["late/.zarray"]
    root = oz.open(store, mode="r+", zarr_format=3)
    with pytest.raises(oz.StoreError, match=r"/g in memory holds.*'g/late/\.zarray'"):
        root.delete("g")
    del store["g/late/.zarray"]
    assert store == before
    oz.undo_conversion(store)
    oz.convert(store, in_place=True, remove_old=True)
    assert oz.open(store)["late"][0] == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("new attribute", "attributes of /g/y were changed"),
        ("larger", "/g/h/z was resized"),
        ("new array", "/g/new has no metadata of zarr 2"),
    ],
)
def test_undo_refuses_to_lose_what_came_later(name: str, message: str) -> None:
    store = hierarchy()
    oz.convert(store, in_place=True)
    CHANGES[name](oz.open(store, mode="r+", zarr_format=3))
    before = dict(store)
    with pytest.raises(oz.StoreError, match=rf"{message}.*nothing was erased"):
        oz.undo_conversion(store)
    assert store == before


def test_values_that_were_written_later_stay() -> None:
    store = hierarchy()
    oz.convert(store, in_place=True)
    oz.open(store, mode="r+", zarr_format=3)["x"][...] = 7
    oz.undo_conversion(store)
    assert (oz.open(store)["x"][...] == 7).all()


def test_metadata_of_others_is_not_replaced() -> None:
    store = hierarchy()
    store["g/y/zarr.json"] = b"{}"
    before = dict(store)
    with pytest.raises(oz.NodeExists, match=r"already has zarr 3 metadata, in 'g/y/zarr\.json'"):
        oz.convert(store, in_place=True)
    assert store == before
    with pytest.raises(oz.NodeNotFound):
        oz.undo_conversion({**hierarchy(3)})


@given(number=st.integers(0, 12), removes=st.booleans())
def test_a_failing_store_has_all_new_metadata_or_none(number: int, removes: bool) -> None:
    inner = MemoryStore(hierarchy())
    before = dict(inner.values)
    left = number

    def fault(operation: str, key: str) -> Exception | None:
        nonlocal left
        if operation not in ("set", "set_many"):
            return None
        left -= 1
        return oz.StoreError("the disk is full") if left < 0 else None

    try:
        oz.convert(FaultyStore(inner, fault), in_place=True, remove_old=removes)
    except oz.StoreError:
        assert inner.values == before
    else:
        assert oz.open(inner, zarr_format=3)["g/y"].attrs["n"] == 1


@pytest.mark.parametrize("number", range(1, 6))
def test_an_interrupted_conversion_in_place_is_done_or_undone_again(number: int) -> None:
    """The process ends between two documents: the old hierarchy works, as does either way on."""
    finished = hierarchy()
    oz.convert(finished, in_place=True)
    before = hierarchy()
    added = sorted(finished.keys() - before.keys(), key=lambda key: -key.count("/"))
    store = before | {key: finished[key] for key in added[:number]}
    assert oz.open(store).zarr_format == 2
    other = dict(store)
    oz.convert(store, in_place=True)
    assert store == finished
    oz.undo_conversion(other)
    assert other == before
    # The same for an interrupted undo.
    rest = {key: value for key, value in finished.items() if key not in added[-number:]}
    if rest != before:
        oz.undo_conversion(rest)
    assert rest == before


def test_arguments_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(TypeError, match="remove_old requires in_place"):
        oz.convert(hierarchy(), {}, remove_old=True)
    with pytest.raises(oz.InvalidArgument, match=r"no chunk is read: .* omnizarr\.verify"):
        oz.convert(hierarchy(), in_place=True, skip_damaged=True)


def test_zarr_python_s_migration_can_be_undone_too(tmp_path: Path) -> None:
    migrate = pytest.importorskip("zarr.metadata.migrate_v3")
    zarr = pytest.importorskip("zarr")
    group = oz.create_group(tmp_path / "x.zarr", zarr_format=2, attributes={"a": [1]})
    group.create_array("g/y", data=np.arange(9), chunks=4, compressors=oz.codecs.GZip(level=2))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    migrate.migrate_v2_to_v3(input_store=zarr.storage.LocalStore(tmp_path / "x.zarr"))
    assert len(oz.undo_conversion(tmp_path / "x.zarr")) == 3
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("around", [(2,), (3,), (2, 3), ()], ids=str)
@pytest.mark.parametrize("kept", [2, 3])
def test_a_part_of_a_hierarchy_stays_listed_whatever_is_erased(
    around: tuple[int, ...], kept: int, tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole.zarr", tmp_path / "whole.zarr" / "g"
    if around:
        oz.create_group(whole, zarr_format=around[0])
    if len(around) == 2:
        oz.convert(whole, in_place=True)
    oz.create_group(part, zarr_format=2)
    oz.create_array(part, path="x", data=np.arange(4), zarr_format=2)
    oz.convert(part, in_place=True)

    def listed() -> bool:
        return any("g" in oz.open(whole, "r", zarr_format=each) for each in around)

    def erase() -> None:
        if kept == 3:
            oz.convert(part, in_place=True, remove_old=True)
        else:
            oz.undo_conversion(part)

    if around and kept not in around:
        with pytest.raises(StoreError, match="as a whole"):
            erase()
        assert {2, 3} == {f for f in (2, 3) if oz.open(part, "r", zarr_format=f)["x"].size}
    else:
        erase()
        assert oz.open(part).zarr_format == kept
    assert listed() == bool(around)


def test_a_conversion_in_place_to_the_same_format_removes_nothing() -> None:
    store = hierarchy()
    oz.consolidate_metadata(store)
    before = dict(store)
    oz.convert(store, zarr_format=2, in_place=True, remove_old=True)
    assert store == before
