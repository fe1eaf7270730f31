"""Stores of other packages, which accept only the keys of their formats."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr.storage
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import StoreError, WrongType
from omnizarr.formats import Probe
from omnizarr.hierarchy.lookup import fetch_probe
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.testing import FaultyStore
from tests.servers.web import Answer, Web, running

DATA = np.arange(64 * 64, dtype="u2").reshape(64, 64)


# tifffile


@pytest.fixture
def pictures(tmp_path: Path) -> dict[str, Any]:
    """Return stores of tifffile: an image of tiles, and one with a smaller level."""
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "one.tif", DATA, tile=(16, 16))
    with tifffile.TiffWriter(tmp_path / "levels.tif") as writer:
        writer.write(DATA, tile=(16, 16), subifds=1)
        writer.write(DATA[::2, ::2], subfiletype=1, tile=(16, 16))
    names = ("one", "levels")
    return {name: tifffile.imread(tmp_path / f"{name}.tif", aszarr=True) for name in names}


def test_a_tiff_file_is_read_by_the_store_of_tifffile(pictures: dict[str, Any]) -> None:
    """D6: the missing key ``meta`` was an error."""
    array = oz.open(pictures["one"])
    assert np.array_equal(array[...], DATA)
    assert array[17, 33] == DATA[17, 33]
    group = oz.open(pictures["levels"])
    assert [name for name, _ in group.arrays()] == ["0", "1"]
    assert np.array_equal(group["1"][...], DATA[::2, ::2])
    assert "2" not in group
    assert oz.validate(pictures["levels"]) == []


def test_a_tiff_file_is_converted(pictures: dict[str, Any]) -> None:
    """D6."""
    for name, count in (("one", 16), ("levels", 20)):
        found = oz.storage.MemoryStore()
        assert oz.convert(pictures[name], found).chunks_copied == count
        report = oz.verify(pictures[name])
        assert (report.chunks, report.absent, report.findings) == (count, 0, [])
    assert np.array_equal(oz.open(found, path="0")[...], DATA)


class DocumentsOnly(zarr.storage.MemoryStore):
    """A store that lists metadata but no chunks, as tifffile's did until 2026."""

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for key in [*self._store_dict]:
            if key.startswith(prefix) and "/c/" not in f"/{key}":
                yield key


def test_chunks_that_a_store_does_not_list_are_copied_and_counted() -> None:
    """D6: a conversion silently skipped all data."""
    store = DocumentsOnly()
    group = oz.create_group(store)
    group.create_array("a", data=DATA, chunks=(16, 16))
    group.create_array("shards", data=DATA, chunks=(8, 8), shards=(32, 32))
    group.create_array("empty", shape=(8, 8), chunks=(4, 4), dtype="u1")
    found = oz.storage.MemoryStore()
    assert oz.convert(store, found).chunks_copied == 20
    for name in ("a", "shards"):
        assert np.array_equal(oz.open(found, path=name)[...], DATA)
        assert oz.open(store, path=name).nchunks_initialized == oz.open(store, path=name).nchunks
    report = oz.verify(store)
    assert (report.chunks, report.absent, report.findings) == (80, 4, [])
    copied = oz.storage.MemoryStore()
    oz.copy(store, copied)
    assert oz.diff(store, copied).equal
    wrapped = oz.storage.ReadOnlyStore(oz.open(store).store)
    assert oz.convert(wrapped, oz.storage.MemoryStore()).chunks_copied == 20
    part = oz.storage.PrefixStore(oz.open(store).store, "a")
    assert oz.convert(part, oz.storage.MemoryStore()).chunks_copied == 16


# Probes


V3 = b'{"zarr_format": 3, "node_type": "group"}'
DOCUMENTS = {"zarr.json": V3, ".zgroup": b'{"zarr_format": 2}', "meta": b"{}"}


