"""bitround: numbers rounded to a few significant bits, which compress better.

The registered extension ``bitround`` of version 3; ``numcodecs.bitround`` is the same for floats,
and the filter of that id in version 2. Configuration: ``{"keepbits": 10}``. It is lossy when values
are written; reading changes nothing.

Floats keep so many bits of their mantissa, integers so many from their highest set bit (of a
negative integer that is the sign bit, since its two's complement is rounded). Ties go to the even
neighbour. Infinities and NaNs stay as they are. An integer that would become too large for its
type is rounded down; a float becomes infinite, as in numcodecs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayArrayCodec, Spec
from omnizarr.data_types import as_type
from omnizarr.data_types.cast import is_complex_pair
from omnizarr.model.node import invalid

Bits = npt.NDArray[np.unsignedinteger[Any]]
MANTISSA = {"float16": 10, "float32": 23, "float64": 52, "bfloat16": 7}


@dataclass(frozen=True, slots=True)
class Bitround(ArrayArrayCodec):
    """The registered extension ``bitround`` of version 3: ``{"keepbits": 10}``."""

    keepbits: int

    name: ClassVar[str] = "bitround"
    lossy: ClassVar[bool] = True
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_integer("keepbits", 1, 2**31)

    def resolve(self, spec: Spec) -> Spec:
        """Return the same; raise for types that are not rounded."""
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
        rounded = _integers(bits, self.keepbits) if digits is None else bits.copy()
        if digits is not None and self.keepbits < digits:
            rounded = _floats(bits, digits, self.keepbits)
        out = rounded.view(native.dtype).reshape(array.shape)
        return as_type(out, stored)

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
    number = bits.dtype.type
    drop = digits - keep
    half = number((1 << (drop - 1)) - 1)
    rounded = bits + (half + ((bits >> number(drop)) & number(1)))
    rounded &= ~number((1 << drop) - 1)
    exponent = number((1 << (8 * bits.dtype.itemsize - 1)) - (1 << digits))
    special = (bits & exponent) == exponent
    return np.where(special, bits, rounded)


def _integers(bits: Bits, keep: int) -> Bits:
    """Return integers rounded to `keep` bits from their highest set bit."""
    number = bits.dtype.type
    drop = np.maximum(_length(bits) - keep, 0).astype(bits.dtype)
    odd = (bits >> drop) & number(1)
    half = (number(1) << drop) >> number(1)
    more = np.where(drop > 0, bits + (half - number(1) + odd), bits)
    more = np.where(more < bits, number(np.iinfo(bits.dtype).max), more)  # no room to round up
    return np.asarray((more >> drop) << drop)


def _length(bits: Bits) -> npt.NDArray[np.int64]:
    """Return the number of bits up to the highest one that is set."""
    length = np.zeros(bits.shape, np.int64)
    rest = bits.copy()
    step = 4 * bits.dtype.itemsize
    while step:
        above = rest >> bits.dtype.type(step)
        length += np.where(above > 0, step, 0)
        rest = np.where(above > 0, above, rest)
        step //= 2
    return length + (rest > 0)
