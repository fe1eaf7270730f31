"""The ZIP store: the suites, writing, processes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import stores
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.stores import LocalStore, MemoryStore, Range, Store
from omnizarr.stores.zip import ZipStore
from omnizarr.testing import RecordingStore, run_in_fork
from omnizarr.testing.stores import (
    AbsenceTests,
    ClosableTests,
    ConditionalTests,
    PicklableTests,
    ReadableTests,
    ReadOnlyTests,
    SharedTests,
    StoreTests,
)


class TestZip(
    StoreTests, SharedTests, ConditionalTests, ClosableTests, ReadOnlyTests, AbsenceTests
):
    compression = 0

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return ZipStore(tmp_path / "store.zip", mode="a", compression=self.compression)

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Store:
        with ZipStore(tmp_path / "r.zip", mode="w", compression=self.compression) as store:
            store.set("a/k", b"1")
        return ZipStore(tmp_path / "r.zip")

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Store:
        (tmp_path / "broken.zip").write_bytes(b"PK\3\4 and no more")
        return ZipStore(tmp_path / "broken.zip", mode="a")


class TestDeflatedZip(TestZip):
    compression = 8


class TestOzx(TestZip):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return ZipStore(tmp_path / "store.ozx", mode="w")


class TestZipOfAnotherWriter(ReadableTests, PicklableTests):
    @pytest.fixture(params=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
    def method(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    @pytest.fixture
    def store(self, tmp_path: Path, method: int) -> Store:
        self.method_used = method
        return ZipStore(tmp_path / "store.zip")

    def put(self, store: Any, values: dict[str, bytes]) -> None:
        with zipfile.ZipFile(store.path, "w", self.method_used) as file:
            for key, value in values.items():
                file.writestr(key, value)


class TestZipInAStore(TestZipOfAnotherWriter):
    @pytest.fixture(params=["memory", "local"])
    def store(self, tmp_path: Path, method: int, request: pytest.FixtureRequest) -> Store:
        self.method_used = method
        inner: Store = MemoryStore() if request.param == "memory" else LocalStore(tmp_path)
        return ZipStore.inside(inner, "deep/x.zip")

    def put(self, store: Any, values: dict[str, bytes]) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", self.method_used) as file:
            for key, value in values.items():
                file.writestr(key, value)
        store.inner.set(store.path, buffer.getvalue())


def read_back(path: Path) -> dict[str, bytes]:
    """Read an archive with Python's zipfile; no name may occur twice."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        names = file.namelist()
        assert len(set(names)) == len(names)
        return {name: file.read(name) for name in names}


# Writing


@pytest.mark.parametrize("compression", [0, 8])
def test_other_programs_read_our_archives(tmp_path: Path, compression: int) -> None:
    values = {"zarr.json": b"{}", "Ω/c/0": b"x" * 1000, "empty": b""}
    with ZipStore(tmp_path / "x.zip", mode="w", compression=compression) as store:
        stores.set_many(store, values.items())
    assert read_back(tmp_path / "x.zip") == values
    with zipfile.ZipFile(tmp_path / "x.zip") as file:
        assert {i.compress_type for i in file.infolist()} == {compression}
        assert file.getinfo("Ω/c/0").flag_bits & 0x800


def test_a_value_that_is_set_again_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with ZipStore(path, mode="w") as store:
        store.set("k", b"first")
        store.set("gone", b"x")
        store.set("k", b"second")
        store.erase("gone")
    with ZipStore(path, mode="a") as store:
        store.set("k", b"third")
        store.set("l", b"l")
    assert read_back(path) == {"k": b"third", "l": b"l"}
    assert list(ZipStore(path).list()) == ["k", "l"]


