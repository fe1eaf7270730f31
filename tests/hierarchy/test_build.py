"""A node is replaced only when the new one is complete, and no partial node is visible."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import storage, stores
from omnizarr.bulk import journal
from omnizarr.formats import by_name
from omnizarr.hierarchy.build import build, make_array
from omnizarr.hierarchy.location import Location
from omnizarr.publish.publication import all_stages
from omnizarr.publish.stage import FOLDER, MARKER, Mark, begin_writing, end_writing, marker, stage
from omnizarr.storage import PrefixStore, ReadOnlyStore
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.testing import FaultyStore
from tests.failing import Killed, Killing, interrupt_after
from tests.parallel import FORK, run_processes
from tests.sampling import sample

VALUES = np.arange(60, dtype="i4").reshape(6, 10)
STORES: dict[str, Callable[[Path], Any]] = {
    "directory": lambda path: LocalStore(path / "x.zarr"),
    "memory": lambda path: MemoryStore(),
    "zip": lambda path: storage.ZipStore(path / "x.zip", mode="a"),
    "sqlite": lambda path: stores.resolve(f"sqlite://{path}/x.db"),
    "prefix": lambda path: PrefixStore(LocalStore(path), "x.zarr"),
    "fsspec": lambda path: stores.resolve(f"local://{path}/x.zarr"),
}
FORMATS = [2, "3-draft", 3]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = STORES[request.param](tmp_path)
    yield made
    with suppress(AttributeError):
        made.close()


def _filled(store: Any, zarr_format: Any) -> oz.Group:
    group = oz.create_group(store, zarr_format=zarr_format, overwrite=True)
    array = group.create_array("x", shape=VALUES.shape, chunks=(4, 4), dtype="i4")
    array[...] = VALUES
    return group


@pytest.mark.parametrize("options", [{"shape": 2, "dtype": "i4"}, {"data": [1, 2]}])
def test_a_node_that_appears_while_another_is_created_is_replaced(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, create_parents = MemoryStore(), Location.create_parents
    group = oz.create_group(store)

    def meet(self: Location, found: Any = None) -> Any:
        if self.path == "x":
            monkeypatch.setattr(Location, "create_parents", create_parents)
            oz.create_array(store, path="x", data=[9])
        return create_parents(self, found)

    monkeypatch.setattr(Location, "create_parents", meet)
    made = group.create_array("x", overwrite=True, **options)
    assert made[...].tolist() == options.get("data", [0, 0])


@pytest.mark.parametrize("error", [oz.StoreError, KeyboardInterrupt])
def test_a_failure_while_metadata_are_staged_leaves_no_stage(error: type[BaseException]) -> None:
    inner = MemoryStore()
    group = oz.create_group(PrefixStore(inner, "r"), zarr_format=2)
    group.create_array("x", data=[1, 2, 3], attributes={"a": 1})

    def fault(what: str, key: str) -> BaseException | None:
        return error("refused") if what == "set" and key.endswith("x/.zattrs") else None

    failing = oz.open(FaultyStore(PrefixStore(inner, "r"), fault), "r+")
    for options in ({"shape": 3}, {"data": [4]}):
        with pytest.raises(error):
            failing.create_array("x", overwrite=True, attributes={"b": 1}, **options)
        assert not [key for key in inner.values if FOLDER in key]
        assert group["x"][...].tolist() == [1, 2, 3]


def _clean(store: Any) -> bool:
    """Return True if no stage and no marker is left."""
    return not all_stages(store) and not any(MARKER in key for key in stores.list_prefix(store, ""))


def _keys(store: Any) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in stores.list_prefix(store, "")}


WAYS: dict[str, Callable[[Any, oz.Group, Any], object]] = {
    "setitem": lambda store, group, data: group.__setitem__("x", data),
    "create_array": lambda store, group, data: group.create_array("x", data=data, overwrite=True),
    "array": lambda store, group, data: oz.create_array(store, data=data, path="x", overwrite=True),
    "save_array": lambda store, group, data: oz.save(store, data, path="x", overwrite=True),
    "open": lambda store, group, data: oz.open(store, "w", path="x", data=data),
}
DATA: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "itself": (lambda x: x, VALUES),
    "astype": (lambda x: x.astype("f4"), VALUES.astype("f4")),
    "view": (lambda x: x.view[::-1, 2:], VALUES[::-1, 2:]),
}


@pytest.mark.parametrize(("zarr_format", "way"), sample(itertools.product(FORMATS, WAYS), 5))
def test_a_node_can_be_replaced_by_its_own_values(store: Any, zarr_format: Any, way: str) -> None:
    """A1: afterwards all was the fill value."""
    for lazy, expected in DATA.values():
        group = _filled(store, zarr_format)
        WAYS[way](store, group, lazy(group["x"]))
        found = oz.open(store)["x"]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found[...], expected)
        assert _clean(store)


def test_the_way_to_the_old_node_does_not_matter(tmp_path: Path) -> None:
    """A1: links, other spellings, wrappers and adapters passed for other places."""
    zarr = pytest.importorskip("zarr")
    (tmp_path / "link").symlink_to(tmp_path / "x.zarr")
    for way in (
        tmp_path / "link",
        f"{tmp_path}/../{tmp_path.name}/x.zarr",
        ReadOnlyStore(LocalStore(tmp_path / "x.zarr")),
        PrefixStore(LocalStore(tmp_path), "x.zarr"),
        zarr.storage.LocalStore(tmp_path / "x.zarr"),
        f"local://{tmp_path}/x.zarr",
    ):
        oz.create_array(tmp_path / "x.zarr", data=VALUES, chunks=(4, 4), overwrite=True)
        source = oz.open(way)
        oz.create_array(tmp_path / "x.zarr", data=source.view[:, ::-1], overwrite=True)
        np.testing.assert_array_equal(oz.open(tmp_path / "x.zarr")[...], VALUES[:, ::-1])
        with pytest.raises(oz.StoreError, match=r"both|inside"):
            oz.convert(way, tmp_path / "x.zarr", zarr_format=2, overwrite=True)
        np.testing.assert_array_equal(oz.open(tmp_path / "x.zarr")[...], VALUES[:, ::-1])


class Breaks:
    """Values that cannot be read."""

    def __init__(self, error: type[BaseException]) -> None:
        self.shape, self.dtype, self.error = VALUES.shape, VALUES.dtype, error

    def __getitem__(self, selection: Any) -> Any:
        raise self.error("the tape is torn")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise self.error("the tape is torn")


@pytest.mark.parametrize("zarr_format", ["3-draft", 3])
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    "data",
    [np.array([["no"] * 10] * 6), Breaks(OSError), Breaks(KeyboardInterrupt)],
    ids=["text", "error", "interrupt"],
)
@pytest.mark.parametrize("way", ["create_array", "setitem"])
def test_data_that_cannot_be_stored_change_nothing(
    store: Any, zarr_format: Any, exists: bool, data: Any, way: str
) -> None:
    """A12: the call raised, but the old array was gone, or a part of the new one was there."""
    group = oz.create_group(store, zarr_format=zarr_format)
    if exists:
        group.create_array("x", data=VALUES, chunks=(4, 4))
    before = _keys(store)
    writing: Any = {
        "create_array": lambda: group.create_array("x", data=data, dtype="i4", overwrite=True),
        "setitem": lambda: group.create_array("x", data=data, dtype="i4", overwrite=exists),
    }[way]
    with pytest.raises((ValueError, TypeError, OSError, KeyboardInterrupt)):
        writing()
    assert _keys(store) == before
    assert _clean(store)


@pytest.mark.parametrize("kind", ["directory", "sqlite", "zip", "memory"])
def test_a_failed_image_leaves_nothing(tmp_path: Path, kind: str) -> None:
    """A18: a group was left, so that the corrected call said NodeExists."""
    store = STORES[kind](tmp_path)
    with pytest.raises(oz.OmnizarrError, match="chnks"):
        oz.ome.write(store, np.zeros((8, 8)), chnks=(4, 4))
    with pytest.raises(OSError, match="torn"):
        oz.ome.write(store, Breaks(OSError), axes="yx", levels=1)
    assert _keys(store) == {}
    image = oz.ome.write(store, np.ones((8, 8)))
    with pytest.raises(OSError, match="torn"):
        oz.ome.write(store, Breaks(OSError), axes="yx", levels=1, overwrite=True)
    assert (oz.ome.open(store).levels[0][...] == 1).all()
    oz.ome.write(store, image, overwrite=True)
    assert (oz.ome.open(store).levels[0][...] == 1).all()
    assert _clean(store)


def test_labels_and_maps_can_be_replaced_by_their_own_values(tmp_path: Path) -> None:
    """A1: write_labels and geo.write erased what they were to read."""
    labels = np.arange(64, dtype="u1").reshape(8, 8)
    oz.ome.write(tmp_path / "i", np.ones((8, 8)))
    first = oz.ome.write_labels(tmp_path / "i", "cells", labels)
    again = oz.ome.write_labels(tmp_path / "i", "cells", first.levels[0], overwrite=True)
    np.testing.assert_array_equal(again.levels[0][...], labels)
    oz.geo.write(tmp_path / "m", labels, levels=1)
    oz.geo.write(tmp_path / "m", oz.open(tmp_path / "m")["0"], levels=1, overwrite=True)
    np.testing.assert_array_equal(oz.open(tmp_path / "m")["0"][...], labels)


def test_a_dataset_can_be_replaced_by_its_own_values(tmp_path: Path) -> None:
    """A1: xarray.write with mode 'w' of a dataset in blocks erased it first."""
    xr = pytest.importorskip("xarray")
    dataset = xr.Dataset({"t": (("y", "x"), VALUES)}).chunk(y=2)
    path = tmp_path / "d.zarr"
    oz.xarray.write(dataset, path)
    for _ in range(2):
        with xr.open_dataset(path, engine="omnizarr", chunks={}) as found:
            oz.xarray.write(found.isel(y=slice(None, None, -1)).chunk(y=3), path, mode="w")
    np.testing.assert_array_equal(oz.open(path)["t"][...], VALUES)
    with xr.open_dataset(path, engine="omnizarr", chunks={}) as found:
        turned = found.isel(y=slice(None, None, -1))
        for options in ({"mode": "a"}, {"mode": "w", "compute": False}):
            with pytest.raises(oz.StoreError, match="reads from"):
                oz.xarray.write(turned, path, **options)
    np.testing.assert_array_equal(oz.open(path)["t"][...], VALUES)


def test_a_dask_array_is_not_written_over_its_own_source(tmp_path: Path) -> None:
    """A1: old and new values were mixed."""
    pytest.importorskip("dask.array")
    array = oz.create_array(tmp_path / "a", data=VALUES, chunks=(2, 10))
    other = oz.open(f"local://{tmp_path}/a")
    for source in (array, other):
        with pytest.raises(oz.StoreError, match="reads from"):
            oz.from_dask(source.to_dask()[::-1] + 1, array)
        turned = source.to_dask()[::-1]
        with pytest.raises(oz.StoreError, match="reads from"):
            oz.from_dask(turned, tmp_path / "a", overwrite=True, compute=False)
        np.testing.assert_array_equal(array[...], VALUES)
    made = oz.from_dask(array.to_dask()[::-1], tmp_path / "a", overwrite=True)
    np.testing.assert_array_equal(made[...], VALUES[::-1])
    np.testing.assert_array_equal(oz.open(tmp_path / "a")[...], VALUES[::-1])


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_no_array_is_created_above_other_nodes_that_keep_their_chunks(
    kind: str, zarr_format: Any, overwrite: bool, tmp_path: Path
) -> None:
    """Its chunks would have taken the place of theirs, and they would have been erased with it."""
    store = LocalStore(tmp_path / "x") if kind == "directory" else MemoryStore()
    oz.create_array(store, path="g/x", data=VALUES, zarr_format=zarr_format)
    store.erase("g/zarr.json" if zarr_format == 3 else "g/.zgroup")
    store.set("g/notes.txt", b"mine")
    with pytest.raises(oz.NodeExists, match="others are below it"):
        oz.create_array(store, path="g", data=VALUES, zarr_format=zarr_format, overwrite=overwrite)
    with pytest.raises(oz.NodeNotFound):
        oz.open(store, path="g", kind="array")
    with pytest.raises(RuntimeError, match="torn"):
        oz.create_array(store, path="h", data=Breaks(RuntimeError), zarr_format=zarr_format)
    with pytest.raises(oz.NodeNotFound):
        oz.open(store, path="h", kind="array")
    np.testing.assert_array_equal(oz.open(store, path="g/x")[...], VALUES)
    assert store.get("g/notes.txt") == b"mine"


# Interrupted writers


def _write(source: str, target: str, number: int, way: str) -> None:
    """Convert a hierarchy or replace an array, and end the process after some steps."""
    left = itertools.count(number, -1)

    def step(*_: object) -> None:
        if next(left) == 0:
            os._exit(9)

    def replace_file(old: Any, new: Any) -> None:
        step()
        rename(old, new)

    if way == "convert":
        journal.BATCH = 1  # a step for every chunk
        oz.convert(source, target, zarr_format=2, progress=step)
    else:
        rename, os.replace = os.replace, replace_file
        oz.create_array(target, data=np.full((6, 10), 7), chunks=(4, 4), overwrite=True)


def _killed(source: object, target: object, number: int, way: str) -> bool:
    """Run a writer that ends in the middle; return True if it got to its end."""
    writer = FORK.Process(target=_write, args=(str(source), str(target), number, way))
    writer.start()
    writer.join(120)
    assert writer.exitcode in (0, 9)
    return writer.exitcode == 0


@pytest.mark.filterwarnings("ignore:.*was not closed:omnizarr.OmnizarrWarning")
@pytest.mark.parametrize("target", ["t.zarr", "t.zip", "sqlite://{}/t.db"])
def test_a_killed_conversion_is_reported_and_can_be_finished(tmp_path: Path, target: str) -> None:
    """A14: open, verify and validate took it for complete, and the rest read as 0."""
    place = target.format(tmp_path) if "{}" in target else str(tmp_path / target)
    group = oz.create_group(tmp_path / "s.zarr")
    group.create_array("x", data=VALUES, chunks=(2, 2))
    group.create_array("y", data=VALUES * 2, chunks=(2, 2))
    assert not _killed(tmp_path / "s.zarr", place, 9, "convert")
    for look in (oz.open, oz.validate):
        with pytest.raises(oz.NodeNotFound):
            look(place)
    assert oz.verify(place).error_counts == {"incomplete": 1}
    with pytest.raises(oz.NodeNotFound, match=r"incomplete, since the conversion of .*s.zarr"):
        oz.open(place)
    with pytest.raises(oz.NodeExists, match="overwrite=True"):
        oz.convert(tmp_path / "s.zarr", place, zarr_format=2)
    with pytest.raises(oz.NodeExists, match="not the same"):
        oz.convert(tmp_path / "s.zarr", place, zarr_format=3, resume=True)
    report = oz.convert(tmp_path / "s.zarr", place, zarr_format=2, resume=True)
    assert report.chunks_copied == 30
    found = oz.open(place)
    np.testing.assert_array_equal(found["x"][...], VALUES)
    np.testing.assert_array_equal(found["y"][...], VALUES * 2)
    assert oz.verify(place).ok


def test_a_conversion_that_failed_is_started_again_as_asked(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A14: what an error or Ctrl-C left looked complete too."""
    monkeypatch.setattr(journal, "BATCH", 1)
    source = oz.create_group({})
    source.create_array("x", data=VALUES + 1, chunks=(2, 2))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt) as error:
            oz.convert(source.store, store, overwrite=True, progress=interrupt_after(5))
        assert any("resume=True" in note for note in error.value.__notes__)
        with pytest.raises(oz.NodeNotFound, match="incomplete"):
            oz.open(store)
    oz.convert(source.store, store, overwrite=True)
    np.testing.assert_array_equal(oz.open(store)["x"][...], VALUES + 1)
    assert _clean(store)


