"""Repair what killed writers left behind.

That is temporary files, locks, unfinished nodes, interrupted jobs, and outdated consolidated
metadata. What an interrupted job has written is kept, since the job can be resumed; it is removed
only on request.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnizarr import consolidate_metadata, extension
from omnizarr.errors import Conflict, InvalidArgument, NodeNotFound, OmnizarrError, StoreError, warn
from omnizarr.extension import Kind, Mark, Store, file_locks, paths, publication, stage, stores

MIN_AGE = 60.0  # seconds
REMOTE_TIMEOUT = 86400.0  # seconds after which a writer on another machine is considered dead
_PARTIAL = re.compile(re.escape(extension.PARTIAL) + r"(\d+)(_[0-9a-f]+)?\Z")
_LOCK = re.compile(re.escape(file_locks.NAME) + r"[a-z]+[-0-9a-f]*\Z")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or key that a killed writer left behind: not data, or out of date."""

    path: str
    kind: str  # such as "lock" or "interrupted job"
    state: str  # such as "unused", "in use", "resumable" or "removed"
    nbytes: int
    operation: str = ""  # that was interrupted, if it is known

    def __str__(self) -> str:
        operation = f", {self.operation}" if self.operation else ""
        return f"{self.state}: {self.kind} {self.path} ({self.nbytes} bytes){operation}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return dataclasses.asdict(self)