def test_compacting_gives_back_the_space_of_replaced_values(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with ZipStore(path, mode="w") as store:
        for i in range(10):
            store.set("k", bytes([i]) * 10_000)
            store.flush()
        store.set("l", b"l")
        assert path.stat().st_size > 100_000
        store.compact()
        assert path.stat().st_size < 11_000
        assert (store.get("k"), store.get("l")) == (b"\x09" * 10_000, b"l")
        store.set("m", b"m")
    assert read_back(path) == {"k": b"\x09" * 10_000, "l": b"l", "m": b"m"}
    assert [p.name for p in tmp_path.iterdir()] == ["x.zip"]


def test_a_flushed_archive_is_complete_and_can_be_continued(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "x.zip", mode="w")
    assert read_back_later(store, tmp_path) == {}
    store.set("k", b"1")
    assert read_back_later(store, tmp_path) == {"k": b"1"}
    store.set("l", b"2")
    assert read_back_later(store, tmp_path) == {"k": b"1", "l": b"2"}
    store.close()
    size = (tmp_path / "x.zip").stat().st_size
    ZipStore(tmp_path / "x.zip", mode="a").close()
    assert (tmp_path / "x.zip").stat().st_size == size  # nothing changed, nothing is written


def read_back_later(store: ZipStore, folder: Path) -> dict[str, bytes]:
    store.flush()
    return read_back(folder / "x.zip")


def test_entries_of_other_programs_stay_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.comment = b"a remark"
        file.writestr("folder/", b"")
        file.writestr("../outside", b"evil")
        file.writestr("k", b"1" * 500)
    with ZipStore(path, mode="a") as store:
        assert list(store.list()) == ["k"]
        store.set("l", b"2")
        store.compact()
    expected = {"folder/": b"", "../outside": b"evil", "k": b"1" * 500, "l": b"2"}
    assert read_back(path) == expected
    with zipfile.ZipFile(path) as file:
        assert file.comment == b"a remark"


def test_modes_create_keep_or_refuse(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for mode in ("r", "a", "r+"):
        store = ZipStore(path, mode=mode)
        assert store.get("k") is None
        assert list(store.list()) == []
        store.close()
        assert not path.exists()
    with ZipStore(path, mode="x") as store:
        store.set("k", b"1")
    for mode in ("x", "w-"):
        with pytest.raises(StoreError, match=r"x\.zip"):
            ZipStore(path, mode=mode)
    assert ZipStore(path).get("k") == b"1"
    ZipStore(path, mode="w").close()
    assert read_back(path) == {}
    with pytest.raises(InvalidArgument, match="mode"):
        ZipStore(path, mode="q")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="compression"):
        ZipStore(path, compression=14)
    with ZipStore(tmp_path / "new" / "folders" / "x.zip", mode="a") as store:
        store.set("k", b"1")
    assert read_back(tmp_path / "new" / "folders" / "x.zip") == {"k": b"1"}
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot open"):
        ZipStore(tmp_path / "file" / "x.zip", mode="w")


def test_a_full_disk_leaves_the_old_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ZipStore(tmp_path / "x.zip", mode="w")
    store.set("k", b"old")
    real = os.write

    def full(descriptor: int, data: Any) -> int:
        if len(data) > 5:
            return real(descriptor, bytes(data)[:5])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreError, match=r"cannot write 'k'.*No space left"):
            store.set("k", b"new" * 100)
    assert store.get("k") == b"old"
    store.set("l", b"l")
    store.close()
    assert read_back(tmp_path / "x.zip") == {"k": b"old", "l": b"l"}


# Large archives


def test_entries_behind_four_gigabytes_are_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with ZipStore(path, mode="w") as store:
        store.set("near", b"1")
        store._write()._end = 5 * 2**30  # a hole, which takes no space
        store.set("far", b"2" * 100)
    assert read_back(path) == {"near": b"1", "far": b"2" * 100}
    reader = ZipStore(path)
    assert (reader.get("near"), reader.get("far")) == (b"1", b"2" * 100)


def test_more_entries_than_sixteen_bits_count(tmp_path: Path) -> None:
    names = [f"c/{i // 256}/{i % 256}" for i in range(66_000)]
    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        stores.set_many(store, ((name, b"") for name in names))
    reader = ZipStore(tmp_path / "x.zip")
    assert sorted(reader.list()) == sorted(names)
    assert len(reader.list_dir("c/")[1]) == 258
    with zipfile.ZipFile(tmp_path / "x.zip") as file:
        assert len(file.namelist()) == 66_000


# Stores that share a file


def test_stores_of_one_path_share_unfinished_archives(tmp_path: Path) -> None:
    writer = ZipStore(tmp_path / "x.zip", mode="w")
    other = ZipStore(tmp_path / "x.zip", mode="a")
    reader = ZipStore(tmp_path / "x.zip")
    writer.set("k", b"1")
    other.set("l", b"2")
    assert [*reader.list_prefix("")] == ["k", "l"]
    other.erase("l")
    other.set("j", b"")
    assert [*reader.list_prefix("")] == ["j", "k"]

    class Entries(dict[str, Any]):
        def __delitem__(self, key: str) -> None:
            assert [*reader.list_prefix("")] == ["j", "k"]  # as another thread might
            super().__delitem__(key)

    archive = other._write()
    archive.live = archive.live._replace(entries=Entries(archive.live.entries))
    other.erase("j")
    assert [*reader.list_prefix("")] == ["k"]
    other.set("l", b"2")
    assert (reader.get("k"), reader.get("l"), writer.get("l")) == (b"1", b"2", b"2")
    writer.close()
    assert read_back(tmp_path / "x.zip") == {"k": b"1", "l": b"2"}
    other.set("m", b"3")
    other.close()
    assert read_back(tmp_path / "x.zip") == {"k": b"1", "l": b"2", "m": b"3"}


