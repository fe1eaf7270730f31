"""Find the node at a path, and explain why there is none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from omnizarr import chunk_key_encodings, config, errors, stores
from omnizarr.concurrency.cache import Cache
from omnizarr.errors import InvalidMetadata, OmnizarrError, StoreError, warn, warn_of_problems
from omnizarr.formats import Format, Probe, by_name, consolidated
from omnizarr.formats.detect import N5_KEY, ROOT_KEYS, backslash_hint, own_documents
from omnizarr.formats.format import title
from omnizarr.hierarchy.consolidated import ConsolidatedMetadata
from omnizarr.hierarchy.location import Location
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.publish.publication import check_whole, replacing_stage, wait_for_replacement
from omnizarr.publish.stage import MARKER, Mark, marker
from omnizarr.stores import Store
from omnizarr.stores.base import traits
from omnizarr.stores.resolve import is_archive, is_zarr_python_store

if TYPE_CHECKING:  # the engine is slow to import
    from omnizarr.engine import Missing

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
MODES = ("r", "r+", "a", "w", "w-")
_MODES_EXPLAINED = (
    "r reads, r+ reads and writes, a also creates, w replaces an existing node,"
    " w- creates and refuses to replace"
)
_FILE_NAME = re.compile(r"^(~|[a-z0-9]+://)|\.zarr(\.zip)?/?$")  # of a file, not of a node


@dataclass(frozen=True, slots=True)
class StorePath:
    """A store and a path in it, given in place of a store.

    Attributes:
        store: The store.
        path: The path of a node in it.

    Examples:
        >>> oz.save("run.zarr", a=np.arange(3))
        >>> oz.load(oz.storage.StorePath(oz.storage.LocalStore("run.zarr")) / "a")
        array([0, 1, 2])
    """

    store: Store
    path: str = ""

    def __truediv__(self, name: str) -> StorePath:
        return replace(self, path=paths.join(self.path, paths.normalize(name)))

    def __str__(self) -> str:
        return paths.place(self.path, self.store)


def has_store_path(where: Any) -> bool:
    """Return True for an array, a group, or any other object with a store and a path in it."""
    return hasattr(where, "store") and hasattr(where, "path") and not isinstance(where, Store)


def check_node_writable(where: Any) -> None:
    """Raise if `where` is an array or group that was opened read-only."""
    if has_store_path(where) and getattr(where, "read_only", False):
        raise errors.ReadOnly(f"{where!r} is read-only; to write, open it with mode 'r+' or 'a'")


def resolve_store_path(
    store: Any,
    path: str | None = None,
    mode: str = "r+",
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[Store, str]:
    """Turn the arguments of a user into a store and a path in it.

    `store` may also be any object with a store and a path, such as an array; `path` is below that.
    """
    if mode not in MODES:
        raise errors.InvalidArgument(f"mode {mode!r} is not known; {_MODES_EXPLAINED}")
    start = ""
    if not isinstance(store, (str, Path)) and has_store_path(store):
        store, start = store.store, store.path
    if store is None and isinstance(path, str) and _FILE_NAME.search(path):
        warn(
            f"path {path!r} is a path in a store; without a store it is in memory, and gone when"
            f" the program ends. For a file give {path!r} as the store"
        )
    resolved = stores.resolve(store, read_only=mode == "r", storage_options=storage_options)
    if path is None and not start:
        return resolved, ""
    return resolved, paths.join(paths.normalize(start), paths.normalize(path))


def resolve_root(
    where: Any, mode: str = "r+", storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, str]:
    """Return the store and path of `where`; a path in a store of zarr-python is a root here."""
    if is_zarr_python_store(where):
        return stores.resolve(where, read_only=mode == "r", storage_options=storage_options), ""
    return resolve_store_path(where, None, mode, storage_options)


def find_node(
    store: Store,
    path: str,
    *,
    zarr_format: object = None,
    read_only: bool = False,
    separator: str | None = None,
    use_consolidated: bool | str | None = False,
    need_consolidated: bool = True,
    missing: Missing = "fill",
    prefer_group: bool = False,
    kind: str | None = None,
) -> tuple[Location, Node]:
    """Return the location and the node at a path, in any format; raise NodeNotFound.

    Where an array and a group have metadata at the same path, the array is returned, unless
    `prefer_group`. With a `kind`, documents that only the other one has are not looked for.
    Consolidated metadata that do not exist are an error if they are used, and `need_consolidated`.
    """
    facts = traits(store)
    separator = separator or facts.separator
    one_by_one = facts.cheap_requests and kind is None and not prefer_group
    if one_by_one and zarr_format is None:
        own = own_documents(path, store.get, separator)
        if own is not None:
            problems: list[errors.Problem] = []
            location = Location(store, path, own[0], read_only, missing=missing)
            array = location.format.read(path, own[1], problems)
            if isinstance(array, ArrayModel):
                if path:
                    location.warn_of_name()
                if problems:
                    warn_of_problems(problems)
                return location, array
    wanted = None if zarr_format is None else by_name(zarr_format).name
    probe = Probe(path, wanted, separator, kind)
    name = use_consolidated if isinstance(use_consolidated, str) else None
    for attempt in range(2 if stores.traits(store).low_latency else 1):
        if attempt:  # it may just have been absent while it was replaced
            wait_for_replacement(store)
        metadata, problems = _fetch_likely(store, probe, use_consolidated), []
        formats = probe.formats(metadata, problems)
        for number, format in enumerate(formats):
            location = Location(store, path, format, read_only, missing=missing)
            node = format.read(path, metadata, problems)
            if node is None and format.implicit_groups:
                node = location.find(problems)
                last = number + 1 == len(formats)
                if node is None and last and not stores.traits(store).low_latency:
                    # What it would take precedence of was not asked for.
                    metadata = fetch_probe(store, probe, use_consolidated)
                    formats += [f for f in probe.formats(metadata, []) if f.name != format.name]
            if prefer_group and isinstance(node, ArrayModel):
                beside = stores.get_existing(store, format.keys(path)[1:])
                group = format.read(path, beside, [])
                if group is not None:
                    warn(
                        f"{location} has metadata of an array, too; the group is opened, read-only"
                    )
                    location, node, problems = replace(location, read_only=True), group, []
            if node is None:
                continue
            location.warn_of_name()
            warn_of_problems(problems)
            if not stores.traits(store).low_latency and (place := _neighbourhood(store)):
                _likely.put(place, format.name)
            may_use = use_consolidated or (use_consolidated is None and not stores.can_list(store))
            if not isinstance(node, GroupModel) or not may_use:
                return location, node
            found = ConsolidatedMetadata(
                store, path, format, requested=bool(use_consolidated), name=name, fetched=metadata
            )
            if not use_consolidated or found.load():
                return replace(location, consolidated=found), node
            if need_consolidated:
                raise InvalidMetadata(
                    f"there are no consolidated metadata at {location}; make them with"
                    " consolidate_metadata, or open it without use_consolidated"
                )
            return location, node
    raise errors.NodeNotFound(absence_reason(store, path, wanted))


def _fetch_likely(
    store: Store, probe: Probe, use_consolidated: bool | str | None = None
) -> dict[str, bytes]:
    """Fetch the metadata of a probe; from a server, only until they decide which node exists.

    Consolidated metadata of version 2, where they are among the keys, stand for the group's own.
    """
    if stores.traits(store).low_latency or probe.wanted is not None:
        return fetch_probe(store, probe, use_consolidated)
    found = dict[str, bytes]()
    more = consolidated.probe_keys(None, probe.path, use_consolidated)
    try:
        for keys in probe.stages(_likely.get(_neighbourhood(store)), more):
            found |= stores.get_existing(store, keys)
            for key in more if not probe.is_decided(found) else ():
                if key in found and not probe.formats(found, []):
                    found |= consolidated.group_documents(found[key], key, probe.path)
            if probe.is_decided(found):
                break
    except StoreError:
        return fetch_probe(store, probe, use_consolidated)
    return found


_likely: Cache[str, str] = Cache(256)  # the format of the last node, by server or bucket


def _neighbourhood(store: Store) -> str:
    """Return the server or bucket of a store; empty if it has none."""
    return urlsplit(str(getattr(store, "url", ""))).netloc


def fetch_probe(
    store: Store, probe: Probe, use_consolidated: bool | str | None = None
) -> dict[str, bytes]:
    """Fetch the metadata of a probe, with the consolidated metadata of its format if used.

    A store may refuse keys that it cannot have, and a server those that begin with a dot. If a key
    cannot be read, that is an error only if no format of higher precedence has metadata.
    """

    def more(format: str | None) -> list[str]:
        return consolidated.probe_keys(format, probe.path, use_consolidated)

    try:
        return stores.get_existing(store, [*probe.keys(), *more(probe.wanted)])
    except StoreError:
        found: dict[str, bytes] = {}
        for keys in probe.stages():
            found |= stores.get_existing(store, keys)
            formats = probe.formats(found, [])
            if formats:
                return found | stores.get_existing(store, more(formats[0].name))
        raise


def format_for(store: Store, path: str, zarr_format: object) -> Format:
    """Return the format of a new node: as requested, else of its hierarchy, else the default."""
    separator = traits(store).separator
    if zarr_format is not None:
        wanted = by_name(zarr_format, separator)
        if not wanted.root_documents():  # which would say more about the format
            return wanted
        found = root_formats(store, wanted.name, separator)
        return found[0] if found else wanted
    if path:
        found = root_formats(store, None, separator)
        if found and found[0].has_groups:
            return found[0]
    return by_name(traits(store).default_format or config.get().zarr_format, separator)


def root_formats(store: Store, wanted: str | None = None, separator: str = ".") -> list[Format]:
    """Return the formats of the hierarchy at the root of a store; of a server, one may do."""
    probe = Probe("", wanted, separator)
    return probe.formats(_fetch_likely(store, probe), [])


def absence_reason(store: Store, path: str, wanted: str | None) -> str:
    """Return the message for a path without a node, with the names found instead."""
    kind = "" if wanted is None else f"{title(wanted, '')} "
    message = f"there is no {kind}array or group at {paths.place(path, store)}"
    try:
        return message + _found_instead(store, path)
    except StoreError:  # such as from a server that refuses to list
        return f"{message} (no {ROOT_KEYS} is there){backslash_hint(path)}"


def _found_instead(store: Store, path: str) -> str:
    """Return what is at a path without a node, as the end of a message."""
    for outer in getattr(store, "parents", tuple)():
        if _may_have_implicit_groups(outer):
            return (
                f"; it is inside the hierarchy {outer!r}, which can only be opened at its root:"
                " open that, with the path of the node"
            )
    begun = _interruption(store, path)
    if begun:
        return begun
    if store.get(paths.prefix(path) + N5_KEY) is not None:
        return "; it is N5, which omnizarr does not read: tensorstore and z5py do"
    file = stores.file_root(store)
    if file is not None and file.is_file():
        return f", which is {_describe_file(file)}"
    for part in () if file is None else (file / path, *(file / path).parents):
        if part.is_symlink() and not part.exists():
            return f"; {str(part)!r} is a symbolic link to {os.readlink(part)!r}, which is missing"
    hint = backslash_hint(path)
    if not stores.can_list(store):
        if _may_have_implicit_groups(store):
            return f"; {_listing_needed(store, path)}"
        return f" (no {ROOT_KEYS} is there){hint}"
    keys, prefixes = stores.list_dir(store, paths.prefix(path))
    if not keys and not prefixes:
        return f"; nothing exists there. {_similar_file(store, path)}{hint}"
    names = [paths.name(p.rstrip("/")) for p in (*prefixes, *keys)]
    some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    above = next(hierarchies_above(store), None)
    inside = "" if above is None else f"; it is inside {above[0]!r}"
    return f" (no {ROOT_KEYS}; it holds: {some}){inside}{hint}"


def _interruption(store: Store, path: str) -> str:
    """Return the end of a message about an interrupted writer and how to go on, or ""."""
    value = store.get(marker(path))
    if value is not None:
        mark = Mark.read(value)
        return (
            f": it is incomplete, since {mark} was interrupted, or is still writing; run that again"
            f"{' with resume=True' if mark.attempt else ''}"
        )
    found = replacing_stage(store, path)
    return "" if found is None else f"; {found.message()}"


def no_member_message(location: Location, path: str) -> str:
    """Return the message for a relative path below a group without a node."""
    message = f"there is no array or group {path!r} in {location}"
    store, names, below = location.store, list[str](), location.child(path).path
    with suppress(StoreError):  # as a server may refuse to list
        message += _interruption(store, below)
        names = sorted(location.child_names()) if stores.can_list(store) else []
    try:
        check_known_absent(location.child(path))
    except StoreError as e:
        message += f"; {e}"
    names = [name for name in names if name != path and not paths.is_ours(name)]
    if names:
        listed = f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
        message += f"; {errors.did_you_mean(path, names)}members: {listed}"
    return message + backslash_hint(below)


def check_known_absent(location: Location) -> None:
    """Raise if it cannot be known that there is no node."""
    if location.format.implicit_groups and not stores.can_list(location.store):
        raise StoreError(_listing_needed(location.store, location.path))


def _listing_needed(store: Store, path: str) -> str:
    return (
        f"{store!r} cannot list its keys, so it cannot be known whether {paths.show(path)} is a"
        " group without metadata; open the nodes below it by name"
    )


def _may_have_implicit_groups(store: Store) -> bool:
    with suppress(OmnizarrError):
        return any(format.implicit_groups for format in root_formats(store))
    return False


def hierarchies_above(store: Store) -> Iterator[tuple[Store, list[Format]]]:
    """Yield the directories above that are nodes, innermost first, with their formats."""
    for outer in getattr(store, "parents", tuple)():
        with suppress(OmnizarrError):  # such as from a directory that may not be read
            if formats := [format for format in root_formats(outer) if format.has_groups]:
                yield outer, formats


def _similar_file(store: Store, path: str) -> str:
    """Suggest a file or node in the same directory or group with a similar name."""
    root = None if path else stores.file_root(store)
    names: dict[str, str] = {}
    with suppress(OSError, StoreError):  # without suffixes, which most names have in common
        if path:
            _, beside = stores.list_dir(store, paths.prefix(path.rpartition("/")[0]))
            names = {name: name for name in (paths.name(each.rstrip("/")) for each in beside)}
        elif root is not None and root.parent.is_dir():
            names = {Path(name).stem: name for name in os.listdir(root.parent) if name != root.name}
    meant = errors.closest_name(paths.name(path) or Path(root or "").stem, sorted(names))
    return "Is the path right?" if meant is None else f"Did you mean {names[meant]!r}?"


# The first bytes of files that are often taken for Zarr, and advice.
_SIGNATURES = {
    b"\x89HDF": "an HDF5 or NetCDF-4 file, not Zarr; `omnizarr import` it",
    b"CDF": "a NetCDF-3 file, not Zarr; open it with xarray",
    **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0"), "a TIFF file, not Zarr; `omnizarr import` it"),
    b"\x93NUMPY": "a file of numpy.save, not Zarr; `omnizarr import` it",
    b"PK": "a ZIP file; put zip:: in front of its path to open what is inside",
    b"SQLite format 3": "an SQLite file; put sqlite:// in front of its path",
}


def _describe_file(path: Path) -> str:
    """Describe a file that was given in place of a directory, with advice."""
    start = b""
    with suppress(OSError), path.open("rb") as file:
        start = file.read(16)
    known = (advice for signature, advice in _SIGNATURES.items() if start.startswith(signature))
    return next(known, "a file; give the directory that holds the data")


# Folders of hierarchies

_OWN = ("__omnizarr", ".__omnizarr")  # where unfinished work and journals are


def is_hierarchy(store: Store, path: str, unfinished: bool = True) -> bool:
    """Return True if there are metadata of a node, valid or not; with `unfinished`, or a marker."""
    names = [*Probe("").keys(), "attrs", MARKER]
    found = stores.get_existing(store, [paths.join(path, name) for name in names])
    present = {paths.name(key) for key in found}
    if MARKER in present and not unfinished:
        return False
    # "meta" is of version 1 only beside "attrs"; other folders may have a file of that name.
    return bool(present - {"meta", "attrs"}) or {"meta", "attrs"} <= present


def list_folder(store: Store, path: str) -> list[str]:
    """Return the sorted paths of ZIP files and non-empty folders in a folder."""
    keys, prefixes = stores.list_dir(store, paths.prefix(path))
    inner = [prefix[:-1] for prefix in prefixes]
    shown = [name for name in inner if not paths.name(name).startswith(_OWN)]
    return sorted([*filter(is_archive, keys), *shown])


def is_link(store: Store, path: str) -> bool:
    """Return True for a symbolic link in a store of files."""
    root = stores.file_root(store)
    return root is not None and os.path.islink(root / path)


def walk_nodes(
    start: Location, node: Node, *, whole: bool = True
) -> Iterator[tuple[Location, Node | Exception]]:
    """Yield a node and all nodes below it, parents first; an error for each unreadable node.

    Raises if members cannot be listed or, unless `whole` is False, may be absent (`check_whole`).
    """
    if whole:
        check_whole(start.store, start.path)
    pending: list[tuple[Location, Node | Exception]] = [(start.with_listing(), node)]
    while pending:
        location, found = pending.pop()
        yield location.without_listing(), found
        if not isinstance(found, GroupModel):
            continue
        children = sorted(location.children().items(), reverse=True)
        pending += [(location.child(name), child) for name, child in children]


def readable_nodes(start: Location, node: Node, *, require: bool = False) -> dict[str, Node]:
    """Return a node and readable nodes below by relative path; `require`: raise for others."""
    prefix, found = len(paths.prefix(start.path)), dict[str, Node]()
    for location, one in walk_nodes(start, node, whole=require):
        if not isinstance(one, Exception):
            found[location.path[prefix:]] = one
        elif require:
            raise InvalidMetadata(
                f"{start} holds a node that cannot be read: {one}; repair or erase it first"
            )
    return found


def check_erasable(store: Store, path: str, format: Format) -> None:
    """Raise if a node cannot be erased, because other data are below it or cannot be listed."""
    if not stores.can_list(store):
        raise StoreError(f"{store!r} cannot list its keys, so {paths.show(path)} cannot be erased")
    arrays: dict[str, Node | None] = {}
    for prefix in format.subtree(path)[1]:
        for key in stores.list_prefix(store, prefix):
            if paths.is_ours(key):
                continue
            known = format.is_zarr_key(key) or _is_chunk(store, format, key, arrays)
            if not known and not _is_same_node(store, format, key):
                raise StoreError(
                    f"{paths.place(path, store)} holds something that is not Zarr: {key!r};"
                    " nothing was erased. Move it away first, or erase it too:"
                    " group.delete(name, foreign=True)"
                )


def _is_same_node(store: Store, format: Format, key: str) -> bool:
    """Return True if a key is metadata of the same node in another version."""
    path = key.rpartition("/")[0]
    kinds = []
    for each in (format, *consolidated.other_formats(format)):
        try:
            node = each.read(path, stores.get_existing(store, each.keys(path)), [])
        except InvalidMetadata:
            return False
        kinds.append(None if node is None else node.kind)
        if each is not format and each.is_metadata(key):
            return kinds[0] is not None and kinds[0] == kinds[-1]
    return False


def _is_chunk(store: Store, format: Format, key: str, arrays: dict[str, Node | None]) -> bool:
    """Return True if a key is a chunk key in the encoding of the array above it."""
    for path in paths.ancestors(key):
        if path not in arrays:
            arrays[path] = format.read(path, stores.get_existing(store, format.keys(path)), [])
        array = arrays[path]
        if isinstance(array, ArrayModel):
            encoding = chunk_key_encodings.bind(array.chunk_key_encoding)
            inside = key.removeprefix(format.chunk_prefix(path))
            return encoding.coords(inside, len(array.shape)) is not None
    return False
