"""The nodes that a job writes: not visible before they are complete, and kept when it is killed.

Where no node exists, chunks are written at their keys, beside a marker that says that the node is
incomplete, and metadata last. Where one is replaced, the new node is staged beside it, and the two
are swapped at the end. What is killed at any moment is finished by the same job with ``resume``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from omnizarr.errors import NodeExists, NodeNotFound, OmnizarrError, StoreError
from omnizarr.formats import Format, consolidated
from omnizarr.hierarchy.build import (
    Build,
    begin_deferred,
    begin_stage,
    check_new,
    lock_replacement,
    update_consolidated_above,
)
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.open import consolidate_metadata, consolidated_is_stale
from omnizarr.model import GroupModel, Node
from omnizarr.stores import MemoryStore, Store, can_list, erase_prefix, is_process_local
from omnizarr.stores.staging import (
    FINISHED,
    MARKER,
    Mark,
    Stage,
    interrupted,
    marker,
    stage,
)


class AlreadyFinished(Exception):
    """Raised by `Output.begin`: a run that was killed had made the result visible.

    `journal` is its journal; `clear` erases what else is left.
    """

    def __init__(self, journal: tuple[Store, str], clear: Callable[[], None]) -> None:
        self.journal, self.clear = journal, clear


class HierarchyOutput:
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
        # Called when the result is visible, before the end can no longer be resumed.
        self.clear: Callable[[], None] | None = None
        self._build: Build | None = None
        self._resumed = False

    @property
    def store(self) -> Store:
        """The store of the destination."""
        return self.location.store

    @property
    def journal(self) -> tuple[Store, str]:
        """The journal of this attempt, in the root of the destination, or with what is staged.

        What is staged in memory is gone after an error, and so is its journal.
        """
        if not self._begun.resumable:
            return MemoryStore(), ""
        begun = self._begun
        prefix = "" if begun.stage is None else begun.stage.prefix
        return self.location.store, prefix + self._mark(begun.attempt).journal

    @property
    def chunk_store(self) -> Store:
        """The store that takes the chunks, at the keys that they have in the end."""
        return self._begun.chunk_store

    @property
    def _begun(self) -> Build:
        if self._build is None:
            raise StoreError(f"{self.operation} has not begun")
        return self._build

    def begin(self, resume: bool, shared: bool) -> bool:
        """Prepare the destination; return True if an interrupted job is resumed or joined."""
        mark = self._mark(os.urandom(6).hex())
        self._build, self._resumed = build_resumable(
            self.location, mark, overwrite=self.overwrite, resume=resume, shared=shared
        )
        try:
            for path, node in sorted(self.nodes.items()):
                where = self._build.location.at(path)
                if not self._resumed or existing_node(where.store, path) is None:
                    where.create(node)
        except BaseException as e:
            self._build.__exit__(type(e), e, e.__traceback__)
            raise
        return self._resumed

    def _mark(self, attempt: str) -> Mark:
        return Mark(self.operation, self.digest, attempt)

    def finish(self) -> None:
        """Store the metadata, or swap the old node and the new."""
        if self.consolidate and consolidated.key(self.location.format, "") is not None:
            consolidate_metadata(self._begun.location.store, path=self.location.path)
        begun, store, key = self._begun, self.store, marker(self.location.path)
        try:
            begun.commit()
        except NodeExists:
            # Another process that shares the job has just made it visible.
            if store.get(key) is not None:
                raise
            return
        if begun.resumable:
            if begun.stage is None and store.get(key) is not None:
                with suppress(OmnizarrError, OSError):  # the node is complete, and visible
                    store.set(key, replace(self._mark(begun.attempt), finished=True).write())
            if self.clear is not None:
                self.clear()
            _erase_journal(*self.journal)
            begun.clear()

    def abandon(self) -> None:
        """Keep the chunks for a job that resumes this one; the error that ended it says so."""
        error = sys.exception()
        if error is None:
            self._begun.discard()
        else:
            self._begun.__exit__(type(error), error, error.__traceback__)


def build_resumable(
    location: Location, mark: Mark, *, overwrite: bool, resume: bool, shared: bool = False
) -> tuple[Build, bool]:
    """Begin as `hierarchy.build` does, but so that an interrupted operation can be resumed.

    Chunks are written to the target, or beside a node that is replaced, and kept after an error.
    The plan in `mark` identifies the operation. With `shared`, other processes write other chunks
    of the same node. Also returns True if an earlier attempt is resumed, or a shared one joined.
    """
    store = location.store
    staged = _find_stage(location, mark.plan) if resume and not is_process_local(store) else None
    found = store.get(marker(location.path)) if resume or shared else None
    same = found is not None and Mark.read(found).plan == mark.plan
    if found is not None and same and Mark.read(found).finished:
        update_consolidated_above(location, None)
        journal = Mark.read(found).journal
        raise AlreadyFinished((store, journal), partial(_end, location, journal))
    old = None if same else check_new(location, overwrite)
    if old is not None:
        if shared or (resume and not overwrite):
            raise location.node_exists((old, GroupModel()))
        return _begin_resumable_stage(location, old, mark, staged)
    if found is not None and not same and not overwrite:
        raise NodeExists(
            f"{location} is incomplete: {Mark.read(found)} was interrupted, and it was not the same"
            " as this; give overwrite=True to start again"
        )
    if not same:
        try:
            begun = begin_deferred(location, mark, overwrite and not shared)
            return replace(begun, resumable=True), False
        except NodeExists:
            found = store.get(marker(location.path)) if shared else None
            if found is None or Mark.read(found).plan != mark.plan:
                raise
            # Another process has just begun.
    begun = begin_deferred(location, Mark.read(found or b""), overwrite=False, resume=True)
    return replace(begun, resumable=True), True


def _begin_resumable_stage(
    location: Location, old: Format, mark: Mark, staged: Stage | None
) -> tuple[Build, bool]:
    """Begin to write a node beside the one that it replaces, or go on with what was begun.

    Nothing that is staged in memory survives an error.
    """
    name = None if staged is None else staged.name
    begun = begin_stage(location, old, overwrite=True, name=name)
    if is_process_local(location.store) or begun.stage is None:
        return begun, False
    key = begun.stage.prefix + MARKER
    if staged is not None:
        mark = Mark.read(location.store.get(key) or b"")
    location.store.set(key, mark.write())
    return replace(begun, resumable=True, attempt=mark.attempt), staged is not None


def _find_stage(location: Location, plan: str) -> Stage | None:
    """Return what an interrupted run of the same plan has staged.

    Completes, or undoes, the replacement of a node that it was killed in. Raises `AlreadyFinished`
    if nothing else is left to do.
    """
    store = location.store
    for each in interrupted(store) if can_list(store) else ():
        found = stage(store, each.name)
        text = store.get(found.prefix + MARKER) or store.get(found.prefix + FINISHED)
        mark = Mark.read(text or b"")
        if mark.plan != plan:
            if not each.complete and found.finished:
                found.discard()
            continue
        with lock_replacement(store):
            found.settle(overwrite=True)
        if not found.finished:
            return found
        update_consolidated_above(location, None)
        raise AlreadyFinished((store, found.prefix + mark.journal), found.discard)
    return None


def settle_stages(store: Store) -> None:
    """Finish, or undo, the replacements of nodes in which jobs were killed."""
    for each in interrupted(store) if can_list(store) else ():
        found = stage(store, each.name)
        if each.complete:
            with lock_replacement(store):
                found.settle(overwrite=True)
        if found.finished:
            found.discard()
    with suppress(NodeNotFound):
        if consolidated_is_stale(store):  # the job was killed before it changed them
            consolidate_metadata(store)


def _end(location: Location, journal: str) -> None:
    """Erase what a killed run could not."""
    _erase_journal(location.store, journal)
    location.store.erase(marker(location.path))


def _erase_journal(store: Store, prefix: str) -> None:
    if can_list(store):
        erase_prefix(store, prefix)
