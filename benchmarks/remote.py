"""Measure time, processor time, requests and bytes of remote stores, against other libraries.

A server in its own process answers every request after a delay (`benchmarks.server`), as plain HTTP
and as S3. All libraries answer a question one after the other, several times, each run with new
stores and new connections; the best run counts. A ratio above 1 says that omnizarr takes less time
than the fastest of the others. ``python -m benchmarks.remote`` writes the table of
``docs/generated/remote.md``; ``--only WORDS`` answers some questions and writes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorstore as ts
import xarray as xr
import zarr
from obstore.store import HTTPStore, S3Store

import omnizarr
from benchmarks import server
from omnizarr.stores import resolve

try:
    import zarrista
except ImportError:
    zarrista = None

RUNS = 5
SLOW = 10.0  # seconds of a run that is not repeated
PAGE = Path(__file__).parents[1] / "docs" / "generated" / "remote.md"
MARKS = "<!-- remote: begin -->", "<!-- remote: end -->"
OURS, OURS_MANY = "omnizarr", "omnizarr, 512 requests"
MEDIUM, TINY = "read 512 × 64 KiB", "10,000 tiny chunks"  # asked with more requests at a time, too
_new_names = itertools.count()


@dataclass(frozen=True)
class Place:
    """A path below the server's bucket, reached as plain HTTP or as S3."""

    kind: str
    url: str
    path: str

    @property
    def address(self) -> str:
        return f"{self.url}/bucket/{self.path}"

    def ours(self, *, read_only: bool = True) -> Any:
        if self.kind == "http":
            return resolve(self.address, read_only=read_only)
        return resolve(
            f"s3://bucket/{self.path}", read_only=read_only, storage_options=self.s3_options
        )

    @property
    def s3_options(self) -> dict[str, Any]:
        return {
            "endpoint": self.url,
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
        }

    def obstore(self) -> Any:
        plain: Any = {"allow_http": True}
        if self.kind == "http":
            return HTTPStore.from_url(self.address, client_options=plain)
        options: Any = self.s3_options
        return S3Store("bucket", prefix=self.path, client_options=plain, **options)

    def tensorstore(self) -> dict[str, Any]:
        if self.kind == "http":
            return {"driver": "http", "base_url": f"{self.address}/"}
        return {
            "driver": "s3",
            "bucket": "bucket",
            "path": f"{self.path}/",
            "endpoint": self.url,
            "aws_region": "us-east-1",
            "aws_credentials": {"type": "environment"},
        }

    def fsspec(self) -> Any:
        return zarr.storage.FsspecStore.from_url(self.address, read_only=True)


# Libraries: open an array, read a part of it, write all of it


@dataclass(frozen=True)
class Library:
    """How a library opens, reads, writes and creates; None where it cannot."""

    open: Callable[[Place, str], Any]
    read: Callable[[Any, Any], Any]
    write: Callable[[Any, Any], Any] | None = None
    create: Callable[[Place], Any] | None = None
    kinds: tuple[str, ...] = ("http", "s3")


SHAPE, CHUNKS = (1024, 1024), (128, 128)


def _open_ours(place: Place, mode: str) -> Any:
    return omnizarr.open(place.ours(read_only=mode == "r"), mode, zarr_format=3, kind="array")


def _create_ours(place: Place) -> Any:
    store = place.ours(read_only=False)
    return omnizarr.create_array(store, shape=SHAPE, chunks=CHUNKS, dtype="u2")


def _open_zarr(kind: str, place: Place, mode: str) -> Any:
    store = (
        place.fsspec()
        if kind == "fsspec"
        else zarr.storage.ObjectStore(place.obstore(), read_only=mode == "r")
    )
    return zarr.open_array(store, mode=mode, zarr_format=3)


def _create_zarr(place: Place) -> Any:
    store = zarr.storage.ObjectStore(place.obstore())
    return zarr.create_array(store, shape=SHAPE, chunks=CHUNKS, dtype="u2")


