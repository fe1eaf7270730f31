"""Requests to a remote store are made together where possible."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import Range, resolve
from omnizarr.stores.http import HTTPStore
from tests.servers.fixtures import Cloud
from tests.servers.web import Web


class Counted(HTTPStore):
    """Counts the times that a caller waits for the server: a batch is one."""

    trips = 0

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        if not self.batch:
            self.trips += 1
        return super().get_versioned(key, range)

    batch = False

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        self.trips += 1
        self.batch = True
        try:
            return super().get_many(requests)
        finally:
            self.batch = False


@pytest.mark.parametrize("zarr_format", [1, 2, "3-draft", 3])
def test_an_array_is_opened_in_few_round_trips(web: Web, zarr_format: int | str) -> None:
    """Documents of version 3 are asked for first, and those of version 1 last."""
    path = "" if zarr_format == 1 else "a"
    oz.create_array(
        oz.storage.MemoryStore(web.values), path=path, data=np.arange(4), zarr_format=zarr_format
    )
    store = Counted(web.url)
    array = oz.open(store, "r", path=path)
    assert store.trips == {3: 1, 2: 2, "3-draft": 2, 1: 3}[zarr_format]
    opened = store.trips
    np.testing.assert_array_equal(array[...], np.arange(4))
    assert store.trips == opened + 1


def test_a_consolidated_hierarchy_is_opened_in_one_round_trip(web: Web) -> None:
    group = oz.create_group(oz.storage.MemoryStore(web.values))
    for i in range(20):
        group.create_array(f"a{i:02}", shape=3, dtype="i4")
    oz.consolidate_metadata(group.store)
    store = Counted(web.url)
    group = oz.open(store, "r")
    assert store.trips == 1
    assert list(group) == [f"a{i:02}" for i in range(20)]
    assert store.trips <= 2


def test_ten_thousand_nodes_are_listed_in_a_bounded_number_of_requests(gs: Cloud) -> None:
    held: dict[str, bytes] = {}
    oz.create_array(held, shape=1, dtype="i4")
    document = held["zarr.json"], 1
    group: dict[str, bytes] = {}
    oz.create_group(group)
    objects = {f"n{i:05}/zarr.json": document for i in range(10_000)}
    gs.server.buckets["bucket"] = {"zarr.json": (group["zarr.json"], 1), **objects}  # type: ignore[attr-defined]
    hierarchy = oz.open(resolve(gs.url, read_only=True, storage_options=gs.options), "r")
    gs.server.log.clear()
    assert len(hierarchy) == 10_000
    listings = [path for _, path, _ in gs.server.log if "list-type" in path]
    assert len(listings) <= 11
    assert len(gs.server.log) - len(listings) <= 10_000
