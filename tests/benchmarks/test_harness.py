from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.cases import calls
from benchmarks.cases.full import read_targets, write_targets
from benchmarks.cases.shards import cost
from benchmarks.harness import (
    OURS,
    Cannot,
    Case,
    Cell,
    Measured,
    Row,
    Target,
    Trial,
    describe,
    measure,
)
from benchmarks.layouts import Layout, Workspace
from benchmarks.report import Run, count, document, empty, show, show_ratio, verdicts

from benchmarks import peers, report

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


def test_a_library_beyond_its_time_limit_is_not_run_again() -> None:
    calls: list[float] = []
    answers({"a": lambda: counting([3.0, 1.0, 2.0], calls)}, seconds=0)
    assert calls == [3.0]


def test_libraries_alternate_and_each_round_starts_with_a_different_one() -> None:
    order: list[str] = []

    def trial(name: str) -> Callable[[], Trial]:
        return lambda: Trial(run=lambda _: order.append(name), check=lambda _: True)

    answers({name: trial(name) for name in "abc"})
    assert "".join(order) == "abcbcacab"


def test_an_unsupported_operation_is_an_empty_cell_with_the_reason() -> None:
    def cannot() -> Trial:
        raise Cannot("has no groups")

    def fails(_: Any) -> None:
        raise ValueError("no such\n codec")

    cells = answers({"a": cannot, "b": lambda: Trial(run=fails, check=lambda _: True)}, repeats=2)
    assert cells == {
        "a": Cell(None, "has no groups"),
        "b": Cell(None, "ValueError: no such codec"),
    }


def test_a_wrong_result_gives_no_time_even_if_another_run_was_correct() -> None:
    right = iter([True, False])
    cells = answers({"a": lambda: Trial(run=lambda _: 1, check=lambda _: next(right))}, repeats=2)
    assert cells["a"].value is None
    assert "not those written" in cells["a"].reason


def test_the_time_of_many_operations_is_reported_per_operation() -> None:
    prepared: list[int] = []
    trial = Trial(
        prepare=lambda: prepared.append(1),
        run=lambda _: None,
        check=lambda _: True,
        per=10**9,
    )
    value = answers({"a": lambda: trial})["a"].value
    assert value is not None
    assert value < 1e-6
    assert len(prepared) == 3


def test_the_ratio_is_to_the_fastest_peer() -> None:
    answer = row(kernel=2.0, reference=1.0, zarrista=8.0, tensorstore=3.0)
    assert answer.fastest_peer() == "tensorstore"
    assert answer.ratio(KERNEL) == 1.5
    assert answer.ratio(REFERENCE) == 3.0
    assert answer.ratio(KERNEL, among=("zarrista",)) == 4.0


@pytest.mark.parametrize(
    "answer", [row(kernel=None, zarrista=1.0), row(kernel=1.0), row(kernel=1.0, zarrista=None)]
)
def test_there_is_no_ratio_if_a_time_is_missing(answer: Row) -> None:
    assert answer.ratio(KERNEL) is None
    assert show_ratio(answer, KERNEL) == "–"


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


def test_a_target_without_a_measured_value_is_missed() -> None:
    assert row(kernel=None, zarrista=1.0).verdict(Target(1.0)) == "missed"


def test_targets_depend_on_codec_and_chunk_size() -> None:
    def targets(codec: str, edge: int, dtype: str = "uint16") -> list[str]:
        layout = Layout((256,) * 3, dtype, (edge,) * 3, codec)
        return [
            f"{target.who} {target.ratio}"
            for target in read_targets(layout) + write_targets(layout)
        ]

    assert targets("raw", 128)[0] == "omnizarr 1.2"
    assert targets("raw", 16) == ["omnizarr 1.5", "omnizarr 1.2"]
    assert targets("blosc zstd", 64)[:2] == ["omnizarr 1.5", "omnizarr reference 1.0"]
    assert targets("zstd", 16) == ["omnizarr 1.05", "omnizarr 1.1"]
    assert targets("gzip", 128, "float32") == ["omnizarr 1.0", "omnizarr reference 1.0"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "–"),
        (12.34, "s", "12.3 s"),
        (0.01234, "s", "12.3 ms"),
        (0.0000123, "s", "12.3 µs"),
        (64e6, "B", "64 MB"),
        (1.234, "×", "1.23 ×"),
        (8.0, "calls", "8"),
    ],
)
def test_values_are_shown_with_three_digits_and_a_unit(
    value: float | None, unit: str, text: str
) -> None:
    assert show(value, unit) == text


def test_an_error_is_shown_as_one_short_line_without_folders() -> None:
    text = describe(OSError("cannot open /some/where/deep/inside/of/it/zarr.json\n" + "x" * 500))
    assert text.startswith("OSError: cannot open … x")
    assert len(text) == 160


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


def test_a_run_can_be_written_out_again() -> None:
    rows = [row(targets=(Target(1.5, against=("zarrista",)),), kernel=0.002, zarrista=None)]
    run = Run("2000-01-01", "machine", "3.13", {"zarr": "3"}, "make bench", 1.0, "sizes", "load")
    assert report.load(report.dump(rows, run)) == (rows, run)


def test_a_reason_shared_by_a_topic_is_shown_once() -> None:
    rows = [row(kernel=1.0, zarrista=None), row(kernel=2.0, zarrista=None)]
    assert empty(rows) == [("zarrista", "cannot", "topic")]


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
