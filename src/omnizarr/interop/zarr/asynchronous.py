"""Arrays, groups and functions with awaitable methods, as ``zarr.api.asynchronous`` has them.

Each is generated from the blocking one and runs as a whole in a worker thread (`omnizarr.aio`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

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


def _plain(value: Any) -> Any:
    """Return the blocking form of a node; other values unchanged."""
    return value.blocking if isinstance(value, _ZarrAsyncNode) else value


def _method(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(self: Any, *args: Any, **options: Any) -> Any:
        return wrapped(await aio.run(getattr(self.blocking, name), *args, **options))

    call.__name__, call.__doc__ = name, _description(name)
    return call


def _description(name: str) -> str:
    """Return the docstring of a blocking method."""
    for node in (arrays.ZarrArray, groups.ZarrGroup):
        found = inspect.getdoc(getattr(node, name, None))
        if found:
            return found
    return f"Await `{name}`."


def _stream(name: str) -> Callable[..., AsyncIterator[Any]]:
    async def iterate(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        function = getattr(self.blocking, name)
        for item in await aio.run(lambda: list(function(*args, **options))):
            yield wrapped(item)

    iterate.__name__, iterate.__doc__ = name, _description(name)
    return iterate


class _ZarrAsyncNode:
    """A node whose slow operations are awaited; other properties are those of `blocking`."""

    blocking: Any

    @property
    def attrs(self) -> dict[str, Any]:
        """A copy of the attributes; `update_attributes` changes them."""
        found: dict[str, Any] = self.blocking.attrs.asdict()
        return found

    @property
    def info(self) -> Any:
        """A summary of the metadata."""
        return self.blocking.info

    def __getattr__(self, name: str) -> Any:
        if name == "blocking" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self.blocking, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bool(self.blocking == other.blocking)

    __hash__ = None  # type: ignore[assignment]  # as the node's

    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        """Return the class itself; annotations name a kind of metadata here."""
        return cls

    update_attributes = _method("update_attributes")
    info_complete = _method("info_complete")


class ZarrAsyncArray(_ZarrAsyncNode):
    """An array that is read and written with ``await``."""

    def __init__(
        self,
        metadata: Any = None,
        store_path: Any = None,
        config: Any = None,
        *,
        blocking: arrays.ZarrArray | None = None,
    ) -> None:
        if blocking is not None:
            vars(self)["blocking"] = blocking
        elif metadata is None or store_path is None:
            raise TypeError("AsyncArray needs metadata and a store_path")
        vars(self)["_given"] = (metadata, store_path, config)

    @property
    def _pending(self) -> tuple[Any, Any, Any]:
        found: tuple[Any, Any, Any] = vars(self)["_given"]
        return found

    def __getattr__(self, name: str) -> Any:
        if name == "blocking" and "_given" in vars(self):  # made on first use
            found = vars(self)["blocking"] = arrays.from_metadata(*self._pending)
            return found
        return super().__getattr__(name)

    @property
    def metadata(self) -> Any:
        """The metadata."""
        if "blocking" not in vars(self) and hasattr(self._pending[0], "to_dict"):
            return self._pending[0]
        return self.blocking.metadata

    @property
    def _async_array(self) -> ZarrAsyncArray:
        return self

    @property
    def _config(self) -> Any:  # that of `blocking` is another
        return self.blocking.config

    @classmethod
    async def open(cls, store: Any, zarr_format: Any = 3) -> Any:
        """Open the array at a store or store path."""
        return wrapped(await aio.run(opening.open_array, store, zarr_format=zarr_format))

    @classmethod
    def from_dict(cls, store_path: Any, data: Any) -> ZarrAsyncArray:
        """Return the array that metadata describe, without reading any."""
        return cls(metadata=data, store_path=store_path)

    # zarr-python makes the metadata of new arrays with these.

    @staticmethod
    def _create_metadata_v2(*args: Any, **options: Any) -> Any:
        return _original()._create_metadata_v2(*args, **options)

    @staticmethod
    def _create_metadata_v3(*args: Any, **options: Any) -> Any:
        return _original()._create_metadata_v3(*args, **options)

    @classmethod
    async def _create(cls, *args: Any, **options: Any) -> Any:
        return await _original()._create.__func__(cls, *args, **options)

    @classmethod
    async def _create_v2(cls, *args: Any, **options: Any) -> Any:
        return await _original()._create_v2.__func__(cls, *args, **options)

    @classmethod
    async def _create_v3(cls, *args: Any, **options: Any) -> Any:
        return await _original()._create_v3.__func__(cls, *args, **options)

    async def _save_metadata(self, metadata: Any, ensure_parents: bool = False) -> None:
        store_path = self._pending[1] or self.blocking.store_path
        if not getattr(store_path.store, "is_scratch", False):
            real = _original()(metadata=metadata, store_path=store_path)
            await real._save_metadata(metadata, ensure_parents=ensure_parents)

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
        if library.is_installed():
            return library.module("zarr.core.indexing").AsyncOIndex(self)
        return _AsyncSelector(self.get_orthogonal_selection)

    @property
    def vindex(self) -> Any:
        """Select single points by lists of positions, or by a mask of the whole shape."""
        if library.is_installed():
            return library.module("zarr.core.indexing").AsyncVIndex(self)
        return _AsyncSelector(lambda s: aio.run(lambda: self.blocking.vindex[s]))

    def __repr__(self) -> str:
        return f"<AsyncArray {self.store_path} shape={self.shape} dtype={self.dtype}>"


class _AsyncSelector:
    def __init__(self, read: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        self._read = read

    async def getitem(self, selection: Any) -> Any:
        """Return the selected elements."""
        return await self._read(selection)


def _original() -> Any:
    return library.original("zarr.core.array", "AsyncArray")


async def save_new_metadata(store_path: Any, metadata: Any, **options: Any) -> None:
    """Store the metadata of a new node; in a scratch store, only check that they can be."""
    if getattr(store_path.store, "is_scratch", False):
        library.module("zarr.core.metadata.io").encode_documents(store_path, metadata)
    else:
        save = library.original("zarr.core.array", "save_new_metadata")
        await save(store_path, metadata, **options)


class ZarrAsyncGroup(_ZarrAsyncNode):
    """A group whose members are opened and changed with ``await``."""

    def __init__(
        self,
        metadata: Any = None,
        store_path: Any = None,
        *,
        blocking: groups.ZarrGroup | None = None,
    ) -> None:
        if blocking is None:
            if store_path is None:
                raise TypeError("AsyncGroup needs metadata and a store_path")
            blocking = groups.from_metadata(metadata, store_path)
        vars(self)["blocking"] = blocking

    @property
    def _async_group(self) -> ZarrAsyncGroup:
        return self

    @classmethod
    async def open(
        cls, store: Any, zarr_format: Any = 3, use_consolidated: bool | str | None = None
    ) -> Any:
        """Open the group at a store or store path."""
        return wrapped(
            await aio.run(
                opening.open_existing_group,
                store,
                zarr_format=zarr_format,
                use_consolidated=use_consolidated,
            )
        )

    @classmethod
    async def from_store(cls, store: Any, **options: Any) -> Any:
        """Create a group in a store."""
        return wrapped(await aio.run(groups.ZarrGroup.from_store, store, **options))

    @classmethod
    def from_dict(cls, store_path: Any, data: Any) -> ZarrAsyncGroup:
        """Return the group that metadata describe, without reading any."""
        return cls(metadata=data, store_path=store_path)

    getitem = _method("__getitem__")
    setitem = _method("__setitem__")
    delitem = _method("__delitem__")
    contains = _method("__contains__")
    get = _method("get")
    get_array = _method("get_array")
    get_group = _method("get_group")
    nmembers = _method("nmembers")
    members = _stream("members")
    keys = _stream("keys")
    arrays = _stream("arrays")
    groups = _stream("groups")
    array_keys = _stream("array_keys")
    group_keys = _stream("group_keys")
    array_values = _stream("array_values")
    group_values = _stream("group_values")
    create_hierarchy = _stream("create_hierarchy")
    create_group = _method("create_group")
    create_array = _method("create_array")
    create_dataset = _method("create_dataset")
    require_group = _method("require_group")
    require_groups = _method("require_groups")
    require_array = _method("require_array")
    require_dataset = _method("require_dataset")
    empty = _method("empty")
    zeros = _method("zeros")
    ones = _method("ones")
    full = _method("full")
    empty_like = _method("empty_like")
    zeros_like = _method("zeros_like")
    ones_like = _method("ones_like")
    full_like = _method("full_like")
    move = _method("move")
    tree = _method("tree")

    def __repr__(self) -> str:
        return f"<AsyncGroup {self.store_path}>"


ZarrAsyncArray.__name__, ZarrAsyncGroup.__name__ = "AsyncArray", "AsyncGroup"


def awaitable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the awaitable form of a function; one that yields becomes an async iterator."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        async def iterate(*args: Any, **options: Any) -> AsyncIterator[Any]:
            for item in await aio.run(lambda: list(function(*args, **options))):
                yield wrapped(item)

        return iterate

    @functools.wraps(function)
    async def call(*args: Any, **options: Any) -> Any:
        plain = tuple(map(_plain, args))
        named = {name: _plain(value) for name, value in options.items()}
        return wrapped(await aio.run(function, *plain, **named))

    return call


# The functions of ``zarr.api.asynchronous``.
FUNCTIONS = {name: awaitable(function) for name, function in opening.FUNCTIONS.items()}
