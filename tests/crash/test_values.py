"""Values that fit a data type are stored and read back; others are refused on every way in."""

from __future__ import annotations

from tests.crash import values


def test_every_way_in_stores_what_fits_and_refuses_the_rest() -> None:
    """A part of all combinations; ``make soak`` tries the others."""
    tried, wrong = values.run(every=307)
    assert wrong == []
    assert tried > 500
