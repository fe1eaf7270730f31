"""Hierarchies in folders, and what is at a destination."""

from __future__ import annotations

import os
from collections.abc import Iterator

from omnizarr.cli.options import Options
from omnizarr.errors import OmnizarrError
from omnizarr.formats.detect import Probe
from omnizarr.stores.base import Store
from omnizarr.stores.operations import can_list, get_existing, list_dir
from omnizarr.stores.resolve import is_archive, resolve
from omnizarr.stores.staging import MARKER

_OWN = ("__omnizarr", ".__omnizarr")  # where unfinished work and journals are


def find_below(where: str, options: Options = None) -> Iterator[str]:
    """Yield the outermost hierarchies at a path or URL or below it, in order."""
    try:
        if is_archive(where) or os.path.isfile(where):
            yield where
            return
        store = resolve(where, read_only=True, storage_options=options)
    except OmnizarrError:  # which the command reports
        yield where
        return
    if _is_hierarchy(store, "") or not can_list(store):
        yield where
        return
    for prefix in _below(store, "", _root(where)):
        yield f"{where.rstrip('/') or '/'}/{prefix}" if where != "." else prefix


def _root(where: str) -> str | None:
    """Return the path of a local folder, else None."""
    return where if os.path.isdir(where) else None


def _below(store: Store, prefix: str, root: str | None) -> Iterator[str]:
    """Yield the paths of hierarchies below a prefix, relative to the store."""
    keys, prefixes = list_dir(store, prefix)
    archives = [key for key in keys if is_archive(key)]
    for name in sorted([*archives, *(p.rstrip("/") for p in prefixes)]):
        if name in archives:
            yield name
        elif not name.rpartition("/")[2].startswith(_OWN):
            if _is_hierarchy(store, name):
                yield name
            elif root is None or not os.path.islink(os.path.join(root, name)):
                yield from _below(store, f"{name}/", root)


def _is_hierarchy(store: Store, path: str) -> bool:
    """Return True if there are metadata of a node, valid or not, or one is being written."""
    names = [*Probe("").keys(), "attrs", MARKER]
    found = get_existing(store, [f"{path}/{name}" if path else name for name in names])
    present = {key.rpartition("/")[2] for key in found}
    # "meta" is of version 1 only beside "attrs"; other folders may have a file of that name.
    return bool(present - {"meta", "attrs"}) or {"meta", "attrs"} <= present


def is_occupied(where: str, options: Options = None) -> bool:
    """Return True if there is anything at a path or URL."""
    try:
        store = resolve(where, read_only=True, storage_options=options)
        if not can_list(store):
            return _is_hierarchy(store, "")
        keys, prefixes = list_dir(store, "")
    except OmnizarrError:  # a file that is no archive, for instance; the command reports it
        return os.path.exists(where)
    return bool([*keys, *prefixes])
