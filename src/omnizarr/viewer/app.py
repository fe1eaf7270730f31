"""The application: routes, limits, the token, errors as JSON.

Work is done on threads, never on the event loop: stored values by threads for input and output,
what decodes by `omnizarr.aio`, which shares its threads with the rest of the process. A client that
goes away takes its waiting work with it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from importlib.resources import files
from ipaddress import ip_address
from mimetypes import guess_type
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from omnizarr import aio, config
from omnizarr.errors import (
    ChunkError,
    InvalidArgument,
    InvalidMetadata,
    MissingModule,
    NodeNotFound,
    OmnizarrError,
    SelectionError,
    StoreError,
    WrongNode,
)
from omnizarr.extension import LeadsOutside, Store, ThreadPool, can_list, has_low_latency, paths
from omnizarr.viewer.describe import chunk_map, find_array, public_message
from omnizarr.viewer.folder import Folder, Found
from omnizarr.viewer.values import Parts, TooLarge, Values, Wanted, read_tagged

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from omnizarr.viewer import keys
except ImportError as e:
    raise MissingModule("serving needs Starlette: pip install 'omnizarr[serve]'") from e

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
_files = ThreadPool(config.MAX_THREADS, "omnizarr-serve")  # for stores that answer at once
_requests = ThreadPool(None, "omnizarr-serve-requests")  # for those that wait for a server
MAX_MEMBERS = 5000  # in one answer
_log = logging.getLogger("omnizarr.serve")

_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_EXPOSED = b"accept-ranges, content-range, etag, x-shape, x-dtype, x-missing"
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'; frame-ancestors "
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a server does at a time, so that no client can take all of it."""

    requests: int = 512  # that are answered at a time; more get status 503
    rate: float | None = 1000.0  # requests a second from one address, but for this machine itself
    url: int = 8192  # bytes of a path and query
    header: int = 16384  # bytes of a request's head
    connections: int = 512
    memory: int = 2**28  # bytes for making answers, and for those that clients have not taken yet
    share: float = 0.5  # of requests, connections and memory that one address may have
    wait_seconds: float = 30.0  # for memory, or for the turn to decode
    head_seconds: float = 15.0  # for the head of a request to arrive
    send_seconds: float = 20.0  # for a client to take half a megabyte
    idle_seconds: float = 10.0  # between two requests on one connection


