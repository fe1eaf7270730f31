"""Each cell of the README's table of features is correct."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numcodecs
import numpy as np
import pytest

import omnizarr as oz

README = Path(__file__).parents[1] / "README.md"
FORMATS: tuple[int | str, ...] = (1, 2, "3-draft", 3)


def roundtrip(zarr_format: int | str, data: object, **options: object) -> oz.Array:
    """Store `data`, reopen the store, and check that the values are the same."""
    store: dict[str, bytes] = {}
    values = np.asarray(data)
    path = options.pop("path", "")
    oz.create_array(store, path=path, data=values, zarr_format=zarr_format, **options)
    array = oz.open(store, "r+", path=path)
    assert array.zarr_format == zarr_format
    assert np.array_equal(array[...], values)
    return array


def groups(f: int | str) -> None:
    store: dict[str, bytes] = {}
    oz.create_group(store, zarr_format=f).create_group("a")
    assert list(oz.open(store)) == ["a"]


def implicit_groups(f: int | str) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, path="a/b", shape=3, zarr_format=f)
    documents = {k for k in store if "a/b" not in k and k != "zarr.json"}
    if documents - ({"zarr.json"} if f == 3 else set()) or "a/zarr.json" in store:
        raise oz.CannotExpress("groups have documents")
    assert isinstance(oz.open(store, path="a"), oz.Group)


def attributes(f: int | str) -> None:
    array = roundtrip(f, [1, 2], attributes={"a": [1, {"b": None}]})
    assert array.attrs == {"a": [1, {"b": None}]}


def numbers(f: int | str) -> None:
    for dtype in ("b1", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"):
        roundtrip(f, np.arange(6).astype(dtype))


def fixed(f: int | str) -> None:
    roundtrip(f, np.arange(4).astype("M8[ns]"))
    roundtrip(f, np.arange(4).astype("m8[ms]"))
    roundtrip(f, np.array(["ä", "bcd"], "U3"))
    roundtrip(f, np.array([b"a", b"bcd"], "S3"))
    roundtrip(f, np.array([b"abc", b"\0bc"], "V3"))


def structures(f: int | str) -> None:
    roundtrip(f, np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")]))


def subarrays(f: int | str) -> None:
    roundtrip(f, np.array([([1, 2],), ([3, 4],)], [("a", "<i4", (2,))]))


def variable(f: int | str) -> None:
    roundtrip(f, np.array(["a", "longer", ""], np.dtypes.StringDType()))
    roundtrip(f, np.array([b"a", b"longer"], object), dtype=bytes)


def objects(f: int | str) -> None:
    data = np.array([{"a": 1}, [1, 2], None], object)
    roundtrip(f, data, dtype=object, filters=[numcodecs.JSON()])


def small(f: int | str) -> None:
    import ml_dtypes

    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2", "uint2"):
        roundtrip(f, np.array([0, 1, 1, 0]).astype(getattr(ml_dtypes, name)))


def orders(f: int | str) -> None:
    data = np.arange(6).reshape(2, 3)
    assert roundtrip(f, data, order="F").order == "F"
    assert roundtrip(f, data, order="C").order == "C"


def axis_order(f: int | str) -> None:
    data = np.arange(24).reshape(2, 3, 4)
    roundtrip(
        f, data, codecs=[{"name": "transpose", "configuration": {"order": [1, 2, 0]}}, "bytes"]
    )


def big_endian(f: int | str) -> None:
    array = roundtrip(f, np.arange(3, dtype=">i4"), compressors=None)
    assert array.store.get(array.chunk_key((0,))) == np.arange(3, dtype=">i4").tobytes()


def filters(f: int | str) -> None:
    roundtrip(f, np.arange(9, dtype="i4"), filters=[numcodecs.Delta("i4")])


def checksums(f: int | str) -> None:
    array = roundtrip(f, np.arange(9, dtype="i4"), codecs=["bytes", "crc32c"])
    key = array.chunk_key((0,))
    stored = bytearray(array.store.get(key) or b"")
    stored[5] ^= 1
    array.store.set(key, stored)
    with pytest.raises(oz.ChunkError):
        array[...]


def slashes(f: int | str) -> None:
    data = np.arange(4).reshape(2, 2)
    array = roundtrip(f, data, chunks=(1, 1), chunk_key_encoding="/")
    assert array.chunk_key((1, 1)).endswith("1/1")


def unequal(f: int | str) -> None:
    roundtrip(f, np.arange(10), chunks=[[3, 5, 2]])


def undefined(f: int | str) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=3, fill_value=None, zarr_format=f)
    if oz.open(store).fill_value is not None:
        raise oz.CannotExpress("a fill value was chosen")


def packed(f: int | str) -> None:
    array = roundtrip(f, np.arange(8), chunks=2, shards=8)
    assert len([k for k in array.store.list() if not k.endswith(".json")]) == 1


FEATURES: dict[str, Callable[[int | str], None]] = {
    "read and write": lambda f: roundtrip(f, np.arange(10)) and None,
    "groups": groups,
    "groups without metadata": implicit_groups,
    "attributes": attributes,
    "integers, floats, complex, bool": numbers,
    "datetimes, fixed-length strings and bytes, raw bytes": fixed,
    "structured types": structures,
    "structured types with sub-arrays": subarrays,
    "variable-length strings and bytes": variable,
    "Python objects (json2, msgpack2)": objects,
    "bfloat16, float8, int4 and other small types": small,
    "C and F order": orders,
    "any axis order": axis_order,
    "big-endian data": big_endian,
    "filters (delta, …)": filters,
    "checksums (crc32c)": checksums,
    "`/` as the separator in chunk keys": slashes,
    "chunks of unequal length (rectilinear grids)": unequal,
    "undefined fill value": undefined,
    "sharding": packed,
}


def table() -> dict[str, list[str]]:
    text = README.read_text().partition("<!-- features -->")[2].partition("<!-- /features -->")[0]
    lines = [line.strip("| ").split(" | ") for line in text.strip().splitlines()[2:]]
    return {cells[0]: cells[1:] for cells in lines}


def test_the_table_lists_the_tested_features() -> None:
    assert list(table()) == list(FEATURES)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_cell_says_yes_exactly_if_the_feature_works(feature: str, zarr_format: int | str) -> None:
    said = table()[feature][FORMATS.index(zarr_format)]
    try:
        FEATURES[feature](zarr_format)
        works = "yes"
    except (oz.CannotExpress, oz.InvalidName):
        works = "no"
    assert said == works
