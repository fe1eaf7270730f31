"""Changes of remote stores whose answers are lost: applied once, or an error that says it may be.

Each changing request of an operation is answered by an error, by a closed connection or too late,
after it was applied or not, once or several times, and another writer may come in between.
"""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from redis.backoff import NoBackoff
from redis.retry import Retry

import omnizarr as oz
from omnizarr.stores.object.store import ObjectStore
from omnizarr.stores.redis import RedisStore
from tests.servers.processes import s3_options
from tests.servers.redis import redis_server
from tests.servers.s3 import SimpleStorage
from tests.servers.web import CLOSED, Answer, running

TIMEOUT = 0.4  # seconds of one attempt
OLD, NEW, OTHER = [1, 2, 3, 4, 5, 6], [101, 102, 103, 104, 105], [201, 202, 203]
MAYBE = "may have been done nevertheless"


@dataclass
class Faults:
    """What happens to the changing requests from one on."""

    number: int = 0  # of the first request that has no answer; 0: all have one
    applied: bool = False
    way: str = "closed"
    times: int = 1
    meanwhile: Callable[[], object] = lambda: None
    count: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def hit(self) -> bool:
        """Count a changing request, and return whether its answer is lost."""
        with self.lock:
            self.count += 1
            return bool(self.number) and self.number <= self.count < self.number + self.times


# Stores


class FaultyBucket(SimpleStorage):
    """S3 with such faults; requests of clients with another key have none."""

    faults = Faults()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        changes = method not in ("GET", "HEAD") and "faulty" in headers.get("authorization", "")
        faults = self.faults
        if not changes or not faults.hit():
            return super().answer(method, path, headers, body)
        if faults.applied:
            super().answer(method, path, headers, body)
        faults.meanwhile()
        if faults.way == "late":
            time.sleep(2 * TIMEOUT)
        return Answer(503 if faults.way == "error" else CLOSED, b"no")


class FaultyRedis:
    """A proxy in front of a Redis server that loses answers to commands that change something."""

    faults = Faults()

    def __init__(self, behind: str, path: str) -> None:
        self._behind = behind
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._behind)
        with client, server, suppress(OSError), client.makefile("rb") as requests:
            while command := _command(requests):
                if _changes(command) and self.faults.hit():
                    self._lose(command, server)
                    return
                server.sendall(command)
                if b"\r\nMULTI\r\n" in command:  # all of it comes before the answers
                    while b"\r\nEXEC\r\n" not in command:
                        command = _command(requests)
                        server.sendall(command)
                _relay(server, client)

    def _lose(self, command: bytes, server: socket.socket) -> None:
        faults = self.faults
        if faults.applied:
            server.sendall(command)
            server.recv(2**16)
        faults.meanwhile()
        if faults.way == "late":
            time.sleep(2 * TIMEOUT)


def _command(requests: Any) -> bytes:
    """Read one command as it is on the wire; nothing at the end."""
    head = found = requests.readline()
    for _ in range(int(head[1:]) if head else 0):
        size = requests.readline()
        found += size + requests.read(int(size[1:]) + 2)
    return bytes(found)


def _changes(command: bytes) -> bool:
    words = command.split(b"\r\n", 4)
    return words[2] in (b"SET", b"MSET", b"DEL", b"UNLINK", b"SETRANGE") or (
        words[2] == b"EVAL" and b"'SET'" in command
    )


def _relay(server: socket.socket, client: socket.socket) -> None:
    """Pass on what the server answers, until it says no more for a moment."""
    server.settimeout(None)
    data = server.recv(2**20)
    client.sendall(data)
    server.settimeout(0.002)
    with suppress(TimeoutError):
        while data := server.recv(2**20):
            client.sendall(data)


class FaultyMemory(oz.storage.MemoryStore):
    """A store of another package: it compares, and does not try again."""

    faults = Faults()

    def __init__(self, values: Any = None) -> None:
        super().__init__(values)
        self._own = threading.Lock()

    def _change(self, change: Callable[[], Any]) -> Any:
        if not self.faults.hit():
            return change()
        if self.faults.applied:
            change()
        self.faults.meanwhile()
        raise (ConnectionError if self.faults.way == "closed" else oz.StoreError)(f"lost; {MAYBE}")

    def set(self, key: str, value: Any) -> None:
        self._change(lambda: super(FaultyMemory, self).set(key, value))

    def erase(self, key: str) -> None:
        self._change(lambda: super(FaultyMemory, self).erase(key))

    def set_if(self, key: str, value: Any, generation: str | None) -> bool:
        def change() -> bool:
            with self._own:
                if self.generation(key) != generation:
                    return False
                self.values[key] = bytes(value)
                return True

        return bool(self._change(change))


