"""Arrays are exchanged with zarr-python 3 bit for bit."""

from __future__ import annotations

import json
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from packaging.version import Version
from zarr.core.dtype import VariableLengthBytes

import omnizarr
from tests.peers import cases
from tests.peers.cases import ATTRIBUTES, Case, Type
from tests.peers.unsupported import Unsupported, Verb, reason_for

pytestmark = pytest.mark.filterwarnings("ignore")

TYPES_2 = (
    *cases.NUMERIC,
    *cases.TIMES,
    *cases.TEXT,
    *cases.RAW,
    *cases.STRUCTS,
    *cases.BIG_STRUCTS,
    *cases.NESTED_STRUCTS,
    *cases.VARIABLE,
    cases.HALVES,
)
TYPES_3 = (
    *(t for t in cases.NUMERIC if t.name[0] != ">"),
    *(t for t in cases.TIMES if t.name[0] != ">"),
    *cases.TEXT[:2],
    *cases.RAW,
    *cases.STRUCTS,
    *cases.VARIABLE,
)
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


def theirs(where: Path, one: Case) -> Any:
    """Create the empty array of a case with zarr-python."""
    options: dict[str, Any] = {
        "name": one.name,
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
    return zarr.create_array(where, **options)


def problem_of(where: Path, one: Case, verb: Verb) -> str:
    """Return why one library cannot read what the other wrote."""
    here = where / one.name
    if verb == "reads":
        cases.write(cases.ours(here, one), one)
        return problem_of_theirs(here, one)
    try:
        cases.write(theirs(where, one), one)
    except Exception as e:  # whatever the peer raises
        return f"{type(e).__name__}: {e}"
    return cases.compare(omnizarr.open(here), one)


def problem_of_theirs(here: Path, one: Case) -> str:
    """Return why zarr-python cannot read an array."""
    try:
        return cases.compare(zarr.open_array(here, mode="r", zarr_format=one.format), one)
    except Exception as e:  # whatever the peer raises
        return f"{type(e).__name__}: {e}"


def exchange(where: Path, these: list[Case], verb: Verb) -> list[str]:
    """Return the unexpected failures and successes of the cases."""
    wrong = []
    for one in these:
        reason = reason_for(UNSUPPORTED, VERSION, verb, one)
        problem = problem_of(where, one, verb)
        if problem and reason is None:
            wrong.append(f"{one.name}: {problem[:300]}")
        elif reason is not None and not problem:
            wrong.append(f"{one.name}: works now, although the table says: {reason}")
        elif reason is not None and not problem_of_theirs(where / one.name, one):
            wrong.append(f"{one.name}: zarr-python reads what it wrote, so the fault is ours")
    return wrong


@pytest.mark.parametrize("verb", ["reads", "writes"])
@pytest.mark.parametrize("type_", TYPES_2, ids=lambda t: t.name)
def test_version_2_is_exchanged_bit_for_bit(tmp_path: Path, type_: Type, verb: Verb) -> None:
    assert exchange(tmp_path, cases.cases_v2(type_), verb) == []


@pytest.mark.parametrize("verb", ["reads", "writes"])
@pytest.mark.parametrize("type_", TYPES_3, ids=lambda t: t.name)
def test_version_3_is_exchanged_bit_for_bit(tmp_path: Path, type_: Type, verb: Verb) -> None:
    assert exchange(tmp_path, cases.cases_v3(type_), verb) == []


@pytest.mark.parametrize("verb", ["reads", "writes"])
@pytest.mark.parametrize("format", [2, 3])
def test_fill_values_are_exchanged_bit_for_bit(tmp_path: Path, format: int, verb: Verb) -> None:
    assert exchange(tmp_path, cases.fill_cases(format), verb) == []


@pytest.mark.parametrize("verb", ["reads", "writes"])
def test_numcodecs_with_version_3_names_are_exchanged(tmp_path: Path, verb: Verb) -> None:
    assert exchange(tmp_path, cases.numcodecs_v3(), verb) == []


OBJECTS: dict[str, tuple[Any, list[Any]]] = {
    "json2": (numcodecs.JSON(), [{"a": 1}, None, [1, "é"], 2.5, "x", True]),
    "msgpack2": (numcodecs.MsgPack(), [{"a": 1}, None, [1, "é"], 2.5, "x", True]),
    "vlen-array": (
        numcodecs.VLenArray("<i4"),
        [np.array(v, "<i4") for v in ([1], [], [2, 3], [4], [5, 6, 7], [8])],
    ),
}


@pytest.mark.parametrize("layout", [((6,), (4,)), ((2, 3), (2, 3)), ((3, 2), (2, 2))])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("codec", OBJECTS)
def test_object_codecs_that_zarr_python_refuses_are_read_back(
    tmp_path: Path, codec: str, order: str, layout: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    shape, chunks = layout
    object_codec, items = OBJECTS[codec]
    data = np.empty(6, object)
    data[:] = items
    data = data.reshape(shape)
    array = omnizarr.create_array(
        tmp_path,
        shape=shape,
        chunks=chunks,
        dtype=object,
        filters=[object_codec],
        order=order,
        fill_value=None,
        zarr_format=2,
    )
    array[...] = data
    with pytest.raises(ValueError, match="No Zarr data type found"):
        zarr.open_array(tmp_path, mode="r", zarr_format=2)
    found = omnizarr.open(tmp_path)[...]
    assert found.shape == shape
    for index in np.ndindex(shape):
        assert type(found[index]) is type(data[index])
        assert np.array_equal(found[index], data[index])


def test_categorised_text_that_zarr_python_refuses_is_read_back(tmp_path: Path) -> None:
    labels = np.array(["b", "a", "", "b", "a"], object)
    filters = [numcodecs.Categorize(labels=["a", "b"], dtype=object)]
    options: dict[str, Any] = {"shape": 5, "chunks": 2, "dtype": object, "fill_value": None}
    omnizarr.create_array(tmp_path, zarr_format=2, filters=filters, **options)[...] = labels
    with pytest.raises(ValueError, match="No Zarr data type found"):
        zarr.open_array(tmp_path, mode="r", zarr_format=2)
    assert omnizarr.open(tmp_path)[...].tolist() == labels.tolist()


@pytest.mark.parametrize(
    ("changes", "expected", "until"),
    [
        ({"dtype": "|S2", "fill_value": 0}, [b"", b""], None),
        ({"dtype": "<U2", "fill_value": 0}, ["", ""], None),
        ({"dtype": "<u1", "fill_value": 7}, [7, 7], "3.4.1"),
        ({"dtype": [["p", [["x", "<f4"]]]], "fill_value": 0}, [((0.0,),)] * 2, None),
    ],
    ids=["S with 0", "U with 0", "<u1", "nested"],
)
def test_old_metadata_that_zarr_python_refuses_is_read(
    tmp_path: Path, changes: dict[str, Any], expected: list[Any], until: str | None
) -> None:
    document = {"zarr_format": 2, "shape": [2], "chunks": [2], "order": "C"}
    document |= {"compressor": None, "filters": None, **changes}
    (tmp_path / ".zarray").write_text(json.dumps(document))
    refused = until is None or Version(VERSION) < Version(until)
    with pytest.raises((ValueError, TypeError)) if refused else nullcontext():
        found = zarr.open_array(tmp_path, mode="r", zarr_format=2)[...]
        assert found.tolist() == expected
    assert omnizarr.open(tmp_path)[...].tolist() == expected


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
    every = [
        *(c for t in TYPES_2 for c in cases.cases_v2(t)),
        *(c for t in TYPES_3 for c in cases.cases_v3(t)),
        *cases.fill_cases(2),
        *cases.fill_cases(3),
        *cases.numcodecs_v3(),
    ]
    for line in UNSUPPORTED:
        assert any(line.names(one) for one in every), line.pattern


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
