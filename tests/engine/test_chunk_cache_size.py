"""A read with the chunk cache fetches no more than one without, and less where it helps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import chunk_cache, kernel
from omnizarr.formats import is_metadata
from omnizarr.stores import Range

BLOSC = {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 1, "blocksize": 2048}}
LAYOUTS: list[dict[str, Any]] = [
    {"chunks": (8, 16)},
    {"chunks": (8, 16), "compressors": None},
    {"chunks": (40, 1000), "compressors": BLOSC},
    {"chunks": (4, 8), "shards": (16, 16)},
    {"chunks": (8, 16), "compressors": "zstd", "zarr_format": 2},
]
SHAPE = (40, 1000)
DATA = np.random.default_rng(2).integers(1, 60, SHAPE).astype("i4")


class Counted(oz.storage.MemoryStore):
    """A store that counts the chunks, or parts of chunks, and the bytes that are fetched.

    Metadata are not counted: when they are looked at again depends on the time.
    """

    requests, fetched = 0, 0

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self._counted(key, super().get(key, range))

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        data, generation = oz.storage.MemoryStore(self.values).get_versioned(key, range)
        return self._counted(key, data), generation

    def generation(self, key: str) -> str | None:
        return oz.storage.MemoryStore(self.values).generation(key)

    def _counted(self, key: str, data: bytes | None) -> bytes | None:
        if not is_metadata(key):
            self.requests += 1
            self.fetched += 0 if data is None else len(data)
        return data


class Far(Counted):
    """The same with a high latency, and calls that fetch several values."""

    traits = replace(Counted.traits, low_latency=False)

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        return [self.get(key, part) for key, part in requests]


def items(length: int) -> st.SearchStrategy[Any]:
    rows = st.lists(st.integers(0, length - 1), min_size=1, max_size=4)
    return st.one_of(st.slices(length), rows)


@given(
    st.sampled_from(LAYOUTS),
    st.sampled_from([Counted, Far]),
    st.sampled_from(["8kB", "60kB", "1MB"]),
    st.lists(st.tuples(items(SHAPE[0]), items(SHAPE[1])), min_size=2, max_size=8),
)
def test_no_read_fetches_more_than_without_the_cache(
    layout: dict[str, Any], kind: type[Counted], limit: str, selections: list[Any]
) -> None:
    stores = kind(), kind()
    for store in stores:
        array = oz.create_array(store, shape=SHAPE, dtype="i4", **layout)
        array[:, :500] = DATA[:, :500]
    with_cache, without = (oz.open(store) for store in stores)
    expected = DATA.copy()
    expected[:, 500:] = 0
    with oz.configure(chunk_cache=limit):
        for selection in selections:
            costs = []
            for array, store in zip((with_cache, without), stores, strict=True):
                before = store.requests, store.fetched
                with oz.configure(**({} if array is with_cache else {"chunk_cache": None})):
                    found = array.oindex[selection]
                costs.append((store.requests - before[0], store.fetched - before[1]))
                rows, columns = selection
                np.testing.assert_array_equal(found, expected[rows][:, columns])
            assert costs[0][1] <= costs[1][1]
            # Parts of a shard that is fetched as a whole without the cache may be fewer bytes.
            assert costs[0][0] <= costs[1][0] or costs[0][1] < costs[1][1]


def test_a_read_that_the_cache_cannot_hold_leaves_what_it_has() -> None:
    store = Counted()
    array = oz.create_array(store, data=DATA, chunks=(8, 100))
    with oz.configure(chunk_cache="20kB"):
        _ = array[:8, :100]
        assert np.array_equal(array[...], DATA)
        before = store.requests
        assert np.array_equal(array[:8, :100], DATA[:8, :100])
        assert store.requests == before


needs_kernel = pytest.mark.skipif(not kernel.available(), reason="the kernel was not built")


@needs_kernel
def test_chunks_that_the_kernel_decodes_quickly_are_not_kept(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 100))
    with oz.configure(chunk_cache="1MB"):
        found = chunk_cache.current()
        for _ in range(3):
            assert np.array_equal(array[...], DATA)
        assert found is not None
        assert found.nbytes == 0


@needs_kernel
def test_the_kernel_reads_what_is_read_once_and_keeps_what_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.random.default_rng(3).integers(0, 100, (1024, 512)).astype("u4")
    array = oz.create_array(tmp_path / "a", data=data, chunks=(512, 512), compressors="zstd")
    monkeypatch.setattr("omnizarr.stores.local.store.TICK", 0)
    calls: list[int] = []
    uncached = kernel.read

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args[1].count)
        return uncached(*args, **options)

    monkeypatch.setattr(kernel, "read", counted)
    with oz.configure(chunk_cache="8MB"):
        found = chunk_cache.current()
        assert found is not None
        assert np.array_equal(array[...], data)
        assert (calls, found.nbytes) == ([2], 0)
        assert np.array_equal(array[:512], data[:512])
        assert found.nbytes == data.nbytes // 2 + chunk_cache.ENTRY
        assert np.array_equal(array[3:700], data[3:700])
        assert found.nbytes == data.nbytes + 2 * chunk_cache.ENTRY
        assert np.array_equal(array[3:5], data[3:5])
        assert calls == [2]


@needs_kernel
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts bytes")
@pytest.mark.parametrize("compressors", [None, BLOSC], ids=["raw", "blosc"])
def test_parts_of_large_chunks_in_files_are_read_alone(compressors: Any, tmp_path: Path) -> None:
    data = np.random.default_rng(3).integers(0, 100, (1024, 1024)).astype("u4")
    array = oz.create_array(tmp_path / "a", data=data, chunks=data.shape, compressors=compressors)

    def cost(selection: Any) -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        before = int(lines[0].removeprefix("rchar: "))
        assert np.array_equal(array.oindex[selection], data[selection])
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(lines[0].removeprefix("rchar: ")) - before

    selections: list[Any] = [slice(5, 9), slice(5, 9), slice(200, 210), [900, 4, 300]]
    plain = [cost(s) for s in selections]
    with oz.configure(chunk_cache="64MB"):
        cached = [cost(s) for s in selections]
    assert max(plain) < data.nbytes // 4
    assert all(c <= p + 512 for c, p in zip(cached, plain, strict=True))  # of the counter itself


@needs_kernel
def test_parts_of_several_large_chunks_are_read_with_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.random.default_rng(3).integers(0, 100, (1024, 2048)).astype("u4")
    array = oz.create_array(tmp_path / "a", data=data, chunks=(1024, 1024), compressors=BLOSC)
    calls: list[int] = []
    uncached = kernel.read

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args[1].count)
        return uncached(*args, **options)

    monkeypatch.setattr(kernel, "read", counted)
    with oz.configure(chunk_cache="64MB"):
        for _ in range(3):
            assert np.array_equal(array[100:400], data[100:400])
        found = chunk_cache.current()
        assert found is not None
        assert (calls, found.nbytes) == ([2, 2, 2], 0)


@needs_kernel
def test_small_reads_do_not_look_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking would take longer than reading them."""
    data = np.random.default_rng(3).integers(0, 100, (1024, 1024)).astype("u4")
    array = oz.create_array(tmp_path / "a", data=data, chunks=data.shape, compressors=BLOSC)
    box = np.s_[100:300, 5:80]
    assert np.array_equal(array[box], data[box])
    asked: list[Any] = []
    monkeypatch.setattr(chunk_cache, "read", lambda *args: asked.append(args))
    with oz.configure(chunk_cache="64MB"):
        for _ in range(3):
            assert array[5, 7] == data[5, 7]
            assert np.array_equal(array[box], data[box])
    assert asked == []
