"""Measure servers under load: 200 clients at once that read chunks, beside nginx and Python's own.

``python -m benchmarks.serve [--seconds 60] [--clients 200] [--chunk-kib 64]`` writes a directory of
uint16 and serves it with ``omnizarr serve``, nginx and ``python -m http.server``, one after the
other. Each client keeps one connection and asks for chunks in random order, one after the other;
every answer is compared with the file. The clients run in a process of their own. The table has
answers and megabytes a second, the median and the 99th percentile of the time for an answer, wrong
answers, processor time of the server for an answer, and its peak memory. ``/v3/`` reads through the
view, ``/api/values`` decodes a chunk for each answer; the others cannot do either.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz

PATIENCE = 5  # seconds for an answer, then it counts as wrong
CHUNKS = 16  # along each of two axes


@dataclass
class Load:
    """The answers that clients got."""

    answers: int = 0
    nbytes: int = 0
    wrong: int = 0
    seconds: list[float] = field(default_factory=list)


def make_source(path: Path, chunk_kib: int) -> None:
    """Write noise without compression, so that all chunks have the same size."""
    side = round((chunk_kib * 1024 / 2) ** 0.5)
    data = np.random.default_rng(0).integers(0, 60000, (CHUNKS * side,) * 2, "u2")
    oz.create_array(path, data=data, chunks=(side, side), compressors=None)


# Clients


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str
) -> tuple[int, bytes, bool]:
    """Return the status and body of an answer, and True if the connection stays open."""
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].split("\r\n")[0])
    stays = "connection: close" not in head and head.startswith("http/1.1")
    return int(head.split(" ")[1]), await reader.readexactly(length), stays


async def client(port: int, wanted: dict[str, bytes], end: float, load: Load, seed: int) -> None:
    """Ask for the targets in random order until a time, and compare the answers."""
    targets, choose = [*wanted], random.Random(seed)
    connection: Any = None
    while time.monotonic() < end:
        target, start = choose.choice(targets), time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                connection = connection or await asyncio.open_connection("127.0.0.1", port)
                status, body, stays = await ask(*connection, target)
        except (OSError, EOFError, ValueError):
            status, body, stays = 0, b"", False
        load.seconds.append(time.perf_counter() - start)
        load.answers += 1
        load.nbytes += len(body)
        load.wrong += status != 200 or body != wanted[target]
        if not stays and connection is not None:
            connection[1].close()
            connection = None
    if connection is not None:
        connection[1].close()


def run_clients(
    port: int, wanted: dict[str, bytes], count: int, seconds: float, answer: Any
) -> None:
    """Run clients for some seconds, and put what they got into a queue."""

    async def work() -> Load:
        load, end = Load(), time.monotonic() + seconds
        await asyncio.gather(*(client(port, wanted, end, load, n) for n in range(count)))
        return load

    answer.put(asyncio.run(work()))


# Servers


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


_NGINX = """
{user}
worker_processes auto; pid {folder}/pid; error_log stderr crit; daemon off;
events {{ worker_connections 2048; }}
http {{
  access_log off; sendfile on; keepalive_requests 1000000;
  server {{ listen 127.0.0.1:{port} backlog=1024; root {root}; }}
}}
"""


def commands(root: Path, folder: Path) -> Iterator[tuple[str, str, list[str], int]]:
    """Yield the name of each server, the start of its paths, its command and port."""
    port = free_port()
    serve = [sys.executable, "-m", "omnizarr", "serve", str(root), "--port", str(port)]
    for name in ("store", "v3", "api/values"):
        yield f"omnizarr serve, /{name}", f"/{name}", serve, port
    if nginx := shutil.which("nginx"):
        port = free_port()
        user = "user root;" if os.geteuid() == 0 else ""
        text = _NGINX.format(user=user, folder=folder, port=port, root=root)
        (folder / "nginx.conf").write_text(text)
        yield "nginx", "", [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")], port
    port = free_port()
    words = ["-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(root)]
    yield "python -m http.server", "", [sys.executable, *words, "--protocol", "HTTP/1.1"], port


@contextmanager
def running(command: list[str], port: int) -> Iterator[int]:
    """Run a server until the block ends; yield its process id when it answers."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()


def usage(pid: int) -> tuple[float, int]:
    """Return the processor seconds and the peak bytes of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    seconds, peak = 0.0, 0
    for each in [str(pid), *children]:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        for line in Path(f"/proc/{each}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak += int(line.split()[1]) * 1024
    return seconds, peak


def targets(start: str, root: Path) -> dict[str, bytes]:
    """Return what can be asked for, and the right answers."""
    array = oz.open(root)
    found: dict[str, bytes] = {}
    for row in range(CHUNKS):
        for column in range(CHUNKS):
            stored = (root / "c" / str(row) / str(column)).read_bytes()
            if start != "/api/values":
                found[f"{start}/c/{row}/{column}"] = stored
                continue
            (height, width), (y, x) = array.chunks, (row, column)
            select = f"{y * height}:{(y + 1) * height},{x * width}:{(x + 1) * width}"
            found[f"{start}?path=&select={select}"] = stored  # which is not compressed
    return found


def measure(pid: int, port: int, wanted: dict[str, bytes], options: Any) -> str:
    """Run the clients against one server, and return a row of the table."""
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    before = usage(pid)[0]
    process = context.Process(
        target=run_clients, args=(port, wanted, options.clients, options.seconds, answer)
    )
    process.start()
    load: Load = answer.get()
    process.join()
    used, peak = usage(pid)
    times = np.sort(load.seconds) * 1e3
    rate = load.answers / options.seconds
    return (
        f"| {rate:,.0f} | {load.nbytes / options.seconds / 1e6:,.0f} | {np.median(times):.0f} |"
        f" {times[int(len(times) * 0.99)]:.0f} | {load.wrong} |"
        f" {(used - before) / max(1, load.answers) * 1e6:.0f} | {peak / 1e6:.0f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--chunk-kib", type=int, default=64)
    options = parser.parse_args()
    print(
        f"{options.clients} clients, {options.seconds:g} s each, {options.chunk_kib} KiB chunks\n"
    )
    print("| server | answers/s | MB/s | median ms | p99 ms | wrong | CPU µs/answer | peak MB |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "a.zarr"
        make_source(root, options.chunk_kib)
        for title, start, command, port in commands(root, folder):
            with running(command, port) as pid:
                print(f"| {title} {measure(pid, port, targets(start, root), options)}", flush=True)


if __name__ == "__main__":
    main()
