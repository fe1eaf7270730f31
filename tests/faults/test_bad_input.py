"""Hostile and broken input: an error of this library, in bounded memory and time."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

import omnizarr as oz
from omnizarr.hierarchy.location import MAX_DEPTH
from tests.conformance.shards import raw, sharding
from tests.conformance.v3_metadata import array_doc, open_doc, regular
from tests.memory import peak

BOMB = bytes(2**26)  # 64 MiB of zeros, a few hundred KiB at most when packed


def blosc_bomb() -> bytes:
    return (
        b"\x02\x01\x21\x04"
        + (2**31 - 17).to_bytes(4, "little")
        + b"\0\0\1\0"
        + b"\x40\0\0\0"
        + b"\0" * 48
    )


BOMBS: dict[str, tuple[Any, bytes]] = {
    "gzip": ({"name": "gzip", "configuration": {"level": 1}}, gzip.compress(BOMB)),
    "zlib": ({"id": "zlib", "level": 1}, zlib.compress(BOMB)),
    "bz2": ({"id": "bz2", "level": 1}, bz2.compress(BOMB)),
    "lzma": ({"id": "lzma", "preset": 0}, lzma.compress(BOMB, preset=0)),
    "zstd": ({"name": "zstd", "configuration": {"level": 1}}, bytes(numcodecs.Zstd().encode(BOMB))),
    "lz4": ({"id": "lz4"}, (2**31 - 1).to_bytes(4, "little") + bytes(64)),
    "blosc": ({"id": "blosc"}, blosc_bomb()),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb_is_refused_before_it_is_decompressed(name: str) -> None:
    codec, bomb = BOMBS[name]
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=100, dtype="i4", chunks=100, codecs=["bytes", codec])
    store["c/0"] = bomb
    array = oz.open(store)

    def read() -> None:
        with pytest.raises(oz.ChunkError, match="chunk"):
            array[...]

    assert peak(read) < 2**22 + 4 * len(bomb)


@pytest.mark.parametrize("dtype", [str, bytes])
def test_a_vlen_chunk_with_a_false_item_count_is_refused(dtype: type) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=4, dtype=dtype, compressors=None)
    counts = [(bytes([n, 0, 0, 0]) + n * b"\1\0\0\0a", f"{n} items, exp") for n in (3, 5)]
    long = b"\4\0\0\0" + b"\xff\xff\xff\x7f" + b"abc"
    for bad, said in (*counts, (b"\xff" * 4, "items"), (long, ""), (b"\4\0", ""), (b"", "")):
        store["c/0"] = bad
        with pytest.raises(oz.ChunkError, match=rf"chunk \(0,\).*{said}"):
            oz.open(store, kind="array")[...]


def test_creating_a_giant_array_takes_little_memory() -> None:
    store: dict[str, bytes] = {}

    def make() -> None:
        array = oz.create_array(
            store, shape=(10**6, 10**6, 1000), dtype="f4", chunks=(100, 100, 10)
        )
        array[5, 5, 5] = 7
        assert oz.open(store)[5, 5, 4:7].tolist() == [0, 7, 0]
        assert array.nchunks == 10**10

    assert peak(make) < 2**22
    assert sorted(store) == ["c/0/0/0", "zarr.json"]


def test_an_array_with_chunks_larger_than_any_memory_is_refused_on_opening() -> None:
    with pytest.raises(oz.InvalidMetadata, match="one chunk"):
        open_doc(shape=[2**50], chunk_grid=regular(2**50))


def test_an_invalid_node_does_not_block_its_siblings() -> None:
    store: dict[str, bytes] = {}
    group = oz.create_group(store)
    group.create_array("good", data=np.arange(3))
    group.create_array("bad", data=np.arange(3))
    store["bad/zarr.json"] = b"{"
    with pytest.warns(oz.OmnizarrWarning, match="'bad' is left out"):
        assert list(group) == ["good"]
    assert "bad  (cannot be read:" in str(group.tree())
    assert group["good"][...].tolist() == [0, 1, 2]
    with pytest.raises(oz.InvalidMetadata, match=r"bad/zarr\.json"):
        _ = group["bad"]


def test_a_problem_is_not_repeated_for_dependent_fields() -> None:
    problems = oz.validate(array_doc(chunk_grid=regular(-1)))
    assert [p.field for p in problems] == ["chunk_grid"]
    assert str(problems[0]).startswith("zarr.json: chunk_grid: chunk grid 'regular': ")


GROUP = '{"zarr_format": 3, "node_type": "group"}'


@pytest.mark.parametrize("engine", ["auto", "reference"])
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


@pytest.mark.parametrize("inner", [False, True])
def test_an_array_with_2_to_the_62_chunks_is_inspected_quickly(inner: bool, tmp_path: Path) -> None:
    size = 2**20 if inner else 1
    codecs = [sharding(1, 1, index_codecs=[raw()])] if inner else [raw()]
    doc = array_doc(shape=[2**31] * 2, chunk_grid=regular(size, size), codecs=codecs)
    (tmp_path / "a/c/0").mkdir(parents=True)
    (tmp_path / "a/zarr.json").write_text(json.dumps(doc))
    (tmp_path / "a/c/0/0").write_bytes(b"x" * 100)  # damaged
    array = oz.open(tmp_path / "a", "r+")
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
