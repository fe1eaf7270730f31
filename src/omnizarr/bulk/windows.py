"""Samples that are windows of an array, such as 6 times by 256 by 256 pixels, in groups.

A group is a box of neighbouring windows; what they cover together is read at once. A chunk that
windows of two groups need is decoded for each of them. So groups are chosen as large as needed for
each chunk to be decoded `MOST_DECODED` times on average, and as small as that allows.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidArgument, WrongType
from omnizarr.extension import GridAxis, Integers

Edges: TypeAlias = Literal["drop", "pad"]
Lengths: TypeAlias = "Mapping[str, int] | Sequence[int]"
Axis: TypeAlias = "tuple[str | None, GridAxis, int]"  # its name, its chunks, and where it begins
MOST_DECODED = 1.2
SHAPES = 2**17  # of groups that are compared, at most
MAX_GROUPS = 2**20  # along an axis
MIXED = (8, 4, 2, 1)  # groups in memory together: as many as that allows


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Equally spaced windows of an array, and the groups of them."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    cuts: tuple[Integers, ...]  # for each axis the first window of every group, and the end
    together: int  # groups that fit the memory

    @property
    def bounds(self) -> Integers:
        """The number of windows before every group, in C order, and of all."""
        counts = np.ones(1, np.int64)
        for cuts in self.cuts:
            counts = np.multiply.outer(counts, np.diff(cuts)).ravel()
        return np.append(0, np.cumsum(counts))

    def starts(self, group: int, low: int, high: int) -> Integers:
        """Return where the windows of a group between two numbers begin, one row for each."""
        at = np.unravel_index(group, [len(cuts) - 1 for cuts in self.cuts])
        sides = [cuts[i : i + 2].tolist() for cuts, i in zip(self.cuts, at, strict=True)]
        inside = np.unravel_index(np.arange(low, high), [end - first for first, end in sides])
        columns = zip(inside, sides, self.strides, strict=True)
        return np.stack([(n + first) * stride for n, (first, _), stride in columns], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Boxes of an array in memory, and the windows in them."""

    boxes: list[npt.NDArray[Any]]
    owners: Integers  # the box of each window
    starts: Integers  # where it begins in the box, one row for each
    sizes: tuple[int, ...]

    def take(self, chosen: Integers, axis: int = 0) -> npt.NDArray[Any]:
        """Return some windows as one array; `axis` is the new one, the first."""
        out = np.empty((len(chosen), *self.sizes), self.boxes[0].dtype)
        for number, n in enumerate(chosen.tolist()):
            sides = zip(self.starts[n].tolist(), self.sizes, strict=True)
            out[number] = self.boxes[self.owners[n]][tuple(slice(a, a + w) for a, w in sides)]
        return out


def _lengths(
    what: str, given: Any, names: Sequence[str | None], default: tuple[int, ...]
) -> tuple[int, ...]:
    """Return a length for every axis; `default` has those of axes that are not named."""
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name is None or name not in names]:
            raise InvalidArgument(f"{what}: no dimension {unknown[0]!r}, they are {[*names]}")
        given = [given.get(name, n) for name, n in zip(names, default, strict=True)]
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise WrongType(f"{what} must be lengths by name, or for every axis, got {given!r}")
    if len(given) != len(default):
        raise InvalidArgument(f"{what} must have a length for each of {len(default)} axes")
    try:
        lengths = tuple(map(operator.index, given))
    except TypeError:
        raise WrongType(f"{what} must have integers, got {given!r}") from None
    if any(n < 1 and length for n, length in zip(lengths, default, strict=True)):
        raise InvalidArgument(f"{what} must have lengths of at least 1, got {given!r}")
    return lengths


