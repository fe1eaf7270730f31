"""Try points of operations: ``python -m tests.crash killed --operations 'delete array'``."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.crash.operations import OPERATIONS
from tests.crash.places import ENDINGS
from tests.crash.server import serving
from tests.servers.processes import simple_storage
from tests.servers.redis import redis_server

EVENTS = ("killed", "moments", "paused", "full")
KINDS = (*ENDINGS, "Redis", "S3")


def tried(
    event: str,
    kinds: Iterable[str] | None = None,
    operations: Iterable[str] | None = None,
    formats: Iterable[Any] = (2, 3),
    points: list[int] | None = None,
) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Yield a kind of store, an operation, a format, and what was found at its points."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = stack.enter_context(serving(folder))
        if client is None:
            raise SystemExit("this needs Linux and a compiler (cc)")
        for kind in kinds or KINDS:
            server = ""
            if kind == "Redis":
                server = stack.enter_context(redis_server(folder))
            elif kind == "S3":
                server = str(stack.enter_context(simple_storage("bucket")))
            options = {"kind": kind, "server": server, "calls": kind not in ("directory", "ZIP")}
            for name in operations or OPERATIONS:
                for zarr_format in [f for f in OPERATIONS[name].formats if f in formats]:
                    try:
                        found = client.run(event, name, zarr_format, only=points, **options)
                    except RuntimeError as e:
                        bad = [(0, f"machine: {e}"[-600:])]
                        found = {"points": 0, "states": 0, "bad": bad, "calls": []}
                    yield kind, name, zarr_format, found


def main() -> None:
    """Print what is bad, with the call before each point."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("event", choices=EVENTS)
    parser.add_argument("--operations", nargs="*", choices=OPERATIONS, metavar="operation")
    parser.add_argument("--formats", nargs="*", type=int, default=[2, 3])
    parser.add_argument("--kinds", nargs="*", choices=KINDS)
    parser.add_argument("--points", nargs="*", type=int, help="only after these changes")
    given = vars(parser.parse_args())
    for kind, name, zarr_format, found in tried(**given):
        bad = {point for point, _ in found["bad"]}
        counts = f"{found['points']} points, {found['states']} states, {len(bad)} bad"
        print(f"{given['event']}, {kind}, {name}, format {zarr_format}: {counts}", flush=True)
        rows: dict[str, list[tuple[int, str]]] = {}
        for point, text in found["bad"]:
            rows.setdefault(re.sub(r"\d+", "", text), []).append((point, text))
        for same in rows.values():
            (first, text), points = same[0], [point for point, _ in same]
            calls = " ".join(found["calls"][first - 1 : first])
            print(f"    at {points}: {text} [after {calls}]", flush=True)


if __name__ == "__main__":
    main()
