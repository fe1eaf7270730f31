from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.cases import calls
from benchmarks.cases.shards import cost
from benchmarks.harness import (
    OURS,
    Case,
    Cell,
    Measured,
    Row,
    Target,
    Trial,
    measure,
)
from benchmarks.layouts import Layout, Workspace
from benchmarks.report import Run, count, document, empty, verdicts

from benchmarks import peers

KERNEL, REFERENCE = OURS


class Library:
    def __init__(self, name: str) -> None:
        self.name = name

    def active(self) -> AbstractContextManager[None]:
        return nullcontext()


def row(unit: str = "s", targets: tuple[Target, ...] = (), **values: float | None) -> Row:
    names = {"kernel": KERNEL, "reference": REFERENCE}
    cells = {
        names.get(name, name): Cell(value, "" if value is not None else "cannot")
        for name, value in values.items()
    }
    return Row("topic", "label", cells, targets, unit)


def answers(
    script: dict[str, Callable[[], Trial]], repeats: int = 3, seconds: float = 60
) -> dict[str, Cell]:
    case = Case("topic", "label", lambda library: script[library.name]())
    return dict(measure(case, [Library(n) for n in script], repeats, seconds).cells)


def counting(values: list[float], calls: list[float]) -> Trial:
    def run(_: Any) -> Measured:
        calls.append(values[len(calls)])
        return Measured(calls[-1])

    return Trial(run=run, check=lambda _: True)


def test_the_best_of_several_values_is_reported() -> None:
    calls: list[float] = []
    cells = answers({"a": lambda: counting([3.0, 1.0, 2.0], calls)})
    assert cells["a"] == Cell(1.0)
    assert calls == [3.0, 1.0, 2.0]


def test_libraries_alternate_and_each_round_starts_with_a_different_one() -> None:
    order: list[str] = []

    def trial(name: str) -> Callable[[], Trial]:
        return lambda: Trial(run=lambda _: order.append(name), check=lambda _: True)

    answers({name: trial(name) for name in "abc"})
    assert "".join(order) == "abcbcacab"


def test_a_wrong_result_gives_no_time_even_if_another_run_was_correct() -> None:
    right = iter([True, False])
    cells = answers({"a": lambda: Trial(run=lambda _: 1, check=lambda _: next(right))}, repeats=2)
    assert cells["a"].value is None
    assert "not those written" in cells["a"].reason


def test_the_ratio_is_to_the_fastest_peer() -> None:
    answer = row(kernel=2.0, reference=1.0, zarrista=8.0, tensorstore=3.0)
    assert answer.fastest_peer() == "tensorstore"
    assert answer.ratio(KERNEL) == 1.5
    assert answer.ratio(REFERENCE) == 3.0
    assert answer.ratio(KERNEL, among=("zarrista",)) == 4.0


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (Target(1.5), "met"),
        (Target(1.6), "missed"),
        (Target(4.0, against=("zarrista",)), "met"),
        (Target(1.0, against=("zarr-python",)), "no peer"),
        (Target(1.0, who=REFERENCE), "missed"),
        (Target(limit=2.0), "met"),
        (Target(limit=1.9), "missed"),
    ],
)
def test_a_target_is_met_at_exactly_its_value(target: Target, verdict: str) -> None:
    answer = row(kernel=2.0, reference=4.0, zarrista=8.0, tensorstore=3.0)
    assert answer.verdict(target) == verdict


def test_the_page_has_every_cell_every_target_and_every_reason() -> None:
    rows = [
        row(
            targets=(Target(1.5), Target(1.0, who=REFERENCE)),
            kernel=0.002,
            reference=0.004,
            zarrista=0.003,
        ),
        row(targets=(Target(limit=64e6),), unit="B", kernel=1e6, zarrista=None),
    ]
    run = Run("2000-01-01", "machine", "3.13", {"zarr": "3"}, "make bench", 1.0, "sizes", "load")
    page = document(rows, run)
    assert (
        "| label | 2 ms | 4 ms | **3 ms** | 1.50 | 0.75 | 1.5: met; 1 (reference): missed |" in page
    )
    assert "2 of 3 targets were met" in page
    assert "- zarrista: cannot (topic: label)" in page
    assert "topic: label, reference (0.75, target 1)" in page
    assert verdicts(rows[1]) == "at most 64 MB: met"
    assert count(rows) == (2, 3)
    assert empty(rows) == [("zarrista", "cannot", "topic: label")]


def test_the_cost_of_shards_needs_two_correct_arrays(tmp_path: Path) -> None:
    layout = Layout((8, 8), "uint16", (2, 2), shards=(4, 4))
    data = np.arange(64, dtype="uint16").reshape(8, 8)
    trial = cost(peers.load(KERNEL), Workspace(tmp_path), layout, data)
    answer = trial.run(None)
    assert isinstance(answer, Measured)
    assert answer.value > 0
    assert trial.check(answer)
    (tmp_path / "chunks/c/0/0").write_bytes(bytes(8))
    assert not trial.check(answer)


@pytest.mark.parametrize("name", [*OURS, "tensorstore"])
def test_every_written_shard_is_counted(name: str, tmp_path: Path) -> None:
    layout = Layout((8, 8), "uint16", (2, 2), shards=(4, 4))
    data = np.arange(64, dtype="uint16").reshape(8, 8)
    trial = calls.counting(peers.load(name), Workspace(tmp_path), layout, data + np.uint16(1))
    assert trial.run(trial.prepare()) == Measured(4)
    assert trial.check(None)
