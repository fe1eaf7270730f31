"""Outputs of jobs in stores: not visible before they are complete, and kept when a job is killed.

An attempt at a job has one record, a marker. Where no node exists, chunks are written at their
keys, beside the marker, and metadata last. Where one is replaced, the new node is staged beside it
with the marker, and the two are swapped at the end. A node that is changed otherwise has the marker
beside it. The marker names the journal of the attempt; it says when the result is visible, and is
erased last. What is killed at any moment is finished by the same job with ``resume``.
"""

from __future__ import annotations

import os
import platform
import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from omnizarr import consolidate_metadata
from omnizarr.errors import Conflict, NodeExists, NodeNotFound, OmnizarrError, StoreError
from omnizarr.extension import (
    MARKER,
    Build,
    Format,
    GroupModel,
    Kind,
    LocalStore,
    Location,
    Mark,
    MemoryStore,
    Node,
    Stage,
    Store,
    Taken,
    all_formats,
    begin_deferred,
    begin_stage,
    can_list,
    check_new,
    consolidated,
    consolidated_is_stale,
    erase_prefix,
    existing_node,
    file_locks,
    file_root,
    fork,
    get_existing,
    hierarchies_above,
    interrupted,
    is_process_local,
    leases,
    list_prefix,
    lock_replacement,
    marker,
    node_extent,
    paths,
    set_many,
    set_new,
    stage,
    supports_compare_and_set,
    unique_key,
    update_consolidated_above,
)

# An attempt is new; it goes on with what an earlier process, or another part, has begun; or the
# result is visible already, and only `clear` is left to be called.
Begun: TypeAlias = Literal["new", "resumed", "finished"]
Part: TypeAlias = tuple[int, int]  # the number of this part, from 1, and of all parts


@dataclass(frozen=True)
class Attempt:
    """One attempt at a job: the marker that shows its state, and the journal that belongs to it."""

    store: Store
    key: str  # of the marker
    mark: Mark
    stage: Stage | None = None  # that has the marker and the journal, where a node is replaced

    @property
    def journal(self) -> tuple[Store, str]:
        """The store and prefix of the journal."""
        start = "" if self.stage is None else self.stage.prefix
        return self.store, start + self.mark.journal

    def note_finished(self) -> None:
        """Note that the result is visible; a stage does that itself."""
        if self.stage is None and self.is_current():
            with suppress(OmnizarrError, OSError):  # the result is complete, and visible
                self.store.set(self.key, replace(self.mark, finished=True).write())

    def clear(self) -> None:
        """Erase all that is left of the attempt, the marker last."""
        if self.stage is not None:
            self.stage.discard()
        else:
            self.erase_journal()
            if self.is_current():
                self.store.erase(self.key)

    def erase_journal(self) -> None:
        """Erase the journal."""
        if self.mark.attempt and can_list(self.store):
            erase_prefix(*self.journal)

    def is_current(self) -> bool:
        """Return True unless another attempt has begun, or the marker was erased."""
        text = self.store.get(self.key)
        return text is not None and Mark.read(text).attempt == self.mark.attempt


_at_work: set[tuple[Any, str, Part | None]] = set()  # destinations of jobs of this process
_at_work_lock = fork.lock()


@contextmanager
def locked_destination(
    store: Store, path: str, operation: str, part: Part | None
) -> Iterator[Callable[[], None]]:
    """Keep other jobs from writing to a destination until the block ends.

    Raises Conflict if another job has it. Parts of one job share it, but not with the same part.
    The context is a function that raises if the lock was lost meanwhile.
    """
    place = unique_key(store), path
    own = (*place, part)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    where = platform.node() or "this machine"
    said = f"process {os.getpid()} of {where} since {since} ({operation})"
    try:
        with _at_work_lock:
            parts = {each[2] for each in _at_work if each[:2] == place}
            if parts and (part is None or None in parts or part in parts):
                raise Taken(f"another thread of this process, {os.getpid()}".encode())
            _at_work.add(own)
        try:
            with _locked(store, path, said, part) as check:
                yield check
        finally:
            _at_work.discard(own)
    except Taken as e:
        who = e.text.decode("utf-8", "replace") or "another job"
        which = f"{paths.show(path)} in {store!r}" if path else repr(store)
        which = f"part {part[0]} of {which}" if part else which
        raise Conflict(
            f"{which} is being written by {who}; wait until it ends, or stop it"
        ) from None


