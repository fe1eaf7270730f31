"""pcodec: every bit of numbers, the same chunks as numcodecs, and damage."""

from __future__ import annotations

import json
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import omnizarr as oz
from omnizarr.errors import InvalidMetadata
from tests.codecs.extensions.damage import check_damage
from tests.codecs.extensions.samples import chunk_of, reads, written

pytest.importorskip("pcodec")

TYPES = [f"{kind}{size}" for kind in "iu" for size in (2, 4, 8)] + ["f2", "f4", "f8"]


def options(zarr_format: int, **configuration: Any) -> dict[str, Any]:
    if zarr_format == 2:
        return {"zarr_format": 2, "compressors": {"id": "pcodec", **configuration}}
    return {"serializer": {"name": "numcodecs.pcodec", "configuration": configuration}}


@settings(max_examples=60)
@given(st.sampled_from(TYPES), st.sampled_from([2, 3]), st.data())
def test_numbers_keep_every_bit(dtype: str, zarr_format: int, data: st.DataObject) -> None:
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=4, max_side=9))
    values = data.draw(arrays.arrays(dtype, shape))
    level = data.draw(st.integers(0, 12))
    _, store = written(values, **options(zarr_format, level=level))
    assert reads(store).tobytes() == values.tobytes()
    assert chunk_of(store) == numcodecs.get_codec({"id": "pcodec", "level": level}).encode(values)


@pytest.mark.parametrize(
    "configuration",
    [
        {"mode_spec": "classic"},
        {"delta_spec": "try_consecutive", "delta_encoding_order": 0},
        {"delta_spec": "try_consecutive", "delta_encoding_order": 2},
        {"delta_encoding_order": 1},
        {"delta_spec": "try_lookback", "equal_pages_up_to": 16},
        {"paging_spec": "equal_pages_up_to", "delta_encoding_order": None},
    ],
)
def test_settings_are_those_of_numcodecs(configuration: dict[str, Any]) -> None:
    values = np.cumsum(np.arange(500, dtype="i4")).astype("i4")
    _, store = written(values, **options(2, **configuration))
    codec = numcodecs.get_codec({"id": "pcodec", **configuration})
    assert chunk_of(store) == codec.encode(values)
    assert reads(store).tolist() == values.tolist()
    assert json.loads(store[".zarray"])["compressor"] == {"id": "pcodec", **configuration}


def test_times_are_stored_as_integers() -> None:
    values = np.array(["2020-01-01", "NaT", "1969-12-31"], "M8[ns]")
    for zarr_format in (2, 3):
        _, store = written(values, **options(zarr_format))
        assert reads(store).tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"level": 13}, "an integer from 0 to 12"),
        ({"equal_pages_up_to": 0}, "an integer from 1"),
        ({"more": 1}, "not a member"),
    ],
)
def test_wrong_configurations_are_refused(configuration: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidMetadata, match=message):
        oz.create_array({}, shape=4, dtype="f4", compressors=None, **options(3, **configuration))


@pytest.mark.parametrize("name", ["none", "no_op"])
def test_both_names_of_no_differences_are_known(name: str) -> None:
    values = np.arange(500, dtype="i4")
    _, store = written(values, **options(3, delta_spec=name))
    _, same = written(values, **options(3, delta_spec="try_consecutive", delta_encoding_order=0))
    assert chunk_of(store) == chunk_of(same)
    assert reads(store).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("dtype", "part"), [("c8", "f4"), ("c16", "f8"), ([("real", "f2"), ("imag", "f2")], "f2")]
)
def test_complex_numbers_are_stored_as_their_parts_in_turn(dtype: Any, part: str) -> None:
    values = np.arange(12).astype(part).view(dtype)
    _, store = written(values, **options(3))
    assert chunk_of(store) == numcodecs.get_codec({"id": "pcodec"}).encode(values.view(part))
    assert reads(store).tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", ["bool", "S3", ">i4", ">c8"])
def test_types_that_are_no_numbers_of_the_machine_are_refused(dtype: str) -> None:
    with pytest.raises(InvalidMetadata, match="takes integers and floats"):
        oz.create_array({}, shape=4, dtype=dtype, **options(2))


def test_a_chunk_of_another_length_is_an_error() -> None:
    _, store = written(np.arange(100, dtype="i4"), **options(3))
    [key] = [k for k in store if k != "zarr.json"]
    for length in (10, 99, 101, 10**6):
        store[key] = numcodecs.get_codec({"id": "pcodec"}).encode(np.arange(length, dtype="i4"))
        with pytest.raises(oz.ChunkError, match="expected 100"):
            oz.open(store, kind="array")[...]
    store[key] = numcodecs.get_codec({"id": "pcodec"}).encode(np.arange(100, dtype="i8"))
    with pytest.raises(oz.ChunkError, match="pcodec"):
        oz.open(store, kind="array")[...]


@pytest.mark.parametrize("dtype", ["i4", "f8", "u2"])
def test_damaged_chunks_are_errors_or_values(dtype: str) -> None:
    values = (1000 * np.sin(np.arange(2000) / 50)).astype("i4").astype(dtype)
    _, store = written(values, **options(3))
    assert check_damage(store, 300)["errors"]
