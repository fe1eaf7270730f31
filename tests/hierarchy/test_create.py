"""Creating and opening arrays and groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr.codecs
from hypothesis import given
from hypothesis import strategies as st
from zarr.dtype import Int16, Int32

import omnizarr as oz
from omnizarr import codecs
from omnizarr.hierarchy.options import ArrayOptions
from omnizarr.storage import LocalStore, StorePath


@pytest.mark.parametrize("mode", ["r", "r+", None])
def test_opening_creates_nothing_without_a_mode_that_does(in_tmp: Path, mode: Any) -> None:
    for kind in (None, "array", "group"):
        with pytest.raises(FileNotFoundError):
            oz.open("missing.zarr", mode, kind=kind)  # type: ignore[call-overload]
    assert not Path("missing.zarr").exists()


def test_modes_that_create_make_a_group_or_with_a_shape_an_array(in_tmp: Path) -> None:
    assert isinstance(oz.open("g.zarr", "a"), oz.Group)
    made = oz.open("a.zarr", "w", shape=3, dtype="i2")
    assert isinstance(made, oz.Array)
    assert (made.shape, made.dtype) == ((3,), np.dtype("i2"))
    with pytest.raises(FileExistsError):
        oz.open("a.zarr", "w-", shape=3)
    assert isinstance(oz.open("a.zarr", "w"), oz.Group)


def test_a_shape_without_a_mode_opens_or_creates() -> None:
    store: dict[str, bytes] = {}
    oz.open(store, shape=4, dtype="i4")[...] = 7
    assert oz.open(store, shape=4)[...].tolist() == [7] * 4


def test_a_kind_opens_no_other_node() -> None:
    store: dict[str, bytes] = {}
    group = oz.create_group(store)
    group.create_array("a", shape=1)
    assert oz.open(store, kind="group") == group
    with pytest.raises(oz.WrongNode, match="is a group, not an array"):
        oz.open(store, kind="array")
    with pytest.raises(oz.WrongNode, match="is an array, not a group"):
        oz.open(store, path="a", kind="group")
    with pytest.raises(oz.InvalidArgument, match="kind must be"):
        oz.open(store, kind="arrays")  # type: ignore[call-overload]


@pytest.mark.parametrize("option", ["compressor", "dimension_separator", "synchronizer"])
def test_an_option_of_zarr_python_is_refused_with_where_it_is(option: str) -> None:
    for call in (oz.create_array, oz.open, oz.create_group().create_array):
        with pytest.raises(oz.WrongType, match=r"omnizarr\.zarr has"):
            call("a", shape=2, **{option: None})
    assert not Path("a").exists()


def test_a_store_path_stands_for_store_and_path(in_tmp: Path) -> None:
    place = StorePath(LocalStore("x.zarr")) / "a" / "b"
    made = oz.create_array(place, shape=2)
    assert oz.open(place) == made
    assert made.path == "a/b"
    assert oz.open(StorePath(LocalStore("x.zarr"), "a"), path="b") == made


def test_data_that_do_not_fit_a_given_shape_create_nothing() -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(ValueError, match=r"\(3,\).*\(4,\)"):
        oz.create_array(store, shape=4, data=[1, 2, 3])
    assert store == {}
    with pytest.raises(TypeError, match="shape"):
        oz.create_array(store)
    with pytest.raises(TypeError, match=r"400\.5"):
        oz.create_array(store, shape=(400.5, 1))


@pytest.mark.parametrize(
    "given",
    [
        codecs.BloscCodec(cname="zstd", clevel=3),
        zarr.codecs.BloscCodec(cname="zstd", clevel=3),
        {
            "name": "blosc",
            "configuration": {
                "cname": "zstd",
                "clevel": 3,
                "shuffle": "shuffle",
                "typesize": 4,
                "blocksize": 0,
            },
        },
    ],
)
def test_a_codec_is_given_as_our_object_zarr_pythons_or_json(given: Any) -> None:
    array = oz.create_array(data=np.arange(100, dtype="i4"), compressors=given)
    found = codecs.bind_codec(array.codecs[-1], "codecs")
    assert found == codecs.BloscCodec(cname="zstd", clevel=3, shuffle="shuffle", typesize=4)
    assert oz.create_array(data=array[...], codecs=array.codecs).codecs == array.codecs


def test_numcodecs_objects_become_codecs() -> None:
    array = oz.create_array(
        data=np.arange(9, dtype="i4"),
        zarr_format=2,
        filters=[numcodecs.Delta("i4")],
        compressors=numcodecs.Zlib(3),
    )
    assert array.codecs[-1].configuration["level"] == 3
    assert array.codecs[0].name == "numcodecs.delta"
    assert array[...].tolist() == list(range(9))


def test_codecs_inside_shards_are_named_by_their_objects() -> None:
    sharding = codecs.ShardingCodec(
        chunk_shape=(4,), codecs=[codecs.BytesCodec(), codecs.BloscCodec()]
    )
    array = oz.create_array(shape=16, dtype="f8", chunks=8, codecs=[sharding])
    array[...] = np.arange(16)
    assert (array.chunks, array.shards) == ((4,), (8,))
    assert array[...].tolist() == list(range(16))


def test_saved_arrays_are_loaded(in_tmp: Path) -> None:
    oz.save("one.zarr", np.arange(4))
    assert oz.load("one.zarr").tolist() == [0, 1, 2, 3]
    oz.save("several.zarr", np.arange(2), b=np.ones(3), chunks=1)
    loaded = oz.load("several.zarr")
    assert {k: v.tolist() for k, v in loaded.items()} == {"arr_0": [0, 1], "b": [1, 1, 1]}
    with pytest.raises(FileExistsError):
        oz.save("one.zarr", np.arange(4))
    with pytest.raises(TypeError, match="mode"):
        oz.save("new.zarr", np.arange(2), mode="w")
    with pytest.raises(ValueError, match="at least one"):
        oz.save("new.zarr")
    assert not Path("new.zarr").exists()


def test_arrays_named_like_options_are_saved_or_refused() -> None:
    names = {*ArrayOptions.__annotations__, "overwrite", "arr_0"}
    names |= {"zarr_format", "path", "storage_options", "shape", "data", "dtype"}
    for name in sorted(names):
        for values in (np.arange(3), np.ones((2, 2)), [1.5, 2.5]):
            store: dict[str, bytes] = {}
            try:
                oz.save(store, np.zeros(3), **{name: values})
            except (oz.InvalidArgument, oz.InvalidMetadata, TypeError):
                continue
            assert np.array_equal(oz.open(store)[name][...], values)
    with pytest.raises(oz.InvalidArgument, match="chunks is an option: give a tuple"):
        oz.save({}, np.zeros(3), chunks=np.arange(3))


def test_a_hierarchy_is_created_from_metadata_models_and_json() -> None:
    sample = oz.create_array(shape=4, dtype="i4", attributes={"a": 1})
    nodes = {
        "x/y": sample.metadata,
        "x": oz.create_group(attributes={"g": 2}).metadata.model,
        "z": sample.metadata.to_dict(),
    }
    store: dict[str, bytes] = {}
    made = dict(oz.create_hierarchy(store=store, nodes=nodes))
    assert list(made) == ["", "x", "x/y", "z"]
    assert oz.open(store, path="x").attrs["g"] == 2
    for path in ("x/y", "z"):
        array = oz.open(store, path=path)
        assert (array.shape, array.attrs.asdict()) == ((4,), {"a": 1})
    with pytest.raises(oz.InvalidArgument, match="'w'"):
        list(oz.create_hierarchy(store={}, nodes={"w": 3}))


def test_a_hierarchy_that_cannot_be_created_leaves_the_store_unchanged() -> None:
    sample = oz.create_array(shape=4, dtype="i4").metadata
    old = oz.create_group(zarr_format=2).metadata
    for nodes, words in (
        ({"a": sample, "b": old}, "one format, but 'a' is zarr 3, 'b' is zarr 2"),
        ({"a": sample, "a/b/c": sample}, "'a' is an array"),
    ):
        store: dict[str, bytes] = {}
        with pytest.raises(ValueError, match=words):
            list(oz.create_hierarchy(store=store, nodes=nodes))
        assert store == {}
    list(oz.create_hierarchy(store=store, nodes={"z": sample}))
    before = dict(store)
    with pytest.raises(oz.NodeExists, match="/z"):
        list(oz.create_hierarchy(store=store, nodes={"a": sample, "z": sample}))
    with pytest.raises(ValueError, match="leave the node '' out"):
        list(oz.open(store, "a", kind="group").create_hierarchy({"": old.model}, overwrite=True))
    assert store == before
    made = dict(oz.open(store, "a").create_hierarchy({"p/q/r": sample}))
    assert list(made) == ["p", "p/q", "p/q/r"]
    again = dict(oz.create_hierarchy(store=store, nodes={"p": sample}, overwrite=True))
    assert list(again) == ["p"]
    assert isinstance(oz.open(store, path="p"), oz.Array)


def test_dir_shows_public_names_only() -> None:
    assert set(dir(oz)) == set(oz.__all__)


@pytest.mark.parametrize("version", [1, 2])
def test_invalid_values_are_listed_together_with_missing_fields(version: int) -> None:
    found = oz.validate({"zarr_format": version, "shape": [3, 0], "chunks": [-1, 0]})
    fields = {problem.field for problem in found}
    assert {"dtype", "order", "chunks[0]"} <= fields
    assert "chunks[1]" not in fields


@pytest.mark.parametrize("code", ["M8[ns]", "m8[s]"])
@pytest.mark.parametrize("version", [1, 2, 3, "3-draft"])
def test_unwritten_times_are_nat_if_the_format_can_express_it(version: Any, code: str) -> None:
    options = {"shape": 2, "dtype": code, "zarr_format": version}
    store: dict[str, bytes] = {}
    expected = version in (2, 3)
    assert np.isnat(oz.create_array(store, **options)[...]).all() == expected
    assert np.isnat(oz.open(store).fill_value) == expected


def test_axes_that_the_chunks_leave_out_are_whole() -> None:
    for chunks in ((3,), np.array([3])):
        assert oz.create_array(shape=(6, 7, 8), dtype="i4", chunks=chunks).chunks == (3, 7, 8)
    with pytest.raises(
        oz.InvalidArgument, match=r"2 entries, the shape \(\d+,\) has 1; give at most"
    ):
        oz.create_array(shape=6, dtype="i4", chunks=(3, 3))


@pytest.mark.parametrize("version", [1, 2, 3, "3-draft"])
def test_overwriting_leaves_no_chunks_of_an_array_without_metadata(version: Any) -> None:
    store: dict[str, bytes] = {}
    options = {"shape": (4, 4), "dtype": "i4", "chunks": 2, "zarr_format": version}
    oz.create_array(store, **options)[...] = 7
    for key in [k for k in store if "zarr" in k or "meta" in k]:
        del store[key]
    assert store
    store["notes.txt"] = b"kept"
    assert not oz.create_array(store, **options, overwrite=True)[...].any()
    assert store["notes.txt"] == b"kept"


def test_an_argument_of_the_wrong_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="'foo' is not known"):
        oz.create_array(shape=3, dtype="foo")
    with pytest.raises(TypeError, match=r"shape: expected integers >= 0, got 3\.0"):
        oz.create_array(shape=3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be stored as JSON"):
        oz.create_group().attrs["x"] = object()
    for time in (np.datetime64("NaT"), [np.timedelta64("NaT", "s")], np.array(["NaT"], "M8[s]")):
        with pytest.raises(TypeError, match=r"64 cannot be stored|ndarray cannot be stored"):
            oz.create_group().attrs["x"] = time  # NumPy calls it None


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=2, max_size=2),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.data(),
)
def test_shards_may_have_several_lengths(
    counts: list[list[int]], chunks: tuple[int, int], cut: tuple[int, int], data: st.DataObject
) -> None:
    shards = [[n * c for n in axis] for axis, c in zip(counts, chunks, strict=True)]
    shape = tuple(max(1, sum(axis) - c) for axis, c in zip(shards, cut, strict=True))
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    store: dict[str, bytes] = {}
    array = oz.create_array(store, shape=shape, chunks=chunks, shards=shards, dtype="i4")
    array[...] = values
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in shape]
    part = tuple(slice(*b) for b in bounds)
    array[part] = values[part] = -values[part]
    again = oz.open(store)
    assert np.array_equal(again[...], values)
    assert np.array_equal(again[part], values[part])
    assert again.chunks == chunks
    assert sum(map(sum, again.write_chunk_sizes)) == sum(shape)


def test_every_length_of_a_shard_is_a_multiple_of_the_chunks() -> None:
    for shards in ([[60, 45], [50]], [[60, 40]], [[[60, 1], [45, 2]], [50]], [["a"], [50]]):
        with pytest.raises(ValueError, match="shards"):
            oz.create_array({}, shape=(100, 50), chunks=(10, 10), shards=shards, dtype="u1")
    for version in (2, "3-draft"):
        with pytest.raises(oz.CannotExpress):
            oz.create_array(
                {}, shape=60, chunks=10, shards=[[20, 40]], dtype="u1", zarr_format=version
            )


def test_a_chunk_key_encoding_is_given_by_name_and_separator() -> None:
    array = oz.create_array(
        {}, shape=(4, 4), chunks=2, dtype="u1", chunk_key_encoding=("default", ".")
    )
    assert array.chunk_key((1, 0)) == "c.1.0"


def test_a_required_array_may_have_a_data_type_of_zarr_python() -> None:
    group = oz.create_group({})
    group.create_array("a", shape=3, dtype="i4")
    assert group.require_array("a", shape=3, dtype=Int32(), exact=True).dtype == "i4"
    with pytest.raises(TypeError, match="type int32"):
        group.require_array("a", shape=3, dtype=Int16())


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\x89HDF\r\n", "an HDF5 or NetCDF-4 file, not Zarr; `omnizarr import` it"),
        (b"CDF\x01", "a NetCDF-3 file, not Zarr"),
        (b"MM\0*", "a TIFF file, not Zarr; `omnizarr import` it"),
        (b"PK\x03\x04", "a ZIP file; put zip:: in front"),
        (b"SQLite format 3\0", "an SQLite file; put sqlite:// in front"),
        (b"text", "a file; give the directory"),
    ],
)
def test_the_error_for_a_file_that_is_not_zarr_names_its_format(
    in_tmp: Path, start: bytes, message: str
) -> None:
    (in_tmp / "data").write_bytes(start + bytes(64))
    with pytest.raises(oz.NodeNotFound, match=f"which is {message}"):
        oz.open("data")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_fill_value_that_would_become_infinite_is_refused(zarr_format: int) -> None:
    options: dict[str, Any] = {"shape": 3, "zarr_format": zarr_format}
    wrong = ("f4", 1e300), ("f2", -1e5), ("f4", 2**200), ("c8", complex(0, 1e300))
    for dtype, value in (*wrong, ("f4", np.float64(4e38))):
        with pytest.raises(oz.InvalidMetadata, match="the type has no number close to it"):
            oz.create_array({}, dtype=dtype, fill_value=value, **options)
    for kept in (np.inf, "-Infinity", 3e38, np.nan):
        oz.create_array({}, dtype="f4", fill_value=kept, **options)
    oz.create_array({}, dtype="f2", fill_value=65504, **options)
