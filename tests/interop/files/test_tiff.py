"""TIFF files of every layout, compared with what tifffile reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.interop.files.contents import read_contents
from tests.interop.files.tiff_layouts import LAYOUTS, write_tiff

IMPORTED = sorted({*LAYOUTS} - {"ome"})  # whose axes have another order


@pytest.mark.parametrize("layout", IMPORTED)
def test_every_layout_is_imported_as_tifffile_reads_it(tmp_path: Path, layout: str) -> None:
    values = write_tiff(tmp_path / "a.tif", LAYOUTS[layout])
    oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    array = oz.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(array[...], values)
    assert array.dtype == values.dtype.newbyteorder("=")
    assert array.dimension_names is not None
    assert array.dimension_names[-2:] in (("y", "x"), ("x", "s"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tiff")
    found = {}
    for layout in IMPORTED:
        values = write_tiff(folder / f"{layout}.tif", LAYOUTS[layout])
        found[layout] = values, read_contents(str(folder / f"{layout}.tif")).arrays[""].values
    return found


@settings(max_examples=100, deadline=None)
@given(layout=st.sampled_from(IMPORTED), data=st.data())
def test_any_box_has_the_values_of_the_whole(files: Any, layout: str, data: st.DataObject) -> None:
    values, source = files[layout]
    box = []
    for n in values.shape:
        start = data.draw(st.integers(0, n - 1))
        box.append(slice(start, data.draw(st.integers(start + 1, n))))
    np.testing.assert_array_equal(source.read(tuple(box)), values[tuple(box)])


def test_only_the_tiles_of_a_box_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 255, (3, 512, 512)).astype("u1")
    tifffile.imwrite(
        tmp_path / "a.tif", values, tile=(64, 64), compression="zlib", photometric="minisblack"
    )
    source = read_contents(str(tmp_path / "a.tif")).arrays[""].values
    sizes: list[int] = []
    real = tifffile.FileHandle.read
    monkeypatch.setattr(
        tifffile.FileHandle, "read", lambda self, n=-1: sizes.append(n) or real(self, n)
    )
    source.read((slice(1, 2), slice(60, 70), slice(0, 64)))
    assert sum(n > 3000 for n in sizes) == 2


AXES = {"ZCYX": "czyx", "TCZYX": "tczyx", "YX": "yx", "CYX": "cyx", "TYX": "tyx", "YXS": "cyx"}


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_ome_tiff_becomes_a_valid_image_with_levels(
    tmp_path: Path, axes: str, zarr_format: int
) -> None:
    lengths = {"T": 2, "C": 3, "Z": 4, "Y": 300, "X": 520, "S": 3}
    shape = [lengths[a] for a in axes]
    values = np.random.default_rng(0).integers(0, 255, shape).astype("u1" if "S" in axes else "u2")
    described: dict[str, Any] = {
        "axes": axes,
        "PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": 250, "PhysicalSizeYUnit": "nm",
        "PhysicalSizeZ": 2.0, "TimeIncrement": 5.0, "TimeIncrementUnit": "s",
    }  # fmt: skip
    if "C" in axes:
        described["Channel"] = {"Name": ["DAPI", "GFP", "RFP"]}
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        file.write(
            values, metadata=described, compression="zlib", tile=(128, 128),
            photometric="rgb" if "S" in axes else "minisblack",
        )  # fmt: skip
    oz.import_file(tmp_path / "a.ome.tif", tmp_path / "a.zarr", zarr_format=zarr_format)
    image = oz.ome.open(tmp_path / "a.zarr")
    assert isinstance(image, oz.ome.Image)
    assert "".join(a.name for a in image.axes) == AXES[axes]
    order = [axes.replace("S", "C").index(a.upper()) for a in AXES[axes]]
    np.testing.assert_array_equal(image.levels[0][...], values.transpose(order))
    scale = dict(zip(AXES[axes], image.scale, strict=True))
    units = {a.name: a.unit for a in image.axes}
    assert (scale["x"], units["x"], scale["y"], units["y"]) == (
        0.25,
        "micrometer",
        250,
        "nanometer",
    )
    if "T" in axes:
        assert (scale["t"], units["t"]) == (5, "second")
    if "Z" in axes:
        assert (scale["z"], units["z"]) == (2, "micrometer")
    assert [c.label for c in image.channels] == (["DAPI", "GFP", "RFP"] if "C" in axes else [])
    problems = oz.ome.validate(tmp_path / "a.zarr")
    assert [p for p in problems if p.level == "error"] == []
    expected = oz.ome.write(
        {}, values.transpose(order), axes=AXES[axes], scale=image.scale,
        unit={a: u for a, u in units.items() if u},
    )  # fmt: skip
    assert len(image.levels) > 1
    for level, other in zip(image.levels, expected.levels, strict=True):
        np.testing.assert_array_equal(level[...], other[...])


def test_several_series_are_images_by_number(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        file.write(np.zeros((3, 64, 64), "u1"), metadata={"axes": "CYX", "Name": "first"},
                   photometric="minisblack")  # fmt: skip
        file.write(np.ones((64, 32), "u2"), metadata={"axes": "YX", "Name": "second"})
    oz.import_file(tmp_path / "a.ome.tif", tmp_path / "a.zarr")
    series = oz.ome.open(tmp_path / "a.zarr")
    assert isinstance(series, oz.ome.Series)
    assert [p for p in oz.ome.validate(tmp_path / "a.zarr") if p.level == "error"] == []
    assert [oz.ome.open(tmp_path / "a.zarr", path=n).name for n in "01"] == ["first", "second"]


def test_a_plain_file_becomes_an_image_on_demand(tmp_path: Path) -> None:
    values = np.arange(2 * 600 * 500, dtype="u4").reshape(2, 600, 500)
    tifffile.imwrite(tmp_path / "a.tif", values, metadata={"axes": "ZYX", "sample": "liver"},
                     photometric="minisblack")  # fmt: skip
    oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr", image=True, levels=2, method="nearest")
    image = oz.ome.open(tmp_path / "a.zarr")
    assert [level.shape for level in image.levels] == [(2, 600, 500), (1, 300, 250)]
    np.testing.assert_array_equal(image.levels[1][...], values[::2, ::2, ::2])
    assert image.group.attrs["sample"] == "liver"
    oz.import_file(tmp_path / "a.tif", tmp_path / "b.zarr")
    array = oz.open(tmp_path / "b.zarr")
    assert (array.dimension_names, array.attrs["sample"]) == (("z", "y", "x"), "liver")


@pytest.mark.parametrize(
    ("unit", "size"), [("um", 0.25), ("\\u00B5m", 0.25), ("micron", 0.25), ("pixel", 1.0)]
)
def test_a_hyperstack_of_imagej_becomes_an_image_with_its_pixel_sizes(
    tmp_path: Path, unit: str, size: float
) -> None:
    values = np.arange(3 * 2 * 20 * 30, dtype="u2").reshape(3, 2, 20, 30)
    tifffile.imwrite(
        tmp_path / "a.tif", values, imagej=True, resolution=(4, 4),
        metadata={"axes": "ZCYX", "spacing": 1.5, "unit": unit},
    )  # fmt: skip
    oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr", image=True)
    image = oz.ome.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(image.read(), values.transpose(1, 0, 2, 3))
    assert image.scale == (1, 1.5 if size < 1 else 1, size, size)
    assert image.axes[3].unit == ("micrometer" if size < 1 else None)
    oz.import_file(tmp_path / "a.tif", tmp_path / "b.zarr")
    assert oz.open(tmp_path / "b.zarr").dimension_names == ("z", "c", "y", "x")


def test_series_of_one_shape_have_their_own_attributes(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif", shaped=True) as file:
        for name in ("first", "second"):
            file.write(np.zeros((20, 30), "u2"), metadata={"sample": name}, contiguous=False)
    oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    group = oz.open(tmp_path / "a.zarr")
    assert [group[n].attrs["sample"] for n in "01"] == ["first", "second"]


def test_colour_samples_become_channels_where_an_image_is_asked_for(tmp_path: Path) -> None:
    values = np.arange(20 * 30 * 3, dtype="u1").reshape(20, 30, 3)
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb")
    oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr", image=True)
    image = oz.ome.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(image.read(), values.transpose(2, 0, 1))


@pytest.mark.parametrize(("shape", "axes"), [((3,), "qyx"), ((4, 2), "qqyx")])
def test_axes_without_a_meaning_are_refused_with_a_remedy(
    tmp_path: Path, shape: tuple[int, ...], axes: str
) -> None:
    values = np.zeros((*shape, 20, 30), "u2")
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="minisblack")
    message = rf"a\.zarr: an image has .* not '{axes}'; .* omnizarr.ome.write"
    with pytest.raises(oz.CannotExpress, match=message):
        oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr", image=True)
    assert not (tmp_path / "a.zarr").exists()


def test_a_codec_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((64, 64), "u2"), compression="lzw")

    def decode(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("<COMPRESSION.LZW: 5> requires the 'imagecodecs' package")

    monkeypatch.setattr(tifffile.TiffPage, "decode", property(lambda page: decode))
    with pytest.raises(oz.MissingPackage, match="pip install imagecodecs"):
        oz.import_file(tmp_path / "a.tif", tmp_path / "out.zarr")


GEO_KEYS = {
    "projected": [1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633],
    "point": [1, 1, 0, 3, 1024, 0, 1, 2, 1025, 0, 1, 2, 2048, 0, 1, 4326],
    "own": [1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32767],
    "height": [1, 1, 0, 3, 1024, 0, 1, 2, 2048, 0, 1, 4326, 4096, 0, 1, 5773],
}
SCALE = (33550, "d", 3, (10.0, 5.0, 0.0), True)
TIE = (33922, "d", 6, (1.0, 2.0, 0.0, 500010.0, 4599990.0, 0.0), True)
MATRIX = (34264, "d", 16, (10.0, 1, 0, 500000, 2, -5, 0, 4600000, *(0.0,) * 7, 1), True)
CONTROL = (33922, "d", 12, (0.0, 0, 0, 5, 5, 0, 1, 1, 0, 6, 4, 0), True)


def write_geotiff(
    path: Path,
    keys: str,
    *places: Any,
    dtype: str = "f4",
    nodata: str | None = None,
    **options: Any,
) -> None:
    directory = GEO_KEYS[keys]
    tags: list[Any] = [(34735, "H", len(directory), directory, True), *places]
    if nodata is not None:
        tags.append((42113, "s", 0, nodata, True))
    shape = (3, 4, 3) if options else (3, 4)
    tifffile.imwrite(path, np.ones(shape, dtype), extratags=tags, **options)


@pytest.mark.parametrize(
    ("keys", "places", "options", "code", "coefficients"),
    [
        ("projected", (SCALE, TIE), {}, "EPSG:32633", (10, 0, 500000, 0, -5, 4600000)),
        ("projected", (MATRIX,), {}, "EPSG:32633", (10, 1, 500000, 2, -5, 4600000)),
        ("point", (SCALE, TIE), {}, "EPSG:4326", (10, 0, 499995, 0, -5, 4600002.5)),
        ("height", (SCALE, TIE), {}, "EPSG:4326", (10, 0, 500000, 0, -5, 4600000)),
        (
            "projected", (SCALE, TIE), {"photometric": "rgb"},
            "EPSG:32633", (10, 0, 500000, 0, -5, 4600000),
        ),
    ],
)  # fmt: skip
def test_a_geotiff_keeps_its_place(
    tmp_path: Path, keys: str, places: Any, options: Any, code: str, coefficients: Any
) -> None:
    write_geotiff(tmp_path / "a.tif", keys, *places, **options)
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert report.notes == [f"kept as attributes: the transform and {code}"]
    assert [*report.skipped] == (["vertical reference system"] if keys == "height" else [])
    array = oz.open(tmp_path / "a.zarr")
    place = oz.geo.read_transform(array)
    assert place is not None
    assert place.coefficients == coefficients
    crs = oz.geo.read_crs(array)
    assert crs is not None
    assert crs.code == code
    assert array.attrs["spatial:shape"] == [3, 4]
    assert oz.geo.open(tmp_path / "a.zarr").levels[0].shape[:2] == (3, 4)


@pytest.mark.parametrize(
    ("keys", "places", "options", "lost"),
    [
        ("own", (SCALE, TIE), {}, "coordinate reference system"),
        ("projected", (CONTROL,), {}, "coordinates of the pixels"),
        ("projected", (SCALE, TIE), {"image": True}, "place on the Earth"),
    ],
)
def test_what_is_lost_of_the_place_of_a_geotiff_is_listed(
    tmp_path: Path, keys: str, places: Any, options: Any, lost: str
) -> None:
    write_geotiff(tmp_path / "a.tif", keys, *places)
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr", **options)
    assert [*report.skipped] == [lost]


@pytest.mark.parametrize("format_", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "text", "value"), [("f4", "-9999", -9999), ("u2", "0", 0), ("f4", "nan", None)]
)
def test_the_no_data_value_of_a_geotiff_is_the_fill_value(
    tmp_path: Path, dtype: str, text: str, value: Any, format_: int
) -> None:
    write_geotiff(tmp_path / "a.tif", "projected", SCALE, TIE, dtype=dtype, nodata=text)
    oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr", zarr_format=format_)
    fill = oz.open(tmp_path / "a.zarr").fill_value
    assert np.isnan(fill) if value is None else fill == value


@pytest.mark.parametrize(("dtype", "text"), [("u1", "-9999"), ("c8", "0")])
def test_a_no_data_value_that_the_pixels_cannot_have_is_listed(
    tmp_path: Path, dtype: str, text: str
) -> None:
    write_geotiff(tmp_path / "a.tif", "projected", SCALE, TIE, dtype=dtype, nodata=text)
    report = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert [*report.skipped] == ["no-data value"]


def test_what_ome_xml_says_of_other_axes_is_in_the_report(tmp_path: Path) -> None:
    tifffile.imwrite(
        tmp_path / "a.ome.tif", np.zeros((2, 16, 16, 3), "u1"), ome=True, photometric="rgb",
        metadata={
            "axes": "CYXS", "PhysicalSizeX": 0.5, "Name": "N", "Channel": {"Name": ["a", "b"]}
        },
    )  # fmt: skip
    report = oz.import_file(tmp_path / "a.ome.tif", tmp_path / "a.zarr")
    expected = {"image of series 0": "an array has no name and pixel sizes and channels"}
    assert report.skipped == expected
    with pytest.raises(oz.errors.CannotExpress, match="an array has no name"):
        oz.import_file(tmp_path / "a.ome.tif", tmp_path / "b.zarr", strict=True)


@pytest.mark.parametrize("meaning", ["miniswhite", "minisblack", "separated", "cielab", "rgb"])
def test_what_pixels_mean_is_in_the_report_unless_it_is_usual(tmp_path: Path, meaning: Any) -> None:
    samples = {"separated": (4,), "cielab": (3,), "rgb": (3,)}.get(meaning, ())
    pixels = np.arange(20 * np.prod(samples, dtype=int), dtype="u1").reshape(4, 5, *samples)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric=meaning)
    done = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    notes = [note for note in done.notes if "imported as stored" in note]
    assert bool(notes) == (meaning not in ("minisblack", "rgb"))
    assert ("0 is white" in str(notes)) == (meaning == "miniswhite")
    np.testing.assert_array_equal(oz.open(tmp_path / "a.zarr")[...], pixels)


def test_files_beside_a_tiff_file_that_are_not_read_are_listed(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((4, 5), "u1"))
    tifffile.imwrite(tmp_path / "b.tif", np.zeros((4, 5), "u1"))
    beside = ["a.tif.msk", "a.tif.aux.xml", "a.tfw"]
    for name in beside:
        tifffile.imwrite(tmp_path / name, np.full((4, 5), 255, "u1"))
    done = oz.import_file(tmp_path / "a.tif", tmp_path / "a.zarr")
    assert sorted(done.skipped) == sorted(beside)
    assert oz.import_file(tmp_path / "b.tif", tmp_path / "b.zarr").skipped == {}
    with pytest.raises(oz.errors.OmnizarrError, match=r"a\.tif\.msk"):
        oz.import_file(tmp_path / "a.tif", tmp_path / "c.zarr", strict=True)
    oz.import_file(tmp_path / "a.tif.msk", tmp_path / "mask.zarr")
    assert (oz.open(tmp_path / "mask.zarr")[...] == 255).all()
