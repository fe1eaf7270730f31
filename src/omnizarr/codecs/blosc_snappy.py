"""Blosc buffers whose streams snappy packed, which the library inside numcodecs does not know.

To read one, its streams are unpacked and put into a buffer that holds them as they are; the
library then turns the shuffle back. See `omnizarr.codecs.snappy`.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from omnizarr.codecs import snappy
from omnizarr.codecs.codec import Buffer, as_bytes_array

_HEADER = struct.Struct("<BBBBIII")
_WORD = struct.Struct("<I")
_SHUFFLE, _STORED, _BITS, _UNSPLIT = 1, 2, 4, 16
_LZ4, _SNAPPY = 1 << 5, 2 << 5
_BLOCK, _LEAST = 2**18, 128  # bytes of a block unless told, and of a buffer worth packing


def readable(buffer: Buffer) -> Buffer:
    """The buffer as numcodecs reads it; itself, where snappy is not in it."""
    if len(buffer) < _HEADER.size or buffer[2] & 0xE0 != _SNAPPY:
        return buffer
    head = _HEADER.unpack_from(buffer)
    version, inner, flags, typesize, nbytes, blocksize, stored = head
    flags = flags & 0x1F | _LZ4
    if flags & _STORED:
        return _HEADER.pack(version, inner, flags, *head[3:]) + bytes(buffer[_HEADER.size :])
    count = -(-nbytes // blocksize) if blocksize else 0
    if not 0 < blocksize <= nbytes or _HEADER.size + 4 * count > min(stored, len(buffer)):
        raise ValueError("the Blosc header has impossible sizes of blocks")
    split = not flags & _UNSPLIT and 0 < typesize <= 16 and blocksize // typesize >= _LEAST
    parts, table, at = list[bytes](), list[int](), _HEADER.size + 4 * count
    for i in range(count):
        length = min(blocksize, nbytes - i * blocksize)
        streams = typesize if split and length == blocksize else 1
        start = _WORD.unpack_from(buffer, _HEADER.size + 4 * i)[0]
        block = _plain(buffer, start, streams, length // streams)
        table.append(at)
        parts.append(block)
        at += len(block)
    sizes = _HEADER.pack(version, inner, flags, typesize, nbytes, blocksize, at)
    return b"".join([sizes, struct.pack(f"<{count}I", *table), *parts])


def _plain(buffer: Buffer, at: int, streams: int, length: int) -> bytes:
    """A block with all streams as they are."""
    out = []
    for _ in range(streams):
        if at + 4 > len(buffer):
            raise ValueError("the table of blocks leads outside the chunk")
        packed = _WORD.unpack_from(buffer, at)[0]
        data = buffer[at + 4 : at + 4 + packed]
        if not 0 < packed <= length or len(data) != packed:
            raise ValueError("a stream leads outside the chunk")
        plain = bytes(data) if packed == length else snappy.unpack(data, length)
        out += [_WORD.pack(length), plain]
        at += 4 + packed
    return b"".join(out)


def pack(data: Buffer, typesize: int, shuffle: int, clevel: int, blocksize: int) -> bytes:
    """A Blosc buffer, each block one stream, as the kernel writes it."""
    values, size = as_bytes_array(data), len(data)
    block = _block_size(size, typesize * (8 if shuffle == 2 else 1), blocksize)
    typesize = 1 if typesize > 255 else typesize
    shuffle = shuffle if typesize > 1 or shuffle == 2 else 0
    count = -(-size // block)
    parts, table, at = list[bytes](), list[int](), _HEADER.size + 4 * count
    for start in range(0, size, block):
        shuffled = _shuffled(values[start : start + block], typesize, shuffle).tobytes()
        packed = snappy.pack(shuffled)
        stream = packed if len(packed) < len(shuffled) else shuffled
        table.append(at)
        parts += [_WORD.pack(len(stream)), stream]
        at += 4 + len(stream)
    flags = _UNSPLIT | _SNAPPY | (0, _SHUFFLE, _BITS)[shuffle]
    if clevel == 0 or size < _LEAST or at >= size + _HEADER.size:
        flags, at = _UNSPLIT | _SNAPPY | _STORED, size + _HEADER.size
        return _HEADER.pack(2, 1, flags, typesize, size, block, at) + values.tobytes()
    head = _HEADER.pack(2, 1, flags, typesize, size, block, at)
    return b"".join([head, struct.pack(f"<{count}I", *table), *parts])


def _block_size(size: int, unit: int, wanted: int) -> int:
    block = min(wanted or _BLOCK, size)
    return max(1, block - block % unit if block > unit else block)


def _shuffled(values: npt.NDArray[np.uint8], size: int, shuffle: int) -> npt.NDArray[np.uint8]:
    """Equal bytes, or bits, of all items side by side; bits of items in eights only."""
    items, rest = divmod(len(values), size)
    if shuffle == 0 or (shuffle == 2 and items % 8):
        return values
    whole = values[: items * size].reshape(items, size)
    if shuffle == 1:
        turned = whole.T.reshape(-1)
    else:
        bits = np.unpackbits(whole, axis=1, bitorder="little")
        turned = np.packbits(bits.T, axis=1, bitorder="little").reshape(-1)
    return np.concatenate([turned, values[len(values) - rest :]]) if rest else turned
