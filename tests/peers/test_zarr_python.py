"""Exchange with zarr-python 3: what either writes, the other reads bit for bit."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.core.dtype import VariableLengthBytes

import omnizarr
from tests.peers import cases
from tests.peers.cases import ATTRIBUTES, Case, Type

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
# Reads what omnizarr wrote or writes for omnizarr, version, pattern of cases: why it cannot.
UNSUPPORTED = (
    ("reads", 2, "struct-nested/*", "no nested structures"),
    ("reads", 2, "struct-subarray/*", "no sub-array fields"),
    ("writes", 2, "struct-subarray/*", "sub-array fields become opaque bytes"),
    ("writes", 2, "halves/bitround/*-F-*", "F order is lost before bitround"),
    ("reads", 3, "V3/*", "r<bits> is not known; it writes raw_bytes"),
    ("reads", 3, "struct/*", "struct is not known; it writes structured"),
    ("writes", 3, "string/*-F-*", "transpose is undone before vlen-utf8"),
    ("writes", 3, "bytes/*-F-*", "transpose is undone before vlen-bytes"),
    ("writes", 3, "fill-nan-payload/*", "every NaN is written as NaN"),
    ("writes", 3, "fill-minus-nan/*", "every NaN is written as NaN"),
    ("reads", 3, "*/numcodecs.bitround/*", "the registered name bitround is not known"),
    ("writes", 3, "*/numcodecs.delta/*-F-*", "transpose is undone before delta"),
    ("writes", 3, "*/numcodecs.fixedscaleoffset/*-F-*", "transpose is undone before it"),
    ("writes", 3, "*/numcodecs.packbits/*-F-*", "transpose is undone before packbits"),
)


def reason_for(verb: str, one: Case) -> str | None:
    """Why zarr-python cannot do a case, or None."""
    for entry_verb, format, pattern, reason in UNSUPPORTED:
        if (entry_verb, format) == (verb, one.format) and fnmatchcase(one.name, pattern):
            return reason
    return None


def theirs(where: Path, one: Case) -> Any:
    """The case's array, empty, made by zarr-python."""
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


def problem_of(where: Path, one: Case, verb: str) -> str:
    """Why one cannot read what the other wrote, or nothing."""
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
    """Why zarr-python cannot read an array, or nothing."""
    try:
        return cases.compare(zarr.open_array(here, mode="r", zarr_format=one.format), one)
    except Exception as e:  # whatever the peer raises
        return f"{type(e).__name__}: {e}"


def exchange(where: Path, these: list[Case], verb: str) -> list[str]:
    """What went wrong with each of the cases, and what unexpectedly did not."""
    wrong = []
    for one in these:
        reason, problem = reason_for(verb, one), problem_of(where, one, verb)
        if problem and reason is None:
            wrong.append(f"{one.name}: {problem[:300]}")
        elif reason is not None and not problem:
            wrong.append(f"{one.name}: works now, although the table says: {reason}")
        elif reason is not None and not problem_of_theirs(where / one.name, one):
            wrong.append(f"{one.name}: zarr-python reads what it wrote, so the fault is ours")
    return wrong


@pytest.mark.parametrize("verb", ["reads", "writes"])
@pytest.mark.parametrize("type_", TYPES_2, ids=lambda t: t.name)
def test_version_2_is_exchanged_bit_for_bit(tmp_path: Path, type_: Type, verb: str) -> None:
    assert exchange(tmp_path, cases.cases_v2(type_), verb) == []


@pytest.mark.parametrize("verb", ["reads", "writes"])
@pytest.mark.parametrize("type_", TYPES_3, ids=lambda t: t.name)
def test_version_3_is_exchanged_bit_for_bit(tmp_path: Path, type_: Type, verb: str) -> None:
    assert exchange(tmp_path, cases.cases_v3(type_), verb) == []


@pytest.mark.parametrize("verb", ["reads", "writes"])
@pytest.mark.parametrize("format", [2, 3])
def test_fill_values_are_exchanged_bit_for_bit(tmp_path: Path, format: int, verb: str) -> None:
    assert exchange(tmp_path, cases.fill_cases(format), verb) == []


@pytest.mark.parametrize("verb", ["reads", "writes"])
def test_numcodecs_under_their_version_3_names_are_exchanged(tmp_path: Path, verb: str) -> None:
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
def test_object_codecs_that_zarr_python_refuses_are_read_back_here(
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
        object_codec=object_codec,
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


def test_categorised_text_that_zarr_python_refuses_is_read_back_here(tmp_path: Path) -> None:
    labels = np.array(["b", "a", "", "b", "a"], object)
    filters = [numcodecs.Categorize(labels=["a", "b"], dtype=object)]
    options: dict[str, Any] = {"shape": 5, "chunks": 2, "dtype": object, "fill_value": None}
    omnizarr.create_array(tmp_path, zarr_format=2, filters=filters, **options)[...] = labels
    with pytest.raises(ValueError, match="No Zarr data type found"):
        zarr.open_array(tmp_path, mode="r", zarr_format=2)
    assert omnizarr.open(tmp_path)[...].tolist() == labels.tolist()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dtype": "|S2", "fill_value": 0}, [b"", b""]),
        ({"dtype": "<U2", "fill_value": 0}, ["", ""]),
        ({"dtype": "<u1", "fill_value": 7}, [7, 7]),
        ({"dtype": [["p", [["x", "<f4"]]]], "fill_value": 0}, [((0.0,),)] * 2),
    ],
    ids=["S with 0", "U with 0", "<u1", "nested"],
)
def test_documents_of_old_writers_that_zarr_python_refuses_are_read(
    tmp_path: Path, changes: dict[str, Any], expected: list[Any]
) -> None:
    document = {"zarr_format": 2, "shape": [2], "chunks": [2], "order": "C"}
    document |= {"compressor": None, "filters": None, **changes}
    (tmp_path / ".zarray").write_text(json.dumps(document))
    with pytest.raises((ValueError, TypeError)):
        zarr.open_array(tmp_path, mode="r", zarr_format=2)[...]
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
    read = omnizarr.open_group(tmp_path / "t")
    assert dict(read.attrs) == ATTRIBUTES
    assert list(read) == ["g"]
    assert list(read["g"]) == ["a"]
    assert read["g/a"][...].tolist() == [1, 2, 3]


def test_every_line_of_the_table_is_about_some_case() -> None:
    every = [
        *(c for t in TYPES_2 for c in cases.cases_v2(t)),
        *(c for t in TYPES_3 for c in cases.cases_v3(t)),
        *cases.fill_cases(2),
        *cases.fill_cases(3),
        *cases.numcodecs_v3(),
    ]
    for _, format, pattern, _ in UNSUPPORTED:
        assert any(c.format == format and fnmatchcase(c.name, pattern) for c in every), pattern
