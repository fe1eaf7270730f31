"""The answers as a table on the screen and as ``docs/benchmarks.md``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.harness import OURS, Bar, Cell, Row
from benchmarks.reasons import NOT_ASKED, REASONS, Reason

BARS = "Bars: at least this many times as fast as the fastest peer, unless the cell says otherwise."


@dataclass(frozen=True)
class Run:
    """Where, when and with what the answers were found."""

    date: str
    machine: str
    python: str
    versions: Mapping[str, str]
    command: str
    minutes: float
    sizes: str
    load: str


def dump(rows: Sequence[Row], run: Run) -> str:
    """The answers as JSON, to be written out again with other words."""
    return json.dumps({"run": asdict(run), "rows": [asdict(row) for row in rows]})


def load(text: str) -> tuple[list[Row], Run]:
    """What `dump` wrote."""
    found = json.loads(text)
    rows = []
    for row in found["rows"]:
        cells = {name: Cell(**cell) for name, cell in row.pop("cells").items()}
        bars = tuple(Bar(**{**b, "against": tuple(b["against"])}) for b in row.pop("bars"))
        rows.append(Row(cells=cells, bars=bars, **row))
    return rows, Run(**found["run"])


def show(value: float | None, unit: str) -> str:
    """A value with three digits and a fitting unit."""
    if value is None:
        return "–"
    if unit == "×":
        return f"{value:.2f} ×"
    if unit == "calls":
        return f"{value:.0f}"
    if unit == "B":
        return f"{value / 1e6:.0f} MB"
    for factor, name in ((1, "s"), (1e-3, "ms")):
        if value >= factor:
            return f"{value / factor:.3g} {name}" if value < 1000 * factor else f"{value:.0f} s"
    return f"{value * 1e6:.3g} µs"


def show_ratio(row: Row, name: str) -> str:
    """How a library of ours compares; empty where that says nothing."""
    ratio = row.ratio(name) if row.unit == "s" else None
    return "–" if ratio is None else f"{ratio:.2f}"


def verdicts(row: Row) -> str:
    """Every bar of a row with its verdict."""
    out = []
    for bar in row.bars:
        who = "" if bar.who == OURS[0] else " (reference)"
        out.append(f"{show_bar(bar, row.unit)}{who}: {row.verdict(bar)}")
    return "; ".join(out) or "–"


def show_bar(bar: Bar, unit: str) -> str:
    """A bar with its unit."""
    return str(bar) if bar.limit is None else f"at most {show(bar.limit, unit)}"


def topics(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by topic, in the order in which the topics came first."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row.topic, []).append(row)
    return out


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """One table a topic; the fastest peer is underlined, missed bars are red."""
    for topic, some in topics(rows).items():
        table = Table(title=topic, title_justify="left")
        table.add_column("")
        for name in some[0].cells:
            table.add_column(name, justify="right")
        table.add_column("ratio", justify="right")
        table.add_column("reference", justify="right")
        table.add_column("bar")
        for row in some:
            fastest = row.fastest_peer()
            cells = [
                f"[underline]{show(cell.value, row.unit)}[/]"
                if name == fastest
                else show(cell.value, row.unit)
                for name, cell in row.cells.items()
            ]
            bar = verdicts(row)
            bar = f"[red]{bar}[/]" if "missed" in bar else bar
            ratios = [show_ratio(row, name) for name in OURS]
            table.add_row(row.label, *cells, *ratios, bar)
        console.print(table)
    _print_empty(rows, console)


def _print_empty(rows: Sequence[Row], console: Console) -> None:
    for name, reason, where in empty(rows):
        console.print(f"– {name}: {reason} ({where})", markup=False)


def empty(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Empty cells: whose, why, where; the same reason in one topic is said once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for name, cell in row.cells.items():
            if cell.value is None:
                found.setdefault((name, cell.reason, row.topic), []).append(row.label)
    total = {topic: len(some) for topic, some in topics(rows).items()}
    return [
        (name, reason, topic if len(labels) == total[topic] else f"{topic}: {'; '.join(labels)}")
        for (name, reason, topic), labels in found.items()
    ]


def count(rows: Sequence[Row]) -> tuple[int, int]:
    """How many bars were met, and how many there are."""
    found = [row.verdict(bar) for row in rows for bar in row.bars]
    return found.count("met"), len(found) - found.count("no peer")


def document(rows: Sequence[Row], run: Run) -> str:
    """The page, in Markdown."""
    met, total = count(rows)
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{run.command}` on {run.date} in {run.minutes:.0f} minutes.",
        f"{met} of {total} bars were met; every cell is below, also those that miss.",
        "",
        "![Speed against the fastest peer](benchmarks.png)",
        "",
        f"- Machine: {run.machine}. {run.load}",
        f"- Python {run.python}; " + ", ".join(f"{k} {v}" for k, v in run.versions.items()) + ".",
        f"- Sizes: {run.sizes}",
        "- All libraries take turns in one process (imports, memory and core counts: one process",
        "  each); the best of several times counts. Each runs with its own defaults; tensorstore",
        "  is told not to call fsync, as the others do not. Files are on a memory file system",
        "  where there is one. omnizarr keeps the memory of results that are gone for the next",
        "  ones, so the first of its reads, which pays for fresh memory as all of the others do,",
        "  is not the one that counts.",
        "- What is read was written by tensorstore, what is written is read back by tensorstore",
        "  (text: zarr-python), and all values are compared after every run. Opening, creating",
        "  and listing check shapes, numbers and names only.",
        "- Where the zarrs pipeline does not know a layout or a selection, it hands over to",
        "  zarr-python's default one; the time is then of that.",
        "- `ratio`: the fastest peer's time divided by omnizarr's; above 1 omnizarr is faster.",
        '  `reference` is omnizarr without its compiled kernel, `configure(engine="reference")`.',
        f"- {BARS}",
        "",
    ]
    for topic, some in topics(rows).items():
        lines += ["", f"## {topic}", "", *_table(some)]
    lines += ["", *_empty(rows), "", *_missed(rows), "", *_not_asked()]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row]) -> list[str]:
    names = list(rows[0].cells)
    head = ["", *names, "ratio", "reference ratio", "bar"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 2)} --- |"]
    for row in rows:
        fastest = row.fastest_peer()
        cells = [show(row.value(n), row.unit) for n in names]
        cells = [f"**{c}**" if n == fastest else c for n, c in zip(names, cells, strict=True)]
        ratios = [show_ratio(row, name) for name in OURS]
        lines.append(f"| {' | '.join([row.label, *cells, *ratios, verdicts(row)])} |")
    return lines


def _empty(rows: Sequence[Row]) -> list[str]:
    lines = ["## Empty cells", ""]
    grouped = itertools.groupby(sorted(empty(rows)), key=lambda item: item[:2])
    for (name, reason), items in grouped:
        places = "; ".join(where for _, _, where in items)
        lines.append(f"- {name}: {reason} ({places})")
    return lines


def _missed(rows: Sequence[Row]) -> list[str]:
    lines = ["## Bars that were missed, and why", ""]
    missed = [(row, bar) for row in rows for bar in row.bars if row.verdict(bar) == "missed"]
    explained: dict[Reason | None, list[str]] = {}
    for row, bar in missed:
        reason = next((r for r in REASONS if r.covers(row, bar)), None)
        got = show(row.value(bar.who), row.unit)
        if bar.limit is None:
            got = f"{row.ratio(bar.who, bar.against) or 0:.2f}"
        who = "" if bar.who == OURS[0] else ", reference"
        text = f"{row.topic}: {row.label}{who} ({got}, bar {show_bar(bar, row.unit)})"
        explained.setdefault(reason, []).append(text)
    for reason, texts in explained.items():
        lines.append(f"- {reason.text if reason else 'Not profiled yet.'}")
        lines += [f"  - {text}" for text in texts]
    return lines if missed else [*lines, "None."]


def _not_asked() -> list[str]:
    return ["## Not asked yet", "", *(f"- {text}" for text in NOT_ASKED)]
