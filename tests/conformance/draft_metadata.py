"""Metadata of the version 3 draft, to be changed by tests."""

from __future__ import annotations

import json
from typing import Any

DRAFT = "3-draft"
ENTRY: dict[str, Any] = {
    "zarr_format": "https://purl.org/zarr/spec/core/3.0",
    "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"},
    "extensions": [],
}
ARRAY: dict[str, Any] = {
    "shape": [4, 6],
    "data_type": "int32",
    "chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "/"},
    "chunk_memory_layout": "C",
    "fill_value": 0,
    "extensions": [],
    "attributes": {},
}
URI = "https://purl.org/zarr/spec/{}/{}/1.0"


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    """Return a codec of the specification."""
    return {"type": URI.format("codecs", name), "configuration": configuration}


GZIP = codec("gzip", level=1)
BIG = codec("endian", endian="big")


def extension_type(name: str, type_: Any, **members: Any) -> dict[str, Any]:
    """Return a data type of an extension that accompanies the draft."""
    uri = URI.format("extensions/data-types", name)
    return {"extension": uri, "type": type_, **members}


def text(document: Any) -> bytes:
    """Return metadata as it is stored."""
    return json.dumps(document).encode()


def array(**changes: Any) -> dict[str, Any]:
    """Return the metadata of a 4×6 int32 array in chunks of 2×3, some fields changed or dropped."""
    return {k: value for k, value in {**ARRAY, **changes}.items() if value is not ...}


def regular(*lengths: int, separator: str = "/") -> dict[str, Any]:
    """Return a regular chunk grid."""
    return {"type": "regular", "chunk_shape": list(lengths), "separator": separator}


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return metadata without one name."""
    return {k: v for k, v in document.items() if k != name}


def hierarchy(documents: dict[str, Any] | None = None, **entry: Any) -> dict[str, bytes]:
    """Return a store with an entry point, some of its names changed, and metadata by key."""
    found = {"zarr.json": {k: v for k, v in {**ENTRY, **entry}.items() if v is not ...}}
    return {key: text(doc) for key, doc in {**found, **(documents or {})}.items()}


def with_array(**changes: Any) -> dict[str, bytes]:
    """Return a store with one array at ``/a``."""
    return hierarchy({"meta/a.array.json": array(**changes)})


def at_root(size: int | None = None, **changes: Any) -> dict[str, bytes]:
    """Return a store with one array at the root, of one chunk of that size if it is given."""
    if size is not None:
        changes = {"shape": [size], "chunk_grid": regular(size), **changes}
    return hierarchy({"meta/array.json": array(**changes)})
