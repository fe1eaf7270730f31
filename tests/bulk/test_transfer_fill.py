"""Filling arrays by boxes: casts that lose nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from omnizarr.bulk.transfer import cast

KINDS = st.sampled_from(["u1", "i1", "u2", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?"])


@given(values=KINDS.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(max_dims=2))), to=KINDS)
def test_a_cast_keeps_integers_exactly_or_raises(values: Any, to: str) -> None:
    try:
        found = cast(values, np.dtype(to), "/a")
    except oz.InvalidArgument as e:
        assert "/a" in str(e)  # noqa: PT017
        return
    assert found.dtype == to
    if to[0] in "iu?":
        np.testing.assert_array_equal(found.astype(object), values.astype(object))
    elif values.dtype.kind == "f":
        infinite = np.isinf(values)
        assert np.array_equal(np.isinf(found), infinite)


def test_fractions_are_not_cut_off() -> None:
    with pytest.raises(oz.InvalidArgument, match=r"/a has the type float64, which cannot be cast"):
        cast(np.array([1.5]), np.dtype("i4"), "/a")


def _exported(source: Path, folder: Path, dtype: str) -> Any:
    oz.export_file(source, folder / "b.nc", dtype=dtype)
    oz.import_file(folder / "b.nc", folder / "c.zarr")
    return oz.cf.open(folder / "c.zarr")["v"]


def _imported(source: Path, folder: Path, dtype: str) -> Any:
    oz.export_file(source, folder / "b.nc")
    oz.import_file(folder / "b.nc", folder / "c.zarr", dtype=dtype)
    return oz.cf.open(folder / "c.zarr")["v"]


def _rechunked(source: Path, folder: Path, dtype: str) -> Any:
    oz.rechunk(source, folder / "c.zarr", dtype=dtype, chunks={"x": 2})
    return oz.cf.open(folder / "c.zarr")["v"]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i8", "f4"])
@pytest.mark.parametrize(("stored", "unsigned"), [("i1", "true"), ("u1", "false"), ("i1", None)])
@pytest.mark.parametrize("cast", [_exported, _imported, _rechunked])
def test_no_cast_changes_the_numbers_that_unsigned_means(
    tmp_path: Path, cast: Any, stored: str, unsigned: str | None, dtype: str
) -> None:
    root = oz.create_group(tmp_path / "a.zarr")
    attributes = {} if unsigned is None else {"_Unsigned": unsigned}
    values = np.array([254, 3, 4], "u1").view(stored)
    root.create_array("v", data=values, dimension_names=["x"], attributes=attributes)
    expected = oz.cf.open(root)["v"][...]
    try:
        found = cast(tmp_path / "a.zarr", tmp_path, dtype)
    except oz.InvalidArgument as e:
        assert dtype != stored
        assert "_Unsigned" in str(e) or "u" in (dtype[0], stored[0])  # noqa: PT017
    else:
        np.testing.assert_array_equal(found[...].astype("f8"), expected.astype("f8"))
