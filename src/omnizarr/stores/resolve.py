"""From what a user gives to a store: a path, a URL, a dictionary, a store."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from omnizarr import registry
from omnizarr.errors import StoreError, UnknownExtension
from omnizarr.stores.local import LocalStore
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.store import Store
from omnizarr.stores.zip import ZipStore

registry.register("store", "file", LocalStore.from_url)
registry.register("store", "zip", ZipStore.from_url)
registry.register("store_adapter", "zarr-python", "omnizarr.integrations.zarr_python:from_zarr")
registry.register("store", "sqlite", "omnizarr.stores.sqlite:from_url")
registry.register("store", "lmdb", "omnizarr.stores.lmdb:from_url")
registry.register("store", "redis", "omnizarr.stores.redis:from_url", "rediss", "unix")

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://?")  # one letter is a Windows drive
_ARCHIVE = re.compile(r"zip::|.*\.(zip|ozx)/?\Z", re.IGNORECASE | re.DOTALL)


def resolve(
    where: Any, *, read_only: bool = False, storage_options: Mapping[str, Any] | None = None
) -> Store:
    """The store that `where` means; None is a new one in memory. A store is taken as it is.

    Storage options go to the store that a URL names.
    """
    options = dict(storage_options or {})
    if options and not (isinstance(where, str) and _SCHEME.match(where)):
        raise StoreError(
            f"storage_options {sorted(options)} are for URLs such as 's3://…', got {where!r}"
        )
    if where is None:
        return MemoryStore()
    if isinstance(where, (str, os.PathLike)):
        text = os.fspath(where)
        if _is_archive(text):
            return _archive(text, read_only, storage_options)
        match = _SCHEME.match(text) if isinstance(where, str) else None
        if match is None:
            return LocalStore(text, read_only=read_only)
        try:
            make = registry.lookup("store", match[1].lower())
        except UnknownExtension as e:
            known = ", ".join(registry.names("store"))
            raise StoreError(
                f"unknown kind of store {match[1]!r} in {text!r}; known: a path, {known}"
            ) from e
        store: Store = make(text, read_only=read_only, **options)
        return store
    if isinstance(where, Store):
        return where
    if _is_of_zarr_python(where):
        adapt = registry.lookup("store_adapter", "zarr-python")
        adapted: Store = adapt(where, read_only=read_only)
        return adapted
    if isinstance(where, MutableMapping):
        return MemoryStore(where, read_only=read_only)
    raise StoreError(
        f"{type(where).__name__} is not a store; give a path, a dict,"
        " or an object with get, set, erase and read_only"
    )


def _is_archive(text: str) -> bool:
    """Whether a path or URL names a ZIP file: by its ending, or ``zip::`` in front."""
    return bool(_ARCHIVE.match(text)) and not text.startswith("zip://") and not os.path.isdir(text)


def _archive(text: str, read_only: bool, options: Mapping[str, Any] | None) -> Store:
    """The store in a ZIP file; one that lies in another store can only be read."""
    text = text.removeprefix("zip::").rstrip("/")
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() == "file":
        path = text if scheme is None else str(LocalStore.from_url(text).root)
        return ZipStore(path, mode="r" if read_only else "a")
    parent, _, name = text.rpartition("/")
    return ZipStore.inside(resolve(parent, read_only=True, storage_options=options), name)


def _is_of_zarr_python(where: object) -> bool:
    """Whether it has the methods of a store of zarr-python 3, or is a place in one."""
    inner = getattr(where, "store", where) if hasattr(where, "path") else where
    needed = ("get", "set", "delete", "list_prefix", "supports_listing", "supports_writes")
    return all(hasattr(inner, name) for name in needed) and inspect.iscoroutinefunction(
        getattr(type(inner), "get", None)
    )
