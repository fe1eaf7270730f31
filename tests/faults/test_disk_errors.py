"""Disks that are full, read-only, unreadable or failing: clear errors, and no loss."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.faults.programs import run
from tests.sampling import sample

DATA = np.random.default_rng(0).integers(1, 2**30, (128, 128), dtype="i4")
ENGINES = sample(["auto", "reference"], 1)
OLD, NEW = b"old value", b"new value!"
SMALL_DISK = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"'
BEGIN = """
from omnizarr import ome
data = np.random.default_rng(0).integers(1, 2**30, (128, 128), dtype="i4")
def store_of(kind):
    if kind == "zip":
        from omnizarr.storage import ZipStore
        return ZipStore(location + "/x.zip", mode="a")
    if kind == "sqlite":
        from omnizarr.stores.sqlite import SQLiteStore
        return SQLiteStore(location + "/x.sqlite")
    if kind == "lmdb":
        from omnizarr.stores.lmdb import LMDBStore
        return LMDBStore(location + "/x.lmdb")
    return oz.storage.LocalStore(location + "/x")
def make(store):
    group = oz.create_group(store)
    group.create_array("a", data=data, chunks=(64, 64))
    group.create_array("b", data=data, chunks=(16, 64), shards=(64, 128))
    return group
def stream(array):
    with array.writer() as writer:
        writer[:100] = 3
def changes(group):
    a, b = group["a"], group["b"]
    yield "chunks", lambda: a.__setitem__(..., data[::-1])
    yield "parts", lambda: a.__setitem__((slice(3, 100), slice(5, 70)), 7)
    yield "shards", lambda: b.__setitem__(..., data[::-1])
    yield "parts of shards", lambda: b.__setitem__((slice(3, 100), slice(5, 70)), 7)
    yield "writer", lambda: stream(b)
    yield "append", lambda: a.append(np.tile(data, (9, 1)))
    yield "attributes", lambda: a.attrs.__setitem__("k", "v" * 10**6)
    yield "array", lambda: group.create_array("new", data=data)
    yield "copy", lambda: oz.create_array(location + "/copy", data=a)
    yield "convert", lambda: oz.convert(group.store, location + "/converted", zarr_format=2)
    yield "image", lambda: ome.write(location + "/image", data, axes="yx")
    yield "consolidate", lambda: oz.consolidate_metadata(group.store)
def refused(messages, group):
    count = 0
    for name, change in changes(group):
        try:
            change()
        except oz.OmnizarrError as e:
            count += 1
            if not any(message in str(e) for message in messages):
                print(name, type(e), e)
    return count
