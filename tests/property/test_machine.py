"""Any sequence of operations agrees with NumPy; `make soak` runs it for an hour."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from tests.property.machine import Machine
from tests.soak import sequences


# A finaliser reports a ZIP file that was replaced while a store had unwritten changes for it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_any_sequence_of_operations_agrees_with_numpy() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_failure_is_reported_with_the_way_to_reproduce_it() -> None:
    class Wrong(Machine):
        @invariant()
        def fail(self) -> None:
            assert self.turn < 3

    report = sequences.once(1, examples=5, steps=5, machine=Wrong)
    assert report is not None
    assert "@reproduce_failure" in report
    assert sequences.cause(report).endswith(" fail")
