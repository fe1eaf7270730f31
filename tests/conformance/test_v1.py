"""Zarr version 1: metadata, chunks, and its worked example."""

from __future__ import annotations

import bz2
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from numcodecs import blosc

import omnizarr as oz
from omnizarr.testing import FaultyStore
from tests.conformance.printed_examples import run_printed
from tests.conformance.small_stores import strict
from tests.conformance.small_stores import v1_store as store_of

PRINTED_META = """\
{
    "chunks": [
        1000,
        1000
    ],
    "compression": "blosc",
    "compression_opts": {
        "clevel": 5,
        "cname": "lz4",
        "shuffle": 1
    },
    "dtype": "<f8",
    "fill_value": null,
    "order": "C",
    "shape": [
        10000,
        10000
    ],
    "zarr_format": 1
}"""
FIELDS = tuple(json.loads(PRINTED_META))


# Metadata


@pytest.mark.shows("V1-08")
@pytest.mark.parametrize(
    ("name", "options", "compress"),
    [
        ("zlib", {"level": 3}, zlib.compress),
        ("zlib", 3, zlib.compress),
        ("zlib", None, zlib.compress),
        ("bz2", {"level": 3}, bz2.compress),
        ("gzip", 3, gzip.compress),
        ("gzip", {"level": 3}, gzip.compress),
        ("zstd", 3, numcodecs.Zstd(3).encode),
        ("lz4", 1, numcodecs.LZ4(1).encode),
    ],
)
def test_options_are_a_level_or_an_object_for_every_library(
    name: str, options: Any, compress: Any
) -> None:
    """C4: gzip with a level and zlib with an object were refused."""
    data = np.arange(2, dtype="<i4")
    store = store_of(compression=name, compression_opts=options)
    store["0"] = bytes(compress(data.tobytes()))
    assert oz.open(store)[:].tolist() == [0, 1, 0, 0]
    assert oz.validate(store) == []
    array = oz.open(store, mode="r+")
    array.resize(6)
    assert oz.open(store)[:2].tolist() == [0, 1]


@pytest.mark.shows("V1-08")
@pytest.mark.parametrize("options", [3, "fast", {"level": 3}, None])
def test_an_unknown_library_prevents_reading_data_but_not_metadata(options: Any) -> None:
    store = store_of(compression="foo", compression_opts=options)
    store["attrs"] = b'{"a": 1}'
    z = oz.open(store)
    assert (z.shape, z.dtype, dict(z.attrs)) == ((4,), np.dtype("<i4"), {"a": 1})
    assert "foo" in repr(z)
    with pytest.raises(oz.UnknownExtension, match="foo"):
        z[:]
    oz.open(store, mode="r+").resize(6)
    meta = strict(store, "meta")
    assert (meta["compression"], meta["compression_opts"]) == ("foo", options)


@pytest.mark.shows("V1-11")
def test_additional_names_are_kept() -> None:
    store = store_of(note=1)
    z = oz.open(store, mode="r+")
    z[:] = [1, 2, 3, 4]
    z.resize(6)
    assert strict(store, "meta")["note"] == 1
    assert strict(store, "meta")["shape"] == [6]
    assert oz.open(store)[:].tolist() == [1, 2, 3, 4, 0, 0]
    assert oz.validate(store) == []


@pytest.mark.shows("V1-12")
def test_additional_names_do_not_change_the_meaning_of_required_ones() -> None:
    store = store_of(
        shape=[2, 2],
        chunks=[1, 2],
        dimension_separator="/",
        filters=[{"id": "delta", "dtype": "<i4"}],
    )
    store |= {"0.0": np.array([5, 6], "<i4").tobytes(), "1/0": np.array([8, 9], "<i4").tobytes()}
    z = oz.open(store)
    assert z[:].tolist() == [[5, 6], [0, 0]]
    assert z.chunk_key((1, 0)) == "1.0"


