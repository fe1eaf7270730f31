"""Samples of large products of cases: another one in each run, and all of them in `make soak`."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
_GIVEN = os.environ.get("OMNIZARR_SEED")
# Workers of pytest-xdist must collect the same tests, so the first process tells the others.
SEED = int(_GIVEN or (0 if os.environ.get("OMNIZARR_SAME_EXAMPLES") else os.getpid()))
os.environ["OMNIZARR_SEED"] = str(SEED)
ALL = bool(os.environ.get("OMNIZARR_ALL_CASES"))


def sample(cases: Iterable[T], count: int) -> list[T]:
    """Return some of the cases, in their order; all of them with OMNIZARR_ALL_CASES."""
    every = list(cases)
    if ALL or count >= len(every):
        return every
    chosen = random.Random(SEED).sample(range(len(every)), count)
    return [every[number] for number in sorted(chosen)]


def some_of_each(rows: Iterable[T], columns: Sequence[U], count: int) -> list[tuple[T, U]]:
    """Return each row with some of the columns, in turn; with all with OMNIZARR_ALL_CASES."""
    width = len(columns)
    chosen = range(width if ALL else min(count, width))
    return [
        (row, columns[(SEED + number * count + offset) % width])
        for number, row in enumerate(rows)
        for offset in chosen
    ]


def tries(few: int, many: int) -> int:
    """Return how often something is tried that another try may show: often in `make soak`."""
    return many if ALL else few
