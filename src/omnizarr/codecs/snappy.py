"""Snappy's raw format, in Python: the length, then literals and copies of what came before.

Blosc chunks of programs up to 2021 may hold it; no library that we install reads it any more.
The kernel has the same in C, byte for byte.
"""

from __future__ import annotations

from omnizarr.codecs.codec import Buffer

_FRAGMENT = 2**16  # copies reach back no further, so their distances fit two bytes
_MULTIPLIER, _SHIFT, _SLOTS = 0x1E35A7BD, 18, 2**14


def unpack(data: Buffer, size: int) -> bytes:
    """The `size` bytes that were packed."""
    stated, at = _length(data)
    if stated != size:
        raise ValueError(f"snappy: the stream says {stated} bytes, expected {size}")
    out = bytearray()
    while at < len(data):
        tag = data[at]
        kind, count = tag & 3, (tag >> 2) + 1
        at += 1
        if kind == 0:
            wide = max(0, count - 60)  # bytes of the length, where it does not fit the tag
            if wide:
                count = int.from_bytes(data[at : at + wide], "little") + 1
                at += wide
            literal = data[at : at + count]
            if len(literal) != count or len(out) + count > size:
                raise ValueError("snappy: a literal leads outside")
            out += literal
            at += count
            continue
        wide = (1, 2, 4)[kind - 1]
        back = int.from_bytes(data[at : at + wide], "little")
        if kind == 1:
            back, count = back + (tag >> 5 << 8), (tag >> 2 & 7) + 4
        if at + wide > len(data) or not 0 < back <= len(out) or len(out) + count > size:
            raise ValueError("snappy: a copy leads outside")
        at += wide
        piece = out[-back:][:count]
        out += (piece * -(-count // len(piece)))[:count]
    if len(out) != size:
        raise ValueError(f"snappy: the stream holds {len(out)} bytes, expected {size}")
    return bytes(out)


def _length(data: Buffer) -> tuple[int, int]:
    """The stated length, and where it ends."""
    length = 0
    for i in range(min(5, len(data))):
        length |= (data[i] & 127) << 7 * i
        if data[i] < 128:
            return length, i + 1
    raise ValueError("snappy: the stream has no length")


def pack(data: Buffer) -> bytes:
    """The bytes packed: the first match that is found is taken."""
    out, rest = bytearray(), len(data)
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    whole = bytes(data)
    for start in range(0, len(whole), _FRAGMENT):
        _pack_fragment(whole[start : start + _FRAGMENT], out)
    return bytes(out)


def _pack_fragment(data: bytes, out: bytearray) -> None:
    seen = [0] * _SLOTS
    at = literal = 0
    while at + 4 <= len(data):
        word = data[at : at + 4]
        slot = (int.from_bytes(word, "little") * _MULTIPLIER & 0xFFFFFFFF) >> _SHIFT
        found, seen[slot] = seen[slot], at
        if found >= at or data[found : found + 4] != word:
            at += 1 + (at - literal >> 5)
            continue
        _put_literal(data[literal:at], out)
        length = 4
        while at + length < len(data) and data[at + length] == data[found + length]:
            length += 1
        _put_copy(at - found, length, out)
        at += length
        literal = at
    _put_literal(data[literal:], out)


def _put_literal(data: bytes, out: bytearray) -> None:
    if not data:
        return
    last = len(data) - 1
    if last < 60:
        out.append(last << 2)
    elif last < 256:
        out += bytes((60 << 2, last))
    else:
        out += bytes((61 << 2, last & 255, last >> 8))
    out += data


def _put_copy(back: int, length: int, out: bytearray) -> None:
    while length:
        part = min(length, 64)
        out.append(part - 1 << 2 | 2)
        out += back.to_bytes(2, "little")
        length -= part
