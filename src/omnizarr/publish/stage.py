"""Write new values out of sight and replace the old ones when all of them are complete.

A `Stage` keeps new values below a prefix of the store itself and copies them key by key, or renames
them in one transaction; `DirectoryStage` renames files, and `MemoryStage` moves values. Metadata is
erased first and stored last, so that a reader finds the old node, none, or the new one, never a
mixture. From a plan beside the staged values `recover` finishes, or undoes, what was interrupted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from omnizarr import stores
from omnizarr.errors import StoreError
from omnizarr.formats import publication_order
from omnizarr.model import paths
from omnizarr.model.paths import OURS, is_ours
from omnizarr.stores.base import ChangesKeys, ExcludesThreads, KeyChanges, ListKeys, Store
from omnizarr.stores.leases import is_running, lease_key
from omnizarr.stores.memory import MemoryStore

JOURNAL = f"{OURS}journal__"  # in the root of a store: one prefix for each attempt of a job
INTERMEDIATE = f"{OURS}rechunk__"  # in the root of a store: chunks between two passes of a job
MARKER = f"{OURS}incomplete__"  # the name of a key beside chunks whose metadata is stored last
_NAME = re.compile(r"(\d+)_([0-9a-f]{8})_(\d+)_[0-9a-f]{8}")


class WriterProcess(NamedTuple):
    """The process of a writer, as told by the writer's name."""

    process: int = 0  # 0 if it is not known
    here: bool = False  # the process is one of this machine
    began: int = 0  # seconds since 1970

    @classmethod
    def named(cls, name: str) -> WriterProcess:
        """Return the writer with a name; an unknown one if it is no name of a writer."""
        parts = _NAME.fullmatch(name)
        return cls() if parts is None else cls(int(parts[1]), parts[2] == _machine(), int(parts[3]))

    @property
    def is_alive(self) -> bool:
        """True unless the process is known to have ended."""
        return not self.here or is_running(self.process)


def new_name() -> str:
    """Return a unique name for a writer or a stage, made of process, machine and time."""
    return f"{os.getpid()}_{_machine()}_{int(time.time())}_{os.urandom(4).hex()}"


def _machine() -> str:
    return blake2b(platform.node().encode(), digest_size=4).hexdigest()


_writing: set[str] = set()  # the writers of this process that are at work


def begin_writing() -> str:
    """Return a name for a writer, which counts as active until `end_writing` or process exit."""
    name = new_name()
    _writing.add(name)
    return name


def end_writing(name: str) -> None:
    """Note that a writer has finished, or failed."""
    _writing.discard(name)


def marker(path: str) -> str:
    """Return the key whose presence means that the node at a path is incomplete."""
    return f"{path}/{MARKER}" if path else MARKER


class Kind(StrEnum):
    """The state in which an unfinished operation leaves the node that it marks."""

    DELETE = "delete"  # there is none: what is left of the old one is to be erased
    CREATE = "create"  # there is none: the chunks and metadata of a new one are being written
    COPY = "copy"  # there is none: all that is below the path belongs to the operation
    UPDATE = "update"  # it holds old and new values
    EXTEND = "extend"  # it stays as it was: what changes it is not visible before the end


@dataclass(frozen=True, slots=True)
class Mark:
    """The value of a marker: the operation that writes the node, and a digest of its plan."""

    operation: str  # for messages only
    plan: str = ""
    attempt: str = ""  # differs each time that the operation starts again
    finished: bool = False  # the node is visible, and only the marker is left to be erased
    kind: Kind = Kind.CREATE
    writer: str = ""  # of `begin_writing`, if it is known who writes

    def write(self, **more: str | None) -> bytes:
        """Return the stored form, with other members."""
        return json.dumps({**dataclasses.asdict(self), **more}).encode()

    @classmethod
    def read(cls, value: bytes | None) -> Mark:
        """Return a stored marker; one of another program is just "a writer"."""
        try:
            stored = json.loads(value or b"")
            names = [field.name for field in dataclasses.fields(cls)]
            found = cls(**{name: stored[name] for name in names if name in stored})
            return dataclasses.replace(found, kind=Kind(found.kind))
        except (ValueError, TypeError):
            return cls("a writer")

    @property
    def is_being_written(self) -> bool:
        """True if the writer is known to be at work, on this machine."""
        found = WriterProcess.named(self.writer)
        mine = found.process == os.getpid()
        return found.here and (self.writer in _writing if mine else is_running(found.process))

    def message(self, where: object) -> str:
        """Return the message for a node whose writer is at work, or was interrupted."""
        if self.is_being_written:
            process = WriterProcess.named(self.writer).process
            return f"{where} is being written by process {process}; try again when it is complete"
        finish = "resume=True to finish it, or " if self.attempt else ""  # jobs have an attempt
        return (
            f"{where} is incomplete: {self} was interrupted, or is still writing; give {finish}"
            "overwrite=True to start again"
        )

    @property
    def effect(self) -> str:
        """The state of the node while the operation is not finished, for messages."""
        if self.kind is Kind.UPDATE:
            return "holds old and new values"
        return "is as it was" if self.kind is Kind.EXTEND else "is incomplete"

    def __str__(self) -> str:
        return self.operation


