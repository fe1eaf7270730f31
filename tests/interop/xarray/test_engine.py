"""The xarray engine reads and writes the same as xarray does through zarr-python."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import omnizarr as oz
import omnizarr.xarray as ozx
from omnizarr.errors import Conflict
from omnizarr.testing import RecordingStore
from tests.memory import peak

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:zarr")


def climate(days: int = 6, first: str = "2000-01-01") -> xr.Dataset:
    """Return a dataset with times, text, packed numbers and missing values."""
    random = np.random.default_rng(days)
    dataset = xr.Dataset(
        {
            "t": (("time", "lat"), random.random((days, 4), np.float32), {"units": "K"}),
            "packed": (("time", "lat"), random.integers(0, 99, (days, 4)) / 2),
            "counts": ("lat", [0, 1, 2, 3]),
            "flags": ("lat", [True, False, True, True]),
            "fixed": ("lat", np.array(["a", "bb", "", "dddd"])),
            "raw": ("lat", np.array([b"a", b"bb", b"c", b"d"])),
            "lag": ("lat", pd.to_timedelta([1, 2, 3, 4], unit="h")),
            "wave": ((), 1 + 2j),
        },
        coords={
            "time": pd.date_range(first, periods=days),
            "lat": [1.0, 2, 3, 4],
            "place": ("lat", ["w", "x", "y", "z"]),
        },
        attrs={"title": "made up", "version": np.float32(2), "range": np.array([1, 2])},
    )
    dataset["packed"][-1, 2] = np.nan
    dataset["packed"].encoding = {
        "scale_factor": 0.5, "add_offset": 5.0, "dtype": "i2", "_FillValue": -99,
    }  # fmt: skip
    return dataset


def with_text(dataset: xr.Dataset) -> xr.Dataset:
    """Return the same with variable-length text, which the draft cannot store."""
    return dataset.assign(text=("lat", np.array(["a", "ä€", "", "x" * 50], object)))


def opened(path: Any, engine: str = "omnizarr", **options: Any) -> xr.Dataset:
    with xr.open_dataset(path, engine=engine, **options) as dataset:
        return dataset.load()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
def test_a_dataset_of_zarr_python_reads_the_same(
    tmp_path: Path, zarr_format: Any, consolidated: bool
) -> None:
    data = with_text(climate())
    data.to_zarr(tmp_path / "x.zarr", zarr_format=zarr_format, consolidated=consolidated)
    theirs = opened(tmp_path / "x.zarr", "zarr", consolidated=consolidated)
    for given in (consolidated, None):
        ours = opened(tmp_path / "x.zarr", consolidated=given)
        xr.testing.assert_identical(ours, theirs)
        for name in ours.variables:
            for key in ("units", "calendar", "scale_factor", "_FillValue", "chunks"):
                assert repr(ours[name].encoding.get(key)) == repr(theirs[name].encoding.get(key))


@pytest.mark.parametrize("zarr_format", [2, 3, "3-draft"])
def test_datasets_round_trip_in_every_format(tmp_path: Path, zarr_format: Any) -> None:
    draft = zarr_format == "3-draft"  # which zarr-python does not read
    data = climate() if draft else with_text(climate())
    group = ozx.write(data, tmp_path / "x", zarr_format=zarr_format)
    assert group.zarr_format == zarr_format
    for engine in ("omnizarr",) if draft else ("omnizarr", "zarr"):
        xr.testing.assert_identical(opened(tmp_path / "x", engine), data)
    other = 2 if zarr_format == 3 else 3
    opened(tmp_path / "x").omnizarr.to(tmp_path / "y", zarr_format=other)
    xr.testing.assert_identical(opened(tmp_path / "y"), data)


@pytest.mark.parametrize("zarr_format", [1, 2, 3, "3-draft"])
def test_a_single_array_is_a_dataset_of_one_variable(tmp_path: Path, zarr_format: Any) -> None:
    path = tmp_path / "ocean.zarr"
    array = oz.create_array(path, data=np.ones((3, 4)), zarr_format=zarr_format, fill_value=9)
    array.attrs["units"] = "m"
    found = opened(path)
    assert list(found.variables) == ["ocean"]
    assert found.ocean.dims == ("ocean_dim_0", "ocean_dim_1")
    assert found.ocean.attrs == {"units": "m"}
    np.testing.assert_array_equal(found.ocean, array[...])


def test_only_the_chunks_that_are_needed_are_read() -> None:
    values = np.arange(100.0).reshape(10, 10)
    store = RecordingStore(oz.storage.MemoryStore())
    data = xr.Dataset({"t": (("y", "x"), values)})
    data.omnizarr.to(store, encoding={"t": {"chunks": (5, 5)}})
    dataset = xr.open_dataset(store, engine="omnizarr")
    points = {"y": xr.DataArray([0, 9], dims="p"), "x": xr.DataArray([0, 9], dims="p")}
    for indices, chunks in (
        ({}, set()),
        ({"y": 3, "x": slice(0, 5)}, {"t/c/0/0"}),
        ({"y": slice(None, None, -3), "x": [7, 6]}, {"t/c/0/1", "t/c/1/1"}),
        (points, {"t/c/0/0", "t/c/1/1"}),
    ):
        part = dataset.t.isel(indices)  # type: ignore[arg-type]
        store.calls.clear()
        if indices:
            xr.testing.assert_equal(part.load(), data.t.isel(indices))  # type: ignore[arg-type]
        assert {k for call in store.calls for k in call.keys if "/c/" in k} == chunks


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("blocks", "stored"),
    [
        ({"t": -1}, (12, 4)),
        ({"t": 6, "x": 2}, (6, 2)),
        ({"t": 5}, (5, 4)),
        ({}, (3, 4)),  # those of the file
        ({"t": (2, 3, 7)}, (3, 4)),  # which no regular grid has
    ],
)
def test_blocks_count_more_than_the_chunks_of_the_file(
    tmp_path: Path, zarr_format: int, blocks: dict[str, Any], stored: tuple[int, ...]
) -> None:
    """D7: ``ds.chunk(time=-1).omnizarr.to()`` kept the old chunks silently."""
    data = xr.Dataset({"a": (("t", "x"), np.arange(84.0).reshape(12, 7))})
    data.omnizarr.to(tmp_path / "old", encoding={"a": {"chunks": (3, 4)}}, zarr_format=zarr_format)
    old = xr.open_dataset(tmp_path / "old", engine="omnizarr", chunks={}).chunk(blocks)
    new = old.omnizarr.to(tmp_path / "new", zarr_format=zarr_format)
    assert new["a"].chunks == stored
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "new", engine="omnizarr"), data)
    asked = old.omnizarr.to(tmp_path / "asked", encoding={"a": {"chunks": (4, 7)}})
    assert asked["a"].chunks == (4, 7)
    own = old.copy()
    own.a.encoding["chunks"] = (2, 2)  # somebody asked for these too
    assert own.omnizarr.to(tmp_path / "own", zarr_format=zarr_format)["a"].chunks == (2, 2)
    part = old.isel(t=slice(0, 2))  # a part of one chunk; more may be appended
    if blocks == {}:
        assert part.omnizarr.to(tmp_path / "part")["a"].chunks == (3, 4)


@pytest.mark.parametrize(
    ("blocks", "chunks", "shards"),
    [(6, (2,), (6,)), (2, (2,), (6,)), (4, (2,), (4,)), (5, (2,), (6,)), (1, (1,), None)],
)
def test_blocks_become_shards_where_the_file_has_some(
    blocks: int, chunks: tuple[int, ...], shards: tuple[int, ...] | None
) -> None:
    """D7."""
    store: dict[str, bytes] = {}
    data = xr.Dataset({"a": ("x", np.arange(12))})
    data.omnizarr.to(store, encoding={"a": {"chunks": (2,), "shards": (6,)}})
    old = xr.open_dataset(store, engine="omnizarr", chunks={}).chunk(x=blocks)
    new = old.omnizarr.to({})
    assert (new["a"].chunks, new["a"].shards) == (chunks, shards)
    assert new["a"][...].tolist() == [*range(12)]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_text_of_any_length_is_stored_as_such(zarr_format: int, lazy: bool, missing: bool) -> None:
    """D11b: it became fixed-length text; xarray's own `to_zarr` stores `string` too."""
    kind = np.dtypes.StringDType(na_object=None) if missing else np.dtypes.StringDType()
    text = ["a", None if missing else "", "longer", "ü"]
    data = xr.Dataset({"s": ("x", np.array(text, kind))})
    given = data.chunk(x=3) if lazy else data
    store: dict[str, bytes] = {}
    found = given.omnizarr.to(store, zarr_format=zarr_format)["s"]
    assert found.dtype == np.dtypes.StringDType()
    assert found[...].tolist() == ["a", "", "longer", "ü"]
    longer = given.omnizarr.to(store, append_dim="x")["s"]
    assert longer[...].tolist() == ["a", "", "longer", "ü"] * 2
    fixed = xr.Dataset({"s": ("x", np.array(["abcdef"]))})
    old: dict[str, bytes] = {}
    fixed.omnizarr.to(old)
    assert given.omnizarr.to(old, append_dim="x")["s"][...].tolist()[1:] == found[:4].tolist()
    too_long = xr.Dataset({"s": ("x", np.array(["abcdefg"], kind))})
    with pytest.raises(ValueError, match="so that no text is truncated"):
        too_long.omnizarr.to(old, append_dim="x")


