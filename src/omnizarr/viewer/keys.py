"""Stored values over HTTP: ranges, entity tags, conditional requests (RFC 9110), and listings.

A value is sent in pieces, all of which are of one value: a file is kept open, other stores are
asked for the generation of every piece. The entity tag is a digest of the generation. If a value is
replaced while it is sent, the connection is closed, so that no client takes a mixture for a value.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from omnizarr.bulk.view_as.store import ViewStore
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.extension import (
    HasSizes,
    OpensValues,
    OpenValue,
    Probe,
    Range,
    Store,
    Versioned,
    can_list,
    consolidated,
    is_key,
    is_ours,
    list_dir,
)

T = TypeVar("T")
Run: TypeAlias = Callable[..., Awaitable[Any]]  # calls a function on a thread
Span: TypeAlias = tuple[int, int]  # start and stop in bytes

PIECE = 2**19  # bytes of a value that are in memory at a time
SMALL = 2**17  # bytes of a file that is read when it is opened, which saves a change of threads
WHOLE = 2**26  # bytes of a value that is read at once if it is replaced again and again
AT_ONCE = 64  # values of unknown sizes that are read at a time
FREE = 2**20  # bytes of memory that work may need without asking for them
ATTEMPTS = 3  # to read a value that is replaced meanwhile
MAX_RANGES = 64  # in one request
MAX_LISTED = 10_000  # names in one listing

_DOCUMENTS = frozenset({*Probe("").keys(), consolidated.KEY})
_SPEC = re.compile(r"(\d*)[ \t]*-[ \t]*(\d*)")
_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')


class Replaced(StoreError):
    """A value was replaced while it was read."""


class NeedsMemory(Exception):
    """Making a value needs more memory than was given for it; the argument says how much."""


# Keys


def requested_key(request: Request, start: str) -> str:
    """Return the key in the path of a request, which begins with `start`.

    The path is decoded once; what is no key then, or is no text, is an error.
    """
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        key = unquote_to_bytes(raw).decode("utf-8", "strict")[len(start) :]
    except UnicodeDecodeError:
        raise HTTPException(400, "the path is not UTF-8") from None
    prefix = key[:-1] if key.endswith("/") else key
    if prefix and (not is_key(prefix) or any(ord(c) < 32 for c in prefix)):
        raise HTTPException(400, f"{key!r} is not a key: it is empty or has '.' or '..'")
    return key


def is_hidden(key: str) -> bool:
    """Return True for keys of unfinished work and locks, which are no values."""
    return is_ours(key)


def media_type(key: str) -> str:
    """Return the content type of a value."""
    name = key.rpartition("/")[2]
    known = name in _DOCUMENTS or name.endswith(".json")
    return "application/json" if known else "application/octet-stream"


# Values


@dataclass(slots=True)
class HeldValue:
    """A value that is in memory as a whole."""

    data: bytes
    generation: str | None = None
    release: Callable[[], None] | None = None  # called when nobody needs it any more

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        """Return part of the value."""
        return self.data[start : start + length]

    def close(self) -> None:
        """Say that the value is not needed any more."""
        if self.release is not None:
            self.release()
            self.release = None


@dataclass(slots=True)
class CheckedValue:
    """A value whose parts are fetched, each compared with the generation of the first."""

    store: Any
    key: str
    size: int
    generation: str | None

    def read(self, start: int, length: int) -> bytes:
        """Return part of the value; raise `Replaced` if it is of another."""
        data: bytes | None
        if self.generation is None:
            data = self.store.get(self.key, Range(start, length))
        else:
            data, generation = self.store.get_versioned(self.key, Range(start, length))
            if generation != self.generation:
                data = None
        if data is None or len(data) != length:
            raise Replaced(f"{self.key!r} was replaced while it was read; try again")
        return data

    def close(self) -> None:
        """Do nothing."""


def open_value(store: Store, key: str, attempt: int = 0, memory: int = FREE) -> OpenValue | None:
    """Return a value that can be read in parts, or None if there is no such key.

    Raises `NeedsMemory` if it has to be made, and that needs more than the given memory.
    """
    if isinstance(store, OpensValues):
        value = store.open_value(key)
        return value if value is None or value.size > SMALL else _take(value)
    if isinstance(store, ViewStore) and (needed := store.memory_needed(key)) > memory:
        raise NeedsMemory(needed)
    if not isinstance(store, HasSizes) or (isinstance(store, ViewStore) and store.makes_value(key)):
        return _hold(store, key)
    size = store.sizes([key]).get(key)
    if size is None:
        return None
    if size <= PIECE or (attempt and size <= WHOLE):
        return _hold(store, key)
    generation = store.generation(key) if isinstance(store, Versioned) else None
    return CheckedValue(store, key, size, generation)


def has_sizes(store: Store) -> bool:
    """Return False for a store that has to read a value to know its size."""
    while isinstance(store, ViewStore):
        store = store.inner
    return isinstance(store, (OpensValues, HasSizes))


def _generation(store: Store, key: str) -> str | None:
    return store.generation(key) if isinstance(store, Versioned) else None


def _take(value: OpenValue) -> HeldValue:
    """Return an open value as one in memory, and close it."""
    try:
        return HeldValue(_read(value, 0, value.size), value.generation)
    finally:
        value.close()


def _hold(store: Store, key: str) -> HeldValue | None:
    if isinstance(store, Versioned):
        data, generation = store.get_versioned(key)
    else:
        data, generation = store.get(key), None
    return None if data is None else HeldValue(data, generation)


def entity_tag(generation: str | None) -> str | None:
    """Return the ETag of a generation; a weak generation makes a weak tag."""
    if generation is None:
        return None
    weak = "W/" if generation.startswith("W/") else ""
    return f'{weak}"{blake2b(generation.encode(), digest_size=12).hexdigest()}"'


# Ranges and conditions


def parse_ranges(header: str | None, size: int) -> list[Span] | None:
    """Return the spans of a Range header; None if all is wanted or the header is to be ignored.

    Spans that overlap or touch are joined. The list is empty if no range can be satisfied, or if
    there are too many.
    """
    unit, equals, specs = (header or "").partition("=")
    if not equals or unit.strip().lower() != "bytes":
        return None
    spans: list[Span] = []
    given = [spec.strip() for spec in specs.split(",")]
    given = [spec for spec in given if spec]  # a list may have empty elements
    for spec in given:
        match = _SPEC.fullmatch(spec)
        if match is None or not (match[1] or match[2]) or max(map(len, match.groups())) > 18:
            return None
        first, last = match.groups()
        if not first:
            start, stop = max(0, size - int(last)), size
            if int(last) and not size:
                return None  # all of nothing, which Content-Range cannot express
        else:
            start, stop = int(first), min(int(last) + 1, size) if last else size
            if last and int(last) < int(first):
                return None
        if start < stop:
            spans.append((start, stop))
    if not given:
        return None
    return [] if len(given) > MAX_RANGES else _joined(spans)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Return spans in their order, joined where they overlap or touch."""
    out: list[Span] = []
    for span in spans:
        start, stop = span
        rest: list[Span] = []
        place = None
        for other in out:
            if other[0] <= stop and start <= other[1]:
                start, stop = min(start, other[0]), max(stop, other[1])
                place = len(rest) if place is None else place
            else:
                rest.append(other)
        rest.insert(len(rest) if place is None else place, (start, stop))
        out = rest
    return out


