"""Codec pipelines: a list of codecs bound to one chunk shape and data type.

A hole is a box of the chunk that is decoded, along its own axes. Whoever decodes a part of a part,
or turns axes, says so with `moved`.
The form is checked here: any number of array→array codecs, exactly one array→bytes, any number
of bytes→bytes. So is every size that can be known in advance, before and after each step.
A generator says which parts it wants and is sent them; it may then ask for more, as a shard does
for its index first and its inner chunks after. What it returns decodes. Whoever runs it does the
fetching, so that one request can serve the steps of many chunks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.codecs.codec import (
    ArrayArray,
    ArrayBytes,
    Buffer,
    BytesBytes,
    Codec,
    Region,
    Spec,
    bind_dataclass,
    borrows,
    check_kind,
    is_fill,
    scratch,
)
from omnizarr.codecs.transpose import Transpose
from omnizarr.errors import (
    ChunkError,
    InvalidMetadata,
    MissingPackage,
    OmnizarrError,
    Problem,
    UnknownExtension,
    error_context,
)
from omnizarr.model import Named
from omnizarr.model.node import PREFIX
from omnizarr.stores import Range


class _Watch(threading.local):
    """Of each thread: the list that holes go to, or None while nobody watches."""

    found: list[Region] | None = None


_watch = _Watch()


@contextmanager
def watch() -> Iterator[list[Region]]:
    """The holes that this thread meets until the block ends."""
    before, found = _watch.found, list[Region]()
    _watch.found = found
    try:
        yield found
    finally:
        _watch.found = before


def tell(box: Region) -> None:
    """Say that a box has no chunk."""
    if _watch.found is not None:
        _watch.found.append(box)


@contextmanager
def moved(change: Callable[[Region], Region]) -> Iterator[None]:
    """Have holes that are told in the block seen outside it as `change` makes them."""
    if _watch.found is None:
        yield
        return
    with watch() as found:
        yield
    for box in found:
        tell(change(box))


def bind_codec(named: Named, where: str) -> Codec:
    """One codec; errors name it, and its place, as the document does."""
    target = registry.find("codec", named.name)
    if target is None and named.name.startswith(PREFIX):
        target = registry.lookup("codec", f"{PREFIX}*")
    where = named.where or where
    if target is None:
        target = registry.lookup("codec", named.name, where)
    try:
        bind = getattr(target, "bind", None)
        bound: Codec = bind_dataclass(target, named) if bind is None else bind(named)
    except InvalidMetadata as e:
        raise _placed(e, named, where) from None
    except UnknownExtension:
        if named.stated:
            registry.lookup("codec", named.stated, where)
        raise
    check_kind(named.name, bound.kind)
    return bound


def _placed(error: InvalidMetadata, named: Named, where: str) -> InvalidMetadata:
    """The error of one codec, with the codec's place before that of each problem."""
    inner = error.problems or (Problem("", "", str(error)),)
    problems = [
        Problem(p.key, f"{where}.{p.field}" if p.field else where, p.message) for p in inner
    ]
    return InvalidMetadata.of(problems, f"codec {named.stated or named.name!r}")


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
    # Whether a codec changes the shape otherwise than by turning axes.
    reshapes: bool = field(init=False)
    # The chunk's axes as the codec that makes bytes of it sees them, unless it is reshaped.
    axes: tuple[int, ...] = field(init=False)
    # What reads and changes parts of the stored value, with the chunk's axes as it sees them.
    sharded: tuple[Any, tuple[int, ...]] | None = field(init=False)
    # Whether the last step of decoding can fill a given buffer, and whether that is the chunk.
    packed_into: bool = field(init=False)
    direct: bool = field(init=False)
    # Whether all codecs that see memory of ours give it back when their call has returned.
    lends: bool = field(init=False)
    # The size of a chunk whose unpacked bytes are its items as they are in memory, else -1.
    plain_size: int = field(init=False)
    # Whether parts of large chunks can be had by the blocks of Blosc that hold them.
    by_block: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reshapes", _reshapes(self))
        object.__setattr__(self, "axes", _axes(self))
        axes = self.axes if hasattr(self.array_bytes, "steps") and _only_turns(self) else None
        into = bool(self.bytes_bytes) and hasattr(self.bytes_bytes[0][0], "decode_into")
        into = into and bool(self.bytes_bytes[0][1])
        plain = getattr(self.array_bytes, "plain", None)
        as_is = not self.array_array and plain is not None and plain(self.inner)
        object.__setattr__(self, "sharded", None if axes is None else (self.array_bytes, axes))
        object.__setattr__(self, "packed_into", into)
        object.__setattr__(self, "direct", into and as_is)
        seen = (*(c for c, _ in self.array_array), self.array_bytes)
        lends = all(map(borrows, (*seen, *(c for c, _ in self.bytes_bytes[:1]))))
        object.__setattr__(self, "lends", lends)
        object.__setattr__(self, "plain_size", self.inner.nbytes if as_is else -1)
        object.__setattr__(self, "by_block", _by_block(self))

    def encode(self, chunk: npt.NDArray[Any]) -> Buffer:
        """The bytes to store for a chunk."""
        if self.direct and self.lends and not chunk.flags.c_contiguous:
            with scratch(self.spec.nbytes or 0) as room:
                array = room.view(chunk.dtype).reshape(chunk.shape)
                array[...] = chunk
                return self._encode(array)
        return self._encode(chunk)

    def _encode(self, array: npt.NDArray[Any]) -> Buffer:
        for codec, spec in self.array_array:
            with _codec_context(codec, "encode"):
                array = codec.encode(_typed(codec, array, spec), spec)
        with _codec_context(self.array_bytes, "encode"):
            data = self.array_bytes.encode(array, self.inner)
        return self.redone(data, len(self.bytes_bytes))

    def decode(self, data: Buffer) -> npt.NDArray[Any]:
        """The chunk behind stored bytes; the array may be read-only and not contiguous."""
        return self._to_array(self.undone(data, len(self.bytes_bytes)))

    def _to_array(self, data: Buffer) -> npt.NDArray[Any]:
        """The chunk behind bytes that are unpacked already."""
        if len(data) == self.plain_size:  # the same as below in fewer steps
            return np.frombuffer(data, self.spec.data_type.dtype).reshape(self.spec.shape)
        size = self.array_bytes.encoded_size(self.inner)
        with moved(self.turned_back), _codec_context(self.array_bytes, "decode"):
            if size is not None and len(data) != size:
                raise ValueError(f"there are {len(data)} bytes, expected {size}")
            array = self.array_bytes.decode(data, self.inner)
        after = self.inner
        for codec, spec in reversed(self.array_array):
            with _codec_context(codec, "decode"):
                array = codec.decode(_typed(codec, array, after), spec)
            after = spec
        if array.shape != self.spec.shape:
            raise ChunkError(f"decoded to shape {array.shape}, expected {self.spec.shape}")
        return np.asarray(array)

    # Some of the steps

    def undone(self, data: Buffer, count: int) -> Buffer:
        """Stored bytes as they were before the last `count` codecs, all of which take bytes."""
        for step, size in self.bytes_bytes[len(self.bytes_bytes) - count :][::-1]:
            data = _decoded(step, data, size)
        return data

    def redone(self, data: Buffer, count: int) -> Buffer:
        """The bytes to store, given what the last `count` codecs, all of which take bytes, get."""
        for step, _ in self.bytes_bytes[len(self.bytes_bytes) - count :]:
            with _codec_context(step, "encode"):
                data = step.encode(data)
        return data

    # Parts of chunks

    @property
    def reads_parts(self) -> bool:
        """Whether a part of a chunk can be had from a part of its bytes."""
        return self.sharded is not None or self.by_block

    def steps(self, key: str, region: Region) -> Steps[Decode | None]:
        """Part of a chunk, fetching and decoding no more than the codecs allow; None: absent.

        What comes back fills an array of the region's shape.
        """
        if self.by_block and any(s != slice(0, n, 1) for s, n in self._sizes(region)):
            return (yield from self._block_steps(key, region))
        if self.sharded is None:
            [data] = yield [(key, None)]
            return None if data is None else partial(self.decode_into, data, region)
        inside, axes = self.sharded
        # Without a codec context: where the store fails, the codec is not at fault.
        decode: Decode | None = yield from inside.steps(key, tuple(region[i] for i in axes))
        return None if decode is None else partial(self._decode_turned, decode)

    def _sizes(self, region: Region) -> Iterable[tuple[slice, int]]:
        return zip(region, self.spec.shape, strict=True)

    def _block_steps(self, key: str, region: Region) -> Steps[Decode | None]:
        shape, turned = self.inner.shape, tuple(region[i] for i in self.axes)
        size, itemsize = self.inner.nbytes or 0, self.inner.data_type.dtype.itemsize
        codec: Any = self.bytes_bytes[0][0]
        found = yield from codec.block_steps(key, shape, itemsize, turned, size)
        if found is None:
            return None
        if not callable(found):  # all stored bytes
            return partial(self.decode_into, found, region)
        return partial(self._decode_blocks, found, turned)

    def _decode_blocks(
        self, unpack: Callable[[], npt.NDArray[np.uint8]], region: Region, out: npt.NDArray[Any]
    ) -> None:
        chunk = unpack().view(self.inner.data_type.dtype).reshape(self.inner.shape)
        out.transpose(self.axes)[...] = chunk[region]

    def _decode_turned(self, decode: Decode, out: npt.NDArray[Any]) -> None:
        with moved(self.turned_back):
            decode(out.transpose(self.axes))

    def turned_back(self, box: Region) -> Region:
        """A box along the axes of the bytes, along those of the chunk; all of a reshaped one."""
        if self.reshapes:
            return tuple(slice(0, n) for n in self.spec.shape)
        pairs = sorted(zip(self.axes, box, strict=True), key=lambda pair: pair[0])
        return tuple(part for _, part in pairs)

    def decode_into(self, data: Buffer, region: Region, out: npt.NDArray[Any]) -> None:
        """Fill `out` with part of the chunk behind stored bytes."""
        if self.sharded is not None:
            decode = run(self.steps("", region), from_memory(data))
            if decode is not None:
                decode(out)
            return
        if self.direct and out.flags.c_contiguous and out.shape == self.spec.shape:
            self._unpack(data, out.reshape(-1).view(np.uint8))
            return
        index: Any = (*region, ...)  # which keeps a 0-dimensional array an array
        if self.packed_into and self.lends:
            with scratch(self.bytes_bytes[0][1] or 0) as room:
                out[...] = self._to_array(self._unpack(data, room).data)[index]
        else:
            out[...] = self.decode(data)[index]

    def _unpack(self, data: Buffer, out: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """`out` filled by the last of the bytes→bytes codecs, which can do so."""
        for step, size in self.bytes_bytes[:0:-1]:
            data = _decoded(step, data, size)
        step = self.bytes_bytes[0][0]
        with _codec_context(step, "decode"):
            step.decode_into(data, out)  # type: ignore[attr-defined]  # has it
        return out

    def update(self, old: Buffer | None, region: Region, value: npt.NDArray[Any]) -> Buffer | None:
        """The bytes of a chunk with a part replaced; None where only the fill value is left."""
        if self.sharded is not None:
            inside, axes = self.sharded
            turned = tuple(region[i] for i in axes), value.transpose(axes)
            with _codec_context(inside, "encode"):
                return cast("Buffer | None", inside.update(old, self.inner, *turned))
        if old is None:
            chunk = np.empty(self.spec.shape, self.spec.data_type.dtype)
            chunk[...] = self.spec.fill
        else:
            chunk = np.array(self.decode(old))  # which may be the store's or a codec's own
        chunk[region] = value
        return None if is_fill(chunk, self.spec.fill) else self.encode(chunk)


def _reshapes(chain: Chain) -> bool:
    """Whether a codec other than transpose gives the chunk another shape."""
    after = [*(spec for _, spec in chain.array_array[1:]), chain.inner]
    return any(
        not isinstance(codec, Transpose) and before.shape != then.shape
        for (codec, before), then in zip(chain.array_array, after, strict=False)
    )


def _axes(chain: Chain) -> tuple[int, ...]:
    """The axes of the chunk as its array→bytes codec sees them."""
    axes = tuple(range(len(chain.spec.shape)))
    if chain.reshapes:
        return axes
    for codec, spec in chain.array_array:
        if isinstance(codec, Transpose):
            axes = tuple(axes[i] for i in codec.axes(len(spec.shape)))
    return axes


def _by_block(chain: Chain) -> bool:
    """Whether chunks are large, and nothing but Blosc makes their stored bytes."""
    plain = getattr(chain.array_bytes, "plain", None)
    if len(chain.bytes_bytes) != 1 or plain is None:
        return False
    turns = all(isinstance(codec, Transpose) for codec, _ in chain.array_array)
    least = getattr(chain.bytes_bytes[0][0], "by_block_from", None)
    large = least is not None and (chain.inner.nbytes or 0) >= least
    return turns and large and bool(plain(chain.inner))


def _only_turns(chain: Chain) -> bool:
    """Whether the array→bytes codec can work on parts of the stored value: nothing but
    transposes before it, and nothing after it."""
    turns = all(isinstance(codec, Transpose) for codec, _ in chain.array_array)
    return turns and not chain.bytes_bytes


def bind_chain(codecs: tuple[Named, ...], spec: Spec, field: str = "codecs") -> Chain:
    """The chain for chunks of that shape and type; raises where the codecs do not fit.

    `field` is where the document has the list.
    """
    before: list[tuple[ArrayArray, Spec]] = []
    middle: ArrayBytes | None = None
    after: list[tuple[BytesBytes, int | None]] = []
    current, size = spec, None
    for i, named in enumerate(codecs):
        where = named.where or f"{field}[{i}]"
        try:
            codec = bind_codec(named, where)
        except UnknownExtension:
            if named.must_understand:
                raise
            continue  # the document allows readers to skip it
        _check_order(codec, middle is not None, named, where)
        if codec.kind == "array->array":
            filter_ = cast(ArrayArray, _fitted(codec, current, named, where))
            before.append((filter_, current))
            current = _resolved(filter_, current, named, where)
        elif codec.kind == "array->bytes":
            middle = cast(ArrayBytes, _fitted(codec, current, named, where))
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
            f"{field}: exactly one must turn the array into bytes (such as 'bytes'); given: {names}"
        )
    return Chain(spec, tuple(before), middle, current, tuple(after), size)


