"""Arrays that other libraries do not support, by version.

Both ways are asserted for the version that is installed: a case that the table names must fail,
every other case must work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from packaging.version import Version

import omnizarr as oz
from tests.peers import cases
from tests.peers.cases import ATTRIBUTES, Case

Verb = Literal["reads", "writes"]
VERBS: tuple[Verb, Verb] = ("reads", "writes")


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Cases that a library cannot read or write, and why."""

    verb: Verb
    format: int
    pattern: str  # of the names of cases
    reason: str
    since: str = "0"  # the first version that cannot
    until: str | None = None  # the first version that can again

    def names(self, one: Case) -> bool:
        return one.format == self.format and fnmatchcase(one.name, self.pattern)

    def holds(self, version: str) -> bool:
        now = Version(version)
        return Version(self.since) <= now and (self.until is None or now < Version(self.until))


def reason_for(table: Iterable[Unsupported], version: str, verb: Verb, one: Case) -> str | None:
    """Return why a version of a library does not support a case, or None."""
    for line in table:
        if line.verb == verb and line.names(one) and line.holds(version):
            return line.reason
    return None


@dataclass(frozen=True, slots=True)
class Exchange:
    """Arrays that this library and another one write for each other."""

    table: tuple[Unsupported, ...]
    version: str
    write: Callable[[Path, Case], None]  # an array, by the other library
    compare: Callable[[Path, Case], str]  # how what the other one reads differs
    attributes: tuple[int, ...] = (2, 3)  # the formats of which it has them

    def problem_of(self, here: Path, one: Case, verb: Verb) -> str:
        """Return why one library cannot read what the other wrote."""
        if verb == "reads":
            cases.write(cases.ours(here, one), one)
            return self.problem_of_theirs(here, one)
        try:
            self.write(here, one)
        except Exception as e:  # whatever the peer raises
            return f"{type(e).__name__}: {e}"
        attributes = ATTRIBUTES if one.format in self.attributes else {}
        return cases.compare(oz.open(here), one, attributes)

    def problem_of_theirs(self, here: Path, one: Case) -> str:
        """Return why the other library cannot read an array."""
        try:
            return self.compare(here, one)
        except Exception as e:
            return f"{type(e).__name__}: {e}"

    def wrong(self, where: Path, these: list[Case], verb: Verb) -> list[str]:
        """Return the unexpected failures and successes of the cases."""
        wrong = []
        for one in these:
            reason = reason_for(self.table, self.version, verb, one)
            problem = self.problem_of(where / one.name, one, verb)
            if problem and reason is None:
                wrong.append(f"{one.name}: {problem[:300]}")
            elif reason is not None and not problem:
                wrong.append(f"{one.name}: works now, although the table says: {reason}")
            elif reason is not None and not self.problem_of_theirs(where / one.name, one):
                wrong.append(f"{one.name}: it reads what it wrote, so the fault is ours")
        return wrong

    def check_table(self, every: list[Case]) -> None:
        """Raise if a row of the table matches no case."""
        for line in self.table:
            assert any(line.names(one) for one in every), line.pattern
