"""Putting right what writers left behind that were killed.

Unfinished files, locks, and consolidated metadata that are not those of now.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from omnizarr.concurrency import file_locks, leases
from omnizarr.errors import NodeNotFound, OmnizarrError, StoreError, warn
from omnizarr.hierarchy.open import consolidate_metadata, copies_are_stale
from omnizarr.stores import (
    Store,
    can_list,
    check_writable,
    compares,
    file_root,
    list_prefix,
    resolve,
)
from omnizarr.stores.local.files import PARTIAL
from omnizarr.stores.operations import Conditional
from omnizarr.stores.staging import FOLDER, interrupted, recover

OLD = 60.0  # seconds
A_DAY = 86400.0  # seconds after which a writer on another machine is taken for dead
State: TypeAlias = Literal[
    "unused", "in use", "removed", "finished", "in the way", "out of date", "renewed"
]
What: TypeAlias = Literal["unfinished value", "unfinished node", "lock", "consolidated metadata"]
_PARTIAL = re.compile(re.escape(PARTIAL) + r"(\d+)(_[0-9a-f]+)?\Z")
_LOCK = re.compile(re.escape(file_locks.NAME) + r"[a-z]+\Z")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or key that is no data, or is not that of now: what is left of a write or a lock."""

    path: str
    kind: What
    state: State
    nbytes: int

    def __str__(self) -> str:
        return f"{self.state}: {self.kind} {self.path} ({self.nbytes} bytes)"


def repair(
    store: Any,
    *,
    dry_run: bool = True,
    older_than: float = OLD,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Leftover]:
    """What killed writers left in a store; ``dry_run=False`` removes it.

    Nodes that were being written beside others are erased; one that was complete, and was just
    replacing another, is put in its place. In a directory there may be files of single values and
    of locks. Left alone is what a process of this machine uses, and what was changed within
    `older_than` seconds, since processes of other machines cannot be seen. In buckets and
    databases there may be locks; whether somebody renews one takes a quarter of a minute to see.
    Consolidated metadata of the root that differ from the documents below are made again.
    Values are never touched: a killed writer leaves each as it was, or as it was to be.
    """
    where = resolve(store, storage_options=storage_options)
    root = file_root(where)
    if root is not None and not root.is_dir():
        raise NodeNotFound(f"there is no directory {str(root)!r}")
    if not dry_run:
        check_writable(where)
    if not can_list(where):
        raise StoreError(f"{where!r} cannot list its keys, so leftovers cannot be found")
    found = [*_unfinished_nodes(where, not dry_run)]
    if root is not None:
        found += _leftovers(str(root), not dry_run, older_than)
    elif compares(where):
        found += _leases(where, not dry_run)
    return [*found, *_copies(where, not dry_run)]


def _unfinished_nodes(store: Store, finish: bool) -> Iterator[Leftover]:
    """Nodes that were being written beside others; what was complete is put in its place."""
    for staged in interrupted(store):
        running = _runs(staged.process) if staged.here else time.time() - staged.began < A_DAY
        done: State = "finished" if staged.complete else "removed"
        if not running and finish:
            try:
                recover(store, staged.name)
            except StoreError as e:
                warn(str(e))
                done = "in the way"
        state: State = "in use" if running else done if finish else "unused"
        yield Leftover(f"{FOLDER}/{staged.name}", "unfinished node", state, 0)


def _copies(store: Store, renew: bool) -> Iterator[Leftover]:
    """The copies of documents at the root, where a writer was killed before it renewed them."""
    try:
        if not copies_are_stale(store):
            return
    except OmnizarrError:
        return  # no hierarchy, or one that `validate` tells about
    if renew:
        consolidate_metadata(store)
    yield Leftover(repr(store), "consolidated metadata", "renewed" if renew else "out of date", 0)


def _leases(store: Conditional, remove: bool) -> Iterator[Leftover]:
    """Keys of locks that nobody renews."""
    keys = [k for k in list_prefix(store, "") if _LOCK.fullmatch(k.rpartition("/")[2])]
    before = {key: store.generation(key) for key in keys}
    if before:
        time.sleep(leases.LEASE)
    for key, generation in before.items():
        text, now = store.get_versioned(key)
        if text is None:
            continue
        unused = now == generation
        if unused and remove:
            unused = leases.remove(store, key, now)
        state: State = "in use" if not unused else "removed" if remove else "unused"
        yield Leftover(key, "lock", state, len(text))


def _leftovers(root: str, remove: bool, older_than: float) -> Iterator[Leftover]:
    for folder, folders, names in os.walk(root, onerror=_raise):
        folders[:] = [name for name in folders if name != FOLDER]
        for name in sorted(names):
            path = os.path.join(folder, name)
            partial = _PARTIAL.search(name)
            if partial is None and not _LOCK.fullmatch(name):
                continue
            try:
                status = os.stat(path)
                if partial is None:
                    unused = file_locks.is_unused(path, remove=remove)
                else:
                    fresh = time.time() - status.st_mtime < older_than
                    unused = not fresh and not _runs(int(partial[1]))
                    if unused and remove:
                        os.unlink(path)
            except FileNotFoundError:
                continue  # its writer was alive, and has finished
            except OSError as e:
                raise StoreError(f"cannot remove {path!r}: {e.strerror or e}") from e
            kind: What = "lock" if partial is None else "unfinished value"
            state: State = "in use" if not unused else "removed" if remove else "unused"
            yield Leftover(path, kind, state, status.st_size)


def _raise(error: OSError) -> None:
    raise StoreError(f"cannot list {error.filename!r}: {error.strerror or error}") from error


def _runs(process: int) -> bool:
    """Whether a process of this machine has that number, or may have."""
    if sys.platform == "win32":
        return True  # asking would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
