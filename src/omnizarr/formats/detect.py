"""Detection of the format at a path, from one batch of look-ups, or of one metadata document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnizarr._json import load_object
from omnizarr.concurrency.cache import cached
from omnizarr.errors import InvalidArgument, Problem, known_names
from omnizarr.formats.draft import ENTRY, V3Draft
from omnizarr.formats.format import Documents, Format
from omnizarr.formats.v1 import V1
from omnizarr.formats.v2 import V2
from omnizarr.formats.v3 import V3

_FINAL_VERSION = re.compile(rb'\s*\{\s*"zarr_format"\s*:\s*3\s*[,}]')  # as nearly all begin
_DRAFT_VERSION = re.compile(rb'"zarr_format"\s*:\s*"')
_ARRAY = re.compile(rb'"node_type"\s*:\s*"array"')
_FINAL_ARRAY = re.compile(rb'\s*\{\s*"zarr_format"\s*:\s*3\s*,\s*' + _ARRAY.pattern)
NAMES = ("1", "2", "3-draft", "3")  # of the formats that are written
ROOT_KEYS = "zarr.json, .zarray, .zgroup or meta"  # of a node, in messages
N5_KEY = "attributes.json"  # of a node in N5, a format that is not read
_V1, _V2, _V3, _DRAFT = V1(), V2("."), V3(), V3Draft()
_ADDS = {_V2.keys("")[2], _V1.keys("")[1], ".zmetadata"}  # documents that make no node


def by_name(name: object, separator: str = ".") -> Format:
    """Return a format by its name, or ``2``; `separator` is the default of version 2."""
    text = str(name).lower().removeprefix("v").replace("3draft", V3Draft.name)
    if text == V2.name:
        return V2(separator)
    for kind in (V1, V3, V3Draft):
        if text == kind.name:
            return kind()
    raise InvalidArgument(f"unknown zarr_format {name!r}; {known_names(name, NAMES)}")


def is_metadata(key: str) -> bool:
    """Return True if a key names a metadata document in any format, N5 included."""
    if key.rpartition("/")[2] == N5_KEY:
        return True
    return any(format.is_metadata(key) for format in (_V3, _V2, _V1, _DRAFT))


def makes_node(key: str) -> bool:
    """Return True if a metadata document makes a node, and False if it only adds to one."""
    return key.rpartition("/")[2] not in _ADDS


def publication_order(key: str) -> tuple[int, bool, str]:
    """Return the sort key for publishing metadata: inner nodes first, what makes a node last."""
    return -key.count("/"), makes_node(key), key


def guess_format(metadata: Mapping[str, Any], data: bytes) -> tuple[Format, Documents] | None:
    """Return the format that a metadata document looks like, and its node's documents at the root.

    `metadata` decides, `data` is to be read. None for the draft's entry point, which is no node.
    """
    version = metadata.get("zarr_format")
    if isinstance(version, str) and "://" in version:
        return None
    if version == 1:
        return _V1, {"meta": data, "attrs": b"{}"}
    if version == 2:
        array, group, _ = _V2.keys("")
        return _V2, {array if "shape" in metadata or "dtype" in metadata else group: data}
    if "chunk_memory_layout" in metadata or "extensions" in metadata:
        draft = V3Draft()
        return draft, {draft.keys("")[0]: data}
    return _V3, {_V3.keys("")[0]: data}


def check_entry(data: bytes, problems: list[Problem]) -> None:
    """Raise, or record warnings, where the entry point of a draft hierarchy is not valid."""
    V3Draft.open(data, problems)


@cached(64)
def _all_keys(path: str) -> tuple[str, ...]:
    """Return the metadata keys of a path in all formats, the preferred format first."""
    return tuple(dict.fromkeys((*_V3.keys(path), ENTRY, *_V2.keys(path), *_V1.keys(path))))


def backslash_hint(path: str) -> str:
    """Return a hint for the message about a path without a node, if it has a backslash."""
    if "\\" not in path:
        return ""
    return "; a backslash is part of a name in zarr 3, write '/' between names"


def own_documents(
    path: str, get: Callable[[str], bytes | None], separator: str = "."
) -> tuple[Format, Documents] | None:
    """Return the format and documents of an array if its own documents suffice, else None.

    They are fetched one by one, for stores whose requests cost little; None if all keys of a
    `Probe` are to be looked at. Metadata of other formats, or of a group, at the path of an array
    have no effect, and are not looked for.
    """
    (own,) = _V3.keys(path)
    data = get(own)
    if data is not None:
        if _FINAL_ARRAY.match(data) or (_ARRAY.search(data) and not _DRAFT_VERSION.search(data)):
            return _V3, {own: data}
        return None
    entry = get(ENTRY) if path else None
    if entry is not None and not _FINAL_VERSION.match(entry):
        return None
    array, _, attributes = _V2.keys(path)
    data = get(array)
    if data is None:
        return None
    more = get(attributes)
    found = {array: data} if more is None else {array: data, attributes: more}
    return (_V2 if separator == "." else V2(separator)), found


@dataclass(frozen=True, slots=True)
class Probe:
    """The keys to fetch for a path, and the decision from the documents found."""

    path: str
    wanted: str | None = None  # a format's name, or None for any
    separator: str = "."  # in chunk keys, if version 2 metadata do not state one
    kind: str | None = None  # "array" or "group": keys that only the other has are left out

    def keys(self) -> list[str]:
        """Return all keys to fetch in one batch."""
        if self.wanted == V3Draft.name:
            return [ENTRY]  # it determines the other keys
        if self.wanted is not None:
            return self._of_kind(by_name(self.wanted).keys(self.path))
        return self._of_kind(_all_keys(self.path))

    def _of_kind(self, keys: Iterable[str]) -> list[str]:
        if self.kind is None:
            return [*keys]
        array, group, _ = _V2.keys(self.path)
        other = (group,) if self.kind == "array" else (array, *_V1.keys(self.path))
        return [key for key in keys if key not in other]

    def stages(self, likely: str | None = None, more: Iterable[str] = ()) -> list[list[str]]:
        """Return the keys in batches, to fetch one after the other until `is_decided`.

        `likely` is the format of a neighbour. It changes the order alone, never which node is
        found: the first batch always has all that takes precedence. `more` are keys of consolidated
        metadata, which may make those of the group unnecessary.
        """
        if self.wanted is not None or likely in (V1.name, V3Draft.name):
            return [[*self.keys(), *more]]
        (own,), older = _V3.keys(self.path), _V2.keys(self.path)
        first = [own] if likely == V3.name else [own, ENTRY]
        first += more or older if likely == V2.name else () if likely == V3.name else more
        asked: set[str] = set()
        found = []
        for keys in (first, [ENTRY, *more, *older], _all_keys(self.path)):
            found.append([key for key in self._of_kind(dict.fromkeys(keys)) if key not in asked])
            asked.update(keys)
        return [keys for keys in found if keys]

    def is_decided(self, documents: Documents) -> bool:
        """Return True if the batches so far decide which node is there; for the draft, none may."""
        (own,), (array, group, _) = _V3.keys(self.path), _V2.keys(self.path)
        if own in documents or array in documents or group in documents:
            return True
        return ENTRY in documents and self._is_draft_entry(False, documents[ENTRY])

    def formats(self, documents: Documents, problems: list[Problem]) -> list[Format]:
        """Return the formats that may have a node here, the preferred one first."""
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
            message = f"there are metadata of {names}; zarr {found[0].name} is used"
            problems.append(Problem(own, "", message, "warning"))
        return found

    def _is_draft_entry(self, own: bool, entry: bytes) -> bool:
        # Most metadata are recognised as those of the final version without parsing them.
        if _FINAL_VERSION.match(entry):
            return False
        if own and self.wanted != V3Draft.name and not _DRAFT_VERSION.search(entry):
            return False
        return isinstance(load_object(entry, ENTRY, allow_nan=True).get("zarr_format"), str)
