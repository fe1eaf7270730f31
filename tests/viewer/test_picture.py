"""What pictures show: the right values at the right places, from few chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr import InvalidArgument, WrongNode, ome
from omnizarr.viewer import picture
from omnizarr.viewer.picture import Layer, Picture, choose, colors, window

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
    found = choose(array, pixels=data.draw(st.integers(1, 64)))
    rows, columns = (axis.places.astype(int) for axis in found.axes)
    expected = values[(0,) * (len(shape) - 2)][np.ix_(rows, columns)]
    assert np.array_equal(found.layers[0].values, expected)


def test_packed_values_coordinates_and_missing_values_are_decoded() -> None:
    root = dataset()
    found = choose(root["t"], at={"time": 0})
    assert found.unit == "K"
    assert np.isnan(found.layers[0].values[0, 0])
    assert found.layers[0].values[1, 2] == 22 * 0.5 + 10
    assert [axis.label for axis in found.axes] == ["lat (degrees_north)", "lon"]
    assert found.axes[0].places[0] == 90
    assert choose(root["t"], at={"time": -1}).layers[0].values[0, 0] == 800 * 0.5 + 10
    plot = choose(root["s"])
    assert plot.kind == "plot"
    assert plot.axes[0].places[1] == np.datetime64("2020-01-02")


def test_the_largest_array_of_a_group_is_shown() -> None:
    found = choose(dataset())
    assert found.notes == ["the largest array: t"]
    with pytest.raises(WrongNode, match="cannot be shown"):
        choose(oz.create_group(None))


def test_objects_of_conventions_are_shown_as_what_they_stand_for(tmp_path: Path) -> None:
    root = dataset()
    found = oz.cf.open(root.store)
    assert choose(found).title == choose(root).title
    assert choose(found["t"]).unit == "K"
    place = {"crs": "EPSG:4326", "transform": (1.0, 0.0, 5.0, 0.0, -1.0, 60.0)}
    oz.geo.write(tmp_path / "map.zarr", np.arange(64.0).reshape(8, 8), levels=2, **place)
    drawn = choose(oz.geo.open(tmp_path / "map.zarr"))
    assert drawn.layers[0].values.shape == (8, 8)
    assert drawn.axes[1].places[0] == 5.5


def test_an_image_that_is_not_understood_says_why_an_array_is_shown() -> None:
    image = ome.write(None, IMAGE, axes="cyx", levels=1)
    attributes = image.group.attrs.asdict()
    attributes["ome"]["multiscales"][0]["datasets"][0]["path"] = "nowhere"
    image.group.attrs.put(attributes)
    found = choose(image.group)
    assert found.notes[0].startswith("not shown as an image: ")
    assert "nowhere" in found.notes[0]
    assert found.notes[1] == "the largest array: 0"


def test_a_photograph_has_a_layer_for_each_colour() -> None:
    array = oz.create_array(None, data=np.full((8, 9, 3), (10, 20, 30), "u1"))
    found = choose(array)
    assert colors(found)[4, 4].tolist() == [10, 20, 30]


def test_channels_have_their_own_layers_and_colors() -> None:
    image = ome.write(None, IMAGE, axes="cyx")
    found = choose(image)
    assert len(found.layers) == 3
    assert found.is_image
    assert all(np.array_equal(a.values, b) for a, b in zip(found.layers, IMAGE, strict=True))
    assert len({layer.color for layer in found.layers}) == 3
    single = choose(image.group, at={"c": -1})
    assert np.array_equal(single.layers[0].values, IMAGE[2])
    many = ome.write(None, np.zeros((9, 8, 8), "u1"), axes="cyx")
    assert choose(many).notes == ["6 of 9 channels"]


def test_the_smallest_sufficient_level_is_read() -> None:
    image = ome.write(None, np.zeros((512, 512), "u1"), axes="yx", chunks=(64, 64))
    sizes = [array.shape[0] for array in image.levels]
    assert len(sizes) > 1
    assert choose(image, pixels=sizes[1]).layers[0].values.shape == (sizes[1],) * 2
    assert choose(image, pixels=sizes[1] - 1).notes == ["1 of 2 rows and columns"]


def test_few_chunks_are_decoded_for_a_huge_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_DECODED", 10_000)
    array = oz.create_array(None, shape=(10**9, 10**9), chunks=(10, 10), dtype="u1")
    found = choose(array)
    assert found.layers[0].values.size <= 100
    assert found.notes == ["1 of 125000000 rows and columns"]


def test_texts_and_records_are_tables() -> None:
    texts = choose(oz.create_array(None, data=np.array([f"n{i}" for i in range(50)])))
    assert texts.kind == "table"
    assert texts.notes == ["the first values"]
    assert picture.table_lines(texts)[:2] == ["n0", "n1"]
    records = np.array([(1, "x" * 60), (22, "y")], [("a", "i4"), ("b", "U60")])
    lines = picture.table_lines(choose(oz.create_array(None, data=records)))
    assert lines == ["a   b", "1   " + "x" * 39 + "…", "22  y"]
    assert picture.table_lines(choose(oz.create_array(None, data=np.array(7)))) == ["7"]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({"q": 1}, "no other axis 'q'; its axes: time"),
        ({"lat": 1}, "no other axis 'lat'"),
        ({"time": 5}, "axis 'time' has 5 positions; 5 is not one of them"),
        ({"time": -6}, "-6 is not one of them"),
        ({"time": "noon"}, "position on axis 'time' is an index, got 'noon'"),
    ],
)
def test_a_wrong_position_is_refused(at: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        choose(dataset()["t"], at)


def test_no_pixels_and_no_elements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="at least one pixel"):
        choose(dataset()["t"], pixels=0)
    with pytest.raises(WrongNode, match="has no elements"):
        choose(oz.create_array(tmp_path / "a", shape=(0, 3)))
    oz.create_array(tmp_path / "b", data=IMAGE[0])
    assert choose(tmp_path / "b").title == "b"


@pytest.mark.parametrize("dtype", ["?", "i8", "u1", "f2", "f8", "c8", "M8[s]", "m8[ns]"])
def test_every_kind_of_number_has_colors(dtype: str) -> None:
    values = np.arange(64).reshape(8, 8).astype(dtype)
    found = colors(choose(oz.create_array(None, data=values)))
    assert found.shape == (8, 8, 3)
    assert found.dtype == "u1"
    assert len(np.unique(found.reshape(-1, 3), axis=0)) > 1


def test_colors_follow_the_window_and_missing_values_are_grey() -> None:
    values = np.array([[np.nan, -5.0], [0.0, 99.0]])
    shown = Picture("plane", "", [Layer(values, "", "FF8000", (0.0, 10.0))], [])
    assert colors(shown).tolist() == [[[127] * 3, [0, 0, 0]], [[0, 0, 0], [255, 128, 0]]]
    assert window(Layer(np.full((2, 2), np.nan))) == (0.0, 1.0)
    assert window(Layer(np.full((2, 2), 3.0))) == (3.0, 3.0)
