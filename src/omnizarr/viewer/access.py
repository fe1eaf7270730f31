"""Check requests before they are answered, count them, and share memory and turns among clients."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnizarr.errors import InvalidArgument

ANY_ADDRESS = ("0.0.0.0", "::")  # of a server that listens at all addresses of the machine
MORE_HEADERS = "omnizarr.headers"  # in the scope of a request: of its response
REFUSED = "omnizarr.refused"  # in the scope of a request that was not let in
SLOW = 1.0  # seconds after which a request is logged
_log = logging.getLogger("omnizarr.serve")
_BUSY = "the server is busy; try again"
_TOKEN = re.compile(r'((?![;,"\\&=%+#])[!-~])+')  # can be part of a URL and of headers
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::\d*)?")
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
# Metrics have the format of
# https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
_ROUTE = re.compile(
    r"/(?:(store|v2|v3|page)/|(api/(?:members|node|values|chunks)|health|metrics)?\Z)"
)
_BUCKETS = {"0.005": 0.005, "0.025": 0.025, "0.1": 0.1, "0.5": 0.5, "2.5": 2.5, "10": 10.0}
_METRICS = {  # type and meaning by name
    "requests_total": ("counter", "Requests that have ended, by route and status."),
    "requests_refused_total": ("counter", "Requests that were not let in, by status."),
    "requests_in_flight": ("gauge", "Requests that are being answered."),
    "sent_bytes_total": ("counter", "Bytes of the bodies of answers, by route."),
    "request_seconds": ("histogram", "Time from a request to the end of its answer, by route."),
}


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The most that a server does at a time, so that no client can take all of it."""

    requests: int = 512  # that are answered at a time; more get status 503
    header: int = 16384  # bytes of a request's head
    connections: int = 512
    memory: int = 2**28  # bytes for making answers, and for answers not yet read
    share: float = 0.5  # of requests, connections and memory that one address may have
    wait_seconds: float = 30.0  # for memory, or for the turn to decode
    head_seconds: float = 15.0  # for the head of a request to arrive
    send_seconds: float = 20.0  # for a client to take half a megabyte
    idle_seconds: float = 10.0  # between two requests on one connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Say who may read what of a store that is served; see `omnizarr.serving`."""

    token: str | None = None
    origins: Sequence[str] = ("*",)
    host_names: Sequence[str] = ()  # and addresses
    follow_links: bool = False
    limits: ServerLimits = ServerLimits()

    def check(self) -> None:
        """Raise if the token cannot be part of URLs and headers, or a host has no valid name."""
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise InvalidArgument("a token has letters, digits and . _ ~ - only")
        for name in self.host_names:
            if not name or any(c in name for c in "/ []*") or name.count(":") == 1:
                raise InvalidArgument(
                    f"{name!r} is not the name of a host; give one such as data.example.org,"
                    " without https:// and without a port"
                )


class ClientGone(Exception):
    """The client has closed the connection; nobody waits for a response."""


def json_response(found: Any, status: int = 200, headers: Any = None) -> Response:
    """Return a response with JSON."""
    response = JSONResponse(found, status, headers)
    response.headers.setdefault("cache-control", "no-cache")
    return response


