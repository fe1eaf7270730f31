"""Codecs from arrays to arrays that keep the data type: transpose, reshape, squeeze, bitround."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayArrayCodec, Spec
from omnizarr.data_types import as_type
from omnizarr.data_types.cast import is_complex_pair
from omnizarr.errors import InvalidMetadata
from omnizarr.model.fields import MAX_RANK
from omnizarr.model.node import invalid


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

    def __post_init__(self) -> None:
        given: Any = self.order
        if isinstance(given, list):
            object.__setattr__(self, "order", tuple(given))
        order = self.order
        integers = isinstance(order, tuple) and all(type(i) is int for i in order)
        good = order in ("C", "F") or (integers and sorted(order) == list(range(len(order))))
        self.check("order", good, "a permutation of the axes")

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the permutation for an array of that rank."""
        if isinstance(self.order, str):
            return tuple(range(rank))[:: 1 if self.order == "C" else -1]
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


class _Reshaping(ArrayArrayCodec):
    """Keeps the items and their order, and changes the shape as `resolve` does."""

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.reshape(self.resolve(spec).shape)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array.reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class Reshape(_Reshaping):
    """The registered extension ``reshape`` of version 3: ``{"shape": [[0, 1], 10, -1]}``.

    The length of an axis of the result is a number, the product of the listed axes of the input, or
    -1 for the rest. Listed axes must be those that the axis of the result covers.
    """

    shape: tuple[int | tuple[int, ...], ...]

    name: ClassVar[str] = "reshape"

    def __post_init__(self) -> None:
        given: Any = self.shape
        listed = isinstance(given, (list, tuple))
        self.check("shape", listed and len(given) <= MAX_RANK, f"at most {MAX_RANK} lengths")
        shape = tuple(tuple(n) if isinstance(n, (list, tuple)) else n for n in given)
        object.__setattr__(self, "shape", shape)
        axes = [axis for n in shape if isinstance(n, tuple) for axis in n]
        lengths = [n for n in shape if not isinstance(n, tuple)]
        good = all(type(axis) is int and axis >= 0 for axis in axes)
        good = good and all(type(n) is int and (n > 0 or n == -1) for n in lengths)
        self.check("shape", good, "positive lengths, -1, or lists of input axes")
        self.check("shape", shape.count(-1) <= 1, "at most one -1")
        rising = all(a < b for a, b in itertools.pairwise(axes))
        self.check("shape", rising, "input axes in rising order (transpose is another codec)")

    def resolve(self, spec: Spec) -> Spec:
        before, whole = spec.shape, spec.size
        known: list[int] = []
        for n in self.shape:
            if isinstance(n, tuple) and any(axis >= len(before) for axis in n):
                message = f"the chunk has {len(before)} axes, so there are none of {list(n)}"
                raise invalid("codec", self.name, "shape", message)
            known.append(n if isinstance(n, int) else math.prod(before[axis] for axis in n))
        rest = math.prod(n for n in known if n != -1)
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
        return Spec(tuple(known), spec.data_type, spec.fill)


@dataclass(frozen=True, slots=True)
class Squeeze(_Reshaping):
    """The codec ``zarrs.squeeze`` of zarrs: a chunk without its axes of length 1.

    There is no configuration. A chunk of one item becomes one axis of length 1.
    """

    name: ClassVar[str] = "zarrs.squeeze"

    def resolve(self, spec: Spec) -> Spec:
        shape = tuple(n for n in spec.shape if n != 1)
        return Spec(shape or (1,), spec.data_type, spec.fill)


Bits = npt.NDArray[np.unsignedinteger[Any]]
MANTISSA = {"float16": 10, "float32": 23, "float64": 52, "bfloat16": 7}


@dataclass(frozen=True, slots=True)
class Bitround(ArrayArrayCodec):
    """The registered extension ``bitround`` of version 3: ``{"keepbits": 10}``.

    ``numcodecs.bitround`` is the same for floats, and the filter of that id in version 2. It is
    lossy when values are written; reading changes nothing.

    Floats keep so many bits of their mantissa, integers so many from their highest set bit (of a
    negative integer that is the sign bit, since its two's complement is rounded). Ties go to the
    even neighbour. Infinities and NaNs stay as they are. An integer that would become too large for
    its type is rounded down; a float becomes infinite, as in numcodecs.
    """

    keepbits: int

    name: ClassVar[str] = "bitround"

    def __post_init__(self) -> None:
        self.check_integer("keepbits", 1, 2**31)

    def resolve(self, spec: Spec) -> Spec:
        """Return the same spec; raise for types that are not rounded."""
        if _part(spec.data_type.dtype) is None:
            message = f"items of type {spec.data_type.named.name!r} are not rounded"
            raise invalid("codec", self.name, "keepbits", message)
        return spec

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        stored = array.dtype
        native = np.ascontiguousarray(as_type(array, stored.newbyteorder("=")))
        part = _part(native.dtype) or native.dtype
        bits = native.reshape(-1).view(f"u{part.itemsize}")
        digits = MANTISSA.get(part.name)
        if digits is None:
            rounded = _integers(bits, self.keepbits)
        else:
            rounded = _floats(bits, digits, min(self.keepbits, digits))
        return as_type(rounded.view(native.dtype).reshape(array.shape), stored)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return array


def _part(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type of the numbers that items consist of; None if they are not rounded."""
    if is_complex_pair(dtype):
        dtype = dtype["real"]
    elif dtype.kind == "c":
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    return dtype if dtype.name in MANTISSA or dtype.kind in "iumM" else None


def _floats(bits: Bits, digits: int, keep: int) -> Bits:
    """Return the bits of floats whose mantissa is rounded from `digits` bits to `keep`."""
    number, drop = bits.dtype.type, digits - keep
    if not drop:
        return bits
    half = number((1 << (drop - 1)) - 1)
    rounded = bits + (half + ((bits >> number(drop)) & number(1)))
    rounded &= ~number((1 << drop) - 1)
    exponent = number((1 << (8 * bits.dtype.itemsize - 1)) - (1 << digits))
    special = (bits & exponent) == exponent
    return np.where(special, bits, rounded)


def _integers(bits: Bits, keep: int) -> Bits:
    """Return integers rounded to `keep` bits from their highest set bit."""
    number = bits.dtype.type
    length, rest = np.zeros(bits.shape, np.int64), bits
    for step in (32, 16, 8, 4, 2, 1):
        if step < 8 * bits.dtype.itemsize:
            above = rest >> number(step)
            length += np.where(above > 0, step, 0)
            rest = np.where(above > 0, above, rest)
    drop = np.maximum(length + (rest > 0) - keep, 0).astype(bits.dtype)
    odd = (bits >> drop) & number(1)
    half = (number(1) << drop) >> number(1)
    more = np.where(drop > 0, bits + (half - number(1) + odd), bits)
    more = np.where(more < bits, number(np.iinfo(bits.dtype).max), more)  # no room to round up
    return np.asarray((more >> drop) << drop)
