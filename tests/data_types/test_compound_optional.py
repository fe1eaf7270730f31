"""Optional data types: fill values, and masked arrays as users read and write them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr as oz


def optional(inner: str, **configuration: Any) -> dict[str, Any]:
    members = {"name": inner, "configuration": configuration}
    return {"name": "zarrs.optional", "configuration": members}


def make(inner: Any = "int16", **options: Any) -> oz.Array:
    options = {"shape": 6, "chunks": 4, **options}
    dtype = optional(inner) if isinstance(inner, str) else inner
    return oz.create_array({}, dtype=dtype, **options)


def stated(array: oz.Array) -> Any:
    return array.metadata.to_dict()["fill_value"]


@pytest.mark.parametrize(
    ("inner", "value", "json_"),
    [
        ("uint8", None, None),
        ("uint8", 42, [42]),
        ("bool", True, [True]),
        ("float32", np.nan, ["NaN"]),
        ("float64", -1.5, [-1.5]),
        ("complex64", 1 + 2j, [[1.0, 2.0]]),
        ("string", "", [""]),
        ("string", None, None),
        ("bytes", b"\1\2", ["AQI="]),
    ],
)
def test_fill_values_are_null_or_a_list_of_one(inner: str, value: Any, json_: Any) -> None:
    array = make(inner, fill_value=value)
    assert stated(array) == json_
    again = oz.open(array.store)
    np.testing.assert_equal(again.fill_value, value)
    found = again[...]
    assert isinstance(found, np.ma.MaskedArray)
    assert np.ma.getmaskarray(found).all() == (value is None)
    if value is not None:
        np.testing.assert_equal(found[2], value)
        np.testing.assert_equal(found.fill_value, value)


@pytest.mark.parametrize("wrong", [5, [], [1, 2], {}, [None], ["x"], [300]])
def test_other_fill_values_are_refused(wrong: Any) -> None:
    store: dict[str, Any] = {}
    oz.create_array(store, shape=3, dtype=optional("uint8"))
    document = json.loads(store["zarr.json"])
    document["fill_value"] = wrong
    store["zarr.json"] = json.dumps(document).encode()
    with pytest.raises(oz.InvalidMetadata, match="fill_value"):
        oz.open(store, kind="array")


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (optional("int16"), "a masked array has one mask"),
        ({"name": "struct", "configuration": {"fields": [["x", "int8"]]}}, "each field"),
    ],
)
def test_nested_optionals_are_refused_with_a_reason_but_open(inner: Any, reason: str) -> None:
    store: dict[str, Any] = {}
    oz.create_array(store, shape=3, dtype="u1")
    document = json.loads(store["zarr.json"])
    document |= {"data_type": {"name": "zarrs.optional", "configuration": inner}}
    document |= {"fill_value": None}
    store["zarr.json"] = json.dumps(document).encode()
    array = oz.open(store)
    assert array.shape == (3,)
    with pytest.raises(oz.UnknownExtension, match=reason):
        array[...]
    with pytest.raises(oz.UnknownExtension, match="one mask"):
        oz.create_array(
            {}, shape=3, dtype={"name": "zarrs.optional", "configuration": optional("u1")}
        )


def test_a_masked_array_is_stored_with_its_mask() -> None:
    array = make()
    assert array.dtype == np.dtype("i2")
    assert array.fill_value is None
    values = np.ma.array([1, 2, 3, 4, 5, 6], mask=[0, 1, 0, 0, 0, 1])
    array[...] = values
    assert array[...].tolist() == [1, None, 3, 4, 5, None]
    assert array[1] is np.ma.masked
    assert array[2] == 3
    assert type(array[2]) is np.int16
    assert [*array] == [1, np.ma.masked, 3, 4, 5, np.ma.masked]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, [None] * 3),
        (np.ma.masked, [None] * 3),
        (7, [7, 7, 7]),
        ([1, None, 3], [1, None, 3]),
        ([1, np.ma.masked, 3], [1, None, 3]),
        (np.array([1, 2, 3]), [1, 2, 3]),
        (np.array([1.0, None, 3], object), [1, None, 3]),
        (np.ma.array([9, 9, 9]), [9, 9, 9]),
        (np.ma.array(5, mask=True), [None] * 3),
    ],
)
def test_values_are_assigned_in_many_forms(value: Any, wanted: list[Any]) -> None:
    array = make()
    array[...] = 0
    array[1:4] = value
    assert array[...].tolist() == [0, *wanted, 0, 0]


def test_every_way_to_select_gives_masked_arrays() -> None:
    array = make(shape=(4, 6), chunks=(2, 4))
    wanted = np.ma.array(
        np.arange(24).reshape(4, 6), "i2", mask=np.arange(24).reshape(4, 6) % 5 == 2
    )
    array[...] = wanted
    mask = np.ma.getmaskarray(wanted).copy()
    pairs = [
        (array[1:, ::2], wanted[1:, ::2]),
        (array.oindex[[3, 0], [1, 2]], wanted[[3, 0]][:, [1, 2]]),
        (array.vindex[[3, 0], [1, 2]], wanted[[3, 0], [1, 2]]),
        (array.vindex[mask], wanted[mask]),
        (array.blocks[1, 0], wanted[2:4, :4]),
        (array.read((slice(1, 3), 2)), wanted[1:3, 2]),
        (array.view[1:, ::2].T.read(), wanted[1:, ::2].T),
        (array.view[:, 2][...], wanted[:, 2]),
        (array.astype("f8")[2], wanted[2].astype("f8")),
        (array.with_config({"order": "F"})[...], wanted),
    ]
    for found, expected in pairs:
        assert isinstance(found, np.ma.MaskedArray)
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()
    array.view[1].T[...] = np.ma.masked
    assert array[1].mask.all()
    out = np.ma.zeros((4, 6), "i2")
    assert array.read(out=out) is out
    assert out.tolist() == array[...].tolist()


def test_what_a_plain_array_cannot_express_is_an_error_not_a_value() -> None:
    array = make(shape=3)
    array[...] = [1, 2, 3]
    assert np.asarray(array).tolist() == [1, 2, 3]
    array[1] = None
    for attempt in (
        lambda: np.asarray(array),
        lambda: np.asarray(array.view[...]),
        lambda: array.read(out=np.zeros(3, "i2")),
        lambda: oz.create_array({}, data=array, dtype="i2"),
    ):
        with pytest.raises(oz.CannotExpress, match="1 of 3 elements are missing"):
            attempt()
    assert array[...].filled(-1).tolist() == [1, -1, 3]


def test_arrays_grow_and_are_appended_to() -> None:
    array = make(shape=2, chunks=3, fill_value=9)
    array[...] = [1, None]
    array.append(np.ma.array([3, 4], mask=[True, False]))
    array.resize(6)
    assert array[...].tolist() == [1, None, None, 4, 9, 9]
    with array.writer() as writer:
        writer[4] = np.ma.masked
    assert array[4] is np.ma.masked


def test_missing_elements_survive_copies_and_other_chunks(tmp_path: Any) -> None:
    source = oz.create_array(tmp_path / "a.zarr", shape=10, chunks=4, dtype=optional("float32"))
    source[...] = np.ma.array(np.arange(10), mask=np.arange(10) % 3 == 1)
    source[4:8] = None
    wanted = source[...].tolist()
    oz.copy(tmp_path / "a.zarr", tmp_path / "b.zarr")
    oz.rechunk(tmp_path / "a.zarr", tmp_path / "c.zarr", chunks=3)
    oz.convert(tmp_path / "a.zarr", tmp_path / "d.zarr", zarr_format=3)
    oz.create_array(tmp_path / "e.zarr", data=source)
    for name in "bcde":
        found = oz.open(tmp_path / f"{name}.zarr")
        assert found[...].tolist() == wanted
        assert found.dtype == np.dtype("f4")
        assert oz.diff(source, found).equal
    source[0] = None
    assert len(oz.diff(source, found).different) == 1


def test_version_2_stores_them_as_records(tmp_path: Any) -> None:
    source = oz.create_array(tmp_path / "a.zarr", shape=3, dtype=optional("float32"))
    source[...] = [1, None, 3]
    report = oz.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    assert "zarrs.optional" in report.encoded["/"]
    found = oz.open(tmp_path / "b.zarr")
    assert found["data"].tolist() == [1, 0, 3]
    assert found["mask"].tolist() == [False, True, False]


def test_dask_gets_masked_blocks() -> None:
    pytest.importorskip("dask")
    array = make(shape=6, chunks=2)
    array[...] = [1, None, 3, None, None, 6]
    assert array.to_dask().compute().tolist() == array[...].tolist()
