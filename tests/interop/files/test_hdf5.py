"""HDF5 and NetCDF files: every kind of type, attribute, link and layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz


def _import(tmp_path: Path, **options: Any) -> tuple[oz.Group, Any]:
    report = oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", **options)
    return oz.open(tmp_path / "a.zarr"), report


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_enumerations_and_nested_types(tmp_path: Path, zarr_format: int) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["text"] = np.array([["a", "ß€"], ["", "long enough text"]], object)
        fixed = h5py.string_dtype("utf-8", 5)
        file.create_dataset("utf8", data=np.array(["aé".encode()], fixed))
        file["scalar"] = "word"
        colours = h5py.enum_dtype({"red": 1, "green": 5}, basetype="i2")
        file["enum"] = np.array([1, 5, 5], colours)
        file.create_dataset("inner", (2,), np.dtype(("f4", (3,))))[...] = np.arange(6).reshape(2, 3)
        padded = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8]})
        file["record"] = np.array([(1, 2.5), (3, 4.5)], padded)
        time = np.array(["2020-01-01", "NaT"], "M8[s]")
        file.create_dataset("time", data=time.astype(h5py.opaque_dtype(time.dtype)))
    group, report = _import(tmp_path, zarr_format=zarr_format)
    assert report.skipped == {}
    assert group["text"][:].tolist() == [["a", "ß€"], ["", "long enough text"]]
    assert group["utf8"][:].tolist() == ["aé"]
    assert group["scalar"][()] == "word"
    assert group["enum"].dtype == "i2"
    assert group["enum"][:].tolist() == [1, 5, 5]
    assert group["enum"].attrs == {"flag_values": [5, 1], "flag_meanings": "green red"}
    assert group["inner"][:].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert group["record"][:].tolist() == [(1, 2.5), (3, 4.5)]
    np.testing.assert_array_equal(group["time"][:], time)


def test_fill_values_are_kept_and_unwritten_chunks_need_no_space(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (100, 100), "i4", chunks=(10, 10), fillvalue=7)[:10, :10] = 1
    group, _ = _import(tmp_path)
    array = group["x"]
    assert array.fill_value == 7
    assert array[:].sum() == 100 + 7 * 9900
    assert array.nchunks_initialized == 1


def test_what_zarr_cannot_hold_is_reported_and_strict_refuses(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        file["empty"] = h5py.Empty("f4")
        file["reference"] = np.array([file["x"].ref], h5py.ref_dtype)
        file.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))
        file["type"] = np.dtype("f8")
        file["group/loop"] = file["/"]
        file["gone"] = h5py.SoftLink("/nowhere")
        file["other"] = h5py.ExternalLink("other.h5", "/x")
        file["soft"] = h5py.SoftLink("/x")
        file.attrs["complex"] = 1j
        file.attrs["reference"] = file["x"].ref
        file["x"].attrs["latin"] = np.bytes_(b"\xb0C")
        file["x"].attrs["bytes"] = np.bytes_(b"\xff\x01\x80")
    group, report = _import(tmp_path)
    assert sorted(name for name, _ in group.members(max_depth=None)) == ["group", "soft", "x"]
    assert group["soft"][:].tolist() == [0, 1, 2]
    assert group["x"].attrs["latin"] == "°C"
    assert {name: reason.split(";")[0] for name, reason in report.skipped.items()} == {
        "empty": "it is empty: it has a type, but no shape and no values",
        "reference": "its elements are references to other objects of the file",
        "ragged": "its elements are arrays of variable length",
        "type": "it is a named data type",
        "group/loop": "it is a link to the group /",
        "gone": "it is a link to /nowhere, which does not exist",
        "other": "it is a link to /x in the file 'other.h5'",
        "/@complex": "JSON has no complex numbers",
        "/@reference": "the attribute is a reference to another object of the file",
        **dict.fromkeys(("x@bytes", "soft@bytes"), "the attribute has bytes that are no text"),
    }
    assert any("x@latin is not UTF-8 and was read as Latin-1" in note for note in report.notes)
    with pytest.raises(oz.CannotExpress, match="11 parts cannot be imported"):
        oz.import_file(tmp_path / "a.h5", tmp_path / "b.zarr", strict=True)
    assert not (tmp_path / "b.zarr").exists()


def test_names_of_values_without_a_place_are_reported(tmp_path: Path) -> None:
    plain = h5py.enum_dtype({"off": 0, "on": 1}, "i1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("blank", (2,), h5py.enum_dtype({"very off": 0, "on": 1}, "i1"))
        file.create_dataset("field", (2,), np.dtype([("state", plain), ("value", "f4")]))
        file.create_dataset("inner", (2,), np.dtype((plain, (3,))))
        file.create_dataset("other", (2,), plain).attrs["flag_meanings"] = "no yes"
        file["inner"].attrs.create("mode", 1, dtype=plain)
    group, report = _import(tmp_path)
    assert group["inner"].attrs["flag_meanings"] == "off on"
    assert group["other"].attrs == {"flag_meanings": "no yes"}
    assert sorted(report.skipped) == [f"{n}@names of values" for n in ("blank", "field", "other")]
    assert "'on', 'very off'" in report.skipped["blank@names of values"]
    assert report.notes == ["the attribute inner@mode has numbers, without their names"]


def test_one_part_that_cannot_be_kept_does_not_end_the_import(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file["wide"] = np.ones(2, np.longdouble)
        file["ascii"] = np.array(["é".encode()], h5py.string_dtype("ascii"))
        file["ascii"].attrs.create("latin", [b"\xb0C"], dtype=h5py.string_dtype())
        file["ascii"].attrs.create("bytes", b"\xff\x01", dtype=h5py.string_dtype())
        file["ascii"].attrs["wide"] = np.longdouble(1) / 3
        file["ascii"].attrs["_FillValue"] = np.array([], "i4")
    group, report = _import(tmp_path)
    assert group["ascii"][:].tolist() == ["é"]
    assert group["ascii"].attrs == {"latin": ["°C"], "_FillValue": []}
    assert report.skipped == {
        "user block": "512 bytes before the HDF5 data",
        "ascii@bytes": "the attribute has bytes that are no text",
        "ascii@wide": "JSON has no numbers of more than 64 bits",
        "wide": "zarr 3 cannot express longdouble, a float of 80 bits",
    }


def test_text_that_is_not_utf8_stops_the_import_and_can_be_excluded(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("bad", (2,), h5py.string_dtype())[...] = [b"fine", b"\xff"]
        file["good"] = 1
    with pytest.raises(oz.InvalidArgument, match=r"a.h5:/bad has text that is not UTF-8"):
        _import(tmp_path)
    group, _ = _import(tmp_path, exclude=["bad"], overwrite=True)
    assert list(group) == ["good"]


def test_a_damaged_chunk_stops_the_import_and_nothing_is_visible(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = np.random.default_rng(0).integers(0, 9, 100_000)
        dataset = file.create_dataset("x", data=values, chunks=(10_000,), compression="gzip")
        place = dataset.id.get_chunk_info(5).byte_offset
    data = bytearray((tmp_path / "a.h5").read_bytes())
    data[place : place + 200] = bytes(200)
    (tmp_path / "a.h5").write_bytes(data)
    with pytest.raises(oz.StoreError, match=r"cannot read /x of"):
        oz.import_file(tmp_path / "a.h5", tmp_path / "out.zarr")
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "out.zarr")


def test_a_filter_that_is_not_installed_leaves_out_its_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(10,), compression="lzf")
        file["deep/y"] = np.arange(5)
    available = h5py.h5z.filter_avail
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda n: n != 32000 and available(n))
    needed = "x: it is compressed with the HDF5 filter lzf .*pip install hdf5plugin"
    with pytest.warns(oz.OmnizarrWarning, match=needed):
        done = oz.import_file(tmp_path / "a.h5", tmp_path / "out.zarr")
    assert [*done.skipped] == ["x"]
    assert oz.open(tmp_path / "out.zarr", path="deep/y")[...].tolist() == [*range(5)]
    oz.import_file(tmp_path / "a.h5", tmp_path / "excluded.zarr", exclude=["x"])  # no warning
    with pytest.raises(oz.CannotExpress, match=needed):
        oz.import_file(tmp_path / "a.h5", tmp_path / "strict.zarr", strict=True)
    with pytest.raises(oz.MissingPackage, match=needed):
        oz.import_file(tmp_path / "a.h5", tmp_path / "none.zarr", exclude=["deep/*"])


def _write(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as file:
        file.title = "a file"
        file.one = np.array([1.5])
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createDimension("bare", 2)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 2000-01-01"
        time[:] = [1, 2, 3, 4]
        x = file.createVariable("x", "f4", ("x",))
        x[:] = [1, 2, 3]
        packed = file.createVariable("packed", "i2", ("time", "x"), fill_value=-99, zlib=True)
        packed.setncatts({"scale_factor": 0.1, "add_offset": 5.0, "coordinates": "aux"})
        packed.set_auto_maskandscale(False)
        packed[:] = np.arange(12).reshape(4, 3)
        packed[0, 0] = -99
        aux = file.createVariable("aux", "f8", ("x",), fill_value=np.nan)
        aux[:] = [1, np.nan, 3]
        missing = file.createVariable("missing", "f4", ("time", "x"))
        missing.missing_value = np.float32(np.nan)
        missing[:] = 0
        missing[1, 1] = np.nan
        file.createVariable("unwritten", "i4", ("x",))
        scalar = file.createVariable("scalar", "i8", ())
        scalar[...] = 4
        file.createVariable("char", "S1", ("x", "bare"))[:] = np.array([[b"a", b"b"]] * 3)
        text = file.createVariable("text", str, ("bare",))
        text[:] = np.array(["word", "ß"], object)
        # The name of a dimension, but not its coordinate.
        file.createVariable("bare", "f4", ("x",))[:] = 1
        group = file.createGroup("inner")
        group.createDimension("y", 2)
        group.createVariable("y", "i4", ("y",))[:] = [10, 20]
        two = group.createVariable("two", "f8", ("time", "y"))
        two.flag = np.array([1, 2], "i1")
        two[:] = np.arange(8).reshape(4, 2)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("engine", ["omnizarr", "zarr"])
def test_xarray_reads_the_same_from_the_file_and_from_the_import(
    tmp_path: Path, zarr_format: int, engine: str
) -> None:
    _write(tmp_path / "a.nc")
    report = oz.import_file(tmp_path / "a.nc", tmp_path / "a.zarr", zarr_format=zarr_format)
    assert report.skipped == {}
    options: dict[str, Any] = {"engine": engine}
    if engine == "zarr":
        options["consolidated"] = False
    for group in (None, "inner"):
        expected = xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", group=group)
        found = xr.open_dataset(tmp_path / "a.zarr", group=group, **options)
        xr.testing.assert_identical(found, expected)
        for name, variable in expected.variables.items():
            if variable.dtype.kind != "U":  # xarray reads text as objects, or in its own type
                assert found.variables[name].dtype == variable.dtype
    raw = xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", decode_cf=False)
    stored = oz.open(tmp_path / "a.zarr")
    for name in raw.variables:
        np.testing.assert_array_equal(stored[str(name)][...], raw[name].values)


def test_dimensions_hidden_attributes_and_names_follow_netcdf(tmp_path: Path) -> None:
    _write(tmp_path / "a.nc")
    oz.import_file(tmp_path / "a.nc", tmp_path / "a.zarr")
    root = oz.open(tmp_path / "a.zarr")
    assert sorted(name for name, _ in root.arrays()) == sorted(
        ["aux", "bare", "char", "missing", "packed", "scalar", "text", "time", "unwritten", "x"]
    )
    assert root.attrs.asdict() == {"title": "a file", "one": 1.5}
    assert root["packed"].dimension_names == ("time", "x")
    assert root["bare"].dimension_names == ("x",)
    assert root["scalar"].dimension_names == ()
    assert root["inner/two"].dimension_names == ("time", "y")
    assert root["inner/two"].attrs.asdict() == {"flag": [1, 2]}
    assert root["packed"].chunks == (1, 3)
    assert root["unwritten"].fill_value == root["unwritten"][0] == -(2**31) + 1


def test_files_of_h5netcdf_and_multidimensional_coordinates(tmp_path: Path) -> None:
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions = {"x": 4, "y": 2}
        file.create_variable("y", ("y",), "f4", data=[1, 2])
        file.create_variable("x", ("x", "y"), "f4", data=np.arange(8).reshape(4, 2))
        file.create_variable("v", ("y", "x"), "i4", data=np.arange(8).reshape(2, 4))
    oz.import_file(tmp_path / "a.nc", tmp_path / "a.zarr")
    root = oz.open(tmp_path / "a.zarr")
    names = {name: array.dimension_names for name, array in root.arrays()}
    assert names == {"y": ("y",), "x": ("x", "y"), "v": ("y", "x")}
    np.testing.assert_array_equal(root["x"][:], np.arange(8).reshape(4, 2))


def test_unlimited_dimensions_and_words_for_numbers_are_noted(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 2)
        file.createVariable("v", "f4", ("time", "x"))[:] = np.ones((3, 2))
        file.setncatts({"title": "NaN", "limit": np.inf})
    found = oz.import_file(tmp_path / "a.nc", tmp_path / "a.zarr")
    notes = "; ".join(found.notes)
    assert "unlimited dimensions become ordinary ones: time;" in notes
    assert "'title' of / has the text 'NaN'" in notes
    oz.export_file(tmp_path / "a.zarr", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file.limit == np.inf


GROWING = st.lists(
    st.tuples(
        st.sampled_from(["", "g", "g/h"]),
        st.sampled_from(["i1", "u2", "i4", "u8", "f4", "f8", "S1", "str"]),
        st.lists(st.sampled_from(["t", "u", "x"]), unique=True, max_size=3),
        st.sampled_from([None, False, 1]),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=20, deadline=None)
@given(variables=GROWING, times=st.none() | st.integers(0, 6), chunk=st.integers(1, 3))
def test_variables_have_the_length_of_their_unlimited_dimensions(
    tmp_path_factory: pytest.TempPathFactory, variables: Any, times: int | None, chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("unlimited")
    with netCDF4.Dataset(folder / "a.nc", "w") as file:
        for name, length in {"t": None, "u": None, "x": 2}.items():
            file.createDimension(name, length)
        if times is not None:
            file.createVariable("t", "i4", ("t",))[:] = np.arange(times)
        for number, (group, kind, dims, fill, rows) in enumerate(variables):
            at = file.createGroup(group) if group else file
            text = kind in ("S1", "str")
            pieces = [min(chunk, 2) if d == "x" else chunk for d in dims] or None
            made = at.createVariable(
                f"v{number}", str if kind == "str" else kind, dims,
                fill_value=None if text else fill, chunksizes=pieces,
            )  # fmt: skip
            shape = [2 if d == "x" else rows for d in dims]
            words = np.full(shape, "a", "S1" if kind == "S1" else object)
            if 0 not in shape:
                made[tuple(map(slice, shape))] = words if text else np.full(shape, 3)
    done = oz.import_file(folder / "a.nc", folder / "a.zarr")
    assert done.skipped == {}
    found = oz.open(folder / "a.zarr")
    with netCDF4.Dataset(folder / "a.nc") as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        for number, (group, kind, dims, fill, rows) in enumerate(variables):
            path = f"{group}/v{number}".lstrip("/")
            words = {"S1": b"", "str": ""}
            after = words[kind] if kind in words else fill or netCDF4.default_fillvals[kind]
            dtype = object if kind == "str" else kind
            expected = np.full(file[path].shape, after, dtype)
            inside = tuple(slice(2 if d == "x" else rows) for d in dims)
            expected[inside] = "a" if kind in words else 3
            # Of other axes, and for text, the library gives the rest in another order, or crashes.
            if not {*dims[1:]} - {"x"} and kind != "str":
                np.testing.assert_array_equal(file[path][...], expected)
            assert found[path].shape == expected.shape
            np.testing.assert_array_equal(np.asarray(found[path][...], dtype), expected)


@pytest.mark.filterwarnings("ignore:variable 'name' has multiple fill values")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_with_a_fill_value_is_opened_by_both_engines(tmp_path: Path, zarr_format: int) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        made = file.createVariable("name", str, ("x",), fill_value="none")
        made[:] = np.array(["a", "none", "?"], object)
        made.missing_value = "?"
        file.createVariable("letter", "S1", ("x",))[:] = np.array([b"a", b"-", b"b"])
    done = oz.import_file(tmp_path / "a.nc", tmp_path / "a.zarr", zarr_format=zarr_format)
    assert not any("xarray" in note for note in done.notes)
    for engine in ("zarr", "omnizarr"):
        found = xr.open_dataset(tmp_path / "a.zarr", engine=engine, consolidated=False)
        assert found["name"].isnull().values.tolist() == [False, True, True]


def test_a_fill_value_of_bytes_that_xarray_cannot_open_is_noted(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("letter", "S1", ("x",), fill_value=b"-")[:] = np.array([b"a", b"-"])
    done = oz.import_file(tmp_path / "a.nc", tmp_path / "a.zarr")
    assert any("/letter: xarray cannot open a _FillValue of bytes" in n for n in done.notes)
    with pytest.raises(ValueError, match="Failed to decode fill_value"):
        xr.open_dataset(tmp_path / "a.zarr", engine="zarr", consolidated=False)
    found = xr.open_dataset(tmp_path / "a.zarr", engine="omnizarr")
    assert found["letter"].item() == b"a-"
