"""Too little memory is an error, not a crash or a hang; old values stay, and all goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.skipped import COMPILER
from tests.soak import memory

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
    """The library that makes allocations fail."""
    made = memory.build(tmp_path_factory.mktemp("library"))
    if made is None:
        pytest.skip(COMPILER)
    return made


@pytest.mark.parametrize(("operation", "engine", "codec", "step"), TRIES)
def test_memory_that_runs_out_at_any_moment_is_an_error_and_nothing_is_torn(
    operation: str, engine: str, codec: str, step: int, library: Path, tmp_path: Path
) -> None:
    found = memory.run(library, tmp_path, operation, engine, codec, step)
    assert found["tried"] > 2
    assert found["errors"] <= found["failed"] <= found["tried"]
