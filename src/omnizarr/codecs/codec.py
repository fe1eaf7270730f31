"""The three kinds of codecs and what flows between them.

A codec is a frozen dataclass: its fields are the members of its configuration, its
`__post_init__` checks them. To add one, write such a class and register its name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.data_types.data_type import DataType, Scalar
from omnizarr.model import Named
from omnizarr.model.configuration import check_members, invalid

Buffer: TypeAlias = bytes | bytearray | memoryview
Region: TypeAlias = tuple[slice, ...]  # start, stop and a positive step for every axis
Kind: TypeAlias = Literal["array->array", "array->bytes", "bytes->bytes"]


@dataclass(frozen=True, slots=True)
class Spec:
    """An array on its way through the chain: known from shape and type alone."""

    shape: tuple[int, ...]
    data_type: DataType
    fill: Scalar

    @property
    def size(self) -> int:
        """The number of items."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int | None:
        """The size in bytes, or None for items of variable length."""
        return None if self.data_type.variable else self.size * self.data_type.dtype.itemsize


@runtime_checkable
class ArrayArray(Protocol):
    """Turns an array into another array."""

    kind: ClassVar[Kind]

    def resolve(self, spec: Spec) -> Spec: ...
    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]: ...
    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]: ...


@runtime_checkable
class ArrayBytes(Protocol):
    """Turns an array into bytes."""

    kind: ClassVar[Kind]

    def encoded_size(self, spec: Spec) -> int | None: ...
    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer: ...
    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]: ...


@runtime_checkable
class BytesBytes(Protocol):
    """Turns bytes into bytes. `decode` is told the exact size to expect, where it is known,
    and never allocates more than that.

    It may also have ``decode_into(data, out)``, which fills all of `out`, a flat array of bytes.
    """

    kind: ClassVar[Kind]

    def encoded_size(self, size: int) -> int | None: ...
    def encode(self, data: Buffer) -> Buffer: ...
    def decode(self, data: Buffer, size: int | None) -> Buffer: ...


Codec: TypeAlias = ArrayArray | ArrayBytes | BytesBytes


def borrows(codec: object) -> bool:
    """Return whether a codec may be given memory that is used again when its call has returned.

    It says so by ``borrows: ClassVar[bool] = True``: it keeps nothing of what it is given, and from
    bytes it makes bytes in memory of their own. A class that inherits from it says so by itself.
    """
    return bool(vars(type(codec)).get("borrows", False))


class Configured:
    """Makes a frozen dataclass from a configuration, and the reverse."""

    name: ClassVar[str]
    # Members that a document must state although the class has defaults for them.
    stated: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def bind(cls, named: Named) -> Self:
        """The codec with that configuration; unknown and missing members are refused."""
        found: Self = bind_dataclass(cls, named)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The codec as a document states it: its name and configuration."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is one
        members = {f.name: getattr(self, f.name) for f in fields}
        found = {k: plain_member(v) for k, v in members.items() if v is not None}
        return {"name": self.name, "configuration": found} if found else {"name": self.name}

    def check(self, member: str, good: bool, expected: str) -> None:
        """Raise unless a member has the expected form."""
        if not good:
            got = getattr(self, member)
            raise invalid("codec", self.name, member, f"expected {expected}, got {got!r}")

    def check_integer(self, member: str, low: int, high: int) -> None:
        """Raise unless a member is an integer in that range."""
        value = getattr(self, member)
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        self.check(member, good, f"an integer from {low} to {high}")


def bind_dataclass(cls: Any, named: Named) -> Any:
    """An object of `cls`, whose fields are the members of a configuration."""
    fields = [f for f in dataclasses.fields(cls) if f.init]
    stated = getattr(cls, "stated", ())
    required = {
        f.name
        for f in fields
        if (f.name in stated or f.default is dataclasses.MISSING)
        and f.default_factory is dataclasses.MISSING
    }
    check_members(named, "codec", required=required, optional={f.name for f in fields})
    return cls(**{k: _frozen(v) for k, v in named.configuration.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def plain_member(value: Any) -> Any:
    """A member of a codec as JSON."""
    if isinstance(value, (tuple, list)):
        return [plain_member(v) for v in value]
    if isinstance(value, dict):
        return {k: plain_member(v) for k, v in value.items()}
    if isinstance(value, Named):
        return {"name": value.name, "configuration": dict(value.configuration)}
    return value.value if isinstance(value, Enum) else value


def as_bytes_array(data: Buffer) -> npt.NDArray[np.uint8]:
    """The bytes as a flat array, without a copy."""
    return np.frombuffer(data, np.uint8)


def limit_of(size: int | None) -> int:
    """How many bytes may be unpacked: the expected size, or what the settings allow without."""
    return config.get().max_unpacked if size is None else size


def bounded(stream: Callable[[Buffer, int], bytes], data: Buffer, size: int | None) -> bytes:
    """Run a decompressor that takes a limit; one byte more than allowed is an error."""
    limit = limit_of(size)
    out = stream(data, limit + 1)
    if len(out) > limit:
        raise ValueError(f"it unpacks to more than the {limit} bytes expected")
    return out