def test_blocks_of_dask_are_shards_or_chunks(tmp_path: Path) -> None:
    data = xr.Dataset({"a": ("x", np.arange(12)), "b": ("x", np.arange(12))})
    encoding = {"a": {"chunks": (2,), "shards": (6,)}, "b": {"chunks": (4,)}}
    data.omnizarr.to(tmp_path / "x", encoding=encoding)
    found = xr.open_dataset(tmp_path / "x", engine="omnizarr", chunks={})
    assert found.a.chunks == ((6, 6),)
    assert found.b.chunks == ((4, 4, 4),)
    xr.testing.assert_identical(found.compute(), data)
    xr.testing.assert_identical(pickle.loads(pickle.dumps(found)).compute(), data)


def test_a_tree_round_trips_and_both_engines_agree(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs={"a": 1}),
            "/sea": xr.Dataset(),
            "/sea/top": climate(3),
            "/sea/deep": climate(2),
        }
    )
    tree.omnizarr.to(tmp_path / "t.zarr", encoding={"/sea/top": {"t": {"chunks": (1, 4)}}})
    ours = xr.open_datatree(tmp_path / "t.zarr", engine="omnizarr")
    xr.testing.assert_identical(ours, tree)
    xr.testing.assert_identical(xr.open_datatree(tmp_path / "t.zarr", engine="zarr"), tree)
    assert ours["sea/top/t"].encoding["chunks"] == (1, 4)
    below = xr.open_datatree(tmp_path / "t.zarr", engine="omnizarr", group="sea")
    xr.testing.assert_identical(below["deep"].to_dataset(inherit=False), climate(2))
    xr.testing.assert_identical(opened(tmp_path / "t.zarr", group="/sea/top"), climate(3))


