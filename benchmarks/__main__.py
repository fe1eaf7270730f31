"""``python -m benchmarks [--quick] [--only full,shards]``: run all and write the page."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import chart, peers
from benchmarks.cases import ALL
from benchmarks.harness import OURS, Row, measure
from benchmarks.layouts import workspace
from benchmarks.machine import Watch, cores, processor
from benchmarks.plot import draw
from benchmarks.report import Run, document, dump, print_rows, show, show_ratio
from benchmarks.report import load as load_run
from benchmarks.trials import FULL, QUICK, Scale

LAST = Path(sys.prefix) / "last-run.json"
DOCS = Path(__file__).parent.parent / "docs"


def measure_all(
    scale: Scale, only: list[str], console: Console, keep: Callable[[list[Row]], None]
) -> list[Row]:
    """Return all rows; print each as it is measured, and pass the rows so far to `keep`."""
    libraries = [peers.load(name) for name in peers.NAMES]
    rows: list[Row] = []
    with workspace() as folder:
        for module in ALL:
            if only and module.__name__.rpartition(".")[2] not in only:
                continue
            for case in module.cases(scale, folder):
                row = measure(case, libraries, scale.repeats, scale.seconds)
                rows.append(row)
                ratio, value = show_ratio(row, OURS[0]), show(row.value(OURS[0]), row.unit)
                console.print(f"[dim]{row.topic}: {row.label}: {value}, ratio {ratio}[/]")
            keep(rows)
    return rows


def describe(scale: Scale, started: float, watch: Watch) -> Run:
    """Describe this run for the page."""
    shape = " × ".join(map(str, scale.shape))
    sizes = (
        f"arrays of {shape} uint16 (float32: half as long, the same bytes), smooth data with"
        f" four bits of noise; up to {scale.repeats} rounds."
    )
    if scale.quick:
        sizes += " This was the quick run, with small arrays and few rounds, so it has more noise."
    return Run(
        date=datetime.date.today().isoformat(),
        machine=f"{processor()}, {cores()} cores, {platform.system()} {platform.machine()}",
        python=platform.python_version(),
        versions=peers.versions(),
        command="make bench QUICK=1" if scale.quick else "make bench",
        minutes=(time.perf_counter() - started) / 60,
        sizes=sizes,
        load=watch.text(),
    )


def main() -> None:
    """Run the benchmarks that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small arrays, few rounds")
    parser.add_argument(
        "--only", default="", help="names of files in cases/; does not write the page"
    )
    parser.add_argument("--again", action="store_true", help="write the page of the last run again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console(width=None if os.isatty(1) else 200)
    if options.again:
        write(*load_run(LAST.read_text()), console)
        return
    started, watch = time.perf_counter(), Watch()
    scale = QUICK if options.quick else FULL

    def keep(rows: list[Row]) -> None:
        if not options.only:
            LAST.write_text(dump(rows, describe(scale, started, watch)))

    rows = measure_all(scale, [name for name in options.only.split(",") if name], console, keep)
    print_rows(rows, console)
    if not options.only:
        keep(rows)
        write(*load_run(LAST.read_text()), console)


def write(rows: list[Row], run: Run, console: Console) -> None:
    """Write the page and the figure."""
    (DOCS / "generated" / "benchmarks.md").write_text(document(rows, run))
    subtitle = f"{run.machine}, Python {run.python}, {run.date}, {run.command}; log scale"
    draw(rows, DOCS / "generated" / "benchmarks.png", subtitle)
    chart.write()
    console.print(f"wrote docs/generated/benchmarks.md and its pictures; {run.minutes:.1f} minutes")


if __name__ == "__main__":
    main()
