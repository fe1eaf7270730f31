"""Arrays are exchanged with tensorstore bit for bit."""

from __future__ import annotations

import base64
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorstore

from tests.peers import cases
from tests.peers.cases import ATTRIBUTES, Case, Type
from tests.peers.unsupported import VERBS, Exchange, Unsupported, Verb
from tests.sampling import sample

# Every byte of the item is stated, as tensorstore wants it.
FULL = Type("S5-full", np.dtype("S5"), b"abcde")
TYPES_2 = (*cases.TYPES_2, FULL)
TYPES_3 = (*cases.TYPES_3, *cases.SMALL)
MISSING = ("uint2", "uint4", "float6_e2m3fn", "float6_e3m2fn", "float8_e4m3")
FILTERS = [c.name for c in cases.FILTERS_V2]
SMALL = {t.dtype for t in cases.SMALL}
VERSION = version("tensorstore")
# Format, pattern of cases: why it can neither read nor write them.
_BOTH = (
    *((2, f"*/{name}/*", "no filters") for name in FILTERS),
    *((2, f"*/{name}/*", "no such compressor") for name in ("lzma", "lz4")),
    (2, "*/zstd-checksum/*", "no checksum in zstd"),
    *((2, f"{name}/*", "no times") for name in ("?M8*", "?m8*")),
    (2, "?U3/*", "no text"),
    (2, "struct-nested/*", "no nested structures"),
    *((2, f"{name}/*", "no items of variable length") for name in ("string", "bytes")),
    *((3, f"{name}/*", "no times") for name in ("<M8*", "<m8*")),
    *((3, f"{name}/*", "no text") for name in ("S5", "<U3")),
    *((3, f"{name}/*", "no items of variable length") for name in ("string", "bytes")),
    (3, "struct/*", "no text in structures"),
    *((3, f"{t.name}/*", "no such type") for t in cases.SMALL if t.name in MISSING),
)
UNSUPPORTED = (
    *(Unsupported(verb, *entry) for verb in VERBS for entry in _BOTH),
    Unsupported("reads", 2, "S5/*", "wants the fill value padded to the whole item"),
    Unsupported("reads", 2, "S5-full/*", "its bytes become NumPy strings of length 0"),
    Unsupported("reads", 2, "struct/*", "its bytes become NumPy strings of length 0"),
    Unsupported("reads", 2, "V3/*", "its bytes become NumPy items of length 0"),
    Unsupported("reads", 3, "V3/*", "wants the fill value of r<bits> in Base64, not as a list"),
    Unsupported("reads", 3, "float8_e8m0fnu/*", "reads the fill value 1.0 as 2^-64"),
)


def spelled(one: Case) -> Any:
    """Return the fill value as JSON."""
    type_ = one.type
    dtype, fill = type_.dtype, cases.filled(type_.fill, type_.dtype)

    def number(value: npt.NDArray[Any]) -> Any:
        word = {np.inf: "Infinity", -np.inf: "-Infinity"}.get(float(value[()]))
        if np.isnan(value):
            bits = value.view(f"<u{value.dtype.itemsize}")[()]
            usual = np.array(np.nan, value.dtype).tobytes() == value.tobytes()
            word = "NaN" if usual or one.format == 2 else f"0x{bits:x}"
        return word or float(value[()])

    if dtype.kind == "f":
        return number(cases.filled(fill, cases.little(dtype)))
    if dtype.kind == "c":
        parts = fill.astype(cases.little(dtype)).reshape(1).view(f"<f{dtype.itemsize // 2}")
        return [number(parts[i : i + 1].reshape(())) for i in range(2)]
    if dtype.kind in "mM":
        return int(fill.astype("i8")[()])
    if dtype.kind in "SV" and dtype not in SMALL:
        return base64.b64encode(fill.tobytes()).decode()
    return base64.b64encode(type_.fill).decode() if dtype.kind == "O" else type_.fill


