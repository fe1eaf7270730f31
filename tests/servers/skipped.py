"""One line at the end of a test run: what was skipped, and how to install it.

A reason that says "… is not installed (how to install it)" is listed; others, such as what an
operating system does not have, are only counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterable
from typing import Any

import pytest

INSTALLABLE = "is not installed"
COMPILER = f"a C compiler {INSTALLABLE} (apt-get install gcc, then `make clean test`)"


def summary(reasons: Iterable[str]) -> str:
    """Return the line for the reasons of all skipped tests; empty if there are none."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    listed = {reason: n for reason, n in counts.most_common() if INSTALLABLE in reason}
    parts = [f"{n} because {reason}" for reason, n in listed.items()]
    others = counts.total() - sum(listed.values())
    if others:
        parts.append(f"{others} for other reasons (pytest -rs lists them)")
    tests = "test" if counts.total() == 1 else "tests"
    return f"skipped {counts.total()} {tests}: {'; '.join(parts)}" if parts else ""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    """Write the line below everything else that pytest writes."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        line = summary(_reason(report) for report in reporter.stats.get("skipped", ()))
        if line:
            reporter.write_line(line, yellow=True)
            sys.stdout.flush()
    return result


def _reason(report: Any) -> str:
    """Return the reason of a skipped test or module."""
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
