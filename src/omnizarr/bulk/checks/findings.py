"""Findings of a verification: their kinds, and the report that counts them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, get_args

from omnizarr.bulk.journal import Outcome
from omnizarr.bulk.options import Depth
from omnizarr.errors import Problem
from omnizarr.extension import counted, paths, section_of

Coords: TypeAlias = tuple[int, ...]
Level: TypeAlias = Literal["error", "warning"]
Kind: TypeAlias = Literal[
    "metadata",  # a document breaks a rule of its specification
    "unsupported",  # an extension is unknown here, so that chunks cannot be checked
    "damaged-chunk",
    "missing-chunk",
    "outside-chunk",  # stored, but outside the array's shape
    "incomplete",  # the writer of a node was interrupted, or is at work
    "stale-consolidated",
    "convention",  # OME-Zarr, CF or GeoZarr
    "orphan",  # a key that belongs to no node
    "leftover",  # temporary files, locks, unfinished nodes, journals
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_FINDINGS = 10_000  # of each kind that a report lists; the others are only counted


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: the node, the key, the chunk or field if there is one, and the reason.

    `kind` is one of `KINDS`. Findings in documents have the `field`, also as a JSON `pointer`
    (RFC 6901), and the `rule`: the section of the specification that applies.
    """

    path: str
    key: str
    message: str
    chunk: Coords | None = None
    level: Level = "error"
    kind: Kind = "damaged-chunk"
    field: str = ""
    rule: str = ""

    @classmethod
    def of(cls, problem: Problem, path: str, kind: Kind, rule: str = "") -> Finding:
        """Return the finding for a problem of a document of the node at a path."""
        rule = rule or section_of(problem)
        return cls(
            paths.show(path), problem.key, problem.message, None, problem.level, kind,
            problem.field, rule,
        )  # fmt: skip

    @property
    def pointer(self) -> str:
        """The field as a JSON pointer."""
        return Problem(self.key, self.field, "").pointer

    def __str__(self) -> str:
        chunk = "" if self.chunk is None else f" chunk {self.chunk}"
        place = f"{self.key!r}, {self.field}" if self.field else repr(self.key)
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{self.path}{chunk} ({place}): {self.message}{rule}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {
            "kind": self.kind,
            "level": self.level,
            "path": self.path,
            "key": self.key,
            "chunk": None if self.chunk is None else list(self.chunk),
            "field": self.field,
            "pointer": self.pointer if self.field else "",
            "rule": self.rule,
            "message": self.message,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Finding:
        """Return the finding that `to_json` wrote."""
        values = {name: value for name, value in stored.items() if name != "pointer"}
        chunk = values.pop("chunk", None)
        return cls(chunk=None if chunk is None else tuple(chunk), **values)


# Members of the JSON that follow from others.
_DERIVED = ("ok", "complete", "omitted", "errors", "warnings")


@dataclass
class VerifyReport(Outcome):
    """The result of `verify`: counts of what was checked, and the problems found.

    At most `MAX_FINDINGS` findings of each kind are listed; `counts` has the number of all of them.
    """

    depth: Depth = "decode"
    groups: int = 0
    arrays: int = 0
    values: int = 0  # stored values that were checked: chunks, or shards
    chunks: int = 0  # stored chunks; for shards, their inner chunks
    unchecked: int = 0  # stored chunks without a checksum to compare
    skipped: int = 0  # stored values that were not chosen by `sample`
    absent: int = 0  # missing chunks, which read as the fill value
    bytes_read: int = 0
    tasks: int = 0  # that are done, and all that there are
    tasks_total: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # of all findings, by kind
    error_counts: dict[str, int] = field(default_factory=dict)  # of errors among them

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(self.error_counts.values())

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return sum(self.counts.values()) - self.errors

    @property
    def ok(self) -> bool:
        """True if nothing is damaged; warnings do not count."""
        return not self.errors

    @property
    def complete(self) -> bool:
        """True if everything was checked, not only a part of the job (`part`)."""
        return self.tasks == self.tasks_total

    @property
    def omitted(self) -> int:
        """The number of findings that are counted but not listed."""
        return sum(self.counts.values()) - len(self.findings)

    def add(self, *findings: Finding) -> None:
        """Count findings, and list them unless there are too many of their kind."""
        for each in findings:
            self._list([each])
            self.counts[each.kind] = self.counts.get(each.kind, 0) + 1
            if each.level == "error":
                self.error_counts[each.kind] = self.error_counts.get(each.kind, 0) + 1

    def _list(self, findings: list[Finding]) -> None:
        listed = Counter(self.counts)
        for each in findings:
            if listed[each.kind] < MAX_FINDINGS:
                self.findings.append(each)
            listed[each.kind] += 1

    def merge(self, other: Self) -> None:
        """Add the result of another part; its findings are listed up to the limit."""
        self._list(other.findings)
        self.depth = other.depth
        for each in dataclasses.fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, int):
                setattr(self, each.name, mine + theirs)
            elif isinstance(mine, dict):
                mine.update(Counter(mine) + Counter(theirs))

    def select(self, errors: Collection[str] = (), ignore: Collection[str] = ()) -> VerifyReport:
        """Return the report with warnings of some kinds as errors, and without other kinds."""
        kept = {kind: number for kind, number in self.counts.items() if kind not in ignore}
        bad = {
            kind: number if kind in errors else self.error_counts.get(kind, 0)
            for kind, number in kept.items()
        }
        found = [
            dataclasses.replace(f, level="error") if f.kind in errors else f
            for f in self.findings
            if f.kind not in ignore
        ]
        bad = {kind: number for kind, number in bad.items() if number}
        return dataclasses.replace(self, findings=found, counts=kept, error_counts=bad)

    def finish(self) -> None:
        """Sort the findings by path, key and chunk."""
        self.absent = max(0, self.absent)  # a chunk may be stored under two keys
        self.findings.sort(key=lambda f: (f.path, f.key, f.chunk or (), f.field))

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON; docs/checking.md describes it."""
        stored = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        stored["findings"] = [finding.to_json() for finding in self.findings]
        return {**stored, **{name: getattr(self, name) for name in _DERIVED}}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the report that `to_json` wrote."""
        values = {k: v for k, v in stored.items() if k not in _DERIVED}
        values["findings"] = [Finding.from_json(each) for each in stored["findings"]]
        return cls(**values)

    def __str__(self) -> str:
        unchecked = f" ({self.unchecked} without a checksum)" if self.unchecked else ""
        skipped = f", {counted(self.skipped, 'value')} not sampled" if self.skipped else ""
        omitted = f" ({self.omitted} of them not listed)" if self.omitted else ""
        part = "" if self.complete else "a part of the verification: "
        missing = f"{self.absent} missing" if self.complete else "others missing or unchecked"
        return (
            f"{part}{counted(self.groups, 'group')}, {counted(self.arrays, 'array')},"
            f" {counted(self.chunks, 'chunk')} stored{unchecked}{skipped}, {missing},"
            f" {counted(self.bytes_read, 'byte')} read;"
            f" {counted(self.errors, 'error')}, {counted(self.warnings, 'warning')}{omitted}"
        )
