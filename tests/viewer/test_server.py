"""The server runs while a block runs; no client can hold it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import NodeNotFound, OmnizarrWarning, StoreError
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.viewer import server, values
from omnizarr.viewer.access import ServerLimits
from tests.sampling import tries
from tests.soak import requests
from tests.viewer.conftest import client_of, connect

DATA = np.arange(24, dtype=">i2").reshape(4, 6)


@pytest.fixture
def group(tmp_path: Path) -> Any:
    group = oz.create_group(tmp_path / "a.zarr", attributes={"title": "sea"})
    group.create_array("sub/t", data=DATA, chunks=(2, 4))
    return group


def test_a_hierarchy_is_served_while_a_block_runs(group: Any) -> None:
    with oz.serving(group) as url:
        stored = httpx.get(f"{url}store/zarr.json")
        assert stored.content == group.store.get("zarr.json")
        assert httpx.get(f"{url}api/node").json()["attributes"] == {"title": "sea"}
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


@pytest.mark.parametrize(
    "kind", ["path", "text", "store", "array", "group", "memory", "zip", "dict"]
)
def test_whatever_can_be_opened_can_be_served(group: Any, tmp_path: Path, kind: str) -> None:
    values = {key: group.store.get(key) for key in group.store.list()}
    where: dict[str, Any] = {
        "path": tmp_path / "a.zarr",
        "text": str(tmp_path / "a.zarr"),
        "store": LocalStore(tmp_path / "a.zarr"),
        "group": group["sub"],
        "array": group["sub/t"],
        "memory": MemoryStore(dict(values)),
        "dict": dict(values),
    }
    if kind == "zip":
        oz.copy(tmp_path / "a.zarr", tmp_path / "a.zip")
        where["zip"] = tmp_path / "a.zip"
    path = {"group": "t", "array": ""}.get(kind, "sub/t")
    with client_of(where[kind]) as client:
        answer = client.get("api/values", params={"path": path, "select": "1:4:2,2:5"})
        found = np.frombuffer(answer.content, "<i2").reshape(2, 3)
        np.testing.assert_array_equal(found, DATA[1:4:2, 2:5])
        stored = client.get(f"store/{path}/zarr.json".replace("//", "/"))
        assert stored.content == values["sub/t/zarr.json"]


def test_nothing_is_served_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFound), oz.serving(tmp_path / "none.zarr"):
        pass


def test_a_port_that_is_taken_is_an_error_that_says_so(group: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StoreError, match="in use"), oz.serving(group, port=port):
            pass


def test_others_are_let_in_with_a_warning_only(group: Any) -> None:
    with pytest.warns(OmnizarrWarning, match="everybody"), oz.serving(group, host="0.0.0.0"):
        pass
    with warnings.catch_warnings(), oz.serving(group, host="0.0.0.0", token="abc") as url:
        port = url.rstrip("/").rpartition(":")[2]
        assert httpx.get(f"http://127.0.0.1:{port}/api/node").status_code == 401
    assert server.is_loopback("::1")
    assert server.is_loopback("127.3.2.1")
    assert not server.is_loopback("example.org")


def test_a_server_runs_beside_an_event_loop(group: Any) -> None:
    async def work() -> int:
        with oz.serving(group) as url:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"{url}api/node")).status_code

    assert asyncio.run(work()) == 200


def test_serve_ends_by_itself_after_some_seconds(group: Any) -> None:
    connections: list[socket.socket] = []

    def started(url: str) -> None:
        host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        connections.append(socket.create_connection((host, int(port))))  # it listens already
        connections[0].sendall(b"GET /api/node HTTP/1.0\r\n\r\n")

    oz.serve(group, port=0, seconds=3, started=started)
    with connections[0] as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_connections_beyond_the_limit_do_not_stop_the_server(group: Any) -> None:
    with client_of(group, limits=ServerLimits(connections=20)) as client:
        held = [connect(client) for _ in range(60)]
        try:
            with connect(client) as connection:
                assert connection.recv(100).startswith(b"HTTP/1.1 503 ")
        finally:
            for connection in held:
                connection.close()
        for _ in range(100):  # until the server has seen that they are closed
            with suppress(httpx.TransportError):
                if client.get("api/node").status_code == 200:
                    break
        assert client.get("api/node").status_code == 200


def _closed_by_server(connection: socket.socket) -> bool:
    """Wait until the server closes a connection; False if it sends on."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


