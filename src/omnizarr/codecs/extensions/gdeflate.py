"""zarrs.gdeflate: pages of 64 KiB, each compressed by GDeflate; read, but not written.

Specification of the codec: the documentation of zarrs. A chunk has, in eight bytes each and
little-endian, the number of its decompressed bytes, the number of its pages and their compressed
sizes; the pages follow. Configuration: ``{"level": 9}``, from 0 to 12.

Specification of GDeflate: the Internet-Draft *GDEFLATE bitstream specification* (Uralsky, 2024). It
is DEFLATE with the tables of DEFLATE64, whose bits are dealt to 32 lanes. A lane holds at least 32
bits: after its turn it takes the next word of 32 bits from the page if it has fewer. Codes are
dealt in turns, except that the distance of a match is the next code of the same lane. A stored
block has its length in 16 bits after the header, and its bytes are dealt one by one.

No package on PyPI has a decoder for processors (2026), so this one is in Python: about half a
megabyte a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from omnizarr.codecs.codec import Buffer, BytesBytesCodec, limit_of
from omnizarr.errors import CannotExpress

PAGE = 2**16
LANES = 32
WORD = 32  # bits
# The order of the lengths of the codes for lengths, and the base and extra bits of each symbol.
_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
_LENGTH_BITS = (*[0] * 8, *[n for n in range(1, 6) for _ in range(4)], 16, 16, 16)
_LENGTH_BASES = (
    *(3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115),
    *(131, 163, 195, 227, 3, 3, 3),
)
_DISTANCE_BITS = (0, 0, *[n for n in range(15) for _ in range(2)])
_FIXED = ([8] * 144 + [9] * 112 + [7] * 24 + [8] * 8, [5] * 32)
_END = 256

_Table = tuple[int, list[int]]  # the bits to look up, and 16 * symbol + length for each, or -1


@dataclass(frozen=True, slots=True)
class Gdeflate(BytesBytesCodec):
    """The codec ``zarrs.gdeflate``, which can be read only."""

    level: int

    name: ClassVar[str] = "zarrs.gdeflate"

    def __post_init__(self) -> None:
        self.check_integer("level", 0, 12)

    def encode(self, data: Buffer) -> Buffer:
        raise CannotExpress(
            f"codec {self.name!r} is read but not written; copy the array with another compressor"
        )

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        stated = _numbers(data, 0, 2)
        total, count = stated
        if total > limit_of(size) or (size is not None and total != size):
            raise ValueError(f"the header says {total} bytes, expected {limit_of(size)}")
        sizes = _numbers(data, 16, count)
        start = 16 + 8 * count
        if start + sum(sizes) != len(data) or total > count * PAGE:
            raise ValueError(f"{count} pages of {sum(sizes)} bytes do not fit the chunk's header")
        out = bytearray()
        for page in sizes:
            out += inflate(bytes(data[start : start + page]), min(PAGE, total - len(out)))
            start += page
        if len(out) != total:
            raise ValueError(f"the pages have {len(out)} bytes, the header says {total}")
        return out


def _numbers(data: Buffer, start: int, count: int) -> list[int]:
    if start + 8 * count > len(data):
        raise ValueError(f"there are {len(data)} bytes, fewer than the header has")
    found: list[int] = np.frombuffer(data, "<u8", count, start).tolist()
    return found


def inflate(page: bytes, most: int) -> bytearray:
    """Return the bytes of a page; raise if there are more than expected."""
    out = bytearray()
    lanes = Lanes(page)
    final = False
    while not final:
        lanes.lane = 0
        final = bool(lanes.take(1))
        kind = lanes.take(2)
        lanes.refill()
        if kind == 0:
            size = lanes.take(16)
            if len(out) + size > most:
                raise ValueError(f"the page has more than the {most} bytes expected")
            for _ in range(size):
                out.append(lanes.take(8))
                lanes.advance()
            for _ in range(LANES):
                lanes.advance()
        elif kind == 3:
            raise ValueError("a block has the type 3, which does not exist")
        else:
            lengths = _FIXED if kind == 1 else _code_lengths(lanes)
            _block(lanes, out, most, *map(_table, lengths))
    return out


class Lanes:
    """The bits of a page, dealt out to lanes; `lane` is the current one."""

    __slots__ = ("bits", "counts", "lane", "next", "words")

    def __init__(self, page: bytes) -> None:
        padded = page + bytes(-len(page) % 4)
        self.words: list[int] = np.frombuffer(padded, "<u4").tolist()
        self.next = 0
        self.bits = [0] * LANES
        self.counts = [0] * LANES
        for lane in range(LANES):
            self.lane = lane
            self.refill()

    def refill(self) -> None:
        """Give the lane the next word if it has fewer bits than one."""
        lane = self.lane
        if self.counts[lane] < WORD:
            if self.next >= len(self.words) + 2 * LANES:  # those past the end are never used
                raise ValueError("the page ends before its last block does")
            word = self.words[self.next] if self.next < len(self.words) else 0
            self.bits[lane] |= word << self.counts[lane]
            self.counts[lane] += WORD
            self.next += 1

    def advance(self) -> None:
        """Refill the lane, and go to the next."""
        self.refill()
        self.lane = (self.lane + 1) % LANES

    def take(self, count: int) -> int:
        """Remove `count` bits from the current lane, and return them."""
        found = self.bits[self.lane] & ((1 << count) - 1)
        self.bits[self.lane] >>= count
        self.counts[self.lane] -= count
        return found

    def symbol(self, table: _Table) -> int:
        """Remove a code from the lane, and return its symbol."""
        mask, entries = table
        entry = entries[self.bits[self.lane] & mask]
        if entry < 0:
            raise ValueError("a code has no symbol")
        self.bits[self.lane] >>= entry & 15
        self.counts[self.lane] -= entry & 15
        return entry >> 4


def _table(lengths: list[int]) -> _Table:
    """Return the table of a canonical Huffman code, indexed by the next bits, lowest first."""
    width = max(lengths, default=0)
    if sum(1 << (width - n) for n in lengths if n) > 1 << width:
        raise ValueError("the lengths of codes are those of no code")
    entries = [-1] * (1 << width)
    code = 0
    for length in range(1, width + 1):
        for symbol, own in enumerate(lengths):
            if own == length:
                first = int(f"{code:0{length}b}"[::-1], 2)
                entries[first :: 1 << length] = [symbol << 4 | length] * (1 << width - length)
                code += 1
        code <<= 1
    return (1 << width) - 1, entries


def _code_lengths(lanes: Lanes) -> tuple[list[int], list[int]]:
    """Read the lengths of the codes for literals and lengths, and for distances."""
    literals, distances, given = lanes.take(5) + 257, lanes.take(5) + 1, lanes.take(4) + 4
    lanes.refill()
    lengths = [0] * len(_ORDER)
    for place in _ORDER[:given]:
        lengths[place] = lanes.take(3)
        lanes.advance()
    table = _table(lengths)
    lanes.lane = 0
    found: list[int] = []
    while len(found) < literals + distances:
        symbol = lanes.symbol(table)
        if symbol < 16:
            found.append(symbol)
        elif symbol == 16:
            if not found:
                raise ValueError("the first length of a code repeats one before it")
            found += [found[-1]] * (3 + lanes.take(2))
        else:
            found += [0] * (3 + lanes.take(3) if symbol == 17 else 11 + lanes.take(7))
        lanes.advance()
    return found[:literals], found[literals : literals + distances]


def _block(lanes: Lanes, out: bytearray, most: int, codes: _Table, distances: _Table) -> None:
    """Append a compressed block."""
    lanes.lane = 0
    waiting: dict[int, tuple[int, int]] = {}  # by lane: the start and length of a match
    while True:
        if lanes.lane in waiting:
            _copy(lanes, out, distances, *waiting.pop(lanes.lane))
        else:
            symbol = lanes.symbol(codes)
            if symbol == _END:
                break
            if symbol < _END:
                out.append(symbol)
            else:
                number = symbol - _END - 1
                length = _LENGTH_BASES[number] + lanes.take(_LENGTH_BITS[number])
                waiting[lanes.lane] = len(out), length
                if len(out) + length <= most:
                    out += bytes(length)
            if len(out) > most or (symbol > _END and sum(waiting[lanes.lane]) > most):
                raise ValueError(f"the page has more than the {most} bytes expected")
        lanes.advance()
    for _ in range(LANES):
        if lanes.lane in waiting:
            _copy(lanes, out, distances, *waiting.pop(lanes.lane))
        lanes.advance()


def _copy(lanes: Lanes, out: bytearray, table: _Table, start: int, length: int) -> None:
    """Fill in a match, whose distance is the lane's next code."""
    symbol = lanes.symbol(table)
    extra = _DISTANCE_BITS[symbol]
    base = symbol + 1 if symbol < 2 else ((2 + (symbol & 1)) << extra) + 1
    distance = base + lanes.take(extra)
    if distance > start:
        raise ValueError(f"a match begins {distance} bytes back, but there are {start}")
    part = bytes(out[start - distance : start - distance + length])
    if distance < length:
        part = (part[:distance] * -(-length // distance))[:length]
    out[start : start + length] = part
