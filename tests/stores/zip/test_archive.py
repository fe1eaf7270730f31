"""ZIP archives that are unusual, damaged, hostile or were not closed."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnizarr.errors import OmnizarrError, OmnizarrWarning, StoreError
from omnizarr.stores import MemoryStore, Range
from omnizarr.stores.zip import ZipStore
from tests.memory import peak
from tests.stores.zip.test_store import read_back

VALUES = {"a/k": b"value " * 50, "b": b"", "c": bytes(range(256))}


def archive(values: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for key, value in values.items():
            file.writestr(key, value)
    return buffer.getvalue()


def of(data: bytes) -> ZipStore:
    """Return the archive as the value of a key."""
    return ZipStore.inside(MemoryStore({"x.zip": data}), "x.zip")


def contents(store: ZipStore) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def is_refused(store: ZipStore, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        store.get("a/k")


# Odd, but right


def test_bytes_in_front_of_an_archive_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"#!/bin/sh\n" * 30 + archive(VALUES))
    assert contents(ZipStore(tmp_path / "x.zip")) == VALUES
    assert contents(of(b"#!/bin/sh\n" * 30 + archive(VALUES))) == VALUES
    with ZipStore(tmp_path / "x.zip", mode="a") as store:
        store.set("d", b"new")
    assert read_back(tmp_path / "x.zip") == {**VALUES, "d": b"new"}


def test_bytes_behind_an_archive_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(archive(VALUES) + b"\n\0trailing")
    assert contents(ZipStore(tmp_path / "x.zip")) == VALUES


def test_of_two_entries_with_one_name_the_last_counts(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("k", b"first")
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("k", b"second")
    assert contents(ZipStore(tmp_path / "x.zip")) == {"k": b"second"}
    with ZipStore(tmp_path / "x.zip", mode="a") as store:
        store.set("l", b"l")
    assert read_back(tmp_path / "x.zip") == {"k": b"second", "l": b"l"}


def test_names_that_lead_outside_are_no_keys(tmp_path: Path) -> None:
    data = archive({"../up": b"1", "/abs": b"2", "a/": b"", "a//b": b"3", "ok": b"4"})
    store = of(data)
    assert list(store.list()) == ["ok"]
    assert store.list_dir("") == (["ok"], [])


def test_names_in_other_encodings_are_read() -> None:
    raw = "é".encode("cp437")
    unicode = struct.pack("<BI", 1, zlib.crc32(raw)) + "Ω".encode()
    field = struct.pack("<2H", 0x7075, len(unicode)) + unicode
    for extra, name in ((b"", "é"), (field, "Ω")):
        local = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, zlib.crc32(b"1"), 1, 1, 1, 0)
        central = struct.pack(
            "<4s6H3I5H2I",
            *(b"PK\1\2", 20, 20, 0, 0, 0, 0, zlib.crc32(b"1"), 1, 1, 1, len(extra), 0, 0, 0, 0, 0),
        )
        head = local + raw + b"1"
        directory = central + raw + extra
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(directory), len(head), 0)
        assert contents(of(head + directory + end)) == {name: b"1"}


def test_sizes_behind_the_data_are_read_and_compacted(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *args: Any) -> int:
            raise io.UnsupportedOperation

        def tell(self) -> int:
            raise io.UnsupportedOperation

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as file:
        for key, value in VALUES.items():
            file.writestr(key, value)
    assert contents(of(pipe.getvalue())) == VALUES
    (tmp_path / "x.zip").write_bytes(pipe.getvalue())
    with ZipStore(tmp_path / "x.zip", mode="a") as store:
        store.compact()
    assert read_back(tmp_path / "x.zip") == VALUES


# Damaged


def test_a_header_of_another_entry_is_noticed() -> None:
    data = archive({"a/k": b"12345"}).replace(b"a/k12345", b"a/l12345")
    for part in (None, Range(0, 2)):
        with pytest.raises(StoreError, match="'a/k' does not agree with the header"):
            of(data).get("a/k", part)


@pytest.mark.parametrize("size", [0, 1, 21, 100, -1, -22, -60])
def test_a_cut_archive_is_an_error_and_not_empty(tmp_path: Path, size: int) -> None:
    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        store.set("k", b"1" * 200)
    data = (tmp_path / "x.zip").read_bytes()[:size]
    (tmp_path / "cut.zip").write_bytes(data)
    for store in (of(data), ZipStore(tmp_path / "cut.zip")):
        with pytest.raises(StoreError, match=r"lost its end|has no bytes"):
            store.get("k")
        with pytest.raises(StoreError, match=r"lost its end|has no bytes"):
            list(store.list())


def test_a_file_that_is_not_an_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(StoreError, match=r"x\.zip.*not a ZIP archive"):
        ZipStore(tmp_path / "x.zip").get("k")
    with pytest.raises(StoreError, match="not a ZIP archive"):
        ZipStore(tmp_path / "x.zip", mode="a").set("k", b"1")
    assert (tmp_path / "x.zip").read_bytes() == b"<html>not found</html>" * 100
    (tmp_path / "d.zip").mkdir()
    with pytest.raises(StoreError, match="directory"):
        ZipStore(tmp_path / "d.zip").get("k")


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [(6, 1, "encrypted"), (8, 77, "method 77")],
)
def test_entries_that_cannot_be_unpacked_say_why(offset: int, value: int, message: str) -> None:
    data = bytearray(archive({"a/k": b"12345"}))
    at = data.index(b"PK\1\2")
    data[offset] = data[at + offset + 2] = value
    with pytest.raises(StoreError, match=f"'a/k' is.*{message}"):
        of(bytes(data)).get("a/k")


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_archive_gives_the_values_or_an_error(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    damaged = bytearray(archive(VALUES, method))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(damaged))))
    try:
        found = contents(of(bytes(damaged[:cut])))
    except OmnizarrError:
        return
    # A name may have changed; a value under its own name may not.
    for key in VALUES.keys() & found.keys():
        assert found[key] == VALUES[key]


# Hostile


@pytest.mark.parametrize("field", ["length", "start", "count", "packed", "size"])
def test_numbers_that_cannot_be_are_refused_in_little_memory(field: str) -> None:
    data = bytearray(archive({"a/k": b"1" * 1000}, zipfile.ZIP_DEFLATED))
    central, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    places = {
        "count": (end + 10, "<H", 60_000),
        "length": (end + 12, "<I", 0xFFFFFFF0),
        "start": (end + 16, "<I", 0xFFFFFFF0),
        "packed": (central + 20, "<I", 0xFFFFFFF0),
        "size": (central + 24, "<I", 0xFFFFFFF0),
    }
    at, form, value = places[field]
    struct.pack_into(form, data, at, value)
    assert peak(lambda: is_refused(of(bytes(data)), r"x\.zip")) < 5_000_000


def test_a_value_larger_than_it_says_is_not_unpacked_further() -> None:
    data = bytearray(archive({"a/k": bytes(50_000_000)}, zipfile.ZIP_DEFLATED))
    struct.pack_into("<I", data, data.index(b"PK\1\2") + 24, 1000)
    store = of(bytes(data))
    assert peak(lambda: is_refused(store, "does not have the 1000 bytes")) < 5_000_000


def test_a_part_of_a_split_archive_is_refused() -> None:
    data = bytearray(archive(VALUES))
    data[data.rindex(b"PK\5\6") + 4] = 1
    with pytest.raises(StoreError, match="several files"):
        of(bytes(data)).get("b")


# Not closed


def killed_writer(folder: Path, code: str) -> None:
    """Run a program in a folder, and kill it when it says so."""
    code = "from omnizarr.stores.zip import ZipStore\n" + code + "\nprint('now', flush=True)\n"
    code += "import time; time.sleep(60)"
    program = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "now\n"
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()


def test_a_new_archive_whose_writer_was_killed_is_read(tmp_path: Path) -> None:
    code = "s = ZipStore('x.zip', mode='w'); [s.set(f'k{i}', b'v%d' % i) for i in range(5)]"
    killed_writer(tmp_path, code + "; s.flush(); s.set('k0', b'again')")
    expected = {"k0": b"again", **{f"k{i}": b"v%d" % i for i in range(1, 5)}}
    with pytest.warns(OmnizarrWarning, match="was not closed.*5 entries"):
        assert contents(ZipStore(tmp_path / "x.zip")) == expected
    store = ZipStore(tmp_path / "x.zip", mode="a")
    with pytest.warns(OmnizarrWarning, match="was not closed"):
        store.set("new", b"1")
    store.close()
    assert read_back(tmp_path / "x.zip") == {**expected, "new": b"1"}


@pytest.mark.parametrize("lost", [1, 10, 150, 230])
def test_a_torn_last_entry_is_left_out(tmp_path: Path, lost: int) -> None:
    code = "s = ZipStore('x.zip', mode='w'); s.set('k', b'1'); s.set('torn', b'2' * 200)"
    killed_writer(tmp_path, code)
    os.truncate(tmp_path / "x.zip", (tmp_path / "x.zip").stat().st_size - lost)
    with pytest.warns(OmnizarrWarning, match="1 entries"):
        assert contents(ZipStore(tmp_path / "x.zip")) == {"k": b"1"}
    store = ZipStore(tmp_path / "x.zip", mode="a")
    with pytest.warns(OmnizarrWarning, match="1 entries"):
        assert list(store.list()) == ["k"]
    store.close()
    assert read_back(tmp_path / "x.zip") == {"k": b"1"}


def test_a_cut_archive_of_two_sessions_is_not_taken_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for key in ("k", "l"):
        with ZipStore(path, mode="a") as store:
            store.set(key, b"1" * 200)
    os.truncate(path, path.stat().st_size - 60)
    with pytest.raises(StoreError, match="lost its end"):
        ZipStore(path).get("k")


def test_an_archive_inside_an_archive_is_not_taken_for_its_directory(tmp_path: Path) -> None:
    inner = archive({"inner": b"1"})
    code = f"s = ZipStore('x.zip', mode='w'); s.set('k', b'1'); s.set('in.zip', {inner!r})"
    killed_writer(tmp_path, code)
    with pytest.warns(OmnizarrWarning, match="2 entries"):
        assert contents(ZipStore(tmp_path / "x.zip")) == {"k": b"1", "in.zip": inner}
    with ZipStore(tmp_path / "y.zip", mode="w") as store:
        store.set("in.zip", inner)
    assert contents(ZipStore.inside(ZipStore(tmp_path / "y.zip"), "in.zip")) == {"inner": b"1"}


def test_an_archive_that_cannot_be_loaded_is_not_locked_by_the_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"no archive" * 10)
    with pytest.raises(StoreError) as caught:
        ZipStore(path, mode="a").get("a")
    path.write_bytes(b"")
    with ZipStore(path, mode="a") as store:
        store.set("a", b"1")
        assert store.get("a") == b"1"
    assert "not a ZIP archive" in str(caught.value)


def test_what_a_killed_writer_erased_does_not_come_back(tmp_path: Path) -> None:
    """Each state that is recovered is one that there was, in the order of the changes."""
    path = tmp_path / "x.zip"
    with ZipStore(path, mode="w") as store:
        store.set("x/zarr.json", b"old")
        store.set("x/c/0", b"old")
    code = "s = ZipStore('x.zip', mode='a'); s.erase('x/zarr.json'); s.erase_prefix('x/')"
    killed_writer(tmp_path, code + "; s.set('x/c/1', b'new')")
    with pytest.warns(OmnizarrWarning, match="1 entries are complete and were recovered"):
        keys = list(ZipStore(path).list())
    assert keys == ["x/c/1"]
    with pytest.warns(OmnizarrWarning), ZipStore(path, mode="a") as store:
        store.set("k", b"1")
    with zipfile.ZipFile(path) as plain:
        assert sorted(plain.namelist()) == ["k", "x/c/1"]


def test_a_killed_writer_after_a_flush_loses_nothing(tmp_path: Path) -> None:
    killed_writer(tmp_path, "s = ZipStore('x.zip', mode='w'); s.set('k', b'1'); s.flush()")
    assert read_back(tmp_path / "x.zip") == {"k": b"1"}
    assert contents(ZipStore(tmp_path / "x.zip")) == {"k": b"1"}


def test_values_complete_before_a_killed_writer_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(archive(VALUES, zipfile.ZIP_DEFLATED))
    killed_writer(tmp_path, "s = ZipStore('x.zip', mode='a'); s.set('b', b'new'); s.set('d', b'd')")
    with pytest.warns(OmnizarrWarning, match="was not closed.*4 entries"):
        assert contents(ZipStore(tmp_path / "x.zip")) == {**VALUES, "b": b"new", "d": b"d"}
