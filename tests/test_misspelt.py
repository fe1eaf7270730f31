"""Errors about misspelt names suggest the right one, and completion offers it (D11)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.hierarchy.test_options_signatures import completed


def new(**options: Any) -> oz.Array:
    return oz.create_array({}, **{"shape": 8, "dtype": "i4", **options})


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: new(chunk=3), "chunks"),
        (lambda: new(compresor="zstd"), "compressors"),
        (lambda: new(overwite=True), "overwrite"),
        (lambda: new(dtpye="i4"), "dtype"),
        (lambda: oz.create_group({}).create_array("a", shape=3, fillvalue=1), "fill_value"),
        (lambda: oz.open({}, "w", atributes={}), "attributes"),
        (lambda: oz.ome.write({}, np.ones((4, 4)), axes="yx", shard=4), "shards"),
        (lambda: new(compressors="ztsd"), "zstd"),
        (lambda: new(compressors="Zstd"), "zstd"),
        (lambda: new(codecs=["byte", "zstd"]), "bytes"),
        (lambda: new(codecs="zsdt"), "zstd"),
        (lambda: new(filters=["dleta"]), "delta"),
        (lambda: new(codecs=["bytes", {"name": "crc32"}]), "crc32c"),
        (lambda: new(dtype="float46"), "float64"),
        (lambda: new(dtype={"name": "unit8"}), "uint8"),
        (lambda: new(chunk_key_encoding={"name": "defualt"}), "default"),
        (lambda: oz.open("gss://bucket/x.zarr"), "gs"),
        (lambda: oz.open("sqllite:///x.db"), "sqlite"),
        (lambda: oz.open("http://localhost/x", storage_options={"header": {}}), "headers"),
        (lambda: oz.create_array({}, shape=3, zarr_format="3-drft"), "3-draft"),
        (lambda: oz.config.set(thread=3), "threads"),
        (lambda: oz.config.get("chunk_cash"), "chunk_cache"),
        (lambda: new(dtype=[("left", "i4"), ("right", "i4")])["rihgt"], "right"),
        (lambda: new(config={"write_empty_chunk": True}), "write_empty_chunks"),
        (lambda: oz.ome.write({}, np.ones((8, 8)), axes="yx", unit="mikrometer"), "micrometer"),
        (lambda: oz.ome.write({}, np.ones((8, 8)), axes="yx", method="maen"), "mean"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(call: Callable[[], object], meant: str) -> None:
    """D11: options, codecs, types, stores, modes, settings and fields."""
    with pytest.raises((oz.OmnizarrError, KeyError)) as caught:
        call()
    assert f"did you mean {meant!r}?" in str(caught.value.args[0])


def test_a_misspelt_path_gets_a_suggestion(in_tmp: Path) -> None:
    """D11: a member of a group."""
    oz.create_group("all.zarr").create_array("temperature", shape=3)
    with pytest.raises(oz.NodeNotFound, match=r"did you mean 'temperature'\? members: temp"):
        oz.open("all.zarr")["temprature"]
    with pytest.raises(oz.NodeNotFound, match=r"Did you mean 'temperature'\?"):
        oz.open("all.zarr", path="temprature")
    oz.create_array("deep.zarr", data=[1])
    with pytest.raises(oz.NodeNotFound, match=r"it holds: 0\); it is inside .*deep\.zarr"):
        oz.open("deep.zarr/c")
    with pytest.raises(oz.NodeNotFound, match=r"Is the path right\?"):
        oz.open("no/folder.zarr")


@pytest.mark.parametrize("path", ["ocean.zarr", "data/x.zarr.zip", "~/x", "s3://bucket/x"])
def test_a_file_given_as_a_path_in_a_store_is_reported(in_tmp: Path, path: str) -> None:
    """Without a store the data would be in memory and silently lost."""
    with pytest.warns(oz.OmnizarrWarning, match="in memory, and gone") as caught:
        oz.create_array(shape=3, path=path)
    assert [w.filename for w in caught] == [__file__]
    oz.create_array(shape=3, path="a/b")  # a node in memory, as it says
    oz.create_array({}, shape=3, path="ocean.zarr")


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="chunks"):
        new(chunk=3)
    with pytest.raises(TypeError, match="attributes"):
        oz.open({}, "w", atributes={}, kind="group")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compressors": {"name": "zstd", "level": 3}}, "give 'level' inside 'configuration'"),
        ({"compressors": {"id": "zstd", "levl": 3}}, r"levl: not a member of codec 'zstd'"),
        ({"compressors": {"id": "gzip", "levl": 3}}, r"levl: not a member of codec 'gzip'"),
        ({"compressors": {"id": "blosc", "levl": 3}}, r"levl: not a member of codec 'blosc'"),
        ({"compressors": {"id": "blosc", "shuffle": 7}}, "shuffle"),
        ({"codecs": 5}, "5 is not a codec"),
        ({"chunks": 2.5}, "chunks: expected positive integers"),
        ({"chunks": 2, "shards": 4.5}, "shards: expected positive integers"),
    ],
)
def test_an_unusable_value_of_an_option_is_an_error(options: Any, message: str) -> None:
    with pytest.raises(oz.OmnizarrError, match=message):
        new(**options)


@pytest.mark.parametrize("mode", ["W", "ww", "rw", "wr", "w+", "wb", "write", "-w", "w--", ""])
def test_a_mode_that_replaces_data_is_never_suggested(mode: Any) -> None:
    with pytest.raises(oz.InvalidArgument) as caught:
        oz.open({}, mode=mode)
    assert "did you mean 'w'" not in str(caught.value)


def test_the_error_for_a_dissimilar_name_lists_the_known_ones() -> None:
    with pytest.raises(oz.InvalidArgument, match=r"r\+ reads and writes"):
        oz.open({}, mode="qqqq")  # type: ignore[call-overload]  # what is tested
    with pytest.raises(oz.UnknownExtension, match=r"known: .*blosc.*gzip.*zstd"):
        new(compressors="qqqqqq")


def test_member_names_are_completed_in_brackets() -> None:
    """D11: groups, attributes, fields, and OME-Zarr and CF groups."""
    group = oz.create_group({}, attributes={"units": "m"})
    group.create_array("temperature", shape=3, dtype=[("low", "i4"), ("high", "i4")])
    group.create_group("deep")
    assert completed('g["', g=group) >= {"temperature", "deep"}
    assert completed('g["te', g=group) == {"temperature"}
    assert completed('t["', t=group.attrs) >= {"units"}
    assert completed('a["', a=group["temperature"]) >= {"low", "high"}
    assert completed('d["', d=oz.cf.open(group.store)) >= {"temperature"}
    assert new()._ipython_key_completions_() == []


@pytest.mark.parametrize(
    ("name", "where"),
    [("zeros", "omnizarr.zarr"), ("ZipStore", "omnizarr.storage"), ("Blosc", "omnizarr.codecs")],
)
def test_who_uses_a_name_that_moved_is_told_where_it_is(name: str, where: str) -> None:
    assert not hasattr(oz, name)
    with pytest.raises(AttributeError, match=re.escape(where)):
        getattr(oz, name)
