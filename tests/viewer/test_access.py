"""What those who run a server ask it for: its health, numbers about requests, and its keys."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import MemoryStore
from omnizarr.stores.http import HTTPStore
from omnizarr.viewer import access, app
from omnizarr.viewer.access import ServerLimits
from tests.cli.conftest import run
from tests.viewer.conftest import client_of

ODD = ("b ü%41", "c#d?e", "+&")  # names that a URL has to escape


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder of two hierarchies, one of them in a ZIP file, with names that are escaped."""
    group = oz.create_group(tmp_path / "lake" / "x.zarr", attributes={"title": "sea"})
    for name in ODD:
        group.create_array(name, data=np.arange(100).reshape(10, 10), chunks=(2, 5))
    oz.copy(group, tmp_path / "lake" / "deep" / "y.zip")
    return tmp_path / "lake"


def parse(text: str) -> dict[str, dict[str, float]]:
    """Return the values of metrics by name and labels; raise for what Prometheus would refuse."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    types: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in types
            types[name] = kind
            continue
        if line.startswith("# HELP "):
            continue
        labelled = r"(?:\{((?:[a-z]+=\"[^\"]*\",?)+)\})?"
        match = re.fullmatch(rf"([a-z_:][a-z0-9_:]*){labelled} ([0-9.e+-]+)", line)
        assert match is not None, line
        name, labels, number = match.groups("")
        family = re.sub("_(bucket|count|sum)$", "", name)
        assert types.get(name, types.get(family)) in ("counter", "gauge", "histogram"), line
        assert labels not in found[name], line
        found[name][labels] = float(number)
    for labels, count in found["omnizarr_request_seconds_count"].items():
        buckets = [n for key, n in found["omnizarr_request_seconds_bucket"].items()
                   if key.startswith(f"{labels},")]  # fmt: skip
        assert buckets == sorted(buckets)
        assert buckets[-1] == count
    return found


def test_metrics_count_what_was_answered_and_refused(lake: Path) -> None:
    with client_of(lake, token="secret") as client:
        assert client.get("health").json() == {"status": "ok"}  # without the token
        assert client.get("metrics").status_code == 401
        client.headers["authorization"] = "Bearer secret"
        stored = client.get("store/x.zarr/zarr.json")
        client.get("store/x.zarr/nothing")
        client.get("no/such/page")
        answer = client.get("metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = parse(answer.text)
    assert found["omnizarr_requests_total"] == {
        'route="/health",status="200"': 1,
        'route="/metrics",status="401"': 1,
        'route="/store",status="200"': 1,
        'route="/store",status="404"': 1,
        'route="other",status="404"': 1,
    }
    assert found["omnizarr_requests_refused_total"] == {'status="401"': 1}
    assert found["omnizarr_requests_in_flight"] == {"": 1}  # the one that asks
    assert found["omnizarr_sent_bytes_total"]['route="/store"'] > len(stored.content)


def test_slow_requests_are_logged_without_their_query(
    lake: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(access, "SLOW", -1.0)
    with caplog.at_level(logging.INFO, "omnizarr"), client_of(lake, token="secret") as client:
        client.get("health?token=secret")
    (message,) = [record.getMessage() for record in caplog.records if "took" in record.message]
    assert re.fullmatch(r"answering '/health' \(200\) took 0\.\d s", message)


def test_our_store_lists_what_our_server_serves(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MAX_MEMBERS", 2)  # in one answer, of several
    with oz.serving(lake, token="secret") as url:
        where = f"{url}store/x.zarr?token=secret"
        group = oz.open(where)
        assert sorted(name for name, _ in group.arrays()) == sorted(ODD)
        assert group[ODD[0]].nbytes_stored() == oz.open(lake / "x.zarr")[ODD[0]].nbytes_stored()
        for command in ("info", "tree", "ls", "du", "verify"):
            result = run(command, f"{url}store?token=secret")
            assert result.exit_code == 0, result.output
            assert "secret" not in result.output
        assert run("copy", f"{url}store?token=secret", tmp_path / "copy").exit_code == 0
    for name in ("x.zarr", "deep/y.zip"):
        assert run("diff", lake / name, tmp_path / "copy" / name).exit_code == 0


def test_the_stored_bytes_of_an_array_are_listed_and_not_fetched(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a", data=np.random.default_rng(1).random(10**5), chunks=10**4)
    with oz.serving(tmp_path / "a") as url:
        array = oz.open(f"{url}store")
        with oz.trace() as trace:
            stored = array.nbytes_stored()
    assert stored == oz.open(tmp_path / "a").nbytes_stored()
    assert trace.total.received_bytes < stored / 10


def test_a_listing_hides_what_is_not_served(lake: Path) -> None:
    (lake / "notes.txt").write_text("mine")
    (lake / "x.zarr" / "out").symlink_to(lake.parent)
    (lake / "x.zarr" / ".__omnizarr_lock__").write_text("")
    (lake / "x.zarr" / "notes").symlink_to("/etc/hostname")
    (lake / "x.zarr" / "absent").symlink_to("nothing")
    (lake / "x.zarr" / "a\tb").write_text("")
    if sys.platform == "linux":  # others refuse it
        (lake / "x.zarr" / os.fsdecode(b"\xff")).write_text("")
    with client_of(lake) as client:
        top = client.get("store/?list").json()
        assert top == {"keys": {}, "prefixes": ["deep", "x.zarr"], "next": None}
        inner = client.get("store/x.zarr/?list").json()
        assert [*inner["keys"]] == ["absent", "zarr.json"]
        assert {unquote(name) for name in inner["prefixes"]} == {*ODD}
        assert client.get("store/x.zarr/out/?list").status_code in (403, 404)
        assert client.get("store/x.zarr%2F..%2F..%2F/?list").status_code == 400


def test_a_store_that_cannot_list_does_not_say_so() -> None:
    class Plain:
        read_only = True

        def __init__(self, values: Any) -> None:
            self.get = values.get

        def set(self, key: str, value: Any) -> None: ...
        def erase(self, key: str) -> None: ...

    values = MemoryStore()
    oz.create_array(values, data=np.arange(3))
    with oz.serving(Plain(values), limits=ServerLimits()) as url:
        store = HTTPStore(f"{url}store")
        assert store.get("zarr.json") == values.get("zarr.json")
        assert not hasattr(store, "list_dir")
