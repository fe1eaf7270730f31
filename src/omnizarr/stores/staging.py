"""Write new values out of sight and replace the old ones when all of them are complete.

A `Stage` keeps new values below a prefix of the store itself and copies them key by key;
directories rename files instead, and memory moves values. Metadata is erased first and stored
last, so that a reader finds the old node, none, or the new one, never a mixture. A plan that is
stored beside the staged values lets `recover` finish, or undo, what a killed writer began.

Where no node is replaced, chunks may go to their place at once: a `DeferredMetadataStore` holds
back the metadata, and a marker says that the node is incomplete.
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

from omnizarr.concurrency.retry import REPLACEMENT
from omnizarr.errors import StoreError, warn
from omnizarr.model import paths
from omnizarr.model.paths import OURS, is_ours
from omnizarr.stores.base import (
    Bytes,
    ChangesIf,
    ChangesKeys,
    KeyChanges,
    ListKeys,
    Range,
    Store,
    flat,
)
from omnizarr.stores.identity import StorageIdentity, storage_identity
from omnizarr.stores.leases import lease_key
from omnizarr.stores.marks import (
    JOURNAL,
    MARKER,
    NAME,
    Mark,
    is_running,
    machine,
    new_name,
)
from omnizarr.stores.operations import (
    can_erase,
    can_list,
    check_key,
    check_writable,
    commits_changes,
    erase_prefix,
    erase_values,
    get_many,
    has_low_latency,
    list_dir,
    list_prefix,
    set_many,
    sizes,
)

FOLDER = f"{OURS}staged__"  # in the root of a store: one prefix for each node that is being written
PROBE = f"{OURS}probe__"  # a key that never exists: erasing it shows if a store can erase
PLAN = "plan.json"  # in a stage that is replacing something: what goes where
Plan: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Extent:
    """The keys of a node and of those below it: its own metadata, other keys, prefixes."""

    metadata: tuple[str, ...]
    keys: tuple[str, ...]
    prefixes: tuple[str, ...]
    is_document: Callable[[str], bool] = lambda key: False  # metadata of any node
    path: str = ""  # of the node

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

    `store` is empty and takes the new values. Subclasses replace more quickly.
    """

    def __init__(self, target: Store, name: str | None = None) -> None:
        self.target = target
        self.name = name or new_name()
        self.prefix = f"{FOLDER}/{self.name}/"

    @cached_property
    def store(self) -> Store:
        """The store that takes the new values."""
        from omnizarr.stores.wrappers import PrefixStore  # noqa: PLC0415 - rarely needed

        return PrefixStore(self.target, f"{self.prefix}new")

    def check(self, old: Extent) -> None:
        """Raise if something cannot be replaced."""
        if not can_list(self.target):
            raise StoreError(f"{self.target!r} cannot list its keys, so nothing can be replaced")
        self.target.erase(self.prefix + PLAN)  # not there yet: raises where nothing can be erased

    def replace(self, old: Extent, new: Extent) -> None:
        """Replace all that belongs to `old` by what is staged and belongs to `new`."""
        try:
            plan = self._make_plan(old, new) | {"path": new.path}
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

    @property
    def pending(self) -> bool:
        """True while values are being put in their place."""
        return self._read(PLAN) is not None

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

    @property
    def mark(self) -> Mark | None:
        """The marker of an operation that can be resumed."""
        text = self.target.get(self.prefix + MARKER)
        return None if text is None else Mark.read(text)

    @property
    def finished(self) -> bool:
        """True if the values are in their place, and only what shows that is left."""
        mark = self.mark
        return mark is not None and mark.finished

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
            self._apply_at_once(gone, staged, old)
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

    def _apply_at_once(self, gone: list[str], staged: list[str], old: Extent | None) -> None:
        """Erase old values and rename new ones in one transaction, with the plan that says so."""
        target: Any = self.target
        mark, key = self.mark, self.prefix + MARKER
        finished = () if mark is None else [(key, dataclasses.replace(mark, finished=True).write())]
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
            finished = dataclasses.replace(mark, finished=True)
            self.target.set(self.prefix + MARKER, finished.write())

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


