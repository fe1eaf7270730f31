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

from omnizarr import config
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

    `skip_missing`: leave rows that get the fill value, too; `tell_missing`: say which have none.
    """
    return _run(capsule, rows, source, out, False, False, False, skip_missing, tell_missing)


def write(capsule: Any, rows: list[Row], source: Source, value: npt.NDArray[Any]) -> Any:
    """Store the values and return the rows that are left; None if some are not boxes.

    A value without axes is stored everywhere, unless chunks have none.
    """
    scalar = not value.ndim and bool(rows) and bool(rows[0][-3])
    sync = config.get().durability == "fsync"
    return _run(capsule, rows, source, value, scalar, True, sync, False, False)


def _run(
    capsule: Any, rows: list[Row], source: Source, data: npt.NDArray[Any], *flags: bool
) -> Any:
    """Run the rows; `flags` are the last ones that the kernel takes before the threads."""
    where: tuple[Any, ...]
    if isinstance(source, Buffers):
        where = None, b"", source.values
    else:
        where = source.keys, source.root, None
    data = data.view(kernel.items[data.itemsize])
    return kernel.on_threads(kernel.run_rows, None, capsule, rows, *where, data, *flags)
