"""Stage new values beside old ones and replace the old ones when all are complete.

A directory renames what was written in a folder of its own; memory moves it; any other store
copies it key by key. The old node vanishes and the new one appears with its metadata, which goes
first and comes last. What is left of a process that was killed can be told by `interrupted`, and
`recover` puts the old values back, or the new ones in their place where all of them were complete.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, runtime_checkable

from omnizarr.concurrency.retry import REMOVED_DIRECTORY
from omnizarr.errors import StoreError
from omnizarr.stores.base import Bytes, Range, Store, flat
from omnizarr.stores.identity import Place, place_of
from omnizarr.stores.local.files import OURS
from omnizarr.stores.operations import (
    can_list,
    check_key,
    check_writable,
    erase_prefix,
    erase_values,
    get_many,
    list_dir,
    list_prefix,
    set_many,
    sizes,
)

FOLDER = f"{OURS}staged__"  # in the root of a store, a folder for each node that is being written
ATTEMPTS = 16  # to make a folder that others remove while it is empty


@dataclass(frozen=True, slots=True)
class Extent:
    """All keys of a node and of those below it: its own metadata, other keys, prefixes."""

    metadata: tuple[str, ...]
    keys: tuple[str, ...]
    prefixes: tuple[str, ...]

    def has(self, key: str) -> bool:
        """Return True if a key belongs to it."""
        named = key in self.metadata or key in self.keys
        return named or (key.startswith(self.prefixes) and OURS not in key)


class Stage(Protocol):
    """A place beside a store; `store` is empty, and takes what is to replace something."""

    @property
    def store(self) -> Store: ...

    def check(self, old: Extent) -> None:
        """Raise where something cannot be replaced."""

    def put(self, old: Extent, new: Extent) -> None:
        """Replace all that belongs to `old` by what is staged and belongs to `new`."""

    def discard(self) -> None:
        """Erase what is left here."""


@runtime_checkable
class Stages(Protocol):
    """Can put staged values in their place without copying them."""

    def stage(self) -> Stage: ...


def stage(store: Store) -> Stage:
    """Return a new place beside a store."""
    return store.stage() if isinstance(store, Stages) else KeyStage(store)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A node that was being written when its writer was killed, or is now."""

    name: str
    process: int
    here: bool  # the process was one of this machine
    began: float  # seconds since 1970
    complete: bool  # it was being put in its place


def interrupted(store: Store) -> list[Interrupted]:
    """Return what writers have staged in a store that can list, those at work among them."""
    if not can_list(store):
        return []
    found = []
    for prefix in list_dir(store, f"{FOLDER}/")[1]:
        name = prefix[len(FOLDER) + 1 : -1]
        parts = _NAME.fullmatch(name)
        if parts is not None:
            complete = store.get(f"{FOLDER}/{name}/{PLAN}") is not None
            here = parts[2] == _machine()
            found.append(Interrupted(name, int(parts[1]), here, int(parts[3]), complete))
    return found


def recover(store: Store, name: str) -> None:
    """Finish what a killed writer was putting in its place, or erase what it had not completed."""
    make = getattr(store, "stage", None)
    left = KeyStage(store, name) if make is None else make(name)
    left.recover()


Plan: TypeAlias = dict[str, list[str]]
PLAN, MOVED = "plan.json", "moved"  # in a stage: what goes where; all old values are out of the way


def new_name() -> str:
    """Return a name for a stage that no other has, and that tells process, machine and time."""
    return f"{os.getpid()}_{_machine()}_{int(time.time())}_{os.urandom(4).hex()}"


def _machine() -> str:
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return blake2b(name.encode(), digest_size=4).hexdigest()


_NAME = re.compile(r"(\d+)_([0-9a-f]{8})_(\d+)_[0-9a-f]{8}")


