"""Which format lies at a path, from one batch of look-ups."""

from __future__ import annotations

import re
from dataclasses import dataclass

from omnizarr._json import load_object
from omnizarr.concurrency.cache import cached
from omnizarr.errors import InvalidArgument, Problem, known_names
from omnizarr.formats.draft.documents import ENTRY, V3Draft
from omnizarr.formats.format import Documents, Format
from omnizarr.formats.metadata_cache import LARGEST
from omnizarr.formats.v1 import V1
from omnizarr.formats.v2 import V2
from omnizarr.formats.v3 import V3

_WORDS = re.compile(rb'"zarr_format"\s*:\s*"')
NAMES = ("1", "2", "3-draft", "3")
_V1, _V2, _V3 = V1(), V2(), V3()


def _is_draft(entry: bytes) -> bool:
    return V3Draft.is_entry(load_object(entry, ENTRY))


_is_draft_cached = cached(64)(_is_draft)


def by_name(name: object, separator: str = ".") -> Format:
    """A format by its name; ``2`` and ``"v2"`` do too.

    `separator` is that of chunk keys where a version 2 document does not state one.
    """
    text = str(name).lower().removeprefix("v")
    formats: dict[str, type[V1 | V2 | V3Draft | V3]] = {
        "1": V1,
        "2": V2,
        "3": V3,
        "3-draft": V3Draft,
        "3draft": V3Draft,
    }
    if text not in formats:
        raise InvalidArgument(f"unknown zarr_format {name!r}; {known_names(name, NAMES)}")
    kind = formats[text]
    return V2(separator) if kind is V2 else kind()


def is_metadata(key: str) -> bool:
    """Return True if a key is that of a metadata document in any format."""
    return any(by_name(name).is_metadata(key) for name in NAMES)


@cached(64)
def _all_keys(path: str) -> tuple[str, ...]:
    """The keys of a path in all formats."""
    keys = (key for some in _keys_in_order(path) for key in some)
    return tuple(dict.fromkeys(keys))


def _keys_in_order(path: str) -> tuple[tuple[str, ...], ...]:
    """The keys of a path, those of a preferred format first."""
    return (*_V3.keys(path), ENTRY), (*_V2.keys(path),), (*_V1.keys(path),)


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
        return [*_all_keys(self.path)]

    def keys_in_order(self) -> list[list[str]]:
        """The keys in groups: what one finds decides, whatever the groups after it hold."""
        if self.wanted is not None:
            return [self.keys()]
        return [[*dict.fromkeys(keys)] for keys in _keys_in_order(self.path)]

    def formats(self, documents: Documents, problems: list[Problem]) -> list[Format]:
        """The formats that may have a node here, the preferred one first."""
        found: list[Format] = []
        (own,) = _V3.keys(self.path)
        is_draft = ENTRY in documents and self._is_draft_entry(own in documents, documents[ENTRY])
        if own in documents and not (own == ENTRY and is_draft):
            found.append(_V3)
        if is_draft and self.wanted in (None, V3Draft.name):
            found.append(V3Draft.open(documents[ENTRY], problems))
        array, group, _ = _V2.keys(self.path)
        if array in documents or group in documents:
            found.append(V2(self.separator))
        if not self.path and "meta" in documents:
            found.append(_V1)
        if self.wanted is not None:
            return [f for f in found if f.name == self.wanted]
        if len(found) > 1:
            names = " and ".join(f"zarr {f.name}" for f in found)
            message = f"there are documents of {names}; zarr {found[0].name} is used"
            problems.append(Problem(own, "", message, "warning"))
        return found

    def _is_draft_entry(self, own: bool, entry: bytes) -> bool:
        # Most documents need no parsing to see that they are of the final version.
        if own and self.wanted != V3Draft.name and not _WORDS.search(entry):
            return False
        return (_is_draft_cached if len(entry) < LARGEST else _is_draft)(entry)
