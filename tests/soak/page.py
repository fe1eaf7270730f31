"""The page of results: one section per table, which is replaced when its part has run."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
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
    """A section: title, text and columns."""

    title: str
    text: str
    head: tuple[str, ...]


def show(table: Table, rows: Iterable[Iterable[Any]], page: Path = PAGE) -> None:
    """Print rows as they arrive, and then replace the section of the table."""
    today = datetime.datetime.now(datetime.UTC).date()
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    where = f"{today}, omnizarr {oz.__version__}, Python {platform.python_version()}, {system}."
    lines = [table.title, "", table.text, "", where, "", f"| {' | '.join(table.head)} |"]
    lines.append("| --- " * len(table.head) + "|")
    for row in rows:
        print(table.title, *row, flush=True)
        lines.append(f"| {' | '.join(map(str, row))} |")
    start, *old = (page.read_text() if page.exists() else INTRODUCTION).split("\n## ")
    sections = {section.partition("\n")[0]: section for section in old}
    sections[table.title] = "\n".join([*lines, ""])
    page.write_text("\n## ".join([start.rstrip("\n") + "\n", *sections.values()]))
