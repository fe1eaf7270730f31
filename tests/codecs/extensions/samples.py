"""Arrays of one chunk, and what both engines read from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import omnizarr as oz


def smooth(shape: tuple[int, ...], dtype: str = "f8") -> npt.NDArray[Any]:
    """Return values that change slowly, as those that zfp is made for."""
    axes = np.meshgrid(*(np.linspace(0, 2, n) for n in shape), indexing="ij")
    waves: npt.NDArray[Any] = 100 * np.sin(sum(axes, np.zeros(shape)))
    return waves.astype(dtype)


KEEP = {"write_empty_chunks": True}


def written(values: npt.NDArray[Any], **options: Any) -> tuple[oz.Array, dict[str, Any]]:
    """Return an array of one chunk with the values, and its store."""
    store: dict[str, Any] = {}
    options = {"compressors": None, "chunks": values.shape, "config": KEEP, **options}
    array = oz.create_array(store, data=values, **options)
    return array, store


def chunk_of(store: dict[str, Any]) -> bytes:
    [key] = [k for k in store if k != "zarr.json" and not k.startswith(".z")]
    return bytes(store[key])


def reads(store: Any) -> npt.NDArray[Any]:
    """Return the values that both engines agree on."""
    with oz.configure(engine="reference"):
        first = oz.open(store)[...]
    second = oz.open(store)[...]
    assert first.tobytes() == second.tobytes()
    return np.asarray(second)
