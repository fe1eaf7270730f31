"""The results as tables on the screen and as ``docs/generated/benchmarks.md``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.harness import OURS, Cell, Row, Target
from benchmarks.reasons import NOT_MEASURED, REASONS, Reason

TARGETS = (
    "`target`: at least this many times as fast as the fastest other library, unless the cell says"
    " otherwise."
)


@dataclass(frozen=True)
class Run:
    """Date, machine, versions and settings of a run."""

    date: str
    machine: str
    python: str
    versions: Mapping[str, str]
    command: str
    minutes: float
    sizes: str
    load: str


def dump(rows: Sequence[Row], run: Run) -> str:
    """Return the results as JSON, from which the page can be written again."""
    return json.dumps({"run": asdict(run), "rows": [asdict(row) for row in rows]})


def load(text: str) -> tuple[list[Row], Run]:
    """Return the results that `dump` stored."""
    found = json.loads(text)
    rows = []
    for row in found["rows"]:
        cells = {name: Cell(**cell) for name, cell in row.pop("cells").items()}
        targets = tuple(Target(**{**b, "against": tuple(b["against"])}) for b in row.pop("targets"))
        rows.append(Row(cells=cells, targets=targets, **row))
    return rows, Run(**found["run"])


def show(value: float | None, unit: str) -> str:
    """Return a value with three digits and a suitable unit."""
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
    """Return the ratio of an engine of omnizarr to the fastest peer, if there is one."""
    ratio = row.ratio(name) if row.unit == "s" else None
    return "–" if ratio is None else f"{ratio:.2f}"


def verdicts(row: Row) -> str:
    """Return every target of a row with its verdict."""
    out = []
    for target in row.targets:
        who = "" if target.who == OURS[0] else " (reference)"
        out.append(f"{show_target(target, row.unit)}{who}: {row.verdict(target)}")
    return "; ".join(out) or "–"


def show_target(target: Target, unit: str) -> str:
    """Return a target with its unit."""
    return str(target) if target.limit is None else f"at most {show(target.limit, unit)}"


def topics(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Group rows by topic, in order of first appearance."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row.topic, []).append(row)
    return out


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """Print one table per topic; the fastest peer is underlined, missed targets are red."""
    for topic, some in topics(rows).items():
        table = Table(title=topic, title_justify="left")
        table.add_column("")
        for name in some[0].cells:
            table.add_column(name, justify="right")
        table.add_column("ratio", justify="right")
        table.add_column("reference", justify="right")
        table.add_column("target")
        for row in some:
            fastest = row.fastest_peer()
            cells = [
                f"[underline]{show(cell.value, row.unit)}[/]"
                if name == fastest
                else show(cell.value, row.unit)
                for name, cell in row.cells.items()
            ]
            target = verdicts(row)
            target = f"[red]{target}[/]" if "missed" in target else target
            ratios = [show_ratio(row, name) for name in OURS]
            table.add_row(row.label, *cells, *ratios, target)
        console.print(table)
    _print_empty(rows, console)


def _print_empty(rows: Sequence[Row], console: Console) -> None:
    for name, reason, where in empty(rows):
        console.print(f"– {name}: {reason} ({where})", markup=False)


def empty(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Return library, reason and rows of empty cells; merge equal reasons within a topic."""
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
    """Return the number of targets met, and the number of targets."""
    found = [row.verdict(target) for row in rows for target in row.targets]
    return found.count("met"), len(found) - found.count("no peer")


def document(rows: Sequence[Row], run: Run) -> str:
    """Return the page in Markdown."""
    met, total = count(rows)
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{run.command}` on {run.date} in {run.minutes:.0f} minutes.",
        f"{met} of {total} targets were met. All results are listed, including missed targets.",
        "",
        "![Speed relative to the fastest other library](benchmarks.png)",
        "",
        f"- Machine: {run.machine}. {run.load}",
        f"- Python {run.python}; " + ", ".join(f"{k} {v}" for k, v in run.versions.items()) + ".",
        f"- Sizes: {run.sizes}",
        "- The libraries run alternately in one process (imports, memory and core counts: one",
        "  process each); the best of several times counts. Each runs with its own defaults, but",
        "  tensorstore is configured not to call fsync, as the others do not. Files are on a",
        "  memory file system if there is one. omnizarr reuses the memory of freed results, so its",
        "  best time does not include allocating new memory; the times of the others do.",
        "- Test data for reads is written by tensorstore, and written data is read back by",
        "  tensorstore (strings: zarr-python). All values are compared after every run; opening,",
        "  creating and listing check only shapes, counts and names.",
        "- The zarrs pipeline falls back to zarr-python's default pipeline for layouts and",
        "  selections that it does not support; its time is then that of the default pipeline.",
        "- `ratio`: the time of the fastest other library divided by omnizarr's; above 1 omnizarr",
        "  is faster. `reference` is omnizarr without its compiled kernel,",
        '  `configure(engine="reference")`.',
        f"- {TARGETS}",
        "",
    ]
    for topic, some in topics(rows).items():
        lines += ["", f"## {topic}", "", *_table(some)]
    lines += ["", *_empty(rows), "", *_missed(rows), "", *_not_measured()]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row]) -> list[str]:
    names = list(rows[0].cells)
    head = ["", *names, "ratio", "reference ratio", "target"]
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
        cells = "; ".join(where for _, _, where in items)
        lines.append(f"- {name}: {reason} ({cells})")
    return lines


def _missed(rows: Sequence[Row]) -> list[str]:
    lines = ["## Missed targets and their reasons", ""]
    missed = [
        (row, target) for row in rows for target in row.targets if row.verdict(target) == "missed"
    ]
    explained: dict[Reason | None, list[str]] = {}
    for row, target in missed:
        reason = next((r for r in REASONS if r.covers(row, target)), None)
        got = show(row.value(target.who), row.unit)
        if target.limit is None:
            got = f"{row.ratio(target.who, target.against) or 0:.2f}"
        who = "" if target.who == OURS[0] else ", reference"
        text = f"{row.topic}: {row.label}{who} ({got}, target {show_target(target, row.unit)})"
        explained.setdefault(reason, []).append(text)
    for reason, texts in explained.items():
        lines.append(f"- {reason.text if reason else 'Not profiled yet.'}")
        lines += [f"  - {text}" for text in texts]
    return lines if missed else [*lines, "None."]


def _not_measured() -> list[str]:
    return ["## Not measured yet", "", *(f"- {text}" for text in NOT_MEASURED)]
