"""Arrays of zarr-python with both pipelines, and what they store."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import zarr
from zarr.storage import MemoryStore

import omnizarr.zarr_pipeline  # noqa: F401 - registers the pipeline

OURS = "omnizarr.zarr_pipeline.Pipeline"
THEIRS = "zarr.core.codec_pipeline.BatchedCodecPipeline"


def using(path: str) -> Any:
    """Return a context in which zarr-python makes arrays with a pipeline."""
    return zarr.config.set({"codec_pipeline.path": path})


def create(path: str, store: Any, **options: Any) -> Any:
    """Create an array with a pipeline; types without a specification are no concern here."""
    with using(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return zarr.create_array(store, overwrite=True, **options)


def reopened(path: str, array: Any) -> Any:
    """Return the array opened with another pipeline."""
    with using(path):
        return zarr.open_array(array.store_path)


def contents(store: Any) -> dict[str, bytes]:
    """Return all keys and values of a store in memory."""
    assert isinstance(store, MemoryStore)
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


def same(a: Any, b: Any) -> bool:
    """Return True for results with the same type, shape and bits."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.hasobject or a.dtype.kind == "T":
        return bool(np.array_equal(a, b))
    return a.tobytes() == b.tobytes()
