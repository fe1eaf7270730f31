"""TIFF files of every layout, for the tests that import them and that refer to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tifffile

Layout: TypeAlias = tuple[tuple[int, ...], str, dict[str, Any]]
_WRITER = {"bigtiff", "byteorder", "imagej", "ome"}
ZLIB: dict[str, Any] = {"compression": "zlib"}
RGB: dict[str, Any] = {**ZLIB, "photometric": "rgb"}
LAYOUTS: dict[str, Layout] = {
    "plain": ((100, 130), "u2", {}),
    "big-endian BigTIFF": ((3, 50, 60), "f4", {"bigtiff": True, "byteorder": ">"}),
    "strips": ((7, 104, 130), "u2", {**ZLIB, "rowsperstrip": 13}),
    "uneven strips": ((3, 100, 30), "u2", {**ZLIB, "rowsperstrip": 13}),
    "uneven plain strips": ((3, 100, 30), ">u2", {"rowsperstrip": 13}),
    "tiles": ((5, 100, 130), "i2", {**ZLIB, "tile": (32, 48)}),
    "plain tiles": ((100, 130), "i2", {"tile": (32, 48)}),
    "zstd": ((100, 130), "u1", {"compression": "zstd", "tile": (64, 64)}),
    "lzw tiles": ((5, 100, 130), "i2", {"compression": "lzw", "predictor": True, "tile": (32, 48)}),
    "float tiles": ((50, 70), ">f4", {"compression": "lzw", "predictor": True, "tile": (32, 48)}),
    "uneven lzw": ((3, 100, 30), ">u2", {"compression": "lzw", "predictor": 2, "rowsperstrip": 13}),
    "lzw colour": ((40, 90, 3), "u2", {**RGB, "compression": "lzw", "predictor": True}),
    "packbits": ((33, 45), "u1", {"compression": "packbits"}),
    "colour": ((4, 90, 70, 3), "u1", {**RGB, "tile": (64, 64)}),
    "colour planes": ((3, 90, 70), "u1", {**RGB, "planarconfig": "separate", "rowsperstrip": 9}),
    "uneven planes": ((3, 91, 70), "u1", {**RGB, "planarconfig": "separate", "rowsperstrip": 9}),
    "imagej": ((4, 3, 60, 70), "u2", {"imagej": True, "metadata": {"axes": "ZCYX"}}),
    "ome": ((4, 3, 60, 70), "u2", {"ome": True, "metadata": {"axes": "ZCYX"}, **ZLIB}),
    "volume": ((2, 20, 30, 40), "f8", {**ZLIB, "volumetric": True, "tile": (16, 16, 16)}),
    "half": ((20, 20), "f2", {}),
    "complex": ((20, 20), "c8", {}),
    "one strip": ((200, 200), "u1", {"rowsperstrip": 200, **ZLIB}),
    "bits": ((33, 45), "?", {}),
}  # fmt: skip


def write_tiff(path: Path, layout: Layout) -> Any:
    """Write a file, and return its values."""
    shape, kind, options = layout
    values = np.random.default_rng(1).integers(0, 200, shape).astype(kind)
    options = {"photometric": "minisblack", **options}
    writer = {k: options.pop(k) for k in list(options) if k in _WRITER}
    if kind[0] == ">":
        writer.setdefault("byteorder", ">")
    with tifffile.TiffWriter(path, **writer) as file:
        file.write(values, **options)
    return values
