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
GZIP = {"type": "https://purl.org/zarr/spec/codecs/gzip/1.0", "configuration": {"level": 1}}
BIG = {
    "type": "https://purl.org/zarr/spec/codecs/endian/1.0",
    "configuration": {"endian": "big"},
}


def text(document: Any) -> bytes:
    """Return metadata as it is stored."""
    return json.dumps(document).encode()


def array(**changes: Any) -> dict[str, Any]:
    """Return the metadata of a 4×6 int32 array in chunks of 2×3, with some fields changed."""
    return {**ARRAY, **changes}


def regular(*lengths: int, separator: str = "/") -> dict[str, Any]:
    """Return a regular chunk grid."""
    return {"type": "regular", "chunk_shape": list(lengths), "separator": separator}


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return metadata without one name."""
    return {k: v for k, v in document.items() if k != name}


def hierarchy(documents: dict[str, Any] | None = None, **entry: Any) -> dict[str, bytes]:
    """Return a store with an entry point, some of its names changed, and metadata by key."""
    found = {"zarr.json": text({**ENTRY, **entry})}
    found.update({key: text(doc) for key, doc in (documents or {}).items()})
    return found


def with_array(**changes: Any) -> dict[str, bytes]:
    """Return a store with one array at ``/a``."""
    return hierarchy({"meta/a.array.json": array(**changes)})
