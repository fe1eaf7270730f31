"""Values that fit a data type are stored and read back; others are refused on every way in."""

from __future__ import annotations

from tests.crash import values
from tests.sampling import SEED, tries


def test_every_way_in_stores_what_fits_and_refuses_the_rest() -> None:
    every = tries(401, 1)
    tried, wrong = values.run(every, SEED % every)
    assert wrong == [], f"seed {SEED}"
    assert tried > 400
