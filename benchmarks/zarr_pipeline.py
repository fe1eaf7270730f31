"""Measure the codec pipelines of zarr-python: its own two, zarrs, and omnizarr's.

Every cell is one action on one array: read or write all of it, read a box, or change one. The
pipelines take turns within a cell, first one then the other, and the best of each counts.
``python -m benchmarks.zarr_pipeline`` writes docs/generated/pipeline.md in about 15 minutes;
``--quick`` takes fewer chunk sizes and less data, and prints it only. Files are below
``TMPDIR``.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import itertools
import multiprocessing
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
import zarr
from obstore.store import S3Store
from zarr.codecs import BloscCodec, ZstdCodec
from zarr.storage import LocalStore, ObjectStore

PIPELINES = {
    "default": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
    "omnizarr": "omnizarr.zarr_pipeline.Pipeline",
}
SLOW = ("default", "fused")  # few runs, so that all takes minutes
GOAL = 1.2  # times as fast as zarrs
SIZES = {"8 KiB": 2**13, "64 KiB": 2**16, "512 KiB": 2**19, "4 MiB": 2**22}
CODECS: dict[str, Any] = {
    "raw": None,
    "zstd": ZstdCodec(level=1),
    "blosc": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
}
ACTIONS = ("read", "read part", "write", "write part")
PAGE = Path(__file__).parents[1] / "docs" / "generated" / "pipeline.md"
MARKS = "<!-- pipelines: begin -->", "<!-- pipelines: end -->"
LATENCY = 0.002  # seconds, of the server on this machine
RUNS, SECONDS = 12, 2.0  # of one cell at most, but three runs of each pipeline
Times: TypeAlias = dict[str, float | None]


@dataclass(frozen=True)
class Layout:
    """One row of the table."""

    where: str
    kind: str
    codec: str
    size: str

    def __str__(self) -> str:
        return f"{self.where} {self.kind} {self.codec} {self.size}"


def known_pipelines() -> dict[str, str]:
    """Return the pipelines that are installed."""
    found = {}
    for name, path in PIPELINES.items():
        module, _, attribute = path.rpartition(".")
        try:
            if hasattr(importlib.import_module(module), attribute):
                found[name] = path
        except ImportError:
            continue
    return found


def layouts(quick: bool) -> Iterator[Layout]:
    sizes = ("8 KiB", "512 KiB") if quick else tuple(SIZES)
    for where in ("local", "S3"):
        for layout in ("chunks", "shards"):
            for codec in CODECS:
                for size in sizes:
                    yield Layout(where, layout, codec, size)


def options(layout: Layout, total: int) -> dict[str, Any]:
    """Return the options of an array: rows of 1024 numbers."""
    rows = SIZES[layout.size] // 4096
    count = max(4, total // SIZES[layout.size])
    made: dict[str, Any] = {
        "shape": (rows * count, 1024),
        "chunks": (rows, 1024),
        "dtype": "f4",
        "compressors": CODECS[layout.codec],
    }
    if layout.kind == "shards":
        made["shards"] = (rows * max(2, count // 4), 1024)
    return made


def data(shape: tuple[int, ...]) -> Any:
    """Return numbers that compress about as well as measurements do."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 64, shape, dtype=np.int32)
    return (np.sin(np.arange(shape[0])[:, None] / 50) * 1000 + noise).astype("f4")


