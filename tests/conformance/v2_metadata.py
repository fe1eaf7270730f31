"""Version 2 metadata: the example of the specification, and that of new arrays."""

from __future__ import annotations

import json
from typing import Any

import omnizarr as oz

ZARRAY = """\
{
    "chunks": [
        10,
        10
    ],
    "compressor": {
        "id": "zlib",
        "level": 1
    },
    "dtype": "<i4",
    "fill_value": 42,
    "filters": null,
    "order": "C",
    "shape": [
        20,
        20
    ],
    "zarr_format": 2
}"""


def strict(store: dict[str, bytes]) -> dict[str, Any]:
    """Return the array metadata, which must be strict JSON."""

    def bare(name: str) -> None:
        raise AssertionError(f"bare {name} in .zarray")

    found: dict[str, Any] = json.loads(store[".zarray"], parse_constant=bare)
    return found


def created(**options: Any) -> dict[str, Any]:
    """Return the metadata of a new array."""
    store: dict[str, bytes] = {}
    oz.create_array(store, zarr_format=2, **{"shape": 4, "chunks": 2, **options})
    return strict(store)