@pytest.mark.shows("V1-13", "V1-18", "V1-20", "V1-32")
def test_the_printed_metadata_works() -> None:
    store = {"meta": PRINTED_META.encode(), "attrs": b"{}"}
    z = oz.open(store, mode="r+")
    assert (z.shape, z.chunks, z.dtype) == ((10000, 10000), (1000, 1000), np.dtype("<f8"))
    assert (z.cdata_shape, z.nchunks) == ((10, 10), 100)
    assert (z.fill_value, z.order) == (None, "C")
    values = np.arange(1_000_000, dtype="<f8").reshape(1000, 1000)
    z[2000:3000, 4000:5000] = values
    assert sorted(store) == ["2.4", "attrs", "meta"]
    chunk = store["2.4"]
    assert chunk[3] == 8
    assert int.from_bytes(chunk[4:8], "little") == 8_000_000
    assert int.from_bytes(chunk[12:16], "little") == len(chunk)
    unpacked = np.frombuffer(blosc.decompress(chunk), "<f8")
    np.testing.assert_array_equal(unpacked, values.reshape(-1))
    assert z[2000, 4000] == unpacked[0]
    assert z[2999, 4999] == unpacked[-1]
    assert z[1999:2001, 3999:4001].tolist() == [[0, 0], [0, values[0, 0]]]
    assert z[2999:3001, 4999:5001].tolist() == [[values[-1, -1], 0], [0, 0]]


# Metadata of new arrays


def test_creating_a_nested_structure_is_refused() -> None:
    """C6: it was written, and reading it then gave a warning."""
    with pytest.raises(oz.CannotExpress, match="fields of its own"):
        oz.create_array({}, shape=1, dtype=[("f", [("g", "?")])], zarr_format=1)


@pytest.mark.shows("V1-05", "V1-38")
@pytest.mark.parametrize("options", [{}, {"compressors": None}, {"fill_value": None}])
def test_a_written_meta_has_the_eight_names(options: dict[str, Any]) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(4,), dtype="f8", zarr_format=1, **options)
    assert list(strict(store, "meta")) == sorted(FIELDS)
    assert strict(store, "meta")["zarr_format"] == 1


def example(store: Any) -> oz.Array:
    """Return the array of the worked example, written in full."""
    options: dict[str, Any] = {"dtype": "i4", "fill_value": 42, "zarr_format": 1}
    codec = oz.codecs.Zlib(level=1)
    z = oz.create_array(store, shape=(20, 20), chunks=10, compressors=codec, **options)
    z[...] = np.kron([[1, 2], [3, 3]], np.ones((10, 10), "i4"))
    z.attrs.update(foo=42, bar="apples", baz=[1, 2, 3, 4])
    return z


# Storage


@pytest.mark.shows("V1-02")
def test_reading_and_writing_never_list_the_store() -> None:
    values: dict[str, bytes] = {}
    options: dict[str, Any] = {"chunks": (10, 10), "dtype": "i4", "fill_value": 42}
    oz.create_array(values, shape=(20, 20), zarr_format=1, **options)

    def unlisted(operation: str, key: str) -> Exception | None:
        return AssertionError("the store was listed") if "list" in operation else None

    store = FaultyStore(oz.storage.MemoryStore(values), unlisted)
    z = oz.open(store, mode="r+")
    z[0:10, 0:10] = 1
    assert sorted(values) == ["0.0", "attrs", "meta"]
    assert (oz.open(store)[0:10, 0:10] == 1).all()
    store.erase("0.0")
    assert (oz.open(store)[0:10, 0:10] == 42).all()


@pytest.mark.shows("V1-03")
def test_version_1_has_neither_groups_nor_paths(tmp_path: Path) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(oz.CannotExpress, match="group"):
        oz.create_group(store, zarr_format=1)
    with pytest.raises(oz.InvalidName, match="foo/bar"):
        oz.create_array(store, path="foo/bar", shape=4, dtype="i4", zarr_format=1)
    assert store == {}
    for name, value in (("a", 1), ("b", 2)):
        oz.create_array(
            tmp_path / name, shape=4, chunks=2, dtype="i4", fill_value=value, zarr_format=1
        )
    assert [oz.open(tmp_path / n)[0] for n in "ab"] == [1, 2]
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path)
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path, path="a", zarr_format=1)


# Attributes


