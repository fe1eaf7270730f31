"""Each promise, at a few points that differ from run to run; `make soak` tries all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.crash.operations import OPERATIONS
from tests.crash.places import FILES
from tests.crash.promises import PROMISES, documented, markdown
from tests.crash.server import Client, serving
from tests.sampling import ALL, SEED, sample
from tests.servers.processes import simple_storage
from tests.servers.redis import redis_server

# Which run tries an event, and how what is wrong then begins.
TRIED = {
    "killed": ("killed", ""),
    "paused": ("paused", "writer"),
    "old-handle": ("paused", "old handle"),
    "new-reader": ("paused", "new reader"),
    "second-writer": ("paused", ("second writer", "in the end")),
    "full-disk": ("full", ""),
}
CHOSEN = sample([(row, event) for row in PROMISES for event in TRIED], 18)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("crash")) as found:
        if found is None:
            pytest.skip("the machine needs Linux and a compiler (cc)")
        yield found


def _try(client: Client, event: str, row: str, kind: str = "directory", server: str = "") -> Any:
    """Return what is bad in an operation with a promise, or with `make soak` in all of them."""
    # The same points each time where not every point holds yet (see reliability.md).
    seed = 0 if row in ("job", "in-place job") or kind in ("ZIP", "fsspec") else SEED
    every = [(name, f) for name, each in OPERATIONS.items() for f in each.formats
             if each.promise == row]  # fmt: skip
    chosen = every if ALL else [random.Random(f"{seed} {row} {kind}").choice(every)]
    bad = []
    for name, zarr_format in chosen:
        calls = kind not in ("directory", "ZIP")
        what = {"name": name, "zarr_format": zarr_format, "kind": kind, "server": server}
        found = client.run(event, sample=None if ALL else 1, seed=seed, calls=calls, **what)
        bad += [f"{text}; {name}, format {zarr_format}, seed {seed}" for text in found]
    return bad


@pytest.fixture(scope="module")
def in_directories(client: Client) -> Any:
    """Return a function that tries an event in operations with a promise, once."""
    return cache(lambda event, row: _try(client, event, row))


@pytest.mark.parametrize(("row", "event"), CHOSEN)
def test_a_promise_holds(in_directories: Any, row: str, event: str) -> None:
    run, begin = TRIED[event]
    bad = in_directories(run, row)
    bad = [text.partition(": ")[2] for text in bad] if run == "paused" else bad
    assert [text for text in bad if text.startswith(begin)] == []


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind != "directory"])
def test_a_killed_writer_leaves_old_or_new_nodes_in_other_stores(client: Client, kind: str) -> None:
    for row in sample(["overwrite", "delete", "append", "write"], 1):
        assert _try(client, "killed", row, kind) == []


@pytest.mark.skipif(not ALL, reason="this takes hours")
def test_a_killed_writer_leaves_old_or_new_nodes_on_servers(client: Client, tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis, simple_storage("bucket") as port:
        for row in PROMISES:
            assert _try(client, "killed", row, "Redis", redis) == []
            assert _try(client, "killed", row, "S3", str(port)) == []


@pytest.mark.parametrize("kind", ["SQLite", "LMDB"])
def test_an_error_of_a_database_keeps_the_old_state(client: Client, kind: str) -> None:
    for row in sample(["overwrite", "delete", "append", "write"], 1):
        assert _try(client, "full", row, kind) == []


def test_every_operation_has_a_promise_and_every_promise_an_operation() -> None:
    assert {operation.promise for operation in OPERATIONS.values()} == set(PROMISES)


def test_the_page_has_the_table_of_promises() -> None:
    assert documented() == markdown()  # python -m tests.crash.promises
