"""Listed rows: the kernel reads only the parts of chunks that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import kernel

pytestmark = pytest.mark.skipif(not kernel.available(), reason="the kernel was not built")


def _bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts bytes")
@pytest.mark.parametrize(
    ("codecs", "shards"),
    [
        ({"compressors": None}, None),
        ({"compressors": {"name": "blosc", "configuration": {"cname": "lz4"}}}, None),
        ({"compressors": "zstd"}, (512, 4096)),
    ],
    ids=["raw", "blosc", "shards"],
)
def test_only_the_listed_rows_of_large_chunks_are_read(
    codecs: dict[str, Any], shards: Any, tmp_path: Path
) -> None:
    data = np.random.default_rng(0).integers(0, 2**15, (512, 4096), "u2")
    chunks = (512, 4096) if shards is None else (8, 4096)
    array = oz.create_array(tmp_path / "a", data=data, chunks=chunks, shards=shards, **codecs)
    rows = [500, 3, 250, 4]
    _ = array[rows]  # what a first read does besides
    before = _bytes_read()
    counting = _bytes_read() - before
    before = _bytes_read()
    got = array[rows]
    read = _bytes_read() - before - counting
    np.testing.assert_array_equal(got, data[rows])
    assert read < data.nbytes // 4
