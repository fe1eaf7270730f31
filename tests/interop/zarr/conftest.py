"""zarr, with omnizarr in its place while a test runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import omnizarr
from omnizarr.errors import OmnizarrWarning


@pytest.fixture
def zarr() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmnizarrWarning)  # other tests have imported zarr before
        omnizarr.as_zarr()
    import zarr

    yield zarr
    omnizarr.as_zarr(undo=True)
