"""Fill values of version 3 as other writers spell them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.peers.environments import Gdal

WRITE = """
import logging, warnings
logging.disable()
warnings.simplefilter("ignore")
options = dict(driver="ZARR", height=2, width=3, count=1, dtype=name, FORMAT="ZARR_V3")
with rasterio.open(path, "w", **options) as dataset:
    dataset.write(values, 1)
result = None
"""


@pytest.mark.parametrize("name", ["uint8", "int16", "uint32", "complex64"])
def test_a_map_of_gdal_without_nodata_is_read_with_a_warning(
    tmp_path: Path, gdal: Gdal, name: str
) -> None:
    values = np.arange(6).reshape(2, 3).astype(name)
    gdal.run(WRITE, path=str(tmp_path / "map.zarr"), values=values, name=name)
    [document] = [
        path
        for path in (tmp_path / "map.zarr").rglob("zarr.json")
        if json.loads(path.read_text()).get("shape") == [2, 3]
    ]
    assert json.loads(document.read_text())["fill_value"] is None
    with pytest.warns(oz.OmnizarrWarning, match="got null, as GDAL writes"):
        array = oz.open(document.parent, mode="r+")
    np.testing.assert_array_equal(array[...], values)
    assert array.fill_value == 0
    with pytest.warns(oz.OmnizarrWarning, match="got null"):
        array.attrs["a"] = 1
    assert oz.validate(document.parent) == []
    assert json.loads(document.read_text())["fill_value"] == array.metadata.to_dict()["fill_value"]