@pytest.mark.parametrize("inherited", [False, True])
def test_coordinates_of_parent_groups_are_stored_on_request(
    tmp_path: Path, inherited: bool
) -> None:
    below = xr.Dataset({"v": ("lat", [1, 2])})
    tree = xr.DataTree.from_dict({"/": xr.Dataset(coords={"lat": [7, 8]}), "/below": below})
    tree.omnizarr.to(tmp_path / "t", write_inherited_coords=inherited)
    assert ("lat" in opened(tmp_path / "t", group="below").coords) == inherited
    xr.testing.assert_identical(xr.open_datatree(tmp_path / "t", engine="omnizarr"), tree)


@pytest.mark.parametrize("zarr_format", [2, 3, "3-draft"])
@pytest.mark.parametrize("chunked", [False, True])
def test_appending_keeps_the_encoding_and_matches_concatenation(
    tmp_path: Path, zarr_format: Any, chunked: bool
) -> None:
    parts = [climate(6), climate(5, "2000-01-07"), climate(1, "2000-01-12")]
    given = [p.chunk({"time": 4, "lat": 3}) if chunked else p for p in parts]
    options = {"t": {"chunks": (5, 2)}}
    given[0].omnizarr.to(tmp_path / "x", zarr_format=zarr_format, encoding=options)
    for part in given[1:]:
        part.omnizarr.to(tmp_path / "x", append_dim="time", mode="a-")
    whole = xr.concat(parts, "time", data_vars="minimal", coords="minimal")
    xr.testing.assert_allclose(opened(tmp_path / "x"), whole)
    assert opened(tmp_path / "x").time.encoding["units"] == "days since 2000-01-01 00:00:00"


