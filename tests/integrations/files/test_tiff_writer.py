"""TIFF files: read by tifffile, with axes, levels, channels and pixel sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import omnizarr as oz


def _values(shape: tuple[int, ...], dtype: str) -> Any:
    return np.random.default_rng(0).integers(0, 200, shape).astype(dtype)


@pytest.mark.parametrize("memory", ["100kB", "512MB"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((30, 40), "u1"), ((5, 300, 700), "u2"), ((2, 3, 700, 90), "f4"), ((2, 2, 2, 20, 30), "i4")],
)
def test_tifffile_reads_an_array(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, memory: str
) -> None:
    values = _values(shape, dtype)
    oz.create_array(tmp_path / "a.zarr", data=values, chunks=tuple(min(n, 33) for n in shape))
    for compression in ("auto", None):
        oz.export_file(
            tmp_path / "a.zarr", tmp_path / "a.tif", memory=memory, compression=compression,
            overwrite=True,
        )  # fmt: skip
        np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif"), values)
        with tifffile.TiffFile(tmp_path / "a.tif") as file:
            assert file.pages[0].compression == (8 if compression else 1)


@pytest.mark.parametrize("memory", ["300kB", "512MB"])
def test_an_image_becomes_ome_tiff_with_its_levels(tmp_path: Path, memory: str) -> None:
    values = _values((2, 3, 4, 300, 520), "u2")
    units = {"t": "second", "z": "micrometer", "y": "micrometer", "x": "micrometer"}
    image = oz.ome.write(
        tmp_path / "a.zarr", values, axes="tczyx", scale=(5, 1, 4, 0.5, 0.5), unit=units,
        channels=["DAPI", oz.ome.Channel("GFP", "00FF00"), "RFP"], name="cells",
    )  # fmt: skip
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.ome.tif", memory=memory)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        series = file.series[0]
        assert (series.kind, series.axes) == ("ome", "TCZYX")
        assert [level.shape for level in series.levels] == [a.shape for a in image.levels]
        for level, array in zip(series.levels, image.levels, strict=True):
            np.testing.assert_array_equal(level.asarray(), array[...])
        assert file.pages[0].is_tiled
    oz.import_file(tmp_path / "a.ome.tif", tmp_path / "b.zarr")
    again = oz.ome.open(tmp_path / "b.zarr")
    assert (again.axes, again.scale, again.name) == (image.axes, image.scale, "cells")
    assert [(c.label, c.color) for c in again.channels] == [
        (c.label, c.color) for c in image.channels
    ]
    for one, other in zip(again.levels, image.levels, strict=True):
        np.testing.assert_array_equal(one[...], other[...])


def test_levels_that_are_smaller_along_z_are_left_out(tmp_path: Path) -> None:
    oz.ome.write(tmp_path / "a.zarr", _values((8, 64, 64), "u1"), axes="zyx", levels=2)
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.ome.tif")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert len(file.series[0].levels) == 1


def test_colour_is_written_as_colour(tmp_path: Path) -> None:
    values = _values((20, 30, 3), "u1")
    oz.create_array(tmp_path / "a.zarr", data=values, dimension_names=["y", "x", "s"])
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.pages[0].photometric == tifffile.PHOTOMETRIC.RGB
        np.testing.assert_array_equal(file.asarray(), values)


def test_what_tiff_cannot_hold_is_refused(tmp_path: Path) -> None:
    cases: dict[str, Any] = {"1d": np.zeros(3), "text": np.array([["a"]]), "none": np.zeros((0, 3))}
    for name, values in cases.items():
        oz.create_array(tmp_path / f"{name}.zarr", data=values)
        with pytest.raises(oz.CannotExpress, match="cannot be a TIFF file"):
            oz.export_file(tmp_path / f"{name}.zarr", tmp_path / "a.tif")
    oz.create_array(tmp_path / "b.zarr", data=np.zeros((3, 3)), dimension_names=["lat", "lon"])
    with pytest.raises(oz.CannotExpress, match=r"has the axes .*lat.*write a .tif file instead"):
        oz.export_file(tmp_path / "b.zarr", tmp_path / "a.ome.tif")
    report = oz.create_array(tmp_path / "bits.zarr", data=np.eye(4, dtype=bool))
    notes = oz.export_file(report, tmp_path / "bits.tif").notes
    assert notes == ["booleans are written as bytes 0 and 1"]
