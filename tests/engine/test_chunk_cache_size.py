"""What the chunk cache keeps of what the kernel reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import chunk_cache, kernel

DATA = np.random.default_rng(2).integers(1, 60, (40, 1000)).astype("i4")


needs_kernel = pytest.mark.skipif(not kernel.available(), reason="the kernel was not built")


@needs_kernel
def test_chunks_that_the_kernel_decodes_quickly_are_not_kept(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a", data=DATA, chunks=(8, 100))
    with oz.configure(chunk_cache="1MB"):
        found = chunk_cache.current()
        for _ in range(3):
            assert np.array_equal(array[...], DATA)
        assert found is not None
        assert found.nbytes == 0


@needs_kernel
def test_the_kernel_reads_what_is_read_once_and_keeps_what_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.random.default_rng(3).integers(0, 100, (1024, 512)).astype("u4")
    array = oz.create_array(tmp_path / "a", data=data, chunks=(512, 512), compressors="zstd")
    monkeypatch.setattr("omnizarr.stores.local.store.TICK", 0)
    calls: list[int] = []
    uncached = kernel.read

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args[1].count)
        return uncached(*args, **options)

    monkeypatch.setattr(kernel, "read", counted)
    with oz.configure(chunk_cache="8MB"):
        found = chunk_cache.current()
        assert found is not None
        assert np.array_equal(array[...], data)
        assert (calls, found.nbytes) == ([2], 0)
        assert np.array_equal(array[:512], data[:512])
        assert found.nbytes == data.nbytes // 2 + chunk_cache.ENTRY
        assert np.array_equal(array[3:700], data[3:700])
        assert found.nbytes == data.nbytes + 2 * chunk_cache.ENTRY
        assert np.array_equal(array[3:5], data[3:5])
        assert calls == [2]
