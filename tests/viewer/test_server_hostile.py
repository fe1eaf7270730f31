"""A few hundred hostile requests of `tests.soak.requests`, which sends ten thousand."""

from __future__ import annotations

from pathlib import Path

from tests.soak import requests

PATIENCE = 20.0  # seconds, on a machine that does much else


def test_the_server_withstands_hostile_requests(tmp_path: Path) -> None:
    found = requests.run(tmp_path, 240)
    wrong = {
        (kind, result)
        for kind, counts in found["kinds"].items()
        for result in counts
        if result not in (requests.ANSWERED, requests.REFUSED, requests.LEFT)
    }
    assert wrong == set()
    assert found["alive"]
    assert found["small"].wrong == 0
    assert max(found["small"].seconds) < PATIENCE
    assert found["memory"] is None or found["memory"] < requests.MEMORY
