"""``array.astype(dtype)``: read as another type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from omnizarr.hierarchy.lazy import Lazy


class Source(Protocol):
    """What a view needs of an array."""

    def __getitem__(self, selection: Any) -> Any: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    @property
    def oindex(self) -> Any: ...
    @property
    def vindex(self) -> Any: ...
    @property
    def blocks(self) -> Any: ...


class Converted(Lazy):
    """An array to read from, with elements of another type; everything else is the array's."""

    def __init__(self, source: Source, dtype: np.dtype[Any]) -> None:
        self._source = source
        self.dtype = dtype

    def __getitem__(self, selection: Any) -> Any:
        return np.asarray(self._source[selection]).astype(self.dtype)[()]

    @property
    def oindex(self) -> Converted:
        """Selects each axis on its own."""
        return Converted(self._source.oindex, self.dtype)

    @property
    def vindex(self) -> Converted:
        """Selects single points."""
        return Converted(self._source.vindex, self.dtype)

    @property
    def blocks(self) -> Converted:
        """Selects whole chunks."""
        return Converted(self._source.blocks, self.dtype)

    def _values(self) -> npt.NDArray[Any]:
        return np.asarray(self[...])

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[Any]:
        return (np.asarray(each).astype(self.dtype)[()] for each in self._source)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "ndim", "size", "chunks", "attrs", "name", "path", "fill_value"):
            return getattr(self._source, name)
        raise AttributeError(
            f"a view made by astype() has no {name!r}; it is for reading: see array.{name}"
        )

    def __repr__(self) -> str:
        return f"<{self._source!r} as {self.dtype}>"
