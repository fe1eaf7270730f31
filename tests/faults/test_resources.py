"""A disk that is full, too few open files, little memory: clear errors, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz

DATA = np.arange(256 * 256, dtype="i4").reshape(256, 256)
ENGINES = ["auto", "reference"]


def limited(code: str, place: Path, engine: str) -> str:
    """What a process prints that has one of its limits lowered by the code."""
    start = """
        import resource, signal, sys
        import numpy as np
        import omnizarr as oz
        place, engine = sys.argv[1:]
        oz.config.set(engine=engine)
        def limit(what, most):
            resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
    """
    program = textwrap.dedent(start) + textwrap.dedent(code)
    command = [sys.executable, "-c", program, str(place), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shards", [None, (256, 256)])
def test_a_disk_that_takes_no_more_is_an_error_and_old_values_stay(
    shards: tuple[int, int] | None, engine: str, tmp_path: Path
) -> None:
    options = {"chunks": (64, 64), "shards": shards, "compressors": None}
    oz.create_array(tmp_path / "x", data=DATA, **options)  # type: ignore[arg-type]  # options
    told = limited(
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        array = oz.open_array(place, "r+")
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
    assert told.splitlines() == ["ChunkError True"] * 2
    assert np.array_equal(oz.open_array(tmp_path / "x")[...], DATA)
    report = oz.verify(tmp_path / "x")
    assert report.ok
    assert not report.findings


@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_open_files_are_enough(engine: str, tmp_path: Path) -> None:
    told = limited(
        """
        limit(resource.RLIMIT_NOFILE, 64)
        data = np.arange(10_000, dtype="i4").reshape(100, 100)
        group = oz.create_group(place)
        for n in range(100):
            group.create_array(f"a{n}", data=data, chunks=(10, 10) if n < 3 else (50, 50))
        arrays = [array for _, array in group.arrays()]
        assert len(arrays) == 100
        assert all(np.array_equal(array[...], data) for array in arrays)
        assert oz.verify(place).ok
        print("all read")
        """,
        tmp_path / "x",
        engine,
    )
    assert told == "all read\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_too_little_memory_is_an_error_that_names_what_was_asked_for(
    engine: str, tmp_path: Path
) -> None:
    oz.create_array(tmp_path / "x", shape=(2**16, 2**16), chunks=(256, 256), dtype="f8")[0, 0] = 5
    told = limited(
        """
        array = oz.open_array(place)
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
    assert f"{2**35} bytes" in told
    assert told.splitlines()[-1] == "5.0"