@pytest.mark.parametrize("number", sample(range(8), 3))
def test_a_writer_killed_while_it_replaces_leaves_the_old_node_or_the_new_one(
    tmp_path: Path, number: int
) -> None:
    """Root of A1: whatever the moment, nothing is lost, and repair puts it in its place."""
    path = tmp_path / "x.zarr"
    oz.create_array(path, data=VALUES, chunks=(4, 4))
    _killed("-", path, number, "replace")
    for name in os.listdir(path / FOLDER) if (path / FOLDER).exists() else ():
        assert all_stages(LocalStore(path))[0].name == name
    if any(staged.pending for staged in all_stages(LocalStore(path))):
        with suppress(oz.NodeNotFound):  # unless the old node has not been moved yet
            assert np.array_equal(oz.open(path)[...], VALUES)
        assert oz.repair(path, dry_run=False)[0].state == "finished"
    found = oz.open(path)[...]
    assert np.array_equal(found, VALUES) or (found == 7).all()
    oz.repair(path, dry_run=False)
    assert not (path / FOLDER).exists()
    assert np.array_equal(oz.open(path)[...], found)


@pytest.mark.parametrize("number", range(30))
def test_a_store_without_renaming_loses_nothing(number: int) -> None:
    inner = FaultyStore(MemoryStore(), lambda operation, key: None)
    oz.create_array(inner, data=VALUES, chunks=(4, 4))
    killing = Killing(inner, number + 1)
    with suppress(Killed):
        oz.create_array(killing, data=np.full((6, 10), 7), chunks=(4, 4), overwrite=True)
    try:
        found = oz.open(inner)[...]
    except oz.NodeNotFound:
        again = FaultyStore(MemoryStore(_keys(inner)), lambda operation, key: None)
        for staged in all_stages(inner):
            stage(inner, name=staged.name).recover()
        found = oz.open(inner)[...]
        # One made since has the same metadata, and repair does not put the other in its place.
        oz.create_array(again, data=np.full((6, 10), 8), chunks=(4, 4), overwrite=True)
        for staged in all_stages(again):
            stage(again, name=staged.name).recover()
        assert all_stages(again) == []
        assert (oz.open(again)[...] == 8).all()
    assert np.array_equal(found, VALUES) or (found == 7).all()


