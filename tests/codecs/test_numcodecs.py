"""Codecs of numcodecs on version 3 arrays."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import InvalidMetadata
from tests.conformance.v3_metadata import array_doc, put

FILTERS: list[tuple[str, dict[str, Any]]] = [
    ("delta", {"dtype": "T"}),
    ("fixedscaleoffset", {"dtype": "T", "astype": "<i2", "offset": 0, "scale": 1}),
    ("astype", {"decode_dtype": "T", "encode_dtype": "<i2"}),
    ("quantize", {"dtype": "T", "digits": 1}),
]


@pytest.mark.parametrize("stated", ["<f4", ">f4", "<f8", "<f2"])
@pytest.mark.parametrize(("name", "settings"), FILTERS, ids=[name for name, _ in FILTERS])
def test_a_filter_for_items_of_another_size_is_refused(
    name: str, settings: dict[str, Any], stated: str
) -> None:
    given = {key: stated if value == "T" else value for key, value in settings.items()}
    filters = [{"name": f"numcodecs.{name}", "configuration": given}]
    options: Any = {"shape": 8, "chunks": 4, "dtype": "f4", "filters": filters}
    if np.dtype(stated).itemsize == 4:
        array = oz.create_array(oz.MemoryStore(), **options)
        array[...] = np.arange(8)
        np.testing.assert_array_equal(array[...], np.arange(8))
        return
    with pytest.raises(InvalidMetadata, match="give it the dtype of the array"):
        oz.create_array(oz.MemoryStore(), **options)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "stated",
    [
        {"id": "gzip", "level": -1},
        {"id": "zstd", "level": 100},
        {"id": "zstd", "level": -200_000},
        {"id": "blosc", "blocksize": -1},
    ],
    ids=str,
)
def test_settings_beyond_the_limits_of_a_compressor_are_read(
    stated: dict[str, Any], zarr_format: int
) -> None:
    values = np.arange(200)
    name, config = f"numcodecs.{stated['id']}", {k: v for k, v in stated.items() if k != "id"}
    if zarr_format == 2:
        store: Any = {}
        array = oz.create_array(store, shape=200, dtype="i8", zarr_format=2, compressors=stated)
        assert json.loads(store[".zarray"])["compressor"] == stated
    else:
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": name}]
        codecs[1]["configuration"] = config
        grid = {"name": "regular", "configuration": {"chunk_shape": [200]}}
        store = put(array_doc(shape=[200], data_type="int64", chunk_grid=grid, codecs=codecs))
        array = oz.open_array(store, mode="r+")
    array[...] = values
    assert array[...].tolist() == values.tolist()
    converted: dict[str, bytes] = {}
    oz.convert(store, converted, zarr_format=3)
    assert oz.open_array(converted)[...].tolist() == values.tolist()


NAMED = {
    "gzip": {"level": 3},
    "zstd": {"level": 3},
    "blosc": {"cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0},
    "crc32c": {},
    "bz2": {"level": 3},
}


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("id_", NAMED)
def test_a_codec_is_stored_under_the_name_that_is_asked_for(id_: str, sharded: bool) -> None:
    zarr = pytest.importorskip("zarr", "3.1")
    codec = {"name": f"numcodecs.{id_}", "configuration": NAMED[id_]}
    options: dict[str, Any] = {"chunks": 4, **({"shards": 8} if sharded else {})}
    store: dict[str, bytes] = {}
    array = oz.create_array(store, data=np.arange(20), compressors=[codec], **options)
    array.attrs["a"] = 1  # which writes the metadata again
    outer = json.loads(store["zarr.json"])["codecs"]
    assert (outer[0]["configuration"]["codecs"] if sharded else outer)[-1] == codec
    assert oz.open(store)[...].tolist() == [*range(20)]
    values = {
        key: zarr.core.buffer.default_buffer_prototype().buffer.from_bytes(value)
        for key, value in store.items()
    }
    with warnings.catch_warnings(action="ignore"):  # they are not of the specification
        other = zarr.open_array(zarr.storage.MemoryStore(values), mode="r")
    assert other[...].tolist() == [*range(20)]
    other_store: dict[str, bytes] = {}
    oz.rechunk(store, other_store, chunks=5, shards=False, codecs=[codec])
    assert json.loads(other_store["zarr.json"])["codecs"][-1] == codec
    # A name alone, and an id, which is no name of version 3.
    oz.create_array(store, shape=4, dtype="i4", compressors=[codec["name"]], overwrite=True)
    assert json.loads(store["zarr.json"])["codecs"][-1]["name"] == codec["name"]
    by_id = {"id": id_, **NAMED[id_]}
    core = id_ if id_ != "bz2" else "numcodecs.bz2"
    oz.create_array(store, shape=4, dtype="i4", compressors=[by_id], overwrite=True)
    assert json.loads(store["zarr.json"])["codecs"][-1]["name"] == core
    oz.rechunk(store, other_store, chunks=2, codecs=[by_id], overwrite=True)
    assert json.loads(other_store["zarr.json"])["codecs"][-1]["name"] == core