@contextmanager
def _locked(store: Store, path: str, said: str, part: Part | None) -> Iterator[Callable[[], None]]:
    """Hold the lock of a destination, if the store has locks between processes."""
    kind, root = f"job-{zlib.crc32(path.encode('utf-8', 'surrogatepass')):08x}", file_root(store)
    own = f"{kind}-{part[0]}" if part else kind
    if root is not None:
        with ExitStack() as held:
            for each in dict.fromkeys((kind, own)):
                shared = part is not None and each == kind
                name = os.path.join(root, file_locks.NAME + each)
                held.enter_context(file_locks.in_use(name, said.encode(), shared=shared))
            yield lambda: None
    elif supports_compare_and_set(store):
        with leases.leased(store, "", own, wait=False, said=said) as lease:
            yield lease.check
    else:
        yield lambda: None


def join_above(store: Store, path: str) -> str | None:
    """Renew the consolidated metadata above a root that is a part of a larger hierarchy.

    Returns a warning if that hierarchy does not list it, being of another format, or if its
    consolidated metadata could not be changed.
    """
    above = [] if path else [*hierarchies_above(store)]
    own = all_formats(store) if above else []
    if not above or not own:
        return None
    nearest, names = above[0][0], [format.name for format in above[0][1]]
    listed = [format for format in own if format.name in names]
    if not listed:
        return (
            f"{store!r} is zarr {own[0].name} inside {nearest!r}, which is zarr"
            f" {' and '.join(names)} and does not list it; write it in that format to make it a"
            " member"
        )
    try:
        for format in listed:
            same = (each for each, formats in above if format.name in [f.name for f in formats])
            *_, outermost = map(file_root, same)
            root = file_root(store)
            if root is not None and outermost is not None:
                inside = Path(os.path.realpath(root)).relative_to(outermost).as_posix()
                update_consolidated_above(Location(LocalStore(outermost), inside, format), None)
    except StoreError as e:
        return str(e)
    return None


def new_mark(operation: str, plan: str, kind: Kind, path: str | None = None) -> Mark:
    """Return the mark of a new attempt."""
    return Mark(operation, plan, os.urandom(6).hex(), kind=kind, path=path)


def find_attempt(
    store: Store,
    path: str,
    plan: str,
    *,
    resume: bool,
    shared: bool = False,
    staged: Mapping[str, Attempt] | None = None,
) -> Attempt | None:
    """Return the attempt at a plan that was interrupted, or that other processes have begun.

    Completes, or undoes, the replacement of a node that it was killed in. `staged` is the result of
    `staged_attempts`, where several plans are looked for.
    """
    if resume:
        found = (staged_attempts(store) if staged is None else staged).get(plan)
        if found is not None and found.stage is not None:
            with lock_replacement(store):
                found.stage.settle(overwrite=True)
            return replace(found, mark=found.stage.mark or found.mark)
    text = store.get(marker(path)) if resume or shared else None
    if text is None or Mark.read(text).plan != plan:
        return None
    return Attempt(store, marker(path), Mark.read(text))


def staged_attempts(store: Store) -> dict[str, Attempt]:
    """Return the attempts that have staged something, by plan."""
    attempts: dict[str, Attempt] = {}
    for each in interrupted(store) if can_list(store) and not is_process_local(store) else ():
        found = stage(store, each.name)
        mark = found.mark
        if mark is not None:
            attempts[mark.plan] = Attempt(store, found.prefix + MARKER, mark, found)
    return attempts


def clear_outdated(staged: dict[str, Attempt], operation: str, plans: Collection[str]) -> None:
    """Erase what the same operation has staged for a source that has changed since."""
    outdated = (p for p, a in staged.items() if a.mark.operation == operation and p not in plans)
    _clear_staged(staged, [*outdated])


def clear_abandoned(store: Store, path: str) -> None:
    """Erase what jobs have staged to replace the node at a path, which another one begins to."""
    staged = staged_attempts(store)
    _clear_staged(staged, [plan for plan, a in staged.items() if a.mark.path == path])


def _clear_staged(staged: dict[str, Attempt], plans: Iterable[str]) -> None:
    """Erase some attempts.

    The caller has locked the destination, so that nobody else is at work there; where a store has
    no locks, they are left to `repair`.
    """
    for plan in plans:
        store = staged[plan].store
        if file_root(store) or supports_compare_and_set(store):
            staged.pop(plan).clear()


