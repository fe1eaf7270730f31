"""The pipeline does what zarr-python's own does: values, keys and, without compression, bytes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.storage import MemoryStore

from omnizarr.errors import OmnizarrWarning
from omnizarr.interop.zarr import pipeline_batches
from tests.interop.zarr.pipeline_arrays import OURS, THEIRS, contents, create, reopened, same, using

TYPES = ("u1", "<i2", ">i4", "f4", ">f8", "c8", "?", "M8[s]", "S5", "U3", "V6", "i4,f8", "i2,u1")
COMPRESSORS: dict[str, Any] = {
    "none": None,
    "zstd": ZstdCodec(level=1),
    "zstd checksum": ZstdCodec(level=0, checksum=True),
    "gzip": GzipCodec(level=1),
    "blosc lz4": BloscCodec(cname="lz4", clevel=3, shuffle="shuffle"),
    "blosc zstd": BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle"),
    "blosc blosclz": BloscCodec(cname="blosclz", shuffle="noshuffle"),
    "blosc zlib": BloscCodec(cname="zlib", shuffle="shuffle"),
    "crc32c": Crc32cCodec(),
    "two": [ZstdCodec(level=1), Crc32cCodec()],
}
OLD_COMPRESSORS: dict[str, Any] = {
    "none": None,
    "zstd": numcodecs.Zstd(level=1),
    "gzip": numcodecs.GZip(level=1),
    "zlib": numcodecs.Zlib(level=1),
    "lz4": numcodecs.LZ4(),
    "bz2": numcodecs.BZ2(level=1),
    "lzma": numcodecs.LZMA(),
    "blosc": numcodecs.Blosc(),
    "blosc auto": numcodecs.Blosc(cname="zstd", shuffle=numcodecs.Blosc.AUTOSHUFFLE),
    "blosc lz4hc": numcodecs.Blosc(cname="lz4hc", clevel=4, shuffle=2),
}


def old_filters(dtype: np.dtype[Any]) -> list[list[Any]]:
    """Return filters for integers."""
    delta, shuffle = numcodecs.Delta(dtype=dtype), numcodecs.Shuffle(dtype.itemsize)
    scale = numcodecs.FixedScaleOffset(offset=1, scale=2, dtype=dtype, astype="<i8")
    return [[delta], [shuffle], [delta, shuffle], [scale]]


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """Options of a new array."""
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0 if rank > 1 else 1, 11)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, max(1, n))) for n in shape)
    version = draw(st.sampled_from((2, 3)))
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    options: dict[str, Any] = {
        "shape": shape,
        "chunks": chunks,
        "dtype": dtype,
        "zarr_format": version,
        "config": {"write_empty_chunks": draw(st.booleans())},
    }
    if version == 2:
        options["order"] = draw(st.sampled_from("CF"))
        options["compressors"] = OLD_COMPRESSORS[draw(st.sampled_from(sorted(OLD_COMPRESSORS)))]
        if dtype.kind in "iu" and draw(st.booleans()):
            options["filters"] = draw(st.sampled_from(old_filters(dtype)))
        return options | fills(draw, dtype)
    options["compressors"] = COMPRESSORS[draw(st.sampled_from(sorted(COMPRESSORS)))]
    options["config"]["order"] = draw(st.sampled_from("CF"))
    shardable = rank > 0 and (dtype.kind != "V" or zarr_python_reads_records_in_shards())
    if shardable and draw(st.booleans()):
        options["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    elif rank > 1 and draw(st.booleans()):
        options["filters"] = TransposeCodec(order=tuple(draw(st.permutations(range(rank)))))
    return options | fills(draw, dtype)


@cache
def zarr_python_reads_records_in_shards() -> bool:
    """Return False for a zarr-python (3.1) that needs fill values with a hash, which V has not."""
    array = create(THEIRS, MemoryStore(), shape=(1,), chunks=(1,), shards=(1,), dtype="V6")
    try:
        array[...]
    except TypeError:
        return False
    return True


def fills(draw: st.DrawFn, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return a fill value, often one that is written too."""
    if dtype.kind in "fc":
        return {"fill_value": draw(st.sampled_from((0.0, -0.0, 1.0, float("nan"))))}
    if dtype.kind in "iu":
        return {"fill_value": draw(st.sampled_from((0, 1)))}
    return {}


