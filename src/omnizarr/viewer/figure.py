"""Pictures with axes and units, drawn by matplotlib, for files and notebooks."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from omnizarr.errors import InvalidArgument, MissingModule
from omnizarr.extension import replace_file
from omnizarr.viewer.picture import (
    PIXELS,
    Picture,
    choose,
    colors,
    table_lines,
    window,
)

try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError as e:
    raise MissingModule("a preview needs matplotlib: pip install 'omnizarr[preview]'") from e

_INCHES = 5.0  # along the longer side of a plane
_DPI = 120


class Preview:
    """A picture of a node: shown in notebooks, saved to files, changed as a matplotlib figure."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.figure = _draw(picture)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file; its suffix, such as ``.png``, says in which format."""
        known = FigureCanvasAgg(self.figure).get_supported_filetypes()
        suffix = os.path.splitext(path)[1].lower().removeprefix(".")
        if suffix not in known:
            names = ", ".join(sorted(known))
            raise InvalidArgument(
                f"cannot write {os.fspath(path)!r}: its suffix is none of {names}"
            )
        replace_file(os.path.abspath(path), self._bytes(suffix), sync=False)

    def _bytes(self, suffix: str) -> bytes:
        file = io.BytesIO()
        self.figure.savefig(file, format=suffix, dpi=_DPI)
        return file.getvalue()

    def _repr_png_(self) -> bytes:
        return self._bytes("png")

    def __repr__(self) -> str:
        notes = "".join(f"  {note}" for note in self.picture.notes)
        return f"<Preview {self.picture.kind} of {self.picture.title}{notes}>"


def preview(node: Any, *, at: Mapping[str, int] | None = None, pixels: int = PIXELS) -> Preview:
    """Return a picture of an array, group, image, dataset, variable, map, or what is at a path.

    It is a plane of two or more axes, a plot of one, a table of texts and records. Values are read
    from the smallest level that is large enough, or with a step.

    Args:
        node: A path, URL, store, array, group, image, dataset, variable or map.
        at: The position along other axes by name, such as ``{"t": 3}``; by default the middle of an
            axis in space, and the start of any other.
        pixels: The least number of pixels along the longer side, if there are as many elements.

    Raises:
        NodeNotFound: If there is nothing at the path.
        MissingPackage: If a package for pictures is not installed.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(64).reshape(8, 8))
        >>> oz.preview("ocean.zarr").save("ocean.png")
    """
    return Preview(choose(node, at, pixels))


def _draw(picture: Picture) -> Figure:
    draw = {"plane": _draw_plane, "plot": _draw_plot, "table": _draw_table}[picture.kind]
    figure = draw(picture)
    title = "\n".join([picture.title, *picture.notes])
    figure.suptitle(_plain(title), fontsize=10, wrap=True)
    return figure


def _plain(text: str) -> str:
    """Return text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


def _draw_plane(picture: Picture) -> Figure:
    several = len(picture.layers) > 1
    panels = [*picture.layers, None] if several else [picture.layers[0]]  # None: all together
    across = min(len(panels), 4)
    down = -(-len(panels) // across)
    height, width = picture.layers[0].values.shape
    ratio = min(max(height / width, 0.25), 4.0)
    side = _INCHES if not several else _INCHES * 0.65
    wide, high = (side, side * ratio) if ratio <= 1 else (side / ratio, side)
    figure = Figure(figsize=(wide * across + 1.4, high * down + 1.0), layout="constrained")
    for number, layer in enumerate(panels, 1):
        axes = figure.add_subplot(down, across, number)
        extent, origin = _extent(picture)
        common: dict[str, Any] = {"extent": extent, "origin": origin}
        common |= {"aspect": _aspect(picture), "interpolation": "nearest"}
        if layer is not None and layer.color is None and not picture.is_image:
            low, high_value = window(layer)
            shown = axes.imshow(
                np.ma.masked_invalid(layer.values), vmin=low, vmax=high_value, **common
            )
            figure.colorbar(shown, ax=axes, label=_plain(picture.unit), shrink=0.85)
        else:
            part = picture.layers if layer is None else [layer]
            axes.imshow(colors(_with_layers(picture, part)), **common)
        if several:
            axes.set_title(_plain("all" if layer is None else layer.label), fontsize=9)
        axes.set_xlabel(_plain(picture.axes[1].label), fontsize=9)
        axes.set_ylabel(_plain(picture.axes[0].label), fontsize=9)
        axes.tick_params(labelsize=8)
    return figure


def _with_layers(picture: Picture, layers: list[Any]) -> Picture:
    return Picture("plane", picture.title, layers, picture.axes, is_image=picture.is_image)


def _extent(picture: Picture) -> tuple[tuple[float, float, float, float], str]:
    """Return the edges of a plane, and which row is at the top: north is, on maps."""
    rows, columns = (_edges(axis.places) for axis in picture.axes)
    if rows[0] < rows[1] and not picture.is_image and _is_north(picture.axes[0].name):
        return (columns[0], columns[1], rows[0], rows[1]), "lower"
    return (columns[0], columns[1], rows[1], rows[0]), "upper"


def _is_north(name: str) -> bool:
    return name.lower() in ("lat", "latitude", "y", "northing", "projection_y_coordinate")


def _edges(places: Any) -> tuple[float, float]:
    """Return where the first value begins and the last ends, taking places as centres."""
    if places.dtype.kind == "M" or not len(places):
        return -0.5, len(places) - 0.5
    half = float(places[-1] - places[0]) / (len(places) - 1) / 2 if len(places) > 1 else 0.5
    half = half if np.isfinite(half) and half else 0.5
    return float(places[0]) - half, float(places[-1]) + half


def _aspect(picture: Picture) -> str:
    rows, columns = picture.axes
    return "equal" if rows.unit == columns.unit and picture.is_image else "auto"


def _draw_plot(picture: Picture) -> Figure:
    figure = Figure(figsize=(_INCHES * 1.4, _INCHES * 0.7), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(picture.axes[0].places, picture.layers[0].values, linewidth=1)
    axes.set_xlabel(_plain(picture.axes[0].label), fontsize=9)
    axes.set_ylabel(_plain(picture.unit), fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    return figure


def _draw_table(picture: Picture) -> Figure:
    lines = table_lines(picture)
    width = max(map(len, lines), default=1)
    figure = Figure(figsize=(max(2.0, width * 0.085 + 0.4), len(lines) * 0.19 + 0.8))
    text = _plain("\n".join(lines))
    figure.text(0.05, 0.88, text, family="monospace", fontsize=9, va="top")
    return figure
