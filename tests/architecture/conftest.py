"""Fixtures for the tests of the source code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture.sources import parsed


@pytest.fixture(scope="package", autouse=True)
def _syntax_trees() -> Iterator[None]:
    """Free the syntax trees, a million objects, after the last test of this folder."""
    yield
    parsed.cache_clear()
