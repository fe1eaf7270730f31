"""Few large chunks are read in parts, by several threads for each."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numcodecs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.engine import kernel
from tests.engine.test_reference import needs_kernel

pytestmark = needs_kernel


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_several_threads_read_parts_of_one_chunk(codec: str | None, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(2**19,), (4, 2**17), (1, 2**19), (31, 129, 131)]))
    chunks = data.draw(st.sampled_from([shape, (-(-shape[0] // 2), *shape[1:])]))
    values = np.random.default_rng(7).integers(0, 99, shape).astype("i4")
    box = tuple(data.draw(st.slices(n) | st.integers(0, n - 1)) for n in shape)
    compressor = None if codec is None else numcodecs.Blosc(codec, blocksize=2**14)
    with TemporaryDirectory() as folder, oz.configure(threads=16):
        array = oz.create_array(
            folder, data=values, chunks=chunks, compressors=compressor, zarr_format=2
        )
        assert np.array_equal(array[box], values[box])
        with mock.patch.object(kernel, "run_rows", wraps=kernel.run_rows) as run:
            assert np.array_equal(array[...], values)
    parts = [len(call.args[1]) for call in run.call_args_list]
    each = values.nbytes // array.nchunks // kernel.PART
    assert parts == ([] if codec == "zstd" else [each * array.nchunks])


def test_a_chunk_that_is_damaged_or_missing_is_named(tmp_path: Path) -> None:
    values = np.arange(1, 2**20 + 1, dtype="i4")
    array = oz.create_array(tmp_path, data=values, chunks=2**20, compressors=None)
    os.truncate(tmp_path / "c" / "0", 2**21)
    with oz.configure(threads=16):
        with pytest.raises(oz.ChunkError, match=r"chunk \(0,\)"):
            _ = array[...]
        (tmp_path / "c" / "0").unlink()
        assert not array[...].any()
        with pytest.raises(oz.MissingChunk):
            array.read(missing="raise")


def test_parts_of_a_chunk_that_is_replaced_meanwhile_are_not_mixed(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=2**20, chunks=2**20, dtype="i4", compressors=None)
    array[...] = 1
    real = kernel.run_rows

    def run(capsule: Any, rows: Any, keys: Any, *more: Any) -> list[int]:
        first: list[int] = real(capsule, rows[:1], keys[:1], *more)
        oz.open(tmp_path, "r+")[...] = 2
        return [*first, *(n + 1 for n in real(capsule, rows[1:], keys[1:], *more))]

    with oz.configure(threads=16), mock.patch.object(kernel, "run_rows", run):
        assert np.array_equal(array[...], np.full(2**20, 2))
