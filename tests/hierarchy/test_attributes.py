"""Attributes: a mapping that stores every change and loses none of other handles."""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import retry
from omnizarr.testing import RecordingStore

FORMATS: tuple[int | str, ...] = (1, 2, "3-draft", 3)


class ComparingStore(oz.storage.MemoryStore):
    """Can compare and replace, as object stores do; `meanwhile` plays another process."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Any = None
        self.refused = 0
        self._own = threading.Lock()

    def set_if(self, key: str, value: Any, generation: str | None) -> bool:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        with self._own:
            if self.generation(key) != generation:
                self.refused += 1
                return False
            self.values[key] = bytes(value)
            return True


def two_handles(zarr_format: int | str, store: Any = None) -> tuple[oz.Array, oz.Array]:
    store = oz.storage.MemoryStore() if store is None else store
    oz.create_array(store, shape=3, zarr_format=zarr_format, attributes={"first": 1})
    return oz.open(store, "r+"), oz.open(store, "r+")


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_two_handles_that_set_two_attributes_keep_both(zarr_format: int | str) -> None:
    one, two = two_handles(zarr_format)
    one.attrs["a"] = 1
    two.attrs["b"] = 2
    assert two.attrs == {"first": 1, "a": 1, "b": 2}
    assert one.attrs == {"first": 1, "a": 1}
    one.refresh()
    assert one.attrs == two.attrs


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_threads_lose_no_attribute_and_no_appended_value(zarr_format: int | str) -> None:
    handle, _ = two_handles(zarr_format)

    def work(number: int) -> None:
        own = oz.open(handle.store, "r+")
        for n in range(5):
            own.attrs[f"{number}-{n}"] = n
            own.append(np.array([10 * number + n]))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    handle.refresh()
    assert len(handle.attrs) == 31
    assert sorted(handle[3:]) == sorted(10 * a + b for a in range(6) for b in range(5))


def _set_many(folder: str, number: int, zarr_format: int | str) -> None:
    """Set many attributes in one of several processes."""
    array = oz.open(folder, "r+", zarr_format=zarr_format)
    for n in range(20):
        array.attrs[f"{number}-{n}"] = n


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_processes_lose_no_attribute_in_a_directory(zarr_format: int | str, tmp_path: Path) -> None:
    oz.create_array(tmp_path, shape=3, zarr_format=zarr_format)
    context = multiprocessing.get_context("fork")
    others = [
        context.Process(target=_set_many, args=(str(tmp_path), number, zarr_format))
        for number in range(3)
    ]
    for process in others:
        process.start()
    _set_many(str(tmp_path), 3, zarr_format)
    for process in others:
        process.join(60)
        assert process.exitcode == 0
    assert len(oz.open(tmp_path, zarr_format=zarr_format).attrs) == 80


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_store_that_compares_notices_another_process(zarr_format: int | str) -> None:
    store = ComparingStore()
    one, two = two_handles(zarr_format, store)
    store.meanwhile = lambda: two.attrs.update(b=2)
    one.attrs["a"] = 1
    assert store.refused == 1
    assert one.attrs == {"first": 1, "a": 1, "b": 2}
    assert oz.open(store).attrs == {"first": 1, "a": 1, "b": 2}


def test_a_writer_that_always_loses_the_race_raises_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = dataclasses.replace(retry.CONFLICTS, longest_wait=retry.CONFLICTS.first_wait)
    monkeypatch.setattr(retry, "CONFLICTS", quick)  # as many attempts, in less time
    store = ComparingStore()
    one, _ = two_handles(3, store)
    store.set_if = lambda key, value, generation: False  # type: ignore[method-assign]
    with pytest.raises(oz.StoreError, match="times in a row"):
        one.attrs["a"] = 1
    assert oz.open(store).attrs == {"first": 1}


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_it_is_a_mapping(zarr_format: int | str) -> None:
    attrs = two_handles(zarr_format)[0].attrs
    attrs |= {"a": 1, "b": [1, {"c": None}]}
    assert attrs.pop("a") == 1
    assert attrs.pop("a", "none") == "none"
    assert attrs.setdefault("b", 3) == [1, {"c": None}]
    assert attrs.setdefault("d", np.float32(0.5)) == 0.5
    assert attrs.get("x") is None
    assert sorted(attrs) == ["b", "d", "first"]
    assert ("d" in attrs, "x" in attrs, len(attrs)) == (True, False, 3)
    del attrs["first"]
    assert dict(attrs.items()) == attrs.asdict() == {"b": [1, {"c": None}], "d": 0.5}
    assert repr(attrs) == repr(attrs.asdict())
    attrs.put({"x": 1})
    assert attrs == {"x": 1}
    assert attrs.popitem() == ("x", 1)
    attrs.update(y=1, z=2)
    attrs.clear()
    assert attrs == {}
    with pytest.raises(KeyError):
        del attrs["y"]
    with pytest.raises(KeyError):
        attrs["y"]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_attributes_that_could_not_be_read_back_change_nothing(zarr_format: int | str) -> None:
    array = oz.create_array({}, data=[1, 2, 3], zarr_format=zarr_format)
    before = dict(array.store.values)
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(oz.InvalidMetadata, match="nested"):
        array.attrs["deep"] = deep
    assert array.store.values == before


def test_every_change_of_any_size_is_one_write_and_no_change_is_none() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    attrs = two_handles(3, store)[0].attrs
    for act, writes in [
        (lambda: attrs.update({"a": 1, "b": 2}), 1),
        (lambda: attrs.update({"a": 1}), 0),
        (lambda: attrs.setdefault("a", 5), 0),
        (lambda: attrs.pop("nothing", None), 0),
        (lambda: attrs.put({"c": 1, "d": 2}), 1),
        (lambda: attrs.clear(), 1),
    ]:
        store.calls.clear()
        act()
        assert store.counts()["set"] == writes


def test_changes_inside_a_list_are_not_shown_before_they_are_stored() -> None:
    array = two_handles(3)[0]
    array.attrs["list"] = [1]
    array.attrs["list"].append(2)
    array.attrs.asdict()["list"].append(3)
    assert array.attrs == {"first": 1, "list": [1]}


def test_a_node_that_became_another_kind_is_not_overwritten() -> None:
    group = oz.create_group(None)
    array = group.create_array("a", shape=3)
    group.create_group("a", overwrite=True, attributes={"new": 1})
    with pytest.raises(oz.NodeChanged, match="replaced by a group"):
        array.attrs["b"] = 1
    assert group["a"].attrs == {"new": 1}
