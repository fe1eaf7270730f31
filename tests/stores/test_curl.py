"""Responses to libcurl's requests are parsed, and handles keep nothing of an earlier request."""

from __future__ import annotations

import importlib.util
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from omnizarr.concurrency.pool import Abandoned, abandoned_when
from omnizarr.concurrency.retry import Retry
from omnizarr.stores import Range, curl, resolve
from omnizarr.stores.http import HTTPStore
from tests.servers.web import Web, running

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"


@pytest.mark.parametrize(
    ("sent", "reason", "headers"),
    [
        (
            b"HTTP/1.1 100 Continue\r\nETag: early\r\n\r\nHTTP/1.1 200 Fine\r\nETag: right\r\n"
            + CHUNKED
            + b"ETag: late\r\nHTTP/1.1 200: x\r\n\r\n",
            *("Fine", {"etag": "right"}),
        ),
        (b"http/1.1 200  Not bad \r\n" + CHUNKED + b"\r\n", "Not bad", {}),
        (
            b"HTTP/1.1 200\nHTTP/2-hint: x\nA : 1 \nB:2\nb:2\na:3\nname b: 4\n" + CHUNKED + b"\r\n",
            *("", {"http/2-hint": "x", "a": "1, 3", "b": "2"}),
        ),
        (b"HTTP/1.1 200 OK\r\n" + b"a" * 50_000 + b" b: c\r\n" + CHUNKED + b"\r\n", "OK", {}),
    ],
)
def test_headers_are_those_of_the_last_response(
    sent: bytes, reason: str, headers: dict[str, str]
) -> None:
    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(sent)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve)
        server.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/a"
        response = curl.fetch(None, curl.Request(url), 5)
        server.join()
    assert (response.status, response.reason, response.data) == (200, reason, b"abc")
    assert response.headers == {**headers, "transfer-encoding": "chunked"}


def test_a_request_has_no_headers_of_an_earlier_one(web: Web) -> None:
    web.values |= {"a": b"abc", "b": b"abc"}
    store = HTTPStore(web.url, headers={"Authorization": "secret"})
    assert store.get_many([("a", Range(1, 1)), ("b", Range(1, 1))]) == [b"b", b"b"]
    with running(Web({"a": b"abc"})) as other:
        assert curl.fetch(None, curl.Request(f"{other.url}/a"), 5).data == b"abc"
        assert not other.log[0][2].keys() & {"authorization", "range"}


def test_the_generation_of_an_encoded_value_takes_no_body(web: Web) -> None:
    web.values["a"] = b"abc"
    web.extra_headers["Content-Encoding"] = "deflate"
    assert HTTPStore(web.url, retry=Retry(1)).generation("a") is not None


def test_a_body_for_which_there_is_no_memory_is_not_in_the_next_one(web: Web) -> None:
    web.values |= {"a": b"abc", "b": b"def"}
    store = HTTPStore(web.url)

    def response(self: Any, reason: str) -> Any:
        raise MemoryError

    with mock.patch.object(curl._Transfer, "response", response), pytest.raises(MemoryError):
        store.get("a")
    assert store.get("b") == b"def"


@pytest.mark.parametrize("kind", ["http", "s3"])
def test_values_that_nobody_waits_for_are_not_taken_for_missing(web: Web, kind: str) -> None:
    keys = [f"k{i}" for i in range(20)]
    web.values |= {f"bucket/{key}": b"x" for key in keys}
    options = {"endpoint": web.url, "anonymous": True, "region": "x"} if kind == "s3" else None
    url = "s3://bucket" if kind == "s3" else f"{web.url}/bucket"
    store = resolve(url, storage_options=options)
    wanted = [(key, None) for key in keys]
    with pytest.raises(Abandoned), abandoned_when(lambda: True):
        store.get_many(wanted)
    assert store.get_many(wanted) == [b"x"] * 20


def test_a_libcurl_that_another_package_made_global_is_not_used(web: Web) -> None:
    web.values["a"] = b"abc"
    package = importlib.util.find_spec("netCDF4")
    assert package is not None
    found = [*Path(str(package.origin)).parents[1].glob("netcdf4.libs/libcurl*")]
    if not found:
        pytest.skip("netCDF4 has no libcurl of its own here")
    code = (
        f"import ctypes, netCDF4; ctypes.CDLL({str(found[0])!r}, ctypes.RTLD_GLOBAL)\n"
        "from omnizarr.stores import resolve\n"
        f"print(resolve({web.url!r}).get('a'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "b'abc'\n", done.stderr


def test_systems_without_epoll_are_served_as_well(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "epoll", raising=False)
    monkeypatch.setattr(curl, "_idle", [])
    web.values |= {f"k{i}": b"x" * 70_000 for i in range(200)}
    store = HTTPStore(web.url)
    for _ in range(2):
        assert store.get_many([(key, None) for key in web.values]) == [*web.values.values()]
    assert isinstance(curl._idle[0]._sockets, curl._Selector)