def test_an_archive_is_completed_when_the_program_ends(tmp_path: Path) -> None:
    code = (
        "import omnizarr as oz, numpy as np\n"
        "a = oz.create_array('x.zip', data=np.arange(5))\n"
        "keep = [a]; keep.append(keep)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert oz.open(tmp_path / "x.zip")[...].tolist() == list(range(5))
    assert "zarr.json" in read_back(tmp_path / "x.zip")


def test_another_process_cannot_write_the_same_archive(tmp_path: Path) -> None:
    code = (
        "import sys; from omnizarr.stores.zip import ZipStore; s = ZipStore('x.zip', mode='a')\n"
        "try: s.set('k', b'2')\n"
        "except OSError as e: print(type(e).__name__, e)\n"
    )

    def attempt() -> str:
        run = [sys.executable, "-c", code]
        return subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        store.set("k", b"1")
        assert re.match("Conflict .* written by another process", attempt())
    assert read_back(tmp_path / "x.zip") == {"k": b"1"}
    assert attempt() == ""
    assert read_back(tmp_path / "x.zip") == {"k": b"2"}


def test_a_forked_child_reads_and_does_not_write(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "x.zip", mode="w")
    store.set("k", b"1")

    def child() -> None:
        assert store.get("k") == b"1"
        with pytest.raises(StoreError, match="one writer"):
            store.set("k", b"2")
        store.close()

    run_in_fork(child)
    store.set("l", b"2")
    store.close()
    assert read_back(tmp_path / "x.zip") == {"k": b"1", "l": b"2"}
    reader = ZipStore(tmp_path / "x.zip")
    assert reader.get("k") == b"1"
    run_in_fork(lambda: None if reader.get("l") == b"2" else sys.exit(1))


def test_a_child_that_lives_on_does_not_keep_the_archive_locked(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "x.zip", mode="w")
    store.set("k", b"1")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        store.close()
        with ZipStore(tmp_path / "x.zip", mode="a") as again:
            again.set("l", b"2")
    finally:
        os.close(write)
        os.waitpid(child, 0)
        os.close(read)
    assert read_back(tmp_path / "x.zip") == {"k": b"1", "l": b"2"}


# Single-file OME-Zarr


def test_a_single_file_ome_zarr_has_its_metadata_first(tmp_path: Path) -> None:
    path = tmp_path / "x.ozx"
    root = oz.create_group(path)
    image = root.create_array("b/0", data=np.arange(6).reshape(2, 3), chunks=(1, 3))
    root.create_array("a", data=np.arange(2))
    root.attrs["ome"] = {"version": "0.5", "multiscales": []}
    image[0, 0] = 5
    del root, image
    with zipfile.ZipFile(path) as file:
        infos = file.infolist()
        names = [info.filename for info in infos]
        comment = json.loads(file.comment)
        assert file.testzip() is None
    assert names[:4] == ["zarr.json", "a/zarr.json", "b/zarr.json", "b/0/zarr.json"]
    assert not any(name.endswith("zarr.json") for name in names[4:])
    assert sorted(infos, key=lambda info: info.header_offset) == infos
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}
    assert comment == {
        "ome": {"version": "0.5", "zipFile": {"centralDirectory": {"jsonFirst": True}}}
    }
    data = path.read_bytes()
    assert data.startswith(b"PK\3\4")
    assert b"PK\6\6" in data  # ZIP64 also where it is small
    assert oz.open(path)["b/0"][0].tolist() == [5, 1, 2]


# Few requests


def test_an_archive_in_a_store_is_opened_with_one_request_and_read_with_one(
    tmp_path: Path,
) -> None:
    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        oz.create_array(store, data=np.arange(64), chunks=(8,))
    inner = RecordingStore(MemoryStore({"x.zip": (tmp_path / "x.zip").read_bytes()}))
    store = ZipStore.inside(inner, "x.zip")
    wanted = [(f"c/{i}", None) for i in range(8)]
    assert None not in store.get_many(wanted)
    assert inner.counts() == {"get": 1, "get_many": 1}
    inner.calls.clear()
    assert oz.open(store)[8:24].tolist() == list(range(8, 24))
    assert all(call.keys[0] == "x.zip" for call in inner.calls)


def test_a_part_of_a_large_value_is_read_without_the_rest(tmp_path: Path) -> None:
    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        store.set("shard", bytes(range(256)) * 40_000)
        store.set("other", bytes(200_000))
    read: list[int] = []

    class Counting(LocalStore):
        def get(self, key: str, range: Range | None = None) -> bytes | None:
            value = super().get(key, range)
            read.append(len(value or b""))
            return value

        def get_many(self, requests: Any) -> list[bytes | None]:
            return [self.get(key, range) for key, range in requests]

    reader = ZipStore.inside(Counting(tmp_path), "x.zip")
    assert reader.get("shard", Range(-256)) == bytes(range(256))
    assert reader.get("shard", Range(512, 3)) == b"\0\1\2"
    assert sum(read) < 70_000
