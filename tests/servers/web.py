"""A web server on a thread that serves a dictionary, counts requests, and can fail."""

from __future__ import annotations

import hashlib
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

PAGE = b"<!DOCTYPE html><html><body><form>Please log in</form></body></html>"
CLOSED = 0  # the status of an answer that is never sent: the connection is closed
FAULTS = ("403", "404", "429", "500", "reset", "short", "wrong range", "slow", "page")


@dataclass
class Answer:
    """The response of a server."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Web:
    """Values by key, served from the root of a loopback address.

    `fault` is one of `FAULTS` or None; it holds for the next `times` requests, or for all. `ranges`
    False: every answer is the whole value. `tags` False: no answer tells which value it is of.
    """

    def __init__(self, values: dict[str, bytes] | None = None, port: int = 0) -> None:
        self.values = {} if values is None else values
        self.ranges = True
        self.tags = True
        self.content_type: str | None = "application/octet-stream"
        self.extra_headers: dict[str, str] = {}
        self.fault: str | None = None
        self.times: int | None = None
        self.latency = 0.0
        self.slowness = 30.0
        self.redirects: dict[str, str] = {}
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self), False)
        self._server.daemon_threads = True
        self._server.request_queue_size = 256
        self._server.server_bind()
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._server.server_address[1]

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.address)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def break_down(self, fault: str | None, times: int | None = None) -> None:
        """Fail from now on, or for some requests."""
        with self._lock:
            self.fault, self.times = fault, times

    def next_fault(self) -> str | None:
        with self._lock:
            if self.fault is None or self.times == 0:
                return None
            if self.times is not None:
                self.times -= 1
            return self.fault

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.log]

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Return the answer without any fault; subclasses may serve something else."""
        key = unquote(urlsplit(path).path)[1:]
        if key in self.redirects:
            return Answer(302, headers={"Location": self.redirects[key]})
        if key not in self.values:
            return Answer(404, b"not found")
        value = self.values[key]
        tag = {"ETag": f'"{hashlib.md5(value).hexdigest()}"'} if self.tags else {}
        more = {**tag, **self.extra_headers}
        if self.content_type:
            more["Content-Type"] = self.content_type
        if self.ranges and "range" in headers:
            return cut(value, headers["range"], more)
        return Answer(200, value, more)


def cut(value: bytes, wanted: str, headers: dict[str, str]) -> Answer:
    """Return the answer to a range request."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)
    assert found is not None, wanted
    size = len(value)
    if found[1]:
        start, stop = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    else:
        start, stop = max(0, size - int(found[2])), size
    if start >= size:
        return Answer(416, b"", {"Content-Range": f"bytes */{size}"})
    place = {"Content-Range": f"bytes {start}-{stop - 1}/{size}", "Accept-Ranges": "bytes"}
    return Answer(206, value[start:stop], headers | place)


class Proxy(Web):
    """A server in front of another one that counts, delays and breaks answers.

    Changes are made one after the other: moto compares and replaces in two steps, between which
    other threads come, and S3 in one.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self._behind = host, port
        self._turn = threading.Lock()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with nullcontext() if method in ("GET", "HEAD") else self._turn:
            return self._forward(method, path, headers, body)

    def _forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        connection = HTTPConnection(*self._behind, timeout=30)
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            data = response.read()
            kept = {
                k: v
                for k, v in response.getheaders()
                if k.lower() not in ("connection", "transfer-encoding", "content-length")
            }
            if method == "HEAD":
                kept["Content-Length"] = response.getheader("Content-Length", "0")
            return Answer(response.status, data, kept)
        finally:
            connection.close()


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 30

        def log_message(self, *args: object) -> None:
            pass

        def setup(self) -> None:
            super().setup()
            self.wfile = self.connection.makefile("wb", 2**16)  # one packet an answer

        def handle_one(self) -> None:
            headers = {k.lower(): v for k, v in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            web.log.append((self.command, self.path, headers))
            if web.latency:
                time.sleep(web.latency)
            fault = web.next_fault()
            if fault == "reset":
                self._reset()
            elif fault == "slow":
                web.stopped.wait(web.slowness)
                self.close_connection = True
            elif fault == "page":
                self._send(Answer(200, PAGE, {"Content-Type": "text/html; charset=utf-8"}))
            elif fault is not None and fault.isdigit():
                self._send(Answer(int(fault), b"no"))
            elif fault in (None, "short", "wrong range"):
                answer = web.answer(self.command, self.path, headers, body)
                if answer.status == CLOSED:
                    self._reset()
                elif fault == "short" and answer.status in (200, 206):
                    self._send(answer, missing=(len(answer.body) + 1) // 2)
                elif fault == "wrong range" and answer.status in (200, 206):
                    self._send(_shifted(answer))
                else:
                    self._send(answer)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

        def _send(self, answer: Answer, missing: int = 0) -> None:
            self.send_response_only(answer.status)
            if "Date" not in answer.headers:
                self.send_header("Date", self.date_time_string())
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body[: len(answer.body) - missing])
            self.wfile.flush()
            if missing:
                self.close_connection = True

        def _reset(self) -> None:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True

    return Handler


def _shifted(answer: Answer) -> Answer:
    """Return another part of the value than was requested, with a correct header."""
    size = len(answer.body)
    kept = {k: v for k, v in answer.headers.items() if k.lower() != "content-range"}
    headers = {**kept, "Content-Range": f"bytes 3-{size + 2}/{size + 4}"}
    return Answer(206, bytes(b ^ 1 for b in answer.body), headers)


@contextmanager
def running(web: Web) -> Iterator[Web]:
    """Run a server until the block ends."""
    web.start()
    try:
        yield web
    finally:
        web.stop()
