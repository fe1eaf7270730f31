"""Awaitable forms of opening, reading and writing.

>>> import asyncio
>>> async def first_rows(path):
...     array = await oz.aio.open(path)
...     return await array.getitem(slice(2))
>>> oz.save("ocean.zarr", np.arange(6).reshape(3, 2))
>>> asyncio.run(first_rows("ocean.zarr"))
array([[0, 1],
       [2, 3]])

All functions are generated from the blocking ones: an operation runs as a whole in a worker thread,
with the settings of the task that awaits it. They work with asyncio (also on uvloop), trio, and
anyio on either.

**Threads.** At most as many operations run concurrently as the setting ``threads`` allows; others
wait. An operation that runs alone has that many threads for its chunks, and fewer if others start.

**Cancellation.** An operation that has not started is dropped. One that has started is completed
before the cancellation is raised: no write continues in the background, and none is torn.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, ParamSpec, Self, TypeVar

from omnizarr import config
from omnizarr.concurrency.fork import on_fork
from omnizarr.concurrency.pool import ThreadPool
from omnizarr.hierarchy import create
from omnizarr.hierarchy import open as opening
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["AsyncArray", "AsyncGroup", "create_array", "create_group", "open", "run"]


async def run(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call any function in a worker thread and await its result.

    Args:
        function: The function.
        *args: Its positional arguments.
        **kwargs: Its keyword arguments.

    Returns:
        The result of the function.

    Examples:
        >>> import asyncio
        >>> a = oz.create_array(data=np.arange(6))
        >>> asyncio.run(oz.aio.run(a.view[::2].read))
        array([0, 2, 4])
    """
    context = contextvars.copy_context()
    cancelled = threading.Event()
    work = functools.partial(_limited, functools.partial(function, *args, **kwargs), cancelled)
    future = _workers.submit(context.run, work)
    if _in_trio():
        return await _await_in_trio(future, cancelled)
    return await _await_in_asyncio(future, cancelled)


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    if trio is None:
        return False
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


async def _await_in_asyncio(future: Future[T], cancelled: threading.Event) -> T:
    waiting = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if future.cancel() or waiting.cancelled():
            raise
        _running.cancel(cancelled)
        while not waiting.done():
            try:
                await asyncio.wait([waiting])
            except asyncio.CancelledError:
                continue  # cancelled again; still wait for the operation
        waiting.exception()  # mark it as retrieved, so that asyncio does not log it
        raise


async def _await_in_trio(future: Future[T], cancelled: threading.Event) -> T:
    trio = sys.modules["trio"]
    done, token = trio.Event(), trio.lowlevel.current_trio_token()
    future.add_done_callback(lambda _: token.run_sync_soon(done.set))
    try:
        await done.wait()
    except trio.Cancelled:
        if not future.cancel():
            _running.cancel(cancelled)
            with trio.CancelScope(shield=True):
                await done.wait()
        raise
    return future.result()


class _Running:
    """Counts running operations; others wait until fewer run than there are threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def begin(self, limit: int, cancelled: threading.Event) -> None:
        """Count an operation when fewer than `limit` run; raise if it is cancelled before."""
        with self._changed:
            self._changed.wait_for(lambda: cancelled.is_set() or self._count < limit)
            if cancelled.is_set():
                raise CancelledError
            self._count += 1

    def cancel(self, cancelled: threading.Event) -> None:
        """Drop the operation that waits with this event, if it has not begun."""
        with self._changed:
            cancelled.set()
            self._changed.notify_all()

    def end(self) -> None:
        """Count an operation no more."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()


_runs = contextvars.ContextVar("omnizarr_aio_runs", default=False)
_running = _Running()
_workers = ThreadPool(config.MAX_THREADS, "omnizarr-aio")


def _limited(function: Callable[[], T], cancelled: threading.Event) -> T:
    """Call a function when fewer operations run than there are threads, unless cancelled."""
    if _runs.get():  # inside another operation: waiting for it to finish would be a deadlock
        return function()
    running = _running
    running.begin(config.get().threads, cancelled)
    _runs.set(True)
    try:
        return function()
    finally:
        running.end()


def _reset() -> None:
    """Forget the operations of the parent in a forked child."""
    global _running
    _running = _Running()


on_fork(in_child=_reset)


# From blocking to awaitable


class Listing:
    """Several items: await them as a list, or iterate over them with ``async for``."""

    def __init__(self, list_all: Callable[[], Coroutine[Any, Any, list[Any]]]) -> None:
        self._list_all = list_all

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return self._list_all().__await__()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in await self._list_all():
            yield item


