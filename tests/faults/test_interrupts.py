"""Ctrl-C: long operations stop at once, nothing is torn, and the process can continue."""

from __future__ import annotations

import itertools
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
from omnizarr.storage_transformers import indexed_shards
from tests.sampling import sample
from tests.servers.s3 import SimpleStorage
from tests.servers.web import Answer, running
from tests.soak import interrupts

PROMPT = 20.0  # seconds; a fortieth of it where the machine is not busy with other tests
BEGIN = """
import os, signal, sys, threading, time
import numpy as np
import omnizarr as oz
location, engine = sys.argv[1:]
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
def interrupt(work):
    interrupt_in(0.3)
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - sent, flush=True)
"""


@contextmanager
def stalling_server(metadata: bytes | None = None) -> Iterator[str]:
    """Run a server that returns the metadata, if given, and never answers other requests."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if metadata is None or "/c/" in self.path:
                over.wait(60)
                return
            found = metadata if self.path.endswith("zarr.json") else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

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
def location(tmp_path: Path) -> Path:
    oz.create_array(tmp_path / "x", data=np.ones((256, 512), "i4"), chunks=(64, 64))
    return tmp_path / "x"


def run(code: str, location: object, engine: str = "auto") -> list[str]:
    """Run a program and return its output; it must print no error and end in time."""
    program = BEGIN + textwrap.dedent(code)
    command = [sys.executable, "-c", program, str(location), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def assert_prompt(lines: list[str]) -> None:
    word, seconds = lines[0].split()
    assert word == "interrupted"
    assert float(seconds) < PROMPT


@pytest.mark.parametrize(
    ("task", "engine"), sample(itertools.product(interrupts.TASKS, interrupts.ENGINES), 4)
)
def test_an_interrupt_is_prompt_and_leaves_neither_torn_values_nor_locks(
    task: str, engine: str, tmp_path: Path
) -> None:
    found = interrupts.run(tmp_path, task, engine, "64 KiB", count=2, size=2**23)
    assert found.pop("slowest") < PROMPT
    # Between creating and recording a file, an interrupt leaves it to `repair`.
    assert found.pop("left") <= found["interrupts"]
    assert found == {"interrupts": 2, "torn": 0, "stuck": 0, "busy": 0, "noise": 0}


def test_opening_from_a_server_that_does_not_answer_can_be_interrupted() -> None:
    with stalling_server() as url:
        assert_prompt(run("interrupt(lambda: oz.open(location))", url))


def test_reading_chunks_from_a_stalled_server_can_be_interrupted(location: Path) -> None:
    with stalling_server((location / "zarr.json").read_bytes()) as url:
        code = "array = oz.open(location)\ninterrupt(lambda: array[...])"
        for engine in ("auto", "reference"):
            assert_prompt(run(code, url, engine))


def test_waiting_for_another_process_can_be_interrupted(location: Path) -> None:
    code = """
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
    print(array[:4, 0].tolist())
    """
    lines = run(code, location)
    assert_prompt(lines)
    assert lines[1] == "[2, 2, 2, 1]"


def test_waiting_for_a_lease_can_be_interrupted(tmp_path: Path) -> None:
    code = """
    from omnizarr.stores.sqlite import SQLiteStore
    store = SQLiteStore(location)
    array = oz.create_array(store, data=np.arange(3))
    store.set(".__omnizarr_lock__shape", b"{}")
    interrupt(lambda: array.append([7]))
    store.erase(".__omnizarr_lock__shape")
    array.append([8])
    print(array[...].tolist(), [key for key in store.list() if "lock" in key])
    """
    lines = run(code, tmp_path / "x.sqlite")
    assert_prompt(lines)
    assert lines[1] == "[0, 1, 2, 8] []"


def test_waiting_for_another_thread_can_be_interrupted(location: Path) -> None:
    code = """
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
    print(array[:4, 0].tolist())
    """
    lines = run(code, location)
    assert_prompt(lines)
    assert lines[1] == "[2, 2, 2, 1]"


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
    print("all right")
    """
    assert run(code, location, engine) == ["all right"]


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
            causes = [e]
            while causes[-1].__cause__ is not None:
                causes.append(causes[-1].__cause__)
            assert isinstance(causes[-1], error)
    assert (array[...] == 1).all()
    print("all right")
    """
    assert run(code, location, engine) == ["all right"]


@pytest.mark.parametrize("error", [FileNotFoundError, TimeoutError, oz.NodeNotFound])
def test_an_error_from_a_signal_handler_is_not_taken_for_a_missing_key(
    error: type[Exception], location: Path
) -> None:
    def raise_it(*_: object) -> None:
        raise error("of the handler")

    store, before = oz.storage.LocalStore(location), signal.signal(signal.SIGUSR1, raise_it)
    try:
        with pytest.raises(error, match="of the handler"):
            store._apply_to_file("zarr.json", _raise_signal)
        with pytest.raises(error, match="of the handler"), store.lock_keys("", ["x"], "chunks"):
            _raise_signal("")
    finally:
        signal.signal(signal.SIGUSR1, before)


def _raise_signal(path: str) -> str:
    """Raise a signal and return the path."""
    signal.raise_signal(signal.SIGUSR1)
    return path


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
def server() -> Iterator[StallingBucket]:
    with running(StallingBucket()) as started:
        assert isinstance(started, StallingBucket)
        yield started
        started.resumed.set()


@pytest.mark.parametrize(
    ("part", "engine"),
    sample(itertools.product(["...", "slice(3, 60000)"], ["auto", "reference"]), 2),
)
def test_a_write_to_a_stalled_bucket_can_be_interrupted_and_repeated(
    part: str, engine: str, server: StallingBucket
) -> None:
    options = {
        "endpoint": server.url,
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "secret",
    }
    url, old = "s3://bucket/x", np.arange(1, 2**16 + 1, dtype="i4")
    array = oz.create_array(url, data=old, chunks=2**13, storage_options=options)
    code = f"""
    from urllib.request import urlopen
    array = oz.open("{url}", mode="r+", storage_options={options!r})
    def write():
        array[{part}] = 7
    urlopen("{server.url}/stall").read()
    interrupt(write)
    urlopen("{server.url}/resume").read()
    before = array[...]
    write()
    print(before.tolist() == list(range(1, 2**16 + 1)), array[5], flush=True)
    """
    lines = run(code, "", engine)
    assert_prompt(lines)
    assert lines[1] == "True 7"
    assert server.waiting > 0
    expected = old.copy()
    expected[eval(part)] = 7
    assert np.array_equal(array[...], expected)
    assert not any("lock" in key for key in server.buckets["bucket"])
