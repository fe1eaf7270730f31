"""Coarser levels have the no-data, packing and place of their source."""

from __future__ import annotations

import math
from typing import Any

import h5py
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings

import omnizarr as oz
from omnizarr.interop.zarr.zarr_python import to_zarr

PACKED = {"_FillValue": -9999, "scale_factor": 0.1, "add_offset": 5.0, "units": "m"}
HOLES = np.array([[100, -9999], [300, 400]], "i2")
PLACE = {"spatial:transform": [10.0, 0.0, 500.0, 0.0, -10.0, 900.0], "proj:code": "EPSG:32633"}


def levels_of(source: Any, writer: str) -> list[Any]:
    if writer == "geo":
        return [level.array for level in oz.geo.write({}, source, levels=2).levels]
    if writer == "ome":
        return list(oz.ome.write({}, source, axes="yx", levels=2).levels)
    target: dict[str, bytes] = {}
    oz.pyramid(source, target, axes="yx", levels=2)
    if writer == "added":
        oz.pyramid(target, levels=3, factors=[{"y": 1, "x": 1}])
    return list(oz.ome.open(target).levels)


@pytest.mark.parametrize("writer", ["geo", "ome", "pyramid", "added"])
def test_no_data_and_packing_of_a_zarr_array_are_those_of_all_levels(writer: str) -> None:
    source = oz.create_array({}, data=HOLES, attributes={**PACKED, "title": "x"})
    found = levels_of(source, writer)
    for level in found:
        assert {**PACKED, "title": "x"}.items() <= level.attrs.asdict().items()
    np.testing.assert_array_equal(found[0][...], HOLES)
    assert found[1][0, 0] == 267


@pytest.mark.parametrize("kind", ["zarr-python", "h5py", "view", "version 2", "attributes"])
def test_no_data_is_found_wherever_a_source_has_it(kind: str) -> None:
    attributes: Any = None
    source: Any = HOLES
    if kind == "zarr-python":
        source = zarr.create_array({}, data=HOLES, attributes=PACKED)
    elif kind == "h5py":
        file = h5py.File("a.h5", "w", driver="core", backing_store=False)
        source = file.create_dataset("a", data=HOLES)
        source.attrs.update({**PACKED, "_FillValue": np.int16(-9999), "ref": file.ref})
    elif kind == "view":
        source = oz.create_array({}, data=HOLES, attributes=PACKED).view[:, :]
    elif kind == "version 2":  # where xarray and GDAL have it
        others = {k: v for k, v in PACKED.items() if k != "_FillValue"}
        source = oz.create_array(
            {}, data=HOLES, attributes=others, fill_value=-9999, zarr_format=2,
            dimension_names=["y", "x"],
        )  # fmt: skip
    else:
        attributes = PACKED
    found = oz.geo.write({}, source, levels=2, attributes=attributes)
    for level in found.levels:
        assert level.array.attrs.asdict() == PACKED
        assert level.array.fill_value == -9999
    assert found.levels[1].array[0, 0] == 267


TYPES = st.sampled_from([np.dtype(t) for t in ("u1", "i1", "i2", "u4", "i8", "u8", "f4", "f8")])


@settings(deadline=None)
@given(TYPES, st.data())
def test_means_and_maxima_are_those_of_the_valid_numbers(
    dtype: np.dtype[Any], data: st.DataObject
) -> None:
    """Each block is compared with the exact mean or maximum of its numbers that are not missing."""
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=7))
    small = st.integers(0, 6).map(lambda n: n * 20)
    values = data.draw(hnp.arrays(dtype, shape, elements=small))
    attributes: dict[str, Any] = {}
    if data.draw(st.booleans()):
        attributes["_FillValue"] = data.draw(small)
    if data.draw(st.booleans()):
        attributes["valid_range"] = [20, 100]
    if dtype == "f4" and data.draw(st.booleans()):
        values[0, 0] = np.nan
        attributes["missing_value"] = 0
    if dtype == "i1" and data.draw(st.booleans()):
        attributes["_Unsigned"] = "true"
        values.flat[:3] = -2  # that is 254
        attributes.pop("valid_range", None)
    method, factor = data.draw(st.sampled_from(["mean", "max"])), data.draw(st.sampled_from([2, 3]))
    source = oz.create_array({}, data=values, attributes=attributes)
    made = oz.geo.write({}, source, levels=2, factor=factor, method=method, chunks=(3, 2))
    stored = made.levels[1].array[...]
    decoded, coarse = oz.cf.decode(source)[...], oz.cf.decode(made.levels[1].array)[...]
    declared = bool(attributes)
    for row, column in np.ndindex(coarse.shape):
        block = decoded[row * factor :, column * factor :][:factor, :factor].ravel()
        valid = [v.item() for v in block if not declared or v == v]
        if not valid:
            assert coarse[row, column] != coarse[row, column], "all of its pixels are missing"
            continue
        best = max(valid) if method == "max" else math.fsum(valid) / len(valid)
        if dtype.kind in "iu" and method == "mean":
            best = math.floor(best + 0.5)
        close = abs(coarse[row, column] - best) <= 1e-6 * max(1, abs(best))
        nan = best != best and coarse[row, column] != coarse[row, column]
        # A mean that is the number for missing values is moved to a neighbour.
        moved = method == "mean" and best == attributes.get(
            "_FillValue", attributes.get("missing_value")
        )
        assert close or nan or (moved and 0 < coarse[row, column] - best <= 1), (stored, values)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_means_of_large_integers_are_exact(dtype: str) -> None:
    top = int(np.iinfo(dtype).max)
    values = np.array([[top, top - 2], [top, 7]], dtype)
    found = oz.geo.write({}, values, levels=2, attributes={"_FillValue": 7})
    assert int(found.levels[1].array[0, 0]) == top - 1


