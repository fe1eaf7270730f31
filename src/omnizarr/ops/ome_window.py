"""The window of values that a viewer stretches over black to full colour, from the pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from omnizarr.conventions.ome.model import Axis, Metadata
from omnizarr.hierarchy.array import Array
from omnizarr.ops.downsample import Values

LOOKED_AT = 2**24  # bytes of a channel that are read at most


def with_windows(
    metadata: Metadata, dtype: np.dtype[Any], coarsest: Array | None = None
) -> Metadata:
    """Metadata whose channels all have a window.

    One that was not given has the least and the largest value of the coarsest level, or of the
    middle of it where that is large; before it is written, those of the type.
    """
    if metadata.omero is None:
        return metadata
    axes = metadata.multiscales[0].axes
    channels = []
    for number, channel in enumerate(metadata.omero.channels):
        if channel.window is None:
            chosen = None if coarsest is None else _middle(axes, coarsest, number)
            values = np.zeros(0) if coarsest is None else np.asarray(coarsest[chosen])
            channel = replace(channel, window=_window(values, dtype))
        channels.append(channel)
    return replace(metadata, omero=replace(metadata.omero, channels=tuple(channels)))


def _middle(axes: Sequence[Axis], level: Array, number: int) -> tuple[int | slice, ...]:
    """A channel, and of a large one only the middle along as many axes as it takes."""
    chosen: list[int | slice] = [slice(None)] * level.ndim
    nbytes = level.nbytes
    for i in sorted(range(level.ndim), key=lambda i: axes[i].type != "channel"):
        if axes[i].type == "channel" or nbytes > LOOKED_AT:
            chosen[i] = number if axes[i].type == "channel" else level.shape[i] // 2
            nbytes //= max(1, level.shape[i])
    return tuple(chosen)


def _window(values: Values, dtype: np.dtype[Any]) -> dict[str, float]:
    whole = dtype.kind in "iu"
    low, high = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if whole else (0, 1)
    found = values[np.isfinite(values)] if dtype.kind in "iuf" else values[:0]
    start, end = (found.min().item(), found.max().item()) if found.size else (low, high)
    if start == end:
        start, end = (start, end + 1) if end < high else (start - 1, end)
    return {"min": min(low, start), "max": max(high, end), "start": start, "end": end}