FOLDER = f"{OURS}staged__"  # in the root of a store: one prefix for each node that is being written
PROBE = f"{OURS}probe__"  # a key that never exists: erasing it shows if a store can erase
PLAN = "plan.json"  # in a stage that is replacing something: what goes where
Plan: TypeAlias = dict[str, Any]
_VARIANTS = 16  # of the metadata of nodes that replace one another


@dataclass(frozen=True, slots=True)
class Extent:
    """The keys of a node and of all nodes below it: its own metadata, other keys, prefixes."""

    metadata: tuple[str, ...]
    keys: tuple[str, ...]
    prefixes: tuple[str, ...]
    is_document: Callable[[str], bool] = lambda key: False  # metadata of any node

    def has(self, key: str) -> bool:
        """Return True if a key belongs to the node, or to a node below it."""
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
        return WriterProcess.named(self.name)

    @property
    def mark(self) -> Mark | None:
        """The marker of an operation that can be resumed."""
        text = self.target.get(self.prefix + MARKER)
        return None if text is None else Mark.read(text)

    def keep(self, mark: Mark) -> None:
        """Store a marker, with which the same operation finds the stage when it is resumed."""
        self.target.set(self.prefix + MARKER, mark.write(path=self.path))

    @property
    def pending(self) -> bool:
        """True while values are being put in their place."""
        return self._read(PLAN) is not None

    @property
    def finished(self) -> bool:
        """True if the values are in their place, and only the marker is left."""
        mark = self.mark
        return mark is not None and mark.finished

    def concerns(self, path: str) -> bool:
        """Return True if a node at, above or below a path may be absent while it is replaced."""
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
            return f"{state} {since}, is replacing it (process {writer.process}); try again later"
        resume = ", or the same call with resume=True" if mark.attempt else ""
        return (
            f"{state} {since}, was interrupted while it replaced it, or is still writing;"
            f" `omnizarr repair` finishes that{resume}; nothing is lost"
        )

    # Replacing

    def check(self, old: Extent) -> None:
        """Raise if something cannot be replaced."""
        if not stores.can_list(self.target):
            raise StoreError(f"{self.target!r} cannot list its keys, so nothing can be replaced")
        self.target.erase(self.prefix + PLAN)  # not there yet: raises where nothing can be erased

    def replace(self, old: Extent, new: Extent) -> None:
        """Replace everything of `old` by the staged contents of `new`."""
        try:
            plan = self._make_plan(old, new) | {"path": self.path}
            self._write(PLAN, plan)
            self._apply(plan, old)
        except BaseException as e:
            is_done = False
            with contextlib.suppress(Exception):  # else it is left for `recover`
                is_done = self.settle()
            if not is_done or not isinstance(e, Exception):
                raise
            return
        if not isinstance(self.target, ChangesKeys):  # else that was part of the transaction
            self._finish(plan)

    def remove(self, old: Extent) -> bool:
        """Erase everything of `old` in one step; return False if that is not possible."""
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
        """Add newlines to staged metadata that are equal to the old ones, to tell them apart.

        A database knows a node by the bytes of its metadata; readers must notice a replacement.
        """
        is_database = isinstance(self.target, ChangesKeys)
        for key in stores.list_prefix(self.store, "") if is_database else ():
            if key in new.metadata or new.is_document(key):
                old, text = (store.get(key) or b"" for store in (self.target, self.store))
                if text.rstrip() == old.rstrip():
                    count = len(old) - len(old.rstrip()) + 1
                    self.store.set(key, text.rstrip() + b"\n" * (count % _VARIANTS))

    def discard(self) -> None:
        """Erase the staged values, unless they are just replacing others.

        The marker goes first, so that nobody resumes a half; or last, if it says that all is done.
        """
        if stores.can_list(self.target) and not self.pending:
            keys, below = stores.list_dir(self.target, self.prefix)
            key = self.prefix + MARKER
            if key in keys and not self.finished:
                self.target.erase(key)
            for each in (*below, f"{self.prefix}{JOURNAL}/"):  # which is not listed
                stores.erase_prefix(self.target, each)
            stores.erase_values(self.target, [each for each in keys if each != key])
            stores.erase_prefix(self.target, self.prefix)

    def recover(self) -> None:
        """Finish, or undo, what an interrupted writer began, and erase what is left of it."""
        self.settle()
        self.discard()

    def settle(self, *, overwrite: bool = False) -> bool:
        """Finish, or undo, an interrupted `replace`; return True if the new values are in place.

        With `overwrite` it is finished even if the node there looks like the old one, made again.
        """
        plan = self._read(PLAN)
        is_done = plan is not None and self._resume(plan, overwrite)
        if plan is not None and is_done:
            self._finish(plan)
        elif plan is not None:
            self.target.erase(self.prefix + PLAN)
        return is_done

    def _make_plan(self, old: Extent, new: Extent) -> Plan:
        staged = [key for key in stores.list_prefix(self.store, "") if new.has(key)]
        listed = {key for prefix in old.prefixes for key in stores.list_prefix(self.target, prefix)}
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

        The metadata of a node are erased first and stored last: where it is, so are its values.
        With `old`, what was added since the plan was made is erased, too, if one step can do that.
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
        stores.erase_values(self.target, sorted(gone, key=first.__getitem__))
        replacements[0] = next(_numbers)
        for key in sorted(staged, key=lambda key: (places[key], *publication_order(key))):
            value = self.store.get(key)
            if value is None:
                raise StoreError(f"{key!r} vanished from {self.store!r} while it was put in place")
            self.target.set(key, value)

    def _apply_at_once(
        self, target: ChangesKeys, gone: list[str], staged: list[str], old: Extent | None
    ) -> None:
        """Erase old values and the plan, and rename new values, in one transaction."""
        mark, finished = self.mark, list[tuple[str, bytes]]()
        if mark is not None:
            done = dataclasses.replace(mark, finished=True)
            finished = [(self.prefix + MARKER, done.write(path=self.path))]
        renamed = [(f"{self.prefix}new/{each}", each) for each in staged]

        def find(listed: ListKeys) -> KeyChanges:
            below = [] if old is None else [key for each in old.prefixes for key in listed(each)]
            # With the locks of writers that append to the old node, so that they fail.
            shapes = lease_key("", "shape")
            added = [key for key in below if (old and old.has(key)) or key.endswith(shapes)]
            return KeyChanges([*gone, *added, self.prefix + PLAN], renamed, finished)

        target.change_keys(find)
        replacements[0] = next(_numbers)

    def _resume(self, plan: Plan, overwrite: bool) -> bool:
        """Apply the plan of an interrupted writer; return False if the old node is complete.

        Old metadata mean that nothing was erased, or that somebody has made the node again.
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
        if (mark := self.mark) is not None:
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
        """Raise nothing: everything in memory can be replaced."""

    def replace(self, old: Extent, new: Extent) -> None:
        staged = [key for key in self._staged if new.has(key)]
        staged.sort(key=lambda key: key in new.metadata)
        with self.target.changing():
            gone = [key for key in stores.list_prefix(self.target, "") if old.has(key)]
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


@runtime_checkable
class RenamesFiles(Protocol):
    """Keeps values in files of a directory, which can be renamed, and named durably."""

    def sync_folders(self, path: str) -> None: ...


@runtime_checkable
class Stages(Protocol):
    """Has its own kind of stage, such as a session that others see once it is committed."""

    def stage(self, path: str | None = None, name: str | None = None) -> Stage: ...


def stages_quickly(store: Store) -> bool:
    """Return True if staged values are put in their place without being copied."""
    return isinstance(store, (RenamesFiles, ExcludesThreads, Stages))


def stage(store: Store, path: str | None = None, name: str | None = None) -> Stage:
    """Return a new stage of a store, or the stage `name` that a killed writer left."""
    if isinstance(store, RenamesFiles):
        from omnizarr.publish.directory import DirectoryStage  # noqa: PLC0415 - needs this module

        return DirectoryStage(store, path, name)
    if isinstance(store, ExcludesThreads):
        return MemoryStage(store, path, name)
    commits = isinstance(store, Stages) or stores.traits(store).commits_changes
    inner: Any = store if commits else None
    while inner is not None:  # a session takes nothing but nodes, also through other stores
        if isinstance(inner, Stages):
            made = inner.stage(path, name)
            made.target = store
            return made
        inner = getattr(inner, "inner", None)
    return Stage(store, path, name)


# The number of the last change of metadata by this process, in any store.
epoch = [0]
_numbers = itertools.count(1)
# The number of the last replacement of a node by this process, but in directories and memory, where
# the metadata themselves show it.
replacements = [0]
