"""Zarr version 1: the storage specification and its worked example."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.key_value import KeyValueStore, UnlistableStore
from tests.conformance.printed_examples import run_printed
from tests.conformance.small_stores import v1_store as store_of


def meta_of(store: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store["meta"])
    return found


def example(store: Any) -> oz.Array:
    """Return the array of the worked example, written in full."""
    oz.create_array(
        store,
        shape=(20, 20),
        chunks=(10, 10),
        dtype="i4",
        fill_value=42,
        compressors=oz.codecs.Zlib(level=1),
        zarr_format=1,
        overwrite=True,
    )
    z = oz.Array(store)
    z[0:10, 0:10] = 1
    z[0:10, 10:20] = 2
    z[10:20, :] = 3
    z.attrs["foo"] = 42
    z.attrs["bar"] = "apples"
    z.attrs["baz"] = [1, 2, 3, 4]
    return z


@pytest.fixture
def filled() -> dict[str, bytes]:
    store: dict[str, bytes] = {}
    example(store)
    return store


# Storage


@pytest.mark.shows("V1-01")
def test_a_directory_a_dictionary_and_a_key_value_store_hold_the_same_bytes(
    tmp_path: Path, filled: dict[str, bytes]
) -> None:
    example(oz.storage.LocalStore(tmp_path / "example.zarr"))
    in_files = {p.name: p.read_bytes() for p in (tmp_path / "example.zarr").iterdir()}
    small = KeyValueStore()
    example(small)
    assert sorted(filled) == ["0.0", "0.1", "1.0", "1.1", "attrs", "meta"]
    assert in_files == filled
    assert small.values == filled


@pytest.mark.shows("V1-02")
def test_reading_and_writing_never_list_the_store() -> None:
    made = KeyValueStore()
    oz.create_array(made, shape=(20, 20), chunks=(10, 10), dtype="i4", fill_value=42, zarr_format=1)
    store = UnlistableStore(made.values)
    z = oz.open(store, mode="r+")
    z[0:10, 0:10] = 1
    assert sorted(store.values) == ["0.0", "attrs", "meta"]
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


NOT_NUMBERS = ["|S3", "<U3", "<m8[s]", ">M8[ns]", "|V5", [["a", "<i4"], ["b", "|S2"]]]


@pytest.mark.shows("V1-34")
@pytest.mark.parametrize("dtype", NOT_NUMBERS, ids=str)
def test_fill_value_0_of_a_non_numeric_type_is_an_item_of_zero_bytes(dtype: Any) -> None:
    read = oz.open(store_of(dtype=dtype, fill_value=0))[:]
    assert read.tobytes() == bytes(4 * read.dtype.itemsize)
    written: dict[str, bytes] = {}
    oz.create_array(written, shape=4, dtype=dtype, zarr_format=1)
    assert meta_of(written)["fill_value"] == 0
    assert oz.open(written)[:].tobytes() == read.tobytes()
    oz.create_array(written, shape=4, dtype=dtype, fill_value=None, zarr_format=1, overwrite=True)
    assert meta_of(written)["fill_value"] is None


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


@pytest.mark.shows("V1-37")
@pytest.mark.parametrize("name", ["none", "zlib"])
def test_order_f_follows_the_specification_unless_the_early_writer_is_requested(name: str) -> None:
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    options = {"shape": [2, 3], "chunks": [2, 3], "order": "F", "compression": name}
    by_text = store_of(**options)
    by_writer = store_of(**options)
    pack = zlib.compress if name == "zlib" else bytes
    by_text["0.0"] = pack(values.tobytes("F"))
    by_writer["0.0"] = pack(values.tobytes("C"))
    np.testing.assert_array_equal(oz.open(by_text)[:], values)
    assert not np.array_equal(oz.open(by_writer)[:], values)
    with oz.configure(v1_order="writer"):
        np.testing.assert_array_equal(oz.open(by_writer)[:], values)


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
def test_a_chunk_is_the_output_of_the_compressor(filled: dict[str, bytes]) -> None:
    raw = zlib.decompress(filled["0.0"])
    assert len(raw) == 400
    assert np.frombuffer(raw, "<i4").tolist() == [1] * 100
    unpacker = zlib.decompressobj()
    unpacker.decompress(filled["0.0"])
    assert unpacker.unused_data == b""
