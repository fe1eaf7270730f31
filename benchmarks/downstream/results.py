"""What was found with each package, kept as JSON until the page is written."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.downstream.reasons import explain
from benchmarks.downstream.suites import Outcomes


@dataclass
class Counts:
    """The numbers of one suite on both libraries, and the tests that differ with their reasons."""

    theirs: int = 0  # passed on zarr-python
    ours: int = 0  # passed on omnizarr
    gained: int = 0  # passed only on omnizarr
    lost: dict[str, str] = field(default_factory=dict)  # passed only on zarr-python: message
    ended: str = ""


@dataclass
class Result:
    """What was found with one package; an empty text means that all is well."""

    package: str
    date: str
    version: str = ""
    zarr: str = ""
    python: str = ""
    not_installed: str = ""
    trip: str = ""
    suite: Counts | None = None
    no_suite: str = ""

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.package}.json").write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Result:
        values = json.loads(path.read_text())
        if values["suite"] is not None:
            values["suite"] = Counts(**values["suite"])
        return cls(**values)


def count(theirs: Outcomes, ours: Outcomes) -> Counts:
    """Compare two runs of a suite."""
    lost = theirs.passed - ours.passed
    endings = (("zarr-python", theirs.ended), ("omnizarr", ours.ended))
    return Counts(
        theirs=len(theirs.passed),
        ours=len(ours.passed),
        gained=len(ours.passed - theirs.passed),
        lost={test: ": ".join(ours.tests.get(test, ("not run", ""))) for test in sorted(lost)},
        ended="; ".join(f"on {name}: {ended}" for name, ended in endings if ended),
    )


def by_reason(package: str, counts: Counts) -> dict[str, list[str]]:
    """Return the tests that differ, sorted by their reasons, most first."""
    found: dict[str, list[str]] = defaultdict(list)
    for test, message in counts.lost.items():
        found[explain(package, test, message)].append(test)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))