@given(st.sets(st.sampled_from([*DOCUMENTS])), st.sets(st.sampled_from(Probe("").keys())))
def test_a_probe_for_another_format_is_no_error_of_opening(
    present: set[str], refused: set[str]
) -> None:
    """D6b: the preferred format decides, so its keys must have been read without an error."""
    values = {k: v for k, v in DOCUMENTS.items() if k in present}

    def fault(operation: str, key: str) -> Exception | None:
        return StoreError(f"cannot read {key!r}") if key in refused else None

    store = FaultyStore(oz.storage.MemoryStore(values), fault)
    probe, order = Probe(""), Probe("").stages()
    read = {k: v for k, v in values.items() if k not in refused}
    decides = next((i for i, keys in enumerate(order) if {*keys} & values.keys()), len(order) - 1)
    doubtful = any({*keys} & refused for keys in order[: decides + 1])
    if not refused:
        assert fetch_probe(store, probe) == read
    elif doubtful:
        with pytest.raises(StoreError, match="cannot read"):
            fetch_probe(store, probe)
    else:
        found = fetch_probe(store, probe)
        assert probe.formats(found, [])[0].name == probe.formats(values, [])[0].name


class NoDots(Web):
    """A web server that does not serve hidden files, which is a common setting."""

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if "/." in path:
            return Answer(403, b"", {})
        return super().answer(method, path, headers, body)


def test_a_web_server_that_hides_dot_files_serves_version_3() -> None:
    """D6b: 403 for ``.zarray`` was an error although ``zarr.json`` exists."""
    store: dict[str, bytes] = {}
    oz.create_group(store).create_array("a", data=DATA)
    with running(NoDots(store)) as server:
        group = oz.open(server.url)
        assert np.array_equal(group["a"][...], DATA)
        assert np.array_equal(oz.open(f"{server.url}/a")[...], DATA)
        oz.consolidate_metadata(store)
        assert list(oz.open(server.url, use_consolidated=True)) == ["a"]
    old: dict[str, bytes] = {}
    oz.create_group(old, zarr_format=2)
    with running(NoDots(old)) as server, pytest.raises(StoreError, match="403"):
        oz.open(server.url)


# fsspec


@pytest.mark.parametrize("name", ["__init__", "from_url", "from_mapper", "from_upath"])
def test_the_fsspec_store_is_created_like_that_of_zarr_python(name: str) -> None:
    """D6b: the same parameters in the same order, with additional ones after them."""
    theirs = inspect.signature(getattr(zarr.storage.FsspecStore, name)).parameters
    ours = inspect.signature(getattr(FsspecStore, name)).parameters
    assert [*ours][: len(theirs)] == [*theirs]
    for parameter in [*theirs][1:]:
        assert ours[parameter].kind == theirs[parameter].kind, parameter


def test_an_fsspec_store_takes_options_as_a_dictionary(tmp_path: Path) -> None:
    """D6b: ``storage_options=`` was passed to fsspec as an option of that name."""
    url = f"file://{tmp_path}"
    options = {"auto_mkdir": True}
    for store in (
        FsspecStore.from_url(url, options),
        FsspecStore.from_url(url, storage_options=options, read_only=False),
        FsspecStore.from_url(url, **options),
        FsspecStore.from_mapper(fsspec.get_mapper(url, **options)),
    ):
        assert store.fs.auto_mkdir
        assert store.path == str(tmp_path)
    assert FsspecStore.from_url(url, options, True).read_only


def test_a_wrong_second_argument_of_an_fsspec_store_is_explained() -> None:
    """D6b: it was the path."""
    with pytest.raises(WrongType, match="read_only must be True or False, got '/data'; path="):
        FsspecStore(fsspec.filesystem("memory"), "/data")  # type: ignore[arg-type]


def test_a_name_is_no_pattern_in_an_fsspec_store_of_zarr_python() -> None:
    fs = fsspec.filesystem("memory")
    root = f"/names-{os.getpid()}"
    inner = zarr.storage.FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path=root)
    group = oz.create_group(inner)
    for name in ("x[1]", "x1", "a?b", "acb"):
        group[name] = np.arange(3)
    del group["x[1]"]
    del group["a?b"]
    assert sorted(group) == ["acb", "x1"]
    assert group["x1"][...].tolist() == [0, 1, 2]


def test_an_asynchronous_file_system_is_taken(web: Web, tmp_path: Path) -> None:
    """D6b: zarr-python requires those created with ``asynchronous=True``."""
    web.values["a/b"] = b"123"
    fs = fsspec.filesystem("http", asynchronous=True)
    assert FsspecStore(fs, path=web.url).get("a/b") == b"123"
    local = AsyncFileSystemWrapper(fsspec.filesystem("file"), asynchronous=True)
    FsspecStore(local, path=str(tmp_path)).set("k/x", b"1")
    assert (tmp_path / "k" / "x").read_bytes() == b"1"
