"""Packed and missing values agree with xarray, round-trip, and never wrap around."""

from __future__ import annotations

import warnings
from typing import Any

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given

import omnizarr as oz
from omnizarr.conventions.cf.packing import Packing

INTEGERS = ("i1", "u1", "i2", ">i2", "u2", "i4", "i8")


@st.composite
def packed(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Draw stored numbers, and attributes that describe them."""
    dtype = np.dtype(draw(st.sampled_from((*INTEGERS, "f4", "f8"))))
    values = draw(npst.arrays(dtype, npst.array_shapes(max_dims=2, max_side=5)))
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from((0.5, 0.01, 3.0)))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from((0.0, -100.5, 273.15)))
    inside = [v.item() for v in values.flat if v == v]
    fill = draw(st.none() | st.sampled_from(inside or [0]))
    if fill is not None:
        attributes["_FillValue"] = fill
    if dtype.kind in "iu" and dtype.byteorder != ">" and draw(st.booleans()):
        attributes["_Unsigned"] = draw(st.sampled_from(("true", "false")))
    return values, attributes


def with_xarray(values: np.ndarray[Any, Any], attributes: dict[str, Any]) -> Any:
    typed = dict(attributes)
    if "_FillValue" in typed:
        typed["_FillValue"] = values.dtype.newbyteorder("=").type(typed["_FillValue"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dims = [f"d{i}" for i in range(values.ndim)]
        return xr.conventions.decode_cf_variable("v", xr.Variable(dims, values, typed)).values


@given(packed())
def test_values_and_types_are_those_of_xarray(case: Any) -> None:
    values, attributes = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an infinite fill value is stored as a string
        array = oz.create_array({}, data=values, attributes=attributes)
    with np.errstate(all="ignore"):
        found, expected = oz.cf.decode(array)[...], with_xarray(values, attributes)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype.newbyteorder("=")
    assert found.dtype == oz.cf.decode(array).dtype


@given(packed())
def test_decoded_integers_round_trip(case: Any) -> None:
    values, attributes = case
    assume(values.dtype.kind != "f" and values.dtype.itemsize < 8)
    packing = Packing.of(values.dtype, attributes)
    np.testing.assert_array_equal(packing.encode(packing.decode(values)), values)


@pytest.mark.parametrize("zarr_format", [1, 2, "3-draft", 3])
def test_assigned_values_are_stored_packed(zarr_format: Any) -> None:
    attributes = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -1}
    array = oz.create_array(
        {}, shape=3, dtype="i2", attributes=attributes, zarr_format=zarr_format, fill_value=-1
    )
    oz.cf.decode(array)[...] = [10, np.nan, 20.4]
    assert array[...].tolist() == [0, -1, 21]
    assert oz.cf.decode(array)[1:].tolist()[1] == 20.5


@pytest.mark.parametrize(
    ("dtype", "attributes", "value", "message"),
    [
        ("f4", {"_FillValue": -1}, 1e300, "does not fit"),
        ("f4", {"_FillValue": -1}, -1.0, "read as missing"),
        ("i2", {"scale_factor": 0.5}, 1e9, "does not fit"),
        ("i2", {"scale_factor": 0.5}, np.inf, "does not fit"),
        ("i2", {"scale_factor": 0.5}, np.nan, "without a _FillValue"),
        ("i2", {"scale_factor": 0.5, "_FillValue": 4}, 2.0, "read as missing"),
        ("i2", {"_FillValue": -1}, 2.5, "not whole"),
        ("i2", {"valid_range": [0, 9]}, 10, "valid numbers are from 0 to 9"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused(
    dtype: str, attributes: dict[str, Any], value: float, message: str
) -> None:
    array = oz.create_array({}, shape=1, dtype=dtype, attributes=attributes)
    with pytest.raises(oz.InvalidArgument, match=message):
        oz.cf.decode(array)[...] = [value]
    assert array.nchunks_initialized == 0


@pytest.mark.parametrize(
    "attributes",
    [
        *({"scale_factor": 0}, {"scale_factor": "big"}, {"add_offset": [1, 2]}),
        *({"_FillValue": "?"}, {"valid_range": 3}, {"valid_min": "low"}),
    ],
)
def test_attributes_without_sense_are_named(attributes: dict[str, Any]) -> None:
    array = oz.create_array({}, shape=1, dtype="i2", attributes=attributes)
    with pytest.raises(oz.InvalidMetadata, match=next(iter(attributes))):
        oz.cf.decode(array)


def test_several_missing_values_are_missing_and_impossible_ones_do_not_matter() -> None:
    attributes = {"_FillValue": 99999, "missing_value": [-1, -2, 1.5]}
    array = oz.create_array({}, data=np.array([-1, 0, -2], "i2"), attributes=attributes)
    np.testing.assert_array_equal(oz.cf.decode(array)[...], np.array([np.nan, 0, np.nan], "f4"))


@st.composite
def bounded(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Draw stored numbers, and attributes with bounds among them."""
    values, attributes = draw(packed())
    if values.dtype.kind == "f":
        values = np.nan_to_num(values, posinf=1, neginf=-1)
    low, high = sorted(draw(st.tuples(*[st.sampled_from([v.item() for v in values.flat])] * 2)))
    chosen = draw(st.sampled_from(("valid_range", "valid_min", "valid_max", "both")))
    if chosen == "valid_range":
        attributes["valid_range"] = [low, high]
    if chosen in ("valid_min", "both"):
        attributes["valid_min"] = low
    if chosen in ("valid_max", "both"):
        attributes["valid_max"] = high
    return values, {k: v for k, v in attributes.items() if k != "_Unsigned"}


@given(bounded())
def test_values_outside_the_valid_range_are_missing(case: Any) -> None:
    values, attributes = case
    low, high = attributes.get("valid_range", (None, None))
    low, high = attributes.get("valid_min", low), attributes.get("valid_max", high)
    packed = attributes.keys() & {"scale_factor", "add_offset"}
    assume(not packed or not isinstance(low or high, float))  # of unpacked values, see below
    array = oz.create_array({}, data=values, attributes=attributes)
    inside = (low is None or values >= low) & (high is None or values <= high)
    with np.errstate(all="ignore"):
        found = oz.cf.decode(array)[...]
        before = oz.cf.decode(array, valid_only=False)[...]
    np.testing.assert_array_equal(found, np.where(inside, before, np.nan))
    assert found.dtype == oz.cf.decode(array).dtype


@pytest.mark.parametrize(
    ("dtype", "attributes", "values", "missing"),
    [
        # Whole numbers bound what is stored, others what is meant.
        ("i2", {"scale_factor": 0.1, "valid_max": 1000}, [1000, 1001], [False, True]),
        ("i2", {"scale_factor": 0.1, "valid_max": 100.0}, [1000, 1001], [False, True]),
        ("i2", {"scale_factor": -0.5, "valid_range": [-2.0, 3.0]}, [-7, -6, 5], [1, 0, 1]),
        ("i1", {"_Unsigned": "true", "valid_range": [1, -2]}, [0, 1, -2, -1], [1, 0, 0, 1]),
        ("u1", {"valid_range": [0, 255]}, [0, 255], [0, 0]),
        ("i8", {"valid_min": 2**53 + 1}, [2**53, 2**53 + 1], [1, 0]),
        ("f4", {"valid_max": 0.1}, [0.1, 0.2], [0, 1]),
        ("i4", {"valid_range": [2, 4], "valid_min": 3}, [2, 3], [0, 0]),
    ],
)
def test_bounds_are_those_of_stored_or_of_meant_numbers(
    dtype: str, attributes: dict[str, Any], values: list[Any], missing: list[Any]
) -> None:
    array = oz.create_array({}, data=np.array(values, dtype), attributes=attributes)
    found = oz.cf.decode(array)
    assert np.isnan(found[...]).tolist() == [bool(m) for m in missing]
    assert (found.dtype.kind == "u") == (dtype == "u1"), "floats only where a value can be missing"


def test_a_fill_value_is_missing_data_where_it_may_be_left_out() -> None:
    for zarr_format, missing in ((1, True), (2, True), ("3-draft", False), (3, False)):
        array = oz.create_array({}, shape=2, dtype="f4", fill_value=7, zarr_format=zarr_format)
        assert np.isnan(oz.cf.decode(array)[0]) == missing
        assert oz.cf.decode(array, fill_value_is_missing=False)[0] == 7


def test_a_view_is_read_later_and_touches_only_its_chunks() -> None:
    store: dict[str, bytes] = {}
    attributes = {"scale_factor": 2.0}
    array = oz.create_array(
        store,
        data=np.arange(12, dtype="i2").reshape(3, 4),
        chunks=(1, 4),
        attributes=attributes,
        dimension_names=["y", "x"],
    )
    view = oz.cf.decode(array).view[1:, ::2]
    del store[array.chunk_key((0, 0))]
    assert (view.shape, view.dimensions) == ((2, 2), ("y", "x"))
    np.testing.assert_array_equal(np.asarray(view), [[8, 12], [16, 20]])
    assert oz.cf.decode(array).view[1].dimensions == ("x",)
    assert oz.cf.decode(array).view[[0, 1]].dimensions is None


@pytest.mark.parametrize(
    ("stored", "value", "message"),
    [
        ("i1", 1000, "1000 does not fit into int8"),
        ("u1", -1, "-1 does not fit into uint8"),
        ("i8", 2**63, "does not fit into int64"),
        ("i2", 1.5, "not whole"),
        ("i2", np.nan, "without a _FillValue"),
        ("f4", 1e300, "does not fit into float32"),
        ("f4", 1j, "cannot store complex128 values as float32"),
        ("i2", "1", "cannot store <U1 values as int16"),
    ],
)
def test_values_without_packing_are_not_changed_to_fit(
    stored: str, value: Any, message: str
) -> None:
    variable = oz.cf.decode(oz.create_array({}, shape=1, dtype=stored, fill_value=7))
    for each in (value, np.array([value], object)):
        with pytest.raises(oz.InvalidArgument, match=message):
            variable[...] = each
    assert variable[...].tolist() == [7]
    variable[...] = np.array([5], object)
    assert variable[...].tolist() == [5]
