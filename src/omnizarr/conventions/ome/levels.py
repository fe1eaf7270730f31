"""The levels of a new image: axes, downsampling factors, transforms, and display windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from omnizarr import Array
from omnizarr.bulk.pyramid import Values
from omnizarr.conventions.ome.model import Axis, Metadata, Transform
from omnizarr.conventions.ome.region import unit_factor, unit_kind, unit_name, unknown_unit
from omnizarr.errors import InvalidArgument
from omnizarr.extension import as_plain

Factors = tuple[int, ...]

_DEFAULT_AXES = {2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}
_ORDER = {"time": 0, "space": 2}
_TYPES = {"t": "time", "time": "time", "c": "channel", "channel": "channel"}
# Options of an image that are for its labels, too; the others depend on the type of the pixels.
_SHARED = ("chunks", "shards", "compressors", "compressor", "dimension_separator",
           "chunk_key_encoding")  # fmt: skip
# By default, levels are added until the longest spatial axis is at most this long.
SMALL = 256
WINDOW_BYTES = 2**24  # read at most of each channel to find its window


def image_axes(axes: Any, rank: int, unit: str | Mapping[str, str] | None) -> tuple[Axis, ...]:
    """Return axes from text such as ``"zyx"``, names, or `Axis` objects; None for the default."""
    if axes is None:
        if rank not in _DEFAULT_AXES:
            raise InvalidArgument(f"an image has 2 to 5 axes, got {rank}")
        axes = _DEFAULT_AXES[rank]
    if isinstance(axes, str):
        axes = axes.lower()
    given = [a if isinstance(a, Axis) else Axis(str(a), _TYPES.get(str(a), "space")) for a in axes]
    names = [a.name for a in given]
    if len(given) != rank:
        raise InvalidArgument(f"the data have {rank} axes, but {len(given)} are named: {names}")
    order = sorted(range(rank), key=lambda i: _ORDER.get(given[i].type or "", 1))
    if order != [*range(rank)]:
        raise InvalidArgument(
            f"the axes {names} are not in OME-Zarr order: time, then channel, then space;"
            f" pass numpy.transpose(data, {tuple(order)}) with axes {[names[i] for i in order]}"
        )
    units = {} if unit is None or isinstance(unit, str) else dict(unit)
    for name in units.keys() - set(names):
        raise InvalidArgument(f"unit: unknown axis {name!r}; axes: {', '.join(names)}")
    if isinstance(unit, str):
        kind = unit_kind(unit)
        if kind is None:
            raise unknown_unit(unit)
        units = {a.name: unit for a in given if a.type == kind}
    return tuple(
        Axis(a.name, a.type, unit_name(units[a.name]) if a.name in units else a.unit, a.extra)
        for a in given
    )


def per_axis(given: Any, axes: Sequence[Axis], default: float, what: str) -> tuple[float, ...]:
    """Return a number for each axis, from a sequence or a mapping by name."""
    if given is None:
        return (default,) * len(axes)
    names = [a.name for a in axes]
    if isinstance(given, Mapping):
        for name in given.keys() - set(names):
            raise InvalidArgument(f"{what}: unknown axis {name!r}; axes: {', '.join(names)}")
        return tuple(float(given.get(name, default)) for name in names)
    found = tuple(float(n) for n in given)
    if len(found) != len(axes):
        raise InvalidArgument(f"{what} has {len(found)} entries, but there are {len(axes)} axes")
    return found


def pixel_sizes(given: Any, axes: Sequence[Axis]) -> tuple[float, ...]:
    """Return the size of a pixel along each axis, 1 by default."""
    found = per_axis(given, axes, 1.0, "scale")
    for size, axis in zip(found, axes, strict=True):
        if not 0 < size < float("inf"):
            raise InvalidArgument(f"scale: invalid pixel size {size:g} along {axis.name!r}")
    return found


def level_factors(
    shape: Sequence[int],
    axes: Sequence[Axis],
    scale: Sequence[float],
    levels: int | None,
    factors: Any,
) -> list[Factors]:
    """Return the factors from each level to the next.

    `factors` are one for each step, or one for all. By default, every spatial axis is halved whose
    pixels are less than twice as long as the shortest, so that pixels become isotropic.
    """
    if levels is not None and levels < 1:
        raise InvalidArgument(f"levels must be at least 1, got {levels}")
    if isinstance(factors, Sequence) and factors and not isinstance(factors[0], int):
        if levels is not None and levels != len(factors) + 1:
            raise InvalidArgument(
                f"{len(factors)} steps make {len(factors) + 1} levels, not {levels}"
            )
        return [_step(each, axes) for each in factors]
    fixed = None if factors is None else _step(factors, axes)
    lengths, sizes = list(shape), list(scale)
    found: list[Factors] = []
    while levels is None or len(found) < levels - 1:
        step = fixed or _halves(lengths, axes, sizes)
        longest = max((n for n, f in zip(lengths, step, strict=True) if f > 1), default=0)
        if longest <= (SMALL if levels is None else 1):
            break
        found.append(step)
        lengths = [-(-n // f) for n, f in zip(lengths, step, strict=True)]
        sizes = [s * f for s, f in zip(sizes, step, strict=True)]
    return found


def _step(given: Any, axes: Sequence[Axis]) -> Factors:
    if isinstance(given, int):
        given = {a.name: given for a in axes if a.type == "space"}
    found = per_axis(given, axes, 1, "factors")
    if any(f < 1 or f != int(f) for f in found):
        raise InvalidArgument(f"factors must be integers of at least 1, got {given!r}")
    return tuple(int(f) for f in found)


def _halves(lengths: Sequence[int], axes: Sequence[Axis], sizes: Sequence[float]) -> Factors:
    physical = {
        i: size * (unit_factor(a.unit, "meter") if unit_kind(a.unit) == "space" and a.unit else 1.0)
        for i, (a, size) in enumerate(zip(axes, sizes, strict=True))
        if a.type == "space" and lengths[i] > 1
    }
    shortest = min(physical.values(), default=1.0)
    close = {i for i, size in physical.items() if size < 2 * shortest * (1 - 1e-9)}
    return tuple(2 if i in close else 1 for i in range(len(axes)))


def labels_method(own: str | None) -> str:
    """Return the method for coarser levels of labels: their own, if its results are labels."""
    return own if own in ("mode", "nearest", "max") else "mode"


def labels_options(options: Mapping[str, Any], image: Sequence[Axis], axes: Sequence[Axis]) -> Any:
    """Return those options of an image that labels share, with shapes along their axes."""
    found: dict[str, Any] = {k: v for k, v in options.items() if k in _SHARED}
    names = [axis.name for axis in image]
    for name in ("chunks", "shards"):
        given: Any = found.get(name)
        inner = given.get("shape") if isinstance(given, Mapping) else given
        if isinstance(inner, (list, tuple)) and len(inner) == len(names):
            chosen = [inner[names.index(axis.name)] for axis in axes]
            found[name] = {**given, "shape": chosen} if isinstance(given, Mapping) else chosen
        elif isinstance(given, Mapping) and inner is None:
            found[name] = {k: v for k, v in given.items() if k in {axis.name for axis in axes}}
    return found


def level_transforms(first: Transform, factors: Sequence[Factors], method: str) -> list[Transform]:
    """Return the transform of each level: a pixel is at the centre of the block it represents.

    `nearest` takes the first pixel of a block, so its levels keep the translation of the image.
    """
    found = [first]
    for step in factors:
        last = found[-1]
        scale = tuple(_short(s * f) for s, f in zip(last.scale, step, strict=True))
        shift = [0.0 if method == "nearest" else (f - 1) / 2 * s
                 for s, f in zip(last.scale, step, strict=True)]  # fmt: skip
        moved = tuple(_short(t + d) for t, d in zip(last.offset, shift, strict=True))
        translation = moved if last.translation is not None or any(moved) else None
        found.append(Transform(scale, translation))
    return found


def _short(number: float) -> float:
    """Round off the error in the last digit: return 0.15 for 0.15000000000000002."""
    return float(f"{number:.15g}")


def with_windows(
    metadata: Metadata, dtype: np.dtype[Any], coarsest: Array | None = None
) -> Metadata:
    """Return metadata in which every channel has a window of values to display.

    A missing window is set to the minimum and maximum of the coarsest level, or of its middle
    plane if it is large; without `coarsest`, to those of the type.
    """
    if metadata.omero is None:
        return metadata
    axes = metadata.multiscales[0].axes
    channels = []
    for number, channel in enumerate(metadata.omero.channels):
        if channel.window is None:
            chosen = None if coarsest is None else _middle(axes, coarsest, number)
            values = np.zeros(0) if coarsest is None else as_plain(coarsest[chosen])
            channel = replace(channel, window=_window(values, dtype))
        channels.append(channel)
    return replace(metadata, omero=replace(metadata.omero, channels=tuple(channels)))


def _middle(axes: Sequence[Axis], level: Array, number: int) -> tuple[int | slice, ...]:
    """Return the selection of a channel; of a large one, only the middle of some axes."""
    chosen: list[int | slice] = [slice(None)] * level.ndim
    nbytes = level.nbytes
    for i in sorted(range(level.ndim), key=lambda i: axes[i].type != "channel"):
        if axes[i].type == "channel" or nbytes > WINDOW_BYTES:
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
