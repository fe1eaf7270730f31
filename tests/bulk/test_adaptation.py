"""Datasets of xarray in another Zarr version: the same values are missing as before."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import omnizarr as oz
import omnizarr.xarray
from tests.sampling import sample

SEEDS = range(12)
TYPES = ("i1", "u2", "i4", "f4", "f8", "c16", "?")
CHANGES = [*itertools.product(("convert", "rechunk", "view"), (2, 3)), ("in place", 3)]
CASES = sample([(seed, *change) for seed in SEEDS for change in CHANGES], 16)


def _random(seed: int, path: Path, zarr_format: int) -> dict[str, Any]:
    """Write a dataset with some chunks of one value only, and return the marks of its variables."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {"scalar": ((), np.array(rng.integers(2), "i4"))}
    encoding: dict[str, dict[str, Any]] = {"scalar": {}}
    for number, dtype in enumerate(TYPES):
        name = f"v{number}"
        values = rng.integers(0, 3, 12).astype(dtype)
        values[3:6] = rng.integers(0, 2)
        arrays[name] = ("x", values)
        encoding[name] = {"chunks": (3,)}
        choice = rng.integers(3)
        if choice:
            mark: Any = np.dtype(dtype).type(rng.integers(2))
            if np.dtype(dtype).kind in "fc" and rng.integers(2):
                mark = np.dtype(dtype).type(np.nan)
            encoding[name]["_FillValue"] = mark
        else:
            encoding[name]["_FillValue"] = None
    empty = None if zarr_format == 2 else bool(rng.integers(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xr.Dataset(arrays).to_zarr(
            path,
            zarr_format=zarr_format,  # type: ignore[arg-type]
            encoding=encoding,
            consolidated=False,
            write_empty_chunks=empty,
        )
    return {name: each.get("_FillValue") for name, each in encoding.items()}


def _changed(operation: str, path: Path, other: Path, zarr_format: int) -> tuple[Any, set[str]]:
    """Return what to open, and the variables that the report names."""
    if operation == "view":
        return oz.view_as(path, zarr_format=zarr_format), set()
    if operation == "rechunk":
        chunked = oz.rechunk(path, other, chunks={"x": 2}, zarr_format=zarr_format)
        return other, {name.strip("/") for name in chunked.notes}
    if operation == "in place":
        report = oz.convert(path, in_place=True, remove_old=True, zarr_format=zarr_format)
        return path, {name.strip("/") for name in report.notes}
    report = oz.convert(path, other, zarr_format=zarr_format, verify=True)
    assert oz.diff(path, other).equal
    return other, {name.strip("/") for name in report.notes}


def _read(place: Any, engine: str) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if engine == "omnizarr":
            return xr.load_dataset(place, engine="omnizarr")
        if not isinstance(place, Path):
            from omnizarr.interop.zarr.zarr_python import to_zarr

            place = to_zarr(place)
        return xr.open_zarr(place, consolidated=False).load()


@pytest.mark.parametrize(("seed", "operation", "new"), CASES)
def test_another_version_has_the_same_missing_values(
    tmp_path: Path, seed: int, operation: str, new: int
) -> None:
    path = tmp_path / "old.zarr"
    _random(seed, path, 5 - new)
    before = {engine: _read(path, engine) for engine in ("zarr", "omnizarr")}
    opened = oz.cf.open if new == 3 else oz.open
    found = {name: opened(path)[name][...] for name in before["zarr"].variables}
    place, noted = _changed(operation, path, tmp_path / "new.zarr", new)
    assert not noted
    for engine, expected in before.items():
        xr.testing.assert_identical(_read(place, engine), expected)
    for name, values in found.items():
        np.testing.assert_array_equal(opened(place)[name][...], values)


@pytest.mark.parametrize("operation", ["convert", "rechunk", "view"])
def test_a_time_whose_chunk_is_missing_as_it_is_zero_stays(tmp_path: Path, operation: str) -> None:
    times = np.array(["2000-01-01", "2000-01-02", "2000-01-03"], "M8[ns]")
    dataset = xr.Dataset({"v": ("x", [0, 7, 0])}, {"x": times})
    dataset.to_zarr(
        tmp_path / "a.zarr", zarr_format=3, consolidated=False,
        encoding={name: {"chunks": (1,)} for name in ("v", "x")},
    )  # fmt: skip
    assert oz.open(tmp_path / "a.zarr")["x"].nchunks_initialized == 2
    place, noted = _changed(operation, tmp_path / "a.zarr", tmp_path / "b.zarr", 2)
    assert not noted
    for engine in ("zarr", "omnizarr"):
        xr.testing.assert_identical(_read(place, engine), dataset)
    found = oz.open(place)["x"]
    assert found.nchunks_initialized == found.nchunks


def test_a_conversion_in_place_notes_what_it_cannot_store(tmp_path: Path) -> None:
    array = oz.create_array(
        tmp_path / "a.zarr", shape=4, dtype="i4", chunks=1, dimension_names=["x"],
        compressors=None, fill_value=5, chunk_key_encoding={"name": "v2", "separator": "."},
    )  # fmt: skip
    array[1] = 3
    place, noted = _changed("in place", tmp_path / "a.zarr", tmp_path / "b.zarr", 2)
    assert noted == {""}
    assert oz.open(place)[...].tolist() == [5, 3, 5, 5]


def test_an_array_without_names_of_dimensions_keeps_its_attributes(tmp_path: Path) -> None:
    oz.save(tmp_path / "a.zarr", np.arange(3), zarr_format=2)
    oz.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=3)
    oz.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", zarr_format=2)
    assert dict(oz.open(tmp_path / "b.zarr").attrs) == {}
    old, new = oz.open(tmp_path / "a.zarr"), oz.open(tmp_path / "c.zarr")
    assert (dict(new.attrs), new.fill_value) == (dict(old.attrs), old.fill_value)


def test_marks_that_the_other_version_lacks_are_named(tmp_path: Path) -> None:
    path = tmp_path / "text.zarr"
    xr.Dataset({"v": ("x", ["", "a"])}).to_zarr(
        path, zarr_format=2, encoding={"v": {"_FillValue": "a"}}, consolidated=False
    )
    report = oz.convert(path, tmp_path / "new.zarr", zarr_format=3)
    assert "'a'" in report.notes["/v"]
