"""Copies as zarr-python makes them: of arrays, of groups into groups, and of the keys of stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

from omnizarr import Array, Group, create_array
from omnizarr.bulk.boxes import item_bytes, stored_axes
from omnizarr.bulk.copy import complete
from omnizarr.bulk.fill import check_sign
from omnizarr.bulk.source_keys import lists_all, source_keys, warn_of_other_keys
from omnizarr.errors import (
    InvalidArgument,
    NodeExists,
    NodeNotFound,
    StoreError,
    WrongType,
)
from omnizarr.extension import (
    CODEC_OPTIONS,
    CreateOptions,
    Entry,
    Location,
    ValueCopy,
    as_source,
    boxes,
    build,
    can_list,
    check_whole,
    document_options,
    is_metadata,
    list_prefix,
    make_array,
    make_group,
    makes_node,
    new_location,
    options_for_two,
    options_like,
    overlap,
    paths,
    resolve_store_path,
    storage_identity,
    without_invalid_names,
)

COPY_BYTES = 2**26  # copied at a time, unless a chunk is larger
BATCH = 256  # keys that are copied at a time
IfExists: TypeAlias = Literal["raise", "replace", "skip", "skip_initialized"]
Log: TypeAlias = Callable[[str], object] | None


@document_options(CreateOptions)
def from_array(
    store: Any = None,
    *,
    data: Any,
    write_data: bool = True,
    name: str | None = None,
    chunks: Any = "keep",
    shards: Any = "keep",
    filters: Any = "keep",
    compressors: Any = "keep",
    serializer: Any = "keep",
    zarr_format: int | str | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Array:
    """Create an array from the data of another, copied a few chunks at a time.

    Options that are not passed default to those of `data` if it is an `Array`: chunks, shards,
    codecs, fill value, attributes, dimension names and format. Other options are those of
    `create_array`.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        data: An array of this library or another, or nested sequences.
        write_data: False to create the array without the values.
        name: The path of the new array in the store.
        chunks: The shape of a chunk; ``"keep"`` for that of `data`.
        shards: The shape of a shard; ``"keep"`` for that of `data`.
        filters: The codecs on arrays; ``"keep"`` for those of `data`.
        compressors: The codecs on bytes; ``"keep"`` for those of `data`.
        serializer: The codec from array to bytes; ``"keep"`` for that of `data`.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of `data`.
        overwrite: True to replace an existing node.
        storage_options: Options for the store of a URL, such as credentials.
        **options: Further options of `create_array`.

    Returns:
        The array.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.
        CannotExpress: If the format cannot express what is asked for.

    Examples:
        >>> a = oz.create_array(data=np.arange(6), chunks=3)
        >>> zarr.from_array("copy.zarr", data=a, zarr_format=2).chunks
        (3,)
    """
    storage = {
        "chunks": chunks,
        "shards": shards,
        "filters": filters,
        "compressors": compressors,
        "serializer": serializer,
    }
    wanted = {k: v for k, v in storage.items() if not (isinstance(v, str) and v == "keep")}
    if zarr_format is not None:
        wanted["zarr_format"] = zarr_format
    data = as_source(data)
    found = options_like(data, {**wanted, **options})
    if "chunks" in wanted and "shards" not in wanted:
        found.pop("shards", None)
    if isinstance(data, Array):
        found.setdefault("attributes", without_invalid_names(data.attrs, data.ndim))
        if CODEC_OPTIONS & wanted.keys():
            kept = options_like(data, {})
            found = {**{k: kept[k] for k in CODEC_OPTIONS if k in kept}, **found}
    if not write_data:
        return create_array(
            store, path=name, overwrite=overwrite, storage_options=storage_options, **found
        )
    formats = [found.pop(k, None) for k in ("zarr_format", "zarr_version")]
    wanted_format = next((f for f in formats if f is not None), None)
    path = found.pop("path", None) or name
    location = new_location(store, path, wanted_format, storage_options)
    return copy_array(data, location, overwrite, found)[0]


def copy_array(
    source: Any, location: Location, overwrite: bool, options: dict[str, Any]
) -> tuple[Array, int]:
    """Create an array with the options of `create_array`, and copy all values into it.

    It becomes visible when it is complete; an array that it replaces stays until then. Return the
    array and the number of bytes that its values took in memory.
    """
    rest: Any = {k: v for k, v in options.items() if k not in ("shape", "dtype")}
    operation = "copying an array"
    with build(location, overwrite=overwrite, operation=operation, implied=True) as staged:
        new = make_array(staged, options["shape"], options.get("dtype"), None, False, rest)
        if isinstance(source, Array):
            check_sign(new.attrs, source.dtype, new.dtype, source.name)
        size = copy_values(source, new)
    array = Array.at(location, new._model)
    array._configure(new._config)
    return array, size


def copy_values(source: Any, target: Array) -> int:
    """Copy all elements, whole target chunks at a time; return their number of bytes in memory."""
    total = 0
    for box in boxes.cut(stored_axes(target), COPY_BYTES // item_bytes(target.dtype)):
        values = source[box]
        target[box] = values
        total += int(getattr(values, "nbytes", target.itemsize))
    return total


def copy(
    source: Any,
    dest: Group | None,
    name: str | None = None,
    *,
    shallow: bool = False,
    without_attrs: bool = False,
    log: Log = None,
    if_exists: IfExists = "raise",
    dry_run: bool = False,
    **create_kws: Any,
) -> tuple[int, int, int]:
    """Copy an array, or a group with everything below it, into a group.

    Args:
        source: An array or group of this library or another.
        dest: The group to copy into; may be None in a dry run.
        name: The name of the copy; by default that of the source.
        shallow: True to copy only the arrays directly in a group.
        without_attrs: True to leave out attributes.
        log: A function that is called with a line for every node.
        if_exists: The treatment of existing members: ``"raise"``, ``"replace"`` or ``"skip"``;
            ``"replace"`` also replaces what an interrupted copy has left.
        dry_run: True to write nothing and only count.
        **create_kws: Options of `create_array` for the new arrays.

    Returns:
        The number of arrays copied, the number skipped, and the number of bytes.

    Raises:
        InvalidArgument: If the copy has no name, or there is no group to copy into.
        NodeExists: If there is a member of that name.

    Examples:
        >>> g = oz.create_group()
        >>> zarr.copy(oz.create_array(data=np.arange(4, dtype="i2")), g, "salt", chunks=2)
        (1, 0, 8)
        >>> g["salt"].chunks
        (2,)
    """
    if if_exists not in ("raise", "replace", "skip", "skip_initialized"):
        raise InvalidArgument(f"if_exists must be raise, replace or skip, got {if_exists!r}")
    _check_nodes(source, dest)
    name = name or paths.name(getattr(source, "path", "") or "")
    if not name:
        raise InvalidArgument("the root has no name; pass the name of the copy")
    write_log = log or (lambda line: None)
    if dest is None and not dry_run:
        raise InvalidArgument("dest is required unless dry_run=True: the group to copy into")
    if dest is not None:
        dest._location.format.check_name(name)
    exists = dest is not None and name in dest
    if hasattr(source, "shape"):
        if exists and if_exists == "raise":
            raise NodeExists(f"member {name!r} exists already; see if_exists")
        if exists and if_exists != "replace":
            write_log(f"skip {name}")
            return 0, 1, 0
        write_log(f"copy {name} {source.shape} {source.dtype}")
        if dest is None or dry_run:
            return 1, 0, 0
        size = _copy_array(source, dest, name, without_attrs, create_kws)
        return 1, 0, size
    write_log(f"copy {name}/")
    into = partial(
        copy_all,
        source,
        shallow=shallow,
        without_attrs=without_attrs,
        log=log,
        if_exists=if_exists,
        dry_run=dry_run,
        **create_kws,
    )
    attributes = {} if without_attrs else dict(source.attrs)
    if dest is None or (dry_run and not exists):
        return into(dest=None)
    if exists:
        target = dest.require_group(name)
        if not dry_run and attributes:
            target.attrs.update(attributes)
        return into(dest=target)
    location = dest._location.child(name)
    check_not_inside(source, location)
    # What is replaced is only what an interrupted copy has left.
    overwrite = if_exists == "replace"
    with build(location, overwrite=overwrite, operation="copying a group") as staged:
        return into(dest=make_group(staged, attributes, overwrite=False))


def check_not_inside(source: Any, location: Location) -> None:
    """Raise if a group would be copied into itself."""
    if not isinstance(source, Group):
        return
    old = storage_identity(source.store, paths.prefix(source.path))
    if old[0] in storage_identity(location.store, paths.prefix(location.path))[1:]:
        raise StoreError(
            f"cannot copy {source.name} in {source.store!r} to {location}, which is inside it;"
            " copy it somewhere else first"
        )


def _check_nodes(source: Any, dest: Any) -> None:
    """Raise if source or destination is not an open node."""
    remedy = "open it first, or copy whole hierarchies by path or URL with `omnizarr.copy`"
    if not hasattr(source, "attrs") and not hasattr(source, "shape"):
        raise WrongType(f"the source must be an array or a group, got {source!r}; {remedy}")
    if dest is not None and not isinstance(dest, Group):
        raise WrongType(f"the destination must be a group, got {dest!r}; {remedy}")


def _copy_array(
    source: Any, dest: Group, name: str, without_attrs: bool, options: dict[str, Any]
) -> int:
    own = {} if without_attrs else dict(getattr(source, "attrs", {}))
    attributes = without_invalid_names(own, len(source.shape))
    wanted = {"zarr_format": dest.zarr_format, "attributes": attributes, **options}
    found = options_like(source, wanted)
    found.pop("zarr_format")
    return copy_array(source, dest._location.child(name), True, found)[1]


def copy_all(
    source: Group,
    dest: Group | None,
    *,
    shallow: bool = False,
    without_attrs: bool = False,
    log: Log = None,
    if_exists: IfExists = "raise",
    dry_run: bool = False,
    **create_kws: Any,
) -> tuple[int, int, int]:
    """Copy all members of a group into another; see `copy`.

    Args:
        source: A group of this library or another.
        dest: The group to copy into; may be None in a dry run.
        shallow: True to copy only the arrays directly in the group.
        without_attrs: True to leave out attributes.
        log: A function that is called with a line for every node.
        if_exists: The treatment of existing members: ``"raise"``, ``"replace"`` or ``"skip"``.
        dry_run: True to write nothing and only count.
        **create_kws: Options of `create_array` for the new arrays.

    Returns:
        The number of arrays copied, the number skipped, and the number of bytes.

    Raises:
        NodeExists: If there is a member of the same name.

    Examples:
        >>> oz.save("run.zarr", a=np.arange(3, dtype="i1"), b=np.ones(2, dtype="i1"))
        >>> zarr.copy_all(oz.open("run.zarr"), oz.open("copy.zarr", "a"))
        (2, 0, 5)
    """
    _check_nodes(source, dest)
    if dest is not None:
        check_not_inside(source, dest._location)
    if isinstance(source, Group):
        check_whole(source.store, source.path)
        _warn_of_foreign(source)
    copied = skipped = size = 0
    members = [*source.members()]
    if dest is not None:
        for name, _ in members:
            dest._location.format.check_name(name)
    for name, member in members:
        if shallow and isinstance(member, Group):
            continue
        one = copy(
            member,
            dest,
            name,
            without_attrs=without_attrs,
            log=log,
            if_exists=if_exists,
            dry_run=dry_run,
            **create_kws,
        )
        copied, skipped, size = copied + one[0], skipped + one[1], size + one[2]
    return copied, skipped, size


def _warn_of_foreign(group: Group) -> None:
    """Warn about keys in a group that belong to no node; members are checked when copied."""
    location = group._location
    if can_list(location.store):
        warn_of_other_keys(location, {"": group._model, **group._nodes()}, members=False)


def copy_store(
    source: Any,
    dest: Any,
    source_path: str = "",
    dest_path: str = "",
    *,
    excludes: Iterable[str] | str = (),
    includes: Iterable[str] | str = (),
    flags: int = 0,
    if_exists: Literal["raise", "replace", "skip"] = "raise",
    dry_run: bool = False,
    log: Log = None,
    storage_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
) -> tuple[int, int, int]:
    """Copy keys and values unchanged from one store to another; see `omnizarr.copy` for more.

    Conflicting keys are detected before anything is written. Metadata are copied last, inner nodes
    first, so that what is visible has its chunks.

    Args:
        source: A path, URL or store.
        dest: A path, URL or store.
        source_path: The prefix of the keys to copy.
        dest_path: The prefix of their copies.
        excludes: Regular expressions of keys that are not copied.
        includes: Regular expressions of keys that are copied even if they match `excludes`.
        flags: Flags of the regular expressions, as in `re`.
        if_exists: The treatment of existing keys: ``"raise"``, ``"replace"`` or ``"skip"``.
        dry_run: True to write nothing and only count.
        log: A function that is called with a line for every key.
        storage_options: Options for the stores of URLs, such as credentials.
        destination_options: Options for the store of the destination, instead of `storage_options`.

    Returns:
        The number of keys copied, the number skipped, and the number of bytes.

    Raises:
        InvalidArgument: If an option has a value that is not allowed.
        NodeExists: If a key exists at the destination.
        NodeNotFound: If there is nothing at the source.
    """
    if if_exists not in ("raise", "replace", "skip"):
        raise InvalidArgument(f"if_exists must be raise, replace or skip, got {if_exists!r}")
    here, there = options_for_two(source, dest, storage_options, destination_options)
    old, start = resolve_store_path(source, source_path, "r", here)
    new, end = resolve_store_path(dest, dest_path, "r" if dry_run else "r+", there)
    begin, prefix = paths.prefix(start), paths.prefix(end)
    if overlap(storage_identity(old, begin), storage_identity(new, prefix)):
        raise StoreError(f"cannot copy {old!r} to {new!r}: they are the same, or one is inside")
    check_whole(old, start)
    found = [*source_keys(old, start, lists_all(old, start))]
    if not found:
        raise NodeNotFound(f"there are no keys below {begin!r} in {old!r}")
    kept, left = (_regexes(patterns, flags) for patterns in (includes, excludes))
    chosen = [
        entry
        for entry in found
        if not any(p.search(entry.key) for p in left) or any(p.search(entry.key) for p in kept)
    ]
    taken = set[str]() if if_exists == "replace" else {*list_prefix(new, prefix)}
    skipped = {entry.key for entry in chosen if prefix + entry.key in taken}
    if skipped and if_exists == "raise":
        raise NodeExists(f"{new!r} already has the key {prefix}{min(skipped)!r}; see if_exists")
    for entry in chosen:
        if log is not None:
            log(f"{'skip' if entry.key in skipped else 'copy'} {begin}{entry.key}")
    copied = sorted((entry for entry in chosen if entry.key not in skipped), key=_metadata_last)
    size = 0
    work = ValueCopy(old, new, begin, prefix, if_exists == "raise")
    for at in range(0, 0 if dry_run else len(copied), BATCH):
        size += work.copy(copied[at : at + BATCH]).nbytes
    complete(new, dest)
    return len(copied), len(skipped), size


def _metadata_last(entry: Entry) -> tuple[bool, int, bool, str]:
    """Return the order of keys: metadata last, inner nodes first, and what makes a node last."""
    key = entry.key
    if not is_metadata(key):
        return False, 0, False, key
    return True, -key.count("/"), makes_node(key), key


def _regexes(patterns: Iterable[str] | str, flags: int) -> list[re.Pattern[str]]:
    several = [patterns] if isinstance(patterns, str) else patterns
    return [re.compile(pattern, flags) for pattern in several]
