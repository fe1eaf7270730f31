"""Stores with handwritten metadata of one small raw array."""

from __future__ import annotations

import json
from typing import Any

_FIELDS = {"shape": [4], "chunks": [2], "dtype": "<i4", "fill_value": 0, "order": "C"}


def _text(fields: dict[str, Any]) -> bytes:
    return json.dumps({k: value for k, value in fields.items() if value is not ...}).encode()


def v1_store(**changes: Any) -> dict[str, bytes]:
    """Return a store with the metadata of a small raw array, some fields changed or dropped."""
    raw = {"compression": "none", "compression_opts": None}
    return {"meta": _text({"zarr_format": 1, **_FIELDS, **raw, **changes}), "attrs": b"{}"}


def v2_store(**changes: Any) -> dict[str, bytes]:
    """Return a store with the metadata of a small raw array, some fields changed or dropped."""
    raw = {"compressor": None, "filters": None}
    return {".zarray": _text({"zarr_format": 2, **_FIELDS, **raw, **changes})}


STORES = {1: v1_store, 2: v2_store}
KEYS = {1: "meta", 2: ".zarray"}


def strict(store: dict[str, bytes], key: str = ".zarray") -> dict[str, Any]:
    """Return the array metadata, which must be strict JSON."""

    def bare(name: str) -> None:
        raise AssertionError(f"bare {name} in {key}")

    found: dict[str, Any] = json.loads(store[key], parse_constant=bare)
    return found
