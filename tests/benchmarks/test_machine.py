from __future__ import annotations

import pytest
from benchmarks.machine import Watch

from benchmarks import machine


@pytest.mark.parametrize(
    ("ours", "share", "warned"),
    [(10.0, 0.0, False), (8.0, 0.1, False), (4.0, 0.3, True), (11.0, 0.0, False)],
)
def test_the_load_of_other_processes_is_computed(
    monkeypatch: pytest.MonkeyPatch, ours: float, share: float, warned: bool
) -> None:
    watch = Watch(ours=5.0, all=(100.0, 1000.0))
    monkeypatch.setattr(machine, "used_by_all", lambda: (110.0, 1020.0))
    monkeypatch.setattr(machine, "used_by_us", lambda: 5.0 + ours)
    assert watch.others() == pytest.approx(share)
    assert f"{share:.0%}" in watch.text()
    assert ("vary" in watch.text()) is warned


def test_an_unknown_load_is_not_guessed() -> None:
    assert Watch(ours=0.0, all=None).others() is None
    assert "not known" in Watch(ours=0.0, all=None).text()
