"""Operations in a process with few free file descriptors."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import omnizarr as oz
from omnizarr.model.paths import OURS
from omnizarr.publish.stage import JOURNAL, MARKER  # which a conversion leaves, to be resumed
from tests.files import files
from tests.soak.operations import ERASING, OPERATIONS, elements, finish, torn

HANDFUL = 5


@contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Limit the number of files that can be opened until the block ends."""
    gc.collect()  # so that collected garbage does not free others later
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] <= highest:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + count, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


def descriptors(most: int = 0) -> int:
    """Return the number of open files; if above `most`, collect garbage and count again."""
    if most and len(os.listdir("/proc/self/fd")) > most:
        gc.collect()
    return len(os.listdir("/proc/self/fd"))


def run(folder: Path, operation: str) -> None:
    """Try an operation with 0, 1, … descriptors left: it reports that, or succeeds.

    Whatever is wrong raises: another error, a descriptor that is kept, a file that nobody wrote.
    """
    steps = OPERATIONS[operation](folder / "first")  # what is loaded once needs descriptors too
    finish(steps, next(steps)())
    reported = [_once(folder / str(count), operation, count) for count in range(HANDFUL + 1)]
    for again in range(5):  # what other tests left may have closed one just then
        if reported[0] or operation in ERASING:
            break
        reported[0] = _once(folder / f"again {again}", operation, 0)
    assert reported[0] or operation in ERASING, "it needs no descriptor"
    assert not reported[HANDFUL], "a handful of descriptors is not enough"


def _once(location: Path, operation: str, count: int) -> bool:
    """Return True if there was an error; it must then work with free descriptors."""
    steps = OPERATIONS[operation](location)
    act = next(steps)
    old, before, were = files(location), descriptors(), elements(location)
    with free_descriptors(count):
        words, found = _tried(act)
    if words:
        assert "Too many open files" in words, words
        assert str(location) in words, words
        between, are = files(location), elements(location)
        ours = [name for name in between if OURS in name]
        left = [name for name in ours if not name.endswith(MARKER) and JOURNAL not in name]
        assert not left, "something is left behind"
        assert count or between == old, "with no descriptor something was changed"
        found = act()
        assert not torn(were, are, elements(location)), "elements that nobody wrote"
    finish(steps, found)
    del found
    assert descriptors(before) <= before, "descriptors were kept"
    return bool(words)


def _tried(act: Callable[[], Any]) -> tuple[str, Any]:
    """Return the error, or the result."""
    try:
        return "", act()
    except oz.OmnizarrError as e:
        return str(e), None