def _wrapped(value: Any) -> Any:
    """Return nodes in their awaitable form, also inside tuples; other values unchanged."""
    if isinstance(value, Array):
        return AsyncArray(value)
    if isinstance(value, Group):
        return AsyncGroup(value)
    if isinstance(value, tuple):
        return tuple(_wrapped(item) for item in value)
    return value


def _function(function: Callable[P, Any]) -> Callable[P, Coroutine[Any, Any, Any]]:
    @functools.wraps(function)
    async def awaitable(*args: P.args, **kwargs: P.kwargs) -> Any:
        return _wrapped(await run(function, *args, **kwargs))

    return awaitable


def _method(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(function)
    async def awaitable(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _wrapped(await run(function, self.blocking, *args, **kwargs))

    return awaitable


def _listing(function: Callable[..., Iterable[Any]]) -> Callable[..., Listing]:
    @functools.wraps(function)
    def listed(self: Any, *args: Any, **kwargs: Any) -> Listing:
        async def list_all() -> list[Any]:
            found = await run(lambda: list(function(self.blocking, *args, **kwargs)))
            return [_wrapped(item) for item in found]

        return Listing(list_all)

    return listed


class _AsyncNode:
    """A node whose slow operations are awaited; `blocking`, the ordinary node, has the others."""

    _plain = frozenset({"name", "path", "store", "read_only", "zarr_format", "metadata", "info"})

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._plain:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; use the ordinary node .blocking, or"
                " aio.run(function, ...), which awaits any function"
            )
        return getattr(self.blocking, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._plain})

    @property
    def attrs(self) -> dict[str, Any]:
        """A copy of the attributes; `update_attributes` changes them."""
        found: dict[str, Any] = self.blocking.attrs.asdict()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bool(self.blocking == other.blocking)

    __hash__ = None  # type: ignore[assignment]  # as the node's

    def __repr__(self) -> str:
        return f"<Async{repr(self.blocking)[1:]}"

    refresh = _method(Array.refresh)

    async def update_attributes(self, new_attributes: Mapping[str, Any]) -> Self:
        """Set several attributes with one write.

        Args:
            new_attributes: Attributes by name, as JSON can express them; others stay.

        Returns:
            This node.

        Examples:
            >>> import asyncio
            >>> a = oz.aio.AsyncArray(oz.create_array(shape=3))
            >>> asyncio.run(a.update_attributes({"units": "m"})).attrs
            {'units': 'm'}
        """
        await run(self.blocking.attrs.update, new_attributes)
        return self


class AsyncArray(_AsyncNode):
    """An array that is read and written with ``await``.

    Properties that need no access to the store, such as `shape` and `dtype`, are ordinary ones.

    Args:
        blocking: The ordinary array, which is also an attribute.

    Examples:
        >>> import asyncio
        >>> a = oz.aio.AsyncArray(oz.create_array(data=np.arange(6)))
        >>> asyncio.run(a.getitem(slice(2)))
        array([0, 1])
    """

    _plain = _AsyncNode._plain | {
        *("shape", "ndim", "size", "dtype", "itemsize", "nbytes", "fill_value", "order"),
        *("chunks", "shards", "cdata_shape", "nchunks", "codecs", "dimension_names"),
        *("view", "chunk_key"),
    }

    getitem = _method(Array.__getitem__)
    setitem = _method(Array.__setitem__)
    read = _method(Array.read)
    append = _method(Array.append)
    chunks_present = _method(Array.chunks_present)

    resize = _method(Array.resize)


class AsyncGroup(_AsyncNode):
    """A group whose members are opened and changed with ``await``.

    Args:
        blocking: The ordinary group, which is also an attribute.

    Examples:
        >>> import asyncio
        >>> async def shapes(path):
        ...     group = await oz.aio.open(path)
        ...     return [array.shape async for name, array in group.arrays()]
        >>> oz.save("run.zarr", a=np.arange(3), b=np.ones(2))
        >>> asyncio.run(shapes("run.zarr"))
        [(3,), (2,)]
    """

    getitem = _method(Group.__getitem__)
    setitem = _method(Group.__setitem__)
    delitem = _method(Group.__delitem__)
    contains = _method(Group.__contains__)
    get = _method(Group.get)
    members = _listing(Group.members)
    keys = _listing(Group.keys)
    arrays = _listing(Group.arrays)
    groups = _listing(Group.groups)
    create_hierarchy = _listing(Group.create_hierarchy)
    create_group = _method(Group.create_group)
    create_array = _method(Group.create_array)
    require_group = _method(Group.require_group)
    require_array = _method(Group.require_array)
    move = _method(Group.move)
    delete = _method(Group.delete)
    tree = _method(Group.tree)


open = _function(opening.open)
create_array = _function(create.create_array)
create_group = _function(create.create_group)
