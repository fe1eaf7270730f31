"""Why there is no node at a path: what is there instead."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from omnizarr.errors import OmnizarrError, StoreError, did_you_mean, near
from omnizarr.formats import Probe
from omnizarr.hierarchy.fetch import fetch
from omnizarr.hierarchy.location import Location
from omnizarr.model import paths
from omnizarr.stores import Inside, LocalStore, Store, can_list, list_dir
from omnizarr.stores.staging import interrupted
from omnizarr.stores.withheld import Mark, marker

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
    if isinstance(store, LocalStore) and store.root.is_file():
        return f"{message}, which is {_about_file(store.root)}"
    unknown = _unlisted(store, path) if _is_implicit(store) else ""
    if unknown:
        return f"{message}; {unknown}"
    none = "no zarr.json, .zarray, .zgroup or meta"
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
        return any(f.implicit_groups for f in probe.formats(fetch(store, probe.keys()), []))
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
    if path or not isinstance(store, LocalStore) or not store.root.parent.is_dir():
        return "Is the path right?"
    with suppress(OSError):
        # Without endings, which most names have in common.
        names = {Path(name).stem: name for name in sorted(os.listdir(store.root.parent))}
        meant = near(store.root.stem, names)
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
    for outer in store.around() if isinstance(store, Inside) else ():
        with suppress(OmnizarrError):  # what lies around need not be ours, or readable
            probe = Probe("")
            found = probe.formats(fetch(outer, probe.keys()), [])
            if any(format.implicit_groups for format in found):
                return outer
    return None
