"""What pictures show: the right values at the right places, from few chunks; PNG files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

import omnizarr as oz
from omnizarr import InvalidArgument, WrongNode, ome
from omnizarr.interop.files.png import Layer, colors, encode_png, window
from omnizarr.viewer import picture
from omnizarr.viewer.picture import preview

IMAGE = np.arange(3 * 64 * 96, dtype="u2").reshape(3, 64, 96)


def dataset() -> oz.Group:
    root = oz.create_group(None)
    root.create_array(
        "lat", data=np.linspace(90, -90, 10), dimension_names=["lat"],
        attributes={"units": "degrees_north"},
    )  # fmt: skip
    root.create_array(
        "time", data=np.arange(5), dimension_names=["time"],
        attributes={"units": "days since 2020-01-01"},
    )  # fmt: skip
    packed = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -1, "units": "K"}
    data = np.arange(5 * 10 * 20, dtype="i2").reshape(5, 10, 20)
    data[0, 0, 0] = -1
    names = ["time", "lat", "lon"]
    root.create_array("t", data=data, dimension_names=names, attributes=packed)
    root.create_array("s", data=np.arange(5.0), dimension_names=["time"])
    return root


@given(st.data())
def test_a_plane_has_the_values_at_the_places_that_its_axes_name(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=4)))
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    array = oz.create_array(None, data=values, chunks=chunks)
    found = preview(array, pixels=data.draw(st.integers(1, 64)))
    rows, columns = (axis.places.astype(int) for axis in found.axes)
    expected = values[(0,) * (len(shape) - 2)][np.ix_(rows, columns)]
    assert np.array_equal(found.layers[0].values, expected)


def test_packed_values_coordinates_and_missing_values_are_decoded() -> None:
    root = dataset()
    found = preview(root["t"], at={"time": 0})
    assert found.unit == "K"
    assert np.isnan(found.layers[0].values[0, 0])
    assert found.layers[0].values[1, 2] == 22 * 0.5 + 10
    assert [*map(str, found.axes)] == ["lat 90 to -90 degrees_north", "lon 0 to 19"]
    assert found.axes[0].places[0] == 90
    assert preview(root["t"], at={"time": -1}).layers[0].values[0, 0] == 800 * 0.5 + 10
    names = ["time", "lat"]
    found = preview(root.create_array("v", data=np.ones((5, 10)), dimension_names=names))
    assert found.axes[0].places[1] == np.datetime64("2020-01-02")


def test_the_largest_array_of_a_group_is_shown() -> None:
    found = preview(dataset())
    assert found.notes == ["the largest array: t"]
    with pytest.raises(WrongNode, match="cannot be shown"):
        preview(oz.create_group(None))


def test_objects_of_conventions_are_shown_as_what_they_stand_for(tmp_path: Path) -> None:
    root = dataset()
    found = oz.cf.open(root.store)
    assert preview(found).title == preview(root).title
    assert preview(found["t"]).unit == "K"
    place = {"crs": "EPSG:4326", "transform": (1.0, 0.0, 5.0, 0.0, -1.0, 60.0)}
    oz.geo.write(tmp_path / "map.zarr", np.arange(64.0).reshape(8, 8), levels=2, **place)
    drawn = preview(oz.geo.open(tmp_path / "map.zarr"))
    assert drawn.layers[0].values.shape == (8, 8)
    assert drawn.axes[1].places[0] == 5.5


def test_an_image_that_is_not_understood_says_why_an_array_is_shown() -> None:
    image = ome.write(None, IMAGE, axes="cyx", levels=1)
    attributes = image.group.attrs.asdict()
    attributes["ome"]["multiscales"][0]["datasets"][0]["path"] = "nowhere"
    image.group.attrs.put(attributes)
    found = preview(image.group)
    assert found.notes[0].startswith("not shown as an image: ")
    assert "nowhere" in found.notes[0]
    assert found.notes[1] == "the largest array: 0"


def test_a_photograph_has_a_layer_for_each_colour() -> None:
    array = oz.create_array(None, data=np.full((8, 9, 3), (10, 20, 30), "u1"))
    found = preview(array)
    assert colors(found.layers, found.is_image)[4, 4].tolist() == [10, 20, 30]


def test_channels_have_their_own_layers_and_colors() -> None:
    image = ome.write(None, IMAGE, axes="cyx")
    found = preview(image)
    assert len(found.layers) == 3
    assert found.is_image
    assert all(np.array_equal(a.values, b) for a, b in zip(found.layers, IMAGE, strict=True))
    assert len({layer.color for layer in found.layers}) == 3
    single = preview(image.group, at={"c": -1})
    assert np.array_equal(single.layers[0].values, IMAGE[2])
    many = ome.write(None, np.zeros((9, 8, 8), "u1"), axes="cyx")
    assert preview(many).notes == ["6 of 9 channels"]


def test_the_smallest_sufficient_level_is_read() -> None:
    image = ome.write(None, np.zeros((512, 512), "u1"), axes="yx", chunks=(64, 64))
    sizes = [array.shape[0] for array in image.levels]
    assert len(sizes) > 1
    assert preview(image, pixels=sizes[1]).layers[0].values.shape == (sizes[1],) * 2
    assert preview(image, pixels=sizes[1] - 1).notes == ["1 of 2 rows and columns"]


def test_few_chunks_are_decoded_for_a_huge_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_DECODED", 10_000)
    array = oz.create_array(None, shape=(10**9, 10**9), chunks=(10, 10), dtype="u1")
    found = preview(array)
    assert found.layers[0].values.size <= 100
    assert found.notes == ["1 of 125000000 rows and columns"]


@pytest.mark.parametrize(
    "data",
    [*map(np.array, (["a", "b"], 7, [1.0, 2.0])), np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")])],
)
def test_what_is_no_plane_of_numbers_is_refused(data: Any) -> None:
    with pytest.raises(WrongNode, match="no plane of numbers; print or plot its values"):
        preview(oz.create_array(None, data=data))


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({"q": 1}, "no axis 'q' to choose a position on; axes: time"),
        ({"lat": 1}, "no axis 'lat'"),
        ({"time": 5}, "axis 'time' has 5 positions; 5 is not one of them"),
        ({"time": -6}, "-6 is not one of them"),
        ({"time": "noon"}, "position on axis 'time' is an index, got 'noon'"),
    ],
)
def test_a_wrong_position_is_refused(at: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        preview(dataset()["t"], at=at)


def test_no_pixels_and_no_elements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="at least one pixel"):
        preview(dataset()["t"], pixels=0)
    with pytest.raises(WrongNode, match="has no elements"):
        preview(oz.create_array(tmp_path / "a", shape=(0, 3)))
    oz.create_array(tmp_path / "b", data=IMAGE[0])
    assert preview(tmp_path / "b").title == "b"


@pytest.mark.parametrize("dtype", ["?", "i8", "u1", "f2", "f8", "c8", "M8[s]", "m8[ns]"])
def test_every_kind_of_number_has_colors(dtype: str) -> None:
    values = np.arange(64).reshape(8, 8).astype(dtype)
    found = colors(preview(oz.create_array(None, data=values)).layers, False)
    assert found.shape == (8, 8, 3)
    assert found.dtype == "u1"
    assert len(np.unique(found.reshape(-1, 3), axis=0)) > 1


def test_colors_follow_the_window_and_missing_values_are_grey() -> None:
    values = np.array([[np.nan, -5.0], [0.0, 99.0]])
    shown = [Layer(values, "", "FF8000", (0.0, 10.0))]
    assert colors(shown, is_image=False).tolist() == [
        [[127] * 3, [0, 0, 0]],
        [[0, 0, 0], [255, 128, 0]],
    ]
    assert window(Layer(np.full((2, 2), np.nan))) == (0.0, 1.0)
    assert window(Layer(np.full((2, 2), 3.0))) == (3.0, 3.0)


@given(arrays("u1", st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))), st.text())
def test_a_png_file_has_the_pixels_and_the_description(pixels: Any, text: str) -> None:
    with Image.open(io.BytesIO(encode_png(pixels, text))) as found:
        assert np.array_equal(np.asarray(found), pixels)
        assert found.info["Description"] == text.encode("utf-8", "replace").decode()


def test_north_is_at_the_top_of_maps_only() -> None:
    for places, names, top in (
        ([-1.0, 0, 1], ["lat", "lon"], 2),
        ([1.0, 0, -1], ["lat", "lon"], 0),
        ([-1.0, 0, 1], ["p", "q"], 0),
    ):
        root = oz.create_group(None)
        root.create_array(names[0], data=np.array(places), dimension_names=names[:1])
        data = np.arange(12.0).reshape(3, 4)
        found = preview(root.create_array("a", data=data, dimension_names=names))
        assert np.array_equal(found.pixels[0, 0], colors(found.layers, found.is_image)[top, 0])


def test_a_preview_says_what_it_shows_and_is_saved_whole(tmp_path: Path) -> None:
    found = preview(dataset()["t"], at={"time": 1})
    assert found.caption == (
        "t, time 1; lat 90 to -90 degrees_north; lon 0 to 19; values 110.498 to 209.002 K"
    )
    assert repr(found) == f"<Preview of {found.caption}>"
    assert "<img alt='t, time 1' src='data:image/png;base64," in found._repr_html_()
    found.save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as written:
        assert (written.size, written.info["Description"]) == ((240, 120), found.caption)
    with pytest.raises(InvalidArgument, match=r"pictures are PNG files; end its name in \.png"):
        found.save(tmp_path / "a.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
