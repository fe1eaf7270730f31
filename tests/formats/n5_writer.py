"""A small writer of N5, with the modules of Python and numcodecs only: blocks as Java cuts them."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numcodecs
import numpy as np
import numpy.typing as npt

from omnizarr.codecs.extensions.n5 import Lz4Blocks

Compress = Callable[[bytes], bytes]
BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
# Each compression by a name of its own: what the metadata say, and its function.
COMPRESSIONS: dict[str, tuple[dict[str, Any], Compress]] = {
    "raw": ({"type": "raw"}, bytes),
    "gzip": ({"type": "gzip", "level": -1}, lambda data: gzip.compress(data, 6)),
    "zlib": ({"type": "gzip", "level": 5, "useZlib": True}, lambda data: zlib.compress(data, 5)),
    "bzip2": ({"type": "bzip2", "blockSize": 9}, bz2.compress),
    "xz": ({"type": "xz", "preset": 6}, lambda data: lzma.compress(data, preset=6)),
    "lz4": ({"type": "lz4", "blockSize": 128}, lambda data: bytes(Lz4Blocks(128).encode(data))),
    "lz4 of z5": ({"type": "lz4", "blockSize": 6}, lambda data: numcodecs.LZ4().encode(data)[4:]),
    "lz4 of zarr": (
        {"type": "lz4", "id": "lz4", "acceleration": 1},
        lambda data: numcodecs.LZ4().encode(data),
    ),
    "zstd": ({"type": "zstd", "level": 3}, lambda data: numcodecs.Zstd(3).encode(data)),
    "blosc": (
        {"type": "blosc", **BLOSC},
        lambda data: numcodecs.Blosc(**BLOSC).encode(data),
    ),
}


def header(shape: tuple[int, ...], mode: int = 0) -> bytes:
    """Return the header of a block, whose shape is in the order of N5."""
    return struct.pack(f">HH{len(shape)}I", mode, len(shape), *shape)


def write(
    values: npt.NDArray[Any],
    block_size: tuple[int, ...],
    compression: str = "raw",
    *,
    cut: bool = True,
    attributes: dict[str, Any] | None = None,
    path: str = "",
) -> dict[str, bytes]:
    """Return the keys of an array; values and block size have the axes of C order.

    Blocks at the end are as long as the array, unless `cut` is false.
    """
    start = f"{path}/" if path else ""
    stated, compress = COMPRESSIONS[compression]
    doc = {
        "dimensions": list(values.shape[::-1]),
        "blockSize": list(block_size[::-1]),
        "dataType": values.dtype.name,
        "compression": stated,
        **(attributes or {}),
    }
    found = {f"{start}attributes.json": json.dumps(doc).encode()}
    counts = (range(-(-n // b)) for n, b in zip(values.shape, block_size, strict=True))
    for coords in itertools.product(*counts):
        part = tuple(slice(c * b, (c + 1) * b) for c, b in zip(coords, block_size, strict=True))
        block = values[part]
        if not cut:
            lengths = zip(block_size, block.shape, strict=True)
            block = np.pad(block, [(0, whole - there) for whole, there in lengths])
        items = block.astype(block.dtype.newbyteorder(">")).tobytes()
        key = start + "/".join(str(c) for c in reversed(coords))
        found[key] = header(block.shape[::-1]) + compress(items)
    return found