class Served:
    """A store that is served, and the handlers of its routes."""

    def __init__(
        self,
        store: Store,
        *,
        token: str | None,
        listing: bool,
        origins: tuple[str, ...],
        follow_links: bool,
        limits: Limits,
    ) -> None:
        self._held = keys.HeldBytes(limits.memory, limits.share, limits.wait_seconds)
        self._shared = keys.Shared(self._at_once, 1.0, limits.wait_seconds)
        # Notebooks have another origin; who may read the values may also show the page.
        around = ("*", "vscode-webview:") if "*" in origins else ("'self'", *origins)
        self._policy = _POLICY + " ".join(around)
        self.folder = Folder(store, follow_links=follow_links)
        self.store = self.folder.store
        self.listing = listing
        self.token = token

    # Threads

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Return the result of a function that reads from the store, called on a thread."""
        pool = _files if has_low_latency(self.store) else _requests
        return await asyncio.wrap_future(pool.submit(function, *args))

    def _at_once(self) -> int:
        settings = config.get()
        return settings.threads if has_low_latency(self.store) else settings.requests

    async def decode(self, client: str, function: Callable[..., T], *args: Any) -> T:
        """Return the result of a function that decodes, called on a thread of the budget.

        Clients take turns, so that one with many requests does not hold up others.
        """
        with await self._shared.take(client, 1):
            if has_low_latency(self.store):
                return await aio.run(function, *args)
            return await asyncio.wrap_future(_requests.submit(function, *args))

    async def decode_parts(self, client: str, parts: Parts[T]) -> tuple[T, keys.Taken]:
        """Return the result of work in parts, and the memory for it.

        Others have their turn between two parts, and a client that has left gets no further one.
        """

        def advance() -> tuple[int, T | None]:
            try:
                return next(parts), None
            except StopIteration as e:
                return -1, e.value

        needed, result = await self.decode(client, advance)
        taken = await self._held.take(client, max(0, needed))
        try:
            while needed >= 0:
                needed, result = await self.decode(client, advance)
        except BaseException:
            taken.close()
            raise
        return cast("T", result), taken

    # Stored keys

    async def stored(self, request: Request) -> Response:
        """Answer with the value of a key, or a listing."""
        key = keys.requested_key(request, "/store/")
        found = await self._locate(key)
        if found is None:
            return await self._list_folder(request, key)
        hierarchy, inside = found
        if key == hierarchy.path:  # the file of an archive
            return await self._answer(request, self.store, key, self.read)
        return await self._answer(request, hierarchy.store, inside, self.read, hierarchy.path)

    async def viewed(self, request: Request) -> Response:
        """Answer with the value of a key of the view in another format."""
        start = request.scope["path"][: len("/v2/")]
        found = await self._locate(keys.requested_key(request, start))
        if found is None:
            raise HTTPException(404, "there is no hierarchy at this path")
        hierarchy, inside = found
        run = partial(self.decode, keys.client_of(request.scope))
        view = await run(hierarchy.view, int(start[2]))
        return await self._answer(request, view, inside, run, hierarchy.path)

    async def _locate(self, key: str) -> Found:
        """Return the hierarchy that has a key, and the key in it."""
        if self.folder.whole is not None:
            return self.folder.whole, key
        return await self.read(self.folder.locate, key)

    async def _list_folder(self, request: Request, prefix: str) -> Response:
        """Answer with the names in a folder of hierarchies, which has no values of its own."""
        if "list" not in request.query_params or (prefix and not prefix.endswith("/")):
            raise HTTPException(404, f"there is no key {prefix!r} in a hierarchy")
        if not self.listing:
            raise HTTPException(403, "this server does not list keys")
        client = keys.client_of(request.scope)
        return json_response(await self.decode(client, self.folder.listing, prefix))

    async def _answer(
        self, request: Request, store: Store, key: str, run: keys.Run, below: str = ""
    ) -> Response:
        if "list" in request.query_params and (not key or key.endswith("/")):
            if not self.listing:
                raise HTTPException(403, "this server does not list keys")
            found = await self.decode(keys.client_of(request.scope), keys.listing, store, key)
            return json_response({**found, "prefix": paths.join(below, key) or key})
        answer = keys.respond(request, store, key, run, self._held)
        return await (answer if has_low_latency(store) else while_connected(request, answer))

    # The interface of the page

    async def members(self, request: Request) -> Response:
        """Answer with the members of a group."""
        offset = _number(request, "offset", 0, 2**53)
        limit = _number(request, "limit", 500, MAX_MEMBERS)
        return await self._json(request, self.folder.members, _path(request), offset, max(1, limit))

    async def node(self, request: Request) -> Response:
        """Answer with all facts about a node."""
        base = None if self.token is not None else str(request.base_url)
        return await self._json(request, self.folder.describe, _path(request), base)

    async def chunks(self, request: Request) -> Response:
        """Answer with a map of the stored chunks of an array."""
        if not can_list(self.store):
            raise HTTPException(501, "this store cannot list its keys")
        return await self._json(request, self._chunk_map, _path(request))

    def _chunk_map(self, path: str) -> Any:
        return chunk_map(*self.folder.node(path))

    async def values(self, request: Request) -> Response:
        """Answer with decoded values, or that they are those which the client has."""
        query = request.query_params
        wanted = Wanted(
            query.get("select", ""),
            exact=query.get("exact", "") in ("1", "true"),
            decode=query.get("decode", ""),
            extremes=query.get("extremes", "") in ("1", "true"),
        )
        self._held.check()

        def read() -> Parts[tuple[Values | None, str | None]]:
            array = find_array(*self.folder.node(_path(request)))
            is_known = partial(_decides, request)
            return (yield from read_tagged(array, wanted, is_known))

        work = self.decode_parts(keys.client_of(request.scope), read())
        (found, tag), taken = await while_connected(request, work)
        headers = {"cache-control": "no-cache"}
        if tag is not None:
            headers["etag"] = tag
        status = keys.evaluate(request, tag)
        if found is None or status is not None:
            taken.close()
            return Response(status_code=status or 304, headers=headers)
        headers |= {
            "x-shape": ",".join(map(str, found.shape)),
            "x-dtype": found.dtype,
            "content-type": found.media_type,
        }
        if found.missing:
            headers["x-missing"] = "1"
        return self._held.response(found.body, headers, taken)

    async def _json(self, request: Request, function: Callable[..., Any], *args: Any) -> Response:
        work = self.decode(keys.client_of(request.scope), function, *args)
        return json_response(await while_connected(request, work))

    # The page

    async def page(self, request: Request) -> Response:
        """Answer with the page."""
        return self._file(request, "index.html")

    async def page_file(self, request: Request) -> Response:
        """Answer with a file of the page."""
        return self._file(request, request.path_params["name"])

    def _file(self, request: Request, name: str) -> Response:
        found = self._page_files.get(name)
        if found is None:
            raise HTTPException(404, f"the page has no file {name!r}")
        tag = f'"{blake2b(found, digest_size=12).hexdigest()}"'
        headers = {
            "etag": tag,
            "cache-control": "no-cache",
            "content-security-policy": self._policy,
        }
        if keys.evaluate(request, tag) == 304:
            return Response(status_code=304, headers=headers)
        kind = _PAGE_TYPES.get(name.rpartition(".")[2]) or guess_type(name)[0]
        return Response(found, headers=headers, media_type=kind or "application/octet-stream")

    @cached_property
    def _page_files(self) -> dict[str, bytes]:
        folder = files("omnizarr.viewer") / "page"
        if not folder.is_dir():
            return {}
        return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    # Errors

    async def error(self, request: Request, error: Exception) -> Response:
        """Answer with an error as JSON, without the place of the store."""
        if isinstance(error, HTTPException):
            return json_response({"error": error.detail}, error.status_code, error.headers)
        facts: dict[str, Any] = {"error": public_message(error, self.store)}
        if isinstance(error, ChunkError):
            facts |= {"chunk": list(error.chunk), "key": error.key}
        return json_response(facts, status_of(error))

    async def internal_error(self, request: Request, error: Exception) -> Response:
        """Answer that something went wrong; what it was is in the server's log only."""
        return json_response({"error": "internal error"}, 500)


