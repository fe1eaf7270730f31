"""Run the server: in this thread until it is interrupted, or in another for a while."""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar, cast

from omnizarr import Array, Group
from omnizarr.errors import MissingModule, StoreError, warn
from omnizarr.extension import Store, start_thread, stores
from omnizarr.viewer.describe import describe
from omnizarr.viewer.folder import Folder, store_below

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from omnizarr.viewer.access import ANY_ADDRESS, FairShare, ServerLimits, ServerOptions
    from omnizarr.viewer.app import application
except ImportError as e:
    raise MissingModule("serving needs starlette, uvicorn: pip install 'omnizarr[serve]'") from e

PORT = 8089
_BACKLOG = 1024  # connections that wait to be accepted
_CHECKED = 1.0  # seconds between two looks at a connection
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 44\r\nConnection: close\r\n\r\n{"error": "too many connections; try later"}'
)


class Connection(H11Protocol):
    """A connection that is closed if its client sends no request, or takes no response.

    One beyond the limits is closed with status 503 at once, so that none is left waiting.
    """

    limits: ClassVar[ServerLimits]
    places: ClassVar[FairShare]  # for connections, shared by the addresses of clients

    def connection_made(self, transport: Any) -> None:
        client = str((transport.get_extra_info("peername") or ("",))[0])
        self._place = self.places.try_take(client)
        super().connection_made(transport)
        if self._place is None:
            transport.write(_FULL)
            transport.close()
        self._idle_since: float | None = self.loop.time()
        self._full_since: float | None = None
        self._timer = self.loop.call_later(_CHECKED, self._check)

    def data_received(self, data: bytes) -> None:
        if self._idle_since is None:
            self._idle_since = self.loop.time()
        super().data_received(data)

    def resume_writing(self) -> None:
        self._full_since = None  # the client has taken a piece
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        if self._place is not None:
            self._place.close()
        super().connection_lost(exc)

    def _check(self) -> None:
        now, limits = self.loop.time(), self.limits
        waiting = self.transport.get_write_buffer_size() > 0
        if not waiting:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or self.timeout_keep_alive_task is not None:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        stuck = self._full_since is not None and now - self._full_since > limits.send_seconds
        silent = self._idle_since is not None and now - self._idle_since > limits.head_seconds
        if stuck or silent:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(_CHECKED, self._check)


