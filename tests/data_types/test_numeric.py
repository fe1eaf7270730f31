"""Numbers of the public register: bits, fill values and use, computed here from the texts alone."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.data_types import bind
from omnizarr.data_types.cast import is_complex_pair
from omnizarr.model import FillValue, Named

# name -> bits of the exponent and the mantissa, bias, and which bits are special:
# "ieee", "none" (no infinity, no NaN), "fnuz" (one NaN, for -0), "e8m0" (one NaN, no zero, no sign)
FLOATS: dict[str, tuple[int, int, int, str]] = {
    "bfloat16": (8, 7, 127, "ieee"),
    "float16": (5, 10, 15, "ieee"),
    "float4_e2m1fn": (2, 1, 1, "none"),
    "float6_e2m3fn": (2, 3, 1, "none"),
    "float6_e3m2fn": (3, 2, 3, "none"),
    "float8_e3m4": (3, 4, 3, "ieee"),
    "float8_e4m3": (4, 3, 7, "ieee"),
    "float8_e4m3b11fnuz": (4, 3, 11, "fnuz"),
    "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
    "float8_e8m0fnu": (8, 0, 127, "e8m0"),
}
# The bits that the texts state for "NaN".
NAN = {
    "bfloat16": "0x7fc0",
    "float16": "0x7e00",
    "float8_e3m4": "0x78",
    "float8_e4m3": "0x7c",
    "float8_e4m3b11fnuz": "0x80",
    "float8_e4m3fnuz": "0x80",
    "float8_e5m2": "0x7e",
    "float8_e5m2fnuz": "0x80",
    "float8_e8m0fnu": "0xff",
}
ENGINES = ["auto", "reference"]


def width(name: str) -> int:
    """Return the bits of a float."""
    exponent, mantissa, _, kind = FLOATS[name]
    return exponent + mantissa + (kind != "e8m0")


def number(name: str, bits: int) -> float:
    """Return the number that bits stand for, by the text of its type."""
    exponent_bits, mantissa_bits, bias, kind = FLOATS[name]
    if kind == "e8m0":
        return math.nan if bits == 0xFF else math.ldexp(1.0, bits - bias)
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) else 1.0
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = bits & ((1 << mantissa_bits) - 1)
    if kind == "fnuz" and sign < 0 and not exponent and not mantissa:
        return math.nan
    if kind == "ieee" and exponent == (1 << exponent_bits) - 1:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)


def as_bytes(name: str, bits: list[int], endian: str = "little") -> bytes:
    """Return parts of numbers as the codec ``bytes`` stores them."""
    size = 2 if width(name) == 16 else 1
    return b"".join(int.to_bytes(b, size, endian) for b in bits)  # type: ignore[arg-type]


def as_packed(name: str, bits: list[int]) -> bytes:
    """Return parts of numbers as the codec ``packbits`` stores them."""
    whole = sum(b << (i * width(name)) for i, b in enumerate(bits))
    return whole.to_bytes((len(bits) * width(name) + 7) // 8, "little")


def stored(name: str, chunk: bytes, codecs: Any, shape: tuple[int, ...]) -> dict[str, bytes]:
    """Return an array of one chunk, written by hand."""
    doc = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "fill_value": [1, 1] if name.startswith("complex") else 1,
        "codecs": codecs,
    }
    return {"zarr.json": json.dumps(doc).encode(), ".".join("0" * len(shape)) or "0": chunk}


def same(found: Any, expected: list[float]) -> bool:
    """Return True for the same numbers, signs of zeros included."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = np.asarray(found).astype(np.float64).reshape(-1)
    wanted = np.array(expected, np.float64)
    nan = np.isnan(wanted)
    return bool(
        np.array_equal(values, wanted, equal_nan=True)
        and np.array_equal(np.signbit(values[~nan]), np.signbit(wanted[~nan]))
    )


def patterns(name: str) -> list[int]:
    """Return bits of all numbers of a type; of 16 bits, every 37th."""
    return list(range(0, 1 << width(name), 37 if width(name) == 16 else 1))


@pytest.mark.parametrize("name", FLOATS)
def test_small_floats_have_the_values_of_their_text(name: str) -> None:
    bits = patterns(name)
    array = oz.open(stored(name, as_bytes(name, bits), [BYTES["little"]], (len(bits),)))
    assert same(array[...], [number(name, b) for b in bits])


