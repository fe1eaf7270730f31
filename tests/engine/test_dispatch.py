"""Both engines leave the same files and folders, and request no more than they need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from tests.parallel import together

SHAPE = (6, 7, 5)


def tree(root: Path) -> list[str]:
    """Return every file and folder, except the folder of locks."""
    found = (str(path.relative_to(root)) for path in root.rglob("*"))
    return sorted(name for name in found if "__omnizarr_" not in name)


def parts(length: int) -> Any:
    return st.just(slice(None)) | st.slices(length)


@settings(max_examples=30)
@given(
    st.sampled_from([("3", False), ("3", True), ("2", False), ("3-draft", False)]),
    st.sampled_from([".", "/"]),
    st.sampled_from(["rename", "fsync"]),
    st.lists(st.tuples(st.sampled_from([0, 0, 1]), *map(parts, SHAPE)), max_size=3),
)
def test_engines_leave_the_same_files_and_folders(
    layout: tuple[str, bool], separator: str, durability: str, writes: list[Any]
) -> None:
    """A17: an array of fill values leaves neither a file nor a folder."""
    trees = []
    for engine in ("auto", "reference"):
        with (
            tempfile.TemporaryDirectory() as folder,
            oz.configure(engine=engine, durability=durability),
        ):
            group = oz.create_group(folder, zarr_format=layout[0])
            array = group.create_array(
                "x",
                shape=SHAPE,
                chunks=(2, 3, 5),
                shards=(4, 3, 5) if layout[1] else None,
                dtype="i2",
                chunk_key_encoding=separator,
            )
            array[...] = 1
            for value, *selection in writes:
                array[tuple(selection)] = value
            values = array[...]
            trees.append((tree(Path(folder)), values.tobytes()))
    assert trees[0] == trees[1]


def test_removing_empty_folders_loses_no_chunk(tmp_path: Path) -> None:
    """A17: one thread removes the folders that others write to."""
    array = oz.create_array(tmp_path / "x", shape=(8, 4), chunks=(1, 1), dtype="i2")

    def work(column: int) -> None:
        for value in range(1, 60):
            array[:, column] = value % 3
            assert (array[:, column] == value % 3).all()

    together(*(partial(work, n) for n in range(4)))
    assert (array[...] == 59 % 3).all()


class Asked(oz.storage.LocalStore):
    """A store that counts requests for values that are held open."""

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        with super().snapshot() as get_many:

            def counted(requests: Any) -> Any:
                requests = [*requests]
                self.asked = [*getattr(self, "asked", []), *requests]
                return get_many(requests)

            yield counted


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_a_shard_is_read_once(location: str, tmp_path: Path) -> None:
    """A17: a file that is held open cannot be replaced between its index and its parts."""
    data = np.arange(64, dtype="u2")
    store = Asked(tmp_path / "x")
    array = oz.create_array(store, shape=64, chunks=4, shards=32, dtype="u2", compressors=None)
    array[...] = data
    document = (tmp_path / "x" / "zarr.json").read_text()
    assert '"index_location": "end"' in document
    with oz.configure(engine="reference"):
        if location == "start":
            codec = array.metadata.to_dict()["codecs"][0]
            codec["configuration"]["index_location"] = "start"
            store = Asked(tmp_path / "y")
            array = oz.create_array(store, shape=64, chunks=32, dtype="u2", codecs=[codec])
            array[...] = data
        assert np.array_equal(array[30:34], data[30:34])
    index = 8 * 16 + 4
    lengths = [part.length or -part.start for _, part in store.asked]
    assert lengths.count(index) == 2  # of two shards
