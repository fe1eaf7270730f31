"""Outputs of jobs: what is published, where, and what is left when a job is killed.

Where no node exists, chunks are written at their keys and metadata last. Where one is replaced, the
new node is staged beside it. A node that is changed otherwise has a marker beside it until the end.
See `omnizarr.publish`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal, TypeAlias

from omnizarr import consolidate_metadata, extension
from omnizarr.errors import Conflict, InvalidArgument, NodeExists, OmnizarrError, StoreError
from omnizarr.extension import Begun, Kind, Publication, Store, marker, paths, publication, stores

ERASED = 4096  # keys that are erased at a time
Mode: TypeAlias = Literal["new", "overwrite", "update"]


def mark_at(store: Store, path: str) -> extension.Mark | None:
    """Return the mark of an incomplete node, or of one that a job changes; None without one."""
    text = store.get(marker(path))
    return None if text is None else extension.Mark.read(text)


class Output:
    """The output of a job: complete and visible after `finish`, and not before."""

    store: Store  # that the job writes to
    path: str = ""  # of what the job writes
    publication: Publication | None = None  # None in memory: nothing is left of a killed process
    # The store and prefix of chunks between two passes, which are erased when a job is new, and at
    # the end.
    intermediate: tuple[Store, str] | None = None

    @property
    def place(self) -> tuple[Store, str]:
        """The store and path that the job alone may write to."""
        return self.store, self.path

    @property
    def stores(self) -> list[Store]:
        """The stores that all tasks must reach."""
        return [self.store] if self.intermediate is None else [self.store, self.intermediate[0]]

    @property
    def journal(self) -> tuple[Store, str]:
        """The store and prefix of the journal, once the output has begun."""
        return (stores.MemoryStore(), "") if self.publication is None else self.publication.journal

    @property
    def chunk_store(self) -> Store:
        """The store that takes the chunks, at the keys that they have in the end."""
        return self.store

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks of the array at a path."""
        return self.chunk_store

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
            stores.erase_prefix(*self.intermediate)

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


