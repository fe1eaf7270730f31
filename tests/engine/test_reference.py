"""Both engines give the same results, store the same keys and raise the same errors."""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import kernel, reference
from omnizarr.indexing import plan
from omnizarr.stores import MemoryStore
from tests.conformance.shards import raw, sharding
from tests.files import files
from tests.sampling import sample
from tests.servers.skipped import COMPILER

needs_kernel = pytest.mark.skipif(not kernel.available(), reason=COMPILER)

SHAPE = (19, 14, 11)
TYPES = ["|b1", "|u1", "<u2", ">i4", "<f4", "<f8", "<c16", "<M8[ns]", "|V3", "<U3", "|S300"]


def blosc(cname: str, clevel: int, shuffle: str, blocksize: int = 0) -> dict[str, Any]:
    config = {"cname": cname, "clevel": clevel, "shuffle": shuffle, "blocksize": blocksize}
    return {"name": "blosc", "configuration": {**config, "typesize": 1}}


ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}
LZ4 = {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}
CODECS: dict[str, list[Any]] = {
    "raw": [],
    "crc": ["crc32c"],
    "lz4-shuffle": [blosc("lz4", 5, "shuffle")],
    "zstd-bits-crc": [blosc("zstd", 3, "bitshuffle"), "crc32c"],
    "lz4hc-blocks": [blosc("lz4hc", 9, "noshuffle", 256)],
    "level-0": [blosc("lz4", 0, "shuffle")],
    "zstd": [ZSTD],
    "crc-zstd-crc": ["crc32c", ZSTD, "crc32c"],
    "lz4": [LZ4],
    "gzip": [{"name": "gzip", "configuration": {"level": 1}}],
    "gzip-stored": [{"name": "gzip", "configuration": {"level": 0}}],
    "crc-gzip-crc": ["crc32c", {"name": "gzip", "configuration": {"level": 9}}, "crc32c"],
    "zlib": [{"name": "numcodecs.zlib", "configuration": {"level": -1}}],
}
LAYOUTS = ["C", "F", "turned", "shards", "shards-index-first"]


def create(where: Any, dtype: str, codecs: str, layout: str, endian: str = "little") -> oz.Array:
    size = np.dtype(dtype).itemsize
    steps = [
        {**c, "configuration": {**c["configuration"], "typesize": size}}
        if isinstance(c, dict) and c["name"] == "blosc"
        else c
        for c in CODECS[codecs]
    ]
    inner = [raw(endian)]
    inner += [s if isinstance(s, dict) else {"name": s} for s in steps]
    chunks = (8, 5, 6)
    if layout == "turned":
        inner.insert(0, {"name": "transpose", "configuration": {"order": [1, 2, 0]}})
    if layout.startswith("shards"):
        location = "start" if "first" in layout else "end"
        inner = [sharding(4, 5, 3, codecs=inner, index_location=location)]
    return oz.create_array(
        where,
        shape=SHAPE,
        dtype=dtype,
        chunks=chunks,
        codecs=inner,
        order="F" if layout == "F" else "C",
    )


def values(dtype: str) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(1)
    numbers = random.integers(0, 100, SHAPE)
    numbers[8:16, 0:5] = 0  # a chunk of nothing but the fill value
    if dtype == "|V3":
        return np.frombuffer(numbers.astype("u1").repeat(3).tobytes(), "V3").reshape(SHAPE)
    return numbers.astype(dtype)


WRITES: list[Any] = [
    (...,),
    (slice(2, 17, 3), slice(None), slice(1, 9)),
    (slice(8, 16),),
    (3, slice(None, None, -2), 5),
]
READS: list[Any] = [*WRITES, (18, 13, 10), (slice(0, 8), slice(0, 5), slice(0, 6))]


LISTS: list[Any] = [([0, 7, 7, 18], slice(2, 14, 3), [10, 0, 5]), (slice(None), [3, 12], 4)]
POINTS: list[Any] = [([0, 18, 3, 3], [13, 0, 2, 2], [0, 10, 5, 5]), ([9, 9], [1, 2], [3, 3])]


