"""The public register of extensions, and the table in docs/formats.md of what is supported of it.

The names are those of https://github.com/zarr-developers/zarr-extensions on `DATE`. The table says
what this library does with an array of each name. After a change, run
``python -m tests.conformance.register`` from the top of the project to rewrite the table.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import omnizarr as oz
from omnizarr import registry
from omnizarr.data_types.cast import is_complex_pair
from tests.plain_install import run_plain

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
DATE = "14 July 2026"
_LISTED: dict[registry.Kind, str] = {
    "codec": """bitround blosc bytes cast_value conditional crc32c gzip packbits reshape
        scale_offset sharding_indexed transpose vlen-bytes vlen-utf8 zfp zstd""",
    "data_type": """bfloat16 bool bytes complex128 complex64 complex_bfloat16 complex_float16
        complex_float32 complex_float4_e2m1fn complex_float64 complex_float6_e2m3fn
        complex_float6_e3m2fn complex_float8_e3m4 complex_float8_e4m3 complex_float8_e4m3b11fnuz
        complex_float8_e4m3fnuz complex_float8_e5m2 complex_float8_e5m2fnuz complex_float8_e8m0fnu
        fixed_length_utf32 float16 float32 float4_e2m1fn float64 float6_e2m3fn float6_e3m2fn
        float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
        float8_e8m0fnu int16 int2 int32 int4 int64 int8 numpy.datetime64 numpy.timedelta64 r string
        struct structured uint16 uint2 uint32 uint4 uint64 uint8""",
    "chunk_grid": "rectilinear regular",
    "chunk_key_encoding": "default v2",
    "storage_transformer": "",
}
NAMES = {kind: tuple(names.split()) for kind, names in _LISTED.items()}

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1}}
_LZ4 = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
# The list of codecs for a codec that needs more than its name after `bytes`.
CODECS: dict[str, list[Any]] = {
    "bitround": [{"name": "bitround", "configuration": {"keepbits": 3}}, LITTLE],
    "blosc": [LITTLE, {"name": "blosc", "configuration": _LZ4}],
    "bytes": [LITTLE],
    "cast_value": [{"name": "cast_value", "configuration": {"data_type": "uint8"}}, "bytes"],
    "conditional": [LITTLE, {"name": "conditional", "configuration": {"codecs": [ZSTD]}}],
    "gzip": [LITTLE, {"name": "gzip", "configuration": {"level": 1}}],
    "packbits": ["packbits"],
    "reshape": [{"name": "reshape", "configuration": {"shape": [2, 2]}}, LITTLE],
    "scale_offset": [{"name": "scale_offset", "configuration": {"offset": -1}}, LITTLE],
    "sharding_indexed": [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [2],
                "codecs": [LITTLE],
                "index_codecs": [LITTLE, "crc32c"],
            },
        }
    ],
    "transpose": [{"name": "transpose", "configuration": {"order": [0]}}, LITTLE],
    "vlen-bytes": ["vlen-bytes"],
    "vlen-utf8": ["vlen-utf8"],
    "zfp": [{"name": "zfp", "configuration": {"mode": "reversible"}}],
    "zstd": [LITTLE, ZSTD],
}
SECONDS = {"unit": "s", "scale_factor": 1}
# Data types that need a configuration.
TYPES: dict[str, Any] = {
    "fixed_length_utf32": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}},
    "numpy.datetime64": {"name": "numpy.datetime64", "configuration": SECONDS},
    "numpy.timedelta64": {"name": "numpy.timedelta64", "configuration": SECONDS},
    "r": "r16",
    "struct": {
        "name": "struct",
        "configuration": {"fields": [{"name": "x", "data_type": "int16"}]},
    },
    "structured": {"name": "structured", "configuration": {"fields": [["x", "int16"]]}},
}
# The data types and fill values of codecs that do not take integers.
TYPES_OF_CODECS: dict[str, tuple[str, Any]] = {
    "bitround": ("float32", 0.0),
    "vlen-bytes": ("bytes", ""),
    "vlen-utf8": ("string", ""),
    "zfp": ("float32", 0.0),
}
GRIDS: dict[str, Any] = {
    "regular": {"chunk_shape": [2]},
    "rectilinear": {"kind": "inline", "chunk_shapes": [[1, 3]]},
}


def document(kind: registry.Kind, name: str) -> dict[str, Any]:
    """Return the metadata of an array of four items that uses a name."""
    doc: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [LITTLE],
    }
    if kind == "codec":
        doc["codecs"] = CODECS.get(name, [LITTLE, name])
        doc["data_type"], doc["fill_value"] = TYPES_OF_CODECS.get(name, ("int32", 0))
    elif kind == "chunk_grid":
        doc["chunk_grid"] = {"name": name, "configuration": GRIDS[name]}
    elif kind == "chunk_key_encoding":
        doc["chunk_key_encoding"] = {"name": name}
    else:
        new: dict[str, bytes] = {}
        oz.create_array(new, shape=4, dtype=TYPES.get(name, name))
        stored = json.loads(new["zarr.json"])
        doc |= {k: stored[k] for k in ("fill_value", "codecs")}
        doc["data_type"] = TYPES.get(name, name)
    return doc


def some_values(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return four different items of a type, as far as it has so many."""
    if dtype.kind == "T" or dtype.kind == "U":
        return np.array(["", "a", "b", "ä"], dtype)
    if dtype.kind == "O":
        return np.array([b"", b"a", b"b", b"cd"], dtype)
    if dtype.names is not None and not is_complex_pair(dtype):
        return np.array([(n,) for n in range(4)], dtype)
    if dtype.type is np.void and dtype.names is None:
        return np.frombuffer(bytes(range(4 * dtype.itemsize)), dtype)
    numbers = np.array([0, 1, 0, 1] if dtype.name in ("int2", "uint2", "bool") else [1, 2, 1, 4])
    if is_complex_pair(dtype):
        return np.array([(n, 1) for n in numbers], dtype)
    return numbers.astype(dtype)


