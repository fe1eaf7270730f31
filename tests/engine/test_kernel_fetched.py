"""Chunks of a server that the kernel decodes, and indexes of shards that are remembered."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import kernel
from omnizarr.stores import resolve
from omnizarr.stores.byte_ranges import Speed
from tests.sampling import tries
from tests.servers.s3 import SimpleStorage
from tests.servers.skipped import COMPILER
from tests.servers.web import Web, running

needs_kernel = pytest.mark.skipif(not kernel.available(), reason=COMPILER)

DATA = np.arange(23 * 17, dtype="i4").reshape(23, 17) % 90


@pytest.fixture(scope="module")
def served() -> Iterator[Web]:
    values: dict[str, bytes] = {}
    store = oz.storage.MemoryStore(values)
    for path, options in {
        "raw": {"compressors": None},
        "blosc": {},
        "zstd": {"compressors": {"name": "zstd", "configuration": {"level": 1}}},
        "sharded": {"shards": (10, 10)},
    }.items():
        more: Any = options
        array = oz.create_array(
            store, path=path, shape=DATA.shape, dtype="i4", chunks=(5, 5), fill_value=-1, **more
        )
        array[3:] = DATA[3:]  # and the first rows, partly, are missing
        array[:5] = -1
    with running(Web(values)) as server:
        yield server


EXPECTED = DATA.copy()
EXPECTED[:5] = -1
SLICES = st.tuples(*(st.slices(n) for n in DATA.shape))
LISTS = st.tuples(*(st.lists(st.integers(0, n - 1), max_size=6) for n in DATA.shape))


@pytest.mark.parametrize("path", ["raw", "blosc", "zstd", "sharded"])
@settings(max_examples=tries(40, 1000))
@given(st.sampled_from([(1, 2**16), ("128 MiB", 2**16), ("128 MiB", 0)]), SLICES, LISTS)
def test_parts_from_a_server_agree_with_numpy(
    served: Web,
    path: str,
    limits: tuple[Any, int],
    box: tuple[slice, slice],
    lists: tuple[Any, Any],
) -> None:
    array = oz.open(f"{served.url}/{path}", zarr_format=3)
    with patch.object(kernel, "LATE", limits[1]), oz.configure(in_flight=limits[0]):
        np.testing.assert_array_equal(array[box], EXPECTED[box])
        picked = tuple(np.array(p, int) for p in lists)
        np.testing.assert_array_equal(array.oindex[picked], EXPECTED[np.ix_(*picked)])
    with oz.configure(engine="reference"):
        np.testing.assert_array_equal(array[box], EXPECTED[box])


def test_every_chunk_is_requested_once(served: Web) -> None:
    array = oz.open(f"{served.url}/raw", zarr_format=3)
    served.log.clear()
    array[...]
    asked = [path for _, path, *_ in served.log]
    assert sum("/c/" in path for path in asked) == array.nchunks
    assert len(asked) <= array.nchunks + 1  # the metadata, where a chunk is missing


@pytest.mark.parametrize("late", [0, 2**16])
def test_a_damaged_chunk_is_named(web: Web, late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "LATE", late)
    array = oz.create_array(
        oz.storage.MemoryStore(web.values), data=DATA, chunks=(5, 5), compressors=None
    )
    web.values["c/2/1"] = web.values["c/2/1"][:-1]
    array = oz.open(web.url)
    np.testing.assert_array_equal(array[:10], DATA[:10])
    with pytest.raises(oz.ChunkError, match="c/2/1"):
        array[...]


@contextlib.contextmanager
def bucket() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Start a server of objects; yield it, and the options for its bucket."""
    server = SimpleStorage()
    server.buckets = {"bucket": {}}
    with running(server):
        yield server, {"endpoint": server.url, "region": "us-east-1", "anonymous": True}


@needs_kernel
@pytest.mark.parametrize("kind", ["http", "s3"])
def test_large_chunks_are_decoded_while_others_are_on_their_way(
    web: Web, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.arange(3 * 2**16, dtype="u2")
    options: Any = {"data": data, "chunks": 2**16, "compressors": None}
    with contextlib.ExitStack() as stack:
        if kind == "s3":
            server, more = stack.enter_context(bucket())
            store: Any = resolve("s3://bucket/a", storage_options=more)
            oz.create_array(store, **options)
        else:
            server, store = web, resolve(web.url)
            oz.create_array(oz.storage.MemoryStore(web.values), **options)
        array = oz.open(store, "r")
        decoded, decode = threading.Semaphore(0), kernel.run_rows
        early, types = list[bool](), list[type]()

        def run_rows(*args: Any) -> Any:
            types.append(type(args[4][0]))
            found = decode(*args)
            decoded.release()
            return found

        answer = server.answer

        def wait_for_the_others(method: str, path: str, *rest: Any) -> Any:
            if path.endswith("c/2"):
                early.append(decoded.acquire(timeout=25) and decoded.acquire(timeout=25))
            return answer(method, path, *rest)

        monkeypatch.setattr(kernel, "run_rows", run_rows)
        monkeypatch.setattr(server, "answer", wait_for_the_others)
        np.testing.assert_array_equal(array[...], data)
    assert early == [True]
    assert len(types) == 3
    assert bytes not in types  # which would be copies


@needs_kernel
def test_no_more_chunks_are_decoded_at_a_time_than_there_are_threads(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.arange(16 * 2**16, dtype="u2")
    oz.create_array(oz.storage.MemoryStore(web.values), data=data, chunks=2**16, compressors=None)
    array = oz.open(web.url)
    running, most, decode = list[int](), list[int](), kernel.run_rows

    def run_rows(*args: Any) -> Any:
        running.append(1)
        most.append(len(running))
        found = decode(*args)
        running.pop()
        return found

    monkeypatch.setattr(kernel, "run_rows", run_rows)
    with oz.configure(threads=2):
        np.testing.assert_array_equal(array[...], data)
    assert len(most) == 16
    assert max(most) <= 2


@pytest.fixture
def shards() -> Iterator[tuple[SimpleStorage, oz.Array, oz.Array]]:
    with bucket() as (server, options):
        store = resolve("s3://bucket/a", storage_options=options)
        array = oz.create_array(store, shape=64, dtype="i4", chunks=4, shards=32, compressors=None)
        array[:] = np.arange(64)
        other = oz.open(resolve("s3://bucket/a", storage_options=options), "r")
        yield server, array, other


def test_the_index_of_a_shard_is_requested_once(
    shards: tuple[SimpleStorage, oz.Array, oz.Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Speed, "prefers_whole", lambda *_: False)
    server, _, reader = shards
    requests = []
    for start in (0, 8, 16, 40, 48):
        server.log.clear()
        np.testing.assert_array_equal(reader[start : start + 3], np.arange(start, start + 3))
        requests.append(len(server.log))
    assert requests == [2, 1, 1, 2, 1]


@pytest.mark.parametrize("part", [slice(0, 4), slice(8, 20), slice(0, 64)])
def test_a_replaced_shard_is_read_anew_though_its_index_is_remembered(
    shards: tuple[SimpleStorage, oz.Array, oz.Array], part: slice
) -> None:
    _, writer, reader = shards
    expected = np.arange(64)
    for values in (7, 0, np.arange(64)[part], 0):  # fill values leave no inner chunk
        np.testing.assert_array_equal(reader[part], expected[part])
        np.testing.assert_array_equal(reader[...], expected)
        writer[part] = values
        expected[part] = values
        np.testing.assert_array_equal(reader[part], expected[part])
    writer.store.erase("c/0")
    expected[:32] = 0
    np.testing.assert_array_equal(reader[part], expected[part])