_PAGE_TYPES = {
    "js": "text/javascript",
    "css": "text/css",
    "html": "text/html",
    "svg": "image/svg+xml",
}


def status_of(error: Exception) -> int:
    """Return the status code for an error."""
    kinds: tuple[tuple[type[Exception], int], ...] = (
        (TooLarge, 413),
        (NodeNotFound, 404),
        (WrongNode, 400),
        (SelectionError, 400),
        (ChunkError, 422),
        (InvalidArgument, 400),
        (InvalidMetadata, 422),
        (StoreError, 503),
    )
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LeadsOutside):
            return 403
        cause = cause.__cause__
    return next((status for kind, status in kinds if isinstance(error, kind)), 422)


def _decides(request: Request, tag: str) -> bool:
    """Return True if a condition of a request decides its status by an entity tag."""
    return keys.evaluate(request, tag) is not None


def _path(request: Request) -> str:
    return request.query_params.get("path", "")


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 18):
        raise HTTPException(400, f"{name}: expected a number of at least 0, got {text[:40]!r}")
    return min(int(text), most)


def json_response(found: Any, status: int = 200, headers: Any = None) -> Response:
    """Return a response with JSON."""
    response = JSONResponse(found, status, headers)
    response.headers.setdefault("cache-control", "no-cache")
    return response


