"""NetCDF files: what xarray reads from Zarr is what it and netCDF4 read from the export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.conventions.cf.packing import encode_fill


def _dataset() -> xr.Dataset:
    times = np.array(["2020-01-01", "2020-01-02", "2020-01-05", "NaT"], "M8[ns]")
    dataset = xr.Dataset(
        {
            "packed": (("time", "x"), np.arange(12.0).reshape(4, 3), {"units": "K"}),
            "flag": ("x", [True, False, True]),
            "text": ("x", np.array(["a", "bb", "ß"])),
            "raw": ("x", np.array([b"a", b"bb", b"c"])),
            "when": ("time", times),
            "masked": ("x", np.array([1, np.nan, 3], "f4")),
            "scalar": ((), 5),
        },
        coords={"time": np.arange(4), "x": [1.0, 2.0, 3.0]},
        attrs={"title": "a file", "numbers": [1, 2], "one": 1.5},
    )
    dataset["packed"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    return dataset


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarray_reads_the_same_from_zarr_and_from_the_export(
    tmp_path: Path, zarr_format: int, engine: Any
) -> None:
    oz.xarray.write(_dataset(), tmp_path / "a.zarr", zarr_format=zarr_format)
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert report.skipped == {}
    expected = xr.open_dataset(tmp_path / "a.zarr", engine="omnizarr")
    found = xr.open_dataset(tmp_path / "a.nc", engine=engine)
    xr.testing.assert_equal(found, expected)
    for name in expected.variables:
        assert found[name].attrs == expected[name].attrs
        if expected[name].dtype.kind not in "OUT":
            assert found[name].dtype == expected[name].dtype
    oz.import_file(tmp_path / "a.nc", tmp_path / "b.zarr", zarr_format=zarr_format)
    again = xr.open_dataset(tmp_path / "b.zarr", engine="omnizarr")
    xr.testing.assert_equal(again, expected)


def test_times_of_every_unit_and_axes_without_names(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    for unit in ("D", "h", "m", "s", "ms", "us", "ns", "M", "25s"):
        values = np.array([0, 100, "NaT"], f"M8[{unit}]")
        root.create_array(f"t-{unit}", data=values)
    root.create_array("delta", data=np.array([1, 2], "m8[ms]"), dimension_names=["n"])
    root.create_array("square", data=np.eye(3))
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    found = xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", decode_timedelta=True)
    for name, array in root.arrays():
        if array.dtype.kind == "M":
            assert found[name].dims == ("dim_3",)
            np.testing.assert_array_equal(found[name].values, array[...].astype("M8[ns]"))
    np.testing.assert_array_equal(found["delta"].values, root["delta"][...].astype("m8[ns]"))
    assert found["square"].dims == ("dim_3", "dim_3")


def test_dimensions_are_inherited_shadowed_or_refused(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    root.create_array("a", data=np.zeros(3), dimension_names=["x"])
    root.create_array("b", data=np.zeros(4), dimension_names=["x"])
    root.create_array("g/same", data=np.zeros(3), dimension_names=["x"])
    root.create_array("h/other", data=np.ones(7), dimension_names=["x"])
    report = oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert list(report.skipped) == ["b"]
    assert "has length 4, but another array of the group has 3" in report.skipped["b"]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert len(file.dimensions["x"]) == 3
        assert dict(file["g"].dimensions) == {}
        assert len(file["h"].dimensions["x"]) == 7
        assert file["h/other"][:].tolist() == [1] * 7


def test_durations_without_a_fixed_length_are_left_out(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("months", data=np.array([1, 2], "m8[M]"))
    group.create_array("weeks", data=np.array([1, 2], "m8[W]"))
    report = oz.export_file(group, tmp_path / "a.nc")
    assert "no fixed number" in report.skipped["months"]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["weeks"][:].tolist() == [7, 14]


@pytest.mark.filterwarnings("ignore:variable 'v' has multiple fill values")
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["a.nc", "a.h5"]),
    dtype=st.sampled_from(["i1", "u1", "i2", "u4", "f4", "f8"]),
    marker=st.sampled_from([None, -99999, -1, 0, 2, 300, 70000, 1.5, 2.0, 1e20, "NaN"]),
    other=st.sampled_from([None, 7, [5, 7]]),
    fill=st.sampled_from([None, 0, 2, 7]),
    zarr_format=st.sampled_from([2, 3]),
    base64=st.booleans(),
)
def test_missing_values_are_those_of_the_source(
    tmp_path_factory: pytest.TempPathFactory, name: str,
    dtype: str, marker: Any, other: Any, fill: Any, zarr_format: int, base64: bool,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("missing")
    written = marker
    if base64 and dtype[0] == "f" and marker is not None:  # as xarray writes it in version 3
        written = encode_fill(marker, np.dtype(dtype))
    attributes = {"_FillValue": written, "missing_value": other}
    root = oz.create_group(folder / "a.zarr", zarr_format=zarr_format)
    array = root.create_array(
        "v", shape=8, dtype=dtype, dimension_names=["x"],
        fill_value=0 if fill is None and zarr_format == 3 else fill,
        attributes={k: v for k, v in attributes.items() if v is not None},
    )  # fmt: skip
    # The bytes of values to which markers that do not fit would wrap are among them.
    array[...] = np.array([0, 1, 2, 5, 7, 44, 97, 112], dtype)
    report = oz.export_file(root, folder / name)
    fits = True
    if dtype[0] != "f":
        whole = isinstance(marker, int) or marker == 2.0
        fits = whole and np.iinfo(dtype).min <= marker <= np.iinfo(dtype).max
    lost = {"v@_FillValue"} if marker is not None and not fits else set()
    clash = {"v@fill_value"} & {*report.skipped}
    assert {*report.skipped} == lost | clash
    if clash:
        assert zarr_format == 2
        return
    expected = oz.cf.open(root)["v"][...].astype("f8")
    more: dict[str, Any] = {"engine": "netcdf4"}
    if name == "a.h5":
        more = {"engine": "h5netcdf", "phony_dims": "sort"}
    found = xr.load_dataset(folder / name, **more)["v"].values
    np.testing.assert_array_equal(found.astype("f8"), expected)
    oz.import_file(folder / name, folder / "b.zarr", zarr_format=zarr_format)
    again = oz.cf.open(folder / "b.zarr")["v"][...]
    np.testing.assert_array_equal(again.astype("f8"), expected)


def test_h5_files_have_the_fill_values_of_xarray_and_plain_arrays_have_none(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    values = np.array([1 + 2j, 3])
    root.create_array("c", data=values, attributes={"_FillValue": encode_fill(3, values.dtype)})
    raw = np.array([b"a", b"bb"])
    root.create_array("s", data=raw, attributes={"_FillValue": encode_fill(b"bb", raw.dtype)})
    assert oz.export_file(root, tmp_path / "a.h5").skipped == {}
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["c"].attrs["_FillValue"], file["s"].attrs["_FillValue"]) == (3, b"bb")
        assert file["c"].attrs["_FillValue"].dtype == np.complex128
    oz.create_array(tmp_path / "b.zarr", data=np.arange(2), zarr_format=2, fill_value=0)
    oz.export_file(tmp_path / "b.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert "_FillValue" not in file["data"].attrs


def test_a_second_number_for_missing_values_is_kept_or_named(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr", zarr_format=2)
    for name, more in {"kept": {}, "named": {"missing_value": 9}}.items():
        root.create_array(
            name, data=np.array([0, 2, 7], "i2"), dimension_names=["x"], fill_value=0,
            attributes={"_FillValue": 2, **more},
        )  # fmt: skip
    report = oz.export_file(root, tmp_path / "a.nc")
    assert list(report.skipped) == ["named@fill_value"]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert (file["kept"]._FillValue, file["kept"].missing_value) == (2, 0)
        assert file["kept"][:].mask.tolist() == [True, True, False]
        assert (file["named"]._FillValue, file["named"].missing_value) == (2, 9)
    with pytest.raises(oz.errors.CannotExpress, match="named@fill_value"):
        oz.export_file(root, tmp_path / "b.nc", strict=True)


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
def test_xarray_reads_durations_as_it_writes_them(tmp_path: Path, unit: str) -> None:
    values = np.array([1, -5, "NaT"], f"m8[{unit}]")
    oz.create_group(tmp_path / "a.zarr").create_array("v", data=values, dimension_names=["x"])
    oz.export_file(tmp_path / "a.zarr", tmp_path / "a.nc")
    dataset = xr.Dataset({"v": ("x", values)})
    dataset.to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    found, expected = (xr.load_dataset(tmp_path / f"{name}.nc")["v"] for name in "ab")
    assert found.dtype == expected.dtype
    xr.testing.assert_identical(found, expected)


def test_what_netcdf_reserves_is_named(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr", attributes={"_NCProperties": "version=2"})
    root.create_array("v", data=np.arange(2), dimension_names=["x"], attributes={"CLASS": "a"})
    root.create_array("x/w/u", data=np.arange(3), dimension_names=["k"])
    root.create_array("y/w", data=np.arange(3), dimension_names=["w"], attributes={"a": [0, 0.5]})
    report = oz.export_file(root, tmp_path / "a.nc")
    assert {*report.skipped} == {"/@_NCProperties", "v@CLASS", "x", "x/w/u"}
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert (list(file.groups), list(file.variables)) == (["y"], ["v"])
        assert file["v"][:].tolist() == [0, 1]
        assert file["y/w"].a.tolist() == [0, 0.5]
    with pytest.raises(oz.errors.CannotExpress, match="/@_NCProperties: NetCDF reserves"):
        oz.export_file(root, tmp_path / "b.nc", strict=True)


@pytest.mark.parametrize("name", ["a.nc", "a.h5"])
def test_text_with_zero_characters_is_refused(tmp_path: Path, name: str) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    root.create_array("words", data=np.array(["a\0b", "c"], np.dtypes.StringDType()))
    with pytest.raises(oz.errors.CannotExpress, match="/words has text with the character"):
        oz.export_file(root, tmp_path / name)
    assert not (tmp_path / name).exists()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1) | st.just(2**64 - 1), min_size=1, max_size=3))
@pytest.mark.parametrize("suffix", [".nc", ".h5"])
def test_large_unsigned_integers_in_attributes_come_back(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, values: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("unsigned")
    given = {"one": values[0], "all": [*values, 2**63]}
    root = oz.create_group(folder / "a.zarr", attributes=given)
    root.create_array("v", data=np.arange(2))
    assert oz.export_file(root, folder / f"a{suffix}").notes == []
    oz.import_file(folder / f"a{suffix}", folder / "b.zarr")
    assert oz.open(folder / "b.zarr").attrs.asdict() == given


def test_numbers_that_no_integer_type_holds_are_noted(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a.zarr", attributes={"a": 2**64, "b": [-1, 2**63]})
    root.create_array("v", data=np.arange(2))
    notes = str(oz.export_file(root, tmp_path / "a.nc").notes)
    assert "'a' of / is stored as JSON text" in notes
    assert "'b' of / is stored as JSON text" in notes


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.fixed_dictionaries({"t": st.integers(0, 3), "u": st.integers(0, 3)}),
    below=st.sampled_from(["v", "g/v", "g/h/v"]),
)
def test_dimensions_that_nczarr_lists_as_unlimited_are_unlimited(
    tmp_path_factory: pytest.TempPathFactory, lengths: dict[str, int], below: str
) -> None:
    folder = tmp_path_factory.mktemp("nczarr")
    listed = {name: {"size": n, "unlimited": 1} for name, n in lengths.items()}
    attributes = {"_nczarr_group": {"dimensions": {**listed, "x": 2}}, "title": "a"}
    root = oz.create_group(folder / "a.zarr", zarr_format=2, attributes=attributes)
    values = np.arange(2 * np.prod([*lengths.values()]), dtype="i4").reshape(*lengths.values(), 2)
    root.create_array(below, data=values, dimension_names=["t", "u", "x"])
    assert oz.export_file(root, folder / "a.nc").notes == []
    with netCDF4.Dataset(folder / "a.nc", "a") as file:
        found = file[below]
        assert [d.isunlimited() for d in found.get_dims()] == [True, True, False]
        assert file.ncattrs() == ["title"]
        np.testing.assert_array_equal(found[...], values)
        found[3:5, 3:5] = 7  # values can be appended
        assert found.shape == (5, 5, 2)


LIMITS = st.one_of(
    st.integers(-(2**70), 2**70), st.integers(-130, 300), st.integers(2**63 - 2, 2**64 + 1),
    st.floats(width=32), st.floats(),
)  # fmt: skip


@pytest.mark.parametrize("suffix", ["nc", "h5"])
@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(["i1", "u1", "i4", "i8", "u8", "f4", "f8"]),
    name=st.sampled_from(["missing_value", "valid_min", "valid_range", "flag_masks"]),
    values=st.lists(LIMITS, min_size=1, max_size=3),
    single=st.booleans(),
)
def test_attributes_have_the_type_of_the_values_if_it_holds_them(
    tmp_path_factory: pytest.TempPathFactory, suffix: str,
    dtype: str, name: str, values: list[float], single: bool,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("typed")
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    stored: Any = [words.get(str(v), v) for v in values]
    values = values[:1] if single else values
    root = oz.create_group(folder / "a.zarr")
    root.create_array(
        "v", shape=2, dtype=dtype, dimension_names=["x"],
        attributes={name: stored[0] if single else stored},
    )  # fmt: skip
    report = oz.export_file(root, folder / f"a.{suffix}")

    def fits(value: float) -> bool:
        if dtype[0] == "f":
            with np.errstate(over="ignore"):
                return value != value or np.array(value, "f8").astype(dtype).item() == value
        limits = np.iinfo(dtype)
        return value in (int(limits.min), int(limits.max)) or (
            limits.min < value < limits.max and int(value) == value
        )

    with h5py.File(folder / f"a.{suffix}") as file:
        found = file["v"].attrs[name]
    if all(map(fits, values)) and not isinstance(found, str):
        assert found.dtype == dtype
        assert report.notes == []
    if not isinstance(found, str):  # JSON text, of numbers of more than 64 bits
        pairs = zip(np.ravel(found).tolist(), values, strict=True)
        assert all(a == b or (a != a and b != b) for a, b in pairs)


def test_ranges_of_unpacked_values_keep_their_type_and_signs_are_those_of_the_values(
    tmp_path: Path,
) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    packed = {"scale_factor": 0.5, "valid_range": [0.0, 9.0], "actual_range": [1, 2]}
    root.create_array("packed", data=np.arange(2, dtype="i2"), attributes=packed)
    unsigned = {"_Unsigned": "true", "valid_range": [1, 254]}
    root.create_array("unsigned", data=np.arange(2, dtype="i1"), attributes=unsigned)
    oz.export_file(root, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["packed"].valid_range.dtype == "f8"
        assert file["packed"].actual_range.dtype == "i8"
        assert file["unsigned"].valid_range.tolist() == [1, -2]
    oz.import_file(tmp_path / "a.nc", tmp_path / "b.zarr")
    again = oz.cf.open(tmp_path / "b.zarr")["unsigned"].decoding.packing.valid
    assert (again.low, again.high) == (1, 254)


def test_factors_of_single_precision_are_noted(tmp_path: Path) -> None:
    dataset = xr.Dataset({"v": ("x", np.array([1, 2], "f4"))})
    encoding = {"v": {"dtype": "i2", "scale_factor": np.float32(0.1), "_FillValue": -1}}
    dataset.to_netcdf(tmp_path / "a.nc", encoding=encoding)
    notes = oz.import_file(tmp_path / "a.nc", tmp_path / "a.zarr").notes
    assert "v: scale_factor is float32 in the file and float64 in Zarr" in "".join(notes)
