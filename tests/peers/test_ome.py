"""Other OME-Zarr libraries read our images, and we read theirs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import omnizarr as oz

models = pytest.importorskip("ome_zarr_models")
pytest.importorskip("ome_zarr")

VALUES = np.random.default_rng(0).integers(0, 60000, (2, 6, 40, 50)).astype("u2")


@pytest.fixture(params=["0.4", "0.5"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def write(path: Path, version: str, **options: Any) -> oz.ome.Image:
    image = oz.ome.write(
        path, VALUES, axes="czyx", scale=(1, 0.5, 0.1, 0.1), unit="um", levels=3, version=version,
        channels=["DAPI", "GFP"], chunks=(1, 3, 16, 16), **options,
    )  # fmt: skip
    oz.ome.write_labels(path, "cells", VALUES[0] % 5, colors={1: (255, 0, 0, 255)})
    return image


def model(path: Path) -> str:
    with warnings.catch_warnings():
        # It warns that `plate.version` is missing, which the schemas do not have.
        warnings.simplefilter("ignore")
        return type(models.open_ome_zarr(zarr.open_group(path, mode="r"))).__name__


def test_ome_zarr_models_accepts_images_labels_and_plates(tmp_path: Path, version: str) -> None:
    write(tmp_path / "image", version)
    assert model(tmp_path / "image") == "Image"
    assert model(tmp_path / "image" / "labels") == "Labels"
    assert model(tmp_path / "image" / "labels" / "cells") == "ImageLabel"
    oz.ome.write_plate(tmp_path / "plate", {"A/1": [VALUES], "B/12": [VALUES]}, version=version)
    assert model(tmp_path / "plate") == "HCS"
    assert model(tmp_path / "plate" / "A" / "1") == "Well"


def test_ome_zarr_py_reads_levels_labels_and_channels(tmp_path: Path, version: str) -> None:
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    options = {"shards": (1, 6, 32, 32)} if version == "0.5" else {}
    image = write(tmp_path / "image", version, **options)
    nodes = list(Reader(parse_url(tmp_path / "image"))())
    assert [len(node.data) for node in nodes] == [3, 0, 3]
    for array, level in zip(nodes[0].data, image.levels, strict=True):
        np.testing.assert_array_equal(np.asarray(array), level[...])
    assert nodes[0].metadata["channel_names"] == ["DAPI", "GFP"]


def test_images_of_ome_zarr_py_are_read(tmp_path: Path, version: str) -> None:
    from ome_zarr.format import format_from_version
    from ome_zarr.writer import write_image, write_labels

    fmt = format_from_version(version)
    path = str(tmp_path / "theirs")
    group = zarr.open_group(path, mode="w", zarr_format=fmt.zarr_format)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_image(VALUES, group, axes="czyx", fmt=fmt, scale_factors=[2], scale={"z": 0.5})
        write_labels(
            VALUES[0] % 5, group, "cells", axes="zyx", fmt=fmt, scale_factors=[2], scaler=None
        )
    image = oz.ome.open(path)
    assert isinstance(image, oz.ome.Image)
    assert image.version == version
    theirs = dict(group.attrs)
    multiscale = theirs.get("ome", theirs)["multiscales"][0]  # type: ignore[index]
    for i, dataset in enumerate(multiscale["datasets"]):
        assert list(image.transform(i).scale) == dataset["coordinateTransformations"][0]["scale"]
    np.testing.assert_array_equal(image.read(), VALUES)
    np.testing.assert_array_equal(image.labels["cells"].read(), VALUES[0] % 5)
    # Its group of labels has no version, which 0.5 demands.
    known = {"labels/zarr.json: attributes.ome.version: required, but missing"}
    assert {str(p) for p in oz.ome.validate(path) if p.level == "error"} <= known