def stored_array(kind: registry.Kind, name: str) -> tuple[dict[str, bytes], str]:
    """Return an array that was written and read with a name, and what can be done with such."""
    if registry.find(kind, "raw_bytes" if (kind, name) == ("data_type", "r") else name) is None:
        return {}, "no"
    store = {"zarr.json": json.dumps(document(kind, name)).encode()}
    array = oz.open(store, mode="r+")
    values = some_values(array.dtype)
    try:
        array[...] = values
    except oz.MissingPackage:  # which the table names, as where all of them are installed
        return store, "read, write"
    assert len(store) > 1, "nothing was stored"
    assert oz.open(store)[...].tolist() == values.tolist()
    if kind == "data_type":
        new: dict[str, bytes] = {}
        oz.create_array(new, shape=4, dtype=TYPES.get(name, name))
        stated = json.loads(new["zarr.json"])["data_type"]
        written = stated if isinstance(stated, str) else stated["name"]
        wanted = TYPES[name] if name == "r" else name
        return store, "read, write" if written == wanted else f"read; new arrays get `{written}`"
    return store, "read, write"


_READ_ALL = """
import base64, json, re, omnizarr
found = {}
for name, store in json.loads(%r).items():
    try:
        omnizarr.open({k: base64.b64decode(v) for k, v in store.items()})[...]
    except omnizarr.MissingPackage as e:
        found[name] = re.search(r"omnizarr\\[(\\w+)\\]|$", str(e))[1] or str(e)
print(json.dumps(found))
"""


def extras(stores: dict[str, dict[str, bytes]]) -> dict[str, str]:
    """Return the extra that each array needs to be read, asked where no extra is installed."""
    plain = {
        name: {key: base64.b64encode(value).decode() for key, value in store.items()}
        for name, store in stores.items()
    }
    done = run_plain(_READ_ALL % json.dumps(plain))
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def table() -> str:
    """Return the table: the names of each kind, by what can be done and what they need."""
    stores, uses = {}, {}
    for kind, names in NAMES.items():
        for name in names:
            stores[f"{kind} {name}"], uses[kind, name] = stored_array(kind, name)
    needed = extras({name: store for name, store in stores.items() if store})
    rows: dict[tuple[str, str, str], list[str]] = {}
    for (kind, name), use in uses.items():
        extra = needed.get(f"{kind} {name}", "")
        shown = "r<bits>" if (kind, name) == ("data_type", "r") else name
        rows.setdefault((kind, use, extra), []).append(f"`{shown}`")
    lines = ["| kind | names | use | extra |", "| --- | --- | --- | --- |"]
    for (kind, use, extra), shown_names in rows.items():
        words = kind.replace("_", " ")
        package = f"`{extra}`" if extra else ""
        lines.append(f"| {words} | {', '.join(shown_names)} | {use} | {package} |")
    lines += [
        f"| {kind.replace('_', ' ')} | none is registered | | |"
        for kind, names in NAMES.items()
        if not names
    ]
    return "\n".join(lines) + "\n"


_BETWEEN = re.compile(r"(?<=<!-- register -->\n).*?(?=<!-- end of register -->)", re.DOTALL)


def shown_table() -> str:
    """Return the table as the page has it."""
    found = _BETWEEN.search(PAGE.read_text())
    return "" if found is None else found[0]


if __name__ == "__main__":
    made = table()
    PAGE.write_text(_BETWEEN.sub(lambda _: made, PAGE.read_text()))