@dataclass
class KeyStage:
    """Keys below a prefix of the store itself, which are copied to their place."""

    inner: Store
    name: str = field(default_factory=new_name)

    @cached_property
    def store(self) -> Store:
        from omnizarr.stores.wrappers import PrefixStore  # noqa: PLC0415 - rarely needed

        return PrefixStore(self.inner, f"{FOLDER}/{self.name}/new")

    def check(self, old: Extent) -> None:
        if not can_list(self.inner):
            raise StoreError(f"{self.inner!r} cannot list its keys, so nothing can be replaced")
        self.inner.erase(self._plan)  # which is not there: raises where nothing can be erased

    @property
    def _plan(self) -> str:
        return f"{FOLDER}/{self.name}/{PLAN}"

    def put(self, old: Extent, new: Extent) -> None:
        staged = [key for key in list_prefix(self.store, "") if new.has(key)]
        listed = {key for prefix in old.prefixes for key in list_prefix(self.inner, prefix)}
        found = {*listed, *old.keys, *old.metadata}
        gone = sorted(key for key in found if old.has(key))
        metadata = [*old.metadata, *new.metadata]
        plan = {
            "old": gone,
            "new": staged,
            "metadata": metadata,
            "had": self._digests(self.inner, metadata),
        }
        self.inner.set(self._plan, json.dumps(plan).encode())
        try:
            self._finish(plan)
        except BaseException:
            with contextlib.suppress(Exception):  # else it is left for `recover`
                self._finish(plan)
            raise

    @staticmethod
    def _digests(store: Store, keys: Iterable[str]) -> list[str]:
        """Return digests of those values that are there."""
        values = (store.get(key) for key in keys)
        return [blake2b(value).hexdigest() for value in values if value is not None]

    def _in_place(self, plan: Plan) -> bool:
        """Return True where all staged values have been copied."""
        return all(self.inner.get(key) == self.store.get(key) for key in plan["new"])

    def _finish(self, plan: Plan) -> None:
        metadata, staged = set(plan["metadata"]), plan["new"]
        kept = {*staged} - metadata
        gone = [key for key in plan["old"] if key not in kept]
        erase_values(self.inner, sorted(gone, key=lambda key: key not in metadata))
        for key in sorted(staged, key=lambda key: (key in metadata, -key.count("/"))):
            value = self.store.get(key)
            if value is None:
                raise StoreError(f"{key!r} vanished from {self.store!r} while it was put in place")
            self.inner.set(key, value)
        self.inner.erase(self._plan)

    @property
    def pending(self) -> bool:
        """True while values are being put in their place."""
        return self.inner.get(self._plan) is not None

    def discard(self) -> None:
        if can_list(self.inner) and not self.pending:
            erase_prefix(self.inner, f"{FOLDER}/{self.name}/")

    def recover(self) -> None:
        """Copy again where a copy was interrupted, and erase what is left."""
        text = self.inner.get(self._plan)
        if text is not None:
            plan: Plan = json.loads(text)
            now = self._digests(self.inner, plan["metadata"])
            new = self._digests(self.store, plan["metadata"])
            whole = bool(now) and now in (plan["had"], new) and not self._in_place(plan)
            if whole or not {*plan["had"], *new}.issuperset(now):
                raise StoreError(in_the_way(self.inner, self.name))
            self._finish(plan)
        self.discard()