def values(draw: st.DrawFn, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return values, among them many that equal a fill value or only look like one."""
    numbers = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 3, shape)
    if draw(st.booleans()):
        numbers = np.full(shape, draw(st.integers(0, 2)))
    if dtype.names is not None:
        made = np.zeros(shape, dtype)
        for name in dtype.names:
            made[name] = numbers
        return made
    if dtype.kind in "fc":
        signs = np.array([0.0, -0.0, 1.0, np.nan, -np.nan, np.copysign(np.nan, -1)])
        return signs[numbers * draw(st.integers(1, 2))].astype(dtype)
    if dtype.kind == "M":
        return numbers.astype("i8").astype(dtype)
    if dtype.kind == "V":
        return numbers.astype("S6").astype(dtype)
    return numbers.astype(dtype)


def axis_slices(draw: st.DrawFn, length: int) -> slice:
    start = draw(st.integers(0, length))
    stop = draw(st.integers(start, length))
    return slice(start, stop, draw(st.sampled_from((1, 1, 2, 3))))


def selection(draw: st.DrawFn, shape: tuple[int, ...], kind: str) -> Any:
    """Return an index of a kind for an array that has elements."""
    if kind == "basic":
        return tuple(
            draw(st.integers(0, n - 1)) if draw(st.integers(0, 3)) == 0 else axis_slices(draw, n)
            for n in shape
        )
    if kind == "oindex":
        parts = [
            axis_slices(draw, n)
            if draw(st.booleans())
            else draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4, unique=True))
            for n in shape
        ]
        return tuple(parts)
    count = draw(st.integers(1, 5))
    points = {tuple(draw(st.integers(0, n - 1)) for n in shape) for _ in range(count)}
    return tuple(np.array(axis) for axis in zip(*sorted(points), strict=True))


def indexer(array: Any, kind: str) -> Any:
    return array if kind == "basic" else getattr(array, kind)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_both_pipelines_read_and_store_the_same(data: st.DataObject) -> None:
    options = data.draw(layouts())
    arrays = [create(path, MemoryStore(), **options) for path in (THEIRS, OURS)]
    shape, dtype = options["shape"], options["dtype"]
    kinds = ["basic"] if not shape or 0 in shape else ["basic", "oindex", "vindex"]
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(kinds))
        index = () if not shape or 0 in shape else selection(data.draw, shape, kind)
        picked = np.empty(shape, dtype)
        result = picked[np.ix_(*map(_listed, index, shape))] if kind == "oindex" else None
        part = result.shape if result is not None else picked[index].shape
        value = values(data.draw, dtype, () if data.draw(st.booleans()) else part)
        outcomes = [_assign(array, kind, index, value) for array in arrays]
        if outcomes[0] is not None:  # zarr-python cannot do it, or not in this version
            return
        assert outcomes[1] is None
    _assert_same(data, arrays, options, kinds)


def _listed(part: Any, length: int) -> Any:
    return np.arange(length)[part] if isinstance(part, slice) else part


def _assign(array: Any, kind: str, index: Any, value: Any) -> Exception | None:
    try:
        indexer(array, kind)[index if index or array.ndim else ...] = value
    except (IndexError, ValueError, TypeError, AttributeError) as e:
        return e
    return None


def _assert_same(data: Any, arrays: list[Any], options: Any, kinds: list[str]) -> None:
    theirs, ours = arrays
    stored = [contents(array.store_path.store) for array in arrays]
    assert stored[0].keys() == stored[1].keys()
    if options["compressors"] in (None, COMPRESSORS["crc32c"]):
        assert stored[0] == stored[1]
    assert same(theirs[...], ours[...])
    again = reopened(THEIRS, theirs)[...]
    assert same(reopened(THEIRS, ours)[...], again)
    assert same(reopened(OURS, theirs)[...], again)
    if len(kinds) > 1:
        kind = data.draw(st.sampled_from(kinds))
        index = selection(data.draw, options["shape"], kind)
        results = [indexer(array, kind)[index] for array in arrays]
        assert same(*results)


@pytest.mark.parametrize("order", ["morton", "lexicographic", "colexicographic"])
def test_inner_chunks_of_a_shard_are_stored_in_the_order_of_zarr_python(order: str) -> None:
    if order != "morton" and not hasattr(ShardingCodec, "subchunk_write_order"):
        pytest.skip("this version of zarr-python has one order")
    more = {} if order == "morton" else {"subchunk_write_order": order}
    codec = ShardingCodec(chunk_shape=(2, 3, 1), codecs=[BytesCodec()], **more)
    stored = []
    for path in (THEIRS, OURS):
        array = create(
            path,
            MemoryStore(),
            shape=(12, 15, 4),
            chunks=(6, 15, 4),
            dtype="i4",
            serializer=codec,
            compressors=None,
        )
        array[...] = np.arange(12 * 15 * 4).reshape(12, 15, 4)
        array[1:4, 2:9, 1] = -1
        stored.append(contents(array.store_path.store))
    assert stored[0] == stored[1]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dtype": str, "shape": (4,)}, "data type"),
        (
            {
                "dtype": "f8",
                "shape": (4,),
                "filters": [numcodecs.Quantize(3, "f8")],
                "compressors": None,
                "zarr_format": 2,
            },
            "Quantize",
        ),
        (
            {
                "dtype": "i4",
                "shape": (8,),
                "chunks": (8,),
                "compressors": None,
                "serializer": ShardingCodec(
                    chunk_shape=(4,), codecs=[ShardingCodec(chunk_shape=(2,))]
                ),
            },
            "ShardingCodec",
        ),
    ],
)
def test_what_the_kernel_lacks_is_left_to_zarr_python_and_logged_once(
    options: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline_batches._tell.cache_clear()
    array = create(OURS, MemoryStore(), **options)
    value = np.arange(options["shape"][0]).astype("U2" if options["dtype"] is str else "i4")
    with warnings.catch_warnings():
        warnings.simplefilter("error", OmnizarrWarning)
        for _ in range(3):
            array[:] = value
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(set(messages)) >= 1
    assert any(named in message for message in messages)
    assert list(reopened(THEIRS, array)[:]) == list(array[:]) == list(value)


def test_missing_chunks_are_reported_where_that_is_an_error() -> None:
    if not hasattr(zarr.errors, "ChunkNotFoundError"):
        pytest.skip("this version of zarr-python always fills missing chunks")
    strict = {"read_missing_chunks": False}
    array = create(OURS, MemoryStore(), shape=(4,), chunks=(2,), dtype="i4", config=strict)
    array[:2] = 1
    assert list(array[:2]) == [1, 1]
    with pytest.raises(zarr.errors.ChunkNotFoundError, match="c/1"):
        array[:]


def test_a_pickled_array_reads_and_writes() -> None:
    store = MemoryStore()
    array = create(OURS, store, shape=(4,), chunks=(2,), dtype="i4")
    array[:] = 7
    pipeline = pickle.loads(pickle.dumps(array._async_array.codec_pipeline))
    assert pipeline == array._async_array.codec_pipeline
    with using(OURS):
        assert list(pickle.loads(pickle.dumps(array))[:]) == [7, 7, 7, 7]


def test_importing_the_door_does_not_import_the_engine() -> None:
    code = "import sys, omnizarr.zarr_pipeline; print('omnizarr.engine' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_older_zarr_python_is_refused_when_it_asks_for_the_pipeline(tmp_path: Path) -> None:
    package = tmp_path / "zarr"
    (package / "core").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '3.0.10'")
    (package / "registry.py").write_text("register_pipeline = print")
    (package / "core" / "__init__.py").write_text("")
    (package / "core" / "codec_pipeline.py").write_text("class BatchedCodecPipeline: ...")
    code = "import omnizarr.zarr_pipeline as p; print('imported'); p.Pipeline.from_codecs(())"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env
    )
    assert "imported" in done.stdout
    assert "needs zarr-python 3.1 or newer, found 3.0.10: pip install" in done.stderr
