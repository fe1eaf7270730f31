"""zarrs.optional, the codec: a mask, and the values that are there."""

from __future__ import annotations

import gzip
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from tests.codecs.extensions.damage import check_damaged
from tests.property.test_damaged_chunks import damaged

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
PACKBITS = {"name": "packbits"}


def optional(inner: str, **configuration: Any) -> dict[str, Any]:
    """Return the data type."""
    return {
        "name": "zarrs.optional",
        "configuration": {"name": inner, "configuration": configuration},
    }


def codec(mask: list[Any] | None = None, data: list[Any] | None = None) -> dict[str, Any]:
    members = {"mask_codecs": mask or [PACKBITS], "data_codecs": data or [LITTLE]}
    return {"name": "zarrs.optional", "configuration": members}


def make(dtype: Any, *codecs: Any, **options: Any) -> dict[str, Any]:
    store: dict[str, Any] = {}
    options = {"shape": (2, 3), "chunks": (2, 3), **options}
    oz.create_array(store, dtype=dtype, codecs=codecs or [codec()], **options)
    return store


VALUES = np.ma.array([[0, 1, 2], [3, 4, 5]], "i2", mask=[[0, 1, 0], [1, 0, 0]])
# Bits of the elements that are there, the first lowest, and the values of these.
LAID_OUT = struct.pack("<QQB4h", 1, 8, 0b110101, 0, 2, 4, 5)


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_chunks_are_laid_out_as_documented(engine: str) -> None:
    store = make(optional("int16"))
    with oz.configure(engine=engine):
        oz.open(store, mode="r+")[...] = VALUES
        assert store["c/0/0"] == LAID_OUT
        found = oz.open(store)[...]
    assert isinstance(found, np.ma.MaskedArray)
    assert found.dtype == np.dtype("i2")
    assert found.tolist() == [[0, None, 2], [None, 4, 5]]


def test_mask_and_values_have_codecs_of_their_own() -> None:
    big = {"name": "bytes", "configuration": {"endian": "big"}}
    store = make(optional("int16"), codec([{"name": "bytes"}, GZIP], [big, GZIP]))
    oz.open(store, mode="r+")[...] = VALUES
    first, second = struct.unpack("<QQ", store["c/0/0"][:16])
    mask, data = store["c/0/0"][16 : 16 + first], store["c/0/0"][16 + first :]
    assert len(data) == second
    assert gzip.decompress(mask) == bytes([1, 0, 1, 0, 1, 1])
    assert struct.unpack(">4h", gzip.decompress(data)) == (0, 2, 4, 5)
    assert oz.open(store)[...].tolist() == VALUES.tolist()


def test_nothing_is_stored_for_values_if_all_are_missing() -> None:
    store = make(optional("int16"), fill_value=0)
    array = oz.open(store, mode="r+")
    array[...] = np.ma.masked
    assert store["c/0/0"] == struct.pack("<QQB", 1, 0, 0)
    assert array[...].mask.all()


def test_any_byte_but_zero_of_a_mask_means_there_is_a_value() -> None:
    store = make(optional("uint8"), codec([{"name": "bytes"}]))
    store["c/0/0"] = struct.pack("<QQ6B3B", 6, 3, 1, 0, 255, 0, 0, 2, 7, 8, 9)
    assert oz.open(store)[...].tolist() == [[7, None, 8], [None, None, 9]]


@pytest.mark.parametrize("inner", ["string", "bytes"])
def test_values_of_variable_length_are_missing_too(inner: str) -> None:
    words: list[Any] = ["a", None, "", None, "ä", "bcd"]
    if inner == "bytes":
        words = [None if w is None else w.encode() for w in words]
    serializer = {"string": "vlen-utf8", "bytes": "zarrs.vlen_v2"}[inner]
    store = make(optional(inner), codec(data=[{"name": serializer}]))
    oz.open(store, mode="r+")[...] = np.array(words, object).reshape(2, 3)
    kept = [w if isinstance(w, bytes) else w.encode() for w in words if w is not None]
    data = struct.pack("<I", 4) + b"".join(struct.pack("<I", len(w)) + w for w in kept)
    assert store["c/0/0"] == struct.pack("<QQB", 1, len(data), 0b110101) + data
    found = oz.open(store)[...]
    assert found.ravel().tolist() == words
    assert oz.open(store)[0, 1] is np.ma.masked


