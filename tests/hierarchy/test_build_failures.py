"""A failed writer leaves nothing that looks complete, and loses no data of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.testing import FaultyStore

VALUES = np.arange(1, 61, dtype="i4").reshape(6, 10)
WRITES = ("set", "erase", "set_new", "erase_prefix", "set_many")


class NoData:
    """Values that cannot be read."""

    shape = (6, 10)
    dtype = np.dtype("i4")

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("no data")

    __getitem__ = __array__


def _fill(group: oz.Group) -> None:
    group.create_array("x", data=VALUES, chunks=(4, 4))
    group.create_group("inner").create_array("x", data=VALUES, chunks=(4, 4))


def _move(root: oz.Group) -> None:
    root.move("old", "new")


@pytest.mark.parametrize("zarr_format", [2, "3-draft", 3])
@pytest.mark.parametrize("work", [_move])
def test_a_store_that_fails_once_leaves_no_array_without_its_values(
    work: Callable[[oz.Group], None], zarr_format: Any
) -> None:
    """Failed writers of several nodes: metadata come after all values, and go before them."""
    number, failed = 0, True
    while failed:
        inner, left, failed = MemoryStore(), number, False
        _fill(oz.create_group(inner, zarr_format=zarr_format).create_group("old"))

        def fault(operation: str, key: str) -> Exception | None:
            nonlocal left, failed
            left -= operation in WRITES
            if left >= 0 or failed:
                return None
            failed = True
            return oz.StoreError("cannot write")

        root = oz.open(FaultyStore(inner, fault), mode="r+")
        try:
            work(root)
        except (oz.StoreError, oz.ChunkError):
            assert failed
        for path in ("new/x", "new/inner/x"):
            try:
                found = oz.open(inner, path=path)[...]
            except oz.NodeNotFound:
                continue
            np.testing.assert_array_equal(found, VALUES, err_msg=f"{path} after {number} writes")
        number += 1
    assert number > 10


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_no_array_is_created_above_other_nodes_that_keep_their_chunks(
    kind: str, zarr_format: Any, overwrite: bool, tmp_path: Path
) -> None:
    """Its chunks would have taken the place of theirs, and they would have been erased with it."""
    store = LocalStore(tmp_path / "x") if kind == "directory" else MemoryStore()
    oz.create_array(store, path="g/x", data=VALUES, zarr_format=zarr_format)
    store.erase("g/zarr.json" if zarr_format == 3 else "g/.zgroup")
    store.set("g/notes.txt", b"mine")
    with pytest.raises(oz.NodeExists, match="others are below it"):
        oz.create_array(store, path="g", data=VALUES, zarr_format=zarr_format, overwrite=overwrite)
    with pytest.raises(oz.NodeNotFound):
        oz.open(store, path="g", kind="array")
    with pytest.raises(RuntimeError, match="no data"):
        oz.create_array(store, path="h", data=NoData(), zarr_format=zarr_format)
    with pytest.raises(oz.NodeNotFound):
        oz.open(store, path="h", kind="array")
    np.testing.assert_array_equal(oz.open(store, path="g/x")[...], VALUES)
    assert store.get("g/notes.txt") == b"mine"
