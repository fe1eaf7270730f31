"""A writer that is killed at any moment leaves the old node, or one that is known as incomplete.

`make soak` tries 200 moments of every writer; tests/crash ends it after each of its changes.
"""

from __future__ import annotations

import pytest

from tests.crash.operations import OPERATIONS
from tests.crash.server import Client
from tests.crash.test_promises import client
from tests.sampling import SEED, sample, tries

__all__ = ["client"]
WRITERS = (
    *("create with data", "save", "overwrite", "copy hierarchy", "convert", "rechunk", "pyramid"),
    *("import", "OME write", "CF write", "geo write", "xarray write", "Dask write"),
)


@pytest.mark.parametrize("writer", sample(WRITERS, 5))
def test_a_writer_that_is_killed_at_any_moment_leaves_no_node_in_part(
    client: Client, writer: str
) -> None:
    kind = ("directory", "SQLite")[(SEED + WRITERS.index(writer)) % 2]
    zarr_format = OPERATIONS[writer].formats[-1]
    options = {"name": writer, "zarr_format": zarr_format, "kind": kind, "calls": kind == "SQLite"}
    assert client.run("moments", sample=tries(4, 200), seed=SEED, **options) == []
