"""The fuzz driver for a few seconds, always with the same seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine import fuzz
from tests.engine.test_reference import needs_kernel


@needs_kernel
@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_agrees_with_the_reference_engine_on_random_arrays(
    seed: int, tmp_path: Path
) -> None:
    tally = fuzz.run(seed, 8, tmp_path)
    assert tally["rounds"] == 8
    assert tally["sound: done"] == 32  # of what is not damaged nothing is left
    assert tally["listed: done"]
    assert not tally["listed: left"]
    assert tally["listed: written"]
    assert tally["damaged: left"]
    assert tally["damaged, listed: left"]
    assert tally["run done"]
    assert tally["run refused"]
    assert tally["rows done"]
    assert tally["rows refused"]