@dataclass
class Place:
    """Empty stores of one kind: the writer's, with faults, and another client's."""

    name: str
    faulty: Any  # has the faults
    open: Callable[[str, bool], Any]  # a store by name, with faults or without
    ways: tuple[str, ...]


def _bucket(server: FaultyBucket, name: str, faulty: bool) -> Any:
    options = s3_options(
        server.url,
        access_key_id="faulty" if faulty else "other",
        client_options={"allow_http": True},
        attempts=3,
        first_wait=0.01,
        timeout=TIMEOUT if faulty else 10.0,
    )
    return ObjectStore.from_url(f"s3://bucket/{name}", **options)


@contextmanager
def places(folder: Path, *names: str) -> Iterator[list[Place]]:
    """Start the servers and yield the kinds of stores."""
    with ExitStack() as stack:
        found = []
        if "memory" in names:
            kept: dict[str, FaultyMemory] = {}

            def in_memory(name: str, faulty: bool) -> Any:
                first = kept.setdefault(name, FaultyMemory())
                if faulty:
                    return first
                other = FaultyMemory(first.values)
                other.faults, other._own = Faults(), first._own
                return other

            found.append(Place("memory", FaultyMemory, in_memory, ("closed", "error")))
        if "S3" in names:
            server = FaultyBucket()
            server.buckets["bucket"] = {}
            stack.enter_context(running(server))
            found.append(
                Place(
                    "S3",
                    server,
                    lambda name, faulty: _bucket(server, name, faulty),
                    ("closed", "error", "late"),
                )
            )
        if "Redis" in names:
            url = stack.enter_context(redis_server(folder))
            behind = url.removeprefix("unix://")
            proxy = FaultyRedis(behind, f"{behind}.proxy")
            stack.callback(proxy.close)

            def in_redis(name: str, faulty: bool) -> Any:
                again = Retry(NoBackoff(), 3)  # of the client
                options = {"socket_timeout": TIMEOUT, "retry": again} if faulty else {}
                return RedisStore(f"{url}.proxy" if faulty else url, prefix=name, **options)

            found.append(Place("Redis", proxy, in_redis, ("closed", "late")))
        yield found


# Operations


@dataclass(frozen=True)
class Operation:
    """A change, and how often it has been applied: 0 or 1; everything else is wrong."""

    name: str
    run: Callable[[Any], object]
    applied: Callable[[Any], int]
    others: tuple[str, ...] = ("", "attribute")


def _array(store: Any) -> oz.Array:
    return oz.open(store, "r+", path="g/x")


def _count(store: Any) -> None:
    def increase(attributes: dict[str, Any]) -> None:
        attributes["count"] = attributes.get("count", 0) + 1

    _array(store).attrs.edit(increase)


def _times_appended(store: Any) -> int:
    found = _array(store)[:].tolist()
    assert found[: len(OLD)] == OLD, found
    rest, times, others = found[len(OLD) :], 0, 0
    while rest:
        if rest[: len(NEW)] == NEW:
            rest, times = rest[len(NEW) :], times + 1
        else:
            assert rest[: len(OTHER)] == OTHER, found
            rest, others = rest[len(OTHER) :], others + 1
    assert others <= 1, found
    return times


def _is_there(store: Any, path: str, values: list[int]) -> int:
    try:
        found = oz.open(store, "r", path=path)
    except oz.NodeNotFound:
        return 0
    return int(found[:].tolist() == values)


def _consolidated(store: Any) -> int:
    try:
        found = oz.open(store, "r", path="g", use_consolidated=True)
    except ValueError:
        return 0
    return int(found["x"].shape == (6,))


def _append_other(store: Any) -> None:
    _array(store).append(OTHER)


def _set_other(store: Any) -> None:
    """Set an attribute as another process does, which knows nothing of the locks of this one."""
    while True:
        text, generation = store.get_versioned("g/x/zarr.json")
        document = json.loads(text)
        document.setdefault("attributes", {})["other"] = 1
        if store.set_if("g/x/zarr.json", json.dumps(document).encode(), generation):
            return


