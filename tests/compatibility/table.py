"""The table of docs/zarr-python.md, from the installed zarr-python and omnizarr.

``python -m tests.compatibility.table`` writes it. A name or parameter that we lack needs a
reason in `reasons.py`; so does one that means something else here.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr
import zarr.codecs
import zarr.errors
import zarr.storage

import omnizarr
import omnizarr.storage
from tests.compatibility import reasons

PAGE = Path(__file__).parents[2] / "docs" / "zarr-python.md"
VERSION = "3.1.6"  # of zarr-python, that the page is about
START, END = "<!-- table -->\n", "<!-- /table -->"

# Functions whose keywords go on to `create_array`, so that its parameters are theirs.
FORWARDING = {"save_array", "open_consolidated"}


@dataclass(frozen=True)
class Row:
    """One name of zarr-python, and its status in omnizarr."""

    part: str
    name: str
    status: str
    note: str

    def __str__(self) -> str:
        return f"| `{self.name}` | {self.status} | {self.note} |"


def parts() -> dict[str, tuple[Any, Any, list[str]]]:
    """Return zarr-python's and omnizarr's objects and the public names of each part."""
    return {
        "zarr": (zarr, omnizarr, [n for n in zarr.__all__ if n != "__version__"]),
        "zarr.Array": (zarr.Array, omnizarr.Array, public(zarr.Array)),
        "zarr.Group": (zarr.Group, omnizarr.Group, public(zarr.Group)),
        "zarr.codecs": (zarr.codecs, omnizarr.codecs, list(zarr.codecs.__all__)),
        "zarr.storage": (zarr.storage, omnizarr.storage, list(zarr.storage.__all__)),
        "zarr.errors": (zarr.errors, omnizarr.errors, list(zarr.errors.__all__)),
        "zarr 2.18": (None, omnizarr, reasons.OLD),
        "zarr.Array 2.18": (None, omnizarr.Array, reasons.OLD_ARRAY),
        "zarr.Group 2.18": (None, omnizarr.Group, reasons.OLD_GROUP),
    }


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


def accepted(holder: Any, name: str) -> set[str]:
    """Return the parameters that omnizarr accepts, including those it passes on."""
    own = parameters(holder, name)
    found = getattr(holder, name)
    if inspect.isroutine(found):
        keywords = [
            p for p in inspect.signature(found).parameters.values() if p.kind is p.VAR_KEYWORD
        ]
        if keywords and name in FORWARDING:
            own |= parameters(omnizarr, "create_array")
        if keywords and name in ("open_group", "group"):
            own |= {"cache_attrs", "synchronizer", "chunk_store", "meta_array"}
    return own


def rows() -> Iterator[Row]:
    """Yield all rows; raise if a row needs a reason, or a reason is obsolete."""
    for part, (theirs, ours, names) in parts().items():
        said = reasons.REASONS.get(part, {})
        obsolete = said.keys() - set(names)
        if obsolete:
            raise LookupError(f"{part} has no {sorted(obsolete)}; remove the reason")
        for name in sorted(names):
            yield _row(part, theirs, ours, name, said.get(name, ""))


def _row(part: str, theirs: Any, ours: Any, name: str, note: str) -> Row:
    if not hasattr(ours, name):
        if not note:
            raise LookupError(f"{part}.{name} is not offered; give a reason in reasons.py")
        return Row(part, name, "not offered", note)
    missing = set()
    if theirs is not None:
        missing = parameters(theirs, name) - accepted(ours, name)
    unsaid = {p for p in missing if f"`{p}`" not in note}
    if unsaid:
        raise LookupError(f"{part}.{name} lacks {sorted(unsaid)}; give a reason in reasons.py")
    return Row(part, name, "differs" if note else "same", note)


def text() -> str:
    """Return the tables, one for each part of the interface."""
    out: list[str] = []
    part = ""
    for row in rows():
        if row.part != part:
            part = row.part
            out += ["", f"### `{part}`", "", "| name | omnizarr | |", "| --- | --- | --- |"]
        out.append(str(row))
    return "\n".join(out).lstrip("\n") + "\n"


def main() -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}{text()}{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
