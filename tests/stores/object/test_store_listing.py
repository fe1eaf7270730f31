"""Listings of buckets: page by page, in bounded memory, and on after an error."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from omnizarr import stores
from omnizarr.errors import StoreError
from omnizarr.stores import resolve
from omnizarr.stores.object.store import ObjectStore, _Listing
from tests.memory import peak
from tests.servers import gcs
from tests.servers.s3 import GeneratedBucket, SimpleStorage
from tests.servers.web import Web, running

QUICK = {"attempts": 3, "first_wait": 0.01, "timeout": 5.0, "deadline": 20.0}


def open_bucket(server: Web, scheme: str) -> ObjectStore:
    options: dict[str, Any] = {"endpoint": server.url, **QUICK}
    if scheme == "gs":
        options["bearer_token"] = "token"
    else:
        options |= {"region": "us-east-1", "access_key_id": "k", "secret_access_key": "s"}
    store = resolve(f"{scheme}://bucket/data", storage_options=options)
    assert isinstance(store, ObjectStore)
    return store


@pytest.fixture(params=["s3", "gs"])
def bucket(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[gcs.CloudStorage, ObjectStore]]:
    """Start a server with 100 objects and pages of 10."""
    monkeypatch.setattr(gcs, "PAGE_SIZE", 10)
    monkeypatch.setattr("omnizarr.stores.object.store._BATCH", 10)
    server = SimpleStorage() if request.param == "s3" else gcs.CloudStorage()
    names = [f"data/x/c/{i % 7}/{i:03}" for i in range(97)] + ["data/x.y", "data/ü", "data/x0"]
    server.buckets["bucket"] = dict.fromkeys(names, (b"v", 1))
    with running(server):
        yield server, open_bucket(server, request.param)


@pytest.mark.parametrize("before", [0, 1, 10, 35, 99])
@pytest.mark.parametrize("fault", ["500", "reset", "short"])
def test_a_listing_goes_on_after_an_error(
    bucket: tuple[gcs.CloudStorage, ObjectStore], before: int, fault: str
) -> None:
    server, store = bucket
    expected = sorted(name[len("data/") :] for name in server.buckets["bucket"])
    listing = store.list()
    first = [*itertools.islice(listing, before)]
    server.break_down(fault, times=2)
    assert [*first, *listing] == expected


def test_keys_are_erased_while_they_are_listed(
    bucket: tuple[gcs.CloudStorage, ObjectStore],
) -> None:
    _, store = bucket
    stores.erase_prefix(store, "x/")
    assert sorted(store.list()) == ["x.y", "x0", "ü"]


class Client:
    """A client whose server lists objects in any order, and ignores the offset."""

    def __init__(self, names: list[str], pages: int) -> None:
        self.names, self.pages, self.offsets = names, pages, list[str | None]()

    def list(self, top: str | None, *, offset: str | None, chunk_size: int) -> Iterator[Any]:
        self.offsets.append(offset)
        for start in range(0, len(self.names), self.pages):
            yield [{"path": name} for name in self.names[start : start + self.pages]]
            if len(self.offsets) == 1 and start >= self.pages:
                raise TimeoutError("of the server")


@pytest.mark.parametrize("pages", [1, 2, 3])
@pytest.mark.parametrize("names", [["a", "b", "c", "d", "e"], ["b", "c", "a", "e", "d"]])
def test_no_object_is_listed_twice_or_lost_if_an_offset_is_ignored(
    names: list[str], pages: int
) -> None:
    client, listing, found = Client(names, pages), _Listing("", True), list[str]()
    if names != sorted(names):
        with pytest.raises(StoreError, match="list again"):
            _list_all(listing, client, found)
    else:
        _list_all(listing, client, found)
        assert found == names


def _list_all(listing: _Listing, client: Client, found: list[str]) -> None:
    while True:
        try:
            page = listing.next_page(client)
        except TimeoutError:
            continue
        if not page:
            return
        found += [meta["path"] for meta in page]


def test_a_listing_needs_no_memory_for_each_key() -> None:
    listed: list[int] = []

    def taken(count: int) -> int:
        with running(GeneratedBucket(count)) as server:
            store = open_bucket(server, "s3")
            return peak(lambda: listed.append(sum(1 for _ in stores.list_entries(store, ""))))

    small, large = taken(3000), taken(30_000)
    assert listed == [3001, 30_001]
    assert large < small + 2**20
