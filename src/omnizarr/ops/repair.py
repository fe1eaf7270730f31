"""Repair what killed writers left behind.

That is temporary files, locks, unfinished nodes, and outdated consolidated metadata.
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
from omnizarr.hierarchy.open import consolidate_metadata, consolidated_is_stale
from omnizarr.stores import (
    Store,
    can_list,
    check_writable,
    file_root,
    list_prefix,
    resolve,
    supports_compare_and_set,
)
from omnizarr.stores.local.atomic_files import PARTIAL
from omnizarr.stores.operations import Conditional
from omnizarr.stores.staging import FOLDER, interrupted, recover

MIN_AGE = 60.0  # seconds
REMOTE_TIMEOUT = 86400.0  # seconds after which a writer on another machine is considered dead
State: TypeAlias = Literal[
    "unused", "in use", "removed", "finished", "in the way", "out of date", "renewed"
]
Kind: TypeAlias = Literal["unfinished value", "unfinished node", "lock", "consolidated metadata"]
_PARTIAL = re.compile(re.escape(PARTIAL) + r"(\d+)(_[0-9a-f]+)?\Z")
_LOCK = re.compile(re.escape(file_locks.NAME) + r"[a-z]+\Z")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or key that a killed writer left behind: not data, or out of date."""

    path: str
    kind: Kind
    state: State
    nbytes: int

    def __str__(self) -> str:
        return f"{self.state}: {self.kind} {self.path} ({self.nbytes} bytes)"


def repair(
    store: Any,
    *,
    dry_run: bool = True,
    older_than: float = MIN_AGE,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Leftover]:
    """List what killed writers left behind in a store; ``dry_run=False`` removes or repairs it.

    Unfinished nodes are erased; a complete one that was about to replace another node is moved to
    its final path. A directory may contain temporary files and lock files. Files that a process of
    this machine uses are kept, and so are files younger than `older_than` seconds, because
    processes on other machines cannot be detected. Buckets and databases may contain locks; it
    takes 15 seconds to find out if a lock is still being renewed. Consolidated metadata of the root
    that differs from the metadata of the nodes is rebuilt. Values are never touched: a killed
    writer leaves each value either old or new, never torn.
    """
    where = resolve(store, storage_options=storage_options)
    root = file_root(where)
    if root is not None and not root.is_dir():
        raise NodeNotFound(f"directory {str(root)!r} does not exist")
    if not dry_run:
        check_writable(where)
    if not can_list(where):
        raise StoreError(f"{where!r} cannot list its keys, so leftovers cannot be found")
    found = [*_unfinished_nodes(where, not dry_run)]
    if root is not None:
        found += _leftovers(str(root), not dry_run, older_than)
    elif supports_compare_and_set(where):
        found += _leases(where, not dry_run)
    return [*found, *_consolidated(where, not dry_run)]


def _unfinished_nodes(store: Store, finish: bool) -> Iterator[Leftover]:
    """Yield unfinished nodes; with `finish`, move complete ones into place and erase the rest."""
    for staged in interrupted(store):
        age = time.time() - staged.began
        running = _is_running(staged.process) if staged.here else age < REMOTE_TIMEOUT
        done: State = "finished" if staged.complete else "removed"
        if not running and finish:
            try:
                recover(store, staged.name)
            except StoreError as e:
                warn(str(e))
                done = "in the way"
        state: State = "in use" if running else done if finish else "unused"
        yield Leftover(f"{FOLDER}/{staged.name}", "unfinished node", state, 0)


def _consolidated(store: Store, renew: bool) -> Iterator[Leftover]:
    """Yield the root's consolidated metadata if a killed writer left it out of date."""
    try:
        if not consolidated_is_stale(store):
            return
    except OmnizarrError:
        return  # no hierarchy, or an invalid one, which `validate` reports
    if renew:
        consolidate_metadata(store)
    yield Leftover(repr(store), "consolidated metadata", "renewed" if renew else "out of date", 0)


def _leases(store: Conditional, remove: bool) -> Iterator[Leftover]:
    """Yield the keys of leases, with their state: in use if they are being renewed."""
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
                    recent = time.time() - status.st_mtime < older_than
                    unused = not recent and not _is_running(int(partial[1]))
                    if unused and remove:
                        os.unlink(path)
            except FileNotFoundError:
                continue  # its writer was still running and has finished
            except OSError as e:
                raise StoreError(f"cannot remove {path!r}: {e.strerror or e}") from e
            kind: Kind = "lock" if partial is None else "unfinished value"
            state: State = "in use" if not unused else "removed" if remove else "unused"
            yield Leftover(path, kind, state, status.st_size)


def _raise(error: OSError) -> None:
    raise StoreError(f"cannot list {error.filename!r}: {error.strerror or error}") from error


def _is_running(process: int) -> bool:
    """Return True if a process of this machine has this number, or may have it."""
    if sys.platform == "win32":
        return True  # os.kill would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
