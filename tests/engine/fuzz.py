"""Random arrays, damage and invalid calls to find wrong results and crashes of the kernel.

A row that the kernel says it has done must hold what the reference engine reads; a row that the
reference engine refuses must not be done. Whatever it is called with, it raises or does its work.

    python -m tests.engine.fuzz --seconds 60 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import google_crc32c
import numpy as np

import omnizarr as oz
from omnizarr.engine import BoundArray, kernel, reference, rows
from omnizarr.indexing import Plan, axis_plan, plan, point_plan
from tests.conformance.shards import CRC32C, raw, sharding

DTYPES = ("|b1", "|u1", "<u2", "<i4", "<f4", "<f8", "<c16", "<M8[ns]", "|V3", "|V11")
DTYPES += ("|S70", "|V300")
REFUSALS = (ValueError, TypeError, OverflowError, BufferError)


# Layouts


def compressor(r: random.Random, size: int) -> dict[str, Any]:
    """Return any compressor that the kernel supports."""
    kind = r.choice(("blosc", "blosc", "blosc", "zstd", "lz4", "gzip", "numcodecs.zlib"))
    if kind == "zstd":
        config: dict[str, Any] = {"level": r.choice((-3, 0, 1, 7)), "checksum": r.random() < 0.5}
        return {"name": "zstd", "configuration": config}
    if kind in ("gzip", "numcodecs.zlib"):
        return {"name": kind, "configuration": {"level": r.choice((0, 1, 5, 9))}}
    if kind == "lz4":
        return {"name": "numcodecs.lz4", "configuration": {"acceleration": r.choice((0, 1, 9))}}
    config = {
        "cname": r.choice(("lz4", "lz4", "lz4hc", "zstd", "blosclz", "zlib")),
        "clevel": r.randint(0, 9),
        "shuffle": r.choice(("noshuffle", "shuffle", "bitshuffle")),
        "typesize": r.choice((size, size, size, 1, 3, 17, 255, 300)),
        "blocksize": r.choice((0, 0, 1, 7, 64, 100, 256, 1000, 4096)),
    }
    return {"name": "blosc", "configuration": config}


def inner_codecs(r: random.Random, rank: int, size: int) -> list[dict[str, Any]]:
    """Return transpose, bytes, and up to three bytes-to-bytes codecs."""
    found: list[dict[str, Any]] = []
    if rank > 1 and r.random() < 0.3:
        order = r.sample(range(rank), rank)
        found.append({"name": "transpose", "configuration": {"order": order}})
    found.append(raw(r.choice(("little", "little", "big"))))
    steps = r.choice(("", "p", "p", "p", "pc", "pc", "c", "cp", "cpc"))
    return found + [compressor(r, size) if step == "p" else CRC32C for step in steps]


def create(r: random.Random, where: Any) -> oz.Array:
    """Create an array of a random layout."""
    dtype = np.dtype(r.choice(DTYPES))
    rank = r.choice((0, 1, 1, 2, 2, 3))
    most = {0: 1, 1: 3000, 2: 70, 3: 18}[rank]
    chunks = tuple(r.randint(1, most) for _ in range(rank))
    codecs = inner_codecs(r, rank, dtype.itemsize)
    if rank and r.random() < 0.35:
        parts = tuple(r.randint(1, 3) for _ in range(rank))
        index = [raw(r.choice(("little", "big")))]
        index = [*index, CRC32C] if r.random() < 0.7 else index
        location = r.choice(("start", "end"))
        members = {"codecs": codecs, "index_codecs": index, "index_location": location}
        codecs = [sharding(*chunks, **members)]
        chunks = tuple(n * c for n, c in zip(parts, chunks, strict=True))
    shape = tuple(r.randint(1, 2 * c + 3) for c in chunks)
    fill = None if dtype.kind == "V" else np.zeros((), dtype)[()]
    return oz.create_array(
        where, shape=shape, dtype=dtype, chunks=chunks, codecs=codecs, fill_value=fill
    )


def values(r: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return bytes that compress well, badly or not at all, with runs of zeros."""
    count = int(np.prod(shape)) * dtype.itemsize
    numbers = np.random.default_rng(r.randrange(2**32))
    raw = numbers.integers(0, r.choice((2, 5, 60, 256)), count).astype(np.uint8)
    if r.random() < 0.5:
        raw[: count // 2] = 0
    if dtype.kind == "b":
        raw &= 1
    return raw.view(dtype).reshape(shape)


def selection(r: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a box with any steps; often small, so that chunks are read in part."""
    found: list[Any] = []
    for n in shape:
        start = r.randrange(n)
        stop = r.choice((n, n, min(n, start + 1), min(n, start + r.randint(1, n))))
        step = r.choice((1, 1, 1, 1, 2, 3, -1, -2, 1000))
        whole = slice(None, None, step)
        box = slice(start, stop, step) if step > 0 else whole
        found.append(r.choice((start, box, box, whole)))
    return (*found, ...)


def any_plan(r: random.Random, array: oz.Array) -> Plan:
    """Return a box, lists along some axes, or points."""
    grid, shape = array._bound.grid, array.shape
    kind = r.choice(("box", "box", "lists", "points")) if shape else "box"
    if kind == "box":
        return plan(grid, selection(r, shape))
    count = r.choice((1, 2, 30))
    if kind == "points":
        return point_plan(grid, tuple([r.randrange(n) for _ in range(count)] for n in shape))
    boxes = [p if isinstance(p, slice) else slice(p, p + 1) for p in selection(r, shape)[:-1]]
    chosen = [
        [r.randrange(n) for _ in range(count)] if r.random() < 0.6 else box
        for n, box in zip(shape, boxes, strict=True)
    ]
    return axis_plan(grid, tuple(chosen))


# Damage


def with_crc(body: bytes) -> bytes:
    """Append a checksum, so that damage gets past it."""
    return body + int(google_crc32c.value(body)).to_bytes(4, "little")


def damaged(r: random.Random, data: bytes) -> bytes:
    """Return bytes with flipped bits, truncated, extended, or with replaced numbers."""
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        kind = r.choice(("flip", "flip", "number", "number", "cut", "add", "swap", "header"))
        size = len(out)
        if kind == "cut" or not size:
            out = out[: r.randint(0, size)] if r.random() < 0.7 else out[r.randint(0, size) :]
        elif kind == "add":
            out += r.randbytes(r.choice((1, 4, 16, 5000)))
        elif kind == "flip":
            out[r.randrange(size)] ^= 1 << r.randrange(8)
        elif kind == "swap":
            a, b, n = r.randrange(size), r.randrange(size), r.choice((1, 4, 8, 16))
            out[a : a + n], out[b : b + n] = out[b : b + n], out[a : a + n]
        else:
            width = r.choice((1, 4, 4, 8))
            near = (0, 1, size, size - 16, size // 2, r.randrange(2 * size))
            far = (2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 16)
            number = r.choice((*near, *far)) % 2 ** (8 * width)
            at = r.randrange(min(size, 32 if kind == "header" else size))
            at -= at % width if r.random() < 0.8 else 0
            out[at : at + width] = number.to_bytes(width, r.choice(("little", "little", "big")))
    return bytes(out)


def steps_of(array: oz.Array) -> tuple[list[str], dict[str, Any] | None]:
    """Return the names of the codecs after 'bytes', and the configuration of shards."""
    names, shards = [], None
    for codec in array._bound.model.codecs:
        names.append(codec.name)
        if codec.name == "sharding_indexed":
            shards = dict(codec.configuration)
    return names, shards


def damaged_value(r: random.Random, array: oz.Array, data: bytes) -> bytes:
    """Return a stored chunk or shard with damage, half of the time with new checksums."""
    names, shards = steps_of(array)
    if shards is None:
        if names[-1] == "crc32c" and len(data) > 4 and r.random() < 0.7:
            return with_crc(damaged(r, data[:-4]))
        return damaged(r, data)
    bound: Any = array._bound.pipeline(array._bound.grid.regular).array_bytes
    size, end = bound.layout.index_size, bound.layout.at_end
    if r.random() < 0.3 or len(data) < size:
        return damaged(r, data)
    index, body = (data[-size:], data[:-size]) if end else (data[:size], data[size:])
    if r.random() < 0.6:
        checked = len(bound.layout.index_pipeline.bytes_bytes) == 1
        plain = damaged(r, index[:-4] if checked else index)[: size - 4 * checked]
        index = plain.ljust(size - 4 * checked, b"\0")
        index = with_crc(index) if checked else index
    else:
        body = damaged(r, body)
    return body + index if end else index + body


# What must hold


def listed(array: oz.Array, chosen: Plan) -> tuple[Any, list[rows.Row], rows.Source]:
    """Return a plan as a caller would list it that plans its own reads and writes."""
    bound, store = array._bound, array._bound.store
    taken = [*chosen.rows()]
    keys = [bound.key(row.coords) for row in taken]
    source: rows.Source
    if isinstance(store, oz.storage.LocalStore):
        source = rows.Files(store.direct_file_root, keys)
    else:
        source = rows.Buffers([store.get(key) for key in keys])
    capsule = getattr(kernel._layout(bound), "capsule", None)
    return capsule, [(r.region, r.outer, r.whole) for r in taken], source


def read_listed(array: oz.Array, chosen: Plan, out: np.ndarray[Any, Any]) -> list[int] | None:
    """Read as `kernel.read` does, with rows that are listed one by one."""
    capsule, boxes, source = listed(array, chosen)
    if capsule is None or not chosen.runs or not out.size:
        return None
    answer: list[int] | None = rows.read(capsule, boxes, source, out)
    return answer


def write_listed(array: oz.Array, chosen: Plan, value: np.ndarray[Any, Any]) -> bool:
    """Write rows that are listed one by one; False if the kernel refuses them."""
    capsule, boxes, source = listed(array, chosen)
    layout = kernel._layout(array._bound)
    if layout is None or not layout.writable or not chosen.runs or not value.size:
        return False
    left = rows.write(capsule, boxes, source, value)
    if left is None:
        return False
    assert not left
    made = source.values if isinstance(source, rows.Buffers) else []
    for row, stored in zip(chosen.rows(), made, strict=False):
        key = array._bound.key(row.coords)
        if stored is None:
            array.store.erase(key)
        else:
            array.store.set(key, stored)
    return True


def compare(array: oz.Array, rows: Plan, *, one_by_one: bool = False) -> str:
    """Compare every row that the kernel has done with the reference engine."""
    bound = array._bound
    ours = np.frombuffer(
        b"\xa5" * (int(np.prod(rows.full_shape)) * bound.dtype.itemsize), np.uint8
    ).copy()
    found = ours.view(bound.dtype).reshape(rows.full_shape)
    left = read_listed(array, rows, found) if one_by_one else kernel.read(bound, rows, found)
    if left is None:
        return "unknown"
    for number, row in enumerate(rows.rows()):
        if number in left:
            continue
        wanted = np.zeros_like(found)
        try:
            reference.read_row(bound, row, wanted)
        except oz.OmnizarrError as e:
            full = all(
                p == slice(0, n, 1) for p, n in zip(row.region, bound.grid.regular, strict=True)
            )
            if not full and reads_blocks(bound):
                continue  # of part of a chunk only some blocks are read, not the damaged one
            if row.pick is not None and "sharding_indexed" in str(bound.model.codecs):
                continue  # inner chunks between the elements are not read
            raise AssertionError(f"the kernel read what cannot be read: {e}") from e
        place = (*row.outer, ...)
        if found[place].tobytes() != wanted[place].tobytes():
            raise AssertionError(f"row {number} of {rows} differs: {array._bound.model}")
    return "left" if left else "done"


def compare_small(array: oz.Array, chosen: Any) -> str:
    """Compare a selection that one call reads with the reference engine."""
    bound = array._bound
    known: Any = bound.watch
    small = (*bound.small[:-1], 2**17) if bound.small else ()
    found = kernel.read_small(small, chosen, known.metadata, known.identity) if small else None
    if found is None:
        return "declined"
    try:
        with oz.configure(engine="reference"):
            wanted = array[chosen]
    except oz.OmnizarrError as e:
        if reads_blocks(bound) or "sharding_indexed" in str(bound.model.codecs):
            return "done"
        raise AssertionError(f"the kernel read what cannot be read: {e}") from e
    assert type(found) is type(wanted)
    assert found.tobytes() == wanted.tobytes(), (chosen, bound.model)
    return "done"


def reads_blocks(bound: BoundArray) -> bool:
    """Return True if of part of a chunk not all blocks are decoded, nor those with damage."""
    return any(codec in str(bound.model.codecs) for codec in ("blosc", "zstd"))


def try_array(r: random.Random, folder: Path) -> Counter[str]:
    """Write and read an array with both engines, then damage it repeatedly."""
    tally: Counter[str] = Counter()
    store = oz.storage.MemoryStore() if r.random() < 0.2 else oz.storage.LocalStore(folder)
    array = create(r, store)
    data = values(r, array.dtype, array.shape)
    wanted = np.zeros(array.shape, array.dtype)
    for _ in range(r.randint(1, 3)):
        chosen = (...,) if r.random() < 0.6 else selection(r, array.shape)
        with oz.configure(threads=r.choice((1, 4)), write_empty_chunks=r.random() < 0.1):
            rows = plan(array._bound.grid, chosen)
            value = np.empty(rows.full_shape, data.dtype)
            value[rows.final] = data[chosen]
            if r.random() < 0.5 or not write_listed(array, rows, value):
                array[chosen] = data[chosen]
            else:
                tally["listed: written"] += 1
        wanted[chosen] = data[chosen]
    if array.shape and r.random() < 0.5:
        points = tuple([r.randrange(n) for _ in range(9)] for n in array.shape)
        array.vindex[points] = data.reshape(-1)[:1].repeat(9)
        wanted[points] = data.reshape(-1)[0]
    for engine in ("reference", "auto"):
        with oz.configure(engine=engine):
            assert np.asarray(array[...], array.dtype).tobytes() == wanted.tobytes()
    for _ in range(4):
        rows = any_plan(r, array)
        tally["sound: " + compare(array, rows)] += 1
        tally["listed: " + compare(array, rows, one_by_one=True)] += 1
        tally["small: " + compare_small(array, selection(r, array.shape))] += 1
    for key in [k for k in store.list() if k != "zarr.json"][:2]:
        good = store.get(key)
        assert good is not None
        for _ in range(6):
            store.set(key, damaged_value(r, array, good))
            with oz.configure(threads=r.choice((1, 4))):
                everything = plan(array._bound.grid, ...)
                rows = everything if r.random() < 0.5 else any_plan(r, array)
                tally["damaged: " + compare(array, rows)] += 1
                found = compare(array, rows, one_by_one=True)
                tally["damaged, listed: " + found] += 1
                found = compare_small(array, selection(r, array.shape))
                tally["damaged, small: " + found] += 1
    return tally


# Nonsense

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 2**64, -(2**70)),
    *(1.5, "", "x", b"", b"\0", b"/x", b"x" * 5000, [], [None], [1], (), (1,), (0,), (-1,)),
    *((2**40,), (2**62, 4), (1, 2), (1, 0), (0, 0), (3, 2**32), ((),), ((1,),), {}, object()),
    *((1,) * 40, ((2, 9, 0, 1, 4, 0, 0),), ((2, 99, -1, 7, 0, 0, -1),), ((9,) * 7,), ("abc",)),
    *(((5, 99, 0, 0, 0, 0, 0),), ((6, 5, 0, 0, 0, 0, 0),)),
    *(np.zeros(3), np.zeros((2, 2), "V2"), np.arange(8)[::2], bytearray(8), memoryview(b"1")),
)


NUMBERS = (-1, 0, 1, 2, 5, 2**31, 2**62, 2**63 - 1, -(2**63))


def odd_column(r: random.Random, length: int) -> Any:
    return np.array([r.choice(NUMBERS) for _ in range(length)], np.int64)


def odd_axis(r: random.Random, axis: tuple[Any, ...]) -> Any:
    """Return one axis of a call with one thing wrong."""
    out = list(axis)
    at = r.randrange(len(out))
    numbers = r.random() < 0.5
    out[at] = odd_column(r, r.randint(0, 4)) if numbers else r.choice((*ODD, *NUMBERS))
    return tuple(out) if r.random() < 0.95 else r.choice(ODD)


def odd_points(r: random.Random) -> Any:
    """Return columns of points, valid or with one thing wrong."""
    lists = ([[0, 0], [1, 0]], [0, 1, 3], [[0, 7, 3], [3, 0, 2]], [0, 8, 4])
    out: list[Any] = [np.array(v, np.int64) for v in lists]
    if r.random() < 0.8:
        at = r.randrange(4)
        out[at] = odd_column(r, r.randint(0, 6)) if r.random() < 0.6 else r.choice(ODD)
    return out


def attempt(call: Any, args: list[Any]) -> Any:
    """Return the result, or None if the call was properly refused."""
    try:
        return call(*args)
    except REFUSALS:
        return None


def try_calls(r: random.Random, folder: Path) -> Counter[str]:
    """Call the kernel with one or two invalid arguments."""
    native: Any = kernel._kernel
    step = (2, 5, r.randint(0, 3), r.randint(0, 2), 2, 0, 0)
    inner = native.pipeline((4, 4), (0, 1), 2, 0, (step,), b"\1\2", False, None, *[False] * 3)
    chain = [(8, 4), (0, 1), 2, 0, (), b"\1\2", False, inner, True, False, True]
    tally: Counter[str] = Counter()
    for _ in range(r.choice((0, 1, 1, 2))):
        chain[r.randrange(len(chain))] = r.choice(ODD)
    capsule = attempt(native.pipeline, chain)
    tally["pipeline refused" if capsule is None else "pipeline made"] += 1
    bound = capsule if capsule is not None and r.random() < 0.5 else inner
    axis = (r.randint(0, 2), r.randint(0, 6), r.randint(1, 2), r.choice((8, 13)))
    axes: Any = (axis, (0, 8, 1, 8))
    writing = r.random() < 0.5
    given = [b"x" * r.randrange(99), None, b"", b"\2\1\x21\2"] if r.random() < 0.5 else None
    root = os.fsencode(os.path.join(folder, ""))
    array = np.zeros((9, 9), "V2")[:, :: r.choice((1, -1))]
    key = (b"a/", 0, ord("/"))
    flags = (writing, r.random() < 0.1, r.random() < 0.5)
    call = [bound, axes, root, given, *key, array, *flags, r.randint(1, 5), 0]
    if r.random() < 0.5:
        listed = tuple(np.array(v, np.int64) for v in ([0, 1], [0, 2, 3], [0, 3, 1], [8, 0, 4]))
        other = odd_axis(r, r.choice((axis, listed)))
        call[1] = (other, axis) if r.random() < 0.5 else (axis, other)
    if r.random() < 0.2:
        call[1], call[7] = odd_points(r), np.zeros(9, "V2")
    for _ in range(r.choice((0, 1, 1, 2))):
        call[r.randrange(len(call))] = r.choice(ODD)
    answer = attempt(native.run, call)
    assert answer is None or all(type(n) is int for n in answer)
    tally["run refused" if answer is None else "run done"] += 1
    small = [bound, (8, 13), root, *key, np.empty, np.dtype("V2"), 2**17]
    for _ in range(r.choice((0, 1, 1, 2))):
        small[r.randrange(len(small))] = r.choice((*ODD, *NUMBERS, np.zeros))
    index = odd_index(r, (slice(0, 8), r.randint(-13, 13)))
    answer = attempt(native.read_small, [tuple(small), index, b"", 0])
    tally["small refused" if answer is None else "small done"] += 1
    tally["rows refused" if try_rows(r, bound, root, given) is None else "rows done"] += 1
    return tally


def odd_index(r: random.Random, index: tuple[Any, ...]) -> Any:
    """Return the index of a chunk or of an array with one thing wrong."""
    out = list(index)
    near = (None, -9, -1, 0, 1, 3, 9)
    parts = [r.choice((*near, *NUMBERS)) for _ in range(3)]
    out[r.randrange(len(out))] = slice(*parts) if r.random() < 0.7 else r.choice((*ODD, *near))
    if r.random() < 0.1:
        return out[: r.randint(0, 2)]
    return tuple(out if r.random() < 0.9 else out * 2)


def try_rows(r: random.Random, capsule: Any, root: bytes, given: list[Any] | None) -> Any:
    """List rows of a call one by one, some of them invalid."""
    native: Any = kernel._kernel
    boxes: list[Any] = []
    for _ in range(4):
        inside: Any = (slice(0, 4), slice(r.randint(0, 1), 4, 2))
        outside: Any = (slice(5, 9), slice(start := r.randint(0, 7), start + 2))
        boxes.append((inside, outside, r.random() < 0.5))
    for at in r.sample(range(4), r.choice((0, 1, 1, 2))):
        row = list(boxes[at])
        which = r.randrange(3)
        row[which] = odd_index(r, row[which]) if which < 2 else r.choice(ODD)
        boxes[at] = tuple(row) if r.random() < 0.95 else r.choice(ODD)
    keys: Any = None if given is not None and r.random() < 0.5 else ["a/0", "b", "a/c/1", "c"]
    if keys and r.random() < 0.3:
        keys[r.randrange(4)] = r.choice((*ODD, "é", "\ud800", "a\0", "/x", "a//b", "x" * 5000))
    scalar = r.random() < 0.2
    array = np.zeros(() if scalar else (9, 9), "V2")
    flags = (scalar, scalar or r.random() < 0.5, *(r.random() < 0.3 for _ in range(3)))
    values = None if given is None else [*given]
    call = [capsule, boxes, keys, root, values, array, *flags, r.randint(1, 5), 0]
    for _ in range(r.choice((0, 0, 1, 2))):
        call[r.randrange(len(call))] = r.choice(ODD)
    return attempt(native.run_rows, call)


def run(seed: int, rounds: int, folder: Path, seconds: float = 1e9) -> Counter[str]:
    """Run rounds of both kinds until there are enough or time runs out; return counts."""
    tally: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in range(rounds):
        if time.monotonic() > end:
            break
        r = random.Random(f"{seed}/{number}")
        place, other = folder / "x", folder / "calls"  # which may leave files of any name
        other.mkdir(exist_ok=True)
        try:
            with mock.patch.object(kernel, "SMALL", 0):  # threads for small arrays too
                tally += try_array(r, place)
            for _ in range(20):
                tally += try_calls(r, place if place.exists() else other)
        except AssertionError as e:
            e.add_note(f"seed {seed}, round {number}")
            raise
        shutil.rmtree(place, ignore_errors=True)
        tally["rounds"] += 1
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10**9)
    given = parser.parse_args()
    assert kernel.available()
    print("kernel:", kernel._kernel.__file__)
    with tempfile.TemporaryDirectory() as folder:
        for what, count in sorted(
            run(given.seed, given.rounds, Path(folder), given.seconds).items()
        ):
            print(f"{count:9} {what}")


if __name__ == "__main__":
    main()
