"""Version 3: the model, keys, metadata of arrays and groups, and node names."""

from __future__ import annotations

import copy
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import omnizarr as oz
from omnizarr.cli.main import main
from tests.conformance.key_value import SmallestStore
from tests.conformance.v3_metadata import DROP, array_doc, group_doc, open_doc, put, regular, stored

FIRST_PRINTED = """
{
    "zarr_format": 3,
    "node_type": "array",
    "shape": [10000, 1000],
    "dimension_names": ["rows", "columns"],
    "data_type": "float64",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000, 100]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "fill_value": "NaN",
    "attributes": {"foo": 42, "bar": "apples", "baz": [1, 2, 3, 4]}
}
"""


def refused(doc: dict[str, Any]) -> str:
    """Return the message with which metadata is refused; the store must not change."""
    store = put(doc)
    before = copy.deepcopy(store)
    with pytest.raises(oz.InvalidMetadata) as caught:
        oz.open(store, mode="r+")
    assert store == before
    return str(caught.value)


# Compatibility and model


@pytest.mark.shows("V3-01")
def test_metadata_of_3_0_opens_and_a_name_of_a_later_version_is_refused() -> None:
    assert open_doc().shape == (6,)
    message = refused(array_doc(chunk_compaction={"name": "later"}))
    assert "chunk_compaction" in message
    assert "zarr.json" in message
    with pytest.raises(oz.UnknownExtension, match="'codec_of_3_2'"):
        open_doc(codecs=[{"name": "bytes"}, {"name": "codec_of_3_2"}])[...]


# Keys


@pytest.mark.shows("V3-06", "V3-07", "V3-99", "ZEP-20")
def test_metadata_and_chunks_are_stored_below_the_path_without_a_leading_slash() -> None:
    store: dict[str, bytes] = {}
    oz.create_group(store)
    oz.create_group(store, path="/foo/bar")
    array = oz.create_array(store, path="/foo/baz", shape=(4, 4), chunks=(2, 2), dtype="u1")
    array[2, 1] = 1
    assert sorted(store) == [
        "foo/bar/zarr.json",
        "foo/baz/c/1/0",
        "foo/baz/zarr.json",
        "foo/zarr.json",
        "zarr.json",
    ]
    assert array.chunk_key((1, 0)) == "foo/baz/c/1/0"
    assert oz.create_array(shape=(4, 4), chunks=(2, 2), dtype="u1").chunk_key((1, 0)) == "c/1/0"


@pytest.mark.shows("V3-08")
def test_the_suffix_zarr_is_suggested_but_not_required(tmp_path: Path) -> None:
    output = CliRunner().invoke(main, ["convert", "--help"]).output
    assert ".zarr" in output
    assert ".zarr" in (oz.__doc__ or "")
    for name in ("data.zarr", "data"):
        oz.create_array(tmp_path / name, data=np.arange(3))
        assert oz.open(tmp_path / name)[2] == 2


# Array document


@pytest.mark.shows("V3-09", "V3-16")
def test_metadata_without_codecs_is_read_with_a_warning_as_gdal_wrote_it() -> None:
    store = put(array_doc(codecs=DROP, data_type="int16", shape=[2], chunk_grid=regular(2)))
    store["c/0"] = np.array([1, 2], "<i2").tobytes()
    with pytest.warns(oz.OmnizarrWarning, match="codecs: required, but missing, as GDAL"):
        array = oz.open(store)
    assert array[...].tolist() == [1, 2]


@pytest.mark.shows("V3-12")
@pytest.mark.parametrize("dtype", ["bool", "i1", "u8", "f2", "f8", "c16", "r24"])
def test_a_core_type_is_written_as_a_plain_string(dtype: str) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(1,), dtype=dtype)
    assert isinstance(stored(store)["data_type"], str)
    oz.create_array(store, shape=(1,), dtype=">f8", overwrite=True)
    assert stored(store)["data_type"] == "float64"


@pytest.mark.shows("V3-15")
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("bool", False),
        ("i4", 0),
        ("f4", 0.0),
        ("c8", [0.0, 0.0]),
        ("r16", [0, 0]),
        (str, ""),
    ],
)
def test_a_default_fill_value_is_written(dtype: Any, fill: Any) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(1,), dtype=dtype)
    found = stored(store)["fill_value"]
    assert (found, type(found)) == (fill, type(fill))


