"""Asks one question of every library, interleaved, and compares the answers.

A question gives each library a `Trial`: what to prepare (not timed), what to run (timed) and how
to check the result (not timed, after every run). A library that cannot do it has a `Cell` with
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
    """A library has no way to do what a question asks."""


class WrongResult(Exception):
    """What was read is not what was written."""


class Library(Protocol):
    """What the harness itself needs of a library."""

    name: str

    def active(self) -> AbstractContextManager[Any]: ...


@dataclass(frozen=True)
class Measured:
    """A result of `Trial.run` that was measured elsewhere, such as in a child process."""

    value: float


@dataclass(frozen=True)
class Trial:
    """One library's way to do what a question asks."""

    run: Callable[[Any], Any]  # given what `prepare` returned
    check: Callable[[Any], bool]  # given what `run` returned
    prepare: Callable[[], Any] = lambda: None
    per: int = 1  # operations in one run; the time is that of one


@dataclass(frozen=True)
class Bar:
    """What a library of ours has to reach: a ratio, or a limit in the row's unit."""

    ratio: float | None = None
    against: tuple[str, ...] = ()  # of these peers; empty: of all
    limit: float | None = None
    who: str = OURS[0]

    def __str__(self) -> str:
        if self.limit is not None:
            return f"at most {self.limit:g}"
        against = f" of {' and '.join(self.against)}" if self.against else ""
        return f"{self.ratio:g}{against}"


@dataclass(frozen=True)
class Question:
    """What is asked, in which table it stands, and the bars that it has to reach."""

    topic: str
    label: str
    trial: Callable[[Any], Trial]
    bars: tuple[Bar, ...] = ()
    unit: str = "s"
    main: bool = False  # whether it is in the picture


@dataclass(frozen=True)
class Cell:
    """The best value of one library, or the reason why there is none."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """The answers to one question."""

    topic: str
    label: str
    cells: Mapping[str, Cell]
    bars: tuple[Bar, ...] = ()
    unit: str = "s"
    main: bool = False

    def value(self, name: str) -> float | None:
        cell = self.cells.get(name)
        return None if cell is None else cell.value

    def fastest_peer(self, among: Sequence[str] = ()) -> str | None:
        """The name of the best library that is not ours; None where no peer has a value."""
        values = {
            name: cell.value
            for name, cell in self.cells.items()
            if name not in OURS and cell.value is not None and (not among or name in among)
        }
        return min(values, key=values.__getitem__) if values else None

    def ratio(self, name: str, among: Sequence[str] = ()) -> float | None:
        """How many times as fast as the fastest peer; None where one of the two is missing."""
        own, fastest = self.value(name), self.fastest_peer(among)
        best = None if fastest is None else self.value(fastest)
        if own is None or best is None or own <= 0:
            return None
        return best / own

    def verdict(self, bar: Bar) -> str:
        """ "met" or "missed"; "no peer" where there is nothing to compare with."""
        own = self.value(bar.who)
        if own is None:
            return "missed"
        if bar.limit is not None:
            return "met" if own <= bar.limit else "missed"
        ratio = self.ratio(bar.who, bar.against)
        if ratio is None or bar.ratio is None:
            return "no peer"
        return "met" if ratio >= bar.ratio else "missed"


@dataclass
class Effort:
    """How often each library is asked: up to `repeats` times, within `seconds` after the first."""

    repeats: int
    seconds: float
    spent: dict[str, float] = field(default_factory=dict)

    def allows(self, name: str, round_: int) -> bool:
        return round_ == 0 or self.spent.get(name, 0.0) < self.seconds


def ask(question: Question, libraries: Iterable[Library], repeats: int, seconds: float) -> Row:
    """The row of one question. Libraries take turns; each round starts with another one."""
    everyone = list(libraries)
    trials: dict[str, Trial] = {}
    cells: dict[str, Cell] = {}
    for library in everyone:
        try:
            trials[library.name] = question.trial(library)
        except Exception as e:
            cells[library.name] = Cell(None, describe(e))
    effort = Effort(repeats, seconds)
    for round_ in range(repeats):
        turn = round_ % len(everyone)
        for library in everyone[turn:] + everyone[:turn]:
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
    return Row(question.topic, question.label, ordered, question.bars, question.unit, question.main)


def once(library: Library, trial: Trial) -> float:
    """Prepare, run under the clock, check; the time of one operation, or what was measured."""
    with library.active():
        state = trial.prepare()
        gc.collect()
        started = time.perf_counter()
        result = trial.run(state)
        seconds = time.perf_counter() - started
    if not trial.check(result):
        raise WrongResult("what was read is not what was written")
    return result.value if isinstance(result, Measured) else seconds / trial.per


def describe(error: BaseException) -> str:
    """An error as the reason of an empty cell: short, on one line, without folder names."""
    text = " ".join(str(error).split())
    if not isinstance(error, Cannot):
        text = f"{type(error).__name__}: {text}"
    words = ["…" if "/" in w and len(w) > 20 else w for w in text.split(" ")]
    text = " ".join(words)
    return text if len(text) <= 160 else text[:159] + "…"
