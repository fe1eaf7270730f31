"""Writers killed (kill -9) at random moments: every value is old or new afterwards."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz
from omnizarr.model.paths import OURS

SIDE = 5000  # elements of a chunk
LONGEST = 0.04  # seconds until a writer is killed


@dataclass(frozen=True)
class Task:
    """A write that is repeated, and a check that the result is not torn."""

    prepare: Callable[[str], object]
    work: Callable[[str], Iterator[None]]
    whole: Callable[[str], bool]


def run(folder: Path, name: str, kills: int, seed: int = 0) -> dict[str, int]:
    """Count killed writers, torn values, and files left after repair."""
    path, task, chance = str(folder / name), TASKS[name], random.Random(seed)
    task.prepare(path)
    torn, left, done = 0, 0, 0
    for number in range(kills):
        done += _killed(task, path, chance.uniform(0, LONGEST))
        torn += not _is_whole(task, path)
        if number % 25 == 24 or number == kills - 1:
            oz.repair(path, dry_run=False, older_than=0)
            left += sum(OURS in file for _, _, files in os.walk(path) for file in files)
            torn += not _is_whole(task, path)
    return {"killed": done, "torn": torn, "left": left}


def _killed(task: Task, path: str, seconds: float) -> bool:
    """Return True if a writer was still running when it was killed."""
    writer = os.fork()
    if writer == 0:
        try:
            for _ in task.work(path):
                pass
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(writer, signal.SIGKILL)
    _, status = os.waitpid(writer, 0)
    return os.WIFSIGNALED(status)


def _is_whole(task: Task, path: str) -> bool:
    try:
        return task.whole(path)
    except oz.OmnizarrError as e:
        print(f"{path}: {e}")
        return False


def _array(**options: Any) -> Callable[[str], object]:
    def prepare(path: str) -> None:
        array = oz.create_array(path, dtype="i4", **options)
        array[...] = 1

    return prepare


def _writable(path: str) -> Any:
    return oz.open(path, mode="r+")


def _values() -> Iterator[int]:
    return itertools.count(time.time_ns() % 10**6 + 1)


def _whole_chunks(path: str) -> Iterator[None]:
    array = _writable(path)
    for value in _values():
        array[:] = np.arange(len(array)) // SIDE + value
        yield


def _chunks_are_uniform(path: str) -> bool:
    rows = oz.open(path)[:].reshape(-1, SIDE)
    return bool((rows == rows[:, :1]).all() and (rows > 0).all())


def _parts(path: str) -> Iterator[None]:
    array = _writable(path)
    for value in _values():
        array[100 : SIDE - 100] = value
        array[SIDE + 100 : 2 * SIDE - 100] = value
        yield


def _parts_are_uniform(path: str) -> bool:
    rows = oz.open(path)[:].reshape(-1, SIDE)
    inside, edge = rows[:2, 100 : SIDE - 100], rows[:2, :100]
    return bool((inside == inside[:, :1]).all() and (edge == 1).all() and (rows[2:] == 1).all())


def _stream(path: str) -> Iterator[None]:
    array = _writable(path)
    for value in _values():
        with array.writer() as writer:
            for start in range(0, len(array), 700):
                writer[start : start + 700] = value
        yield


def _append(path: str) -> Iterator[None]:
    array = _writable(path)
    while len(array) < 10**6:
        array.append(np.arange(len(array), len(array) + 777, dtype="i4"))
        yield


def _counts(path: str) -> bool:
    found = oz.open(path)[:]
    return np.array_equal(found, np.arange(len(found)))


def _prepare_counting(path: str) -> None:
    oz.create_array(path, shape=(0,), chunks=(1000,), dtype="i4", fill_value=-1)


def _prepare_resizing(path: str) -> None:
    array = oz.create_array(path, shape=(3 * SIDE,), chunks=(SIDE // 10,), dtype="i4")
    array[:] = np.arange(1, len(array) + 1)


def _resize(path: str) -> Iterator[None]:
    array = _writable(path)
    while True:
        array.resize(SIDE // 3, outside="erase")
        yield
        array.append(np.arange(SIDE // 3 + 1, 3 * SIDE + 1, dtype="i4"))
        yield


def _resized(path: str) -> bool:
    found = oz.open(path)[:]
    right = np.array_equal(found, np.arange(1, len(found) + 1))
    return right and len(found) in (SIDE // 3, 3 * SIDE)


def _attributes(path: str) -> Iterator[None]:
    array = _writable(path)
    for value in _values():
        array.attrs.update(first=value, second=[value] * 100)
        yield


def _attributes_agree(path: str) -> bool:
    attributes = oz.open(path).attrs
    return attributes.get("second") == (
        [attributes["first"]] * 100 if "first" in attributes else None
    )


def _prepare_group(path: str) -> None:
    group = oz.create_group(path)
    for name in "abc":
        group.create_array(name, shape=(3,), dtype="i4")[:] = 7
    oz.consolidate_metadata(path)


def _consolidate(path: str) -> Iterator[None]:
    group = oz.open(path, mode="r+")
    for value in _values():
        group["abc"[value % 3]].attrs["value"] = value
        oz.consolidate_metadata(path)
        yield


def _hierarchy_is_readable(path: str) -> bool:
    copies, group = oz.open(path, mode="r", use_consolidated=True), oz.open(path, mode="r")
    names = list(copies) == list(group) == ["a", "b", "c"]
    return names and all((group[n][:] == 7).all() and copies[n].shape == (3,) for n in "abc")


PLAIN = {"shape": (4 * SIDE,), "chunks": (SIDE,)}
SHARDED = {"shape": (4 * SIDE,), "chunks": (SIDE // 10,), "shards": (SIDE,)}
TASKS = {
    "chunk": Task(_array(**PLAIN), _whole_chunks, _chunks_are_uniform),
    "part of a chunk": Task(_array(**PLAIN), _parts, _parts_are_uniform),
    "shard": Task(_array(**SHARDED), _whole_chunks, _chunks_are_uniform),
    "part of a shard": Task(_array(**SHARDED), _parts, _parts_are_uniform),
    "streaming shard": Task(_array(**SHARDED), _stream, _chunks_are_uniform),
    "append": Task(_prepare_counting, _append, _counts),
    "resize": Task(_prepare_resizing, _resize, _resized),
    "attributes": Task(_array(**PLAIN), _attributes, _attributes_agree),
    "consolidation": Task(_prepare_group, _consolidate, _hierarchy_is_readable),
}