def begin_beside(store: Store, path: str, mark: Mark, shared: bool) -> tuple[Attempt, Begun]:
    """Begin an attempt at a job that changes a visible node, or join that of other processes."""
    key = marker(path)
    if set_new(store, key, mark.write()):
        return Attempt(store, key, mark), "new"
    old = Attempt(store, key, Mark.read(store.get(key) or b""))
    if shared and old.mark.plan == mark.plan:
        return old, "finished" if old.mark.finished else "resumed"
    takes_over = old.mark.kind is Kind.EXTEND or mark.kind is not Kind.EXTEND
    if shared or not (takes_over or old.mark.finished):
        raise NodeExists(
            f"{paths.show(path)} in {store!r} {old.mark.effect}: {old.mark} was interrupted, or is"
            " still writing; finish that first"
        )
    old.erase_journal()
    store.set(key, mark.write())
    return Attempt(store, key, mark), "new"


class StoreOutput:
    """An output in a store; `begin` sets the attempt."""

    store: Store
    attempt: Attempt | None = None  # None in memory, where nothing is left of a killed process

    @property
    def place(self) -> tuple[Store, str]:
        """The store and path that the job alone may write to."""
        raise NotImplementedError

    @property
    def journal(self) -> tuple[Store, str]:
        """The journal of the attempt, in the root of the store, or with what is staged."""
        return (MemoryStore(), "") if self.attempt is None else self.attempt.journal

    def written(self) -> tuple[Store, Iterator[str]]:
        """Return the store, and the keys that the job has written, when they are visible."""
        return self.store, self._keys()

    def _keys(self) -> Iterator[str]:
        return iter(())

    def clear(self) -> None:
        """Erase what is left of the attempt, when the result is visible."""
        if self.attempt is not None:
            self.attempt.clear()

    def is_cleared(self) -> bool:
        """Return True if another process has erased what is left of the attempt."""
        found = self.attempt
        return found is not None and found.stage is None and not found.is_current()

    def abandon(self) -> None:
        """Leave everything as it is."""