def metadata(one: Case) -> dict[str, Any]:
    """Return the array metadata that tensorstore is to write."""
    layout = one.layout
    if one.format == 2:
        return {
            "zarr_format": 2,
            "shape": list(layout.shape),
            "chunks": list(layout.chunks),
            "dtype": to_type_string(one.type),
            "fill_value": spelled(one),
            "order": layout.order,
            "filters": list(one.codecs.filters) or None,
            "compressor": one.codecs.compressor,
            "dimension_separator": layout.separator,
        }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(layout.shape),
        "data_type": name_of(one.type),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(layout.chunks)}},
        "chunk_key_encoding": {
            "name": "default",
            "configuration": {"separator": layout.separator},
        },
        "fill_value": spelled(one),
        "codecs": [*one.before, one.serializer, *one.codecs.after],
        "attributes": ATTRIBUTES,
    }


def to_type_string(type_: Type) -> Any:
    """Return the type string of version 2."""
    if type_.dtype.names is not None:
        return [list(field) for field in type_.dtype.descr]
    return "|O" if type_.dtype.kind in "TO" else type_.dtype.str


def name_of(type_: Type) -> str:
    """Return the type's name in version 3."""
    if type_.own is not None:
        return type_.name
    return f"r{8 * type_.dtype.itemsize}" if type_.dtype.kind == "V" else type_.dtype.name


def spec(here: Path, one: Case, field: str | None = None) -> dict[str, Any]:
    """Return tensorstore's specification of an array."""
    driver = "zarr" if one.format == 2 else "zarr3"
    found = {"driver": driver, "kvstore": {"driver": "file", "path": f"{here}/"}}
    return found if field is None else {**found, "field": field}


def parts(one: Case, array: npt.NDArray[Any]) -> dict[str | None, npt.NDArray[Any]]:
    """Split an array as tensorstore does: by field, and bytes along their own axis."""
    if array.dtype.names is not None:
        fields = {name: array[name] for name in array.dtype.names}
        nested = {n: f.view(f"V{f.dtype.itemsize}") for n, f in fields.items() if f.dtype.names}
        return {n: parts(one, f)[None] for n, f in {**fields, **nested}.items()}
    if array.dtype.kind in "SV" and array.dtype not in SMALL:
        code = "S1" if array.dtype.kind == "S" else "V1"
        return {None: np.ascontiguousarray(array).reshape(*array.shape, 1).view(code)}
    return {None: array}


def compare(here: Path, one: Case) -> str:
    """Return why tensorstore does not read the case, or an empty string."""
    fills = parts(one, cases.filled(one.type.fill, one.type.dtype))
    for field, expected in parts(one, one.expected).items():
        array = tensorstore.open(spec(here, one, field), read=True, open=True).result()
        problem = cases.same(np.asarray(array.read().result()), expected)
        if problem:
            return problem
        fill = cases.filled(array.fill_value, expected.dtype, fills[field].shape)
        problem = cases.same(fill, fills[field])
        if problem:
            return f"fill value: {problem}"
    return ""


def write(here: Path, one: Case) -> None:
    """Create the array with tensorstore and write every chunk except the missing one."""
    for field, data in parts(one, one.data).items():
        where = {**spec(here, one, field), "metadata": metadata(one)}
        array = tensorstore.open(where, create=True, open=True).result()
        for region in one.rest():
            array[(*region, ...)].write(data[(*region, ...)]).result()


# Its driver for version 2 has no attributes.
EXCHANGE = Exchange(UNSUPPORTED, VERSION, write, compare, attributes=(3,))
CASES: dict[str, list[Case]] = {
    **{f"2-{t.name}": cases.cases_v2(t) for t in TYPES_2},
    **{f"3-{t.name}": cases.cases_v3(t) for t in TYPES_3},
    "2-fill": cases.fill_cases(2),
    "3-fill": cases.fill_cases(3),
}
ABORTS = [f"3-{t.name}" for t in cases.RAW]  # when it writes them


@pytest.mark.shows("V3-70", "ZEP-09")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("these", sample(CASES, 20))
def test_arrays_are_exchanged_bit_for_bit(tmp_path: Path, these: str, verb: Verb) -> None:
    if these in ABORTS and verb == "writes":
        pytest.skip("creating the array ends tensorstore's process")
    assert EXCHANGE.wrong(tmp_path, CASES[these], verb) == []


def test_every_row_of_the_table_matches_a_case() -> None:
    EXCHANGE.check_table([one for these in CASES.values() for one in these])
