"""Blocks that match neither chunks nor shards, written at the same time, are all there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import blocks


@pytest.mark.parametrize(("kind", "repeats"), [("threads", 10), ("processes", 4)])
def test_blocks_across_chunks_are_all_there(tmp_path: Path, kind: str, repeats: int) -> None:
    assert blocks.run(tmp_path, kind, repeats) == {"arrays": repeats, "wrong": 0}
