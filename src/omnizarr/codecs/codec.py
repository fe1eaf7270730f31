"""The three kinds of codecs: their base classes, and buffers for their work.

A codec is a frozen dataclass: its fields are the members of its configuration, and its
`__post_init__` checks them. To add one, inherit from a base class and register its name.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnizarr import config, registry
from omnizarr.codecs.specify import KINDS, plain_members, to_named
from omnizarr.data_types.data_type import DataType, Scalar
from omnizarr.errors import InvalidMetadata, Problem, WrongType, known_names
from omnizarr.model import Named
from omnizarr.model.fields import Fields
from omnizarr.model.fields import named as as_named
from omnizarr.model.node import check_members, invalid

Buffer: TypeAlias = bytes | bytearray | memoryview
Region: TypeAlias = tuple[slice, ...]  # start, stop and a positive step for every axis
Kind: TypeAlias = Literal["array->array", "array->bytes", "bytes->bytes"]


@dataclass(frozen=True, slots=True)
class Spec:
    """The shape, type and fill value of an array between two codecs.

    Attributes:
        shape: The shape.
        data_type: The data type, with its NumPy type.
        fill: The fill value, an array without axes.
    """

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


class ArrayArray(ABC):
    """Turns an array into another array."""

    __slots__ = ()
    kind: ClassVar[Kind] = "array->array"

    def resolve(self, spec: Spec) -> Spec:
        """Return the spec (shape, type and fill value) of the encoded array."""
        return spec

    @abstractmethod
    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the encoded array; `spec` describes `array`."""

    @abstractmethod
    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded, which `spec` describes."""


class ArrayBytes(ABC):
    """Turns an array into bytes."""

    __slots__ = ()
    kind: ClassVar[Kind] = "array->bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        """Return how many bytes every such array becomes, or None if that varies."""
        return None

    @abstractmethod
    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        """Return the bytes of an array."""

    @abstractmethod
    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded, which `spec` describes."""


class BytesBytes(ABC):
    """Turns bytes into bytes.

    `decode` gets the exact size of its result, if that is known, and never allocates more.
    """

    __slots__ = ()
    kind: ClassVar[Kind] = "bytes->bytes"

    def encoded_size(self, size: int) -> int | None:
        """Return how many bytes every value of that size becomes, or None if that varies."""
        return None

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Return the bytes to store."""

    @abstractmethod
    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes that were encoded; `size` is their number, if that is known."""


Codec: TypeAlias = ArrayArray | ArrayBytes | BytesBytes


class Configured:
    """Converts between a frozen dataclass and a configuration.

    Its fields are the members of the configuration in the metadata.

    Examples:
        >>> oz.codecs.ZstdCodec(level=5).to_dict()
        {'name': 'zstd', 'configuration': {'level': 5, 'checksum': False}}
    """

    name: ClassVar[str]
    # Members that metadata must state although the class has defaults for them.
    stated: ClassVar[tuple[str, ...]] = ()
    # Members that list codecs.
    codec_lists: ClassVar[tuple[str, ...]] = ()
    # A module that the codec needs, and the extra of this package that installs it.
    package: ClassVar[tuple[str, str] | None] = None

    @classmethod
    def bind(cls, named: Named) -> Self:
        """Return the codec with that configuration; raise for unknown and missing members."""
        return cast(Self, bind_dataclass(cls, named))

    def to_dict(self) -> dict[str, Any]:
        """Return the codec as metadata state it: its name and configuration."""
        found = plain_members(self)
        return {"name": self.name, "configuration": found} if found else {"name": self.name}

    def name_codecs(self) -> None:
        """Replace codecs that users may give as objects by their names and configurations."""
        for member in self.codec_lists:
            named = tuple(to_named(codec, None) for codec in getattr(self, member))
            object.__setattr__(self, member, named)

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
    """Return an object of `cls`, whose fields are the members of a configuration."""
    if getattr(cls, "package", None) is not None:
        module, extra = cls.package
        require(module, cls.name, extra)
    fields = [f for f in dataclasses.fields(cls) if f.init]
    missing, stated = dataclasses.MISSING, getattr(cls, "stated", ())
    needed = (f for f in fields if f.name in stated or f.default is missing)
    required = {f.name for f in needed if f.default_factory is missing}
    check_members(named, "codec", required=required, optional={f.name for f in fields})
    lists = getattr(cls, "codec_lists", ())
    inside = dict(zip(lists, inner_codecs(named, *lists), strict=True))
    return cls(**{k: _frozen(v) for k, v in named.configuration.items()} | inside)


def inner_codecs(stated: Named, *members: str, least: int = 1) -> list[tuple[Named, ...]]:
    """Return the codecs that members of a configuration list; raise if they are not such lists."""
    fields, found = Fields("", stated.configuration, []), list[tuple[Named, ...]]()
    for member in members:
        given = fields.get(member)
        if not isinstance(given, (list, tuple)) or len(given) < least:
            fields.error(member, f"expected a list of codecs{', at least one' if least else ''}")
            continue
        places = ((f"{member}[{i}]", each) for i, each in enumerate(given))
        some = (e if isinstance(e, Named) else as_named(fields, at, e) for at, e in places)
        found.append(tuple(some))
    raise_problems(fields, stated.name)
    return found