OPERATIONS = (
    Operation(
        "attribute", lambda s: _array(s).attrs.update(a=1), lambda s: _array(s).attrs.get("a", 0)
    ),
    Operation("counter", _count, lambda s: _array(s).attrs.get("count", 0)),
    Operation(
        "append", lambda s: _array(s).append(NEW), _times_appended, ("", "attribute", "append")
    ),
    Operation("resize", lambda s: _array(s).resize(9), lambda s: {6: 0, 9: 1}[len(_array(s))]),
    Operation(
        "element",
        lambda s: _array(s).__setitem__(slice(1, 3), 7),
        lambda s: {(2, 3): 0, (7, 7): 1}[tuple(_array(s)[1:3].tolist())],
        ("", "attribute", "append"),
    ),
    Operation(
        "create",
        lambda s: oz.create_array(s, path="g/y", shape=3, dtype="i4", fill_value=5),
        lambda s: _is_there(s, "g/y", [5, 5, 5]),
    ),
    Operation(
        "create with data",
        lambda s: oz.create_array(s, path="g/y", data=np.array(NEW), chunks=2),
        lambda s: _is_there(s, "g/y", NEW),
    ),
    Operation(
        "overwrite",
        lambda s: oz.create_array(s, path="g/x", data=np.array(NEW), chunks=2, overwrite=True),
        lambda s: _is_there(s, "g/x", NEW),
        ("",),
    ),
    Operation(
        "delete",
        lambda s: oz.open(s, "r+", path="g").__delitem__("x"),
        lambda s: 1 - _is_there(s, "g/x", OLD),
        ("",),
    ),
    Operation("consolidate", lambda s: oz.consolidate_metadata(s, path="g"), _consolidated),
)


def prepare(store: Any) -> None:
    oz.create_group(store, path="g")
    oz.create_array(store, path="g/x", data=np.array(OLD), chunks=4)


# Cases

_numbers = itertools.count()


def run_case(
    place: Place, operation: Operation, number: int, applied: bool, way: str, times: int, other: str
) -> str | None:
    """Return what is wrong, or None if the operation has fewer requests."""
    name = f"case{next(_numbers)}"
    with ExitStack() as stack:
        stores = [place.open(name, faulty) for faulty in (False, True)]
        for store in stores:
            if hasattr(store, "close"):
                stack.callback(store.close)
        clean, faulty = stores
        prepare(clean)
        begun: list[threading.Thread] = []

        def meanwhile() -> None:
            if begun or not other:
                return
            # An append waits for the lock that the writer has.
            begun.append(
                threading.Thread(
                    target=_append_other if other == "append" else _set_other, args=(clean,)
                )
            )
            begun[0].start()
            if other != "append":
                begun[0].join()

        faults = place.faulty.faults = Faults(number, applied, way, times, meanwhile)
        error: Exception | None = None
        try:
            operation.run(faulty)
        except Exception as e:
            error = e
        place.faulty.faults = Faults()
        for thread in begun:
            thread.join()
        if faults.count < number:
            return None
        return _judge(operation, clean, error, bool(begun), other)


def _judge(
    operation: Operation, clean: Any, error: Exception | None, came: bool, other: str
) -> str:
    try:
        count = operation.applied(clean)
    except Exception as e:
        if error is not None and MAYBE in str(error):  # in the middle of several changes
            return ""
        return f"state: {type(e).__name__}: {e} after {error!r}"
    if came and other == "attribute" and _array(clean).attrs.get("other") != 1:
        return "the other writer's attribute is lost"
    if came and other == "append" and _array(clean)[:].tolist().count(OTHER[0]) != 1:
        return "the other writer's rows are not there once"
    if error is None:
        return "" if count == 1 else f"done, but applied {count} times"
    if count > 1:
        return f"applied {count} times after {error}"
    if count == 1 and MAYBE not in str(error):
        return f"applied, but {type(error).__name__}: {error}"
    return ""


def run(
    place: Place,
    operation: Operation,
    ways: tuple[str, ...],
    times: tuple[int, ...] = (1, 9),
    others: tuple[str, ...] | None = None,
) -> list[str]:
    """Lose the answer to each request of an operation in every way; return what is wrong."""
    found, meanwhile = [], [o for o in operation.others if others is None or o in others]
    for applied, way, how_often, other in itertools.product((True, False), ways, times, meanwhile):
        for number in itertools.count(1):
            case = number, applied, way, how_often, other
            wrong = run_case(place, operation, *case)
            if wrong is None:
                assert number > 1, "it changes nothing"
                break
            if wrong:
                found.append(f"{place.name} {operation.name} {case}: {wrong}")
    return found
