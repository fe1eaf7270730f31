"""zfp: blocks of numbers as bit planes, with a chosen loss or with none.

Specification: the registered extension ``zfp`` of version 3, ``{"mode": "fixed_accuracy",
"tolerance": 0.05}``; the other modes are in `MODES`. ``zfpy`` of version 2 and ``numcodecs.zfpy``
of version 3 store the same bits after a header of the library zfpy, which both need.

A stream says neither where it ends nor whether it is whole, and the library reads beyond its end.
Chunks are therefore padded to the most bytes that their blocks can have. Those that are too short
for their mode are an error, and so are those whose last block comes from the padding.

zarrs counts 64 numbers in every block for the rate, also in blocks of 4, 16 and 256 (of arrays with
one, two and four axes). Such chunks are recognised by their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayBytesCodec, Buffer, Spec, require
from omnizarr.data_types.data_type import DataType
from omnizarr.data_types.numeric import SMALL_FLOATS, SMALL_INTEGERS
from omnizarr.errors import InvalidMetadata

MAX_RANK = 4
MAX_BITS, MAX_PRECISION = 16658, 64  # of a block, of a number
# The members that each mode has besides, with the least and largest number of each.
MODES: dict[str, dict[str, tuple[float, float]]] = {
    "reversible": {},
    "fixed_accuracy": {"tolerance": (0, math.inf)},
    "fixed_rate": {"rate": (1e-9, MAX_BITS)},
    "fixed_precision": {"precision": (0, 2**32 - 1)},
}
MIN_EXPONENT = -1074  # of bit planes; what is less means reversible
HEADER_BITS = 148  # the settings may have a shorter form
# The types of the library, in the order of their numbers in a header.
TYPES = tuple(np.dtype(name) for name in ("i4", "i8", "f4", "f8"))


@dataclass(frozen=True, slots=True)
class ZfpLimits:
    """The four limits of a block that define every mode, under the names of the library."""

    minbits: int = 1
    maxbits: int = MAX_BITS
    maxprec: int = MAX_PRECISION
    minexp: int = MIN_EXPONENT

    @property
    def reversible(self) -> bool:
        """True if nothing is lost."""
        return self.minexp < MIN_EXPONENT

    def block_bits(self, rank: int, dtype: np.dtype[Any]) -> int:
        """Return the most bits that a block can have."""
        values, precision = 1 << 2 * rank, 8 * dtype.itemsize
        header = 19 if self.reversible else 12  # of doubles; other types have less
        bits = header + values - 1 + values * min(self.maxprec, precision)
        return max(min(bits, self.maxbits), self.minbits)


REVERSIBLE = ZfpLimits(minexp=MIN_EXPONENT - 1)


def _at_rate(rate: float, rank: int, dtype: np.dtype[Any]) -> ZfpLimits:
    """Return the settings for a fixed rate, with room for the exponent of a float."""
    least = {"float32": 9, "float64": 12}.get(dtype.name, 1)
    bits = max(math.floor((1 << 2 * rank) * rate + 0.5), least)
    return ZfpLimits(bits, bits)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a stream: the shape and type of its array, and the settings."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    limits: ZfpLimits

    @classmethod
    def of(cls, data: Buffer) -> Header:
        """Return the header at the start of a stream."""
        start = bytes(memoryview(data)[:19])
        if len(start) < 12 or start[:4] != b"zfp\x05":
            raise ValueError("it does not start with a header of zfp's format 5")
        bits = int.from_bytes(start, "little") >> 32
        rank, size = (bits >> 2 & 3) + 1, 48 // ((bits >> 2 & 3) + 1)
        sizes = [(bits >> 4 + size * i & (1 << min(size, 32)) - 1) + 1 for i in range(rank)]
        bits, dtype = bits >> 52, TYPES[bits & 3]
        short = bits & 0xFFF
        if short == 0xFFF:
            minbits, maxbits = (bits >> 12 & 0x7FFF) + 1, (bits >> 27 & 0x7FFF) + 1
            exponent = (bits >> 49 & 0x7FFF) - 16495
            limits = ZfpLimits(minbits, maxbits, (bits >> 42 & 0x7F) + 1, exponent)
        elif short < 2048:
            limits = ZfpLimits(short + 1, short + 1)
        elif short < 2176:
            limits = ZfpLimits(maxprec=short - 2047)
        else:
            limits = ZfpLimits(minexp=MIN_EXPONENT + short - 2177)  # of 2176, reversible
        if limits.minbits > limits.maxbits or limits.maxprec > MAX_PRECISION:
            raise ValueError(f"its header has impossible settings: {limits}")
        return cls(tuple(reversed(sizes)), dtype, limits)


def _blocks(shape: tuple[int, ...]) -> int:
    return math.prod(-(-n // 4) for n in shape)


def _decode_padded(
    decode: Callable[[bytes], npt.NDArray[Any]], data: Buffer, header: Header, more: int
) -> npt.NDArray[Any]:
    """Return the array of a stream, with as many bytes after it as the library can read.

    `more` is the most bits that come before the blocks. Raise if the last block came from the added
    bytes. It is then zero, or not, as they are.
    """
    shape, limits = header.shape, header.limits
    least = -(-_blocks(shape) * max(limits.minbits, 1) // 8)
    most = -(-(more + _blocks(shape) * limits.block_bits(len(shape), header.dtype)) // 64) * 8
    if not least <= len(data) <= most:
        raise ValueError(
            f"it has {len(data)} bytes, but the blocks of a chunk take {least} to {most}; it is"
            " damaged, or other settings were used"
        )
    out = decode(bytes(data).ljust(most + 16, b"\0"))
    last = tuple(slice((n - 1) // 4 * 4, None) for n in out.shape)
    if len(data) < most and not out[last].any():
        again = decode(bytes(data).ljust(most + 16, b"\xff"))
        if again[last].any():
            raise ValueError(f"it ends after {len(data)} bytes, before its last block")
    return out


def _zfpy() -> Any:
    return require("zfpy", "zfp", "zfp")


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a data type, and the type of the library that they are stored as."""

    stored: np.dtype[Any]
    given: np.dtype[Any]
    bits: int = 0  # of small integers, which are shifted to the top
    signed: bool = True

    @classmethod
    def of(cls, data_type: DataType, codec: str) -> Numbers:
        """Return the numbers of a type, or raise if the library has none for it."""
        name, dtype = data_type.named.name, data_type.dtype
        kind, size = dtype.kind, dtype.itemsize
        if name in SMALL_INTEGERS:
            return cls(TYPES[0], dtype, SMALL_INTEGERS[name], not name.startswith("u"))
        if name in SMALL_FLOATS or (kind == "f" and size <= 8):
            return cls(TYPES[2 + (size == 8)], dtype)
        if kind in "iu":
            return cls(TYPES[size == 8], dtype, 8 * size if size < 4 else 0, kind == "i")
        if kind in "mM":
            return cls(TYPES[1], dtype)
        raise InvalidMetadata(f"codec {codec!r} takes integers and floats, not {name!r}")

    def promote(self, array: npt.NDArray[Any], limits: ZfpLimits) -> npt.NDArray[Any]:
        """Return numbers as a type of the library; raise for values that it cannot represent."""
        if self.given.kind in "mM":
            array = array.astype(self.given.newbyteorder("="), copy=False).view("i8")
        if self.bits:
            wide = array.astype(self.stored)
            middle = 0 if self.signed else 1 << (self.bits - 1)
            return (wide - middle) << (31 - self.bits)
        if self.stored.kind == "f":
            items = array.astype(self.stored, copy=False)
            if not limits.reversible and not np.isfinite(items).all():
                raise ValueError(
                    "zfp cannot store NaN or infinities, unless its mode is reversible;"
                    " a fill value of NaN can also be at the edges of an array: choose another"
                )
            return items
        top = 8 * self.stored.itemsize - (1 if limits.reversible else 2)
        if array.size and not -(1 << top) <= int(array.min()) <= int(array.max()) < 1 << top:
            raise ValueError(
                f"zfp stores integers from -2**{top} to 2**{top} - 1, not"
                f" {int(array.min())} to {int(array.max())}; mode 'reversible' has one bit more"
            )
        return array.astype(self.stored, copy=False)

    def demote(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the numbers of the data type; those out of its range become the nearest in it."""
        if self.given.kind in "mM":
            return array.view(self.given.newbyteorder("=")).astype(self.given, copy=False)
        if self.bits:
            half = 1 << (self.bits - 1)
            array = np.clip(array >> (31 - self.bits), -half, half - 1)
            array = array if self.signed else array + half
        elif self.stored.kind == "i" and not self.signed:
            array = np.maximum(array, 0)
        with np.errstate(over="ignore"):
            return array.astype(self.given, copy=False)


def _check_rank(spec: Spec, codec: str) -> None:
    if len(spec.shape) > MAX_RANK:
        raise InvalidMetadata(
            f"codec {codec!r} takes chunks of at most {MAX_RANK} axes, not {len(spec.shape)};"
            " put 'reshape' before it"
        )


@dataclass(frozen=True, slots=True)
class Zfp(ArrayBytesCodec):
    """The registered extension ``zfp`` of version 3."""

    mode: str
    tolerance: float | None = None
    rate: float | None = None
    precision: int | None = None

    name: ClassVar[str] = "zfp"
    package: ClassVar[tuple[str, str] | None] = ("zfpy", "zfp")

    def __post_init__(self) -> None:
        # Of the expert mode the library cannot write chunks, and nobody is known to have any.
        self.check("mode", self.mode in MODES, " or ".join(MODES))
        for mode, members in MODES.items():
            for member, (low, high) in members.items():
                stated, needed = getattr(self, member), mode == self.mode
                expected = f"a number with mode {mode!r}" if needed else "it with another mode"
                self.check(member, (stated is not None) == needed, expected)
                if needed and member == "precision":
                    self.check_integer(member, int(low), int(high))
                elif needed:
                    good = type(stated) in (int, float) and low <= stated <= high
                    expected = f"a number from {low} to {high}"
                    self.check(member, good and math.isfinite(stated), expected)

    def limits(self, rank: int, dtype: np.dtype[Any]) -> ZfpLimits:
        """Return the settings for arrays of the library."""
        if self.mode == "reversible":
            return REVERSIBLE
        if self.mode == "fixed_precision":
            return ZfpLimits(maxprec=min(self.precision or MAX_PRECISION, MAX_PRECISION))
        if self.mode == "fixed_accuracy":
            exponent = math.frexp(self.tolerance or 0.0)[1] - 1
            return ZfpLimits(minexp=exponent if self.tolerance else MIN_EXPONENT)
        return _at_rate(self.rate or 0.0, rank, dtype)

    def encoded_size(self, spec: Spec) -> int | None:
        """Return None; raise if the library cannot take such chunks."""
        _check_rank(spec, self.name)
        numbers = Numbers.of(spec.data_type, self.name)
        if self.mode == "fixed_accuracy" and numbers.stored.kind != "f":
            raise InvalidMetadata(
                f"codec {self.name!r}: mode 'fixed_accuracy' takes floats, not"
                f" {spec.data_type.named.name!r}; use 'reversible' or 'fixed_precision'"
            )
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        numbers, shape = Numbers.of(spec.data_type, self.name), spec.shape or (1,)
        limits = self.limits(len(shape), numbers.stored)
        items = np.ascontiguousarray(numbers.promote(array, limits)).reshape(shape)
        stated = self._arguments(limits, len(shape))
        stream: bytes = _zfpy().compress_numpy(items, write_header=False, **stated)
        return stream

    def _arguments(self, limits: ZfpLimits, rank: int) -> dict[str, Any]:
        """Return the settings as arguments of the library."""
        stated: dict[str, dict[str, Any]] = {
            "fixed_accuracy": {"tolerance": self.tolerance},
            "fixed_rate": {"rate": limits.maxbits / (1 << 2 * rank)},
            "fixed_precision": {"precision": limits.maxprec},
        }
        return stated.get(self.mode, {})

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        numbers, shape = Numbers.of(spec.data_type, self.name), spec.shape or (1,)
        limits = self.limits(len(shape), numbers.stored)
        if self.mode == "fixed_rate":  # perhaps as zarrs understands it
            other = _at_rate(self.rate or 0.0, 3, numbers.stored)
            sizes = [-(-_blocks(shape) * s.maxbits // 64) * 8 for s in (limits, other)]
            limits = other if len(data) == sizes[1] != sizes[0] else limits
        type_, stated = _zfpy().dtype_to_ztype(numbers.stored), self._arguments(limits, len(shape))

        def decode(stream: bytes) -> npt.NDArray[Any]:
            # A documented function, in spite of its name: without a header.
            out: npt.NDArray[Any] = _zfpy()._decompress(stream, type_, shape, **stated)
            return out

        out = _decode_padded(decode, data, Header(shape, numbers.stored, limits), 0)
        return numbers.demote(out).reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class Zfpy(ArrayBytesCodec):
    """``zfpy`` of numcodecs, which is ``numcodecs.zfpy`` in version 3.

    ``{"mode": 4, "tolerance": 0.01}``; the modes are 2 with ``rate``, 3 with ``precision``, 4 with
    ``tolerance``, and 5, reversible, which is also the meaning of a negative number.
    ``compression_kwargs`` repeats the number and is not used.
    """

    mode: int = 4
    tolerance: float = -1
    rate: float = -1
    precision: int = -1
    compression_kwargs: Mapping[str, Any] | None = None

    name: ClassVar[str] = "numcodecs.zfpy"
    package: ClassVar[tuple[str, str] | None] = ("zfpy", "zfp")

    def __post_init__(self) -> None:
        self.check_integer("mode", 2, 5)
        self.check_integer("precision", -(2**31), 2**31 - 1)
        for member in ("tolerance", "rate"):
            value = getattr(self, member)
            good = type(value) in (int, float) and -math.inf < value < math.inf
            self.check(member, good, "a number")

    @property
    def _arguments(self) -> dict[str, Any]:
        members = {2: "rate", 3: "precision", 4: "tolerance"}
        stated = {m: getattr(self, m) for mode, m in members.items() if mode == self.mode}
        return {member: value for member, value in stated.items() if value >= 0}

    def encoded_size(self, spec: Spec) -> int | None:
        """Return None; raise if the library cannot take such chunks."""
        _check_rank(spec, self.name)
        if spec.data_type.dtype not in TYPES:
            raise InvalidMetadata(
                f"codec {self.name!r} takes int32, int64, float32 and float64 in the byte order of"
                f" this machine, not {spec.data_type.dtype}"
            )
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        limits = ZfpLimits() if self._arguments else REVERSIBLE
        items = Numbers.of(spec.data_type, self.name).promote(array, limits)
        stream: bytes = _zfpy().compress_numpy(
            np.ascontiguousarray(items), write_header=True, **self._arguments
        )
        return stream

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        found, dtype = Header.of(data), spec.data_type.dtype
        if found.dtype != dtype or math.prod(found.shape) != spec.size:
            has = f"{found.dtype} of shape {found.shape}"
            raise ValueError(f"the chunk has {has}, expected {spec.size} items of {dtype}")
        out = _decode_padded(_zfpy().decompress_numpy, data, found, HEADER_BITS)
        return out.reshape(spec.shape)
