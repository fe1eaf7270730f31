"""Lost answers: a part of the cases of `lost_answers`, all of which `make soak` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import lost_answers
from tests.crash.lost_answers import OPERATIONS

pytestmark = pytest.mark.filterwarnings("ignore:.*other writers wait")
QUICK = ("attribute", "counter", "append", "resize", "element", "create")
# Of each kind of store: the ways, how often, and what another writer does meanwhile.
PARTS = {
    "memory": (("closed",), (1,), ("", "attribute")),
    "S3": (("closed",), (1,), ("", "attribute")),
    "Redis": (("closed",), (1,), ("",)),
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_change_whose_answer_is_lost_is_made_once_or_said_to_be_uncertain(
    kind: str, tmp_path: Path
) -> None:
    with lost_answers.short_leases(), lost_answers.places(tmp_path, kind) as [place]:
        for operation in OPERATIONS:
            if operation.name in QUICK:
                found = lost_answers.run(place, operation, *PARTS[kind])
                assert found.wrong == []
                assert found.cases
