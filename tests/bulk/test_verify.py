"""Verification finds damaged data and reports nothing else."""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs.compressors import Crc32c
from omnizarr.stores import MemoryStore, list_prefix
from tests.conformance.shards import raw, sharding
from tests.sampling import some_of_each

FORMATS = [1, 2, "3-draft", 3]
DEPTHS = ["present", "checksums", "decode"]


def hierarchy(where: Path, zarr_format: Any = 3) -> Path:
    """Return two arrays in a group; of version 1, one array."""
    data = np.arange(400, dtype="i4").reshape(20, 20) + 1
    if zarr_format == 1:
        oz.create_array(where, data=data, chunks=(10, 10), zarr_format=1)
        return where
    group = oz.create_group(where, zarr_format=zarr_format, attributes={"a": 1})
    group.create_array("plain", data=data, chunks=(10, 10))
    shards = {} if zarr_format == 2 else {"shards": (20, 20)}
    group.create_array("below/sharded", data=data, chunks=(5, 10), **shards)
    return where


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_sound_data_are_sound_at_every_depth(zarr_format: Any, depth: Any, tmp_path: Path) -> None:
    report = oz.verify(hierarchy(tmp_path / "x", zarr_format), depth=depth)
    assert report.ok
    assert not report.findings
    assert report.chunks == (4 if zarr_format == 1 else 12)
    assert report.absent == 0


def test_a_report_counts_absent_chunks_and_those_without_a_checksum(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path)
    group.create_array("a", shape=100, chunks=10, dtype="i4")[35:55] = 1
    b = group.create_array("b", shape=100, chunks=10, dtype="i4", compressors=None)
    b[:10] = 1
    report = oz.verify(tmp_path, depth="checksums")
    assert (report.groups, report.arrays, report.chunks) == (1, 2, 4)
    assert (report.absent, report.unchecked) == (16, 1)
    assert report.ok
    assert str(report).endswith("0 errors, 0 warnings")


def sharded(where: Path) -> tuple[oz.Array, Path]:
    array = oz.create_array(
        where, shape=(8, 8), chunks=(4, 2), shards=(8, 8), dtype="u1", compressors=None
    )
    array[...] = np.arange(1, 65).reshape(8, 8)
    return array, where / "c/0/0"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_damaged_index_is_found_at_every_depth(depth: Any, tmp_path: Path) -> None:
    _, file = sharded(tmp_path)
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    report = oz.verify(tmp_path, depth=depth)
    [found] = report.findings
    assert "index" in found.message
    assert found.chunk == (0, 0)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("entry", [(10**6, 8), (2**63, 8), (0, 2**40), (64, 8), (2**64 - 1, 8)])
def test_an_index_that_leads_elsewhere_is_found_at_every_depth(
    depth: Any, entry: tuple[int, int], tmp_path: Path
) -> None:
    codecs = [sharding(4, 2, index_codecs=[raw()])]
    array = oz.create_array(tmp_path, shape=(8, 8), chunks=(8, 8), dtype="u1", codecs=codecs)
    array[...] = np.arange(1, 65).reshape(8, 8)
    file = tmp_path / "c/0/0"
    data = bytearray(file.read_bytes())
    assert len(data) == 64 + 8 * 16
    struct.pack_into("<QQ", data, 64 + 16 * 5, *entry)
    file.write_bytes(data)
    report = oz.verify(tmp_path, depth=depth)
    [found] = report.findings
    assert found.chunk == (1, 1)
    assert report.chunks == 8


def test_an_inner_chunk_is_named_by_its_coordinates_in_the_array(tmp_path: Path) -> None:
    array = oz.create_array(
        tmp_path, shape=(16, 8), chunks=(4, 2), shards=(8, 4), dtype="u1", fill_value=0
    )
    array[...] = 7
    file = tmp_path / "c/1/1"
    index = np.frombuffer(file.read_bytes()[-(16 * 4 + 4) : -4], "<u8").reshape(4, 2)
    data = bytearray(file.read_bytes())
    data[int(index[3, 0]) + 1] ^= 255
    file.write_bytes(data)
    for depth in ("checksums", "decode"):
        [found] = oz.verify(tmp_path, depth=depth).findings  # type: ignore[arg-type]  # a word
        assert found.chunk == (3, 3)


def test_folders_that_link_to_each_other_end(tmp_path: Path) -> None:
    hierarchy(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "below/up").symlink_to("..")
    group = oz.open(tmp_path)
    assert sorted(group) == ["below", "plain"]
    assert oz.verify(tmp_path).chunks == 12
    assert len(list(itertools.islice(list_prefix(group.store, ""), 100))) == 9


@pytest.mark.parametrize(("second", "reported"), [((1, 2), True), ((0, 2), False), ((2, 2), False)])
def test_overlapping_inner_chunks_are_reported(second: tuple[int, int], reported: bool) -> None:
    """Equal chunks may be stored once, with the same byte range."""
    store = MemoryStore()
    given: dict[str, Any] = {"shape": (4,), "chunks": (2,), "shards": (4,), "compressors": None}
    oz.create_array(store, dtype="u1", **given)[:] = [1, 2, 3, 4]
    index = np.array([(0, 2), second], "<u8").tobytes()
    store.set("c/0", bytes([1, 2, 3, 4]) + bytes(Crc32c().encode(index)))
    found = [f.message for f in oz.verify(store, depth="present").findings]
    shared = "the index gives it bytes 1 to 2, which belong to chunk (0,)"
    assert [shared in text for text in found] == ([True] if reported else [])


# Absent chunks, other documents, unknown codecs


