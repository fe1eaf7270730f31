"""A pytest plugin that records the outcome of each test, one JSON line at a time.

It is copied next to the suites under another name, because the folder of this file must not be on
their path. Each line is written at once, so a suite that crashes keeps what it found.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

RANKS = {"passed": 0, "skipped": 1, "xfailed": 1, "failed": 2}


class Recorder:
    """Write the worst outcome of setup, call and teardown of each test."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.worst: dict[str, tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        outcome, why = report.outcome, ""
        if hasattr(report, "wasxfail") and outcome == "skipped":
            outcome = "xfailed"
        elif outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash is not None else str(report.longrepr)
        elif outcome == "skipped" and isinstance(report.longrepr, tuple):
            why = report.longrepr[2]
        before = self.worst.get(report.nodeid)
        if before is None or RANKS[outcome] > RANKS[before[0]]:
            self.worst[report.nodeid] = outcome, why[:2000]
        if report.when == "teardown":
            self.write("test", report.nodeid, *self.worst.pop(report.nodeid))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
            self.write("test", report.nodeid, "failed", "; ".join(lines)[-2000:] or "no collection")

    def pytest_sessionfinish(self) -> None:
        """Record which library `import zarr` gave."""
        zarr = sys.modules.get("zarr")
        array = getattr(zarr, "Array", None)
        self.write("library", getattr(array, "__module__", ""), "", "")

    def write(self, *fields: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")


def pytest_configure(config: Any) -> None:
    path = os.environ["OMNIZARR_RECORD"]
    config.pluginmanager.register(Recorder(path))
