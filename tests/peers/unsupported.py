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

from tests.peers.cases import Case

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
    problem_of: Callable[[Path, Case, Verb], str]  # of one library with what the other wrote
    problem_of_theirs: Callable[[Path, Case], str]  # of the other one

    def wrong(self, where: Path, these: list[Case], verb: Verb) -> list[str]:
        """Return the unexpected failures and successes of the cases."""
        wrong = []
        for one in these:
            reason = reason_for(self.table, self.version, verb, one)
            problem = self.problem_of(where, one, verb)
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
