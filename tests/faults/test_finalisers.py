"""Finalisers that read, write and change attributes at any moment."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import omnizarr as oz
from omnizarr import engine
from omnizarr.concurrency import file_locks
from tests.sampling import sample

PROGRAM = """
import faulthandler, gc, sys, threading, time, weakref
faulthandler.dump_traceback_later(90, exit=True)  # says where it hangs
import omnizarr as oz
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.sqlite import SQLiteStore
location, kind, engine, cache = sys.argv[1:]
oz.config.set(engine=engine, threads=4)
stores = {
    "directory": lambda: location + "/x",
    "memory": oz.storage.MemoryStore,
    "zip": lambda: oz.storage.ZipStore(location + "/x.zip", mode="a"),
    "sqlite": lambda: SQLiteStore(location + "/x.sqlite"),
    "lmdb": lambda: LMDBStore(location + "/x.lmdb"),
}
store = stores[kind]()
group = oz.create_group(store, zarr_format=3)
shared = [group.create_array("a", shape=(64, 64), chunks=(8, 8), dtype="i4")]
shared.append(group.create_array("b", shape=(64, 64), chunks=(8, 8), shards=(32, 32), dtype="i4"))
others = [group.create_array(name, shape=(64, 64), chunks=(8, 8), dtype="i4") for name in "cd"]
for array in (*shared, *others):
    array[...] = 1
inside, calls, errors = threading.local(), [], []

def finalise():
    if getattr(inside, "now", False):  # no finaliser inside another
        return
    inside.now = True
    try:
        calls.append(1)
        for array in shared:
            assert (array[3:40, 60] == 1).all()
        other = others[len(calls) % 2]
        other[3:40, 5] = len(calls)
        other.attrs["k"] = len(calls)
    except oz.OmnizarrError as e:
        if "in the middle of a change of this database" not in str(e):  # of SQLite
            errors.append(str(e))
    finally:
        inside.now = False

class Thing:
    def __init__(self, delete):
        self.me = self
        if not delete:
            weakref.finalize(self, finalise)
        self.delete = delete
    def __del__(self):
        if self.delete:
            finalise()

def work(number, end):
    with oz.configure(chunk_cache=cache or None):
        rounds = 0
        while time.monotonic() < end or rounds < 5:
            rounds += 1
            Thing(rounds % 2)
            for array in shared:
                array[3:40, 10 * number : 10 * number + 5] = rounds
                assert (array[3:40, 10 * number : 10 * number + 5] == rounds).all()
                array.attrs[str(number)] = rounds
            oz.open(store, mode="r")

gc.set_threshold(3, 2, 2)
end = time.monotonic() + 0.5
threads = [threading.Thread(target=work, args=(n, end)) for n in range(2)]
for thread in threads:
    thread.start()
work(2, end)
for thread in threads:
    thread.join()
gc.set_threshold(700)
print(len(calls) > 5, errors)
"""


@pytest.mark.parametrize(
    ("kind", "engine", "cache"),
    sample(
        [
            *itertools.product(["directory", "memory"], ["auto", "reference"], ["", "1MB"]),
            *itertools.product(["zip", "sqlite", "lmdb"], ["auto"], [""]),
        ],
        3,
    ),
)
def test_a_finaliser_never_waits_for_its_own_thread(
    kind: str, engine: str, cache: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), kind, engine, cache]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("True []\n", "", 0)


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_finaliser_cannot_change_a_key_that_its_own_thread_is_changing(
    kind: str, tmp_path: Path
) -> None:
    store = oz.storage.MemoryStore() if kind == "memory" else oz.storage.LocalStore(tmp_path)
    array = oz.create_array(store, shape=8, chunks=8, dtype="i4")
    with engine.exclusive(array._bound, ["c/0"]):  # as if a finaliser ran here
        with pytest.raises(oz.StoreError, match="in the middle of changing it"):
            array[:3] = 1
        assert array[:3].tolist() == [0, 0, 0]
    array[:3] = 1
    assert array[:4].tolist() == [1, 1, 1, 0]


def test_a_finaliser_can_change_keys_that_its_thread_is_not_changing(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=2 * file_locks.MANY + 9, chunks=2, dtype="i4")
    every = [f"c/{n}" for n in range(file_locks.MANY)]
    for few, many in (([every[0]], every[1:]), (every, [])):
        more = [*many, "c/more", *map(str, range(file_locks.MANY))]
        with (
            file_locks.locked_files(str(tmp_path), few, "chunks"),
            file_locks.locked_files(str(tmp_path), more, "chunks"),
        ):
            array[-1] = 1
    assert array[-3:].tolist() == [0, 0, 1]