class RequestGate:
    """Lets requests in, or refuses them, and adds headers to all responses."""

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._app, self._token = app, options.token
        named = [urlsplit(origin).hostname for origin in options.origins if "://" in origin]
        names = filter(None, ("localhost", *options.host_names, *named))
        self._names = {name.lower() for name in names}
        most = options.limits.requests
        self._running = FairShare(lambda: most, options.limits.share, 0.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket, which is refused
        request = Request(scope)
        extra = scope[MORE_HEADERS] = [*_ALWAYS]
        answered = False

        async def send_with_headers(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)
            answered = message["type"] == "http.response.body" and not message.get("more_body")

        refusal = self._refuse(request)
        query = request.query_params.multi_items()
        if refusal is None and self._is_token(value for name, value in query if name == "token"):
            cookie = f"{_cookie_name(scope)}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            extra.append((b"set-cookie", cookie.encode()))
            if scope["path"] == "/":  # the token shall not stay in the history
                rest = urlencode([(name, value) for name, value in query if name != "token"])
                refusal = RedirectResponse(f"/?{rest}" if rest else "/", 303)
        portion = None if refusal is not None else self._running.try_take(client_of(scope))
        if portion is None:
            refusal = refusal or json_response({"error": _BUSY}, 503, {"retry-after": "1"})
            if refusal.status_code >= 400:
                scope[REFUSED] = True
            await refusal(scope, receive, send_with_headers)
            return
        try:
            with suppress(ClientGone), portion:
                await self._app(scope, receive, send_with_headers)
        except Exception:
            if not answered:
                raise  # the server closes the connection, so that nobody takes a part for the whole
            _log.exception("internal error while answering %s", scope["path"])

    def _refuse(self, request: Request) -> Response | None:
        """Return the response to a request that is not let in, or None."""
        scope, headers = request.scope, request.headers
        for name in headers.getlist("host"):
            if not self._is_named(name, scope):
                message = (
                    f"this server is not called {name[:100]!r}; where that is its name, start it"
                )
                return json_response({"error": f"{message} with --host-name, or host_names="}, 421)
        if request.method not in ("GET", "HEAD"):
            message = "the server is read-only: GET and HEAD are allowed"
            return json_response({"error": message}, 405, {"allow": "GET, HEAD"})
        if headers.get("content-length", "0").strip("0") or "transfer-encoding" in headers:
            message = "a request must not have a body"
            return json_response({"error": message}, 413, {"connection": "close"})
        kind, _, given = headers.get("authorization", "").partition(" ")
        tokens = [given.strip()] if kind.lower() == "bearer" else []
        tokens.append(request.cookies.get(_cookie_name(scope), ""))
        tokens += request.query_params.getlist("token")
        open_ = self._token is None or scope["path"] == "/health"  # which probes ask for
        if not open_ and not self._is_token(tokens):
            message = "a token is needed: ?token=… or the header Authorization: Bearer …"
            return json_response({"error": message}, 401, {"www-authenticate": "Bearer"})
        return None

    def _is_token(self, given: Iterable[str]) -> bool:
        """Return True if any of the given texts is the token."""
        token = (self._token or "").encode()
        return bool(token) and any(hmac.compare_digest(g.encode(), token) for g in given)

    def _is_named(self, header: str, scope: Scope) -> bool:
        """Return True if a Host header has a name, or an address, of this server.

        A web site can make its own name lead to this machine ("DNS rebinding"), and would then be
        of the same origin for a browser; it cannot do so with an address in digits.
        """
        match = _HOST.fullmatch(header.strip())
        name = "" if match is None else match[1].strip("[]").removesuffix(".").lower()
        if name in self._names:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        known = {*self._names, str((scope.get("server") or ("",))[0])}
        return address.is_loopback or name in known or not known.isdisjoint(ANY_ADDRESS)


def _cookie_name(scope: Scope) -> str:
    """Return the name of the cookie; browsers share cookies between the ports of a host."""
    return f"omnizarr-{(scope.get('server') or ('', 0))[1] or 0}"


# Shares of clients


def client_of(scope: Scope) -> str:
    """Return the address of the client of a request."""
    return str((scope.get("client") or ("", 0))[0])


def _busy() -> HTTPException:
    return HTTPException(503, _BUSY, {"retry-after": "1"})


class Portion:
    """A part of what clients share, until it is closed or the block ends."""

    def __init__(self, owner: FairShare, client: str, amount: int) -> None:
        self._owner, self._client, self._amount = owner, client, amount

    def keep(self, amount: int) -> None:
        """Give back all but this amount."""
        if amount < self._amount:
            self._owner.give_back(self._client, self._amount - amount)
            self._amount = amount

    def close(self) -> None:
        """Give back everything."""
        self.keep(0)

    def __enter__(self) -> Portion:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FairShare:
    """A limited amount that clients share, each waiting in its own line.

    The client that has least of it now comes first, and those with the same take turns: a small
    request does not wait for all requests of others. One client has at most a share of it, unless
    it has nothing yet. A client that waits too long is told to try again.
    """

    def __init__(self, most: Callable[[], int], share: float, seconds: float) -> None:
        self.most, self._share, self._seconds = most, share, seconds
        self.used: Counter[str] = Counter()  # by client
        # Those who wait, by client; who has had a turn goes to the end.
        self._lines: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    def check(self) -> None:
        """Raise if nothing is left."""
        if self.used.total() >= self.most():
            raise _busy()

    async def take(self, client: str, amount: int) -> Portion:
        """Return a portion as soon as it is available and it is this client's turn.

        More than there is for all is memory for an answer, which is refused.
        """
        if amount > self.most():
            message = (
                f"the answer needs {amount} bytes of memory, more than the {self.most()} that the"
                " server has for answers; start it with more: --memory, or ServerLimits(memory=…)"
            )
            raise HTTPException(413, message)
        portion = None if client in self._lines else self.try_take(client, amount)
        if portion is None:
            await self._wait(client, amount)
        return portion or Portion(self, client, amount)

    def try_take(self, client: str, amount: int = 1) -> Portion | None:
        """Return a portion, or None if it is not available now."""
        if not self._fits(client, amount):
            return None
        self.used[client] += amount
        return Portion(self, client, amount)

    def give_back(self, client: str, amount: int) -> None:
        """Take back what a client had."""
        self.used[client] -= amount
        if not self.used[client]:
            del self.used[client]
        self._serve()

    def _fits(self, client: str, amount: int) -> bool:
        own, most = self.used.get(client, 0), self.most()
        fits = self.used.total() + amount <= most
        return fits and (not own or own + amount <= most * self._share)

    async def _wait(self, client: str, amount: int) -> None:
        future = asyncio.get_running_loop().create_future()
        self._lines.setdefault(client, deque()).append((amount, future))
        try:
            async with asyncio.timeout(self._seconds):
                await future
        except BaseException as e:
            if future.done() and not future.cancelled():  # it came at the same time
                self.give_back(client, amount)
            else:
                future.cancel()
                self._serve()
            if isinstance(e, TimeoutError):
                raise _busy() from None
            raise

    def _serve(self) -> None:
        """Give portions to the first in each line, as far as the amount suffices."""
        for client in sorted(self._lines, key=lambda client: self.used.get(client, 0)):
            line = self._lines[client]
            while line and (line[0][1].done() or self._fits(client, line[0][0])):
                amount, future = line.popleft()
                if not future.done():  # else it was cancelled
                    self.used[client] += amount
                    future.set_result(None)
                    self._lines[client] = self._lines.pop(client)
            if not line:
                del self._lines[client]


class Metrics:
    """Counts the requests of an application."""

    def __init__(self) -> None:
        self._series = {name: defaultdict[str, float](float) for name in _METRICS}

    def _add(self, name: str, labels: str, amount: float = 1, part: str = "") -> None:
        shown = f"{{{labels}}}" if labels else ""
        self._series[name][f"omnizarr_{name}{part}{shown}"] += amount

    def measure(self, app: ASGIApp) -> ASGIApp:
        """Return an application that counts its requests."""

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            found, status, began = _ROUTE.match(scope["path"]), "aborted", time.perf_counter()
            name = "other" if found is None else f"/{found[1] or found[2] or ''}"
            route = f'route="{name}"'

            async def counted(message: Message) -> None:
                nonlocal status
                status = str(message.get("status", status))
                await send(message)
                self._add("sent_bytes_total", route, len(message.get("body", b"")))

            self._add("requests_in_flight", "")
            try:
                await app(scope, receive, counted)
            finally:
                seconds = time.perf_counter() - began
                self._add("requests_in_flight", "", -1)
                self._add("requests_total", f'{route},status="{status}"')
                if REFUSED in scope:
                    self._add("requests_refused_total", f'status="{status}"')
                for text, end in (*_BUCKETS.items(), ("+Inf", seconds)):
                    self._add("request_seconds", f'{route},le="{text}"', seconds <= end, "_bucket")
                self._add("request_seconds", route, part="_count")
                self._add("request_seconds", route, seconds, "_sum")
                if seconds > SLOW:
                    _log.info("answering %r (%s) took %.1f s", scope["path"], status, seconds)

        return measured

    def text(self) -> str:
        """Return all numbers in the text format of Prometheus."""
        lines: list[str] = []
        for name, (kind, meaning) in _METRICS.items():
            lines += [f"# HELP omnizarr_{name} {meaning}", f"# TYPE omnizarr_{name} {kind}"]
            lines += [f"{series} {number}" for series, number in self._series[name].items()]
        return "\n".join([*lines, ""])