def test_a_map_keeps_the_place_and_names_of_a_zarr_array() -> None:
    names = ["lat", "lon"]
    source = oz.create_array({}, data=HOLES, attributes=PLACE, dimension_names=names)
    for options in ({}, {"variable": "height"}, {"convention": "geozarr"}):
        found = oz.geo.write({}, source, levels=2, **options)  # type: ignore[arg-type]
        assert str(found.crs) == "EPSG:32633"
        assert found.bounds == (500, 880, 520, 900)
        assert found.levels[1].array.dimension_names == ("lat", "lon")
    other = oz.geo.write({}, source, crs=4326, bounds=(0, 0, 2, 2))
    assert (str(other.crs), other.bounds) == ("EPSG:4326", (0, 0, 2, 2))


SLICES = st.builds(
    slice, st.none() | st.integers(0, 4), st.none() | st.integers(6, 9),
    st.none() | st.sampled_from([-1, 1, 2, 3]),
).map(lambda s: slice(None, None, s.step) if (s.step or 1) < 0 else s)  # fmt: skip


@settings(deadline=None)
@given(
    rows=SLICES, columns=SLICES, order=st.permutations(range(3)), names=st.permutations("yxs"),
    viewed=st.booleans(), rotated=st.booleans(),
)  # fmt: skip
def test_pixels_of_a_view_stay_where_they_are(
    rows: slice, columns: slice, order: list[int], names: list[str], viewed: bool, rotated: bool
) -> None:
    """Every pixel has the number of its row and column, in whatever order the axes are."""
    numbers = np.arange(9 * 8).reshape(9, 8, 1) + np.array([0, 1000])
    values = numbers.transpose(["yxs".index(name) for name in names])
    affine = oz.geo.Affine(2.0, 0.5 * rotated, 10.0, 0.0, -3.0, 40.0)
    place = {**PLACE, "spatial:transform": list(affine.coefficients)}
    source: Any = oz.create_array({}, data=values, attributes=place, dimension_names=names)
    if viewed:
        part = {"y": rows, "x": columns, "s": slice(None)}
        source = source.view[tuple(part[name] for name in names)].transpose(order)
    found = oz.geo.write({}, source, levels=1)
    level = found.levels[0]
    assert level.array.dimension_names == ("s", "y", "x")
    assert str(found.crs) == "EPSG:32633"
    for band in (0, 1):
        written = level.array[band] - 1000 * band
        for (row, column), number in np.ndenumerate(written):
            was = affine.xy(number % 8 + 0.5, number // 8 + 0.5)
            assert level.transform is not None
            assert level.transform.xy(column + 0.5, row + 0.5) == pytest.approx(was)


def test_names_of_axes_are_given_in_the_order_of_the_source() -> None:
    source = oz.create_array({}, shape=(4, 5, 3), dtype="u1", dimension_names=["y", "x", "s"])
    found = oz.geo.write({}, source, dimension_names=["lat", "lon", "band"]).levels[0].array
    assert (found.shape, found.dimension_names) == ((3, 4, 5), ("band", "lat", "lon"))


def test_a_transform_that_a_view_cannot_have_is_named() -> None:
    plain = oz.create_array({}, shape=(4, 5, 3), attributes=PLACE)
    named = oz.create_array({}, shape=(4, 5), attributes=PLACE, dimension_names=["y", "x"])
    points = [[0, 1], [2, 3]]
    views = (
        plain.view[...].transpose(2, 0, 1),
        named.view[:, [0, 3, 1]],
        named.view.vindex[points, points],
    )
    for view in views:
        with pytest.warns(oz.OmnizarrWarning, match="the transform of / is left out"):
            found = oz.geo.write({}, view)
        assert (str(found.crs), found.levels[0].transform) == ("EPSG:32633", None)
        oz.geo.write({}, view, bounds=(0, 0, 1, 1))


def test_an_image_says_that_it_has_no_place() -> None:
    source = oz.create_array({}, data=HOLES, attributes={**PACKED, **PLACE})
    report = oz.pyramid(source, {}, axes="yx")
    assert {*report.skipped} == {"attribute spatial:transform", "attribute proj:code"}


@given(st.integers(1, 30), st.integers(1, 30), st.sampled_from([2, 3]))
@settings(max_examples=20, deadline=None)
def test_no_coordinate_of_a_map_is_missing(rows: int, columns: int, zarr_format: int) -> None:
    store = oz.storage.MemoryStore()
    bounds = (-float(columns), -float(rows), float(columns), float(rows))  # odd: one centre is 0
    oz.geo.write(
        store, np.zeros((rows, columns), "i2"), crs="EPSG:4326", bounds=bounds, variable="height",
        zarr_format=zarr_format,
    )  # fmt: skip
    other = xr.open_zarr(to_zarr(store), group="0", consolidated=False).load()
    for found in (xr.load_dataset(oz.open(store, path="0"), engine="omnizarr"), other):
        assert found["height"].values.tolist() == [[0] * columns] * rows
        np.testing.assert_allclose(found["x"], np.arange(columns) * 2 + 1 - columns)
        np.testing.assert_allclose(found["y"], rows - 1 - np.arange(rows) * 2)
        assert not any(np.isnan(values).any() for values in found.variables.values())
