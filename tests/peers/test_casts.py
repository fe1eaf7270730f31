"""scale_offset and cast_value give the bytes and values of zarr-python 3.4."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr

import omnizarr as oz

codecs: Any = pytest.importorskip("zarr.codecs")
if not hasattr(codecs, "CastValue"):
    pytest.skip(f"zarr-python {zarr.__version__} has no cast_value", allow_module_level=True)
pytest.importorskip("cast_value_rs")

ROUNDINGS = (
    *("nearest-even", "towards-zero", "towards-positive"),
    *("towards-negative", "nearest-away"),
)


def written(library: Any, path: Any, values: Any, steps: list[dict[str, Any]]) -> bytes:
    array = library.create_array(
        path, shape=values.shape, chunks=values.shape, dtype=values.dtype, filters=steps,
        compressors=None, overwrite=True,
    )  # fmt: skip
    array[...] = values
    return bytes((path / "c" / "0").read_bytes())


def agree(path: Any, values: Any, steps: list[dict[str, Any]]) -> None:
    assert written(oz, path, values, steps) == written(zarr, path, values, steps)
    np.testing.assert_array_equal(oz.open(path)[...], zarr.open_array(path, mode="r")[...])
    written(oz, path, values, steps)
    np.testing.assert_array_equal(oz.open(path)[...], zarr.open_array(path, mode="r")[...])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("target", ["int8", "uint16", "int64", "float16", "float32"])
@pytest.mark.parametrize("source", ["float64", "int64"])
def test_casts_agree_with_zarr_python(
    tmp_path: Any, source: str, target: str, rounding: str
) -> None:
    numbers = np.array([0, 1, 2.5, -2.5, 3.5, 127.5, 128, -129, 255.5, 2049, 65519, 2**24 + 1])
    if target == "float16":  # what becomes infinite comes back as no integer
        numbers = numbers[numbers < 65504]
    stated = {"data_type": target, "rounding": rounding, "out_of_range": "clamp"}
    steps = [{"name": "cast_value", "configuration": stated}]
    agree(tmp_path / "a", numbers.astype(source), steps)


@pytest.mark.parametrize("data_type", ["int16", "uint32", "float32", "float64"])
def test_scale_offset_with_a_cast_agrees_with_zarr_python(tmp_path: Any, data_type: str) -> None:
    steps = [
        {"name": "scale_offset", "configuration": {"offset": 0, "scale": 2}},
        {"name": "cast_value", "configuration": {"data_type": "uint8"}},
    ]
    agree(tmp_path / "a", np.arange(1, 100).astype(data_type), steps)