def run(where: Any, engine: str, *case: str) -> tuple[dict[str, bytes], list[Any]]:
    """Return what one engine stores, and what it reads after each write."""
    data = values(case[0])
    seen = []
    with oz.configure(engine=engine):
        array = create(where, *case)
        for number, selection in enumerate(WRITES):
            array[selection] = data[selection] if number != 2 else np.zeros(1, data.dtype)
            seen += [np.array(array[selection]) for selection in READS]
            seen += [np.array(array.oindex[selection]) for selection in LISTS]
            seen += [np.array(array.vindex[selection]) for selection in POINTS]
        array.oindex[LISTS[0]] = data[np.ix_([1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2])]
        array.vindex[POINTS[0]] = data[0, 0, :4]
        seen += [np.array(array[...])]
    return files(where), seen


CASES = [
    *((t, "lz4-shuffle", y, "little") for t, y in itertools.product(TYPES, LAYOUTS)),
    *(("<u2", c, y, e) for c, y, e in itertools.product(CODECS, LAYOUTS, ("little", "big"))),
]


@needs_kernel
@pytest.mark.parametrize("case", sample(CASES, 24), ids="-".join)
def test_both_engines_store_the_same_keys_and_read_the_same_values(
    case: tuple[str, ...], tmp_path: Path
) -> None:
    ours, ours_seen = run(tmp_path / "kernel", "auto", *case)
    theirs, theirs_seen = run(tmp_path / "reference", "reference", *case)
    assert sorted(ours) == sorted(theirs)
    for found, wanted in zip(ours_seen, theirs_seen, strict=True):
        assert found.tobytes() == wanted.tobytes()
    # Each reads what the other wrote; the compressed bytes themselves may differ.
    with oz.configure(engine="reference"):
        by_reference = oz.open(tmp_path / "kernel")[...]
    assert oz.open(tmp_path / "reference")[...].tobytes() == by_reference.tobytes()
    if "blosc" not in str(CODECS[case[1]]) and case[1] not in ("zstd", "crc-zstd-crc", "lz4"):
        assert ours == theirs


@needs_kernel
@pytest.mark.parametrize(
    ("codecs", "layout"),
    sample(itertools.product(CODECS, ["C", "shards", "shards-index-first"]), 12),
)
def test_damage_is_the_same_error_in_both_engines(codecs: str, layout: str, tmp_path: Path) -> None:
    array = create(tmp_path / "x", "<u2", codecs, layout)
    array[...] = values("<u2")
    file = tmp_path / "x" / array.chunk_key((0, 0, 0))
    good = file.read_bytes()
    random = np.random.default_rng(3)
    differ = []
    for number in range(60):
        bad = bytearray(good)
        if number % 3 == 0:
            bad = bad[: random.integers(0, len(bad))]
        elif number % 3 == 1:
            bad[random.integers(0, min(64, len(bad)))] ^= 1 << int(random.integers(8))
        else:
            bad[-1 - random.integers(0, min(64, len(bad)))] ^= 1 << int(random.integers(8))
        file.write_bytes(bad)
        results = []
        for engine in ("auto", "reference"):
            with oz.configure(engine=engine):
                try:
                    results.append(array[0:8, 0:5, 0:6].tobytes())
                except oz.ChunkError as e:
                    results.append(str(e))
        if results[0] != results[1]:
            differ.append((number, results))
    assert differ == []


@needs_kernel
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("location", ["start", "end"])
def test_slices_of_a_shard_are_written_in_order(
    threads: int, location: str, tmp_path: Path
) -> None:
    inner = [raw(), *CODECS["gzip"]]
    codecs = [sharding(64, 64, 8, codecs=inner, index_location=location)]
    data = np.random.default_rng(0).integers(0, 9, (128, 128, 200)).astype("u2")
    data[:64, 64:] = 0  # inner chunks that are not stored
    found = []
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine, threads=threads):
            array = oz.create_array(
                tmp_path / engine, shape=data.shape, dtype="u2", chunks=data.shape, codecs=codecs
            )
            array[...] = data
        found.append((tmp_path / engine / "c/0/0/0").read_bytes())
    assert found[0] == found[1]
    assert [p.name for p in (tmp_path / "auto" / "c/0/0").iterdir()] == ["0"]


