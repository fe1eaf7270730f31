"""n5_default: blocks by the text of the extension, damaged and hostile ones; LZ4 of N5."""

from __future__ import annotations

import gzip
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import omnizarr as oz
from omnizarr.codecs.extensions.n5 import Lz4Blocks, xxh32
from tests.formats.n5_writer import COMPRESSIONS, header, write
from tests.property.test_damaged_chunks import damaged, read

TYPES = [
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float32", "float64"),
]
COMPRESSORS: list[dict[str, Any]] = [
    {},
    {"name": "gzip", "configuration": {"level": 6}},
    {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
    {"name": "numcodecs.bz2", "configuration": {"level": 9}},
    {"name": "n5.lz4", "configuration": {"block_size": 64}},
]
# The example of the specification: a block of 1 × 2 × 3 items, as raw, bzip2, gzip and xz.
EXAMPLE = "0000 0003 00000001 00000002 00000003"
BODIES = {
    "raw": "0001 0002 0003 0004 0005 0006",
    "bzip2": (
        "425a6839 31415926 5359023e 0dd20000 0040007f 00200031 0c010d31 a8739433"
        "7c5dc914 e1424008 f83748"
    ),
    "gzip": "1f8b0800 00000000 00006360 64606260 66606160 65600300 aaea6dbf 0c000000",
    "xz": (
        "fd377a58 5a000004 e6d6b446 02002101 16000000 742fe5a3 01000b00 01000200 03000400"
        "05000600 0d0309ca 34ec15a7 0001240c a618d8d8 1fb6f37d 01000000 0004595a"
    ),
}


def codec(rank: int, *compressor: dict[str, Any], endian: str | None = "big") -> dict[str, Any]:
    """Return the codec as metadata state it."""
    order = {"name": "transpose", "configuration": {"order": [*reversed(range(rank))]}}
    items = {"name": "bytes", "configuration": {} if endian is None else {"endian": endian}}
    return {"name": "n5_default", "configuration": {"codecs": [order, items, *compressor]}}


def create(store: dict[str, bytes], values: Any, chunks: Any, *compressor: Any) -> oz.Array:
    """Create an array of N5 blocks, as the text demands: keys like ``1/0``."""
    options: dict[str, Any] = {
        "shape": values.shape,
        "chunks": chunks,
        "dtype": values.dtype,
        "codecs": [codec(values.ndim, *compressor)],
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
    }
    return oz.create_array(store, **options)


def one_block(block: bytes, chunks: tuple[int, ...], dtype: str = "uint16", **options: Any) -> Any:
    """Return an array whose only chunk has these bytes."""
    store: dict[str, bytes] = {}
    create(store, np.zeros(chunks, dtype), chunks, *options.get("compressor", ()))
    store["/".join("0" for _ in chunks)] = block
    return oz.open(store)


@pytest.mark.parametrize("name", BODIES)
def test_the_example_of_the_specification_is_read(name: str) -> None:
    compressor = {"raw": [], "gzip": COMPRESSORS[1:2], "bzip2": COMPRESSORS[3:4]}.get(
        name, [{"name": "numcodecs.lzma", "configuration": {"preset": 6}}]
    )
    block = bytes.fromhex(EXAMPLE + BODIES[name])
    array = one_block(block, (1, 2, 3), compressor=compressor)
    assert array[...].tolist() == [[[1, 3, 5], [2, 4, 6]]]  # the first axis varies fastest


def test_a_block_is_written_as_the_specification_has_it() -> None:
    store: dict[str, bytes] = {}
    values = np.array([[[1, 3, 5], [2, 4, 6]]], "uint16")
    create(store, values, (1, 2, 3))[...] = values
    assert store["0/0/0"] == bytes.fromhex(EXAMPLE + BODIES["raw"])


@given(data=st.data())
def test_arrays_of_blocks_are_read_as_written(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(TYPES)))
    shape = data.draw(npst.array_shapes(max_dims=4, max_side=6))
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    values = data.draw(npst.arrays(dtype, shape, elements=npst.from_dtype(dtype, allow_nan=False)))
    compressor = [c for c in [data.draw(st.sampled_from(COMPRESSORS))] if c]
    store: dict[str, bytes] = {}
    create(store, values, chunks, *compressor)[...] = values
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine):
            array = oz.open(store)
            assert np.array_equal(array[...], values)
            assert np.array_equal(array[..., 1:], values[..., 1:])
    blocks = {key: value for key, value in store.items() if key != "zarr.json"}
    assert all(block.startswith(header(chunks)) for block in blocks.values())