def test_a_node_that_cannot_be_read_is_not_left_out_of_a_conversion(tmp_path: Path) -> None:
    """Root 7: walking the hierarchy passed over it."""
    group = oz.create_group(tmp_path / "s")
    group.create_array("good", data=VALUES)
    group.create_array("bad", data=VALUES)
    (tmp_path / "s" / "bad" / "zarr.json").write_text("{")
    with pytest.raises(oz.InvalidMetadata, match="bad"):
        oz.convert(tmp_path / "s", tmp_path / "t", zarr_format=2)
    assert not (tmp_path / "t").exists() or not os.listdir(tmp_path / "t")


def test_verify_reports_stages_and_keeps_those_of_running_writers(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    oz.create_array(path, data=VALUES)
    staged = stage(LocalStore(path))
    staged.store.set("zarr.json", b"{}")
    assert [f.level for f in oz.verify(path).findings] == ["warning"]
    [found] = [f for f in oz.repair(path, dry_run=False) if f.kind == "unfinished node"]
    assert found.state == "in use"
    staged.discard()
    assert oz.verify(path).findings == []


def _race(place: str, number: int, new: bool) -> None:
    rng = np.random.default_rng(number)
    for _ in range(4 if new else 12):
        values = np.full(rng.integers(1, 9, 2).tolist(), number)
        with suppress(oz.NodeExists):
            oz.create_array(place, path="x", data=values, chunks=(2, 3), overwrite=not new)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("place", ["{}/x.zarr", "sqlite://{}/x.db"])
def test_of_writers_that_race_one_wins_with_all_that_it_wrote(
    tmp_path: Path, place: str, new: bool
) -> None:
    where = place.format(tmp_path)
    oz.create_group(where)
    run_processes(*(partial(_race, where, number, new) for number in range(1, 5)))
    found = oz.open(where)["x"]
    assert len(np.unique(found[...])) == 1
    assert found[...].min() > 0
    assert _clean(found.store)
    assert oz.verify(where).findings == []


def test_a_writer_that_comes_second_leaves_nothing(tmp_path: Path) -> None:
    place = Location(LocalStore(tmp_path / "x.zarr"), "x", by_name(3))
    oz.create_group(place.store)
    second = build(place, overwrite=False, operation="writing")
    make_array(second.location, (3,), "i4", None, False, {})
    oz.create_array(place.store, path="x", data=VALUES)
    with pytest.raises(oz.NodeExists, match="another writer has just created"):
        second.__exit__(None, None, None)
    assert _clean(place.store)


def test_threads_that_replace_one_node_leave_one_whole(store: Any) -> None:
    group = oz.create_group(store)
    group["x"] = VALUES

    def write(number: int) -> None:
        for n in range(1, 6):
            group.create_array("x", data=np.full((n, 7), number), chunks=(1, 3), overwrite=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 5)))
    found = oz.open(store)["x"][...]
    assert len(np.unique(found)) == 1
    assert found.min() > 0
    assert _clean(store)


