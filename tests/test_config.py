"""Settings: scoped, frozen, checked."""

from __future__ import annotations

from pathlib import Path

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


def test_unknown_settings_and_values_are_refused_by_name() -> None:
    with (
        pytest.raises(oz.InvalidMetadata, match=r"'thread'; known: .*threads"),
        oz.configure(thread=1),
    ):
        pass
    with (
        pytest.raises(oz.InvalidMetadata, match="fallback must be one of"),
        oz.configure(fallback="x"),
    ):
        pass


@pytest.mark.parametrize(
    ("limit", "most"),
    [("200000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", 16), ("", 16)],
)
def test_a_cgroup_limit_bounds_the_threads(limit: str, most: int, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    found = config.processors(str(tmp_path / "cpu.max"))
    assert 1 <= found <= most
    assert config.processors(str(tmp_path / "nothing")) >= found
