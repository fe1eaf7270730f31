"""Limits on file size, open files and memory: clear errors, and no stored value is lost."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.faults.programs import run
from tests.sampling import sample, tries
from tests.servers.skipped import COMPILER
from tests.soak import memory, operations

DATA = np.arange(256 * 256, dtype="i4").reshape(256, 256)
ENGINES = sample(["auto", "reference"], 1)


def run_limited(code: str, location: Path, engine: str) -> list[str]:
    """Run a program that lowers one of its own limits, and return its output."""
    start = """
    import resource
    def limit(what, most):
        resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
    """
    return run(textwrap.dedent(start) + textwrap.dedent(code), location, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shards", [None, (256, 256)])
def test_a_write_beyond_the_file_size_limit_is_an_error_and_keeps_old_values(
    shards: tuple[int, int] | None, engine: str, tmp_path: Path
) -> None:
    options = {"chunks": (64, 64), "shards": shards, "compressors": None}
    oz.create_array(tmp_path / "x", data=DATA, **options)  # type: ignore[arg-type]  # options
    output = run_limited(
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        array = oz.open(location, "r+")
        limit(resource.RLIMIT_FSIZE, 4096)
        for part in (np.s_[:], np.s_[3:200, 5:70]):
            try:
                array[part] = 7
            except oz.OmnizarrError as e:
                print(type(e).__name__, "File too large" in str(e))
        """,
        tmp_path / "x",
        engine,
    )
    assert output == ["ChunkError True"] * 2
    assert np.array_equal(oz.open(tmp_path / "x")[...], DATA)
    report = oz.verify(tmp_path / "x")
    assert report.ok
    assert not report.findings


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_of_64_open_files_is_enough(engine: str, tmp_path: Path) -> None:
    output = run_limited(
        """
        limit(resource.RLIMIT_NOFILE, 64)
        data = np.arange(10_000, dtype="i4").reshape(100, 100)
        group = oz.create_group(location)
        for n in range(100):
            group.create_array(f"a{n}", data=data, chunks=(10, 10) if n < 3 else (50, 50))
        arrays = [array for _, array in group.arrays()]
        assert len(arrays) == 100
        assert all(np.array_equal(array[...], data) for array in arrays)
        assert oz.verify(location).ok
        """,
        tmp_path / "x",
        engine,
    )
    assert output == []


@pytest.mark.parametrize("engine", ENGINES)
def test_an_out_of_memory_error_states_the_requested_size(engine: str, tmp_path: Path) -> None:
    oz.create_array(tmp_path / "x", shape=(2**16, 2**16), chunks=(256, 256), dtype="f8")[0, 0] = 5
    output = run_limited(
        """
        array = oz.open(location)
        array[0, 0]
        limit(resource.RLIMIT_AS, 2**32)
        try:
            array[...]
        except MemoryError as e:
            print(e)
        print(array[0, 0])
        """,
        tmp_path / "x",
        engine,
    )
    assert "32.0 GiB for an array with shape (65536, 65536)" in output[0]
    assert output[-1] == "5.0"


# Allocations that fail one by one, and limits on the address space; the codecs of the reference
# engine but zstd crash if their own allocations fail, so the engine asks for memory before.
OPERATIONS = [name for name in operations.OPERATIONS if name != "write a dataset"]
TRIES = [
    *itertools.product(OPERATIONS, ["auto"], ["blosc"]),
    *itertools.product(OPERATIONS, ["reference"], ["zstd"]),
    *itertools.product(memory.LARGE, ["auto", "reference"], memory.CODECS),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library that makes allocations fail."""
    made = memory.build(tmp_path_factory.mktemp("library"))
    if made is None:
        pytest.skip(COMPILER)
    return made


@pytest.mark.parametrize(("operation", "engine", "codec"), sample(TRIES, 3))
def test_a_failed_allocation_is_an_error_and_tears_no_value(
    operation: str, engine: str, codec: str, library: Path, tmp_path: Path
) -> None:
    words = ["-m", "tests.soak.memory", str(tmp_path), operation, engine, codec, str(tries(16, 1))]
    # The C library keeps less memory that was freed.
    gives_back = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    environment = {**os.environ, "LD_PRELOAD": str(library), **gives_back}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
