"""A bucket that stalls while it is written to: Ctrl-C is prompt, and the next write works."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import omnizarr as oz
from tests.faults.test_interrupts import assert_prompt, run
from tests.servers.s3 import SimpleStorage
from tests.servers.web import Answer, running


class Stalling(SimpleStorage):
    """Takes no chunk until it is told to go on; what came before is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.buckets["bucket"] = {}
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.waiting = 0

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path in ("/stall", "/go-on"):
            (self.goes_on.clear if path == "/stall" else self.goes_on.set)()
            return Answer(200)
        if method == "PUT" and "/c/" in path and not self.goes_on.is_set():
            self.waiting += 1
            self.goes_on.wait(60)
            return Answer(500)
        return super().answer(method, path, headers, body)


@pytest.fixture
def server() -> Iterator[Stalling]:
    with running(Stalling()) as started:
        assert isinstance(started, Stalling)
        yield started
        started.goes_on.set()


@pytest.mark.parametrize("part", ["...", "slice(3, 60000)"])
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_write_to_a_bucket_that_stalls_is_interrupted_and_the_next_one_works(
    part: str, engine: str, server: Stalling
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
    array = oz.open_array("{url}", mode="r+", storage_options={options!r})
    def write():
        array[{part}] = 7
    urlopen("{server.url}/stall").read()
    told(write)
    urlopen("{server.url}/go-on").read()
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
