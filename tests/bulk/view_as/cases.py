"""Stored hierarchies of every format, for views of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import omnizarr as oz
from omnizarr.storage_transformers import indexed_shards
from tests.conformance.shards import GZIP, raw, sharding

VALUES = np.arange(70, dtype="<f4").reshape(10, 7)
CHUNKS = (4, 3)
Maker = Callable[[], oz.storage.MemoryStore]


def make(zarr_format: int | str, values: npt.NDArray[Any] = VALUES, **options: Any) -> Maker:
    """Return a function that stores an array ``group/a`` (version 1: at the root) in a hierarchy.

    The last column of chunks is missing.
    """

    def stored() -> oz.storage.MemoryStore:
        store = oz.storage.MemoryStore()
        given: dict[str, Any] = {
            "shape": values.shape,
            "dtype": values.dtype,
            "chunks": CHUNKS,
            "fill_value": 0,
            "zarr_format": zarr_format,
            "attributes": {"unit": "K", "n": [1, None, {"a": 2.5}]},
            **options,
        }
        if zarr_format == 1:
            array = oz.create_array(store, **given)
        else:
            oz.create_group(store, zarr_format=zarr_format, attributes={"title": "all"})
            names = ["y", "x"]
            array = oz.create_array(store, path="group/a", dimension_names=names, **given)
        array[:, : CHUNKS[1] * 2] = values[:, : CHUNKS[1] * 2]
        return store

    return stored


def expected(values: npt.NDArray[Any] = VALUES) -> npt.NDArray[Any]:
    """Return what the stored array has."""
    found = values.copy()
    found[:, CHUNKS[1] * 2 :] = 0
    return found


_TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}

SOURCES: dict[str, Maker] = {
    "1": make(1),
    "2": make(2),
    "2, nested keys": make(2, chunk_key_encoding="/"),
    "2, big-endian, F order": make(2, VALUES.astype(">f4"), order="F"),
    "2, zlib": make(2, compressors=oz.codecs.Zlib(level=1)),
    "2, delta": make(2, filters=[{"id": "delta", "dtype": "<f4"}], compressors=oz.codecs.BZ2()),
    "2, checksum": make(2, compressors={"id": "crc32c"}),
    "3-draft": make("3-draft"),
    "3-draft, shards": make("3-draft", storage_transformers=[indexed_shards([2, 2])]),
    "3": make(3),
    "3, keys of 2": make(3, chunk_key_encoding={"name": "v2", "separator": "."}),
    "3, big-endian": make(3, VALUES.astype(">f4")),
    "3, transposed": make(3, codecs=[_TRANSPOSE, raw(), GZIP]),
    "3, scaled": make(3, codecs=[{"name": "scale_offset", "configuration": {"scale": 2}}, raw()]),
    "3, shards": make(3, shards=(8, 6)),
    "3, shards without compression": make(3, shards=(8, 6), compressors=None),
    "3, shards in shards": make(
        3, chunks=(8, 6), codecs=[sharding(8, 3, codecs=[sharding(*CHUNKS)])], shards=None
    ),
    "3, transposed shards": make(
        3, chunks=(8, 6), codecs=[_TRANSPOSE, sharding(3, 4, codecs=[raw(), GZIP])]
    ),
    "3, compressed shards": make(3, chunks=(8, 6), codecs=[sharding(*CHUNKS), GZIP]),
    "3, rectilinear": make(3, chunks=((4, 6), (3, 3, 1))),
    "3, rectilinear shards": make(3, shards=((4, 8), (3, 6))),
}
# Chunks that would have to be cut anew: a view of version 2 refuses them.
REFUSED = {
    *("3, transposed shards", "3, compressed shards", "3, rectilinear", "3, rectilinear shards"),
}
PAIRS = [(source, target) for source in SOURCES for target in (2, 3)
         if target == 3 or source not in REFUSED]  # fmt: skip
