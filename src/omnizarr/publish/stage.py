"""Write new values out of sight and replace the old ones when all of them are complete.

A `Stage` keeps new values below a prefix of the store itself and copies them key by key, or renames
them in one transaction; `DirectoryStage` renames files, and `MemoryStage` moves values. Metadata is
erased first and stored last, so that a reader finds the old node, none, or the new one, never a
mixture. A plan that is stored beside the staged values lets `recover` finish, or undo, what a
killed writer began.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, runtime_checkable

from omnizarr.concurrency import key_locks
from omnizarr.concurrency.retry import REPLACEMENT
from omnizarr.errors import StoreError, warn
from omnizarr.model import paths
from omnizarr.model.paths import OURS, is_ours
from omnizarr.publish.mark import JOURNAL, MARKER, Mark, WriterProcess, new_name
from omnizarr.stores.base import ChangesKeys, ExcludesThreads, KeyChanges, ListKeys, Store
from omnizarr.stores.identity import storage_identity
from omnizarr.stores.leases import lease_key
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.operations import (
    can_list,
    commits_changes,
    erase_prefix,
    erase_values,
    has_low_latency,
    list_dir,
    list_prefix,
    lock_prefix,
)

FOLDER = f"{OURS}staged__"  # in the root of a store: one prefix for each node that is being written
PROBE = f"{OURS}probe__"  # a key that never exists: erasing it shows if a store can erase
PLAN = "plan.json"  # in a stage that is replacing something: what goes where
Plan: TypeAlias = dict[str, Any]
_VARIANTS = 16  # of the metadata of nodes that replace one another


@dataclass(frozen=True, slots=True)
class Extent:
    """The keys of a node and of those below it: its own metadata, other keys, prefixes."""

    metadata: tuple[str, ...]
    keys: tuple[str, ...]
    prefixes: tuple[str, ...]
    is_document: Callable[[str], bool] = lambda key: False  # metadata of any node

    def has(self, key: str) -> bool:
        """Return True if a key belongs to it."""
        named = key in self.metadata or key in self.keys
        return named or (key.startswith(self.prefixes) and not is_ours(key))

    def marks(self, key: str) -> bool:
        """Return True if a key shows that a node below it is incomplete."""
        if not key.endswith(f"/{MARKER}") or key.startswith(f"{FOLDER}/"):
            return False
        return key.startswith(self.prefixes) and key.removesuffix(MARKER) not in self.prefixes


class Stage:
    """New values below a prefix of the target store, which are copied to their place.

    `store` is empty and takes the new values. Subclasses replace more quickly. A stage has the name
    of its writer; one that a killed writer left is found by it.
    """

    def __init__(self, target: Store, path: str | None = None, name: str | None = None) -> None:
        self.target = target
        self.name = name or new_name()
        self.prefix = f"{FOLDER}/{self.name}/"
        self._path = path

    @cached_property
    def store(self) -> Store:
        """The store that takes the new values."""
        from omnizarr.stores.wrappers import PrefixStore  # noqa: PLC0415 - rarely needed

        return PrefixStore(self.target, f"{self.prefix}new")

    # The writer

    @property
    def path(self) -> str | None:
        """The path of the node; None if it is not known, as of older versions."""
        for name in (PLAN, MARKER):
            if self._path is None:
                with contextlib.suppress(ValueError):  # a damaged one
                    self._path = (self._read(name) or {}).get("path")
        return self._path

    @property
    def writer(self) -> WriterProcess:
        """The process that writes, or wrote, the values."""
        return WriterProcess.named(self.name) or WriterProcess()

    @property
    def mark(self) -> Mark | None:
        """The marker of an operation that can be resumed."""
        text = self.target.get(self.prefix + MARKER)
        return None if text is None else Mark.read(text)

    def keep(self, mark: Mark) -> None:
        """Store a marker, by which the same operation finds the values when it is resumed."""
        self.target.set(self.prefix + MARKER, mark.write(path=self.path))

    @property
    def pending(self) -> bool:
        """True while values are being put in their place."""
        return self._read(PLAN) is not None

    @property
    def finished(self) -> bool:
        """True if the values are in their place, and only what shows that is left."""
        mark = self.mark
        return mark is not None and mark.finished

    def concerns(self, path: str) -> bool:
        """Return True if nodes at or below a path may be absent: one is put in its place there."""
        if not self.pending or self.path is None:
            return self.pending
        mine, other = paths.prefix(self.path), paths.prefix(path)
        return mine.startswith(other) or other.startswith(mine)

    def message(self) -> str:
        """Return the state of the node that is replaced, with the writer and how to go on."""
        mark, writer = self.mark or Mark.read(None), self.writer
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(writer.began))
        node = "a node" if self.path is None else paths.show(self.path)
        state = f"{node} in {self.target!r} may be absent or in part: {mark}, which began at"
        if writer.here and writer.is_alive:
            return (
                f"{state} {since}, is replacing it (process {writer.process}); try again when it"
                " has ended"
            )
        resume = ", or the same call with resume=True" if mark.attempt else ""
        return (
            f"{state} {since}, was interrupted while it replaced it, or is still writing;"
            f" `omnizarr repair` finishes that{resume}; nothing is lost"
        )

    # Replacing

    def check(self, old: Extent) -> None:
        """Raise if something cannot be replaced."""
        if not can_list(self.target):
            raise StoreError(f"{self.target!r} cannot list its keys, so nothing can be replaced")
        self.target.erase(self.prefix + PLAN)  # not there yet: raises where nothing can be erased

    def replace(self, old: Extent, new: Extent) -> None:
        """Replace all that belongs to `old` by what is staged and belongs to `new`."""
        try:
            plan = self._make_plan(old, new) | {"path": self.path}
            self._write(PLAN, plan)
            self._apply(plan, old)
        except BaseException:
            with contextlib.suppress(Exception):  # else it is left for `recover`
                self._try_again()
            raise
        self._finish(plan)

    def remove(self, old: Extent) -> bool:
        """Erase all that belongs to `old` in one step; return False if that is not possible."""
        if not isinstance(self.target, ChangesKeys):
            return False

        def find(listed: ListKeys) -> KeyChanges:
            below = (key for prefix in old.prefixes for key in listed(prefix))
            return KeyChanges(erased=[*old.metadata, *old.keys, *below])

        return self.target.change_keys(find)

    def move(self, old: Extent, new: Extent) -> bool:
        """Move `old` to the place of `new` in one step; return False if that is not possible."""
        if not isinstance(self.target, ChangesKeys):
            return False

        def find(listed: ListKeys) -> KeyChanges | None:
            renamed = [*zip(old.keys, new.keys, strict=True)]
            for prefix, other in zip(old.prefixes, new.prefixes, strict=True):
                if listed(other):
                    return None
                renamed += [(key, other + key[len(prefix) :]) for key in listed(prefix)]
            return KeyChanges(renamed=renamed)

        if not self.target.change_keys(find):
            raise StoreError(
                f"another writer is just creating {new.prefixes[0]!r} in {self.target!r}; nothing"
                " was moved"
            )
        return True

    def distinguish(self, new: Extent) -> None:
        """Let staged metadata differ from the old ones by newlines at the end, if by nothing else.

        In a database a node is known by the bytes of its metadata: a reader must notice that it was
        replaced by one with the same metadata and other values.
        """
        for key in list_prefix(self.store, "") if isinstance(self.target, ChangesKeys) else ():
            if key in new.metadata or new.is_document(key):
                old, text = (store.get(key) or b"" for store in (self.target, self.store))
                if text.rstrip() == old.rstrip():
                    count = len(old) - len(old.rstrip()) + 1
                    self.store.set(key, text.rstrip() + b"\n" * (count % _VARIANTS))

    def discard(self) -> None:
        """Erase the staged values, unless they are just replacing others.

        The marker is erased first, so that nobody resumes a half of them; or last, if it says that
        nothing else is left to do.
        """
        if can_list(self.target) and not self.pending:
            keys, below = list_dir(self.target, self.prefix)
            key = self.prefix + MARKER
            if key in keys and not self.finished:
                self.target.erase(key)
            for each in (*below, f"{self.prefix}{JOURNAL}/"):  # which is not listed
                erase_prefix(self.target, each)
            erase_values(self.target, [each for each in keys if each != key])
            erase_prefix(self.target, self.prefix)

    def recover(self) -> None:
        """Finish, or undo, what an interrupted writer began, and erase what is left of it."""
        self.settle()
        self.discard()

    def settle(self, *, overwrite: bool = False) -> None:
        """Finish, or undo, an interrupted `replace`; `finished` tells which.

        With `overwrite`, a node that looks like the old one is replaced, although somebody may
        have made it again.
        """
        plan = self._read(PLAN)
        if plan is None:
            return
        if self._resume(plan, overwrite):
            self._finish(plan)
        else:
            self.target.erase(self.prefix + PLAN)

    def _make_plan(self, old: Extent, new: Extent) -> Plan:
        staged = [key for key in list_prefix(self.store, "") if new.has(key)]
        listed = {key for prefix in old.prefixes for key in list_prefix(self.target, prefix)}
        found = {*listed, *old.keys, *old.metadata}
        metadata = [*old.metadata, *new.metadata]
        documents = [k for k in {*found, *staged} if old.is_document(k) or new.is_document(k)]
        return {
            "old": sorted(key for key in found if old.has(key) or old.marks(key)),
            "new": staged,
            "metadata": metadata,
            "documents": sorted(documents),
            "had": _digests(self.target, metadata),
        }

    def _apply(self, plan: Plan, old: Extent | None = None) -> None:
        """Erase old values and copy new ones; may be repeated after an interruption.

        Of every node the metadata are erased first, and stored last: so a reader that finds a node
        finds all its values.

        With `old`, what was added to it since the plan was made is erased, too, if that can be
        done in one step.
        """
        metadata, staged = set(plan["metadata"]), plan["new"]
        documents = {*metadata, *plan.get("documents", ())}
        kept = {*staged} - documents
        gone = [key for key in plan["old"] if key not in kept]
        if isinstance(self.target, ChangesKeys):
            self._apply_at_once(self.target, gone, staged, old)
            return
        places = {key: (key in documents) + (key in metadata) for key in {*gone, *staged}}
        first = {key: (-places[key], key.endswith("attrs")) for key in gone}
        erase_values(self.target, sorted(gone, key=first.__getitem__))
        _note_replacement()
        for key in sorted(staged, key=lambda key: (places[key], *publication_order(key))):
            value = self.store.get(key)
            if value is None:
                raise StoreError(f"{key!r} vanished from {self.store!r} while it was put in place")
            self.target.set(key, value)

    def _apply_at_once(
        self, target: ChangesKeys, gone: list[str], staged: list[str], old: Extent | None
    ) -> None:
        """Erase old values and rename new ones in one transaction, with the plan that says so."""
        mark, finished = self.mark, list[tuple[str, bytes]]()
        if mark is not None:
            done = dataclasses.replace(mark, finished=True)
            finished = [(self.prefix + MARKER, done.write(path=self.path))]
        renamed = [(f"{self.prefix}new/{each}", each) for each in staged]

        def find(listed: ListKeys) -> KeyChanges:
            prefixes = () if old is None else old.prefixes
            # With the locks of writers that append to the old node, so that they fail.
            shapes = lease_key("", "shape")
            added = [
                key
                for prefix in prefixes
                for key in listed(prefix)
                if old and (old.has(key) or key.endswith(shapes))
            ]
            return KeyChanges([*gone, *added, self.prefix + PLAN], renamed, finished)

        target.change_keys(find)
        _note_replacement()

    def _try_again(self) -> None:
        """Complete an interrupted `replace`; nothing was touched if there is no plan yet."""
        plan = self._read(PLAN)
        if plan is not None:
            self._apply(plan)
            self._finish(plan)

    def _resume(self, plan: Plan, overwrite: bool) -> bool:
        """Apply the plan of a killed writer, unless a complete node is there; return False then.

        Metadata are erased first and stored last, so that old ones mean that nothing was erased,
        or that somebody has made the node again.
        """
        now, new = (_digests(store, plan["metadata"]) for store in (self.target, self.store))
        if now and now == new:
            applied = all(self.target.get(key) == self.store.get(key) for key in plan["new"])
            if applied or new != plan["had"]:
                return True
        if now and now == plan["had"] and not overwrite:
            return False
        if not {*plan["had"], *new}.issuperset(now):
            raise self._conflict()
        self._apply(plan)
        return True

    def _finish(self, plan: Plan) -> None:
        self._note_finished()
        self.target.erase(self.prefix + PLAN)

    def _note_finished(self) -> None:
        """Note, where an operation can be resumed, that nothing is left to do."""
        mark = self.mark
        if mark is not None:
            self.keep(dataclasses.replace(mark, finished=True))

    def _write(self, name: str, content: Plan) -> None:
        self.target.set(self.prefix + name, json.dumps(content).encode())

    def _read(self, name: str) -> Plan | None:
        text = self.target.get(self.prefix + name)
        plan: Plan | None = None if text is None else json.loads(text)
        return plan

    def _conflict(self) -> StoreError:
        return StoreError(
            f"a writer was killed while it replaced a node in {self.target!r}, and there is one"
            " now: it was made again, or is still the old one; what the writer left is in"
            f" {FOLDER}/{self.name}: take it from there, or erase it"
        )


class MemoryStage(Stage):
    """A dictionary of its own, whose values are moved; a killed process leaves nothing."""

    target: Any

    def __init__(self, target: Store, path: str | None = None, name: str | None = None) -> None:
        super().__init__(target, path, name)
        self._staged: dict[str, bytes] = {}
        self.store = MemoryStore(self._staged)

    def check(self, old: Extent) -> None:
        """Raise nothing: whatever is in memory can be replaced."""

    def replace(self, old: Extent, new: Extent) -> None:
        staged = [key for key in self._staged if new.has(key)]
        staged.sort(key=lambda key: key in new.metadata)
        with self.target.changing():
            gone = [key for key in list_prefix(self.target, "") if old.has(key)]
            gone.sort(key=lambda key: key not in old.metadata)
            try:
                self._move(gone, staged)
            except BaseException:  # an interrupt must not lose anything
                self._move(gone, staged)
                raise

    def _move(self, gone: Iterable[str], staged: Iterable[str]) -> None:
        for key in gone:
            self.target.erase(key)
        for key in staged:
            self.target.set(key, self._staged[key])

    def discard(self) -> None:
        self._staged.clear()


def _digests(store: Store, keys: Iterable[str]) -> list[str]:
    """Return digests of those values that exist."""
    values = (store.get(key) for key in keys)
    return [blake2b(value).hexdigest() for value in values if value is not None]


def publication_order(key: str) -> tuple[Any, ...]:
    """Return the place of a key among metadata that appear: inner nodes first, attributes first."""
    return -key.count("/"), not key.endswith("attrs"), key


@runtime_checkable
class RenamesFiles(Protocol):
    """Keeps values in files of a directory, which can be renamed, and named durably."""

    def sync_folders(self, path: str) -> None: ...


@runtime_checkable
class Stages(Protocol):
    """Brings a stage of its own, as a session does that others see when it is committed."""

    def stage(self, path: str | None = None, name: str | None = None) -> Stage: ...


def stages_quickly(store: Store) -> bool:
    """Return True if staged values are put in their place without being copied."""
    return isinstance(store, (RenamesFiles, ExcludesThreads, Stages))


def stage(store: Store, path: str | None = None, name: str | None = None) -> Stage:
    """Return a new stage of a store, or the one with a name that a killed writer left."""
    if isinstance(store, RenamesFiles):
        from omnizarr.publish.directory import DirectoryStage  # noqa: PLC0415 - needs this module

        return DirectoryStage(store, path, name)
    if isinstance(store, ExcludesThreads):
        return MemoryStage(store, path, name)
    inner: Any = store if isinstance(store, Stages) or commits_changes(store) else None
    while inner is not None:  # a session takes nothing but nodes, also through other stores
        if isinstance(inner, Stages):
            made = inner.stage(path, name)
            made.target = store
            return made
        inner = getattr(inner, "inner", None)
    return Stage(store, path, name)


# What writers have staged, and are replacing


def interrupted(store: Store) -> list[Stage]:
    """Return what writers have staged in a store that can list, those at work among them."""
    listed = list_dir(store, f"{FOLDER}/")[1] if can_list(store) else ()
    names = (prefix[len(FOLDER) + 1 : -1] for prefix in listed)
    return [stage(store, name=name) for name in names if WriterProcess.named(name) is not None]


def replaced(store: Store, path: str) -> Stage | None:
    """Return a stage whose node, at, above or below a path, is or was being put in its place."""
    return next((each for each in interrupted(store) if each.concerns(path)), None)


def warn_of_replacement(store: Store, listed: Iterable[str]) -> None:
    """Warn if prefixes in the root of a store show that a node was being replaced by a writer."""
    found = replaced(store, "") if f"{FOLDER}/" in listed else None
    if found is not None and not (found.writer.here and found.writer.is_alive):
        warn(found.message())


# The number of the last change of metadata by this process, in any store.
epoch = [0]
_replacements = itertools.count(1)
_last_replacement = 0


def _note_replacement() -> None:
    global _last_replacement
    _last_replacement = next(_replacements)


def last_replacement() -> int:
    """Return a number that differs after each replacement of a node by this process.

    Not in directories and in memory, where the metadata themselves show it.
    """
    return _last_replacement


def _is_replacing(store: Store) -> bool:
    """Return True if a writer, which may be alive, is putting values in their place."""
    return any(each.writer.is_alive and each.pending for each in interrupted(store))


def wait_for_replacement(store: Store) -> bool:
    """Wait while a writer is putting values in their place; return True if one was.

    For stores with a low latency only, and not longer than some seconds.
    """
    if not has_low_latency(store) or not _is_replacing(store):
        return False
    for _ in REPLACEMENT.tries():
        if not _is_replacing(store):
            break
    return True


@contextlib.contextmanager
def lock_replacement(store: Store) -> Iterator[None]:
    """Keep other threads and processes from replacing nodes in a store."""
    key = str(hash(storage_identity(store)[0]))  # two stores with the same hash only wait longer
    with key_locks.locked(key_locks.NODES, [key]), lock_prefix(store, "", [MARKER], "replace"):
        yield


def recover_interrupted(store: Store) -> None:
    """Finish, or undo, what writers that are known to be dead were putting in its place."""
    for each in interrupted(store):
        if each.pending and not each.writer.is_alive:
            each.settle()


def check_whole(store: Store, path: str) -> None:
    """Raise if a node at or below a path may be absent, since a writer is, or was, replacing it.

    For all that must not take such a node for one that was erased.
    """
    wait_for_replacement(store)
    found = replaced(store, path)
    if found is not None:
        raise StoreError(found.message())


def settle_replacements(store: Store, path: str) -> None:
    """Finish, or undo, what dead writers were replacing; raise if a node may still be absent.

    The caller has locked replacement.
    """
    if replaced(store, path) is not None:
        recover_interrupted(store)
        check_whole(store, path)
