"""bitround, against numcodecs, the register's sample data and rounding of single numbers."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs.filters import MANTISSA

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
# The sample data of the register: original and rounded to 3 bits.
FLOATS = {
    **{0.0: 0.0, 0.1: 0.1015625, 1.2: 1.25, 12.3: 12.0, 123.4: 120.0, 1234.5: 1280.0},
    **{np.inf: np.inf, -np.inf: -np.inf},
}
INTEGERS = {0: 0, 1: 1, 10: 10, 11: 12, 100: 96, 123: 128, 200: 192, 208: 192, 209: 224, 255: 224}


def rounded(values: Any, dtype: Any, keepbits: int, name: Any = None) -> Any:
    """Return values after they were written with bitround and read again."""
    codec = {"name": "bitround", "configuration": {"keepbits": keepbits}}
    array = oz.create_array(
        {}, shape=len(values), dtype=name or dtype, codecs=[codec, BYTES], fill_value=None
    )
    array[...] = np.array(values, dtype)
    return array[...]


def test_the_sample_data_of_the_register_is_written_and_read() -> None:
    assert rounded(list(FLOATS), "f4", 3).tolist() == list(FLOATS.values())
    assert rounded(list(INTEGERS), "u1", 3).tolist() == list(INTEGERS.values())
    assert np.isnan(rounded([np.nan], "f4", 3))[0]


def one(bits: int, size: int, keep: int) -> int:
    """Return the bits of an unsigned integer, rounded to the nearest, ties to even."""
    drop = max(bits.bit_length() - keep, 0)
    down, rest = bits >> drop << drop, bits & ((1 << drop) - 1)
    half = (1 << drop) // 2
    up = drop and (rest > half or (rest == half and (bits >> drop) & 1))
    return down + (1 << drop) if up and down + (1 << drop) < 1 << (8 * size) else down


@given(st.data())
def test_integers_keep_bits_from_their_highest_set_bit(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from((1, 2, 4, 8)))
    kind = data.draw(st.sampled_from("iu"))
    bits = data.draw(st.lists(st.integers(0, 256**size - 1), min_size=1, max_size=20))
    keep = data.draw(st.integers(1, 70))
    values = np.array(bits, f"u{size}").view(f"{kind}{size}")
    found = rounded(values, values.dtype, keep).view(f"u{size}")
    assert found.tolist() == [one(b, size, keep) for b in bits]


@given(st.data())
def test_finite_floats_are_those_of_numcodecs(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from((2, 4, 8)))
    bits = data.draw(st.lists(st.integers(0, 256**size - 1), min_size=1, max_size=20))
    values = np.array(bits, f"u{size}").view(f"f{size}")
    values = np.where(np.isfinite(values), values, values.dtype.type(1))
    keep = data.draw(st.integers(1, MANTISSA[values.dtype.name]))
    theirs = numcodecs.BitRound(keep).encode(values.copy())
    assert rounded(values, values.dtype, keep).tobytes() == np.asarray(theirs).tobytes()


def test_bits_of_every_nan_stay() -> None:
    values = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0x7FFFFFFF], "u4").view("f4")
    assert rounded(values, "f4", 1).tobytes() == values.tobytes()


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("code", ["c8", "c16", "M8[s]", "m8[ns]"])
def test_complex_numbers_and_times_are_rounded_by_their_parts(order: str, code: str) -> None:
    raw = np.random.default_rng(3).integers(2**50, 2**62, 20)
    part = np.dtype("i8")
    values = raw.view("i8")
    if code[0] == "c":
        part = np.dtype(f"f{int(code[1:]) // 2}")
        values = raw.astype(part)
    expected = rounded(values, part, 4)
    given_ = values.view(code).astype(order + code)
    found = rounded(given_, given_.dtype, 4)
    assert found.astype("<" + code).view(part).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["bfloat16", "complex_bfloat16", "complex_float16"])
def test_small_floats_round_like_wider_ones(name: str) -> None:
    part = np.dtype("f2") if "float16" in name and "b" not in name else np.dtype(ml_dtypes.bfloat16)
    numbers = np.linspace(1, 100, 64).astype(part)
    wide = rounded(numbers.astype("f8"), "f8", 3)
    dtype: Any = part if name == "bfloat16" else np.dtype([("real", part), ("imag", part)])
    values = numbers if name == "bfloat16" else np.array([(n, n) for n in numbers], dtype)
    found = rounded(values, dtype, 3, name)
    parts = [found] if name == "bfloat16" else [found["real"], found["imag"]]
    for each in parts:
        assert each.astype("f8").tolist() == wide.tolist()


@pytest.mark.parametrize(
    ("dtype", "keepbits", "words"),
    [
        ("u1", 0, "an integer from 1"),
        ("f4", 0, "an integer from 1"),
        ("bool", 3, "'bool' are not rounded"),
        ("float8_e5m2", 1, "'float8_e5m2' are not rounded"),
        ("f4", -1, "an integer from 1"),
        ("f4", 1.5, "an integer from 1"),
    ],
)
def test_what_cannot_be_rounded_is_refused(dtype: str, keepbits: Any, words: str) -> None:
    codec = {"name": "bitround", "configuration": {"keepbits": keepbits}}
    with pytest.raises(oz.InvalidMetadata, match=f"keepbits.*{words}"):
        oz.create_array({}, shape=2, dtype=dtype, codecs=[codec, BYTES])


def test_a_version_2_filter_gets_the_registered_name_if_that_allows_it() -> None:
    for keepbits, name in ((3, "bitround"), (0, "numcodecs.bitround")):
        store: dict[str, bytes] = {}
        filters = [{"id": "bitround", "keepbits": keepbits}]
        oz.create_array(store, shape=4, dtype="f4", zarr_format=2, filters=filters)
        converted: dict[str, bytes] = {}
        oz.convert(store, converted, zarr_format=3)
        assert json.loads(converted["zarr.json"])["codecs"][0]["name"] == name


def test_a_fill_value_is_not_rounded_and_the_older_name_is_read() -> None:
    store: dict[str, bytes] = {}
    codec = {"name": "bitround", "configuration": {"keepbits": 2}}
    array = oz.create_array(
        store, shape=4, chunks=2, dtype="f4", fill_value=1.3, codecs=[codec, BYTES]
    )
    array[:2] = 1.2
    assert array[...].tolist() == [1.25, 1.25, *2 * [np.float32(1.3)]]
    older = {"zarr.json": store["zarr.json"].replace(b'"bitround"', b'"numcodecs.bitround"')}
    older["c/0"] = store["c/0"]
    assert json.loads(older["zarr.json"])["codecs"][0]["name"] == "numcodecs.bitround"
    assert oz.open(older)[...].tolist() == array[...].tolist()