@pytest.mark.shows("V3-18")
def test_no_storage_transformers_and_an_empty_list_are_the_same() -> None:
    chunks = {"c0": b"\1\2\3\4"}
    without = oz.open(put(array_doc(), **chunks))
    empty_store = put(array_doc(storage_transformers=[]), **chunks)
    empty = oz.open(empty_store, mode="r+")
    assert without.metadata == empty.metadata
    assert without[...].tolist() == empty[...].tolist() == [1, 2, 3, 4, 0, 0]
    empty.attrs["a"] = 1
    assert "storage_transformers" not in stored(empty_store)


@pytest.mark.shows("V3-19", "V3-20", "V3-105")
def test_dimension_names_are_strings_or_null_for_every_axis() -> None:
    two = {"shape": [2, 2], "chunk_grid": regular(2, 2)}
    assert open_doc(**two, dimension_names=["x", None]).dimension_names == ("x", None)
    assert open_doc(**two).dimension_names is None
    with pytest.warns(oz.OmnizarrWarning, match="dimension_names"):
        assert open_doc(**two, dimension_names=["x", "x"]).dimension_names == ("x", "x")
    assert open_doc(**two, dimension_names=["", ""]).ndim == 2
    with pytest.raises(oz.InvalidArgument, match="dimension_names"):
        oz.create_array(shape=(2, 2), dtype="u1", dimension_names=["x"])
    store: dict[str, bytes] = {}
    for given in ("x", ""):
        oz.create_array(
            store, shape=(2, 2), dtype="u1", dimension_names=[given, None], overwrite=True
        )
        assert stored(store)["dimension_names"] == [given or None, None]
    oz.create_array(store, shape=(2, 2), dtype="u1", overwrite=True)
    assert "dimension_names" not in stored(store)


@pytest.mark.shows("V3-21")
def test_the_first_printed_metadata_works() -> None:
    store = {"zarr.json": FIRST_PRINTED.encode()}
    array = oz.open(store, mode="r+")
    assert array.cdata_shape == (10, 10)
    assert (array.chunk_key((0, 0)), array.chunk_key((9, 9))) == ("c/0/0", "c/9/9")
    assert array.dtype == np.dtype("<f8")
    assert array.dimension_names == ("rows", "columns")
    assert array.attrs.asdict() == {"foo": 42, "bar": "apples", "baz": [1, 2, 3, 4]}
    assert np.isnan(array[123, 456])
    array[9999, 999] = 1.5
    assert {k: len(v) for k, v in store.items() if k != "zarr.json"} == {"c/9/9": 800_000}
    assert store["c/9/9"][-8:].hex() == "000000000000f83f"


