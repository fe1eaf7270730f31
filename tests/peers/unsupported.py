"""Arrays that other libraries do not support, by version.

Both ways are asserted for the version that is installed: a case that the table names must fail,
every other case must work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
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
