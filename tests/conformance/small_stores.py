"""Stores with handwritten metadata of one small raw array."""

from __future__ import annotations

import json
from typing import Any


def v1_store(**changes: Any) -> dict[str, bytes]:
    """Return a store with the metadata of a small raw array, some fields changed."""
    meta = {
        "zarr_format": 1,
        "shape": [4],
        "chunks": [2],
        "dtype": "<i4",
        "compression": "none",
        "compression_opts": None,
        "fill_value": 0,
        "order": "C",
        **changes,
    }
    return {"meta": json.dumps(meta).encode(), "attrs": b"{}"}


def v2_store(**changes: Any) -> dict[str, bytes]:
    """Return a store with the metadata of a small raw array, some fields changed."""
    doc = {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [2],
        "dtype": "<i4",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
        **changes,
    }
    return {".zarray": json.dumps(doc).encode()}