SHAPES = hnp.array_shapes(max_dims=3, max_side=4)


@st.composite
def masked(draw: st.DrawFn, dtype: str, shape: tuple[int, ...]) -> Any:
    data = draw(
        hnp.arrays(dtype, shape, elements={"allow_nan": False} if dtype[1] in "fc" else None)
    )
    return np.ma.array(data, mask=draw(hnp.arrays(bool, shape)))


@given(st.data(), st.sampled_from(["bool", "uint8", "int32", "float64", "complex64"]))
def test_masked_arrays_come_back_and_are_written_in_parts(data: Any, inner: str) -> None:
    shape = data.draw(SHAPES)
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    order = [*reversed(range(len(shape)))]
    front = data.draw(
        st.sampled_from([[], [{"name": "transpose", "configuration": {"order": order}}]])
    )
    more = data.draw(st.sampled_from([[], [GZIP], [{"name": "crc32c"}]]))
    fill = data.draw(st.sampled_from([None, 0, 1]))
    store = make(
        optional(inner), *front, codec(), *more, shape=shape, chunks=chunks, fill_value=fill
    )
    wanted = np.ma.array(np.full(shape, fill or 0, inner), mask=fill is None)
    for _ in range(2):
        region = tuple(slice(data.draw(st.integers(0, n - 1)), None) for n in shape)
        part = data.draw(masked(np.dtype(inner).str, wanted[region].shape))
        wanted[region] = part
        oz.open(store, mode="r+")[region] = part
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine):
            found = oz.open(store)[...]
        assert found.dtype == np.dtype(inner)
        assert np.array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(wanted))
        assert np.array_equal(found.filled(0), wanted.filled(0))


@pytest.mark.parametrize(
    ("dtype", "codecs", "message"),
    [
        ("int16", [codec()], "stores the data type of that name, not 'int16'"),
        (optional("int16"), [LITTLE], "cannot store 'zarrs.optional'"),
        (optional("int16"), [codec(data=[{"name": "vlen-utf8"}])], "vlen-utf8"),
        (optional("string"), [codec()], "bytes"),
        (optional("int16"), [codec(mask=[GZIP])], "mask_codecs"),
        (optional("int16"), [{"name": "zarrs.optional"}], "mask_codecs"),
        (optional("int16"), [{"name": "zarrs.optional", "configuration": 5}], "configuration"),
    ],
)
def test_what_does_not_fit_is_refused(dtype: Any, codecs: list[Any], message: str) -> None:
    with pytest.raises(oz.InvalidMetadata, match=message):
        oz.create_array({}, shape=4, dtype=dtype, codecs=codecs)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"\1\2\3", "fewer than the header"),
        (struct.pack("<QQ", 2**63, 2**63), "but there are 0"),
        (LAID_OUT[:-1], "but there are 8"),
        (struct.pack("<QQ2B4h", 2, 8, 0b110101, 0, 0, 2, 4, 5), "mask.*2 bytes, expected 1"),
        (struct.pack("<QQB5h", 1, 10, 0b110101, 0, 2, 4, 5, 6), "10 bytes, expected 8"),
        (struct.pack("<QQB3h", 1, 6, 0b110101, 0, 2, 4), "6 bytes, expected 8"),
    ],
)
def test_damaged_masks_and_values_are_errors(stored: bytes, message: str) -> None:
    store = make(optional("int16"))
    store["c/0/0"] = stored
    with pytest.raises(oz.ChunkError, match=message):
        oz.open(store, kind="array")[...]


@given(data=st.data(), more=st.sampled_from([[], [GZIP]]))
def test_damaged_chunks_are_errors_or_have_the_right_shape(data: Any, more: list[Any]) -> None:
    store = make(optional("int16"), codec([PACKBITS, *more], [LITTLE, *more]))
    oz.open(store, mode="r+")[...] = VALUES
    check_damaged(store, "c/0/0", data.draw(damaged(store["c/0/0"])))


def test_the_first_version_of_zarrs_called_both_optional() -> None:
    store = make(optional("int16"))
    document = json.loads(store["zarr.json"])
    document["data_type"]["name"] = document["codecs"][0]["name"] = "optional"
    store |= {"zarr.json": json.dumps(document).encode(), "c/0/0": LAID_OUT}
    assert oz.open(store)[...].tolist() == VALUES.tolist()
