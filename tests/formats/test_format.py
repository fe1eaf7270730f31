"""Dimension names are one property in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnizarr as oz
from omnizarr.formats import numpy_types
from omnizarr.model import Named

ATTRIBUTE = "_ARRAY_DIMENSIONS"
IN_ATTRIBUTES = (1, 2, "3-draft")


@pytest.mark.parametrize("zarr_format", IN_ATTRIBUTES)
def test_names_that_are_assigned_as_an_attribute_are_the_names(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    array = oz.create_array(
        store, shape=(2, 3), zarr_format=zarr_format, dimension_names=["y", "x"]
    )
    array.attrs[ATTRIBUTE] = ["lat", "lon"]
    array.attrs["other"] = 1
    assert array.dimension_names == oz.open(store).dimension_names == ("lat", "lon")
    del array.attrs[ATTRIBUTE]
    assert array.dimension_names is oz.open(store).dimension_names is None
    assert dict(oz.open(store).attrs) == {"other": 1}


@pytest.mark.parametrize("zarr_format", IN_ATTRIBUTES)
@pytest.mark.parametrize("names", [["x"], ["y", 1], "yx", None])
def test_names_that_do_not_fit_are_not_written(zarr_format: Any, names: Any) -> None:
    array = oz.create_array({}, shape=(2, 3), zarr_format=zarr_format, dimension_names="yx")
    with pytest.raises(oz.InvalidMetadata, match=ATTRIBUTE):
        array.attrs[ATTRIBUTE] = names
    assert array.dimension_names == ("y", "x")
    with pytest.raises(oz.InvalidMetadata, match=ATTRIBUTE):
        oz.create_array({}, shape=(2, 3), zarr_format=zarr_format, attributes={ATTRIBUTE: names})


def test_in_version_3_the_attribute_is_one_like_others() -> None:
    array = oz.create_array({}, shape=(2, 3), zarr_format=3, dimension_names="yx")
    array.attrs[ATTRIBUTE] = ["lat"]
    assert array.dimension_names == ("y", "x")


@pytest.mark.filterwarnings("ignore::omnizarr.OmnizarrWarning")
@pytest.mark.parametrize("zarr_format", [2, "3-draft", 3])
def test_names_that_do_not_fit_stop_no_copy(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, data=[[1, 2]], path="a", zarr_format=2)
    store["a/.zattrs"] = b'{"_ARRAY_DIMENSIONS": ["x"], "other": 1}'
    target = oz.create_group({}, zarr_format=zarr_format)
    oz.convert(store, target.store, zarr_format=zarr_format, overwrite=True)
    assert oz.open(target.store)["a"][...].tolist() == [[1, 2]]
    array = oz.open(store, "r+", path="a")
    array.attrs["more"] = 2
    array.resize(2, 2)
    assert array.shape == (2, 2)


@pytest.mark.parametrize("zarr_format", [1, 2, "3-draft"])
def test_chunk_keys_that_a_format_does_not_have_are_refused(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    for given in ("default", {"name": "of.others"}, ("default", "/")):
        with pytest.raises(oz.CannotExpress, match="chunk_key_encoding: zarr"):
            oz.create_array(
                store, shape=2, dtype="u1", zarr_format=zarr_format, chunk_key_encoding=given
            )
    assert store == {}


def test_n5_is_refused_by_its_name_and_nothing_is_written_over_it(tmp_path: Path) -> None:
    (tmp_path / "cells.n5").mkdir()
    (tmp_path / "cells.n5" / "attributes.json").write_text('{"n5": "4.0.0"}')
    for store in (tmp_path / "cells.n5", {"attributes.json": b"{}"}):
        with pytest.raises(oz.NodeNotFound, match="it is N5, which omnizarr does not read: tensor"):
            oz.open(store)
        with pytest.raises(oz.NodeExists, match="attributes"):
            oz.create_array(store, shape=3, overwrite=True)


def test_a_type_without_a_name_has_no_byte_order() -> None:
    assert numpy_types.byte_orders(Named("", {"length_bytes": 2})) == set()
