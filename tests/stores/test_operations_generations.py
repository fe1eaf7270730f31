"""Generations: a text that distinguishes the successive values of a key."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import omnizarr as oz
from omnizarr.stores.local import store as local


def settle() -> None:
    """Wait until files written so far are old enough to be trusted."""
    time.sleep(1.2 * local.TICK / 1e9)


def make(kind: str, where: Path) -> Any:
    return oz.storage.MemoryStore() if kind == "memory" else oz.storage.LocalStore(where)


def test_a_file_changed_in_place_within_one_tick_is_never_trusted(tmp_path: Path) -> None:
    store = oz.storage.LocalStore(tmp_path)
    store.set("a", b"one")
    first = store.generation("a")
    status = os.stat(tmp_path / "a")
    with open(tmp_path / "a", "r+b") as file:
        file.write(b"two")
    os.utime(tmp_path / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.generation("a") != first
    settle()
    assert store.generation("a") != first
    assert store.generation("a") == store.generation("a")


@pytest.mark.parametrize("ahead", [0, 3600])
def test_a_fresh_file_and_one_of_the_future_have_another_generation_each_time(
    ahead: int, tmp_path: Path
) -> None:
    store = oz.storage.LocalStore(tmp_path)
    store.set("a", b"one")
    if ahead:
        settle()
        later = time.time() + ahead
        os.utime(tmp_path / "a", (later, later))
    assert store.generation("a") != store.generation("a")
    assert store.get_versioned("a")[1] != store.get_versioned("a")[1]


def test_times_kept_in_seconds_are_trusted_later(tmp_path: Path) -> None:
    store = oz.storage.LocalStore(tmp_path)
    store.set("a", b"one")
    status = os.stat(tmp_path / "a")

    def kept(age: float) -> Any:
        second = (time.time_ns() - int(age * 1e9)) // 10**9 * 10**9
        names = ("st_mode", "st_ino", "st_size")
        fields = {name: getattr(status, name) for name in names}
        return type("Status", (), {**fields, "st_mtime_ns": second, "st_ctime_ns": second})

    assert local._generation(kept(1)) != local._generation(kept(1))
    old = kept(60)
    assert local._generation(old) == local._generation(old)


def test_a_memory_store_notices_changes_of_its_dictionary() -> None:
    values: dict[str, Any] = {"a": b"one"}
    store, other = oz.storage.MemoryStore(values), oz.storage.MemoryStore(values)
    first = store.generation("a")
    values["a"] = b"two"
    assert other.generation("a") == store.generation("a") != first
    values["a"] = bytearray(b"six")
    second = store.generation("a")
    values["a"][0] = 0
    assert store.generation("a") != second