@given(
    st.sampled_from([(2, None), (3, None), (3, (8, 6)), ("3-draft", None), ("3-draft", (8, 6))]),
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=20),
)
def test_absent_chunks_are_listed_with_their_keys(
    kind: tuple[Any, tuple[int, int] | None], written: set[tuple[int, int]]
) -> None:
    """D8: they were only counted; the list has exactly the chunks that are not stored."""
    zarr_format, shards = kind
    store = MemoryStore()
    array = oz.create_array(
        store, shape=(18, 11), chunks=(4, 3), dtype="i2", shards=shards, zarr_format=zarr_format
    )

    def place(row: int, column: int) -> tuple[slice, slice]:
        return slice(4 * row, 4 * row + 4), slice(3 * column, 3 * column + 3)

    for chunk in written:
        array[place(*chunk)] = 7
    holes = {(r, c) for r in range(5) for c in range(4)} - written
    report = oz.verify(store, missing="error")
    assert {f.chunk for f in report.findings} == holes
    assert (report.absent, report.ok) == (len(holes), not holes)
    for finding in report.findings:
        assert finding.level == "error"
        assert finding.chunk is not None
        before = store.get(finding.key)
        array[place(*finding.chunk)] = 1  # which is then stored under that key
        assert store.get(finding.key) not in (None, before)
        array[place(*finding.chunk)] = 0
    assert {f.level for f in oz.verify(store, missing="warn").findings} <= {"warning"}
    assert not oz.verify(store).findings


def test_inner_chunks_of_a_damaged_shard_are_not_reported_as_missing(tmp_path: Path) -> None:
    """D8."""
    array = oz.create_array(tmp_path, shape=24, chunks=2, shards=8, dtype="i2")
    array[:16] = 1
    shard = tmp_path / "c" / "0"
    shard.write_bytes(shard.read_bytes()[:-3] + b"abc")
    report = oz.verify(tmp_path, missing="error")
    keys = {"is missing" in f.message: f.key for f in report.findings}
    assert keys == {False: "c/0", True: "c/2"}
    assert report.absent == 8


@pytest.mark.parametrize(("old", "new"), [(1, 2), (1, 3), (2, 3)])
@pytest.mark.filterwarnings("ignore:.*there are metadata of")
def test_metadata_left_by_a_conversion_in_place_is_not_an_unknown_key(
    old: int, new: int, tmp_path: Path
) -> None:
    """D9: each was a warning."""
    store = hierarchy(tmp_path / "x", old)
    if old == 2:
        oz.consolidate_metadata(store)
    oz.convert(store, zarr_format=new, in_place=True)
    assert oz.verify(store).findings == []
    (store / "stray").write_bytes(b"")
    assert [f.key for f in oz.verify(store).findings] == ["stray"]


@pytest.mark.parametrize("field", ["codecs", "chunk_key_encoding"])
def test_chunks_of_an_array_that_is_not_understood_are_not_strays(
    field: str, tmp_path: Path
) -> None:
    """D9: there is one finding for the array, not one for every chunk."""
    store = hierarchy(tmp_path / "x")
    document = store / "plain" / "zarr.json"
    stated = json.loads(document.read_text())
    named = stated[field][-1] if field == "codecs" else stated[field]
    named["name"] = "of-nobody"
    document.write_text(json.dumps(stated))
    report = oz.verify(store)
    (finding,) = report.findings
    assert "its chunks cannot be checked" in finding.message
    assert report.chunks == (12 if field == "codecs" else 8)
    assert report.unchecked == (4 if field == "codecs" else 0)


def put_folder(path: Path) -> None:
    path.mkdir()


def put_filled_folder(path: Path) -> None:
    path.mkdir()
    (path / "x").write_bytes(b"x")


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


IN_PLACE: dict[str, Callable[[Path], None]] = {
    "folder": put_folder,
    "filled folder": put_filled_folder,
    "link to a folder": lambda path: path.symlink_to(path.parent),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "pipe": lambda path: os.mkfifo(path),
    "socket": put_socket,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="such files are POSIX's")
@pytest.mark.parametrize(
    ("case", "layout"),
    some_of_each(itertools.product(IN_PLACE, DEPTHS), [*itertools.product(FORMATS, (".", "/"))], 2),
)
def test_a_chunk_that_is_not_a_regular_file_is_reported(
    case: tuple[str, Any], layout: tuple[Any, str], in_tmp: Path
) -> None:
    """A19: a folder, a link or a socket under a chunk's key is an error, at every depth."""
    (kind, depth), (zarr_format, separator) = case, layout
    options = {} if zarr_format == 1 else {"chunk_key_encoding": separator}
    data = np.ones((4, 4), "i4")
    array = oz.create_array("x", data=data, chunks=2, zarr_format=zarr_format, **options)
    place = Path("x", array.chunk_key((1, 0)))
    place.unlink()
    assert oz.verify("x", depth=depth).ok
    IN_PLACE[kind](place)
    report = oz.verify("x", depth=depth)
    found = [f for f in report.findings if f.level == "error"]
    assert [(f.path, f.key, f.chunk) for f in found] == [("/", array.chunk_key((1, 0)), (1, 0))]
    oz.create_array("y", data=data, chunks=2, shards=4)
    Path("y", "c", "0", "0").unlink()
    IN_PLACE[kind](Path("y", "c", "0", "0"))
    assert not oz.verify("y", depth=depth).ok


def test_names_that_no_text_encoding_has_are_reported(tmp_path: Path) -> None:
    oz.save(tmp_path / "a", np.arange(3))
    document = tmp_path / "a" / "zarr.json"
    document.write_text(document.read_text().replace('"name": "bytes"', '"name": "\\ud800"'))
    (finding,) = oz.verify(tmp_path / "a").findings
    assert "unknown codec '\\ud800'" in finding.message
