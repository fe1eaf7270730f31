"""Signals: Ctrl-C stops what is long at once, tears nothing, and the process can go on."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import engine
from omnizarr.concurrency import file_locks
from omnizarr.storage_transformers import indexed_shards
from tests.soak import interrupts

PROMPT = 20.0  # seconds; a fortieth of it where the machine is not busy with other tests
BEGIN = """
import os, signal, sys, threading, time
import numpy as np
import omnizarr as oz
place, engine = sys.argv[1:]
oz.config.set(engine=engine, threads=4)
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt_in(seconds):
    global sent
    def send():
        global sent
        time.sleep(seconds)
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()
def told(work):
    interrupt_in(0.3)
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - sent, flush=True)
"""


@contextmanager
def stalling(document: bytes | None = None) -> Iterator[str]:
    """The URL of a server that answers with a document, if it has one, and else not at all."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if document is None or "/c/" in self.path:
                over.wait(60)
                return
            found = document if self.path.endswith("zarr.json") else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    oz.create_array(tmp_path / "x", data=np.ones((256, 512), "i4"), chunks=(64, 64))
    return tmp_path / "x"


def run(code: str, place: object, engine: str = "auto") -> list[str]:
    """The lines that a program prints; it must not say anything else, and end in time."""
    program = BEGIN + textwrap.dedent(code)
    command = [sys.executable, "-c", program, str(place), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def assert_prompt(lines: list[str]) -> None:
    word, seconds = lines[0].split()
    assert word == "interrupted"
    assert float(seconds) < PROMPT


@pytest.mark.parametrize("number", range(len(interrupts.TASKS)))
def test_an_interrupt_is_prompt_tears_nothing_and_leaves_no_lock(
    number: int, tmp_path: Path
) -> None:
    engine = interrupts.ENGINES[number % 2]
    found = interrupts.run(
        tmp_path, [*interrupts.TASKS][number], engine, "64 KiB", count=2, size=2**23
    )
    assert found.pop("slowest") < PROMPT
    # Right between making a file and noting it there is nobody to remove it, but `repair`.
    assert found.pop("left") <= 1
    assert found == {"interrupts": 2, "torn": 0, "stuck": 0, "busy": 0, "noise": 0}


def test_a_server_that_does_not_answer_holds_neither_the_read_nor_the_end_of_the_process() -> None:
    with stalling() as url:
        assert_prompt(run("told(lambda: oz.open(place))", url))


def test_a_read_of_many_chunks_from_a_server_that_stalls_is_interrupted(place: Path) -> None:
    with stalling((place / "zarr.json").read_bytes()) as url:
        code = "array = oz.open_array(place)\ntold(lambda: array[...])"
        for engine in ("auto", "reference"):
            assert_prompt(run(code, url, engine))


def test_waiting_for_another_process_is_interrupted(place: Path) -> None:
    code = """
    array = oz.open_array(place, "r+")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        from omnizarr.concurrency.file_locks import locked
        with locked(place, ["c/0/0"], "chunks"):
            os.write(writing, b"!")
            time.sleep(30)
        os._exit(0)
    os.read(reading, 1)
    def change():
        array[:3, :3] = 2
    told(change)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    change()
    print(array[:4, 0].tolist())
    """
    lines = run(code, place)
    assert_prompt(lines)
    assert lines[1] == "[2, 2, 2, 1]"


def test_waiting_for_a_lease_is_interrupted(tmp_path: Path) -> None:
    code = """
    from omnizarr.stores.sqlite import SQLiteStore
    store = SQLiteStore(place)
    array = oz.create_array(store, data=np.arange(3))
    store.set(".__omnizarr_lock__shape", b"{}")
    told(lambda: array.append([7]))
    store.erase(".__omnizarr_lock__shape")
    array.append([8])
    print(array[...].tolist(), [key for key in store.list() if "lock" in key])
    """
    lines = run(code, tmp_path / "x.sqlite")
    assert_prompt(lines)
    assert lines[1] == "[0, 1, 2, 8] []"


def test_waiting_for_another_thread_is_interrupted(place: Path) -> None:
    code = """
    from omnizarr.concurrency import key_locks
    array = oz.open_array(place, "r+")
    taken, release = threading.Event(), threading.Event()
    def hold():
        with key_locks.locked(key_locks.CHUNKS, ["c/0/0"]):
            taken.set()
            release.wait(30)
    threading.Thread(target=hold).start()
    taken.wait()
    def change():
        array[:3, :3] = 2
    told(change)
    release.set()
    change()
    print(array[:4, 0].tolist())
    """
    lines = run(code, place)
    assert_prompt(lines)
    assert lines[1] == "[2, 2, 2, 1]"


@pytest.mark.parametrize(
    ("engine", "per_shard"),
    [("auto", None), ("reference", None), ("reference", (2, 4))],
)
def test_a_signal_handler_may_read_write_and_fork_in_the_middle_of_anything(
    engine: str, per_shard: tuple[int, int] | None, place: Path
) -> None:
    if per_shard is not None:
        place = place.with_name("sharded")
        oz.create_array(
            place, data=np.ones((256, 512), "i4"), chunks=(64, 64), zarr_format="3-draft",
            storage_transformers=[indexed_shards(per_shard)],
        )  # fmt: skip
    code = """
    array = oz.open_array(place, "r+")
    other = oz.create_array(place + "-other", shape=(64, 64), chunks=(8, 8), dtype="i4")
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
        if go_on:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
    go_on = True
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    with oz.configure(chunk_cache="1MB"):
        end = time.monotonic() + 1
        while time.monotonic() < end or len(calls) < 20:
            array[3:200, 5:300] = 1
            assert (array[...] == 1).all()
            array.attrs["used"] = 1
    go_on = False
    time.sleep(0.1)
    assert (other[3:50, 3:50] == other.attrs["calls"]).all()
    print("all right")
    """
    assert run(code, place, engine) == ["all right"]


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_an_exception_of_any_signal_is_as_good_as_an_interrupt(engine: str, place: Path) -> None:
    code = """
    class Enough(Exception): pass
    def raise_it(number, frame):
        raise (SystemExit if number == signal.SIGTERM else Enough)
    array = oz.open_array(place, "r+")
    for number, error in ((signal.SIGALRM, Enough), (signal.SIGTERM, SystemExit)) * 5:
        signal.signal(number, raise_it)
        timer = threading.Timer(0.03, os.kill, (os.getpid(), number))
        timer.start()
        try:
            while True:
                array[3:200, 5:300] = 1
                array[...] = 1
        except error:
            timer.join()
        except oz.ChunkError as e:  # it came in the middle of a codec, whose errors are told so
            timer.join()
            assert isinstance(e.__cause__.__cause__, error)
    assert (array[...] == 1).all()
    print("all right")
    """
    assert run(code, place, engine) == ["all right"]


@pytest.mark.parametrize("error", [FileNotFoundError, TimeoutError, oz.NodeNotFound])
def test_an_error_of_a_signal_handler_is_no_proof_of_absence(
    error: type[Exception], place: Path
) -> None:
    def raise_it(*_: object) -> None:
        raise error("of the handler")

    store, before = oz.LocalStore(place), signal.signal(signal.SIGUSR1, raise_it)
    try:
        with pytest.raises(error, match="of the handler"):
            store._with("zarr.json", _signalled)
        with pytest.raises(error, match="of the handler"), store.lock_keys("", ["x"], "chunks"):
            _signalled("")
    finally:
        signal.signal(signal.SIGUSR1, before)


def _signalled(path: str) -> str:
    """A path; a signal has come meanwhile."""
    signal.raise_signal(signal.SIGUSR1)
    return path


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_finaliser_cannot_change_what_its_own_thread_is_changing(
    kind: str, tmp_path: Path
) -> None:
    store = oz.MemoryStore() if kind == "memory" else oz.LocalStore(tmp_path)
    array = oz.create_array(store, shape=8, chunks=8, dtype="i4")
    with engine.exclusive(array._bound, ["c/0"]):  # as if it struck here
        with pytest.raises(oz.StoreError, match="in the middle of changing it"):
            array[:3] = 1
        assert array[:3].tolist() == [0, 0, 0]
    array[:3] = 1
    assert array[:4].tolist() == [1, 1, 1, 0]


def test_a_finaliser_can_change_other_keys_than_its_thread_does(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path, shape=2 * file_locks.MANY + 9, chunks=2, dtype="i4")
    every = [f"c/{n}" for n in range(file_locks.MANY)]
    for few, many in (([every[0]], every[1:]), (every, [])):
        more = [*many, "c/more", *map(str, range(file_locks.MANY))]
        with (
            file_locks.locked(str(tmp_path), few, "chunks"),
            file_locks.locked(str(tmp_path), more, "chunks"),
        ):
            array[-1] = 1
    assert array[-3:].tolist() == [0, 0, 1]
