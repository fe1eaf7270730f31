"""Views of N5: blocks keep their bytes in version 3 where the registered codec describes them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.formats.n5_writer import COMPRESSIONS, write
from tests.formats.test_n5 import SCALES, VALUES, hierarchy

KEPT = {"raw", "gzip", "zstd", "blosc"}


@pytest.mark.parametrize("target", [2, 3])
def test_a_hierarchy_is_shown_with_all_its_nodes(target: int) -> None:
    source = hierarchy()
    view = oz.view_as(source, target)
    stored, shown = oz.open(source), oz.open(view)
    names = [name for name, _ in stored.members(None)]
    assert [name for name, _ in shown.members(None)] == names
    assert [name for name, _ in oz.open(view, use_consolidated=True).members(None)] == names
    assert shown["setup0"].attrs == SCALES
    assert np.array_equal(shown["setup0/s0"][...], VALUES)
    chunks = [key for key in view.list() if key.rpartition("/")[2][0].isdigit()]
    assert len(chunks) == sum(key[-1].isdigit() for key in source)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_version_3_keeps_the_blocks_that_the_registered_codec_has(name: str) -> None:
    source = write(VALUES, (4, 2, 2), name)
    view = oz.view_as(source, 3)
    document: Any = json.loads(view.get("zarr.json") or b"")
    kept = view.get("c/0/1/0") == source["0/1/0"]
    assert kept == any(c["name"] == "n5_default" for c in document["codecs"]) == (name in KEPT)
    assert document["shape"] == [7, 5, 3]
    assert np.array_equal(oz.open(view)[...], VALUES)
    assert oz.validate(view) == []


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_version_2_has_blocks_that_every_reader_knows(name: str) -> None:
    view = oz.view_as(write(VALUES, (4, 2, 2), name), 2)
    assert "n5" not in (view.get(".zarray") or b"").decode()
    assert np.array_equal(oz.open(view)[...], VALUES)


def test_types_that_only_zarr_python_stored_in_n5_are_encoded_again() -> None:
    values = VALUES.astype("float16")
    view = oz.view_as(write(values, (4, 2, 2)), 3)
    assert "n5_default" not in (view.get("zarr.json") or b"").decode()
    assert np.array_equal(oz.open(view)[...], values)
