"""A web server and S3 server for measurements: it adds latency, and counts requests and bytes.

It runs in a process of its own, so that it never waits for the interpreter of what is measured.
Values are in memory below ``/bucket/``. ``/measure`` returns the numbers since it was last asked,
``/latency?0.02`` sets the seconds that every response is held back.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_RANGE = re.compile(rb"\r\nrange: bytes=(\d*)-(\d*)", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_NEW = re.compile(rb"\r\nif-none-match: \*", re.IGNORECASE)
_SAME = re.compile(rb"\r\nif-match: (\S+)", re.IGNORECASE)
_tags = itertools.count()
_COMMON = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nDate: Thu, 01 Jan 2026 01:00:00 GMT\r\n"


@dataclass
class Measured:
    """The requests since the last question, and their bytes."""

    requests: int = 0
    connections: int = 0
    at_once: int = 0  # requests that were answered at the same time, at most
    sent: int = 0
    received: int = 0


class Server:
    """The values, the latency and the counters that all connections share."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.tags = {key: _new_tag() for key in values}
        self.latency = 0.0
        self.running = 0
        self.measured = Measured()

    def answer(self, method: str, target: str, head: bytes, body: bytes) -> list[bytes]:
        """Return the response to a request in pieces."""
        parts = urlsplit(target)
        key = unquote(parts.path).removeprefix("/bucket").lstrip("/")
        if method in ("GET", "HEAD") and "list-type" in parts.query:
            return self._list(parse_qs(parts.query, keep_blank_values=True))
        if method in ("GET", "HEAD"):
            return self._get(key, head, method == "HEAD")
        if method == "PUT":
            return self._put(key, head, body)
        if method == "DELETE":
            self.values.pop(key, None)
            return _response("204 No Content")
        return _response("400 Bad Request")

    def _get(self, key: str, head: bytes, head_only: bool) -> list[bytes]:
        value = self.values.get(key)
        if value is None:
            body = b"<Error><Code>NoSuchKey</Code></Error>"
            return _response("404 Not Found", "Content-Type: application/xml\r\n", body, head_only)
        more = f"ETag: {self.tags[key]}\r\nContent-Type: application/octet-stream\r\n{_COMMON}"
        found = _RANGE.search(head)
        if found is None:
            return _response("200 OK", more, value, head_only)
        size = len(value)
        start = int(found[1]) if found[1] else max(0, size - int(found[2]))
        stop = min(size, int(found[2]) + 1) if found[1] and found[2] else size
        if start >= size:
            return _response("416 Range Not Satisfiable", f"Content-Range: bytes */{size}\r\n")
        more += f"Content-Range: bytes {start}-{stop - 1}/{size}\r\n"
        return _response("206 Partial Content", more, value[start:stop], head_only)

    def _put(self, key: str, head: bytes, body: bytes) -> list[bytes]:
        same = _SAME.search(head)
        if (_NEW.search(head) and key in self.values) or (
            same is not None and self.tags.get(key, "").encode() != same[1]
        ):
            return _response("412 Precondition Failed")
        self.values[key], self.tags[key] = body, _new_tag()
        return _response("200 OK", f"ETag: {self.tags[key]}\r\n")

    def _list(self, query: dict[str, list[str]]) -> list[bytes]:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        most = int(query.get("max-keys", ["1000"])[0])
        items: dict[str, str] = {}
        for key in sorted(k for k in self.values if k.startswith(prefix) and k > after):
            inside, slash, _ = key[len(prefix) :].partition(delimiter or "\0")
            name = prefix + inside + slash
            if name <= after:
                continue
            items[name] = (
                f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
                if slash
                else f"<Contents><Key>{escape(key)}</Key><Size>{len(self.values[key])}</Size>"
                f"<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{escape(self.tags[key])}</ETag></Contents>"
            )
            if len(items) > most:
                break
        names = [*items][:most]
        more = len(items) > most
        last = escape(names[-1]) if more else ""
        token = f"<NextContinuationToken>{last}</NextContinuationToken>"
        text = (
            f"<?xml version='1.0'?><ListBucketResult><Name>bucket</Name>"
            f"{''.join(items[name] for name in names)}{token if more else ''}"
            f"<IsTruncated>{str(more).lower()}</IsTruncated></ListBucketResult>"
        )
        return _response("200 OK", "Content-Type: application/xml\r\n", text.encode())


def _new_tag() -> str:
    """Return an ETag of its own for every value: a digest would take longer than all else."""
    return f'"{next(_tags):032x}"'


def _response(
    status: str, more: str = "", body: bytes = b"", head_only: bool = False
) -> list[bytes]:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode()
    return [head] if head_only or not body else [head, body]


class _Connection(asyncio.Protocol):
    """One connection; requests on it are answered one after the other."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._head = b""  # of the request whose body is on its way
        self._pieces: list[bytes] = []
        self._needed = 0  # bytes of it that have not come

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._server.measured.connections += 1

    def data_received(self, data: bytes) -> None:
        if not self._needed:
            whole = b"".join([*self._pieces, data])
            end = whole.find(b"\r\n\r\n")
            if end < 0:
                self._pieces = [whole]
                return
            self._head, data, self._pieces = whole[:end], whole[end + 4 :], []
            length = _LENGTH.search(self._head)
            self._needed = int(length[1]) if length else 0
            if self._needed and not data and b"\r\nexpect: 100-continue" in self._head.lower():
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._pieces.append(data)
        self._needed -= len(data)
        if self._needed:
            return
        head, body, self._pieces = self._head, b"".join(self._pieces), []
        method, target, _ = head[: head.index(b"\r\n")].decode().split(" ")
        self._take(method, target, head, body)

    def _take(self, method: str, target: str, head: bytes, body: bytes) -> None:
        server = self._server
        if target == "/measure":
            text = json.dumps(asdict(server.measured)).encode()
            server.measured = Measured()
            self._transport.write(b"".join(_response("200 OK", body=text)))
        elif target.startswith("/latency?"):
            server.latency = float(target.partition("?")[2])
            self._transport.write(b"".join(_response("200 OK", body=b"ok")))
        else:
            server.running += 1
            found = server.measured
            found.requests += 1
            found.received += len(body)
            found.at_once = max(found.at_once, server.running)
            self._loop.call_later(server.latency, self._send, method, target, head, body)

    def _send(self, method: str, target: str, head: bytes, body: bytes) -> None:
        pieces = self._server.answer(method, target, head, body)
        self._server.running -= 1
        self._server.measured.sent += sum(map(len, pieces))
        self._transport.writelines(pieces)


def _run(values: dict[str, bytes], ready: Any) -> None:
    async def serve() -> None:
        server = Server(values)
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: _Connection(server), "127.0.0.1", 0, backlog=2048
        )
        ready.put(listening.sockets[0].getsockname()[1])
        await listening.serve_forever()

    try:
        import uvloop  # noqa: PLC0415 - optional, and twice as fast
    except ImportError:
        asyncio.run(serve())
    else:
        uvloop.run(serve())


@contextmanager
def running(values: dict[str, bytes]) -> Iterator[str]:
    """Run a server in another process, and yield its address."""
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    process = context.Process(target=_run, args=(values, ready), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ready.get(timeout=60)}"
    finally:
        process.terminate()
        process.join()


def set_latency(url: str, seconds: float) -> None:
    """Hold back every response for so long."""
    with urllib.request.urlopen(f"{url}/latency?{seconds}") as response:
        response.read()


def measured(url: str) -> Measured:
    """Return the numbers since the last call."""
    with urllib.request.urlopen(f"{url}/measure") as response:
        return Measured(**json.loads(response.read()))
