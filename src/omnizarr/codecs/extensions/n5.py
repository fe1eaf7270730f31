"""n5_default: the blocks of N5 with their header; and LZ4 as N5 stores it.

The registered extension ``n5_default``, of kind array→bytes:
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default

``{"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes",
"configuration": {"endian": "big"}}, {"name": "gzip", "configuration": {"level": 6}}]}``

A block is a header of big-endian numbers (mode, rank, and the length of each axis), and what the
inner codecs make of the items: a transpose that reverses all axes, ``bytes`` in big-endian order,
and at most one compressor. A block at the end of an axis may be as long as the array or as long as
other blocks. So the header states the shape of the block, which is cut or filled up to that of the
chunk. Java cuts such blocks; zarr-python 2 and tensorstore fill them up, as does this codec.

Of the modes, only ``default`` holds one item for each element. Blocks of the modes ``varlength``
and ``object`` hold as many values as they like, which is no array; reading one is an error.

``n5.lz4`` is the compressor ``lz4`` of N5, which has no name in Zarr: the blocks of lz4-java, each
with a header and a checksum, or the bare LZ4 block that z5 writes. N5 written by zarr-python 2 has
``numcodecs.lz4`` instead.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numcodecs import lz4

from omnizarr.codecs.codec import (
    BoundSerializer,
    Buffer,
    BytesBytesCodec,
    ChunkwiseCodec,
    Spec,
    inner_codecs,
    limit_of,
)
from omnizarr.codecs.pipeline import CodecPipeline, bind_pipeline
from omnizarr.errors import ChunkError, InvalidMetadata, Problem, error_context
from omnizarr.model import Named
from omnizarr.model.node import check_members

TYPES = frozenset(
    {
        *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float32", "float64"),
    }
)
# Types that N5 does not have, but zarr-python 2 stored in it; they are read and never written.
READ_TYPES = TYPES | {"bool", "float16"}
MODES = {1: "varlength", 2: "object"}
MAX_LENGTH = 2**32 - 1  # of an axis


# The codec


@dataclass(frozen=True, slots=True)
class N5Default(ChunkwiseCodec):
    """The registered extension ``n5_default``; see the module."""

    codecs: tuple[Named, ...]

    name: ClassVar[str] = "n5_default"

    def __post_init__(self) -> None:
        self.name_codecs("codecs")

    @classmethod
    def bind(cls, stated: Named) -> N5Default:
        check_members(stated, "codec", required=("codecs",))
        return cls(*inner_codecs(stated, "codecs"))

    def for_spec(self, spec: Spec) -> N5Blocks:
        """Return the codec bound to chunks of one shape and type; raise if N5 cannot have them."""
        wrong = self._wrong(spec)
        problems = [Problem("", f"configuration.codecs{at}", text) for at, text in wrong]
        if problems:
            raise InvalidMetadata.of(problems, f"codec {self.name!r}")
        type_ = spec.data_type.named.name
        if type_ not in READ_TYPES:
            raise InvalidMetadata(
                f"codec {self.name!r} cannot store the type {type_!r}; N5 has the integers of 8 to"
                " 64 bits, float32 and float64"
            )
        if max(spec.shape, default=0) > MAX_LENGTH:
            raise InvalidMetadata(
                f"codec {self.name!r} cannot store chunks of shape {spec.shape}; the header has 32"
                " bits for each length"
            )
        return N5Blocks(spec, self.codecs, bind_pipeline(self.codecs, spec, "configuration.codecs"))

    def _wrong(self, spec: Spec) -> list[tuple[str, str]]:
        """Return the places and problems of inner codecs that make no blocks of N5."""
        names = [codec.name for codec in self.codecs]
        if names[:2] != ["transpose", "bytes"] or len(names) > 3:
            return [("", f"expected transpose, bytes and at most one compressor, got {names}")]
        found = []
        axes = list(reversed(range(len(spec.shape))))
        order: Any = self.codecs[0].configuration.get("order")
        if not isinstance(order, (list, tuple)) or list(order) != axes:
            found.append(("[0].configuration.order", f"expected {axes}, got {order!r}"))
        endian = self.codecs[1].configuration.get("endian")
        single = not spec.data_type.variable and spec.data_type.dtype.itemsize == 1
        if endian != "big" and not (single and endian is None):
            found.append(("[1].configuration.endian", f"expected 'big', got {endian!r}"))
        return found


@dataclass(frozen=True, slots=True)
class N5Blocks(BoundSerializer):
    """The codec bound to chunks of one shape and type."""

    spec: Spec
    codecs: tuple[Named, ...]
    whole: CodecPipeline  # of blocks that are as long as the chunk

    name: ClassVar[str] = N5Default.name

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        type_ = spec.data_type.named.name
        if type_ not in TYPES:
            raise ValueError(f"N5 has no type {type_!r}")
        shape = self.spec.shape
        return struct.pack(f">HH{len(shape)}I", 0, len(shape), *shape) + self.whole.encode(array)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        shape, start = read_header(data, len(spec.shape))
        size = math.prod(shape) * spec.data_type.dtype.itemsize
        limit = max(spec.nbytes or 0, limit_of(None))
        if size > limit:
            raise ValueError(
                f"the header says a block of shape {shape}, which has {size} bytes; the chunk has"
                f" the shape {spec.shape}, and at most {limit} bytes are decoded"
            )
        body = memoryview(data)[start:]
        where = f"codec {self.name!r}: block of shape {shape}"
        with error_context(where, catch=(ChunkError,), codec=self.name):
            if shape == spec.shape:
                return self.whole.decode(body)
            out = np.full(spec.shape, spec.fill, spec.data_type.dtype)
            if math.prod(shape):
                block = bind_pipeline(self.codecs, replace(spec, shape=shape)).decode(body)
                part = tuple(slice(0, min(pair)) for pair in zip(shape, spec.shape, strict=True))
                out[part] = block[part]
            return out


def read_header(data: Buffer, rank: int) -> tuple[tuple[int, ...], int]:
    """Return the shape of a block, in the order of N5, and the size of its header."""
    end = 4 + 4 * rank
    if len(data) >= 2:
        mode = int.from_bytes(bytes(data[:2]), "big")
        if mode in MODES:
            raise ValueError(
                f"it is an N5 block of the mode {MODES[mode]!r}, whose number of values is not that"
                " of its elements; only blocks of the mode 'default' are arrays"
            )
        if mode:
            raise ValueError(f"the header says the mode {mode}, which N5 does not have")
    if len(data) >= 4:
        stated = int.from_bytes(bytes(data[2:4]), "big")
        if stated != rank:
            raise ValueError(f"the header says {stated} axes, but the array has {rank}")
    if len(data) < end:
        raise ValueError(f"there are {len(data)} bytes, fewer than the header of {end}")
    return struct.unpack_from(f">{rank}I", data, 4), end


# LZ4

MAGIC = b"LZ4Block"
_HEADER = struct.Struct("<8sBIII")  # magic, method and level, stored and decoded bytes, checksum
_STORED, _COMPRESSED = 0x10, 0x20  # methods
_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF  # of the checksum, which has 28 bits
_FRAME = b"\x04\x22\x4d\x18"


@dataclass(frozen=True, slots=True)
class Lz4Blocks(BytesBytesCodec):
    """``lz4`` of N5: ``{"block_size": 65536}``."""

    block_size: int = 2**16

    name: ClassVar[str] = "n5.lz4"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_integer("block_size", 1, 2**25)

    def encode(self, data: Buffer) -> Buffer:
        size = max(64, self.block_size)
        view = memoryview(data).cast("B")
        parts = [bytes(view[i : i + size]) for i in range(0, len(view), size)]
        level = max(0, (size - 1).bit_length() - 10)
        out = []
        for part, checksum in zip(parts, checksums(parts), strict=True):
            packed, method = bytes(lz4.compress(part)[4:]), _COMPRESSED
            if len(packed) >= len(part):
                packed, method = part, _STORED
            header = _HEADER.pack(MAGIC, method | level, len(packed), len(part), checksum)
            out += [header, packed]
        return b"".join([*out, _HEADER.pack(MAGIC, _STORED | level, 0, 0, 0)])

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        view = memoryview(data).cast("B")
        if view[:8] != MAGIC:
            return _bare(view, size)
        limit, start = limit_of(size), 0
        room = limit
        parts: list[bytes] = []
        stated: list[int] = []
        while True:
            if len(view) < start + _HEADER.size:
                raise ValueError("the LZ4 blocks are truncated")
            magic, token, stored, length, checksum = _HEADER.unpack_from(view, start)
            start += _HEADER.size
            if magic != MAGIC:
                raise ValueError("an LZ4 block does not begin as one")
            if not length:
                break
            room -= length
            if room < 0:
                raise ValueError(f"it decompresses to more than the {limit} bytes expected")
            body = view[start : start + stored]
            if len(body) < stored:
                raise ValueError("the LZ4 blocks are truncated")
            parts.append(_decompressed(body, token & 0xF0, length))
            stated.append(checksum)
            start += stored
        if start < len(view):
            raise ValueError(f"{len(view) - start} bytes follow the end of the LZ4 blocks")
        for number, (found, checksum) in enumerate(zip(checksums(parts), stated, strict=True)):
            if found != checksum:
                raise ValueError(
                    f"LZ4 block {number}: checksum mismatch: computed {found:#010x}, stored"
                    f" {checksum:#010x}"
                )
        return b"".join(parts)


def _decompressed(body: memoryview, method: int, length: int) -> bytes:
    if method == _STORED:
        if len(body) != length:
            raise ValueError(f"a stored LZ4 block has {len(body)} bytes, expected {length}")
        return bytes(body)
    if method != _COMPRESSED:
        raise ValueError(f"an LZ4 block has the unknown method {method:#x}")
    # LZ4 makes at most 255 bytes of one, so a large length is not allocated for few bytes.
    if length > 255 * len(body) + 64:
        raise ValueError(f"an LZ4 block of {len(body)} bytes cannot have {length} bytes")
    return bytes(lz4.decompress(length.to_bytes(4, "little") + bytes(body)))


def _bare(view: memoryview, size: int | None) -> bytes:
    """Return the content of one LZ4 block without any header, as z5 writes it."""
    if view[:4] == _FRAME:
        raise ValueError("it is an LZ4 frame, but N5 has LZ4 blocks")
    if size is None:
        raise ValueError("an LZ4 block without a header needs a known size")
    return _decompressed(view, _COMPRESSED, size)


# The checksum: XXH32 of many blocks at once, since its steps depend on each other.

_P1, _P2, _P3, _P4, _P5 = map(
    np.uint32, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
)
Words = npt.NDArray[np.uint32]


def checksums(parts: Sequence[bytes]) -> list[int]:
    """Return the checksum of each block, as lz4-java has it."""
    found = np.zeros(len(parts), np.uint32)
    lengths = np.array([len(part) for part in parts], np.int64)
    for length in np.unique(lengths).tolist():
        same = np.flatnonzero(lengths == length)
        data = b"".join(parts[n] for n in same.tolist())
        found[same] = xxh32(np.frombuffer(data, np.uint8).reshape(len(same), length), _SEED)
    return (found & _MASK).tolist()  # type: ignore[no-any-return]


def xxh32(rows: npt.NDArray[np.uint8], seed: int) -> Words:
    """Return XXH32 of each row of bytes."""
    count, length = rows.shape
    end = length // 16 * 16
    value = np.full(count, (seed + int(_P5)) % 2**32, np.uint32)
    if end:
        starts = (seed + int(_P1) + int(_P2), seed + int(_P2), seed, seed - int(_P1))
        lanes = np.array([[start % 2**32 for start in starts]] * count, np.uint32)
        words = np.ascontiguousarray(rows[:, :end]).view("<u4").reshape(count, -1, 4) * _P2
        for i in range(words.shape[1]):
            lanes = _rotated(lanes + words[:, i], 13) * _P1
        rotations = zip(range(4), (1, 7, 12, 18), strict=True)
        value = sum((_rotated(lanes[:, i], by) for i, by in rotations), np.zeros(count, np.uint32))
    value = value + np.uint32(length)
    middle = length // 4 * 4
    for i in range(end, middle, 4):
        word: Words = np.ascontiguousarray(rows[:, i : i + 4]).view("<u4")[:, 0]
        value = _rotated(value + word * _P3, 17) * _P4
    for i in range(middle, length):
        value = _rotated(value + rows[:, i].astype(np.uint32) * _P5, 11) * _P1
    value = (value ^ (value >> np.uint32(15))) * _P2
    value = (value ^ (value >> np.uint32(13))) * _P3
    mixed: Words = value ^ (value >> np.uint32(16))
    return mixed


def _rotated(words: Words, by: int) -> Words:
    turned: Words = (words << np.uint32(by)) | (words >> np.uint32(32 - by))
    return turned