@dataclass
class FolderStage:
    """A folder in a directory, whose entries are renamed."""

    root: str  # which ends with a separator
    inner: Store  # a store in the folder of new entries
    name: str
    sync: Callable[[str], None] | None = None  # has the disk store the names on the way to a path
    made_root: bool = False

    @cached_property
    def store(self) -> Store:
        self.made_root = not os.path.isdir(self.root)
        try:
            os.makedirs(os.path.join(self._folder, "new"), exist_ok=True)
        except OSError as e:
            self.discard()
            raise StoreError(f"cannot write in {self.root!r}: {e.strerror or e}") from e
        return self.inner

    @property
    def _folder(self) -> str:
        return folder(self.root, self.name)

    def check(self, old: Extent) -> None:
        for prefix in old.prefixes:
            path = self.root + prefix[:-1]
            if prefix and os.path.islink(path):
                raise StoreError(
                    f"cannot replace {path!r}: it is a symbolic link; remove the link itself, or"
                    " replace what it leads to at its own place"
                )

    def put(self, old: Extent, new: Extent) -> None:
        try:
            plan = {
                "old": self._entries(self.root, old, first=True),
                "new": self._entries(os.path.join(self._folder, "new", ""), new, first=False),
            }
            whole = bool(old.prefixes)  # all that is there belongs to the old node
            self._write(PLAN, {**plan, "whole": whole})
            self._move_old(plan["old"])
            self._write(MOVED, {})
            self._move_new(plan["new"], whole)
        except BaseException as e:
            with contextlib.suppress(OSError):  # else it is left for `recover`
                self.recover()
            if not isinstance(e, OSError):
                raise
            remedy = "; omnizarr repair finishes that" if self._has(PLAN) else ""
            raise StoreError(
                f"cannot replace a node in {self.root!r}: {e.strerror or e}{remedy}"
            ) from e
        self._finished()

    def _finished(self) -> None:
        """Have the disk store all names, and erase what is left."""
        if self.sync is not None:
            with open(os.path.join(self._folder, PLAN)) as file:
                moved = json.load(file)
            for path in (*moved["old"], *moved["new"]):
                self.sync(self.root + path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, PLAN))
        self.discard()

    def _entries(self, top: str, extent: Extent, first: bool) -> list[str]:
        """Paths of files and folders, those of metadata first or last."""
        found = [*extent.keys, *(p[:-1] for p in extent.prefixes if p)]
        if "" in extent.prefixes:
            names = os.listdir(top) if os.path.isdir(top) else []
            found += [name for name in names if OURS not in name]
        unique = dict.fromkeys([*extent.metadata, *found])
        there = [path for path in unique if os.path.lexists(top + path)]
        roots = set(there)
        outermost = [p for p in there if not any(a in roots for a in _above(p))]
        return sorted(outermost, key=lambda path: (path in extent.metadata) is not first)

    def _move_old(self, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # another writer was quicker
                self._rename(self.root + path, os.path.join(self._folder, "old", path))

    def _move_new(self, paths: list[str], whole: bool) -> None:
        new = os.path.join(self._folder, "new", "")
        for path in paths:
            if not os.path.lexists(new + path):
                continue  # moved before an interruption
            if whole:
                self._replace(new + path, path)
            else:
                self._merge(new + path, self.root + path)

    def _replace(self, new: str, path: str) -> None:
        """Rename a file or folder; what a late writer of the old node made there goes first."""
        for number in range(ATTEMPTS):
            try:
                self._rename(new, self.root + path)
                return
            except OSError as e:
                if e.errno not in (errno.ENOTEMPTY, errno.EEXIST) or number == ATTEMPTS - 1:
                    raise
            with contextlib.suppress(FileNotFoundError):
                late = os.path.join(self._folder, f"late{number}", path)
                self._rename(self.root + path, late)

    def _merge(self, new: str, place: str) -> None:
        """Rename a file or folder; into a folder that is there, entry by entry."""
        try:
            self._rename(new, place)
        except OSError as e:
            if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            for name in os.listdir(new):
                self._merge(os.path.join(new, name), os.path.join(place, name))

    @staticmethod
    def _rename(old: str, new: str) -> None:
        def rename() -> None:
            os.makedirs(os.path.dirname(new), exist_ok=True)
            os.replace(old, new)

        # Another writer may remove the empty folder around it.
        REMOVED_DIRECTORY.call(rename, FileNotFoundError, lambda _: os.path.lexists(old))

    def _write(self, name: str, plan: dict[str, Any]) -> None:
        path = os.path.join(self._folder, name)
        with open(f"{path}.part", "w") as file:
            json.dump(plan, file)
        os.replace(f"{path}.part", path)

    def _has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self._folder, name))

    def discard(self) -> None:
        if self._has(PLAN):
            return  # it may hold what is nowhere else: `recover` decides
        with contextlib.suppress(OSError):
            shutil.rmtree(self._folder)
        with contextlib.suppress(OSError):  # others are at work in it
            os.rmdir(os.path.dirname(self._folder))
            if self.made_root:
                os.rmdir(self.root)

    def recover(self) -> None:
        """Put new entries in their place where the old ones had gone; else the old ones back."""
        if not self._has(PLAN):
            self.discard()
            return
        with open(os.path.join(self._folder, PLAN)) as file:
            plan = json.load(file)
        side = "new" if self._has(MOVED) else "old"
        staged = os.path.join(self._folder, side, "")
        left = [path for path in plan[side] if os.path.lexists(staged + path)]
        if plan["whole"] and any(os.path.lexists(self.root + path) for path in left):
            raise StoreError(in_the_way(self.root, self.name))
        if side == "new":
            self._move_new(left, plan["whole"])
        else:
            for path in reversed(left):
                with contextlib.suppress(FileNotFoundError):
                    self._rename(staged + path, self.root + path)
        self._finished()


