"""Hostile requests to `omnizarr serve`, while a small one is asked again and again beside them."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np

import omnizarr as oz

THREADS = 32
PATIENCE = 300.0  # seconds for an answer to a hostile client
HELD = 0.5  # seconds for which a slow client keeps its connection
MEMORY = 500  # MiB that the server may have
ADDRESSES = [f"127.0.0.{n}" for n in range(2, 10)] if sys.platform == "linux" else [""]
Address: TypeAlias = tuple[str, int]
ANSWERED, REFUSED, LEFT, WRONG = "answered", "refused", "left", "wrong"


def make(root: Path) -> None:
    """Write a hierarchy with what makes requests expensive."""
    group = oz.create_group(root)
    group.create_array("tiny", shape=(2**24,), chunks=(1,), dtype="u1")
    group.create_array("grid", shape=(2**14, 2**14), chunks=(16, 16), dtype="u1")
    group.create_array("huge", shape=(2**15, 2**15), chunks=(2**15, 2**15), dtype="u1")
    data = np.random.default_rng(0).integers(0, 256, (4096, 4096), "u1")
    group.create_array("data", data=data, chunks=(512, 512))
    group.create_array("text", data=np.array(["some text"] * 5000), dtype="string")
    days = {"units": "days since 2001-01-01", "calendar": "noleap"}
    group.create_array("time", data=np.arange(10**5), attributes=days)
    (root / "out").symlink_to(root.parent.parent)
    (root / "tiny" / "c").mkdir(parents=True)
    (root / "tiny" / "c" / "7").symlink_to("/etc/hostname")


@contextmanager
def serving(root: Path) -> Iterator[tuple[int, Address]]:
    """Run the server in a process of its own; yield its number and address."""
    command = [sys.executable, "-m", "omnizarr", "serve", str(root), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            said = b""
            while line := process.stdout.readline():
                said += line
                with suppress(ValueError):
                    parts = urlsplit(json.loads(said)["url"])
                    break
            threading.Thread(target=process.communicate, daemon=True).start()
            yield process.pid, (parts.hostname or "", parts.port or 0)
        finally:
            process.terminate()
            process.wait(30)


def peak(process: int) -> int | None:
    """Return the most memory that a process has had, in MiB, where the system tells it."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
    return None


class Client:
    """A connection from one of several addresses."""

    def __init__(self, address: Address, rng: random.Random) -> None:
        self.rng = rng
        source = (rng.choice(ADDRESSES), 0)
        self.socket = socket.create_connection(address, PATIENCE, source_address=source)

    def send(
        self, target: str, *headers: str, method: str = "GET", host: str = "localhost"
    ) -> None:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))

    def status(self) -> int:
        """Return the status of an answer, all of which is read; 0 if the connection is closed."""
        received = bytearray()
        with suppress(ConnectionError):
            while data := self.socket.recv(2**18):
                received += data[: 100 - len(received)] if len(received) < 100 else b""
        words = received.split(b" ", 2)
        return int(words[1]) if len(words) > 2 else 0

    def expect(self, *statuses: int) -> str:
        """Return what became of a request; a server that is busy may always say so."""
        found = self.status()
        if found in (200, 206) and found in statuses:
            return ANSWERED
        return REFUSED if found in (*statuses, 0, 503) else f"{WRONG}: {found}"


def huge_selection(client: Client) -> str:
    select = client.rng.choice(
        ["tiny&select=0:16000000", "tiny&select=0:16777216:1", "grid&select=0:16384,0:16384",
         "grid&select=0:16384:16,0:16384:16", "huge&select=0,0", "text&select=0:9999",
         "data&select=0:4096,0:4096&exact=1", "tiny&select=0:16777216:64&extremes=1",
         "tiny&select=0:99999999999999999999"]
    )  # fmt: skip
    client.send(f"/api/values?path={select}")
    return client.expect(400, 413)


def many_chunks(client: Client) -> str:
    start = client.rng.randrange(10**6) + 100
    client.send(f"/api/values?path=tiny&select={start}:{start + client.rng.choice([600, 3000])}")
    return client.expect(200)


def left_client(client: Client) -> str:
    target = client.rng.choice(
        ["/api/values?path=tiny&select=100:250000", "/api/values?path=grid&select=0:8000,0:8000",
         "/api/values?path=data&select=0:4096,0:4096", "/api/values?path=grid&select=0:4000,0:4000",
         "/v2/data/3/3", "/api/values?path=tiny&select=100:250000:2&extremes=1"]
    )  # fmt: skip
    client.send(target)
    time.sleep(client.rng.random() * 0.1)
    return LEFT


def large_answer(client: Client) -> str:
    target = client.rng.choice(
        ["/api/values?path=data&select=0:2000,0:4096",
         "/api/values?path=time&select=0:50000&decode=time",
         "/api/values?path=text&select=0:5000", "/api/members", "/api/node?path=data",
         "/api/chunks?path=data", "/v2/data/.zarray", "/store/data/c/1/1"]
    )  # fmt: skip
    client.send(target)
    return client.expect(200)