def raise_problems(fields: Fields, name: str) -> None:
    """Raise if something was wrong in the configuration of a codec."""
    if fields.problems:
        placed = [Problem("", f"configuration.{p.field}", p.message) for p in fields.problems]
        raise InvalidMetadata.of(placed, f"codec {name!r}")


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


class ArrayArrayCodec(ArrayArray, Configured):
    """Turns an array into another array.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Negate(oz.codecs.ArrayArrayCodec):
        ...     name = "example.negate"
        ...
        ...     def encode(self, array, spec):
        ...         return -array
        ...
        ...     def decode(self, array, spec):
        ...         return -array
        >>> oz.register("codec", "example.negate", Negate)
        >>> oz.create_array(data=[1, 2], filters=[Negate()])[...]
        array([1, 2])
    """


class ArrayBytesCodec(ArrayBytes, Configured):
    """Turns an array into bytes.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Raw(oz.codecs.ArrayBytesCodec):
        ...     name = "example.raw"
        ...
        ...     def encode(self, array, spec):
        ...         return array.tobytes()
        ...
        ...     def decode(self, data, spec):
        ...         return np.frombuffer(data, spec.data_type.dtype).reshape(spec.shape)
        >>> oz.register("codec", "example.raw", Raw)
        >>> oz.create_array(data=[1, 2], serializer=Raw())[...]
        array([1, 2])
    """


class BytesBytesCodec(BytesBytes, Configured):
    """Turns bytes into bytes.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Reverse(oz.codecs.BytesBytesCodec):
        ...     name = "example.reverse"
        ...
        ...     def encode(self, data):
        ...         return bytes(data)[::-1]
        ...
        ...     def decode(self, data, size):
        ...         return bytes(data)[::-1]
        >>> oz.register("codec", "example.reverse", Reverse)
        >>> oz.create_array(data=[1, 2], compressors=[Reverse()])[...]
        array([1, 2])
    """


def check_target(name: str, target: Any) -> None:
    """Raise if an object that is registered as a codec cannot be one."""
    made = isinstance(target, type) and dataclasses.is_dataclass(target)
    kind = getattr(target, "kind", None)
    if kind is not None or made:
        check_kind(name, kind)
    first = "resolve" if kind == "array->array" else "encoded_size"
    needed = (first, "encode", "decode", "name") if made else ("bind",)
    for member in needed:
        if not hasattr(target, member):
            what = f"it has no {member!r}" if made else "it is not a dataclass"
            bases = "ArrayArrayCodec, ArrayBytesCodec or BytesBytesCodec of omnizarr.codecs"
            raise WrongType(
                f"{target!r} cannot be the codec {name!r}: {what}; inherit from {bases}"
            )
    if made and not isinstance(target.name, str):
        raise WrongType(f"{target!r} has no name; add the line name = {name!r}")


def check_kind(name: str, kind: object) -> None:
    """Raise if a codec is of none of the three kinds."""
    if kind not in KINDS:
        raise WrongType(f"codec {name!r} has the kind {kind!r}; {known_names(kind, KINDS)}")


def require(module: str, codec: str, extra: str) -> Any:
    """Return a module of an optional package; raise if it is not installed."""
    needed = f"codec {codec!r} needs the package {module.partition('.')[0]}"
    return registry.load_optional(module, f"{needed}: pip install 'omnizarr[{extra}]'")


def as_bytes_array(data: Buffer) -> npt.NDArray[np.uint8]:
    """Return the bytes as a flat array, without a copy.

    Args:
        data: An object with a contiguous buffer.

    Examples:
        >>> oz.codecs.as_bytes_array(b"ab")
        array([97, 98], dtype=uint8)
    """
    return np.frombuffer(data, np.uint8)


def limit_of(size: int | None) -> int:
    """Return how many bytes may be decompressed: the expected size, or the setting's limit."""
    return config.get().max_unpacked if size is None else size


def check_memory(size: int) -> None:
    """Raise MemoryError if `size` bytes cannot be allocated, for libraries that do not check."""
    np.empty(size, np.uint8)


def is_fill(chunk: npt.NDArray[Any], fill: npt.NDArray[Any]) -> bool:
    """Return True if every item is the fill value; NaNs and zeros are compared by their bits."""
    if chunk.nbytes == 0 and not chunk.dtype.hasobject:
        return True
    if chunk.dtype.hasobject or chunk.dtype.kind == "T":
        value = fill[()]
        return all(type(item) is type(value) and bool(np.all(item == value)) for item in chunk.flat)
    if chunk.dtype != fill.dtype:
        fill = fill.astype(chunk.dtype)
    size, item = chunk.dtype.itemsize, fill.tobytes()
    # A slice, since a scalar would lose trailing zeros of text and a foreign byte order.
    if chunk[(slice(0, 1),) * chunk.ndim].tobytes() != item:
        return False
    # Of most chunks that begin with the fill value, the first row or plane has other values.
    if chunk.ndim > 1 and len(chunk) > 1 and not is_fill(chunk[0], fill):
        return False
    unit = np.dtype(f"u{size}" if size in (1, 2, 4, 8) else "u1")
    items = np.ascontiguousarray(chunk).reshape(-1).view(unit).reshape(-1, size // unit.itemsize)
    return bool((items == np.frombuffer(item, unit)).all())
