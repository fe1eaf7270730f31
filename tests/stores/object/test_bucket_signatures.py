"""URLs with signatures are those that obstore makes, and many values come by them."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import S3Store

from omnizarr.errors import StoreError
from omnizarr.stores import Range, resolve
from omnizarr.stores.object import bucket as buckets
from omnizarr.stores.object.bucket import Bucket
from tests.servers.fixtures import Cloud
from tests.servers.processes import s3_options
from tests.servers.web import FAULTS, Answer, Proxy, Web, running

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/", exclude_categories=["C", "Z"]),
    min_size=1,
    max_size=8,
)
PATHS = st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3)
WORDS = st.text("abcXYZ09/+=", min_size=1, max_size=20)


def parts(urls: list[str] | None) -> list[list[str]]:
    """Return the parts of URLs, in any order of queries."""
    return [sorted(re.split("[?&]", url)) for url in urls or ()]


@settings(max_examples=25)
@given(PATHS.map("/".join), WORDS, WORDS, st.none() | WORDS, st.sampled_from(["eu-west-1", None]))
def test_signed_urls_are_those_of_obstore(
    path: str, key: str, secret: str, token: str | None, region: str | None
) -> None:
    config: dict[str, Any] = {"access_key_id": key, "secret_access_key": secret}
    config |= {"session_token": token} if token else {}
    config |= {"region": region} if region else {}
    config["endpoint"] = "http://127.0.0.1:9000"
    theirs = S3Store("bucket", config=config, client_options={"allow_http": True})
    bucket = Bucket("s3", "bucket", config, {"allow_http": True})
    for _ in range(3):  # a second may pass between the two
        now = datetime.now(UTC)
        expected = obstore.sign(theirs, "GET", [path], timedelta(hours=1))
        with mock.patch.object(buckets, "datetime", mock.Mock(now=lambda zone: now)):  # noqa: B023 - called at once
            found = bucket.urls([path])
        if parts(found) == parts(expected):
            return
    assert parts(found) == parts(expected)


def test_many_values_are_asked_for_directly_and_again_by_obstore_where_that_fails(
    s3: Cloud,
) -> None:
    quick = {"attempts": 3, "first_wait": 0.01, "timeout": 2.0, "deadline": 20.0}
    store = resolve(f"{s3.url}/data", storage_options={**s3.options, **quick})
    values = {f"a b/ä{i}": bytes(range(100 + i)) for i in range(20)}
    for key, value in values.items():
        store.set(key, value)
    wanted = [*((key, None) for key in values), ("missing", None)]
    wanted += [("a b/ä0", part) for part in (Range(3, 4), Range(-5), Range(7, 0), Range(500, 2))]
    expected = [values.get(key) if part is None else part.of(values[key]) for key, part in wanted]
    s3.server.log.clear()
    assert store.get_many(wanted) == expected
    agents = [headers.get("user-agent", "") for _, _, headers in s3.server.log]
    assert sum(agent.startswith("omnizarr/") for agent in agents) >= len(values)
    versions = store.get_many_versioned(wanted)
    assert [data for data, _ in versions] == expected
    for (key, _), (data, version) in zip(wanted, versions, strict=True):
        assert version == (None if data is None else store.get_versioned(key)[1])
    for fault in sorted({*FAULTS} - {"slow", "404", "403"}):
        s3.server.break_down(fault, 3)
        try:
            assert store.get_many(wanted[:20]) == expected[:20]
        except StoreError as e:
            assert "cannot read 'a b/" in str(e)  # noqa: PT017 - a retry may also succeed
        s3.server.break_down(None)
    s3.server.break_down("403")
    with pytest.raises(StoreError, match="denied"):
        store.get_many(wanted)
    s3.server.break_down(None)


def test_only_variables_that_change_requests_leave_them_to_obstore(
    monkeypatch: pytest.MonkeyPatch, web: Web
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    store = S3Store("bucket", config={"access_key_id": "a", "secret_access_key": "b"})
    found = Bucket.from_obstore(store)[0]
    expected = parts(found.urls(["key"]))
    for name in ("AWS_CA_BUNDLE", "AWS_LAMBDA_FUNCTION_NAME", "AWS_PROFILE"):
        monkeypatch.setenv(name, "x")
    assert parts(found.urls(["key"]))[0][-1] == expected[0][-1]
    monkeypatch.setenv("AWS_ENDPOINT", "https://example.org")
    assert str(found.urls(["key"])).startswith("['https://example.org/bucket/key?")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    assert found.urls(["key"]) is None
    web.values |= {"bucket/a": b"x", "bucket/b": b"x"}
    options = {"endpoint": web.url, "anonymous": True, "region": "x"}
    named = resolve("s3://bucket", storage_options=options)
    assert named.get_many([("a", None), ("b", None)]) == [b"x", b"x"] == [named.get("a")] * 2
    assert Bucket("s3", "bucket", {**found.config, "default_region": "x"}).urls(["key"]) is None
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    assert found.urls(["key"]) is None


class Refusing(Proxy):
    """A server that takes no signed URLs."""

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        refused = "X-Amz-Signature" in path
        return Answer(403) if refused else super().answer(method, path, headers, body)


@pytest.mark.parametrize("absent", [(), (403,)])
def test_where_signed_urls_are_refused_obstore_asks_for_all_values_at_once(
    s3: Cloud, moto_port: int, absent: tuple[int, ...]
) -> None:
    with running(Refusing("127.0.0.1", moto_port)) as server:
        options = s3_options(server.url, absent_status=absent)
        store = resolve(f"{s3.url}/data", storage_options=options)
        wanted = [(f"k{i}", None) for i in range(20)]
        for key, _ in wanted:
            store.set(key, b"x")
        server.latency = 0.2
        server.log.clear()
        began = time.monotonic()
        assert store.get_many(wanted) == [b"x"] * 20
        assert time.monotonic() - began < 10 * server.latency
        refused = len(server.log) - 20
        assert store.get_many(wanted) == [b"x"] * 20
        assert len(server.log) == 40 + refused * (1 + bool(absent))


def test_nothing_is_asked_for_twice_after_the_end_of_a_value(s3: Cloud) -> None:
    store = resolve(f"{s3.url}/data", storage_options=s3.options)
    store.set("a", b"x")
    s3.server.log.clear()
    assert store.get_many([("a", Range(5, 2))]) == [b""]
    assert s3.server.methods == ["GET"]
