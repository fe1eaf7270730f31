"""Lost answers: a part of the cases of `lost_answers`, all of which `make soak` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnizarr.stores import leases
from tests.crash import lost_answers
from tests.sampling import ALL, sample

pytestmark = pytest.mark.filterwarnings("ignore:.*other writers wait")


@pytest.mark.parametrize("kind", ["memory", "S3", "Redis"])
def test_a_change_whose_answer_is_lost_is_made_once_or_said_to_be_uncertain(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 1.0)  # locks that were left behind run out soon
    with lost_answers.places(tmp_path, kind) as [place]:
        if ALL:
            parts = [place.ways]
        else:
            parts = [("closed",), (1,), ("",) if kind == "Redis" else ("", "attribute")]
        for operation in sample(lost_answers.OPERATIONS, 3):
            assert lost_answers.run(place, operation, *parts) == []
