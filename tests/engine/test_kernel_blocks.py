"""The kernel changes only those blocks of a Blosc chunk that a write touches."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import kernel
from tests.conformance.shards import raw
from tests.engine.test_reference import needs_kernel

pytestmark = needs_kernel
SHAPE, BLOCK = (24, 100), 1024  # 24 × 100 × 4 bytes are 10 blocks, the last one shorter
DATA = np.random.default_rng(0).integers(0, 9, SHAPE).astype("f4")
CHANGED = DATA.copy()
CHANGED[5:8, 10:90] = 7


def array_of(where: Any, *after: str, **config: Any) -> oz.Array:
    """Return an array of one chunk in Blosc blocks, with codecs after them."""
    chosen = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, **config}
    blosc = {"name": "blosc", "configuration": {"blocksize": BLOCK, **chosen}}
    codecs = [raw(), blosc, *after]
    return oz.create_array(where, shape=SHAPE, chunks=SHAPE, dtype="f4", codecs=codecs)


def streams(buffer: bytes) -> list[bytes]:
    """Return the compressed streams of the blocks of a buffer."""
    total, block, _ = struct.unpack_from("<iii", buffer, 4)
    starts = struct.unpack_from(f"<{-(-total // block)}i", buffer, 16)
    sizes = [struct.unpack_from("<i", buffer, start)[0] for start in starts]
    return [buffer[a + 4 : a + 4 + n] for a, n in zip(starts, sizes, strict=True)]


def runs(length: int) -> st.SearchStrategy[slice]:
    ends = st.tuples(st.integers(0, length - 1), st.integers(1, length), st.integers(1, 5))
    return ends.map(lambda e: slice(e[0], min(e[0] + e[1], length), e[2]))


@given(
    boxes=st.lists(st.tuples(runs(SHAPE[0]), runs(SHAPE[1]), st.integers(0, 3)), max_size=6),
    cname=st.sampled_from(["lz4", "lz4hc", "zstd", "snappy"]),
    shuffle=st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]),
    filled=st.booleans(),
)
def test_parts_that_are_written_give_the_bytes_of_the_whole(
    boxes: list[tuple[slice, slice, int]], cname: str, shuffle: str, filled: bool
) -> None:
    store, other = oz.storage.MemoryStore(), oz.storage.MemoryStore()
    array = array_of(store, cname=cname, shuffle=shuffle)
    expected = DATA.copy() if filled else np.zeros(SHAPE, "f4")
    array[...] = expected
    for rows, columns, value in boxes:
        array[rows, columns] = expected[rows, columns] = value
    np.testing.assert_array_equal(array[...], expected)
    array_of(other, cname=cname, shuffle=shuffle)[...] = expected
    assert store.get("c/0/0") == other.get("c/0/0")


def test_blocks_that_are_not_touched_keep_their_bytes(tmp_path: Path) -> None:
    array_of(tmp_path / "low", cname="zstd", clevel=1)[...] = DATA
    array = array_of(tmp_path / "high", cname="zstd", clevel=9)
    array[...] = DATA
    before, again = ((tmp_path / n / "c/0/0").read_bytes() for n in ("low", "high"))
    differ = [a != b for a, b in zip(streams(before), streams(again), strict=True)]
    assert all(differ)  # or nothing would be shown below
    shutil.copy(tmp_path / "low/c/0/0", tmp_path / "high/c/0/0")
    array[5:8, 10:90] = 7  # bytes 2040 to 3160 of the chunk: blocks 1 to 3
    after = streams((tmp_path / "high/c/0/0").read_bytes())
    changed = [n for n, (a, b) in enumerate(zip(streams(before), after, strict=True)) if a != b]
    assert changed == [1, 2, 3]
    np.testing.assert_array_equal(array[...], CHANGED)


def test_a_chunk_that_becomes_empty_block_by_block_is_erased(tmp_path: Path) -> None:
    array = array_of(tmp_path / "a")
    array[3:5] = 1
    array[3:5] = 0
    assert not (tmp_path / "a/c").exists()


def test_a_chunk_with_blocks_of_another_library_is_changed(tmp_path: Path) -> None:
    from numcodecs import blosc

    array = array_of(tmp_path / "a")
    array[...] = DATA
    stored = blosc.compress(DATA.tobytes(), b"lz4", 5, blosc.SHUFFLE, 2 * BLOCK)
    (tmp_path / "a/c/0/0").write_bytes(stored)
    array[5:8, 10:90] = 7
    np.testing.assert_array_equal(array[...], CHANGED)


@pytest.mark.parametrize("entry", [0, 12, 2**31 - 1])
def test_a_damaged_table_of_blocks_is_an_error_and_nothing_is_stored(
    tmp_path: Path, entry: int
) -> None:
    array = array_of(tmp_path / "a")
    array[...] = DATA
    path = tmp_path / "a/c/0/0"
    damaged = bytearray(path.read_bytes())
    struct.pack_into("<i", damaged, 16 + 4 * 8, entry)  # of a block that is not touched
    path.write_bytes(damaged)
    with pytest.raises(oz.OmnizarrError):
        array[5:8, 10:90] = 7
    assert path.read_bytes() == damaged


def damage_block(path: Path, number: int) -> bytes:
    """Spoil the start of the compressed stream of a block; return the stored bytes."""
    damaged = bytearray(path.read_bytes())
    [start] = struct.unpack_from("<i", damaged, 16 + 4 * number)
    damaged[start + 4 : start + 8] = b"\xff" * 4
    path.write_bytes(damaged)
    return bytes(damaged)


def test_damage_in_a_block_that_is_not_touched_is_copied_and_found_when_it_is_read(
    tmp_path: Path,
) -> None:
    array = array_of(tmp_path / "a", cname="zstd")
    array[...] = DATA
    path = tmp_path / "a/c/0/0"
    damaged = damage_block(path, 8)  # bytes 8192 to 9216 of the chunk: rows 20 to 23
    array[5:8, 10:90] = 7
    assert streams(path.read_bytes())[8] == streams(damaged)[8]
    np.testing.assert_array_equal(array[:20], CHANGED[:20])
    for wanted in (21, ...):
        with pytest.raises(oz.ChunkError, match="c/0/0"):
            array[wanted]
    assert not oz.verify(tmp_path / "a").ok


@pytest.mark.parametrize("after", [(), ("crc32c",)])
def test_damage_that_a_write_meets_is_an_error_and_nothing_is_stored(
    tmp_path: Path, after: tuple[str, ...]
) -> None:
    """In a block that is touched, or anywhere if a checksum covers the chunk."""
    array = array_of(tmp_path / "a", *after, cname="zstd")
    array[...] = DATA
    path = tmp_path / "a/c/0/0"
    damaged = damage_block(path, 8 if after else 2)
    with pytest.raises(oz.ChunkError, match="c/0/0"):
        array[5:8, 10:90] = 7
    assert path.read_bytes() == damaged


@given(
    data=st.binary(min_size=1, max_size=30_000),
    cname=st.sampled_from(["lz4", "lz4hc", "zstd", "snappy"]),
    shuffle=st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]),
    after=st.sampled_from([(), ("crc32c",)]),
)
def test_blocks_encoded_by_several_threads_give_the_bytes_of_one(
    data: bytes, cname: str, shuffle: str, after: tuple[str, ...]
) -> None:
    values = np.resize(np.frombuffer(data, "u1"), DATA.nbytes).view("f4").reshape(SHAPE)
    stored = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernel, "SMALL", 64)  # for the small chunk of this test
        for threads in (1, 4):
            store = oz.storage.MemoryStore()
            array = array_of(store, *after, cname=cname, shuffle=shuffle)
            with oz.configure(threads=threads):
                array[...] = values
            stored.append(store.values)
            assert array[...].tobytes() == values.tobytes()
    assert stored[0] == stored[1]
