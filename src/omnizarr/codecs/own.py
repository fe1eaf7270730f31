"""Base classes for codecs of other packages, and what is asked of them.

A codec is a frozen dataclass whose fields are the members of its configuration:

>>> @dataclass(frozen=True)
... class Flip(BytesBytesCodec):
...     name = "example.flip"
...     mask: int = 255
...
...     def encode(self, data):
...         return (as_bytes_array(data) ^ self.mask).tobytes()
...
...     def decode(self, data, size):
...         return self.encode(data)
>>> omnizarr.register("codec", "example.flip", Flip)
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, get_args

import numpy.typing as npt

from omnizarr.codecs.codec import Buffer, Configured, Kind, Spec
from omnizarr.errors import WrongType, known_names

KINDS = get_args(Kind)
_METHODS = {
    "array->array": ("resolve", "encode", "decode"),
    "array->bytes": ("encoded_size", "encode", "decode"),
    "bytes->bytes": ("encoded_size", "encode", "decode"),
}
_BASES = "ArrayArrayCodec, ArrayBytesCodec or BytesBytesCodec of omnizarr.codecs"


class ArrayArrayCodec(Configured, ABC):
    """Turns an array into another array."""

    kind: ClassVar[Kind] = "array->array"

    def resolve(self, spec: Spec) -> Spec:
        """Return the shape, type and fill value of encoded chunks, from those of the chunks."""
        return spec

    @abstractmethod
    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the array to store; `spec` describes the one that is given."""

    @abstractmethod
    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded, which `spec` describes."""


class ArrayBytesCodec(Configured, ABC):
    """Turns an array into bytes."""

    kind: ClassVar[Kind] = "array->bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        """Return how many bytes every such array becomes, or None where that differs."""
        return None

    @abstractmethod
    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        """Return the bytes of an array."""

    @abstractmethod
    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded, which `spec` describes."""


class BytesBytesCodec(Configured, ABC):
    """Turns bytes into bytes."""

    kind: ClassVar[Kind] = "bytes->bytes"

    def encoded_size(self, size: int) -> int | None:
        """Return how many bytes every value of that size becomes, or None where that differs."""
        return None

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Return the bytes to store."""

    @abstractmethod
    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes that were encoded, which have that size where it is known."""


def check_target(name: str, target: Any) -> None:
    """Raise where something that is registered as a codec cannot be one."""
    made = isinstance(target, type) and dataclasses.is_dataclass(target)
    if not made and not hasattr(target, "bind"):
        raise WrongType(
            f"{target!r} cannot be the codec {name!r}: it is not a dataclass; inherit from {_BASES}"
        )
    kind = getattr(target, "kind", None)
    if kind is not None or made:
        check_kind(name, kind)
    lacking = [m for m in _METHODS.get(kind or "", ()) if made and not hasattr(target, m)]
    if lacking:
        raise WrongType(f"codec {name!r} has no method {lacking[0]!r}; inherit from {_BASES}")
    if made and not isinstance(getattr(target, "name", None), str):
        raise WrongType(
            f"{target.__qualname__} cannot be the codec {name!r}: it does not say its name;"
            f" add the line name = {name!r}"
        )


def check_kind(name: str, kind: object) -> None:
    """Raise where a codec is of none of the three kinds."""
    if kind not in KINDS:
        raise WrongType(f"codec {name!r} has the kind {kind!r}; {known_names(kind, KINDS)}")