BYTES = {e: {"name": "bytes", "configuration": {"endian": e}} for e in ("little", "big")}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("name", FLOATS)
def test_complex_numbers_of_small_floats_are_pairs_of_their_parts(
    name: str, endian: str, engine: Any
) -> None:
    bits = patterns(name)
    bits = bits[: len(bits) // 2 * 2]
    shape = (2, len(bits) // 4) if len(bits) % 4 == 0 else (len(bits) // 2,)
    chunk = as_bytes(name, bits, endian)
    store = stored(f"complex_{name}", chunk, [BYTES[endian]], shape)
    key = next(k for k in store if k != "zarr.json")
    with oz.configure(engine=engine):
        array = oz.open(store, mode="r+")
        values = array[...]
        assert values.dtype.names == ("real", "imag")
        numbers = [number(name, b) for b in bits]
        assert same(values["real"], numbers[::2])
        assert same(array["imag"], numbers[1::2])
        wide = array.astype("complex64")[...]
        assert wide.dtype == np.complex64
        assert same(wide.real, numbers[::2])
        assert same(wide.imag, numbers[1::2])
        array[...] = 1 + 1j
        array[...] = values
        assert store[key] == chunk
        finite = np.isfinite(wide)
        array[...] = wide
        back = array.astype("complex64")[...]
        np.testing.assert_array_equal(back[finite], wide[finite])


@pytest.mark.parametrize("padding", ["none", "first_byte", "last_byte", "start_byte", "end_byte"])
@pytest.mark.parametrize("name", [n for n in FLOATS if n != "float16" and width(n) != 8])
def test_packbits_packs_both_parts_of_a_complex_number(name: str, padding: str) -> None:
    bits = patterns(name)[:30]
    bits = bits[: len(bits) // 2 * 2]
    packed = as_packed(name, bits)
    count = bytes([-len(bits) * width(name) % 8])
    before, after = padding in ("first_byte", "start_byte"), padding in ("last_byte", "end_byte")
    chunk = count * before + packed + count * after
    codec = {"name": "packbits", "configuration": {"padding_encoding": padding}}
    store = stored(f"complex_{name}", chunk, [codec], (len(bits) // 2,))
    array = oz.open(store, mode="r+")
    values = array[...]
    numbers = [number(name, b) for b in bits]
    assert same(values["real"], numbers[::2])
    assert same(values["imag"], numbers[1::2])
    array[...] = (1, 1)
    array[...] = values
    assert store["0"] == chunk


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 2)])
def test_unused_bits_of_both_parts_are_ignored(name: str, shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    bits = list(range(2 * count))
    noise = bytes(b | (0xFF << width(name)) & 0xFF for b in bits)
    array = oz.open(stored(f"complex_{name}", noise, ["bytes"], shape))
    numbers = [number(name, b) for b in bits]
    assert same(array.astype("complex64")[...].real, numbers[::2])
    assert same(array.astype("complex64")[...].imag, numbers[1::2])


def test_the_fill_value_nan_has_the_bits_of_each_text() -> None:
    for name, text in NAN.items():
        for json_ in ("NaN", text):
            found = bind(Named(name)).fill(FillValue(json_, "v3"))
            assert f"0x{found.tobytes()[::-1].hex()}" == text, name
            both = bind(Named(f"complex_{name}")).fill(FillValue([json_, 1], "v3"))
            assert f"0x{np.array(both['real']).tobytes()[::-1].hex()}" == text, name
            assert float(both["imag"]) == 1.0


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_that_a_type_has_no_bits_for_are_refused(name: str, word: str) -> None:
    kind = FLOATS[name][3]
    if kind == "ieee" or (word == "NaN" and kind != "none"):
        assert not math.isfinite(float(bind(Named(name)).fill(FillValue(word, "v3"))))
        return
    for type_, json_ in ((name, word), (f"complex_{name}", [0.5, word])):
        with pytest.raises(oz.InvalidMetadata, match=f"{type_}: the type has no {word}"):
            bind(Named(type_)).fill(FillValue(json_, "v3"))


@pytest.mark.parametrize("json_", [0, "NaN", [0], [0, 0, 0], {"real": 0, "imag": 0}, [0, None]])
def test_a_complex_fill_value_is_a_list_of_two_floats(json_: Any) -> None:
    with pytest.raises(oz.InvalidMetadata, match="fill_value of complex_bfloat16"):
        bind(Named("complex_bfloat16")).fill(FillValue(json_, "v3"))


def test_unused_bits_of_a_fill_value_are_ignored() -> None:
    found = bind(Named("float4_e2m1fn")).fill(FillValue("0xf3", "v3"))
    assert found.tobytes() == b"\x03"


@given(st.data())
def test_every_fill_value_of_a_complex_type_keeps_its_bits(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FLOATS)))
    parts = [data.draw(st.integers(0, (1 << width(name)) - 1)) for _ in range(2)]
    bound = bind(Named(f"complex_{name}"))
    value = np.frombuffer(as_bytes(name, parts), bound.dtype)[0:1].reshape(())
    stated = bound.fill_json(value, "v3")
    assert bound.fill(FillValue(json.loads(json.dumps(stated.json)), "v3")).tobytes() == (
        value.tobytes()
    )
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(3,), dtype=f"complex_{name}", fill_value=value)
    assert oz.open(store)[...].tobytes() == 3 * value.tobytes()


@pytest.mark.parametrize("fill", [2 - 1j, (2, -1), np.complex64(2 - 1j), np.array(2 - 1j)])
def test_values_and_fill_values_are_given_as_complex_numbers(fill: Any) -> None:
    store: dict[str, bytes] = {}
    array = oz.create_array(store, shape=(2, 3), dtype="complex_bfloat16", fill_value=fill)
    assert json.loads(store["zarr.json"])["fill_value"] == [2.0, -1.0]
    array[0] = [1, 2j, 3 + 1j]
    array[1, 0] = 4
    array[1, 1:] = [(5, 6), (7, 8)]
    found = np.asarray(array, "complex64")
    assert found.tolist() == [[1, 2j, 3 + 1j], [4, 5 + 6j, 7 + 8j]]
    assert struct.unpack("<2H", array[1, 1].tobytes()) == (0x40A0, 0x40C0)
    with pytest.raises(TypeError, match="cannot be stored"):
        array[0, 0] = "text"
    with pytest.raises(oz.CannotExpress, match="complex_bfloat16"):
        oz.create_array({}, shape=1, dtype="complex_bfloat16", zarr_format=2)


def test_only_pairs_of_small_floats_are_complex_numbers() -> None:
    half = np.dtype([("real", "f2"), ("imag", "f2")])
    assert is_complex_pair(half)
    assert is_complex_pair(half.newbyteorder(">"))
    for other in (
        [("real", "f4"), ("imag", "f4")],
        [("real", "f2"), ("imag", "f4")],
        [("imag", "f2"), ("real", "f2")],
        [("real", "f2"), ("imag", "f2"), ("more", "f2")],
        [("real", "i2"), ("imag", "i2")],
        "c8",
    ):
        assert not is_complex_pair(np.dtype(other))
