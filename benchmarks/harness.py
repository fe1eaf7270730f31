"""Measure one case with every library, interleaved, and compare the results.

A case makes a `Trial` for each library: what to prepare (not timed), what to run (timed) and how to
check the result (not timed, after every run). A library that cannot do it gets an empty `Cell` with
the reason.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

OURS = ("omnizarr", "omnizarr reference")


class Cannot(Exception):
    """A library does not support what a case measures."""


class WrongResult(Exception):
    """The values read differ from those written."""


class Library(Protocol):
    """The part of a library that the harness uses."""

    name: str

    def active(self) -> AbstractContextManager[Any]: ...


@dataclass(frozen=True)
class Measured:
    """A result of `Trial.run` that was measured elsewhere, such as in a child process."""

    value: float


@dataclass(frozen=True)
class Trial:
    """One library's implementation of a case."""

    run: Callable[[Any], Any]  # given what `prepare` returned
    check: Callable[[Any], bool]  # given what `run` returned
    prepare: Callable[[], Any] = lambda: None
    per: int = 1  # operations in one run; the reported time is that of one operation


@dataclass(frozen=True)
class Target:
    """The goal for omnizarr: a minimum ratio, or a limit in the unit of the row."""

    ratio: float | None = None
    against: tuple[str, ...] = ()  # compare with these peers; empty: with all
    limit: float | None = None
    who: str = OURS[0]

    def __str__(self) -> str:
        if self.limit is not None:
            return f"at most {self.limit:g}"
        against = f" of {' and '.join(self.against)}" if self.against else ""
        return f"{self.ratio:g}{against}"


@dataclass(frozen=True)
class Case:
    """A benchmark: what to measure, its table and label, and its targets."""

    topic: str
    label: str
    trial: Callable[[Any], Trial]
    targets: tuple[Target, ...] = ()
    unit: str = "s"
    main: bool = False  # shown in the figure


@dataclass(frozen=True)
class Cell:
    """The best value of one library, or the reason why there is none."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """The results of one case."""

    topic: str
    label: str
    cells: Mapping[str, Cell]
    targets: tuple[Target, ...] = ()
    unit: str = "s"
    main: bool = False

    def value(self, name: str) -> float | None:
        cell = self.cells.get(name)
        return None if cell is None else cell.value

    def fastest_peer(self, among: Sequence[str] = ()) -> str | None:
        """Return the name of the fastest other library, or None if no other has a value."""
        values = {
            name: cell.value
            for name, cell in self.cells.items()
            if name not in OURS and cell.value is not None and (not among or name in among)
        }
        return min(values, key=values.__getitem__) if values else None

    def ratio(self, name: str, among: Sequence[str] = ()) -> float | None:
        """Return how many times as fast as the fastest peer, or None if either is missing."""
        own, fastest = self.value(name), self.fastest_peer(among)
        best = None if fastest is None else self.value(fastest)
        if own is None or best is None or own <= 0:
            return None
        return best / own

    def verdict(self, target: Target) -> str:
        """Return "met" or "missed", or "no peer" if there is nothing to compare with."""
        own = self.value(target.who)
        if own is None:
            return "missed"
        if target.limit is not None:
            return "met" if own <= target.limit else "missed"
        ratio = self.ratio(target.who, target.against)
        if ratio is None or target.ratio is None:
            return "no peer"
        return "met" if ratio >= target.ratio else "missed"


@dataclass
class Effort:
    """Limits for each library: up to `repeats` runs, within `seconds` after the first."""

    repeats: int
    seconds: float
    spent: dict[str, float] = field(default_factory=dict)

    def allows(self, name: str, round_: int) -> bool:
        return round_ == 0 or self.spent.get(name, 0.0) < self.seconds


def measure(case: Case, libraries: Iterable[Library], repeats: int, seconds: float) -> Row:
    """Return the row of one case. Each round runs all libraries, starting with another one."""
    everyone = list(libraries)
    trials: dict[str, Trial] = {}
    cells: dict[str, Cell] = {}
    for library in everyone:
        try:
            trials[library.name] = case.trial(library)
        except Exception as e:
            cells[library.name] = Cell(None, describe(e))
    effort = Effort(repeats, seconds)
    for round_ in range(repeats):
        first = round_ % len(everyone)
        for library in everyone[first:] + everyone[:first]:
            name = library.name
            if name not in trials or not effort.allows(name, round_):
                continue
            started = time.perf_counter()
            try:
                value = once(library, trials[name])
            except Exception as e:
                cells[name] = Cell(None, describe(e))
                del trials[name]
                continue
            effort.spent[name] = effort.spent.get(name, 0.0) + time.perf_counter() - started
            before = cells[name].value if name in cells else None
            cells[name] = Cell(value if before is None else min(value, before))
    ordered = {library.name: cells[library.name] for library in everyone}
    return Row(case.topic, case.label, ordered, case.targets, case.unit, case.main)


def once(library: Library, trial: Trial) -> float:
    """Prepare, run and check once; return the time per operation, or the value measured."""
    with library.active():
        state = trial.prepare()
        gc.collect()
        started = time.perf_counter()
        result = trial.run(state)
        seconds = time.perf_counter() - started
    if not trial.check(result):
        raise WrongResult("the values read are not those written")
    return result.value if isinstance(result, Measured) else seconds / trial.per


def describe(error: BaseException) -> str:
    """Return an error as the reason of an empty cell: one short line without folder names."""
    text = " ".join(str(error).split())
    if not isinstance(error, Cannot):
        text = f"{type(error).__name__}: {text}"
    words = ["…" if "/" in w and len(w) > 20 else w for w in text.split(" ")]
    text = " ".join(words)
    return text if len(text) <= 160 else text[:159] + "…"
