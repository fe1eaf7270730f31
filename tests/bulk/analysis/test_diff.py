"""Differences are exactly those that were made, whatever the formats, chunks and codecs."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk import tiles
from omnizarr.bulk.analysis.diff import DiffReport
from omnizarr.testing import RecordingStore
from tests.property.strategies import FORMATS, bits, described, filled, values


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_changed_elements_of_any_array_are_found_exactly(
    format: int | str, data: st.DataObject
) -> None:
    array = data.draw(described(format, most=5, shards=True))
    content = filled(data.draw(values(array.dtype, array.shape)), array.dtype, array.shape)
    a = array.create({})
    a[...] = content
    same_codecs = data.draw(st.booleans())
    more: dict[str, Any] = {}
    if not same_codecs:
        more["chunks"] = tuple(data.draw(st.integers(1, n + 1)) for n in array.shape)
        if "shards" in array.options:
            more["shards"] = None
    b = array.create({}, **more)
    b[...] = content
    memory = data.draw(st.sampled_from([1, 3000, None]))
    found = oz.diff(a, b, memory=memory)
    assert found.equal
    assert found.values["/"].size == content.size
    assert found.metadata == []
    if same_codecs:
        assert found.storage == []
    assume(content.size)
    index = tuple(data.draw(st.integers(0, n - 1)) for n in array.shape)
    value = data.draw(values(array.dtype, ()))
    before = filled(content[index], array.dtype)
    after = filled(value, array.dtype)
    b[index] = value
    changed = oz.diff(a, b, memory=memory)
    if bits(before) == bits(after):
        assert changed.equal
    elif array.dtype.kind in "fc" or array.dtype.kind in "mM":
        with np.errstate(invalid="ignore"):  # some processors raise the flag for complex NaN
            same = bool(before == after) or bool((before != before) and (after != after))
        assert changed.equal == same
    if not changed.equal:
        (row,) = changed.values["/"].first
        assert (changed.values["/"].different, row[0]) == (1, list(index))
    again = DiffReport.from_json(changed.to_json())
    assert again == changed or "nan" in str(changed).lower()


def test_records_with_times_beyond_the_years_of_numpy_are_compared() -> None:
    """NumPy 2.5 raises an error for the text of such times."""
    zeros = np.zeros(2, [("a", "?"), ("times", "<M8[7Y]", (2,))])
    times = zeros.copy()
    times["times"][1, 0] = np.array(0x13 << 56, "<M8[7Y]")
    a, b = (oz.create_array({}, data=data, zarr_format=2) for data in (zeros, times))
    (row,) = oz.diff(a, b).values["/"].first
    assert row[:2] == [[1], "(False, \"['1970' '1970']\")"]


def make(where: Any, **options: Any) -> oz.Group:
    group = oz.create_group(where, **options)
    group.attrs.update({"title": "one", "nested": {"list": [1, 2, {"deep": None}]}})
    group.create_array(
        "a", data=np.arange(600.0).reshape(20, 30), chunks=(7, 30), dimension_names=("y", "x")
    )
    group["deep/b"] = np.arange(10, dtype="i2")
    group["deep/text"] = np.array(["x", "yy"])
    group.create_array("deep/sparse", shape=(1000,), chunks=(2,), dtype="u1", fill_value=3)
    group["deep/sparse"][500] = 9
    return group


@pytest.mark.parametrize("source", [2, 3])
@pytest.mark.parametrize("target", [2, "3-draft", 3])
def test_a_conversion_differs_in_storage_only(tmp_path: Path, source: Any, target: Any) -> None:
    make(tmp_path / "a.zarr", zarr_format=source)
    oz.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=target)
    found = oz.diff(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert str(found) == "no differences"
    assert len(found.values) == 4
    assert bool(found.storage) == (source != target)


EDITS = {
    "attribute": lambda g: g.attrs.update(title="two"),
    "nested": lambda g: g.attrs.update(nested={"list": [1, 2, {"deep": 0}]}),
    "value": lambda g: g["a"].__setitem__((3, 4), -1),
    "group": lambda g: g.create_group("deep/new"),
    "missing": lambda g: g.__delitem__("deep/text"),
    "kind": lambda g: (g.__delitem__("deep/b"), g.create_group("deep/b")),
    "shape": lambda g: g["deep/sparse"].resize(1001),
    "sparse": lambda g: g["deep/sparse"].__setitem__(0, 4),
}
EXPECTED = {
    "attribute": ("metadata", "/", "attributes.title"),
    "nested": ("metadata", "/", "attributes.nested.list[2].deep"),
    "value": ("values", "/a", [[[3, 4], 94.0, -1.0]]),
    "group": ("only_b", "/deep/new", None),
    "missing": ("only_a", "/deep/text", None),
    "kind": ("metadata", "/deep/b", "kind"),
    "shape": ("metadata", "/deep/sparse", "shape[0]"),
    "sparse": ("values", "/deep/sparse", [[[0], 3, 4]]),
}


@pytest.mark.parametrize("seed", range(12))
def test_edits_of_a_hierarchy_are_found_exactly(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed).sample(sorted(EDITS), seed % 5 + 1)
    if {"shape", "sparse"} <= set(chosen):
        chosen.remove("sparse")  # values of different shapes are not compared
    make(tmp_path / "a.zarr", zarr_format=2 + seed % 2)
    group = make(tmp_path / "b.zarr")
    for name in chosen:
        EDITS[name](group)
    found = oz.diff(tmp_path / "a.zarr", tmp_path / "b.zarr")
    facts = {("metadata", d.path, d.where) for d in found.metadata}
    facts |= {("only_a", path, None) for path in found.only_a}
    facts |= {("only_b", path, None) for path in found.only_b}
    facts |= {("values", path, str(found.values[path].first)) for path in found.different}
    expected = {(k, p, str(w) if k == "values" else w) for k, p, w in map(EXPECTED.get, chosen)}
    assert facts == expected
    assert not found.equal


def test_tiles_whose_chunks_are_missing_in_both_are_not_requested() -> None:
    stores = [RecordingStore(oz.storage.MemoryStore()) for _ in range(2)]
    for store in stores:
        array = oz.create_array(
            store, shape=(10**6, 10**6), chunks=(10, 10), dtype="u1", fill_value=7
        )
        array[500:510, :20] = 1
        store.calls.clear()
    found = oz.diff(*stores)
    assert found.equal
    assert found.values["/"].size == 10**12
    keys = [key for call in stores[0].calls for key in call.keys if key.startswith("c/")]
    assert len(keys) <= 2 * tiles.TILE_CHUNKS


@pytest.mark.parametrize("chunks", [(7,), (5,)])
def test_tolerances_are_those_of_numpy(chunks: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.normal(size=200) * 1e-3
    x[:3], y[:3] = [np.nan, np.inf, 1], [np.nan, np.inf, np.inf]
    a, b = oz.create_array(data=x, chunks=7), oz.create_array(data=y, chunks=chunks)
    for rtol, atol in ((0, 0), (1e-3, 0), (0, 1e-3), (1e-3, 1e-3), (1, 1)):
        for equal_nan in (True, False):
            found = oz.diff(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).values["/"]
            close = np.isclose(x, y, rtol, atol, equal_nan)
            assert found.different == (~close).sum()
            assert [row[0][0] for row in found.first] == np.flatnonzero(~close)[:10].tolist()
    finite = np.isfinite(x) & np.isfinite(y)
    assert found.max_absolute == pytest.approx(np.abs(x[finite] - y[finite]).max())


def test_values_of_other_number_types_are_compared() -> None:
    a = oz.create_array(data=np.array([1, 2, 2**63 + 5], "u8"))
    b = oz.create_array(data=np.array([1, 3, 2**62], "i8"))
    found = oz.diff(a, b)
    assert [d.where for d in found.metadata] == ["data_type"]
    assert [row[0] for row in found.values["/"].first] == [[1], [2]]


@pytest.mark.parametrize("fills", [(0.0, math.nan), ("x" * 40, "y" * 40)])
def test_fill_values_that_differ_are_seen_in_missing_chunks(fills: tuple[Any, Any]) -> None:
    options: dict[str, Any] = {"shape": 9999, "chunks": 2, "dtype": type(fills[0])}
    a, b = (oz.create_array({}, fill_value=fill, **options) for fill in fills)
    found = oz.diff(a, b)
    assert [(d.where, d.a) for d in found.metadata] == [("fill_value", fills[0])]
    assert found.values["/"].different == 9999


def test_nodes_are_compared_at_different_paths() -> None:
    group = oz.create_group({})
    group["x"], group["y/z"] = np.arange(3), np.arange(3)
    assert oz.diff(group["x"], group["y/z"]).equal
    assert oz.diff(group, group, path="x", other_path="y/z").equal
    assert not oz.diff(group, group, path="x", other_path="y").equal


def test_a_node_that_cannot_be_read_is_not_called_equal(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a"), make(tmp_path / "b")
    b.store.set("deep/b/zarr.json", b"{}")
    found = oz.diff(a, b)
    assert (found.equal, list(found.not_compared)) == (False, ["/deep/b"])


def test_only_metadata_is_compared_on_request(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a"), make(tmp_path / "b")
    b["a"][...] = 0
    assert oz.diff(a, b, values=False).equal
    assert not oz.diff(a, b).equal


def test_first_differences_are_in_order_and_limited(tmp_path: Path) -> None:
    a = oz.create_array(shape=(40, 40), chunks=(3, 3))
    b = oz.create_array({}, shape=(40, 40), chunks=(4, 40), dtype="f8", fill_value=0)
    b[...] = 1
    found = oz.diff(a, b, show=5, memory=1)
    assert [row[0] for row in found.values["/"].first] == [[0, i] for i in range(5)]
    text = str(found).splitlines()
    assert text[0] == ("/: 1600 of 1600 values differ by at most 1 (1 relative)")
    assert text[-1] == "  … and 1595 more"


def test_negative_tolerances_are_refused() -> None:
    with pytest.raises(oz.InvalidArgument):
        oz.diff(oz.create_array(shape=3), oz.create_array(shape=3), rtol=-1)


def test_comparisons_of_different_nodes_have_different_journals(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    for name in "xyz":
        group.create_array(name, data=np.arange(4))
    where = str(tmp_path / "a.zarr")
    digests = [
        oz.jobs.Diff(where, where, path=path, other_path=other).plan().digest
        for path, other in (("x", "y"), ("x", "z"), ("y", "x"))
    ]
    assert len({*digests}) == 3
