"""Outputs of jobs: what is published, where, and what is left when a job is killed.

Where no node exists, chunks are written at their keys and metadata last. Where one is replaced, the
new node is staged beside it. A node that is changed otherwise has a marker beside it until the end.
See `omnizarr.publish`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from omnizarr import consolidate_metadata
from omnizarr.errors import Conflict, NodeExists, NodeNotFound, OmnizarrError, StoreError
from omnizarr.extension import (
    ArrayModel,
    Begun,
    Build,
    GroupModel,
    Kind,
    LocalStore,
    Location,
    Mark,
    MemoryStore,
    Node,
    Publication,
    Store,
    all_formats,
    begin_deferred,
    begin_stage,
    can_list,
    check_new,
    consolidated,
    consolidated_is_stale,
    erase_prefix,
    existing_node,
    file_root,
    hierarchies_above,
    is_process_local,
    list_prefix,
    marker,
    publication,
    set_many,
    update_consolidated_above,
)


def join_above(store: Store, path: str) -> str | None:
    """Update the consolidated metadata of a larger hierarchy that the root is a part of.

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


class Output:
    """The output of a job: complete and visible after `finish`, and not before."""

    store: Store  # that the job writes to
    publication: Publication | None = None  # None in memory: nothing is left of a killed process
    # The store and prefix of chunks between two passes, which are erased when a job is new, and at
    # the end.
    intermediate: tuple[Store, str] | None = None

    @property
    def place(self) -> tuple[Store, str]:
        """The store and path that the job alone may write to."""
        raise NotImplementedError

    @property
    def stores(self) -> list[Store]:
        """All stores that the tasks write to."""
        return [self.store] if self.intermediate is None else [self.store, self.intermediate[0]]

    @property
    def journal(self) -> tuple[Store, str]:
        """The store and prefix of the journal, once the output has begun."""
        return (MemoryStore(), "") if self.publication is None else self.publication.journal

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks of the array at a path."""
        return self.store

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Prepare the destination, or find what an interrupted job has written.

        With `shared`, other processes run other parts of the same job.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Make the result visible."""
        raise NotImplementedError

    def clear_intermediate(self) -> None:
        """Erase chunks between two passes."""
        if self.intermediate is not None:
            erase_prefix(*self.intermediate)

    def clear(self) -> None:
        """Erase the journal, and what else is left when the result is visible."""
        self.clear_intermediate()
        if self.publication is not None:
            self.publication.clear()

    def is_cleared(self) -> bool:
        """Return True if another run of a part has called `clear`, so that nobody will again."""
        found = self.publication
        return found is not None and found.stage is None and not found.is_current()

    def abandon(self) -> None:
        """Leave the destination after an error so that the job can be resumed."""


class HierarchyOutput(Output):
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
        documents: Mapping[str, bytes] | None = None,
    ) -> None:
        self.location, self.nodes = location, nodes  # by path in the store
        self.documents = documents or {}  # more metadata, by key
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
        return self.store if self.is_finished else self._begun.publication.values

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks."""
        return self.chunk_store

    @property
    def is_finished(self) -> bool:
        """True if an interrupted job has made the nodes visible."""
        return self._build is None and bool(self.publication and self.publication.mark.finished)

    @property
    def _begun(self) -> Build:
        if self._build is None:
            raise StoreError(f"{self.operation} has not begun")
        return self._build

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Prepare the destination, or find what an interrupted job has written."""
        staged = publication.find_staged(self.store) if resume else None
        if staged:
            publication.clear_outdated(staged, self.operation, {self.digest})
        return self.begin_attempt(resume, shared, staged=staged)

    def begin_attempt(
        self,
        resume: bool,
        shared: bool,
        attempt: str = "",
        staged: Mapping[str, Publication] | None = None,
    ) -> Begun:
        """Do what `begin` does; outputs that belong together share one `attempt`."""
        found = self._find(resume, shared, staged)
        if found is not None and attempt not in ("", found.mark.attempt):
            found.clear()
            found = None
        if found is not None and found.mark.finished:
            update_consolidated_above(self.location, None)
            self.publication = found
            return "finished"
        mark = publication.new_mark(self.operation, self.digest, Kind.CREATE)
        mark = replace(mark, attempt=attempt or mark.attempt)
        state, self._build = self._begin_build(mark, found, resume, shared)
        self.publication = self._build.publication if self._build.resumable else None
        try:
            for path, node in sorted(self.nodes.items()):
                where = self._begun.location.at(path)
                if state == "new" or existing_node(where.store, path) is None:
                    where.create(node)
                else:  # again: the other process may have been killed between two documents
                    texts = where.format.write(path, node)
                    set_many(where.store, [(k, t) for k, t in texts.items() if t is not None])
            if self.documents:
                set_many(self._begun.location.store, self.documents.items())
        except BaseException as e:
            self._begun.__exit__(type(e), e, e.__traceback__)
            raise
        return state

    def _find(
        self, resume: bool, shared: bool, staged: Mapping[str, Publication] | None = None
    ) -> Publication | None:
        return publication.find(
            *self.place, self.digest, resume=resume, shared=shared, staged=staged
        )

    def _begin_build(
        self, mark: Mark, found: Publication | None, resume: bool, shared: bool
    ) -> tuple[Begun, Build]:
        location, store = self.location, self.store
        if found is not None and found.stage is None:
            return "resumed", begin_deferred(location, found.mark, False, resume=True)
        old = check_new(location, self.overwrite)
        if old is not None:
            if shared:
                raise location.node_exists((old, GroupModel()))
            if found is None:
                publication.clear_abandoned(store, location.path)
            # Nothing that is staged in memory survives an error.
            kept = None if is_process_local(store) else mark
            state: Begun = "new" if found is None else "resumed"
            return state, begin_stage(location, old, True, kept, found)
        if found is not None:  # the node that was to be replaced is gone
            found.clear()
        text = store.get(marker(location.path)) if resume or shared else None
        other = None if text is None else Mark.read(text)
        if other is not None and not self.overwrite and not (shared and other.plan == self.digest):
            raise NodeExists(
                f"{location} is incomplete: {other} was interrupted, and it was not the same as"
                " this: its options were others, or the source has changed since; give"
                " overwrite=True to start again"
            )
        try:
            return "new", begin_deferred(location, mark, self.overwrite and not shared)
        except NodeExists:
            joined = self._find(resume=False, shared=shared)
            if joined is None:
                raise
            # Another part of the job has just begun.
            return "resumed", begin_deferred(location, joined.mark, False, resume=True)

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
        if self.publication is not None:
            self.publication.note_finished()

    def _check_unchanged(self) -> None:
        """Raise if the node, which is replaced by itself, was written to since it was read."""
        if self.is_unchanged is not None and not self.is_unchanged():
            raise Conflict(
                f"{self.location} was written to since {self.operation} began; it was not"
                " replaced; start again"
            )

    def find_finished(self, staged: Mapping[str, Publication]) -> None:
        """Find what is left of an attempt whose result is visible, for `clear`."""
        found = self._find(resume=True, shared=False, staged=staged)
        if found is not None and found.mark.finished:
            self.publication = found

    def clear(self) -> None:
        """Erase what is left of the attempt, and of an earlier one that was overwritten."""
        super().clear()
        if self.overwrite and self.publication is not None and self.publication.stage is not None:
            self.store.erase(marker(self.location.path))

    def abandon(self) -> None:
        """Keep the chunks for a job that resumes this one; the raised error says so."""
        error = sys.exception()
        if error is None:
            self._begun.discard()
        else:
            self._begun.__exit__(type(error), error, error.__traceback__)


