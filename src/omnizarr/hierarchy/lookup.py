"""Find the node at a path, and explain why there is none."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from omnizarr import config, stores
from omnizarr.engine import Missing
from omnizarr.errors import (
    InvalidArgument,
    InvalidMetadata,
    NodeNotFound,
    OmnizarrError,
    Problem,
    StoreError,
    did_you_mean,
    near,
    warn,
)
from omnizarr.formats import ROOT_KEYS, Format, Probe, by_name, consolidated
from omnizarr.hierarchy.consolidated import Copies
from omnizarr.hierarchy.location import Location, separator_of, tell
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.stores import HasParents, Store, can_list, file_root, get_existing, list_dir
from omnizarr.stores.staging import Mark, interrupted, marker

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
MODES = ("r", "r+", "a", "w", "w-")
_FILE = re.compile(r"^(~|[a-z0-9]+://)|\.zarr(\.zip)?/?$")  # looks like a file, not a node
_EXPLAINED = (
    "r reads, r+ reads and writes what is there, a also creates, w replaces what is there,"
    " w- creates and refuses to replace"
)
# What other libraries call them, as far as nothing is replaced by it.
_OF_OTHERS = {"x": "w-", "rw": "r+", "wr": "r+", "rb": "r", "rb+": "r+", "r+b": "r+"}


@dataclass(frozen=True, slots=True)
class StorePath:
    """A place in a store, given wherever a store is: ``StorePath(store) / "group" / "array"``."""

    store: Store
    path: str = ""

    def __truediv__(self, name: str) -> StorePath:
        return replace(self, path=paths.join(self.path, paths.normalize(name)))

    def __str__(self) -> str:
        return f"{paths.show(self.path)} in {self.store!r}"


def place(
    store: Any,
    path: str | None = None,
    mode: str = "r+",
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[Store, str]:
    """The store and the path in it that are meant.

    `store` may also be a `StorePath`, or anything else with a store and a path; `path` then
    starts from there.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode {mode!r} is not known; {_meant(mode)}{_EXPLAINED}")
    start = ""
    if hasattr(store, "store") and hasattr(store, "path") and not isinstance(store, Store):
        store, start = store.store, store.path
    if store is None and isinstance(path, str) and _FILE.search(path):
        warn(
            f"path {path!r} is a place in a store; without a store it is in memory, and gone when"
            f" the program ends. For a file give {path!r} as the store"
        )
    where = stores.resolve(store, read_only=mode == "r", storage_options=storage_options)
    return where, paths.join(paths.normalize(start), paths.normalize(path))


def _meant(mode: object) -> str:
    """The mode that may be meant; never one that replaces what is there."""
    if mode in _OF_OTHERS:
        return f"did you mean {_OF_OTHERS[str(mode)]!r}? "
    return did_you_mean(mode, ("r", "r+", "a", "w-"))


def locate(
    store: Store,
    path: str,
    *,
    zarr_format: object = None,
    read_only: bool = False,
    separator: str | None = None,
    use_consolidated: bool | str | None = False,
    missing: Missing = "fill",
    prefer_group: bool = False,
) -> tuple[Location, Node]:
    """The node at a path in whatever format it is; raises NodeNotFound.

    Where documents of an array and of a group stand at one path, it is the array, unless
    `prefer_group`.
    """
    wanted = None if zarr_format is None else by_name(zarr_format).name
    probe = Probe(path, wanted, separator or separator_of(store))
    name = use_consolidated if isinstance(use_consolidated, str) else None
    if use_consolidated:
        copies = partial(consolidated.keys_beside, path=path, name=name)
        documents = fetch_probe(store, probe, copies)
    else:
        documents = fetch_probe(store, probe)
    problems: list[Problem] = []
    for format in probe.formats(documents, problems):
        location = Location(store, path, format, read_only, missing=missing)
        if format.implicit_groups:
            node = location.find(problems)
        else:
            node = format.read(path, documents, problems)
        if prefer_group and isinstance(node, ArrayModel):
            group = _beside_array(location)
            if group is not None:
                location, node, problems = replace(location, read_only=True), group, []
        if node is not None:
            location.check_read_name()
            tell(problems)
            if isinstance(node, GroupModel) and use_consolidated is not False:
                location = _with_copies(location, bool(use_consolidated), name, documents)
            return location, node
    raise NodeNotFound(why_absent(store, path, wanted))


