"""The kernel with buffers, files and calls that are unusual or invalid."""

from __future__ import annotations

import gzip
import itertools
import os
import random
import shutil
import signal
import struct
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import blosc

import omnizarr as oz
from omnizarr.engine import kernel
from omnizarr.indexing import plan
from tests.conformance.shards import raw, sharding
from tests.engine.test_reference import needs_kernel
from tests.parallel import repeating

pytestmark = needs_kernel


def blosc_array(where: Path, size: int, dtype: str = "u1", **config: Any) -> oz.Array:
    """Return an array of one chunk in one Blosc buffer."""
    item = np.dtype(dtype).itemsize
    given = {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": item, **config}
    codecs = [raw(), {"name": "blosc", "configuration": {"blocksize": 0, **given}}]
    return oz.create_array(where, shape=size, chunks=size, dtype=dtype, codecs=codecs)


def left_of(array: oz.Array, selection: Any, out: Any = None) -> list[int] | None:
    """Return the rows that the kernel leaves to the reference engine."""
    rows = plan(array._bound.grid, selection)
    out = np.empty(rows.full_shape, array.dtype) if out is None else out
    return kernel.read(array._bound, rows, out)


def by_reference(array: oz.Array, selection: Any = ...) -> np.ndarray[Any, Any]:
    with oz.configure(engine="reference"):
        return np.asarray(array[selection])


# Blosc buffers


@pytest.mark.parametrize("cname", ["lz4", "lz4hc", "zstd", "snappy"])
@pytest.mark.parametrize("shuffle", ["shuffle", "bitshuffle"])
@pytest.mark.parametrize("typesize", [1, 2, 3, 7, 16, 255, 300])
@pytest.mark.parametrize("size", [129, 1000, 4099])
def test_a_last_block_of_any_length_is_read_by_c_blosc(
    cname: str, shuffle: str, typesize: int, size: int, tmp_path: Path
) -> None:
    config = {"cname": cname, "shuffle": shuffle, "typesize": typesize, "blocksize": 1024}
    array = blosc_array(tmp_path, size, **config)
    data = (np.arange(size) // 5 % 11 + 1).astype("u1")
    array[...] = data
    assert np.array_equal(by_reference(array), data)
    assert np.array_equal(array[...], data)


def blosc_buffer(array: oz.Array) -> tuple[bytearray, list[int], Path]:
    """Return a stored buffer of several blocks, where they start, and its file."""
    array[...] = np.arange(array.shape[0]) // 9 % 50
    path = Path(str(array._bound.store)) / "c" / "0"
    data = bytearray(path.read_bytes())
    size, block = struct.unpack_from("<II", data, 4)
    return data, list(struct.unpack_from(f"<{-(-size // block)}I", data, 16)), path


def test_blocks_can_be_in_any_order(tmp_path: Path) -> None:
    array = blosc_array(tmp_path, 8192, blocksize=1024)
    data, starts, path = blosc_buffer(array)
    wanted = array[...]
    ends = [*starts[1:], len(data)]
    blocks = [data[a:b] for a, b in zip(starts, ends, strict=True)]
    out, moved = bytearray(data[: starts[0]]), list(starts)
    for i in (3, 0, 7, 1, 2, 6, 5, 4):
        moved[i] = len(out)
        out += blocks[i]
    struct.pack_into("<8I", out, 16, *moved)
    path.write_bytes(out)
    for chosen in (slice(None), slice(1000, 3000), slice(7000, 8000)):
        assert left_of(array, chosen) == []
        assert np.array_equal(array[chosen], wanted[chosen])


@pytest.mark.parametrize("start", [0, 15, 16, 40, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_block_with_an_invalid_start_is_not_read(start: int, tmp_path: Path) -> None:
    array = blosc_array(tmp_path, 8192, blocksize=1024)
    data, _, path = blosc_buffer(array)
    struct.pack_into("<I", data, 16 + 4 * 3, start)
    path.write_bytes(data)
    assert left_of(array, ...) == [0]
    assert left_of(array, slice(3100, 3200)) == [0]
    with pytest.raises(oz.ChunkError):
        array[...]


def test_a_stream_that_reaches_into_the_next_block_is_not_read(tmp_path: Path) -> None:
    array = blosc_array(tmp_path, 8192, blocksize=1024)
    data, starts, path = blosc_buffer(array)
    struct.pack_into("<I", data, starts[2], starts[3] - starts[2] + 1)
    path.write_bytes(data)
    assert left_of(array, slice(2100, 2200)) == [0]


# gzip and zlib


def deflate_array(where: Path, name: str) -> tuple[oz.Array, bytes, Path]:
    """Return an array of one chunk of 1000 bytes, its values and its file."""
    codecs = [{"name": "bytes"}, {"name": name, "configuration": {"level": 5}}]
    array = oz.create_array(where, shape=1000, chunks=1000, dtype="u1", codecs=codecs)
    data = (np.arange(1000) // 7 % 50).astype("u1")
    array[...] = data
    assert left_of(array, ...) == []
    return array, data.tobytes(), where / "c" / "0"


def test_a_gzip_header_with_a_name_and_a_comment_is_read(tmp_path: Path) -> None:
    array, data, file = deflate_array(tmp_path, "gzip")
    plain = gzip.compress(data, mtime=5)
    file.write_bytes(plain[:3] + b"\x18" + plain[4:10] + b"name\0comment\0" + plain[10:])
    assert left_of(array, ...) == []
    assert array[...].tobytes() == data


@pytest.mark.parametrize("name", ["gzip", "numcodecs.zlib"])
@pytest.mark.parametrize("change", ["added", "cut", "checksum", "longer", "shorter", "empty"])
def test_a_deflate_stream_of_the_wrong_size_is_not_read(
    name: str, change: str, tmp_path: Path
) -> None:
    array, data, file = deflate_array(tmp_path, name)
    packed = file.read_bytes()
    pack = gzip.compress if name == "gzip" else zlib.compress
    file.write_bytes(
        {
            "added": packed + b"garbage",
            "cut": packed[:-1],
            "checksum": packed[:-5] + bytes([packed[-5] ^ 1]) + packed[-4:],
            "longer": pack(data + b"x"),
            "shorter": pack(data[:-1]),
            "empty": b"",
        }[change]
    )
    if (name, change) == ("numcodecs.zlib", "checksum"):
        file.write_bytes(packed[:-1] + bytes([packed[-1] ^ 1]))
    assert left_of(array, ...) == [0]
    with pytest.raises(oz.ChunkError):
        array[...]


# Shards


@pytest.mark.parametrize(
    "entry",
    [
        (2**64 - 1, 10),
        (10, 2**64 - 1),
        (2**63, 10),
        (0, 2**63),
        (2**63 - 1, 2**63 - 1),
        (0, 10**9),
        (2**64 - 8, 16),
    ],
)
def test_an_index_that_points_outside_its_shard_is_not_read(
    entry: tuple[int, int], tmp_path: Path
) -> None:
    codecs = [sharding(10, index_codecs=[raw()])]
    array = oz.create_array(tmp_path, shape=40, chunks=40, dtype="u1", codecs=codecs)
    array[...] = np.arange(1, 41)
    path = tmp_path / "c" / "0"
    data = bytearray(path.read_bytes())
    struct.pack_into("<QQ", data, len(data) - 64 + 16, *entry)
    path.write_bytes(data)
    assert left_of(array, slice(10, 20)) == [0]
    assert left_of(array, slice(20, 40)) == []
    with pytest.raises(oz.ChunkError):
        array[...]


def test_a_shard_on_another_disk_is_changed_in_part(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system here")
    data = np.random.default_rng(1).integers(0, 256, 2**22, "u1")  # several pieces to be copied
    array = oz.create_array(tmp_path, shape=2**22, chunks=2**18, shards=2**22, dtype="u1")
    array[...] = data
    shard = tmp_path / "c" / "0"
    with tempfile.TemporaryDirectory(dir=memory) as there:
        moved = shutil.move(shard, there)
        shard.symlink_to(moved)
        array[2**20 + 5 : 2**20 + 9] = data[2**20 + 5 : 2**20 + 9] = 7
        assert not shard.is_symlink()
    assert np.array_equal(array[...], data)


# Files


@pytest.mark.parametrize("kind", ["directory", "link to a directory"])
def test_a_key_without_a_file_is_a_missing_chunk(kind: str, tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=4, chunks=4, dtype="u1", fill_value=7)
    (tmp_path / "c").mkdir()
    path = tmp_path / "c" / "0"
    if kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path)
    assert left_of(array, ...) == []
    assert array[...].tolist() == by_reference(array).tolist() == [7] * 4


def test_a_file_that_shrinks_and_grows_is_never_read_wrong(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=4096, chunks=4096, dtype="u1")
    array[...] = data = np.arange(4096) % 7
    path = tmp_path / "c" / "0"
    good = path.read_bytes()

    def disturb() -> None:
        with open(path, "r+b", buffering=0) as file:
            file.truncate(len(good) // 2)
            file.seek(len(good) // 2)
            file.write(good[len(good) // 2 :] + b"more")
            file.truncate(len(good))

    with repeating(disturb):
        for _ in range(300):
            found = np.empty(4096, "u1")
            if left_of(array, ..., found) == []:
                assert np.array_equal(found, data)


def test_a_shard_that_is_replaced_is_read_old_or_new(tmp_path: Path) -> None:
    shape = {"shape": 2**18, "chunks": 2**12, "shards": 2**18, "dtype": "u1"}
    array = oz.create_array(tmp_path, **shape)
    values = itertools.cycle((1, 2, 0))  # every third time it is erased
    with repeating(lambda: array.__setitem__(..., next(values))), oz.configure(threads=8):
        for _ in range(200):
            found = np.full(2**18, 9, "u1")
            if left_of(array, ..., found) == []:
                assert len(np.unique(found)) == 1


def test_a_path_of_any_length_can_be_read(tmp_path: Path) -> None:
    path = "/".join(["x" * 200] * 18)
    array = oz.create_array(tmp_path, path=path, shape=4, chunks=4, dtype="u1")
    array[...] = 3
    assert array[...].tolist() == [3] * 4


def test_the_current_directory_can_be_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    array = oz.create_array("", shape=40, chunks=2, dtype="u1")
    array[...] = np.arange(40)
    assert left_of(array, slice(3, 5)) == left_of(array, ...) == []
    assert array[3:5].tolist() == [3, 4]


def test_an_array_whose_directory_was_removed_is_not_read_as_empty(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "gone", shape=40, chunks=2, dtype="u1", fill_value=7)
    (tmp_path / "gone" / "zarr.json").unlink()
    (tmp_path / "gone").rmdir()
    for some in (slice(3), slice(None)):  # a few chunks by their paths, more in the directory
        for read in (array.__getitem__, lambda some: by_reference(array, some)):
            with pytest.raises(oz.NodeChanged, match="deleted or moved"):
                read(some)


# Calls


def test_an_array_that_is_read_only_is_not_written_to(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=4, chunks=4, dtype="u1", fill_value=7)
    out = np.zeros(4, "u1")
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        left_of(array, ..., out)
    assert not out.any()


def test_a_result_that_is_too_small_is_refused(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=8, chunks=4, dtype="u1")
    with pytest.raises(ValueError, match="out of the array"):
        left_of(array, ..., np.zeros(7, "u1"))
    with pytest.raises(ValueError, match="does not fit"):
        left_of(array, ..., np.zeros(8, "u2"))
    with pytest.raises(ValueError, match="does not fit"):
        left_of(array, ..., np.zeros((8, 1), "u1"))


def test_a_signal_stops_a_long_read(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=(3000, 3000), chunks=(1, 1), dtype="u1")
    # A job in the background ignores the signal, and so do the tests it runs.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            array[...]
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begin < 60


def test_points_are_read_even_if_a_chunk_between_them_is_damaged(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, data=np.arange(30), chunks=10)
    (tmp_path / "c" / "1").write_bytes(b"damaged")
    assert array.vindex[[0, 25]].tolist() == [0, 25]
    with pytest.raises(oz.ChunkError, match=r"chunk \(1,\)"):
        array.vindex[[0, 15, 25]]


# Parts of chunks


@given(
    st.sampled_from(["lz4", "lz4hc", "zstd", "zlib", "blosclz"]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([1, 2, 3, 4, 8, 12, 16, 17]),
    st.sampled_from([0, 600, 4000]),
    st.integers(0, 2**32),
)
def test_any_bytes_of_a_blosc_chunk_are_read(
    cname: str, shuffle: int, typesize: int, blocksize: int, seed: int
) -> None:
    size, r = 9_000, random.Random(seed)
    noise = np.frombuffer(r.randbytes(size), "u1")
    data = (np.arange(size) // 7 % 23).astype("u1") | (noise & (255 if r.random() < 0.3 else 1))
    with tempfile.TemporaryDirectory() as folder:
        array = blosc_array(Path(folder), size)
        packed = blosc.compress(data, cname.encode(), 5, shuffle, blocksize, typesize=typesize)
        (Path(folder) / "c").mkdir()
        (Path(folder) / "c" / "0").write_bytes(packed)
        for _ in range(5):
            first = r.randrange(size)
            chosen = slice(first, r.randint(first + 1, size), r.choice((1, 1, 3)))
            found = np.empty(len(range(*chosen.indices(size))), "u1")
            assert left_of(array, chosen, found) == []
            assert np.array_equal(found, data[chosen])


def test_of_lz4_no_more_is_decoded_than_is_selected(tmp_path: Path) -> None:
    """Two streams of one block, one for each byte of an item; the ends of both are damaged."""
    array = blosc_array(tmp_path, 4096, "u2", shuffle="shuffle")
    data = np.random.default_rng(1).integers(0, 2**16, 256).astype("u2").repeat(16)
    stored = bytearray(blosc.compress(data, b"lz4", 5, 1, 8192, typesize=2))
    assert not stored[2] & 0x10  # split into streams
    (start,) = struct.unpack_from("<I", stored, 16)
    for _ in range(2):
        (packed,) = struct.unpack_from("<I", stored, start)
        end = start + 4 + packed
        stored[end - packed // 4 : end] = b"\xff" * (packed // 4)
        start = end
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "0").write_bytes(stored)
    assert left_of(array, slice(100, 1000)) == []
    assert np.array_equal(array[100:1000], data[100:1000])
    assert left_of(array, slice(3000, 4096)) == [0]
    assert left_of(array, ...) == [0]


@pytest.mark.parametrize("checksum", [False, True])
def test_blocks_of_zstd_after_the_selected_ones_are_not_decoded(
    checksum: bool, tmp_path: Path
) -> None:
    codec = {"name": "zstd", "configuration": {"level": 1, "checksum": checksum}}
    data = np.random.default_rng(1).integers(0, 9, (8, 2**17)).astype("u1")
    array = oz.create_array(
        tmp_path, shape=data.shape, chunks=data.shape, dtype="u1", compressors=[codec]
    )
    array[...] = data
    path = tmp_path / "c" / "0" / "0"
    for chosen in (0, slice(2, 4), slice(5, 0, -2), slice(None), [1, 3], ([4, 2], [9, 2**16])):
        assert left_of(array, chosen) == []
        assert np.array_equal(array[chosen], data[chosen])
    stored = bytearray(path.read_bytes())
    stored[-5000:] = bytes(5000)
    path.write_bytes(stored)
    expected = [0] if checksum else []
    assert left_of(array, slice(2, 4)) == expected
    assert left_of(array, [1, 3]) == expected
    assert left_of(array, 7) == [0]
    assert left_of(array, ...) == [0]
    with pytest.raises(oz.ChunkError):
        array[...]
    if not checksum:
        assert np.array_equal(array[2:4], data[2:4])
        path.write_bytes(stored[: len(stored) // 16])
        assert left_of(array, 0) == [0]
