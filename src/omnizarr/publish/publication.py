"""Something new in a store, from the mark that reserves its place until others see it.

A `Publication` is staged beside the node that it replaces, or written in its place with the
metadata deferred. One marker shows its state: with what is staged, or beside the chunks, or beside
a visible node that a job changes otherwise. The marker names the journal of a job; it says when the
result is visible, and is erased last: what is killed is finished by the same job with ``resume``.
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
from typing import Any, Literal, TypeAlias

from omnizarr import stores
from omnizarr.concurrency import file_locks, fork, key_locks
from omnizarr.concurrency.file_locks import Taken
from omnizarr.concurrency.retry import REPLACEMENT
from omnizarr.errors import Conflict, NodeExists, OmnizarrError, StoreError, warn
from omnizarr.formats import publication_order
from omnizarr.model import paths
from omnizarr.publish import stage as stages
from omnizarr.publish.stage import FOLDER, JOURNAL, MARKER, Extent, Kind, Mark, Stage, marker, stage
from omnizarr.stores import leases
from omnizarr.stores.base import Bytes, ChangesIf, Range, Store, Traits, flat
from omnizarr.stores.identity import StorageIdentity, storage_identity, unique_key

# It is new; it goes on with what an earlier process, or another part of a job, has begun; or it is
# visible already, and only `clear` is left to be called.
Begun: TypeAlias = Literal["new", "resumed", "finished"]


class DeferredMetadataStore:
    """Holds metadata back from `inner` until `publish`, so that readers find no incomplete node."""

    def __init__(self, inner: Store, is_metadata: Callable[[str], bool], hidden: str) -> None:
        self.inner = inner
        self.hidden = hidden  # the key of the marker, which is for other writers
        self.is_metadata = is_metadata
        self.metadata: dict[str, bytes] = {}
        self._published: list[str] = []
        self.read_only = inner.read_only
        self.traits = Traits(erases=stores.traits(inner).erases)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        if not self.is_metadata(stores.check_key(key)):
            return None if key == self.hidden else self.inner.get(key, range)
        value = self.metadata.get(key)
        return value if value is None or range is None else range.of(value)

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        asked = [(each, each[0] == self.hidden or self.is_metadata(each[0])) for each in requests]
        others = iter(stores.get_many(self.inner, [request for request, mine in asked if not mine]))
        return [self.get(*request) if mine else next(others) for request, mine in asked]

    def set(self, key: str, value: Bytes) -> None:
        stores.check_writable(self)
        if self.is_metadata(stores.check_key(key)):
            self.metadata[key] = bytes(flat(value))
        else:
            self.inner.set(key, value)

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        rows = [*values]
        stores.set_many(self.inner, [row for row in rows if not self.is_metadata(row[0])])
        for key, value in rows:
            if self.is_metadata(key):
                self.set(key, value)

    def erase(self, key: str) -> None:
        stores.check_writable(self)
        if self.is_metadata(stores.check_key(key)):
            self.metadata.pop(key, None)
        else:
            self.inner.erase(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        for key in stores.list_prefix(self.inner, prefix):
            if not self.is_metadata(key):
                yield key
        yield from (key for key in tuple(self.metadata) if key.startswith(prefix))

    def identity(self, prefix: str = "") -> StorageIdentity:
        return storage_identity(self.inner, prefix)

    def publish(self, belongs: Callable[[str], bool]) -> None:
        """Store the metadata that belongs to a node: at once, or else the innermost first."""
        mine = sorted(filter(belongs, self.metadata), key=publication_order)
        if isinstance(self.inner, ChangesIf) and mine:
            self._published += mine
            self.inner.change_if({key: self.metadata[key] for key in mine}, {})
            return
        for key in mine:
            self._published.append(key)
            self.inner.set(key, self.metadata[key])

    def retract(self) -> None:
        """Erase the metadata that was published, the outermost first."""
        while self._published:
            self.inner.erase(self._published.pop())

    def __repr__(self) -> str:
        return repr(self.inner)


@dataclass
class Publication:
    """New values in a store that become visible to others when they are complete; see `put`."""

    store: Store
    key: str  # of the marker
    mark: Mark
    stage: Stage | None = None  # staged: it has the values, the marker and the journal
    deferred: DeferredMetadataStore | None = None  # deferred: it has the metadata
    is_public: bool = False

    @classmethod
    def at(cls, store: Store, path: str, mark: Mark | None = None) -> Publication:
        """Return the publication whose marker is, or is to be, beside the node at a path."""
        stored = mark or Mark.read(store.get(marker(path)))
        return cls(store, marker(path), stored)

    @classmethod
    def staged(cls, stage: Stage, mark: Mark | None = None) -> Publication:
        """Return the publication of a stage; store the marker if the operation can be resumed."""
        if mark is not None and mark.attempt:
            stage.keep(mark)
        return cls(stage.target, stage.prefix + MARKER, mark or Mark("a writer"), stage)

    @property
    def values(self) -> Store:
        """The store to write the new values to, at their final keys."""
        return self.store if self.stage is None else self.stage.store

    @property
    def journal(self) -> tuple[Store, str]:
        """The store and prefix of the journal."""
        start = "" if self.stage is None else self.stage.prefix
        return self.store, f"{start}{JOURNAL}/{self.mark.attempt}/"

    def put(self, old: Extent, new: Extent) -> None:
        """Make the values visible in place of `old`; the caller holds the lock for replacement.

        A kill before changes nothing; within, `repair`, an overwrite or the same job finishes it.
        """
        if self.stage is not None:
            self.stage.replace(old, new)
        elif self.deferred is not None:
            self.deferred.publish(new.has)
        self.is_public = True  # it stays, whatever happens from here on

    def note_finished(self) -> None:
        """Note that the result is visible; a stage notes that itself."""
        if self.stage is None and self.is_current():
            with suppress(OmnizarrError, OSError):  # the result is complete, and visible
                self.store.set(self.key, replace(self.mark, finished=True).write())

    def clear(self) -> None:
        """Erase the remains: the marker last, or first if a stage is unfinished."""
        if self.stage is not None:
            self.stage.discard()
        else:
            self.erase_journal()
            if self.is_current():
                self.store.erase(self.key)

    def erase_journal(self) -> None:
        """Erase the journal."""
        if self.mark.attempt and stores.can_list(self.store):
            stores.erase_prefix(*self.journal)

    def is_current(self) -> bool:
        """Return True unless another attempt has begun, or the marker was erased."""
        text = self.store.get(self.key)
        return text is not None and Mark.read(text).attempt == self.mark.attempt


def new_mark(operation: str, plan: str, kind: Kind) -> Mark:
    """Return the mark of a new attempt at a job."""
    return Mark(operation, plan, os.urandom(6).hex(), kind=kind)


def find(
    store: Store,
    path: str,
    plan: str,
    *,
    resume: bool,
    shared: bool = False,
    staged: Mapping[str, Publication] | None = None,
) -> Publication | None:
    """Return the publication of an interrupted plan, or of one that other processes have begun.

    A replacement in which it was killed is completed. `staged` has what `find_staged` returned.
    """
    if resume:
        found = (find_staged(store) if staged is None else staged).get(plan)
        if found is not None and found.stage is not None:
            with lock_replacement(store):
                found.stage.settle(overwrite=True)
            return replace(found, mark=found.stage.mark or found.mark)
    text = store.get(marker(path)) if resume or shared else None
    if text is None or Mark.read(text).plan != plan:
        return None
    return Publication.at(store, path, Mark.read(text))


def find_staged(store: Store) -> dict[str, Publication]:
    """Return the publications of jobs that have staged something, by plan."""
    found: dict[str, Publication] = {}
    for left in all_stages(store) if not stores.traits(store).process_local else ():
        mark = left.mark
        if mark is not None:
            found[mark.plan] = Publication(store, left.prefix + MARKER, mark, left)
    return found


def clear_outdated(staged: dict[str, Publication], operation: str, plans: Collection[str]) -> None:
    """Erase what an operation has staged for a source that has changed since."""
    for plan, found in staged.items():
        if found.mark.operation == operation and plan not in plans:
            _clear(found)


def clear_abandoned(store: Store, path: str) -> None:
    """Erase what earlier jobs have staged for the node at a path, before another job begins."""
    for found in find_staged(store).values():
        if found.stage is not None and found.stage.path == path:
            _clear(found)


def _clear(found: Publication) -> None:
    """Erase a publication whose destination the caller has locked; else `repair` does."""
    if stores.file_root(found.store) or stores.supports_compare_and_set(found.store):
        found.clear()


def begin_beside(store: Store, path: str, mark: Mark, shared: bool) -> tuple[Publication, Begun]:
    """Begin to change a node that stays visible, or join other processes that are doing so."""
    key = marker(path)
    if stores.set_new(store, key, mark.write()):
        return Publication(store, key, mark), "new"
    old = Publication.at(store, path)
    if shared and old.mark.plan == mark.plan:
        return old, "finished" if old.mark.finished else "resumed"
    takes_over = old.mark.kind is Kind.EXTEND or mark.kind is not Kind.EXTEND
    if shared or not (takes_over or old.mark.finished):
        raise NodeExists(
            f"{paths.place(path, store)} {old.mark.effect}: {old.mark} was interrupted, or is"
            " still writing; finish that first"
        )
    old.erase_journal()
    store.set(key, mark.write())
    return Publication(store, key, mark), "new"


# What writers have staged, and are replacing


def all_stages(store: Store) -> list[Stage]:
    """Return what writers have staged in a store that can list, including active writers."""
    listed = stores.list_dir(store, f"{FOLDER}/")[1] if stores.can_list(store) else ()
    names = (prefix[len(FOLDER) + 1 : -1] for prefix in listed)
    return [stage(store, name=name) for name in names if stages.WriterProcess.named(name).process]


def replacing_stage(store: Store, path: str) -> Stage | None:
    """Return a stage that is, or was, replacing a node at, above or below a path."""
    return next((each for each in all_stages(store) if each.concerns(path)), None)


def warn_of_replacement(store: Store, listed: Iterable[str]) -> None:
    """Warn if a listing of the root shows that a writer was interrupted in a replacement."""
    found = replacing_stage(store, "") if f"{FOLDER}/" in listed else None
    if found is not None and not (found.writer.here and found.writer.is_alive):
        warn(found.message())


def wait_for_replacement(store: Store) -> None:
    """Wait a few seconds at most while a node is replaced, where that is quick."""
    for _ in REPLACEMENT.tries() if stores.traits(store).low_latency else ():
        if not any(each.writer.is_alive and each.pending for each in all_stages(store)):
            break


@contextmanager
def lock_replacement(store: Store) -> Iterator[None]:
    """Keep other threads and processes from replacing nodes in a store."""
    key = str(hash(storage_identity(store)[0]))  # two stores with the same hash only wait longer
    processes = stores.lock_prefix(store, "", [MARKER], "replace")
    with key_locks.locked(key_locks.NODES, [key]), processes:
        yield


def recover_interrupted(store: Store) -> None:
    """Finish, or undo, the replacements that dead writers have left."""
    for each in all_stages(store):
        if each.pending and not each.writer.is_alive:
            each.settle()


def check_whole(store: Store, path: str) -> None:
    """Raise if a node at or below a path may be absent, since a writer is, or was, replacing it."""
    wait_for_replacement(store)
    found = replacing_stage(store, path)
    if found is not None:
        raise StoreError(found.message())


def settle_replacements(store: Store, path: str) -> None:
    """Finish, or undo, what dead writers were replacing; the caller has locked replacement."""
    if replacing_stage(store, path) is not None:
        recover_interrupted(store)
        check_whole(store, path)


# The destinations of jobs

Part: TypeAlias = tuple[int, int]  # the number of this part, from 1, and of all parts

_at_work: set[tuple[Any, str, Part | None]] = set()  # destinations of jobs of this process
_at_work_lock = fork.lock()


@contextmanager
def locked_destination(
    store: Store, path: str, operation: str, part: Part | None
) -> Iterator[Callable[[], None]]:
    """Keep other jobs from writing to a destination until the block ends.

    Raises Conflict if another job has it. Different parts of one job may share it.
    The context yields a function that raises if the lock was lost meanwhile.
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
            with _at_work_lock:
                _at_work.discard(own)
    except Taken as e:
        who = e.text.decode("utf-8", "replace") or "another job"
        which = paths.place(path, store)
        which = f"part {part[0]} of {which}" if part else which
        raise Conflict(
            f"{which} is being written by {who}; wait until it ends, or stop it"
        ) from None


