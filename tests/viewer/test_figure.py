"""Pictures in files: every kind is drawn, and nothing is replaced by what cannot be written."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import omnizarr as oz
from omnizarr import InvalidArgument, ome
from omnizarr.viewer.figure import Preview, preview


def opened(found: Preview) -> Image.Image:
    return Image.open(io.BytesIO(found._repr_png_()))


def test_a_plane_is_drawn_with_its_axes_and_a_scale_of_values() -> None:
    array = oz.create_array(
        None, data=np.arange(600.0).reshape(20, 30), dimension_names=["lat", "lon"],
        attributes={"units": "$m$"},
    )  # fmt: skip
    found = array.preview()
    plane, bar = found.figure.axes
    assert plane.get_xlabel() == "lon"
    assert bar.get_ylabel() == r"\$m\$"
    assert opened(found).size[0] > 400
    assert repr(found) == "<Preview plane of />"


def test_north_is_at_the_top_of_maps() -> None:
    for places in (np.arange(3.0), np.arange(3.0)[::-1]):
        root = oz.create_group(None)
        root.create_array("lat", data=places, dimension_names=["lat"])
        array = root.create_array("a", data=np.zeros((3, 4)), dimension_names=["lat", "lon"])
        bottom, top = preview(array).figure.axes[0].get_ylim()
        assert bottom < top
    plain = oz.create_array(None, data=np.zeros((3, 4)))
    bottom, top = preview(plain).figure.axes[0].get_ylim()
    assert bottom > top


def test_an_image_has_a_panel_for_each_channel_and_one_for_all() -> None:
    image = ome.write(None, np.zeros((2, 8, 9), "u2"), axes="cyx")
    titles = [axes.get_title() for axes in image.preview().figure.axes]
    assert titles == ["channel 0", "channel 1", "all"]


@pytest.mark.parametrize("data", [np.arange(9.0), np.array(["a$b$", "c"]), np.array(3)])
def test_plots_and_tables_are_drawn(data: np.ndarray) -> None:
    assert opened(preview(oz.create_array(None, data=data))).size[0] > 100


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    found = preview(oz.create_array(None, data=np.zeros((4, 4))))
    found.save(tmp_path / "a.png")
    before = (tmp_path / "a.png").read_bytes()
    assert before.startswith(b"\x89PNG")
    with pytest.raises(InvalidArgument, match=r"its suffix is none of .*png"):
        found.save(tmp_path / "a.xyz")
    found.figure.savefig = lambda *_, **__: 1 / 0
    with pytest.raises(ZeroDivisionError):
        found.save(tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == before
