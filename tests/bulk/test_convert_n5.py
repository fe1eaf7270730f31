"""Conversion of N5 hierarchies to the other formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.formats.n5_writer import COMPRESSIONS, write
from tests.formats.test_n5 import SCALES, VALUES, hierarchy


@pytest.mark.parametrize("target", [2, 3, "3-draft"])
def test_values_groups_and_attributes_are_converted(target: int | str) -> None:
    source, made = hierarchy(), dict[str, bytes]()
    report = oz.convert(source, made, zarr_format=target)
    assert (report.arrays, report.foreign) == (2, [])
    old, new = oz.open(source), oz.open(made)
    assert str(new.zarr_format) == str(target)
    assert new.attrs == {"title": "cells"}
    assert new["setup0"].attrs == SCALES
    assert new["setup0/s0"].attrs == {"unit": "nm"}
    assert {name for name, _ in new.members(None)} == {name for name, _ in old.members(None)}
    for name, array in old.members(None):
        if isinstance(array, oz.Array):
            assert np.array_equal(new[name][...], array[...])
            assert new[name].chunks == array.chunks
    assert not any(c.name == "n5_default" for c in new["setup0/s0"].codecs)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_arrays_of_every_compression_are_converted(name: str, tmp_path: Path) -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["z", "y", "x"], "a": 1}
    made = tmp_path / "new.zarr"
    oz.convert(write(VALUES, (4, 2, 2), name, attributes=attributes), made, verify=True)
    array = oz.open(made)
    assert np.array_equal(array[...], VALUES)
    assert array.attrs == {"a": 1}
    assert array.dimension_names == ("z", "y", "x")


def test_missing_blocks_stay_missing() -> None:
    source, made = write(VALUES, (4, 2, 2)), dict[str, bytes]()
    del source["0/1/0"]
    oz.convert(source, made)
    assert "c/0/1/0" not in made
    assert len(made) == len(source)


def test_arrays_and_hierarchies_are_rechunked(tmp_path: Path) -> None:
    source = hierarchy()
    oz.rechunk(source, tmp_path / "all.zarr", chunks=2)
    old, new = oz.open(source), oz.open(tmp_path / "all.zarr")
    assert (new.zarr_format, new.attrs) == (3, {"title": "cells"})
    assert new["setup0"].attrs == SCALES
    assert {name for name, _ in new.members(None)} == {name for name, _ in old.members(None)}
    for name, array in old.members(None):
        if isinstance(array, oz.Array):
            np.testing.assert_array_equal(new[name][...], array[...])
            assert new[name].chunks == tuple(min(2, n) for n in array.shape)
    one = tmp_path / "one.zarr"
    with oz.configure(zarr_format=2):
        oz.rechunk(old["setup0/s0"], one, chunks=old["setup0/s0"].chunks)
    assert oz.open(one).zarr_format == 2
    np.testing.assert_array_equal(oz.open(one)[...], VALUES)
    with pytest.raises(oz.ReadOnly, match="N5 is read but never written"):
        oz.rechunk(source, in_place=True, chunks=2)


def test_rechunked_arrays_keep_no_copy_of_dimension_names(tmp_path: Path) -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["z", "y", "x"], "a": 1}
    oz.rechunk(
        write(VALUES, (4, 2, 2), attributes=attributes), tmp_path / "a.zarr", chunks={"x": 1}
    )
    array = oz.open(tmp_path / "a.zarr")
    assert (array.dimension_names, array.attrs) == (("z", "y", "x"), {"a": 1})
    assert array.chunks[-1] == 1


def test_copies_have_the_same_keys(tmp_path: Path) -> None:
    source = hierarchy()
    oz.copy(source, tmp_path / "all")
    found = {
        str(p.relative_to(tmp_path / "all")): p.read_bytes()
        for p in (tmp_path / "all").rglob("*")
        if p.is_file()
    }
    assert found == source
