"""A Redis server for tests."""

from __future__ import annotations

import shutil
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
    socket = folder / "redis.sock"
    settings = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([program, *settings, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not socket.exists():
            assert server.poll() is None, "redis-server has ended"
            assert time.monotonic() < end, "redis-server does not start"
            time.sleep(0.02)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait()
