"""transpose: axes in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayArrayCodec, Spec
from omnizarr.errors import InvalidMetadata


@dataclass(frozen=True, slots=True)
class Transpose(ArrayArrayCodec):
    """``transpose`` of version 3: ``{"order": [1, 0]}``; writers of 2023 also wrote "C" and "F".

    Versions 1 and 2 have ``"order": "F"``, and the draft ``"chunk_memory_layout": "F"``, for the
    reversed order.

    Attributes:
        order: The axes in the order in which they are stored.

    Examples:
        >>> oz.create_array(shape=(2, 3), filters=[oz.codecs.TransposeCodec(order=(1, 0))]).order
        'F'
    """

    order: tuple[int, ...] | str

    name: ClassVar[str] = "transpose"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: Any = self.order
        if isinstance(given, list):
            object.__setattr__(self, "order", tuple(given))
        order = self.order
        integers = isinstance(order, tuple) and all(
            isinstance(i, int) and not isinstance(i, bool) for i in order
        )
        good = order in ("C", "F") or (integers and sorted(order) == list(range(len(order))))
        self.check("order", good, "a permutation of the axes")

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the permutation for an array of that rank."""
        if isinstance(self.order, str):
            return tuple(range(rank)) if self.order == "C" else tuple(reversed(range(rank)))
        if len(self.order) != rank:
            raise InvalidMetadata(
                f"codec 'transpose': order {list(self.order)} has {len(self.order)} axes,"
                f" the chunk has {rank}"
            )
        return self.order

    def resolve(self, spec: Spec) -> Spec:
        axes = self.axes(len(spec.shape))
        return Spec(tuple(spec.shape[i] for i in axes), spec.data_type, spec.fill)

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.transpose(self.axes(array.ndim))

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.transpose(np.argsort(self.axes(array.ndim)))
