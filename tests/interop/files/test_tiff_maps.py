"""Random GeoTIFF files: whatever rasterio reads in one is imported, or is in the report.

What is imported is exported again, and rasterio reads the same in that file.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import omnizarr as oz

rasterio = pytest.importorskip("rasterio")
from rasterio.enums import ColorInterp, MaskFlags, Resampling  # noqa: E402 - if it is installed

TYPES = ["uint8", "int16", "uint16", "int32", "float32", "float64"]
SYSTEMS = [None, "EPSG:4326", "EPSG:32633", "EPSG:3857", "+proj=laea +lat_0=10 +lon_0=20"]
WORDS = st.text("abc é<&>\"'=", min_size=1, max_size=6).filter(lambda t: t.strip() == t)
TAGS = st.dictionaries(st.sampled_from(["AUTHOR", "K1", "K2"]), WORDS, max_size=2)
FACTORS = st.sampled_from([0.1, 1.0, 2.0, -3.5])


def affines() -> st.SearchStrategy[Any]:
    sizes = st.sampled_from([10.0, 0.25, -2.0])
    turns = st.sampled_from([0.0, 0.0, 1.0])
    corners = st.sampled_from([0.0, 500000.0, -17.5])
    made = st.builds(rasterio.Affine, sizes, turns, corners, turns, sizes, corners)
    return st.none() | made.filter(lambda a: abs(a.determinant) > 1e-3)


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 4))

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        same = draw(st.booleans())
        return [draw(values)] * count if same else [draw(values) for _ in range(count)]

    dtype = draw(st.sampled_from(TYPES))
    number = st.sampled_from([0, 7, 255] if dtype.startswith("u") else [0, 7, -99])
    return {
        "profile": {
            "count": count, "dtype": dtype, "crs": draw(st.sampled_from(SYSTEMS)),
            "transform": draw(affines()), "nodata": draw(st.none() | number),
            "interleave": draw(st.sampled_from(["band", "pixel"])),
            "height": 40, "width": 33,
            **draw(st.sampled_from([{}, {"tiled": True, "blockxsize": 16, "blockysize": 16}])),
        },
        "scales": each(FACTORS), "offsets": each(FACTORS), "units": each(st.just("") | WORDS),
        "names": each(st.just("") | WORDS), "band_tags": each(TAGS), "tags": draw(TAGS),
        "domain": draw(TAGS), "mask": draw(st.booleans()), "alpha": draw(st.booleans()),
        "levels": draw(st.sampled_from([[], [2], [2, 4]])), "point": draw(st.booleans()),
    }  # fmt: skip


def write(path: Path, made: dict[str, Any]) -> None:
    profile = {k: v for k, v in made["profile"].items() if v is not None}
    count, shape = profile["count"], (profile["height"], profile["width"])
    values = np.arange(count * shape[0] * shape[1]).reshape(count, *shape) % 120
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", driver="GTiff", **profile) as file,
    ):
        file.write(values.astype(profile["dtype"]))
        if made["alpha"] and count == 4:
            colours = (ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha)
            file.colorinterp = colours
        if any(s != 1 for s in made["scales"]) or any(made["offsets"]):
            file.scales, file.offsets = made["scales"], made["offsets"]
        if any(made["units"]):
            file.units = made["units"]
        for number in range(count):
            if made["names"][number]:
                file.set_band_description(number + 1, made["names"][number])
            file.update_tags(number + 1, **made["band_tags"][number])
        file.update_tags(**made["tags"], **({"AREA_OR_POINT": "Point"} if made["point"] else {}))
        file.update_tags(ns="OTHER", **made["domain"])
        if made["mask"] and not made["alpha"] and profile.get("nodata") is None:
            file.write_mask(values[0] % 3 > 0)
        if made["levels"]:
            file.build_overviews(made["levels"], Resampling.nearest)


def facts(path: Path) -> dict[str, Any]:
    """Return everything that rasterio finds in a file, other than how its pixels are stored."""
    with rasterio.open(path) as file:
        own = {"AREA_OR_POINT": "Area", **file.tags()}
        return {
            "values": file.read(),
            "type": file.dtypes,
            "crs": file.crs
            if file.crs and (file.crs.is_projected or file.crs.is_geographic)
            else None,
            "transform": None if file.transform.is_identity else file.transform,
            "nodata": file.nodata,
            "scales": file.scales,
            "offsets": file.offsets,
            "units": tuple(u or "" for u in file.units),
            "names": tuple(d or "" for d in file.descriptions),
            "tags": {k: v for k, v in own.items() if not k.startswith("TIFFTAG_")},
            "domain": file.tags(ns="OTHER"),
            "band tags": tuple(
                {k: v for k, v in file.tags(i).items() if not k.startswith("STATISTICS")}
                for i in file.indexes
            ),
            "mask": file.mask_flag_enums[0] == [MaskFlags.per_dataset],
            "colours": file.colorinterp,
            "overviews": file.overviews(1),
        }


def differences(a: dict[str, Any], b: dict[str, Any]) -> set[str]:
    return {
        name
        for name, value in a.items()
        if not (
            np.array_equal(value, b[name])
            if name == "values"
            else value == b[name]
            if name != "transform" or None in (value, b[name])
            else value.almost_equals(b[name], 1e-6)
        )
    }


# What an array and its attributes do not have, and the words of the report that say so.
REPORTED = {
    "mask": "is the mask of",
    "overviews": "the finest one is imported",
    "crs": "coordinate reference system",
    **dict.fromkeys(("scales", "offsets", "units", "names", "tags"), "GDAL metadata"),
    **dict.fromkeys(("domain", "band tags", "colours"), "GDAL metadata"),
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=files(), zarr_format=st.sampled_from([2, 3]))
def test_a_geotiff_comes_back_or_the_report_says_what_does_not(
    tmp_path_factory: pytest.TempPathFactory, made: dict[str, Any], zarr_format: int
) -> None:
    folder = tmp_path_factory.mktemp("maps")
    first, store, second = folder / "a.tif", folder / "a.zarr", folder / "b.tif"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        write(first, made)
        before = facts(first)
        imported = oz.import_file(first, store, zarr_format=zarr_format)
        path = "0" if before["mask"] else ""
        exported = oz.export_file(store, second, path=path)
        after = facts(second)
    words = f"{imported.notes} {imported.skipped} {exported.notes} {exported.skipped}"
    assert imported.skipped.keys() <= {"GDAL metadata"}
    assert exported.skipped.keys() <= {"coordinate reference system"}
    lost = differences(before, after)
    assert {name for name in lost if REPORTED.get(name, "never") not in words} == set(), words
    if before["mask"]:
        with rasterio.open(first) as file:
            mask = file.dataset_mask()
        np.testing.assert_array_equal(np.asarray(oz.open(store)["1"][...]) != 0, mask != 0)
