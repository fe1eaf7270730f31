"""OME-Zarr images: ome-zarr, its models, iohub, napari-ome-zarr, bioio-ome-zarr."""

# ruff: noqa: PLC0415 - a package is imported only in its own environment

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(16)


def write_iohub(folder: Path) -> None:
    from iohub import open_ome_zarr

    for version in ("0.4", "0.5"):
        options: Any = {"mode": "w", "channel_names": ["DAPI", "GFP"], "version": version}
        image = RNG.integers(0, 1000, (2, 2, 3, 16, 16)).astype("u2")
        with open_ome_zarr(folder / f"fov-{version}.zarr", layout="fov", **options) as position:
            position.create_image("0", image, chunks=(1, 1, 3, 16, 16))
        with open_ome_zarr(folder / f"hcs-{version}.zarr", layout="hcs", **options) as plate:
            for row, column in (("A", "1"), ("B", "2")):
                plate.create_position(row, column, "0").create_image("0", image)


def read_iohub(folder: Path) -> dict[str, Any]:
    from iohub import open_ome_zarr

    found: dict[str, Any] = {}
    for version in ("0.4", "0.5"):
        with open_ome_zarr(folder / f"fov-{version}.zarr", mode="r") as position:
            found[f"fov {version}"] = [position.data[:], position.channel_names, position.scale]
        with open_ome_zarr(folder / f"hcs-{version}.zarr", mode="r") as plate:
            positions = {name: position.data[:] for name, position in plate.positions()}
            found[f"hcs {version}"] = positions
    return found


def write_ome_zarr(folder: Path) -> None:
    import zarr
    from ome_zarr.format import FormatV04, FormatV05
    from ome_zarr.writer import write_image, write_labels

    for fmt in (FormatV04(), FormatV05()):
        name = f"image-{fmt.version}.zarr"
        image = RNG.integers(0, 1000, (2, 64, 64)).astype("u2")
        labels = (image[0] > 500).astype("u1")
        group = zarr.open_group(folder / name, mode="w", zarr_format=fmt.zarr_format)
        write_image(image, group, axes="cyx", fmt=fmt, storage_options={"chunks": (1, 32, 32)})
        write_labels(labels, group, name="cells", axes="yx", fmt=fmt)
        write_image(image, str(folder / f"path-{fmt.version}.zarr"), axes="cyx", fmt=fmt)


def read_ome_zarr(folder: Path) -> dict[str, Any]:
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.zarr")):
        nodes = list(Reader(parse_url(path))())
        found[path.name] = [
            [[level.compute() for level in node.data], node.metadata, str(node.zarr.basename())]
            for node in nodes
        ]
    return found


write_napari_ome_zarr = write_ome_zarr  # the plugin only reads


def read_napari_ome_zarr(folder: Path) -> dict[str, Any]:
    from napari_ome_zarr import napari_get_reader

    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.zarr")):
        layers = napari_get_reader(str(path))(str(path))
        found[path.name] = [
            [[np.asarray(level) for level in data], options, kind] for data, options, kind in layers
        ]
    return found


def write_bioio_ome_zarr(folder: Path) -> None:
    from bioio_ome_zarr.writers import OMEZarrWriter

    for version in (2, 3):
        image = RNG.integers(0, 1000, (1, 2, 3, 64, 64)).astype("u2")
        writer = OMEZarrWriter(
            str(folder / f"image-{version}.ome.zarr"),
            level_shapes=[(1, 2, 3, 64, 64), (1, 2, 3, 32, 32)],
            chunk_shape=(1, 1, 3, 32, 32),
            dtype="uint16",
            zarr_format=version,
        )
        writer.write_full_volume(image)


def read_bioio_ome_zarr(folder: Path) -> dict[str, Any]:
    from bioio_ome_zarr import Reader

    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.zarr")):
        reader = Reader(str(path))
        scenes = []
        for scene in reader.scenes:
            reader.set_scene(scene)
            scenes.append([reader.data, reader.dims.order, reader.resolution_levels])
        found[path.name] = [scenes, reader.channel_names, list(reader.physical_pixel_sizes)]
    return found


def write_ome_zarr_models(folder: Path) -> None:
    import zarr
    from ome_zarr_models import open_ome_zarr

    write_ome_zarr(folder)
    for path in sorted(folder.glob("path-*.zarr")):
        model = open_ome_zarr(zarr.open_group(path, mode="r"))
        model.to_zarr(zarr.storage.LocalStore(folder / f"copy-{path.name}"), path="/")


def read_ome_zarr_models(folder: Path) -> dict[str, Any]:
    import zarr
    from ome_zarr_models import open_ome_zarr

    paths = sorted(folder.glob("*path-*.zarr"))
    return {p.name: open_ome_zarr(zarr.open_group(p, mode="r")).model_dump() for p in paths}
