"""Names of nodes: what the texts allow, and what real files have nevertheless."""

from __future__ import annotations

import unicodedata

from omnizarr.model import paths

RESERVED = (
    "names that start with '__' are reserved by zarr 3 for extensions (its section 'Node names'),"
    " so other readers may hide the node"
)


def name_problem(name: str) -> str | None:
    """Why version 3 forbids a node name, or None; see `reserved` for names that it keeps back."""
    if not name:
        return "is empty"
    if "/" in name:
        return "contains a slash"
    if not name.strip("."):
        return "consists of periods only"
    return "is the name of the metadata document" if name == "zarr.json" else None


def reserved(path: str) -> str | None:
    """The last name of a path, if it begins as names that version 3 keeps back, and why.

    Such nodes are real: xarray stores arrays without a name as
    ``__xarray_dataarray_variable__``.
    """
    name = paths.name(path)
    return f"has the name {name!r}; {RESERVED}" if name.startswith("__") else None


def advice(path: str) -> str | None:
    """Why a path that version 3 allows should better be another one."""
    for above in (*paths.ancestors(path), path):
        found = reserved(above)
        if found is not None:
            return found
    if "\\" in path:
        return "contains a backslash, which other readers take for a slash and Windows refuses"
    normal = unicodedata.normalize("NFKC", path)
    if path == normal:
        return None
    return f"is not in Unicode's form NFKC ({normal!r}); stores that normalize may lose it"
