"""Directories packed by others: special files, circular links, great depth, giant shapes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.hierarchy.location import MAX_DEPTH

GROUP = '{"zarr_format": 3, "node_type": "group"}'
ENGINES = ["auto", "reference"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["pipe", "loop", "device"])
def test_a_chunk_that_is_not_a_regular_file_is_an_error(
    kind: str, engine: str, tmp_path: Path
) -> None:
    array = oz.create_array(tmp_path, shape=4, chunks=4, dtype="u1")
    (tmp_path / "c").mkdir()
    _special(tmp_path / "c/0", kind)
    with oz.configure(engine=engine), pytest.raises(oz.ChunkError, match=r"chunk \(0,\)"):
        array[...]
    assert not oz.verify(tmp_path).ok


@pytest.mark.parametrize("kind", ["pipe", "loop", "device"])
def test_metadata_that_is_not_a_regular_file_is_an_error(kind: str, tmp_path: Path) -> None:
    _special(tmp_path / "zarr.json", kind)
    with pytest.raises(oz.StoreError, match=r"zarr\.json"):
        oz.open(tmp_path)


def _special(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else "/dev/zero")


def test_folders_with_circular_links_are_listed_once(tmp_path: Path) -> None:
    for name in ("x", "x/a", "x/b"):
        oz.create_group(tmp_path / name)
    (tmp_path / "x/a/to").symlink_to(tmp_path / "x/b")
    (tmp_path / "x/b/to").symlink_to(tmp_path / "x/a")
    group = oz.open(tmp_path / "x")
    names = sorted(name for name, _ in group.members(max_depth=None))
    assert names == ["a", "a/to", "b", "b/to"]


def test_links_cannot_multiply_nodes_without_limit(tmp_path: Path) -> None:
    for level in range(12):
        folder = tmp_path / f"{level}"
        folder.mkdir()
        (folder / "zarr.json").write_text(GROUP)
        for name in "xyz" if level else "":
            (folder / name).symlink_to(tmp_path / f"{level - 1}")
    group = oz.open(tmp_path / "11")
    with pytest.raises(oz.StoreError, match="links"):
        list(group.members(max_depth=None))
    assert isinstance(group["x/y/z"], oz.Group)


WALKS: dict[str, Callable[[Path], Any]] = {
    "tree": lambda at: str(oz.open(at).tree()),
    "html": lambda at: oz.open(at).tree()._repr_html_(),
    "members": lambda at: list(oz.open(at).members(max_depth=None)),
    "visit": lambda at: oz.open(at).members(max_depth=None),
    "consolidate": oz.consolidate_metadata,
    "convert": lambda at: oz.convert(at, at.parent / "out", zarr_format=2),
}


@pytest.mark.parametrize("name", WALKS)
def test_a_hierarchy_beyond_the_depth_limit_is_an_error(name: str, tmp_path: Path) -> None:
    start = os.getcwd()
    top = tmp_path / "x"
    top.mkdir()
    try:
        os.chdir(top)
        for _ in range(MAX_DEPTH + 20):
            Path("zarr.json").write_text(GROUP)
            os.mkdir("a")
            os.chdir("a")
    finally:
        os.chdir(start)
    with pytest.raises(oz.InvalidMetadata, match=f"more than {MAX_DEPTH} levels deep"):
        WALKS[name](top)
    assert any("levels deep" in p.message for p in oz.validate(top))
    assert any("levels deep" in f.message for f in oz.verify(top).findings if f.level == "error")


def giant(where: Path, inner: bool) -> oz.Array:
    """Create an array of 2^62 chunks, one of which is stored and damaged."""
    codecs: list[Any] = [{"name": "bytes"}]
    if inner:
        config = {"chunk_shape": [1, 1], "codecs": codecs, "index_codecs": index()}
        codecs = [{"name": "sharding_indexed", "configuration": config}]
    size = 2**20 if inner else 1
    doc = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [2**31, 2**31],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [size, size]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": codecs,
    }
    where.mkdir(parents=True)
    (where / "zarr.json").write_text(json.dumps(doc))
    (where / "c/0").mkdir(parents=True)
    (where / "c/0/0").write_bytes(b"x" * 100)
    return oz.open(where, "r+")


def index() -> list[Any]:
    return [{"name": "bytes", "configuration": {"endian": "little"}}]


@pytest.mark.parametrize("inner", [False, True])
def test_an_array_with_2_to_the_62_chunks_is_inspected_quickly(inner: bool, tmp_path: Path) -> None:
    array = giant(tmp_path / "a", inner)
    assert array.nchunks == 2**62
    assert str(array.info)
    assert array.nbytes_stored() > 100
    report = oz.verify(tmp_path / "a")
    assert not report.ok
    assert 2**62 - report.absent <= 1
    with pytest.raises(oz.SelectionError, match="too many to list"):
        array.chunks_present()
    if not inner:
        with pytest.raises(oz.InvalidMetadata, match="along one axis"):
            _ = array.write_chunk_sizes
    if inner:
        with pytest.raises(oz.ChunkError, match="shorter than its index"):
            _ = array.nchunks_initialized
    else:
        assert array.nchunks_initialized == 1
    with pytest.raises(MemoryError if inner else oz.SelectionError):
        array[...]
    if not inner:
        assert array[5, 5] == 0
        assert array[5 :: 2**30, 7].tolist() == [0, 0]


def test_text_that_decompresses_beyond_the_limit_is_refused() -> None:
    store: dict[str, bytes] = {}
    array = oz.create_array(
        store, shape=3, dtype=str, compressors={"name": "gzip", "configuration": {"level": 9}}
    )
    array[...] = np.array(["x" * 2**20] * 3, np.dtypes.StringDType())
    with (
        oz.configure(max_unpacked="1MiB"),
        pytest.raises(oz.ChunkError, match="more than the 1048576 bytes"),
    ):
        array[...]
    assert len(array[0]) == 2**20