def repair(
    store: Any,
    *,
    dry_run: bool = True,
    older_than: float = MIN_AGE,
    remove_jobs: bool = False,
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

    An interrupted job, such as a conversion, is ``resumable``: the same call with ``resume=True``
    finishes it, and keeps what is written. It stays unless `remove_jobs`: then its chunks, its
    journal and the marker of the incomplete node are erased, too.

    Args:
        store: A path, URL, dict or store. For an array or group, it is the whole store that the
            node is in, since writers do not leave everything at the node that they write.
        dry_run: False to remove or repair what is found.
        older_than: The age in seconds of files that may be removed.
        remove_jobs: True to remove interrupted jobs, too.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        All that was found, with what was done about it.

    Raises:
        NodeNotFound: If there is nothing at the path.
        StoreError: If the store cannot list its keys.
        InvalidArgument: If `remove_jobs` is set for an array or group below the root.
        ReadOnly: If something would be removed from a read-only store.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> oz.repair("a.zarr")
        []
    """
    where, path = extension.lookup.resolve_root(store, storage_options=storage_options)
    if path and remove_jobs and not dry_run:
        raise InvalidArgument(
            f"remove_jobs erases the interrupted jobs of the whole store, and {paths.show(path)} is"
            f" a part of {where!r}; give the store"
        )
    root = stores.file_root(where)
    if root is not None and not root.is_dir():
        raise NodeNotFound(f"directory {str(root)!r} does not exist")
    if not dry_run:
        extension.check_node_writable(store)
        stores.check_writable(where)
    if not stores.can_list(where):
        raise StoreError(f"{where!r} cannot list its keys, so leftovers cannot be found")
    locks = [] if root is not None else [*_leases(where, not dry_run)]
    busy = any(each.state == "in use" and f"{file_locks.NAME}job" in each.path for each in locks)
    jobs = _Jobs(where, root, not dry_run and remove_jobs, not dry_run, older_than, busy)
    found = [*_unfinished_nodes(where, not dry_run, remove_jobs), *jobs.find()]
    if not any(each.state in ("in use", "resumable", "in the way") for each in found):
        for prefix in stores.list_dir(where, f"{stage.INTERMEDIATE}/")[1]:  # of no job any more
            found.append(_below(where, prefix, "intermediate chunks", not dry_run))
    if root is not None:
        locks += _leftovers(str(root), not dry_run, older_than)
    return [*found, *locks, *_consolidated(where, not dry_run)]


def _unfinished_nodes(store: Store, finish: bool, remove_jobs: bool) -> Iterator[Leftover]:
    """Yield unfinished nodes; with `finish`, move complete ones into place and erase the rest."""
    for staged in publication.all_stages(store):
        mark, writer, pending = staged.mark, staged.writer, staged.pending
        running = writer.is_alive and (writer.here or time.time() - writer.began < REMOTE_TIMEOUT)
        done = "finished" if pending else "removed"
        if mark is not None and not (running or pending or mark.finished):
            left = _remove_job(store, staged) if finish and remove_jobs else "resumable"
            yield Leftover(f"{stage.FOLDER}/{staged.name}", "interrupted job", left, 0, str(mark))
            continue
        if not running and finish:
            try:
                staged.recover()
            except StoreError as e:
                warn(str(e))
                done = "in the way"
        state = "in use" if running else done if finish else "unused"
        yield Leftover(f"{stage.FOLDER}/{staged.name}", "unfinished node", state, 0)


def _remove_job(store: Store, staged: Any) -> str:
    """Erase what a job has staged, unless another process is resuming it."""
    path = staged.path or ""
    try:
        with ExitStack() as locks:
            for place in {"", *paths.ancestors(path), path}:  # the job may be one of a group above
                locks.enter_context(publication.locked_destination(store, place, "repair", None))
            staged.recover()
    except Conflict:
        return "in use"
    return "removed"


@dataclass
class _Jobs:
    """Interrupted jobs: nodes with a marker, which are incomplete, and journals."""

    store: Store
    root: Path | None  # of a directory
    remove_jobs: bool
    remove: bool  # journals that belong to no job
    older_than: float
    busy: bool  # a job on some machine renews its lock

    def find(self) -> Iterator[Leftover]:
        """Yield the jobs, and journals without one."""
        journals = {
            paths.name(prefix.rstrip("/")): prefix
            for prefix in stores.list_dir(self.store, f"{stage.JOURNAL}/")[1]
        }
        for key in self._markers():
            mark = Mark.read(self.store.get(key) or b"")
            yield self._repair_node(key, mark, journals.pop(mark.attempt, None))
        for prefix in journals.values():
            state = "in use" if self._is_recent(prefix) else ""
            yield _below(self.store, prefix, "journal", self.remove, state)

    def _markers(self) -> list[str]:
        """Return the keys of all markers of incomplete nodes."""
        if self.root is None:
            every: Iterable[str] = stores.list_prefix(self.store, "")
        else:
            every = extension.LocalStore(self.root, read_only=True).list_everything("")
        markers = [key for key in every if paths.name(key) == stage.MARKER]
        return [key for key in markers if not key.startswith(f"{stage.FOLDER}/")]

    def _repair_node(self, key: str, mark: Mark, journal: str | None) -> Leftover:
        path = key.rpartition("/")[0]
        state = "resumable"
        is_job = mark.attempt or mark.kind not in (Kind.CREATE, Kind.DELETE)
        if mark.is_being_written or self._is_recent(journal, key):
            state = "in use"
        elif not is_job and not mark.finished:  # so it cannot be resumed
            state = "removed" if self.remove else "unused"
            if self.remove and not self._clear(path, mark):
                return self._in_the_way(path, mark, "write it again with overwrite=True")
            if self.remove:
                self.store.erase(key)
        elif mark.finished or (
            # The own metadata of a copy is written last: only marker and journal are left.
            mark.kind is Kind.COPY and extension.existing_node(self.store, path) is not None
        ):
            state = "finished" if self.remove else "unused"
            if self.remove:
                self._erase_job(key, journal)
        elif self.remove_jobs:
            keys = [] if mark.kind is Kind.EXTEND else incomplete_keys(self.store, path)
            if mark.kind is Kind.COPY:  # all that is there belongs to the copy
                below = stores.list_prefix(self.store, paths.prefix(path))
                keys = [key for key in below if not paths.is_ours(key)]
                keys.sort(key=_makes_node, reverse=True)
            elif any(_makes_node(key) for key in keys):
                return self._in_the_way(path, mark, "finish the job with resume=True")
            stores.erase_values(self.store, keys)
            self._erase_job(key, journal)
            state = "removed"
        return Leftover(paths.show(path), "interrupted job", state, 0, str(mark))

    def _in_the_way(self, path: str, mark: Mark, advice: str) -> Leftover:
        """Report an incomplete node with nodes below it, which somebody else may have made."""
        made = next(key for key in incomplete_keys(self.store, path) if _makes_node(key))
        warn(
            f"{paths.show(path)} in {self.store!r} is incomplete, but has nodes, such as {made!r};"
            f" nothing was removed: {advice}, or erase them first"
        )
        return Leftover(paths.show(path), "interrupted job", "in the way", 0, str(mark))

    def _clear(self, path: str, mark: Mark) -> bool:
        """Erase what an operation that cannot be resumed has left of a node.

        Return False, and erase nothing, if there are nodes below it.
        """
        deleted = mark.kind is Kind.DELETE
        # A new node that is there is complete: its metadata came last.
        if deleted or extension.existing_node(self.store, path) is None:
            keys = incomplete_keys(self.store, path)
            if not deleted and any(_makes_node(key) for key in keys):
                return False
            keys = keys if deleted else [key for key in keys if not extension.is_metadata(key)]
            stores.erase_values(
                self.store, sorted(keys, key=lambda key: not extension.is_metadata(key))
            )
        return True

    def _erase_job(self, key: str, journal: str | None) -> None:
        """Erase the journal, and then the marker, without which the node would seem complete."""
        if journal is not None:
            stores.erase_prefix(self.store, journal)
        self.store.erase(key)

    def _is_recent(self, journal: str | None, *keys: str) -> bool:
        """Return True if a process seems to be at work: it runs here, or has just written."""
        entries = [*keys, *(stores.list_prefix(self.store, journal) if journal is not None else ())]
        for key in entries[len(keys) :]:
            process = paths.name(key).partition("-")[0]
            other = process.isdigit() and int(process) != os.getpid()
            if other and extension.leases.is_running(int(process)):
                return True
        if self.root is None:
            return self.busy
        for key in entries:
            with suppress(OSError):
                if time.time() - (self.root / key).stat().st_mtime < self.older_than:
                    return True
        return False


def _makes_node(key: str) -> bool:
    return extension.is_metadata(key) and extension.formats.makes_node(key)


def incomplete_keys(store: Store, path: str) -> list[str]:
    """Return the keys that the writer of an incomplete node has stored."""
    formats = [extension.by_name(name) for name in extension.NAMES]
    prefixes = dict.fromkeys(prefix for each in formats for prefix in each.subtree(path)[1])
    keys = {
        key
        for prefix in prefixes
        for key in stores.list_prefix(store, prefix)
        if not paths.is_ours(key) and any(each.is_zarr_key(key) for each in formats)
    }
    return sorted(keys)


def _below(store: Store, prefix: str, kind: str, remove: bool, state: str = "") -> Leftover:
    """Return what is below a prefix, which is removed on request unless it has a `state`."""
    size = sum(size for _, size in stores.list_sizes(store, prefix))
    if remove and not state:
        stores.erase_prefix(store, prefix)
    return Leftover(prefix.rstrip("/"), kind, state or ("removed" if remove else "unused"), size)


def _consolidated(store: Store, renew: bool) -> Iterator[Leftover]:
    """Yield the root's consolidated metadata if a killed writer left it out of date."""
    try:
        if not extension.consolidated_is_stale(store):
            return
    except OmnizarrError:
        return  # no hierarchy, or an invalid one, which `validate` reports
    if renew:
        consolidate_metadata(store)
    yield Leftover(repr(store), "consolidated metadata", "renewed" if renew else "out of date", 0)


def _leases(store: Store, remove: bool) -> Iterator[Leftover]:
    """Yield the keys of leases, with their state: in use if they are being renewed."""
    if not stores.supports_compare_and_set(store):
        return
    keys = [k for k in stores.list_prefix(store, "") if _LOCK.fullmatch(k.rpartition("/")[2])]
    before = {key: store.generation(key) for key in keys}
    if before:
        time.sleep(extension.leases.LEASE)
    for key, generation in before.items():
        text, now = store.get_versioned(key)
        if text is None:
            continue
        unused = now == generation
        if unused and remove:
            unused = extension.leases.remove(store, key, now)
        state = "in use" if not unused else "removed" if remove else "unused"
        yield Leftover(key, "lock", state, len(text))


def _leftovers(root: str, remove: bool, older_than: float) -> Iterator[Leftover]:
    for folder, folders, names in os.walk(root, onerror=_raise):
        folders[:] = [name for name in folders if name != stage.FOLDER]
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
                    unused = not recent and not extension.leases.is_running(int(partial[1]))
                    if unused and remove:
                        os.unlink(path)
            except FileNotFoundError:
                continue  # its writer was still running and has finished
            except OSError as e:
                raise StoreError(f"cannot remove {path!r}: {e.strerror or e}") from e
            kind = "lock" if partial is None else "unfinished value"
            state = "in use" if not unused else "removed" if remove else "unused"
            yield Leftover(path, kind, state, status.st_size)


def _raise(error: OSError) -> None:
    raise StoreError(f"cannot list {error.filename!r}: {error.strerror or error}") from error
