"""Any sequence of operations agrees with NumPy; `make soak` tries many more."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import Machine


# A finaliser reports a ZIP file that was replaced while a store had unwritten changes for it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_any_sequence_of_operations_agrees_with_numpy() -> None:
    chosen = settings(
        stateful_step_count=20, print_blob=True, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Machine, settings=chosen)
