"""A Redis server for tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.processes import missing


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a server on a socket in a folder and yield its URL."""
    program = shutil.which("redis-server")
    if program is None:
        missing("redis-server is not installed (apt-get install redis-server)")
    path = folder / "redis.sock"
    settings = ["--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([program, *settings, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not _listens(path):
            assert server.poll() is None, "redis-server has ended"
            assert time.monotonic() < end, "redis-server does not start"
            time.sleep(0.02)
        yield f"unix://{path}"
    finally:
        server.terminate()
        server.wait()


def _listens(path: Path) -> bool:
    """Return whether connections are taken; the file is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0
