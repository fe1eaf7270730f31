"""HTTP requests by libcurl: one thread sends many at a time, for little processor time each.

`Connections` serve one call at a time, and are kept for later calls. The number of requests at a
time grows while their thread has nothing to do but wait, so that a near server gets few. Nothing is
retried here.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import select
import selectors
import ssl
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple, TypeAlias

from omnizarr import config
from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import check_waited_for, interruptible
from omnizarr.concurrency.retry import TransientError
from omnizarr.errors import descriptor_shortage
from omnizarr.stores import tracing
from omnizarr.stores.base import Range, redact_url


def _load_pycurl() -> Any:
    """Import pycurl with its own libcurl, even if netCDF4, say, has made another one global."""
    if not hasattr(os, "RTLD_DEEPBIND") or not hasattr(ctypes.CDLL(None), "curl_easy_init"):
        return importlib.import_module("pycurl")
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        return importlib.import_module("pycurl")
    finally:
        sys.setdlopenflags(flags)


pycurl = _load_pycurl()
FIRST = 128  # requests at a time, until their thread waits for responses
WAITS = 0.001  # seconds without a response, after which more are sent
LONGEST_WAIT = 0.2  # seconds between two looks, where nothing comes
CONNECT = 10.0  # seconds
MAX_REDIRECTS = 10
_BUFFER = 2**19
_TRUSTED = ssl.get_default_verify_paths()  # by Python, too
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)\s*", re.IGNORECASE)
# The first lines of a response, and its headers. Those of redirects come before, trailers after it.
_HEAD = re.compile(
    r"(?:\A|(?<=\n)\r?\n)HTTP/\S+ +(\d{3})([^\n]*)\n((?:(?!\r?\n)[^\n]+\n)*)", re.IGNORECASE
)
_FIELD = re.compile(r"^([^:\s]+)[ \t]*:[ \t]*([^\n]*)", re.MULTILINE)
_READS, _WRITES = 1, 4  # of `select.epoll`
Headers: TypeAlias = Mapping[str, str]


class Request(NamedTuple):
    """A request; `range` has the bytes of a part, as in ``0-99``."""

    url: str
    range: str | None = None
    headers: Sequence[str] = ()
    method: str = "GET"
    proxy: str | None = None
    follows: bool = True  # redirects


class Response(NamedTuple):
    """A response; the names of headers are in lower case. Status 0: none came, for a reason."""

    status: int
    reason: str
    headers: dict[str, str]
    data: bytes
    seconds: float


class _Selector(selectors.DefaultSelector):
    """Waits for sockets as `select.epoll` does, on systems without it."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        with suppress(KeyError):
            self.unregister(fileobj)
        return super().register(fileobj, events & 1 | events >> 1 & 2)

    modify = register

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """Return the sockets that are ready, and for what."""
        if not self.get_map():  # for none Windows does not wait
            return []
        return [(key.fd, events & 1 | events << 1 & 4) for key, events in self.select(timeout)]


