"""The packages' own tests, once on zarr-python and once on omnizarr in its place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.downstream.packages import AS_ZARR, PLUGINS, Package

LIMIT = 3600  # seconds of a suite
EACH = 120  # seconds of a test
PREFIX = "omnizarr_"
RECORDER = f"{PREFIX}recorder"


@dataclass
class Outcomes:
    """The result of each test of a run: its outcome, and a message unless it passed."""

    tests: dict[str, tuple[str, str]] = field(default_factory=dict)
    ended: str = ""  # why the run ended early

    @property
    def passed(self) -> set[str]:
        return {test for test, (outcome, _) in self.tests.items() if outcome == "passed"}


def run_suite(python: Path, package: Package, tree: Path, folder: Path, *, ours: bool) -> Outcomes:
    """Run the tests below a source tree, on omnizarr or on zarr-python."""
    plugins = folder / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    for name in ("recorder", "xarray_engine"):
        shutil.copy(Path(__file__).with_name(f"{name}.py"), plugins / f"{PREFIX}{name}.py")
    record = folder / f"{package.name}-{'omnizarr' if ours else 'zarr'}.jsonl"
    record.unlink(missing_ok=True)
    # A plugin that a suite's own options name may import zarr before one that is given here.
    start = ["-m", AS_ZARR] if ours and package.ours == AS_ZARR else []
    command = [str(python), *start, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--timeout={EACH}", "--tb=short", "--no-cov", "--continue-on-collection-errors"]
    for plugin in (*PLUGINS, *package.plugins, RECORDER, *([package.ours] if ours else [])):
        command += ["-p", plugin]
    command += package.suite
    environment = dict(
        os.environ,
        PYTHONPATH=str(plugins),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        OMNIZARR_RECORD=str(record),
    )
    with record.with_suffix(".log").open("w") as log:
        try:
            done = subprocess.run(
                command, cwd=tree, env=environment, stdout=log, stderr=log, timeout=LIMIT
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = -1
    outcomes = read_record(record)
    if code not in (0, 1):
        outcomes.ended = "out of time" if code == -1 else f"pytest ended with code {code}"
    library = outcomes.tests.pop("library", ("", ""))[0]
    in_place = ours and package.ours == AS_ZARR
    if not outcomes.ended and in_place != library.startswith("omnizarr"):
        outcomes.ended = f"the tests ran with zarr.Array of {library or 'no library'}"
    return outcomes


def read_record(record: Path) -> Outcomes:
    """Read the lines that the recorder wrote; no file means that pytest did not start."""
    outcomes = Outcomes()
    if not record.exists():
        return outcomes
    for line in record.read_text(encoding="utf-8").splitlines():
        kind, name, outcome, why = json.loads(line)
        if kind == "library":
            outcomes.tests["library"] = name, ""
        else:
            outcomes.tests[name] = outcome, why
    return outcomes
