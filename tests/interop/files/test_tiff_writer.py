"""TIFF files: read by tifffile, with axes, levels, channels and pixel sizes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_parts_of_an_image_that_ome_tiff_lacks_are_reported_before_it_is_written(
    tmp_path: Path,
) -> None:
    image = oz.ome.write(
        tmp_path / "a.zarr", _values((2, 8, 64, 64), "u1"), axes="czyx", levels=2,
        translation=(0, 0, 1, 2), scale=(3, 1, 1, 1), channels=["a", "b"],
    )  # fmt: skip
    image.group.attrs["mine"] = 1
    oz.ome.write_labels(tmp_path / "a.zarr", "cells", _values((8, 64, 64), "u1"))
    lost = {
        "labels/cells": "a TIFF file has no labels; export them by their path",
        "translation": "a TIFF file has no position of the first pixel",
        "attributes": "a TIFF file of an image has none: mine",
    }
    job = oz.jobs.Export(tmp_path / "a.zarr", tmp_path / "a.ome.tif")
    report = oz.run(job)
    assert report.skipped == {
        **lost,
        "level 1": "it is smaller along z, which OME-TIFF does not allow",
        "size of a pixel along c": "OME-XML has no size along c, here 3",
    }
    assert report.notes == ["OME-TIFF has no display settings of channels, only colours"]
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert len(file.series[0].levels) == 1
    assert oz.export_file(tmp_path / "a.zarr", tmp_path / "a.tif").skipped == {
        **lost,
        "coarser levels": "a .tif file has one; write an .ome.tif file",
        "pixel sizes": "a .tif file has none; write an .ome.tif file",
        "channels": "a .tif file has none; write an .ome.tif file",
    }
    with pytest.raises(oz.CannotExpress, match=r"5 parts cannot be exported"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "b.ome.tif", strict=True)


UNITS = [None, "micrometer", "foot", "yard", "parsec", "thou", "exameter"]


@settings(max_examples=25, deadline=None)
@given(
    units=st.tuples(*(st.sampled_from(UNITS) for _ in range(3))),
    sizes=st.tuples(*(st.sampled_from([1.0, 0.25, 3.0]) for _ in range(3))),
)
def test_pixel_sizes_of_any_unit_survive_ome_tiff(
    units: tuple[str | None, ...], sizes: tuple[float, ...]
) -> None:
    given_units = {a: u for a, u in zip("zyx", units, strict=True) if u}
    store: dict[str, bytes] = {}
    image = oz.ome.write(
        store, _values((2, 9, 9), "u1"), axes="zyx", scale=sizes, unit=given_units, name="a"
    )
    again: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        assert oz.export_file(store, f"{folder}/a.ome.tif").skipped == {}
        assert oz.import_file(f"{folder}/a.ome.tif", again).skipped == {}
    found = oz.ome.open(again)
    assert (found.axes, found.scale) == (image.axes, image.scale)


@pytest.mark.parametrize("dtype", ["i8", "u8", "f2"])
def test_a_type_that_ome_tiff_lacks_is_refused(tmp_path: Path, dtype: str) -> None:
    oz.create_array(tmp_path / "a.zarr", data=_values((9, 9), dtype), attributes={"a": 1})
    with pytest.raises(oz.CannotExpress, match="which OME-TIFF does not have"):
        oz.export_file(tmp_path / "a.zarr", tmp_path / "a.ome.tif")
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.ome.tif", dtype="f4")
    assert report.skipped == {"attributes": "OME-TIFF has none: a; a .tif file keeps them"}


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


def test_a_size_without_a_unit_that_ome_xml_knows_is_named(tmp_path: Path) -> None:
    for unit, why in ({}, "0.5 has no unit"), ({"t": "year"}, "0.5 has the unit 'year', which"):
        oz.ome.write(
            tmp_path / "a.zarr", _values((2, 8, 8), "u1"), axes="tyx", scale=(0.5, 1, 1), unit=unit,
            overwrite=True,
        )  # fmt: skip
        report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.ome.tif", overwrite=True)
        assert report.skipped["size of a pixel along t"].startswith(why)