@pytest.mark.shows("V1-39")
def test_a_store_without_attrs_opens_and_is_reported() -> None:
    store = store_of()
    del store["attrs"]
    with pytest.warns(oz.OmnizarrWarning, match="attrs"):
        z = oz.open(store)
    assert dict(z.attrs) == {}
    assert z[:].tolist() == [0, 0, 0, 0]
    assert [(p.key, p.level) for p in oz.validate(store)] == [("attrs", "warning")]


# The worked example


@pytest.mark.shows("V1-25", "V1-26", "V1-27", "V1-28", "V1-29", "V1-30", "V1-31")
def test_the_worked_example_runs_as_printed(in_tmp: Path) -> None:
    assert run_printed(WORKED_EXAMPLE) == WORKED_EXAMPLE.count(">>>")


# Where the text is silent


@pytest.mark.shows("V1-34")
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("S3", b"ab"),
        ("U3", "ab"),
        ("m8[s]", np.timedelta64(1, "s")),
        ("M8[s]", np.datetime64("NaT", "s")),
        ([("a", "<i4")], (1,)),
    ],
    ids=str,
)
def test_other_fill_values_of_non_numeric_types_cannot_be_expressed(dtype: Any, value: Any) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(oz.CannotExpress, match="fill value"):
        oz.create_array(store, shape=4, dtype=dtype, fill_value=value, zarr_format=1)
    assert store == {}


@pytest.mark.shows("V1-35")
@pytest.mark.filterwarnings("ignore:.*got null; read as 'none'")
@pytest.mark.parametrize(("name", "options"), [("none", None), (None, None), ("none", 5)])
def test_uncompressed_chunks_are_raw(name: str | None, options: Any) -> None:
    store = store_of(compression=name, compression_opts=options)
    store["1"] = np.array([7, 8], "<i4").tobytes()
    assert oz.open(store)[:].tolist() == [0, 0, 7, 8]


WORKED_EXAMPLE = """
>>> import zarr
>>> store = zarr.DirectoryStore('example.zarr')
>>> zarr.init_store(store, shape=(20, 20), chunks=(10, 10),
...                 dtype='i4', fill_value=42, compression='zlib',
...                 compression_opts=1, overwrite=True)
>>> import os
>>> sorted(os.listdir('example.zarr'))
['attrs', 'meta']
>>> print(open('example.zarr/meta').read())
{
    "chunks": [
        10,
        10
    ],
    "compression": "zlib",
    "compression_opts": 1,
    "dtype": "<i4",
    "fill_value": 42,
    "order": "C",
    "shape": [
        20,
        20
    ],
    "zarr_format": 1
}
>>> print(open('example.zarr/attrs').read())
{}
>>> z = zarr.Array(store)
>>> z[0:10, 0:10] = 1
>>> sorted(os.listdir('example.zarr'))
['0.0', 'attrs', 'meta']
>>> z[0:10, 10:20] = 2
>>> z[10:20, :] = 3
>>> sorted(os.listdir('example.zarr'))
['0.0', '0.1', '1.0', '1.1', 'attrs', 'meta']
>>> import zlib
>>> b = zlib.decompress(open('example.zarr/0.0', 'rb').read())
>>> import numpy as np
>>> a = np.frombuffer(b, dtype='<i4')
>>> a
array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
       1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
       1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
       1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
       1, 1, 1, 1, 1, 1, 1, 1], dtype=int32)
>>> z.attrs['foo'] = 42
>>> z.attrs['bar'] = 'apples'
>>> z.attrs['baz'] = [1, 2, 3, 4]
>>> print(open('example.zarr/attrs').read())
{
    "bar": "apples",
    "baz": [
        1,
        2,
        3,
        4
    ],
    "foo": 42
}
"""


@pytest.mark.shows("V1-17", "V1-30")
def test_a_chunk_is_the_output_of_the_compressor() -> None:
    example(store := dict[str, bytes]())
    unpacker = zlib.decompressobj()
    assert np.frombuffer(unpacker.decompress(store["0.0"]), "<i4").tolist() == [1] * 100
    assert unpacker.unused_data == b""
