"""The stage of a directory: new files are written in a folder of their own and renamed.

A folder changes places with the one that it replaces, in one step where the system can. Otherwise,
and at the root, old files are moved aside before new ones get their names. A killed writer leaves a
plan, and a note once all old files are aside: `recover` puts the old ones back before that, the new
ones in their place after it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from functools import cached_property
from typing import Any

from omnizarr import config
from omnizarr.concurrency.retry import REMOVED_DIRECTORY
from omnizarr.errors import NodeChanged, StoreError
from omnizarr.formats import publication_order
from omnizarr.model.paths import OURS, ancestors, is_ours
from omnizarr.publish.stage import PLAN, Extent, Plan, Stage
from omnizarr.stores.base import Store
from omnizarr.stores.local.atomic_files import EXCHANGE, ONLY_NEW, remove_empty, rename_with

MOVED = "moved"  # in a stage: all old files are out of the way
# In a staged folder that is to change places with another: whichever of the two has it is the new
# one, also in a copy of the whole directory.
NEW = f"{OURS}new__"
ATTEMPTS = 16  # to replace a folder that late writers fill


class DirectoryStage(Stage):
    """A folder in a directory, whose entries are renamed."""

    def __init__(self, target: Any, path: str | None = None, name: str | None = None) -> None:
        super().__init__(target, path, name)
        self.root = os.path.join(target.file_root, "")
        self._made_root = False
        # Has the disk store the names on the way to a path.
        self._sync = target.sync_folders if config.get().durability == "fsync" else None

    @property
    def _folder(self) -> str:
        return os.path.join(self.root, *self.prefix.split("/"))

    @cached_property
    def store(self) -> Store:
        self._made_root = not os.path.isdir(self.root)
        new = os.path.join(self._folder, "new")
        try:
            os.makedirs(new, exist_ok=True)
        except OSError as e:
            self.discard()
            raise StoreError(f"cannot write in {self.root!r}: {e.strerror or e}") from e
        kind: Any = type(self.target)
        made: Store = kind(new, read_only=self.target.read_only)
        return made

    def check(self, old: Extent) -> None:
        for prefix in old.prefixes:
            path = self.root + prefix[:-1]
            if prefix and os.path.islink(path):
                raise StoreError(
                    f"cannot replace {path!r}: it is a symbolic link; remove the link itself, or"
                    " replace what it leads to at its own place"
                )

    def replace(self, old: Extent, new: Extent) -> None:
        try:
            super().replace(old, new)
        except OSError as e:
            remedy = "; omnizarr repair finishes that" if self.pending else ""
            raise StoreError(f"cannot replace a node in {self.root!r}: {e}{remedy}") from e

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            super().discard()
        if self._made_root:
            with contextlib.suppress(OSError):  # somebody else has stored something
                os.rmdir(self.root)

    def remove(self, old: Extent) -> bool:
        """Move `old` out of sight, metadata first, and erase it; False if that cannot be done."""
        self.check(old)
        moved: list[str] = []
        aside = os.path.join(self._folder, "old", "")
        there = self._entries(self.root, old, metadata_first=True)
        try:
            for path in there:
                with contextlib.suppress(FileNotFoundError):  # another writer was faster
                    self._rename(self.root + path, aside + path)
                    moved.append(path)
        except OSError:  # on another disk, or not permitted
            for path in reversed(moved):
                self._rename(aside + path, self.root + path)
            self.discard()
            return False
        if there and not moved:
            self.discard()
            where = self.root + there[0]
            raise NodeChanged(f"another writer has just deleted or moved {where!r}")
        if self._sync is not None:
            for path in moved:
                self._sync(self.root + path)
        for path in moved:
            remove_empty(self.root + path, self.root)
        self.discard()
        return True

    def move(self, old: Extent, new: Extent) -> bool:
        """Rename a folder with everything of a node; return False if that is not possible."""
        before = self._entries(self.root, old, metadata_first=True)
        after = [prefix[:-1] for prefix in new.prefixes]
        if len(before) != 1 or len(after) != 1 or os.path.islink(self.root + before[0]):
            return False
        where = self.root + after[0]
        try:
            if not rename_with(ONLY_NEW, self.root + before[0], where):
                self._rename(self.root + before[0], where)
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise StoreError(
                    f"there is a folder {where!r}, in which another writer may be creating a node;"
                    " nothing was moved. If it is empty and nobody does, remove it"
                ) from e
            return False  # on another disk, or not permitted
        if self._sync is not None:
            self._sync(self.root + before[0])
            self._sync(self.root + after[0])
        remove_empty(self.root + before[0], self.root)
        return True

    def _make_plan(self, old: Extent, new: Extent) -> Plan:
        staged = os.path.join(self._folder, "new", "")
        plan: Plan = {
            "old": self._entries(self.root, old, metadata_first=True),
            "new": self._entries(staged, new, metadata_first=False),
            "whole": bool(old.prefixes),  # everything below belongs to the old node
        }
        alike = plan["whole"] and len(plan["new"]) == 1 and plan["old"] == plan["new"]
        if alike and os.path.isdir(staged + plan["new"][0]):
            plan["exchanged"] = plan["new"][0]
            with open(os.path.join(staged, plan["exchanged"], NEW), "wb"):
                pass
        return plan

    def _is_in_place(self, plan: Plan) -> bool:
        """Return True if the new folder has changed places with the old one."""
        new = os.path.join(self._folder, "new", plan.get("exchanged", ""))
        swapped = "exchanged" in plan and os.path.isdir(new)
        return swapped and not os.path.lexists(os.path.join(new, NEW))

    def _apply(self, plan: Plan, old: Extent | None = None) -> None:
        path = plan.get("exchanged")
        new, there = os.path.join(self._folder, "new", str(path)), self.root + str(path)
        # It is there unless a killed writer has moved it away, since its disk cannot exchange.
        if path and os.path.lexists(there) and rename_with(EXCHANGE, new, there):
            return
        for path in plan["old"]:
            with contextlib.suppress(FileNotFoundError):  # another writer was faster
                self._rename(self.root + path, os.path.join(self._folder, "old", path))
        self._write(MOVED, {})
        self._move_new(plan["new"], plan["whole"])

    def _resume(self, plan: Plan, overwrite: bool) -> bool:
        """Move new files in if all old ones are aside, or `overwrite`; else undo that."""
        if self._is_in_place(plan):
            return True
        side = "old" if self._read(MOVED) is None else "new"
        staged = os.path.join(self._folder, side, "")
        left = [path for path in plan[side] if os.path.lexists(staged + path)]
        if plan["whole"] and any(os.path.lexists(self.root + path) for path in left):
            raise self._conflict()
        if side == "new":
            self._move_new(left, plan["whole"])
        elif overwrite:
            self._apply(plan)
        if side == "new" or overwrite:
            return True
        for path in reversed(left):
            with contextlib.suppress(FileNotFoundError):
                self._rename(staged + path, self.root + path)
        return False

    def _finish(self, plan: Plan) -> None:
        if self._read(MOVED) is not None or self._is_in_place(plan):
            self._note_finished()
        if self._sync is not None:
            for path in (*plan["old"], *plan["new"]):
                self._sync(self.root + path)
        done = [os.path.join(self._folder, PLAN)]
        if "exchanged" in plan:
            done.insert(0, os.path.join(self.root, plan["exchanged"], NEW))
        for path in done:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    @staticmethod
    def _entries(top: str, extent: Extent, metadata_first: bool) -> list[str]:
        """Return the paths of files and folders, with metadata first or last."""
        found = [*extent.keys, *(p[:-1] for p in extent.prefixes if p)]
        if "" in extent.prefixes:
            names = os.listdir(top) if os.path.isdir(top) else []
            found += [name for name in names if not is_ours(name)]
        unique = dict.fromkeys([*extent.metadata, *found])
        there = [path for path in unique if os.path.lexists(top + path)]
        roots = set(there)
        outermost = [p for p in there if not any(a in roots for a in ancestors(p))]
        order = sorted(outermost, key=publication_order, reverse=metadata_first)
        return sorted(order, key=lambda path: (path in extent.metadata) is not metadata_first)

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
        """Rename a file or folder; move away what a late writer of the old node made there."""
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

    def _merge(self, new: str, path: str) -> None:
        """Rename a file or folder; merge it into an existing folder entry by entry."""
        try:
            self._rename(new, path)
        except OSError as e:
            if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            for name in os.listdir(new):
                self._merge(os.path.join(new, name), os.path.join(path, name))

    @staticmethod
    def _rename(old: str, new: str) -> None:
        def rename() -> None:
            os.makedirs(os.path.dirname(new), exist_ok=True)
            os.replace(old, new)

        # Another writer may remove the empty folder around it.
        REMOVED_DIRECTORY.call(rename, FileNotFoundError, lambda _: os.path.lexists(old))
