"""The programs of the migration benchmark do what they are measured for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import migrate


@pytest.mark.parametrize("name", migrate.available(peers=True))
def test_every_program_migrates_all_arrays(tmp_path: Path, name: str) -> None:
    migrate.make_source(tmp_path / "source", 3)
    _, action, result = migrate.ACTIONS[name]
    chunks = result != "documents"
    place = tmp_path / (result if chunks else "target")
    with pytest.raises(ValueError, match="0 documents, not 5"):
        migrate.check(place, 3, chunks)
    action(tmp_path / "source", tmp_path / "target")
    migrate.check(place, 3, chunks)
