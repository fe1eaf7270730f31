"""Tables of writers that are ended, stopped or starved at each of their changes (tests/crash)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.__main__ import add_arguments, tried
from tests.soak.page import Table, show

__all__ = ["PARTS", "add_arguments"]
HEAD = ("store", "operation", "format", "points", "bad")
CRASHES = Table(
    "Writers that end at each change",
    "A process ends after the first, second, … call that changes files, or the store. Then the\n"
    "place is read, also by zarr-python, verified and repaired, and the operation is repeated and\n"
    "resumed. Bad: a point where anything was neither old nor new, or else than promised\n"
    "([what is safe](explanation/safety.md)).",
    HEAD,
    labels=3,
)
PAUSES = Table(
    "Writers that stop at each change",
    "A process stops after each change; others read with older handles and anew, and write; then\n"
    "it goes on. Bad: a point where a reader got a mixture, or a change was lost.",
    HEAD,
    labels=3,
)
FULL = Table(
    "Disks that are full from each change on",
    "Every call that needs room fails from a change on. Bad: a point where the old state was not\n"
    "kept, or the operation could not be repeated.",
    HEAD,
    labels=3,
)


def _part(event: str, table: Table) -> Callable[[Path, argparse.Namespace], None]:
    def run(folder: Path, given: argparse.Namespace) -> None:
        def rows() -> Any:
            for kind, name, zarr_format, found in tried(event, given):
                for point, text in found["bad"]:
                    print(f"{event}, {kind}, {name}, {zarr_format}, point {point}: {text}")
                bad = len({point for point, _ in found["bad"]})
                yield kind, name, zarr_format, found["points"], bad

        show(table, rows(), replace=not (given.operations or given.kinds or given.points))

    return run


PARTS = {
    "crashes": _part("killed", CRASHES),
    "pauses": _part("paused", PAUSES),
    "full": _part("full", FULL),
}
