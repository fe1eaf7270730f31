"""References to HDF5 and NetCDF4 files: equal to h5py, here and in zarr-python, or refused."""

from __future__ import annotations

import itertools
import json
import zlib
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from tests.golden.archives import HERE
from tests.integrations.files.test_references import imagecodecs_registered, read_with_zarr

FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 7},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
}
LZF: dict[str, dict[str, Any]] = {
    "lzf": {"compression": "lzf"},
    "all with lzf": {"compression": "lzf", "shuffle": True, "fletcher32": True},
}
TYPES = ["<i2", ">i4", "|u1", "<f2", ">f4", "<f8", "|b1", "<c8", "|S5", "<u8"]


def _check(folder: Path, *, other: bool = True) -> Any:
    done = oz.reference(folder / "a.h5", folder / "a.json", overwrite=True)
    group = oz.open_group(folder / "a.json")
    theirs = read_with_zarr(folder / "a.json") if other else None
    with h5py.File(folder / "a.h5") as file:
        names = [name for name in file if name not in done.skipped]
        for name in names:
            expected = file[name][()]
            np.testing.assert_array_equal(group[name][...], expected)
            assert group[name].dtype == np.asarray(expected).dtype
            if theirs is not None:
                np.testing.assert_array_equal(theirs[name][...], expected)
        assert {*group.array_keys()} == {*names}
    return done


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("dtype", TYPES)
def test_chunks_with_filters_are_referred_to(tmp_path: Path, filters: str, dtype: str) -> None:
    values = (np.arange(13 * 17) % 90).reshape(13, 17).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("chunked", data=values, chunks=(4, 6), **FILTERS[filters])
        file.create_dataset("larger", data=values[:3], chunks=(5, 20), maxshape=(None, None))
        file.create_dataset("plain", data=values)
        file.create_dataset("scalar", data=values[0, 1])
    done = _check(tmp_path)
    assert not done.skipped
    assert done.inline == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.sampled_from(sorted({**FILTERS, **LZF})),
    st.sampled_from(TYPES),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_any_dataset_is_equal_to_h5py(
    tmp_path: Path,
    shape: list[int],
    chunks: list[int],
    filters: str,
    dtype: str,
    seed: int,
    sparse: bool,
) -> None:
    values = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "a", shape, dtype, chunks=tuple(chunks[: len(shape)]),
            maxshape=(None,) * len(shape), **{**FILTERS, **LZF}[filters],
        )  # fmt: skip
        if not sparse:
            dataset[...] = values
        elif values.size:
            dataset[0] = values[0]
    _check(tmp_path, other=False)


