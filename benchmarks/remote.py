"""Measure the time and the number of requests to read an array over a network.

A server in its own process holds a hierarchy and answers every request after 30 ms, as plain HTTP
and as S3. Every library knows that the format is version 3, opens an array and reads all of it, or
a box. The runs of one row are interleaved, and the best of each counts. ``python -m
benchmarks.remote`` writes the table of ``docs/remote-stores.md``.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import tensorstore as ts
import zarr
from obstore.store import HTTPStore, S3Store

import omnizarr
from omnizarr.stores import resolve

LATENCY = 0.03
RUNS = 5
PAGE = Path(__file__).parents[1] / "docs" / "remote-stores.md"
MARKS = "<!-- remote: begin -->", "<!-- remote: end -->"


async def serve(values: dict[str, bytes], ready: Any) -> None:
    """Serve GET and HEAD below /bucket; /count returns and resets the number of requests."""
    count = 0

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            method, path, _ = head.split(" ", 2)
            if path == "/count":
                body, count = str(count).encode(), 0
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                continue
            count += 1
            await asyncio.sleep(LATENCY)
            writer.write(answer(values, method, unquote(urlsplit(path).path), head))

    server = await asyncio.start_server(client, "127.0.0.1", 0, limit=2**20, backlog=512)
    ready.put(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def answer(values: dict[str, bytes], method: str, path: str, head: str) -> bytes:
    """Return the response: a whole value, a byte range, or 404."""
    value = values.get(path.removeprefix("/bucket/"))
    if value is None:
        body = b"<Error><Code>NoSuchKey</Code></Error>"
        head = f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Content-Type: application/xml\r\n\r\n".encode() + body
    found = re.search(r"^range: bytes=(\d*)-(\d*)", head, re.IGNORECASE | re.MULTILINE)
    status, more, body = "200 OK", "", value
    if found is not None:
        size = len(value)
        start = int(found[1]) if found[1] else size - int(found[2])
        stop = min(size, int(found[2]) + 1) if found[1] and found[2] else size
        status, body = "206 Partial Content", value[start:stop]
        more = f"Content-Range: bytes {start}-{stop - 1}/{size}\r\n"
    lines = (
        f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nAccept-Ranges: bytes\r\n{more}"
        'ETag: "x"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return lines.encode() + (b"" if method == "HEAD" else body)


def run_server(values: dict[str, bytes], ready: Any) -> None:
    asyncio.run(serve(values, ready))


# Readers: the kind of server, its address, the path and the selection


def ours(kind: str, url: str, path: str) -> Any:
    if kind == "http":
        return omnizarr.open_array(f"{url}/bucket/{path}", "r", zarr_format=3)
    options = {"endpoint": url, "anonymous": True, "region": "us-east-1"}
    store = resolve(f"s3://bucket/{path}", read_only=True, storage_options=options)
    return omnizarr.open_array(store, "r", zarr_format=3)


def zarr_python(kind: str, url: str, path: str) -> Any:
    plain: Any = {"allow_http": True}
    store = (
        HTTPStore.from_url(f"{url}/bucket/{path}", client_options=plain)
        if kind == "http"
        else S3Store(
            "bucket",
            prefix=path,
            endpoint=url,
            skip_signature=True,
            region="us-east-1",
            client_options=plain,
        )
    )
    remote = zarr.storage.ObjectStore(store, read_only=True)
    return zarr.open_array(remote, mode="r", zarr_format=3)


def tensorstore(kind: str, url: str, path: str) -> Any:
    store: dict[str, Any] = (
        {"driver": "http", "base_url": f"{url}/bucket/{path}/"}
        if kind == "http"
        else {
            "driver": "s3",
            "bucket": "bucket",
            "path": f"{path}/",
            "endpoint": url,
            "aws_region": "us-east-1",
            "aws_credentials": {"type": "anonymous"},
        }
    )
    context = ts.Context()  # nothing is cached from run to run
    spec = {"driver": "zarr3", "kvstore": store}
    return ts.open(spec, context=context, read=True, open=True).result()


READERS = {"omnizarr": ours, "zarr-python + obstore": zarr_python, "tensorstore": tensorstore}


def read(name: str, array: Any, selection: Any) -> Any:
    return array[selection].read().result() if name == "tensorstore" else array[selection]


def hierarchy(data: Any) -> dict[str, bytes]:
    """Return a store with the arrays to read."""
    values: dict[str, bytes] = {}
    store = omnizarr.MemoryStore(values)
    omnizarr.create_group(store)
    omnizarr.create_array(store, path="chunked", data=data, chunks=(32, 32, 32))
    omnizarr.create_array(
        store, path="sharded", data=data, chunks=(32, 32, 32), shards=(128, 128, 128)
    )
    return values


def measure(url: str, data: Any) -> list[str]:
    """Return the rows of the table."""
    everything: Any = (slice(None),) * 3
    box: Any = (slice(20, 60), slice(20, 60), slice(20, 60))  # eight chunks
    lines = []
    for kind in ("http", "s3"):
        for path in ("chunked", "sharded"):
            for title, selection in (("all", everything), ("box", box)):
                seconds: dict[str, list[float]] = {name: [] for name in READERS}
                requests: dict[str, int] = {}
                for _ in range(RUNS):
                    for name, opened in READERS.items():
                        counted(url)
                        start = time.perf_counter()
                        found = read(name, opened(kind, url, path), selection)
                        seconds[name].append(time.perf_counter() - start)
                        requests[name] = counted(url)
                        np.testing.assert_array_equal(found, data[selection])
                cells = [f"{min(seconds[n]) * 1000:.0f} ms, {requests[n]}" for n in READERS]
                lines.append(f"| {kind} | {path}, {title} | " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
    return lines


def counted(url: str) -> int:
    with urllib.request.urlopen(f"{url}/count") as response:
        return int(response.read())


def main() -> None:
    """Measure, print, and write the table to the page."""
    data = np.random.default_rng(0).integers(0, 1000, (256, 256, 256), "u2")
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    process = context.Process(target=run_server, args=(hierarchy(data), ready), daemon=True)
    process.start()
    try:
        lines = measure(f"http://127.0.0.1:{ready.get(timeout=60)}", data)
    finally:
        process.terminate()
        process.join()
    names = " | ".join(READERS)
    table = "\n".join([f"| server | read | {names} |", "| --- " * (2 + len(READERS)) + "|", *lines])
    text = PAGE.read_text()
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
