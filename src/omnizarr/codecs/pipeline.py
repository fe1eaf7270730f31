"""Codec pipelines: a list of codecs bound to one chunk shape and data type.

To read part of a chunk, a pipeline makes a generator of requests (`Requests`): it yields the byte
ranges that it wants and is sent them, perhaps in several rounds, and returns a function that
decodes. The caller does the fetching, so that one round of requests can serve many chunks.

Who decodes a chunk is told its boxes without data: the missing inner chunks of a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from omnizarr import errors, registry
from omnizarr.codecs import codec as interface
from omnizarr.codecs.codec import ArrayArray, ArrayBytes, Buffer, BytesBytes, Codec, Region, Spec
from omnizarr.codecs.filters import Transpose
from omnizarr.data_types import as_type
from omnizarr.errors import ChunkError, InvalidMetadata, Problem, UnknownExtension, error_context
from omnizarr.formats.codec_names import effective
from omnizarr.model import Named
from omnizarr.model.node import PREFIX
from omnizarr.stores import Range

T = TypeVar("T")
Request: TypeAlias = tuple[str, Range | None]  # a key and a byte range of its value, None: all
Answers: TypeAlias = Sequence[Buffer | None]  # None: there is no such key
Requests: TypeAlias = Generator[list[Request], Answers, T]
# Fills an array, and returns the boxes without data in it, in the coordinates of the chunk.
Decode: TypeAlias = Callable[[npt.NDArray[Any]], list[Region]]


def bind_pipeline(codecs: tuple[Named, ...], spec: Spec, field: str = "codecs") -> CodecPipeline:
    """Return the codecs of a chunk as a pipeline that encodes and decodes chunks.

    Args:
        codecs: The codecs as metadata name them.
        spec: The shape, type and fill value of a chunk.
        field: The place of the codecs in the metadata, for messages.

    Raises:
        InvalidMetadata: If the codecs do not fit each other or the chunk.
    """
    before: list[tuple[ArrayArray, Spec]] = []
    serializer: ArrayBytes | None = None
    after: list[tuple[BytesBytes, int | None]] = []
    current, size = spec, None
    for i, named in enumerate(codecs):
        where = named.where or f"{field}[{i}]"
        try:
            codec = bind_codec(named, where)
        except UnknownExtension:
            if named.must_understand:
                raise
            continue  # the metadata allow readers to skip it
        if serializer is not None and codec.kind == "array->bytes" and hasattr(codec, "on_bytes"):
            codec = codec.on_bytes(current)  # as some writers list the formats of images
        if (codec.kind == "bytes->bytes") != (serializer is not None):
            made = "no codec before it makes" if serializer is None else "codecs before it made"
            name = named.stated or _name(codec)
            raise InvalidMetadata(
                f"{where}: {name!r} is {codec.kind}, but {made} bytes;"
                " the order is array→array, one array→bytes, bytes→bytes"
            )
        if codec.kind != "bytes->bytes":
            try:
                if hasattr(codec, "for_spec"):
                    codec = codec.for_spec(current)
                if codec.kind == "array->array":
                    filter_ = cast(ArrayArray, codec)
                    before.append((filter_, current))
                    current = filter_.resolve(current)
                else:
                    serializer = cast(ArrayBytes, codec)
                    size = serializer.encoded_size(current)
            except InvalidMetadata as e:
                raise placed(e, f"codec {named.stated or named.name!r}", where) from None
        else:
            if not after and hasattr(codec, "for_items"):
                itemsize = 1 if current.data_type.variable else current.data_type.dtype.itemsize
                codec = codec.for_items(itemsize)
            compressor = cast(BytesBytes, codec)
            after.append((compressor, size))
            size = None if size is None else compressor.encoded_size(size)
    if serializer is None:
        names = ", ".join(repr(c.name) for c in codecs) or "none"
        raise InvalidMetadata(
            f"{field}: exactly one must turn the array into bytes; given: {names}"
        )
    return CodecPipeline(spec, tuple(before), serializer, current, tuple(after), size)


def bind_codec(named: Named, where: str) -> Codec:
    """Return the codec with its configuration; errors name it, and its place in the metadata.

    Args:
        named: The codec as metadata name it.
        where: Its place in the metadata, for messages.

    Raises:
        UnknownExtension: If there is no codec of that name.
        InvalidMetadata: If its configuration is not valid.

    Examples:
        >>> a = oz.create_array(shape=3, compressors="zstd")
        >>> oz.codecs.bind_codec(a.codecs[1], "codecs[1]").level
        0
    """
    target, where = registry.find("codec", named.name), named.where or where
    if target is None and named.name.startswith(PREFIX):
        target = registry.lookup("codec", f"{PREFIX}*")
    elif target is None:
        target = registry.lookup("codec", named.name, where)
    try:
        bind = getattr(target, "bind", None) or partial(interface.bind_dataclass, target)
        bound: Codec = bind(effective(named))
    except InvalidMetadata as e:
        raise placed(e, f"codec {named.stated or named.name!r}", where) from None
    except UnknownExtension:
        if named.stated:
            registry.lookup("codec", named.stated, where)
        raise
    interface.check_kind(named.name, bound.kind)
    return bound


def placed(error: InvalidMetadata, what: str, where: str) -> InvalidMetadata:
    """Return the error of an extension, with its place in front of each problem's field."""
    inner = error.problems or (Problem("", "", str(error)),)
    places = (f"{where}.{p.field}" if p.field else where for p in inner)
    problems = [Problem(p.key, at, p.message) for p, at in zip(inner, places, strict=True)]
    return InvalidMetadata.of(problems, what)


