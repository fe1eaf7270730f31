"""The readers in their own environments have the expected versions and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.peers.environments import PeerError, Zarrita, ZarrPython2

VALUES: dict[str, Any] = {
    "integers": np.array([[-(2**63), 2**63 - 1], [0, 7]], "<i8"),
    "floats": np.array([[np.nan, np.inf, -np.inf, -0.0, 0.1]], ">f4"),
    "booleans": np.array([True, False]),
    "zero-dimensional": np.array(3, "u2"),
    "empty": np.zeros((0, 4), "i1"),
    "group/text": np.array(["é", "", "abc"]),
}


@pytest.fixture
def hierarchy(tmp_path: Path) -> Path:
    group = oz.create_group(tmp_path / "h", zarr_format=2)
    for name, values in VALUES.items():
        order = "F" if values.ndim > 1 else "C"
        group.create_array(name, data=values, order=order, compressors=None)
    return tmp_path / "h"


def test_zarr_python_2_reads_a_hierarchy(zarr_python_2: ZarrPython2, hierarchy: Path) -> None:
    (hierarchy / "booleans" / "0").write_bytes(b"")
    found = zarr_python_2.read(hierarchy)
    assert found.keys() == VALUES.keys()
    assert "Error" in found.pop("booleans")
    for name, values in found.items():
        np.testing.assert_array_equal(values, VALUES[name])
        assert values.dtype == VALUES[name].dtype


def test_zarr_python_2_runs_source(zarr_python_2: ZarrPython2) -> None:
    versions = zarr_python_2.run("result = zarr.__version__, numcodecs.__version__[:5]")
    assert versions == ("2.18.7", "0.16.")
    assert zarr_python_2.run("print('out'); result = a + 1", a=np.arange(2)).tolist() == [1, 2]
    with pytest.raises(PeerError, match=r"^KeyError: 'x'"):
        zarr_python_2.run("{}['x']")
    with pytest.raises(PeerError, match="the process ended with 3"):
        zarr_python_2.run("import os; os._exit(3)")
    assert zarr_python_2.run("result = 'a' in globals()") is False


def test_zarrita_reads_a_hierarchy(zarrita: Zarrita, hierarchy: Path) -> None:
    found = zarrita.read(hierarchy, *VALUES, "absent")
    assert found.keys() == {*VALUES, "absent"}
    assert "NotFound" in found.pop("absent")
    assert "empty iterator" in found.pop("empty")  # which it cannot read
    for name, values in found.items():
        np.testing.assert_array_equal(values, VALUES[name])
        np.testing.assert_array_equal(zarrita.read(hierarchy / name)[""], VALUES[name])