@dataclass(eq=False, repr=False)
class HierarchyOutput(Output):
    """The nodes that a job writes: chunks first, metadata when all of them are complete."""

    location: extension.Location
    nodes: Mapping[str, extension.Node]  # by path in the store
    _: KW_ONLY
    operation: str
    digest: str
    overwrite: bool = False
    consolidate: bool = False
    documents: Mapping[str, bytes] = field(default_factory=dict)  # more metadata, by key
    # Returns False if the node, which is replaced by itself, was written to since.
    is_unchanged: Callable[[], bool] | None = None
    _build: extension.Build | None = None

    def __post_init__(self) -> None:
        self.store, self.path = self.location.store, self.location.path

    @property
    def chunk_store(self) -> Store:
        """The store that takes the chunks, which is staged if a node is replaced."""
        return self.store if self.is_finished else self._begun.publication.values

    @property
    def is_finished(self) -> bool:
        """True if an interrupted job has made the nodes visible."""
        return self._build is None and bool(self.publication and self.publication.mark.finished)

    @property
    def _begun(self) -> extension.Build:
        if self._build is None:
            raise StoreError(f"{self.operation} has not begun")
        return self._build

    def begin(
        self,
        resume: bool,
        shared: bool,
        attempt: str = "",
        staged: dict[str, Publication] | None = None,
    ) -> Begun:
        """Prepare the destination, or find what an interrupted job has written.

        Outputs that belong together share one `attempt`, and what is `staged`.
        """
        if resume and staged is None:
            staged = publication.find_staged(self.store)
            publication.clear_outdated(staged, self.operation, {self.digest})
        wanted = *self.place, self.digest
        found = publication.find(*wanted, resume=resume, shared=shared, staged=staged)
        if found is not None and attempt not in ("", found.mark.attempt):
            found.clear()
            found = None
        if found is not None and found.mark.finished:
            extension.update_consolidated_above(self.location, None)
            self.publication = found
            return "finished"
        mark = publication.new_mark(self.operation, self.digest, Kind.CREATE)
        mark = replace(mark, attempt=attempt or mark.attempt)
        state, self._build = self._begin_build(mark, found, resume, shared)
        self.publication = self._build.publication if self._build.resumable else None
        try:
            for path, node in sorted(self.nodes.items()):
                where = self._begun.location.at(path)
                if state == "new" or extension.existing_node(where.store, path) is None:
                    extension.create_node(where, node)
                else:  # again: the other process may have been killed between two documents
                    texts = where.format.write(path, node)
                    stores.set_many(
                        where.store, [(k, t) for k, t in texts.items() if t is not None]
                    )
            if self.documents:
                stores.set_many(self._begun.location.store, self.documents.items())
        except BaseException as e:
            self._begun.__exit__(type(e), e, e.__traceback__)
            raise
        return state

    def _begin_build(
        self, mark: extension.Mark, found: Publication | None, resume: bool, shared: bool
    ) -> tuple[Begun, extension.Build]:
        location, store = self.location, self.store
        if found is not None and found.stage is None:
            return "resumed", extension.begin_deferred(location, found.mark, False, resume=True)
        old = extension.check_new(location, self.overwrite)
        if old is not None:
            if shared:
                raise location.node_exists((old, extension.GroupModel()))
            if found is None:
                publication.clear_abandoned(store, location.path)
            # Nothing that is staged in memory survives an error.
            kept = None if stores.traits(store).process_local else mark
            state: Begun = "new" if found is None else "resumed"
            return state, extension.begin_stage(location, old, True, kept, found)
        if found is not None:  # the node that was to be replaced is gone
            found.clear()
        other = mark_at(store, location.path) if resume or shared else None
        if other is not None and not self.overwrite and not (shared and other.plan == self.digest):
            raise NodeExists(
                f"{location} is incomplete: {other} was interrupted, and it was not the same as"
                " this: its options were others, or the source has changed since; give"
                " overwrite=True to start again"
            )
        try:
            return "new", extension.begin_deferred(location, mark, self.overwrite and not shared)
        except NodeExists:
            wanted = *self.place, self.digest
            joined = publication.find(*wanted, resume=False, shared=shared)
            if joined is None:
                raise
            # Another part of the job has just begun.
            return "resumed", extension.begin_deferred(location, joined.mark, False, resume=True)

    def finish(self) -> None:
        """Store the metadata, or swap the old node and the new."""
        if self.consolidate and extension.consolidated.key(self.location.format, "") is not None:
            consolidate_metadata(self._begun.location.store, path=self.location.path)
        self._begun.check = self._check_unchanged
        try:
            self._begun.commit()
        except NodeExists:
            # Another process that shares the job has just made it visible.
            if mark_at(*self.place) is not None:
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