def test_a_copy_in_a_store_that_cannot_erase_is_complete_and_unmarked() -> None:
    class Kept(MemoryStore):
        traits = replace(MemoryStore.traits, erases=False)

        def erase(self, key: str) -> None:
            if self.get(key) is not None:
                raise oz.StoreError(f"cannot erase {key!r}")

    source, store = oz.create_array(data=np.arange(12), chunks=4), Kept()
    oz.create_array(store, path="a", data=source)
    oz.create_array(store, path="b", data=source.view[:])
    assert not [key for key in store.list() if MARKER in key]
    for name in "ab":
        np.testing.assert_array_equal(oz.open(store, path=name)[:], source[:])
    with pytest.raises(oz.NodeExists, match="cannot delete; use another path"):
        oz.create_array(store, path="a", data=source, overwrite=True)


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_second_creator_leaves_the_marker_of_the_first(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else oz.storage.LocalStore(tmp_path / "x")
    oz.create_group(store)
    mark = Mark("create_array", writer=begin_writing())
    store.set(marker("a"), mark.write())
    for overwrite in (False, True):
        with pytest.raises(oz.NodeExists, match="is being written by process"):
            oz.create_array(store, path="a", data=[1, 2], overwrite=overwrite)
    assert store.get(marker("a")) == mark.write()
    end_writing(mark.writer)
    oz.create_array(store, path="a", data=[1, 2], overwrite=True)
    assert store.get(marker("a")) is None


CHANGES: dict[str, Callable[[oz.Array], Any]] = {
    "attributes": lambda array: array.attrs.update(a=1),
    "values": lambda array: array.__setitem__(1, 3),
    "append": lambda array: array.append([1]),
    "resize": lambda array: array.resize((12,)),
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_of_a_node_that_was_moved_leaves_no_folder(
    change: str, zarr_format: int, tmp_path: Path
) -> None:
    group = oz.create_group(tmp_path / "x", zarr_format=zarr_format)
    array = group.create_array("g/a", data=np.arange(10), chunks=5)
    group.move("g", "k")
    with pytest.raises(oz.NodeChanged):
        CHANGES[change](array)
    group.move("k", "g")  # which a folder would prevent
    CHANGES[change](array)
