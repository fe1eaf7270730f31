"""Version 3: chunk grids, chunk keys, the codec pipeline, and the core codecs."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.codecs import Spec, bind_codec, bind_pipeline
from omnizarr.data_types import bind as bind_type
from omnizarr.model import Named
from tests.conformance.v3_metadata import array_doc, open_doc, put, regular, stored

Store = dict[str, bytes]


def chunks_of(store: Store) -> Store:
    return {key: value for key, value in store.items() if not key.endswith("zarr.json")}


def little(name: str = "bytes") -> dict[str, Any]:
    return {"name": name, "configuration": {"endian": "little"}}


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def spec(shape: tuple[int, ...], data_type: str) -> Spec:
    bound = bind_type(Named(data_type))
    return Spec(shape, bound, bound.scalar(bound.zero))


# Chunk grid and keys


@pytest.mark.shows("V3-57", "V3-97")
def test_a_chunk_length_of_zero_is_read_as_the_least_and_never_written() -> None:
    with pytest.warns(oz.OmnizarrWarning, match=r"chunk_shape: .* got \[0\]; read as \[1\]"):
        assert open_doc(chunk_grid=regular(0)).chunks == (1,)
    with pytest.raises(oz.InvalidMetadata, match="chunk_shape"):
        open_doc(chunk_grid=regular(-1))
    with pytest.raises(oz.InvalidArgument, match="chunks"):
        oz.create_array(shape=(6,), chunks=(0,), dtype="u1")
    store = put(array_doc(shape=[0, 6], chunk_grid=regular(0, 4)))
    array = oz.open(store, mode="r+")
    assert array[...].shape == (0, 6)
    array.attrs["a"] = 1
    assert stored(store)["chunk_grid"] == regular(1, 4)
    created: Store = {}
    oz.create_array(created, shape=(0, 6), chunks=(0, 4), dtype="u1")
    assert stored(created)["chunk_grid"] == regular(1, 4)
    older: Store = {}
    oz.create_array(older, shape=(0,), dtype="u1", zarr_format=2)
    older[".zarray"] = older[".zarray"].replace(
        b'"chunks": [\n        1', b'"chunks": [\n        0'
    )
    assert b'"chunks": [\n        0' in older[".zarray"]
    converted: Store = {}
    oz.convert(older, converted, zarr_format=3)
    assert stored(converted)["chunk_grid"] == regular(1)


@pytest.mark.shows("V3-61", "V3-62")
@pytest.mark.parametrize(
    ("encoding", "key", "scalar"),
    [
        (codec("default", separator="/"), "c/1/23/45", "c"),
        (codec("default", separator="."), "c.1.23.45", "c"),
        ({"name": "default"}, "c/1/23/45", "c"),
        (codec("default"), "c/1/23/45", "c"),
        ("default", "c/1/23/45", "c"),
        (codec("v2", separator="."), "1.23.45", "0"),
        (codec("v2", separator="/"), "1/23/45", "0"),
        ({"name": "v2"}, "1.23.45", "0"),
        ("v2", "1.23.45", "0"),
    ],
)
def test_chunk_keys_follow_their_encoding(encoding: Any, key: str, scalar: str) -> None:
    options = {"chunk_key_encoding": encoding}
    store = put(array_doc(shape=[2, 24, 46], chunk_grid=regular(1, 1, 1), **options))
    array = oz.open(store, mode="r+")
    assert array.chunk_key((1, 23, 45)) == key
    array[1, 23, 45] = 1
    assert list(chunks_of(store)) == [key]
    assert array.nchunks_initialized == 1
    store = put(array_doc(shape=[], chunk_grid=regular(), **options))
    oz.open(store, mode="r+")[()] = 1
    assert list(chunks_of(store)) == [scalar]


@pytest.mark.shows("V3-63")
def test_new_arrays_have_default_keys_unless_others_are_requested() -> None:
    store: Store = {}
    oz.create_array(store, shape=(2,), dtype="u1")
    assert stored(store)["chunk_key_encoding"] == codec("default", separator="/")
    asked = codec("v2", separator="/")
    oz.create_array(store, shape=(2,), dtype="u1", chunk_key_encoding=asked, overwrite=True)
    assert stored(store)["chunk_key_encoding"] == asked
    oz.create_array(store, shape=(2,), dtype="u1", chunk_key_encoding=".", overwrite=True)
    assert stored(store)["chunk_key_encoding"] == codec("default", separator=".")


# Codec chain


@pytest.mark.shows("V3-64", "V3-65")
def test_codecs_run_in_order_and_in_reverse_on_decoding() -> None:
    import crc32c

    codecs = [codec("transpose", order=[1, 0]), little(), codec("gzip", level=5), "crc32c"]
    values = np.array([[1, 2, 3], [4, 5, 6]], "<i2")
    doc = array_doc(
        shape=[2, 3], chunk_grid=regular(2, 3), data_type="int16", codecs=codecs, fill_value=0
    )
    store = put(doc)
    oz.open(store, mode="r+")[...] = values
    chunk = store["c/0/0"]
    assert chunk[-4:] == crc32c.crc32c(chunk[:-4]).to_bytes(4, "little")
    raw = gzip.decompress(chunk[:-4])
    assert raw == struct.pack("<6h", 1, 4, 2, 5, 3, 6)
    assert np.array_equal(oz.open(store)[...], values)


@pytest.mark.shows("V3-66")
@pytest.mark.parametrize(
    ("dtype", "codecs", "words"),
    [
        ("u1", [codec("transpose", order=[0, 1, 2]), "bytes"], "transpose"),
        (str, [little()], "variable-length"),
        (str, ["vlen-bytes"], "vlen-bytes"),
        ("i4", ["vlen-utf8"], "vlen-utf8"),
    ],
)
def test_a_codec_that_cannot_take_its_input_is_refused_at_creation(
    dtype: Any, codecs: list[Any], words: str
) -> None:
    store: Store = {}
    with pytest.raises(oz.InvalidMetadata, match=words):
        oz.create_array(store, shape=(2, 2), dtype=dtype, codecs=codecs)
    assert store == {}


@pytest.mark.shows("V3-67")
@pytest.mark.parametrize(
    ("codecs", "rule"),
    [
        ([codec("gzip", level=1)], "no codec before it makes bytes"),
        (["bytes", "bytes"], "codecs before it made bytes"),
        ([codec("gzip", level=1), "bytes"], "no codec before it makes bytes"),
        (["bytes", codec("transpose", order=[0])], "codecs before it made bytes"),
        ([codec("transpose", order=[0])], "exactly one must turn the array into bytes"),
    ],
)
def test_an_invalid_codec_pipeline_is_refused_with_the_rule(codecs: list[Any], rule: str) -> None:
    with pytest.raises(oz.InvalidMetadata, match=rule) as caught:
        open_doc(codecs=codecs)
    assert "codecs" in str(caught.value)
    store: Store = {}
    with pytest.raises(oz.InvalidMetadata, match=rule):
        oz.create_array(store, shape=(6,), dtype="u1", codecs=codecs)
    assert store == {}


@pytest.mark.shows("V3-69")
def test_a_codec_of_fixed_output_size_states_it_in_advance() -> None:
    def size(*codecs: Named) -> int | None:
        return bind_pipeline(codecs, spec((2, 3), "int32")).encoded_size

    flat = Named("bytes", {"endian": "little"})
    assert size(flat) == 24
    assert size(Named("transpose", {"order": [1, 0]}), flat) == 24
    assert size(flat, Named("crc32c")) == 28
    assert size(flat, Named("gzip", {"level": 1})) is None
    blosc = {"cname": "lz4", "clevel": 1, "shuffle": "noshuffle"}
    assert size(flat, Named("blosc", blosc)) is None
    assert size(flat, Named("gzip", {"level": 1}), Named("crc32c")) is None


# Core codecs

BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}


@pytest.mark.shows("V3-72")
def test_the_byte_order_is_stated_for_every_type_of_several_bytes() -> None:
    for small in ("bool", "int8", "uint8"):
        fill = False if small == "bool" else 0
        assert open_doc(data_type=small, fill_value=fill, codecs=["bytes"]).itemsize == 1
    chunk = {"c0": b"\1\0\2\0\3\0\4\0"}
    for form in (codec("bytes", endian=None), "bytes"):
        store = put(array_doc(data_type="uint16", codecs=[form]), **chunk)
        with pytest.warns(oz.OmnizarrWarning, match="endian"):
            array = oz.open(store, mode="r+")
    assert array[:4].tolist() == [1, 2, 3, 4]
    assert [p.level for p in oz.validate(store) if "endian" in p.message] == ["warning"]
    with pytest.warns(oz.OmnizarrWarning, match="endian"):
        array.attrs["a"] = 1
    assert stored(store)["codecs"] == [little()]
    for dtype in ("u2", "f8", "c8", "M8[ns]", "U4", [("a", "i2"), ("b", "u1")]):
        created: Store = {}
        oz.create_array(created, shape=(1,), dtype=dtype, compressors=None)
        assert stored(created)["codecs"] == [little()], dtype


@pytest.mark.shows("V3-74", "V3-96", "ZEP-21")
def test_early_names_are_read_and_current_ones_are_written() -> None:
    values = np.arange(6, dtype="<i2").reshape(2, 3)
    plane = {"shape": [2, 3], "chunk_grid": regular(2, 3), "data_type": "int16"}
    for letter, order, raw in (("F", [1, 0], values.T), ("C", [0, 1], values)):
        codecs = [codec("transpose", order=letter), little("endian")]
        store = {**put(array_doc(**plane, codecs=codecs)), "c/0/0": raw.tobytes()}
        with pytest.warns(oz.OmnizarrWarning, match="the order of a transpose"):
            array = oz.open(store, mode="r+")
        assert np.array_equal(array[...], values)
        with pytest.warns(oz.OmnizarrWarning, match="expected a list of axes"):
            array.attrs["a"] = 1
        assert stored(store)["codecs"] == [codec("transpose", order=order), little()]
    store = {}
    oz.create_array(store, data=values, chunks=(2, 3), order="F", compressors=None)
    assert stored(store)["codecs"] == [codec("transpose", order=[1, 0]), little()]
    given = [codec("transpose", order="F"), little("endian")]
    oz.create_array(store, data=values, chunks=(2, 3), codecs=given, overwrite=True)
    assert stored(store)["codecs"] == [codec("transpose", order=[1, 0]), little()]
    assert store["c/0/0"] == values.T.tobytes()


@pytest.mark.shows("V3-77", "V3-78")
@pytest.mark.parametrize(
    ("dtype", "compressor", "shuffle", "typesize"),
    [
        ("i4", "auto", "shuffle", 4),
        ("f8", "auto", "shuffle", 8),
        ("i4", "blosc", "shuffle", 4),
        ("i4", oz.codecs.Blosc(shuffle=-1), "shuffle", 4),
        ("u1", oz.codecs.Blosc(shuffle=-1), "bitshuffle", 1),
        ("i2", oz.codecs.Blosc(shuffle=2), "bitshuffle", 2),
        ("i2", {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 0}, "noshuffle", 2),
    ],
)
def test_an_automatic_choice_of_blosc_is_recorded(
    dtype: str, compressor: Any, shuffle: str, typesize: int
) -> None:
    store: Store = {}
    oz.create_array(store, shape=(3,), dtype=dtype, compressors=compressor)
    (found,) = (c["configuration"] for c in stored(store)["codecs"] if c["name"] == "blosc")
    assert (found["shuffle"], found["typesize"]) == (shuffle, typesize)
    assert set(found) == {"cname", "clevel", "shuffle", "typesize", "blocksize"}


@pytest.mark.shows("V3-79")
@pytest.mark.parametrize(("number", "word"), [(0, "noshuffle"), (1, "shuffle"), (2, "bitshuffle")])
def test_a_blosc_chunk_of_version_2_is_a_blosc_chunk_of_version_3(number: int, word: str) -> None:
    values = np.arange(500, dtype="<i4")
    older: Store = {}
    compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": number, "blocksize": 0}
    oz.create_array(older, data=values, chunks=(500,), compressors=compressor, zarr_format=2)
    codecs = [little(), codec("blosc", **{**BLOSC, "shuffle": word})]
    doc = array_doc(shape=[500], chunk_grid=regular(500), data_type="int32", codecs=codecs)
    array = oz.open(put(doc, c0=older["0"]))
    assert np.array_equal(array[...], values)


@pytest.mark.shows("V3-80")
@pytest.mark.parametrize(
    ("data", "checksum"),
    [(b"123456789", "839206e3"), (b"", "00000000"), (bytes(32), "aa36918a")],
)
def test_crc32c_appends_the_checksum_in_four_little_endian_bytes(
    data: bytes, checksum: str
) -> None:
    found = bind_codec(Named("crc32c"), "")
    assert bytes(found.encode(data)) == data + bytes.fromhex(checksum)
    assert bytes(found.decode(data + bytes.fromhex(checksum), len(data))) == data
    for form in ("crc32c", {"name": "crc32c"}, codec("crc32c")):
        grid = regular(max(1, len(data)))
        doc = array_doc(shape=[len(data)], chunk_grid=grid, codecs=["bytes", form])
        array = oz.open(put(doc, c0=data + bytes.fromhex(checksum)))
        assert array[...].tobytes() == data
