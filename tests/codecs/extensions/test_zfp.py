"""zfp: all modes and types, agreement with the package zfpy, and damaged chunks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import omnizarr as oz
from omnizarr.errors import InvalidMetadata
from tests.codecs.extensions.damage import check_damage
from tests.codecs.extensions.samples import chunk_of, reads, smooth, written

zfpy = pytest.importorskip("zfpy")

REVERSIBLE = {"mode": "reversible"}
MODES: list[dict[str, Any]] = [
    REVERSIBLE,
    {"mode": "fixed_accuracy", "tolerance": 0.05},
    {"mode": "fixed_accuracy", "tolerance": 0},
    {"mode": "fixed_rate", "rate": 10.5},
    {"mode": "fixed_precision", "precision": 19},
    {"mode": "fixed_precision", "precision": 0},
]
SMALL = ["int2", "int4", "int8", "int16", "uint2", "uint4", "uint8", "uint16"]


def zfp(**configuration: Any) -> dict[str, Any]:
    return {"name": "zfp", "configuration": configuration}


@pytest.mark.parametrize("shape", [(), (1,), (13,), (5, 9), (6, 3, 7), (3, 4, 5, 6)], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("mode", MODES, ids=lambda m: "-".join(map(str, m.values())))
def test_chunks_are_those_of_the_library(
    mode: dict[str, Any], dtype: str, shape: tuple[int, ...]
) -> None:
    values = smooth(shape, dtype)
    if mode["mode"] == "fixed_accuracy" and dtype[0] == "i":
        with pytest.raises(InvalidMetadata, match="'fixed_accuracy' takes floats"):
            written(values, serializer=zfp(**mode))
        return
    array, store = written(values, serializer=zfp(**mode))
    items = values.reshape(values.shape or (1,))
    arguments = {k: v for k, v in mode.items() if k != "mode"}
    if arguments.get("precision") == 0:
        arguments = {"precision": 64}
    assert chunk_of(store) == zfpy.compress_numpy(items, write_header=False, **arguments)
    wanted = zfpy.decompress_numpy(zfpy.compress_numpy(items, **arguments))
    assert reads(store).tobytes() == wanted.tobytes()
    if mode["mode"] == "reversible":
        assert array[...].tobytes() == values.tobytes()


@settings(max_examples=60)
@given(
    st.sampled_from(["f4", "f8", "f2"]),
    arrays.array_shapes(max_dims=4, max_side=9),
    st.integers(-20, 10),
    st.data(),
)
def test_values_stay_within_the_tolerance(
    dtype: str, shape: tuple[int, ...], exponent: int, data: st.DataObject
) -> None:
    limit = 2.0**10 if dtype == "f2" else 2.0**15
    elements = st.floats(-limit, limit, width=8 * int(dtype[1]), allow_subnormal=False)
    values = data.draw(arrays.arrays(dtype, shape, elements=elements))
    tolerance = 2.0**exponent * data.draw(st.sampled_from([1, 1.5]))
    _, store = written(values, serializer=zfp(mode="fixed_accuracy", tolerance=tolerance))
    found = reads(store).astype("f8")
    # Rounding to the type comes on top.
    rounding = np.abs(values).max().astype("f8") * 2 * float(np.finfo(dtype).eps)
    assert np.abs(found - values.astype("f8")).max() <= tolerance + rounding


@settings(max_examples=60)
@given(st.data())
def test_the_reversible_mode_keeps_every_bit(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "f8", "i4", "i8", "i1", "u1", "i2", "u2"])))
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=4, max_side=9))
    values = data.draw(arrays.arrays(dtype, shape))
    _, store = written(values, serializer=zfp(**REVERSIBLE))
    assert reads(store).tobytes() == values.tobytes()


@pytest.mark.parametrize("name", [*SMALL, "float16", "bfloat16"])
def test_small_types_are_widened_as_the_specification_says(name: str) -> None:
    dtype: Any = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(dtype, name, name))
    if name in SMALL:
        bits, signed = int(name.lstrip("uint")), name[0] == "i"
        low = -(2 ** (bits - 1)) if signed else 0
        values = (np.arange(64) * 5 % 2**bits + low).astype(dtype)
        wide = (values.astype("i8") - (low + 2 ** (bits - 1))) << (31 - bits)
    else:
        values = smooth((64,)).astype(dtype)
        wide = values.astype("f4")
    items = wide.astype("i4") if name in SMALL else wide
    for mode, arguments in ((REVERSIBLE, {}), ({"mode": "fixed_rate", "rate": 8}, {"rate": 8})):
        options: Any = {"serializer": zfp(**mode), "dtype": name}
        _, store = written(values, **options)
        assert chunk_of(store) == zfpy.compress_numpy(items, write_header=False, **arguments)
        if mode is REVERSIBLE:
            assert reads(store).tobytes() == values.tobytes()


def test_numbers_beyond_a_small_type_become_the_nearest_in_it() -> None:
    _, store = written(np.zeros(64, "u1"), serializer=zfp(mode="fixed_rate", rate=16))
    beyond = np.where(np.arange(64) % 2, 2**30 + 2**29, -(2**30) - 2**29).astype("i4")
    [key] = [k for k in store if k != "zarr.json"]
    store[key] = zfpy.compress_numpy(beyond, write_header=False, rate=16)
    assert {*reads(store).tolist()} == {0, 255}


@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_unsigned_integers_are_stored_as_signed_ones(dtype: str) -> None:
    top = 2 ** (8 * int(dtype[1]) - 1)
    values = np.array([0, 1, 77, top - 1], dtype)
    _, store = written(values, serializer=zfp(**REVERSIBLE))
    signed = values.astype(dtype.replace("u", "i"))
    assert chunk_of(store) == zfpy.compress_numpy(signed, write_header=False)
    assert reads(store).tolist() == values.tolist()
    with pytest.raises(oz.ChunkError, match=f"not 0 to {top}"):
        written(np.array([0, top], dtype), serializer=zfp(**REVERSIBLE))


def test_times_keep_every_bit() -> None:
    values = np.array(["2020-01-01", "NaT", "1969-12-31"], "M8[ns]")
    _, store = written(values, serializer=zfp(**REVERSIBLE))
    assert reads(store).tobytes() == values.tobytes()


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_specials_are_refused_where_they_would_damage_their_neighbours(special: float) -> None:
    values = np.array([1.0, special, 3.0, 4.0])
    with pytest.raises(oz.ChunkError, match="cannot store NaN or infinities"):
        written(values, serializer=zfp(mode="fixed_rate", rate=16))
    with pytest.raises(oz.ChunkError, match="cannot store NaN or infinities"):
        written(values, serializer={"name": "numcodecs.zfpy", "configuration": {"tolerance": 0.1}})


@pytest.mark.parametrize(("dtype", "top"), [("i4", 30), ("i8", 62)])
def test_integers_that_overflow_inside_zfp_are_refused(dtype: str, top: int) -> None:
    fits = np.array([-(2**top), 2**top - 1], dtype)
    array, _ = written(fits, serializer=zfp(mode="fixed_precision", precision=64))
    assert np.abs(array[...] - fits).max() < 16
    with pytest.raises(oz.ChunkError, match=rf"from -2\*\*{top} to"):
        written(np.array([2**top], dtype), serializer=zfp(mode="fixed_precision", precision=64))


@pytest.mark.parametrize("shape", [(40,), (9, 9), (5, 5, 5, 5)], ids=str)
def test_chunks_of_zarrs_at_a_fixed_rate_are_read(shape: tuple[int, ...]) -> None:
    values, rank = smooth(shape), len(shape)
    _, store = written(values, serializer=zfp(mode="fixed_rate", rate=12))
    own = reads(store)
    [key] = [k for k in store if k != "zarr.json"]
    # It takes the bits of a block of 64 for every block.
    rate = 64 * 12 / 4**rank
    store[key] = zfpy.compress_numpy(values, write_header=False, rate=rate)
    wanted = zfpy.decompress_numpy(zfpy.compress_numpy(values, rate=rate))
    assert reads(store).tobytes() == wanted.tobytes()
    assert own.tobytes() != wanted.tobytes()


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({}, "needs it"),
        ({"mode": "exact"}, "expected reversible or fixed_accuracy"),
        ({"mode": "expert"}, "expected reversible"),
        ({"mode": "fixed_rate"}, "expected a number with mode 'fixed_rate'"),
        ({"mode": "fixed_rate", "rate": 0}, "expected a number from"),
        ({"mode": "fixed_rate", "rate": "8"}, "expected"),
        ({"mode": "fixed_rate", "rate": True}, "expected"),
        ({"mode": "fixed_rate", "rate": 8, "precision": 8}, "expected it with another mode"),
        ({"mode": "fixed_accuracy", "tolerance": -1}, "a number from 0 to inf"),
        ({"mode": "fixed_precision", "precision": 1.5}, "an integer from 0"),
        ({"mode": "reversible", "more": 1}, "not a member"),
    ],
)
def test_wrong_configurations_are_refused(configuration: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidMetadata, match=message):
        oz.create_array({}, shape=4, dtype="f4", serializer=zfp(**configuration), compressors=None)


@pytest.mark.parametrize("codec", [zfp(**REVERSIBLE), {"name": "numcodecs.zfpy"}])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (2,) * 5, "dtype": "f4"}, "at most 4 axes, not 5"),
        ({"shape": 4, "dtype": "c8"}, "takes int"),
        ({"shape": 4, "dtype": "bool"}, "takes int"),
    ],
)
def test_chunks_that_zfp_cannot_take_are_refused(
    codec: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidMetadata, match=message):
        oz.create_array({}, serializer=codec, compressors=None, **options)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize(
    ("configuration", "arguments"),
    [
        ({}, {}),
        ({"mode": 4, "tolerance": 0.01}, {"tolerance": 0.01}),
        ({"mode": 2, "rate": 12}, {"rate": 12}),
        ({"mode": 3, "precision": 20}, {"precision": 20}),
        ({"mode": 5}, {}),
    ],
)
def test_zfpy_of_numcodecs_has_the_header_of_the_library(
    configuration: dict[str, Any], arguments: dict[str, Any], dtype: str, zarr_format: int
) -> None:
    values = smooth((9, 14), dtype)
    if zarr_format == 2:
        codec: Any = {"compressors": {"id": "zfpy", **configuration}}
    else:
        codec = {"serializer": {"name": "numcodecs.zfpy", "configuration": configuration}}
    _, store = written(values, zarr_format=zarr_format, **codec)
    assert chunk_of(store) == zfpy.compress_numpy(values, **arguments)
    wanted = zfpy.decompress_numpy(chunk_of(store))
    assert reads(store).tobytes() == wanted.tobytes()
    if zarr_format == 2:
        assert json.loads(store[".zarray"])["compressor"] == {"id": "zfpy", **configuration}


def test_a_header_that_claims_more_than_the_chunk_is_an_error() -> None:
    values = smooth((8, 8))
    _, store = written(values, serializer={"name": "numcodecs.zfpy"})
    [key] = [k for k in store if k != "zarr.json"]
    store[key] = store[key][:5] + b"\xff" * 4 + store[key][9:]
    with pytest.raises(oz.ChunkError, match="expected 64 items of float64"):
        oz.open(store, kind="array")[...]


WITH_HEADER = {"name": "numcodecs.zfpy", "configuration": {"mode": 4, "tolerance": 0.1}}


@pytest.mark.parametrize("codec", [WITH_HEADER, *(zfp(**mode) for mode in MODES)], ids=str)
def test_damaged_chunks_are_errors_or_values(codec: dict[str, Any]) -> None:
    dtype = "f4" if "tolerance" in codec["configuration"] else "i4"
    _, store = written(smooth((9, 11), dtype), serializer=codec)
    check_damage(store, 60)


CUT = [
    ("f4", zfp(mode="reversible")),
    ("i4", zfp(mode="reversible")),
    ("f8", zfp(mode="fixed_accuracy", tolerance=0.1)),
    ("i8", zfp(mode="fixed_precision", precision=20)),
    ("f4", {"name": "numcodecs.zfpy", "configuration": {"mode": 4, "tolerance": 0.1}}),
]


@pytest.mark.parametrize(("dtype", "codec"), CUT, ids=str)
def test_truncated_chunks_are_errors_unless_only_the_last_block_is_hit(
    dtype: str, codec: dict[str, Any]
) -> None:
    values = smooth((9, 11), dtype) + 200
    _, store = written(values, serializer=codec)
    [key] = [k for k in store if k != "zarr.json"]
    sound, whole = bytes(store[key]), oz.open(store)[...]
    first = errors = 0
    for size in range(len(sound)):
        store[key] = sound[:size]
        try:
            found = oz.open(store)[...]
        except oz.ChunkError:
            errors += 1
            continue
        found[8:, 8:] = whole[8:, 8:]
        assert found.tobytes() == whole.tobytes()
        first = first or size
    assert errors == first > 0.7 * len(sound)


@pytest.mark.parametrize(("dtype", "codec"), CUT, ids=str)
def test_chunks_that_end_with_zeros_are_whole(dtype: str, codec: dict[str, Any]) -> None:
    values = smooth((9, 11), dtype)
    values[6:, 6:] = 0
    _, store = written(values, serializer=codec)
    assert not reads(store)[8:, 8:].any()
    _, store = written(np.zeros_like(values), serializer=codec)
    assert not reads(store).any()