def test_chunks_that_hdf5_did_not_compress_are_read(tmp_path: Path) -> None:
    """HDF5 leaves out a filter if it gains nothing; a mask in the index of chunks says so."""
    values = np.arange(30, dtype="<i4").reshape(6, 5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, masks in {"every": (2, 2), "some": (0, 2), "shuffle": (1, 0)}.items():
            dataset = file.create_dataset(
                name, (6, 5), "<i4", chunks=(3, 5), compression="gzip", shuffle=True
            )
            dataset[...] = values
            for row, mask in zip((0, 3), masks, strict=True):
                if not mask:
                    continue
                raw: Any = values[row : row + 3].tobytes()
                if not mask & 1:  # the bytes are shuffled
                    raw = np.frombuffer(raw, "u1").reshape(-1, 4).T.tobytes()
                else:
                    raw = zlib.compress(raw)
                dataset.id.write_direct_chunk((row, 0), raw, mask)
    done = _check(tmp_path)
    assert done.inline == 2
    assert json.loads(json.loads((tmp_path / "a.json").read_text())["refs"]["every/.zarray"])[
        "compressor"
    ] == {"id": "shuffle", "elementsize": 4}


GOLDEN = HERE / "hdf5-by-hdf5plugin-7.1.0.h5"
TYPE_NAMES = ("int32", "uint16", "uint8")
REFUSED = {
    *itertools.product(("bitshuffle-lz4", "bitshuffle-zstd", "blosc2"), TYPE_NAMES),
    *itertools.product(("bitshuffle", "bitshuffle-blocks"), ("int32", "uint16")),
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    references = tmp_path_factory.mktemp("golden") / "a.json"
    return oz.reference(GOLDEN, references, inline=100_000), references


def test_filters_that_are_plugins_are_codecs(golden: tuple[Any, Path]) -> None:
    """Plugins need not be installed to refer to their chunks."""
    done, references = golden
    group = oz.open_group(references, storage_options={"allow_targets": GOLDEN.parent})
    with h5py.File(GOLDEN) as file:
        for name, kind in {*itertools.product({*file}, TYPE_NAMES)} - REFUSED:
            np.testing.assert_array_equal(group[name][kind][...], file["expected"][kind])
    assert done.inline > 0  # chunks that a filter was left out for


def test_zarr_python_reads_them_with_the_package_imagecodecs(golden: tuple[Any, Path]) -> None:
    with imagecodecs_registered():
        theirs = read_with_zarr(golden[1])
        for name, kind in {*itertools.product(theirs.group_keys(), TYPE_NAMES)} - REFUSED:
            expected = theirs[f"expected/{kind}"][...]
            np.testing.assert_array_equal(theirs[f"{name}/{kind}"][...], expected)


@pytest.mark.parametrize("inline", [0, 100_000])
def test_a_filter_without_codec_stops_only_its_dataset(tmp_path: Path, inline: int) -> None:
    done = oz.reference(GOLDEN, tmp_path / "a.json", inline=inline)
    expected = {f"{name}/{kind}" for name, kind in REFUSED}
    if not inline:
        assert expected <= {*done.skipped}
        assert "blosc2 (number 32026), which has no codec" in done.skipped["blosc2/int32"]
        assert "bitshuffle with LZ4" in done.skipped["bitshuffle-lz4/int32"]
        assert "decodes to other values" in done.skipped["bitshuffle/int32"]
    elif not h5py.h5z.filter_avail(32026):
        assert {*done.skipped} == expected
        assert all("pip install hdf5plugin" in reason for reason in done.skipped.values())


def test_missing_chunks_have_the_fill_value_of_the_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, fill in {"f4": np.nan, "i2": 7, "S3": b"ab", "c8": 1 + 2j, "bool": True}.items():
            file.create_dataset(name, (4, 4), name, chunks=(2, 2), fillvalue=fill)[0, 0] = fill
            file.create_dataset(f"{name}-none", (4, 4), name, chunks=(2, 2))
            file.create_dataset(f"{name}-late", (4, 4), name, fillvalue=fill)
    _check(tmp_path)


def test_records_arrays_and_enumerations_are_read(tmp_path: Path) -> None:
    record = np.dtype([("a", "<i2"), ("b", ">f4"), ("c", "S3")])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["record"] = np.zeros(5, record)
        file["record"][2] = (3, 4.5, b"xyz")
        colours = h5py.enum_dtype({"red": 1, "green": 2}, "u1")
        file.create_dataset("colour", data=np.array([1, 2, 1], "u1"), dtype=colours)
        inner = file.create_dataset("inner", (3,), np.dtype(("<i4", (2, 2))))
        inner[...] = np.arange(12).reshape(3, 2, 2)
    _check(tmp_path)
    attributes = oz.open_array(tmp_path / "a.json", path="colour").attrs
    assert sorted(attributes["flag_values"]) == [1, 2]


def test_small_arrays_that_cannot_be_referred_to_are_stored(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["text"] = np.array(["Grüße", "", "abc"], object)
        file.create_dataset("packed", data=np.arange(50), chunks=(10,), scaleoffset=0)
        layout = h5py.VirtualLayout((3,), "f8")
        layout[...] = h5py.VirtualSource(file.create_dataset("one", data=np.arange(3.0)))
        file.create_virtual_dataset("virtual", layout)
        space = h5py.h5t.C_S1.copy()
        space.set_size(4)
        space.set_strpad(h5py.h5t.STR_SPACEPAD)
        made = h5py.h5d.create(file.id, b"padded", space, h5py.h5s.create_simple((2,)))
        h5py.Dataset(made)[...] = np.array([b"ab", b"abcd"])
        small = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        small.set_layout(h5py.h5d.COMPACT)
        kind = h5py.h5t.NATIVE_INT32
        made = h5py.h5d.create(file.id, b"compact", kind, h5py.h5s.create_simple((4,)), small)
        h5py.Dataset(made)[...] = [1, 2, 3, 4]
        odd = h5py.h5t.STD_I32LE.copy()
        odd.set_precision(24)
        made = h5py.h5d.create(file.id, b"odd", odd, h5py.h5s.create_simple((4,)))
        h5py.Dataset(made)[...] = [1, 2, 3, -4]
    done = oz.reference(tmp_path / "a.h5", tmp_path / "a.json")
    assert not done.skipped
    for group in (oz.open_group(tmp_path / "a.json"), read_with_zarr(tmp_path / "a.json")):
        assert list(group["text"][...]) == ["Grüße", "", "abc"]
        with h5py.File(tmp_path / "a.h5") as file:
            for name in ("packed", "virtual", "padded", "compact", "odd", "one"):
                np.testing.assert_array_equal(group[name][...], file[name][...])
    refused = oz.reference(tmp_path / "a.h5", tmp_path / "b.json", inline=0)
    assert {*refused.skipped} == {"text", "packed", "virtual", "padded", "compact", "odd"}
    assert all("larger than 0 bytes" in reason for reason in refused.skipped.values())


def test_copies_have_the_missing_values_of_the_file(tmp_path: Path) -> None:
    small = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    small.set_layout(h5py.h5d.COMPACT)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in (b"whole", b"marked"):
            space = h5py.h5s.create_simple((3,))
            made = h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_INT32, space, small)
            h5py.Dataset(made)[...] = [0, 1, 5]
        file["marked"].attrs["_FillValue"] = np.int32(5)
        file["text"] = np.array(["", "a"], h5py.string_dtype())
    assert oz.reference(tmp_path / "a.h5", tmp_path / "a.json").inline == 3
    found = xr.load_dataset(oz.open_group(tmp_path / "a.json"), engine="omnizarr")
    assert found["whole"].values.tolist() == [0, 1, 5]
    np.testing.assert_array_equal(found["marked"], [0, 1, np.nan])
    assert found["text"].values.tolist() == ["", "a"]


def test_a_user_block_is_counted(tmp_path: Path) -> None:
    values = np.arange(40, dtype="<i4")
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=1024) as file:
        file.create_dataset("chunked", data=values, chunks=(16,), compression="gzip")
        file.create_dataset("plain", data=values)
    _check(tmp_path)


def test_a_large_contiguous_dataset_is_divided(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("omnizarr.integrations.files.hdf5_references._PIECE", 1000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["even"] = np.arange(1200, dtype="<i4").reshape(60, 20)
        file["prime"] = np.arange(61 * 20, dtype="<i4").reshape(61, 20)
        file["flat"] = np.arange(3000, dtype="<i2")
    _check(tmp_path)
    group = oz.open_group(tmp_path / "a.json")
    assert group["even"].chunks == (12, 20)
    assert group["prime"].chunks == (1, 20)
    assert group["flat"].chunks == (500,)


def test_netcdf_files_are_the_same_data_set_in_xarray(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.h5", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 6)
        times = file.createVariable("time", "f8", ("time",))
        times.units = "days since 2000-01-01"
        packed = file.createVariable("t", "i2", ("time", "x"), fill_value=-99, zlib=True)
        packed.scale_factor = 0.5
        plain = file.createVariable("p", "f4", ("time", "x"), chunksizes=(2, 4))
        group = file.createGroup("deep")
        group.createVariable("d", "i4", ("x",))[:] = np.arange(6)
        times[:] = np.arange(5)
        packed[:] = np.ma.masked_equal(np.arange(30).reshape(5, 6) % 7, 3)
        plain[:] = np.arange(30).reshape(5, 6)
        file.title = "test"
    oz.reference(tmp_path / "a.h5", tmp_path / "a.json")
    with xr.open_dataset(tmp_path / "a.h5", engine="netcdf4") as expected:
        with xr.open_dataset(tmp_path / "a.json", engine="omnizarr") as found:
            xr.testing.assert_identical(found.load(), expected.load())
        options = {"fo": str(tmp_path / "a.json"), "remote_protocol": "file"}
        kwargs = {"consolidated": False, "storage_options": options, "zarr_format": 2}
        with xr.open_dataset("reference://", engine="zarr", backend_kwargs=kwargs) as found:
            xr.testing.assert_identical(found.load(), expected.load())
    assert oz.open_array(tmp_path / "a.json", path="deep/d")[...].tolist() == [*range(6)]


def test_every_reference_is_the_stored_chunk(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((9, 9))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(4, 4), compression="gzip", fletcher32=True)
    oz.reference(tmp_path / "a.h5", tmp_path / "a.json")
    store = oz.storage.ReferenceStore(tmp_path / "a.json")
    with h5py.File(tmp_path / "a.h5") as file:
        for i, j in itertools.product(range(3), range(3)):
            raw = file["a"].id.read_direct_chunk((4 * i, 4 * j))[1]
            assert store.get(f"a/{i}.{j}") == bytes(raw)