def _matches(header: str, tag: str | None, *, strong: bool = False) -> bool:
    """Return True if a header of entity tags, or an asterisk, matches a tag."""
    if header.strip() == "*":
        return True
    if tag is None or (strong and tag.startswith("W/")):
        return False
    if strong:
        return any(m[0] == tag for m in _TAG.finditer(header))
    opaque = tag.removeprefix("W/")
    return any(m[0].removeprefix("W/") == opaque for m in _TAG.finditer(header))


def _header(request: Request, name: str) -> str | None:
    """Return a header; several of one name are joined, as those are that are lists."""
    found = request.headers.getlist(name)
    return ", ".join(found) if found else None


def evaluate(request: Request, tag: str | None) -> int | None:
    """Return 412 or 304 if a condition of a request says so, else None."""
    wanted = _header(request, "if-match")
    if wanted is not None and not _matches(wanted, tag, strong=True):
        return 412
    unwanted = _header(request, "if-none-match")
    if unwanted is not None and _matches(unwanted, tag):
        return 304
    return None


def applicable_ranges(request: Request, tag: str | None, size: int) -> list[Span] | None:
    """Return the spans that are to be sent; None for all of the value."""
    if request.method != "GET":
        return None
    header = _header(request, "range")
    condition = request.headers.get("if-range")
    if header is None or (condition is not None and not _is_current(condition, tag)):
        return None
    return parse_ranges(header, size)


