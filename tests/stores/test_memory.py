"""The store in a dictionary."""

from __future__ import annotations

from collections import UserDict
from collections.abc import MutableMapping
from typing import Any

import numpy as np
import pytest
import zarr

import omnizarr as oz
from omnizarr import stores
from omnizarr.errors import StoreError
from omnizarr.storage import MemoryStore
from omnizarr.stores import Store
from omnizarr.testing.stores import ClosableTests, ReadOnlyTests, StoreTests, VersionedTests


class TestMemory(StoreTests, ClosableTests, ReadOnlyTests, VersionedTests):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    def reader(self) -> Store:
        return MemoryStore({"a/k": b"1"}, read_only=True)


@pytest.mark.parametrize("kind", [dict, UserDict])
def test_the_given_mapping_holds_the_values(kind: type[MutableMapping[str, bytes]]) -> None:
    values = kind()
    store = MemoryStore(values)
    store.set("a/b", b"x")
    assert dict(values) == {"a/b": b"x"}
    values["c"] = b"y"
    assert store.get("c") == b"y"
    store.erase("a/b")
    assert dict(values) == {"c": b"y"}


def test_values_of_a_mapping_are_buffers_or_an_error_that_names_them() -> None:
    document = b'{"zarr_format": 3, "node_type": "group"}'
    found: Any
    for found in (bytearray(document), memoryview(document), np.frombuffer(document, "u1")):
        assert oz.open({"zarr.json": found}).metadata.zarr_format == 3
    theirs: dict[str, Any] = {}
    zarr.create_group(zarr.storage.MemoryStore(theirs))
    for values in (theirs, {"zarr.json": 3}):
        with pytest.raises(
            StoreError, match=r"'zarr\.json' in the given mapping is of type .*bytes"
        ):
            oz.open(values)


def test_the_store_may_change_while_it_is_listed() -> None:
    store = MemoryStore({"a": b"", "b": b""})
    for key in store.list():
        store.set(f"{key}/new", b"")
    assert sorted(store.values) == ["a", "a/new", "b", "b/new"]


def test_stores_over_one_mapping_are_equal() -> None:
    values: dict[str, bytes] = {}
    assert MemoryStore(values) == MemoryStore(values, read_only=True)
    assert hash(MemoryStore(values)) == hash(MemoryStore(values))
    assert MemoryStore({}) != MemoryStore({})
    assert stores.resolve(values) == MemoryStore(values)


def test_of_equal_new_values_one_is_first() -> None:
    several: list[MutableMapping[str, bytes]] = [{}, UserDict()]
    for values in several:
        store = MemoryStore(values)
        for value in (b"document", b"", b"1"):
            assert store.set_new(f"k{len(value)}", value) is True
            assert store.set_new(f"k{len(value)}", value) is False


def test_no_part_of_a_value_has_a_negative_length() -> None:
    """A15: it was counted from the end of the value, or of what was before it."""
    store = MemoryStore({"k": b"abcdef"})
    for part in ((0, -1), (2, -3), (-4, -1)):
        with pytest.raises(StoreError, match="at least 0"):
            stores.get_partial_values(store, [("k", part)])