def _open_tensorstore(at_once: int | None, place: Place, mode: str) -> Any:
    limits = {} if at_once is None else {f"{place.kind}_request_concurrency": {"limit": at_once}}
    context = ts.Context(limits)  # of this run alone, so that nothing is cached
    spec = {"driver": "zarr3", "kvstore": place.tensorstore()}
    return ts.open(spec, context=context, read=True, write=mode != "r", open=True).result()


def _create_tensorstore(place: Place) -> Any:
    grid = {"name": "regular", "configuration": {"chunk_shape": CHUNKS}}
    metadata = {"shape": SHAPE, "data_type": "uint16", "chunk_grid": grid}
    spec = {"driver": "zarr3", "kvstore": place.tensorstore(), "metadata": metadata}
    return ts.open(spec, context=ts.Context(), create=True).result()


def _write_tensorstore(array: Any, data: Any) -> None:
    array.write(data).result()


def _put(array: Any, data: Any) -> None:
    array[...] = data


def _open_zarrista(place: Place, mode: str) -> Any:
    async def opened() -> Any:
        return await zarrista.AsyncArray.open(place.obstore())

    return asyncio.run(opened())


def _read_zarrista(array: Any, selection: Any) -> Any:
    async def read() -> Any:
        return await array.retrieve_array_subset(selection)

    return np.asarray(asyncio.run(read()))


def _read_many(array: Any, selection: Any) -> Any:
    with omnizarr.configure(requests=512):
        return array[selection]


LIBRARIES = {
    OURS: Library(_open_ours, lambda a, s: a[s], _put, _create_ours),
    OURS_MANY: Library(_open_ours, _read_many),
    "zarr-python, obstore": Library(
        partial(_open_zarr, "obstore"), lambda a, s: a[s], _put, _create_zarr
    ),
    "zarr-python, fsspec": Library(
        partial(_open_zarr, "fsspec"), lambda a, s: a[s], kinds=("http",)
    ),
    "tensorstore": Library(
        partial(_open_tensorstore, None),
        lambda a, s: a[s].read().result(),
        _write_tensorstore,
        _create_tensorstore,
    ),
    "tensorstore, 512 requests": Library(
        partial(_open_tensorstore, 512),
        lambda a, s: a[s].read().result(),
        _write_tensorstore,
    ),
}
if zarrista is not None:
    LIBRARIES["zarrista"] = Library(_open_zarrista, _read_zarrista)


# Questions


Answers: TypeAlias = dict[str, Callable[[Place], Any]]


@dataclass(frozen=True)
class Question:
    """One row: a way to answer for each library, and the answer that must come."""

    title: str
    kind: str
    latency: float
    answers: Answers
    path: str
    expected: Any = None


@dataclass
class Best:
    """The best of the runs of one library."""

    seconds: float = float("inf")
    processor: float = float("inf")
    measured: server.Measured = field(default_factory=server.Measured)
    error: str = ""


def _reads(*selections: Any) -> Answers:
    def answer(library: Library, place: Place) -> list[Any]:
        array = library.open(place, "r")
        return [library.read(array, selection) for selection in selections]

    return {name: partial(answer, library) for name, library in LIBRARIES.items()}


def _writes(data: Any) -> Answers:
    def answer(library: Library, write: Callable[[Any, Any], Any], place: Place) -> None:
        write(library.open(place, "r+"), data)

    return {n: partial(answer, lib, lib.write) for n, lib in LIBRARIES.items() if lib.write}


def _creates() -> Answers:
    def answer(create: Callable[[Place], Any], place: Place) -> None:
        create(Place(place.kind, place.url, f"new/{next(_new_names)}"))

    return {n: partial(answer, lib.create) for n, lib in LIBRARIES.items() if lib.create}


def _datasets() -> Answers:
    def answer(opened: Callable[[Place], xr.Dataset], place: Place) -> list[Any]:
        return [sorted(opened(place).variables)]

    def theirs(place: Place, store: Any) -> xr.Dataset:
        return xr.open_dataset(store(place), engine="zarr", consolidated=True, chunks=None)

    stores: dict[str, Any] = {
        "zarr-python, obstore": lambda p: zarr.storage.ObjectStore(p.obstore(), read_only=True),
        "zarr-python, fsspec": Place.fsspec,
    }
    return {
        OURS: partial(answer, lambda place: xr.open_dataset(place.address, engine="omnizarr")),
        **{n: partial(answer, partial(theirs, store=store)) for n, store in stores.items()},
    }


