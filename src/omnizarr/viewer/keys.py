"""Stored values over HTTP, whole or in parts.

A value is sent in pieces, all of which are of one value: a file is kept open, other stores are
asked for the generation of every piece. If a value is replaced while it is sent, the connection is
closed, so that no client takes a mixture for a value.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from omnizarr import extension
from omnizarr.bulk.view_as.store import ViewStore
from omnizarr.errors import StoreError
from omnizarr.extension import Store, base
from omnizarr.viewer.access import FairShare, client_of

Run: TypeAlias = Callable[..., Awaitable[Any]]  # calls a function on a thread
Span: TypeAlias = tuple[int, int]  # start and stop in bytes

PIECE = 2**19  # bytes of a value that are in memory at a time
SMALL = 2**17  # bytes of a file that is read when it is opened, which saves a change of threads
AT_ONCE = 64  # values that are opened at a time, some of which are read to know their sizes
FREE = 2**20  # bytes of memory that work may need without asking for them
ATTEMPTS = 3  # to read a value that is replaced meanwhile
_RANGE = re.compile(
    r"\s*bytes\s*=\s*(?=.*[0-9])([0-9]{0,18})[ \t]*-[ \t]*([0-9]{0,18})\s*", re.IGNORECASE
)
_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_DOCUMENTS = frozenset({*extension.Probe("").keys(), extension.consolidated.KEY})


class Replaced(StoreError):
    """A value was replaced while it was read."""


class NeedsMemory(Exception):
    """Making a value needs more memory than was given for it; the argument says how much."""


def requested_key(request: Request, start: str) -> str:
    """Return the key in the path of a request, which begins with `start`.

    The path is decoded once; what is no key then, or is no text, is an error.
    """
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        key = unquote_to_bytes(raw).decode("utf-8", "strict")[len(start) :]
    except UnicodeDecodeError:
        raise HTTPException(400, "the path is not UTF-8") from None
    if any(ord(c) < 32 for c in key):
        raise HTTPException(400, f"{key!r} is not a key: it has control characters")
    if key:
        extension.check_key(key.removesuffix("/"))
    return key


# Values


@dataclass(slots=True)
class HeldValue:
    """A value that is in memory as a whole."""

    data: bytes
    generation: str | None = None
    close: Callable[[], None] = lambda: None  # called when nobody needs it any more

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        """Return part of the value."""
        return self.data[start : start + length]


@dataclass(slots=True)
class CheckedValue:
    """A value that is fetched in parts, which must all have the same generation."""

    store: Any
    key: str
    size: int
    generation: str | None

    def read(self, start: int, length: int) -> bytes:
        """Return part of the value; raise `Replaced` if the value has changed."""
        data: bytes | None
        if self.generation is None:
            data = self.store.get(self.key, extension.Range(start, length))
        else:
            data, generation = self.store.get_versioned(self.key, extension.Range(start, length))
            if generation != self.generation:
                data = None
        if data is None or len(data) != length:
            raise Replaced(f"{self.key!r} was replaced while it was read; try again")
        return data

    def close(self) -> None:
        """Do nothing."""


def open_value(store: Store, key: str, memory: int = FREE) -> base.OpenValue | None:
    """Return a value that can be read in parts, or None if there is no such key.

    Raises `NeedsMemory` if it has to be made, and that needs more than the given memory.
    """
    if isinstance(store, base.OpensValues):
        value = store.open_value(key)
        if value is None or value.size > SMALL:
            return value
        with closing(value):
            return HeldValue(_read(value, 0, value.size), value.generation)
    if isinstance(store, ViewStore) and (needed := store.memory_needed(key)) > memory:
        raise NeedsMemory(needed)
    if not isinstance(store, base.HasSizes) or (
        isinstance(store, ViewStore) and store.makes_value(key)
    ):
        return _hold(store, key)
    size = store.sizes([key]).get(key)
    if size is None:
        return None
    if size <= PIECE:
        return _hold(store, key)
    generation = store.generation(key) if isinstance(store, base.Versioned) else None
    return CheckedValue(store, key, size, generation)


def _hold(store: Store, key: str) -> HeldValue | None:
    pair = store.get_versioned(key) if isinstance(store, base.Versioned) else (store.get(key), None)
    data, generation = pair
    return None if data is None else HeldValue(data, generation)


def _read(value: base.OpenValue, start: int, length: int) -> bytes:
    try:
        data = value.read(start, length)
    except OSError as e:
        if isinstance(e, StoreError):
            raise
        raise StoreError(f"cannot read the value: {e.strerror or e}") from e
    if len(data) != length:
        raise Replaced("the value was cut off while it was read; try again")
    return data


class ServedValues:
    """Answers requests for values of keys; large ones count as memory until they are taken."""

    def __init__(self, memory: FairShare) -> None:
        self._memory = memory
        self._reading = asyncio.Semaphore(AT_ONCE)

    async def respond(self, request: Request, store: Store, key: str, run: Run) -> Response:
        """Return the response to a request for the value of a key."""
        client = client_of(request.scope)
        self._memory.check()
        for attempt in range(ATTEMPTS):
            value = None
            if key and not key.endswith("/") and not extension.is_ours(key):
                value = await self._open(store, key, client, run)
            if value is None:
                break
            try:
                return await _respond(request, value, key, run)
            except Replaced:
                if attempt + 1 == ATTEMPTS:
                    raise
        raise HTTPException(404, f"there is no key {key!r}")

    async def _open(self, store: Store, key: str, client: str, run: Run) -> base.OpenValue | None:
        """Return the open value of a key; the memory that making it needs is waited for."""
        value: base.OpenValue | None
        try:
            async with self._reading:
                self._memory.check()
                value = await run(open_value, store, key)
        except NeedsMemory as e:
            [needed] = e.args
            with await self._memory.take(client, needed):
                value = await run(open_value, store, key, needed)
        if isinstance(value, HeldValue) and value.size > PIECE:
            size = min(value.size, self._memory.most())
            value.close = (await self._memory.take(client, size)).close
        return value


# Responses


class SentResponse(StreamingResponse):
    """A response in parts that calls a function at its end, even after an error."""

    def __init__(self, ended: Callable[[], None], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def _respond(request: Request, value: base.OpenValue, key: str, run: Run) -> Response:
    """Return the response with a value, or with the requested part of it; close the value."""
    tag = None if value.generation is None else entity_tag(value.generation)
    name, size = key.rpartition("/")[2], value.size
    is_json = name in _DOCUMENTS or name.endswith(".json")
    headers = {"accept-ranges": "bytes", "cache-control": "no-cache"}
    if tag is not None:
        headers["etag"] = tag
    status = decided_status(request, tag)
    if status is not None:
        value.close()
        return Response(status_code=status, headers=headers)
    found = requested_span(request, tag, size)
    start, stop = found or (0, size)
    if found is not None:
        part = f"{start}-{stop - 1}" if start < stop else "*"
        headers["content-range"] = f"bytes {part}/{size}"
    if found is not None and start == stop:
        value.close()
        return JSONResponse({"error": f"no such range: the value has {size} bytes"}, 416, headers)
    headers["content-type"] = "application/json" if is_json else "application/octet-stream"
    return await send(request, value, (start, stop), 200 if found is None else 206, headers, run)


async def send(
    request: Request,
    value: base.OpenValue,
    span: Span,
    status: int,
    headers: dict[str, str],
    run: Run,
) -> Response:
    """Return the response with a span of a value, which is closed when that has been sent.

    A client has some time for each piece of a large one, so that slow clients get all of it.
    """
    start, stop = span
    headers = {**headers, "content-length": str(stop - start)}
    run = _at_once if isinstance(value, HeldValue) else run
    if stop - start > PIECE and request.method == "GET":
        return SentResponse(value.close, _pieces(value, span, run), status, headers)
    with closing(value):
        body = b"" if request.method == "HEAD" else await run(_read, value, start, stop - start)
        return Response(body, status, headers)


async def _at_once(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


async def _pieces(value: base.OpenValue, span: Span, run: Run) -> AsyncIterator[bytes]:
    for place in range(*span, PIECE):
        yield await run(_read, value, place, min(PIECE, span[1] - place))


# Entity tags, conditional requests and byte ranges (RFC 9110)


def entity_tag(*parts: str | bytes) -> str:
    """Return the entity tag for these parts; a weak generation among them makes it weak."""
    weak = any(isinstance(part, str) and part.startswith("W/") for part in parts)
    encoded = (p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p for p in parts)
    digest = extension.value_digest(b"\0".join(encoded))
    return f'W/"{digest}"' if weak else f'"{digest}"'


def decided_status(request: Request, tag: str | None) -> int | None:
    """Return 412 or 304 if a condition of a request says so, else None."""
    wanted, unwanted = _header(request, "if-match"), _header(request, "if-none-match")
    if wanted is not None and not _matches(wanted, tag, strong=True):
        return 412
    return 304 if unwanted is not None and _matches(unwanted, tag) else None


def requested_span(request: Request, tag: str | None, size: int) -> Span | None:
    """Return the span of a value that a request asks for; None for all of it."""
    header, condition = _header(request, "range"), request.headers.get("if-range")
    if header is None or request.method != "GET":
        return None
    if condition is not None and (_is_weak(tag) or condition.strip() != tag):
        return None  # dates never match, as none are sent
    return parse_range(header, size)


def parse_range(header: str, size: int) -> Span | None:
    """Return the span of a Range header, an empty one if it is outside of the value.

    None if all is wanted or the header is to be ignored: several ranges are answered by all.
    """
    match = _RANGE.fullmatch(header)
    if match is None:
        return None
    first, last = match.groups()
    if not first:  # the last bytes; all of nothing cannot be expressed by Content-Range
        return (max(0, size - int(last)), size) if size or not int(last) else None
    start, stop = int(first), min(int(last) + 1, size) if last else size
    return None if last and int(last) < start else (start, max(start, stop))


def _matches(header: str, tag: str | None, *, strong: bool = False) -> bool:
    """Return True if a header of entity tags, or an asterisk, matches a tag."""
    if header.strip() == "*":
        return True
    if tag is None or (strong and _is_weak(tag)):
        return False
    start = "" if strong else "W/"
    return any(m[0].removeprefix(start) == tag.removeprefix(start) for m in _TAG.finditer(header))


def _is_weak(tag: str | None) -> bool:
    return tag is None or tag.startswith("W/")


def _header(request: Request, name: str) -> str | None:
    """Return a list header as one text, joined if it was sent in several parts."""
    return ", ".join(request.headers.getlist(name)) or None