QUICK = ServerLimits(head_seconds=0.2, send_seconds=0.2, idle_seconds=1)


@pytest.mark.parametrize("sent", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_a_client_that_never_ends_its_request_is_dropped(
    group: Any, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_CHECKED", 0.05)
    with client_of(group, limits=QUICK) as client, connect(client) as connection:
        connection.sendall(sent)
        assert _closed_by_server(connection)
        assert client.get("api/node").status_code == 200


def test_a_client_that_never_reads_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_CHECKED", 0.05)
    store = LocalStore(tmp_path / "a.zarr")
    oz.create_group(store)
    store.set("large", os.urandom(2**25))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    with client_of(store, limits=QUICK) as client:
        with connect(client) as connection:
            connection.sendall(b"GET /store/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = 0
            end = time.monotonic() + 1
            while time.monotonic() < end:  # the server gives up; what is on its way still arrives
                if client.get("api/node").status_code != 200:
                    pytest.fail("the server does not answer others")
            connection.settimeout(30)
            try:
                while data := connection.recv(2**20):
                    received += len(data)
            except ConnectionResetError:
                pass
            assert received < 2**25
        assert client.get("store/large", headers={"range": "bytes=0-9"}).status_code == 206
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) <= before + 2  # the file is closed


def test_values_that_nobody_takes_are_bounded(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a.zarr", shape=(4096, 4096), dtype="u1", chunks=(512, 4096))
    target = "/api/values?path=&select=0:4096,0:4096"
    with client_of(array, limits=ServerLimits(memory=50_000_000, wait_seconds=0.1)) as client:
        with connect(client) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
            answer = client.get(target)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert client.get("api/values?path=&select=0,0").content == bytes(1)
        for _ in range(200):  # until the server has seen that it is closed
            if client.get("api/values?path=&select=0,0").status_code == 200:
                break
        assert client.get(target).content == bytes(2**24)


def test_a_client_has_its_share_of_connections_and_requests(group: Any) -> None:
    with client_of(group, limits=ServerLimits(connections=8, requests=2)) as client:
        held = [connect(client) for _ in range(4)]  # half of them
        try:
            with connect(client) as connection:
                assert connection.recv(100).startswith(b"HTTP/1.1 503 ")
            other = httpx.HTTPTransport(local_address="127.0.0.2")
            with httpx.Client(base_url=client.base_url, transport=other) as stranger:
                assert stranger.get("api/node").status_code == 200
        finally:
            for connection in held:
                connection.close()


def test_an_answer_that_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    array = oz.create_array(
        tmp_path / "a.zarr", shape=(2**14, 2**14), dtype="u1", chunks=(2**14, 2**14)
    )
    with client_of(array) as client:
        answer = client.get("api/values?path=&select=0,0")
        assert answer.status_code == 413
        assert "--memory" in answer.json()["error"]
    with client_of(array, limits=ServerLimits(memory=2**30)) as client:
        assert client.get("api/values?path=&select=0,0").content == bytes(1)


def test_the_work_of_a_client_that_goes_away_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = oz.create_array(tmp_path / "a.zarr", shape=(2**17,), dtype="u1", chunks=(1,))
    begun, parts = threading.Event(), []
    read = oz.Array.read

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        parts.append(args)
        begun.set()
        return read(self, *args, **options)

    monkeypatch.setattr(oz.Array, "read", counted)
    with client_of(array) as client:
        with connect(client) as connection:
            target = f"/api/values?path=&select=0:{2**17}"
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert begun.wait(30)
        assert client.get("api/values?path=&select=0:1").status_code == 200
        assert client.get("api/values?path=&select=0:1").status_code == 200
        count = len(parts)
        time.sleep(0.5)
        assert len(parts) == count < 2**17 // values.PART_CHUNKS


PATIENCE = 20.0  # seconds, on a machine that does much else


def test_the_server_withstands_hostile_requests(tmp_path: Path) -> None:
    found = requests.run(tmp_path, tries(120, 2000))
    wrong = {
        (kind, result)
        for kind, counts in found["kinds"].items()
        for result in counts
        if result not in (requests.ANSWERED, requests.REFUSED, requests.LEFT)
    }
    assert wrong == set()
    assert found["alive"]
    assert found["small"].wrong == 0
    assert max(found["small"].seconds) < PATIENCE
    assert found["memory"] is None or found["memory"] < requests.MEMORY