class Gone(Exception):
    """The client has closed the connection; nobody waits for a response."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work, which is cancelled if the client closes the connection."""

    async def closed() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, closing = asyncio.ensure_future(work), asyncio.ensure_future(closed())
    try:
        await asyncio.wait({task, closing}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            raise Gone
        return task.result()
    finally:
        closing.cancel()
        task.cancel()


# Around all routes


class Gate:
    """Lets requests in by host, method, size, token, rate and number; adds headers to responses."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        token: str | None,
        origins: tuple[str, ...],
        host_names: tuple[str, ...],
    ) -> None:
        self._app, self._limits, self._origins = app, limits, origins
        self._token = None if token is None else token.encode()
        named = (urlsplit(origin).hostname for origin in origins if "://" in origin)
        self._names = {"localhost", *(name.lower() for name in (*host_names, *named) if name)}
        self._running: Counter[str] = Counter()  # by client
        self._rates = Rates(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket, which is refused
        headers = dict(scope["headers"])
        extra = [*_ALWAYS, *self._cors(headers.get(b"origin"))]
        answered = False

        async def send_with_headers(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)
            answered = message["type"] == "http.response.body" and not message.get("more_body")

        refusal = self._refuse(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        if self._token is not None and self._given_in_query(scope):
            port = (scope.get("server") or ("", 0))[1]
            cookie = (
                f"{_cookie_name(port)}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
            )
            extra.append((b"set-cookie", cookie.encode()))
            if scope["path"] == "/":
                await _without_token(scope)(scope, receive, send_with_headers)
                return
        client = keys.client_of(scope)
        self._running[client] += 1
        try:
            with suppress(Gone):
                await self._app(scope, receive, send_with_headers)
        except Exception:
            if not answered:
                raise  # the server closes the connection, so that nobody takes a part for the whole
            _log.exception("internal error while answering %s", scope["path"])
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]

    def _cors(self, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        if origin is None or not self._origins:
            return []
        allowed = "*" in self._origins
        if not allowed and origin.decode("latin-1") not in self._origins:
            return [(b"vary", b"Origin")]
        found = [
            (b"access-control-allow-origin", b"*" if allowed else origin),
            (b"access-control-expose-headers", _EXPOSED),
        ]
        return found if allowed else [*found, (b"vary", b"Origin")]

    def _refuse(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """Return the response to a request that is not let in, or None."""
        method = scope["method"]
        for name, value in scope["headers"]:
            if name == b"host" and not self._is_named(value.decode("latin-1"), scope):
                return _refusal(
                    f"this server is not called {value.decode('latin-1')[:100]!r}; where that is"
                    " its name, start it with --host-name NAME, or host_names=",
                    421,
                )
        if method == "OPTIONS" and b"access-control-request-method" in headers:
            return self._preflight(headers)
        if method not in ("GET", "HEAD"):
            allow = {"allow": "GET, HEAD"}
            return _refusal("the server is read-only: GET and HEAD are allowed", 405, allow)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > self._limits.url:
            return _refusal("the URL is too long", 414)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self._limits.header:
            return _refusal("the headers are too long", 431)
        if headers.get(b"content-length", b"0").strip(b"0") or b"transfer-encoding" in headers:
            return _refusal("a request must not have a body", 413, {"connection": "close"})
        client = keys.client_of(scope)
        wait = self._rates.seconds_to_wait(client)
        if wait:
            after = {"retry-after": str(max(1, round(wait)))}
            return _refusal("too many requests from this address; wait a moment", 429, after)
        most, own = self._limits.requests, self._running.get(client, 0)
        if self._running.total() >= most or own >= most * self._limits.share:
            return _refusal("the server is busy; try again", 503, {"retry-after": "1"})
        if self._token is not None and not self._is_authorized(scope, headers):
            challenge = {"www-authenticate": "Bearer"}
            message = "a token is needed: ?token=… or the header Authorization: Bearer …"
            return _refusal(message, 401, challenge)
        return None

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

    def _preflight(self, headers: dict[bytes, bytes]) -> Response:
        asked = headers.get(b"access-control-request-headers", b"")
        allowed = {
            "access-control-allow-methods": "GET, HEAD",
            "access-control-allow-headers": asked.decode("latin-1") or "*",
            "access-control-max-age": "600",
        }
        if b"access-control-request-private-network" in headers:
            allowed["access-control-allow-private-network"] = "true"
        return Response(status_code=204, headers=allowed if self._origins else {})

    def _is_authorized(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"bearer" and self._is_token(given.strip()):
            return True
        name = _cookie_name((scope.get("server") or ("", 0))[1]).encode()
        for part in headers.get(b"cookie", b"").split(b";"):
            key, _, value = part.strip().partition(b"=")
            if key == name and self._is_token(value):
                return True
        return self._given_in_query(scope)

    def _given_in_query(self, scope: Scope) -> bool:
        if b"token=" not in scope["query_string"]:
            return False
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=100)
        return any(self._is_token(value.encode()) for name, value in pairs if name == "token")

    def _is_token(self, given: bytes) -> bool:
        return self._token is not None and hmac.compare_digest(given, self._token)


ANY_ADDRESS = ("0.0.0.0", "::")  # of a server that listens at all addresses of the machine
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::\d*)?")


def _cookie_name(port: int | None) -> str:
    """Return the name of the cookie; browsers share cookies between the ports of a host."""
    return f"omnizarr-{port or 0}"


def _without_token(scope: Scope) -> Response:
    """Return a redirection to the page without the token, which shall not stay in the history."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=100)
    rest = urlencode([(name, value) for name, value in pairs if name != "token"])
    return RedirectResponse(f"/?{rest}" if rest else "/", 303)


def _refusal(message: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return json_response({"error": message}, status, headers)


class Rates:
    """The rate of requests of each address: so many a second, twice as many at once."""

    _MOST = 10_000  # addresses

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests, and when

    def seconds_to_wait(self, client: str) -> float:
        """Return 0 for a request that is let in, else the seconds until the next one is."""
        if self._rate is None or client in ("", "127.0.0.1", "::1"):
            return 0.0
        now, most = time.monotonic(), 2 * self._rate
        left, since = self._left.pop(client, (most, now))
        left = min(most, left + (now - since) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._left[client] = (left if wait else left - 1), now
        while len(self._left) > self._MOST:
            self._left.popitem(last=False)
        return wait


def application(
    store: Store,
    *,
    token: str | None = None,
    listing: bool = True,
    origins: tuple[str, ...] = ("*",),
    host_names: tuple[str, ...] = (),
    follow_links: bool = False,
    limits: Limits | None = None,
) -> ASGIApp:
    """Return the ASGI application that serves a store, for any ASGI server.

    `host_names` are names and addresses of the server besides those of this machine.
    """
    limits = limits or Limits()
    served = Served(
        store,
        token=token,
        listing=listing,
        origins=origins,
        follow_links=follow_links,
        limits=limits,
    )
    routes: list[tuple[str, Handler]] = [
        ("/", served.page),
        ("/page/{name}", served.page_file),
        ("/store/{key:path}", served.stored),
        ("/v2/{key:path}", served.viewed),
        ("/v3/{key:path}", served.viewed),
        ("/api/members", served.members),
        ("/api/node", served.node),
        ("/api/values", served.values),
        ("/api/chunks", served.chunks),
    ]
    app = Starlette(
        routes=[Route(path, handler, methods=["GET"]) for path, handler in routes],
        exception_handlers={
            HTTPException: served.error,
            OmnizarrError: served.error,
            Exception: served.internal_error,
        },
    )
    app.router.redirect_slashes = False
    return Gate(app, limits=limits, token=token, origins=origins, host_names=host_names)
