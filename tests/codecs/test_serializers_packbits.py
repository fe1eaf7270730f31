"""packbits against bits that are put together here, by the register's text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz

# name -> bits of an item, and whether its missing upper bits repeat the sign
TYPES = {
    **{f"{sign}int{n}": (n, not sign) for sign in ("", "u") for n in (2, 4, 8, 16, 32, 64)},
    **{"bool": (1, False), "float32": (32, False), "float64": (64, False), "bfloat16": (16, False)},
    **{"<M8[s]": (64, True), "<m8[ms]": (64, True)},
}


def kept(bits: int, first: int, last: int) -> int:
    """Return the stored bits of an item."""
    return (bits >> first) & ((1 << (last - first + 1)) - 1)


def raw(dtype: np.dtype[Any], bits: list[int], width: int) -> np.ndarray[Any, Any]:
    """Return items with these bits; those of a few bits have the sign in all upper ones."""
    size = 8 * dtype.itemsize
    signed = dtype.name.startswith("int") and width < size
    full = [b | (((1 << size) - (1 << width)) if signed and b >> (width - 1) else 0) for b in bits]
    return np.array(full, f"u{dtype.itemsize}").view(dtype)


@given(st.data())
def test_items_are_packed_without_gaps(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(TYPES)))
    width, signed = TYPES[name]
    bits = data.draw(st.lists(st.integers(0, (1 << width) - 1), min_size=1, max_size=9))
    first, last = sorted(data.draw(st.tuples(*2 * [st.integers(0, width - 1)])))
    padding = data.draw(st.sampled_from(("none", "first_byte", "last_byte")))
    codec = {"first_bit": first, "last_bit": last, "padding_encoding": padding}
    store: dict[str, bytes] = {}
    array = oz.create_array(
        store,
        shape=len(bits),
        chunks=len(bits),
        dtype=name,
        codecs=[{"name": "packbits", "configuration": codec}],
    )
    with oz.configure(write_empty_chunks=True):
        array[...] = raw(array.dtype, bits, width)
    size = last - first + 1
    whole = sum(kept(b, first, last) << (i * size) for i, b in enumerate(bits))
    packed = whole.to_bytes((len(bits) * size + 7) // 8, "little")
    count = bytes([-len(bits) * size % 8])
    before, after = padding == "first_byte", padding == "last_byte"
    assert store["c/0"] == count * before + packed + count * after
    back = []
    for b in bits:
        low = kept(b, first, last) << first
        negative = signed and b >> last & 1
        back.append(low | ((1 << width) - (2 << last)) if negative else low)
    found = oz.open(store)[...]
    assert found.tobytes() == raw(found.dtype, back, width).tobytes()


@pytest.mark.parametrize(
    ("dtype", "configuration"),
    [
        ("int4", {"last_bit": 4}),
        ("bool", {"first_bit": 1, "last_bit": 1}),
        ("uint8", {"first_bit": 3, "last_bit": 2}),
        ("uint8", {"last_bit": 8}),
        ("complex_float4_e2m1fn", {"last_bit": 4}),
    ],
)
def test_bits_that_the_type_does_not_have_are_refused(dtype: str, configuration: Any) -> None:
    codec = {"name": "packbits", "configuration": configuration}
    with pytest.raises(oz.InvalidMetadata, match="do not fit"):
        oz.create_array({}, shape=3, dtype=dtype, codecs=[codec])


@pytest.mark.parametrize("dtype", [[("a", "u1")], "S3", "U3"])
def test_records_and_text_are_not_packed(dtype: Any) -> None:
    with pytest.raises(oz.InvalidMetadata, match="'packbits' cannot pack"):
        oz.create_array({}, shape=3, dtype=dtype, codecs=["packbits"])
