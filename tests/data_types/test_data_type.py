"""Data types: names, NumPy types and the JSON of fill values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.data_types import bind, describe
from omnizarr.errors import InvalidArgument, InvalidMetadata
from omnizarr.model import FillValue, Named
from tests.conformance.small_stores import v1_store


def test_a_nan_with_a_payload_is_written_as_its_bits() -> None:
    bound = bind(Named("float32"))
    value = np.array(0x7FC00001, "<u4").view("<f4")
    assert bound.fill_json(value, "v3").json == "0x7fc00001"
    big = bind(Named("float32", {"endian": "big"}))
    assert big.fill_json(value.astype(">f4"), "v3").json == "0x7fc00001"
    assert big.fill(FillValue("0x7fc00001", "v3")).tobytes().hex() == "7fc00001"


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("i4", 1.5), ("u1", 256), ("u1", -1), ("i8", "a"), ("S2", b"abc"), ("U2", np.str_("abc"))],
)
def test_a_fill_value_that_the_type_cannot_hold_is_refused(dtype: str, value: Any) -> None:
    with pytest.raises(oz.InvalidMetadata, match=r"fill_value|not a value"):
        oz.create_array(None, shape=3, dtype=dtype, fill_value=value)


@pytest.mark.parametrize("offsets", [[0, 2], [8, 0]])
def test_a_structure_with_reordered_fields_is_refused_with_a_remedy(
    offsets: list[int],
) -> None:
    mixed = {"names": ["a", "b"], "formats": ["f8", "f8"], "offsets": offsets, "itemsize": 16}
    with pytest.raises(oz.InvalidArgument, match="repack_fields"):
        describe(np.dtype(mixed))


def test_a_structure_with_padding_is_refused_in_version_3_with_a_remedy() -> None:
    with pytest.raises(oz.CannotExpress, match="repack_fields"):
        oz.create_array({}, shape=3, dtype=np.dtype([("a", "u1"), ("b", "f8")], align=True))


@pytest.mark.parametrize("name", ["null_terminated_bytes", "raw_bytes", "fixed_length_utf32"])
def test_elements_larger_than_any_memory_are_refused(name: str) -> None:
    with pytest.raises(InvalidMetadata, match="2000000000 bytes; the most is"):
        bind(Named(name, {"length_bytes": 2_000_000_000}))


@pytest.mark.parametrize("dtype", ["U", "S", np.str_, np.bytes_, [("a", "f4"), ("b", "U")]])
def test_a_new_array_cannot_have_text_without_a_length(dtype: Any) -> None:
    """Its items would have no bytes and could not be read back."""
    with pytest.raises(InvalidArgument, match=r"no length; write '.10' .* or (str|bytes) for any"):
        oz.create_array({}, shape=2, dtype=dtype)


@pytest.mark.parametrize("dtype", ["|S0", "<U0"])
def test_text_of_length_0_in_metadata_is_read_and_nothing_is_stored(dtype: str) -> None:
    array = oz.open(v1_store(dtype=dtype), mode="r+")
    assert array[:].tolist() == np.zeros(4, array.dtype).tolist()
    with pytest.raises(TypeError, match="its items have no bytes"):
        array[:] = "abc"
    problems = oz.validate(v1_store(dtype=[["a", dtype], ["b", "<f4"]]))
    assert ["no bytes" in p.message for p in problems if p.level == "error"] == [True]


@pytest.mark.parametrize("mask", [[0, 1, 1], True])
def test_masked_values_are_not_stored_as_if_they_were_not_masked(mask: Any) -> None:
    values = np.ma.array([1.0, 2.0, 3.0], mask=mask)
    array = oz.create_array({}, data=[7.0, 7.0, 7.0])
    message = rf"{values.mask.sum()} of 3 values are masked.*filled\(x\).*'zarrs.optional'"

    def create() -> None:
        oz.create_array({}, data=values)

    def assign() -> None:
        array[:] = values

    def assign_view() -> None:
        array.view[::-1][:] = values

    for store in (create, assign, assign_view, lambda: array.append(values)):
        with pytest.raises(ValueError, match=message):
            store()
    assert array[...].tolist() == [7.0, 7.0, 7.0]
    with pytest.raises(ValueError, match="1 of 1 values are masked"):
        array[0] = np.ma.masked
    array[:] = values.filled(-1)
    assert array[...].tolist() == values.filled(-1).tolist()
    array[:] = np.ma.array([1.0, 2.0, 3.0])
    assert array[...].tolist() == [1, 2, 3]


def test_masked_fields_are_not_stored() -> None:
    dtype = np.dtype([("a", "i4"), ("b", "f8")])
    array = oz.create_array({}, shape=2, dtype=dtype)
    with pytest.raises(ValueError, match="1 of 2 values are masked"):
        array[:] = np.ma.array([(1, 2.0), (3, 4.0)], dtype, mask=[(0, 1), (0, 0)])


def test_version_3_has_no_text_of_length_0() -> None:
    """The register says that 4 bytes are the least."""
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=2, dtype="U1")
    document = json.loads(store["zarr.json"])
    document["data_type"]["configuration"]["length_bytes"] = 0
    store["zarr.json"] = json.dumps(document).encode()
    with pytest.raises(InvalidMetadata, match="length_bytes of 0"):
        oz.open(store)
    with pytest.raises(oz.OmnizarrError, match=r"cannot convert .* to zarr 3: .* no length"):
        oz.convert(v1_store(dtype="<U0"), {}, zarr_format=3)


def test_the_error_for_an_unknown_type_names_a_few_types() -> None:
    with pytest.raises(TypeError, match=r"known: bool, int32, .*, string, … \(\d+ more\)$"):
        oz.create_array({}, shape=2, dtype="foo")
    with pytest.raises(TypeError, match=r"did you mean 'float32'\?$"):
        oz.create_array({}, shape=2, dtype="flot32")


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_times_without_a_unit_keep_their_counts_in_any_byte_order(
    order: str, endian: str, engine: Any
) -> None:
    configuration = {"unit": "generic", "scale_factor": 1}
    counts = np.array([0, 1, -2, 100], f"{order}i8")
    with oz.configure(engine=engine):
        array = oz.create_array(
            {},
            shape=4,
            dtype={"name": "numpy.datetime64", "configuration": configuration},
            codecs=[{"name": "bytes", "configuration": {"endian": endian}}],
        )
        array[:] = counts.view(f"{order}M8")
        found = array[:]
    np.testing.assert_array_equal(found.view(found.dtype.str[0] + "i8"), counts)


def test_times_with_a_unit_are_not_taken_for_times_without_one() -> None:
    configuration = {"unit": "generic", "scale_factor": 1}
    dtype = {"name": "numpy.timedelta64", "configuration": configuration}
    array = oz.create_array({}, shape=1, dtype=dtype)
    with pytest.raises(oz.WrongType, match="generic units"):
        array[:] = np.array([1], "m8[s]")


FAR = np.datetime64("9999-01-01", "D")


@pytest.mark.parametrize("value", [FAR, np.array([FAR]), "9999-01-01", ["9999-01-01"]], ids=repr)
def test_times_that_a_unit_cannot_express_are_refused_and_not_wrapped(value: Any) -> None:
    array = oz.create_array(shape=1, dtype="M8[ns]")
    with pytest.raises(
        InvalidArgument, match=r"9999-01-01 is out of the range of datetime64\[ns\]"
    ):
        array[...] = value
    with pytest.raises(InvalidArgument, match="out of the range"):
        oz.create_array(data=np.array([FAR])).astype("M8[ns]")[...]
    if not isinstance(value, (list, np.ndarray)):
        with pytest.raises(InvalidMetadata, match="out of the range"):
            oz.create_array(shape=1, dtype="M8[ns]", fill_value=value)
    whole = oz.create_array(shape=1, dtype="M8[s]")
    whole[...] = value
    assert whole[0] == FAR