def test_readers_see_appended_values_or_none_of_them(tmp_path: Path) -> None:
    climate(6).omnizarr.to(tmp_path / "x")
    more = climate(5, "2000-01-07").chunk({"time": 2})
    later = more.omnizarr.to(tmp_path / "x", append_dim="time", compute=False)
    xr.testing.assert_identical(opened(tmp_path / "x"), climate(6))
    later.compute(scheduler="threads")
    assert opened(tmp_path / "x").sizes["time"] == 11


def test_nothing_is_appended_after_an_append_that_was_killed_between_two_shapes(
    tmp_path: Path,
) -> None:
    climate(6)[["t"]].omnizarr.to(tmp_path / "x")
    array = oz.open(tmp_path / "x", path="t", mode="r+")
    before = array[...]
    array.resize((8, *array.shape[1:]))
    more = climate(2, "2000-01-07")[["t"]]
    with pytest.raises(Conflict, match=r"\(t 8, time 6\).*Resize the longer ones to 6 along"):
        more.omnizarr.to(tmp_path / "x", append_dim="time", mode="a-")
    assert oz.open(tmp_path / "x", path="t").shape[0] == 8
    array.resize(before.shape)
    more.omnizarr.to(tmp_path / "x", append_dim="time", mode="a-")
    assert opened(tmp_path / "x").sizes["time"] == 8


def test_concurrent_appends_lose_and_overwrite_nothing(tmp_path: Path) -> None:
    climate(3)[["t"]].omnizarr.to(tmp_path / "x")
    days = np.arange("2001-01-01", "2001-01-13", dtype="M8[D]")

    def append(day: Any) -> int:
        """Append and return the number of lost races."""
        part = climate(1, str(day))[["t"]] * 0 + int(day.astype(int))
        for attempt in range(1000):
            try:
                part.omnizarr.to(tmp_path / "x", append_dim="time", mode="a-")
                return attempt
            except Conflict as e:
                if "append again" not in str(e):
                    raise
        raise AssertionError("never got a turn")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, days))
    found = opened(tmp_path / "x").isel(time=slice(3, None)).sortby("time")
    np.testing.assert_array_equal(found.time.values.astype("M8[D]"), days)
    for day, values in zip(days, found.t.values, strict=True):
        assert (values == int(day.astype(int))).all()


def test_regions_are_found_by_coordinates_or_given(tmp_path: Path) -> None:
    data = climate(8)
    template = data.chunk({"time": 3})
    template.omnizarr.to(tmp_path / "x", compute=False)
    only = [n for n, v in data.variables.items() if "time" not in v.dims]
    for part in (slice(0, 3), slice(3, 8)):
        piece = data.drop_vars(only).isel(time=part).chunk({"time": 2})
        where: Any = "auto" if part.start else {"time": part}
        piece.omnizarr.to(tmp_path / "x", region=where)
    found = opened(tmp_path / "x")
    for name in ("t", "packed", "time"):
        xr.testing.assert_identical(found[name].variable, data[name].variable)


def test_modes_limit_what_is_changed(tmp_path: Path) -> None:
    one, two = xr.Dataset({"a": ("x", [1, 2])}), xr.Dataset({"b": ("x", [3, 4])})
    one.omnizarr.to(tmp_path / "x")
    with pytest.raises(FileExistsError):
        one.omnizarr.to(tmp_path / "x")
    with pytest.raises(KeyError, match=r"variables \['b'\] are not stored"):
        two.omnizarr.to(tmp_path / "x", mode="r+")
    two.omnizarr.to(tmp_path / "x", mode="a")
    xr.testing.assert_identical(opened(tmp_path / "x"), xr.merge([one, two]))
    two.omnizarr.to(tmp_path / "x", mode="w")
    xr.testing.assert_identical(opened(tmp_path / "x"), two)


def test_a_dataset_may_replace_the_one_it_is_read_from(tmp_path: Path) -> None:
    climate().omnizarr.to(tmp_path / "x")
    lazy = xr.open_dataset(tmp_path / "x", engine="omnizarr")
    lazy.omnizarr.to(tmp_path / "x", mode="w")
    xr.testing.assert_identical(opened(tmp_path / "x"), climate())


