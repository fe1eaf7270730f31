"""GeoTIFF files without rasterio: what GDAL says of numbers and places, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import omnizarr as oz

SCALE = (33550, "d", 3, (10.0, 5.0, 0.0), False)
TIE = (33922, "d", 6, (0.0, 0.0, 0.0, 500.0, 900.0, 0.0), False)
KEYS = (34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633), False)
HOLES = np.array([[100, -9999], [300, 400]], "i2")
PLACE = {"spatial:transform": [10.0, 0.0, 500.0, 0.0, -5.0, 900.0], "proj:code": "EPSG:32633"}
PACKED = {"_FillValue": -9999, "scale_factor": 0.5, "add_offset": 2.0, "units": "m <&> µ"}


def nodata(text: str) -> tuple[Any, ...]:
    return (42113, "s", 0, text, False)


def metadata(*items: str) -> tuple[Any, ...]:
    return (42112, "s", 0, f"<GDALMetadata>{''.join(items)}</GDALMetadata>", False)


def item(name: str, value: str, sample: int, role: str = "") -> str:
    return f'<Item name="{name}" sample="{sample}" role="{role}">{value}</Item>'


def test_a_transform_without_a_reference_system_is_kept(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", HOLES, extratags=[SCALE, TIE])
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert (report.notes, report.skipped) == (["kept as attributes: the transform"], {})
    assert oz.geo.open(tmp_path / "a.zarr").bounds == (500, 890, 520, 900)


def test_what_bands_share_is_an_attribute_of_cf_and_the_rest_is_listed(tmp_path: Path) -> None:
    tag = metadata(
        '<Item name="AUTHOR">me &amp;amp; you</Item>',
        '<Item name="CLOUD" domain="IMAGERY">3</Item>',
        item("OFFSET", "2", 0, "offset"), item("OFFSET", "2", 1, "offset"),
        item("SCALE", "0.5", 0, "scale"), item("SCALE", "0.25", 1, "scale"),
        item("UNITTYPE", "m", 0, "unittype"), item("UNITTYPE", "m", 1, "unittype"),
        item("DESCRIPTION", "red", 0, "description"), item("STATISTICS_MEAN", "7", 1),
    )  # fmt: skip
    pixels = np.zeros((4, 4, 2), "u1")
    tifffile.imwrite(
        tmp_path / "a.tif", pixels, planarconfig="contig", photometric="minisblack",
        extratags=[tag],
    )  # fmt: skip
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert oz.open(tmp_path / "a.zarr").attrs.asdict() == {
        "add_offset": 2.0,
        "units": "m",
    }
    for name in ("AUTHOR", "CLOUD", "STATISTICS_MEAN", "scale_factor, which differs", "long_name"):
        assert name in report.skipped["GDAL metadata"]


@pytest.mark.parametrize(
    ("text", "lost"),
    [("<GDALMetadata", "cannot be read"), (metadata("<Item name='x'><b/></Item>")[3], ": x")],
)
def test_metadata_that_cannot_be_read_are_listed(tmp_path: Path, text: str, lost: str) -> None:
    tifffile.imwrite(tmp_path / "a.tif", HOLES, extratags=[(42112, "s", 0, text, False)])
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert lost in report.skipped["GDAL metadata"]


def test_a_mask_and_pages_elsewhere_are_reported(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(HOLES, extratags=[SCALE, TIE, KEYS], metadata=None)
        file.write(np.ones((2, 2), bool), subfiletype=4, metadata=None)
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert "array 1 is the mask of the array before it" in " ".join(report.notes)
    elsewhere = (33922, "d", 6, (0.0, 0.0, 0.0, 520.0, 900.0, 0.0), False)
    with tifffile.TiffWriter(tmp_path / "b.tif") as file:
        for tie in (TIE, elsewhere):
            file.write(HOLES, extratags=[SCALE, tie, KEYS], metadata=None)
    report = oz.import_file(tmp_path / "b.tif", tmp_path / "b.zarr")
    assert [*report.skipped] == ["places and metadata of pages"]


@pytest.mark.parametrize(
    ("dtype", "text", "value"),
    [("i8", "-9223372036854775807", -(2**63) + 1), ("u8", "18446744073709551615", 2**64 - 1)],
)
def test_the_largest_no_data_values_are_exact(
    tmp_path: Path, dtype: str, text: str, value: int
) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((2, 2), dtype), extratags=[nodata(text)])
    oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert int(oz.open(tmp_path / "a.zarr").attrs["_FillValue"]) == value


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_levels_of_an_imported_image_leave_no_data_out(tmp_path: Path, zarr_format: int) -> None:
    """K1: the coarser level was -2300."""
    tags = [nodata("-9999"), metadata(item("SCALE", "0.5", 0, "scale"))]
    tifffile.imwrite(tmp_path / "a.tif", HOLES, extratags=tags)
    oz.import_file(
        tmp_path / "a.tif", tmp_path / "a.zarr", image=True, levels=2, zarr_format=zarr_format
    )
    for level in oz.ome.open(tmp_path / "a.zarr").levels:
        assert level.attrs.asdict() == {"_FillValue": -9999, "scale_factor": 0.5}
    assert oz.ome.open(tmp_path / "a.zarr").levels[1][0, 0] == 267
    plain = oz.import_file(tmp_path / "a.tif", tmp_path / "b.zarr", levels=2)
    assert "there are no levels" in plain.notes[0]


@pytest.mark.parametrize("shape", [(40, 50), (1, 40, 50), (3, 40, 50), (40, 50, 3), (40, 50, 1)])
@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_an_exported_map_has_the_tags_of_geotiff_and_comes_back(
    tmp_path: Path, shape: tuple[int, ...], dtype: str
) -> None:
    names = {2: ["y", "x"], 3: ["s", "y", "x"] if shape[-1] == 50 else ["y", "x", "s"]}[len(shape)]
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    attributes = {**PACKED, **PLACE, "_FillValue": -9999, "title": "x"}
    oz.create_array(tmp_path / "a.zarr", data=values, attributes=attributes, dimension_names=names)
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.tif")
    assert not report.skipped
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        [page] = file.pages
        place = page.geotiff_tags
        assert place["ProjectedCSTypeGeoKey"] == 32633
        assert place["ModelPixelScale"] == [10, 5, 0]
        assert place["ModelTiepoint"][3:5] == [500, 900]
        assert float(page.nodata) == -9999
    oz.import_file(tmp_path / "a.tif", tmp_path / "b.zarr")
    back = oz.open(tmp_path / "b.zarr")
    np.testing.assert_array_equal(back[...], values)
    assert back.dimension_names == tuple(names)
    assert back.attrs["title"] == "x"
    found, source = oz.cf.decode(back), oz.cf.decode(oz.open(tmp_path / "a.zarr"))
    assert found.decoding == source.decoding
    assert (back.attrs["units"], back.attrs["proj:code"]) == (PACKED["units"], "EPSG:32633")
    assert oz.geo.read_transform(back) == oz.geo.Affine.of(PLACE["spatial:transform"])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("convention", ["multiscales", "geozarr"])
@pytest.mark.parametrize("variable", [None, "height"])
def test_a_pyramid_is_exported_with_its_levels(
    tmp_path: Path, convention: Any, variable: str | None, zarr_format: int
) -> None:
    """K7: a list of levels was taken for an image."""
    oz.geo.write(
        tmp_path / "a.zarr", np.arange(1200.0).reshape(30, 40), levels=3, crs=32633, way="cf",
        transform=PLACE["spatial:transform"], convention=convention, variable=variable,
        zarr_format=zarr_format,
    )  # fmt: skip
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.tif")
    assert not report.skipped
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        levels = file.series[0].levels
        assert [level.shape for level in levels] == [(30, 40), (15, 20), (8, 10)]
        np.testing.assert_array_equal(
            levels[2].asarray(), oz.geo.open(tmp_path / "a.zarr").levels[2].array[...]
        )
    oz.import_file(tmp_path / "a.tif", tmp_path / "b.zarr")
    assert str(oz.geo.open(tmp_path / "b.zarr").crs) == "EPSG:32633"


@pytest.mark.parametrize(
    ("attributes", "shape", "options", "lost"),
    [
        ({"proj:wkt2": 'ENGCRS["x"]'}, (2, 2), {}, "coordinate reference system"),
        (PLACE, (2, 2, 2, 2), {}, "place on the Earth"),
        (PLACE, (2, 2), {"format": "ome-tiff"}, "place on the Earth"),
        ({"missing_value": [1, 2]}, (2, 2), {}, "missing values"),
        ({"valid_range": [0, 5]}, (2, 2), {}, "valid range"),
        ({"_Unsigned": "true"}, (2, 2), {}, "_Unsigned"),
        ({"_FillValue": -9999}, (2, 2), {"dtype": "i1"}, "no-data value"),
    ],
)
def test_what_a_tiff_file_cannot_say_is_listed(
    tmp_path: Path, attributes: Any, shape: Any, options: Any, lost: str
) -> None:
    names = ["t", "c", "y", "x"][4 - len(shape) :]
    array = oz.create_array(
        {}, data=np.zeros(shape, "i2"), attributes=attributes, dimension_names=names
    )
    report = oz.export_file(array, tmp_path / "a.tif", **options)
    assert {*report.skipped} - {"attributes"} == {lost}


@pytest.mark.parametrize("model", [None, 32767])
def test_the_base_of_a_projected_system_is_not_taken_for_it(
    tmp_path: Path, model: int | None
) -> None:
    """As ArcGIS writes it, with the system as text; EPSG:4326 would be wrong by any distance."""
    text = (
        'ESRI PE String = PROJCS["WGS_1984_Web_Mercator_Auxiliary_Sphere",GEOGCS["GCS_WGS_1984",'
        'DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],PRIMEM["Greenwich",0.0],'
        'UNIT["Degree",0.0174532925199433]],PROJECTION["Mercator_Auxiliary_Sphere"],'
        'PARAMETER["False_Easting",0.0],PARAMETER["False_Northing",0.0],'
        'PARAMETER["Central_Meridian",0.0],PARAMETER["Standard_Parallel_1",0.0],'
        'PARAMETER["Auxiliary_Sphere_Type",0.0],UNIT["Meter",1.0]]|'
    )
    keys = [] if model is None else [(1024, 0, 1, model)]
    keys += [(1025, 0, 1, 1), (2048, 0, 1, 4326), (3073, 34737, len(text), 0), (3076, 0, 1, 9001)]
    directory = [1, 1, 0, len(keys), *(n for key in keys for n in key)]
    tags = [(34735, "H", len(directory), directory, False), (34737, "s", 0, text, False)]
    tifffile.imwrite(tmp_path / "a.tif", HOLES, extratags=[SCALE, TIE, *tags])
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    crs = oz.geo.open(tmp_path / "a.zarr").crs
    if crs is None:  # without rasterio
        assert "ESRI PE String" in report.skipped["coordinate reference system"]
    else:
        assert crs.to_pyproj().is_projected


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["u1", "i2"])
@pytest.mark.parametrize("attributes", [{"station": "abc", "n": 1}, {"units": "m"}])
def test_an_array_of_samples_comes_back_with_its_attributes(
    tmp_path: Path, width: int, samples: int, dtype: str, attributes: dict[str, Any]
) -> None:
    values = np.arange(42 * width * samples).reshape(42, width, samples).astype(dtype)
    oz.create_array(
        tmp_path / "a.zarr", data=values, dimension_names=["y", "x", "s"], attributes=attributes
    )
    assert oz.export_file(tmp_path / "a.zarr", tmp_path / "a.tif").skipped == {}
    assert oz.import_file(tmp_path / "a.tif", tmp_path / "b.zarr").skipped == {}
    found = oz.open(tmp_path / "b.zarr")
    assert found.dimension_names == ("y", "x", "s")
    np.testing.assert_array_equal(found[...], values)
    assert found.attrs.asdict() == attributes
    done = oz.import_file(tmp_path / "a.tif", tmp_path / "c.zarr", image=True, levels=1)
    image = oz.ome.open(tmp_path / "c.zarr")
    kept = {**image.group.attrs.asdict(), **image.levels[0].attrs.asdict()}
    assert {k: kept.get(k) for k in attributes} == attributes or done.skipped
