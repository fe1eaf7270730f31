"""Values that are read when NumPy asks for them: what arrays and views of them have in common."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt


class Lazy:
    """Gives its values to ``np.asarray``."""

    def _values(self) -> npt.NDArray[Any]:
        """All of them, in memory of their own."""
        raise NotImplementedError

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a stored array cannot be seen without a copy")
        values = self._values()
        return values if dtype is None else values.astype(dtype, copy=False)


class Shaped(Lazy):
    """The same, with axes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self!r} has no axes, so it has no len()")
        return self.shape[0]