class HierarchyOutput(StoreOutput):
    """The nodes that a job writes: chunks first, metadata when all of them are complete."""

    def __init__(
        self,
        location: Location,
        nodes: Mapping[str, Node],
        *,
        operation: str,
        digest: str,
        overwrite: bool = False,
        consolidate: bool = False,
    ) -> None:
        self.location, self.nodes = location, nodes  # by path in the store
        self.operation, self.digest = operation, digest
        self.overwrite, self.consolidate = overwrite, consolidate
        self.store = location.store
        self._build: Build | None = None
        # Returns False if the node, which is replaced by itself, was written to since.
        self.is_unchanged: Callable[[], bool] | None = None

    @property
    def place(self) -> tuple[Store, str]:
        """The store and path of the nodes."""
        return self.store, self.location.path

    @property
    def chunk_store(self) -> Store:
        """The store that takes the chunks, at the keys that they have in the end."""
        return self.store if self.is_finished else self._begun.chunk_store

    @property
    def is_finished(self) -> bool:
        """True if an interrupted job has made the nodes visible."""
        return self._build is None and self.attempt is not None and self.attempt.mark.finished

    @property
    def _begun(self) -> Build:
        if self._build is None:
            raise StoreError(f"{self.operation} has not begun")
        return self._build

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Prepare the destination, or find what an interrupted job has written."""
        staged = staged_attempts(self.store) if resume else None
        if staged:
            clear_outdated(staged, self.operation, {self.digest})
        return self.begin_attempt(resume, shared, staged=staged)

    def begin_attempt(
        self,
        resume: bool,
        shared: bool,
        attempt: str = "",
        staged: Mapping[str, Attempt] | None = None,
    ) -> Begun:
        """Do as `begin` does; an attempt that is given is that of several outputs together."""
        found = find_attempt(
            self.store,
            self.location.path,
            self.digest,
            resume=resume,
            shared=shared,
            staged=staged,
        )
        if found is not None and attempt not in ("", found.mark.attempt):
            found.clear()
            found = None
        if found is not None and found.mark.finished:
            update_consolidated_above(self.location, None)
            self.attempt = found
            return "finished"
        mark = new_mark(self.operation, self.digest, Kind.CREATE, self.location.path)
        if attempt:
            mark = replace(mark, attempt=attempt)
        state = self._begin_build(mark, found, resume, shared)
        try:
            for path, node in sorted(self.nodes.items()):
                where = self._begun.location.at(path)
                if state == "new" or existing_node(where.store, path) is None:
                    where.create(node)
                else:  # again: the other process may have been killed between two documents
                    set_many(where.store, _documents(where, node))
        except BaseException as e:
            self._begun.__exit__(type(e), e, e.__traceback__)
            raise
        return state

    def _begin_build(self, mark: Mark, found: Attempt | None, resume: bool, shared: bool) -> Begun:
        location, store, key = self.location, self.store, marker(self.location.path)
        if found is not None and found.stage is None:
            return self._begin_deferred(found.mark, resume=True)
        old = check_new(location, self.overwrite)
        if old is not None:
            if shared:
                raise location.node_exists((old, GroupModel()))
            return self._begin_stage(old, mark, found)
        if found is not None:  # the node that was to be replaced is gone
            found.clear()
        text = store.get(key) if resume or shared else None
        other = None if text is None else Mark.read(text)
        if other is not None and shared and other.plan == self.digest:
            return self._begin_deferred(other, resume=True)  # another part has just begun
        if other is not None and not self.overwrite:
            raise NodeExists(
                f"{location} is incomplete: {other} was interrupted, and it was not the same as"
                " this: its options were others, or the source has changed since; give"
                " overwrite=True to start again"
            )
        try:
            return self._begin_deferred(mark, overwrite=self.overwrite and not shared)
        except NodeExists:
            joined = find_attempt(store, location.path, self.digest, resume=False, shared=shared)
            if joined is None:
                raise
            return self._begin_deferred(joined.mark, resume=True)  # another process has just begun

    def _begin_deferred(
        self, mark: Mark, *, overwrite: bool = False, resume: bool = False
    ) -> Begun:
        """Begin to write chunks to the target, or go on."""
        begun = begin_deferred(self.location, mark, overwrite, resume)
        self._build = replace(begun, resumable=True)
        self.attempt = Attempt(self.store, marker(self.location.path), mark)
        return "resumed" if resume else "new"

    def _begin_stage(self, old: Format, mark: Mark, found: Attempt | None) -> Begun:
        """Begin to write beside the node that is replaced, or go on with what is staged.

        Nothing that is staged in memory survives an error.
        """
        name = None if found is None or found.stage is None else found.stage.name
        if name is None:
            clear_abandoned(self.store, self.location.path)
        self._build = begin_stage(self.location, old, overwrite=True, name=name)
        staged = self._build.stage
        if is_process_local(self.store) or staged is None:
            return "new"
        self._build = replace(self._build, resumable=True)
        self.attempt = found
        if found is None:
            self.store.set(staged.prefix + MARKER, mark.write())
            self.attempt = Attempt(self.store, staged.prefix + MARKER, mark, staged)
        return "new" if found is None else "resumed"

    def finish(self) -> None:
        """Store the metadata, or swap the old node and the new."""
        if self.consolidate and consolidated.key(self.location.format, "") is not None:
            consolidate_metadata(self._begun.location.store, path=self.location.path)
        self._begun.check = self._check_unchanged
        try:
            self._begun.commit()
        except NodeExists:
            # Another process that shares the job has just made it visible.
            if self.store.get(marker(self.location.path)) is not None:
                raise
            return
        if self.attempt is not None:
            self.attempt.note_finished()

    def _check_unchanged(self) -> None:
        """Raise if the node, which is replaced by itself, was written to since it was read."""
        if self.is_unchanged is not None and not self.is_unchanged():
            raise Conflict(
                f"{self.location} was written to since {self.operation} began; it was not"
                " replaced; start again"
            )

    def find_finished(self, staged: Mapping[str, Attempt]) -> None:
        """Find what is left of an attempt whose result is visible, for `clear`."""
        found = find_attempt(
            self.store, self.location.path, self.digest, resume=True, staged=staged
        )
        if found is not None and found.mark.finished:
            self.attempt = found

    def clear(self) -> None:
        """Erase what is left of the attempt, and of an earlier one that was overwritten."""
        super().clear()
        if self.overwrite and self.attempt is not None and self.attempt.stage is not None:
            self.store.erase(marker(self.location.path))

    def abandon(self) -> None:
        """Keep the chunks for a job that resumes this one; the error that ended it says so."""
        error = sys.exception()
        if error is None:
            self._begun.discard()
        else:
            self._begun.__exit__(type(error), error, error.__traceback__)

    def _keys(self) -> Iterator[str]:
        return node_keys(self.location)


def _documents(location: Location, node: Node) -> list[tuple[str, bytes]]:
    texts = location.format.write(location.path, node)
    return [(key, text) for key, text in texts.items() if text is not None]


def node_keys(location: Location) -> Iterator[str]:
    """Yield the keys of the values of a node and of all below it."""
    extent = node_extent(location.format, location.path)
    named = dict.fromkeys((*extent.metadata, *extent.keys))
    yield from get_existing(
        location.store, [key for key in named if not key.startswith(extent.prefixes)]
    )
    for prefix in extent.prefixes:
        yield from (key for key in list_prefix(location.store, prefix) if extent.has(key))


class ChangeOutput(StoreOutput):
    """A visible node that stays as it is until the end: `change` is called then."""

    def __init__(self, location: Location, *, operation: str, digest: str) -> None:
        self.location, self.store = location, location.store
        self.operation, self.digest = operation, digest

    @property
    def place(self) -> tuple[Store, str]:
        """The store and path of the node."""
        return self.store, self.location.path

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Mark the node, or find the mark of an interrupted job."""
        path = self.location.path
        found = find_attempt(self.store, path, self.digest, resume=resume, shared=shared)
        if found is not None:
            self.attempt = found
            return "finished" if found.mark.finished else "resumed"
        mark = new_mark(self.operation, self.digest, Kind.EXTEND)
        self.attempt, state = begin_beside(self.store, path, mark, shared)
        return state

    def finish(self) -> None:
        """Change the node."""
        self.change()
        if self.attempt is not None:
            self.attempt.note_finished()

    def change(self) -> None:
        """Make the result visible; may be repeated after an interruption."""

    def abandon(self) -> None:
        """Keep what was written for a job that resumes this one, if anything was."""
        error, (store, prefix) = sys.exception(), self.journal
        if can_list(store) and next(iter(list_prefix(store, prefix)), None) is None:
            with suppress(OmnizarrError):  # the first error is the one to raise
                self.clear()
        elif error is not None:
            error.add_note(f"{self.location} is as it was; the same call with resume=True goes on")


