"""Arrays are exchanged with zarr-python 2.18 bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnizarr
from tests.peers import cases
from tests.peers.cases import ATTRIBUTES, Case
from tests.peers.environments import ZarrPython2
from tests.peers.unsupported import Unsupported, Verb, reason_for

CASES = [*(one for type_ in cases.TYPES_2 for one in cases.cases_v2(type_)), *cases.fill_cases(2)]
VERSION = "2.18.7"
UNSUPPORTED = (
    Unsupported("reads", 2, "?c*/*", "an infinite imaginary part of the fill value gives NaN"),
    Unsupported("reads", 2, "bytes/*", "the fill value of byte strings stays Base64"),
    Unsupported("writes", 2, "bytes/*", "no fill value of byte strings"),
    Unsupported("writes", 2, "?f2/*", "a fill value -0.0 is written as 0.0"),
    Unsupported("writes", 2, "fill-minus-zero/*", "a fill value -0.0 is written as 0.0"),
    Unsupported("writes", 2, "halves/bitround/*-F-*", "F order is lost before bitround"),
)
READ = """
result = {}
for name, path in places.items():
    try:
        a = zarr.open_array(path, mode="r")
        result[name] = dict(
            shape=a.shape, dtype=a.dtype, attrs=a.attrs.asdict(), fill_value=a.fill_value,
            values=a[...],
        )
    except Exception as e:
        result[name] = f"{type(e).__name__}: {e}"
"""
WRITE = """
result = {}
for name, (path, options, attributes, parts) in places.items():
    try:
        for key in ("compressor", "object_codec"):
            if options.get(key) is not None:
                options[key] = numcodecs.get_codec(options[key])
        options["filters"] = [numcodecs.get_codec(f) for f in options["filters"]] or None
        a = zarr.create(store=zarr.DirectoryStore(path), **options)
        a.attrs.put(attributes)
        for region, values in parts:
            a[region] = values
        result[name] = None
    except Exception as e:
        result[name] = f"{type(e).__name__}: {e}"
"""


def plain(values: Any) -> Any:
    """Return text as objects, as zarr-python 2 has it."""
    text = getattr(values, "dtype", None) == cases.STRING
    return values.astype(object) if text else values


def order(one: Case) -> dict[str, Any]:
    """Return the options of a case for zarr-python 2."""
    found: dict[str, Any] = {
        "shape": one.layout.shape,
        "chunks": one.layout.chunks or (),
        "dtype": object if one.type.name in ("string", "bytes") else one.type.dtype,
        "fill_value": one.type.fill,
        "order": one.layout.order,
        "dimension_separator": one.layout.separator,
        "filters": [dict(f) for f in one.codecs.filters],
        "compressor": one.codecs.compressor,
    }
    if one.type.name in ("string", "bytes"):
        found["object_codec"] = {"id": "vlen-utf8" if one.type.name == "string" else "vlen-bytes"}
    return found


def read_there(peer: ZarrPython2, where: Path) -> dict[str, str]:
    """Return by case why zarr-python cannot read our arrays."""
    places = {one.name: str(where / one.name) for one in CASES}
    problems = {}
    for one in CASES:
        cases.write(cases.ours(places[one.name], one), one)
    for one, found in zip(CASES, peer.run(READ, places=places).values(), strict=True):
        if isinstance(found, str):
            problems[one.name] = found
            continue
        dtype = plain(one.expected).dtype
        expected, fill = plain(one.expected), cases.filled(one.type.fill, dtype)
        values = cases.filled(found["values"], dtype, found["shape"])
        problems[one.name] = (
            ("" if found["attrs"] == ATTRIBUTES else f"attributes {found['attrs']}")
            or ("" if cases.little(found["dtype"]) == cases.little(dtype) else str(found["dtype"]))
            or cases.same(values, expected)
            or cases.same(cases.filled(found["fill_value"], dtype), fill)
        )
    return problems


def written_there(peer: ZarrPython2, where: Path) -> dict[str, str]:
    """Return by case why we cannot read the arrays of zarr-python."""
    places = {
        one.name: (
            str(where / one.name),
            order(one),
            ATTRIBUTES,
            [(region, plain(one.data[region])) for region in one.rest()],
        )
        for one in CASES
    }
    problems = {}
    for one, error in zip(CASES, peer.run(WRITE, places=places).values(), strict=True):
        problems[one.name] = error or cases.compare(omnizarr.open(where / one.name), one)
    return problems


@pytest.mark.parametrize("verb", ["reads", "writes"])
def test_version_2_is_exchanged_bit_for_bit(
    tmp_path: Path, zarr_python_2: ZarrPython2, verb: Verb
) -> None:
    problems = {"reads": read_there, "writes": written_there}[verb](zarr_python_2, tmp_path)
    for one in CASES:
        reason = reason_for(UNSUPPORTED, VERSION, verb, one)
        if reason is not None:
            assert problems.pop(one.name), f"{one.name} works, although the table says: {reason}"
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_every_row_of_the_table_matches_a_case() -> None:
    for line in UNSUPPORTED:
        assert any(line.names(one) for one in CASES), line.pattern