@given(data=st.data())
def test_blocks_are_cut_and_filled_up_to_the_chunk(data: st.DataObject) -> None:
    """The specification lets every block have its own shape."""
    chunks = data.draw(npst.array_shapes(max_dims=3, max_side=5))
    shape = tuple(data.draw(st.integers(0, 7)) for _ in chunks)
    block = np.arange(1, 1 + np.prod(shape, dtype=int), dtype="uint16").reshape(shape, order="F")
    stored = header(shape) + block.astype(">u2").tobytes(order="F")
    want = np.zeros(chunks, "uint16")
    part = tuple(slice(0, min(pair)) for pair in zip(shape, chunks, strict=True))
    want[part] = block[part]
    assert np.array_equal(one_block(stored, chunks)[...], want)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"", "0 bytes, fewer than the header of 12"),
        (header((2, 2))[:11], "11 bytes, fewer than the header of 12"),
        (header((2,)) + bytes(4), "says 1 axes, but the array has 2"),
        (header((2, 2, 2)) + bytes(16), "says 3 axes, but the array has 2"),
        (header((2, 2), 1) + bytes(12), "mode 'varlength'"),
        (struct.pack(">HI", 2, 4) + bytes(8), "mode 'object'"),
        (header((2, 2), 3) + bytes(8), "mode 3, which N5 does not have"),
        (header((2, 2)) + bytes(7), "7 bytes, expected 8"),
        (header((2, 2)) + bytes(9), "9 bytes, expected 8"),
        (header((2, 1)) + bytes(8), "8 bytes, expected 4"),
        (header((2**32 - 1, 2**32 - 1)) + bytes(8), "at most .* bytes are decoded"),
    ],
)
def test_a_wrong_block_is_an_error_that_says_what_is_wrong(block: bytes, message: str) -> None:
    with pytest.raises(oz.ChunkError, match=message) as error:
        one_block(block, (2, 2))[...]
    assert "codec 'n5_default'" in str(error.value)
    assert error.value.key == "0/0"


def test_a_header_does_not_decide_how_much_memory_is_used() -> None:
    bomb = header((2**12, 2**12)) + gzip.compress(bytes(2**25))
    array = one_block(bomb, (2, 2), compressor=COMPRESSORS[1:2])
    with oz.configure(max_unpacked=2**24), pytest.raises(oz.ChunkError, match="at most 16777216"):
        array[...]
    assert (array[...] == 0).all()  # as much as any chunk of unknown size may have


@pytest.mark.parametrize(
    ("codecs", "dtype", "message"),
    [
        ("x", "uint16", "list of at least one codec"),
        ([], "uint16", "list of at least one codec"),
        ([{"name": "bytes"}], "uint16", "expected transpose, bytes"),
        (codec(2, {"name": "crc32c"}, {"name": "crc32c"}), "uint16", "at most one compressor"),
        (codec(3), "uint16", r"order: expected \[1, 0\]"),
        (codec(2, endian="little"), "uint16", "endian: expected 'big', got 'little'"),
        (codec(2, endian=None), "uint16", "endian: expected 'big', got None"),
        (codec(2, endian="little"), "uint8", "endian: expected 'big', got 'little'"),
        (codec(2), "U3", "cannot store the type"),
        (codec(2, {"name": "transpose", "configuration": {"order": [0, 1]}}), "uint16", "takes an"),
        ([{"name": 3}], "uint16", "is not a codec"),
    ],
)
def test_configurations_that_make_no_blocks_are_refused(
    codecs: Any, dtype: str, message: str
) -> None:
    if not isinstance(codecs, dict):
        codecs = {"name": "n5_default", "configuration": {"codecs": codecs}}
    options: dict[str, Any] = {"shape": (4, 4), "chunks": (2, 2), "dtype": dtype}
    with pytest.raises((oz.InvalidMetadata, oz.InvalidArgument), match=message):
        oz.create_array({}, codecs=[codecs], **options)