def _is_current(condition: str, tag: str | None) -> bool:
    """Return True if an If-Range header is the strong tag; dates never match, as none are sent."""
    return tag is not None and not tag.startswith("W/") and condition.strip() == tag


# Responses


class SentResponse(StreamingResponse):
    """Parts of a value; a function is called at the end, however that comes."""

    def __init__(self, ended: Callable[[], None], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def respond(request: Request, store: Store, key: str, run: Run, held: HeldBytes) -> Response:
    """Return the response to a request for the value of a key.

    `held` bounds the large values that are in memory until their clients have taken them.
    """
    client = client_of(request.scope)
    held.check()
    if not key or key.endswith("/") or is_hidden(key):
        raise HTTPException(404, f"there is no key {key!r}")
    for attempt in range(ATTEMPTS):
        if has_sizes(store):
            value = await _open(store, key, attempt, client, run, held)
        else:
            value = await held.read(store, key, client, run)
        if value is None:
            raise HTTPException(404, f"there is no key {key!r}")
        try:
            response = await _respond_with(request, value, key, run)
        except Replaced:
            value.close()
            if attempt + 1 == ATTEMPTS:
                raise
            continue
        except BaseException:
            value.close()
            raise
        if not isinstance(response, SentResponse):
            value.close()
        return response
    raise AssertionError("unreachable")


async def _open(
    store: Store, key: str, attempt: int, client: str, run: Run, held: HeldBytes
) -> OpenValue | None:
    """Return the open value of a key; the memory that making it needs is waited for."""
    try:
        value: OpenValue | None = await run(open_value, store, key, attempt)
    except NeedsMemory as e:
        [needed] = e.args
        with await held.take(client, needed):
            value = await run(open_value, store, key, attempt, needed)
    return held.hold(value, client) if isinstance(value, HeldValue) else value


async def _respond_with(request: Request, value: OpenValue, key: str, run: Run) -> Response:
    tag = entity_tag(value.generation)
    headers = {"accept-ranges": "bytes", "cache-control": "no-cache"}
    if tag is not None:
        headers["etag"] = tag
    status = evaluate(request, tag)
    if status is not None:
        return Response(status_code=status, headers=headers)
    kind = media_type(key)
    spans = applicable_ranges(request, tag, value.size)
    if spans is None:
        whole = [(0, value.size)]
        return await _send(request, value, whole, [b""], b"", 200, headers, kind, run)
    if not spans:
        headers["content-range"] = f"bytes */{value.size}"
        message = {"error": f"no such range: the value has {value.size} bytes"}
        return JSONResponse(message, 416, headers)
    if len(spans) == 1:
        start, stop = spans[0]
        headers["content-range"] = f"bytes {start}-{stop - 1}/{value.size}"
        return await _send(request, value, spans, [b""], b"", 206, headers, kind, run)
    boundary = os.urandom(12).hex()
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {kind}\r\n"
        f"Content-Range: bytes {start}-{stop - 1}/{value.size}\r\n\r\n".encode()
        for start, stop in spans
    ]
    end = f"\r\n--{boundary}--\r\n".encode()
    kind = f"multipart/byteranges; boundary={boundary}"
    return await _send(request, value, spans, heads, end, 206, headers, kind, run)


