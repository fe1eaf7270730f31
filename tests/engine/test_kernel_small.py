"""Small selections, which one call of the kernel reads."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import kernel
from tests.calls import python_calls
from tests.engine.test_reference import needs_kernel

pytestmark = needs_kernel
SHAPE, CHUNKS = (19, 23, 11), (6, 5, 11)
DATA = np.arange(1, 1 + np.prod(SHAPE), dtype="i4").reshape(SHAPE)


def items(length: int) -> Any:
    beyond = st.integers(-length - 2, length + 2)
    types = st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.intp])
    of_numpy = st.builds(lambda kind, n: kind(n), types, beyond)
    unsigned = st.builds(np.uint64, st.integers(0, length + 2) | st.just(2**63))
    others = st.just(np.array(1)) | st.just(np.timedelta64(1, "s"))
    return beyond | of_numpy | unsigned | others | st.slices(length) | st.just(...)


@pytest.fixture(scope="module", params=[None, ["blosc"], ["zstd"], "shards"])
def array(request: pytest.FixtureRequest) -> Iterator[oz.Array]:
    folder = Path(tempfile.mkdtemp())
    sharded = request.param == "shards"
    oz.create_array(
        folder,
        data=DATA,
        chunks=CHUNKS,
        shards=tuple(2 * n for n in CHUNKS) if sharded else None,
        compressors=["zstd"] if sharded else request.param,
    )
    opened = oz.open(folder, mode="r")
    opened[0]  # a first read prepares what small ones need
    yield opened
    shutil.rmtree(folder)


@given(st.lists(st.one_of(*map(items, SHAPE)), max_size=4).map(tuple) | items(SHAPE[0]))
def test_small_reads_are_those_of_numpy(array: oz.Array, selection: Any) -> None:
    try:
        wanted: Any = DATA[selection]
    except (IndexError, OverflowError):
        with pytest.raises(oz.SelectionError):
            array[selection]
        return
    found = array[selection]
    with oz.configure(engine="reference"):
        assert type(found) is type(array[selection])
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    "selection",
    [
        (3, 4, 5),
        7,
        np.s_[2, 3:5],
        np.s_[7, ..., 5],
        np.s_[:, 3, ::2],
        np.int64(7),
        (np.intp(-3), np.uint8(4), 5),
        np.s_[np.int32(2), : np.int64(5)],
    ],
)
def test_a_small_read_takes_two_python_functions(array: oz.Array, selection: Any) -> None:
    known: Any = array._data.watch
    known.expires = time.monotonic() + 1000  # as if it had just been looked at
    found, called = python_calls(array.__getitem__, selection)
    assert np.array_equal(found, DATA[selection])
    assert len(called) <= 2, [code.co_qualname for code in called]


def test_what_is_not_small_is_left_to_a_plan(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, data=np.ones((512, 512)), chunks=(512, 512))
    array[0, 0]
    small = array._bound.small
    assert small
    for selection in (..., slice(0, 512), ([1, 2], [3, 4]), (slice(5, 1), 0)):
        assert kernel.read_small(small, selection, b"", 0) is None
    assert array[...].sum() == 512 * 512


@pytest.mark.parametrize(
    "dtype", ["M8[s]", "U3", "S5", [("a", "i4"), ("b", "f8")], "V3", ">i4", "c16"]
)
def test_small_reads_return_every_type(dtype: Any, tmp_path: Path) -> None:
    data = np.zeros((4, 5), dtype)
    data[1, 2] = np.ones((), "i4").astype(dtype) if dtype not in ("V3", "M8[s]") else data[1, 2]
    oz.create_array(tmp_path, data=data, chunks=(2, 3), zarr_format=2)
    array = oz.open(tmp_path)
    for _ in range(2):
        assert array[1, 2] == data[1, 2]
        assert array[1].tobytes() == data[1].tobytes()
        assert array[1].dtype == data.dtype


def test_a_damaged_chunk_raises_the_error_of_other_reads(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, data=DATA, chunks=CHUNKS, compressors=["zstd"])
    array[0, 0, 0]
    (tmp_path / "c" / "0" / "0" / "0").write_bytes(b"no zstd")
    with pytest.raises(oz.ChunkError, match=r"chunk \(0, 0, 0\)"):
        array[0, 0, 0]
    assert array[6, 5, 0] == DATA[6, 5, 0]
    (tmp_path / "c" / "0" / "0" / "0").unlink()
    assert array[0, 0, 0] == 0


def test_settings_are_those_of_the_call(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, data=DATA, chunks=CHUNKS)
    array[0, 0, 0]
    (tmp_path / "c" / "0" / "0" / "0").unlink()
    with pytest.raises(oz.MissingChunk):
        oz.open(tmp_path, missing="raise", kind="array")[0, 0, 0]
    with pytest.raises(oz.MissingChunk):
        array.read((0, 0, 0), missing="raise")
    assert array[0, 0, 0] == 0