def test_single_bytes_need_no_byte_order() -> None:
    array = oz.create_array({}, shape=(3, 3), dtype="uint8", codecs=[codec(2, endian=None)])
    array[...] = 7
    assert (array[...] == 7).all()


def test_types_that_n5_lacks_are_not_written() -> None:
    with pytest.raises(oz.ChunkError, match="N5 has no type 'float16'"):
        oz.create_array({}, shape=(3, 3), dtype="float16", codecs=[codec(2)])[...] = 1


@pytest.mark.parametrize("name", COMPRESSIONS)
@given(data=st.data())
def test_damaged_blocks_are_errors_or_have_the_right_shape(name: str, data: st.DataObject) -> None:
    values = np.arange(60, dtype="uint16").reshape(10, 6)
    store = write(values, (4, 4), name)
    key = data.draw(st.sampled_from(sorted(store.keys() - {"attributes.json"})))
    store[key] = data.draw(damaged(store[key]))
    with oz.configure(max_unpacked=2**20):
        found = read(store)
    assert found.key == key if isinstance(found, oz.ChunkError) else found.shape == values.shape


# LZ4


def test_the_checksum_is_xxh32() -> None:
    known = {
        b"": 0x02CC5D05,
        b"abc": 0x32D153FF,
        b"Nobody inspects the spammish repetition": 0xE2293B2F,
    }
    for text, value in known.items():
        assert xxh32(np.frombuffer(text, "u1").reshape(1, -1), 0).tolist() == [value]


@given(st.binary(max_size=400), st.integers(1, 200))
def test_lz4_blocks_are_decoded_as_encoded(data: bytes, size: int) -> None:
    stored = bytes(Lz4Blocks(size).encode(data))
    assert stored[:8] == b"LZ4Block"
    assert Lz4Blocks().decode(stored, len(data)) == data
    assert Lz4Blocks().decode(stored, None) == data


def test_a_damaged_lz4_block_is_found_by_its_checksum() -> None:
    stored = bytearray(Lz4Blocks().encode(bytes(range(200))))  # which LZ4 stores as they are
    stored[100] ^= 1
    with pytest.raises(ValueError, match="LZ4 block 0: checksum mismatch"):
        Lz4Blocks().decode(bytes(stored), 200)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"LZ4Block", "truncated"),
        (b"LZ4Block" + struct.pack("<BIII", 0x20, 9, 9, 0), "truncated"),
        (b"LZ4Block" + struct.pack("<BIII", 0x20, 4, 2**31, 0) + bytes(4), "more than the 64"),
        (b"LZ4Block" + struct.pack("<BIII", 0x10, 4, 9, 0) + bytes(4), "4 bytes, expected 9"),
        (b"LZ4Block" + struct.pack("<BIII", 0x30, 4, 4, 0) + bytes(4), "unknown method 0x30"),
        (b"LZ4Block" + struct.pack("<BIII", 0x10, 0, 0, 0) + b"more", "4 bytes follow"),
        (bytes.fromhex("04224d18") + bytes(20), "LZ4 frame"),
    ],
)
def test_wrong_lz4_blocks_are_errors(stored: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lz4Blocks().decode(stored, 64)


def test_a_large_size_is_not_allocated_for_few_bytes() -> None:
    head = b"LZ4Block" + struct.pack("<BIII", 0x20, 4, 2**30, 0)
    with pytest.raises(ValueError, match="cannot have 1073741824 bytes"):
        Lz4Blocks().decode(head + bytes(4), 2**30)
    with pytest.raises(ValueError, match="cannot have"):
        Lz4Blocks().decode(bytes(4), 2**40)


def test_metadata_of_the_extension_s_example_are_read() -> None:
    zstd = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 20],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 5]}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [codec(2, zstd)],
        "attributes": {},
    }
    array = oz.open({"zarr.json": json.dumps(document).encode()})
    assert not array[...].any()
    assert oz.validate(document) == []
