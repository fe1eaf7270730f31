"""Ctrl-C: long operations stop at once, nothing is torn, and the process can continue."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.storage_transformers import indexed_shards
from tests.faults.programs import run
from tests.sampling import sample, tries
from tests.servers.processes import s3_options
from tests.servers.s3 import SimpleStorage
from tests.servers.web import Answer, Web, running
from tests.soak import interrupts

INTERRUPT = """
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt(work):
    global sent
    def send():
        global sent
        time.sleep(0.3)
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()
    try:
        work()
    except KeyboardInterrupt:
        print(time.monotonic() - sent, flush=True)
"""


def interrupted(code: str, location: object, engine: str = "auto") -> list[str]:
    """Return what a program prints after it has been interrupted, which must not take long."""
    seconds, *lines = run(INTERRUPT + textwrap.dedent(code), location, engine)
    assert float(seconds) < interrupts.PROMPT
    return lines


@pytest.fixture
def location(tmp_path: Path) -> Path:
    oz.create_array(tmp_path / "x", data=np.ones((256, 512), "i4"), chunks=(64, 64))
    return tmp_path / "x"


@pytest.mark.parametrize(
    ("task", "engine"), sample(itertools.product(interrupts.TASKS, ["auto", "reference"]), 3)
)
def test_an_interrupt_is_prompt_and_leaves_neither_torn_values_nor_locks(
    task: str, engine: str, tmp_path: Path
) -> None:
    words = ["-m", "tests.soak.interrupts", str(tmp_path), task, engine, str(tries(2, 100))]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class StallingServer(Web):
    """A server that does not answer requests for chunks."""

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if "/c/" in path:
            self.stopped.wait(60)
        return super().answer(method, path, headers, body)


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_waiting_for_a_server_that_does_not_answer_can_be_interrupted(
    engine: str, location: Path
) -> None:
    with running(StallingServer({"x/zarr.json": (location / "zarr.json").read_bytes()})) as server:
        code = "array = oz.open(location)\ninterrupt(lambda: array[...])"
        assert interrupted(code, f"{server.url}/x", engine) == []
        if engine == "auto":
            server.break_down("slow")
            assert interrupted("interrupt(lambda: oz.open(location))", f"{server.url}/x") == []


WAITS = {
    "another process": """
        array = oz.open(location, "r+")
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            from omnizarr.concurrency.file_locks import locked_files
            with locked_files(location, ["c/0/0"], "chunks"):
                os.write(writing, b"!")
                time.sleep(30)
            os._exit(0)
        os.read(reading, 1)
        def change():
            array[:3, :3] = 2
        interrupt(change)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        change()
        print(array[:4, 0].tolist() == [2, 2, 2, 1])
    """,
    "another thread": """
        from omnizarr.concurrency import key_locks
        array = oz.open(location, "r+")
        taken, release = threading.Event(), threading.Event()
        def hold():
            with key_locks.locked(key_locks.CHUNKS, ["c/0/0"]):
                taken.set()
                release.wait(30)
        threading.Thread(target=hold).start()
        taken.wait()
        def change():
            array[:3, :3] = 2
        interrupt(change)
        release.set()
        change()
        print(array[:4, 0].tolist() == [2, 2, 2, 1])
    """,
    "a lease": """
        from omnizarr.stores.sqlite import SQLiteStore
        store = SQLiteStore(location + ".sqlite")
        array = oz.create_array(store, data=np.arange(3))
        store.set(".__omnizarr_lock__shape", b"{}")
        interrupt(lambda: array.append([7]))
        store.erase(".__omnizarr_lock__shape")
        array.append([8])
        print(array[...].tolist() == [0, 1, 2, 8] and not any("lock" in k for k in store.list()))
    """,
}


@pytest.mark.parametrize("what", WAITS)
def test_waiting_for_a_lock_can_be_interrupted(what: str, location: Path) -> None:
    assert interrupted(textwrap.dedent(WAITS[what]), location) == ["True"]


@pytest.mark.parametrize(
    ("engine", "per_shard"),
    sample([("auto", None), ("reference", None), ("reference", (2, 4))], 1),
)
def test_a_signal_handler_can_read_write_and_fork_at_any_moment(
    engine: str, per_shard: tuple[int, int] | None, location: Path
) -> None:
    if per_shard is not None:
        location = location.with_name("sharded")
        oz.create_array(
            location, data=np.ones((256, 512), "i4"), chunks=(64, 64), zarr_format="3-draft",
            storage_transformers=[indexed_shards(per_shard)],
        )  # fmt: skip
    code = """
    array = oz.open(location, "r+")
    other = oz.create_array(location + "-other", shape=(64, 64), chunks=(8, 8), dtype="i4")
    calls = []
    def handle(number, frame):
        calls.append(len(calls))
        assert (array[:100] == 1).all()
        other[3:50, 3:50] = len(calls)
        other.attrs["calls"] = len(calls)
        if len(calls) % 10 == 0:
            child = os.fork()
            if not child:  # what its parent is changing, and waits with, it could only wait for
                assert (array[:100] == 1).all()
                other[3:50, 3:50] = len(calls)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        if repeat:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
    repeat = True
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    with oz.configure(chunk_cache="1MB"):
        end = time.monotonic() + 1
        while time.monotonic() < end or len(calls) < 20:
            array[3:200, 5:300] = 1
            assert (array[...] == 1).all()
            array.attrs["used"] = 1
    repeat = False
    time.sleep(0.1)
    assert (other[3:50, 3:50] == other.attrs["calls"]).all()
    """
    assert run(code, location, engine) == []


@pytest.mark.parametrize("engine", sample(["auto", "reference"], 1))
def test_an_exception_from_a_signal_handler_is_handled_like_an_interrupt(
    engine: str, location: Path
) -> None:
    code = """
    class Enough(Exception): pass
    def raise_it(number, frame):
        raise (SystemExit if number == signal.SIGTERM else Enough)
    array = oz.open(location, "r+")
    for number, error in ((signal.SIGALRM, Enough), (signal.SIGTERM, SystemExit)) * 5:
        signal.signal(number, raise_it)
        timer = threading.Timer(0.03, os.kill, (os.getpid(), number))
        try:
            timer.start()  # on a busy machine it strikes before this returns
            while True:
                array[3:200, 5:300] = 1
                array[...] = 1
        except error:
            timer.join()
        except oz.ChunkError as e:  # it came in the middle of a codec, which wraps it
            timer.join()
            while e.__cause__ is not None:
                e = e.__cause__
            assert isinstance(e, error)
    assert (array[...] == 1).all()
    """
    assert run(code, location, engine) == []


@pytest.mark.parametrize("error", [FileNotFoundError, TimeoutError, oz.NodeNotFound])
def test_an_error_from_a_signal_handler_is_not_taken_for_a_missing_key(
    error: type[Exception], location: Path
) -> None:
    def raise_it(*_: object) -> None:
        raise error("of the handler")

    def raise_signal(path: str) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return path

    store, before = oz.storage.LocalStore(location), signal.signal(signal.SIGUSR1, raise_it)
    try:
        with pytest.raises(error, match="of the handler"):
            store._apply_to_file("zarr.json", raise_signal)
        with pytest.raises(error, match="of the handler"), store.lock_keys("", ["x"], "chunks"):
            raise_signal("")
    finally:
        signal.signal(signal.SIGUSR1, before)


class StallingBucket(SimpleStorage):
    """A bucket that accepts no chunk while it stalls, and answers those with an error later."""

    def __init__(self) -> None:
        super().__init__()
        self.buckets["bucket"] = {}
        self.resumed = threading.Event()
        self.resumed.set()
        self.waiting = 0

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path in ("/stall", "/resume"):
            (self.resumed.clear if path == "/stall" else self.resumed.set)()
            return Answer(200)
        if method == "PUT" and "/c/" in path and not self.resumed.is_set():
            self.waiting += 1
            self.resumed.wait(60)
            return Answer(500)
        return super().answer(method, path, headers, body)


@pytest.fixture
def bucket() -> Iterator[StallingBucket]:
    bucket = StallingBucket()
    with running(bucket):
        yield bucket
        bucket.resumed.set()


@pytest.mark.parametrize(
    ("part", "engine"),
    sample(itertools.product(["...", "slice(3, 60000)"], ["auto", "reference"]), 1),
)
def test_a_write_to_a_stalled_bucket_can_be_interrupted_and_repeated(
    part: str, engine: str, bucket: StallingBucket
) -> None:
    options = s3_options(bucket.url)
    url, old = "s3://bucket/x", np.arange(1, 2**16 + 1, dtype="i4")
    array = oz.create_array(url, data=old, chunks=2**13, storage_options=options)
    code = f"""
    from urllib.request import urlopen
    array = oz.open("{url}", mode="r+", storage_options={options!r})
    def write():
        array[{part}] = 7
    urlopen("{bucket.url}/stall").read()
    interrupt(write)
    urlopen("{bucket.url}/resume").read()
    print(array[...].tolist() == list(range(1, 2**16 + 1)))
    write()
    """
    assert interrupted(code, "", engine) == ["True"]
    assert bucket.waiting > 0
    old[eval(part)] = 7
    assert np.array_equal(array[...], old)
    assert not any("lock" in key for key in bucket.buckets["bucket"])
