"""Why there is no node at a path: what is there instead."""

from __future__ import annotations

from contextlib import suppress

from omnizarr.errors import OmnizarrError
from omnizarr.formats import Probe
from omnizarr.hierarchy.fetch import fetch
from omnizarr.model import paths
from omnizarr.stores import Inside, LocalStore, Store, can_list, list_dir


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
    if isinstance(store, LocalStore) and store.root.is_file():
        return f"{message}, which is a file; give the directory that holds the data"
    if can_list(store):
        keys, prefixes = list_dir(store, paths.prefix(path))
        if not keys and not prefixes:
            return f"{message}; nothing is there at all. Is the path right?"
        names = [paths.name(p.rstrip("/")) for p in (*prefixes, *keys)]
        some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        message += f" (no zarr.json, .zarray, .zgroup or meta; it holds: {some})"
    return message


def _root_around(store: Store) -> Store | None:
    """The hierarchy that a store is a part of, if its format is opened at the root only."""
    for outer in store.around() if isinstance(store, Inside) else ():
        with suppress(OmnizarrError):  # what lies around need not be ours, or readable
            probe = Probe("")
            found = probe.formats(fetch(outer, probe.keys()), [])
            if any(format.implicit_groups for format in found):
                return outer
    return None
