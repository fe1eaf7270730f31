"""Detection of the format at a path, from one batch of look-ups, or of one metadata document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnizarr._json import load_object
from omnizarr.concurrency.cache import cached
from omnizarr.errors import InvalidArgument, Problem, known_names
from omnizarr.formats.draft.metadata import ENTRY, V3Draft
from omnizarr.formats.format import LARGEST, Documents, Format
from omnizarr.formats.v1 import V1
from omnizarr.formats.v2 import V2
from omnizarr.formats.v3 import V3

_DRAFT_VERSION = re.compile(rb'"zarr_format"\s*:\s*"')
NAMES = ("1", "2", "3-draft", "3")
ROOT_KEYS = "zarr.json, .zarray, .zgroup or meta"  # of a node, in messages
_V1, _V2, _V3 = V1(), V2(), V3()


def _is_draft(entry: bytes) -> bool:
    return V3Draft.is_entry(load_object(entry, ENTRY))


_is_draft_cached = cached(64)(_is_draft)


def by_name(name: object, separator: str = ".") -> Format:
    """Return a format by its name; ``2`` and ``"v2"`` are accepted too.

    `separator` is that of chunk keys if version 2 metadata do not state one.
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


def makes_node(key: str) -> bool:
    """Return True if a metadata document makes a node, and False if it only adds to one."""
    name = key.rpartition("/")[2]
    return name not in (_V2.keys("")[2], _V1.keys("")[1], ".zmetadata")


def guess_format(metadata: Mapping[str, Any], data: bytes) -> tuple[Format, Documents] | None:
    """Return the format that a metadata document looks like, and its node's documents at the root.

    `metadata` decides, `data` are the bytes to read. None for the entry point of a hierarchy of the
    draft, which describes no node.
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


def unchecked_attributes(get: Callable[[str], bytes | None]) -> dict[str, Any] | None:
    """Return the attributes of the node whose documents `get` returns by name, or None.

    Nothing but the attributes is read, so that they are found in metadata that are not valid.
    """
    data = get(ENTRY)
    if data is not None:
        found = load_object(data, ENTRY).get("attributes", {})
        return found if isinstance(found, dict) else {}
    *_, key = _V2.keys("")
    data = get(key)
    return None if data is None else load_object(data, key)


@cached(64)
def _all_keys(path: str) -> tuple[str, ...]:
    """Return the metadata keys of a path in all formats."""
    keys = (key for some in _keys_in_order(path) for key in some)
    return tuple(dict.fromkeys(keys))


def _keys_in_order(path: str) -> tuple[tuple[str, ...], ...]:
    """Return the metadata keys of a path, those of a preferred format first."""
    return (*_V3.keys(path), ENTRY), (*_V2.keys(path),), (*_V1.keys(path),)


def backslash_hint(path: str) -> str:
    """Return a hint to add to a message about a path without a node; empty for most paths."""
    if "\\" not in path:
        return ""
    return "; a backslash is part of a name in zarr 3, write '/' between names"


@dataclass(frozen=True, slots=True)
class Probe:
    """The keys to fetch for a path, and the decision by what was found."""

    path: str
    wanted: str | None = None  # a format's name, or None for any
    separator: str = "."  # in chunk keys, if version 2 metadata do not state one

    def keys(self) -> list[str]:
        """Return all keys to fetch in one batch."""
        if self.wanted == V3Draft.name:
            return [ENTRY]  # it determines the other keys
        if self.wanted is not None:
            return list(by_name(self.wanted).keys(self.path))
        return [*_all_keys(self.path)]

    def keys_in_order(self) -> list[list[str]]:
        """Return the keys in groups; the first group that exists decides."""
        if self.wanted is not None:
            return [self.keys()]
        return [[*dict.fromkeys(keys)] for keys in _keys_in_order(self.path)]

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
        if own and self.wanted != V3Draft.name and not _DRAFT_VERSION.search(entry):
            return False
        return (_is_draft_cached if len(entry) < LARGEST else _is_draft)(entry)
