"""A root that replaces one of another format is the one that opens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.storage import ZipStore
from omnizarr.testing import FaultyStore

FORMATS = (1, 2, "3-draft", 3)
STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: oz.storage.MemoryStore(),
    "directory": lambda path: oz.storage.LocalStore(path / "x.zarr"),
    "zip": lambda path: ZipStore(path / "x.zip", mode="a"),
}
DATA = np.arange(4)


def _converted(store: Any, zarr_format: Any) -> None:
    source = oz.create_array({}, data=DATA).store
    oz.convert(source, store, zarr_format=zarr_format, overwrite=True)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "array": lambda store, f: oz.create_array(store, data=DATA, zarr_format=f, overwrite=True),
    "group": lambda store, f: oz.create_group(store, zarr_format=f, overwrite=True),
    "convert": _converted,
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("old", FORMATS)
@pytest.mark.parametrize("new", FORMATS)
@pytest.mark.parametrize("way", WAYS)
def test_a_replaced_root_has_the_keys_of_a_new_one(
    way: str, new: Any, old: Any, kind: str, tmp_path: Path
) -> None:
    """The draft's entry point was erased with another format's root, or outlived its own."""
    if way == "group" and new == 1:
        pytest.skip("version 1 has no groups")
    store, fresh = STORES[kind](tmp_path), oz.storage.MemoryStore()
    oz.create_array(store, data=np.arange(3), zarr_format=old)
    WAYS[way](store, new)
    WAYS[way](fresh, new)
    assert sorted(store.list()) == sorted(fresh.list())
    assert oz.validate(store) == []
    found = oz.open(store)
    assert found.zarr_format == new
    assert isinstance(found, oz.Group) or np.array_equal(found[...], DATA)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_an_interrupted_conversion_is_never_seen_in_part(zarr_format: Any) -> None:
    """A14: the draft's entry point made an empty group of what was not complete."""
    source = oz.create_array({}, data=DATA, chunks=2).store
    for after in range(100):
        values = oz.storage.MemoryStore()
        left = iter([None] * after)
        stopping = FaultyStore(
            values,
            lambda operation, key, left=left: (  # type: ignore[misc]  # bound now
                next(left, OSError("stopped")) if operation.startswith("set") else None
            ),
        )
        try:
            oz.convert(source, stopping, zarr_format=zarr_format)
        except (OSError, oz.OmnizarrError):
            with pytest.raises(oz.NodeNotFound):
                oz.open(values)
        else:
            break
    assert after > 3
    assert np.array_equal(oz.open(values)[...], DATA)
