"""Fixtures: one server of each kind per test process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.servers.gcs import CloudStorage
from tests.servers.processes import (
    ACCOUNT,
    ACCOUNT_KEY,
    azurite,
    make_azure_container,
    make_s3_bucket,
    moto,
    s3_options,
)
from tests.servers.web import Proxy, Web, running

_numbers = itertools.count()


@dataclass
class Cloud:
    """An empty bucket: its URL, the options to reach it, and the proxy in front."""

    url: str
    options: dict[str, Any]
    server: Web


@pytest.fixture(scope="session")
def moto_port() -> Iterator[int]:
    with moto() as port:
        yield port


@pytest.fixture(scope="session")
def azurite_port() -> Iterator[int]:
    with azurite() as port:
        yield port


@pytest.fixture
def web() -> Iterator[Web]:
    """Start a web server that serves `web.values`."""
    with running(Web()) as server:
        yield server


@pytest.fixture
def s3(moto_port: int) -> Iterator[Cloud]:
    name = f"bucket-{next(_numbers)}"
    make_s3_bucket(moto_port, name)
    with running(Proxy("127.0.0.1", moto_port)) as server:
        yield Cloud(f"s3://{name}", s3_options(server.url), server)


@pytest.fixture
def gs() -> Iterator[Cloud]:
    server = CloudStorage()
    server.buckets["bucket"] = {}
    with running(server):
        options = {"endpoint": server.url, "bearer_token": "token"}
        yield Cloud("gs://bucket", options, server)


@pytest.fixture
def az(azurite_port: int) -> Iterator[Cloud]:
    name = f"container-{next(_numbers)}"
    make_azure_container(azurite_port, name)
    with running(Proxy("127.0.0.1", azurite_port)) as server:
        options = {
            "endpoint": f"{server.url}/{ACCOUNT}",
            "account_name": ACCOUNT,
            "account_key": ACCOUNT_KEY,
        }
        yield Cloud(f"az://{name}", options, server)


@pytest.fixture(params=["s3", "gs", "az"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """Return an empty bucket of every cloud in turn."""
    found: Cloud = request.getfixturevalue(request.param)
    return found