class Connections:
    """Connections of one thread at a time, and handles for the requests on them."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.most = 0  # requests that this call may send at a time
        self.largest = 0  # of `most`, so far
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._sockets: Any = getattr(select, "epoll", _Selector)()
        self._timer: float | None = None  # when libcurl wants to be called
        self._free: list[_Transfer] = []

    def prepare(self, most: int) -> None:
        """Set the number of requests at a time for the next call."""
        self.most, self.largest = most, max(most, self.largest)
        self._multi.setopt(pycurl.M_MAXCONNECTS, self.largest)

    def responses(
        self, requests: Sequence[Request], timeout: float
    ) -> Iterator[tuple[int, Response]]:
        """Yield the number and response of each request, in the order in which they come."""
        multi, count, begun, most = self._multi, len(requests), 0, min(FIRST, self.most)
        sent: dict[Any, tuple[int, _Transfer]] = {}
        try:
            while sent or begun < count:
                while begun < count and len(sent) < most:
                    transfer = self._free.pop() if self._free else _Transfer()
                    transfer.prepare(requests[begun], timeout)
                    multi.add_handle(transfer.handle)
                    sent[transfer.handle] = begun, transfer
                    begun += 1
                self._act(0)
                _, done, failed = multi.info_read(count)
                ended = [(handle, reason or "no response") for handle, _, reason in failed]
                for handle, reason in [*((handle, "") for handle in done), *ended]:
                    number, transfer = sent.pop(handle)
                    multi.remove_handle(handle)
                    response = transfer.response(reason)
                    self._free.append(transfer)
                    yield number, response
                if not done and not failed and sent:
                    more = begun < count and most < self.most
                    if not self._act(WAITS if more else LONGEST_WAIT) and more:
                        most = min(2 * most, self.most)
        finally:
            for handle in sent:  # the caller has enough
                multi.remove_handle(handle)
                handle.close()

    def close(self) -> None:
        """Close all connections."""
        for transfer in self._free:
            transfer.handle.close()
        self._multi.close()
        self._sockets.close()

    def _watch(self, event: int, socket: int, multi: object, data: object) -> None:
        """Note which events of a socket libcurl waits for."""
        if event == pycurl.POLL_REMOVE:
            with suppress(KeyError, ValueError, OSError):
                self._sockets.unregister(socket)
            return
        mask = (event & 1 and _READS) | (event & 2 and _WRITES)
        try:
            self._sockets.register(socket, mask)
        except FileExistsError:
            self._sockets.modify(socket, mask)

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _act(self, wait: float) -> bool:
        """Have libcurl handle what has come, or comes soon; return False if nothing came."""
        if self._timer is not None:
            wait = max(0.0, min(wait, self._timer - time.monotonic()))
        come = self._sockets.poll(wait)
        for socket, events in come:  # where a connection has failed, libcurl sees that itself
            action = 1 if events == _READS else 2 if events == _WRITES else 3
            self._multi.socket_action(socket, action)
        if self._timer is not None and time.monotonic() >= self._timer:
            self._timer = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            return True
        return bool(come)


class _Transfer:
    """A handle of libcurl, how it was last set up, and what has come of a response."""

    __slots__ = ("_asked", "_body", "_head", "handle")

    def __init__(self) -> None:
        self._asked: tuple[Any, ...] = ()
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        handle = self.handle = pycurl.Curl()
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.USERAGENT, f"omnizarr/{config.VERSION}")
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)  # several connections
        handle.setopt(pycurl.PATH_AS_IS, 1)
        handle.setopt(pycurl.BUFFERSIZE, _BUFFER)
        handle.setopt(pycurl.MAXREDIRS, MAX_REDIRECTS)
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        for option, path in ((pycurl.CAINFO, _TRUSTED.cafile), (pycurl.CAPATH, _TRUSTED.capath)):
            if path:
                handle.setopt(option, path)
        if not (_TRUSTED.cafile or _TRUSTED.capath):
            handle.setopt(pycurl.SSL_OPTIONS, pycurl.SSLOPT_NATIVE_CA)  # of Windows and macOS
        handle.setopt(pycurl.HEADERFUNCTION, self._head.append)
        handle.setopt(pycurl.WRITEFUNCTION, self._body.append)

    def prepare(self, request: Request, timeout: float) -> None:
        """Set up the handle for a request."""
        handle, asked = self.handle, (timeout, *request[1:])
        handle.setopt(pycurl.URL, request.url)
        if asked != self._asked:
            self._asked = asked
            more = [] if request.range is None else [f"Range: bytes={request.range}"]
            handle.unsetopt(pycurl.HTTPHEADER)  # as an empty list does not
            handle.setopt(pycurl.HTTPHEADER, [*request.headers, *more])
            handle.setopt(pycurl.NOBODY if request.method == "HEAD" else pycurl.HTTPGET, 1)
            handle.setopt(pycurl.FOLLOWLOCATION, request.follows)
            handle.setopt(pycurl.PROXY, request.proxy or "")
            handle.setopt(pycurl.TIMEOUT_MS, max(1, int(timeout * 1000)))
            handle.setopt(pycurl.CONNECTTIMEOUT_MS, max(1, int(min(CONNECT, timeout) * 1000)))

    def response(self, reason: str) -> Response:
        """Return what has come, or the reason why not all of it has."""
        data, text = b"".join(self._body), b"".join(self._head).decode("latin-1")
        self._head.clear()  # the handle refers to both
        self._body.clear()
        seconds, heads = self.handle.getinfo(pycurl.TOTAL_TIME), [*_HEAD.finditer(text)]
        if reason or not heads:
            return Response(0, reason or "no status line", {}, b"", seconds)
        status, said, lines = heads[-1].groups()
        fields, headers = _FIELD.findall(lines), dict[str, str]()
        for name, value in fields:
            name, value = name.lower(), value.rstrip()
            first = headers.setdefault(name, value)
            headers[name] = value if first == value else f"{first}, {value}"
        return Response(int(status), said.strip(), headers, data, seconds)


_idle: list[Connections] = []  # those used last at the end
_busy: set[Connections] = set()
_lock = fork.lock()


# Parts


def range_text(range: Range) -> str:
    """Return the bytes of a range that is not empty, as a request names them."""
    if range.start < 0:
        return f"{range.start}"
    return f"{range.start}-{'' if range.length is None else range.start + range.length - 1}"


def sent_range(headers: Headers) -> tuple[int, int, int | None]:
    """Return the first byte, the end and the size of the value in a response; (0, 0) for none."""
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    first, last, size = (None, None, "*") if found is None else found.groups()
    end = 0 if last is None else int(last) + 1
    return int(first or 0), end, None if size == "*" else int(size)


def check_part(headers: Headers, body: bytes, range: Range) -> None:
    """Raise if a response with a part of a value has another part than the requested one."""
    first, end, size = sent_range(headers)
    known = end if size is None else size  # what the server has not stated cannot be checked
    start = max(0, known + range.start) if range.start < 0 else range.start
    stop = known if range.start < 0 or range.length is None else start + range.length
    stop = stop if size is None else min(stop, size)
    unknown = size is None and range.start < 0
    if unknown or (first, end) != (start, stop) or len(body) != end - first:
        raise TransientError(
            f"{len(body)} bytes came as {headers.get('content-range')!r} where bytes"
            f" {range_text(range)} were requested"
        )


# Calls


def _responses(
    requests: Sequence[Request], timeout: float
) -> Generator[tuple[int, Response], None, None]:
    """Yield the number and response of each request, in the order in which they come."""
    limit = config.get().requests
    try:
        own = _idle.pop()
    except IndexError:
        try:
            own = Connections()
        except (OSError, pycurl.error) as e:  # no file descriptor is left
            yield from ((n, Response(0, str(e), {}, b"", 0.0)) for n in range(len(requests)))
            return
    with _lock:
        free = limit - sum(other.most for other in _busy)
        own.prepare(max(1, min(free, len(requests))))
        _busy.add(own)
    try:
        yield from own.responses(requests, timeout)
    finally:
        with _lock:
            _busy.discard(own)
            open_then = sum(other.largest for other in (*_idle, own))
            is_kept = own.process == os.getpid() and open_then <= limit + limit // 4
            if is_kept:
                _idle.append(own)
        if not is_kept and own.process == os.getpid():
            own.close()


def fetch_each(
    store: object,
    requests: Sequence[Request],
    use: Callable[[int, Response], None],
    timeout: float,
) -> None:
    """Call `use` with the number of each request of a store and its response, when that comes.

    In the main thread an exception of a signal handler would be lost where libcurl calls functions.
    """

    def run() -> None:
        come, nbytes, seconds = 0, 0, 0.0
        try:
            with closing(_responses(requests, timeout)) as responses:
                for number, response in responses:
                    come, nbytes = come + 1, nbytes + len(response.data)
                    seconds += response.seconds
                    if response.seconds > tracing.SLOW:
                        tracing.slow(store, redact_url(requests[number].url), response.seconds)
                    use(number, response)
                    check_waited_for()
        finally:
            config.count(store, requests=come, received_bytes=nbytes, request_seconds=seconds)

    interruptible(run)


def fetch(store: object, request: Request, timeout: float) -> Response:
    """Return the response to one request."""
    found: list[Response] = []
    fetch_each(store, [request], lambda _, response: found.append(response), timeout)
    return found[0]


def free_descriptors() -> str:
    """Return the error if no file descriptor is left, and close the connections not in use."""
    if shortage := descriptor_shortage():
        close_idle()
    return shortage


def close_idle() -> None:
    """Close the connections that no call uses."""
    with suppress(IndexError):
        while True:
            _idle.pop().close()


def _in_child() -> None:
    if _idle or _busy:
        fork.never_release([*_idle, *_busy])
    _idle.clear()
    _busy.clear()


fork.on_fork(in_child=_in_child)
