"""Inner chunks of shards on a server: the kernel reads them as the reference engine does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import inner_chunks, kernel, reference
from omnizarr.extension import bound_array
from omnizarr.stores import Range
from tests.conformance.shards import sharding
from tests.engine.test_reference_requests import Far
from tests.sampling import tries
from tests.servers.skipped import COMPILER

pytestmark = pytest.mark.skipif(not kernel.available(), reason=COMPILER)

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
SWAPPED = {"name": "bytes", "configuration": {"endian": "big"}}
CRC32C = {"name": "crc32c"}
ZSTD = {"name": "zstd", "configuration": {"level": 1}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
CODECS: list[list[Any]] = [[BYTES], [SWAPPED, CRC32C], [BYTES, ZSTD, CRC32C], [BYTES, GZIP]]
INDEX_CODECS: list[list[Any]] = [[BYTES, CRC32C], [BYTES], [SWAPPED]]


@st.composite
def stored(draw: st.DrawFn) -> tuple[dict[str, bytes], np.ndarray[Any, Any]]:
    """Return the values of an array in shards, some inner chunks of which are missing."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    shards = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    numbers = np.random.default_rng(draw(st.integers(0, 99)))
    data = numbers.integers(0, 50, shape).astype(draw(st.sampled_from(["i4", ">u2", "f8", "u1"])))
    data[numbers.random(shape) < draw(st.sampled_from([0, 0.8, 1]))] = 7
    values: dict[str, bytes] = {}
    codec = sharding(
        *chunks,
        codecs=draw(st.sampled_from(CODECS)),
        index_codecs=draw(st.sampled_from(INDEX_CODECS)),
        index_location=draw(st.sampled_from(["start", "end"])),
    )
    store = oz.storage.MemoryStore(values)
    array = oz.create_array(
        store, shape=shape, dtype=data.dtype, chunks=shards, codecs=[codec], fill_value=7
    )
    array[...] = data
    return values, data


def selections(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[str, Any]]:
    """Return ways to select from an array."""
    positions = [st.integers(-n, n - 1) for n in shape]
    axes = [
        st.one_of(st.slices(n), st.lists(i, max_size=5), i)
        for n, i in zip(shape, positions, strict=True)
    ]
    points = st.integers(1, 12).flatmap(
        lambda count: st.tuples(*(st.lists(i, min_size=count, max_size=count) for i in positions))
    )
    return st.one_of(
        st.tuples(st.just("oindex"), st.tuples(*axes)),
        st.tuples(st.just("vindex"), points),
    )


def read(array: oz.Array, how: str, selection: Any, missing: Any = "fill") -> Any:
    """Return what is read, with the missing chunks; or the error."""
    chosen = tuple(np.array(i, int) if isinstance(i, list) else i for i in selection)
    try:
        return getattr(array.view, how)[chosen].read(missing=missing)
    except (oz.ChunkError, oz.errors.MissingChunk) as e:
        return type(e), str(e)


@settings(max_examples=tries(50, 1000))
@given(stored(), st.data(), st.booleans())
def test_what_the_kernel_reads_is_what_the_reference_engine_reads(
    made: tuple[dict[str, bytes], Any], data: st.DataObject, damaged: bool
) -> None:
    values, expected = made
    for key in [key for key in values if "c/" in key and damaged]:
        change = data.draw(st.sampled_from(["none", "missing", "short", "byte", "zeros"]))
        shard = values[key]
        match change:
            case "missing":
                del values[key]
            case "short":
                values[key] = shard[: data.draw(st.integers(0, len(shard) - 1))]
            case "byte":
                at = data.draw(st.integers(0, len(shard) - 1))
                changed = bytes([shard[at] ^ data.draw(st.integers(1, 255))])
                values[key] = shard[:at] + changed + shard[at + 1 :]
            case "zeros":
                values[key] = bytes(len(shard))
    array: oz.Array = oz.open(Far(values), "r")
    how, selection = data.draw(selections(expected.shape))
    missing = data.draw(st.sampled_from(["fill", "raise", "raise-key"]))
    least = data.draw(st.sampled_from([1, 100, 2**20]))
    with (
        mock.patch("omnizarr.concurrency.pool.LEAST_BYTES", least),
        oz.configure(in_flight=least, threads=4 if missing == "fill" and not damaged else 1),
        mock.patch.object(reference, "read", wraps=reference.read) as left,
    ):
        with oz.trace() as trace:
            found = read(array, how, selection, missing)
        fell_back = left.called
        assert isinstance(kernel.layout_or_reason(bound_array(array)), kernel.Layout)
        with oz.configure(engine="reference", threads=1):
            same = read(array, how, selection, missing)
    if isinstance(found, tuple) or isinstance(same, tuple):
        assert found == same
        return
    np.testing.assert_array_equal(found, same)
    if not damaged and np.size(found):
        few = max(least // 27 // 8, 1) * inner_chunks.MAX_PARTS >= expected.size
        assert not (few and fell_back)
        assert trace.total.decode_seconds > 0


def test_a_shard_that_appears_meanwhile_is_read_as_a_whole() -> None:
    store = oz.storage.MemoryStore(values := dict[str, bytes]())
    array = oz.create_array(store, shape=16, dtype="i4", chunks=2, shards=8, fill_value=7)
    array[...] = 1
    shards = {key: values.pop(key) for key in ("c/0", "c/1")}

    class Appearing(Far):
        def get_many(self, requests: Sequence[tuple[str, Range | None]]) -> list[bytes | None]:
            found = super().get_many(requests)
            if any(key in shards for key, _ in requests):
                self.values |= shards
            return found

    one = oz.configure(in_flight=1, threads=1)
    with mock.patch("omnizarr.concurrency.pool.LEAST_BYTES", 1), one:
        found = oz.open(Appearing(values), "r")[...]
    assert found.tolist() == [7] * 8 + [1] * 8


def test_indexes_and_inner_chunks_come_in_one_call_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner_chunks, "MAX_GAP", 0)
    values: dict[str, bytes] = {}
    data = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    memory = oz.storage.MemoryStore(values)
    oz.create_array(memory, data=data, chunks=(4, 8), shards=(32, 32), compressors=None)
    server = Far(values)
    array: oz.Array = oz.open(server, "r")
    array[0, 0]
    server.calls.clear()
    rows = [1, 2, 30, 33]
    np.testing.assert_array_equal(array.oindex[rows], data[rows])
    assert [len(call) for call in server.calls] == [4, 4 + 2]
    assert {part.length for _, part in server.calls[1] if part} == {4 * 4 * 8 * 2}
