"""Character arrays are joined to text as in xarray, and text is stored as characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given

import omnizarr as oz
from omnizarr.conventions.cf.variable import Decoding

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6))


@given(WORDS, st.sampled_from([2, "3-draft", 3]))
def test_text_round_trips_and_agrees_with_xarray(words: Any, zarr_format: Any) -> None:
    dataset = oz.cf.create({}, zarr_format=zarr_format)
    attributes = {"_Encoding": "utf-8"}
    given_ = np.array(words, "U6")
    variable = dataset.create_variable(
        "name", given_, dimensions=["station", "length"], dtype="S1", attributes=attributes
    )
    assert variable.array.dtype == "S1"
    assert variable.dimensions == ("station",)
    assert variable[...].tolist() == words
    letters = xr.Variable(("station", "length"), variable.array[...], attributes)
    theirs = xr.conventions.decode_cf_variable("name", letters)
    assert theirs.values.tolist() == words
    assert theirs.dims == variable.dimensions


def test_parts_are_read_and_assigned_by_text() -> None:
    array = oz.create_array({}, shape=(2, 3, 4), dtype="S1", dimension_names=["y", "x", "n"])
    texts = oz.cf.decode(array)
    texts[0] = [b"a", b"bc", b"def"]
    texts[1, 2] = "long"
    assert texts.dtype == "S4"
    assert (texts.shape, texts.dimensions) == ((2, 3), ("y", "x"))
    assert texts[0, 1:].tolist() == [b"bc", b"def"]
    assert texts.view[:, 2][...].tolist() == [b"def", b"long"]
    assert texts[..., [2, 0]].tolist() == [[b"def", b"a"], [b"long", b""]]
    with pytest.raises(oz.InvalidArgument, match="5 bytes, but at most 4 fit"):
        texts[0, 0] = "rather"[:5]
    with pytest.raises(oz.InvalidArgument, match="_Encoding = 'utf-8'"):
        texts[0, 0] = "ü"
    with pytest.raises(oz.InvalidArgument, match="it is not text"):
        texts[0, 0] = 5
    with pytest.raises(oz.SelectionError, match="single characters are in"):
        texts[0, 0, 0]
    assert texts[0, 0] == b"a"


def test_bytes_that_are_not_text_are_an_error_and_can_be_read_undecoded() -> None:
    array = oz.create_array({}, data=np.array([b"\xff"], "S1"), attributes={"_Encoding": "utf-8"})
    with pytest.raises(oz.InvalidMetadata, match=r"cannot decode .* with _Encoding 'utf-8'"):
        oz.cf.decode(array)[...]
    assert array[0] == b"\xff"
    array.attrs["_Encoding"] = "klingon"
    with pytest.raises(oz.InvalidMetadata, match="'klingon' is not an encoding"):
        oz.cf.decode(array)


def test_characters_of_netcdf_c_are_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    with netCDF4.Dataset(f"file://{path}#mode=nczarr,file", "w") as made:
        made.createDimension("station", 2)
        made.createDimension("length", 5)
        name = made.createVariable("name", "S1", ["station", "length"])
        name[:] = netCDF4.stringtochar(np.array(["Oslo", "Paris"], "S5"))
    assert oz.cf.open(path)["name"][...].tolist() == [b"Oslo", b"Paris"]
    with xr.open_dataset(path, engine="omnizarr") as theirs:
        assert theirs["name"].values.tolist() == [b"Oslo", b"Paris"]


def test_text_of_variable_length_is_read_and_assigned() -> None:
    variable = oz.cf.decode(oz.create_array(data=["a", "bc"], dtype=str))
    assert variable[...].tolist() == ["a", "bc"]
    variable[0] = "new"
    assert variable[...].tolist() == ["new", "bc"]


@pytest.mark.parametrize("dtype", ["i4", "i8", "f8"])
def test_durations_have_the_stated_unit_and_do_not_wrap(dtype: str) -> None:
    numbers = np.array([1, 200_000], dtype)
    attributes = {"units": "days", "dtype": "timedelta64[s]"}
    decoding = Decoding.of(np.dtype(dtype), attributes)
    found = decoding.decode(numbers)
    assert found.dtype == decoding.dtype == "m8[s]"
    assert (found == np.array([1, 200_000], "m8[D]")).all()
    assert decoding.encode(found).tolist() == decoding.encode(found.astype("m8[D]")).tolist()
    fine = Decoding.of(np.dtype(dtype), {**attributes, "dtype": "timedelta64[ns]"})
    assert fine.decode(numbers[:1])[0] == np.timedelta64(1, "D")
    with pytest.raises(oz.InvalidMetadata, match=r"200000.* days is out of the range"):
        fine.decode(numbers)
    with pytest.raises(oz.InvalidArgument, match="no fixed number of days"):
        decoding.encode(np.array([1], "m8[M]"))


@pytest.mark.parametrize(
    ("attributes", "values"),
    [
        ({"units": "seconds since 1970-01-01"}, "2026-01-01T00:00:01"),
        ({"units": "s", "dtype": "timedelta64[s]"}, 2**24 + 1),
    ],
)
def test_times_and_durations_that_are_rounded_are_refused(
    attributes: dict[str, Any], values: Any
) -> None:
    array = oz.create_array({}, shape=(1,), dtype="f4", attributes=attributes)
    kind = "M8[s]" if isinstance(values, str) else "m8[s]"
    with pytest.raises(oz.InvalidArgument, match=r"float32 in .* finer units"):
        oz.cf.decode(array)[...] = np.array([values], kind)
    assert not array[:].any()


def test_durations_in_small_floats_are_decoded_in_large_ones() -> None:
    attributes = {"units": "milliseconds", "dtype": "timedelta64[ns]"}
    array = oz.create_array(data=np.array([800000.0], "f4"), attributes=attributes)
    assert oz.cf.decode(array)[0] == np.timedelta64(800, "s")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "fill"), [(str, "c"), (bytes, b"c"), ("U3", "c"), ("S3", b"c")])
def test_text_with_a_fill_value_is_returned_as_it_is(
    dtype: Any, fill: Any, zarr_format: int
) -> None:
    values = [fill, fill * 2, fill * 0]
    a = oz.create_array(shape=3, dtype=dtype, fill_value=fill, zarr_format=zarr_format)
    a[1:] = np.array(values[1:], dtype=a.dtype)
    assert oz.cf.decode(a)[...].tolist() == values
