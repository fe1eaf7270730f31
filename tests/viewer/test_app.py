"""The gate before the routes: methods, sizes, the token, rates; and errors as JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnizarr as oz
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.stores import MemoryStore
from omnizarr.testing import FaultyStore
from omnizarr.viewer import access
from omnizarr.viewer.access import ServerLimits
from tests.viewer.conftest import client_of, exchange


@pytest.fixture
def group(tmp_path: Path) -> Any:
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("t", data=[1, 2, 3])
    return group


@pytest.fixture
def client(group: Any) -> Iterator[httpx.Client]:
    with client_of(group) as client:
        yield client


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "LOCK"])
def test_nothing_can_be_changed(client: httpx.Client, method: str) -> None:
    answer = client.request(method, "store/zarr.json")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert client.get("store/zarr.json").status_code == 200


@pytest.mark.parametrize(
    "path",
    ["nothing", "store", "api", "api/none", "page/none", "v1/zarr.json", "store/none", "v4/"],
)
def test_what_is_not_there_is_not_found(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}
    assert client.head(path).status_code == 404


def test_an_unknown_node_is_not_found(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "nine.zarr").mkdir()  # must not be named
    for route in ("members", "node", "values", "chunks"):
        for path in ("none", "t/none"):
            answer = client.get(f"api/{route}", params={"path": path})
            assert answer.status_code == 404, answer.text
            assert "nine" not in answer.text
            assert str(tmp_path) not in answer.text


@pytest.mark.parametrize("path", ["..", "a/../b", ".", "a\\..\\b", "a\0b"])
def test_paths_of_nodes_lead_nowhere_else(client: httpx.Client, path: str) -> None:
    for route in ("members", "node", "values", "chunks"):
        assert client.get(f"api/{route}", params={"path": path}).status_code == 400


def test_requests_with_a_body_are_refused(client: httpx.Client) -> None:
    answer = client.request("GET", "store/zarr.json", content=b"x" * 10)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b" 413 " in exchange(client, head + b"5\r\nhello\r\n")


def test_long_headers_are_refused(client: httpx.Client) -> None:
    for head in (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET /store/"):
        long = exchange(client, head + b"a" * 400_000)
        assert long == b"" or long.startswith(b"HTTP/1.1 400 ")
    assert client.get("store/zarr.json").status_code == 200


@pytest.mark.parametrize(
    "request_",
    [
        *(b"\r\n\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n"),
        *(b"GET / HTTP/1.1\r\n\r\n", b"GET http://\xff/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        *(
            b"GET /store/\xfc HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        ),
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(client: httpx.Client, request_: bytes) -> None:
    answer = exchange(client, request_ + b"\r\n\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert client.get("store/zarr.json").status_code == 200


def test_pages_of_other_sites_may_read(group: Any) -> None:
    with client_of(group) as client:
        answer = client.get("store/zarr.json", headers={"origin": "https://a.example"})
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "x-shape" in answer.headers["access-control-expose-headers"]
        preflight = client.options(
            "store/zarr.json",
            headers={
                "origin": "https://a.example",
                "access-control-request-method": "GET",
                "access-control-request-headers": "range",
            },
        )
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-methods"] == "GET, HEAD"
        assert preflight.headers["access-control-allow-headers"] == "range"
    with client_of(group, origins=["https://a.example"]) as client:
        for site, allowed in (("https://a.example", True), ("https://b.example", False)):
            answer = client.get("store/zarr.json", headers={"origin": site})
            assert (answer.headers.get("access-control-allow-origin") == site) == allowed
            assert answer.headers["vary"] == "Origin"
    with client_of(group, origins=[]) as client:
        answer = client.get("store/zarr.json", headers={"origin": "https://a.example"})
        assert "access-control-allow-origin" not in answer.headers


def test_a_token_is_needed_where_one_is_set(group: Any) -> None:
    with client_of(group, token="s3cret-token") as client:
        for path in ("", "store/zarr.json", "api/node", "none"):
            answer = client.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert set(answer.json()) == {"error"}
        for wrong in ("s3cret-toke", "s3cret-token ", "", "S3CRET-TOKEN", "ü"):
            headers = {"authorization": f"Bearer {wrong}".strip().encode()}
            good = wrong.strip() == "s3cret-token"
            assert (client.get("api/node", headers=headers).status_code == 200) == good
            answer = client.get("api/node", params={"token": wrong})
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
        headers = {"authorization": "bearer s3cret-token"}
        assert client.get("api/node", headers=headers).status_code == 200
        assert client.get("api/node").status_code == 401
        first = client.get("/?token=s3cret-token&x=1")
        assert (first.status_code, first.headers["location"]) == (303, "/?x=1")
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("api/node").status_code == 200  # the client keeps the cookie
        client.cookies.clear()
        assert client.get("api/node?token=s3cret-token").status_code == 200


@pytest.mark.parametrize("token", ["", " ", "a b", "a;b", "ü", "a\nb", "a&b", '"'])
def test_a_token_can_be_part_of_a_url_and_a_header(group: Any, token: str) -> None:
    with pytest.raises(InvalidArgument, match="token"), oz.serving(group, token=token):
        pass


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        (
            {},
            ["localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:1", "127.9.9.9", "[::1]:5"],
            ["evil.example", "evil.example:8089", "localhost.evil.example", "a@localhost",
             "1.2.3.4", "127.0.0.1.evil.example", "[::2]", "[", "", "localhost:x",
             "evil.example:80:localhost", "2130706433.example", "\u00fcber"],
        ),
        (
            {"origins": ["https://a.example:444"], "host_names": ["Data.example", "10.1.2.3"]},
            ["a.example", "a.example:444", "data.example:8089", "10.1.2.3", "localhost"],
            ["b.example", "x.data.example", "10.1.2.4"],
        ),
        ({"origins": ["*"]}, ["localhost"], ["evil.example", "*"]),
        (
            {"host": "0.0.0.0", "token": "abc"},
            ["127.0.0.1", "10.1.2.3:80", "[fe80::1]"],
            ["evil.example"],
        ),
    ],
)  # fmt: skip
def test_only_hosts_of_the_server_are_answered(
    group: Any, options: Any, good: list[str], bad: list[str]
) -> None:
    with client_of(group, **options) as client:
        parts = httpx.URL(str(client.base_url))
        client.base_url = f"http://127.0.0.1:{parts.port}"
        client.headers["authorization"] = "Bearer abc"
        for host in (*good, *bad):
            for path in ("/store/zarr.json", "/"):
                answer = client.get(path, headers={"host": host.encode()})
                if host in good:
                    assert answer.status_code == 200, host
                elif host:
                    assert answer.status_code == 421, host
                    assert "--host-name" in answer.json()["error"]
                else:
                    assert answer.status_code in (400, 421)


@pytest.mark.parametrize("name", ["", "https://a.example", "a.example:80", "*", "a b", "a/b"])
def test_a_host_name_is_a_name(group: Any, name: str) -> None:
    with pytest.raises(InvalidArgument, match="host"), oz.serving(group, host_names=[name]):
        pass


def test_requests_beyond_the_limit_are_told_to_wait(group: Any) -> None:
    with client_of(group, limits=ServerLimits(requests=0)) as client:
        answer = client.get("store/zarr.json")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert set(answer.json()) == {"error"}


def test_the_server_stays_when_the_store_vanishes(group: Any, tmp_path: Path) -> None:
    with client_of(group) as client:
        assert client.get("v2/.zgroup").status_code == 200
        shutil.move(tmp_path / "a.zarr", tmp_path / "elsewhere")
        for path in ("store/zarr.json", "v2/t/.zarray", "api/node", "api/values?path=t&select=0"):
            answer = client.get(path)
            assert answer.status_code == 404, answer.text
            assert "elsewhere" not in answer.text
            assert str(tmp_path) not in answer.text
        shutil.move(tmp_path / "elsewhere", tmp_path / "a.zarr")
        assert client.get("api/node").status_code == 200
        assert client.get("v2/t/.zarray").status_code == 200


def test_errors_of_the_store_are_answers(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[Exception] = []
    store = FaultyStore(MemoryStore(), lambda *_: next(iter(errors), None))
    oz.create_group(store).create_array("t", data=[1, 2, 3])
    with client_of(store) as client:
        place = "s3://key:secret@host/bucket"
        errors[:] = [StoreError(f"cannot read '/home/me/x' in {place}: refused")]
        answer = client.get("store/zarr.json")
        assert answer.status_code == 503
        assert "secret" not in answer.text
        errors[:] = [RuntimeError("a secret of the program")]
        connection = answer.extensions["network_stream"].get_extra_info("client_addr")
        for path in ("store/zarr.json", "api/node"):
            answer = client.get(path)
            assert answer.status_code == 500
            assert answer.json() == {"error": "internal error"}
            assert answer.extensions["network_stream"].get_extra_info("client_addr") == connection
        errors[:] = []
        assert client.get("store/zarr.json").status_code == 200
    logged = [record for record in caplog.records if record.name == "omnizarr.serve"]
    assert [str(record.exc_info[1]) for record in logged if record.exc_info] == [
        "a secret of the program",
        "a secret of the program",
    ]


def test_the_page_is_served_with_its_files(client: httpx.Client) -> None:
    folder = Path(access.__file__).parent / "page"
    for file in folder.iterdir() if folder.is_dir() else ():
        answer = client.get(f"page/{file.name}")
        assert (answer.status_code, answer.content) == (200, file.read_bytes())
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        again = {"if-none-match": answer.headers["etag"]}
        assert client.get(f"page/{file.name}", headers=again).status_code == 304
    assert client.get("page/..%2fapp.py").status_code == 404
    assert json.loads(client.get("page/__init__.py").content)
