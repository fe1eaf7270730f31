"""A failing store or a flipped bit never gives a wrong value; the long run is `make soak`."""

from __future__ import annotations

import pytest

from tests.soak import faults


@pytest.mark.parametrize("seed", range(4))
def test_a_read_through_a_failing_store_is_right_or_an_error(seed: int) -> None:
    tally = faults.faulted_reads(seed, 200)
    assert tally["error"] > 20
    assert tally["right values"] > 20
    assert (
        tally["error"] + tally["right values"] + tally["missing chunk reported"] == tally["reads"]
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_flipped_bit_of_a_default_array_is_noticed(seed: int) -> None:
    tally = faults.flipped_bits(seed, 200)
    assert tally["noticed"] == tally["flips"] == 200