@needs_kernel
def test_empty_chunks_are_stored_on_request(tmp_path: Path) -> None:
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine, write_empty_chunks=True):
            array = create(tmp_path / engine, "<u2", "lz4-shuffle", "shards")
            array[...] = 0
            assert array.nchunks_initialized == array.nchunks
            assert not array[...].any()
        with oz.configure(engine=engine):
            array[...] = 0
            assert array.nchunks_initialized == 0


@needs_kernel
def test_the_compressor_works_after_an_incompressible_block() -> None:
    data = np.random.default_rng(0).integers(0, 2**16, (64, 64)).astype("u2")
    settings = {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
    blosc = {"name": "blosc", "configuration": settings}
    for codec in (blosc, *CODECS["zstd"]):
        array = oz.create_array({}, shape=data.shape, dtype="u2", compressors=codec)
        chosen = plan(array._bound.grid, ...)
        assert kernel.write(array._bound, chosen, data) == []
        assert np.array_equal(array[:], data)


@needs_kernel
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("keep", [False, True])
def test_large_chunks_without_codecs_are_stored_the_same_by_both_engines(
    endian: str, order: Any, keep: bool, tmp_path: Path
) -> None:
    data = np.zeros((3, 50, 40, 70), "u2")
    data[1] = np.arange(data[1].size).reshape(data[1].shape)
    data[2, -1, -1, -1] = 7  # seen in the last of its planes
    codecs = [{"name": "bytes", "configuration": {"endian": endian}}]
    stored = []
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine, write_empty_chunks=keep):
            array = oz.create_array(
                tmp_path / engine,
                shape=data.shape,
                dtype="u2",
                chunks=(1, *data.shape[1:]),
                codecs=codecs,
                order=order,
            )
            array[...] = data[..., ::-1]
            assert np.array_equal(array[...], data[..., ::-1])
        stored.append(files(tmp_path / engine / "c"))
    assert stored[0] == stored[1]
    assert len(stored[0]) == (3 if keep else 2)


@needs_kernel
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("codecs", ["lz4-shuffle", "zstd-bits-crc", "lz4hc-blocks", "level-0"])
@pytest.mark.parametrize("planes", [32, 35])  # those of a block, or not
def test_large_blosc_chunks_of_the_kernel_are_read_by_both_engines(
    endian: str, order: Any, codecs: str, planes: int, tmp_path: Path
) -> None:
    data = np.zeros((5, 64, planes, 64), "u2")
    data[1] = np.arange(data[1].size).reshape(data[1].shape)
    data[2, 59, -1, -1] = 7  # seen in the last of its planes
    data[3] = np.random.default_rng(0).integers(0, 2**16, data[3].shape)  # does not get smaller
    data[4, :20] = np.arange(64) + 1
    steps: list[Any] = [{"name": "bytes", "configuration": {"endian": endian}}, *CODECS[codecs]]
    for where in (tmp_path / "x", {}):
        array = oz.create_array(
            where,
            shape=(5, 60, *data.shape[2:]),  # the chunks go over the edge, or end there
            dtype="u2",
            chunks=(1, *(data.shape[1:] if endian == "big" else (60, *data.shape[2:]))),
            codecs=steps,
            order=order,
        )
        values = data[:, :60, :, ::-1]
        assert kernel.write(array._bound, plan(array._bound.grid, ...), values) == []
        for engine in ("auto", "reference"):
            with oz.configure(engine=engine):
                assert np.array_equal(array[...], values)
        assert array.nchunks_initialized == 4


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("codecs", ["raw", "lz4-shuffle"])
def test_a_chunk_that_cannot_be_stored_is_named_and_others_are_stored(
    engine: Any, codecs: str, tmp_path: Path
) -> None:
    steps: list[Any] = [{"name": "bytes"}, *CODECS[codecs]]
    array = oz.create_array(tmp_path, shape=(95,), chunks=(10,), dtype="u1", codecs=steps)
    (tmp_path / "c" / "6").mkdir(parents=True)
    with oz.configure(engine=engine, threads=1), pytest.raises(oz.ChunkError) as caught:
        array[...] = np.arange(95) + 1
    assert caught.value.chunk == (6,)
    assert array[:60].tolist() == list(range(1, 61))
    (tmp_path / "c" / "6").rmdir()
    with oz.configure(engine=engine):
        array[...] = np.arange(95)
    assert array[...].tolist() == list(range(95))


