"""scale_offset: arithmetic in the array's own type, without any loss."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs import ScaleOffset, Spec
from omnizarr.codecs.cast_value import reals
from omnizarr.data_types import bind
from omnizarr.model import Named
from tests.codecs.documents import check_refused

INTEGERS = [f"{s}int{n}" for s in ("", "u") for n in (2, 4, 8, 16, 32, 64)]


def spec_of(name: str, size: int) -> Spec:
    data_type = bind(Named(name))
    return Spec((size,), data_type, data_type.scalar(data_type.zero))


@given(st.sampled_from(INTEGERS), st.data())
def test_integers_are_exact_or_refused(name: str, data: Any) -> None:
    numbers = reals(bind(Named(name)), "scale_offset")
    assert numbers is not None
    low, high = numbers.low, numbers.high
    some = st.one_of(st.integers(low, high), st.integers(max(low, -4), min(high, 4)))
    offset, scale = data.draw(some), data.draw(some.filter(bool))
    items = data.draw(st.lists(some, min_size=1, max_size=6))
    spec = spec_of(name, len(items))
    codec = ScaleOffset(offset=offset, scale=scale)
    given_ = np.array(items, numbers.work).astype(numbers.dtype)
    steps = [[x - offset for x in items], [(x - offset) * scale for x in items]]
    if all(low <= x <= high for step in steps for x in step):
        got = codec.encode(given_, spec)
        assert got.astype(numbers.work).tolist() == steps[1]
        assert codec.decode(got, spec).astype(numbers.work).tolist() == items
    else:
        with pytest.raises(ValueError, match=f"outside of {name}"):
            codec.encode(given_, spec)
    back = [x // scale for x in items]
    results = [*back, *(x + offset for x in back)]
    if any(x % scale for x in items):
        with pytest.raises(ValueError, match="not a multiple"):
            codec.decode(given_, spec)
    elif all(low <= x <= high for x in results):
        got = codec.decode(given_, spec).astype(numbers.work)
        assert got.tolist() == [x + offset for x in back]
    else:
        with pytest.raises(ValueError, match=f"outside of {name}"):
            codec.decode(given_, spec)


@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.floats(-1000, 1000),
    st.floats(0.01, 1000),
    st.lists(st.floats(width=16), min_size=1, max_size=8),
)
def test_floats_agree_with_numpy_unless_they_become_infinite(
    name: str, offset: float, scale: float, items: list[float]
) -> None:
    dtype = np.dtype(name)
    values = np.array(items, dtype)
    with np.errstate(over="ignore"):
        want = (values - dtype.type(offset)) * dtype.type(scale)
        back = values / dtype.type(scale) + dtype.type(offset)
    codec, spec = ScaleOffset(offset=offset, scale=scale), spec_of(name, len(items))
    for verb, result in (("encode", want), ("decode", back)):
        call = getattr(codec, verb)
        if (np.isfinite(values) & ~np.isfinite(result)).any():
            with pytest.raises(ValueError, match=f"outside of {name}"):
                call(values, spec)
        else:
            assert call(values, spec).dtype == dtype
            np.testing.assert_array_equal(call(values, spec), result)


def test_small_floats_are_rounded_after_each_step_and_refused_beyond_the_largest() -> None:
    spec = spec_of("float8_e4m3fn", 2)
    dtype = spec.data_type.dtype
    got = ScaleOffset(offset=1, scale=3).encode(np.array([18, 2], dtype), spec)
    # 18 - 1 = 17 lies between 16 and 18; 16 has the even digits. 16 * 3 = 48.
    assert got.astype("f8").tolist() == [48, 3]
    with pytest.raises(ValueError, match="outside of float8_e4m3fn"):
        ScaleOffset(scale=3).encode(np.array([448, 2], dtype), spec)
    unsigned = spec_of("float8_e8m0fnu", 1)
    one = np.array([2], unsigned.data_type.dtype)
    assert ScaleOffset(scale=4).encode(one, unsigned).astype("f8").tolist() == [8]


def test_the_examples_of_the_specification_work() -> None:
    store: dict[str, Any] = {}
    made = oz.create_array(
        store, shape=(3,), chunks=(3,), dtype="uint16", fill_value=1000,
        filters=[ScaleOffset(offset=1000), {"name": "cast_value", "configuration":
                 {"data_type": "uint8"}}], compressors=None,
    )  # fmt: skip
    made[...] = [1000, 1255, 1001]
    assert store["c/0"] == bytes([0, 255, 1])
    assert oz.open(store)[...].tolist() == [1000, 1255, 1001]
    store = {}
    made = oz.create_array(
        store, shape=(2,), chunks=(2,), dtype="float32", compressors=None,
        filters=[ScaleOffset(offset=5, scale=0.1)],
    )  # fmt: skip
    made[...] = [15, 5]
    assert np.frombuffer(store["c/0"], "<f4").tolist() == [1.0, 0.0]
    assert json.loads(store["zarr.json"])["codecs"][0]["configuration"] == {
        "offset": 5,
        "scale": 0.1,
    }


@pytest.mark.parametrize(
    ("data_type", "configuration", "message"),
    [
        ("uint8", {"scale": 0}, "cannot be undone"),
        ("float32", {"scale": 0.0}, "cannot be undone"),
        ("uint8", {"offset": -1}, "from 0 to 255"),
        ("uint8", {"offset": 0.5}, "from 0 to 255"),
        ("float32", {"offset": "NaN"}, "finite"),
        ("float32", {"scale": "Infinity"}, "finite"),
        ("float16", {"scale": 1e6}, "finite"),
        ("float32", {"offset": [1]}, "number"),
        ("float32", {"offset": True}, "number"),
        ("float32", {"offset": "x"}, "offset"),
        ("float32", {"other": 1}, "other"),
        ("bool", {}, "integers and floats, not 'bool'"),
        ("string", {}, "integers and floats, not 'string'"),
        ("uint8", {"offset": 5}, "fill value .*0.* cannot be encoded.*-5"),
    ],
)
def test_bad_configurations_are_refused_by_name(
    data_type: str, configuration: dict[str, Any], message: str
) -> None:
    check_refused("scale_offset", data_type, configuration, message)