def _fitted(codec: Codec, spec: Spec, named: Named, where: str) -> Codec:
    """The codec made for one shape and type, where it can be."""
    fit = getattr(codec, "for_spec", None)
    if fit is None:
        return codec
    try:
        return cast(Codec, fit(spec))
    except InvalidMetadata as e:
        raise _placed(e, named, where) from None


def _resolved(codec: ArrayArray, spec: Spec, named: Named, where: str) -> Spec:
    """What comes after a codec."""
    try:
        return codec.resolve(spec)
    except InvalidMetadata as e:
        raise _placed(e, named, where) from None


def _check_order(codec: Codec, is_bytes: bool, named: Named, where: str) -> None:
    name = named.stated or getattr(codec, "name", type(codec).__name__)
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


def _decoded(step: BytesBytes, data: Buffer, size: int | None) -> Buffer:
    with _codec_context(step, "decode"):
        out = step.decode(data, size)
        if size is not None and len(out) != size:
            raise ValueError(f"it gave {len(out)} bytes, expected {size}")
        return out


def _typed(codec: ArrayArray, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
    """The array as the type that its specification says, for codecs that look at the items.

    The byte order of storage is a matter of the codec that makes bytes, and ends with it.
    """
    dtype = spec.data_type.dtype
    if array.dtype == dtype or isinstance(codec, Transpose):
        return array
    return array.astype(dtype)


def _codec_context(codec: Codec, verb: str) -> error_context:
    """Have errors of the block name the codec; a codec of any package may raise anything."""
    name = getattr(codec, "name", type(codec).__name__)
    own = (ChunkError, MissingPackage, MemoryError)
    where = f"codec {name!r}: {verb}"
    return error_context(where, into=ChunkError, catch=(Exception,), ignore=own, codec=name)


T = TypeVar("T")
Request: TypeAlias = tuple[str, Range | None]  # a key and a part of its value, None: all of it
Answers: TypeAlias = Sequence[Buffer | None]  # None: there is no such key
Steps: TypeAlias = Generator[list[Request], Answers, T]
Decode: TypeAlias = Callable[[npt.NDArray[Any]], None]  # fills an array


def run(steps: Steps[T], fetch: Callable[[list[Request]], Answers]) -> T:
    """Run the steps to their end, fetching what they ask for; they are told what fails."""
    try:
        wanted = next(steps)
        while True:
            try:
                answers = fetch(wanted)
            except OmnizarrError as e:
                wanted = steps.throw(e)
            else:
                wanted = steps.send(answers)
    except StopIteration as end:
        result: T = end.value
        return result


def from_memory(data: Buffer) -> Callable[[list[Request]], Answers]:
    """Answers requests from one value that is here already, whatever the key."""
    view = memoryview(data)
    return lambda requests: [view if part is None else part.of(view) for _, part in requests]


def together(several: Iterable[Steps[T]]) -> Steps[list[T]]:
    """Run several side by side, so that each round is one list of requests."""
    found: dict[int, T] = {}
    waiting: list[tuple[int, Steps[T], list[Request]]] = []
    for number, steps in enumerate(several):
        try:
            waiting.append((number, steps, next(steps)))
        except StopIteration as end:
            found[number] = end.value
    while waiting:
        answers = yield [request for _, _, wanted in waiting for request in wanted]
        still, start = [], 0
        for number, steps, wanted in waiting:
            own = answers[start : start + len(wanted)]
            start += len(wanted)
            try:
                still.append((number, steps, steps.send(own)))
            except StopIteration as end:
                found[number] = end.value
        waiting = still
    return [found[number] for number in sorted(found)]


def within(steps: Steps[T], span: Range) -> Steps[T]:
    """Run steps on the part `span` of a value, which must be there in full."""
    try:
        wanted = next(steps)
        while True:
            parts = [(part or Range()).within(span) for _, part in wanted]
            answers = yield [(key, part) for (key, _), part in zip(wanted, parts, strict=True)]
            for part, answer in zip(parts, answers, strict=True):
                if answer is None or len(answer) != part.length:
                    raise ChunkError(f"the value ends before its inner chunk does: {span}")
            wanted = steps.send(answers)
    except StopIteration as end:
        result: T = end.value
        return result
