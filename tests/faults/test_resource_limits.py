"""Limits on file size, open files and memory: clear errors, and no stored value is lost."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.sampling import sample
from tests.servers.skipped import COMPILER
from tests.soak import memory

DATA = np.arange(256 * 256, dtype="i4").reshape(256, 256)
ENGINES = sample(["auto", "reference"], 1)


def run_limited(code: str, location: Path, engine: str) -> str:
    """Run a program that lowers one of its own limits, and return its output."""
    start = """
        import resource, signal, sys
        import numpy as np
        import omnizarr as oz
        location, engine = sys.argv[1:]
        oz.config.set(engine=engine)
        def limit(what, most):
            resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
    """
    program = textwrap.dedent(start) + textwrap.dedent(code)
    command = [sys.executable, "-c", program, str(location), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    assert output.splitlines() == ["ChunkError True"] * 2
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
        print("all read")
        """,
        tmp_path / "x",
        engine,
    )
    assert output == "all read\n"


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
    assert f"{2**35} bytes" in output
    assert output.splitlines()[-1] == "5.0"


# Allocations that fail one by one, and limits on the address space.
TRIES = [
    ("read", "auto", "blosc", 1),
    ("read points", "auto", "zstd", 1),
    ("change", "reference", "zstd", 12),
    ("write shards", "auto", "blosc", 1),
    ("change shards", "reference", "zstd", 12),
    ("stream shards", "auto", "blosc", 12),
    ("read much", "reference", "blosc", 16),
    ("copy much", "auto", "zstd", 16),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library that makes allocations fail."""
    made = memory.build(tmp_path_factory.mktemp("library"))
    if made is None:
        pytest.skip(COMPILER)
    return made


@pytest.mark.parametrize(("operation", "engine", "codec", "step"), sample(TRIES, 3))
def test_a_failed_allocation_is_an_error_and_tears_no_value(
    operation: str, engine: str, codec: str, step: int, library: Path, tmp_path: Path
) -> None:
    found = memory.run(library, tmp_path, operation, engine, codec, step)
    assert found["tried"] > 2
    assert found["errors"] <= found["failed"] <= found["tried"]
