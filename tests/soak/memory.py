"""Operations in a process whose first, second, … allocation fails.

``python -m tests.soak.memory FOLDER OPERATION ENGINE CODEC STEP`` runs in an interpreter of its
own, under a library that makes allocations fail (`failing_memory.c`); large operations run with
limits on the address space instead.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz
from omnizarr.engine.kernel import empty
from omnizarr.errors import OmnizarrError
from tests.soak.operations import OPERATIONS, OPTIONS, Operation, elements, finish, torn

CODECS: dict[str, Callable[[], Any]] = {
    "blosc": oz.codecs.BloscCodec,
    "zstd": oz.codecs.ZstdCodec,
    "gzip": oz.codecs.GzipCodec,
}
LEAST = 2**12  # bytes of an allocation that may fail; NumPy has errors of its own for less
MUCH = np.random.default_rng(0).integers(1, 2**31, 2**22, dtype="i4")  # hardly to be packed
MOST, STRIDE = 2**25, 2**20  # bytes of address space that are left, in steps
SOURCE = Path(__file__).with_name("failing_memory.c")


def _much(location: Path) -> oz.Array:
    return oz.create_array(location / "x", data=MUCH, chunks=2**18, **OPTIONS)


def read_much(location: Path) -> Operation:
    array = _much(location)
    assert np.array_equal((yield lambda: array[...]), MUCH)


def change_much(location: Path) -> Operation:
    array, values = _much(location), -MUCH[5:]
    yield lambda: array.__setitem__(slice(5, None), values)
    assert np.array_equal(array[5:], values)


def copy_much(location: Path) -> Operation:
    array = _much(location)
    yield lambda: oz.create_array(location / "y", data=array, chunks=3 * 10**5, overwrite=True)
    assert np.array_equal(oz.open(location / "y")[...], MUCH)


LARGE: dict[str, Callable[[Path], Operation]] = {
    "read much": read_much,
    "change much": change_much,
    "copy much": copy_much,
}


@contextmanager
def _failing(library: ctypes.CDLL, number: int, and_all_after: bool) -> Iterator[list[int]]:
    """Make the n-th allocation fail, and count failures."""
    failed = [0]
    library.fail_from(ctypes.c_long(number), ctypes.c_size_t(LEAST), int(and_all_after))
    try:
        yield failed
    finally:
        failed[0] = library.fail_no_more()


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


def once(operation: str, location: Path, shortage: AbstractContextManager[Any]) -> bool:
    """Return True if memory was short: an error, or a tolerated allocation failure.

    After an error every element is old or new, and the operation works when it is repeated.
    """
    steps = {**OPERATIONS, **LARGE}[operation](location)
    act = next(steps)
    old, error, found = elements(location), None, None
    with shortage as failed:
        try:
            found = act()
        except (MemoryError, OmnizarrError) as e:
            error = e.with_traceback(None)
    if error is not None:
        between = elements(location)
        found = act()
        assert not torn(old, between, elements(location)), "elements that nobody wrote"
    finish(steps, found)
    shutil.rmtree(location)
    return error is not None or bool(failed and failed[0])


def main(folder: str, operation: str, engine: str, codec: str, step: str) -> None:
    """Try an operation with each shortage; whatever is wrong raises."""
    warnings.simplefilter("ignore")
    oz.config.set(engine=engine, threads=4)
    OPTIONS["compressors"] = CODECS[codec]()
    place = Path(folder) / "place"
    once(operation, place, nullcontext())
    if operation in LARGE:
        for extra in range(0, MOST, STRIDE * int(step)):
            once(operation, place, _limited(extra))
        return
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.fail_no_more.restype = ctypes.c_long
    for and_all_after in (False, True):
        number = 0
        while once(operation, place, _failing(library, number, and_all_after)):
            number += int(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
