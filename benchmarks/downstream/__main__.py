"""Run packages that use zarr-python on omnizarr in its place; write docs/generated/downstream.md.

``python -m benchmarks.downstream [--only NAME …] [--suites] [--folder DIR] [--sources DIR]``
installs the newest versions of the packages below the folder, runs a round trip with each and, with
``--suites``, its own tests on both libraries. Results are kept in the folder: a later run with
``--only`` replaces those of the packages that it names. The page is made from all of them.
"""

from __future__ import annotations

import argparse
import datetime
from itertools import groupby
from pathlib import Path

from benchmarks.downstream.environments import (
    CHECKOUT,
    NotInstalled,
    ask,
    prepare,
    source,
    version,
)
from benchmarks.downstream.packages import PACKAGES, Package
from benchmarks.downstream.page import write_page
from benchmarks.downstream.results import Counts, Result, by_reason, count
from benchmarks.downstream.suites import run_suite
from benchmarks.downstream.trips import TripFailed, round_trip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.downstream")
    names = [package.name for package in PACKAGES]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--suites", action="store_true", help="run the packages' own tests too")
    parser.add_argument("--folder", type=Path, default=CHECKOUT / ".venv-downstream")
    parser.add_argument("--sources", type=Path, help="folder of source trees, named by package")
    parser.add_argument(
        "--page", type=Path, default=CHECKOUT / "docs" / "generated" / "downstream.md"
    )
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    together = sorted(PACKAGES, key=lambda package: package.environment)
    for _, packages in groupby(together, key=lambda package: package.environment):
        members = list(packages)
        chosen = [package for package in members if package.name in options.only]
        if chosen:
            run_environment(folder, members, chosen, options)
    results = [Result.load(path) for path in sorted((folder / "results").glob("*.json"))]
    options.page.write_text(write_page({result.package: result for result in results}))


def run_environment(
    folder: Path, members: list[Package], chosen: list[Package], options: argparse.Namespace
) -> None:
    """Install the members of an environment, and run the chosen ones."""
    today = datetime.date.today().isoformat()
    try:
        python = prepare(folder, members)
    except NotInstalled as error:
        for package in chosen:
            report(Result(package.name, today, not_installed=str(error)), folder)
        return
    for package in chosen:
        result = Result(
            package.name,
            today,
            version=version(python, package.distribution) or "",
            zarr=version(python, "zarr") or "",
            python=ask(python, "import platform; print(platform.python_version())"),
        )
        try:
            if not package.of:
                round_trip(python, package.name, folder / "trips" / package.name)
        except TripFailed as error:
            result.trip = str(error)
        if options.suites and package.suite:
            try:
                result.suite = compare_suites(python, package, folder, options.sources)
            except NotInstalled as error:
                result.no_suite = str(error)
        report(result, folder)


def compare_suites(python: Path, package: Package, folder: Path, given: Path | None) -> Counts:
    """Run the package's own tests on both libraries."""
    tree = source(folder, given, python, package)
    if not (tree / package.suite[0]).exists():
        raise NotInstalled(f"{tree.name} has no {package.suite[0]}; give its source with --sources")
    runs = [run_suite(python, package, tree, folder / "suites", ours=ours) for ours in (0, 1)]
    return count(*runs)


def report(result: Result, folder: Path) -> None:
    """Keep a result, and print it."""
    result.save(folder / "results")
    trip = result.not_installed or result.trip or "ok"
    print(f"{result.package} {result.version}: round trip {trip}", flush=True)
    if result.suite is not None:
        print(f"  own tests: {result.suite.theirs} on zarr-python, {result.suite.ours} on omnizarr")
        print(f"  {result.suite.ended}" if result.suite.ended else "", end="\n")
        for reason, tests in by_reason(result.package, result.suite).items():
            print(f"  {len(tests)} lost, {reason}: {tests[0]}", flush=True)


if __name__ == "__main__":
    main()
