"""A list of codecs bound to one chunk shape and type: one call to encode, one to decode.

The form is checked here: any number of array→array codecs, exactly one array→bytes, any number
of bytes→bytes. So is every size that can be known in advance, before and after each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.codecs.codec import ArrayArray, ArrayBytes, Buffer, BytesBytes, Codec, Region, Spec
from omnizarr.codecs.emptiness import is_fill
from omnizarr.codecs.source import Source
from omnizarr.codecs.transpose import Transpose
from omnizarr.errors import ChunkError, InvalidMetadata, MissingPackage, Problem, UnknownExtension
from omnizarr.model import Named
from omnizarr.model.numcodecs_ids import PREFIX


def bind_codec(named: Named, where: str) -> Codec:
    """One codec; errors name its place in the document."""
    target = registry.find("codec", named.name)
    if target is None and named.name.startswith(PREFIX):
        target = registry.lookup("codec", f"{PREFIX}*")
    if target is None:
        target = registry.lookup("codec", named.name, where)
    try:
        bound: Codec = target.bind(named)
    except InvalidMetadata as e:
        inner = e.problems or (Problem("", "", str(e)),)
        problems = [Problem(p.key, f"{where}.{p.field}", p.message) for p in inner]
        raise InvalidMetadata.of(problems, f"codec {named.name!r}") from None
    return bound


@dataclass(frozen=True, slots=True)
class Chain:
    """What happens to the chunks of one shape."""

    spec: Spec
    array_array: tuple[tuple[ArrayArray, Spec], ...]
    array_bytes: ArrayBytes
    inner: Spec
    # Each with the exact size of its decoded bytes, where that is known.
    bytes_bytes: tuple[tuple[BytesBytes, int | None], ...]
    encoded_size: int | None

    def encode(self, chunk: npt.NDArray[Any]) -> Buffer:
        """The bytes to store for a chunk."""
        array = chunk
        for codec, spec in self.array_array:
            array = _run(codec, "encode", codec.encode, array, spec)
        data: Buffer = _run(self.array_bytes, "encode", self.array_bytes.encode, array, self.inner)
        for step, _ in self.bytes_bytes:
            data = _run(step, "encode", step.encode, data)
        return data

    def decode(self, data: Buffer) -> npt.NDArray[Any]:
        """The chunk behind stored bytes; the array may be read-only and not contiguous."""
        for step, size in reversed(self.bytes_bytes):
            data = _run(step, "decode", step.decode, data, size)
            if size is not None and len(data) != size:
                raise _fault(step, f"it gave {len(data)} bytes, expected {size}")
        size = self.array_bytes.encoded_size(self.inner)
        if size is not None and len(data) != size:
            raise _fault(self.array_bytes, f"there are {len(data)} bytes, expected {size}")
        array = _run(self.array_bytes, "decode", self.array_bytes.decode, data, self.inner)
        for codec, spec in reversed(self.array_array):
            array = _run(codec, "decode", codec.decode, array, spec)
        if array.shape != self.spec.shape:
            raise ChunkError(f"decoded to shape {array.shape}, expected {self.spec.shape}")
        return np.asarray(array)

    # Parts of chunks

    def decode_region(self, source: Source, region: Region) -> npt.NDArray[Any] | None:
        """Part of a chunk, fetching and decoding no more than the codecs allow; None: absent."""
        partial = getattr(self.array_bytes, "decode_region", None)
        turns = [codec for codec, _ in self.array_array if isinstance(codec, Transpose)]
        if partial is None or self.bytes_bytes or len(turns) < len(self.array_array):
            data = source.whole()
            return None if data is None else self.decode(data)[region]
        for turn in turns:
            region = tuple(region[i] for i in turn.axes(len(region)))
        part = _run(self.array_bytes, "decode", partial, source, self.inner, region)
        for turn in reversed(turns):
            part = None if part is None else turn.decode(part, self.spec)
        return cast("npt.NDArray[Any] | None", part)

    def update(self, old: Buffer | None, region: Region, value: npt.NDArray[Any]) -> Buffer | None:
        """The bytes of a chunk with a part replaced; None where only the fill value is left."""
        inside = getattr(self.array_bytes, "update", None)
        if inside is not None and not self.bytes_bytes and not self.array_array:
            return cast(
                "Buffer | None",
                _run(self.array_bytes, "encode", inside, old, self.inner, region, value),
            )
        if old is None:
            chunk = np.empty(self.spec.shape, self.spec.data_type.dtype)
            chunk[...] = self.spec.fill
        else:
            chunk = self.decode(old)
            chunk = chunk if chunk.flags.writeable else chunk.copy()
        chunk[region] = value
        return None if is_fill(chunk, self.spec.fill) else self.encode(chunk)


def bind_chain(codecs: tuple[Named, ...], spec: Spec) -> Chain:
    """The chain for chunks of that shape and type; raises where the codecs do not fit."""
    before: list[tuple[ArrayArray, Spec]] = []
    middle: ArrayBytes | None = None
    after: list[tuple[BytesBytes, int | None]] = []
    current, size = spec, None
    for i, named in enumerate(codecs):
        where = f"codecs[{i}]"
        try:
            codec = bind_codec(named, where)
        except UnknownExtension:
            if named.must_understand:
                raise
            continue  # the document allows readers to skip it
        _check_order(codec, middle is not None, where)
        if codec.kind == "array->array":
            filter_ = cast(ArrayArray, codec)
            before.append((filter_, current))
            current = filter_.resolve(current)
        elif codec.kind == "array->bytes":
            fit = getattr(codec, "for_spec", None)
            middle = cast(ArrayBytes, codec if fit is None else fit(current))
            size = middle.encoded_size(current)
        else:
            if not after and hasattr(codec, "for_items"):
                itemsize = 1 if current.data_type.variable else current.data_type.dtype.itemsize
                codec = codec.for_items(itemsize)
            step = cast(BytesBytes, codec)
            after.append((step, size))
            size = None if size is None else step.encoded_size(size)
    if middle is None:
        names = ", ".join(repr(c.name) for c in codecs) or "none"
        raise InvalidMetadata(
            f"codecs: exactly one must turn the array into bytes (such as 'bytes'); given: {names}"
        )
    return Chain(spec, tuple(before), middle, current, tuple(after), size)


def _check_order(codec: Codec, is_bytes: bool, where: str) -> None:
    name = getattr(codec, "name", type(codec).__name__)
    if is_bytes and codec.kind != "bytes->bytes":
        raise InvalidMetadata(
            f"{where}: {name!r} takes an array, but the codecs before it made bytes;"
            " the order is array→array, one array→bytes, bytes→bytes"
        )
    if not is_bytes and codec.kind == "bytes->bytes":
        raise InvalidMetadata(
            f"{where}: {name!r} takes bytes, but no codec before it makes bytes;"
            " put 'bytes' (or another array→bytes codec) first"
        )


def _run(codec: Codec, verb: str, call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except (ChunkError, MissingPackage):
        raise
    except Exception as e:  # codecs of any package may raise anything
        raise _fault(codec, f"{verb}: {e or type(e).__name__}") from e


def _fault(codec: Codec, message: str) -> ChunkError:
    name = getattr(codec, "name", type(codec).__name__)
    return ChunkError(f"codec {name!r}: {message}", codec=name)
