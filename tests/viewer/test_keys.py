"""Stored values over HTTP: RFC 9110 on ranges and conditions, against the bytes themselves."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

import omnizarr as oz
from omnizarr.bulk.view_as.nodes import ViewedArray
from omnizarr.errors import StoreError
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.stores.wrappers import PrefixStore
from omnizarr.viewer import keys
from omnizarr.viewer.access import FairShare, ServerLimits
from tests.bulk.view_as.cases import SOURCES
from tests.conformance.key_value import SmallestStore
from tests.viewer.conftest import client_of, raw_get

LARGE = os.urandom(2 * keys.PIECE + 777)
VALUES = {"empty": b"", "one": b"x", "small": bytes(range(100)), "a/b/large": LARGE}
quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _fill(store: Any) -> Any:
    oz.create_group(store)
    for key, value in VALUES.items():
        store.set(key, value)
    return store


@pytest.fixture(scope="module", params=["directory", "memory", "prefix", "plain"])
def client(request: Any, tmp_path_factory: Any) -> Iterator[httpx.Client]:
    if request.param == "directory":
        store: Any = LocalStore(tmp_path_factory.mktemp("served") / "a.zarr")
    elif request.param == "prefix":
        store = PrefixStore(LocalStore(tmp_path_factory.mktemp("served")), "inner/")
    else:
        store = SmallestStore() if request.param == "plain" else MemoryStore()
    _fill(store)
    if hasattr(store, "generation"):  # which is another each time for a file of a moment ago
        while any(store.generation(key) != store.generation(key) for key in VALUES):
            time.sleep(0.01)
    with client_of(store) as client:
        yield client


@pytest.mark.parametrize("key", VALUES)
def test_values_are_served_as_they_are_stored(client: httpx.Client, key: str) -> None:
    answer = client.get(f"store/{key}")
    assert (answer.status_code, answer.content) == (200, VALUES[key])
    assert answer.headers["content-type"] == "application/octet-stream"
    head = client.head(f"store/{key}")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(VALUES[key]))
    assert head.headers.get("etag") == answer.headers.get("etag")
    assert head.headers["accept-ranges"] == "bytes"


def test_metadata_are_json(client: httpx.Client) -> None:
    assert client.get("store/zarr.json").headers["content-type"] == "application/json"
    assert client.get("v2/.zgroup").headers["content-type"] == "application/json"


numbers = st.integers(0, 130) | st.integers(0, len(LARGE) + 5)
specs = st.one_of(
    st.builds(lambda a, b: f"{a}-{b}", numbers, numbers),
    numbers.map(lambda a: f"{a}-"),
    numbers.map(lambda n: f"-{n}"),
    st.just(""),
)


@quiet
@given(key=st.sampled_from([*VALUES]), spec=specs)
def test_a_range_has_the_bytes_that_were_asked_for(
    client: httpx.Client, key: str, spec: str
) -> None:
    value = VALUES[key]
    answer = client.get(f"store/{key}", headers={"range": f"bytes={spec}"})
    first, _, last = spec.partition("-")
    start = int(first) if first else max(0, len(value) - int(last or 0))
    stop = min(int(last) + 1, len(value)) if first and last else len(value)
    if not spec or (first and last and int(last) < int(first)):
        assert (answer.status_code, answer.content) == (200, value)
    elif not value and not first and int(last):
        assert answer.status_code in (200, 416)
    elif start >= stop:
        assert answer.status_code == 416
        assert answer.headers["content-range"] == f"bytes */{len(value)}"
        assert "error" in answer.json()
    else:
        assert (answer.status_code, answer.content) == (206, value[start:stop])
        assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(value)}"


@pytest.mark.parametrize(
    "header",
    [
        *("bytes", "bytes=", "bytes=a-b", "bytes=1", "bytes=--1", "bytes=1-2-3", "items=0-1"),
        *("bytes=0x1-2", "bytes=1-2;3-4", "bytes=" + 400 * "9" + "-", "bytes=-", "bytes= -"),
        *("=0-1", "bytes=0-1,4-5"),
    ],
)
def test_a_header_that_is_no_range_is_ignored(client: httpx.Client, header: str) -> None:
    answer = client.get("store/small", headers={"range": header})
    assert (answer.status_code, answer.content) == (200, VALUES["small"])


def test_conditions_decide_by_the_entity_tag() -> None:
    with client_of(
        MemoryStore(VALUES | {"zarr.json": b'{"zarr_format":3,"node_type":"group"}'})
    ) as c:
        for key in ("small", "a/b/large"):
            tag = c.head(f"store/{key}").headers["etag"]
            assert re.fullmatch(r'"[0-9a-f]+"', tag)
            same = c.get(f"store/{key}", headers={"if-none-match": f'"other", W/{tag}'})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
            assert c.head(f"store/{key}", headers={"if-none-match": "*"}).status_code == 304
            assert c.get(f"store/{key}", headers={"if-none-match": '"other"'}).status_code == 200
            assert c.get(f"store/{key}", headers={"if-match": '"other"'}).status_code == 412
            assert c.get(f"store/{key}", headers={"if-match": f"W/{tag}"}).status_code == 412
            assert c.get(f"store/{key}", headers={"if-match": f'"other", {tag}'}).status_code == 200
            part = {"range": "bytes=1-3"}
            ranged = c.get(f"store/{key}", headers={**part, "if-range": tag})
            assert (ranged.status_code, ranged.content) == (206, VALUES[key][1:4])
            for other in ('"other"', f"W/{tag}", "Mon, 16 Nov 2026 23:00:00 GMT"):
                whole = c.get(f"store/{key}", headers={**part, "if-range": other})
                assert (whole.status_code, whole.content) == (200, VALUES[key])
            both = {**part, "if-none-match": tag}
            assert c.get(f"store/{key}", headers=both).status_code == 304


def test_a_new_value_has_a_new_entity_tag(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path / "a.zarr"))
    with client_of(store) as client:
        old = client.head("store/small").headers["etag"]
        store.set("small", VALUES["small"][::-1])
        answer = client.get("store/small", headers={"if-none-match": old})
        assert (answer.status_code, answer.content) == (200, VALUES["small"][::-1])


def test_a_replaced_file_is_sent_as_it_was_opened(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path / "a.zarr"))
    with client_of(store) as client, client.stream("GET", "store/a/b/large") as answer:
        pieces = answer.iter_bytes(1000)
        found = next(pieces)
        store.set("a/b/large", b"new")
        assert found + b"".join(pieces) == LARGE


def test_a_value_that_is_replaced_while_it_is_read_is_never_a_mixture() -> None:
    store = _fill(MemoryStore())
    value = keys.open_value(store, "a/b/large")
    assert value is not None
    assert value.read(0, 10) == LARGE[:10]
    store.set("a/b/large", LARGE[::-1])
    with pytest.raises(StoreError, match="replaced"):
        value.read(10, 10)


def test_clients_take_turns_and_have_at_most_their_share() -> None:
    async def work() -> None:
        shared = FairShare(lambda: 10, 0.5, 5.0)
        order: list[str] = []

        async def use(client: str, amount: int) -> None:
            with await shared.take(client, amount):
                order.append(client)
                assert shared.used.total() <= 10
                assert shared.used[client] <= 5 or shared.used[client] == amount
                await asyncio.sleep(0)

        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            for client, amount in [("a", 5)] * 20 + [("b", 3)] * 3 + [("c", 10)]:
                tasks.create_task(use(client, amount))
        assert sorted(order) == ["a"] * 20 + ["b"] * 3 + ["c"]
        assert max(n for n, client in enumerate(order) if client == "b") < 12
        assert shared.used.total() == 0

    asyncio.run(work())


def test_who_waits_too_long_or_leaves_gets_nothing() -> None:
    async def work() -> None:
        shared = FairShare(lambda: 1, 1.0, 0.05)
        with await shared.take("a", 1):
            leaving = asyncio.create_task(shared.take("b", 1))
            await asyncio.sleep(0)
            leaving.cancel()
            with pytest.raises(HTTPException) as error:
                await shared.take("c", 1)
            assert error.value.status_code == 503
            assert shared.try_take("c") is None
        with await shared.take("d", 1):
            assert shared.used == {"d": 1}
        assert not shared.used

    asyncio.run(work())


@pytest.mark.parametrize("source", ["3, scaled"])
def test_a_chunk_that_is_encoded_again_needs_memory(source: str) -> None:
    with client_of(SOURCES[source](), limits=ServerLimits(memory=10)) as client:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keys, "FREE", 0)
            patch.setattr(keys.open_value, "__defaults__", (0,))
            answer = client.get("v2/group/a/0/0")
        assert answer.status_code == 413
        assert "--memory" in answer.json()["error"]
        assert client.get("v2/group/a/0/0").status_code == 200


@pytest.mark.parametrize("source", ["3, scaled"])
def test_a_chunk_that_is_encoded_again_is_encoded_once(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    calls: list[Any] = []
    encode = ViewedArray._encoded

    def counted(self: ViewedArray, coords: tuple[int, ...]) -> bytes | None:
        calls.append(coords)
        return encode(self, coords)

    monkeypatch.setattr(ViewedArray, "_encoded", counted)
    with client_of(SOURCES[source]()) as client:
        for method in ("GET", "HEAD"):
            calls.clear()
            assert client.request(method, "v2/group/a/0/0").status_code == 200
            assert calls == [(0, 0)]


HOSTILE = [
    *(b"..", b"../zarr.json", b"a/../../zarr.json", b"%2e%2e/zarr.json", b"..%2fzarr.json"),
    *(b"a%2f..%2f..%2fsecret", b"%2e%2e%2f%2e%2e%2fetc%2fpasswd", b"..%5c..%5cetc%5cpasswd"),
    *(b"%252e%252e/zarr.json", b"..%c0%afetc/passwd", b"%ff%fe", b"a%00b", b"/etc/passwd"),
    *(b"//etc/passwd", b"%2fetc%2fpasswd", b"a//b", b"./zarr.json", b"a/./b", b"C:%5cWindows"),
    *(b"file:///etc/passwd", b"a\\..\\b", b"%0d%0aSet-Cookie:x=1", b"~root/.ssh", b"%u002e%u002e"),
    *(b".__omnizarr_staged__/x", b"a/.__omnizarr_lock__chunks", b"%2e__omnizarr_staged__/x"),
]


@pytest.mark.parametrize("start", [b"/store/", b"/v2/", b"/v3/", b"/page/", b"/"])
@pytest.mark.parametrize("target", HOSTILE)
def test_no_path_leads_outside(outside: httpx.Client, start: bytes, target: bytes) -> None:
    status, body = raw_get(outside, start + target)
    assert status in (400, 404), body
    assert b"secret" not in body.replace(b"a/../../secret", b"").replace(b"%2fsecret", b"")
    if body[:1] == b"{":
        assert set(json.loads(body)) == {"error"}
        assert str(Path.cwd()).encode() not in body


@pytest.fixture(scope="module")
def outside(tmp_path_factory: Any) -> Iterator[httpx.Client]:
    """Yield a client of a directory beside which there are others."""
    top = tmp_path_factory.mktemp("beside")
    (top / "secret").write_bytes(b"secret")
    (top / "zarr.json").write_bytes(b"secret")
    store = _fill(LocalStore(top / "a.zarr"))
    for name in (".__omnizarr_staged__/x", "a/.__omnizarr_lock__chunks"):
        path = store.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"secret")
    with client_of(store) as client:
        yield client


def test_an_encoded_key_is_decoded_once(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path / "a.zarr"))
    names = ["ü ñ/c", "100%", "a%2fb", "q?x=1#y", "back\\slash", "plus+&=;"]
    for name in names:
        store.set(name, name.encode())
    with client_of(store) as client:
        for name in names:
            quoted = "".join(f"%{b:02x}" for b in name.encode()).replace("%2f", "/", 0)
            status, body = raw_get(client, f"/store/{quoted}".encode())
            assert (status, body) == (200, name.encode())


@given(st.text("bytes=0123456789-, \u00b2", max_size=30), st.integers(0, 200))
def test_any_text_is_a_range_header_that_is_understood_or_ignored(text: str, size: int) -> None:
    for header in (text, f"bytes={text}"):
        span = keys.parse_range(header, size)
        assert span is None or 0 <= span[0] <= span[1] <= max(size, span[0])
