"""Rechunking of arrays and hierarchies: equal values, few bytes, nothing visible too early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import dispatch
from omnizarr.errors import InvalidArgument, NodeExists, NodeNotFound, StoreError
from omnizarr.jobs import Rechunk
from omnizarr.stores import LocalStore, MemoryStore

DIMS = ("time", "lat", "lon")


@pytest.fixture
def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(280, 10, (20, 12, 10)).astype("f4")


@pytest.fixture
def climate(tmp_path: Path, values: np.ndarray[Any, Any]) -> Path:
    """A hierarchy with a variable, coordinates, a group, text, and an array without values."""
    path = tmp_path / "climate.zarr"
    root = oz.create_group(path, attributes={"title": "a model", "Conventions": "CF-1.8"})
    temp = root.create_array(
        "temp", shape=values.shape, dtype="f4", chunks=(1, 12, 10), dimension_names=DIMS,
        attributes={"units": "K"},
    )  # fmt: skip
    temp[...] = values
    for name, length in zip(DIMS, values.shape, strict=True):
        root.create_array(name, data=np.arange(length), dimension_names=(name,))
    below = root.create_group("stations", attributes={"kind": "points"})
    below.create_array("names", data=np.array(["a", "bc", "åæ"], dtype="T"), chunks=(2,))
    below.create_array("empty", shape=(0, 4), dtype="i2", chunks=(2, 2))
    below.create_array("one", data=np.float64(7))
    return path


def layouts(length: int) -> st.SearchStrategy[int]:
    return st.integers(1, length + 2)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    shape = tuple(draw(st.lists(st.integers(0, 14), min_size=0, max_size=3)))
    chunks = [tuple(draw(layouts(n)) for n in shape) for _ in range(2)]
    times = [tuple(draw(st.integers(1, 3)) for _ in shape) for _ in range(2)]
    shards = [
        tuple(c * t for c, t in zip(sizes, many, strict=True)) if draw(st.booleans()) else None
        for sizes, many in zip(chunks, times, strict=True)
    ]
    return {
        "shape": shape,
        "chunks": chunks,
        "shards": shards,
        "dtype": draw(st.sampled_from(("u1", "i4", ">f8", "S3", [("a", "i2"), ("b", "f8")], "T"))),
        "memory": draw(st.integers(1, 60_000)),
        "passes": draw(st.sampled_from((None, 1, 2))),
        "compressors": draw(st.sampled_from((None, "zstd", "blosc"))),
        "missing": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**32)),
    }


def random_values(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed).integers(0, 100, shape)
    if isinstance(dtype, list):
        out = np.zeros(shape, dtype)
        out["a"], out["b"] = numbers, numbers / 4
        return out
    return numbers.astype("U3").astype(dtype) if dtype in ("T", "S3") else numbers.astype(dtype)


@settings(deadline=None)
@given(case=cases(), in_files=st.booleans())
def test_rechunked_values_equal_those_of_numpy(
    case: dict[str, Any], in_files: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rechunk")
    source: Any = folder / "a" if in_files else MemoryStore()
    target: Any = folder / "b" if in_files else MemoryStore()
    shape = case["shape"]
    expected = random_values(shape, case["dtype"], case["seed"])
    array = oz.create_array(
        source, shape=shape, dtype=expected.dtype, chunks=case["chunks"][0],
        shards=case["shards"][0], compressors=case["compressors"],
    )  # fmt: skip
    if case["missing"]:  # some chunks stay unwritten
        half: Any = tuple(slice(None, -(-n // 2)) for n in shape)
        array[half] = expected[half]
        expected = array[...]
    else:
        array[...] = expected
    options: dict[str, Any] = {
        "chunks": case["chunks"][1],
        "shards": False if case["shards"][1] is None else case["shards"][1],
        "passes": case["passes"],
    }
    try:
        report = oz.rechunk(source, target, memory=case["memory"], **options)
    except InvalidArgument as e:
        needed = int(str(e).partition("memory=")[2].split()[0])
        assert needed > case["memory"]
        report = oz.rechunk(source, target, memory=needed, **options)
    made = oz.open(target)
    np.testing.assert_array_equal(np.asarray(made[...]), expected)
    assert made.chunks == case["chunks"][1]
    assert made.shards == case["shards"][1]
    assert report.arrays == 1
    if in_files:
        assert not [*folder.glob("b/__omnizarr*")]  # no journal, no intermediate chunks


def test_every_stored_chunk_is_written_once(
    climate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = dispatch._store

    def note(array: Any, plan: Any, value: Any) -> None:
        written.extend(array.key(row.coords) for row in plan.rows())
        assert all(row.whole for row in plan.rows())
        write(array, plan, value)

    monkeypatch.setattr(dispatch, "_store", note)
    chunks = {"time": -1, "lat": 5, "lon": 4}
    oz.rechunk(climate, tmp_path / "b", rules={"temp": {"chunks": chunks}}, memory=20_000)
    mine = [key for key in written if "temp" in key and "__omnizarr" not in key]
    assert len(mine) == len(set(mine)) == 1 * 3 * 3
    assert any("__omnizarr" in key for key in written)  # two passes


@pytest.mark.parametrize("format", [1, 2, "3-draft", 3])
def test_an_array_of_any_format_keeps_format_and_attributes(format: Any, tmp_path: Path) -> None:
    data = np.arange(600, dtype="i4").reshape(20, 30)
    oz.create_array(
        tmp_path / "a", data=data, chunks=(20, 3), zarr_format=format, attributes={"n": 1}
    )
    oz.rechunk(
        tmp_path / "a", tmp_path / "b", chunks=(4, 30), codecs=["gzip"] if format != 1 else None
    )
    made = oz.open(tmp_path / "b")
    assert made.chunks == (4, 30)
    assert (made.zarr_format, dict(made.attrs)) == (
        oz.open(tmp_path / "a").zarr_format,
        {"n": 1},
    )
    np.testing.assert_array_equal(made[...], data)


def test_everything_else_is_carried_over(
    climate: Path, tmp_path: Path, values: np.ndarray[Any, Any]
) -> None:
    oz.consolidate_metadata(climate)
    target = tmp_path / "b.zarr"
    report = oz.rechunk(climate, target, chunks={"time": -1, "lat": 5})
    made, old = oz.open(target, mode="r"), oz.open(climate, mode="r")
    assert made["temp"].chunks == (20, 5, 10)
    assert dict(made["temp"].attrs) == {"units": "K"}
    np.testing.assert_array_equal(made["temp"][...], values)
    assert dict(made.attrs) == dict(old.attrs)
    assert dict(made["stations"].attrs) == {"kind": "points"}
    same = [
        "lon/zarr.json",
        "lon/c/0",
        "stations/names/c/0",
        "stations/names/c/1",
        "stations/one/c",
    ]
    for name in same:
        assert (target / name).read_bytes() == (climate / name).read_bytes()
    assert "consolidated_metadata" in (target / "zarr.json").read_text()
    assert oz.open(target, use_consolidated=True)["temp"].chunks == (20, 5, 10)
    assert (report.arrays, report.groups) == (7, 2)
    assert report.chunks_copied == 5  # of time, lon, names and one; empty has none
    assert set(report.rechunked) == {"/temp", "/lat"}
    assert oz.validate(target) == []


@pytest.mark.parametrize("fill_value", [0, None])
def test_missing_chunks_stay_missing(fill_value: int | None, tmp_path: Path) -> None:
    options: dict[str, Any] = {"fill_value": fill_value, "zarr_format": 2}
    array = oz.create_array(
        tmp_path / "a", shape=(100, 100), dtype="i2", chunks=(10, 100), **options
    )
    array[:10] = 1
    oz.rechunk(tmp_path / "a", tmp_path / "b", chunks=(50, 50))
    made = oz.open(tmp_path / "b")
    assert made.nchunks_initialized == 2
    assert (made[:10] == 1).all()


def test_irregular_chunks_are_read_and_written(tmp_path: Path) -> None:
    data = np.arange(10 * 12).reshape(10, 12)
    oz.create_array(tmp_path / "a", data=data, chunks=[[1, 4, 5], [6, 6]])
    for passes in (1, 2):
        options: dict[str, Any] = {"passes": passes, "memory": 40_000}
        oz.rechunk(tmp_path / "a", tmp_path / f"b{passes}", chunks=(3, 5), **options)
        oz.rechunk(
            tmp_path / f"b{passes}", tmp_path / f"c{passes}", chunks=[[7, 3], [2, 10]], **options
        )
        np.testing.assert_array_equal(oz.open(tmp_path / f"b{passes}")[...], data)
        again = oz.open(tmp_path / f"c{passes}")
        assert again.write_chunk_sizes == ((7, 3), (2, 10))
        np.testing.assert_array_equal(again[...], data)


# Types


def test_values_are_cast_and_the_fill_value_too(tmp_path: Path) -> None:
    array = oz.create_array(
        tmp_path / "a", shape=(10, 10), dtype="f8", chunks=(2, 10), fill_value=np.nan
    )
    array[:5] = np.arange(50).reshape(5, 10) / 7
    for passes in (1, 2):
        target = tmp_path / f"b{passes}"
        oz.rechunk(tmp_path / "a", target, dtype="f4", chunks=(10, 2), passes=passes)
        made = oz.open(target)
        assert made.dtype == "f4"
        assert np.isnan(made.fill_value)
        np.testing.assert_array_equal(made[...], array[...].astype("f4"))


@pytest.mark.parametrize(
    ("dtype", "value", "to"),
    [("i4", 300, "i1"), ("f8", 1e300, "f4"), ("S5", b"abcde", "S2"), ("M8[ns]", 1, "M8[s]")],
)
def test_values_that_the_type_cannot_hold_are_an_error(
    dtype: str, value: Any, to: str, tmp_path: Path
) -> None:
    data = np.array([value, value], "i8" if dtype.startswith("M8") else None).astype(dtype)
    oz.create_array(tmp_path / "a", data=data, chunks=(1,))
    message = r"at index \(0,\) cannot be stored as .* in /\[0:\d\]: .*; give casting='unsafe'"
    with pytest.raises(InvalidArgument, match=message):
        oz.rechunk(tmp_path / "a", tmp_path / "b", dtype=to)
    with pytest.raises(NodeNotFound):
        oz.open(tmp_path / "b", kind="array")
    oz.rechunk(tmp_path / "a", tmp_path / "b", dtype=to, casting="unsafe", overwrite=True)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(oz.open(tmp_path / "b")[...], data.astype(to))


# Destinations


def test_arrays_are_replaced_in_place_and_others_not_touched(
    climate: Path, values: np.ndarray[Any, Any]
) -> None:
    oz.consolidate_metadata(climate)
    before = {p: p.stat().st_mtime_ns for p in climate.rglob("lon/**/*") if p.is_file()}
    old = oz.open(climate, path="temp")
    report = oz.rechunk(climate, in_place=True, rules={"temp": {"chunks": (-1, 6, 5)}})
    assert report.arrays == 1
    assert {p: p.stat().st_mtime_ns for p in before} == before
    made = oz.open(climate, use_consolidated=True)["temp"]
    assert made.chunks == (20, 6, 5)
    assert dict(made.attrs) == {"units": "K"}
    np.testing.assert_array_equal(made[...], values)
    assert sorted(p.name for p in climate.glob("__omnizarr*")) == []
    assert len([*climate.glob("temp/c/*/*/*")]) == 4
    assert old.chunks == (1, 12, 10)
    assert oz.rechunk(climate, in_place=True, rules={"temp": {"chunks": (-1, 6, 5)}}).arrays == 0


def test_one_node_is_rechunked_in_place(climate: Path) -> None:
    oz.rechunk(climate, node="stations", chunks=(1,), rules={"empty": {"chunks": (5, 5)}},
               in_place=True)  # fmt: skip
    root = oz.open(climate)
    assert root["stations/names"].chunks == (1,)
    assert root["stations/empty"].chunks == (5, 5)
    assert root["lat"].chunks == (12,)
    assert root["stations/names"][...].tolist() == ["a", "bc", "åæ"]


def test_arrays_are_merged_into_an_existing_hierarchy(climate: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    root = oz.create_group(target, attributes={"title": "mine"})
    root.create_array("rain", data=np.arange(4))
    oz.consolidate_metadata(target)
    oz.rechunk(climate, target, chunks={"time": 5}, merge=True)
    made = oz.open(target, use_consolidated=True)
    assert dict(made.attrs) == {"title": "mine"}
    assert made["rain"][...].tolist() == [0, 1, 2, 3]
    assert made["temp"].chunks == (5, 12, 10)
    assert dict(made["stations"].attrs) == {"kind": "points"}
    with pytest.raises(NodeExists):
        oz.rechunk(climate, target, chunks={"time": 4}, merge=True)
    oz.rechunk(climate, target, chunks={"time": 4}, merge=True, overwrite=True)
    assert oz.open(target)["temp"].chunks == (4, 12, 10)
    assert oz.open(target)["rain"][...].tolist() == [0, 1, 2, 3]


def test_source_and_destination_must_differ(climate: Path) -> None:
    for target in (climate, climate / "new", climate.parent):
        with pytest.raises(StoreError, match=r"are both|one is inside the other"):
            oz.rechunk(climate, target, chunks={"time": 5})
    with pytest.raises(InvalidArgument, match="give a destination, or in_place=True"):
        oz.rechunk(climate, chunks={"time": 5})
    with pytest.raises(InvalidArgument, match="exclude each other"):
        oz.rechunk(climate, in_place=True, merge=True)


# Interruptions


def test_a_plan_says_what_it_reads_and_writes_and_why(climate: Path, tmp_path: Path) -> None:
    job = Rechunk(climate, tmp_path / "b", rules={"temp": {"chunks": (-1, 6, 5)}}, memory="18kB")
    plan = job.plan()
    text = str(plan)
    assert "two passes through chunks" in text
    assert "6 arrays copied byte for byte" in text
    assert plan.to_json()["phases"][-1]["writes"] == 4
    assert plan.memory is not None
    assert plan.memory <= 18_000
    assert not (tmp_path / "b").exists()
    once = str(Rechunk(climate, tmp_path / "b", rules={"temp": {"chunks": (-1, 6, 5)}}).plan())
    assert "one pass of boxes" in once
    with pytest.raises(InvalidArgument, match=r"/temp in .*give memory="):
        Rechunk(climate, tmp_path / "b", chunks={"time": -1}, memory=100).plan()


def test_intermediate_chunks_can_be_elsewhere(climate: Path, tmp_path: Path) -> None:
    temp = LocalStore(tmp_path / "temp")
    chunks = {"time": -1, "lat": 5, "lon": 5}
    oz.rechunk(climate, tmp_path / "b", chunks=chunks, memory="40kB", passes=2, temp=temp)
    assert (tmp_path / "temp").exists()
    assert [p for p in (tmp_path / "temp").rglob("*") if p.is_file()] == []


# Conventions


@pytest.mark.parametrize("format", [2, 3])
def test_xarray_reads_the_same_dataset(format: int, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    data = np.random.default_rng(0).normal(280, 9, (12, 8, 6))
    data[3, 2] = np.nan
    times = np.arange("2020-01-01", "2020-01-13", dtype="M8[D]").astype("M8[ns]")
    dataset = xarray.Dataset(
        {"temp": (DIMS, data, {"units": "K"})}, {"time": times, "lat": np.arange(8.0)}
    )
    packed = {"temp": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -9}}
    dataset.to_zarr(tmp_path / "a", zarr_format=format, encoding=packed, consolidated=True)
    oz.rechunk(tmp_path / "a", tmp_path / "b", chunks={"time": -1, "lat": 3}, dtype=None,
               rules={"temp": {"dtype": "f4"}})  # fmt: skip
    with xarray.open_zarr(tmp_path / "a") as old, xarray.open_zarr(tmp_path / "b") as new:
        xarray.testing.assert_allclose(old, new)
        assert np.isnan(new["temp"].values[3, 2]).all()
        assert new["temp"].encoding["chunks"] == (12, 3, 6)
        assert new["temp"].encoding["dtype"] == np.dtype("f4")


def test_an_image_stays_valid(tmp_path: Path) -> None:
    volume = np.random.default_rng(0).integers(0, 999, (16, 64, 64)).astype("u2")
    oz.ome.write(tmp_path / "a", volume, axes="zyx", levels=2, chunks=(1, 64, 64))
    oz.rechunk(tmp_path / "a", tmp_path / "b", chunks={"z": 8, "y": 32, "x": 32}, shards="1MB")
    image = oz.ome.open(tmp_path / "b")
    np.testing.assert_array_equal(image.levels[0][...], volume)
    assert image.levels[0].chunks == (8, 32, 32)
    assert image.levels[0].shards is not None
    assert [p for p in oz.ome.validate(tmp_path / "b") if p.level == "error"] == []


@pytest.mark.parametrize(("first", "second"), [("0.4", 3), ("0.5", 2)])
def test_an_image_gets_the_ome_zarr_version_of_the_new_format(
    in_tmp: Path, first: str, second: int
) -> None:
    pixels = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    oz.ome.write("image.zarr", pixels, axes="yx", levels=2, version=first, unit="micrometer")
    oz.rechunk("image.zarr", "new.zarr", zarr_format=second, chunks=(16, 16))
    assert oz.open("new.zarr").zarr_format == second
    assert not [p for p in oz.ome.validate("new.zarr") if p.level == "error"]
    assert np.array_equal(oz.open("new.zarr", path="0")[...], pixels)


def test_another_format_keeps_what_has_the_same_layout_readable(in_tmp: Path) -> None:
    """Chunks of the same bytes have other keys in another format."""
    group = oz.create_group("a.zarr", zarr_format=2)
    group.create_array("deep/x", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    group.create_array("deep/text", data=np.array(["a", "bc"], np.dtypes.StringDType()))
    oz.rechunk("a.zarr", "b.zarr", zarr_format=3, rules={"text": {"chunks": 1}})
    assert oz.diff("a.zarr", "b.zarr").equal
    assert oz.verify("b.zarr").ok
    oz.rechunk("a.zarr", "x.zarr", node="deep/x", zarr_format=3)
    assert np.array_equal(oz.open("x.zarr")[...], np.arange(12).reshape(3, 4))


def test_another_format_needs_a_new_destination(in_tmp: Path) -> None:
    oz.save("a.zarr", np.arange(6), zarr_format=2)
    with pytest.raises(oz.InvalidArgument, match="in_place and zarr_format exclude each other"):
        oz.rechunk("a.zarr", in_place=True, zarr_format=3)
    oz.create_group("g.zarr")
    with pytest.raises(oz.CannotExpress, match="has only arrays"):
        oz.rechunk("g.zarr", "b.zarr", zarr_format=1)
