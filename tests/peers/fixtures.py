"""Fixtures for readers that need their own environment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import environments
from tests.peers.environments import Gdal, Zarrita, ZarrPython2


@pytest.fixture(scope="session")
def zarr_python_2() -> Iterator[ZarrPython2]:
    found = environments.zarr_python_2()
    yield found
    found.server.close()


@pytest.fixture(scope="session")
def zarrita() -> Iterator[Zarrita]:
    found = environments.zarrita()
    yield found
    found.server.close()


@pytest.fixture(scope="session")
def gdal() -> Iterator[Gdal]:
    found = environments.gdal()
    yield found
    found.server.close()
