"""Settings: scoped, frozen, checked."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnizarr as oz
from omnizarr import config, limits


def test_settings_change_inside_the_block_only() -> None:
    before = config.get()
    with oz.configure(threads=3, write_empty_chunks=True) as inside:
        assert config.get() is inside
        assert (inside.threads, inside.write_empty_chunks) == (3, True)
        with oz.configure(threads=1):
            assert config.get().threads == 1
            assert config.get().write_empty_chunks
    assert config.get() == before


def test_unknown_settings_and_values_are_refused_by_name() -> None:
    with (
        pytest.raises(oz.InvalidMetadata, match="'thread'; did you mean 'threads'"),
        oz.configure(thread=1),
    ):
        pass
    with (
        pytest.raises(oz.InvalidMetadata, match="fallback must be one of"),
        oz.configure(fallback="x"),
    ):
        pass


def groups(where: Path, cpu: str, memory: str = "max\n") -> tuple[Path, Path]:
    """A tree of cgroups as version 2 has it, with this process in an inner one."""
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
    unlimited = limits.processors(tmp_path / "nothing", tmp_path / "nothing")
    assert limits.processors(*groups(tmp_path, limit)) == min(unlimited, most)


def test_cgroups_of_version_1_bound_threads_and_memory_too(tmp_path: Path) -> None:
    for controller, files in {
        "cpu": {"cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"},
        "memory": {"memory.limit_in_bytes": "123456789"},
    }.items():
        (tmp_path / controller / "job").mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / controller / "job" / name).write_text(text)
    (tmp_path / "membership").write_text("4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n")
    assert limits.processors(tmp_path, tmp_path / "membership") == 1
    assert limits.memory(tmp_path, tmp_path / "membership") == 123456789


def test_a_cgroup_limit_bounds_the_memory(tmp_path: Path) -> None:
    unlimited = limits.memory(tmp_path / "nothing", tmp_path / "nothing")
    assert limits.memory(*groups(tmp_path, "", "67108864\n")) == 67108864
    assert limits.memory(tmp_path, tmp_path) == unlimited


def test_sizes_are_numbers_or_texts(tmp_path: Path) -> None:
    with oz.configure(chunk_cache="2 MiB", in_flight="3kB") as inside:
        assert inside.chunk_cache is not None
        assert (inside.chunk_cache.nbytes, inside.in_flight) == (2**21, 3000)
        with oz.configure(chunk_cache=0) as off:
            assert off.chunk_cache is None
        with oz.configure(threads=1) as same:
            assert same.chunk_cache is inside.chunk_cache
    with (
        pytest.raises(oz.InvalidMetadata, match="chunk_cache: 'much' is not a size"),
        oz.configure(chunk_cache="much"),
    ):
        pass


def test_settings_for_good_hold_in_every_thread_until_they_are_reset() -> None:
    before = config.get("threads")
    seen: list[int] = []
    try:
        config.set({"threading.max_workers": 3})
        thread = threading.Thread(target=lambda: seen.append(config.get("threads")))
        thread.start()
        thread.join()
        assert seen == [3]
        with config.set(threads=2):
            assert config.get("threading.max_workers") == 2
        assert config.get("threads") == 3
    finally:
        config.reset()
    assert config.get("threads") == before


def test_settings_of_zarr_python_that_mean_nothing_here_are_told() -> None:
    with (
        pytest.warns(oz.OmnizarrWarning, match="codec_pipeline"),
        config.set({"codec_pipeline.path": "x"}),
    ):
        assert config.get("codec_pipeline.path", "none") == "none"
    with pytest.raises(oz.InvalidMetadata, match="'speed'"):
        config.set({"speed": 1})
    with pytest.raises(KeyError, match="speed"):
        config.get("speed")


def test_the_default_format_is_a_setting() -> None:
    with config.set({"default_zarr_format": 2}):
        assert oz.create_array(shape=2).zarr_format == 2
    assert oz.create_array(shape=2).zarr_format == 3
