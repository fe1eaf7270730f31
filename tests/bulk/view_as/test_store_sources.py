"""Views of what other writers and stores have: golden data, every back end, concurrent writers."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import list_prefix
from tests.bulk.view_as.cases import SOURCES, VALUES, expected
from tests.golden import archives
from tests.golden.test_golden import OLD_ZSTD
from tests.parallel import repeating
from tests.sampling import sample

TARGETS = (2, 3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("archive", [archives.V2, archives.SNAPPY, archives.DRAFT])
def test_every_golden_array_is_shown_with_its_values_or_says_why_not(
    archive: str, target: int
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the deviations that the archives are about
        stored = oz.open(archives.store(archive, "store"))
        view = oz.view_as(archives.store(archive, "store"), target)
        listed = {name for name, _ in oz.open(view).members(None)}
        inside = {name for name, _ in oz.open(view, use_consolidated=True).members(None)}
        assert inside == listed
        arrays = {name: each for name, each in stored.members(None) if isinstance(each, oz.Array)}
        for name in sorted(arrays.keys() - listed):
            with pytest.raises(oz.OmnizarrError, match="cannot be shown as zarr"):
                oz.open(view, path=name)
        for name in sample(sorted(arrays.keys() & listed), 60):
            _compare(oz.open(view, path=name), arrays[name])
        assert len(arrays.keys() & listed) > 0.8 * len(archives.names(archive))


def _compare(seen: oz.Array, stored: oz.Array) -> None:
    """Check that two arrays have the same values, or the same error."""
    try:
        values = stored[...]
    except oz.OmnizarrError:
        with pytest.raises(oz.OmnizarrError):
            seen[...]
        return
    found = seen[...]
    if values.dtype.kind in "OT" or found.dtype.kind in "OT":
        pairs = zip(found.ravel().tolist(), values.ravel().tolist(), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)
    else:
        same = values.astype(found.dtype)
        assert found.shape == values.shape
        assert found.tobytes() == same.tobytes() or np.array_equal(found, same)


@pytest.mark.parametrize("target", TARGETS)
def test_every_golden_array_of_version_1_is_shown_with_its_values(target: int) -> None:
    for name in sorted({*archives.names(archives.V1)} - OLD_ZSTD):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = archives.store(archives.V1, f"arrays/{name}")
            _compare(oz.open(oz.view_as(store, target)), oz.open(store))


KINDS: dict[str, Callable[[Path], Any]] = {
    "directory": lambda path: path / "a.zarr",
    "zip": lambda path: path / "a.zarr.zip",
    "sqlite": lambda path: f"sqlite://{path}/a.sqlite",
    "lmdb": lambda path: f"lmdb://{path}/a.lmdb",
    "nested directory": lambda path: oz.storage.NestedDirectoryStore(path / "a.zarr"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["2", "3, shards"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_store_can_be_viewed(
    tmp_path: Path, kind: str, source: str, target: int
) -> None:
    where = KINDS[kind](tmp_path)
    memory = SOURCES[source]()
    oz.convert(memory, where, zarr_format=2 if source == "2" else 3)
    with oz.view_as(where, target) as view:
        np.testing.assert_array_equal(oz.open(view, path="group/a")[...], expected())
        for key in list_prefix(view, ""):
            value, generation = view.get_versioned(key)
            assert value == view.get(key)
            # That of a file is unique for some time after a change.
            assert generation == view.generation(key) or "directory" in kind


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("options", [{"zarr_format": 2}, {"shards": (8, 6)}])
def test_a_reader_sees_old_or_new_chunks_while_the_source_is_written(
    tmp_path: Path, options: dict[str, Any], target: int
) -> None:
    array = oz.create_array(
        tmp_path / "a.zarr", shape=VALUES.shape, chunks=(4, 3), dtype="i4", **options
    )
    array[...] = 0
    seen = oz.open(oz.view_as(tmp_path / "a.zarr", target))
    last, numbers = 0, itertools.count(1)
    with repeating(lambda: array.__setitem__(..., next(numbers))):
        for _ in range(60):
            chunk = seen[:4, :3]
            assert len(np.unique(chunk)) == 1
            assert chunk[0, 0] >= last
            last = int(chunk[0, 0])
    np.testing.assert_array_equal(seen[...], array[...])


@pytest.mark.parametrize("target", TARGETS)
def test_a_chunk_is_never_of_another_array_than_its_metadata(tmp_path: Path, target: int) -> None:
    """The array is replaced again and again by one of another type; each value has its size."""
    store = oz.storage.MemoryStore()
    sizes = {8: 64, 4: 16}

    def write(itemsize: int) -> None:
        options: Any = {"compressors": None, "zarr_format": 5 - target, "overwrite": True}
        values = np.zeros(sizes[itemsize] // itemsize, f"i{itemsize}")
        values[...] = itemsize
        array = oz.create_array(store, data=values, chunks=values.shape, **options)
        array[...] = values

    view, key = None, "0" if target == 2 else "c/0"
    for itemsize in (8, 4, 8, 4):
        write(itemsize)
        view = view or oz.view_as(store, target)
        assert len(view.get(key) or b"") == sizes[itemsize]
        assert view.sizes([key]) == {key: sizes[itemsize]}
        assert set(oz.open(view)[...]) == {itemsize}
