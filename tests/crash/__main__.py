"""Try points of operations: ``python -m tests.crash killed --operations 'delete array'``."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.crash.operations import OPERATIONS
from tests.crash.places import ENDINGS
from tests.crash.server import Client, serving
from tests.servers.processes import simple_storage
from tests.servers.redis import redis_server

EVENTS = ("killed", "moments", "paused", "full")
KINDS = (*ENDINGS, "Redis", "S3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operations", nargs="*", choices=OPERATIONS, metavar="operation")
    parser.add_argument("--formats", nargs="*", type=int, default=[2, 3])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, help="crashes: these stores only")
    parser.add_argument("--points", nargs="*", type=int, help="crashes: only after these changes")
    parser.add_argument("--sample", type=int, help="crashes: so many points of each operation")


def tried(event: str, given: argparse.Namespace) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Yield a kind of store, an operation, a format, and what was found at its points."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = stack.enter_context(serving(folder))
        if client is None:
            raise SystemExit("this needs Linux and a compiler (cc)")
        for kind in given.kinds or KINDS:
            options = {"kind": kind, "server": _server(kind, folder, stack)}
            options["calls"] = kind not in ("directory", "ZIP")
            yield from _tried(client, event, given, options)


def _tried(
    client: Client, event: str, given: argparse.Namespace, options: dict[str, Any]
) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    for name in given.operations or OPERATIONS:
        for zarr_format in [f for f in OPERATIONS[name].formats if f in given.formats]:
            try:
                found = client.run(
                    event, name, zarr_format, only=given.points, sample=given.sample, **options
                )
            except RuntimeError as e:
                found = {
                    "points": 0,
                    "states": 0,
                    "bad": [(0, f"machine: {e}"[-600:])],
                    "calls": [],
                }
            yield options["kind"], name, zarr_format, found


def _server(kind: str, folder: Path, stack: ExitStack) -> str:
    if kind == "Redis":
        return stack.enter_context(redis_server(folder))
    return str(stack.enter_context(simple_storage("bucket"))) if kind == "S3" else ""


def show(event: str, given: argparse.Namespace) -> None:
    """Print what is bad, with the call before each point."""
    for kind, name, zarr_format, found in tried(event, given):
        bad = {point for point, _ in found["bad"]}
        counts = f"{found['points']} points, {found['states']} states, {len(bad)} bad"
        print(f"{event}, {kind}, {name}, format {zarr_format}: {counts}", flush=True)
        rows: dict[str, list[tuple[int, str]]] = {}
        for point, text in found["bad"]:
            rows.setdefault(re.sub(r"\d+", "", text), []).append((point, text))
        for same in rows.values():
            (first, text), points = same[0], [point for point, _ in same]
            calls = " ".join(found["calls"][first - 1 : first])
            print(f"    at {points}: {text} [after {calls}]", flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    arguments.add_argument("event", choices=EVENTS)
    add_arguments(arguments)
    chosen = arguments.parse_args()
    show(chosen.event, chosen)
