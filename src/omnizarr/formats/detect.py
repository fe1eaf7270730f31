"""Which format lies at a path, from one batch of look-ups."""

from __future__ import annotations

import re
from dataclasses import dataclass

from omnizarr._json import load_object
from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.formats.format import Documents, Format
from omnizarr.formats.v1 import V1
from omnizarr.formats.v2 import V2
from omnizarr.formats.v3 import V3
from omnizarr.formats.v3_draft import ENTRY, V3Draft

_WORDS = re.compile(rb'"zarr_format"\s*:\s*"')
NAMES = ("1", "2", "3-draft", "3")


def by_name(name: object) -> Format:
    """A format by its name; ``2`` and ``"v2"`` do too."""
    text = str(name).lower().removeprefix("v")
    formats: dict[str, type[V1 | V2 | V3Draft | V3]] = {
        "1": V1,
        "2": V2,
        "3": V3,
        "3-draft": V3Draft,
        "3draft": V3Draft,
    }
    if text not in formats:
        raise InvalidMetadata(f"unknown zarr_format {name!r}; known: {', '.join(NAMES)}")
    return formats[text]()


@dataclass(frozen=True, slots=True)
class Probe:
    """What to look for at a path, and how to judge what was found."""

    path: str
    wanted: str | None = None  # a format's name, or None for any
    separator: str = "."  # in chunk keys, where a version 2 document does not state one

    def keys(self) -> list[str]:
        """All keys to fetch in one batch."""
        if self.wanted == V3Draft.name:
            return [ENTRY]  # it says where the documents are
        if self.wanted is not None:
            return list(by_name(self.wanted).keys(self.path))
        keys = [*V3().keys(self.path), ENTRY, *V2().keys(self.path), *V1().keys(self.path)]
        return list(dict.fromkeys(keys))

    def formats(self, documents: Documents, problems: list[Problem]) -> list[Format]:
        """The formats that may have a node here, the preferred one first."""
        found: list[Format] = []
        (own,) = V3().keys(self.path)
        if own in documents and not self._is_draft_entry(own, documents):
            found.append(V3())
        draft_wanted = self.wanted in (None, V3Draft.name)
        if draft_wanted and ENTRY in documents and self._is_draft_entry(ENTRY, documents):
            found.append(V3Draft.open(documents[ENTRY], problems))
        if any(key in documents for key in V2().keys(self.path)[:2]):
            found.append(V2(self.separator))
        if not self.path and "meta" in documents:
            found.append(V1())
        if self.wanted is not None:
            return [f for f in found if f.name == self.wanted]
        if len(found) > 1:
            names = " and ".join(f"zarr {f.name}" for f in found)
            message = f"there are documents of {names}; zarr {found[0].name} is used"
            problems.append(Problem(own, "", message, "warning"))
        return found

    def _is_draft_entry(self, key: str, documents: Documents) -> bool:
        # Most documents need no parsing to see that they are of the final version.
        if key != ENTRY:
            return False
        own = V3().keys(self.path)[0] in documents and self.wanted != V3Draft.name
        if own and not _WORDS.search(documents[key]):
            return False
        return V3Draft.is_entry(load_object(documents[key], key))
