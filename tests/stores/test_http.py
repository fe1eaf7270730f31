"""The store on a web server."""

from __future__ import annotations

import gzip
import os
import time
import zlib
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest

import omnizarr
import omnizarr as oz
from omnizarr import stores
from omnizarr.concurrency.retry import Retry
from omnizarr.errors import ReadOnly, StoreError
from omnizarr.storage import MemoryStore, PrefixStore
from omnizarr.stores import Range, Versioned, resolve
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.wrappers import CacheStore
from omnizarr.testing import run_in_fork
from tests.servers.web import Web, running

QUICK = Retry(attempts=3, first_wait=0.01, timeout=5.0, deadline=20.0)
DIGITS = b"0123456789"


def open_store(web: Web, **options: Any) -> HTTPStore:
    return HTTPStore(f"{web.url}/data", retry=QUICK, **options)


def test_a_server_without_ranges_is_asked_for_a_value_once(web: Web) -> None:
    web.values["data/k"] = os.urandom(4_000_000)
    web.ranges = False
    store = open_store(web)
    asked = [("k", Range(i * 400_000, 10)) for i in range(9)]
    expected = [part.of(web.values["data/k"]) for _, part in asked]
    assert store.get_many(asked) == expected
    assert not store.has_ranges
    web.log.clear()
    assert store.get_many(asked) == expected
    assert len(web.log) == 1


@pytest.mark.shows("GEO-05", "V3-32")
def test_keys_are_percent_encoded_paths_below_the_url(web: Web) -> None:
    keys = [".zarray", "0.0", "a b", "Ω/zarr.json", "50%", "a#b?c=d", "a+b"]
    web.values |= {f"data/{key}": key.encode() for key in keys}
    store = open_store(web)
    assert [store.get(key) for key in keys] == [key.encode() for key in keys]
    sent = [path for _, path, _ in web.log]
    assert sent[:5] == [
        *("/data/.zarray", "/data/0.0", "/data/a%20b", "/data/%CE%A9/zarr.json", "/data/50%25"),
    ]


@pytest.mark.shows("GEO-06")
def test_an_array_is_read_without_listing_and_only_404_is_the_fill_value(web: Web) -> None:
    data = np.arange(400).reshape(20, 20) + 1
    omnizarr.create_array(MemoryStore(web.values), data=data, chunks=(10, 10), fill_value=7)
    array = omnizarr.open(web.url)
    np.testing.assert_array_equal(array[...], data)
    del web.values["c/1/1"]
    expected = data.copy()
    expected[10:, 10:] = 7
    np.testing.assert_array_equal(array[...], expected)


@pytest.mark.shows("GEO-07")
def test_writing_is_refused_before_any_request(web: Web) -> None:
    store = open_store(web)
    assert store.read_only
    for call in (
        lambda: store.set("k", b"x"),
        lambda: store.erase("k"),
        lambda: stores.erase_prefix(store, "a/"),
        lambda: stores.set_many(store, [("k", b"x")]),
        lambda: omnizarr.create_array(store, shape=(1,), dtype="i4"),
    ):
        with pytest.raises(ReadOnly, match="read-only"):
            call()
    assert web.log == []


# Answers that are not what they seem


def test_a_slow_server_is_given_up_at_the_deadline(web: Web) -> None:
    web.values["data/k"] = DIGITS
    web.break_down("slow")
    store = HTTPStore(f"{web.url}/data", retry=Retry(timeout=0.2, deadline=0.5, first_wait=0.01))
    with pytest.raises(StoreError, match=r"'k'.*deadline 0.5 s"):
        store.get("k")
    assert len(web.log) <= 2


def test_the_server_may_ask_to_wait(web: Web) -> None:
    web.values["data/k"] = DIGITS
    plain, seen = web.answer, []

    def answer(*args: Any) -> Any:
        given = plain(*args)
        seen.append(given)
        if len(seen) == 1:
            given.status, given.headers = 503, {"Retry-After": "1"}
        return given

    web.answer = answer  # type: ignore[method-assign]
    assert open_store(web).get("k") == DIGITS
    impatient = HTTPStore(f"{web.url}/data", retry=Retry(deadline=0.5))
    seen.clear()
    with pytest.raises(StoreError, match="deadline"):
        impatient.get("k")


def test_a_data_file_that_a_server_calls_html_is_still_data(web: Web) -> None:
    web.values |= {"data/k": DIGITS, "data/zarr.json": b'{"a": 1}'}
    web.content_type = "text/html"
    store = open_store(web)
    assert store.get("k") == DIGITS
    assert store.get("zarr.json") == b'{"a": 1}'


