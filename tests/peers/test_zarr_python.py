"""Arrays are exchanged with zarr-python 3 bit for bit."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.core.dtype import VariableLengthBytes

import omnizarr
from tests.peers import cases
from tests.peers.cases import ATTRIBUTES, Case
from tests.peers.unsupported import VERBS, Exchange, Unsupported, Verb
from tests.sampling import sample

pytestmark = pytest.mark.filterwarnings("ignore")

VERSION = version("zarr")
UNSUPPORTED = (
    Unsupported("reads", 2, "struct-nested/*", "no nested structures", until="3.4.1"),
    Unsupported("reads", 2, "struct-subarray/*", "no sub-array fields"),
    Unsupported("writes", 2, "struct-subarray/*", "sub-array fields become opaque bytes"),
    Unsupported("writes", 2, "halves/bitround/*-F-*", "F order is lost before bitround"),
    Unsupported("writes", 2, "bytes/*/0d", "vlen-bytes gets an array as item", since="3.3"),
    Unsupported("reads", 3, "V3/*", "r<bits> is not known; it writes raw_bytes"),
    Unsupported("reads", 3, "struct/*", "struct is not known; it writes structured", until="3.2"),
    Unsupported("reads", 3, "struct/big+*", "the byte order of fields is ignored", "3.2", "3.3"),
    Unsupported("writes", 3, "string/*-F-*", "transpose is undone before vlen-utf8", until="3.3"),
    Unsupported("writes", 3, "bytes/*-F-*", "transpose is undone before vlen-bytes", until="3.3"),
    Unsupported("writes", 3, "bytes/*/0d", "vlen-bytes gets an array as item", since="3.3"),
    Unsupported("writes", 3, "fill-nan-payload/*", "every NaN is written as NaN"),
    Unsupported("writes", 3, "fill-minus-nan/*", "every NaN is written as NaN"),
    *(
        Unsupported("writes", 3, f"*/{name}/*-F-*", "transpose is undone before it", until="3.3")
        for name in ("numcodecs.delta", "numcodecs.fixedscaleoffset", "numcodecs.packbits")
    ),
)


def compare(here: Path, one: Case) -> str:
    return cases.compare(zarr.open_array(here, mode="r", zarr_format=one.format), one)


def write(here: Path, one: Case) -> None:
    """Write the array of a case with zarr-python."""
    options: dict[str, Any] = {
        "shape": one.layout.shape,
        "chunks": one.layout.chunks,
        "dtype": one.type.dtype,
        "fill_value": one.type.fill,
        "attributes": ATTRIBUTES,
        "zarr_format": one.format,
    }
    if one.type.name == "bytes":
        options["dtype"] = VariableLengthBytes()
    if one.format == 2:
        compressor = one.codecs.compressor
        options |= {
            "order": one.layout.order,
            "filters": [numcodecs.get_codec(dict(f)) for f in one.codecs.filters] or None,
            "compressors": None if compressor is None else numcodecs.get_codec(dict(compressor)),
            "chunk_key_encoding": {"name": "v2", "separator": one.layout.separator},
        }
        if one.type.name in ("string", "bytes"):
            options["filters"] = "auto"
    else:
        options |= {
            "filters": one.before or None,
            "serializer": one.serializer,
            "compressors": list(one.codecs.after) or None,
            "chunk_key_encoding": {"name": "default", "separator": one.layout.separator},
        }
    cases.write(zarr.create_array(here, **options), one)


EXCHANGE = Exchange(UNSUPPORTED, VERSION, write, compare)
CASES: dict[str, list[Case]] = {
    **{f"2-{t.name}": cases.cases_v2(t) for t in cases.TYPES_2},
    **{f"3-{t.name}": cases.cases_v3(t) for t in cases.TYPES_3},
    "2-fill": cases.fill_cases(2),
    "3-fill": cases.fill_cases(3),
    "3-numcodecs": cases.numcodecs_v3(),
}


@pytest.mark.shows("V3-70", "ZEP-09")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("these", sample(CASES, 20))
def test_arrays_are_exchanged_bit_for_bit(tmp_path: Path, these: str, verb: Verb) -> None:
    assert EXCHANGE.wrong(tmp_path, CASES[these], verb) == []


@pytest.mark.parametrize("format", [2, 3])
def test_groups_and_their_members_are_exchanged(tmp_path: Path, format: int) -> None:
    ours = omnizarr.create_group(tmp_path / "o", zarr_format=format, attributes=ATTRIBUTES)
    ours.create_group("g").create_array("a", shape=3, dtype="i4")[...] = [1, 2, 3]
    found = zarr.open_group(tmp_path / "o", mode="r")
    assert dict(found.attrs) == ATTRIBUTES
    assert sorted(found.group_keys()) == ["g"]
    assert sorted(found["g"].array_keys()) == ["a"]
    assert found["g/a"][...].tolist() == [1, 2, 3]

    theirs = zarr.create_group(tmp_path / "t", zarr_format=format, attributes=ATTRIBUTES)
    theirs.create_group("g").create_array("a", shape=(3,), dtype="i4")[...] = [1, 2, 3]
    zarr.consolidate_metadata(tmp_path / "t")
    read = omnizarr.open(tmp_path / "t")
    assert dict(read.attrs) == ATTRIBUTES
    assert list(read) == ["g"]
    assert list(read["g"]) == ["a"]
    assert read["g/a"][...].tolist() == [1, 2, 3]


def test_every_row_of_the_table_matches_a_case() -> None:
    EXCHANGE.check_table([one for these in CASES.values() for one in these])


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("dtype", ["<M8[ns]", ">M8[D]", "<m8[s]", ">m8[10ms]"])
def test_missing_times_without_a_fill_value_are_nat(
    dtype: str, engine: str, tmp_path: Path
) -> None:
    """A13: zarr-python does not store chunks of NaT if fill_value is null."""
    data = np.array([1, 2, "NaT", "NaT", "NaT", "NaT", 7, "NaT"], dtype)
    there = zarr.create_array(
        tmp_path / "x", shape=8, chunks=2, dtype=dtype, fill_value=None, zarr_format=2
    )
    there[:] = data
    document = json.loads((tmp_path / "x" / ".zarray").read_text())
    document["fill_value"] = None
    (tmp_path / "x" / ".zarray").write_text(json.dumps(document))
    assert not (tmp_path / "x" / "1").exists()
    with omnizarr.configure(engine=engine):
        here = omnizarr.open(tmp_path / "x", mode="r+")
        np.testing.assert_array_equal(here[...], data)
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "x", mode="r")[...], data)
        here[1] = np.array(5, dtype)  # the rest of a chunk that is changed stays
        here[2] = np.array(6, dtype)
        assert np.isnat(here[3])
        omnizarr.convert(tmp_path / "x", tmp_path / "y", zarr_format=3)
        np.testing.assert_array_equal(omnizarr.open(tmp_path / "y")[...], here[...])
