"""Chunk manifests: the chunks of an array are parts of other files, which a JSON document lists.

Proposal: https://github.com/zarr-developers/zarr-specs/issues/287 (2024, not adopted), storage
transformer ``chunk-manifest-json``, configuration ``{"manifest": "./manifest.json"}``. The manifest
is beside the metadata of the array: ``{"0.0": {"path": "s3://…", "offset": 100, "length": 100}}``.

Its keys are those of the chunks, or their coordinates with dots, as VirtualiZarr wrote them. A path
without a scheme is a key of the store; other places are read with the user's consent
(`stores.references.targets`). Such arrays are read-only.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, TypeAlias

from omnizarr._json import kind_of, load_object
from omnizarr.chunk_grids import Grid
from omnizarr.chunk_key_encodings import ChunkKeyEncoding
from omnizarr.errors import InvalidMetadata, StoreError
from omnizarr.model import Named
from omnizarr.model.node import check_members, invalid
from omnizarr.stores import Range, Store, file_root, one_level
from omnizarr.stores.base import Bytes, Versioned
from omnizarr.stores.operations import check_writable, is_key
from omnizarr.stores.references.document import Reference, Target
from omnizarr.stores.references.store import ReferencedValues
from omnizarr.stores.references.targets import Targets

Names: TypeAlias = list[str]  # inside the class `list` is a method
_KIND = "storage transformer"


class ChunkManifest(ReferencedValues):
    """A store of the chunks that a manifest lists; other keys pass through."""

    read_only = True
    to_write = "copy the array: omnizarr convert SOURCE NEW.zarr; its chunks are in other files"

    def __init__(
        self, store: Store, prefix: str, named: Named, encoding: ChunkKeyEncoding, grid: Grid
    ) -> None:
        check_members(named, _KIND, required=("manifest",))
        given = named.configuration["manifest"]
        key = posixpath.normpath(prefix + given) if isinstance(given, str) else ""
        if not given or not is_key(key) or "://" in str(given) or str(given).startswith("/"):
            message = f"expected the name of a document beside the metadata, got {given!r}"
            raise invalid(_KIND, named.name, "manifest", message)
        self.store, self.prefix, self.encoding = store, prefix, encoding
        self.key, self._rank = key, len(grid.axes)
        self._known: tuple[str | None, dict[str, Target]] | None = None
        root = file_root(store)
        self._targets = Targets(None if root is None else str(root))

    @property
    def targets(self) -> dict[str, Target]:
        """The targets of chunks by their keys; on a local disk, as the manifest says now."""
        generation = None
        if file_root(self.store) is not None and isinstance(self.store, Versioned):
            generation = self.store.generation(self.key)
        if self._known is None or self._known[0] != generation:
            self._known = generation, self._read()
        return self._known[1]

    def _read(self) -> dict[str, Target]:
        data = self.store.get(self.key)
        if data is None:
            raise StoreError(f"the chunk manifest {self.key!r} in {self.store!r} does not exist")
        try:
            listed = load_object(data, self.key)
        except InvalidMetadata as e:
            raise StoreError(f"the chunk manifest {self.key!r} in {self.store!r}: {e}") from e
        found = {}
        for name, entry in listed.items():
            coords = self._coords(name)
            if coords is None:
                raise StoreError(f"{name!r} in the chunk manifest {self.key!r} is not a chunk")
            target = _target(name, entry)
            if target is not None:
                found[self.prefix + self.encoding.key(coords)] = target
        return found

    def _coords(self, name: str) -> tuple[int, ...] | None:
        """Return the coordinates of a chunk, by its key or with dots."""
        coords = self.encoding.coords(name, self._rank)
        if coords is not None:
            return coords
        parts = name.split(".") if self._rank else []
        plain = all(p.isascii() and p.isdigit() and str(int(p)) == p for p in parts)
        return tuple(map(int, parts)) if plain and len(parts) == self._rank else None

    def stored_key(self, key: str) -> str:
        """Return the key of the manifest for a chunk; other keys stay as they are."""
        return self.key if self._is_chunk(key) else key

    def _is_chunk(self, key: str) -> bool:
        inside = key[len(self.prefix) :]
        return key.startswith(self.prefix) and self.encoding.coords(inside, self._rank) is not None

    def _find(self, key: str) -> Reference | None:
        return self.targets.get(key) if self._is_chunk(key) else self.store.get(key)

    def _locate(self, url: str, key: str) -> tuple[Store, str]:
        relative = posixpath.normpath(url)
        if "://" in url or url.startswith("/") or file_root(self.store) is not None:
            return self._targets.locate(url, key)
        if not is_key(relative):
            raise StoreError(
                f"the target {url!r} of the chunk {key!r} is outside of {self.store!r}"
            )
        return self.store, relative

    # Listing

    def list(self) -> Iterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        yield from (key for key in self.targets if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        return one_level(self.list_prefix(prefix), prefix)

    # Writing

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)

    def erase(self, key: str) -> None:
        check_writable(self)

    def __repr__(self) -> str:
        return f"the chunk manifest {self.key!r} in {self.store!r}"


def _target(name: str, entry: Any) -> Target | None:
    """Return the target of an entry; None for an empty path, which stands for a missing chunk."""
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise StoreError(
            f"the chunk {name!r} needs a path, offset and length, got {kind_of(entry)}"
        )
    numbers: list[Any] = [entry.get("offset"), entry.get("length")]
    if not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise StoreError(f"the chunk {name!r} needs an offset and a length, got {numbers}")
    return Target(entry["path"], Range(*numbers)) if entry["path"] else None