def _digests(store: Store, keys: Iterable[str]) -> list[str]:
    """Return digests of those values that exist."""
    values = (store.get(key) for key in keys)
    return [blake2b(value).hexdigest() for value in values if value is not None]


def publication_order(key: str) -> tuple[Any, ...]:
    """Return the place of a key among metadata that appear: inner nodes first, attributes first."""
    return -key.count("/"), not key.endswith("attrs"), key


@runtime_checkable
class Stages(Protocol):
    """Can put staged values in their place without copying them."""

    def stage(self, name: str | None = None) -> Stage: ...


def stage(store: Store, name: str | None = None) -> Stage:
    """Return a new stage of a store, or the one with a name that a killed writer left."""
    if isinstance(store, Stages):
        return store.stage(name)
    inner = getattr(store, "inner", None) if commits_changes(store) else None
    while inner is not None:  # a session takes nothing but nodes, also through other stores
        if isinstance(inner, Stages):
            made = inner.stage(name)
            made.target = store
            return made
        inner = getattr(inner, "inner", None)
    return Stage(store, name)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A node that was being written when its writer was killed, or is now."""

    name: str
    process: int
    here: bool  # the process was one of this machine
    began: float  # seconds since 1970
    complete: bool  # it was being put in its place
    path: str | None = None  # of a complete one, if it is known

    @property
    def is_alive(self) -> bool:
        """True unless the process is known to have ended."""
        return not self.here or is_running(self.process)

    def concerns(self, path: str) -> bool:
        """Return True if nodes at or below a path may be absent: one is put in its place there."""
        if not self.complete or self.path is None:
            return self.complete
        mine, other = paths.prefix(self.path), paths.prefix(path)
        return mine.startswith(other) or other.startswith(mine)

    def message(self, store: Store) -> str:
        """Return the state of the node that is replaced, with the writer and how to go on."""
        mark = Mark.read(store.get(f"{FOLDER}/{self.name}/{MARKER}") or b"")
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.began))
        node = "a node" if self.path is None else paths.show(self.path)
        state = f"{node} in {store!r} may be absent or in part: {mark}, which began at {since},"
        if self.here and self.is_alive:
            return f"{state} is replacing it (process {self.process}); try again when it has ended"
        resume = ", or the same call with resume=True" if mark.attempt else ""
        return (
            f"{state} was interrupted while it replaced it, or is still writing; `omnizarr repair`"
            f" finishes that{resume}; nothing is lost"
        )


def interrupted(store: Store) -> list[Interrupted]:
    """Return what writers have staged in a store that can list, those at work among them."""
    if not can_list(store):
        return []
    found = []
    for prefix in list_dir(store, f"{FOLDER}/")[1]:
        name = prefix[len(FOLDER) + 1 : -1]
        parts = NAME.fullmatch(name)
        if parts is not None:
            plan = store.get(f"{prefix}{PLAN}")
            path = None
            with contextlib.suppress(ValueError):  # a damaged one, or one of an older version
                path = json.loads(plan or b"{}").get("path")
            here, complete = parts[2] == machine(), plan is not None
            found.append(Interrupted(name, int(parts[1]), here, int(parts[3]), complete, path))
    return found


def replaced(store: Store, path: str) -> Interrupted | None:
    """Return a node at, above or below a path that a writer is, or was, putting in its place."""
    return next((each for each in interrupted(store) if each.concerns(path)), None)


def warn_of_replacement(store: Store, listed: Iterable[str]) -> None:
    """Warn if prefixes in the root of a store show that a node was being replaced by a writer."""
    found = replaced(store, "") if f"{FOLDER}/" in listed else None
    if found is not None and not (found.here and found.is_alive):
        warn(found.message(store))


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


def is_replacing(store: Store) -> bool:
    """Return True if a writer, which may be alive, is putting values in their place."""
    return any(each.complete and each.is_alive for each in interrupted(store))


def wait_for_replacement(store: Store) -> bool:
    """Wait while a writer is putting values in their place; return True if one was.

    For stores with a low latency only, and not longer than some seconds.
    """
    if not has_low_latency(store) or not is_replacing(store):
        return False
    for _ in REPLACEMENT.tries():
        if not is_replacing(store):
            break
    return True


def recover_interrupted(store: Store) -> None:
    """Finish, or undo, what writers that are known to be dead were putting in its place."""
    for each in interrupted(store):
        if each.complete and not each.is_alive:
            stage(store, each.name).settle()


def check_whole(store: Store, path: str) -> None:
    """Raise if a node at or below a path may be absent, since a writer is, or was, replacing it.

    For all that must not take such a node for one that was erased.
    """
    wait_for_replacement(store)
    found = replaced(store, path)
    if found is not None:
        raise StoreError(found.message(store))


def settle_replacements(store: Store, path: str) -> None:
    """Finish, or undo, what dead writers were replacing; raise if a node may still be absent.

    The caller has locked replacement.
    """
    if replaced(store, path) is not None:
        recover_interrupted(store)
        check_whole(store, path)


def recover(store: Store, name: str) -> None:
    """Finish what a killed writer was putting in its place, or erase what it had not completed."""
    stage(store, name).recover()


class DeferredMetadataStore:
    """`inner`, in which no metadata appears before `publish`; whoever writes through this sees it.

    So a reader finds no node before it is complete, whatever interrupts its writer.
    """

    def __init__(self, inner: Store, is_metadata: Callable[[str], bool], hidden: str) -> None:
        self.inner = inner
        self.hidden = hidden  # the key of the marker, which is for other writers
        self.is_metadata = is_metadata
        self.metadata: dict[str, bytes] = {}
        self.published: list[str] = []
        self.read_only = inner.read_only
        self.erases = can_erase(inner)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        if not self.is_metadata(check_key(key)):
            return None if key == self.hidden else self.inner.get(key, range)
        value = self.metadata.get(key)
        return value if value is None or range is None else range.of(value)

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        requested = [*requests]
        mine = [key == self.hidden or self.is_metadata(key) for key, _ in requested]
        pairs = list(zip(requested, mine, strict=True))
        others = iter(get_many(self.inner, [request for request, own in pairs if not own]))
        return [self.get(*request) if own else next(others) for request, own in pairs]

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        if self.is_metadata(check_key(key)):
            self.metadata[key] = bytes(flat(value))
        else:
            self.inner.set(key, value)

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        rows = [*values]
        set_many(self.inner, [row for row in rows if not self.is_metadata(row[0])])
        for key, value in rows:
            if self.is_metadata(key):
                self.set(key, value)

    def erase(self, key: str) -> None:
        check_writable(self)
        if self.is_metadata(check_key(key)):
            self.metadata.pop(key, None)
        else:
            self.inner.erase(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        for key in list_prefix(self.inner, prefix):
            if not self.is_metadata(key):
                yield key
        yield from (key for key in tuple(self.metadata) if key.startswith(prefix))

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        requested = [*keys]
        found = sizes(self.inner, [key for key in requested if not self.is_metadata(key)])
        mine = {key: len(self.metadata[key]) for key in requested if key in self.metadata}
        return {**found, **mine}

    def identity(self, prefix: str = "") -> StorageIdentity:
        return storage_identity(self.inner, prefix)

    def publish(self, belongs: Callable[[str], bool]) -> None:
        """Store the metadata that belongs to a node: at once, or else the innermost first."""
        mine = sorted(filter(belongs, self.metadata), key=publication_order)
        if isinstance(self.inner, ChangesIf) and mine:
            self.published += mine
            self.inner.change_if({key: self.metadata[key] for key in mine}, {})
            return
        for key in mine:
            self.published.append(key)
            self.inner.set(key, self.metadata[key])

    def retract(self) -> None:
        """Erase the metadata that was published, the outermost first."""
        while self.published:
            self.inner.erase(self.published[-1])
            self.published.pop()

    def __repr__(self) -> str:
        return repr(self.inner)
