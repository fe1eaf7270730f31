"""The public names of zarr-python and their parameters, from the newest release.

It needs a newer Python than the oldest one that is supported here, so the names are committed.
``python -m tests.compatibility.names`` writes them from the installed zarr-python.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import zarr
import zarr.codecs
import zarr.errors
import zarr.storage

FILE = Path(__file__).with_name("names.json")


def listed() -> dict[str, Any]:
    """Return the committed names: the version, and the names and parameters of each part."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def installed() -> dict[str, Any]:
    """Return the names of the installed zarr-python in the same form."""
    holders: dict[str, tuple[Any, list[str]]] = {
        "zarr": (zarr, [n for n in zarr.__all__ if n != "__version__"]),
        "zarr.Array": (zarr.Array, public(zarr.Array)),
        "zarr.Group": (zarr.Group, public(zarr.Group)),
        "zarr.codecs": (zarr.codecs, list(zarr.codecs.__all__)),
        "zarr.storage": (zarr.storage, list(zarr.storage.__all__)),
        "zarr.errors": (zarr.errors, list(zarr.errors.__all__)),
    }
    parts = {
        part: {name: sorted(parameters(holder, name)) for name in sorted(names)}
        for part, (holder, names) in holders.items()
    }
    return {"version": zarr.__version__, "parts": parts}


def public(kind: type) -> list[str]:
    """Return the public names of a class, and the special methods that it defines."""
    special = ("__array__", "__getitem__", "__setitem__", "__iter__", "__len__", "__contains__")
    return [n for n in dir(kind) if not n.startswith("_") or (n in special and n in vars(kind))]


def parameters(holder: Any, name: str) -> set[str]:
    """Return the parameter names of a function or method; none for anything else."""
    found = (
        inspect.getattr_static(holder, name) if inspect.isclass(holder) else getattr(holder, name)
    )
    found = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
    if not inspect.isroutine(found) or name.startswith("__"):
        return set()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    several = inspect.signature(found).parameters.values()
    return {p.name for p in several if p.kind not in kinds and p.name not in ("self", "cls")}


def main() -> None:
    FILE.write_text(json.dumps(installed(), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
