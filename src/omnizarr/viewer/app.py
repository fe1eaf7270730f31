"""The application: routes and their handlers, and errors as JSON.

Work is done on threads, never on the event loop: stored values by threads for input and output,
what decodes by `omnizarr.aio`. A client that goes away takes its waiting work with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import cached_property, partial
from importlib.resources import files
from typing import Any, TypeVar, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from omnizarr import aio, config, errors
from omnizarr.extension import LeadsOutside, Store, ThreadPool, can_list, traits
from omnizarr.viewer import access, keys
from omnizarr.viewer.describe import caused_by, chunk_map, find_array, public_message
from omnizarr.viewer.folder import Folder, Located
from omnizarr.viewer.values import TEXT, EncodedValues, Parts, TooLarge, Wanted, read_values

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
_files = ThreadPool(config.MAX_THREADS, "omnizarr-serve")  # for stores that answer at once
_requests = ThreadPool(None, "omnizarr-serve-requests")  # for stores on servers
MAX_MEMBERS = 5000  # in one answer
LISTS = (b"x-omnizarr", b"list")  # tells that keys are listed; see `omnizarr.stores.http`
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'; frame-ancestors "
)
_EXPOSED = ("accept-ranges", "content-range", "etag", "x-shape", "x-dtype", "x-missing")
_PAGE_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
_STATUSES: tuple[tuple[Any, int], ...] = (  # the first that an error is one of
    (TooLarge, 413),
    (errors.NodeNotFound, 404),
    ((errors.WrongNode, errors.SelectionError, errors.InvalidArgument), 400),
    (errors.StoreError, 503),
)


class Served:
    """A store that is served, and the handlers of its routes."""

    def __init__(self, store: Store, options: access.ServerOptions) -> None:
        limits, origins = options.limits, options.origins
        self._memory = access.FairShare(lambda: limits.memory, limits.share, limits.wait_seconds)
        self._running = access.FairShare(self._at_once, 1.0, limits.wait_seconds)
        self._stored = keys.ServedValues(self._memory)
        # Notebooks have another origin; who may read the values may also show the page.
        around = ("*", "vscode-webview:") if "*" in origins else ("'self'", *origins)
        self._policy = _POLICY + " ".join(around)
        self.folder = Folder(store, follow_links=options.follow_links)
        self.store = self.folder.store
        self.numbers = access.Metrics()

    # Threads

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Return the result of a function that reads from the store, called on a thread."""
        pool = _files if traits(self.store).low_latency else _requests
        return await asyncio.wrap_future(pool.submit(function, *args))

    def _at_once(self) -> int:
        settings = config.get()
        return settings.threads if traits(self.store).low_latency else settings.requests

    async def decode(self, client: str, function: Callable[..., T], *args: Any) -> T:
        """Return the result of a function that decodes, called on a thread of the budget.

        Clients take turns, so that one with many requests does not hold up others.
        """
        with await self._running.take(client, 1):
            if traits(self.store).low_latency:
                return await aio.run(function, *args)
            return await asyncio.wrap_future(_requests.submit(function, *args))

    async def decode_parts(self, client: str, parts: Parts[T]) -> tuple[T, access.Portion]:
        """Return the result of work in parts, and the memory for it.

        Others have their turn between two parts, and a client that has left gets no further one.
        """

        def advance() -> tuple[int, T | None]:
            try:
                return next(parts), None
            except StopIteration as e:
                return -1, e.value

        needed, result = await self.decode(client, advance)
        portion = await self._memory.take(client, max(0, needed))
        try:
            while needed >= 0:
                needed, result = await self.decode(client, advance)
        except BaseException:
            portion.close()
            raise
        return cast("T", result), portion

    # Stored keys

    async def stored(self, request: Request) -> Response:
        """Answer with the value of a key."""
        key = keys.requested_key(request, "/store/")
        if can_list(self.store):
            request.scope[access.MORE_HEADERS].append(LISTS)
            if "list" in request.query_params:
                after = request.query_params.get("after", "")
                work = self.decode(
                    access.client_of(request.scope), self.folder.listing, key, after, MAX_MEMBERS
                )
                return access.json_response(await while_connected(request, work))
        found = await self._locate(key)
        if found is None:  # a folder of hierarchies, which has no values of its own
            raise HTTPException(404, f"there is no key {key!r} in a hierarchy")
        hierarchy, inside = found
        if key == hierarchy.path:  # the file of an archive
            return await self._answer(request, self.store, key, self.read)
        return await self._answer(request, hierarchy.store, inside, self.read)

    async def viewed(self, request: Request) -> Response:
        """Answer with the value of a key of the view in another format."""
        start = request.scope["path"][: len("/v2/")]
        found = await self._locate(keys.requested_key(request, start))
        if found is None:
            raise HTTPException(404, "there is no hierarchy at this path")
        hierarchy, inside = found
        run = partial(self.decode, access.client_of(request.scope))
        view = await run(hierarchy.view, int(start[2]))
        return await self._answer(request, view, inside, run)

    async def _locate(self, key: str) -> Located | None:
        if self.folder.whole is not None:  # which needs no change of threads
            return self.folder.whole, key
        return await self.read(self.folder.locate, key)

    async def _answer(self, request: Request, store: Store, key: str, run: keys.Run) -> Response:
        answer = self._stored.respond(request, store, key, run)
        return await (answer if traits(store).low_latency else while_connected(request, answer))

    # The interface of the page

    async def members(self, request: Request) -> Response:
        """Answer with the members of a group."""
        offset = _count_in_query(request, "offset", 0)
        limit = min(max(1, _count_in_query(request, "limit", 500)), MAX_MEMBERS)
        return await self._json(request, self.folder.members, offset, limit)

    async def node(self, request: Request) -> Response:
        """Answer with all facts about a node."""
        return await self._json(request, self.folder.describe)

    async def chunks(self, request: Request) -> Response:
        """Answer with a map of the stored chunks of an array."""
        if not can_list(self.store):
            raise HTTPException(501, "this store cannot list its keys")
        return await self._json(request, lambda path: chunk_map(*self.folder.node(path)))

    async def _json(self, request: Request, function: Callable[..., Any], *args: Any) -> Response:
        """Answer with what a function returns for the path of a request."""
        path = request.query_params.get("path", "")
        work = self.decode(access.client_of(request.scope), function, path, *args)
        return access.json_response(await while_connected(request, work))

    async def values(self, request: Request) -> Response:
        """Answer with decoded values."""
        query = request.query_params
        wanted = Wanted(
            query.get("select", ""),
            exact=query.get("exact", "") in ("1", "true"),
            decode=query.get("decode", ""),
            extremes=query.get("extremes", "") in ("1", "true"),
        )
        self._memory.check()

        def parts() -> Parts[EncodedValues]:
            array = find_array(*self.folder.node(query.get("path", "")))
            return (yield from read_values(array, wanted))

        work = self.decode_parts(access.client_of(request.scope), parts())
        found, portion = await while_connected(request, work)
        headers = {
            "cache-control": "no-cache",
            "x-shape": ",".join(map(str, found.shape)),
            "x-dtype": found.dtype,
            "content-type": f"application/{'json' if found.dtype == TEXT else 'octet-stream'}",
            **({"x-missing": "1"} if found.missing else {}),
        }
        size = len(found.body)
        portion.keep(size)
        value = keys.HeldValue(found.body, close=portion.close)
        return await keys.send(request, value, (0, size), 200, headers, self.read)

    # Operations

    async def health(self, request: Request) -> Response:
        """Answer that the server runs."""
        return access.json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """Answer with numbers about requests."""
        return Response(self.numbers.text(), media_type="text/plain; version=0.0.4")

    # The page

    async def page(self, request: Request) -> Response:
        """Answer with a file of the page."""
        name = request.path_params.get("name", "index.html")
        if name not in self._page_files:
            raise HTTPException(404, f"the page has no file {name!r}")
        body, tag = self._page_files[name]
        headers = {"etag": tag, "cache-control": "no-cache"}
        headers["content-security-policy"] = self._policy
        if keys.decided_status(request, tag) == 304:
            return Response(status_code=304, headers=headers)
        kind = _PAGE_TYPES.get(name.rpartition(".")[2], "image/svg+xml")
        return Response(body, headers=headers, media_type=kind)

    @cached_property
    def _page_files(self) -> dict[str, tuple[bytes, str]]:
        folder = files("omnizarr.viewer") / "page"
        found = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        return {name: (body, keys.entity_tag(body)) for name, body in found.items()}

    # Errors

    async def error(self, request: Request, error: Exception) -> Response:
        """Answer with an error as JSON, without the place of the store."""
        if isinstance(error, HTTPException):
            return access.json_response({"error": error.detail}, error.status_code, error.headers)
        if not isinstance(error, errors.OmnizarrError):  # what it was is in the server's log only
            return access.json_response({"error": "internal error"}, 500)
        facts: dict[str, Any] = {"error": public_message(error, self.store)}
        if isinstance(error, errors.ChunkError):
            facts |= {"chunk": list(error.chunk), "key": error.key}
        return access.json_response(facts, status_of(error))