def served_store(where: Any, storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store that is served for a path, URL, store, array or group, read-only."""
    if isinstance(where, (Array, Group)) and where.path:
        return store_below(where.store, where.path)
    given = where.store if isinstance(where, (Array, Group)) else where
    store: Any = stores.resolve(given, read_only=True, storage_options=storage_options)
    closed = store.read_only or not hasattr(store, "with_read_only")
    return cast("Store", store if closed else store.with_read_only(True))


def is_loopback(host: str) -> bool:
    """Return True if only programs of this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens at a port; for None at the usual one, or any that is free."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, PORT if port is None else port))
        except OSError as e:
            if port is not None or e.errno != errno.EADDRINUSE:
                raise
            listener.bind((host, 0))
        listener.listen(_BACKLOG)  # who connects before the server runs, waits for it
    except OSError as e:
        listener.close()
        raise StoreError(
            f"cannot listen at {host}:{port or PORT}: {e.strerror or e}; choose another port,"
            " or 0 for any that is free"
        ) from e
    return listener


def _make_server(application: Any, limits: ServerLimits) -> uvicorn.Server:
    places = FairShare(lambda: limits.connections, limits.share, 0.0)
    protocol = type("Connection", (Connection,), {"limits": limits, "places": places})
    settings = uvicorn.Config(
        application,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=round(limits.idle_seconds),
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=limits.header,
        backlog=_BACKLOG,
    )
    return uvicorn.Server(settings)


def serve(
    store: Any,
    *,
    port: int | None = None,
    seconds: float | None = None,
    started: Callable[[str], object] = lambda url: print(f"serving at {url}"),
    **options: Any,
) -> None:
    """Serve a hierarchy over HTTP, read-only, until the program is interrupted.

    Args:
        store: A path, URL, store, array or group, or a folder of hierarchies.
        port: The port; by default 8089 if that is free, else any.
        seconds: The time after which the server ends by itself.
        started: A function that is called with the address.
        **options: Those of `serving`: `host`, `token`, `limits` and others.

    Raises:
        NodeNotFound: If there is nothing at the path.
        StoreError: If the port cannot be used.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(6))
        >>> oz.serve("ocean.zarr", seconds=0.1)
        serving at http://127.0.0.1:...
    """
    running = _running(store, port=port, **options)
    with suppress(KeyboardInterrupt), running as (url, ended):
        started(url)
        ended.wait(seconds)


@contextmanager
def serving(
    store: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    origins: Sequence[str] = ("*",),
    host_names: Sequence[str] = (),
    follow_links: bool = False,
    limits: ServerLimits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Serve a hierarchy while a ``with`` block runs, and yield the address.

    Args:
        store: A path, URL, store, array or group, or a folder of hierarchies.
        host: The address to listen at. By default only programs of this machine can connect; a
            warning is issued if others can and there is no `token`.
        port: The port; by default any that is free.
        token: A text without which nothing is served: ``?token=…`` once in a browser, or the header
            ``Authorization: Bearer …``.
        origins: The websites whose pages may read the data; by default all.
        host_names: Names by which clients call the server, besides the names of this machine,
            `host` and `origins`; requests for other names are refused.
        follow_links: True to follow symbolic links that lead out of the served folder.
        limits: `ServerLimits` of size, number, memory and time of requests.
        storage_options: Options for the store of a URL, such as credentials.

    Yields:
        The address, which ends in a slash.

    Raises:
        NodeNotFound: If there is nothing at the path.
        StoreError: If the port cannot be used.

    Examples:
        >>> with oz.serving(oz.create_array(data=np.arange(6))) as url:
        ...     oz.open(f"{url}v3")[:3]
        array([0, 1, 2])
    """
    with _running(
        store, host=host, port=port, token=token, origins=origins,
        host_names=host_names, follow_links=follow_links, limits=limits,
        storage_options=storage_options,
    ) as (url, _):  # fmt: skip
        yield url


@contextmanager
def _running(
    where: Any,
    *,
    host: str = "127.0.0.1",
    port: int | None,
    storage_options: Mapping[str, Any] | None = None,
    limits: ServerLimits | None = None,
    **given: Any,
) -> Iterator[tuple[str, threading.Event]]:
    """Run a server in a thread; yield its address, and an event that says that it has ended."""
    options = ServerOptions(limits=limits or ServerLimits(), **given)
    options.check()
    store = served_store(where, storage_options)
    folder = Folder(store, follow_links=options.follow_links)
    if folder.locate("") is not None or not folder.names(""):
        describe(folder.store, "")  # which raises if there is nothing to serve
    if options.token is None and not is_loopback(host):
        warn(f"everybody who can reach {host} can read {store!r}; give a token to prevent that")
    names = (host or ANY_ADDRESS[0], *options.host_names)
    app = application(store, replace(options, host_names=names))
    server, ended = _make_server(app, options.limits), threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            server.run([listener])
        except BaseException as e:  # raised where the server is waited for
            failed.append(e)
        finally:
            ended.set()

    with _listen(host, port) as listener:
        if not start_thread(work, "omnizarr-server"):
            raise StoreError("cannot start a thread for the server")
        try:
            while not server.started and not ended.wait(0.01):
                pass
            if not failed:
                address, number = listener.getsockname()[:2]
                shown = f"[{address}]" if ":" in address else address
                yield f"http://{shown}:{number}/", ended
        finally:
            server.should_exit = True
            ended.wait(10)
        if failed:
            raise failed[0]
