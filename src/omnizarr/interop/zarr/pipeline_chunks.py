"""Chunks that are decoded and encoded whole, where the kernel cannot copy boxes of them.

That is so if rows select single elements, which NumPy picks out of the chunk and puts into it with
the index of the row, and if the kernel does not know a codec. Codecs in Python then run without the
coroutines that zarr-python has for each chunk and codec.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.engine import rows
from omnizarr.errors import ChunkError
from omnizarr.extension import LocalStore, for_each
from omnizarr.interop.zarr.pipeline_layouts import PipelineLayout

LIMIT = 2**26  # bytes of decoded chunks at a time, unless one is larger


def read(
    layout: PipelineLayout,
    batch: list[Any],
    source: rows.Source,
    array: npt.NDArray[Any],
    drop_axes: tuple[int, ...],
    strict: bool,
) -> tuple[list[int], list[int]]:
    """Fill the array; return the rows left to zarr-python, and the rows without a value."""
    left: list[int] = []
    missing: list[int] = []
    for numbers in _groups(layout, range(len(batch))):
        chunks = np.empty((len(numbers), *layout.shape), layout.dtype)
        failed, absent = _decode(layout, source, numbers, chunks, strict)
        left += failed
        missing += absent
        for k, number in enumerate(numbers):
            if number not in failed:
                _, _, inside, outside, _ = batch[number]
                part = chunks[k, ...][inside]
                if drop_axes:
                    part = part.reshape([s for i, s in enumerate(part.shape) if i not in drop_axes])
                array[outside] = part
    return sorted(left), sorted(missing)


def write(
    layout: PipelineLayout,
    batch: list[Any],
    source: rows.Source,
    array: npt.NDArray[Any],
    drop_axes: tuple[int, ...],
) -> list[int]:
    """Store the array; return the rows left to zarr-python. The caller has locked all rows."""
    left: list[int] = []
    for numbers in _groups(layout, range(len(batch))):
        chunks = np.empty((len(numbers), *layout.shape), layout.dtype)
        chunks[...] = layout.fill
        old = [k for k, number in enumerate(numbers) if not batch[number][4]]
        if old:
            before = np.empty((len(old), *layout.shape), layout.dtype)
            failed, _ = _decode(layout, source, [numbers[k] for k in old], before, False)
            left += failed
            chunks[old] = before
        done = [k for k, number in enumerate(numbers) if number not in left]
        for k in done:
            _, _, inside, outside, _ = batch[numbers[k]]
            value = array if inside == () or not array.ndim else array[outside]
            if drop_axes and array.ndim:
                kept = (None if i in drop_axes else slice(None) for i in range(len(inside)))
                value = value[tuple(kept)]
            chunks[k, ...][inside] = value
        specs = [batch[numbers[k]][1] for k in done]
        left += _encode(layout, specs, source, [numbers[k] for k in done], chunks[done])
    return sorted(left)


def _groups(layout: PipelineLayout, numbers: range) -> Iterator[list[int]]:
    """Yield the numbers of some rows at a time, so that their chunks fit into memory."""
    nbytes = max(1, layout.dtype.itemsize * int(np.prod(layout.shape)))
    size = max(1, LIMIT // nbytes)
    for start in range(0, len(numbers), size):
        yield [*numbers[start : start + size]]


def _decode(
    layout: PipelineLayout,
    source: rows.Source,
    numbers: list[int],
    chunks: npt.NDArray[Any],
    strict: bool,
) -> tuple[list[int], list[int]]:
    """Decode rows into chunks; return the rows left to zarr-python, and rows without a value."""
    if layout.capsule is not None:
        listed, flat = _listed(layout, chunks)
        found = listed and rows.read(
            layout.capsule,
            listed,
            source.part(numbers),
            flat,
            skip_missing=strict,
            tell_missing=True,
        )
        failed, absent = found or ([*range(len(numbers))], [])
        return [numbers[k] for k in failed], [numbers[k] for k in absent]
    missing: list[int] = []
    items = chunks.view(layout.pipeline.spec.data_type.dtype)

    def decode(k: int) -> None:
        data = _get(source, numbers[k])
        if data is not None:
            items[k, ...] = layout.pipeline.decode(data)
            return
        missing.append(numbers[k])
        if strict:
            raise ChunkError("there is no chunk")
        chunks[k, ...] = layout.fill

    return _each(layout, numbers, decode), missing


def _encode(
    layout: PipelineLayout,
    specs: list[Any],
    source: rows.Source,
    numbers: list[int],
    chunks: npt.NDArray[Any],
) -> list[int]:
    """Store chunks; return the rows left to zarr-python."""
    if layout.capsule is not None:
        listed, flat = _listed(layout, chunks)
        part = source.part(numbers)
        found = rows.write(layout.capsule, listed, part, flat) if listed else None
        if isinstance(source, rows.Buffers) and isinstance(part, rows.Buffers):
            for number, value in zip(numbers, part.values, strict=True):
                source.values[number] = value
        return numbers if found is None else [numbers[k] for k in found]
    items = chunks.view(layout.pipeline.spec.data_type.dtype)
    put = _setter(source)

    def encode(k: int) -> None:
        empty = _is_empty(specs[k], chunks[k, ...])
        put(numbers[k], None if empty else layout.pipeline.encode(items[k, ...]))

    return _each(layout, numbers, encode)


def _listed(layout: PipelineLayout, chunks: npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[Any]]:
    """Return rows of whole chunks for the kernel, and the chunks stacked along the first axis."""
    if not layout.shape:
        return [], chunks
    height, *widths = layout.shape
    inside = tuple(slice(0, n) for n in layout.shape)
    listed = [
        (inside, (slice(k * height, (k + 1) * height), *inside[1:]), True)
        for k in range(len(chunks))
    ]
    return listed, chunks.reshape(len(chunks) * height, *widths)


def _each(layout: PipelineLayout, numbers: list[int], do: Callable[[int], None]) -> list[int]:
    """Call a function for each row, by its place in the list; return the rows it failed for."""
    left: list[int] = []

    def attempt(k: int) -> None:
        try:
            do(k)
        except ChunkError:  # zarr-python tries again, and raises its own error
            left.append(numbers[k])

    for_each(iter(range(len(numbers))), len(numbers), attempt, len(numbers) * layout.unit)
    return left


def _get(source: rows.Source, number: int) -> Any:
    """Return the stored bytes of a row, None if there are none."""
    if isinstance(source, rows.Buffers):
        found = source.values[number]
        return None if found is None else memoryview(found)
    try:
        with open(source.root + os.fsencode(source.keys[number]), "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _setter(source: rows.Source) -> Callable[[int, Any], None]:
    """Return the function that stores the bytes of a row, or erases it if they are None."""
    if isinstance(source, rows.Buffers):
        values = source.values

        def put(number: int, stored: Any) -> None:
            values[number] = None if stored is None else bytes(stored)

        return put

    store, keys = LocalStore(os.fsdecode(source.root)), source.keys

    def save(number: int, stored: Any) -> None:
        if stored is None:
            store.erase(keys[number])
        else:
            store.set(keys[number], stored)

    return save


def _is_empty(spec: Any, chunk: npt.NDArray[Any]) -> bool:
    """Return True for a chunk that zarr-python does not store."""
    if spec.config.write_empty_chunks:
        return False
    fill = spec.dtype.default_scalar() if spec.fill_value is None else spec.fill_value
    return bool(spec.prototype.nd_buffer.from_numpy_array(chunk).all_equal(fill))
