"""Arrays, groups and functions with awaitable methods, as ``zarr.api.asynchronous`` has them.

Each is generated from the blocking one and runs as a whole in a worker thread (`omnizarr.aio`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from omnizarr import aio
from omnizarr.interop.zarr import arrays, groups, library, opening


def wrapped(value: Any) -> Any:
    """Return nodes in their awaitable form, also inside tuples; other values unchanged."""
    if isinstance(value, arrays.ZarrArray):
        return value.async_array
    if isinstance(value, groups.ZarrGroup):
        return value._async_group
    if isinstance(value, tuple):
        return tuple(wrapped(item) for item in value)
    return value


def _blocking(value: Any) -> Any:
    """Return the blocking form of a node; other values unchanged."""
    return value.blocking if isinstance(value, _ZarrAsyncNode) else value


def awaitable(function: Callable[..., Any], streams: bool = False) -> Callable[..., Any]:
    """Return the awaitable form of a function; one that yields becomes an async iterator."""
    if streams or inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        async def iterate(*args: Any, **options: Any) -> AsyncIterator[Any]:
            plain = tuple(map(_blocking, args))
            for item in await aio.run(lambda: list(function(*plain, **options))):
                yield wrapped(item)

        return iterate

    @functools.wraps(function)
    async def call(*args: Any, **options: Any) -> Any:
        plain = tuple(map(_blocking, args))
        named = {name: _blocking(value) for name, value in options.items()}
        return wrapped(await aio.run(function, *plain, **named))

    return call


def _method(name: str, streams: bool = False) -> Callable[..., Any]:
    """Return the awaitable form of a method of arrays or groups, whichever have it."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self, name)(*args, **options)

    method.__name__ = name
    found = (getattr(cls, name, None) for cls in (arrays.ZarrArray, groups.ZarrGroup))
    method.__doc__ = next(filter(None, map(inspect.getdoc, found)), f"Await `{name}`.")
    return awaitable(method, streams)


class _ZarrAsyncNode:
    """A node whose slow operations are awaited; everything else comes from `blocking`."""

    blocking: Any
    _kind: Any  # of the blocking node

    def __init__(
        self,
        metadata: Any = None,
        store_path: Any = None,
        config: Any = None,
        *,
        blocking: Any = None,
    ) -> None:
        if blocking is None:
            if metadata is None or store_path is None:
                raise TypeError(f"{type(self).__name__} needs metadata and a store_path")
            blocking = self._kind.described(metadata, store_path)
            if isinstance(blocking, arrays.ZarrArray):
                blocking._use(library.array_config(config))
        self.blocking = blocking

    @property
    def attrs(self) -> dict[str, Any]:
        """A copy of the attributes; `update_attributes` changes them."""
        found: dict[str, Any] = self.blocking.attrs.asdict()
        return found

    def __getattr__(self, name: str) -> Any:
        if name == "blocking" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self.blocking, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bool(self.blocking == other.blocking)

    __hash__ = None  # type: ignore[assignment]  # as the node's

    @classmethod
    def from_dict(cls, store_path: Any, data: Any) -> Self:
        """Return the node that metadata describe, without reading any."""
        return cls(metadata=data, store_path=store_path)

    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        """Return the class itself; annotations name a kind of metadata here."""
        return cls

    update_attributes = _method("update_attributes")
    info_complete = _method("info_complete")


class ZarrAsyncArray(_ZarrAsyncNode):
    """An array that is read and written with ``await``."""

    _kind = arrays.ZarrArray

    @property
    def _async_array(self) -> ZarrAsyncArray:
        return self

    @property
    def _config(self) -> Any:  # `blocking` has another one
        return self.blocking.config

    @classmethod
    async def open(cls, store: Any, zarr_format: Any = 3) -> Any:
        """Open the array at a store or store path."""
        return wrapped(await aio.run(opening.open_array, store, zarr_format=zarr_format))

    getitem = _method("__getitem__")
    setitem = _method("__setitem__")
    get_orthogonal_selection = _method("get_orthogonal_selection")
    get_coordinate_selection = _method("get_coordinate_selection")
    append = _method("append")
    nbytes_stored = _method("nbytes_stored")

    async def get_mask_selection(self, mask: Any, **options: Any) -> Any:
        """Read the elements that a mask selects; zarr-python 3.1 gives it in a tuple."""
        (mask,) = mask if isinstance(mask, tuple) else (mask,)
        return await aio.run(lambda: self.blocking.get_mask_selection(mask, **options))

    async def resize(self, new_shape: Any, delete_outside_chunks: bool = True) -> None:
        """Change the shape; chunks outside are erased unless `delete_outside_chunks` is False."""
        outside = "erase-chunks" if delete_outside_chunks else "keep"
        await aio.run(lambda: self.blocking.resize(new_shape, outside=outside))

    async def nchunks_initialized(self) -> int:
        """Return the number of chunks that are stored."""
        return int(await aio.run(lambda: self.blocking.nchunks_initialized))

    async def _nshards_initialized(self) -> int:
        return int(await aio.run(lambda: self.blocking._nshards_initialized))

    def with_config(self, config_: Any) -> Any:
        """Return another handle of the array with other settings."""
        return wrapped(self.blocking.with_config(config_))

    @property
    def oindex(self) -> Any:
        """Select with a list, mask, slice or integer for each axis separately."""
        return library.module("zarr.core.indexing").AsyncOIndex(self)

    @property
    def vindex(self) -> Any:
        """Select single points by lists of positions, or by a mask of the whole shape."""
        return library.module("zarr.core.indexing").AsyncVIndex(self)

    def __repr__(self) -> str:
        return f"<AsyncArray {self.store_path} shape={self.shape} dtype={self.dtype}>"


class ZarrAsyncGroup(_ZarrAsyncNode):
    """A group whose members are opened and changed with ``await``."""

    _kind = groups.ZarrGroup

    @property
    def _async_group(self) -> ZarrAsyncGroup:
        return self

    @classmethod
    async def open(cls, store: Any, zarr_format: Any = 3, **options: Any) -> Any:
        """Open the group at a store or store path."""
        opened = awaitable(opening.open_existing_group)
        return await opened(store, zarr_format=zarr_format, **options)

    @classmethod
    async def from_store(cls, store: Any, **options: Any) -> Any:
        """Create a group in a store."""
        return wrapped(await aio.run(groups.ZarrGroup.from_store, store, **options))

    getitem = _method("__getitem__")
    setitem = _method("__setitem__")
    delitem = _method("__delitem__")
    contains = _method("__contains__")

    def __repr__(self) -> str:
        return f"<AsyncGroup {self.store_path}>"


ZarrAsyncArray.__name__, ZarrAsyncGroup.__name__ = "AsyncArray", "AsyncGroup"
_AWAITED = (
    *("get", "get_array", "get_group", "nmembers", "create_group", "create_array"),
    *("create_dataset", "require_group", "require_groups", "require_array", "require_dataset"),
    *("empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like"),
    *("move", "tree"),
)
_ITERATED = (
    *("members", "keys", "arrays", "groups", "array_keys", "group_keys", "array_values"),
    *("group_values", "create_hierarchy"),
)
for _name in (*_AWAITED, *_ITERATED):
    setattr(ZarrAsyncGroup, _name, _method(_name, _name in _ITERATED))


# The functions of ``zarr.api.asynchronous``.
FUNCTIONS = {name: awaitable(function) for name, function in opening.FUNCTIONS.items()}
