"""Documents of a hierarchy: their problems, the arrays that they describe, and leftovers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import blake2b

from omnizarr.bulk.checks.findings import Finding, Kind, VerifyReport
from omnizarr.errors import OmnizarrError, Problem
from omnizarr.extension import (
    FOLDER,
    JOURNAL,
    ArrayModel,
    BoundArray,
    CheckedNode,
    Format,
    GroupModel,
    Location,
    Probe,
    check_consolidated,
    chunk_counts,
    consolidated,
    fetch_probe,
    interrupted,
    list_dir,
    paths,
    stores,
    walk_checked,
)


class Hierarchy:
    """The nodes below a location: their arrays, the keys of their metadata, and their problems."""

    def __init__(self, start: Location, report: VerifyReport) -> None:
        self.start, self.report = start, report
        self.arrays: dict[str, BoundArray] = {}  # by the prefix of their chunk keys
        self.unreadable: dict[str, BoundArray] = {}  # arrays whose chunks cannot be checked
        self.unreadable_nodes: set[str] = set()  # prefixes of keys
        self.metadata_keys: set[str] = set(start.format.root_documents())
        # A conversion in place leaves the metadata of the old format beside the new.
        self.formats = probe_formats(start)
        self._digest = blake2b(digest_size=20)

    @property
    def digest(self) -> str:
        """A digest of all arrays."""
        return self._digest.hexdigest()

    def bound(self) -> Iterator[BoundArray]:
        """Yield the arrays whose chunks can be checked."""
        return iter(self.arrays.values())

    def read(self) -> None:
        """Check the metadata of all nodes, and bind the arrays."""
        for format in self.formats:
            own = format is self.start.format
            nodes: set[str] = set()
            groups: list[str] = []
            for checked in walk_checked(Location(self.start.store, self.start.path, format)):
                path = checked.location.path
                if checked.node is not None:
                    nodes.add(path)
                if isinstance(checked.node, GroupModel):
                    groups.append(path)
                self._add_node(checked, own)
            for group in groups:
                self._check_consolidated(format, group, nodes)

    def _add_node(self, checked: CheckedNode, own: bool) -> None:
        location, node = checked.location, checked.node
        for format in self.formats if own else (location.format,):
            self.metadata_keys.update(format.keys(location.path))
            if not isinstance(node, ArrayModel):
                key = consolidated.key(format, location.path)
                self.metadata_keys.update(() if key is None else (key,))
        unknown = False
        for problem in checked.problems:
            kind: Kind = "metadata"
            if own and isinstance(node, ArrayModel) and problem.field and _is_unknown(problem):
                unknown, kind = True, "unsupported"
                message = f"its chunks cannot be checked: {problem.message}"
                problem = Problem(problem.key, problem.field, message)
            self.report.add(Finding.of(problem, location.path, kind))
        if own and isinstance(node, ArrayModel):
            self.report.arrays += 1
            self._digest.update(f"{location.path}\0{node!r}\0".encode("utf-8", "surrogatepass"))
            self._bind(location, node, unknown or any(p.level == "error" for p in checked.problems))
        elif own and isinstance(node, GroupModel):
            self.report.groups += 1
        elif own:
            self.unreadable_nodes.add(location.format.chunk_prefix(location.path))

    def _bind(self, location: Location, node: ArrayModel, reported: bool) -> None:
        prefix = location.format.chunk_prefix(location.path)
        array = BoundArray(location.store, location.path, prefix, node)
        try:
            array.check()
            _ = array.encoding, array.chunk_store
            if 0 not in array.grid.shape:
                _ = array.first_pipeline
        except OmnizarrError as e:
            self.unreadable[prefix] = array
            if not reported:
                key = location.format.keys(location.path)[0]
                problem = Problem(key, "", f"its chunks cannot be checked: {e}")
                self.report.add(Finding.of(problem, location.path, "unsupported"))
            return
        self.arrays[prefix] = array
        self.report.absent += math.prod(chunk_counts(array))

    def _check_consolidated(self, format: Format, group: str, nodes: set[str]) -> None:
        problems: list[Problem] = []
        check_consolidated(self.start.store, format, group, nodes, problems)
        for problem in problems:
            self.report.add(Finding.of(problem, group, "stale-consolidated"))

    def report_leftovers(self) -> None:
        """Report what writers have left in the root of the store, or are still using."""
        for staged in interrupted(self.start.store):
            key = f"{FOLDER}/{staged.name}"
            if staged.concerns(self.start.path):
                path, message = paths.show(staged.path or ""), staged.message()
                self.report.add(Finding(path, key, message, None, "error", "incomplete"))
                continue
            message = "is an unfinished node, or one that is being written; see omnizarr repair"
            self._add_leftover(key, message)
        if not stores.can_list(self.start.store):
            return
        for prefix in list_dir(self.start.store, f"{JOURNAL}/")[1]:
            message = (
                "is the journal of a job that is running or was interrupted; the same call with"
                " resume=True finishes the job, omnizarr repair removes the journal"
            )
            self._add_leftover(prefix.rstrip("/"), message)

    def _add_leftover(self, key: str, message: str) -> None:
        path = paths.show(self.start.path)
        self.report.add(Finding(path, key, message, None, "warning", "leftover"))

    def owner(self, key: str) -> BoundArray | None:
        """Return the array that a key may be a chunk of: the innermost one that contains it."""
        for prefix in _prefixes(key):
            found = self.arrays.get(prefix) or self.unreadable.get(prefix)
            if found is not None:
                return found
        return None

    def is_unreadable(self, key: str) -> bool:
        """Return True if a key is below a node that cannot be read."""
        return not self.unreadable_nodes.isdisjoint(_prefixes(key))


def _prefixes(key: str) -> Iterator[str]:
    """Yield the prefixes that contain a key, the innermost first."""
    end = len(key)
    while end > 0:
        end = key.rfind("/", 0, end)
        yield key[: end + 1]


def _is_unknown(problem: Problem) -> bool:
    """Return True for an extension that is unknown here, or whose package is not installed."""
    return problem.level == "warning" and problem.field.startswith(_EXTENSIONS)


_EXTENSIONS = ("data_type", "fill_value", "chunk_grid", "chunk_key_encoding", "codecs", "storage_t")


def probe_formats(start: Location) -> list[Format]:
    """Return the formats with metadata at the start of the verification, the detected one first."""
    probe = Probe(start.path)
    found = probe.formats(fetch_probe(start.store, probe), [])
    others = [format for format in found if type(format) is not type(start.format)]
    return [start.format, *others]
