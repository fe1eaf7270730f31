"""Servers that run as separate programs: moto for S3, Azurite for Azure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NoReturn

import pytest

ACCOUNT = "devstoreaccount1"  # Azurite's own, the same everywhere
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
STRICT = "OMNIZARR_ALL_SERVERS"  # set: a server that is not installed is a failure


def missing(what: str) -> NoReturn:
    """Skip the test, or fail if all servers are required."""
    if os.environ.get(STRICT):
        pytest.fail(f"{what}, and {STRICT} is set")
    pytest.skip(what)


def find(program: str) -> str | None:
    """Return a program next to this Python, one that `make servers` got, or one on the path."""
    checkout = Path(__file__).parents[2]
    places = [Path(sys.executable).parent, checkout / ".servers" / "node_modules" / ".bin"]
    return shutil.which(program, path=os.pathsep.join(map(str, places))) or shutil.which(program)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(command: Callable[[int], list[str]], seconds: float = 60) -> Iterator[int]:
    """Run a program that listens on a free port until the block ends, and yield the port.

    Another program may take the port before this one has it, so a program that ends at once gets
    another port.
    """
    end = time.monotonic() + seconds
    while True:
        port = free_port()
        words = command(port)
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while process.poll() is None:
                if _listens(port) and process.poll() is None:
                    yield port
                    return
                if time.monotonic() > end:
                    pytest.fail(f"{words[0]} did not start")
                time.sleep(0.05)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if time.monotonic() > end - seconds / 2:
            pytest.fail(f"{words[0]} ended instead of listening")
        time.sleep(0.2)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            own: tuple[str, int] = connection.getsockname()
    except OSError:
        return False
    return own[1] != port  # else the connection leads to itself, which TCP allows


@contextmanager
def moto() -> Iterator[int]:
    """Run an S3 server and yield its port."""
    program = find("moto_server")
    if program is None:
        missing("moto_server is not installed (pip install 'moto[server]')")
    with started(lambda port: [program, "-H", "127.0.0.1", "-p", str(port)]) as port:
        yield port


@contextmanager
def simple_storage(*buckets: str, latency: float = 0.0) -> Iterator[int]:
    """Run the S3 server of `tests.servers.s3` in another process and yield its port."""
    words = [sys.executable, "-m", "tests.servers.s3"]
    with started(lambda port: [*words, str(port), str(latency), *buckets]) as port:
        yield port


def s3_options(endpoint: str | int, **more: Any) -> dict[str, Any]:
    """Return the storage options of a server that stands for S3, by its address or port."""
    url = endpoint if isinstance(endpoint, str) else f"http://127.0.0.1:{endpoint}"
    keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
    return {"endpoint": url, **keys, **more}


def make_s3_bucket(port: int, name: str) -> None:
    """Create a bucket."""
    place = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"
    _request(port, "PUT", f"/{name}", {"Authorization": place})


@contextmanager
def azurite() -> Iterator[int]:
    """Run an Azure Blob server and yield its port."""
    program = find("azurite-blob")
    if program is None:
        missing("azurite-blob is not installed (install npm, then `make test` gets it)")
    options = ["--blobHost", "127.0.0.1", "--inMemoryPersistence", "--silent"]
    words = [program, *options, "--skipApiVersionCheck", "--blobPort"]
    with started(lambda port: [*words, str(port)]) as port:
        yield port


def make_azure_container(port: int, name: str, *, public: bool = False) -> None:
    """Create a container with a request signed by the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    if public:
        headers["x-ms-blob-public-access"] = "container"
    lines = "".join(f"{k}:{headers[k]}\n" for k in sorted(headers))
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + lines + resource
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    _request(port, "PUT", f"/{ACCOUNT}/{name}?restype=container", headers)


def _request(port: int, method: str, path: str, headers: dict[str, str]) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers={**headers, "Content-Length": "0"})
        response = connection.getresponse()
        body = response.read()
        assert response.status in (200, 201), (response.status, body[:500])
    finally:
        connection.close()