def in_the_way(store: object, name: str) -> str:
    """Return the message for a node that was made where an interrupted writer had left another."""
    return (
        f"a writer was killed while it replaced a node in {store!r}, and there is one now: it was"
        f" made again, or is still the old one; what the writer left is in {FOLDER}/{name}: take it"
        " from there, or erase it"
    )


def folder(root: str, name: str) -> str:
    """Return the folder of a stage in a directory."""
    return os.path.join(root, FOLDER, name)


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


MARKER = f"{OURS}incomplete__"  # the name of a key beside chunks whose metadata are to come


def marker(path: str) -> str:
    """Return the key that tells that the node at a path is incomplete."""
    return f"{path}/{MARKER}" if path else MARKER


@dataclass(frozen=True, slots=True)
class Mark:
    """The value of a marker: which operation writes the node, and a digest of what it writes."""

    operation: str
    plan: str = ""

    def write(self) -> bytes:
        """Return it as it is stored."""
        return json.dumps({"operation": self.operation, "plan": self.plan}).encode()

    @classmethod
    def read(cls, value: bytes) -> Mark:
        """Return what is stored; of another writer's marker, as little as can be told."""
        try:
            stored = json.loads(value)
            return cls(str(stored["operation"]), str(stored["plan"]))
        except (ValueError, KeyError, TypeError):
            return cls("a writer")

    def __str__(self) -> str:
        return self.operation


class WithheldStore:
    """`inner`, in which no metadata appear before `publish`; who writes through this sees them.

    So a reader finds no node before it is complete, whatever interrupts its writer.
    """

    def __init__(self, inner: Store, is_metadata: Callable[[str], bool], hidden: str) -> None:
        self.inner = inner
        self.hidden = hidden  # the key of the marker, which is for others
        self.is_metadata = is_metadata
        self.metadata: dict[str, bytes] = {}
        self.published: list[str] = []
        self.read_only = inner.read_only

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        if not self.is_metadata(check_key(key)):
            return None if key == self.hidden else self.inner.get(key, range)
        value = self.metadata.get(key)
        return value if value is None or range is None else range.of(value)

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        asked = [*requests]
        mine = [key == self.hidden or self.is_metadata(key) for key, _ in asked]
        pairs = list(zip(asked, mine, strict=True))
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
        asked = [*keys]
        found = sizes(self.inner, [key for key in asked if not self.is_metadata(key)])
        mine = {key: len(self.metadata[key]) for key in asked if key in self.metadata}
        return {**found, **mine}

    def place(self, prefix: str = "") -> Place:
        return place_of(self.inner, prefix)

    def publish(self, belongs: Callable[[str], bool]) -> None:
        """Store the metadata that belong to a node, the innermost first."""
        mine = [key for key in self.metadata if belongs(key)]
        for key in sorted(mine, key=lambda key: (-key.count("/"), key)):
            self.published.append(key)
            self.inner.set(key, self.metadata[key])

    def retract(self) -> None:
        """Erase the metadata that were published, the outermost first."""
        while self.published:
            self.inner.erase(self.published[-1])
            self.published.pop()

    def __repr__(self) -> str:
        return repr(self.inner)
