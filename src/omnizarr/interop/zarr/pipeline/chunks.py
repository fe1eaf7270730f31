"""Chunks with codecs that the kernel does not know, decoded and encoded one by one.

This package's codecs in Python do that without the coroutines that zarr-python has for each chunk
and codec. Chunks are spread over threads where that is worth it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import stores
from omnizarr.concurrency.pool import for_each
from omnizarr.engine.rows import Buffers, Source
from omnizarr.errors import ChunkError
from omnizarr.interop.zarr.pipeline.boxes import Found
from omnizarr.interop.zarr.pipeline.layouts import PipelineLayout


def read(
    layout: PipelineLayout,
    batch: list[Any],
    source: Source,
    array: npt.NDArray[Any],
    drop_axes: tuple[int, ...],
    strict: bool,
) -> Found:
    """Fill the array; return the rows that are left, and those that have no value."""
    missing: list[int] = []

    def read_row(number: int) -> None:
        _, _, inside, outside, _ = batch[number]
        data = _get(source, number)
        if data is None:
            missing.append(number)
            if strict:
                raise ChunkError("there is no chunk")
            array[outside] = layout.fill
            return
        part = _decode(layout, data)[inside]
        if drop_axes:
            part = part.reshape([s for i, s in enumerate(part.shape) if i not in drop_axes])
        array[outside] = part

    return _each(layout, batch, read_row), sorted(missing)


def write(
    layout: PipelineLayout,
    batch: list[Any],
    source: Source,
    array: npt.NDArray[Any],
    drop_axes: tuple[int, ...],
) -> list[int]:
    """Store the array; return the rows that are left. The caller has locked them."""
    put = _setter(source)

    def write_row(number: int) -> None:
        _, spec, inside, outside, whole = batch[number]
        data = None if whole else _get(source, number)
        chunk = np.empty(layout.shape, layout.dtype)
        chunk[...] = layout.fill if data is None else _decode(layout, data)
        value = array if inside == () or not array.ndim else array[outside]
        if drop_axes and array.ndim:
            kept = (None if i in drop_axes else slice(None) for i in range(len(inside)))
            value = value[tuple(kept)]
        chunk[inside] = value
        stored = None if _is_empty(spec, chunk) else layout.pipeline.encode(_items(layout, chunk))
        put(number, stored)

    return _each(layout, batch, write_row)


def _each(layout: PipelineLayout, batch: list[Any], do: Callable[[int], None]) -> list[int]:
    """Call a function with the number of each row; return those that it failed for."""
    left: list[int] = []

    def attempt(number: int) -> None:
        try:
            do(number)
        except ChunkError:  # zarr-python tries again, and raises its own error
            left.append(number)

    for_each(iter(range(len(batch))), len(batch), attempt, len(batch) * layout.unit)
    return sorted(left)


def _get(source: Source, number: int) -> Any:
    """Return the stored bytes of a row, None if there are none."""
    if isinstance(source, Buffers):
        found = source.values[number]
        return None if found is None else memoryview(found)
    try:
        with open(source.root + os.fsencode(source.keys[number]), "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _setter(source: Source) -> Callable[[int, Any], None]:
    """Return the function that stores the bytes of a row, or erases it if they are None."""
    if isinstance(source, Buffers):
        values = source.values

        def put(number: int, stored: Any) -> None:
            values[number] = None if stored is None else bytes(stored)

        return put

    store, keys = stores.LocalStore(os.fsdecode(source.root)), source.keys

    def save(number: int, stored: Any) -> None:
        if stored is None:
            store.erase(keys[number])
        else:
            store.set(keys[number], stored)

    return save


def _decode(layout: PipelineLayout, data: Any) -> npt.NDArray[Any]:
    chunk: npt.NDArray[Any] = layout.pipeline.decode(data)
    return chunk if chunk.dtype == layout.dtype else np.ascontiguousarray(chunk).view(layout.dtype)


def _items(layout: PipelineLayout, chunk: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the chunk in the type that its codecs were bound to."""
    return chunk.view(layout.pipeline.spec.data_type.dtype)


def _is_empty(spec: Any, chunk: npt.NDArray[Any]) -> bool:
    """Return True for a chunk that zarr-python does not store."""
    if spec.config.write_empty_chunks:
        return False
    fill = spec.dtype.default_scalar() if spec.fill_value is None else spec.fill_value
    return bool(spec.prototype.nd_buffer.from_numpy_array(chunk).all_equal(fill))
