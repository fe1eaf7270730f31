"""Affine transforms of coordinate variables, compared with what xarray decodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings

import omnizarr as oz

SCALES = st.floats(1e-6, 1e3).flatmap(lambda v: st.sampled_from([v, -v]))


@st.composite
def packings(draw: st.DrawFn) -> dict[str, Any]:
    """Return attributes of packed coordinates, such as those of GOES-R and Himawari."""
    found: dict[str, Any] = {"scale_factor": draw(SCALES), "add_offset": draw(st.floats(-1e4, 1e4))}
    if draw(st.booleans()):
        found["_Unsigned"] = "true"
    if draw(st.booleans()):
        found["_FillValue"] = -1
    return found


@pytest.mark.parametrize("zarr_format", [2, 3])
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_packed_coordinates_place_a_map_where_xarray_has_them(
    tmp_path_factory: pytest.TempPathFactory, zarr_format: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("map") / "a.zarr"
    group = oz.create_group(path, zarr_format=zarr_format)
    # In version 2, xarray takes the fill value for missing; for the map 0 is the first column.
    fill: Any = None if zarr_format == 2 else 0
    group.create_array("rad", data=np.arange(20).reshape(4, 5), dimension_names=["y", "x"])
    for name, length in (("y", 4), ("x", 5)):
        stored = np.arange(length, dtype="i2") * data.draw(st.sampled_from([1, 7, 4000]))
        attributes = data.draw(packings())
        group.create_array(
            name, data=stored, dimension_names=[name], attributes=attributes, fill_value=fill
        )
    with xr.open_zarr(path, consolidated=False) as expected:
        x, y = expected["x"].values, expected["y"].values
    found = oz.geo.open(path, variable="rad")
    transform = found.levels[0].transform
    assert transform is not None
    centres = transform.xy(np.arange(5) + 0.5, np.arange(5) + 0.5)
    np.testing.assert_allclose(centres[0], x, atol=1e-4 * np.ptp(x))
    np.testing.assert_allclose(centres[1][:4], y, atol=1e-4 * np.ptp(y))
    column, row = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    box = (x[column], y[row], x[column], y[row])
    sides = abs(transform.a) / 8, abs(transform.e) / 8
    around = (box[0] - sides[0], box[1] - sides[1], box[2] + sides[0], box[3] + sides[1])
    assert found.read(around).tolist() == [[5 * row + column]]


def test_zero_is_a_coordinate_also_if_it_is_the_fill_value(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr", zarr_format=2)
    group.create_array("a", shape=(3, 3), dimension_names=["y", "x"])
    for name in "yx":
        values = np.arange(-1, 2)
        group.create_array(name, data=values, dimension_names=[name], fill_value=0)
    found = oz.geo.open(tmp_path / "a.zarr", variable="a")
    assert found.bounds == (-1.5, -1.5, 1.5, 1.5)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((170, -10, -170, 10), "such as 190 for -170"),
        ((0, 10, 5, -10), "ymin > ymax"),
        ((0, 0, 0, 1), "no area"),
        ((0, 0, np.inf, 1), "four numbers"),
        ((0, 0, 1), "four numbers"),
    ],
)
def test_bounds_in_another_order_are_refused(bounds: Any, message: str) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(oz.InvalidArgument, match=message):
        oz.geo.write(store, np.zeros((4, 8)), bounds=bounds)
    assert store == {}
