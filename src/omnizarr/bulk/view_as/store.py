"""`view_as`: any hierarchy as a read-only store of version 2 or 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from omnizarr import extension
from omnizarr.bulk.view_as.nodes import Coords, Nodes, ViewedArray
from omnizarr.errors import InvalidArgument
from omnizarr.extension import check_prefix, consolidated, paths, stores, traits, value_digest

Names: TypeAlias = list[str]  # inside the class `list` is a method
Values: TypeAlias = list[bytes | None]
Numbers: TypeAlias = list[int]


def view_as(
    store: Any,
    zarr_format: int | str = 3,
    *,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ViewStore:
    """Return a read-only store that shows a hierarchy of any format in version 2 or 3.

    Nothing is copied: metadata is translated on request, with consolidated metadata for every
    group, and chunks keep their bytes if the other format can describe them. Other chunks are
    decoded and encoded again on request, one at a time. Missing chunks are missing in the view.

    Nodes that the format cannot express, and nodes whose metadata cannot be read, are not listed;
    asking for them raises CannotExpress or InvalidMetadata. A change of the source is seen at once.

    Args:
        store: A path, URL, store, array or group.
        zarr_format: 2 or 3.
        path: The node in it that becomes the root of the view.
        storage_options: Options for the store of a URL, such as credentials.

    Raises:
        NodeNotFound: If there is no such node.
        InvalidArgument: If the format is neither 2 nor 3.

    Examples:
        >>> a = oz.create_array("old.zarr", shape=(4,), dtype="i4", zarr_format=2)
        >>> a[...] = [1, 2, 3, 4]
        >>> view = oz.view_as("old.zarr", zarr_format=3)
        >>> sorted(view.list())
        ['c/0', 'zarr.json']
        >>> oz.open(view)[...]
        array([1, 2, 3, 4], dtype=int32)
    """
    inner, start = extension.resolve_store_path(store, path, "r", storage_options)
    return ViewStore(inner, zarr_format, start)


class ViewStore(stores.operations.NeverWritten):
    """A hierarchy of another store, as version 2 or 3 has it; see `view_as`."""

    # Only of a store that can list its keys.
    list: Callable[[], Iterator[str]]
    list_prefix: Callable[[str], Iterator[str]]
    list_dir: Callable[[str], tuple[Names, Names]]

    def __init__(self, inner: extension.Store, zarr_format: int | str = 3, path: str = "") -> None:
        goal = extension.by_name(zarr_format)
        if consolidated.key(goal, "") is None:
            raise InvalidArgument(f"a view has zarr_format 2 or 3, got {zarr_format!r}")
        self.inner = inner
        self.path = path
        self.zarr_format = goal.name
        self._goal = goal
        self._nodes = Nodes(inner, path, goal)
        self._nodes.open()  # or there is nothing to show
        if stores.can_list(inner):
            self.list = partial(self._list_prefix, "")
            self.list_prefix, self.list_dir = self._list_prefix, self._list_dir

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewStore, (self.inner, self.zarr_format, self.path)

    # Reading

    def get(self, key: str, range: stores.Range | None = None) -> bytes | None:
        [value] = self.get_many([(key, range)])
        return value

    def get_many(self, requests: Iterable[tuple[str, stores.Range | None]]) -> Values:
        asked = [(stores.check_key(key), part) for key, part in requests]
        parts: dict[str, Numbers] = {}
        for number, (key, _) in enumerate(asked):
            parts.setdefault(key, []).append(number)
        found: dict[int, bytes | None] = {}
        checked: dict[str, ViewedArray] = {}
        direct: dict[int, str] = {}  # keys whose stored bytes are those of the view
        for key, numbers in parts.items():
            if self._is_metadata(key):
                data = self._metadata(key)
                several = [asked[number][1] for number in numbers]
                values = [data if not data or part is None else part.of(data) for part in several]
                found.update(zip(numbers, values, strict=True))
                continue
            chunk = self._chunk(key, checked)
            at = None if chunk is None or chunk[0].fills else chunk[0].direct_key(chunk[1])
            if at is not None:
                direct |= dict.fromkeys(numbers, at)
                continue
            values = [None] * len(numbers)
            if chunk is not None:
                values = chunk[0].get(chunk[1], [asked[number][1] for number in numbers])
            found.update(zip(numbers, values, strict=True))
        stored = stores.get_many(
            self.inner, [(at, asked[number][1]) for number, at in direct.items()]
        )
        found.update(zip(direct, stored, strict=True))
        return [found[number] for number in range(len(asked))]

    def _is_metadata(self, key: str) -> bool:
        path = key.rpartition("/")[0]
        return key in self._goal.keys(path) or key == consolidated.key(self._goal, path)

    def _metadata(self, key: str) -> bytes | None:
        return self._nodes.documents(key.rpartition("/")[0]).get(key)

    def _chunk(
        self, key: str, checked: dict[str, ViewedArray] | None = None
    ) -> tuple[ViewedArray, Coords] | None:
        """Return the array and coordinates of a chunk, or None for any other key."""
        if self._is_metadata(stores.check_key(key)):
            return None
        array = self._nodes.array(key, checked)
        coords = None if array is None else array.coords(key)
        return None if array is None or coords is None else (array, coords)

    # Sizes and generations

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        """Return the bytes of existing values by key."""
        found: dict[str, int] = {}
        arrays: dict[str, tuple[ViewedArray, dict[Coords, str]]] = {}
        for key in map(stores.check_key, keys):
            if self._is_metadata(key):
                data = self._metadata(key)
                if data is not None:
                    found[key] = len(data)
            elif (chunk := self._chunk(key)) is not None:
                array, coords = chunk
                arrays.setdefault(array.target.path, (array, {}))[1][coords] = key
        for array, wanted in arrays.values():
            known = array.sizes(wanted)
            found |= {wanted[coords]: size for coords, size in known.items()}
        return found

    def _direct(self, key: str) -> tuple[stores.Versioned, str] | None:
        """Return the store and key with the view's bytes of a chunk, if both have generations."""
        chunk = self._chunk(key)
        stored = None if chunk is None else chunk[0].direct_key(chunk[1])
        return (self.inner, stored) if stored and isinstance(self.inner, stores.Versioned) else None

    def generation(self, key: str) -> str | None:
        """Return a text that differs whenever the value differs, None if there is no value.

        It is that of the stored value with the same bytes, or else a digest of the bytes.
        """
        direct = self._direct(key)
        found = None if direct is None else direct[0].generation(direct[1])
        return value_digest(self.get(key)) if found is None else found

    def makes_value(self, key: str) -> bool:
        """Return True if a value is computed on request, even if only its size is requested."""
        chunk = self._chunk(key)
        return chunk is None or not chunk[0].keeps_bytes

    def memory_needed(self, key: str) -> int:
        """Return about how many bytes of memory making the chunk at a key needs, 0 for others."""
        chunk = self._chunk(key)
        return 0 if chunk is None or chunk[0].keeps_bytes else chunk[0].memory_needed

    def get_versioned(
        self, key: str, range: stores.Range | None = None
    ) -> tuple[bytes | None, str | None]:
        """Return a value, or a part of it, with its generation."""
        direct = self._direct(key)
        if direct is not None:
            value, found = direct[0].get_versioned(direct[1], range)
            if value is not None:
                return value, found
        value = self.get(key)
        return value if value is None or range is None else range.of(value), value_digest(value)

    # Listing

    def _list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        path = prefix[:-1]
        kind = self._nodes.kind(path)
        if kind is None:
            yield from (key for key in self._chunk_keys(path) if key.startswith(prefix))
            return
        pending = [(path, kind)]
        while pending:
            path, kind = pending.pop()
            yield from self._keys(path, kind)
            if kind == "array":
                yield from self._chunk_keys(path)
                continue
            members = [*self._nodes.members(path).items()]
            pending += [(paths.join(path, name), kind) for name, kind in reversed(members)]

    def _list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        path = prefix[:-1]
        kind = self._nodes.kind(path)
        if kind is None:
            inside = (key for key in self._chunk_keys(path) if key.startswith(prefix))
            return stores.one_level(inside, prefix)
        if kind == "array":
            return stores.one_level(chain(self._keys(path, kind), self._chunk_keys(path)), prefix)
        members = [f"{prefix}{name}/" for name in self._nodes.members(path)]
        return sorted(self._keys(path, kind)), members

    def _keys(self, path: str, kind: str) -> Names:
        """Return the keys of the metadata of a node."""
        found = self._nodes.documents(path, consolidate=False)
        at = consolidated.key(self._goal, path)
        return [*found, *([at] if kind == "group" and at is not None and at not in found else [])]

    def _chunk_keys(self, path: str) -> Iterator[str]:
        """Yield the chunk keys of the array at or above a path, if there is one."""
        array = self._nodes.array(paths.join(path, "chunk"))
        if array is not None:
            yield from map(array.target.key, array.list_chunks())

    # What a store is

    @property
    def traits(self) -> Any:
        """The traits of the store below that a view shares, and its latency."""
        below = traits(self.inner)
        return replace(below.behind_wrapper(), low_latency=below.low_latency)

    def close(self) -> None:
        """Close the store below, if it can be closed."""
        stores.wrappers.close_store(self.inner)

    def identity(self, prefix: str = "") -> extension.StorageIdentity:
        """Return the identity of the storage that the view is made from."""
        return stores.storage_identity(self.inner, paths.prefix(self.path) + prefix)

    def identity_details(self) -> tuple[str, str]:
        """Return what the values depend on, besides the store below."""
        return self.zarr_format, self.path

    def _values_at(self) -> tuple[Any, ...]:
        return self.__reduce__()

    def __repr__(self) -> str:
        at = f" at {paths.show(self.path)}" if self.path else ""
        return f"zarr {self.zarr_format} view of {self.inner!r}{at}"
