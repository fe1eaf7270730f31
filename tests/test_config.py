"""Settings: scoped, frozen, checked."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import config


def test_settings_change_inside_the_block_only() -> None:
    before = config.get()
    with oz.configure(threads=3, write_empty_chunks=True) as inside:
        assert config.get() is inside
        assert (inside.threads, inside.write_empty_chunks) == (3, True)
        with oz.configure(threads=1):
            assert config.get().threads == 1
            assert config.get().write_empty_chunks
    assert config.get() == before


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("thread", 1, "'thread'; did you mean 'threads'"),
        ("fallback", "x", "fallback must be one of"),
        ("chunk_cache", "much", "chunk_cache: 'much' is not a size"),
        *(
            ("codecs", value, "codecs must be 'fast' or 'portable' or a list")
            for value in ("quick", b"fast", {"name": "gzip"}, None, 3)
        ),
    ],
)
def test_unknown_settings_and_values_are_refused_by_name(
    name: str, value: object, message: str
) -> None:
    with pytest.raises(oz.InvalidArgument, match=message), oz.configure(**{name: value}):
        pass


def groups(where: Path, cpu: str, memory: str = "max\n") -> tuple[Path, Path]:
    """Create a version 2 cgroup tree with this process in an inner group."""
    inner = where / "cgroup" / "user" / "job"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text(cpu)
    (inner.parent / "memory.max").write_text(memory)
    (where / "membership").write_text("0::/user/job\n")
    return where / "cgroup", where / "membership"


@pytest.mark.parametrize(
    ("limit", "most"),
    [("200000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", 10**6), ("", 10**6)],
)
def test_a_cgroup_limit_bounds_the_threads(limit: str, most: int, tmp_path: Path) -> None:
    unlimited = config.processors(tmp_path / "nothing", tmp_path / "nothing")
    assert config.processors(*groups(tmp_path, limit)) == min(unlimited, most)


def test_a_cgroup_limit_bounds_the_memory(tmp_path: Path) -> None:
    unlimited = config.memory(tmp_path / "nothing", tmp_path / "nothing")
    assert config.memory(*groups(tmp_path, "", "67108864\n")) == 67108864
    assert config.memory(tmp_path, tmp_path) == unlimited


@pytest.mark.parametrize(("files", "most"), [(256, 128), (2**20, 512), (1, 1), (-1, 512)])
def test_the_limit_of_open_files_bounds_the_requests(
    files: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (files, resource.RLIM_INFINITY))
    assert config.Config().requests == most


def test_sizes_are_numbers_or_texts(tmp_path: Path) -> None:
    with oz.configure(chunk_cache="2 MiB", in_flight="3kB") as inside:
        assert inside.chunk_cache is not None
        assert (inside.chunk_cache.nbytes, inside.in_flight) == (2**21, 3000)
        with oz.configure(chunk_cache=0) as off:
            assert off.chunk_cache is None
        with oz.configure(threads=1) as same:
            assert same.chunk_cache is inside.chunk_cache


def test_permanent_settings_apply_to_every_thread_until_reset() -> None:
    before = config.get("threads")
    seen: list[int] = []
    try:
        config.set(threads=3)
        thread = threading.Thread(target=lambda: seen.append(config.get("threads")))
        thread.start()
        thread.join()
        assert seen == [3]
        with config.set(threads=2):
            assert config.get("threads") == 2
        assert config.get("threads") == 3
    finally:
        config.reset()
    assert config.get("threads") == before


def test_the_default_format_is_a_setting() -> None:
    with config.set(zarr_format=2):
        assert oz.create_array(shape=2).zarr_format == 2
    assert oz.create_array(shape=2).zarr_format == 3


def codec_names(array: oz.Array) -> list[str]:
    return [codec.name for codec in array.metadata.codecs]


def test_new_arrays_have_the_codecs_of_the_setting() -> None:
    """B5: equal options give different codecs if the setting differs."""
    for choice, names in {
        "fast": ["bytes", "blosc", "crc32c"],
        "portable": ["bytes", "zstd"],
        ("gzip", "crc32c"): ["bytes", "gzip", "crc32c"],
        (): ["bytes"],
    }.items():
        with oz.configure(codecs=choice):
            assert codec_names(oz.create_array({}, data=[1, 2])) == names
    assert codec_names(oz.create_array({}, data=[1, 2])) == ["bytes", "blosc", "crc32c"]
    with oz.config.set(codecs=[]):
        assert codec_names(oz.create_array({}, data=[1, 2])) == ["bytes"]


def test_a_list_of_codecs_is_a_default_for_all_types_and_formats() -> None:
    """B5: the array-to-bytes codec is only for types of fixed size."""
    delta = {"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}
    big = {"name": "bytes", "configuration": {"endian": "big"}}
    numbers = np.arange(9, dtype="i4")
    with oz.configure(codecs=[delta, big, "gzip"]):
        made = oz.create_array({}, data=numbers)
        assert codec_names(made) == ["numcodecs.delta", "bytes", "gzip"]
        assert made.metadata.codecs[1].configuration == {"endian": "big"}
        assert made[...].tolist() == numbers.tolist()
        assert codec_names(oz.create_array({}, data=numbers, filters=None)) == ["bytes", "gzip"]
        plain = oz.create_array({}, data=numbers, compressors=None, serializer="bytes")
        assert codec_names(plain) == ["bytes"]
        text = oz.create_array({}, shape=1, dtype=str)
        assert codec_names(text) == ["vlen-utf8", "gzip"]
        sharded = oz.create_array({}, data=numbers, chunks=3, shards=9)
        assert sharded[...].tolist() == numbers.tolist()
    with oz.configure(codecs=["zstd"]):
        for zarr_format in (2, 3):
            made = oz.create_array({}, data=numbers, zarr_format=zarr_format)
            assert codec_names(made)[1:] == ["zstd" if zarr_format == 3 else "numcodecs.zstd"]
            assert made[...].tolist() == numbers.tolist()