@contextmanager
def _locked(store: Store, path: str, said: str, part: Part | None) -> Iterator[Callable[[], None]]:
    """Hold the lock of a destination, if the store has locks between processes."""
    kind = f"job-{zlib.crc32(path.encode('utf-8', 'surrogatepass')):08x}"
    root = stores.file_root(store)
    own = f"{kind}-{part[0]}" if part else kind
    if root is not None:
        with ExitStack() as held:
            for each in dict.fromkeys((kind, own)):
                shared = part is not None and each == kind
                name = os.path.join(root, file_locks.NAME + each)
                held.enter_context(file_locks.in_use(name, said.encode(), shared=shared))
            yield lambda: None
    elif stores.supports_compare_and_set(store):
        with leases.leased(store, "", own, wait=False, said=said) as lease:
            whole = leases.lease_key("", kind)
            keys = stores.list_dir(store, "")[0] if part is None and stores.can_list(store) else ()
            _check_free(store, [whole] if part else [k for k in keys if k.startswith(f"{whole}-")])
            yield lease.check
    else:
        yield lambda: None


def _check_free(store: Any, keys: Iterable[str]) -> None:
    """Raise Taken if one of these leases gives a sign of life; a dead process gives none."""
    seen, began = {key: store.generation(key) for key in keys}, time.monotonic()
    for _ in replace(REPLACEMENT, attempts=sys.maxsize).tries():
        if not any(seen.values()) or time.monotonic() - began > leases.LEASE:
            return
        now = {key: store.generation(key) for key in seen}
        if any(now[key] not in (None, seen[key]) for key in now):
            raise Taken(b"another job, or another part of one")
        seen = now