async def _send(
    request: Request,
    value: OpenValue,
    spans: list[Span],
    heads: list[bytes],
    end: bytes,
    status: int,
    headers: dict[str, str],
    kind: str,
    run: Run,
) -> Response:
    """Return the response with spans of a value, each after its head, and the end after all."""
    nbytes = sum(stop - start for start, stop in spans)
    length = nbytes + sum(map(len, heads)) + len(end)
    headers = {**headers, "content-length": str(length), "content-type": kind}
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    if length <= PIECE and isinstance(value, HeldValue):
        return Response(_read_all(value, spans, heads, end), status, headers)
    if length <= PIECE:
        body = await run(_read_all, value, spans, heads, end)
        return Response(body, status, headers)
    return SentResponse(value.close, _pieces(value, spans, heads, end, run), status, headers)


def _read(value: OpenValue, start: int, length: int) -> bytes:
    try:
        data = value.read(start, length)
    except OSError as e:
        if isinstance(e, StoreError):
            raise
        raise StoreError(f"cannot read the value: {e.strerror or e}") from e
    if len(data) != length:
        raise Replaced("the value was cut off while it was read; try again")
    return data


def _read_all(value: OpenValue, spans: list[Span], heads: list[bytes], end: bytes) -> bytes:
    pairs = zip(heads, spans, strict=True)
    parts = [head + _read(value, start, stop - start) for head, (start, stop) in pairs]
    return b"".join([*parts, end])


async def _pieces(
    value: OpenValue, spans: list[Span], heads: list[bytes], end: bytes, run: Run
) -> AsyncIterator[bytes]:
    for head, (start, stop) in zip(heads, spans, strict=True):
        if head:
            yield head
        for place in range(start, stop, PIECE):
            yield await run(_read, value, place, min(PIECE, stop - place))
    if end:
        yield end


# Limits


def client_of(scope: Scope) -> str:
    """Return the address of the client of a request."""
    return str((scope.get("client") or ("", 0))[0])


def busy() -> HTTPException:
    """Return the error of a request for which there is no room now."""
    return HTTPException(503, "the server is busy; try again", {"retry-after": "1"})


class Taken:
    """A part of what clients share, until it is closed or the block ends."""

    def __init__(self, owner: Shared, client: str, amount: int) -> None:
        self._owner, self._client, self._amount = owner, client, amount
        self._since = time.monotonic()

    def keep(self, amount: int) -> None:
        """Give back all but this amount."""
        if amount < self._amount:
            seconds = time.monotonic() - self._since
            self._owner.give_back(self._client, self._amount - amount, seconds)
            self._amount = amount

    def close(self) -> None:
        """Give back everything."""
        self.keep(0)

    def __enter__(self) -> Taken:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Shared:
    """Something of which there is so much for all clients, each of which waits in its own line.

    Who has had least of it lately, measured by amount and time, comes first: a small request does
    not wait for large ones of others. One client has at most a share of it, unless it has nothing
    yet. Who waits too long is told to try again.
    """

    _LATELY = 10.0  # seconds in which half of what a client has had is forgotten
    _MOST = 10_000  # clients that are remembered

    def __init__(self, most: Callable[[], int], share: float, seconds: float) -> None:
        self.most, self._share, self._seconds = most, share, seconds
        self.used: Counter[str] = Counter()  # by client
        self._lines: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._had: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how much, and when

    @property
    def total(self) -> int:
        """The amount that all clients have now."""
        return self.used.total()

    async def take(self, client: str, amount: int) -> Taken:
        """Return so much, as soon as it is there and it is this client's turn."""
        if client in self._lines or not self._fits(client, amount):
            await self._wait(client, amount)
        else:
            self.used[client] += amount
        return Taken(self, client, amount)

    def take_now(self, client: str, amount: int) -> Taken:
        """Return so much, even if it is more than there is, unless nothing is left."""
        if self.total >= self.most():
            raise busy()
        self.used[client] += amount
        return Taken(self, client, amount)

    def give_back(self, client: str, amount: int, seconds: float = 0.0) -> None:
        """Take back what a client had for some seconds."""
        self._had[client] = self._lately(client) + amount * seconds, time.monotonic()
        self._had.move_to_end(client)
        while len(self._had) > self._MOST:
            self._had.popitem(last=False)
        self.used[client] -= amount
        if not self.used[client]:
            del self.used[client]
        self._serve()

    def _lately(self, client: str) -> float:
        """Return how much a client has had lately."""
        had, when = self._had.get(client, (0.0, 0.0))
        return had * 0.5 ** ((time.monotonic() - when) / self._LATELY) if had else 0.0

    def _fits(self, client: str, amount: int) -> bool:
        own, most = self.used.get(client, 0), self.most()
        return self.total + amount <= most and (not own or own + amount <= most * self._share)

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
                raise busy() from None
            raise

    def _serve(self) -> None:
        """Let those begin who are first in a line and for whom there is enough."""
        lately = {client: self._lately(client) for client in self._lines}
        for client in sorted(lately, key=lately.__getitem__):
            line = self._lines[client]
            while line and (line[0][1].done() or self._fits(client, line[0][0])):
                amount, future = line.popleft()
                if not future.done():  # else it was cancelled
                    self.used[client] += amount
                    future.set_result(None)
            if not line:
                del self._lines[client]


