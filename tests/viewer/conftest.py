"""Clients of a served store: one that behaves, one that sends what it is given, and a browser."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext

import omnizarr as oz
from tests.viewer.browser import Viewed, browser, context, make_data, viewed


@contextmanager
def client_of(store: Any, **options: Any) -> Iterator[httpx.Client]:
    """Serve a store, and yield a client whose base is the server's address."""
    with oz.serving(store, **options) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def connect(client: httpx.Client) -> socket.socket:
    """Return a connection to the server of a client."""
    parts = urlsplit(str(client.base_url))
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60)


def exchange(client: httpx.Client, request: bytes) -> bytes:
    """Send bytes as they are, and return all that the server answers before it closes."""
    with connect(client) as connection:
        connection.sendall(request)
        found = bytearray()
        with suppress(ConnectionResetError):  # the server had not read everything
            while data := connection.recv(2**16):
                found += data
    return bytes(found)


def raw_get(client: httpx.Client, target: bytes, *headers: bytes) -> tuple[int, bytes]:
    """Return the status and body of a GET request for a target that is sent as it is."""
    lines = [b"GET " + target + b" HTTP/1.1", b"Host: localhost", b"Connection: close", *headers]
    answer = exchange(client, b"\r\n".join(lines) + b"\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Something of everything that the page shows."""
    folder = tmp_path_factory.mktemp("page") / "sea.zarr"
    make_data(folder)
    return folder


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with oz.serving(root) as address:
        yield address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    # For one module at a time: an event loop of the driver runs in this thread meanwhile.
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator[BrowserContext]:
    with context(chromium) as found:
        yield found


@pytest.fixture
def page(window: BrowserContext, url: str) -> Iterator[Viewed]:
    with viewed(window, url) as found:
        yield found
