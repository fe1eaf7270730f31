"""Zarr version 2: array metadata."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from numcodecs import blosc

import omnizarr as oz
from tests.conformance.small_stores import v2_store as store_of
from tests.conformance.v2_metadata import created, strict

# As printed, without its two misprints.
PRINTED = """\
{
    "chunks": [
        1000,
        1000
    ],
    "compressor": {
        "id": "blosc",
        "cname": "lz4",
        "clevel": 5,
        "shuffle": 1
    },
    "dtype": "<f8",
    "fill_value": "NaN",
    "filters": [
        {"id": "delta", "dtype": "<f8", "astype": "<f4"}
    ],
    "order": "C",
    "shape": [
        10000,
        10000
    ],
    "zarr_format": 2
}"""
FIELDS = tuple(json.loads(PRINTED))


# The document


@pytest.mark.shows("V2-02")
@pytest.mark.parametrize("key", [".zarray", "foo/.zarray"])
@pytest.mark.parametrize("text", [b"[]", b"{", b"", b"null", b"\xff"])
def test_metadata_that_is_not_an_object_is_refused_by_its_key(key: str, text: bytes) -> None:
    path = key.rpartition("/")[0]
    with pytest.raises(oz.InvalidMetadata, match=f"'{key}'"):
        oz.open({key: text}, path=path)


# Changes of the metadata, the field that the error names, and a word of it.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    *(({name: ...}, name, "required") for name in FIELDS),
    *(({"zarr_format": v}, "zarr_format", "expected 2") for v in (1, 3, "2", 2.5, 2.0, True, None)),
    *(({"shape": value}, "shape[0]", "") for value in ([-1], ["20"], [20.5], [True])),
    ({"shape": "20"}, "shape", ""),
    *(({"chunks": value}, "chunks[0]", "") for value in ([-1], ["20"], [20.5])),
    *(({"chunks": value}, "chunks", "") for value in ("20", [2, 2])),
    ({"order": "K"}, "order", "expected 'C' or 'F'"),
    *(({"dimension_separator": v}, "dimension_separator", "expected") for v in ("-", "", None, 1)),
    ({"compressor": {"level": 1}}, "compressor.id", "expected"),
    ({"compressor": {"id": 1}}, "compressor.id", "expected"),
    ({"compressor": "zlib"}, "compressor", "expected"),
    ({"filters": [{"dtype": "<f8"}]}, "filters[0].id", "expected"),
    ({"filters": [{"id": "delta", "dtype": "<i4"}, "zlib"]}, "filters[1]", "expected"),
    ({"filters": {"id": "delta"}}, "filters", "expected"),
    *(({"dtype": value}, "dtype", "byte order") for value in ("i4", "=i4", "|i4", [["a", "i4"]])),
    *(({"dtype": value}, "dtype", "unit") for value in ("<M8", "<m8", "<f8[s]", "<M8[fortnight]")),
    *(({"dtype": value}, "dtype", "type string") for value in ("<M8[]", 4)),
    ({"dtype": "<i3"}, "dtype", "not a known type"),
    *(({"dtype": v}, "dtype", "") for v in ([], [["a"]], [["a", "<i4", [2], 1]], [[1, "<i4"]])),
    *(({"dtype": value}, "dtype", "") for value in ([["a", "<i4", [-1]]], ["<i4"])),
]


@pytest.mark.shows("V2-03", "V2-04", "V2-05", "V2-06", "V2-09", "V2-10", "V2-16", "V2-18", "V2-20")
@pytest.mark.shows("V2-71", "V2-76")
@pytest.mark.parametrize(("changes", "field", "word"), REFUSED)
def test_invalid_metadata_is_refused_with_the_name_of_the_field(
    changes: dict[str, Any], field: str, word: str
) -> None:
    doc = {**json.loads(store_of(fill_value=None)[".zarray"]), **changes}
    store = {".zarray": json.dumps({k: v for k, v in doc.items() if v is not ...}).encode()}
    with pytest.raises(oz.InvalidMetadata, match=rf"\.zarray: {re.escape(field)}: .*{word}"):
        oz.open(store)
    assert (".zarray", "error") in {(p.key, p.level) for p in oz.validate(store)}


@pytest.mark.shows("V2-03", "V2-11", "V2-08")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compressors": None},
        {"fill_value": None},
        {"filters": [{"id": "delta", "dtype": "<f8"}]},
        {"order": "F", "attributes": {"a": 1}, "dimension_names": ["x"]},
    ],
)
def test_written_metadata_has_exactly_the_eight_names(options: dict[str, Any]) -> None:
    assert tuple(created(dtype="<f8", **options)) == FIELDS


@pytest.mark.shows("V2-12")
@pytest.mark.parametrize(
    "change", [{"compressor": {"id": "foo", "x": 1}}, {"filters": [{"id": "foo"}]}]
)
def test_an_unknown_codec_prevents_reading_but_not_opening(change: dict[str, Any]) -> None:
    store = {**store_of(**change), ".zattrs": b'{"a": 1}'}
    z = oz.open(store, mode="r+")
    assert (z.shape, z.dtype, dict(z.attrs)) == ((4,), np.dtype("<i4"), {"a": 1})
    assert "foo" in str(z.info)
    with pytest.raises(oz.UnknownExtension, match="foo"):
        z[:]
    with pytest.raises(oz.UnknownExtension, match="foo"):
        z[:] = 1
    z.attrs["b"] = 2
    assert dict(oz.open(store).attrs) == {"a": 1, "b": 2}
    assert sorted(store) == [".zarray", ".zattrs"]


@pytest.mark.shows("V2-13", "V2-34", "V2-35")
def test_the_printed_metadata_works() -> None:
    store = {".zarray": PRINTED.encode()}
    z = oz.open(store, mode="r+")
    assert (z.shape, z.chunks, z.dtype) == ((10000, 10000), (1000, 1000), np.dtype("<f8"))
    assert (z.cdata_shape, z.nchunks) == ((10, 10), 100)
    assert np.isnan(z.fill_value)
    assert np.isnan(z[2500:2503, 4500:4503]).all()
    values = np.arange(1_000_000, dtype="<f8").reshape(1000, 1000) % 1000
    z[2000:3000, 4000:5000] = values
    assert sorted(store) == [".zarray", "2.4"]
    chunk = store["2.4"]
    # Blosc's own header: the item size after the filter, and the unpacked size.
    assert chunk[3] == 4
    assert int.from_bytes(chunk[4:8], "little") == 4_000_000
    assert int.from_bytes(chunk[12:16], "little") == len(chunk)
    unpacked = np.frombuffer(blosc.decompress(chunk), "<f4")
    np.testing.assert_array_equal(unpacked, np.diff(values.reshape(-1), prepend=0).astype("<f4"))
    read = z[2000:3000, 4000:5000]
    assert read.dtype == np.dtype("<f8")
    np.testing.assert_array_equal(read, values)
    assert z[0:1, 0:1].dtype == np.dtype("<f8")


@pytest.mark.shows("V2-72", "V2-11")
def test_unknown_names_are_reported_ignored_and_kept() -> None:
    store = store_of(note={"by": "me"})
    store["0"] = np.array([7, 8], "<i4").tobytes()
    with pytest.warns(oz.OmnizarrWarning, match="note"):
        z = oz.open(store, mode="r+")
    assert z[:].tolist() == [7, 8, 0, 0]
    problems = oz.validate(store)
    assert [(p.key, p.field, p.level) for p in problems] == [(".zarray", "note", "warning")]
    with pytest.warns(oz.OmnizarrWarning, match="note"):
        z.resize(6)
    assert strict(store)["shape"] == [6]
    assert strict(store)["note"] == {"by": "me"}
