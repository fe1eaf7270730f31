"""Rows that a caller lists one by one, each with a key and boxes of its own, for the kernel.

A caller that plans its own reads and writes, such as zarr-python, has no grid and no plan of this
package. Each row is a tuple that ends with the index of the chunk, the index of the array, and
True if the row replaces all that the chunk has of the array.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from omnizarr.engine import kernel

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Files:
    """Rows whose values are files below a directory."""

    root: bytes  # the directory with a final slash
    keys: list[str]

    def part(self, numbers: Iterable[int]) -> Files:
        """Return the values of some rows."""
        return Files(self.root, [self.keys[n] for n in numbers])


@dataclass(frozen=True, slots=True)
class Buffers:
    """Rows whose values are buffers in memory."""

    values: list[Any]  # a buffer or None for each row; replaced by what is stored

    def part(self, numbers: Iterable[int]) -> Buffers:
        """Return the values of some rows."""
        return Buffers([self.values[n] for n in numbers])


Source: TypeAlias = Files | Buffers


def read(
    capsule: Any,
    rows: list[Row],
    source: Source,
    out: npt.NDArray[Any],
    *,
    skip_missing: bool = False,
    tell_missing: bool = False,
) -> Any:
    """Fill `out` and return the rows that are left; None if some are not boxes.

    With `skip_missing` rows that would get the fill value are left too. With `tell_missing` return
    also which rows have no value.
    """
    values, keys, root = _members(source)
    missing = {"skip_missing": skip_missing, "tell_missing": tell_missing}
    return kernel.call_rows(capsule, rows, values, out, keys, root, **missing)


def write(capsule: Any, rows: list[Row], source: Source, value: npt.NDArray[Any]) -> Any:
    """Store the values and return the rows that are left; None if some are not boxes.

    A value without axes is stored everywhere, unless chunks have none.
    """
    scalar = not value.ndim and bool(rows) and bool(rows[0][-3])
    values, keys, root = _members(source)
    return kernel.call_rows(capsule, rows, values, value, keys, root, scalar=scalar, writing=True)


def _members(source: Source) -> tuple[list[Any] | None, list[str] | None, bytes]:
    """Return the values, or else the keys and the directory of files."""
    if isinstance(source, Buffers):
        return source.values, None, b""
    return None, source.keys, source.root