def slow_request(client: Client) -> str:
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    client.socket.sendall(head[: client.rng.randrange(1, len(head))])
    time.sleep(HELD)
    return LEFT


def slow_reader(client: Client) -> str:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.send("/api/values?path=data&select=0:4096,0:4096")
    time.sleep(HELD)
    return LEFT


def bad_host(client: Client) -> str:
    hosts = ["evil.example", "localhost.evil.example", "8.8.8.8", "a" * 200, "[::2]:80", "ü"]
    client.send("/store/zarr.json", host=client.rng.choice(hosts))
    return client.expect(421, 400)


PATHS = ["..", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "a//b",
         "%00", "%ff%fe", "out/etc/passwd", "out", "tiny/c/7", "C:%5cx", "%252e"]  # fmt: skip


def bad_path(client: Client) -> str:
    start = client.rng.choice(["/store/", "/v2/", "/v3/", "/api/node?path=", "/page/", "/"])
    client.send(start + client.rng.choice(PATHS))
    return client.expect(400, 403, 404, 422)


def deep_path(client: Client) -> str:
    path = "a/" * client.rng.choice([50, 1000, 4000, 10_000])
    client.send(
        client.rng.choice(["/store/", "/v3/", "/api/members?path=", "/api/values?path="]) + path
    )
    return client.expect(400, 404)


def odd_method(client: Client) -> str:
    method = client.rng.choice(
        ["POST", "PUT", "DELETE", "TRACE", "CONNECT", "PATCH", "LOCK", "X" * 99]
    )
    body = ["Content-Length: 99999999999"] if client.rng.random() < 0.5 else []
    client.send("/store/zarr.json", *body, method=method)
    return client.expect(400, 405, 413)


def noise(client: Client) -> str:
    client.socket.sendall(client.rng.randbytes(client.rng.randrange(1, 5000)) + b"\r\n\r\n")
    return client.expect(400)


def many_ranges(client: Client) -> str:
    spans = ",".join(f"{n}-{n + 1}" for n in range(0, client.rng.choice([10, 100, 2000]) * 3, 3))
    client.send("/store/data/c/1/1", f"Range: bytes={spans}")
    return client.expect(200, 400)


KINDS: dict[str, Callable[[Client], str]] = {
    "huge selections": huge_selection,
    "many chunks": many_chunks,
    "clients that leave": left_client,
    "large answers": large_answer,
    "slow requests": slow_request,
    "slow readers": slow_reader,
    "bad hosts": bad_host,
    "bad paths": bad_path,
    "deep paths": deep_path,
    "odd methods": odd_method,
    "noise": noise,
    "many ranges": many_ranges,
}


TARGETS = ("/store/zarr.json", "/api/values?path=data&select=0:10,0:10", "/api/node?path=data")


def _ask(address: Address, target: str) -> bool:
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except OSError:
        return False
    finally:
        connection.close()


def ask_again(address: Address, ended: Any, results: Any) -> None:
    """Ask for small answers until an event; put the number of wrong ones, and all times."""
    wrong, seconds = 0, list[float]()
    while not ended.wait(0.02):
        begun = time.monotonic()
        wrong += not _ask(address, TARGETS[len(seconds) % len(TARGETS)])
        seconds.append(time.monotonic() - begun)
    results.put((wrong, seconds))


class Small:
    """Asks for small answers in a process of its own, where no other thread makes it wait."""

    def __init__(self, address: Address) -> None:
        context = multiprocessing.get_context("spawn")
        self._address, self._ended, self._results = address, context.Event(), context.Queue()
        arguments = address, self._ended, self._results
        self._process = context.Process(target=ask_again, args=arguments)
        self.wrong, self.seconds = 0, list[float]()

    def __enter__(self) -> Small:
        for target in TARGETS:  # which imports what the server needs
            assert _ask(self._address, target)
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.wrong, self.seconds = self._results.get(timeout=120)
        self._process.join()


def run(folder: Path, count: int, seed: int = 0) -> dict[str, Any]:
    """Send so many requests of all kinds; return what became of each kind, and of the server."""
    root = folder / "served" / "a.zarr"
    make(root)
    found: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}

    def send(number: int) -> tuple[str, str]:
        rng = random.Random(seed * 10**9 + number)
        kind = [*KINDS][number % len(KINDS)]
        try:
            client = Client(address, rng)
        except OSError:
            return kind, f"{WRONG}: no connection"
        with client.socket:
            try:
                return kind, KINDS[kind](client)
            except ConnectionError:
                return kind, REFUSED  # the server has closed it
            except TimeoutError:
                return kind, f"{WRONG}: no answer"

    with serving(root) as (process, address), Small(address) as small:
        with ThreadPoolExecutor(THREADS) as pool:
            for kind, result in pool.map(send, range(count)):
                found[kind][result] += 1
        alive = os.path.exists(f"/proc/{process}") or sys.platform != "linux"
        memory = peak(process)
    return {"kinds": found, "small": small, "memory": memory, "alive": alive}
