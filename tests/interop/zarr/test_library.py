"""The configuration of zarr-python has its effect."""

from __future__ import annotations

from typing import Any

import pytest

import omnizarr
from omnizarr.interop.zarr import library


def test_the_number_of_threads_is_that_of_the_configuration(zarr: Any) -> None:
    with zarr.config.set({"threading.max_workers": 2}), library.configured():
        assert omnizarr.config.get().threads == 2


def test_settings_of_arrays_apply_to_new_handles(zarr: Any) -> None:
    with zarr.config.set({"array.write_empty_chunks": True}):
        array = zarr.create_array({}, shape=(4,), chunks=(2,), dtype="i1")
    array[:] = 0
    assert array.nchunks_initialized == 2
    other = zarr.create_array({}, shape=(4,), chunks=(2,), dtype="i1")
    other[:] = 0
    assert other.nchunks_initialized == 0


def test_missing_chunks_are_errors_on_request(zarr: Any) -> None:
    if "read_missing_chunks" not in zarr.config.get("array"):
        pytest.skip("new in zarr-python 3.4")
    array = zarr.create_array({}, shape=(4,), dtype="i1", config={"read_missing_chunks": False})
    with pytest.raises(zarr.errors.ChunkNotFoundError):
        array[:]
