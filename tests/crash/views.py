"""What a place holds for readers, and what of it is allowed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import zarr

import omnizarr as oz
from omnizarr.errors import OmnizarrError
from tests.crash.operations import CHUNKS, Operation
from tests.crash.places import ROOTS, Place

Entry: TypeAlias = tuple[Any, ...]
View: TypeAlias = dict[str, Entry]
STEPWISE = ("fsspec", "ZIP", "Redis", "S3")  # kinds that change several keys one by one
LATE_ROOTS = ("fsspec", "ZIP", "S3")  # kinds of stores in which members appear one by one


def entry_of(node: Any) -> Entry:
    attributes = repr(sorted(dict(node.attrs).items()))
    if not hasattr(node, "shape"):
        return "group", attributes
    values = np.asarray(node[...])
    return "array", attributes, values.dtype.str, values.shape, values.tobytes()


def look(place: Place, known: Iterable[str] = (), consolidated: bool = False) -> View:
    """Return all nodes and values of a place; those that are known are also asked for by path."""
    found: View = {}
    for name in ROOTS:
        root = place.root(name, read_only=place.kind == "ZIP") if place.exists(name) else None
        if root is None:
            continue
        _add(found, f"{name}:", lambda root=root: oz.open(root, mode="r", use_consolidated=False))
        if found.get(f"{name}:", ("",))[0] == "group":
            top = oz.open(root, mode="r", use_consolidated=False)
            for path, member in top.members(max_depth=None):
                _add(found, f"{name}:{path}", lambda member=member: member)
        for key in known:
            if key.startswith(f"{name}:") and key not in found and "::" not in key:
                path = key.partition(":")[2]
                _add(found, key, lambda path=path, root=root: oz.open(root, mode="r", path=path))
        _add_consolidated(found, f"{'' if consolidated else 'no '}{name}::consolidated", root)
    place.close()
    return found


def look_into(store: Any, name: str) -> View:
    """Return all nodes of a store, as those of the root of a place with a name."""
    found: View = {}
    _add(found, f"{name}:", lambda: oz.open(store, mode="r", use_consolidated=False))
    if found.get(f"{name}:", ("",))[0] == "group":
        for path, member in oz.open(store, mode="r").members(max_depth=None):
            _add(found, f"{name}:{path}", lambda member=member: member)
    return nodes(found)


def plain(entry: Entry, job: str) -> Entry:
    """Return an entry without attributes where a job changes them, as conventions need."""
    return entry if job != "a conversion" else (entry[0], "", *entry[2:])


def _add(found: View, key: str, get: Callable[[], Any]) -> None:
    try:
        found[key] = entry_of(get())
    except oz.NodeNotFound as e:
        found[f"no {key}"] = "message", str(e)
    except OmnizarrError as e:
        found[key] = "error", type(e).__name__, str(e)


def _add_consolidated(found: View, key: str, root: Any) -> None:
    with contextlib.suppress(OmnizarrError):  # there is none
        top = oz.open(root, mode="r", kind="group", use_consolidated=True)
        members = top.members(max_depth=None)
        found[key] = tuple((path, *entry_of(member)[:2]) for path, member in sorted(members))


def stale(view: View) -> str | None:
    """Return what is wrong if consolidated metadata differs from that of the nodes."""
    for name in ROOTS:
        copies = view.get(f"no {name}::consolidated", view.get(f"{name}::consolidated"))
        members = ((k.removeprefix(f"{name}:"), *e[:2]) for k, e in view.items() if f"{name}:" in k)
        known = {path: entry for path, *entry in members if ":" not in path}
        own = tuple((p, *known[p]) for p in sorted(known) if p and _is_member(p, known))
        if copies is not None and copies != own:
            return f"consolidated metadata of {name} differs from that of the nodes"
    return None


def _is_member(path: str, known: Iterable[str]) -> bool:
    """Return True if all groups above a path are there."""
    parts = path.split("/")
    return all("/".join(parts[:n]) in known for n in range(1, len(parts)))


def look_by_zarr(place: Place, known: Iterable[str] = ()) -> View:
    """Return what zarr-python finds in directories."""
    found: View = {}
    for name in ROOTS if place.kind == "directory" else ():
        for key in ["", *(k.partition(":")[2] for k in known if k.startswith(f"{name}:"))]:
            if place.exists(name) and f"{name}:{key}" not in found:
                _add_by_zarr(found, name, place.root(name), key)
    return found


def _add_by_zarr(found: View, name: str, root: str, path: str) -> None:
    where = f"{name}:{path}"
    try:
        try:
            node: Any = zarr.open_array(root, path=path, mode="r")
        except (FileNotFoundError, zarr.errors.NodeTypeValidationError, ValueError):
            node = zarr.open_group(root, path=path, mode="r", use_consolidated=False)
        found[where] = entry_of(node)
        if found[where][0] == "group":
            for inner, member in node.members(max_depth=None, use_consolidated_for_children=False):
                found[f"{name}:{path}/{inner}".replace(":/", ":")] = entry_of(member)
    except (FileNotFoundError, KeyError):
        pass
    except Exception as e:
        found[where] = "error", type(e).__name__, str(e)


def nodes(view: View) -> View:
    return {key: entry for key, entry in view.items() if not key.startswith("no ")}


def wrong(view: View, before: View, after: View, operation: Operation, kind: str) -> str | None:
    """Return what is wrong with a view, or None."""
    found = nodes(view)
    if found in (before, after):
        return None
    if operation.promise == "delete" and kind in STEPWISE:
        return wrong(view, before, after, replace(operation, rule="nodes", promise=""), kind)
    changed = [key for key in before | after if before.get(key) != after.get(key)]
    if operation.rule == "absent" or (operation.promise == "overwrite" and kind != "directory"):
        if found == {k: e for k, e in after.items() if k not in changed}:
            return None
        if kind in STEPWISE and _in_steps(found, before, after, changed):
            return None
    if operation.promise == "in-place job":
        target = operation.target
        text = str(view.get(f"no {target}", view.get(target)))
        named = "resume" in text or (kind != "directory" and "repair" in text)
        if named and found == {k: e for k, e in before.items() if k != target}:
            return None
    roots = [f"{name}:" for name in ROOTS]
    if operation.promise == "job" and operation.target and kind in LATE_ROOTS:
        roots = [operation.target]
    gone = [name for name in roots if name in before | after and name not in found]
    if gone and (operation.rule == "absent" or gone[0] not in before):
        # A root that is not there yet, or no more: what is below it is old or new.
        rest = [key for key in before | after | found if not key.startswith(gone[0])]
        inside = {key: entry for key, entry in found.items() if key.startswith(gone[0])}
        if all(found.get(k) == before.get(k) == after.get(k) for k in rest) and all(
            entry in (before.get(k), after.get(k)) for k, entry in inside.items()
        ):
            return None
    if operation.rule == "both":
        return _wrong_move(found, before, after, kind in STEPWISE)
    bad = []
    for key in sorted(before | after | found):
        entry, either = found.get(key), (before.get(key), after.get(key))
        if entry in either and operation.rule in ("nodes", "chunks"):
            continue
        if operation.rule == "chunks" and entry is not None and chunks_agree(entry, *either):
            continue
        if entry != either[0] or entry != either[1]:
            bad.append(f"{key} {said(entry, *either)}")
    if bad or operation.rule in ("nodes", "chunks"):
        return "; ".join(bad[:4]) or None
    return "old and new nodes together"


def _in_steps(found: View, before: View, after: View, changed: list[str]) -> bool:
    """Return True if a node above all changed ones is missing, and each of them old or new."""
    for top in [key for key in before if key not in found]:
        inside = [k for k in before | after | found if f"{k}/".startswith(f"{top}/")]
        either = all(found.get(k) in (before.get(k), after.get(k), None) for k in inside)
        if either and {*changed} <= {*inside}:
            return all(found.get(k) == e for k, e in before.items() if k not in inside)
    return False


def _wrong_move(found: View, before: View, after: View, stepwise: bool) -> str | None:
    old = {k: e for k, e in before.items() if k not in after}
    new = {k: e for k, e in after.items() if k not in before}
    if any(found.get(k) != e for k, e in before.items() if k in after):
        return "another node has changed"
    values = {k: e for k, e in new.items() if e in old.values() or k.count("/") > 1}
    olds = [k for k, e in old.items() if found.get(k) == e]
    news = [k for k, e in values.items() if found.get(k) == e]
    others = [k for k, e in found.items() if e not in (before.get(k), after.get(k))]
    if stepwise and not others:
        kept = [*map(found.get, olds), *map(found.get, news)]
        return None if all(e in kept for e in old.values()) else "a node is at neither path"
    if others or len(olds) not in (0, len(old)) or len(news) not in (0, len(values)):
        return f"half of a node: {sorted(set(found) & (set(old) | set(new)))}"
    return None if olds or news else "the node is at neither path"


def said(entry: Entry | None, old: Entry | None, new: Entry | None) -> str:
    if entry is None:
        return "is missing"
    if entry[0] in ("error", "group"):
        return f"is {entry[:3]}"
    if entry in (old, new):
        return f"is {'old' if entry == old else 'new'}"
    same = [name for name, e in (("old", old), ("new", new)) if e and e[2:] == entry[2:]]
    if same:
        return f"has the {same[0]} values, but attributes {entry[1]}"
    values = np.frombuffer(entry[4], entry[2])
    rest = f"{int((values == 0).sum())} of {values.size} values missing"
    return f"is neither old nor new: shape {entry[3]}, {rest}"


def chunks_agree(entry: Entry, *either: Entry | None) -> bool:
    """Return True if each chunk of an array is old or new."""
    known = [e for e in either if e is not None and e[:4] == entry[:4] and e[0] == "array"]
    if entry[0] != "array" or not known:
        return False
    arrays = [np.frombuffer(e[4], e[2]).reshape(e[3]) for e in (entry, *known)]
    return all(
        any(np.array_equal(arrays[0][box], other[box]) for other in arrays[1:])
        for box in _boxes(arrays[0].shape)
    )


def _boxes(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    steps = zip(shape, itertools.cycle(CHUNKS), strict=False)
    yield from itertools.product(
        *([slice(i, i + step) for i in range(0, size, step)] for size, step in steps)
    )
