"""Version 3 metadata written by hand, for tests of the reader."""

from __future__ import annotations

import json
from typing import Any

import omnizarr as oz

DROP: Any = ...


def array_doc(**changes: Any) -> dict[str, Any]:
    """Return valid metadata of 6 uint8 in chunks of 4, with some fields changed or dropped."""
    doc: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": {},
    }
    doc.update(changes)
    return {name: value for name, value in doc.items() if value is not DROP}


def group_doc(**changes: Any) -> dict[str, Any]:
    """Return valid metadata of a group, with some fields added or dropped."""
    doc = {"zarr_format": 3, "node_type": "group", **changes}
    return {name: value for name, value in doc.items() if value is not DROP}


def regular(*chunk_shape: int) -> dict[str, Any]:
    """Return a regular chunk grid."""
    return {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}}


def put(doc: Any, path: str = "", **chunks: bytes) -> dict[str, bytes]:
    """Return a store with metadata and one-dimensional chunks by number (``c0=…``)."""
    prefix = f"{path}/" if path else ""
    store = {f"{prefix}zarr.json": json.dumps(doc).encode()}
    store.update({f"{prefix}c/{name[1:]}": data for name, data in chunks.items()})
    return store


def stored(store: dict[str, bytes], path: str = "") -> dict[str, Any]:
    """Return the metadata of a node in a store."""
    doc: dict[str, Any] = json.loads(store[f"{path}/zarr.json" if path else "zarr.json"])
    return doc


def open_doc(**changes: Any) -> oz.Array:
    """Open the array of `array_doc`."""
    return oz.open(put(array_doc(**changes)))