@dataclass(frozen=True, slots=True)
class CodecPipeline:
    """The codecs that encode and decode chunks of one shape and type."""

    spec: Spec
    array_array: tuple[tuple[ArrayArray, Spec], ...]
    array_bytes: ArrayBytes
    inner: Spec  # of the array that becomes bytes
    # Each with the exact size of its decoded bytes, or None if that varies.
    bytes_bytes: tuple[tuple[BytesBytes, int | None], ...]
    encoded_size: int | None
    # True if a codec changes the shape otherwise than by a permutation of the axes.
    reshapes: bool = field(init=False)
    # The chunk's axes in the order of the array→bytes codec, unless the chunk is reshaped.
    axes: tuple[int, ...] = field(init=False)
    # The codec that reads and changes parts of the stored value, with the axes as it has them.
    sharded: tuple[Any, tuple[int, ...]] | None = field(init=False)
    # The size of decompressed bytes that are the chunk's items as they are in memory, else -1.
    plain_size: int = field(init=False)

    def __post_init__(self) -> None:
        reshapes, transposed, axes = False, True, tuple(range(len(self.spec.shape)))
        after = [*(spec for _, spec in self.array_array[1:]), self.inner]
        for (codec, before), then in zip(self.array_array, after, strict=False):
            if not isinstance(codec, Transpose):
                reshapes, transposed = reshapes or before.shape != then.shape, False
            elif not reshapes:
                axes = tuple(axes[i] for i in codec.axes(len(axes)))
        in_parts = hasattr(self.array_bytes, "read_part") and transposed and not self.bytes_bytes
        object.__setattr__(self, "reshapes", reshapes)
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "sharded", (self.array_bytes, axes) if in_parts else None)
        plain = getattr(self.array_bytes, "plain", None)
        as_is = not self.array_array and plain is not None and plain(self.inner)
        object.__setattr__(self, "plain_size", self.inner.nbytes if as_is else -1)

    def encode(self, chunk: npt.NDArray[Any]) -> Buffer:
        """Return the bytes to store for a chunk."""
        for codec, spec in self.array_array:
            with codec_context(codec, "encode"):
                chunk = codec.encode(_typed(codec, chunk, spec), spec)
        with codec_context(self.array_bytes, "encode"):
            data = self.array_bytes.encode(chunk, self.inner)
        return self.encode_last(data, len(self.bytes_bytes))

    def decode(self, data: Buffer) -> npt.NDArray[Any]:
        """Return the chunk of stored bytes; the array may be read-only and not contiguous."""
        return self._decode(data)[0]

    def _decode(self, data: Buffer) -> tuple[npt.NDArray[Any], list[Region]]:
        """Return the chunk of stored bytes, and its boxes without data."""
        data, missing = self.decode_last(data, len(self.bytes_bytes)), list[Region]()
        if len(data) == self.plain_size:  # the same as below with fewer calls
            chunk = np.frombuffer(data, self.spec.data_type.dtype).reshape(self.spec.shape)
            return chunk, missing
        size = self.array_bytes.encoded_size(self.inner)
        with codec_context(self.array_bytes, "decode"):
            if size is not None and len(data) != size:
                raise ValueError(f"there are {len(data)} bytes, expected {size}")
            if hasattr(self.array_bytes, "decode_whole"):
                array, missing = self.array_bytes.decode_whole(data)
            else:
                array = self.array_bytes.decode(data, self.inner)
        after = self.inner
        for codec, spec in reversed(self.array_array):
            with codec_context(codec, "decode"):
                array = codec.decode(_typed(codec, array, after), spec)
            after = spec
        if array.shape != self.spec.shape:
            raise ChunkError(f"decoded to shape {array.shape}, expected {self.spec.shape}")
        return np.asarray(array), [*map(self._to_chunk_axes, missing)]

    def decode_last(self, data: Buffer, count: int) -> Buffer:
        """Undo the last `count` codecs, which all map bytes to bytes."""
        return decode_bytes(self.bytes_bytes[len(self.bytes_bytes) - count :], data)

    def encode_last(self, data: Buffer, count: int) -> Buffer:
        """Apply the last `count` codecs, which all map bytes to bytes."""
        for codec, _ in self.bytes_bytes[len(self.bytes_bytes) - count :]:
            with codec_context(codec, "encode"):
                data = codec.encode(data)
        return data

    # Parts of chunks

    def read_part(self, key: str, region: Region) -> Requests[Decode | None]:
        """Fetch the bytes of a part of a chunk; return what decodes it, None if it is missing."""
        if self.sharded is None:
            [data] = yield [(key, None)]
            return None if data is None else partial(self.decode_into, data, region)
        shard, axes = self.sharded
        # Without a codec context: when the store fails, the codec is not at fault.
        decode: Decode | None = yield from shard.read_part(key, tuple(region[i] for i in axes))
        return None if decode is None else partial(self._fill_from_shard, decode)

    def _fill_from_shard(self, decode: Decode, out: npt.NDArray[Any]) -> list[Region]:
        return [*map(self._to_chunk_axes, decode(out.transpose(self.axes)))]

    def _to_chunk_axes(self, box: Region) -> Region:
        """Return the box of the array that is stored as a box of the chunk; all, if reshaped."""
        if self.reshapes:
            return tuple(slice(0, n) for n in self.spec.shape)
        return tuple(box[self.axes.index(axis)] for axis in range(len(box)))

    def decode_into(self, data: Buffer, region: Region, out: npt.NDArray[Any]) -> list[Region]:
        """Fill `out` with part of the chunk of stored bytes; return boxes without data."""
        if self.sharded is not None:
            shard, axes = self.sharded
            turned = tuple(region[i] for i in axes)
            return self._fill_from_shard(partial(shard.decode_part, data, turned), out)
        chunk, missing = self._decode(data)
        index: Any = (*region, ...)  # which keeps a 0-dimensional array an array
        out[...] = chunk[index]
        return missing

    def update(self, old: Buffer | None, region: Region, value: npt.NDArray[Any]) -> Buffer | None:
        """Return the bytes of a chunk with a part replaced; None if only fill values are left."""
        if self.sharded is not None:
            shard, axes = self.sharded
            turned = tuple(region[i] for i in axes), value.transpose(axes)
            with codec_context(shard, "encode"):
                return cast("Buffer | None", shard.update(old, self.inner, *turned))
        if old is None:
            chunk = np.full(self.spec.shape, self.spec.fill, self.spec.data_type.dtype)
        else:
            chunk = np.array(self.decode(old))  # which may be the store's or a codec's own
        chunk[region] = value
        return None if interface.is_fill(chunk, self.spec.fill) else self.encode(chunk)


