"""Hostile inputs: metadata, chunks, shards and archives, corrupted at random.

Each is read as a user would. It gives values, or an error of this library; anything else, and an
input that takes longer than `TIMEOUT`, is an AssertionError that names the seed. Run alone with
``python -m tests.soak.inputs --seconds 60``, which also bounds the memory of the process.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import random
import resource
import signal
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

import omnizarr as oz
from omnizarr.codecs import CodecPipeline, Spec, bind_pipeline
from omnizarr.data_types import bind as bind_type
from omnizarr.model import Named
from omnizarr.stores import MemoryStore

TIMEOUT = 5.0  # seconds for one input, on a machine that does much else
MEMORY = 2**31  # bytes of address space above what the process has when it begins
LITTLE = Named("bytes", {"endian": "little"})
CODECS: dict[str, tuple[Named, ...]] = {
    "none": (LITTLE,),
    "big-endian": (Named("bytes", {"endian": "big"}),),
    "crc32c": (LITTLE, Named("crc32c")),
    "gzip": (LITTLE, Named("gzip", {"level": 1})),
    "zstd": (LITTLE, Named("zstd", {"level": 1, "checksum": False})),
    "blosc": (
        LITTLE,
        Named(
            "blosc",
            {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
        ),
    ),
    **{
        name: (LITTLE, Named(f"numcodecs.{name}", config))
        for name, config in {
            "zlib": {"level": 1},
            "bz2": {"level": 1},
            "lzma": {"preset": 0},
            "lz4": {"acceleration": 1},
            "shuffle": {"elementsize": 4},
            "adler32": {},
            "fletcher32": {},
        }.items()
    },
    "transpose": (Named("transpose", {"order": [1, 0]}), LITTLE),
    "sharding": (
        Named(
            "sharding_indexed",
            {
                "chunk_shape": [4, 4],
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
                "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            },
        ),
    ),
}
TEXT = {"vlen-utf8": "string", "vlen-bytes": "bytes"}
NUMBERS = (-1, 0, 1, 2, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
ODD: tuple[Any, ...] = (
    *(None, True, False, "", "x", "..", "../..", "/etc", "\0", "NaN", "0x7fc00000", 1.5, 1e308),
    *(*NUMBERS, 10**30, -(2**63), [], {}, [[]], [None], {"name": "bytes"}, {"name": ""}, [1] * 40),
    *("int8", "float16", "<M8[ns]", "|O", "complex128", "r16", "pickle", {"id": "pickle"}),
)


def changed_bytes(r: random.Random, good: bytes) -> bytes:
    """Return bytes that are truncated, extended, flipped, or overwritten with a false number."""
    data = bytearray(good)
    for _ in range(r.choice((1, 1, 2, 5))):
        at = r.randrange(len(data) + 1)
        kind = r.randrange(6)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = r.randbytes(r.randrange(1, 9))
        elif kind == 2 and data:
            data[at % len(data)] ^= 1 << r.randrange(8)
        elif kind == 3:
            size = r.choice((1, 2, 4, 8))
            number = r.choice(NUMBERS) % 2 ** (8 * size)
            data[at : at + size] = number.to_bytes(size, r.choice(("little", "big")))
        elif kind == 4:
            del data[at : at + r.randrange(1, 20)]
        else:
            data[at:at] = data[: r.randrange(len(data) + 1)]
    return bytes(data)


def members(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container inside a JSON value with each of its keys."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(inside):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from members(item)


def changed_document(r: random.Random, text: bytes) -> bytes:
    """Return metadata with a member dropped, replaced or added, or no longer valid JSON."""
    if r.random() < 0.3:
        return changed_bytes(r, text)
    doc = json.loads(text)
    for _ in range(r.choice((1, 1, 2, 4))):
        found = list(members(doc))
        if not found:
            break
        inside, key = r.choice(found)
        kind = r.randrange(4)
        if kind == 0:
            del inside[key]
        elif kind == 1 and isinstance(inside, dict):
            name = r.choice(("", "x", "zarr_format", "shape", "codecs"))
            inside[name] = copy.deepcopy(r.choice(ODD))
        elif kind == 2:
            other, from_ = r.choice(found)
            if isinstance(other, list) or from_ in other:
                inside[key] = json.loads(json.dumps(other[from_]))
        else:
            inside[key] = copy.deepcopy(r.choice(ODD))
    return json.dumps(doc).encode()


# What is tried


Values: TypeAlias = dict[str, bytes]
DTYPES = ("u1", "<i4", ">f8", "c8", "M8[s]", "S3", "record")
RECORD = [("a", "<i2"), ("b", "u1")]


@lru_cache(None)
def _array(zarr_format: Any, dtype: str, sharded: bool) -> Values:
    """Return the keys and values of an array of a format and type."""
    store = MemoryStore()
    given: dict[str, Any] = {"shape": (9, 7), "chunks": (4, 4), "zarr_format": zarr_format}
    if sharded:
        given["shards"] = (8, 8)
    kind = np.dtype(RECORD if dtype == "record" else dtype)
    array = oz.create_array(store, dtype=kind, **given)
    with oz.configure(write_empty_chunks=True):
        array[:5] = np.zeros((5, 7), kind)
    return store.values


def _with(values: Values, key: str, changed: bytes) -> MemoryStore:
    store = MemoryStore()
    store.values.update(values)
    store.set(key, changed)
    return store


def try_documents(r: random.Random) -> Callable[[], None]:
    zarr_format: Any = r.choice((1, 2, "3-draft", 3))
    sharded = zarr_format == 3 and r.random() < 0.4
    values = _array(zarr_format, r.choice(DTYPES), sharded)
    key = r.choice([k for k, value in values.items() if value[:1] == b"{"])
    store = _with(values, key, changed_document(r, values[key]))

    def read() -> None:
        oz.validate(store)
        found = oz.open(store)
        str(found.info), repr(found)
        if isinstance(found, oz.Array) and found.nbytes < 2**24 and found.nchunks < 2**10:
            found[...]

    return read


@lru_cache(None)
def _encoded(name: str, compressed: bool) -> tuple[CodecPipeline, tuple[int, ...], bytes]:
    """Return a codec pipeline, and an encoded chunk with its shape."""
    if name in TEXT:
        data_type = bind_type(Named(TEXT[name]))
        codecs: tuple[Named, ...] = (Named(name),)
        if compressed:
            codecs = (*codecs, Named("zstd", {"level": 1, "checksum": False}))
        values = np.array([["ab", "c" * 30, ""]] * 3, object)
        values = values if name == "vlen-utf8" else np.vectorize(str.encode, "O")(values)
        values = values.astype(data_type.dtype)
    else:
        codecs = CODECS[name]
        data_type = bind_type(Named("int32"))
        values = (np.arange(64, dtype="i4") // 5).reshape(8, 8)
    pipeline = bind_pipeline(
        codecs, Spec(values.shape, data_type, data_type.scalar(data_type.zero))
    )
    return pipeline, values.shape, bytes(pipeline.encode(values))


def try_chunks(r: random.Random) -> Callable[[], None]:
    name = r.choice(list(TEXT if r.random() < 0.15 else CODECS))
    pipeline, shape, good = _encoded(name, r.random() < 0.5)
    bad = changed_bytes(r, good)

    def read() -> None:
        assert pipeline.decode(bad).shape == shape

    return read


@lru_cache(None)
def _sharded(zarr_format: Any) -> tuple[Values, str]:
    """Return an array of one shard, and its key."""
    store = MemoryStore()
    array = oz.create_array(
        store, shape=(8, 8), chunks=(4, 2), shards=(8, 8), dtype="u1", zarr_format=zarr_format
    )
    array[...] = np.arange(1, 65).reshape(8, 8)
    [key] = [k for k, value in store.values.items() if value[:1] != b"{"]
    return store.values, key


def try_shards(r: random.Random) -> Callable[[], None]:
    values, key = _sharded(r.choice((3, 3, "3-draft")))
    store = _with(values, key, changed_bytes(r, values[key]))
    chosen = r.choice((..., (3, 5), (slice(0, 8, 3), slice(2, 7)), ([1, 6], [0, 7])))
    engine = r.choice(("auto", "reference"))

    def read() -> None:
        with oz.configure(engine=engine):
            array = oz.open(store)
            array[chosen]
            array.chunks_present()
            oz.verify(store)

    return read


def _archive() -> bytes:
    out = io.BytesIO()
    store = MemoryStore()
    group = oz.create_group(store)
    group.create_array("a", data=np.arange(100, dtype="i4"), chunks=30)
    with zipfile.ZipFile(out, "w") as archive:
        for number, key in enumerate(store.list()):
            kind = zipfile.ZIP_DEFLATED if number % 2 else zipfile.ZIP_STORED
            archive.writestr(key, store.values[key], kind)
    return out.getvalue()


ARCHIVE = _archive()


def try_archives(r: random.Random, file: str) -> Callable[[], None]:
    directory = ARCHIVE.rindex(b"PK\1\2", 0, ARCHIVE.index(b"PK\5\6")) if r.random() < 0.5 else 0
    bad = ARCHIVE[:directory] + changed_bytes(r, ARCHIVE[directory:])
    with open(file, "wb") as out:
        out.write(bad)

    def read() -> None:
        group = oz.open(file)
        for name in list(group):
            group[name][...]

    return read


def one(kind: str, seed: str, file: str) -> str:
    """Try one input of a kind and return the result."""
    r = random.Random(seed)
    tries: dict[str, Callable[[random.Random], Callable[[], None]]] = {
        "documents": try_documents,
        "chunks": try_chunks,
        "shards": try_shards,
        "archives": lambda r: try_archives(r, file),
    }
    read = tries[kind](r)
    begin = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
        answer = "read"
    except oz.OmnizarrError:
        answer = "refused"
    except Exception as e:
        raise AssertionError(f"{kind} {seed}: {type(e).__name__}: {e}") from e
    taken = time.monotonic() - begin
    if taken > TIMEOUT:
        raise AssertionError(f"{kind} {seed}: took {taken:.1f} s")
    return answer


KINDS = {"documents": 2, "chunks": 8, "shards": 2, "archives": 1}  # inputs of a round
A_ROUND = sum(KINDS.values())


def run(
    seed: int, rounds: int, file: str, seconds: float = 1e9, kill_after: float = 0
) -> Counter[str]:
    """Run rounds of a few inputs of each kind and count the results.

    An input that takes longer than `kill_after` seconds ends the process, even in compiled code.
    """
    tally: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in range(rounds):
        if time.monotonic() > end:
            break
        for kind, count in KINDS.items():
            for n in range(count):
                if kill_after:
                    signal.setitimer(signal.ITIMER_REAL, kill_after)
                tally[f"{kind} {one(kind, f'{seed}/{number}/{n}', file)}"] += 1
                tally["inputs"] += 1
    return tally


def bound_memory() -> None:
    """Limit this process to `MEMORY` bytes above what it has now."""
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10**9)
    parser.add_argument("--file", default="/tmp/omnizarr-soak.zip")
    given = parser.parse_args()
    bound_memory()
    found = run(given.seed, given.rounds, given.file, given.seconds, 12 * TIMEOUT)
    for what, count in sorted(found.items()):
        print(f"{count:9} {what}")


if __name__ == "__main__":
    main()