def _members() -> Answers:
    def ours(place: Place) -> list[Any]:
        return [sorted(name for name, _ in omnizarr.open(place.address).members())]

    def theirs(store: Any, place: Place) -> list[Any]:
        group = zarr.open_group(store(place), mode="r", use_consolidated=True)
        return [sorted(name for name, _ in group.members())]

    stores: dict[str, Any] = {
        "zarr-python, obstore": lambda p: zarr.storage.ObjectStore(p.obstore(), read_only=True),
        "zarr-python, fsspec": Place.fsspec,
    }
    return {OURS: ours, **{name: partial(theirs, store) for name, store in stores.items()}}


class Data:
    """The values on the server, and the questions about them."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self._random = np.random.default_rng(0)

    def questions(self) -> list[Question]:
        """Return all rows; the first call makes the values."""
        everything: Any = (slice(None),) * 2
        large = self._array("large", (8192, 4096), (1024, 512))  # 64 × 1 MiB
        medium = self._array("medium", (8192, 2048), (256, 128))  # 512 × 64 KiB
        tiny = self._array("tiny", (800, 800), (8, 8))  # 10,000 × 128 bytes
        blosc = self._array("blosc", (4096, 4096), (1448, 1448), codecs="fast")
        shards = self._array("shards", (2048, 2048), (64, 64), shards=(512, 512))
        names = self._datasets()
        elements = [(slice(i, i + 1), slice(i, i + 1)) for i in (10, 1500, 2000, 2900, 3900)]
        corners = self._random.integers(0, 2048 - 100, (20, 2)).tolist()
        boxes = [(slice(i, i + 100), slice(j, j + 100)) for i, j in corners]
        fifty = [[f"a{i:02}" for i in range(50)]]
        read = "http", "s3"
        asked: list[tuple[str, tuple[str, ...], Callable[[], Answers], str, Any]] = [
            ("read 64 × 1 MiB", read, partial(_reads, everything), "large", [large]),
            (MEDIUM, read, partial(_reads, everything), "medium", [medium]),
            (TINY, read, partial(_reads, everything), "tiny", [tiny]),
            (
                "one element of a 4 MiB blosc chunk, 5 times",
                *(read, partial(_reads, *elements), "blosc", [blosc[s] for s in elements]),
            ),
            (
                "20 random boxes in shards",
                *(read, partial(_reads, *boxes), "shards", [shards[s] for s in boxes]),
            ),
            ("create one array", ("s3",), _creates, "", None),
            ("write 64 × 1 MiB", ("s3",), partial(_writes, large), "written", None),
            ("xarray.open_dataset, v2", ("http",), _datasets, "set2", [names]),
            ("xarray.open_dataset, v3", ("http",), _datasets, "set3", [names]),
            ("members of a consolidated group of 50", ("http",), _members, "fifty", fifty),
        ]
        rows = []
        for latency in (0.02, 0.2):
            for title, kinds, answers, path, expected in asked:
                found = answers()
                if title not in (MEDIUM, TINY):
                    found.pop(OURS_MANY, None)
                if title == TINY and latency > 0.1:  # the others take minutes
                    found = {n: a for n, a in found.items() if n.startswith((OURS, "tensorstore"))}
                rows += [Question(title, k, latency, found, path, expected) for k in kinds]
        rows.append(Question("read 64 × 1 MiB", "http", 0.5, _reads(everything), "large", [large]))
        del rows[-1].answers[OURS_MANY]
        return rows

    def _array(
        self, path: str, shape: Any, chunks: Any, *, codecs: Any = None, **options: Any
    ) -> Any:
        data = self._random.integers(0, 1000, shape, "u2")
        store = omnizarr.storage.MemoryStore(self.values)
        if codecs is None:
            codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
            if path == "large":
                omnizarr.create_array(
                    store, path="written", shape=shape, dtype="u2", chunks=chunks, codecs=codecs
                )
        if codecs == "fast":
            options["compressors"] = {
                "name": "blosc",
                "configuration": {"cname": "zstd", "clevel": 1, "shuffle": "shuffle"},
            }
        else:
            options["codecs"] = codecs
        omnizarr.create_array(store, path=path, data=data, chunks=chunks, **options)
        return data

    def _datasets(self) -> list[str]:
        size = 16
        dims = ("time", "y", "x")
        variables = {f"v{i:02}": (dims, self._random.random((size,) * 3, "f4")) for i in range(27)}
        dataset = xr.Dataset(variables, {d: np.arange(size, dtype="f8") for d in dims})
        for version in (2, 3):
            store = zarr.storage.MemoryStore()
            dataset.to_zarr(store, zarr_format=version, consolidated=True)
            found = {f"set{version}/{k}": v.to_bytes() for k, v in store._store_dict.items()}
            self.values |= found
        group = omnizarr.create_group(omnizarr.storage.MemoryStore(self.values), path="fifty")
        for i in range(50):
            group.create_array(f"a{i:02}", shape=3, dtype="i4")
        omnizarr.consolidate_metadata(omnizarr.storage.MemoryStore(self.values), "fifty")
        return sorted(dataset.variables)


def ask(question: Question, url: str, runs: int) -> dict[str, Best]:
    """Return the best run of each library, whose runs are interleaved."""
    place = Place(question.kind, url, question.path)
    server.set_latency(url, question.latency)
    found = {name: Best() for name in question.answers if question.kind in LIBRARIES[name].kinds}
    for _ in range(runs):
        for name, best in found.items():
            if not best.error and not SLOW < best.seconds < float("inf"):
                _run(question, name, place, best)
    return found


def _run(question: Question, name: str, place: Place, best: Best) -> None:
    server.measured(place.url)
    processor, start = time.process_time(), time.perf_counter()
    try:
        result = question.answers[name](place)
    except Exception as e:  # another library's failure is a result too
        best.error = f"{type(e).__name__}: {e}"
        if name.startswith(OURS):
            raise
        return
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    measured = server.measured(place.url)
    for got, expected in zip(result or [], question.expected or [], strict=True):
        np.testing.assert_array_equal(np.asarray(got).reshape(np.shape(expected)), expected)
    best.processor = min(best.processor, processor)
    if seconds < best.seconds:
        best.seconds, best.measured = seconds, measured


def _line(question: Question, found: dict[str, Best]) -> str:
    """Return a row of the table."""
    cells = [question.title, f"{question.kind}, {question.latency * 1000:.0f} ms"]
    for name in LIBRARIES:
        best = found.get(name)
        if best is None:
            cells.append("")
        elif best.error:
            cells.append("fails")
        else:
            requests, processor = best.measured.requests, best.processor
            cells.append(f"{best.seconds * 1000:.0f} ms, {processor * 1000:.0f} cpu, {requests}")
    others = [b.seconds for n, b in found.items() if not n.startswith(OURS) and not b.error]
    cells.append(f"{min(others) / found[OURS].seconds:.2f}" if others else "")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, print, and write the table to the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="words of titles")
    parser.add_argument("--ours", action="store_true", help="omnizarr alone")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    data = Data()
    questions = data.questions()
    lines = [
        f"| question | server | {' | '.join(LIBRARIES)} | fastest other / omnizarr |",
        "| --- " * (3 + len(LIBRARIES)) + "|",
    ]
    print("\n".join(lines), flush=True)
    with server.running(data.values) as url:
        for question in questions:
            words = f"{question.title} {question.kind} {question.latency}"
            if options.only and not all(word in words for word in options.only):
                continue
            if options.ours:
                question = Question(**{**vars(question), "answers": {OURS: question.answers[OURS]}})
            found = ask(question, url, options.runs)
            lines.append(_line(question, found))
            print(lines[-1], flush=True)
            for name, best in found.items():
                if best.error:
                    print(f"  {name}: {best.error[:200]}", flush=True)
    if not options.only and not options.ours:
        before, _, rest = PAGE.read_text().partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        table = "\n".join(lines)
        PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