class HeldBytes(Shared):
    """The memory for making answers, and for those that clients have not taken yet."""

    def __init__(self, most: int, share: float, seconds: float) -> None:
        super().__init__(lambda: most, share, seconds)
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._last: tuple[Store, str, HeldValue] | None = None

    async def take(self, client: str, amount: int) -> Taken:
        """Return so many bytes; raise if there are never so many."""
        if amount > self.most():
            raise HTTPException(
                413,
                f"the answer needs {amount} bytes of memory, more than the {self.most()} that the"
                " server has for answers; start it with more: --memory, or Limits(memory=…)",
            )
        return await super().take(client, amount)

    def hold(self, value: HeldValue, client: str) -> HeldValue:
        """Count a large value until it is closed, and return it."""
        if value.size > PIECE:
            value.release = self.take_now(client, value.size).close
        return value

    async def read(self, store: Store, key: str, client: str, run: Run) -> HeldValue | None:
        """Return a value whose size is only known when it has been read.

        The last large one is kept for clients that read it part by part, as long as the store says
        that it is the same; where the store cannot say that, it is read again.
        """
        async with self._reading:
            self.check()
            last = self._last
            if last is not None and last[0] is store and last[1] == key:
                kept = last[2]
                if await run(_generation, store, key) == kept.generation:
                    return self.hold(HeldValue(kept.data, kept.generation), client)
                self._forget()
            value: HeldValue | None = await run(_hold, store, key)
            if value is None:
                return None
            if value.generation is not None and PIECE < value.size <= self.most() // 4:
                self._forget()
                kept = self.hold(HeldValue(value.data, value.generation), "")
                self._last = store, key, kept
            return self.hold(value, client)

    def _forget(self) -> None:
        if self._last is not None:
            self._last[2].close()
            self._last = None

    def check(self) -> None:
        """Raise if there is no room for another answer."""
        if self.total >= self.most():
            raise busy()

    def response(self, body: bytes, headers: dict[str, str], taken: Taken) -> Response:
        """Return the response with a body, whose memory is given back when it has been sent.

        A client has some time for each piece, so that slow ones get all of it.
        """
        if len(body) <= PIECE:
            taken.close()
            return Response(body, headers=headers)

        async def pieces() -> AsyncIterator[bytes]:
            for place in range(0, len(body), PIECE):
                yield body[place : place + PIECE]

        headers = {**headers, "content-length": str(len(body))}
        taken.keep(len(body))
        return SentResponse(taken.close, pieces(), headers=headers)


# Listings


def listing(store: Store, prefix: str) -> dict[str, Any]:
    """Return the names of keys and prefixes one level below a prefix."""
    if not can_list(store):
        raise HTTPException(501, "this store cannot list its keys")
    try:
        keys, prefixes = list_dir(store, prefix)
    except InvalidArgument as e:
        raise HTTPException(400, str(e)) from e
    start = len(prefix)
    shown = [k[start:] for k in keys if not is_hidden(k[start:])]
    below = [p[start:] for p in prefixes if not is_hidden(p[start:])]
    found: dict[str, Any] = {
        "prefix": prefix,
        "keys": shown[:MAX_LISTED],
        "prefixes": below[:MAX_LISTED],
    }
    if max(len(shown), len(below)) > MAX_LISTED:
        found["truncated"] = True
    return found