@dataclass(eq=False, repr=False)
class ChangeOutput(Output):
    """A visible node that stays as it is until the end: `change` is called then."""

    location: extension.Location
    _: KW_ONLY
    operation: str
    digest: str
    # Makes the result visible; may be repeated after an interruption.
    change: Callable[[], object] = int

    def __post_init__(self) -> None:
        self.store, self.path = self.location.store, self.location.path

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Mark the node, or find the mark of an interrupted job."""
        found = publication.find(*self.place, self.digest, resume=resume, shared=shared)
        if found is not None:
            self.publication = found
            return "finished" if found.mark.finished else "resumed"
        mark = publication.new_mark(self.operation, self.digest, Kind.EXTEND)
        self.publication, state = publication.begin_beside(*self.place, mark, shared)
        return state

    def finish(self) -> None:
        """Change the node."""
        self.change()
        if self.publication is not None:
            self.publication.note_finished()

    def abandon(self) -> None:
        """Keep written values, if there are any, for a job that resumes this one."""
        error, (store, prefix) = sys.exception(), self.journal
        if stores.can_list(store) and next(iter(stores.list_prefix(store, prefix)), None) is None:
            with suppress(OmnizarrError):  # the first error is the one to raise
                self.clear()
        elif error is not None:
            error.add_note(f"{self.location} is as it was; the same call with resume=True goes on")


@dataclass(eq=False, repr=False)
class SeveralNodes(ChangeOutput):
    """Nodes below a visible node, each added or replaced when all of them are complete.

    They share the attempt of the whole output, which has the journal.
    """

    outputs: Mapping[str, HierarchyOutput]  # by path in the store
    # Groups that are added first, unless they exist. None if parts of a job may share the output.
    groups: Mapping[str, extension.GroupModel] | None = None

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks of the node at a path."""
        return self.outputs[path].chunk_store

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Begin to write all nodes, except nodes that an interrupted job has completed."""
        if shared and self.groups is not None:
            raise StoreError(
                "parts of a job need a destination of their own; give one that does not exist"
            )
        for output in self.outputs.values() if not (resume or shared) else ():
            if not output.overwrite:
                extension.check_new(output.location, False)  # before anything is marked
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
                states.append(output.begin(resumed, shared, attempt, staged))
        except BaseException:
            self.abandon()
            raise
        # The journal counts only if nothing that it calls done is begun again.
        if resumed and "new" in states and self.publication is not None:
            self.publication.erase_journal()
            return "new"
        return state

    def finish(self) -> None:
        """Add missing groups, make one node visible after the other, then what needs them all."""
        for path, group in sorted((self.groups or {}).items()):
            where = self.location.at(path)
            if extension.existing_node(where.store, path) is None:
                extension.create_node(where, group)
        for output in self.outputs.values():
            if not output.is_finished:
                output.finish()
        if self.publication is not None:
            self.publication.note_finished()
        self._end()

    def _end(self) -> None:
        for output in self.outputs.values():
            if output.publication is None:  # all were visible when this job was resumed
                found = publication.find(*output.place, output.digest, resume=True)
                output.publication = found if found is not None and found.mark.finished else None
            output.clear()
        self.change()

    def abandon(self) -> None:
        """Keep the written values for a job that resumes this one."""
        for output in self.outputs.values():
            if output._build is not None:
                output.abandon()


@dataclass(eq=False, repr=False)
class CopyOutput(Output):
    """The destination of a copy, not visible as a node before `finish` unless it is updated.

    The copy writes all keys itself, metadata last.
    """

    store: Store
    path: str
    _: KW_ONLY
    operation: str
    digest: str
    source: Store
    mode: Mode
    consolidate: bool
    _staged: Publication | None = None

    @property
    def stores(self) -> list[Store]:
        """The stores that all tasks must reach."""
        return [self.store, self.source]

    @property
    def chunk_store(self) -> Store:
        """The store that takes the values, which is staged if a hierarchy is replaced."""
        return self.store if self._staged is None else self._staged.values

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Prepare the destination, or find what an interrupted copy has written."""
        stores.check_writable(self.store)
        found = publication.find(*self.place, self.digest, resume=resume, shared=shared)
        if found is not None:
            self.publication = found
            if found.mark.finished:
                self._consolidate()
                return "finished"
            self._staged = None if found.stage is None else found
            return "resumed"
        if self.mode != "new":
            with publication.lock_replacement(self.store):
                # Of a copy that was killed when it was complete.
                publication.recover_interrupted(self.store)
        old = mark_at(*self.place)
        if self.mode == "update":  # a copy to an empty place owns everything that it writes
            own = not self._is_occupied() if old is None else old.kind is Kind.COPY
            kind = Kind.COPY if own else Kind.UPDATE
            mark = publication.new_mark(self.operation, self.digest, kind)
            self.publication, state = publication.begin_beside(*self.place, mark, shared)
            return state
        if old is not None:
            self._begin_again(old)
        if self._is_occupied():
            return self._begin_stage(shared)
        mark = publication.new_mark(self.operation, self.digest, Kind.COPY)
        self.publication = Publication.at(self.store, self.path, mark)
        if old is not None:
            self.store.set(marker(self.path), mark.write())
        elif not stores.set_new(self.store, marker(self.path), mark.write()):
            joined = publication.find(*self.place, self.digest, resume=False, shared=shared)
            if joined is None:
                raise NodeExists(f"another writer is just creating {self}; try again later")
            self.publication = joined
            return "resumed"
        return "new"

    def _is_occupied(self) -> bool:
        if not stores.can_list(self.store):
            return extension.existing_node(self.store, self.path) is not None
        return next(self._values(), None) is not None

    def _values(self) -> Iterator[str]:
        """Yield the keys below the path, except this package's own keys."""
        keys = stores.list_prefix(self.store, paths.prefix(self.path))
        return (key for key in keys if not paths.is_ours(key))

    def _begin_again(self, mark: extension.Mark) -> None:
        """Erase what an interrupted copy wrote to an empty place; raise unless overwriting."""
        if self.mode != "overwrite":
            raise NodeExists(
                f"{self} {mark.effect}: {mark} was interrupted, or is still writing; resume=True"
                " finishes the same copy, update=True completes it by another, overwrite=True"
                " starts again"
            )
        if extension.existing_node(self.store, self.path) is not None:
            return  # it stays until the swap
        if mark.kind is not Kind.COPY:
            raise NodeExists(
                f"{self} is incomplete: {mark} was interrupted, or is still writing; finish that"
                " first, or copy to another destination"
            )
        # Nobody resumes what is erased; the marker stays for those who copy here again.
        self.store.set(marker(self.path), extension.Mark(mark.operation, kind=Kind.COPY).write())
        Publication.at(self.store, self.path, mark).erase_journal()
        keys = self._values()
        while some := [*itertools.islice(keys, ERASED)]:
            stores.erase_values(self.store, some)

    def _begin_stage(self, shared: bool) -> Begun:
        """Begin to write beside the node that is replaced."""
        if self.mode != "overwrite":
            raise NodeExists(
                f"{self} is not empty; update=True copies what differs, overwrite=True replaces it"
            )
        if shared:
            raise InvalidArgument("parts of a job cannot replace a hierarchy; erase it first")
        old = extension.existing_node(self.store, self.path)
        if old is None:
            raise NodeExists(f"{self} holds data, but no Zarr node; copy to another destination")
        extension.lookup.check_erasable(self.store, self.path, old[0])
        publication.clear_abandoned(self.store, self.path)
        staged = extension.stage.stage(self.store, self.path)
        staged.check(self._extent)
        if stores.traits(self.store).process_local:  # where another call would not find it
            self._staged = Publication.staged(staged)
        else:
            mark = publication.new_mark(self.operation, self.digest, Kind.COPY)
            self._staged = self.publication = Publication.staged(staged, mark)
        return "new"

    @property
    def _extent(self) -> extension.Extent:
        keys = [
            *extension.consolidated.probe_keys(None, self.path),
            *extension.Probe(self.path).keys(),
        ]
        return extension.Extent(tuple(keys), (), (paths.prefix(self.path),), extension.is_metadata)

    def finish(self) -> None:
        """Swap the old hierarchy and the new, or note that it is complete."""
        if self._staged is not None:
            with publication.lock_replacement(self.store):
                self._staged.put(self._extent, self._extent)
            if self.publication is None:  # else `clear` does
                self._staged.clear()
        self._consolidate()
        if self.publication is not None:
            self.publication.note_finished()

    def _consolidate(self) -> None:
        """Rebuild stale consolidated metadata: the source's may list nodes that were left out."""
        if self.path or not self.consolidate:
            return
        exists = extension.existing_node(self.store, "") is not None
        if exists and extension.consolidated_is_stale(self.store):
            consolidate_metadata(self.store)

    def clear(self) -> None:
        """Erase what is left of the attempt, and of an interrupted update that was replaced."""
        super().clear()
        left = mark_at(*self.place) if self.mode == "overwrite" else None
        if left is not None:
            Publication.at(*self.place, left).clear()

    def abandon(self) -> None:
        """Keep the copied values, and say how to go on."""
        error = sys.exception()
        state, how = "is as it was", "the same copy with resume=True goes on from here"
        if self._staged is None and self.publication is not None:
            state = self.publication.mark.effect
        elif self._staged is not None and self.publication is None:
            self._staged.clear()
            how = "start again"
        if error is not None:
            error.add_note(f"{self} {state}; {how}")

    def __str__(self) -> str:
        return paths.place(self.path, self.store)
