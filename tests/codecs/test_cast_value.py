"""cast_value: exact by its specification, in both directions and inside shards."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.codecs import CastValue
from omnizarr.codecs.cast_value import OUT_OF_RANGE, ROUNDINGS, cast, reals
from omnizarr.data_types import bind
from omnizarr.model import Named
from tests.codecs.documents import check_refused
from tests.codecs.numbers import expected, rounded
from tests.conformance.shards import raw, sharding
from tests.sampling import sample, tries

INTEGERS = [f"{s}int{n}" for s in ("", "u") for n in (2, 4, 8, 16, 32, 64)]
EIGHT = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
FLOATS = [
    *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    *(f"float8_{kind}" for kind in EIGHT),
    *("bfloat16", "float16", "float32", "float64"),
]
TYPES = [*INTEGERS, *FLOATS]


def numbers_of(name: str) -> Any:
    found = reals(bind(Named(name)), "cast_value")
    assert found is not None
    return found


def values(name: str) -> st.SearchStrategy[Any]:
    """Return a strategy for items of a type, many of them near powers of two and halves."""
    of = numbers_of(name)
    if of.integer:
        near = st.builds(
            lambda e, d, s: s * (2**e + d),
            *map(st.integers, (0, -3), (64, 3)),
            st.sampled_from([-1, 1]),
        ).filter(lambda n: of.low <= n <= of.high)
        return st.one_of(st.integers(of.low, of.high), near)
    anything = st.one_of(st.floats(width=64), st.sampled_from([1.57e308, -1.57e308]))
    small = st.builds(lambda n, e: n * 2.0**e, st.integers(-5000, 5000), st.integers(-14, 5))

    def held(x: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.array(x).astype(of.dtype).astype("f8"))

    return st.one_of(anything, small).map(held)


@settings(max_examples=tries(150, 4000))
@given(
    st.sampled_from(TYPES),
    st.sampled_from(TYPES),
    st.sampled_from(ROUNDINGS),
    st.sampled_from([None, *OUT_OF_RANGE]),
    st.data(),
)
def test_every_cast_gives_the_exact_number_or_is_refused(
    source: str, target: str, rounding: str, out_of_range: str | None, data: Any
) -> None:
    of, to = numbers_of(source), numbers_of(target)
    items = data.draw(st.lists(values(source), min_size=1, max_size=8))
    given_ = np.array(items, of.work).astype(of.dtype)
    want = [expected(x, to, rounding, out_of_range) for x in given_.astype(of.work).tolist()]
    if None in want:
        with pytest.raises(ValueError, match=target):
            cast(given_, of, to, rounding, out_of_range)
        return
    got = cast(given_, of, to, rounding, out_of_range)
    assert got.dtype == to.dtype
    found = got.astype(to.work).tolist()
    if "fnuz" in target:
        want = [abs(x) if x == 0 else x for x in want]  # they have one zero
    assert [*map(repr, map(_plain, found))] == [*map(repr, map(_plain, want))]


@pytest.mark.parametrize("name", FLOATS[:-2])
def test_neighbours_are_as_far_apart_as_the_expected_results_assume(name: str) -> None:
    of = numbers_of(name)
    with np.errstate(invalid="ignore"):
        found = np.arange(2 ** (8 * of.dtype.itemsize)).astype(f"u{of.dtype.itemsize}")
        every = np.unique(found.view(of.dtype).astype("f8"))
    every = every[np.isfinite(every) & (every >= 0)]
    assert every[-1] == of.high
    for low, high in sample(itertools.pairwise(map(Fraction, every.tolist())), 2000):
        middle = (low + high) / 2
        assert rounded(middle, of, "towards-zero") == low
        assert rounded(middle, of, "towards-positive") == high


@pytest.mark.parametrize("source", ["float64", "int64"])
def test_a_tie_between_powers_of_two_rounds_to_the_larger(source: str) -> None:
    """IEEE 754, 4.3.1: as with one digit neither neighbour is even."""
    of, to = numbers_of(source), numbers_of("float8_e8m0fnu")
    ties = np.array([3 << n for n in range(60)], of.dtype)
    found = cast(ties, of, to)
    assert found.astype("f8").tolist() == [4.0 * 2**n for n in range(60)]
    assert found.tobytes() == ties.astype("f8").astype(to.dtype).tobytes()
    assert [expected(x, to, "nearest-even", None) for x in ties.tolist()] == found.astype(
        to.work
    ).tolist()


def _plain(x: Any) -> Any:
    return math.nan if x != x else x


def array(store: dict[str, Any], data_type: str, codec: Any, **options: Any) -> Any:
    return oz.create_array(
        store, shape=(6,), chunks=(3,), dtype=data_type, filters=[codec], compressors=None,
        **options
    )  # fmt: skip


@pytest.mark.parametrize(
    ("out_of_range", "to", "number", "want"),
    [
        (None, "int8", 128.0, None),
        ("clamp", "int8", 128.0, 127),
        ("wrap", "int8", 128.0, -128),
        ("wrap", "int16", 32768, -32768),
        ("wrap", "int16", 32769, -32767),
        ("wrap", "int16", -32769, 32767),
    ],
)
def test_the_examples_of_the_specification_work(
    out_of_range: str | None, to: str, number: Any, want: int | None
) -> None:
    store: dict[str, Any] = {}
    made = array(store, "float64", CastValue(data_type=to, out_of_range=out_of_range))
    if want is None:
        with pytest.raises(oz.errors.ChunkError, match=r"cast_value.*128.0 is outside of int8"):
            made[0] = number
        return
    made[0] = number
    assert np.frombuffer(store["c/0"], f"<i{int(to[3:]) // 8}")[0] == want
    assert made[0] == want


def test_one_configuration_casts_like_numpy() -> None:
    stated = {
        "data_type": "uint8",
        "rounding": "towards-zero",
        "out_of_range": "wrap",
        "scalar_map": {"encode": [["NaN", 0], ["+Infinity", 0], ["-Infinity", 0]]},
    }
    store: dict[str, Any] = {}
    made = array(store, "float64", {"name": "cast_value", "configuration": stated})
    made[...] = [math.nan, math.inf, -math.inf, 257.9, -1.5, 255.99]
    assert made[...].tolist() == [0, 0, 0, 1, 255, 255]


def test_the_first_of_equal_keys_is_used_before_range_checks() -> None:
    pairs = {"encode": [[300, 3], [300, 4], [-5, 5]], "decode": [[3, 300], [3, 7], [5, -5]]}
    made = array({}, "int16", CastValue(data_type="uint8", scalar_map=pairs))
    made[...] = [300, -5, 0, 1, 2, 255]
    assert made[...].tolist() == [300, -5, 0, 1, 2, 255]
    with pytest.raises(oz.errors.ChunkError, match="301 is outside of uint8"):
        made[0] = 301


def test_defaults_are_not_written() -> None:
    store: dict[str, Any] = {}
    array(store, "float32", CastValue(data_type="uint8", scalar_map={"encode": {math.nan: 0}}),
          fill_value=0)  # fmt: skip
    codec = json.loads(store["zarr.json"])["codecs"][0]
    assert codec["name"] == "cast_value"
    assert codec["configuration"]["data_type"] == "uint8"
    assert codec["configuration"].keys() == {"data_type", "scalar_map"}
    assert oz.open(store)[...].tolist() == [0] * 6


@pytest.mark.parametrize("inside", [True, False])
def test_shards_have_the_fill_value_after_the_cast(inside: bool) -> None:
    pairs = {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}
    steps = [
        {"name": "scale_offset", "configuration": {"offset": -10, "scale": 0.5}},
        {"name": "cast_value", "configuration": {"data_type": "uint8", "scalar_map": pairs}},
    ]
    inner = [*(steps if inside else []), {"name": "bytes"}]
    shard = sharding(2, codecs=inner, index_codecs=[raw()])
    store: dict[str, Any] = {}
    made = oz.create_array(
        store, shape=(8,), chunks=(8,), dtype="float64", fill_value=math.nan,
        codecs=[*([] if inside else steps), shard],
    )  # fmt: skip
    made[2:4] = [0.0, 10.0]
    assert len(store["c/0"]) == 2 + 4 * 16
    assert store["c/0"][:2] == bytes([5, 10])
    nan = math.nan
    want = [nan, nan, 0, 10, nan, nan, nan, nan]
    np.testing.assert_array_equal(oz.open(store)[...], want)
    np.testing.assert_array_equal(oz.open(store)[1:5], want[1:5])


@pytest.mark.parametrize(
    ("data_type", "configuration", "message"),
    [
        ("float32", {}, "data_type"),
        ("float32", {"data_type": 7}, "data_type"),
        ("float32", {"data_type": "string"}, "integers and floats, not 'string'"),
        ("bool", {"data_type": "uint8"}, "integers and floats, not 'bool'"),
        ("complex64", {"data_type": "float32"}, "integers and floats, not 'complex64'"),
        ("float32", {"data_type": "uint8", "rounding": "up"}, "rounding.*nearest-even.*'up'"),
        ("float32", {"data_type": "uint8", "out_of_range": "stop"}, "out_of_range.*clamp"),
        ("float32", {"data_type": "uint8", "out_of_range": None}, "leave it out"),
        ("float64", {"data_type": "float32", "out_of_range": "wrap"}, "wrap needs .*integers"),
        ("float32", {"data_type": "uint8", "other": 1}, "other"),
        ("float32", {"data_type": "uint8", "scalar_map": []}, "scalar_map"),
        ("float32", {"data_type": "uint8", "scalar_map": {"both": []}}, "scalar_map"),
        ("float32", {"data_type": "uint8", "scalar_map": {"encode": [[1]]}}, "pairs"),
        ("float32", {"data_type": "uint8", "scalar_map": {"encode": [[1, 256]]}},
         r"scalar_map\.encode\[0\]\[1\].*from 0 to 255"),
        ("float32", {"data_type": "uint8", "scalar_map": {"decode": [[0, "x"]]}},
         r"scalar_map\.decode\[0\]\[1\]"),
    ],
)  # fmt: skip
def test_bad_configurations_are_refused_by_name(
    data_type: str, configuration: dict[str, Any], message: str
) -> None:
    check_refused("cast_value", data_type, configuration, message)


def test_a_fill_value_that_cannot_be_cast_is_refused() -> None:
    with pytest.raises(oz.errors.InvalidMetadata, match=r"fill value .*nan.*uint8 has no nan"):
        array({}, "float64", CastValue(data_type="uint8"), fill_value=math.nan)[...]


def test_a_fill_value_changed_by_the_cast_is_read_but_not_written() -> None:
    store: dict[str, Any] = {}
    made = array(store, "float64", CastValue(data_type="uint8"), fill_value=0.25)
    with pytest.raises(oz.errors.ChunkError, match=r"0\.25.*comes back as .*0\.0"):
        made[...] = 1
    store["c/0"] = bytes([1, 2, 3])
    assert made[...].tolist() == [1, 2, 3, 0.25, 0.25, 0.25]


@pytest.mark.parametrize(
    ("source", "target", "order"),
    [("uint8", "int16", {"endian": "little"}), ("float64", "uint8", None)],
)
def test_the_stated_byte_order_is_that_of_the_cast_items(
    source: str, target: str, order: dict[str, str] | None
) -> None:
    store: dict[str, Any] = {}
    array(store, source, CastValue(data_type=target))[...] = [1, 2, 3, 4, 5, 6]
    steps = json.loads(store["zarr.json"])["codecs"]
    assert (steps[1].get("configuration") or None) == order
    assert oz.open(store)[...].tolist() == [1, 2, 3, 4, 5, 6]