def find_windows(
    shape: tuple[int, ...],
    layout: Sequence[Axis],
    items: int,
    sample: Lengths,
    stride: Lengths | None,
    edges: Edges,
    shuffled: bool,
) -> Windows:
    """Return the windows of an array in groups that cover at most `items` elements, if possible.

    Without shuffling, groups follow each other in C order.
    """
    if edges not in ("drop", "pad"):
        raise InvalidArgument(f"edges must be 'drop' or 'pad', got {edges!r}")
    names = [name for name, _, _ in layout]
    sizes = _lengths("sample", sample, names, shape)
    strides = sizes if stride is None else _lengths("stride", stride, names, sizes)
    if edges == "drop" and any(n > length > 0 for n, length in zip(sizes, shape, strict=True)):
        raise InvalidArgument(f"a sample of {sizes} is larger than the array, of shape {shape}")
    axes: list[list[_Cuts]] = []
    columns = [*zip(shape, sizes, strides, layout, strict=True)]
    counts = [_count(length, size, stride, edges) for length, size, stride, _ in columns]
    few = int(min(64, max(2, SHAPES ** (1 / max(1, sum(n > 1 for n in counts))))))
    ratio = covered = np.ones(1)
    one, ordered = np.ones(1, bool), np.ones(1, bool)
    for n, column in zip(counts, columns, strict=True):
        axes.append(_groups(n, few, *column))
        ratio = np.multiply.outer(ratio, [cuts.ratio for cuts in axes[-1]]).ravel()
        covered = np.multiply.outer(covered, [cuts.covered for cuts in axes[-1]]).ravel()
        each = np.array([cuts.each for cuts in axes[-1]])
        # In C order, an axis is divided only if groups have one window along those before it.
        ordered = (np.outer(ordered, each >= n) | np.outer(one, each > 0)).ravel()
        one = np.outer(one, each == 1).ravel()
    allowed = np.ones(len(ratio), bool) if shuffled else ordered
    best = _best(np.where(allowed, ratio, np.inf), covered, items, MIXED if shuffled else (1,))
    chosen = np.unravel_index(best, [len(axis) for axis in axes])
    cuts = tuple(axis[i].cuts for axis, i in zip(axes, chosen, strict=True))
    return Windows(sizes, strides, cuts, max(1, int(items // covered[best])))


def _count(length: int, size: int, stride: int, edges: Edges) -> int:
    """Return the number of windows along an axis: those inside, or enough to reach its end."""
    if edges == "drop" or not length:
        return (length - size) // stride + 1 if length else 0
    return min(1 + max(0, -(-(length - size) // stride)), -(-length // stride))


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """One axis cut into groups of windows."""

    each: int  # windows in a group; the last one may have fewer
    cuts: Integers
    ratio: float  # how often a chunk is decoded, on average
    covered: float  # elements


def _groups(n: int, few: int, length: int, size: int, stride: int, axis: Axis) -> list[_Cuts]:
    """Return some ways to cut `n` windows along an axis into groups."""
    _, chunks, origin = axis

    def decoded(begin: Integers, end: Integers) -> Integers:
        """Return how many chunks groups of windows need, each from a window up to another."""
        last = np.minimum((end - 1) * stride + size, length) - 1
        found: Integers = chunks.chunk_of(origin + last) - chunks.chunk_of(origin + begin * stride)
        return found + 1

    some = np.arange(min(n, MAX_GROUPS))
    begins = origin + some * stride
    first, last = chunks.chunk_of(begins), chunks.chunk_of(begins) - 1 + decoded(some, some + 1)
    if stride <= size or n > MAX_GROUPS:
        needed = decoded(np.zeros(1, np.int64), np.array([n]))[0]
    else:  # chunks may lie between windows
        needed = (last - first + 1).sum() - (last[:-1] == first[1:]).sum()
    aligned = np.flatnonzero(first[1:] > chunks.chunk_of(begins[1:] - 1))
    unit = int(aligned[0]) + 1 if len(aligned) else 1  # windows until one begins with a chunk
    steps = np.geomspace(1, max(1, n), few // 2).astype(np.int64)
    found: list[_Cuts] = []
    for each in sorted({*steps.tolist(), *(steps * unit).tolist(), max(1, n)}):
        if n <= each * MAX_GROUPS and each <= max(1, n):
            cuts = np.append(np.arange(0, n, each), n)
            ratio = decoded(cuts[:-1], cuts[1:]).sum() / max(1, needed)
            found.append(_Cuts(each, cuts, float(ratio), (each - 1) * stride + size))
    return found


def _best(
    ratio: npt.NDArray[Any], covered: npt.NDArray[Any], items: int, mixes: Sequence[int]
) -> int:
    """Return the number of the best shape of groups.

    If possible, several fit the memory; then fewer chunks are decoded twice; then they are large.
    """
    for limit, most in (*((items // mixed, MOST_DECODED) for mixed in mixes), (items, np.inf)):
        fits = np.flatnonzero((covered <= limit) & (ratio <= most) & (ratio < np.inf))
        if len(fits):
            return int(fits[np.lexsort((-covered[fits], ratio[fits]))[0]])
    return int(np.argmin(np.where(ratio < np.inf, covered, np.inf)))