def test_an_invalid_write_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    data = climate()
    data.omnizarr.to(path)
    refused: list[tuple[xr.Dataset, dict[str, Any], type[Exception], str]] = [
        (data, {"append_dim": "lon"}, ValueError, "append_dim 'lon' is not a stored dimension"),
        (data, {"append_dim": "time", "mode": "w"}, ValueError, "append_dim needs mode 'a'"),
        (data, {"mode": "x"}, ValueError, "mode must be one of"),
        (data.isel(time=[0]), {"mode": "a"}, ValueError, "append_dim extends an array"),
        (data, {"mode": "a", "encoding": {"t": {}}}, ValueError, "are stored already"),
        (data[["t"]], {"region": {"lon": slice(1)}}, ValueError, "'lon', which is not a dimension"),
        (data, {"region": {"time": slice(0, 6, 2)}}, ValueError, "must not have a step"),
        (data, {"region": {"time": slice(6)}}, ValueError, "drop them with .drop_vars"),
        (
            data[["t"]].isel(lat=[0, 2]),
            {"region": {"lat": "auto"}},
            ValueError,
            "one contiguous range",
        ),
        (data[["t"]].assign_coords(lat=data.lat + 90), {"region": "auto"}, KeyError, "not stored"),
        (data, {"mode": "w", "encoding": {"u": {}}}, KeyError, "'u', which is not a variable"),
        (data.rename(lat="y"), {"mode": "a", "append_dim": "time"}, ValueError, "has dimensions"),
    ]
    for dataset, options, kind, message in refused:
        with pytest.raises(kind, match=message):
            dataset.omnizarr.to(path, **options)
    xr.testing.assert_identical(opened(path), data)
    with pytest.raises(oz.InvalidArgument, match=r"append_dim 'q' is not a dim.*: lat, time"):
        data.omnizarr.to(tmp_path / "y", append_dim="q")
    assert not (tmp_path / "y").exists()
    with pytest.raises(NotImplementedError, match="MultiIndex"):
        data[["t"]].stack(z=("time", "lat")).omnizarr.to(tmp_path / "y")
    with pytest.raises(ValueError, match=r"unknown \['color'\]; known: .*chunks"):
        data.omnizarr.to(path, mode="w", encoding={"t": {"color": 1}})
    xr.testing.assert_identical(opened(path), data)
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize(
    ("attributes", "encoding", "kind", "message"),
    [
        ({"bad": object()}, {}, TypeError, "cannot be stored as JSON"),
        ({}, {"chunks": (0, 1)}, ValueError, "length 0"),
        ({}, {"chunks": (4, 4), "shards": (3, 4)}, ValueError, "multiple of the chunks"),
        ({}, {"compressors": "zstdd"}, ValueError, "unknown codec"),
        ({}, {"chunksizes": (1, 1)}, ValueError, "chunksizes use chunks"),
    ],
)
def test_an_invalid_dataset_never_replaces_stored_data(
    tmp_path: Path, attributes: Any, encoding: Any, kind: type[Exception], message: str
) -> None:
    path = tmp_path / "x"
    data = climate()
    data.omnizarr.to(path)
    for bad in (data.assign_attrs(attributes), data.assign(t=data.t.assign_attrs(attributes))):
        for place, mode in ((path, "w"), (tmp_path / "y", "w-")):
            with pytest.raises(kind, match=message):
                bad.omnizarr.to(place, mode=mode, encoding={"t": encoding} if encoding else None)
    xr.testing.assert_identical(opened(path), data)
    assert not (tmp_path / "y").exists()
    with pytest.raises(FileExistsError, match="mode='w' replaces it"):
        data.omnizarr.to(path)


def test_a_fill_value_that_other_programs_write_as_a_number_is_read() -> None:
    group = oz.create_group({})
    options: dict[str, Any] = {"data": np.array([1.0, -9.0]), "dimension_names": ["x"]}
    group.create_array("plain", attributes={"_FillValue": -9}, **options)
    group.create_array("text", attributes={"_FillValue": "NaN"}, **options)
    group.create_array("wrong", attributes={"_FillValue": "none"}, **options)
    found = xr.open_dataset(group, engine="omnizarr", drop_variables=["wrong"])
    np.testing.assert_array_equal(found.plain, [1, np.nan])
    np.testing.assert_array_equal(found.text, [1, -9])
    with pytest.raises(ValueError, match=r"_FillValue 'none' does not fit.*drop_variables"):
        xr.open_dataset(group, engine="omnizarr")


