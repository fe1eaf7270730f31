"""Trials used by most cases: reading from an array, and writing one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Trial
from benchmarks.layouts import Layout, Workspace
from benchmarks.peers import Peer, Tensorstore, ZarrPython


@dataclass(frozen=True)
class Scale:
    """Sizes and repetitions of a run."""

    quick: bool
    shape: tuple[int, int, int]  # of the arrays that are read and written in full
    repeats: int
    seconds: float
    tiny_chunks: int
    strings: int
    arrays: int
    memory_shape: tuple[int, int, int]


FULL = Scale(False, (256, 256, 512), 5, 0.8, 10_000, 1_000_000, 10_000, (512, 512, 768))
QUICK = Scale(True, (128, 256, 256), 5, 0.1, 2_000, 100_000, 1_000, (256, 256, 512))


def neutral(layout: Layout) -> Peer:
    """Return the library that writes test data and checks what others wrote."""
    return ZarrPython() if layout.dtype == "string" else Tensorstore()


@contextmanager
def stored(workspace: Workspace, layout: Layout, data: npt.NDArray[Any]) -> Iterator[Path]:
    """Give the path of an array for all libraries to read, and delete it afterwards."""
    path = workspace.empty_array("read", layout)
    peer = neutral(layout)
    peer.write(peer.open(path, layout, writable=True), ..., data)
    yield path
    workspace.empty_folder("read")


def reading(
    peer: Peer,
    path: Path,
    layout: Layout,
    expected: Any,
    read: Callable[[Peer, Any], Any] = lambda peer, array: peer.read(array),
    per: int = 1,
) -> Trial:
    """Return a trial that reads an open array, or the part that `read` selects."""
    return Trial(
        prepare=lambda: peer.open(path, layout),
        run=partial(read, peer),
        check=lambda result: same(result, expected),
        per=per,
    )


def writing(peer: Peer, workspace: Workspace, layout: Layout, data: npt.NDArray[Any]) -> Trial:
    """Return a trial that fills an empty array; another library reads it back."""
    path = workspace.root / "written"
    reader = neutral(layout)

    def prepare() -> Any:
        workspace.empty_array("written", layout)
        return peer.open(path, layout, writable=True)

    return Trial(
        prepare=prepare,
        run=lambda array: peer.write(array, ..., data),
        check=lambda _: same(reader.read(reader.open(path, layout)), data),
    )


def same(result: Any, expected: Any) -> bool:
    """Return True if two arrays, or lists of arrays, have the same shapes and values."""
    if isinstance(expected, list):
        return len(result) == len(expected) and all(map(same, result, expected))
    result, expected = np.asarray(result), np.asarray(expected)
    if expected.dtype.kind in "OT":
        return bool(result.shape == expected.shape and result.tolist() == expected.tolist())
    return result.dtype == expected.dtype and np.array_equal(result, expected)


def each(where: Sequence[Any]) -> Callable[[Peer, Any], list[Any]]:
    """Return a function that reads one selection after the other."""
    return lambda peer, array: [peer.read(array, selection) for selection in where]


def boxes(shape: tuple[int, ...], edge: int, count: int, seed: int = 1) -> list[tuple[slice, ...]]:
    """Return cubes at random positions."""
    generator = np.random.default_rng(seed)
    starts = [[int(generator.integers(0, n - edge + 1)) for n in shape] for _ in range(count)]
    return [tuple(slice(s, s + edge) for s in start) for start in starts]
