"""Pictures of planes, in a colour map or as the sum of channels, and PNG files of them.

Specification: https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidArgument
from omnizarr.extension import replace_file, value_text

_NORTH = ("lat", "latitude", "y", "northing", "projection_y_coordinate")
_LOW, _HIGH = 0.5, 99.5  # percentiles of the values that the darkest and brightest colours show

# The colours of the colour map "viridis" of matplotlib at nine places.
_COLORS = np.array(
    [
        (68, 1, 84), (71, 44, 122), (59, 81, 139), (44, 113, 142), (33, 144, 141),
        (39, 173, 129), (92, 200, 99), (170, 220, 50), (253, 231, 37),
    ]
)  # fmt: skip
_NOTHING = (127, 127, 127)  # the colour of missing values

Numbers = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]  # rows, columns, and red, green and blue


@dataclass(frozen=True)
class Layer:
    """The values of a plane, and for a channel its name, colour and contrast."""

    values: Numbers
    label: str = ""
    color: str | None = None  # such as "FF0000"; None for a colour map
    window: tuple[float, float] | None = None


@dataclass(frozen=True)
class PictureAxis:
    """One axis of a picture: its name and unit, and the coordinates of the values along it."""

    name: str
    unit: str | None
    places: Numbers

    def __str__(self) -> str:
        ends = self.places[[0, -1]]
        texts = map(value_text, ends) if ends.dtype.kind == "M" else (f"{end:g}" for end in ends)
        return f"{self.name} {' to '.join(texts)} {self.unit or ''}".rstrip()


@dataclass(frozen=True)
class Preview:
    """A picture of a node, which notebooks show and `save` writes to a file."""

    title: str
    layers: list[Layer]
    axes: list[PictureAxis]  # rows, columns
    unit: str = ""  # of the values
    notes: list[str] = field(default_factory=list)  # what is left out
    is_image: bool = False  # shown in grey, not by a colour map

    @property
    def caption(self) -> str:
        """The node, the axes, the values of the darkest and brightest colours, what is left out."""
        ranges = []
        for layer in self.layers:
            low, high = window(layer)
            ranges.append(f"{layer.label or 'values'} {low:g} to {high:g} {self.unit}".rstrip())
        return "; ".join([self.title, *map(str, self.axes), *ranges, *self.notes])

    @property
    def pixels(self) -> Pixels:
        """The picture as an array of rows, columns, and red, green and blue."""
        image, rows = colors(self.layers, self.is_image), self.axes[0]
        upward = rows.name.lower() in _NORTH and rows.places[0] < rows.places[-1]
        return _enlarged(image[::-1] if upward and not self.is_image else image)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a PNG file, with its caption as the description."""
        if not os.fspath(path).lower().endswith(".png"):
            raise InvalidArgument(
                f"cannot write {os.fspath(path)!r}: pictures are PNG files; end its name in .png"
            )
        replace_file(os.path.abspath(path), self._repr_png_(), sync=False)

    def _repr_png_(self) -> bytes:
        return encode_png(self.pixels, self.caption)

    def _repr_html_(self) -> str:
        data = base64.b64encode(self._repr_png_()).decode()
        image = f"<img alt='{escape(self.title)}' src='data:image/png;base64,{data}'>"
        return f"<figure>{image}<figcaption>{escape(self.caption)}</figcaption></figure>"

    def __repr__(self) -> str:
        return f"<Preview of {self.caption}>"


def window(layer: Layer) -> tuple[float, float]:
    """Return the values of the darkest and the brightest colour."""
    if layer.window is not None:
        return float(layer.window[0]), float(layer.window[1])
    finite = layer.values[np.isfinite(layer.values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = (float(v) for v in np.percentile(finite, (_LOW, _HIGH)))
    return (low, high) if high > low else (float(finite.min()), float(finite.max()))


def colors(layers: Sequence[Layer], is_image: bool) -> Pixels:
    """Return a plane as red, green and blue: one colour map, or the sum of channels."""
    shape = layers[0].values.shape
    total, missing = np.zeros((*shape, 3)), np.zeros(shape, bool)
    for layer in layers:
        low, high = window(layer)
        bad = ~np.isfinite(layer.values)
        values = np.where(bad, low, layer.values).astype("f8")
        share = np.clip((values - low) / ((high - low) or 1.0), 0, 1)[..., None]
        missing |= bad
        if layer.color is not None or is_image:
            total += share * [*bytes.fromhex(layer.color or "FFFFFF")]
        else:
            places = np.linspace(0, 1, len(_COLORS))
            total += np.stack([np.interp(share[..., 0], places, c) for c in _COLORS.T], -1)
    result = np.clip(total, 0, 255).astype("u1")
    result[missing] = _NOTHING
    return result


def _enlarged(image: Pixels) -> Pixels:
    """Return an image whose pixels can be seen if there are few."""
    factor = max(1, 256 // max(image.shape[:2]))
    for axis in (0, 1):
        image = image.repeat(max(factor, 16 // image.shape[axis]), axis)
    return image


def encode_png(image: Pixels, description: str = "") -> bytes:
    """Return an image of 8-bit red, green and blue as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    height, width = image.shape[:2]
    rows = np.zeros((height, 1 + width * 3), "u1")  # each begins with its filter, which is none
    rows[:, 1:] = image.reshape(height, -1)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    text = chunk(b"iTXt", b"Description" + bytes(5) + description.encode("utf-8", "replace"))
    data = chunk(b"IDAT", zlib.compress(rows.tobytes()))
    return b"\x89PNG\r\n\x1a\n" + head + text + data + chunk(b"IEND", b"")
