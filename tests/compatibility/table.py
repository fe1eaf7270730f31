"""The table of docs/generated/zarr-names.md, from the names of the newest zarr-python and omnizarr.

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

import omnizarr
import omnizarr.storage
from omnizarr import zarr
from tests.compatibility import names, reasons

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "zarr-names.md"
START, END = "<!-- table -->\n", "<!-- /table -->"


@dataclass(frozen=True)
class Row:
    """One name of zarr-python, and its status in omnizarr."""

    part: str
    name: str
    status: str
    note: str

    def __str__(self) -> str:
        return f"| `{self.name}` | {self.status} | {self.note} |"


def parts() -> dict[str, tuple[Any, dict[str, list[str]]]]:
    """Return omnizarr's object for each part, and zarr-python's names with their parameters."""
    theirs = names.listed()["parts"]
    return {
        "zarr": (zarr, theirs["zarr"]),
        "zarr.Array": (zarr.Array, theirs["zarr.Array"]),
        "zarr.Group": (zarr.Group, theirs["zarr.Group"]),
        "zarr.codecs": (omnizarr.codecs, theirs["zarr.codecs"]),
        "zarr.storage": (omnizarr.storage, theirs["zarr.storage"]),
        "zarr 2.18": (zarr, {name: [] for name in reasons.OLD}),
        "zarr.Array 2.18": (zarr.Array, {name: [] for name in reasons.OLD_ARRAY}),
        "zarr.Group 2.18": (zarr.Group, {name: [] for name in reasons.OLD_GROUP}),
    }


def accepted(holder: Any, name: str, taken: set[str]) -> set[str]:
    """Return the parameters that omnizarr accepts; keywords go on to zarr-python's functions."""
    own = names.parameters(holder, name)
    found = getattr(holder, name)
    if inspect.isroutine(found):
        several = inspect.signature(found).parameters.values()
        own |= taken if any(p.kind is p.VAR_KEYWORD for p in several) else set()
    return own


def rows() -> Iterator[Row]:
    """Yield all rows; raise if a row needs a reason, or a reason is obsolete."""
    for part, (ours, theirs) in parts().items():
        said = reasons.REASONS.get(part, {})
        obsolete = said.keys() - theirs.keys()
        if obsolete:
            raise LookupError(f"{part} has no {sorted(obsolete)}; remove the reason")
        for name in sorted(theirs):
            yield _row(part, set(theirs[name]), ours, name, said.get(name, ""))


def _row(part: str, taken: set[str], ours: Any, name: str, note: str) -> Row:
    if not hasattr(ours, name):
        if not note:
            raise LookupError(f"{part}.{name} is not offered; give a reason in reasons.py")
        return Row(part, name, "not offered", note)
    unsaid = {p for p in taken - accepted(ours, name, taken) if f"`{p}`" not in note}
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