def status_of(error: errors.OmnizarrError) -> int:
    """Return the status code for an error."""
    if caused_by(error, LeadsOutside):
        return 403
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 422)


def _count_in_query(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise HTTPException(400, f"{name}: expected a number of at least 0, got {text[:40]!r}")
    return int(text)


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
            raise access.ClientGone
        return task.result()
    finally:
        closing.cancel()
        task.cancel()


def application(store: Store, options: access.ServerOptions | None = None) -> ASGIApp:
    """Return the ASGI application that serves a store, for any ASGI server."""
    options = options or access.ServerOptions()
    served = Served(store, options)
    routes: list[tuple[str, Handler]] = [
        ("/", served.page),
        ("/page/{name}", served.page),
        ("/store/{key:path}", served.stored),
        ("/v2/{key:path}", served.viewed),
        ("/v3/{key:path}", served.viewed),
        ("/api/members", served.members),
        ("/api/node", served.node),
        ("/api/values", served.values),
        ("/api/chunks", served.chunks),
        ("/health", served.health),
        ("/metrics", served.metrics),
    ]
    app = Starlette(
        routes=[Route(path, handler, methods=["GET"]) for path, handler in routes],
        exception_handlers=dict.fromkeys(
            (HTTPException, errors.OmnizarrError, Exception), served.error
        ),
    )
    app.router.redirect_slashes = False
    methods, gate = ("GET", "HEAD"), access.RequestGate(app, options)
    return served.numbers.measure(
        CORSMiddleware(gate, options.origins, methods, "*", expose_headers=_EXPOSED)
    )
