"""Rules of rechunking: patterns, dimension names, shards, codecs, types and attributes."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import CannotExpress, InvalidArgument, WrongType


def make(path: Path, **options: Any) -> Path:
    given = {"shape": (24, 20, 10), "dtype": "f8", "chunks": (1, 20, 10), **options}
    given.setdefault("dimension_names", ("time", "lat", "lon")[: len(given["shape"])])
    oz.create_array(path, **given)
    return path


def rechunked(path: Path, **options: Any) -> oz.Array:
    target = path.with_name("new.zarr")
    oz.rechunk(path, target, overwrite=True, **options)
    return oz.open(target)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ({"time": -1}, (24, 20, 10)),
        ({"time": 8, "lon": 5}, (8, 20, 5)),
        ({"time": None, "lat": 3}, (24, 3, 10)),
        ({0: 6, -1: 2}, (6, 20, 2)),
        ((4, -1, 5), (4, 20, 5)),
        (7, (7, 7, 7)),
        (False, (24, 20, 10)),
        ("2kB", (6, 5, 5)),
        ([[4, 20], 20, [5, 5]], ((4, 20), (20,), (5, 5))),
        ({"time": [4, 20]}, ((4, 20), (20,), (10,))),
    ],
)
def test_chunks_have_many_forms(chunks: Any, expected: Any, tmp_path: Path) -> None:
    assert rechunked(make(tmp_path / "a"), chunks=chunks).chunks == expected


def test_dimensions_of_version_2_and_of_images_are_known_by_name(tmp_path: Path) -> None:
    old = make(tmp_path / "a", zarr_format=2)
    assert rechunked(old, chunks={"time": 3}).chunks == (3, 20, 10)
    root = oz.create_group(tmp_path / "image", zarr_format=2)
    root.create_array("0", shape=(20, 30), dtype="u1", chunks=(20, 30))
    axes = [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    root.attrs["multiscales"] = [{"axes": axes, "datasets": [{"path": "0"}], "version": "0.4"}]
    oz.rechunk(tmp_path / "image", tmp_path / "b", chunks={"x": 10})
    made = oz.open(tmp_path / "b")
    assert made["0"].chunks == (20, 10)
    assert made.attrs["multiscales"] == root.attrs["multiscales"]


def test_the_first_rule_that_matches_counts_and_others_complete_it(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a")
    for name in ("temp", "rain", "deep/temp"):
        root.create_array(name, shape=(24, 20), dtype="f4", chunks=(1, 20))
    rules = {"/temp": {"chunks": (4, 4)}, "temp": {"chunks": (5, 5)}, "r*": {"dtype": "f8"}}
    oz.rechunk(tmp_path / "a", tmp_path / "b", rules=rules, chunks=(6, 6), codecs=["gzip"])
    made = oz.open(tmp_path / "b")
    found = {name: (made[name].chunks, made[name].dtype) for name in ("temp", "rain", "deep/temp")}
    assert found["rain"] == ((6, 6), np.dtype("f8"))
    assert found["deep/temp"][0] in ((4, 4), (5, 5))
    assert found["temp"] == ((4, 4), np.dtype("f4"))
    assert made["rain"].codecs[-1].name == "gzip"


def test_a_shape_is_for_arrays_with_as_many_axes(tmp_path: Path) -> None:
    root = oz.create_group(tmp_path / "a")
    root.create_array("x", shape=(24,), dtype="f4", chunks=(24,))
    root.create_array("y", shape=(24, 20), dtype="f4", chunks=(24, 20))
    report = oz.rechunk(tmp_path / "a", tmp_path / "b", chunks=(6, 6))
    made = oz.open(tmp_path / "b")
    assert (made["x"].chunks, made["y"].chunks) == ((24,), (6, 6))
    assert report.kept == {"/x": "chunks (6, 6) are for another number of axes"}
    with pytest.raises(InvalidArgument, match=r"\(6, 6, 6\) has 3 entries"):
        oz.rechunk(tmp_path / "a", tmp_path / "c", chunks=(6, 6, 6))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"chunks": {"tme": 1}}, InvalidArgument, "no array has a dimension 'tme'; did you mean"),
        ({"rules": {"tmp": {}}}, InvalidArgument, "no array matches 'tmp'"),
        ({"rules": {"*": {"chunk": 1}}}, InvalidArgument, "unknown 'chunk'; did you mean"),
        ({"rules": {"*": 3}}, WrongType, "expected a mapping"),
        ({"dtype": "i4"}, InvalidArgument, "cannot be cast to int32 by the rule 'same_kind'"),
        ({"dtype": "f4", "casting": "safe"}, InvalidArgument, "by the rule 'safe'"),
        ({"dtype": "f4", "casting": "some"}, InvalidArgument, "casting"),
        ({"chunks": (5, 5, 5), "shards": (7, 7, 7)}, InvalidArgument, "must be a multiple"),
        ({"chunks": [[4, 20], [20], [10]], "shards": (24, 20, 10)}, InvalidArgument, "one shape"),
    ],
)
def test_wrong_rules_are_refused_before_anything_is_written(
    options: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    make(tmp_path / "a")
    with pytest.raises(error, match=message):
        oz.rechunk(tmp_path / "a", tmp_path / "b", **options)
    assert not (tmp_path / "b").exists()


def test_shards_are_added_kept_rounded_and_removed(tmp_path: Path) -> None:
    first = rechunked(make(tmp_path / "a"), chunks=(4, 10, 5), shards={"time": -1, "lat": 20})
    assert (first.chunks, first.shards) == ((4, 10, 5), (24, 20, 5))
    sharded = make(tmp_path / "s", chunks=(4, 10, 5), shards={
        "shape": (12, 20, 10), "index_location": "start"})  # fmt: skip
    kept = rechunked(sharded, codecs=["zstd"])
    assert kept.shards == (12, 20, 10)
    assert kept.codecs[0].configuration["index_location"] == "start"
    assert rechunked(sharded, chunks=(5, 10, 5)).shards == (15, 20, 10)
    assert rechunked(sharded, shards=False).shards is None
    assert rechunked(sharded, shards="100kB").shards is not None
    with pytest.raises(CannotExpress, match="zarr 2"):
        rechunked(make(tmp_path / "v2", zarr_format=2), shards=(24, 20, 10))


def test_codecs_on_bytes_replace_those_and_others_replace_all(tmp_path: Path) -> None:
    old = make(tmp_path / "a", order="F", compressors="gzip")
    made = rechunked(old, codecs=[{"name": "zstd", "configuration": {"level": 3}}, "crc32c"])
    assert [c.name for c in made.codecs] == ["transpose", "bytes", "zstd", "crc32c"]
    assert [c.name for c in rechunked(old, codecs=[]).codecs] == ["transpose", "bytes"]
    assert [c.name for c in rechunked(old, codecs=["bytes"]).codecs] == ["bytes"]


def test_a_shuffle_is_for_the_new_size_of_items(tmp_path: Path) -> None:
    made = rechunked(make(tmp_path / "a", compressors="blosc"), dtype="f4")
    assert made.codecs[-1].configuration["typesize"] == 4
    narrow = rechunked(make(tmp_path / "b", dtype="i4"), dtype="i1", casting="unsafe")
    assert (narrow[...] == 0).all()
    old = make(tmp_path / "c", dtype="i4", zarr_format=2, filters=[{"id": "delta", "dtype": "<i4"}])
    with pytest.raises(InvalidArgument, match=r"'numcodecs.delta' is for int32, not for int64"):
        rechunked(old, dtype="i8")


def test_a_fill_value_that_the_type_cannot_hold_is_refused(tmp_path: Path) -> None:
    old = make(tmp_path / "a", dtype="i4", fill_value=-9999)
    with pytest.raises(InvalidArgument, match=r"the fill value .*-9999.* is no value of type"):
        rechunked(old, dtype="u1", casting="unsafe")
    oz.open(old, mode="r+")[0] = 7
    made = rechunked(old, fill_value=0, chunks={"time": -1})
    assert made.fill_value == 0
    assert (made[1:] == -9999).all()  # elements keep their values
    assert rechunked(make(tmp_path / "b", fill_value=1e20), dtype="f4").fill_value == np.float32(
        1e20
    )


def test_attributes_of_the_type_of_the_values_are_converted(tmp_path: Path) -> None:
    old = make(tmp_path / "a", dtype="i2", attributes={
        "_FillValue": -999, "valid_range": [0, 100], "units": "K"})  # fmt: skip
    made = rechunked(old, dtype="f4")
    expected = b64encode(pack("<d", -999.0)).decode()
    assert dict(made.attrs) == {"_FillValue": expected, "valid_range": [0.0, 100.0], "units": "K"}
    oz.rechunk(tmp_path / "new.zarr", tmp_path / "b", dtype="i4", casting="unsafe")
    back = oz.open(tmp_path / "b")
    assert dict(back.attrs) == {"_FillValue": -999, "valid_range": [0, 100], "units": "K"}
    wrong = make(tmp_path / "c", attributes={"valid_max": 0.5})
    with pytest.raises(InvalidArgument, match=r"the attribute valid_max 0\.5 is no value of type"):
        rechunked(wrong, dtype="i4", casting="unsafe")


NUMBERS = {"i4": [-999, 123456789, 0], "f8": [1e20, -9.9, np.nan], "f4": [1e20, 0.1], "u1": [255]}


@given(data=st.data())
def test_xarray_finds_the_same_values_missing_or_the_report_says_why(data: st.DataObject) -> None:
    xarray = pytest.importorskip("xarray")
    zarr_format = data.draw(st.sampled_from([2, 3]))
    old = data.draw(st.sampled_from([*NUMBERS]))
    mark = data.draw(st.sampled_from(NUMBERS[old]))
    name = data.draw(st.sampled_from(["_FillValue", "missing_value"]))
    options: dict[str, Any] = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "dtype": st.sampled_from(["i2", "i4", "u1", "f4", "f8"]),
                "fill_value": st.sampled_from([3, 255]),
            },
        )
    )
    variable = xarray.Variable("x", np.array([1, mark, 3], old))
    variable.encoding["_FillValue"] = None
    if name == "missing_value":
        variable.attrs[name] = float(mark)  # as JSON has it, not as the type rounds it
    else:
        variable.encoding[name] = np.dtype(old).type(mark)

    def missing(path: Path) -> list[bool]:
        found: list[bool]
        with xarray.open_zarr(path, consolidated=False) as dataset:
            found = np.isnan(dataset["v"].values.astype("f8")).tolist()
        return found

    with TemporaryDirectory() as folder:
        source, target = Path(folder, "a.zarr"), Path(folder, "b.zarr")
        made = xarray.Dataset({"v": variable})
        made.to_zarr(source, zarr_format=zarr_format, consolidated=False)
        try:
            report = oz.rechunk(source, target, casting="unsafe", **options)
        except InvalidArgument:  # the mark is no value of the type
            assert "dtype" in options
            return
        assert ("/v" in report.notes) <= ("fill_value" in options)
        if not report.notes:
            # xarray does not find a mark that the type rounds, before the mark is rounded as well.
            rounded = [[False, True, False]] if old == "f4" else []
            assert missing(target) in [missing(source), *rounded]
