"""The page of results: one section per table, which a run updates row by row.

So parts can be run separately or at the same time, and a run that is stopped keeps its rows.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omnizarr as oz

PAGE = Path("docs/generated/reliability.md")
INTRODUCTION = """# Reliability

Results of long stress tests. `make soak` repeats them and writes this page; `make test` runs a
short form of each table. [design/locks.md](../design/locks.md) explains the guarantees.
"""


@dataclass(frozen=True)
class Table:
    """A section: title, text and columns; the first `labels` columns identify a row."""

    title: str
    text: str
    head: tuple[str, ...]
    labels: int = 1


def show(
    table: Table, rows: Iterable[Sequence[Any]], *, replace: bool = True, page: Path = PAGE
) -> None:
    """Write rows to the page as they arrive; with `replace`, replace all existing rows."""
    if replace:
        _change(page, table, None)
    for row in rows:
        print(table.title, *row, flush=True)
        _change(page, table, [str(value) for value in row])


def _change(page: Path, table: Table, row: list[str] | None) -> None:
    """Replace or add one row, or remove all; safe while other processes change the page."""
    with open(page, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        start, *sections = (file.read() or INTRODUCTION).split("\n## ")
        titles = [section.partition("\n")[0] for section in sections]
        if table.title not in titles:
            titles.append(table.title)
            sections.append("")
        at = titles.index(table.title)
        rows = [] if row is None else _rows(sections[at])
        names = [old[: table.labels] for old in rows]
        if row is not None and row[: table.labels] in names:
            rows[names.index(row[: table.labels])] = row
        elif row is not None:
            rows.append(row)
        sections[at] = _section(table, rows)
        file.truncate(0)
        file.write("\n## ".join([start.rstrip("\n") + "\n", *sections]))


def _rows(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[value.strip() for value in line.strip("|").split("|")] for line in lines[2:]]


def _section(table: Table, rows: list[list[str]]) -> str:
    lines = [table.title, "", table.text, "", _where(), ""]
    lines += [_line(table.head), "| --- " * len(table.head) + "|", *map(_line, rows)]
    return "\n".join([*lines, ""])


def _line(values: Iterable[str]) -> str:
    return f"| {' | '.join(values)} |"


def _where() -> str:
    today = datetime.datetime.now(datetime.UTC).date()
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    return f"{today}, omnizarr {oz.__version__}, Python {platform.python_version()}, {system}."
