"""Arrays of other libraries, with the interface that `writers` and its tasks need."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import omnizarr as oz

PIPELINE = "zarr-python with omnizarr.zarr_pipeline"
LIBRARIES = ("omnizarr", PIPELINE, "zarr-python", "zarrs", "tensorstore")
_PACKAGES = {"zarr-python": "zarr", PIPELINE: "zarr"}  # where it is another
_PIPELINES = {
    PIPELINE: "omnizarr.zarr_pipeline.Pipeline",
    "zarr-python": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}


def label(library: str) -> str:
    """Return the name with its version."""
    return f"{library} {version(_PACKAGES.get(library, library))}"


def can(library: str, task: str) -> bool:
    """Return True if a library is installed and supports a task."""
    if find_spec(_PACKAGES.get(library, library)) is None:
        return False
    if library == PIPELINE:  # attributes and shapes are zarr-python's own
        return task in ("chunk", "shard")
    return library != "tensorstore" or task in ("chunk", "shard")


def load(library: str) -> None:
    """Import what a library needs: a child that is another user may not be able to."""
    import_module(_PACKAGES.get(library, library))
    if library == PIPELINE:
        import_module("omnizarr.interop.zarr.pipeline_batches")


def opened(library: str, store: Any) -> Any:
    """Open the array ``x`` for reading and writing."""
    if library == "omnizarr":
        return oz.open(store, path="x", mode="r+")
    if library == "tensorstore":
        return _Tensorstore(f"{store}/x")
    return _ZarrPython(f"{store}/x", _PIPELINES[library])


class _ZarrPython:
    """An array of zarr-python, with its own codec pipeline or another."""

    def __init__(self, path: str, pipeline: str) -> None:
        import zarr

        import_module(pipeline.rpartition(".")[0])
        zarr.config.set({"codec_pipeline.path": pipeline})
        self._path, self._open = path, zarr.open_array
        self.refresh()

    def refresh(self) -> None:
        self._array: Any = self._open(self._path, mode="r+")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def __getitem__(self, part: Any) -> Any:
        return self._array[part]

    def __setitem__(self, part: Any, value: Any) -> None:
        self._array[part] = value

    def append(self, values: Any) -> None:
        self.refresh()  # a handle does not see what others appended
        self._array.append(values)


class _Tensorstore:
    """An array of tensorstore."""

    def __init__(self, path: str) -> None:
        import tensorstore

        place = {"driver": "file", "path": path}
        self._array = tensorstore.open({"driver": "zarr3", "kvstore": place}).result()
        outer, inner = self._array.chunk_layout.write_chunk, self._array.chunk_layout.read_chunk
        self.shards = outer.shape if outer.shape != inner.shape else None

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def __getitem__(self, part: Any) -> Any:
        return self._array[part].read().result()

    def __setitem__(self, part: Any, value: Any) -> None:
        self._array[part].write(value).result()
