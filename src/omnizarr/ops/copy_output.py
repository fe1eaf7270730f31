"""The destination of a copy: invisible until it is complete, swapped, or updated in place."""

from __future__ import annotations

import sys

from omnizarr.errors import InvalidArgument, NodeExists
from omnizarr.formats import Probe, consolidated
from omnizarr.hierarchy.build import lock_replacement
from omnizarr.hierarchy.location import check_erasable, existing_node
from omnizarr.hierarchy.open import consolidate_metadata, consolidated_is_stale
from omnizarr.model import paths
from omnizarr.ops.job import JOURNAL
from omnizarr.stores import Store, can_list, check_writable, erase_prefix, list_prefix, set_new
from omnizarr.stores.local.atomic_files import OURS
from omnizarr.stores.staging import (
    FOLDER,
    MARKER,
    Extent,
    Mark,
    Stage,
    interrupted,
    marker,
    stage,
)

COPY_OF = "the copy of "  # in the marker of a copy


class Destination:
    """The destination of a copy, not visible as a node before `finish` unless it is updated.

    A new hierarchy is written beside a marker, its metadata last. One that replaces another is
    staged beside that, and the two are swapped at the end.
    """

    def __init__(self, store: Store, path: str, mark: Mark, mode: str, consolidate: bool) -> None:
        self.store, self.path, self.mark, self.mode = store, path, mark, mode
        self.consolidate = consolidate
        self._staged: Stage | None = None

    @property
    def journal(self) -> tuple[Store, str]:
        """The journal, in the root of the destination."""
        return self.store, f"{JOURNAL}/"

    @property
    def target(self) -> Store:
        """The store that takes the values, at the keys that they have in the end."""
        return self.store if self._staged is None else self._staged.store

    def begin(self, resume: bool, shared: bool) -> bool:
        """Prepare the destination; return True if an interrupted copy is resumed or joined."""
        check_writable(self.store)
        found = self.store.get(marker(self.path))
        same = found is not None and Mark.read(found).plan == self.mark.plan
        if same and (resume or shared):
            return True
        if self.mode == "update":
            self.store.set(marker(self.path), self.mark.write())
            return False
        if self.mode == "overwrite" and resume and self._find_stage():
            return True
        if found is not None:
            self._begin_again(Mark.read(found))
        if not self._is_occupied():
            if set_new(self.store, marker(self.path), self.mark.write()):
                return False
            if shared:
                return True
            raise NodeExists(f"another writer is just creating {self}; try again later")
        if self.mode == "overwrite":
            return self._begin_stage(shared)
        if resume and self._has_journal():  # it is complete, but for the end of the journal
            return True
        raise NodeExists(
            f"{self} is not empty; update=True copies what differs, overwrite=True replaces it"
        )

    def _is_occupied(self) -> bool:
        if not can_list(self.store):
            return existing_node(self.store, self.path) is not None
        keys = list_prefix(self.store, paths.prefix(self.path))
        return any(OURS not in key for key in keys)

    def _has_journal(self) -> bool:
        prefix = f"{JOURNAL}/{self.mark.plan[:20]}/"
        return can_list(self.store) and any(True for _ in list_prefix(self.store, prefix))

    def _begin_again(self, mark: Mark) -> None:
        """Erase what another, interrupted copy to an empty place has written; raise if not told."""
        if self.mode != "overwrite":
            raise NodeExists(
                f"{self} is incomplete: {mark} was interrupted, or is still writing; resume=True"
                " finishes the same copy, update=True completes it by another, overwrite=True"
                " starts again"
            )
        if not str(mark).startswith(COPY_OF):
            raise NodeExists(
                f"{self} is incomplete: {mark} was interrupted, or is still writing; finish that"
                " first, or copy to another destination"
            )
        if existing_node(self.store, self.path) is None:  # else an update: it stays until the swap
            erase_prefix(self.store, paths.prefix(self.path))

    def _find_stage(self) -> bool:
        """Return True if the same copy has staged something, or has just put it in its place."""
        for each in interrupted(self.store):
            text = self.store.get(f"{FOLDER}/{each.name}/{MARKER}")
            if text is None or Mark.read(text).plan != self.mark.plan:
                continue
            found = stage(self.store, each.name)
            with lock_replacement(self.store):
                found.settle(overwrite=True)  # if the two were being swapped
            if found.finished:
                found.discard()
            else:
                self._staged = found
            return True
        return False

    def _begin_stage(self, shared: bool) -> bool:
        """Begin to write beside the node that is replaced."""
        if shared:
            raise InvalidArgument("parts of a job cannot replace a hierarchy; erase it first")
        old = existing_node(self.store, self.path)
        if old is None:
            raise NodeExists(f"{self} holds data, but no Zarr node; copy to another destination")
        check_erasable(self.store, self.path, old[0])
        self._staged = stage(self.store)
        self._staged.check(self._extent)
        self.store.set(f"{self._staged.prefix}{MARKER}", self.mark.write())
        return False

    @property
    def _extent(self) -> Extent:
        keys = [*consolidated.probe_keys(None, self.path, None), *Probe(self.path).keys()]
        return Extent(tuple(keys), (), (paths.prefix(self.path),))

    def finish(self) -> None:
        """Swap the old hierarchy and the new, or erase the marker."""
        if self._staged is not None:
            with lock_replacement(self.store):
                self._staged.replace(self._extent, self._extent)
            self._staged.discard()
        if self.consolidate:
            self._consolidate()
        self.store.erase(marker(self.path))

    def _consolidate(self) -> None:
        """Write consolidated metadata anew: those of the source have nodes that were left out."""
        if self.path:
            return
        if existing_node(self.store, "") is not None and consolidated_is_stale(self.store):
            consolidate_metadata(self.store)

    def abandon(self) -> None:
        """Keep what was copied, and say how to go on."""
        error = sys.exception()
        state = "holds old and new values" if self.mode == "update" else "is incomplete"
        if self._staged is not None:
            state = "is as it was"
        if error is not None:
            error.add_note(f"{self} {state}; the same copy with resume=True goes on from here")

    def __str__(self) -> str:
        return f"{paths.show(self.path)} in {self.store!r}" if self.path else repr(self.store)
