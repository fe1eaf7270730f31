"""docs/generated/downstream.md, from the results."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.downstream.packages import PACKAGES, Package
from benchmarks.downstream.results import Result, by_reason

HEAD = """# Packages that run on zarr-python, on omnizarr

[omnizarr.as_zarr()](../zarr-python.md) gives omnizarr to programs that import zarr. This page shows
what that does to packages that use zarr-python, unchanged, in the versions that were newest when
they ran. It is written by `python -m benchmarks.downstream --suites`.

- **Round trip**: the package writes a small dataset on one library and reads it on the other, both
  ways, each in a process of its own. All that it returns, and every value, attribute, shape, data
  type and chunk shape in the store, must be as on zarr-python alone.
- **Own tests**: the package's tests that concern Zarr, once on zarr-python and once on omnizarr.
  Counted are the tests that pass; without numbers they were not run. "Lost" passed on zarr-python
  only, "gained" on omnizarr only.
"""
COLUMNS = "| package | version | zarr-python | Python | round trip | own tests: zarr-python | omnizarr | lost | gained | date |"  # noqa: E501
RULE = "| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |"


def write_page(results: dict[str, Result]) -> str:
    """Return the text of the page."""
    shown = [(package, results[package.name]) for package in PACKAGES if package.name in results]
    rows = [row(package, result) for package, result in shown]
    parts = [HEAD, "\n".join([COLUMNS, RULE, *rows]) + "\n", *details(shown)]
    return "\n".join(parts)


def row(package: Package, result: Result) -> str:
    suite = result.suite
    if suite is None:
        numbers = ["", "", "", ""]
    else:
        numbers = [f"{n:,}" for n in (suite.theirs, suite.ours, len(suite.lost), suite.gained)]
    trip = "not installed" if result.not_installed else "differs" if result.trip else "ok"
    trip = "" if package.of else trip
    cells = [package.label, result.version, result.zarr, result.python, trip, *numbers, result.date]
    return "| " + " | ".join(cells) + " |"


def details(shown: Sequence[tuple[Package, Result]]) -> list[str]:
    """Return a section for each package about which there is more to say."""
    sections = []
    for package, result in shown:
        lines = [escape(text) for text in remarks(package, result)]
        if lines:
            sections.append(
                f"## {package.label}\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"
            )
    return sections


def remarks(package: Package, result: Result) -> list[str]:
    lines = [package.note] if package.note else []
    if result.not_installed:
        lines.append(f"not installed: {result.not_installed}")
    if result.trip:
        lines.append(f"round trip: {result.trip}")
    if result.no_suite:
        lines.append(f"own tests: {result.no_suite}")
    if result.suite is not None:
        if result.suite.ended:
            lines.append(f"own tests ended early: {result.suite.ended}")
        for reason, tests in by_reason(package.name, result.suite).items():
            names = ", ".join(f"`{test.rsplit('::', 1)[-1]}`" for test in tests[:3])
            more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
            lines.append(f"{len(tests)} lost, {reason}: {names}{more}")
    return lines


def escape(text: str) -> str:
    """Return a text on one line, as Markdown shows it."""
    return " ".join(text.split()).replace("<", "&lt;")
