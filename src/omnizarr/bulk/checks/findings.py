"""Findings of a verification: their kinds, the report that counts them, and a file of them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, Self, TypeAlias, get_args

from omnizarr.bulk.journal import Outcome
from omnizarr.bulk.options import Depth
from omnizarr.errors import InvalidArgument, Problem, StoreError, known_names
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


_DERIVED = ("ok", "complete", "omitted")  # members of the JSON that follow from others


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
    errors: int = 0
    warnings: int = 0
    tasks: int = 0  # that are done, and all that there are
    tasks_total: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # of all findings, by kind
    error_counts: dict[str, int] = field(default_factory=dict)  # of errors among them
    # Called with the result of each part that is merged; not stored.
    listener: Callable[[VerifyReport], None] | None = field(default=None, compare=False, repr=False)

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
        return self.errors + self.warnings - len(self.findings)

    def add(self, finding: Finding) -> None:
        """Count a finding, and list it unless there are too many of its kind."""
        if self.counts.get(finding.kind, 0) < MAX_FINDINGS:
            self.findings.append(finding)
        _add(self.counts, {finding.kind: 1})
        if finding.level == "error":
            self.errors += 1
            _add(self.error_counts, {finding.kind: 1})
        else:
            self.warnings += 1

    def merge(self, other: Self) -> None:
        """Add the result of another part; its findings are listed up to the limit."""
        self.depth = other.depth
        before = dict(self.counts)
        for finding in other.findings:
            if before.get(finding.kind, 0) < MAX_FINDINGS:
                self.findings.append(finding)
                _add(before, {finding.kind: 1})
        _add(self.counts, other.counts)
        _add(self.error_counts, other.error_counts)
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int):
                setattr(self, each.name, value + getattr(other, each.name))
        if self.listener is not None:
            self.listener(other)

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
        total = sum(bad.values())
        return dataclasses.replace(
            self,
            findings=found,
            counts=kept,
            error_counts={kind: number for kind, number in bad.items() if number},
            errors=total,
            warnings=sum(kept.values()) - total,
        )

    def finish(self) -> None:
        """Sort the findings by path, key and chunk."""
        self.absent = max(0, self.absent)  # a chunk may be stored under two keys
        self.findings.sort(key=lambda f: (f.path, f.key, f.chunk or (), f.field))

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON; docs/checking.md describes it."""
        names = (each.name for each in dataclasses.fields(self) if each.name != "listener")
        stored = {name: getattr(self, name) for name in names}
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


def _add(counts: dict[str, int], others: Mapping[str, int]) -> None:
    for kind, number in others.items():
        counts[kind] = counts.get(kind, 0) + number


def check_kind(kind: str) -> Kind:
    """Return a kind of finding; raise if there is no such kind."""
    for each in KINDS:
        if each == kind:
            return each
    raise InvalidArgument(f"unknown kind of finding {kind!r}; {known_names(kind, KINDS)}")


class FindingsFile:
    """A file with one finding in each line, as JSON; every finding is written, without a limit.

    With `resume` the file of an interrupted verification is continued: findings that it has
    already are not written again.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False) -> None:
        self.path, self.resume = os.fspath(path), resume
        self._known: set[bytes] = set()  # only where findings may come again
        try:
            if resume and os.path.exists(self.path):
                self._keep_complete_lines()
            else:
                with open(self.path, "wb"):
                    pass
        except OSError as e:
            raise StoreError(f"cannot write the report {self.path!r}: {e.strerror or e}") from e

    def __deepcopy__(self, memo: object) -> Self:
        return self  # copies of a report write to the same file

    def _keep_complete_lines(self) -> None:
        """Note the findings in the file, and cut off a line that was not written in full."""
        with open(self.path, "r+b") as file:
            end = 0
            for line in file:
                if line.endswith(b"\n"):
                    end += len(line)
                    self._known.add(_digest(line))
            file.truncate(end)

    def write(self, findings: Iterable[Finding], store: str = "") -> None:
        """Append findings of a store."""
        lines = (
            json.dumps({"store": store, **finding.to_json()}).encode() + b"\n"
            for finding in findings
        )
        new = [line for line in lines if not self.resume or self._is_new(line)]
        try:
            if new:
                with open(self.path, "ab") as file:
                    file.writelines(new)
        except OSError as e:
            raise StoreError(f"cannot write the report {self.path!r}: {e.strerror or e}") from e

    def _is_new(self, line: bytes) -> bool:
        digest, before = _digest(line), len(self._known)
        self._known.add(digest)
        return len(self._known) > before


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=12).digest()
