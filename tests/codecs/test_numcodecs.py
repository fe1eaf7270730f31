"""Codecs of numcodecs on version 3 arrays."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.codecs.specify import kind
from omnizarr.errors import InvalidMetadata, OmnizarrWarning
from omnizarr.model import Named
from tests.conformance.v3_metadata import array_doc, put
from tests.sampling import sample

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
        array = oz.create_array(oz.storage.MemoryStore(), **options)
        array[...] = np.arange(8)
        np.testing.assert_array_equal(array[...], np.arange(8))
        return
    with pytest.raises(InvalidMetadata, match="give it the dtype of the array"):
        oz.create_array(oz.storage.MemoryStore(), **options)


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
        array = oz.open(store, mode="r+")
    array[...] = values
    assert array[...].tolist() == values.tolist()
    converted: dict[str, bytes] = {}
    oz.convert(store, converted, zarr_format=3)
    assert oz.open(converted)[...].tolist() == values.tolist()


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


# The least that each codec of zarr-python needs: what it takes from the type is left out.
LEAST: dict[str, dict[str, Any]] = {
    **{id_: {} for id_ in ("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd", "shuffle")},
    **{id_: {} for id_ in ("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3")},
    **{id_: {} for id_ in ("packbits", "pcodec", "zfpy")},
    "astype": {"encode_dtype": "<i2"},
    "bitround": {"keepbits": 9},
    "delta": {"dtype": "T"},
    "fixedscaleoffset": {"offset": 0, "scale": 1},
    "quantize": {"digits": 3},
}
FLOATS_ONLY = ("bitround", "quantize", "zfpy")


CASES = [
    (id_, dtype)
    for id_ in LEAST
    for dtype in ("i8", "i4", "u2", "f4", "f8")
    if dtype[0] == "f" or id_ not in FLOATS_ONLY
]


@pytest.mark.parametrize(
    ("id_", "dtype", "sharded"), sample([(*c, s) for c in CASES for s in (False, True)], 60)
)
def test_zarr_python_and_we_read_each_other_with_the_least_configuration(
    id_: str, dtype: str, sharded: bool
) -> None:
    zarr = pytest.importorskip("zarr", "3.1.3")  # the first that has these codecs itself
    if id_ in ("pcodec", "zfpy"):
        pytest.importorskip(id_)
    dtype = "bool" if id_ == "packbits" else dtype
    values = (np.arange(40) % 7).astype(dtype)
    config = {k: np.dtype(dtype).str if v == "T" else v for k, v in LEAST[id_].items()}
    stated = {"name": f"numcodecs.{id_}", "configuration": config}
    of_kind = {"array->array": "filters", "array->bytes": "serializer"}
    option = of_kind.get(kind(Named(stated["name"])), "compressors")
    given: dict[str, Any] = {"shape": 40, "chunks": (8,), "dtype": dtype, "compressors": None}
    given |= {option: stated if option == "serializer" else [stated]}
    given |= {"shards": (16,)} if sharded else {}
    ours: dict[str, bytes] = {}
    oz.create_array(ours, **given)[...] = values
    make = zarr.core.buffer.default_buffer_prototype().buffer.from_bytes
    with warnings.catch_warnings(action="ignore"):  # they are not of the specification
        kept = zarr.storage.MemoryStore({key: make(value) for key, value in ours.items()})
        np.testing.assert_array_equal(zarr.open_array(kept, mode="r")[...], values)
        other = zarr.storage.MemoryStore()
        zarr.create_array(other, **given)[...] = values
    theirs = {key: value.to_bytes() for key, value in other._store_dict.items()}
    np.testing.assert_array_equal(oz.open(theirs)[...], values)
    # As a writer leaves it that does not complete the configuration.
    doc = json.loads(theirs["zarr.json"])
    inner = doc["codecs"][0]["configuration"]["codecs"] if sharded else doc["codecs"]
    for codec in inner:
        if codec["name"] == stated["name"]:
            codec["configuration"] = config
    theirs["zarr.json"] = json.dumps(doc).encode()
    completes = id_ in ("shuffle", "fixedscaleoffset", "quantize", "astype")
    with pytest.warns(OmnizarrWarning, match="array's type") if completes else nullcontext():
        array = oz.open(theirs)
    np.testing.assert_array_equal(array[...], values)


def test_shuffle_without_a_size_means_items_of_4_bytes_in_version_2() -> None:
    old: dict[str, bytes] = {}
    values = np.arange(40)
    oz.create_array(old, data=values, zarr_format=2, compressors=None, filters=[{"id": "shuffle"}])
    assert "elementsize" not in json.loads(old[".zarray"])["filters"][0]
    new: dict[str, bytes] = {}
    oz.convert(old, new, zarr_format=3)
    assert json.loads(new["zarr.json"])["codecs"][-1]["configuration"] == {"elementsize": 4}
    assert new["c/0"] == old["0"]
    np.testing.assert_array_equal(oz.open(new)[...], values)


def test_shuffle_of_items_without_a_size_must_state_one() -> None:
    shuffle: dict[str, Any] = {"name": "numcodecs.shuffle", "configuration": {}}
    with pytest.raises(InvalidMetadata, match="needs 'elementsize'"):
        oz.create_array({}, shape=4, dtype=str, compressors=[shuffle])
    codecs = [{"name": "vlen-utf8"}, shuffle]
    store = put(array_doc(data_type="string", fill_value="", codecs=codecs))
    with pytest.raises(InvalidMetadata, match="needs 'elementsize'"):
        oz.open(store, kind="array")
