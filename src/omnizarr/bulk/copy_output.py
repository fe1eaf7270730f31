"""The destination of a copy: invisible until it is complete, swapped, or updated in place."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Literal, TypeAlias

from omnizarr import consolidate_metadata
from omnizarr.bulk.output import Output
from omnizarr.errors import InvalidArgument, NodeExists
from omnizarr.extension import (
    Begun,
    Extent,
    Kind,
    Mark,
    Probe,
    Publication,
    Store,
    can_list,
    check_erasable,
    check_writable,
    consolidated,
    consolidated_is_stale,
    erase_values,
    existing_node,
    is_metadata,
    is_ours,
    is_process_local,
    list_prefix,
    lock_replacement,
    marker,
    paths,
    publication,
    recover_interrupted,
    set_new,
    stage,
)

ERASED = 4096  # keys that are erased at a time
Mode: TypeAlias = Literal["new", "overwrite", "update"]


class CopyOutput(Output):
    """The destination of a copy, not visible as a node before `finish` unless it is updated.

    The copy writes all keys itself, metadata last.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        *,
        operation: str,
        digest: str,
        mode: Mode,
        consolidate: bool,
    ) -> None:
        self.store, self.path, self.mode = store, path, mode
        self.operation, self.digest = operation, digest
        self.consolidate = consolidate
        self._staged: Publication | None = None

    @property
    def place(self) -> tuple[Store, str]:
        """The store and path of the copy."""
        return self.store, self.path

    @property
    def target(self) -> Store:
        """The store that takes the values, at the keys that they have in the end."""
        return self.store if self._staged is None else self._staged.values

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Prepare the destination, or find what an interrupted copy has written."""
        check_writable(self.store)
        found = publication.find(self.store, self.path, self.digest, resume=resume, shared=shared)
        if found is not None:
            self.publication = found
            if found.mark.finished:
                self._consolidate()
                return "finished"
            self._staged = None if found.stage is None else found
            return "resumed"
        if self.mode != "new":
            with lock_replacement(self.store):
                recover_interrupted(self.store)  # of a copy that was killed when it was complete
        text = self.store.get(marker(self.path))
        old = None if text is None else Mark.read(text)
        if self.mode == "update":
            return self._begin_update(old, shared)
        if old is not None:
            self._begin_again(old)
        if self._is_occupied():
            return self._begin_stage(shared)
        mark = publication.new_mark(self.operation, self.digest, Kind.COPY)
        self.publication = Publication.at(self.store, self.path, mark)
        if old is not None:
            self.store.set(marker(self.path), mark.write())
        elif not set_new(self.store, marker(self.path), mark.write()):
            joined = publication.find(
                self.store, self.path, self.digest, resume=False, shared=shared
            )
            if joined is None:
                raise NodeExists(f"another writer is just creating {self}; try again later")
            self.publication = joined
            return "resumed"
        return "new"

    def _begin_update(self, old: Mark | None, shared: bool) -> Begun:
        """Begin to change values; a copy to an empty place owns everything that it writes."""
        own = not self._is_occupied() if old is None else old.kind is Kind.COPY
        kind = Kind.COPY if own else Kind.UPDATE
        mark = publication.new_mark(self.operation, self.digest, kind)
        self.publication, state = publication.begin_beside(self.store, self.path, mark, shared)
        return state

    def _is_occupied(self) -> bool:
        if not can_list(self.store):
            return existing_node(self.store, self.path) is not None
        return next(self._values(), None) is not None

    def _values(self) -> Iterator[str]:
        """Yield the keys below the path, except this package's own keys."""
        keys = list_prefix(self.store, paths.prefix(self.path))
        return (key for key in keys if not is_ours(key))

    def _begin_again(self, mark: Mark) -> None:
        """Erase what an interrupted copy wrote to an empty place; raise unless overwriting."""
        if self.mode != "overwrite":
            raise NodeExists(
                f"{self} {mark.effect}: {mark} was interrupted, or is still writing; resume=True"
                " finishes the same copy, update=True completes it by another, overwrite=True"
                " starts again"
            )
        if existing_node(self.store, self.path) is not None:
            return  # it stays until the swap
        if mark.kind is not Kind.COPY:
            raise NodeExists(
                f"{self} is incomplete: {mark} was interrupted, or is still writing; finish that"
                " first, or copy to another destination"
            )
        # Nobody resumes what is erased; the marker stays for those who copy here again.
        self.store.set(marker(self.path), Mark(mark.operation, kind=Kind.COPY).write())
        Publication.at(self.store, self.path, mark).erase_journal()
        keys = self._values()
        while some := [*itertools.islice(keys, ERASED)]:
            erase_values(self.store, some)

    def _begin_stage(self, shared: bool) -> Begun:
        """Begin to write beside the node that is replaced."""
        if self.mode != "overwrite":
            raise NodeExists(
                f"{self} is not empty; update=True copies what differs, overwrite=True replaces it"
            )
        if shared:
            raise InvalidArgument("parts of a job cannot replace a hierarchy; erase it first")
        old = existing_node(self.store, self.path)
        if old is None:
            raise NodeExists(f"{self} holds data, but no Zarr node; copy to another destination")
        check_erasable(self.store, self.path, old[0])
        publication.clear_abandoned(self.store, self.path)
        staged = stage(self.store, self.path)
        staged.check(self._extent)
        if is_process_local(self.store):  # where another call would not find it
            self._staged = Publication.staged(staged)
        else:
            mark = publication.new_mark(self.operation, self.digest, Kind.COPY)
            self._staged = self.publication = Publication.staged(staged, mark)
        return "new"

    @property
    def _extent(self) -> Extent:
        keys = [*consolidated.probe_keys(None, self.path, None), *Probe(self.path).keys()]
        return Extent(tuple(keys), (), (paths.prefix(self.path),), is_metadata)

    def finish(self) -> None:
        """Swap the old hierarchy and the new, or note that it is complete."""
        if self._staged is not None:
            with lock_replacement(self.store):
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
        if existing_node(self.store, "") is not None and consolidated_is_stale(self.store):
            consolidate_metadata(self.store)

    def clear(self) -> None:
        """Erase what is left of the attempt, and of an interrupted update that was replaced."""
        super().clear()
        text = self.store.get(marker(self.path)) if self.mode == "overwrite" else None
        if text is not None:
            Publication.at(self.store, self.path, Mark.read(text)).clear()

    def abandon(self) -> None:
        """Keep what was copied, and say how to go on."""
        error = sys.exception()
        state = "is as it was" if self.publication is None else self.publication.mark.effect
        how = "the same copy with resume=True goes on from here"
        if self._staged is not None:
            state = "is as it was"
            if self.publication is None:
                self._staged.clear()
                how = "start again"
        if error is not None:
            error.add_note(f"{self} {state}; {how}")

    def __str__(self) -> str:
        return f"{paths.show(self.path)} in {self.store!r}" if self.path else repr(self.store)