class ChangeOutput(Output):
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
        found = publication.find(self.store, path, self.digest, resume=resume, shared=shared)
        if found is not None:
            self.publication = found
            return "finished" if found.mark.finished else "resumed"
        mark = publication.new_mark(self.operation, self.digest, Kind.EXTEND)
        self.publication, state = publication.begin_beside(self.store, path, mark, shared)
        return state

    def finish(self) -> None:
        """Change the node."""
        self.change()
        if self.publication is not None:
            self.publication.note_finished()

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
    """Nodes below a visible node, each added or replaced when all of them are complete.

    They share the attempt of the whole output, which has the journal.
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
        """Begin to write all nodes, except nodes that an interrupted job has completed."""
        state = super().begin(resume, shared)
        if state == "finished":
            self._end()
            return state
        attempt = "" if self.publication is None else self.publication.mark.attempt
        resumed, states = state == "resumed" and not shared, list[Begun]()
        staged = publication.find_staged(self.store) if resumed else {}
        publication.clear_outdated(
            staged, self.operation, {each.digest for each in self.outputs.values()}
        )
        try:
            for output in self.outputs.values():
                states.append(output.begin_attempt(resumed, shared, attempt, staged))
        except BaseException:
            self.abandon()
            raise
        # The journal counts only if nothing that it calls done is begun again.
        if resumed and "new" in states and self.publication is not None:
            self.publication.erase_journal()
            return "new"
        return state

    def finish(self) -> None:
        """Make the nodes visible one after the other, then what needs all of them."""
        for output in self.outputs.values():
            if not output.is_finished:
                output.finish()
        if self.publication is not None:
            self.publication.note_finished()
        self._end()

    def _end(self) -> None:
        staged: dict[str, Publication] | None = None
        for output in self.outputs.values():
            if output.publication is None:  # all were visible when this job was resumed
                staged = publication.find_staged(self.store) if staged is None else staged
                output.find_finished(staged)
            output.clear()
        self.change()

    def abandon(self) -> None:
        """Keep what was written for a job that resumes this one."""
        for output in self.outputs.values():
            if output._build is not None:
                output.abandon()


def settle_stages(store: Store, resume: bool = True) -> None:
    """Finish, or undo, the replacements of nodes in which jobs were killed.

    Without `resume`, only those of processes that are known to have ended.
    """
    publication.settle_staged(store, resume)
    with suppress(NodeNotFound):
        if consolidated_is_stale(store):  # the job was killed before it changed them
            consolidate_metadata(store)


class EachArray(SeveralNodes):
    """Arrays of an existing hierarchy, added or replaced one by one when all are complete."""

    def __init__(
        self,
        root: Location,
        nodes: Mapping[str, Node],
        digests: Mapping[str, str],
        *,
        operation: str,
        digest: str,
        overwrite: bool,
    ) -> None:
        outputs = (
            HierarchyOutput(
                root.at(path),
                {path: node},
                operation=operation,
                digest=digests[path],
                overwrite=overwrite,
            )
            for path, node in nodes.items()
            if isinstance(node, ArrayModel)
        )
        super().__init__(root, outputs, operation=operation, digest=digest)
        self.groups = {p: node for p, node in nodes.items() if isinstance(node, GroupModel)}

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Begin to write all arrays, beside the arrays that they replace."""
        if shared:
            raise StoreError(
                "parts of a job need a destination of their own; give one that does not exist"
            )
        return super().begin(resume, shared)

    def finish(self) -> None:
        """Add the groups that are missing, then swap one array after the other."""
        for path, group in sorted(self.groups.items()):
            where = self.location.at(path)
            if existing_node(where.store, path) is None:
                where.create(group)
        super().finish()
