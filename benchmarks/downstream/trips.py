"""Data written with a package on one library and read on the other, in separate processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "workloads" / "__main__.py"
LIMIT = 600  # seconds of a process

Found = dict[str, Any]


class TripFailed(Exception):
    """A step failed, or what was read differs; the message says which."""


def round_trip(python: Path, package: str, folder: Path) -> None:
    """Raise unless either library reads what a package has written on the other.

    Expected is what a package on zarr-python reads of what it has written. If something differs,
    zarr-python writes once more: what that changes, such as identifiers and dates, is not compared.
    """
    shutil.rmtree(folder, ignore_errors=True)
    theirs, ours = folder / "zarr", folder / "omnizarr"
    expected = run(python, package, write=theirs, read=theirs, ours=False)
    crossed = {
        "written on zarr-python, read on omnizarr": run(
            python, package, write=ours, read=theirs, ours=True
        ),
        "written on omnizarr, read on zarr-python": run(python, package, read=ours, ours=False),
    }
    varying: set[str] = set()
    if any(found != expected for found in crossed.values()):
        again = folder / "zarr-again"
        repeated = run(python, package, write=again, read=again, ours=False)
        varying = {key for key in expected if expected[key] != repeated.get(key)}
    for where, found in crossed.items():
        compare(expected, found, varying, where)


def name_of(ours: bool) -> str:
    return "omnizarr" if ours else "zarr"


def run(python: Path, package: str, *, write: Path | None = None, read: Path, ours: bool) -> Found:
    """Write in one folder and read another in a process of its own; return what was read."""
    folders = [str(write) if write else "-", str(read)]
    for folder in filter(None, (write, read)):
        folder.mkdir(parents=True, exist_ok=True)
    answer = read.with_name(f"{read.name}-read-on-{name_of(ours)}.json")
    command = [str(python), *(["-m", "omnizarr.as_zarr"] if ours else []), str(SCRIPT)]
    command += [package, *folders, str(answer)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    where = f"{package} on {name_of(ours)}"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, env=environment, cwd=read
        )
    except subprocess.TimeoutExpired:
        raise TripFailed(f"{where}: out of time") from None
    answer.with_suffix(".log").write_text(done.stdout + done.stderr)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise TripFailed(f"{where}: {lines[-1]}")
    found: Found = json.loads(answer.read_text())
    if ours != found.pop("library").startswith("omnizarr"):
        raise TripFailed(f"{where}: ran on the other library")
    return found


def compare(expected: Found, found: Found, varying: set[str], where: str) -> None:
    """Raise if a value differs, naming the first."""
    for key in sorted({*expected, *found} - varying):
        if key not in found or key not in expected:
            raise TripFailed(f"{where}: {key} is {'missing' if key in expected else 'new'}")
        if expected[key] != found[key]:
            raise TripFailed(f"{where}: {key} is {found[key]!r:.200}, not {expected[key]!r:.200}")
