"""Array layouts and their metadata, so that every library gets the same array."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BLOSC = {"clevel": 5, "blocksize": 0}
CODECS = ("raw", "blosc lz4", "blosc zstd", "zstd", "gzip")


@dataclass(frozen=True)
class Layout:
    """Shape, data type, chunks, codec and shards of an array."""

    shape: tuple[int, ...]
    dtype: str  # of NumPy; "string" for variable-length strings
    chunks: tuple[int, ...]
    codec: str = "raw"
    shards: tuple[int, ...] | None = None
    zarr_format: int = 3

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype == "string" else np.dtype(self.dtype).itemsize

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunks) * self.itemsize

    def with_shape(self, *shape: int) -> Layout:
        return dataclasses.replace(self, shape=shape)

    def document(self) -> dict[str, Any]:
        return self._v2() if self.zarr_format == 2 else self._v3()

    def _v2(self) -> dict[str, Any]:
        compressors: dict[str, Any] = {
            "raw": None,
            "blosc lz4": {"id": "blosc", "cname": "lz4", "shuffle": 1, **BLOSC},
            "blosc zstd": {"id": "blosc", "cname": "zstd", "shuffle": 1, **BLOSC},
            "zstd": {"id": "zstd", "level": 3},
            "gzip": {"id": "gzip", "level": 5},
        }
        text = self.dtype == "string"
        return {
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": "|O" if text else np.dtype(self.dtype).str,
            "compressor": compressors[self.codec],
            "fill_value": "" if text else 0,
            "order": "C",
            "filters": [{"id": "vlen-utf8"}] if text else None,
        }

    def _v3(self) -> dict[str, Any]:
        text = self.dtype == "string"
        codecs = self.codecs()
        if self.shards is not None:
            index = [_named("bytes", endian="little"), {"name": "crc32c"}]
            inner = {"chunk_shape": self.chunks, "codecs": codecs, "index_codecs": index}
            codecs = [_named("sharding_indexed", index_location="end", **inner)]
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": "string" if text else np.dtype(self.dtype).name,
            "chunk_grid": _named("regular", chunk_shape=self.shards or self.chunks),
            "chunk_key_encoding": _named("default", separator="/"),
            "fill_value": "" if text else 0,
            "codecs": codecs,
            "attributes": {},
        }

    def codecs(self) -> list[dict[str, Any]]:
        """Return the codecs of a chunk as version 3 metadata."""
        shuffled = {"shuffle": "shuffle", "typesize": self.itemsize, **BLOSC}
        compressors: dict[str, list[dict[str, Any]]] = {
            "raw": [],
            "blosc lz4": [_named("blosc", cname="lz4", **shuffled)],
            "blosc zstd": [_named("blosc", cname="zstd", **shuffled)],
            "zstd": [_named("zstd", level=3, checksum=False)],
            "gzip": [_named("gzip", level=5)],
        }
        text = self.dtype == "string"
        first = {"name": "vlen-utf8"} if text else _named("bytes", endian="little")
        return [first, *compressors[self.codec]]


def _named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


@dataclass(frozen=True)
class Workspace:
    """A temporary folder for the files of a run."""

    root: Path

    def empty_folder(self, name: str) -> Path:
        """Return an empty folder; existing contents are deleted."""
        path = self.root / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def empty_array(self, name: str, layout: Layout) -> Path:
        """Return the folder of a new array without chunks."""
        path = self.empty_folder(name)
        document = path / (".zarray" if layout.zarr_format == 2 else "zarr.json")
        document.write_text(json.dumps(layout.document()))
        return path


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Give a temporary folder, on a memory file system if there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Workspace(Path(folder))


def smooth(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """Return smooth, non-zero data with four bits of noise; compresses about as well as images."""
    generator = np.random.default_rng(0)
    waves = sum(
        (np.sin(np.arange(n) / 37.0) + 1).reshape(
            [-1 if i == axis else 1 for i in range(len(shape))]
        )
        for axis, n in enumerate(shape)
    )
    noise = generator.integers(1, 17, shape, dtype="u2")
    return (np.asarray(waves * 1000).astype("u2") + noise).astype(dtype)
