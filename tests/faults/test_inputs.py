"""Documents, chunks, shards and archives changed at random; the long run is `make soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import inputs


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_read_gives_values_or_an_error_of_this_library(
    seed: int, tmp_path: Path
) -> None:
    tally = inputs.run(seed, 60, str(tmp_path / "x.zip"))
    assert tally["inputs"] == 60 * 13
    for kind in inputs.KINDS:
        assert tally[f"{kind} refused"] > 20
    assert tally["documents read"]
    assert tally["chunks read"]
