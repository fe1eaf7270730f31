"""N5 as zarr-python 2.18 and tensorstore write and read it: every compressor, random arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from tests.formats.n5_writer import COMPRESSIONS, write
from tests.peers.environments import ZarrPython2

COMPRESSORS: list[dict[str, Any] | None] = [
    None,
    {"id": "gzip", "level": 1},
    {"id": "zlib", "level": 5},
    {"id": "bz2", "level": 3},
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    {"id": "lzma", "format": 2, "check": -1, "preset": 3, "filters": None},
    {"id": "lz4", "acceleration": 1},
    {"id": "zstd", "level": 3},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": -1, "blocksize": 0},
    {"id": "blosc", "cname": "zlib", "clevel": 9, "shuffle": 2, "blocksize": 256},
]
TYPES = [
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float32", "float64", "bool", "float16"),
]
WRITE = """
store = zarr.N5Store(path)
root = zarr.group(store, overwrite=True)
root.attrs["title"] = "all"
for name, (values, chunks, compressor, attributes) in arrays.items():
    compressor = None if compressor is None else numcodecs.get_codec(compressor)
    a = root.create_dataset(
        name, shape=values.shape, chunks=chunks, dtype=values.dtype, compressor=compressor
    )
    a.attrs.put(attributes)
    a[...] = values
result = {name: root[name][...] for name in arrays}
"""
READ = """
array = zarr.open_array(zarr.N5Store(path), mode="r")
result = array.shape, array.chunks, array.attrs.asdict(), array[...]
"""


@st.composite
def described(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw an array: its values, chunks, compressor and attributes."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    chunks = tuple(draw(st.integers(1, 10)) for _ in shape)
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = numbers.integers(-100, 100, shape).astype(dtype)
    attributes = draw(st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers()))
    return values, chunks, draw(st.sampled_from(COMPRESSORS)), attributes


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays=st.lists(described(), min_size=1, max_size=6))
def test_arrays_of_zarr_python_2_are_read(
    zarr_python_2: ZarrPython2, tmp_path_factory: pytest.TempPathFactory, arrays: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("n5")
    named = {f"group/a{number}": one for number, one in enumerate(arrays)}
    theirs = zarr_python_2.run(WRITE, path=str(path), arrays=named)
    root = oz.open(path)
    assert root.attrs == {"title": "all"}
    for name, (values, chunks, _, attributes) in named.items():
        array = root[name]
        assert isinstance(array, oz.Array)
        assert array.dtype == values.dtype
        assert array.attrs == attributes
        limited = tuple(map(min, chunks, values.shape)) if array.chunks != chunks else chunks
        assert array.chunks == limited
        assert np.array_equal(array[...], theirs[name])
        assert np.array_equal(array[...], values)


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("name", sorted(set(COMPRESSIONS) - {"lz4", "lz4 of z5"}))
def test_both_read_the_same_from_blocks_that_are_cut_or_not(
    zarr_python_2: ZarrPython2, tmp_path: Path, name: str, cut: bool
) -> None:
    values = np.arange(7 * 5 * 3, dtype="float32").reshape(7, 5, 3)
    attributes = {"n5": "2.0.0", "scale": [1, 2]}
    for key, data in write(values, (4, 2, 2), name, cut=cut, attributes=attributes).items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)
    shape, chunks, attrs, theirs = zarr_python_2.run(READ, path=str(tmp_path))
    array = oz.open(tmp_path)
    assert (array.shape, array.chunks, array.attrs.asdict()) == (shape, chunks, attrs)
    assert np.array_equal(array[...], theirs)


# tensorstore has the axes in the order of N5.

BY_TENSORSTORE: dict[str, dict[str, Any]] = {
    "raw": {"type": "raw"},
    "gzip": {"type": "gzip", "level": 6},
    "zlib": {"type": "gzip", "level": 6, "useZlib": True},
    "bzip2": {"type": "bzip2", "blockSize": 9},
    "xz": {"type": "xz", "preset": 6},
    "zstd": {"type": "zstd", "level": 0},
    "blosc": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
}


def by_tensorstore(path: Path, metadata: dict[str, Any] | None = None) -> Any:
    """Open an array with tensorstore, or create one."""
    spec: dict[str, Any] = {"driver": "n5", "kvstore": {"driver": "file", "path": str(path)}}
    if metadata is not None:
        spec |= {"metadata": metadata, "create": True}
    return tensorstore.open(spec, read=True, write=metadata is not None).result()


@pytest.mark.parametrize("dtype", TYPES[:10])
@pytest.mark.parametrize("name", BY_TENSORSTORE)
def test_arrays_of_tensorstore_are_read(name: str, dtype: str, tmp_path: Path) -> None:
    values = np.arange(7 * 5 * 3).reshape(3, 5, 7).astype(dtype)
    metadata = {
        "dimensions": [3, 5, 7],
        "blockSize": [2, 2, 4],
        "dataType": dtype,
        "compression": BY_TENSORSTORE[name],
        "axes": ["x", "y", "z"],
        "units": ["nm", "nm", "nm"],
    }
    by_tensorstore(tmp_path, metadata).write(values).result()
    array = oz.open(tmp_path)
    assert (array.shape, array.chunks) == ((7, 5, 3), (4, 2, 2))
    assert np.array_equal(array[...], values.T)
    assert array.attrs["axes"] == ["x", "y", "z"]


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("name", BY_TENSORSTORE)
def test_tensorstore_reads_the_same_from_blocks_that_are_cut_or_not(
    name: str, cut: bool, tmp_path: Path
) -> None:
    values = np.arange(7 * 5 * 3, dtype="float32").reshape(7, 5, 3)
    for key, data in write(values, (4, 2, 2), name, cut=cut).items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)
    theirs = by_tensorstore(tmp_path).read().result()
    assert np.array_equal(oz.open(tmp_path)[...], theirs.T)


def test_blocks_of_the_registered_codec_are_read_by_tensorstore(tmp_path: Path) -> None:
    """Of an array that has metadata of both formats beside its chunks, as the text suggests."""
    values = np.arange(20, dtype="uint16").reshape(4, 5)
    order = {"name": "transpose", "configuration": {"order": [1, 0]}}
    items = {"name": "bytes", "configuration": {"endian": "big"}}
    gzip = {"name": "gzip", "configuration": {"level": 6}}
    array = oz.create_array(
        tmp_path,
        shape=(4, 5),
        chunks=(3, 3),
        dtype="uint16",
        codecs=[{"name": "n5_default", "configuration": {"codecs": [order, items, gzip]}}],
        chunk_key_encoding={"name": "v2", "configuration": {"separator": "/"}},
    )
    array[...] = values
    members = {"dimensions": [4, 5], "blockSize": [3, 3], "dataType": "uint16"}
    document = {**members, "compression": {"type": "gzip", "level": 6}}
    (tmp_path / "attributes.json").write_text(json.dumps(document))
    assert np.array_equal(by_tensorstore(tmp_path).read().result(), values)
    assert np.array_equal(oz.open(tmp_path, zarr_format="n5")[...], values.T)
