"""Suites that check the complete set of abilities, and hierarchies in a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr
from omnizarr import stores
from omnizarr.stores import MemoryStore, SetsIf, Store, Versioned, can_list
from omnizarr.stores.base import SetsPartially
from omnizarr.testing.stores.access import ListableTests, PartialTests, Suite
from omnizarr.testing.stores.sharing import ClosableTests, ConditionalTests, VersionedTests


class AbilityTests(Suite):
    """Every ability of the store has its suite."""

    def test_every_ability_of_the_store_has_its_suite(self, store: Store) -> None:
        claims = {
            ListableTests: can_list(store),
            PartialTests: isinstance(store, SetsPartially),
            VersionedTests: isinstance(store, Versioned),
            ConditionalTests: isinstance(store, SetsIf),
            ClosableTests: hasattr(store, "close"),
        }
        missing = [
            suite.__name__
            for suite, claimed in claims.items()
            if claimed and not isinstance(self, suite)
        ]
        assert missing == [], f"{type(self).__name__} should also inherit these"

    def test_it_is_a_store_and_shows_itself(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.read_only in (True, False)
        assert repr(store)


FORMATS: list[Any] = [2, 3, "3-draft"]


def build(store: Store, zarr_format: Any) -> np.ndarray[Any, Any]:
    """Create a small hierarchy, and return the values of its array ``g/a``."""
    values = np.arange(35, dtype="<i4").reshape(5, 7)
    root = omnizarr.create_group(store, zarr_format=zarr_format, attributes={"title": "é"})
    made = root.create_array(
        "g/a", shape=(5, 7), chunks=(2, 3), dtype="<i4", compressors=None, attributes={"n": 1}
    )
    made[...] = values
    made[1, 2:5] = values[1, 2:5] = -1
    return values


class HierarchyTests(Suite):
    """Groups, arrays and attributes in every format that has groups."""

    @pytest.mark.parametrize("zarr_format", FORMATS)
    def test_a_hierarchy_has_the_same_keys_and_bytes_as_in_memory(
        self, store: Store, zarr_format: Any
    ) -> None:
        memory = MemoryStore()
        build(memory, zarr_format)
        build(store, zarr_format)
        found = {key: store.get(key) for key in stores.list_prefix(store, "")}
        assert found == dict(memory.values)

    @pytest.mark.parametrize("zarr_format", FORMATS)
    def test_a_hierarchy_is_read_changed_and_erased(self, store: Store, zarr_format: Any) -> None:
        values = build(store, zarr_format)
        root = omnizarr.open_group(store, "r" if store.read_only else "r+")
        assert [name for name, _ in root.members(max_depth=None)] == ["g", "g/a"]
        assert root.attrs["title"] == "é"
        array: Any = root["g/a"]
        np.testing.assert_array_equal(array[1:4, 2:], values[1:4, 2:])
        array.resize((6, 7))
        array[5] = 9
        assert omnizarr.open_array(store, path="g/a")[5].tolist() == [9] * 7
        root.delete("g")
        assert [name for name, _ in omnizarr.open_group(store).members()] == []
