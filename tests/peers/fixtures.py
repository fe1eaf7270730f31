"""Fixtures for readers that need their own environment."""

from __future__ import annotations

import pytest

from tests.peers import environments
from tests.peers.environments import Gdal, Zarrita, ZarrPython2


@pytest.fixture(scope="session")
def zarr_python_2() -> ZarrPython2:
    return environments.zarr_python_2()


@pytest.fixture(scope="session")
def zarrita() -> Zarrita:
    return environments.zarrita()


@pytest.fixture(scope="session")
def gdal() -> Gdal:
    return environments.gdal()