def test_a_fill_value_is_refused_where_it_would_mark_missing_values() -> None:
    data = xr.Dataset({"x": ("t", [1, 2])})
    with pytest.raises(ValueError, match="_FillValue"):
        data.omnizarr.to({}, zarr_format=2, encoding={"x": {"fill_value": -1}})
    store: dict[str, bytes] = {}
    data.omnizarr.to(store, zarr_format=3, encoding={"x": {"fill_value": -1}})
    assert oz.open(store, path="x").fill_value == -1


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_is_read_in_the_type_that_xarray_reads(tmp_path: Path, zarr_format: int) -> None:
    text = np.array(["a", "ä€", "", "x" * 50], np.dtypes.StringDType())
    data = xr.Dataset({"text": ("x", text), "one": text[0]}, coords={"x": text})
    data.omnizarr.to(tmp_path / "x", zarr_format=zarr_format)
    ours, theirs = opened(tmp_path / "x"), opened(tmp_path / "x", "zarr")
    xr.testing.assert_identical(ours, theirs)
    for name in data.variables:
        assert ours[name].dtype == theirs[name].dtype
    missing = ours.assign(text=ours.text.astype(object).where([True, False, True, True]))
    missing.text.encoding = ours.text.encoding
    missing.omnizarr.to(tmp_path / "x", mode="w", zarr_format=zarr_format)
    assert opened(tmp_path / "x").text.values.tolist() == ["a", "", "", "x" * 50]
    fixed = xr.Dataset({"text": ("x", ["new"])}, coords={"x": ["a"]})
    fixed.omnizarr.to(tmp_path / "x", region="auto")
    assert opened(tmp_path / "x").text.values.tolist() == ["new", "", "", "x" * 50]


@pytest.mark.parametrize("length", [0, 6])
def test_chunks_of_several_lengths_are_read_and_written(tmp_path: Path, length: int) -> None:
    values = np.arange(length * 20.0).reshape(length, 20)
    group = oz.open(tmp_path / "x", "w")
    options: dict[str, Any] = {"chunks": (2, (5, 10, 5)), "dimension_names": ["x", "y"]}
    group.create_array("v", data=values, **options)
    data = xr.open_dataset(tmp_path / "x", engine="omnizarr", chunks={})
    blocks = ((2,) * 3 if length else (0,), (5, 10, 5))
    assert data.v.chunks == blocks
    assert data.v.encoding["chunks"] == (2 if length else 1, (5, 10, 5))
    for name, chunks in (("same", {}), ("regular", {"x": 3, "y": 10})):
        data.chunk(chunks).omnizarr.to(tmp_path / name)
        copy = xr.open_dataset(tmp_path / name, engine="omnizarr", chunks={})
        np.testing.assert_array_equal(copy.v, values)
        assert copy.v.chunks[1] == (blocks[1] if name == "same" else (10, 10))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "array",
    [
        climate().t,
        climate().t.rename(None),
        climate().t.rename("time"),
        xr.DataArray(np.ones((2, 3)), dims=["array", "y"], name="y"),
    ],
)
def test_a_single_array_round_trips_with_its_name(
    tmp_path: Path, array: xr.DataArray, zarr_format: int
) -> None:
    array.omnizarr.to(tmp_path / "x", zarr_format=zarr_format)
    for engine in ("omnizarr", "zarr"):
        with xr.open_dataarray(tmp_path / "x", engine=engine) as found:
            xr.testing.assert_identical(found.load(), array)


def test_packing_and_unpacking_need_little_more_memory_than_the_numbers(tmp_path: Path) -> None:
    values = np.arange(2**22).reshape(2048, 2048) % 999 / 2.0
    data = xr.Dataset({"v": (("y", "x"), values)})
    packing = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunks": (256, 256)}
    written = peak(lambda: ozx.write(data, tmp_path / "x", encoding={"v": packing}))
    assert written < values.nbytes * 0.75
    found = xr.open_dataset(tmp_path / "x", engine="omnizarr")
    assert peak(found.load) < values.nbytes * 1.5
    np.testing.assert_array_equal(found.v, values)
