"""reshape and squeeze: the same items in the same order, in another shape."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from omnizarr.codecs.codec import ArrayArrayCodec, Spec
from omnizarr.model.fields import MAX_RANK
from omnizarr.model.node import invalid


@dataclass(frozen=True, slots=True)
class Reshape(ArrayArrayCodec):
    """The registered extension ``reshape`` of version 3: ``{"shape": [[0, 1], 10, -1]}``.

    The length of an axis of the result is a number, the product of the listed axes of the input, or
    -1 for the rest. Listed axes must be those that the axis of the result covers.
    """

    shape: tuple[int | tuple[int, ...], ...]

    name: ClassVar[str] = "reshape"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: Any = self.shape
        listed = isinstance(given, (list, tuple))
        self.check("shape", listed and len(given) <= MAX_RANK, f"at most {MAX_RANK} lengths")
        shape = tuple(tuple(n) if isinstance(n, (list, tuple)) else n for n in given)
        object.__setattr__(self, "shape", shape)
        for n in shape:
            good = all(map(_axis, n)) if isinstance(n, tuple) else _length(n)
            self.check("shape", good, "positive lengths, -1, or lists of input axes")
        self.check("shape", shape.count(-1) <= 1, "at most one -1")
        axes = [axis for n in shape if isinstance(n, tuple) for axis in n]
        rising = all(a < b for a, b in itertools.pairwise(axes))
        self.check("shape", rising, "input axes in rising order (transpose is another codec)")

    def after(self, before: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an encoded array, from that of the array."""
        known = [self._resolved(n, before) for n in self.shape]
        rest = math.prod(n for n in known if n != -1)
        whole = math.prod(before)
        if -1 in known and rest and whole % rest == 0:
            known[known.index(-1)] = whole // rest
        if -1 in known or math.prod(known) != whole:
            message = f"{list(self.shape)} does not hold the {whole} items of shape {before}"
            raise invalid("codec", self.name, "shape", message)
        for i, axes in enumerate(self.shape):
            if isinstance(axes, tuple) and axes:
                left, right = math.prod(before[: axes[0]]), math.prod(before[axes[-1] + 1 :])
                if (math.prod(known[:i]), math.prod(known[i + 1 :])) != (left, right):
                    message = f"axis {i} does not cover the input axes {list(axes)} of {before}"
                    raise invalid("codec", self.name, "shape", message)
        return tuple(known)

    def _resolved(self, stated: int | tuple[int, ...], before: tuple[int, ...]) -> int:
        if isinstance(stated, int):
            return stated
        if any(axis >= len(before) for axis in stated):
            message = f"the chunk has {len(before)} axes, so there are none of {list(stated)}"
            raise invalid("codec", self.name, "shape", message)
        return math.prod(before[axis] for axis in stated)

    def resolve(self, spec: Spec) -> Spec:
        return Spec(self.after(spec.shape), spec.data_type, spec.fill)

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.reshape(self.after(spec.shape))

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class Squeeze(ArrayArrayCodec):
    """The codec ``zarrs.squeeze`` of zarrs: a chunk without its axes of length 1.

    There is no configuration. A chunk of one item becomes one axis of length 1.
    """

    name: ClassVar[str] = "zarrs.squeeze"
    borrows: ClassVar[bool] = True

    def resolve(self, spec: Spec) -> Spec:
        shape = tuple(n for n in spec.shape if n != 1)
        return Spec(shape or (1,), spec.data_type, spec.fill)

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.reshape(self.resolve(spec).shape)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.reshape(spec.shape)


def _axis(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _length(value: Any) -> bool:
    return (_axis(value) and value > 0) or (type(value) is int and value == -1)