"""


def mount_command(script: str, location: Path) -> list[str]:
    """Return a command prefix that runs a program in its own mount namespace."""
    command = ["unshare", "--mount", "sh", "-c", script, str(location)]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    return command


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("directory", "auto"),
        ("directory", "reference"),
        ("zip", "auto"),
        ("sqlite", "auto"),
        ("lmdb", "auto"),
    ],
)
def test_a_full_disk_is_reported_and_no_stored_value_is_lost(
    kind: str, engine: str, tmp_path: Path
) -> None:
    code = f"""
    store = store_of({kind!r})
    group = make(store)
    filler = os.open(location + "/filler", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(filler, bytes(1024)):
            pass
    except OSError:
        os.close(filler)
    print(refused(["No space left", "disk is full"], group) > 8)  # a small one may find room
    os.unlink(location + "/filler")
    store.close()
    again = oz.open(store_of({kind!r}), "r+")
    known = [*data.ravel(), 3, 7]  # some of several chunks may have been stored
    print(np.isin(again["a"][...], known).all(), np.isin(again["b"][...], known).all())
    print(oz.verify(again.store).ok, sorted(set(again.keys()) - {{"new"}}))
    names = [name for _, _, names in os.walk(location) for name in names]
    print([name for name in names if "__omnizarr" in name])
    again["a"][...] = data[::-1]
    print(np.array_equal(again["a"][...], data[::-1]))
    """
    output = run(
        BEGIN + textwrap.dedent(code), tmp_path, engine, mount_command(SMALL_DISK, tmp_path)
    )
    assert output == ["True", "True True", "True ['a', 'b']", "[]", "True"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_read_only_file_system_can_be_read_and_refuses_writes(
    engine: str, tmp_path: Path
) -> None:
    group = oz.create_group(tmp_path / "x")
    group.create_array("a", data=DATA, chunks=(64, 64))
    group.create_array("b", data=DATA, chunks=(16, 64), shards=(64, 128))
    code = """
    group = oz.open(location + "/x", mode="r+")
    print(refused(["Read-only file system"], group))
    print(np.array_equal(group["a"][...], data), np.array_equal(group["b"][...], data))
    print(oz.verify(location + "/x").ok, oz.repair(location + "/x"))
    """
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    command = mount_command(script, tmp_path)
    output = run(BEGIN + textwrap.dedent(code), tmp_path, engine, command)
    assert output == ["12", "True True", "True []"]


def output_without_privileges(work: Any) -> str:
    """Run a function without privileges in a forked child and return its text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(writing, 1)
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(1, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as output:
        text = output.read()
    os.waitpid(child, 0)
    return text


READS = {
    "chunks": lambda at: at["a"][...],
    "shards": lambda at: at["b"][...],
    "listing": lambda at: sorted(at.keys()),
    "members": lambda at: [m.shape for _, m in oz.open(at.store, "r").arrays()],
    "sizes": lambda at: at["a"].nbytes_stored(),
    "present": lambda at: at["a"].chunks_present(),
    "repair": lambda at: oz.repair(str(at.store)),
    "change": lambda at: at["a"].__setitem__((slice(3, 9), slice(3, 9)), DATA[3:9, 3:9]),
    "attributes": lambda at: at["a"].attrs.__setitem__("k", 1),
}
DENIED = {
    ("", 0): {*READS},
    ("a", 0): {*READS} - {"shards"},
    ("a", 0o555): {"change", "attributes"},
    ("a/zarr.json", 0): {*READS} - {"shards", "repair"},
    ("a/c", 0): {"chunks", "sizes", "present", "repair", "change"},
    ("a/c/0", 0o444): {"chunks", "sizes", "change"},
    ("a/c/0", 0o555): {"change"},
    ("a/c/0/0", 0): {"chunks", "change"},
    ("b/c/1/0", 0): {"shards"},
}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such rights")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "mode"), DENIED)
def test_denied_access_is_an_error_and_not_a_missing_key(
    name: str, mode: int, engine: str, shared_tmp: Path
) -> None:
    root = shared_tmp / "x"
    group = oz.create_group(root)
    group.create_array("a", data=DATA, chunks=(64, 64))
    group.create_array("b", data=DATA, chunks=(16, 64), shards=(64, 128))
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)

    def work() -> str:
        denied = []
        with oz.configure(engine=engine):  # type: ignore[arg-type]  # one of them
            for what, use in READS.items():
                try:
                    use(oz.open(oz.storage.LocalStore(root), mode="r+"))
                except (oz.StoreError, oz.ChunkError) as e:
                    if "Permission denied" in str(e):
                        denied.append(what)
        return " ".join(denied)

    (root / name).chmod(mode)
    try:
        assert set(output_without_privileges(work).split()) == DENIED[name, mode]
    finally:
        (root / name).chmod(0o777)
    again = oz.open(root)
    assert np.array_equal(again["a"][...], DATA)
    assert np.array_equal(again["b"][...], DATA)
    assert not [path for path in root.rglob("*") if "__omnizarr" in path.name]


@pytest.mark.skipif(
    not shutil.which("strace"), reason="strace is not installed (apt-get install strace)"
)
@pytest.mark.parametrize("engine", ENGINES)
def test_fsync_durability_syncs_a_file_before_and_its_folders_after_the_rename(
    engine: str, tmp_path: Path
) -> None:
    cases = [(replaces, how) for replaces in (False, True) for how in ("rename", "fsync")]
    code = f"""
    for number, (replaces, durability) in enumerate({cases}):
        place = f"{{location}}/{{number}}"
        os.mkdir(place)
        array = oz.create_array(place + "/x", shape=(4, 4), chunks=(4, 4), dtype="i4")
        if replaces:
            array[...] = 2
        with oz.configure(durability=durability):
            os.mkdir(place + "/begin")
            array[...] = 1
            os.mkdir(place + "/end")
    """
    log = tmp_path / "calls"
    calls = "trace=linkat,rename,renameat,renameat2,fsync,fdatasync,mkdir,mkdirat,openat"
    command = ["strace", "-f", "-qq", "-y", "-e", calls, "-o", str(log)]
    run(code, tmp_path, engine, command)
    for number, (_, durability) in enumerate(cases):
        traced = log.read_text().split(f"/{number}/begin")[1].split(f"/{number}/end")[0]
        pattern = r"\b(f\w*sync|linkat|rename\w*)\("
        steps = [line for line in traced.splitlines() if re.search(pattern, line)]
        named = max(i for i, step in enumerate(steps) if "sync(" not in step)
        assert 'c/0/0"' in steps[named]
        if durability == "rename":
            assert not [step for step in steps if "sync(" in step]
            continue
        assert re.search(r"/x/c/0/(#|0\.__omnizarr_partial)", steps[0])
        assert "fsync(" in steps[0]
        for folder in ("/x/c/0>", "/x/c>", "/x>"):
            assert any(folder in line for line in steps[named + 1 :]), (folder, steps)