@pytest.mark.shows("V3-22")
@pytest.mark.usefixtures("own_names")
def test_the_second_printed_metadata_is_read_as_far_as_possible() -> None:
    from omnizarr.data_types import DataType

    printed = {
        "data_type": {"name": "urn:example:datetime", "configuration": {"unit": "ns"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
        "fill_value": None,
    }
    doc = {**json.loads(FIRST_PRINTED), **printed, "attributes": {"a": 1}}
    moment = np.array([[5]], ">i8").tobytes() + bytes(8 * 99_999)
    store = {**put(doc), "c/0/0": moment}
    array = oz.open(store)
    assert array.shape == (10000, 1000)
    assert array.cdata_shape == (10, 10)
    assert array.attrs["a"] == 1
    assert "urn:example:datetime" in str(array.info)
    with pytest.raises(oz.UnknownExtension, match="urn:example:datetime") as caught:
        array[0, 0]
    assert (caught.value.kind, caught.value.name) == ("data_type", "urn:example:datetime")

    def bind(named: Any) -> DataType:
        dtype = np.dtype(f"M8[{named.configuration['unit']}]")
        nothing = np.datetime64("NaT", "ns")
        return DataType(named, dtype, lambda json, _: nothing, lambda value, _: None, zero=nothing)

    oz.register("data_type", "urn:example:datetime", bind)
    known = oz.open(store)
    assert known[0, 0] == np.datetime64(5, "ns")
    assert np.isnat(known[9999, 999])


# Group document and further names


@pytest.mark.shows("V3-23", "V3-101")
def test_a_prefix_without_metadata_is_not_a_group() -> None:
    store = {**put(group_doc()), **put(array_doc(), "lost/a")}
    root = oz.open(store)
    assert list(root) == []
    assert "lost" not in root
    assert "lost" not in str(root.tree())
    with pytest.raises(oz.NodeNotFound, match="'lost'"):
        root["lost"]
    with pytest.raises(oz.NodeNotFound, match="/lost"):
        oz.open(store, path="lost")
    assert root["lost/a"].shape == (6,)


@pytest.mark.shows("V3-24", "V3-25", "ZEP-10")
@pytest.mark.parametrize("make", [array_doc, group_doc])
def test_an_additional_name_prevents_opening_unless_it_can_be_ignored(make: Any) -> None:
    for value in (1, {}, None, False, [], {"must_understand": True}, {"must_understand": 0}):
        message = refused(make(foo=value))
        assert "foo" in message
        assert "must_understand" in message
    ignored = {"name": "x", "must_understand": False, "configuration": {"a": [1, None]}}
    store = put(make(foo=ignored))
    array = oz.open(store, mode="r+")
    assert array.metadata.extra == {"foo": ignored}
    array.attrs["changed"] = True  # which writes the document again
    assert stored(store)["foo"] == ignored


@pytest.mark.shows("V3-26", "V3-28")
def test_written_consolidated_metadata_has_exactly_three_names() -> None:
    store: dict[str, bytes] = {}
    oz.create_group(store).create_array("g/a", data=np.arange(3))
    assert set(stored(store)) == {"zarr_format", "node_type", "attributes"}
    oz.consolidate_metadata(store)
    doc = stored(store)
    assert set(doc) == {"zarr_format", "node_type", "attributes", "consolidated_metadata"}
    inside = doc["consolidated_metadata"]
    assert set(inside) == {"must_understand", "kind", "metadata"}
    assert inside["must_understand"] is False
    assert inside["kind"] == "inline"
    assert inside["metadata"] == {"g": stored(store, "g"), "g/a": stored(store, "g/a")}
    assert sorted(oz.open(store)) == ["g"]


@pytest.mark.shows("V3-27", "ZEP-15")
def test_stale_consolidated_metadata_hides_no_node() -> None:
    store: dict[str, bytes] = {}
    root = oz.create_group(store)
    root.create_array("old", data=np.arange(3))
    root.create_array("gone", data=np.arange(3))
    oz.consolidate_metadata(store)
    with_copy = {name: member.metadata for name, member in oz.open(store).items()}
    root = oz.open(store, mode="r+")
    root.create_array("new", data=np.arange(4))
    root["old"].attrs["a"] = 1
    del root["gone"]
    fresh = oz.open(store)
    assert sorted(with_copy) == ["gone", "old"]
    assert sorted(fresh) == ["new", "old"]
    assert fresh["old"].attrs["a"] == 1
    assert dict(fresh.members())["old"].attrs["a"] == 1
    assert "gone" not in fresh
    # Where nothing can be listed, members are still found by name.
    blind = oz.open(SmallestStore(store))
    assert blind["new"].shape == (4,)
    assert blind["old"].attrs["a"] == 1
    without = {k: v for k, v in store.items() if k != "zarr.json"}
    without.update(put(group_doc()))
    assert sorted(oz.open(without)) == sorted(fresh)


@pytest.mark.shows("V3-103")
def test_consolidated_metadata_has_relative_paths_and_is_ignored_if_wrong() -> None:
    copies = {"a": array_doc(), "b": {"zarr_format": 2}, "c": 7}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": copies}
    store = {
        **put(group_doc(consolidated_metadata=consolidated), "top"),
        **put(array_doc(), "top/a"),
        **put(array_doc(shape=[3]), "top/b"),
    }
    assert sorted(oz.open(store, path="top")) == ["a", "b"]
    blind = oz.open(SmallestStore(store), path="top")
    assert "a" in list(blind)
    assert blind["b"].shape == (3,)
    other = {**consolidated, "kind": "elsewhere", "metadata": None}
    store.update(put(group_doc(consolidated_metadata=other), "top"))
    with pytest.warns(oz.OmnizarrWarning, match="consolidated_metadata"):
        assert sorted(oz.open(store, path="top")) == ["a", "b"]


# Node names


@pytest.mark.shows("V3-29")
@pytest.mark.parametrize("name", [".", "..", "...", "zarr.json"])
def test_a_forbidden_name_is_refused_and_nothing_is_written(name: str) -> None:
    store = put(group_doc())
    before = dict(store)
    root = oz.open(store, mode="r+")
    for path in (name, f"ok/{name}", f"{name}/ok"):
        with pytest.raises(oz.InvalidName) as caught:
            root.create_group(path)
        assert name in str(caught.value)
        with pytest.raises(oz.InvalidName):
            root.create_array(path, shape=(1,), dtype="u1")
    assert store == before


@pytest.mark.shows("V3-31")
@pytest.mark.parametrize("name", [unicodedata.normalize("NFD", "é"), "ﬁ", "①"])
def test_a_name_that_is_not_normalised_is_kept_with_a_warning(name: str) -> None:
    store = put(group_doc())
    root = oz.open(store, mode="r+")
    with pytest.warns(oz.OmnizarrWarning, match="NFKC"):
        root.create_group(name)
    assert list(root) == [name]
    assert f"{name}/zarr.json" in store
    root.create_group("plain-Name_1.0")
    root.create_group("é")
    assert set(root) == {name, "plain-Name_1.0", "é"}


@pytest.mark.shows("V3-29", "V3-30", "V3-31")
@pytest.mark.parametrize("name", ["a\\b", "\\", "a\\", "\\b", "a\\\\b"])
def test_a_backslash_is_part_of_a_name(name: str, tmp_path: Path) -> None:
    r"""C2: `g['a\b']` was listed but not found, and creating it made a group `a`."""
    store = {**put(group_doc()), **put(array_doc(), name)}
    root = oz.open(store)
    assert list(root) == [name]
    assert name in root
    assert root[name].path == oz.open(store, path=name).path == name
    made = oz.create_group(tmp_path / "x.zarr")
    with pytest.warns(oz.OmnizarrWarning, match="contains a backslash"):
        made.create_array(name, data=np.arange(3))
    made.create_group("plain")
    assert {p.name for p in (tmp_path / "x.zarr").iterdir()} == {"zarr.json", name, "plain"}
    oz.consolidate_metadata(tmp_path / "x.zarr")
    assert list(oz.open(tmp_path / "x.zarr", use_consolidated=True)[name][:]) == [0, 1, 2]
    made.move(name, "b")
    assert list(made) == ["b", "plain"]
    with pytest.raises(oz.NodeNotFound, match="write '/' between names"):
        made["a\\b"]
    with pytest.raises(oz.NodeNotFound, match="write '/' between names"):
        oz.open(tmp_path / "x.zarr", path="a\\b")
    with pytest.raises(oz.NodeNotFound):
        del made["\\"]
    assert list(made) == ["b", "plain"]


RESERVED = ["__x", "__", "__zarr_later", "__xarray_dataarray_variable__"]


@pytest.mark.shows("V3-29", "V3-34")
@pytest.mark.parametrize("name", RESERVED)
def test_a_node_with_a_reserved_name_is_created_listed_copied_and_reported(name: str) -> None:
    """C3: such nodes, which xarray writes, were not listed and were lost by convert."""
    rule = f"the path {name!r} has the name {name!r}; names that start with '__' are reserved"
    store = put(group_doc())
    with pytest.warns(oz.OmnizarrWarning, match=rule):
        oz.open(store, mode="r+").create_array(name, data=np.arange(3))
    for look in (
        lambda root: list(root),
        lambda root: [root[name].path],
        lambda root: [oz.open(store, path=name).path],
        lambda root: [n for n, _ in root.members(max_depth=None)],
        lambda root: [root.tree().__repr__().split("── ")[1].split()[0]],
    ):
        root = oz.open(store)
        with pytest.warns(oz.OmnizarrWarning, match=rule) as caught:
            assert look(root) == [name]
        assert len(caught) == 1
    problems = oz.validate(store)
    assert [(p.key, p.level) for p in problems] == [(f"{name}/zarr.json", "warning")]
    assert rule in problems[0].message
    older: dict[str, bytes] = {}
    with pytest.warns(oz.OmnizarrWarning, match=rule):
        oz.convert(store, older, zarr_format=2)

    def converted(source: dict[str, bytes]) -> list[int]:
        target: dict[str, bytes] = {}
        oz.convert(source, target, zarr_format=3)
        return list(oz.open(target, path=name)[:])

    for bulk in (lambda: converted(store), lambda: converted(older)):
        with pytest.warns(oz.OmnizarrWarning, match=rule) as caught:
            assert bulk() == [0, 1, 2]
        assert len(caught) == 1


@pytest.mark.shows("V3-34")
def test_reserved_names_that_are_not_nodes_are_erased_only_with_their_group() -> None:
    store = {
        **put(group_doc()),
        **put(group_doc(), "foo"),
        **put(array_doc(), "foo/bar"),
        "foo/__x/y": b"kept",
        "foo/__zarr_later": b"kept",
    }
    root = oz.open(store, mode="r+")
    assert list(root["foo"]) == ["bar"]
    assert "__x" not in str(root.tree())
    del root["foo/bar"]
    assert store["foo/__x/y"] == b"kept"
    assert store["foo/__zarr_later"] == b"kept"
    del root["foo"]
    assert sorted(store) == ["zarr.json"]
