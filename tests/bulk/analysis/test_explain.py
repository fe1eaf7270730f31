"""An explanation says what the store is then asked: requests, bytes, and how they are decoded."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.analysis.explain import Explanation
from omnizarr.formats import is_metadata
from omnizarr.stores import MemoryStore, Range
from omnizarr.stores.byte_ranges import Speed
from tests.conformance.key_value import SmallestStore
from tests.property.strategies import FORMATS, described, select, values
from tests.sampling import tries
from tests.servers.web import Web, running

Request = tuple[str, Range | None]
DATA = np.random.default_rng(3).integers(0, 1000, (40, 30, 20)).astype("u2")


class Counted:
    """Counts the requests for chunks, and the bytes of the answers."""

    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(values)  # type: ignore[call-arg]
        self.answers: list[int] = []
        self._lock = threading.Lock()

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        found: bytes | None = super().get(key, range)  # type: ignore[misc]
        if not is_metadata(key):
            with self._lock:
                self.answers.append(len(found or b""))
        return found

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        mine: dict[str, bytes] = self.values  # type: ignore[attr-defined]
        return {key: len(mine[key]) for key in keys if key in mine}


class Near(Counted, MemoryStore):
    """A store in memory, which the engine asks for one part at a time."""


class Far(Counted, SmallestStore):
    """A store with a latency, which takes many requests in one call."""

    def get_many(self, requests: Iterable[Request]) -> list[bytes | None]:
        return [self.get(key, part) for key, part in requests]


class Alone(Counted, SmallestStore):
    """A store with nothing but `get`."""


KINDS: tuple[Any, ...] = (Near, Far, Alone)


@pytest.mark.parametrize("format", FORMATS)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=tries(50, 1000), deadline=None)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_the_store_is_asked_as_the_explanation_says(kind: Any, format: Any, data: Any) -> None:
    case = data.draw(described(format, shards=True))
    stored: dict[str, bytes] = {}
    array = case.create(stored)
    if array.size:  # some chunks stay missing
        box = tuple(slice(0, data.draw(st.integers(1, n))) for n in case.shape)
        array[box] = data.draw(values(case.dtype, tuple(s.stop for s in box)))
    store = kind(stored)
    opened = oz.open(store)
    how, brackets = select(data.draw, case.shape)
    view = (getattr(opened.view, how) if how else opened.view)[brackets]
    found = view.explain(sizes=True)
    store.answers.clear()
    view.read()
    assert found.requests == len(store.answers)
    assert found.exact
    assert found.fetched_bytes == sum(store.answers)
    assert found.decoder == ("kernel" if not found.reason else "reference")
    assert found.chunks <= found.all_chunks


LAYOUTS: dict[str, dict[str, Any]] = {
    "version 2": {"zarr_format": 2, "chunks": (8, 8, 8)},
    "version 3": {"chunks": (8, 8, 20), "compressors": None},
    "shards": {"chunks": (8, 8, 8), "shards": (16, 16, 16)},
    "plain shards": {"chunks": (8, 8, 8), "shards": (16, 32, 24), "compressors": None},
    "draft": {"zarr_format": "3-draft", "chunks": (8, 8, 8), "shards": (16, 16, 16)},
}
BOXES: tuple[Any, ...] = (
    (slice(3, 30), 5, slice(0, 9)),
    (slice(None), slice(2, 30, 7), 19),
    (slice(None),) * 3,
    ([1, 38, 17], slice(4, 6), [0]),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Web]:
    with running(Web()) as web:
        yield web


@pytest.mark.parametrize("latency", [None, 1e-9, 10.0])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_server_is_asked_as_the_explanation_says(
    layout: str, latency: float | None, server: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Speed, "note", lambda *_: None)  # the latency stays as it is
    sent: list[int] = []
    answer = Web.answer

    def counting(self: Web, method: str, path: str, *more: Any) -> Any:
        found = answer(self, method, path, *more)
        if not is_metadata(path.lstrip("/")):
            sent.append(len(found.body))
        return found

    monkeypatch.setattr(Web, "answer", counting)
    server.values = {}
    oz.create_array(server.values, data=DATA, **LAYOUTS[layout])
    for box in BOXES:
        array = oz.open(server.url)
        array.store.speed.latency = latency
        view = array.view.oindex[box]
        for _ in range(2):  # the second time, the store remembers the indexes of shards
            found = view.explain(sizes=True)
            sent.clear()
            view.read()
            assert found.requests == len(sent)
            if found.exact:
                assert found.fetched_bytes == pytest.approx(sum(sent), rel=0.05)
            else:  # the server does not tell the sizes of whole values
                assert found.fetched_bytes >= sum(sent)


def test_of_a_shard_on_a_server_only_the_listed_inner_chunks_count() -> None:
    store = Far({})
    values = np.random.default_rng(1).integers(0, 255, 2**19).astype("u1")
    oz.create_array(store, data=values, chunks=2**15, shards=2**19)
    view = oz.open(store).view.oindex[[5, 2**17 + 1, 2**19 - 1]]
    found = view.explain(sizes=True)
    store.answers.clear()
    view.read()
    assert (found.chunks, found.decoded_bytes) == (3, 3 * 2**15)
    assert (found.requests, found.fetched_bytes) == (len(store.answers), sum(store.answers))


def test_an_estimate_is_right_for_chunks_that_are_not_compressed() -> None:
    stored: dict[str, bytes] = {}
    oz.create_array(stored, data=DATA, **LAYOUTS["plain shards"])
    for kind in KINDS:
        store = kind(stored)
        view = oz.open(store).view[3:30, 5, :9]
        found, exact = view.explain(), view.explain(sizes=True)
        assert (found.exact, exact.exact) == (False, True)
        assert "about" in str(found)
        assert "about" not in str(exact)
        store.answers.clear()
        view.read()
        assert found.requests == len(store.answers)
        assert found.fetched_bytes == pytest.approx(sum(store.answers), rel=0.05)


def test_an_estimate_reads_nothing_and_an_exact_explanation_no_chunk() -> None:
    stored: dict[str, bytes] = {}
    oz.create_array(stored, data=DATA, **LAYOUTS["shards"])
    store = Far(stored)
    view = oz.open(store).view[:, 3]
    view.explain()
    assert store.answers == []
    view.explain(sizes=True)
    assert {*store.answers} == {8 * 16 + 4}  # indexes


def test_the_numbers_follow_from_the_chunks() -> None:
    array = oz.create_array(shape=(100, 50), dtype="u2", chunks=(10, 50), compressors=None)
    with oz.configure(engine="reference", threads=2):
        found = array.view[5:45, 0].explain(price_per_1000_requests=2, price_per_gb=10)
    assert (found.shape, found.chunks, found.all_chunks) == ((40,), 5, 10)
    assert (found.requests, found.at_once, found.rounds) == (5, 2, 3)
    assert (found.wanted_bytes, found.decoded_bytes, found.waste) == (80, 5000, 62.5)
    assert found.fetched_bytes == 5000
    assert found.memory_bytes == 80 + 2 * (1000 + 1000)
    assert found.price == pytest.approx(5 / 1000 * 2 + 5000 / 1e9 * 10)
    assert (found.decoder, found.reason) == ("reference", "the setting `engine` is 'reference'")
    assert found.shards is found.all_shards is found.cached is None
    assert "at most 4.9 KiB" in str(found)


def test_missing_chunks_are_requested_but_not_decoded() -> None:
    array = oz.create_array(shape=100, dtype="u2", chunks=10, compressors=None)
    array[:20] = 1
    found = array.view[...].explain(sizes=True)
    assert (found.requests, found.fetched_bytes, found.decoded_bytes) == (10, 40, 40)


def test_shards_are_counted_with_the_chunks_in_them() -> None:
    for layout in ("shards", "draft"):
        array = oz.create_array(data=DATA, **LAYOUTS[layout])
        found = array.view[:17, 0, 0].explain()
        assert (found.chunks, found.all_chunks) == (3, 5 * 4 * 3)
        assert (found.shards, found.all_shards) == (2, 3 * 2 * 2)
        assert found.decoded_bytes == 3 * 8**3 * 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"zarr_format": 2, "filters": [{"id": "delta", "dtype": "<i4"}]}, "data type or a codec"),
        ({"compressors": [{"name": "numcodecs.bz2", "configuration": {}}]}, "numcodecs.bz2"),
        ({"zarr_format": "3-draft", "shards": 4}, "storage transformers"),
        ({"chunks": [[1, 3]]}, "regular chunks"),
        ({"store": Alone({})}, "it does not read Alone"),
    ],
)
def test_the_reason_is_given_where_the_kernel_does_not_decode(
    options: dict[str, Any], reason: str
) -> None:
    array = oz.create_array(**{"shape": 4, "dtype": "i4", "chunks": 2, **options})
    found = array.view[...].explain()
    assert found.decoder == "reference"
    assert reason in (found.reason or "")


def test_the_chunk_cache_is_looked_at() -> None:
    stored: dict[str, bytes] = {}
    oz.create_array(stored, data=DATA, chunks=(8, 8, 8))
    array = oz.open(MemoryStore(stored))
    with oz.configure(chunk_cache="16MB", engine="reference"):
        assert array.view[:17, 0, 0].explain().cached == 0
        array[:9, 0, 0]
        assert array.view[:17, 0, 0].explain().cached == 2


def test_other_chunks_are_compared_for_the_same_read() -> None:
    array = oz.create_array(shape=(400, 400, 400), dtype="u1", chunks=(1, 400, 400))
    [quickest, *_] = array.view[:, 7, 7].explain().alternatives
    assert quickest["chunks"][0] == 400
    assert quickest["requests"] < array.view[:, 7, 7].explain().requests == 400
    assert array.view.vindex[[3], [4], [5]].explain().alternatives == []


def test_an_explanation_is_a_report() -> None:
    found = oz.create_array(shape=(4, 4), chunks=2).view[1].explain()
    assert isinstance(found, Explanation)
    assert Explanation.from_json(found.to_json()) == found
    assert "fetched bytes" in found._repr_html_()


def test_nothing_is_read_for_an_empty_selection() -> None:
    found = oz.create_array(shape=(4, 4), chunks=2).view[:0].explain(sizes=True)
    assert (found.requests, found.chunks, found.waste, found.memory_bytes) == (0, 0, None, 0)


def test_parts_of_a_shard_that_a_server_is_asked_for_together_are_one_request(
    server: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Speed, "note", lambda *_: None)
    server.values = {}
    data = np.random.default_rng(1).integers(0, 255, 10**6, "u1")
    options: dict[str, Any] = {"chunks": 10**5, "shards": 10**6, "compressors": None}
    oz.create_array(server.values, data=data, **options)
    view = oz.open(server.url).view[5:500_000:240_000]
    for sizes in (False, True):
        found = view.explain(sizes=sizes)
        assert found.requests == 2  # the index, and chunks 0, 2 and 4 with those between
        assert found.fetched_bytes == 10 * 16 + 4 + 5 * 10**5
        assert found.decoded_bytes == 3 * 10**5
    server.log.clear()
    view.read()
    assert sum(not is_metadata(path.lstrip("/")) for _, path, _ in server.log) == 2


def test_the_files_of_shards_are_read_in_a_snapshot(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a.zarr", data=DATA, **LAYOUTS["shards"])
    found = array.view[:17, 0, 0].explain(sizes=True)
    assert found.requests == 2 * (found.shards or 0) == 4  # without a third look at the index