def _beside_array(location: Location) -> Node | None:
    """The group whose document stands beside that of an array, with a warning."""
    documents = get_existing(location.store, location.format.keys(location.path)[1:])
    group = location.format.read(location.path, documents, [])
    if group is not None:
        warn(f"an array and a group stand at {location}; the group is opened, read-only")
    return group


def _with_copies(
    location: Location, asked: bool, name: str | None, documents: Mapping[str, bytes]
) -> Location:
    """The place with its group's copies: where they are asked for, or nothing can be listed."""
    if not asked and can_list(location.store):
        return location
    store, path, format = location.store, location.path, location.format
    copies = Copies(store, path, format, asked=asked, name=name)
    if asked and not copies.look(documents):
        raise InvalidMetadata(
            f"there are no consolidated metadata at {location}; make them with"
            " consolidate_metadata, or open it without use_consolidated"
        )
    return replace(location, copies=copies)


def format_for(store: Store, path: str, zarr_format: object) -> Format:
    """The format of a new node: as asked, else as the hierarchy it joins, else the default."""
    separator = separator_of(store)
    if zarr_format is not None:
        wanted = by_name(zarr_format, separator)
        probe = Probe("", wanted.name, separator)
        found = probe.formats(get_existing(store, probe.keys()), [])
        return found[0] if found else wanted
    if path:
        probe = Probe("", separator=separator)
        found = probe.formats(get_existing(store, probe.keys()), [])
        if found and found[0].has_groups:
            return found[0]
    return by_name(getattr(store, "default_format", config.get().zarr_format), separator)


BACKSLASH = "; a backslash is part of a name in zarr 3, write '/' between names"


def why_absent(store: Store, path: str, wanted: str | None) -> str:
    """The message for a path with no node: what is there instead, as far as can be told."""
    kind = "" if wanted is None else f"zarr {wanted} "
    message = f"there is no {kind}array or group at {paths.show(path)} in {store!r}"
    root = _root_around(store)
    if root is not None:
        return (
            f"{message}; it lies inside the hierarchy {root!r}, which can only be opened at its"
            " root: open that, with the path of the node"
        )
    mark = store.get(marker(path))
    if mark is not None:
        return (
            f"{message}: it is incomplete, since {Mark.read(mark)} was interrupted, or is still"
            " writing; run that again"
        )
    for staged in interrupted(store):
        if staged.complete:
            return (
                f"{message}; a node was being replaced there when its writer was killed: `omnizarr"
                " repair` finishes that, nothing is lost"
            )
    file = file_root(store)
    if file is not None and file.is_file():
        return f"{message}, which is {_about_file(file)}"
    unknown = _unlisted(store, path) if _is_implicit(store) else ""
    if unknown:
        return f"{message}; {unknown}"
    none = f"no {ROOT_KEYS}"
    if not can_list(store):
        message += f" ({none} is there)"
    else:
        keys, prefixes = list_dir(store, paths.prefix(path))
        if not keys and not prefixes:
            message = f"{message}; nothing is there at all. {_beside(store, path)}"
            return message + BACKSLASH if "\\" in path else message
        names = [paths.name(p.rstrip("/")) for p in (*prefixes, *keys)]
        some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        message += f" ({none}; it holds: {some})"
    return message + BACKSLASH if "\\" in path else message


def may_be_implied(location: Location) -> str:
    """Return why a node without a document may be there all the same; empty where none is.

    The draft has groups that exist by what is below them, which only a listing can show.
    """
    return _unlisted(location.store, location.path) if location.format.implicit_groups else ""


