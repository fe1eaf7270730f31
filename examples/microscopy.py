"""Write a microscopy image with its levels and labels, read it by region, and migrate it.

Run it with ``python examples/microscopy.py FOLDER``. If matplotlib is installed, it also draws
``microscopy.png`` there. Running it again replaces its output.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import omnizarr as oz

SHAPE = (24, 256, 256)  # z, y, x
SCALE = (1.0, 0.25, 0.25)  # micrometers


def cells() -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]:
    """Return two channels of synthetic cells, nuclei and membranes, and labels of the nuclei."""
    random = np.random.default_rng(7)
    z, y, x = np.meshgrid(*(np.arange(n) * s for n, s in zip(SHAPE, SCALE, strict=True)),
                          indexing="ij")  # fmt: skip
    nuclei, membranes = np.zeros(SHAPE), np.zeros(SHAPE)
    labels = np.zeros(SHAPE, np.uint8)
    for number in range(1, 13):
        centre = random.uniform((8, 8, 8), (16, 56, 56))
        distance = np.sqrt((z - centre[0]) ** 2 + (y - centre[1]) ** 2 + (x - centre[2]) ** 2)
        nuclei += np.exp(-((distance / 3.5) ** 4))
        membranes += np.exp(-(((distance - 6) / 0.7) ** 2))
        labels[distance < 3.5] = number
    image = random.poisson(np.stack([800 * nuclei, 500 * membranes]) + 40)
    return np.minimum(image, 4095).astype(np.uint16), labels


def main(folder: Path) -> None:
    image, labels = cells()
    path = folder / "cells.ome.zarr"
    written = oz.ome.write(
        path,
        image,
        axes="czyx",
        scale=(1, *SCALE),
        unit="micrometer",
        levels=3,
        channels=[oz.ome.Channel("nuclei", "00AAFF"), oz.ome.Channel("membranes", "FF8800")],
        chunks=(1, 8, 64, 64),
        shards=(1, 24, 256, 256),
        overwrite=True,
    )
    colors = {n: (*np.random.default_rng(n).integers(60, 255, 3).tolist(), 255)
              for n in range(1, 13)}  # fmt: skip
    oz.ome.write_labels(path, "nuclei", labels, colors=colors)
    print(written.info)

    found = oz.ome.open(path)
    if not isinstance(found, oz.ome.Image):
        raise TypeError(f"expected an image, got {found!r}")
    part = found.read({"c": "nuclei", "z": 12, "y": (10, 40), "x": (10, 40)}, unit="micrometer")
    print(f"30 by 30 micrometers at z = 12: {part.shape} pixels")
    overview = found.read({"z": 12}, scale=1.0, unit="micrometer")
    print(f"the whole plane with pixels of at most 1 micrometer: {overview.shape}")
    print(f"problems: {oz.ome.validate(path)}")

    old = folder / "cells-0.4.ome.zarr"
    report = oz.convert(path, old, zarr_format=2, overwrite=True)
    print(f"converted to 0.4 for older programs: {report.chunks_encoded} chunks re-encoded")
    if find_spec("matplotlib"):
        draw(found, folder / "microscopy.png")


def draw(image: oz.ome.Image, target: Path) -> None:
    """Draw one plane: all channels, a region, the coarsest level, and the labels."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional package

    labels = image.labels["nuclei"]
    meaning = labels.label.colors if labels.label is not None else {}
    table = np.array([(meaning.get(n) or (0, 0, 0, 255))[:3] for n in range(256)], np.uint8)
    region = {"z": 12, "y": (10, 40), "x": (10, 40)}
    plane: npt.NDArray[Any] = labels.read({"z": 12})
    panels = {
        "level 0": colours(image, image.read({"z": 12})),
        "30 × 30 µm of it": colours(image, image.read(region, unit="micrometer")),
        "level 2": colours(image, image.read({"z": 12}, level=2)),
        "labels": table[plane],
    }
    figure = Figure(figsize=(10, 2.8), dpi=64, layout="constrained")
    for axes, (title, picture) in zip(figure.subplots(1, 4), panels.items(), strict=True):
        axes.imshow(picture, interpolation="nearest")
        axes.set_title(title)
        axes.set_axis_off()
    figure.savefig(target)


def colours(image: oz.ome.Image, planes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the channels as one RGB image, each in its own colour."""
    picture = np.zeros((*planes.shape[1:], 3))
    for channel, plane in zip(image.channels, planes, strict=True):
        rgb = np.frombuffer(bytes.fromhex(channel.color or "FFFFFF"), np.uint8) / 255
        picture += np.clip((plane.astype(float) - 40) / 700, 0, 1)[..., None] * rgb
    return np.clip(picture, 0, 1)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "microscopy-data")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