class SeveralNodes(ChangeOutput):
    """Nodes below one that is visible, each added or replaced when all of them are complete.

    Their attempts are parts of that of the whole, which has the journal.
    """

    def __init__(
        self, location: Location, outputs: Iterable[HierarchyOutput], *, operation: str, digest: str
    ) -> None:
        super().__init__(location, operation=operation, digest=digest)
        self.outputs = {output.location.path: output for output in outputs}

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks of the node at a path."""
        return self.outputs[path].chunk_store

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Begin to write all nodes; those that an interrupted job has completed stay."""
        state = super().begin(resume, shared)
        if state == "finished":
            self._end()
            return state
        attempt = "" if self.attempt is None else self.attempt.mark.attempt
        resumed, states = state == "resumed" and not shared, list[Begun]()
        staged = staged_attempts(self.store) if resumed else {}
        clear_outdated(staged, self.operation, {each.digest for each in self.outputs.values()})
        try:
            for output in self.outputs.values():
                states.append(output.begin_attempt(resumed, shared, attempt, staged))
        except BaseException:
            self.abandon()
            raise
        # The journal counts only if nothing that it calls done is begun again.
        if resumed and "new" in states and self.attempt is not None:
            self.attempt.erase_journal()
            return "new"
        return state

    def finish(self) -> None:
        """Make the nodes visible one after the other, then what needs all of them."""
        for output in self.outputs.values():
            if not output.is_finished:
                output.finish()
        if self.attempt is not None:
            self.attempt.note_finished()
        self._end()

    def _end(self) -> None:
        staged: dict[str, Attempt] | None = None
        for output in self.outputs.values():
            if output.attempt is None:  # all were visible when this job was resumed
                staged = staged_attempts(self.store) if staged is None else staged
                output.find_finished(staged)
            output.clear()
        self.change()

    def abandon(self) -> None:
        """Keep what was written for a job that resumes this one."""
        for output in self.outputs.values():
            if output._build is not None:
                output.abandon()

    def _keys(self) -> Iterator[str]:
        for output in self.outputs.values():
            yield from node_keys(output.location)


def settle_stages(store: Store, resume: bool = True) -> None:
    """Finish, or undo, the replacements of nodes in which jobs were killed.

    Without `resume`, only those of processes that are known to have ended.
    """
    for each in interrupted(store) if can_list(store) else ():
        if each.is_alive and not resume:
            continue
        found = stage(store, each.name)
        if each.complete:
            with lock_replacement(store):
                found.settle(overwrite=resume)
        if found.finished:
            found.discard()
    with suppress(NodeNotFound):
        if consolidated_is_stale(store):  # the job was killed before it changed them
            consolidate_metadata(store)
