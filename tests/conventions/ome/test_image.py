"""Reading OME-Zarr images: levels by scale, and regions in physical units."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.conventions.ome.model import unit_factor, unit_kind


def example(**options: object) -> oz.ome.Image:
    values = np.arange(2 * 10 * 40 * 50, dtype="u2").reshape(2, 10, 40, 50)
    return oz.ome.write(
        {},
        values,
        axes="czyx",
        scale=(1, 0.5, 0.1, 0.2),
        translation=(0, 0, 1, 0),
        unit="micrometer",
        factors=[{"y": 2, "x": 2}, {"z": 2, "y": 2, "x": 2}],
        channels=["DAPI", "GFP"],
        **options,  # type: ignore[arg-type]
    )


def test_a_region_is_read_in_physical_units() -> None:
    image = example()
    whole = image.levels[0][...]
    found = image.read({"c": "GFP", "z": 2.0, "y": (2, 3), "x": (1, 2)}, unit="micrometer")
    np.testing.assert_array_equal(found, whole[1, 4, 10:20, 5:10])
    nano = image.read({"c": 1, "z": 2000, "y": (2000, 3000), "x": (1000, 2000)}, unit="nm")
    np.testing.assert_array_equal(nano, found)
    np.testing.assert_array_equal(image.read({"y": (None, 1.2)}), whole[:, :, :2])
    np.testing.assert_array_equal(image.read({"y": slice(3, 5), "c": (0, 1)}), whole[:1, :, 3:5])
    np.testing.assert_array_equal(image.read(), whole)


@given(st.lists(st.floats(1.0, 4.9), min_size=2, max_size=6), st.integers(0, 2))
def test_neighbouring_intervals_share_no_pixel_and_miss_none(cuts: list[float], level: int) -> None:
    image = example()
    ends = [None, *sorted(cuts), None]
    seen: list[int] = []
    for start, stop in pairwise(ends):
        try:
            part = image.selection({"y": (start, stop)}, level=level)[2]
        except oz.SelectionError:
            continue  # no pixel lies there
        assert isinstance(part, slice)
        seen += range(part.start, part.stop)
    assert seen == list(range(image.levels[level].shape[2]))


def test_a_coarse_level_shows_the_same_region() -> None:
    image = example()
    region = {"c": 0, "z": (0, 5), "y": (2, 4), "x": (2, 6)}
    fine, coarse = image.read(region), image.read(region, level=1)
    assert coarse.shape == (10, 10, 10)
    np.testing.assert_allclose(coarse.mean(), fine.mean(), atol=1)


def test_a_level_is_chosen_by_the_size_of_its_pixels() -> None:
    image = example()
    assert [image.level_for({"y": s}) for s in (0.05, 0.1, 0.19, 0.2, 0.4, 9)] == [0, 0, 0, 1, 2, 2]
    assert image.level_for({"y": 200}, unit="nanometer") == 1
    assert image.level_for(1.0) == 2
    assert image.level_for(0.5) == 1
    assert image.read(scale=1.0).shape == image.levels[2].shape
    with pytest.raises(oz.SelectionError, match="unknown axis 'q'"):
        image.level_for({"q": 1})


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ({"q": 1}, "unknown axis 'q'; axes: c, z, y, x"),
        ({"y": (100, 200)}, "no pixel in"),
        ({"y": 100}, "100 is outside axis 'y', which reaches from 1 to 4.9 micrometer"),
        ({"y": "all"}, "expected \\(start, stop\\)"),
        ({"c": "RFP"}, "unknown channel 'RFP'; channels: 'DAPI', 'GFP'"),
        ({"c": 2}, "has 2 channels"),
    ],
)
def test_the_error_for_an_invalid_region_states_the_reason(
    region: dict[str, object], message: str
) -> None:
    with pytest.raises(oz.SelectionError, match=message):
        example().read(region)


def test_a_unit_that_means_nothing_is_refused() -> None:
    image = oz.ome.write({}, np.zeros((8, 8), "u1"), axes="yx")
    with pytest.raises(oz.InvalidArgument, match="axis 'y' has no unit"):
        image.read({"y": (1, 2)}, unit="micrometer")
    with pytest.raises(oz.InvalidArgument, match="unknown unit 'parrot'"):
        example().read({"y": (1, 2)}, unit="parrot")
    with pytest.raises(oz.InvalidArgument, match="one is length, one is time"):
        example().read({"y": (1, 2)}, unit={"y": "second"})


def test_units_are_converted() -> None:
    assert unit_factor("inch", "centimeter") == pytest.approx(2.54)
    assert unit_factor("µm", "angstrom") == pytest.approx(1e4)
    assert unit_factor("hour", "second") == 3600
    assert unit_kind("mile") == "space"
    assert unit_kind("parrot") is None


def test_the_repr_of_an_image_is_informative() -> None:
    image = example(name="cell")
    assert repr(image) == (
        "<Image cell  OME-Zarr 0.5  (c: 2, z: 10, y: 40, x: 50) uint16"
        "  pixel (z 0.5 micrometer, y 0.1 micrometer, x 0.2 micrometer)  3 levels"
        "  channels DAPI, GFP  on memory>"
    )
    assert image.info["level 2"].startswith("2: (2, 5, 10, 13), pixel z 1 micrometer")


def test_several_multiscales_are_chosen_by_number_or_name() -> None:
    store: dict[str, bytes] = {}
    image = oz.ome.write(store, np.zeros((8, 8), "u1"), levels=2, name="a")
    group = oz.open(store, "r+")
    ome = group.attrs["ome"]
    second = {
        **ome["multiscales"][0],
        "name": "b",
        "datasets": ome["multiscales"][0]["datasets"][1:],
    }
    group.attrs["ome"] = {**ome, "multiscales": [*ome["multiscales"], second]}
    for which in (1, "b"):
        found = oz.ome.open(store, multiscale=which)
        assert isinstance(found, oz.ome.Image)
        assert found.shape == image.levels[1].shape
    with pytest.raises(oz.SelectionError, match="no multiscale 'c'; multiscales: 'a', 'b'"):
        oz.ome.open(store, multiscale="c")


def test_the_scale_for_all_levels_comes_after_their_own() -> None:
    store: dict[str, bytes] = {}
    oz.ome.write(store, np.zeros((8, 8), "u1"), scale=(2, 3), levels=2)
    group = oz.open(store, "r+")
    ome = group.attrs["ome"]
    shared = [{"type": "scale", "scale": [10, 10]}, {"type": "translation", "translation": [1, 2]}]
    ome["multiscales"][0]["coordinateTransformations"] = shared
    group.attrs["ome"] = ome
    image = oz.ome.open(store)
    assert isinstance(image, oz.ome.Image)
    assert image.transform(0) == oz.ome.Transform((20, 30), (1, 2))
    assert image.transform(1) == oz.ome.Transform((40, 60), (11, 17))


def test_images_before_0_4_have_scales_from_their_shapes() -> None:
    store: dict[str, bytes] = {}
    group = oz.create_group(store, zarr_format=2)
    for i, n in enumerate((8, 4)):
        group.create_array(str(i), shape=(1, 1, 1, n, n), dtype="u1")
    datasets = [{"path": "0"}, {"path": "1"}]
    group.attrs["multiscales"] = [{"version": "0.1", "datasets": datasets}]
    image = oz.ome.open(store)
    assert isinstance(image, oz.ome.Image)
    assert image.transform(1).scale == (1, 1, 1, 2, 2)
    moved: dict[str, bytes] = {}
    oz.convert(store, moved)
    assert [p for p in oz.ome.validate(moved) if p.level == "error"] == []


def test_the_series_of_a_converted_file_are_listed() -> None:
    store: dict[str, bytes] = {}
    group = oz.create_group(
        store, attributes={"ome": {"version": "0.5", "bioformats2raw.layout": 3}}
    )
    for i in range(2):
        oz.ome.write(store, np.full((4, 4), i), path=str(i))
    series = oz.ome.open(store)
    assert isinstance(series, oz.ome.Series)
    assert [int(image.read()[0, 0]) for image in series] == [0, 1]
    group.create_group("OME", attributes={"ome": {"version": "0.5", "series": ["1", "0"]}})
    again = oz.ome.open(store)
    assert isinstance(again, oz.ome.Series)
    assert [int(image.read()[0, 0]) for image in again] == [1, 0]
    assert [p for p in oz.ome.validate(store) if p.level == "error"] == []


def test_a_wrong_channel_does_not_hide_the_image() -> None:
    store: dict[str, bytes] = {}
    oz.ome.write(store, np.zeros((8, 8), "u1"))
    group = oz.open(store, "r+")
    group.attrs["ome"] = {**group.attrs["ome"], "omero": {"channels": 5}}
    with pytest.warns(oz.OmnizarrWarning, match="omero.channels: expected a list"):
        image = oz.ome.open(store)
    assert isinstance(image, oz.ome.Image)
    assert image.channels == ()


def test_channels_and_positions_are_given_as_numbers_of_numpy_too() -> None:
    data = np.arange(2 * 8 * 8).reshape(2, 8, 8)
    image = oz.ome.write({}, data, axes="cyx", scale=(1, 0.5, 0.5), levels=1)
    region = {"c": np.int64(1), "y": np.float32(1.0), "x": (np.int8(1), np.float64(2))}
    assert image.read(region).tolist() == data[1, 2, 2:4].tolist()
    assert image.read({"c": (np.int64(1), None)}).shape == (1, 8, 8)


@pytest.mark.parametrize(
    "region",
    [
        *({"y": wanted} for wanted in (float("nan"), float("inf"), (float("nan"), 3), ("a", 3))),
        *({"y": wanted} for wanted in (True, slice(20, 30), slice(3, 3), (9, 99), 4.0)),
        *({"c": wanted} for wanted in (True, 2, -3, slice(5, 9))),
        *({"c": wanted} for wanted in ((5, 9), (1, 1), (0.5, 2), ("a", "b"))),
    ],
)
def test_a_region_without_pixels_or_of_no_numbers_is_refused(region: dict[str, Any]) -> None:
    image = oz.ome.write({}, np.zeros((2, 8, 8)), axes="cyx", scale=(1, 0.5, 0.5), levels=1)
    with pytest.raises(oz.SelectionError):
        image.read(region)
    assert image.read({"y": (-float("inf"), float("inf"))}).shape == (2, 8, 8)