@pytest.mark.parametrize(
    ("encoding", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_an_answer_in_an_encoding_is_decoded(web: Web, encoding: str, encode: Any) -> None:
    web.values["data/k"] = encode(DIGITS)
    web.extra_headers = {"Content-Encoding": encoding}
    web.ranges = False
    assert open_store(web).get("k") == DIGITS
    assert open_store(web).get("k", Range(2, 3)) == b"234"
    assert web.log[0][2]["accept-encoding"] == "identity"


@pytest.mark.parametrize(("encoding", "ranges"), [("br", False), ("gzip", True)])
def test_an_encoding_that_cannot_be_undone_is_an_error(
    web: Web, encoding: str, ranges: bool
) -> None:
    web.values["data/k"] = gzip.compress(DIGITS)
    web.extra_headers = {"Content-Encoding": encoding}
    web.ranges = ranges
    with pytest.raises(StoreError, match=f"'k'.*{encoding}"):
        open_store(web).get("k", Range(2, 3))


def test_redirects_are_followed_but_not_forever(web: Web) -> None:
    web.values["elsewhere"] = DIGITS
    web.redirects |= {"data/k": "/elsewhere", "data/loop": "/data/loop"}
    store = open_store(web)
    assert store.get("k", Range(1, 2)) == b"12"
    with pytest.raises(StoreError, match="'loop'"):
        store.get("loop")


def test_a_password_does_not_follow_a_redirect_to_another_server(web: Web) -> None:
    with running(Web({"k": DIGITS})) as other:
        web.redirects["data/k"] = f"{other.url}/k"
        login = web.url.replace("http://", "http://me:secret@")
        assert HTTPStore(f"{login}/data").get("k") == DIGITS
        assert "authorization" in web.log[0][2]
        assert "authorization" not in other.log[0][2]


def test_a_status_can_be_configured_as_missing(web: Web) -> None:
    web.break_down("403")
    with pytest.raises(StoreError, match="'Authorization': 'Bearer TOKEN'"):
        open_store(web).get("k")
    assert open_store(web, absent_status={403}).get("k") is None


def test_keys_are_listed_only_where_the_server_offers_it(web: Web) -> None:
    web.values |= {
        "data/k": DIGITS,
        "data/": b'{"keys": {"a%2Fb": 3}, "prefixes": [], "next": null}',
    }
    store = open_store(web)
    assert store.get("k") == DIGITS
    assert not stores.can_list(store)
    web.extra_headers["X-Omnizarr"] = "list"
    assert store.get("k") == DIGITS
    assert stores.list_dir(store, "") == (["a/b"], [])
    assert [*stores.list_sizes(store, "")] == [("a/b", 3)]
    assert web.log[-1][1] == "/data/?&list&after="
    assert not stores.can_list(store.checking_redirects(lambda url: None))


@pytest.mark.parametrize(
    "listing",
    [
        b"", b"[]", b"{}", b"\xff", b'{"keys": 1, "prefixes": [], "next": null}',
        b'{"keys": {"..%2Fx": 1}, "prefixes": [], "next": null}',
        b'{"keys": {}, "prefixes": ["a%2F..%2Fb"], "next": null}',
        b"[" * 200_000, b'{"keys": {"a": "3"}, "prefixes": [], "next": null}',
        b'{"keys": {"%FF": 3}, "prefixes": [], "next": null}',
        b'{"keys": {}, "prefixes": ["\\ud800"], "next": null}',
    ],
)  # fmt: skip
def test_a_listing_that_is_no_listing_is_an_error(web: Web, listing: bytes) -> None:
    web.values |= {"data/k": DIGITS, "data/": listing}
    web.extra_headers["X-Omnizarr"] = "list"
    store = open_store(web)
    assert store.get("k") == DIGITS
    with pytest.raises(StoreError, match="cannot list"):
        stores.list_dir(store, "")


def test_folders_without_end_are_an_error(web: Web) -> None:
    listing = b'{"keys": {}, "prefixes": ["a"], "next": null}'
    web.values |= {"data/" + "a/" * n: listing for n in range(200)} | {"data/k": DIGITS}
    web.extra_headers["X-Omnizarr"] = "list"
    store = open_store(web)
    assert store.get("k") == DIGITS
    with pytest.raises(StoreError, match="nested too deeply"):
        list(stores.list_sizes(store, ""))


# What it is


def test_generations_are_tags_or_times(web: Web) -> None:
    web.values["data/k"] = DIGITS
    store = open_store(web)
    assert isinstance(store, Versioned)
    assert store.generation("missing") is None
    first = store.generation("k")
    assert store.get_versioned("k", Range(1, 1)) == (b"1", first)
    web.values["data/k"] = b"other"
    assert store.generation("k") not in (None, first)
    web.extra_headers = {"ETag": "", "Last-Modified": "Sun, 01 Jan 2023 00:00:00 GMT"}
    assert store.generation("k") == "modified Sun, 01 Jan 2023 00:00:00 GMT"


@pytest.mark.parametrize("tag", ["", 'W/"1"', '"{:x}-a"'])
@pytest.mark.parametrize("cache", ["store", "chunks"])
def test_a_value_replaced_within_its_second_is_not_stale(web: Web, tag: str, cache: str) -> None:
    """A10: a date, or a tag made of it, is the same for all values of its second."""
    written = PrefixStore(MemoryStore(web.values), "data")
    array = oz.create_array(written, data=np.zeros(4, "u1"), codecs=["bytes"])

    def read() -> Any:
        store = open_store(web)
        if cache == "store":
            return oz.open(CacheStore(store, kept))[...].tolist()
        return oz.open(store)[...].tolist()

    kept, found = MemoryStore(), []
    now = int(time.time())
    with oz.configure(chunk_cache="1MB" if cache == "chunks" else None):
        for asked in (now, now, now + 10, now + 11):
            dates = {"Last-Modified": now, "Date": asked}
            web.extra_headers = {name: formatdate(at, usegmt=True) for name, at in dates.items()}
            web.extra_headers["ETag"] = tag.format(now)
            found.append(read())
            if asked == now:
                array[...] = array[...] + 1
    assert found == [[0] * 4, [1] * 4, [2] * 4, [2] * 4]


def test_secrets_of_the_url_are_sent_but_not_shown(web: Web) -> None:
    web.values["data/k"] = DIGITS
    url = web.url.replace("http://", "http://me:pass%2Fword@") + "/data?sig=signed"
    store = HTTPStore(url, retry=QUICK)
    assert store.get("k") == DIGITS
    method, path, headers = web.log[0]
    assert (method, path) == ("GET", "/data/k?sig=signed")
    assert headers["authorization"].startswith("Basic ")
    web.break_down("500")
    with pytest.raises(StoreError) as caught:
        store.get("k")
    with pytest.raises(StoreError) as unknown:
        resolve("nonsense://me:password@host/x?sig=signed")
    text = repr(store) + store.url + str(caught.value) + str(unknown.value)
    for secret in ("me:", "pass", "signed"):
        assert secret not in text.replace("pass a", "")


def test_headers_go_with_every_request(web: Web) -> None:
    web.values["data/k"] = DIGITS
    options = {"headers": {"Authorization": "Bearer token"}}
    assert resolve(f"{web.url}/data", storage_options=options).get("k") == DIGITS
    assert web.log[0][2]["authorization"] == "Bearer token"
    with pytest.raises(StoreError, match="did you mean 'headers'"):
        resolve(f"{web.url}/data", storage_options={"header": {}})


def test_the_proxy_of_the_environment_is_used(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.values["data/k"] = DIGITS
    monkeypatch.setenv("http_proxy", web.url.replace("http://", "http://me:secret@"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert HTTPStore("http://example.invalid/data", retry=QUICK).get("k") == DIGITS
    method, path, headers = web.log[0]
    assert (method, path) == ("GET", "http://example.invalid/data/k")
    assert headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_store_works_in_a_forked_process_and_its_parent(web: Web) -> None:
    web.values |= {"data/k": DIGITS, "data/l": b"l"}
    store = open_store(web)
    many = [("k", None), ("l", None), ("no", None)]

    def read() -> None:
        assert store.get_many(many) == [DIGITS, b"l", None]

    read()
    run_in_fork(read)
    read()


@pytest.mark.parametrize("url", ["http://", "https:///path", "http:", "http://\u00e9/path"])
def test_a_url_without_a_host_in_ascii_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="http"):
        HTTPStore(url)


@pytest.mark.parametrize("end", ["\nX-Other: 1", "\0", "\u20ac"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(end: str) -> None:
    with pytest.raises(oz.InvalidArgument, match="'Authorization' has a line break") as caught:
        HTTPStore("http://127.0.0.1:9/x", headers={"Authorization": f"secret{end}"})
    assert "secret" not in str(caught.value)
