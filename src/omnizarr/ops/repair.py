"""Removing what writers left behind that were killed: unfinished files, and files of locks."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from omnizarr.errors import NodeNotFound, StoreError
from omnizarr.stores import LocalStore, check_writable, locks, resolve
from omnizarr.stores.local import PARTIAL

OLD = 60.0  # seconds
State: TypeAlias = Literal["unused", "in use", "removed"]
_PARTIAL = re.compile(re.escape(PARTIAL) + r"(\d+)(_[0-9a-f]+)?\Z")
_LOCK = re.compile(re.escape(locks.NAME) + r"[a-z]+\Z")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that is no data: what is left of a write, or of a lock."""

    path: str
    kind: Literal["unfinished value", "lock"]
    state: State
    nbytes: int

    def __str__(self) -> str:
        return f"{self.state}: {self.kind} {self.path} ({self.nbytes} bytes)"


def repair(store: Any, *, dry_run: bool = True, older_than: float = OLD) -> list[Leftover]:
    """What killed writers left below a directory; ``dry_run=False`` removes it.

    Left alone is what a process of this machine uses, and what was changed within `older_than`
    seconds, since processes of other machines cannot be seen. Values are never touched: a killed
    writer leaves each as it was, or as it was to be.
    """
    where = resolve(store)
    if not isinstance(where, LocalStore):
        raise StoreError(f"{where!r} is no directory; only directories can have such leftovers")
    if not os.path.isdir(where.root):
        raise NodeNotFound(f"there is no directory {str(where.root)!r}")
    if not dry_run:
        check_writable(where)
    return [*_leftovers(str(where.root), not dry_run, older_than)]


def _leftovers(root: str, remove: bool, older_than: float) -> Iterator[Leftover]:
    for folder, _, names in os.walk(root, onerror=_raise):
        for name in sorted(names):
            path = os.path.join(folder, name)
            partial = _PARTIAL.search(name)
            if partial is None and not _LOCK.fullmatch(name):
                continue
            try:
                status = os.stat(path)
                if partial is None:
                    unused = locks.unused(path, remove=remove)
                else:
                    fresh = time.time() - status.st_mtime < older_than
                    unused = not fresh and not _runs(int(partial[1]))
                    if unused and remove:
                        os.unlink(path)
            except FileNotFoundError:
                continue  # its writer was alive, and has finished
            except OSError as e:
                raise StoreError(f"cannot remove {path!r}: {e.strerror or e}") from e
            kind: Literal["unfinished value", "lock"] = (
                "lock" if partial is None else ("unfinished value")
            )
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