def part_of(shape: tuple[int, ...], rows: int) -> tuple[slice, slice]:
    """Return a box that cuts chunks along both axes: half of the columns, most of the rows."""
    return slice(rows // 2, shape[0] - rows // 2), slice(100, 612)


def call(action: str, array: Any, values: Any) -> Callable[[], object]:
    box = part_of(array.shape, array.chunks[0])
    if action == "read":
        return lambda: array[:]
    if action == "read part":
        return lambda: array[box]
    if action == "write":
        return lambda: array.__setitem__(slice(None), values)
    return lambda: array.__setitem__(box, values[box])


def create(layout: Layout, stores: Any, pipelines: dict[str, str], total: int) -> tuple[Any, Any]:
    """Return an array for each pipeline, all written by zarr-python's own, and the values."""
    made = options(layout, total)
    values = data(made["shape"])
    arrays = {}
    for name, path in pipelines.items():
        store = stores(name)
        with zarr.config.set({"codec_pipeline.path": PIPELINES["default"]}):
            zarr.create_array(store, overwrite=True, **made)[:] = values
        with zarr.config.set({"codec_pipeline.path": path}):
            arrays[name] = zarr.open_array(store)
    return arrays, values


def measure(action: str, arrays: Any, values: Any, runs: int, seconds: float) -> Times:
    """Return the best time of each pipeline, in milliseconds; None for one that cannot do it.

    There are at least two runs after the first one, which does not count.
    """
    calls = {name: call(action, array, values) for name, array in arrays.items()}
    best: Times = dict.fromkeys(calls, float("inf"))
    names = [*calls]
    end = time.perf_counter() + seconds
    for run in range(runs + 1):
        if run > 2 and time.perf_counter() > end:
            break
        for name in (*names[run % len(names) :], *names[: run % len(names)]):
            before = best[name]
            if before is None or (name in SLOW and run > 2):
                continue
            start = time.perf_counter()
            try:
                calls[name]()
            except Exception as e:  # a peer that cannot do it is a fact for the table
                print(f"{name}: {type(e).__name__}: {e}"[:200])
                best[name] = None
                continue
            if run:
                best[name] = min(before, 1000 * (time.perf_counter() - start))
    return best


_uploads = itertools.count()


async def serve(ready: Any) -> None:
    """Serve a bucket in memory: GET with ranges, HEAD, PUT in parts too, DELETE, empty listings."""
    values: dict[str, bytes] = {}

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                fields = dict(
                    line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line
                )
                body = await reader.readexactly(int(fields.get("content-length", 0)))
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            method, path, _ = head.split(" ", 2)
            await asyncio.sleep(LATENCY)
            target = urlsplit(path)
            writer.write(answer(values, method, unquote(target.path), target.query, fields, body))

    server = await asyncio.start_server(client, "127.0.0.1", 0, limit=2**20, backlog=512)
    ready.put(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def answer(
    values: dict[str, bytes],
    method: str,
    path: str,
    query: str,
    fields: dict[str, str],
    body: bytes,
) -> bytes:
    """Return the answer to one request."""
    status, found, more = "200 OK", b"", 'ETag: "x"\r\n'
    asked = dict(parse_qsl(query, keep_blank_values=True))
    upload = f"{path} in parts {asked.get('uploadId')} "
    if method == "PUT" and "uploadId" in asked:
        values[f"{upload}{int(asked['partNumber']):05}"] = body
    elif method == "PUT":
        values[path] = body
    elif method == "POST" and "uploads" in asked:
        found = b"<R><Bucket>b</Bucket><Key>k</Key><UploadId>%d</UploadId></R>" % next(_uploads)
    elif method == "POST":
        parts = sorted(name for name in values if name.startswith(upload))
        values[path] = b"".join(values.pop(name) for name in parts)
        found = b'<R><Bucket>b</Bucket><Key>k</Key><ETag>"x"</ETag></R>'
    elif method == "DELETE":
        values.pop(path, None)
        status = "204 No Content"
    elif path.count("/") < 2 or path.endswith("/"):
        found = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    elif path not in values:
        status = "404 Not Found"
        found = b"<Error><Code>NoSuchKey</Code></Error>"
    else:
        found = values[path]
        if "range" in fields:
            first, _, last = fields["range"].removeprefix("bytes=").partition("-")
            size = len(found)
            low = int(first) if first else max(0, size - int(last))
            high = min(size, int(last) + 1 if first and last else size)
            more += f"Content-Range: bytes {low}-{high - 1}/{size}\r\n"
            status, found = "206 Partial Content", found[low:high]
        more += "Last-Modified: Mon, 16 Nov 2026 00:00:00 GMT\r\n"
    length = len(found)
    text = f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{more}\r\n"
    return text.encode() + (b"" if method == "HEAD" else found)


def run_server(ready: Any) -> None:
    asyncio.run(serve(ready))


@contextmanager
def places() -> Iterator[dict[str, Callable[[str], Any]]]:
    """Yield functions that make the stores of both kinds by name."""
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    server = context.Process(target=run_server, args=(ready,), daemon=True)
    server.start()
    port = ready.get()
    folder = Path(tempfile.mkdtemp())

    def remote(name: str) -> Any:
        bucket = S3Store(
            "bucket",
            prefix=name,
            endpoint=f"http://127.0.0.1:{port}",
            region="us-east-1",
            access_key_id="a",
            secret_access_key="b",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )
        return ObjectStore(bucket)

    try:
        yield {"local": lambda name: LocalStore(folder / name), "S3": remote}
    finally:
        server.terminate()
        shutil.rmtree(folder, ignore_errors=True)


def shown(times: Times) -> str:
    """Return our time, and those of zarrs and of zarr-python as multiples of it."""
    ours, zarrs = times["omnizarr"], times.get("zarrs")
    own = [t for name, t in times.items() if name in SLOW and t is not None]
    if ours is None:
        return "—"
    ratio = "—" if zarrs is None else f"{zarrs / ours:.2f}"
    if zarrs is not None and zarrs / ours < GOAL:
        ratio = f"**{ratio}**"
    return f"{ours:.2f} · {ratio} · " + (f"{min(own) / ours:.1f}" if own else "—")


def table(found: dict[Layout, dict[str, Times]]) -> str:
    """Return the table, one line for each layout."""
    titles = ["store", "layout", "codec", "chunk", *ACTIONS]
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    for layout, cells in found.items():
        where = [layout.where, layout.kind, layout.codec, layout.size]
        results = [shown(cells[action]) if action in cells else "" for action in ACTIONS]
        lines.append("| " + " | ".join([*where, *results]) + " |")
    return "\n".join(lines)


def summary(found: dict[Layout, dict[str, Times]]) -> str:
    """Return one sentence about the goal."""
    ratios = [
        times["zarrs"] / times["omnizarr"]
        for cells in found.values()
        for times in cells.values()
        if times.get("zarrs") and times.get("omnizarr")
    ]
    met = sum(ratio >= GOAL for ratio in ratios)
    least = f", the least is {min(ratios):.2f}" if ratios else ""
    return f"{met} of {len(ratios)} cells are at least {GOAL} times as fast as zarrs{least}."


def heading(pipelines: dict[str, str], total: int) -> str:
    """Return what was measured."""
    zarrs = f", zarrs {version('zarrs')}" if "zarrs" in pipelines else ""
    return (
        f"zarr-python {zarr.__version__}{zarrs}; {total >> 20} MiB of float32, half of it in S3; "
        f"files in `{tempfile.gettempdir()}`, S3 on this machine, {1000 * LATENCY:.0f} ms added. "
        "Each cell: our milliseconds · the time of zarrs · of zarr-python's faster pipeline, as "
        f"multiples of ours; bold: below {GOAL}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="words that a cell must have, such as 'S3 raw'")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    pipelines = known_pipelines()
    total = 2**22 if given.quick else 2**24
    found: dict[Layout, dict[str, Times]] = {}
    with places() as stores:
        for layout in layouts(given.quick):
            words = given.only.split()
            actions = [a for a in ACTIONS if all(word in f"{layout} {a}" for word in words)]
            if not actions:
                continue
            size = total if layout.where == "local" else total // 2
            arrays, values = create(layout, stores[layout.where], pipelines, size)
            found[layout] = {}
            for action in actions:
                times = measure(action, arrays, values, RUNS, SECONDS)
                found[layout][action] = times
                print(layout, action, {k: v and round(v, 2) for k, v in times.items()}, flush=True)
    text = f"{heading(pipelines, total)}\n\n{table(found)}\n\n{summary(found)}\n"
    print(text)
    if not given.quick and not given.only:
        before, rest = PAGE.read_text().split(MARKS[0])
        PAGE.write_text(before + MARKS[0] + "\n" + text + MARKS[1] + rest.split(MARKS[1])[1])


if __name__ == "__main__":
    main()
