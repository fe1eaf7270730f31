"""Folders of hierarchies: each is served below its path, ZIP files among them.

Only what is inside of a hierarchy is served; other files of the folder are not. A symbolic link
that leads out of the folder is listed with its error and not followed, unless that is asked for.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

from omnizarr import extension
from omnizarr.bulk.view_as.store import view_as
from omnizarr.errors import NodeNotFound, OmnizarrError
from omnizarr.extension import Store, base, can_list, lookup, paths, stores
from omnizarr.storage import ZipStore
from omnizarr.viewer.describe import Json, describe, find, members, nothing, public_message
from omnizarr.viewer.describe import summary as summary_of

MAX_DEPTH = 32  # folders above a hierarchy
MAX_KNOWN = 256  # hierarchies that are kept open
SECONDS = 5.0  # until it is looked again what is at a path
_OUTSIDE = "a symbolic link that leads out of the folder, which is not followed (--follow-links)"
_NO_TEXT = re.compile(r"[\x00-\x1f\ud800-\udfff]")  # in keys that the server refuses
_LINK = "a symbolic link to a folder, which is not followed"


@dataclass(slots=True)
class ServedHierarchy:
    """A hierarchy that is served: a store with its root, and its path in what is served."""

    store: Store
    path: str = ""
    generation: str | None = None  # of the archive
    until: float = 0.0  # when it is looked again what is there
    _views: dict[int, Store] = field(default_factory=dict)

    def view(self, zarr_format: int) -> Store:
        """Return the view of the hierarchy in version 2 or 3."""
        if zarr_format not in self._views:
            self._views[zarr_format] = view_as(self.store, zarr_format=zarr_format)
        return self._views[zarr_format]


Located: TypeAlias = tuple[ServedHierarchy, str]  # and the path, or key, in it


def store_below(store: Store, path: str) -> Store:
    """Return the read-only store of the keys below a path."""
    root = stores.direct_file_root(store)
    if root is not None:  # quicker than a wrapper, which compiled code cannot read from
        return extension.LocalStore(os.path.join(os.fsdecode(root), path), read_only=True)
    if isinstance(store, extension.EnclosesFiles) and store.enclosure is not None:
        below = extension.LocalStore(
            os.path.join(stores.file_root(store) or "", path), read_only=True
        )
        return below.enclosed(store.enclosure)
    return extension.PrefixStore(store, paths.prefix(path), read_only=True)


class Folder:
    """All that a server has: one hierarchy, or a folder that has hierarchies at any depth."""

    def __init__(self, store: Store, *, follow_links: bool = False) -> None:
        if isinstance(store, extension.EnclosesFiles) and not follow_links:
            store = store.enclosed()
        self.store, self._follow_links = store, follow_links
        self.whole: ServedHierarchy | None = None  # if all of the store is one hierarchy
        self._is_folder = False
        self._known: dict[str, ServedHierarchy] = {}

    def locate(self, path: str) -> Located | None:
        """Return the hierarchy that has a path, or key, and the rest of it; None if there is none.

        What is served is looked at once: a folder stays one.
        """
        if self.whole is None and not self._is_folder:
            if can_list(self.store) and not lookup.is_hierarchy(self.store, ""):
                self._is_folder = True
            else:
                self.whole = ServedHierarchy(self.store)
        if self.whole is not None:
            return self.whole, path
        inside = path.removesuffix("/")
        for above in [*paths.ancestors(inside), inside][1 : MAX_DEPTH + 1]:
            found = self._find(above)
            if found is not None:
                return found, path[len(above) + 1 :]
            if lookup.is_link(self.store, above):
                return None
        return None

    def _find(self, path: str) -> ServedHierarchy | None:
        """Return the hierarchy whose root is at a path."""
        known = self._known.get(path)
        if known is not None and time.monotonic() < known.until:
            return known
        self._known.pop(path, None)
        if self._leads_outside(path):
            return None
        if extension.is_archive(path) and path in stores.sizes(self.store, [path]):
            found = self._archive(path, known)
        elif lookup.is_hierarchy(self.store, path):
            found = known or ServedHierarchy(store_below(self.store, path), path)
        else:
            return None
        found.until = time.monotonic() + SECONDS
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[path] = found
        return found

    def _archive(self, path: str, known: ServedHierarchy | None) -> ServedHierarchy:
        """Return the hierarchy in a ZIP file, opened again if the file has changed."""
        store = self.store
        generation = store.generation(path) if isinstance(store, base.Versioned) else None
        if known is not None and generation is not None and known.generation == generation:
            return known
        return ServedHierarchy(ZipStore.inside(store, path), path, generation)

    def _leads_outside(self, path: str) -> bool:
        root = stores.file_root(self.store)
        if root is None or not path or self._follow_links:
            return False
        real = os.path.realpath(root)
        return os.path.commonpath([real, os.path.realpath(root / path)]) != real

    def node(self, path: str) -> tuple[Store, str]:
        """Return the store and the path in it of a node; raise if there is no hierarchy."""
        found = self.locate(paths.normalize(path))
        if found is None:
            raise _absent(path)
        return found[0].store, found[1]

    # Descriptions

    def describe(self, path: str) -> Json:
        """Return all facts about a node or folder."""
        path = paths.normalize(path)
        found = self.locate(path)
        if found is not None:
            hierarchy, inside = found
            return _moved(describe(hierarchy.store, inside), hierarchy.path)
        if not self._exists(path):
            raise _absent(path)
        summary = self._summary(path)
        reason = summary.get("error", "a folder of hierarchies; choose one of its members")
        return {**summary, "attributes": {}, "info": [], "display": nothing(reason)}

    def members(self, path: str, offset: int, limit: int) -> Json:
        """Return the summaries of some members of a group or folder, in the order of names."""
        path = paths.normalize(path)
        found = self.locate(path)
        if found is not None:
            hierarchy, inside = found
            return _moved(members(hierarchy.store, inside, offset, limit), hierarchy.path)
        names = self.names(path)
        if not names and not self._exists(path):
            raise _absent(path)
        end = offset + limit
        return {
            "path": path,
            "total": len(names),
            "next": end if end < len(names) else None,
            "members": [self._summary(name) for name in names[offset:end]],
        }

    def names(self, path: str) -> list[str]:
        """Return the paths of ZIP files and folders one level below a folder."""
        above = [*paths.ancestors(path), path][1:]
        closed = len(above) > MAX_DEPTH or any(lookup.is_link(self.store, each) for each in above)
        return [] if closed or not can_list(self.store) else lookup.list_folder(self.store, path)

    def listing(self, prefix: str, after: str, limit: int) -> Json:
        """Return keys with sizes, and prefixes, one level below a prefix: names that follow one.

        Names are percent-encoded, as in a path; "next" is the last one if there are more.
        """
        path = prefix.removesuffix("/")
        store, start = self.store, paths.prefix(path)
        found = self.locate(path)
        if found is not None:
            store, start = found[0].store, paths.prefix(found[1])
            ends = {key for each in stores.list_dir(store, start) for key in each}
        else:
            ends = {p if extension.is_archive(p) else f"{p}/" for p in self.names(path)}
        ends = {e for e in ends if not (extension.is_ours(e) or _NO_TEXT.search(e))}
        known = sorted(end for end in ends if end > start + after)
        page = known[:limit]
        inside = [e for e in page if not self._leads_outside(paths.join(path, e[len(start) :]))]
        keys, sizes = [end for end in inside if not end.endswith("/")], dict[str, int]()
        if isinstance(store, base.HasSizes):
            with suppress(OmnizarrError):  # a link to nothing has none
                sizes = store.sizes(keys)
        return {
            "keys": {quote(key[len(start) :], safe=""): sizes.get(key) for key in keys},
            "prefixes": [quote(e[len(start) : -1], safe="") for e in inside if e.endswith("/")],
            "next": quote(page[-1][len(start) :]) if page != known else None,
        }

    def _exists(self, path: str) -> bool:
        """Return True for a folder, also an empty one, and for a link."""
        return bool(self.names(path)) or path in self.names(path.rpartition("/")[0])

    def _summary(self, path: str) -> Json:
        """Return the facts about a hierarchy or folder that a list of members shows."""
        named: Json = {"name": paths.name(path), "path": path}
        try:
            found = self.locate(path)
            if found is not None:
                hierarchy, inside = found
                location, node = find(hierarchy.store, inside)
                shown = summary_of(location, node, hierarchy.store)
                shown["zarr_format"] = extension.open_node(location, node).zarr_format
                return _moved(shown, hierarchy.path)
        except OmnizarrError as e:
            return {**named, "kind": "error", "error": public_message(e, self.store)}
        if lookup.is_link(self.store, path):
            outside = self._leads_outside(path)
            return {**named, "kind": "error", "error": _OUTSIDE if outside else _LINK}
        return {**named, "kind": "folder", "members": True}


def _absent(path: str) -> NodeNotFound:
    return NodeNotFound(f"there is no array or group at {paths.show(path)}")


def _moved(found: Json, below: str) -> Json:
    """Return a description with paths relative to the served root."""
    if not below:
        return found
    found["path"] = paths.join(below, found["path"])
    found["name"] = paths.name(found["path"])
    if isinstance(found.get("members"), list):
        for member in found["members"]:
            _moved(member, below)
    display: dict[str, Any] = found.get("display") or {}
    for level in display.get("levels") or ():
        level["path"] = paths.join(below, level["path"])
    for axis in display.get("axes") or ():
        if axis["coordinate"] is not None:
            axis["coordinate"] = paths.join(below, axis["coordinate"])
    if found.get("info") and found["info"][0][0] == "path":
        found["info"][0] = ["path", paths.show(found["path"])]
    return found
