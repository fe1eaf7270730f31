"""Copies of values between stores of all kinds, small and large, and their comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnizarr import stores
from omnizarr.config import configure
from omnizarr.errors import StoreError
from omnizarr.stores import Entry, LocalStore, MemoryStore, Store, list_entries, transfer
from omnizarr.stores.sqlite import SQLiteStore
from omnizarr.stores.transfer import ValueCopy, kept_time, read_parts
from omnizarr.stores.zip.store import ZipStore
from tests.sampling import some_of_each
from tests.servers.fixtures import Cloud

KINDS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda path: MemoryStore(),
    "directory": lambda path: LocalStore(path / "directory"),
    "zip": lambda path: ZipStore(path / "values.zip", mode="a"),
    "sqlite": lambda path: SQLiteStore(path / "values.db"),
}
names = st.text("abc0.", min_size=1, max_size=3).filter(lambda name: name.strip("."))
keys = st.lists(names, min_size=1, max_size=3).map("/".join)


def values(store: Store, prefix: str = "") -> dict[str, bytes | None]:
    skip = len(prefix)
    return {key[skip:]: store.get(key) for key in stores.list_prefix(store, prefix)}


def without_folders(found: dict[str, bytes]) -> dict[str, bytes]:
    """Return those values whose keys are no folders of others, as files require."""
    return {k: v for k, v in found.items() if not any(o.startswith(f"{k}/") for o in found)}


@contextmanager
def compiled(files: bool) -> Iterator[None]:
    """Copy files by compiled code, or without it."""
    with pytest.MonkeyPatch.context() as patch:
        if not files:
            patch.setattr(transfer, "_files", None)
        yield


@pytest.mark.parametrize(("old", "new"), some_of_each(KINDS, [*KINDS], 2))
def test_values_are_the_same_between_all_kinds_of_stores(
    tmp_path: Path, old: str, new: str
) -> None:
    (tmp_path / "to").mkdir()
    number = iter(range(1000))

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(keys, st.binary(max_size=200), max_size=12).map(without_folders))
    def check(wanted: dict[str, bytes]) -> None:
        n = next(number)
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "to").mkdir()
        source, target = KINDS[old](folder), KINDS[new](folder / "to")
        for key, value in wanted.items():
            source.set(f"x/{key}", value)
        work = ValueCopy(source, target, "x/", "y/z/")
        entries = [Entry(e.key[2:], *e[1:]) for e in list_entries(source, "x/")]
        with compiled(bool(n % 2)):
            result = work.copy(entries)
        assert values(target, "y/z/") == wanted
        assert (result.values, result.nbytes) == (len(wanted), sum(map(len, wanted.values())))
        assert result.missing == []
        assert work.differing(entries) == []
        if entries:
            target.set(f"y/z/{entries[0].key}", b"another value")
            target.erase(f"y/z/{entries[-1].key}")
            assert set(work.differing(entries)) == {entries[0].key, entries[-1].key}

    check()


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", KINDS)
def test_large_values_are_copied_in_parts(
    tmp_path: Path, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PART", 1000)
    monkeypatch.setattr(transfer, "STREAMED", 5000)
    (tmp_path / "to").mkdir()
    source, target = KINDS[old](tmp_path), KINDS[new](tmp_path / "to")
    wanted = {"a": os.urandom(5500), "b/c": os.urandom(6000), "d": os.urandom(10), "e": b""}
    for key, value in wanted.items():
        source.set(key, value)
    work = ValueCopy(source, target)
    entries = [*list_entries(source, "")]
    for files in (True, False):
        with compiled(files):
            assert work.copy(entries).nbytes == 11510
        assert values(target) == wanted
    assert work.differing(entries) == []
    source.set("a", wanted["a"][:-1] + bytes([wanted["a"][-1] ^ 1]))
    source.set("b/c", wanted["b/c"][:-1])
    assert set(work.differing(entries)) == {"a", "b/c"}
    target.erase("a")
    assert "a" in work.differing(entries)
    assert b"".join(read_parts(source, "b/c")) == wanted["b/c"][:-1]
    with pytest.raises(StoreError, match="there is no value at 'gone'"):
        list(read_parts(source, "gone"))


def test_keys_without_a_value_are_reported(tmp_path: Path) -> None:
    for make in KINDS.values():
        (tmp_path / "to").mkdir(exist_ok=True)
        work = ValueCopy(make(tmp_path), MemoryStore())
        assert work.copy([Entry("no"), Entry("nor/this")]).missing == ["no", "nor/this"]


def test_a_bucket_is_copied_to_and_from(
    tmp_path: Path, s3: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PART", 2**20)
    monkeypatch.setattr(transfer, "STREAMED", 2**22)
    wanted = {f"a/c/{n}": os.urandom(n) for n in range(40)} | {"large": os.urandom(9 * 2**20 + 5)}
    source = LocalStore(tmp_path / "a")
    for key, value in wanted.items():
        source.set(key, value)
    bucket = stores.resolve(s3.url, storage_options=s3.options)
    up = ValueCopy(source, bucket, "", "x/")
    entries = [*list_entries(source, "")]
    assert up.copy(entries).values == len(wanted)
    assert up.differing(entries) == []
    assert values(bucket, "x/") == wanted
    down = ValueCopy(bucket, LocalStore(tmp_path / "b"), "x/", "")
    listed = [Entry(e.key[2:], *e[1:]) for e in list_entries(bucket, "x/")]
    assert all(e.tag and e.modified for e in listed)
    down.copy(listed)
    assert values(down.target) == wanted
    kept = {e.key: e.modified for e in list_entries(down.target, "")}
    assert kept == {e.key: kept_time(e) for e in listed}
    assert all(0 <= kept[e.key] - e.modified < 10**9 for e in listed)


def test_copies_of_files_keep_the_modification_time(tmp_path: Path) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    source.set("x/0", b"12")
    os.utime(tmp_path / "a/x/0", ns=(10**18 + 1, 10**18 + 12345))
    for durability in ("fsync", "rename"):
        with configure(durability=durability):
            ValueCopy(source, target).copy([*list_entries(source, "")])
        assert os.stat(tmp_path / "b/x/0").st_mtime_ns == 10**18 + 12345
        target.erase("x/0")


def test_a_file_that_cannot_be_copied_names_itself(tmp_path: Path) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    source.set("x/0", b"12")
    source.set("x/1", b"13")
    target.set("x", b"a file where a folder is needed")
    with pytest.raises(StoreError, match=r"cannot write '.*x/0'"):
        ValueCopy(source, target).copy([*list_entries(source, "")])


def test_tags_prove_more_than_times(tmp_path: Path) -> None:
    old, new = Entry("a", 3, 100, "tag"), Entry("a", 3, 50, "tag")
    far, near = (ValueCopy(MemoryStore(), to) for to in (MemoryStore(), LocalStore(tmp_path)))
    untagged, minute = new._replace(tag=None), 60 * 10**9
    assert far.is_same(old, new, "time") is True
    assert far.is_same(old, new._replace(tag="other"), "time") is False
    assert far.is_same(old, untagged, "time") is False
    assert far.is_same(old, untagged._replace(modified=minute), "time") is False
    assert far.is_same(old, untagged._replace(modified=2 * minute), "time") is True
    assert near.is_same(old, untagged._replace(modified=101), "time") is False
    kept = untagged._replace(modified=kept_time(old))
    assert near.is_same(old, kept, "time") is True
    assert near.is_same(old._replace(tag="other"), kept, "time") is False
    assert near.is_same(old, untagged._replace(modified=None), "time") is None
    assert near.is_same(Entry("a"), Entry("a", 3), "size") is None
