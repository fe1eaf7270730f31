"""What a store holds, and values as JSON can hold them."""

# ruff: noqa: PLC0415 - zarr is whichever library the process runs on

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def tree(node: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the attributes, shapes, types and values of a node and of all below it."""
    yield f"{name} attributes", dict(node.attrs)
    if hasattr(node, "shape"):
        yield f"{name} layout", [node.shape, str(node.dtype), node.chunks, node.fill_value]
        yield f"{name} values", np.asarray(node[...])
        return
    for key in sorted(node.keys()):
        yield from tree(node[key], f"{name}/{key}")


def find_nodes(folder: Path) -> dict[str, Any]:
    """Return what `zarr` reads of the topmost nodes in a folder."""
    import zarr

    if any((folder / name).exists() for name in ("zarr.json", ".zgroup", ".zarray")):
        return dict(tree(zarr.open(str(folder), mode="r"), folder.name))
    found: dict[str, Any] = {}
    for below in sorted(path for path in folder.iterdir() if path.is_dir()):
        found.update(find_nodes(below))
    return found


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; large arrays by their type, shape and a hash."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.size <= 16 or array.dtype.hasobject or array.dtype.kind == "T":
            return [str(array.dtype), list(array.shape), [str(item) for item in array.flat]]
        data = np.ascontiguousarray(array).tobytes()
        return [str(array.dtype), list(array.shape), hashlib.sha256(data).hexdigest()]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    return value if isinstance(value, str | int | bool | None) else str(value)


def flatten(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of nested mappings with the names that lead to them."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from flatten(item, f"{name} {key}".strip())
    else:
        yield name, plain(value)
