"""zarr, with omnizarr in its place while a test runs, or a module of tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import omnizarr
from omnizarr.errors import OmnizarrWarning


def replaced() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmnizarrWarning)  # other tests have imported zarr before
        omnizarr.as_zarr()
    import zarr

    yield zarr
    omnizarr.as_zarr(undo=True)


zarr = pytest.fixture(replaced)