def check_absent(location: Location) -> None:
    """Raise where nothing can tell that there is no node."""
    unknown = may_be_implied(location)
    if unknown:
        raise StoreError(unknown)


def _unlisted(store: Store, path: str) -> str:
    if can_list(store):
        return ""
    return (
        f"{store!r} cannot list its keys, so it cannot be known whether {paths.show(path)} is a"
        " group without a document; open what is below it by name"
    )


def _is_implicit(store: Store) -> bool:
    """Return True if the hierarchy at the root of a store has groups without documents."""
    with suppress(OmnizarrError):
        probe = Probe("")
        return any(f.implicit_groups for f in probe.formats(get_existing(store, probe.keys()), []))
    return False


def why_no_member(location: Location, path: str) -> str:
    """The message for a path below a group with no node: what is there."""
    message = f"there is no array or group {path!r} in {location}"
    unknown = may_be_implied(location.child(path))
    if unknown:
        message += f"; {unknown}"
    names = sorted(location.child_names()) if can_list(location.store) else []
    if names:
        listed = f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
        message += f"; {did_you_mean(path, names)}members: {listed}"
    return message + BACKSLASH if "\\" in location.child(path).path else message


def _beside(store: Store, path: str) -> str:
    """The name in the same folder that a path of nothing may have meant."""
    root = file_root(store)
    if path or root is None or not root.parent.is_dir():
        return "Is the path right?"
    with suppress(OSError):
        # Without endings, which most names have in common.
        names = {Path(name).stem: name for name in sorted(os.listdir(root.parent))}
        meant = near(root.stem, names)
        if meant is not None:
            return f"Did you mean {names[meant]!r}?"
    return "Is the path right?"


# How files begin that are often taken for Zarr, what they are, and what to do.
_FILES = (
    (b"\x89HDF", "an HDF5 or NetCDF-4 file, not Zarr; open it with h5py or xarray"),
    (b"CDF", "a NetCDF-3 file, not Zarr; open it with xarray"),
    (b"II*\0", "a TIFF file, not Zarr; open it with tifffile"),
    (b"MM\0*", "a TIFF file, not Zarr; open it with tifffile"),
    (b"II+\0", "a BigTIFF file, not Zarr; open it with tifffile"),
    (b"\x93NUMPY", "a file of numpy.save, not Zarr; open it with numpy.load"),
    (b"PK", "a ZIP file; put zip:: in front of its path to open what is inside"),
    (b"SQLite format 3", "an SQLite file; put sqlite:// in front of its path"),
)


def _about_file(path: Path) -> str:
    """What a file is that was given in place of a directory, and what to do with it."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as e:
        return f"a file that cannot be read: {e.strerror or e}"
    for mark, about in _FILES:
        if start.startswith(mark):
            return about
    return "a file; give the directory that holds the data"


def _root_around(store: Store) -> Store | None:
    """The hierarchy that a store is a part of, if its format is opened at the root only."""
    for outer in store.parents() if isinstance(store, HasParents) else ():
        with suppress(OmnizarrError):  # what lies around need not be ours, or readable
            probe = Probe("")
            found = probe.formats(get_existing(outer, probe.keys()), [])
            if any(format.implicit_groups for format in found):
                return outer
    return None


def fetch_probe(
    store: Store, probe: Probe, beside: Callable[[str | None], list[str]] = lambda name: []
) -> dict[str, bytes]:
    """Return the documents that a probe asks for, and those `beside` them.

    A store may refuse keys that it cannot have, and a server those that begin with a dot. Where a
    key cannot be read, that is an error only if no format preferred to the key's has documents.
    `beside` gives further keys by the name of a format, or for None those of any.
    """
    try:
        return get_existing(store, [*probe.keys(), *beside(probe.wanted)])
    except StoreError:
        found: dict[str, bytes] = {}
        for keys in probe.keys_in_order():
            found |= get_existing(store, keys)
            formats = probe.formats(found, [])
            if formats:
                return found | get_existing(store, beside(formats[0].name))
        raise
