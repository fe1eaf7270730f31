"""Compressors and checksums, their limits, and the memory that they work in."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest

from omnizarr.codecs import compressors
from omnizarr.codecs.blosc import Blosc
from omnizarr.codecs.compressors import Bz2, Crc32c, Gzip, Lzma, Zlib, Zstd


def test_checksums_agree_with_the_rfc() -> None:
    # RFC 3720, B.4.
    known = {
        bytes(32): 0x8A9136AA,
        b"\xff" * 32: 0x62A8AB43,
        bytes(range(32)): 0x46DD794E,
        bytes(reversed(range(32))): 0x113FDB5C,
    }
    for data, value in known.items():
        stored = bytes(Crc32c().encode(data))
        assert stored == data + value.to_bytes(4, "little")
        assert bytes(Crc32c().decode(stored, 32)) == data
        with pytest.raises(ValueError, match="checksum mismatch"):
            Crc32c().decode(stored[:-1] + b"\0", 32)


def test_an_empty_zstd_frame_is_not_all_that_is_read() -> None:
    empty, more = Zstd().encode(b""), Zstd().encode(b"more")
    assert bytes(Zstd().decode(bytes(empty) + bytes(more), None)) == b"more"
    with pytest.raises(RuntimeError, match="invalid input data"):
        Zstd().decode(bytes(empty) + b"junk", 0)


def test_a_thread_keeps_no_memory_for_the_compression_of_large_chunks() -> None:
    Zstd(1).encode(bytes(100))
    before = compressors._contexts.compressor
    Zstd(22).encode(bytes(compressors.SMALL + 1))
    assert compressors._contexts.compressor is before


SAMPLES = [b"", b"a", bytes(1000), np.random.default_rng(0).bytes(5000), b"ab" * 40000]


@pytest.mark.parametrize("data", SAMPLES, ids=len)
@pytest.mark.parametrize("level", [0, 1, 5, 9])
def test_deflate_is_read_by_zlib_and_read_from_it(level: int, data: bytes) -> None:
    for codec, library in ((Gzip(level), gzip), (Zlib(level), zlib)):
        assert library.decompress(bytes(codec.encode(data))) == data  # type: ignore[attr-defined]
        for value in (codec.encode(data), library.compress(data, level)):  # type: ignore[attr-defined]
            assert bytes(codec.decode(value, len(data))) == data
            assert bytes(codec.decode(value, None)) == data


def test_damaged_and_oversized_deflate_is_an_error() -> None:
    for codec in (Gzip(5), Zlib(5)):
        good = bytes(codec.encode(b"ab" * 5000))
        for bad in (good[:-3], good[:-1] + bytes([good[-1] ^ 1]), good + b"xyz", b"", b"nonsense"):
            with pytest.raises((ValueError, zlib.error)):
                codec.decode(bad, 10000)
        with pytest.raises(ValueError, match="more than the 9999"):
            codec.decode(good, 9999)


@pytest.mark.parametrize("data", SAMPLES[1:], ids=len)
@pytest.mark.parametrize("level", [-7, 0, 3, 19])
@pytest.mark.parametrize("checksum", [False, True])
def test_zstd_has_the_same_values_and_states_its_size(
    level: int, checksum: bool, data: bytes
) -> None:
    codec = Zstd(level, checksum)
    stored = bytes(codec.encode(data))
    assert stored[4] >> 2 & 1 == checksum
    assert compressors.content_size(stored) == len(data)
    assert bytes(codec.decode(stored, len(data))) == data
    half = bytes(codec.encode(data[: len(data) // 2])) + bytes(codec.encode(data[len(data) // 2 :]))
    assert bytes(compressors.zstd.decompress(half)) == data  # two frames, which numcodecs joins
    for bad in (stored[:-1], stored[: len(stored) // 2], stored + b"x"):
        with pytest.raises((ValueError, RuntimeError)):
            codec.decode(bad, len(data))


@pytest.mark.parametrize("codec", [Zstd(3), Blosc("lz4", 5, "shuffle", typesize=2)])
def test_a_wrong_size_is_refused_before_anything_is_decompressed(codec: Any) -> None:
    stored = codec.encode(bytes(range(200)))
    for size in (199, 201):
        with pytest.raises(ValueError, match="says 200 bytes"):
            codec.decode(stored, size)


def test_blosc_works_without_functions_that_numcodecs_dropped() -> None:
    code = (
        "from numcodecs import blosc\n"
        "vars(blosc).pop('get_mutex', None)\n"  # not in 0.17
        "import omnizarr.codecs.blosc\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("codec", [Bz2(), Lzma()])
def test_bytes_after_a_stream_are_ignored_where_writers_pad_it(codec: Any) -> None:
    encoded = bytes(codec.encode(b"q" * 100))
    assert bytes(codec.decode(encoded + bytes(4), 100)) == b"q" * 100