class Sending(MemoryStore):
    """A store as one that sends its values to a server."""

    traits = replace(MemoryStore.traits, low_latency=False, sends_values=True)
    direct_values = None

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Any] = []

    def set(self, key: str, value: Any) -> None:
        if key != "zarr.json":
            self.sent.append(value)
        super().set(key, bytes(value))

    def set_if(self, key: str, value: Any, generation: str | None) -> bool:
        if self.generation(key) != generation:
            return False
        self.set(key, value)
        return True


@pytest.mark.parametrize("chunks", [(4, 6), (4, 3), (2, 6)])
def test_buffers_that_are_sent_are_not_the_callers(chunks: tuple[int, int]) -> None:
    """They may be sent again after the caller was interrupted and has changed the array."""
    store, data = Sending(), np.arange(24, dtype="i4").reshape(4, 6)
    array = oz.create_array(store, shape=(4, 6), chunks=chunks, dtype="i4", compressors=None)
    array[...] = data
    np.testing.assert_array_equal(array[...], data)
    assert len(store.sent) == 24 // math.prod(chunks)
    for value in store.sent:
        assert not np.may_share_memory(np.frombuffer(value, "u1"), data)
    is_copied = [type(value) is bytes for value in store.sent]
    assert all(is_copied) if chunks[1] == 6 else not any(is_copied)  # or the chunk was one already


class Waiting(Sending):
    """A store whose first value is stored when another one is on its way."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self.barrier = threading.Barrier(together)

    def set(self, key: str, value: Any) -> None:
        if key != "zarr.json":
            self.barrier.wait(60)
        super().set(key, value)


def test_chunks_are_sent_together_and_encoded_by_few_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, data = Waiting(together=6), np.arange(24, dtype="i4")
    encode, running, most = reference._encoded, list[int](), list[int]()

    def encoded(*args: Any) -> Any:
        running.append(1)
        most.append(len(running))
        try:
            return encode(*args)
        finally:
            running.pop()

    monkeypatch.setattr(reference, "_encoded", encoded)
    array = oz.create_array(store, shape=24, chunks=4, dtype="i4", fill_value=-1)
    with oz.configure(threads=1):
        array[...] = data
    np.testing.assert_array_equal(array[...], data)
    assert len(most) == 6
    assert set(most) == {1}


def test_no_more_chunks_are_sent_at_a_time_than_the_budget_holds() -> None:
    store, running, most = Sending(), list[int](), list[int]()
    put = store.set

    def set(key: str, value: Any) -> None:
        running.append(1)
        most.append(len(running))
        put(key, value)
        running.pop()

    array = oz.create_array(store, shape=400, chunks=4, dtype="i4", compressors=None)
    store.set = set  # type: ignore[method-assign]
    with oz.configure(in_flight=32):  # two chunks
        array[...] = np.arange(1, 401)
    assert len(most) == 100
    assert max(most) <= 2


@pytest.mark.parametrize("write_empty_chunks", [False, True])
def test_settings_of_the_caller_hold_where_chunks_are_sent(write_empty_chunks: bool) -> None:
    store = Sending()
    array = oz.create_array(store, shape=24, chunks=4, dtype="i4", fill_value=0)
    array[...] = 1
    with oz.configure(write_empty_chunks=write_empty_chunks):
        array[...] = 0
    assert (store.get("c/0") is not None) == write_empty_chunks
    np.testing.assert_array_equal(array[...], np.zeros(24, "i4"))
    array[...] = 0
    assert store.get("c/0") is None


def test_an_error_names_the_chunk_that_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Sending()
    array = oz.create_array(store, shape=24, chunks=4, dtype="i4")
    put = store.set

    def set(key: str, value: Any) -> None:
        if key == "c/4":
            raise oz.StoreError("refused")
        put(key, value)

    monkeypatch.setattr(store, "set", set)
    with pytest.raises(oz.ChunkError, match=r"chunk \(4,\) of / .*refused"):
        array[...] = np.arange(24)
