"""Creating arrays in the place of zarr-python."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, patch

import numpy as np
import pytest

from omnizarr.interop.zarr import library
from tests.interop.zarr.conftest import replaced

zarr = pytest.fixture(replaced, scope="module")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_metadata_are_made_without_calls_that_a_test_counts(zarr: Any, zarr_format: int) -> None:
    store = zarr.storage.MemoryStore()
    with patch.multiple(zarr.storage.MemoryStore, get=AsyncMock(), set=AsyncMock()):
        array = zarr.create_array(store, name="a", shape=(4,), dtype="i4", zarr_format=zarr_format)
        assert not zarr.storage.MemoryStore.get.called
        assert not zarr.storage.MemoryStore.set.called
    array[:] = 3
    np.testing.assert_array_equal(zarr.open_array(store, path="a")[:], 3)


TYPES = ("f4", ">i2", "bool", "uint64", "c16", "str", "S3", "<M8[ns]", np.dtype("i1"), int)


@pytest.mark.filterwarnings("ignore")  # of types without a specification
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_types_are_described_as_zarr_python_describes_them(zarr: Any, zarr_format: int) -> None:
    create = library.original("zarr.api.asynchronous", "create_array")
    for dtype in TYPES:
        options = {"shape": (4,), "dtype": dtype, "zarr_format": zarr_format}
        theirs = library.sync(create(library.scratch_store(), **options))
        assert zarr.create_array({}, **options).metadata.to_dict() == theirs.metadata.to_dict()


def test_an_order_of_chunks_in_shards_is_kept_and_warned_of_if_it_has_no_effect(zarr: Any) -> None:
    def create(order: str) -> Any:
        codec = zarr.codecs.ShardingCodec(chunk_shape=(2, 2), subchunk_write_order=order)
        return zarr.create_array({}, shape=(4, 4), chunks=(4, 4), dtype="i4", serializer=codec)

    if not hasattr(zarr.codecs, "SubchunkWriteOrder"):
        pytest.skip("new in zarr-python 3.2")
    assert create("lexicographic").metadata.codecs[0].subchunk_write_order == "lexicographic"
    with pytest.warns(UserWarning, match="no effect here"):
        create("colexicographic")