def decode_bytes(codecs: Sequence[tuple[BytesBytes, int | None]], data: Buffer) -> Buffer:
    """Undo codecs on bytes, each with the size of its decoded bytes if that is known."""
    for codec, size in reversed(codecs):
        with codec_context(codec, "decode"):
            data = codec.decode(data, size)
            if size is not None and len(data) != size:
                raise ValueError(f"it returned {len(data)} bytes, expected {size}")
    return data


def codec_context(codec: Codec, verb: str) -> error_context:
    """Have errors of the block name the codec; a codec of any package may raise anything."""
    name, ignore = _name(codec), (ChunkError, errors.MissingPackage, MemoryError)
    where = f"codec {name!r}: {verb}"
    return error_context(where, into=ChunkError, catch=(Exception,), ignore=ignore, codec=name)


def _name(codec: object) -> str:
    return str(getattr(codec, "name", type(codec).__name__))


def _typed(codec: ArrayArray, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
    """Return the array in the type of its specification, for codecs that look at the items."""
    dtype = spec.data_type.dtype
    if array.dtype == dtype or isinstance(codec, Transpose):
        return array
    return as_type(array, dtype)


def run_requests(requests: Requests[T], fetch: Callable[[list[Request]], Answers]) -> T:
    """Run a generator of requests to its end; errors of `fetch` are raised inside it."""
    try:
        wanted = next(requests)
        while True:
            try:
                answers = fetch(wanted)
            except errors.OmnizarrError as e:
                wanted = requests.throw(e)
            else:
                wanted = requests.send(answers)
    except StopIteration as end:
        result: T = end.value
        return result


def gather_requests(several: Iterable[Requests[T]]) -> Requests[list[T]]:
    """Run several generators side by side, so that each round is one list of requests."""
    found: dict[int, T] = {}
    waiting: list[tuple[int, Requests[T], list[Request]]] = []
    for number, requests in enumerate(several):
        try:
            waiting.append((number, requests, next(requests)))
        except StopIteration as end:
            found[number] = end.value
    while waiting:
        answers = yield [request for _, _, wanted in waiting for request in wanted]
        still, start = [], 0
        for number, requests, wanted in waiting:
            own = answers[start : start + len(wanted)]
            start += len(wanted)
            try:
                still.append((number, requests, requests.send(own)))
            except StopIteration as end:
                found[number] = end.value
        waiting = still
    return [found[number] for number in sorted(found)]
