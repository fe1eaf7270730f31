"""Operations in a process whose first, second, … allocation fails.

``python -m tests.soak.memory FOLDER OPERATION ENGINE CODEC STEP`` runs in an interpreter of its
own, under a library that makes allocations fail (`failing_memory.c`); then with limits on the
address space.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

import omnizarr as oz
from omnizarr import ome
from omnizarr.engine.kernel import empty
from omnizarr.errors import OmnizarrError
from tests.soak.operations import OPERATIONS, OPTIONS, Operation, elements, finish, torn

ENGINES = ("auto", "reference")
CODECS: dict[str, Callable[[], Any]] = {
    "blosc": oz.codecs.BloscCodec,
    "zstd": oz.codecs.ZstdCodec,
    "gzip": oz.codecs.GzipCodec,
    "none": lambda: None,
}
LEAST = 2**12  # bytes of an allocation that may fail; NumPy has errors of its own for less
MUCH = np.random.default_rng(0).integers(1, 2**31, 2**22, dtype="i4")  # hardly to be packed
MOST, STRIDE = 2**25, 2**20  # bytes of address space that are left, in steps
# The C library keeps less memory that was freed.
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
Then: TypeAlias = Literal["alone", "and all after it"]
SOURCE = Path(__file__).with_name("failing_memory.c")


def build(folder: Path) -> Path | None:
    """Return the path of the library, or None if there is no compiler."""
    compiler, made = shutil.which("cc"), folder / "failing_memory.so"
    if compiler is None or sys.platform != "linux":
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return made if done.returncode == 0 else None


def run(
    library: Path, folder: Path, operation: str, engine: str, codec: str, step: int = 1
) -> dict[str, int]:
    """Count failed allocations and reported errors; raise if anything is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [str(folder), operation, engine, codec, str(step)]
    command = [sys.executable, "-m", "tests.soak.memory", *words]
    environment = {**os.environ, "LD_PRELOAD": str(library), **GIVES_BACK}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=3600, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{operation} {engine}: {done.returncode}: {done.stderr[-4000:]}")
    found: dict[str, int] = json.loads(done.stdout)
    return found


def _much(location: Path) -> oz.Array:
    return oz.create_array(location / "x", data=MUCH, chunks=2**18, **OPTIONS)


def read_much(location: Path) -> Operation:
    array = _much(location)
    assert np.array_equal((yield lambda: array[...]), MUCH)


def write_much(location: Path) -> Operation:
    array, values = _much(location), MUCH[::-1].copy()
    yield lambda: array.__setitem__(..., values)
    assert np.array_equal(array[...], values)


def change_much(location: Path) -> Operation:
    array, values = _much(location), -MUCH[5:]
    yield lambda: array.__setitem__(slice(5, None), values)
    assert np.array_equal(array[5:], values)


def copy_much(location: Path) -> Operation:
    array = _much(location)
    yield lambda: oz.create_array(location / "y", data=array, chunks=3 * 10**5, overwrite=True)
    assert np.array_equal(oz.open(location / "y")[...], MUCH)


def shrink_much(location: Path) -> Operation:
    image = _much(location)[...].reshape(2**11, 2**11)
    yield lambda: ome.write(location / "y", image, axes="yx", levels=3, overwrite=True, **OPTIONS)
    assert np.array_equal(ome.open(location / "y").levels[0][...], image)


LARGE: dict[str, Callable[[Path], Operation]] = {
    "read much": read_much,
    "write much": write_much,
    "change much": change_much,
    "copy much": copy_much,
    "shrink much": shrink_much,
}


class _Preloaded:
    """Return the library that this process was started with."""

    def __init__(self, path: str, least: int) -> None:
        self._library, self._least = ctypes.CDLL(path), least
        self._library.fail_from.argtypes = [ctypes.c_long, ctypes.c_size_t, ctypes.c_int]
        self._library.fail_no_more.restype = ctypes.c_long

    @contextmanager
    def failing(self, number: int, then: Then) -> Iterator[list[int]]:
        """Make the n-th allocation fail, and count failures."""
        failed = [0]
        self._library.fail_from(number, self._least, then == "and all after it")
        try:
            yield failed
        finally:
            failed[0] = self._library.fail_no_more()


@contextmanager
def _limited(extra: int) -> Iterator[None]:
    """Limit the address space to so many bytes beyond those in use."""
    kept = [empty(MUCH.shape, MUCH.dtype) for _ in range(4)]  # what the kernel would take first
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        del kept


@dataclass
class _Tries:
    """The results of an operation that was tried repeatedly."""

    operation: str
    folder: Path
    failed: int = 0
    errors: int = 0
    number: int = 0

    def once(self, shortage: AbstractContextManager[list[int] | None]) -> bool:
        """Return True if memory was short: an error, or a tolerated allocation failure."""
        self.number += 1
        location = self.folder / str(self.number)
        steps = {**OPERATIONS, **LARGE}[self.operation](location)
        act, old, error, found = *_prepared(steps, location), None, None
        with shortage as failed:
            try:
                found = act()
            except (MemoryError, OmnizarrError) as e:
                error = e.with_traceback(None)
        if error is not None:
            between = elements(location)
            found = act()
            assert not torn(old, between, elements(location)), f"torn: {self.number}"
        finish(steps, found)
        shutil.rmtree(location)
        short = error is not None or bool(failed and failed[0])
        self.failed += short
        self.errors += error is not None
        return short


def _prepared(steps: Operation, location: Path) -> tuple[Any, dict[str, Any]]:
    return next(steps), elements(location)


def main(folder: str, operation: str, engine: str, codec: str, step: str) -> None:
    warnings.simplefilter("ignore")
    oz.config.set(engine=engine, threads=4)
    OPTIONS["compressors"] = CODECS[codec]()
    tries = _Tries(operation, Path(folder))
    tries.once(nullcontext())
    if operation in LARGE:
        for extra in range(0, MOST, STRIDE * int(step)):
            tries.once(_limited(extra))
    else:
        library = _Preloaded(os.environ["LD_PRELOAD"], LEAST)
        for then in get_args(Then):
            number = 0
            while tries.once(library.failing(number, then)):
                number += int(step)
    print(json.dumps({"failed": tries.failed, "errors": tries.errors, "tried": tries.number}))


if __name__ == "__main__":
    main(*sys.argv[1:])
