"""HDF5 files: every kind of type, attribute, link and layout, compared with h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

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


@pytest.mark.parametrize("size", [100, 1000, 5000])
def test_a_truncated_file_is_damaged(tmp_path: Path, size: int) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(1000.0)
    (tmp_path / "a.h5").write_bytes((tmp_path / "a.h5").read_bytes()[:size])
    with pytest.raises(oz.InvalidArgument, match="is damaged or no HDF5 file"):
        oz.import_file(tmp_path / "a.h5", tmp_path / "out.zarr")


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
