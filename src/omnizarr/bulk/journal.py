"""Tasks and their results, and the journal of completed tasks.

A journal is kept beside the output of a job, or in a folder of the user's for a job that only
reads, so that a job that was killed is finished by the same call with ``resume=True``.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import os
import shutil
import sys
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from omnizarr.errors import OmnizarrError, StoreError, warn
from omnizarr.extension import LocalStore, MemoryStore, Part, Store, info, key_digest, stores

FLUSH, MAX_FLUSH = 1.0, 60.0  # seconds between two entries of a journal
BATCH = 256  # items of one task
EXPIRES = 30 * 86400  # seconds after which nobody resumes a job that only reads


@dataclass
class Outcome:
    """The result of a task or of a job: numbers are added, lists and dictionaries are joined.

    Every field has a default, so that there is an empty result.

    Examples:
        >>> oz.run(oz.jobs.Stats(oz.create_array(shape=3, fill_value=1))).to_json()["errors"]
        {}
    """

    def merge(self, other: Self) -> None:
        """Add the result of another part of the same job.

        Args:
            other: The other result.

        Examples:
            >>> from dataclasses import dataclass
            >>> @dataclass
            ... class Count(oz.jobs.Outcome):
            ...     done: int = 0
            >>> count = Count(2)
            >>> count.merge(Count(3))
            >>> count.done
            5
        """
        for each in dataclasses.fields(other):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, dict):
                mine.update(theirs)
            elif isinstance(mine, list):
                mine.extend(theirs)
            elif isinstance(mine, (int, float)) and not isinstance(mine, bool):
                setattr(self, each.name, mine + theirs)

    def _repr_html_(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.repr}
        return info.report_card(type(self).__name__, shown)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; `from_json` reads it.

        Examples:
            >>> oz.save("a.zarr", np.arange(3))
            >>> oz.verify("a.zarr").to_json()["arrays"]
            1
        """
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the result that `to_json` wrote.

        Args:
            stored: The JSON.

        Examples:
            >>> oz.save("a.zarr", np.arange(3))
            >>> report = oz.verify("a.zarr")
            >>> type(report).from_json(report.to_json()) == report
            True
        """
        return cls(**stored)


T = TypeVar("T")
O = TypeVar("O", bound=Outcome)  # noqa: E741 - the outcome of one kind of job


@dataclass(frozen=True, slots=True)
class Task(Generic[O]):
    """An independent part of a job, which can be pickled, run anywhere, and be repeated."""

    id: int  # a digest of what it does, see `task_id`
    work: Callable[[], O]
    size: int = 0  # bytes that it handles, for the progress
    label: str = ""  # the path of the array, for the progress


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def task_id(*parts: Any) -> int:
    """Return the id of a task from everything that distinguishes it from others of its job."""
    try:
        text = _ENCODER.encode(parts).encode()  # quick, also for 1,000 keys
    except TypeError:
        return int(key_digest(*parts)[:16], 16)
    return int.from_bytes(blake2b(text, digest_size=8).digest())


def in_batches(
    items: Iterable[T], size: Callable[[T], int], nbytes: int
) -> Iterator[tuple[T, ...]]:
    """Yield batches of at most `BATCH` items and `nbytes` bytes; a larger item comes alone."""
    batch, total = list[T](), 0
    for item in items:
        each = size(item)
        if batch and (len(batch) >= BATCH or total + each > nbytes):
            yield tuple(batch)
            batch, total = [], 0
        batch.append(item)
        total += each
    if batch:
        yield tuple(batch)


class TaskIds:
    """A set of ids of tasks: eight bytes for each of them, where a set of integers needs 70."""

    def __init__(self, ids: NDArray[np.uint64]) -> None:
        self._sorted = memoryview(np.unique(ids).data)  # whose items are integers

    def __contains__(self, id: int) -> bool:
        at = bisect_left(self._sorted, id)
        return at < len(self._sorted) and self._sorted[at] == id

    def __len__(self) -> int:
        return len(self._sorted)


NONE = TaskIds(np.empty(0, np.uint64))


def _disjoint(entries: list[tuple[NDArray[np.uint64], O]]) -> list[tuple[NDArray[np.uint64], O]]:
    """Return the entries without a task of an earlier one, such as two runs at once write.

    So each result counts once; tasks of the others alone are repeated.
    """
    seen, found = set[int](), []
    for ids, result in entries:
        if seen.isdisjoint(some := ids.tolist()):
            seen.update(some)
            found.append((ids, result))
    return found


class Journal(Generic[O]):
    """The tasks of a job that are done, and their merged result, as small values in a store.

    Each process that runs a part of a job writes entries of its own, so that none waits for
    another. An entry is written every second, later every minute; tasks after the last one are
    repeated on resume. `outcome` is the result before the first task.
    """

    def __init__(self, store: Store, prefix: str, outcome: O, *, optional: bool = False) -> None:
        self.store, self.prefix, self.outcome = store, prefix, outcome
        self.optional = optional  # a job that only reads goes on where no journal can be written
        self._writer = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._number = 0
        self.used = False  # there is an entry
        self._new = array("Q")
        self._result = type(outcome)()
        self._began = self._written = time.monotonic()

    def read(self) -> tuple[TaskIds, O]:
        """Return the ids of all tasks that are done, and the result of the job so far."""
        keys, entries = self._keys(), []
        texts = stores.get_many(self.store, [(key, None) for key in keys])
        for key, text in zip(keys, texts, strict=True):
            try:
                entry = json.loads(text or b"")
                ids = np.frombuffer(base64.b64decode(entry["tasks"]), "<u8").astype(np.uint64)
                entries.append((ids, type(self.outcome).from_json(entry["outcome"])))
            except (ValueError, KeyError, TypeError) as e:
                raise StoreError(f"the journal entry {key!r} in {self.store!r} is damaged") from e
        self.used = bool(entries)
        done = TaskIds(np.concatenate([np.empty(0, np.uint64), *(ids for ids, _ in entries)]))
        total = copy.deepcopy(self.outcome)
        if len(done) < sum(len(ids) for ids, _ in entries):
            entries = _disjoint(entries)
            done = TaskIds(np.concatenate([ids for ids, _ in entries]))
        for _, result in entries:
            total.merge(result)
        return done, total

    def _keys(self) -> list[str]:
        listed = stores.can_list(self.store)
        return sorted(stores.list_prefix(self.store, self.prefix)) if listed else []

    def add(self, task: Task[O], result: O) -> None:
        """Note that a task is done."""
        self._new.append(task.id)
        self._result.merge(result)
        now = time.monotonic()
        # So a day of work has hundreds of entries rather than 86,400.
        if now - self._written >= min(max(FLUSH, (now - self._began) / 100), MAX_FLUSH):
            self.flush()

    def flush(self, quiet: bool = False) -> None:
        """Store the notes since the last entry; with `quiet`, do not warn if that fails."""
        if self._new:
            self.used = True
            ids = np.array(self._new, "<u8").tobytes()
            entry = {"tasks": base64.b64encode(ids).decode(), "outcome": self._result.to_json()}
            key = f"{self.prefix}{self._writer}-{self._number:06d}"
            try:
                self.store.set(key, json.dumps(entry).encode())
            except OmnizarrError as e:
                if not self.optional:
                    raise
                if not quiet:
                    warn(f"the job cannot be resumed if it is interrupted: {e}")
                self.store = MemoryStore()
            self._number += 1
            self._new, self._result = array("Q"), type(self.outcome)()
        self._written = time.monotonic()

    def end_part(self, part: Part, rounds: int) -> bool:
        """Record the end of a part; return True if every part has ended `rounds` times."""
        entry = {"tasks": "", "outcome": type(self.outcome)().to_json()}
        key = f"{self.prefix}part-{part[0]}-of-{part[1]}-{self._writer}"
        self.store.set(key, json.dumps(entry).encode())
        runs = Counter(key[len(self.prefix) :].split("-of-")[0] for key in self._keys())
        return all(runs[f"part-{number}"] >= rounds for number in range(1, part[1] + 1))

    def erase(self) -> None:
        """Erase all entries."""
        if stores.can_list(self.store):
            stores.erase_prefix(self.store, self.prefix)


def user_journal(digest: str) -> tuple[Store, str]:
    """Return the place of a journal that is not beside an output: a folder of the user's."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or home
    folder = Path(home) / "omnizarr" / "jobs"
    with suppress(OSError):
        for old in folder.iterdir():
            if time.time() - old.stat().st_mtime > EXPIRES:
                shutil.rmtree(old, ignore_errors=True)
    return LocalStore(folder), f"{digest[:20]}/"
